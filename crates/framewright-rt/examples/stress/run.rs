//! From the first thread to the last check.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use crate::stage::{Checked, Did, Plan, Rng, Stage, Tally, lock};
use crate::{children, disturb, rest, watchdog, worker};

/// How long the driver sleeps between looks.
const LOOK: Duration = Duration::from_millis(5);

/// Stresses an arena, and reports on `out`.
///
/// # Errors
/// The first fault that was found.
pub(crate) fn run(plan: Plan, out: &mut dyn Write) -> Checked<Tally> {
    let stage = Arc::new(Stage::new(plan).map_err(|error| error.to_string())?);
    if let Some(why) = stage.arena.report().per_cpu_refused {
        tell(out, format_args!("CPUs do not follow the processors: {why}"));
    }
    let before = rest::free_blocks(&stage);
    if plan.forks {
        let child = children::at_rest(&stage)?;
        let work = if child == Did::Children { "work" } else { "are refused" };
        tell(out, format_args!("children of this arena {work}"));
    }
    (0..plan.threads).for_each(|index| worker::start_worker(&stage, index));
    worker::start(&stage, disturb::live);
    let driven = drive(&stage, out);
    stage.note(driven);
    stage.gate.open();
    let emptied = stage.gate.wait_empty(plan.patience);
    stage.note(emptied.map_err(|stuck| format!("{stuck} threads do not end")));
    if let Some(wrong) = stage.wrong() {
        return Err(wrong);
    }
    rest::look(&stage).map_err(|wrong| format!("at the end: {wrong}"))?;
    rest::free_all(&stage)?;
    let after = rest::look_empty(&stage)?;
    if before != after {
        return Err(format!("free blocks by zone and order were {before:?} and are {after:?}"));
    }
    Ok(stage.total())
}

fn tell(out: &mut dyn Write, line: std::fmt::Arguments<'_>) {
    // A failure to report is no reason to stop.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Watches until the plan is fulfilled, and has everybody rest now and then.
fn drive(stage: &Arc<Stage>, out: &mut dyn Write) -> Checked {
    let begin = Instant::now();
    let mut rng = Rng::new(stage.plan.seed ^ 0xd21e);
    let mut rested = 0;
    while !stage.is_over() {
        std::thread::sleep(LOOK);
        let (time, operations) = (begin.elapsed(), stage.total().get(Did::Operations));
        let is_done = time >= stage.plan.time || operations >= stage.plan.operations;
        if is_done || operations - rested >= stage.plan.rest {
            rested = operations;
            rest_a_while(stage, &mut rng)?;
            let total = stage.total();
            let in_use = stage.in_use.load(SeqCst) * 100 / stage.arena.frames().frames();
            let line = format_args!(
                "{:>4} s: {:>9} operations, {:>3} % in use, {:>5} threads, {:>4} children, {:>7} failed",
                time.as_secs(),
                total.get(Did::Operations),
                in_use,
                total.get(Did::Threads),
                total.get(Did::Children) + total.get(Did::Refused),
                total.get(Did::Failed),
            );
            tell(out, line);
        } else if stage.plan.forks && rng.one_in(100) {
            let mut tally = Tally::default();
            tally.did(children::while_others_run(stage, rng.below(64) as u64, None, false)?);
            stage.add(&mut tally);
        }
        if is_done {
            stage.over.store(true, SeqCst);
        }
    }
    Ok(())
}

/// Everybody rests, and everything is checked.
fn rest_a_while(stage: &Arc<Stage>, rng: &mut Rng) -> Checked {
    let closed = stage.gate.close(stage.plan.patience);
    closed.map_err(|stuck| format!("{stuck} threads do not come to rest"))?;
    if stage.is_over() {
        // A fault was found before, and may be the cause of all that is seen now.
        return Ok(());
    }
    let mut tally = Tally::default();
    tally.did(Did::Rests);
    rest::look(stage).map_err(|wrong| format!("at rest: {wrong}"))?;
    rest::disturb(stage, rng)?;
    rest::look(stage).map_err(|wrong| format!("at rest, after drains: {wrong}"))?;
    if stage.plan.forks {
        tally.did(children::at_rest(stage)?);
        rest::look(stage).map_err(|wrong| format!("at rest, after a fork: {wrong}"))?;
    }
    if rng.one_in(4) {
        // Now and then all is to be had at once.
        for shelf in &stage.shelves {
            let blocks: Vec<_> = lock(shelf).drain(..).collect();
            blocks.iter().try_for_each(|block| stage.free(block))?;
        }
    }
    stage.add(&mut tally);
    watchdog::beat(None);
    stage.gate.open();
    Ok(())
}
