//! Plays a case from boot to the end.

use framewright::{Allocator, BootError, Config};

use super::case::{self, Case};
use super::player::{Counts, Player};
use super::quiet;
use super::stress_failure::StressError;
use super::wrong::{Kind, Wrong};
use crate::engine::plant::Plant;
use crate::engine::run::{Options, Schedule, SetupError, Simulation};
use crate::engine::sim::Sim;
use crate::memory::arena::Arena;
use crate::model::Ps;
use crate::stage::{Descriptors, arena_for, boot, contexts};

/// Counts of a case without a failure.
#[derive(Clone, Copy, Default)]
pub(crate) struct Played {
    pub(super) counts: Counts,
    pub(super) accesses: u64,
    pub(super) switches: u64,
}

/// The failure of a case, and the points of rest passed before.
pub(crate) struct Stopped {
    pub(crate) wrong: Wrong,
    pub(crate) rests: usize,
}

/// Plays a case from its boot to the end.
pub(crate) fn play(case: &Case) -> Result<Result<Played, Stopped>, StressError> {
    let (cpus, apart) = contexts(&case.shape.cpus, &case.shape.mechanisms, case.conditions.interrupts.is_some());
    let config = Config { cpus: &cpus, ..case.shape.config() };
    let boot_error = |error: BootError| StressError::Boot(error.to_string());
    let arena = arena_for(&config, 0).map_err(boot_error)?;
    let pages = boot(&arena, &config, Descriptors::Compact).map_err(boot_error)?;
    let mut simulation = simulation(case, &arena)?;
    simulation.keep_interrupts_apart(apart && case.conditions.plant != Some(Plant::SharedInterrupts));
    let words = planted_words(case, pages)?;
    simulation.take_chances(case.conditions.delays, case.conditions.plant.clone(), words);
    let player =
        Player::new(pages, &case.shape, (case.conditions.plant == Some(Plant::WaitingNmi), case.conditions.pool));
    let outcome = play_segments(case, &player, &mut simulation);
    let accesses = simulation.world.cpus.iter().map(|cpu| cpu.now.accesses).sum();
    Ok(outcome.map(|()| Played { counts: player.counts.get(), accesses, switches: simulation.world.switches }))
}

fn simulation<'a>(case: &Case, arena: &'a Arena) -> Result<Simulation<'a>, SetupError> {
    let cpus = case.shape.cpus.len();
    let options = Options {
        cpus,
        seed: case.conditions.seed,
        schedule: Schedule::Random(case.conditions.switch_in),
        // Nothing is measured.
        warm_up: Ps::MAX,
        window: 0,
        trace: false,
    };
    Simulation::new(&case::model(cpus), arena, &options)
}

/// Returns the addresses of the words that the planted bug is in.
fn planted_words(case: &Case, pages: &Allocator<'_, Sim>) -> Result<Vec<usize>, StressError> {
    let mut words = Vec::new();
    let Some(name) = case.conditions.plant.as_ref().and_then(Plant::field) else { return Ok(words) };
    pages.fields(&mut |field| {
        if field.name.to_string() == name {
            words.extend((0..field.count).map(|element| field.address + element * field.size));
        }
    });
    if words.is_empty() { Err(StressError::NoField(name.to_owned())) } else { Ok(words) }
}

fn play_segments(case: &Case, player: &Player<'_>, simulation: &mut Simulation<'_>) -> Result<(), Stopped> {
    for (rests, segment) in case.segments.iter().enumerate() {
        let stopped = |wrong| Stopped { wrong, rests };
        player.begin();
        let body = |cpu: usize| {
            if let Err(text) = quiet::catch(|| player.play(cpu, &segment[cpu])) {
                player.found(Wrong { kind: Kind::Panic, text: format!("CPU {cpu} {text}") });
            }
        };
        let (interrupt, nmi) = (|cpu| player.interrupt(cpu), |cpu| player.nmi(cpu));
        let interrupts = case.conditions.interrupts.map(|every| (every, &interrupt as _));
        let outcome = simulation.run_met(body, interrupts, case.conditions.nmis.map(|every| (every, &nmi as _)));
        // A CPU that stopped because another found something may hold a lock. So the first finding counts.
        player.verdict().map_err(stopped)?;
        outcome.map_err(|error| stopped(Wrong { kind: Kind::Deadlock, text: error.to_string() }))?;
        quiet::catch(|| player.check())
            .unwrap_or_else(|text| Err(Wrong { kind: Kind::Panic, text: format!("the check {text}") }))
            .map_err(stopped)?;
    }
    let stopped = |wrong| Stopped { wrong, rests: case.segments.len() };
    quiet::catch(|| player.restore(&case.shape).and_then(|()| player.clear()))
        .unwrap_or_else(|text| Err(Wrong { kind: Kind::Panic, text: format!("the end {text}") }))
        .map_err(stopped)
}
