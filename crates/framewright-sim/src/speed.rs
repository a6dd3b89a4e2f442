//! How fast the simulator is, and how much memory each simulated CPU takes.
//!
//! | row | what every CPU does | switches |
//! |---|---|---|
//! | `private` | reads and writes words of its own | none on one CPU; with a slack of 100 ns, few on more |
//! | `mixed` | as `private`, but one access of 32 adds to a word that all share | at those |
//! | `contended` | adds to one word that all share | at every access |
//!
//! Speed is accesses of simulated CPUs for each second of the host's CPU time. CPU time is used rather than the clock,
//! because a simulation is one thread and other processes of the host say nothing about it.

use std::cell::Cell;
use std::fmt;

use framewright::machine::{Ordering, Patience, Word};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::engine::run::{Options, Schedule, SetupError, Simulation};
use crate::engine::words::SimWord;
use crate::machine::{self, MachineError};
use crate::memory::arena::{Arena, Packing};
use crate::model::Model;

/// Version of the JSON.
pub const SCHEMA: &str = "framewright-sim-speed/1";
/// Slack of the rows that have one, in picoseconds.
const SLACK: u64 = 100_000;
/// Words of a line.
const LINE: usize = 8;
/// Words of its own of each CPU: more than it uses, so that no two CPUs' lines are neighbours.
const OWN: usize = 64 * LINE;
/// Machine of the rows of up to 112 CPUs, and of those with more.
const MACHINES: [&str; 2] = ["skylake-2x28", "generic:4x128x2"];

/// Measured speeds of the simulator.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Speed {
    /// Version of this format.
    pub schema: &'static str,
    /// Rounds; each number is their median.
    pub rounds: usize,
    /// Accesses.
    pub rows: Vec<SpeedRow>,
    /// Memory.
    pub memory: MemoryRow,
    /// The project's goals for these numbers.
    pub goals: Vec<SpeedGoal>,
}

/// One measurement, in millions of accesses for each second of CPU time.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct SpeedRow {
    /// Pattern of the CPUs' accesses.
    pub pattern: &'static str,
    /// CPUs.
    pub cpus: usize,
    /// How far a CPU may run ahead, in nanoseconds.
    pub slack_ns: u64,
    /// Median of the rounds.
    pub million_per_s: f64,
    /// Slowest round.
    pub min: f64,
    /// Fastest round.
    pub max: f64,
}

/// Memory of the host that each CPU takes.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct MemoryRow {
    /// CPUs.
    pub cpus: usize,
    /// Resident bytes for each CPU, stack included; `None` where the host does not tell.
    pub bytes_per_cpu: Option<f64>,
}

/// One goal.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct SpeedGoal {
    /// The goal in words.
    pub goal: &'static str,
    /// The measured value; `None` if there is none.
    pub measured: Option<f64>,
    /// Whether it holds.
    pub met: Option<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum Pattern {
    Private,
    Mixed,
    Contended,
}

impl Pattern {
    const fn name(self) -> &'static str {
        match self {
            Pattern::Private => "private",
            Pattern::Mixed => "mixed",
            Pattern::Contended => "contended",
        }
    }
}

/// Measurements: pattern, CPUs, whether there is slack.
const PLAN: [(Pattern, usize, bool); 8] = [
    (Pattern::Private, 1, false),
    (Pattern::Contended, 1, false),
    (Pattern::Private, 112, true),
    (Pattern::Mixed, 112, true),
    (Pattern::Contended, 2, false),
    (Pattern::Contended, 56, false),
    (Pattern::Contended, 112, false),
    (Pattern::Contended, 1024, false),
];

