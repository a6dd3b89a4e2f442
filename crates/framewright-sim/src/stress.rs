//! The allocator under a random scheduler: many CPUs do everything at once, and everything is checked.
//!
//! ```text
//! run(settings)
//!   └─ episodes, each a fresh machine: a case from its seed            generate.rs, case.rs
//!        └─ segments: every CPU plays its list, by lot                 player.rs, crate::chance
//!             └─ interrupts, and NMIs at any step                      interrupts.rs
//!             └─ all rest: `validate`, the census, every block held    shadow.rs
//!        └─ everything is freed, and memory is in one piece again
//!   └─ something is wrong: the case is made small                      shrink.rs
//! ```
//!
//! An episode is a function of its seed, and the first episode of a run is that of the run's seed. What the n-th found wrong is
//! therefore found again by a run of one episode with that seed; the failure says so in a command.

mod case;
mod generate;
mod interrupts;
mod player;
mod pool;
mod quiet;
mod shadow;
mod shrink;
mod wrong;

use std::fmt;

use framewright::Mechanisms;

pub use case::{Case, CaseError, Conditions, Segment};
pub use player::Counts;
pub use wrong::{Kind, Wrong};

use crate::engine::plant::Plant;
use crate::engine::run::{Options, Schedule, SetupError, Simulation};
use crate::memory::arena::Arena;
use crate::model::Ps;
use crate::stage::{Descriptors, arena_for, boot, contexts};
use player::Player;

/// Points of rest in an episode.
const RESTS: u64 = 4;

/// What a stress test is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// CPUs.
    pub cpus: usize,
    /// Seed of the first episode; each further one adds 1.
    pub seed: u64,
    /// Operations of all CPUs in all episodes.
    pub operations: u64,
    /// Points at which all rest and everything is checked.
    pub quiescent: u64,
    /// Mechanisms; by the seed if none.
    pub mechanisms: Option<Mechanisms>,
    /// Whether interrupts allocate and free; by the seed if none.
    pub interrupts: Option<bool>,
    /// Whether NMIs do, by the calls for any context; by the seed if none.
    pub nmis: Option<bool>,
    /// Whether stores are kept back; by the seed if none.
    pub delays: Option<bool>,
    /// Whether memory is a pool that CPUs keep full, in which no request may fail while a frame is free.
    pub pool: bool,
    /// A bug of the machine.
    pub plant: Option<Plant>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            cpus: 16,
            seed: 0,
            operations: 1_000_000,
            quiescent: 40,
            mechanisms: None,
            interrupts: None,
            nmis: None,
            delays: None,
            pool: false,
            plant: None,
        }
    }
}

/// What a stress test did that found nothing wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Fresh machines.
    pub episodes: u64,
    /// Times that everything was checked while all rested.
    pub quiescent: u64,
    /// Accesses to shared words.
    pub accesses: u64,
    /// Times that another CPU went on.
    pub switches: u64,
    /// What happened.
    pub counts: Counts,
}

/// Why a stress test ended early.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StressError {
    /// Something is wrong.
    #[error(transparent)]
    Failed(Box<Failure>),
    /// There is no such machine.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The case describes no machine that an allocator boots on.
    #[error("the allocator cannot be set up: {0}")]
    Boot(String),
    /// The planted bug is in words that there are none of.
    #[error("no word of the allocator is called {0:?}; framewright sim has their names in its report")]
    NoField(String),
}

