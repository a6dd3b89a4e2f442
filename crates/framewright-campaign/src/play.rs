//! Plays a case from its boot to the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use framewright_ops::zones;

use crate::case::Case;
use crate::coroutines::Crew;
use crate::engine::{Engine, OnPurpose, Stop};
use crate::kind::Hits;
use crate::plan::Plan;
use crate::words::PLANTED;
use crate::world::World;
use crate::wrong::{Symptom, Wrong};

/// Segments between two checks of every invariant.
const CHECKED_IN: u64 = 16;

/// What a case did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Played {
    /// Operations.
    pub operations: u64,
    /// Accesses to words.
    pub accesses: u64,
    /// Of these, accesses under each schedule of [`crate::Schedule::NAMES`].
    pub by_schedule: [u64; 4],
    /// Turns that ended in the middle of a call.
    pub switches: u64,
    /// Hits of each kind.
    pub hits: Hits,
    /// Digest of all answers.
    pub digest: u64,
    /// Most accesses of a call, in ten-thousandths of what it may make.
    ///
    /// Of frees, of requests that may not wait, and of other calls.
    pub longest: [u64; 3],
    /// Checks of the sums, and of every invariant.
    pub checks: [u64; 2],
}

/// A case that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The first thing found.
    pub wrong: Wrong,
    /// The last operation of the segment at whose end, or in which, it was found.
    pub before: u64,
    /// The operations with their answers, if the case logs.
    pub log: Vec<String>,
}

/// Plays a case.
///
/// # Errors
/// Something is wrong; boxed, because it may hold a log.
pub fn play(case: &Case, logs: bool) -> Result<Played, Box<Failed>> {
    let plan = Plan::new(case);
    let engine = Engine::new(plan.shape.cpus.len(), plan.schedule, (case.seed, plan.kinds), case.plant.clone());
    let engine = Rc::new(engine);
    let entered = engine.enter();
    let failed = |wrong, before, log| Box::new(Failed { wrong, before, log });
    let world = World::boot(plan, engine.clone(), logs).map_err(|wrong| failed(wrong, 0, Vec::new()))?;
    world.plant_words();
    let mut played = Played::default();
    let result = play_on(&world, case, &mut played);
    let log = world.log.as_ref().map(|log| log.take()).unwrap_or_default();
    played.accesses = engine.accesses.get();
    played.by_schedule[engine.turns.schedule.index()] = played.accesses;
    played.switches = engine.switches.get();
    played.hits = engine.counters.hits();
    played.digest = world.digest.get();
    played.longest = engine.longest.get();
    drop(world);
    drop(entered);
    result.map_err(|(wrong, before)| failed(wrong, before, log)).map(|()| played)
}

fn play_on(world: &Rc<World>, case: &Case, played: &mut Played) -> Result<(), (Wrong, u64)> {
    let engine = &world.engine;
    let (body, handler) = (world.clone(), Rc::downgrade(world));
    let mut crew = Crew::new(engine.clone(), Rc::new(move |number, operation| body.turn(number, operation)));
    engine.set_handler(Some(Rc::new(move |engine, number| {
        handler.upgrade().into_iter().for_each(|world| world.interrupt(engine, number));
    })));
    let last = world.plan.operations;
    let mut numbers = case.operations.iter().cloned().flatten().take_while(|number| *number < last).peekable();
    let mut segment = 0;
    while let Some(&first) = numbers.peek() {
        let end = (first / world.plan.segment + 1) * world.plan.segment;
        let order: Vec<(u64, usize)> = std::iter::from_fn(|| numbers.next_if(|number| *number < end))
            .map(|number| (number, world.plan.thread_of(number)))
            .collect();
        played.operations += order.len() as u64;
        let usable = world.frames.borrow().usable();
        world.level.set(world.plan.level(first, usable));
        crew.run(order.into_iter());
        let found = engine.finding.borrow().clone();
        found.map_or(Ok(()), Err).map_err(|wrong| (wrong, end))?;
        segment += 1;
        let full = segment % CHECKED_IN == 0;
        played.checks[usize::from(full)] += 1;
        let check = || world.check_sums().and_then(|()| if full { world.check_all() } else { Ok(()) });
        judged(world, check).map_err(|wrong| (wrong, end))?;
    }
    drop(crew);
    played.checks[1] += 1;
    judged(world, || world.clear()).map_err(|wrong| (wrong, crate::case::OPERATIONS))
}

/// Makes a check while all threads rest; a panic is a finding.
fn judged(world: &World, check: impl FnOnce() -> Result<(), Wrong>) -> Result<(), Wrong> {
    let result = catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|payload| {
        let is_ours = payload.is::<Stop>() || payload.is::<OnPurpose>();
        if is_ours { Ok(()) } else { Err(Wrong::new(Symptom::Panic, "a check panicked".to_owned())) }
    });
    let found = world.engine.finding.borrow().clone();
    found.map_or(result, Err)
}

impl World {
    /// Finds the word that the planted bug is in: that of the largest zone, if zones have such words.
    fn plant_words(&self) {
        let Some(name) = self.engine.plant.as_ref().and_then(|plant| plant.field().map(str::to_owned)) else { return };
        let found = self.pages(|pages| {
            let largest = zones(pages.nodes()).max_by_key(|zone| pages.zone_memory(*zone).map(|memory| memory.managed));
            let mut found = 0;
            pages.fields(&mut |field| {
                let is_right = field.part != "zone" || largest.is_some_and(|zone| zone.index() == field.index);
                if found == 0 && is_right && field.name.to_string() == name {
                    found = field.address;
                }
            });
            found
        });
        PLANTED.set(found);
    }
}
