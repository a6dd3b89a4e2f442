//! A thread that makes an administrator's calls, and wrong ones.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use framewright::{AllocError, CpuId, FreeError, MigrateType, Order, PfnRange};
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use crate::rest;
use crate::shadow::WITHHELD;
use crate::stage::{Checked, Did, Rng, Stage, Tally, lock};

/// Pageblocks' order.
const HUGE: Order = Order(9);
/// Ranges that are offline at a time.
const MOST_WITHHELD: usize = 2;

/// Disturbs until all is over.
pub(crate) fn live(stage: &Arc<Stage>) -> Checked {
    let mut rng = Rng::new(stage.plan.seed ^ 0xd157_0000);
    let mut tally = Tally::default();
    while !stage.is_over() {
        stage.add(&mut tally);
        if stage.gate.is_closed() {
            stage.gate.wait();
        }
        turn(stage, &mut rng, &mut tally)?;
        if rng.one_in(16) {
            // SAFETY: this thread has no pin here.
            unsafe { stage.pages().machine().give_up_lease() };
        }
        std::thread::sleep(Duration::from_micros(rng.below(1_000) as u64));
    }
    stage.add(&mut tally);
    Ok(())
}

fn turn(stage: &Stage, rng: &mut Rng, tally: &mut Tally) -> Checked {
    let pages = stage.pages();
    match rng.below(16) {
        0..=3 => {
            tally.did(Did::Drains);
            tally.add(Did::DrainedFrames, pages.drain_cpu(CpuId(rng.below(pages.cpus()) as u16)));
        }
        4 => {
            tally.did(Did::Drains);
            tally.add(Did::DrainedFrames, pages.drain_all());
        }
        5..=7 => tally.add(Did::Moved, move_somebody(stage, rng).into()),
        8 => {
            tally.did(Did::Trims);
            let order = Order(9 + rng.below(3) as u8);
            stage.arena.trim(order).map_err(|error| format!("trim: {error}"))?;
        }
        9..=11 => withhold(stage, rng, tally)?,
        12 => {
            let types = [MigrateType::Movable, MigrateType::Unmovable, MigrateType::Reclaimable];
            let pfn = stage.arena.frames().start.add(rng.below(stage.arena.frames().frames() as usize) as u64);
            // Refused while the pageblock is isolated for another thread's range.
            let retyped = pages.set_pageblock_type(pfn, rng.of(&types)).is_ok();
            tally.add(Did::Retyped, retyped.into());
        }
        13..=14 => free_withheld(stage, rng, tally)?,
        _ => {
            let text = stage.arena.buddyinfo().to_string();
            if text.lines().count() < 2 {
                return Err(format!("buddyinfo says {text:?}"));
            }
        }
    }
    Ok(())
}

/// Lets a worker run on one processor, or on all.
fn move_somebody(stage: &Stage, rng: &mut Rng) -> bool {
    let thread = stage.thread_ids[rng.below(stage.thread_ids.len())].load(SeqCst);
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| stage.processors.is_set(cpu)).collect();
    let mut set = CpuSet::new();
    match rng.below(3) {
        0 if !allowed.is_empty() => set.set(rng.of(&allowed)),
        _ => set = stage.processors,
    }
    // The thread may be gone, and a sandbox may deny it.
    Pid::from_raw(thread).is_some_and(|thread| sched_setaffinity(Some(thread), &set).is_ok())
}

/// Takes memory offline, or brings some back.
fn withhold(stage: &Stage, rng: &mut Rng, tally: &mut Tally) -> Checked {
    let mut withheld = lock(&stage.withheld);
    if withheld.len() == MOST_WITHHELD || (!withheld.is_empty() && rng.one_in(3)) {
        let index = rng.below(withheld.len());
        let range = withheld.swap_remove(index);
        drop(withheld);
        return rest::bring_online(stage, range);
    }
    let start = stage.arena.frames().start.add(rng.below(stage.arena.frames().frames() as usize) as u64);
    let (start, frames) = match rng.below(3) {
        0 => (start, 1 + rng.below(100) as u64),
        _ => (start.align_down(HUGE), HUGE.frames() << rng.below(2)),
    };
    let range = PfnRange { start, end: start.add(frames) };
    match stage.pages().take_offline(range) {
        Ok(()) => {
            tally.did(Did::Withheld);
            withheld.push(range);
            drop(withheld);
            stage.shadow.pass(range, 0, WITHHELD)
        }
        Err(error) if is_about(range, error) => Ok(()),
        Err(error) => Err(format!("{range} is not taken offline: {error}")),
    }
}

/// Whether an error names a frame of the range, and why that cannot be taken.
fn is_about(range: PfnRange, error: AllocError) -> bool {
    match error {
        AllocError::Foreign(pfn) | AllocError::OtherZone(pfn) | AllocError::Offline(pfn) => range.contains(pfn),
        AllocError::Busy { pfn } | AllocError::Contended { pfn } => range.contains(pfn),
        _ => false,
    }
}

/// Frees and takes offline frames, which is refused.
fn free_withheld(stage: &Stage, rng: &mut Rng, tally: &mut Tally) -> Checked {
    let Some(range) = lock(&stage.withheld).first().copied() else { return Ok(()) };
    let pfn = range.start.add(rng.below(range.frames() as usize) as u64);
    match stage.pages().free(pfn, Order(0)) {
        Err(FreeError::Offline(at)) if at == pfn => tally.did(Did::WrongFrees),
        other => return Err(format!("{pfn} is offline, and freeing it gave {other:?}")),
    }
    let wider = PfnRange { start: range.start.align_down(HUGE), end: range.end };
    match stage.pages().free_range(wider) {
        Err(_) => tally.did(Did::WrongFrees),
        Ok(()) => return Err(format!("some of {wider} is offline, and it was freed")),
    }
    match stage.pages().take_offline(range) {
        Err(error) if is_about(range, error) => Ok(()),
        other => Err(format!("{range} is offline, and taking it again gave {other:?}")),
    }
}