/// Something is wrong, in a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What.
    pub wrong: Wrong,
    /// Points of rest passed before.
    pub rests: usize,
    /// The case.
    pub case: Case,
    /// Settings of a run that begins with the case; none if it came from a file.
    pub settings: Option<Settings>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conditions { seed, switch_in, interrupts, nmis, delays, pool, plant } = &self.case.conditions;
        writeln!(f, "wrong: {}", self.wrong)?;
        writeln!(f, "where: after {} points of rest, seed {seed}", self.rests)?;
        write!(f, "under: {} CPUs, one switch in {switch_in} accesses", self.case.shape.cpus.len())?;
        if let Some(every) = interrupts {
            write!(f, ", interrupts every {} us", every / 1_000_000)?;
        }
        if let Some(every) = nmis {
            write!(f, ", NMIs every {} ns", every / 1_000)?;
        }
        f.write_str(if *delays { ", stores kept back" } else { "" })?;
        f.write_str(if *pool { ", a pool" } else { "" })?;
        plant.as_ref().map_or(Ok(()), |plant| write!(f, ", planted {plant}"))?;
        writeln!(f, "\n       {}", self.case.shape.mechanisms)
    }
}

impl std::error::Error for Failure {}

/// What a case did, all in order.
#[derive(Clone, Copy, Default)]
pub(crate) struct Played {
    counts: Counts,
    accesses: u64,
    switches: u64,
}

/// Where a case went wrong.
pub(crate) struct Stopped {
    pub(crate) wrong: Wrong,
    pub(crate) rests: usize,
}

/// Runs a stress test. Tells `progress` how many operations are behind it.
///
/// # Errors
/// Something is wrong, or the settings are.
pub fn run(settings: &Settings, mut progress: impl FnMut(u64)) -> Result<Summary, StressError> {
    let (rests, episodes) = (settings.quiescent.max(1), settings.quiescent.max(1).div_ceil(RESTS));
    let share = |episode: u64, all: u64| all / episodes + u64::from(episode < all % episodes);
    let mut summary = Summary::default();
    let mut behind = 0;
    for episode in 0..episodes {
        let (operations, quiescent) = (share(episode, settings.operations), share(episode, rests));
        let seed = settings.seed.wrapping_add(episode);
        let settings = Settings { seed, operations, quiescent, ..settings.clone() };
        let case = generate::case(&settings, operations, quiescent);
        let played = match play(&case)? {
            Ok(played) => played,
            Err(Stopped { wrong, rests }) => {
                let failure = Failure { wrong, rests, case, settings: Some(settings) };
                return Err(StressError::Failed(Box::new(failure)));
            }
        };
        behind += operations;
        progress(behind);
        summary.episodes += 1;
        summary.quiescent += quiescent;
        summary.accesses += played.accesses;
        summary.switches += played.switches;
        summary.counts = summary.counts.plus(played.counts);
    }
    Ok(summary)
}

/// Runs a case.
///
/// # Errors
/// Something is wrong with the allocator, or with the case.
pub fn replay(case: &Case) -> Result<Summary, StressError> {
    match play(case)? {
        Ok(Played { counts, accesses, switches }) => {
            Ok(Summary { episodes: 1, quiescent: case.segments.len() as u64, accesses, switches, counts })
        }
        Err(Stopped { wrong, rests }) => {
            let failure = Failure { wrong, rests, case: case.clone(), settings: None };
            Err(StressError::Failed(Box::new(failure)))
        }
    }
}

/// Makes a failing case small, by attempts of about so many operations in all. `progress` is told how many are left in the case.
///
/// # Errors
/// As [`replay`], but for what the failure is about.
pub fn shrink(failure: &Failure, effort: u64, progress: impl FnMut(usize)) -> Result<Failure, StressError> {
    shrink::shrink(failure, effort, progress)
}

/// Plays a case from its boot to the end.
pub(crate) fn play(case: &Case) -> Result<Result<Played, Stopped>, StressError> {
    let (cpus, apart) = contexts(&case.shape.cpus, &case.shape.mechanisms, case.conditions.interrupts.is_some());
    let config = framewright::Config { cpus: &cpus, ..case.shape.config() };
    let boot_error = |error: framewright::BootError| StressError::Boot(error.to_string());
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

/// Addresses of the words that the planted bug is in.
fn planted_words(
    case: &Case,
    pages: &framewright::Allocator<'_, crate::engine::sim::Sim>,
) -> Result<Vec<usize>, StressError> {
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
        // Whoever was stopped by what another found may leave a lock behind: the first finding is the one that counts.
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