/// Measures everything in `rounds` interleaved rounds of about `accesses` accesses each. Tells `progress` the share
/// done.
///
/// # Errors
/// There is no memory for the stacks.
pub fn measure((rounds, accesses): (usize, u64), mut progress: impl FnMut(f64)) -> Result<Speed, SpeedError> {
    let [small, large] = [machine::named(MACHINES[0])?.model(), machine::named(MACHINES[1])?.model()];
    let mut speeds = vec![Vec::with_capacity(rounds); PLAN.len()];
    for round in 0..rounds {
        for (row, &cell) in PLAN.iter().enumerate() {
            let (pattern, cpus, _) = cell;
            let fewer = if pattern == Pattern::Contended && cpus > 1 { 16 } else { 1 };
            let model = if cpus > small.topology.cpus() { &large } else { &small };
            speeds[row].push(speed(model, cell, accesses / fewer)?);
            progress((round * PLAN.len() + row + 1) as f64 / (rounds * PLAN.len()) as f64);
        }
    }
    let rows: Vec<SpeedRow> = PLAN.iter().zip(speeds).map(|(&cell, speeds)| row(cell, speeds)).collect();
    let memory = memory(&large)?;
    let goals = goals(&rows, &memory);
    Ok(Speed { schema: SCHEMA, rounds, rows, memory, goals })
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum SpeedError {
    /// No such machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The machine cannot be had.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

fn row((pattern, cpus, slack): (Pattern, usize, bool), mut speeds: Vec<f64>) -> SpeedRow {
    speeds.sort_by(f64::total_cmp);
    let at = |index: usize| speeds.get(index).copied().unwrap_or(0.0);
    SpeedRow {
        pattern: pattern.name(),
        cpus,
        slack_ns: if slack { SLACK / 1000 } else { 0 },
        million_per_s: at(speeds.len() / 2),
        min: at(0),
        max: at(speeds.len().saturating_sub(1)),
    }
}

fn goals(rows: &[SpeedRow], memory: &MemoryRow) -> Vec<SpeedGoal> {
    let speed = |pattern: Pattern, cpus| {
        rows.iter().find(|row| row.pattern == pattern.name() && row.cpus == cpus).map(|row| row.million_per_s)
    };
    let goal =
        |goal, measured: Option<f64>, holds: fn(f64) -> bool| SpeedGoal { goal, measured, met: measured.map(holds) };
    vec![
        goal("200 million accesses/s without a switch", speed(Pattern::Private, 1), |value| value >= 200.0),
        goal("10 million/s when 112 CPUs contend at every access", speed(Pattern::Contended, 112), |value| {
            value >= 10.0
        }),
        goal("16 KiB a CPU", memory.bytes_per_cpu, |value| value <= 16384.0),
    ]
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Simulated accesses, million for each second of CPU time; median of {} rounds (min-max)\n",
            self.rounds
        )?;
        writeln!(f, "{:<10} {:>5} {:>9} {:>9}", "pattern", "CPUs", "slack", "accesses")?;
        for SpeedRow { pattern, cpus, slack_ns, million_per_s, min, max } in &self.rows {
            let slack = format!("{slack_ns} ns");
            writeln!(f, "{pattern:<10} {cpus:>5} {slack:>9} {million_per_s:>9.1}  ({min:.1}-{max:.1})")?;
        }
        if let Some(bytes) = self.memory.bytes_per_cpu {
            writeln!(f, "\nMemory of the host: {:.1} KiB a CPU, at {} CPUs", bytes / 1024.0, self.memory.cpus)?;
        }
        writeln!(f)?;
        for SpeedGoal { goal, met, .. } in &self.goals {
            let verdict = match met {
                Some(true) => "met",
                Some(false) => "not met",
                None => "not measured",
            };
            writeln!(f, "{verdict:<12} {goal}")?;
        }
        Ok(())
    }
}

/// Millions of accesses for each second of CPU time.
fn speed(model: &Model, (pattern, cpus, slack): (Pattern, usize, bool), accesses: u64) -> Result<f64, SetupError> {
    let model = Model { slack: if slack { SLACK } else { 0 }, ..model.clone() };
    let arena = Arena::new(Arena::bytes_of::<SimWord<u64>>((cpus + 1) * OWN));
    let words: &[SimWord<u64>] = arena.place("words", (false, Packing::Natural), (cpus + 1) * OWN, |_| Word::new(0));
    let (shared, own) = words.split_at(OWN);
    let mut simulation = Simulation::new(&model, &arena, &options(cpus))?;
    let each = accesses / cpus as u64;
    let body = |cpu: usize| {
        let own = &own[cpu * OWN..][..OWN];
        for turn in 0..each / 2 {
            let word = &own[turn as usize % 32 * LINE];
            match pattern {
                Pattern::Contended => _ = shared[0].add(1, Ordering::Relaxed),
                Pattern::Mixed if turn % 16 == 0 => _ = shared[0].add(1, Ordering::Relaxed),
                _ => _ = word.load(Ordering::Relaxed),
            }
            match pattern {
                Pattern::Contended => _ = shared[0].add(1, Ordering::Relaxed),
                _ => word.store(turn, Ordering::Relaxed),
            }
        }
    };
    let start = cpu_time();
    // No CPU waits for another here.
    let _ = simulation.run(body);
    Ok((each / 2 * 2 * cpus as u64) as f64 / (cpu_time() - start) / 1e6)
}

fn options(cpus: usize) -> Options {
    Options { cpus, seed: 1, schedule: Schedule::Time, warm_up: 0, window: u64::MAX >> 1, trace: false }
}

/// CPU time of this thread, in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Measures the host's memory of each CPU while all of them run.
fn memory(model: &Model) -> Result<MemoryRow, SetupError> {
    let cpus = model.topology.cpus();
    let arena = Arena::new(1);
    let words: &[SimWord<u64>] = arena.place("words", (false, Packing::Natural), LINE, |_| Word::new(0));
    let before = resident();
    let mut simulation = Simulation::new(model, &arena, &options(cpus))?;
    let during = Cell::new(None);
    let body = |cpu: usize| {
        let _ = words[0].add(1, Ordering::Relaxed);
        // Waits until all have begun, so that all stacks exist.
        let _ = words[0].wait_while(Patience::Turn, |value| value < cpus as u64);
        if cpu == 0 {
            during.set(resident());
        }
    };
    let _ = simulation.run(body);
    let more = before.zip(during.get()).map(|(before, during)| during.saturating_sub(before));
    Ok(MemoryRow { cpus, bytes_per_cpu: more.map(|bytes| bytes as f64 / cpus as f64) })
}

/// Returns the resident bytes of this process.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
