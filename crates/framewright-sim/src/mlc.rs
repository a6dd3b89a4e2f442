//! A latency checker that runs on the simulated machine, as Intel's Memory Latency Checker does on a real one.
//!
//! A model is made of latencies that somebody measured with such a program. If a simulated one does not print them
//! back, the model or the engine is wrong, and there is no point in looking at locks. Of the model it knows only how
//! much caches keep: it follows pointers through lines that lie where it has put them, and looks at the clock.
//!
//! | row | who touched the lines before | what is timed |
//! |---|---|---|
//! | caches | the reader itself, more lines than the level below keeps | a chase, the second time round |
//! | HIT, HITM | another core, reading or writing | a chase by CPU 0 |
//! | memory | nobody | a chase by CPU 0 |
//! | memory under load | nobody | the same, while all other cores read at a steady rate from their own nodes |
//! | bandwidth | nobody | lines read by all CPUs at once, as fast as they can |
//!
//! All of it is at rest: the model's factor for a loaded machine ([`crate::model::Memory::load_permille`]) is 1 here,
//! because published rows were taken so. How memory gets slower under load is another matter, and comes from its
//! controllers.
//!
//! Streams ask for lines ahead of their use, as a core's prefetcher does for them. Chases do not: their next address is
//! in the line that they wait for, so a first-level hit costs them all of its latency ([`crate::model::Costs::hit`]).
//! Every other line is left out, so that pairs of lines ([`crate::model::Model::pairs`]) make no difference.

mod streams;

use std::cell::Cell;
use std::fmt;

use framewright::machine::{Ordering, Word};
use serde::Serialize;

use crate::engine::here;
use crate::engine::run::{Deadlock, Options, Schedule, SetupError, Simulation};
use crate::engine::words::SimWord;
use crate::machine::{Parameter, Spec, Unit};
use crate::memory::arena::{Arena, Packing};
use crate::model::{Model, Ps};

/// Lines of a chase that does not depend on how much caches keep.
const SOME: usize = 256;

/// Most lines of any program here: what is left out of a table is better than a host without memory.
const MANY: usize = 1 << 22;

/// Until the last store is visible and no line is on its way any more.
const SETTLED: Ps = 10_000_000;

/// One row of a latency checker.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// What it is.
    pub what: String,
    /// Where the published number stands in the machine's file.
    pub path: String,
    /// What was published.
    pub published: f64,
    /// What the simulated machine printed.
    pub simulated: f64,
    /// Unit of both: nanoseconds, or 10^9 bytes a second.
    pub unit: Unit,
    /// By how much more the simulated machine printed, in percent.
    pub error_percent: f64,
}

/// A latency checker's output, against the published one.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Table {
    /// The machine.
    pub machine: String,
    /// Its rows, in the order of the machine's file.
    pub rows: Vec<Row>,
}

impl Table {
    /// The largest error, in percent, whichever way.
    pub fn worst(&self) -> f64 {
        self.rows.iter().map(|row| row.error_percent.abs()).fold(0.0, f64::max)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "latency checker on {}, at rest (load factor 1)", self.machine)?;
        if self.rows.is_empty() {
            return write!(f, "nothing to hold it against: the machine's file has no rows in [mlc]");
        }
        writeln!(f, "{:<42} {:>14} {:>14} {:>8}", "what", "published", "simulated", "error")?;
        for Row { what, published, simulated, unit, error_percent, .. } in &self.rows {
            let unit = if *unit == Unit::GbPerS { "GB/s" } else { "ns  " };
            writeln!(f, "{what:<42} {published:>9.1} {unit} {simulated:>9.1} {unit} {error_percent:>+6.1} %")?;
        }
        write!(f, "largest error: {:.1} %", self.worst())
    }
}

/// The checker did not come to its end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MlcError {
    /// The machine cannot be had.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It stood still.
    #[error(transparent)]
    Stuck(#[from] Deadlock),
}

/// A line with the number of the next one in it, and a line that nobody uses.
type Link = [SimWord<u64>; 2];

/// Each word of the arena is a line of its own.
const A_LINE_EACH: (bool, Packing) = (false, Packing::Spread(8));

/// Runs the checker on a machine, for every row that was published of it and that its shape allows. A cache too large
/// to be filled in reasonable time has no row either.
///
/// # Errors
/// The machine cannot be had. That CPUs wait for each other cannot be: they share nothing that they wait for.
pub fn check(spec: &Spec) -> Result<Table, MlcError> {
    let mut model = spec.model();
    model.memory.load_permille = 1000;
    // The checker turns prefetchers off.
    model.memory.beside = false;
    // A chase has nothing to do while it waits.
    model.costs.hit = model.latency.l1;
    let mut rows = Vec::new();
    let peak = spec.published().find(|row| row.unit == Unit::GbPerS).map(|row| row.value);
    for parameter in spec.published() {
        let name = parameter.path.strip_prefix("mlc.").unwrap_or(&parameter.path);
        match (parameter.at, peak) {
            (None, _) if name == "peak" => {
                let found = streams::peak(&model)?;
                rows.push(row(parameter, "bandwidth of all nodes, reads", (parameter.value, found), Unit::GbPerS));
            }
            (None, _) => {
                if let Some((what, found)) = at_rest(&model, name)? {
                    rows.push(row(parameter, what, (nanoseconds(&model, parameter), found), Unit::Ns));
                }
            }
            (Some((rate, _)), _) => {
                let Some((latency, reached)) = streams::loaded(&model, rate)? else { continue };
                let what = format!("memory, own node, under {rate} GB/s");
                rows.push(row(parameter, &format!("{what}: the load"), (rate, reached), Unit::GbPerS));
                rows.push(row(parameter, &what, (parameter.value, latency), Unit::Ns));
            }
        }
    }
    Ok(Table { machine: spec.name.clone(), rows })
}

fn row(parameter: &Parameter, what: &str, (published, simulated): (f64, f64), unit: Unit) -> Row {
    let error_percent = (simulated / published - 1.0) * 100.0;
    Row { what: what.to_owned(), path: parameter.path.clone(), published, simulated, unit, error_percent }
}

fn nanoseconds(model: &Model, parameter: &Parameter) -> f64 {
    match parameter.unit {
        Unit::Cycles => parameter.value * 1e6 / model.topology.khz as f64,
        _ => parameter.value,
    }
}

/// Measures one latency at rest, in nanoseconds, by the name that it has in a machine's file, and says what it is;
/// nothing if the machine has no such thing.
fn at_rest(model: &Model, name: &str) -> Result<Option<(&'static str, f64)>, MlcError> {
    let capacity = model.capacity;
    let [l1, l2, llc] = [capacity.l1, capacity.l2, capacity.llc].map(|lines| lines as usize);
    let cores = usize::from(model.topology.cores);
    let near = (cores > 1).then_some(1);
    let far = (model.topology.sockets > 1).then_some(cores);
    let (what, chase) = match name {
        "l1" => ("first-level cache", Chase::again(l1 / 2)),
        "l2" => ("second-level cache", Chase::again(l1 + l1.min(l2.saturating_sub(l1)) / 2)),
        "llc" => ("last-level cache", Chase::again(l2 + l2.min(llc.saturating_sub(l2)) / 2)),
        "hit" => ("L2->L2 HIT, same socket", near.map(|other| Chase::after(other, Before::Read, 0))),
        "hitm" => ("L2->L2 HITM, same socket", near.map(|other| Chase::after(other, Before::Write, 0))),
        "far_hit" => ("L2->L2 HIT, other socket", far.map(|other| Chase::after(other, Before::Read, 1))),
        "far_hitm_home_there" => {
            ("L2->L2 HITM, other socket, home at writer", far.map(|other| Chase::after(other, Before::Write, 1)))
        }
        "far_hitm_home_here" => {
            ("L2->L2 HITM, other socket, home at reader", far.map(|other| Chase::after(other, Before::Write, 0)))
        }
        "dram" => ("memory, own node", Some(Chase::fresh(0))),
        "far_dram" => ("memory, other node", far.map(|_| Chase::fresh(1))),
        _ => return Ok(None),
    };
    match chase {
        Some(chase) => Ok(Some((what, chase.run(model)?))),
        None => Ok(None),
    }
}

/// What another CPU does with the lines before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    Read,
    Write,
}

/// CPU 0 follows pointers through lines.
struct Chase {
    lines: usize,
    /// Node of the lines.
    home: usize,
    /// Whether it has been there before.
    again: bool,
    /// Which other CPU has.
    other: Option<(usize, Before)>,
}

impl Chase {
    /// None if that many lines are too many.
    fn again(lines: usize) -> Option<Chase> {
        (lines <= MANY).then(|| Chase { lines: lines.max(1), home: 0, again: true, other: None })
    }

    fn fresh(home: usize) -> Chase {
        Chase { lines: SOME, home, again: false, other: None }
    }

    fn after(cpu: usize, before: Before, home: usize) -> Chase {
        Chase { lines: SOME, home, again: false, other: Some((cpu, before)) }
    }

    /// Nanoseconds for a line.
    fn run(&self, model: &Model) -> Result<f64, MlcError> {
        let arena = Arena::new(Arena::bytes_of::<Link>(self.lines));
        let links = place_cycle(&arena, self.lines);
        arena.set_homes("lines", |_| self.home);
        let mut simulation = Simulation::new(model, &arena, &options(model))?;
        if let Some((other, before)) = self.other {
            let body = |cpu: usize| match before {
                _ if cpu != other => {}
                Before::Read => follow(links, self.lines),
                Before::Write => links.iter().for_each(|link| link[0].store(link[0].load(RELAXED), RELAXED)),
            };
            simulation.run(body)?;
        }
        let took = Cell::new(0);
        let start = simulation.clock() + SETTLED;
        let body = |cpu: usize| {
            if cpu == 0 {
                here::idle(start - here::clock());
                if self.again {
                    follow(links, self.lines);
                }
                let began = here::clock();
                follow(links, self.lines);
                took.set(here::clock() - began);
            }
        };
        simulation.run(body)?;
        Ok(took.get() as f64 / self.lines as f64 / 1000.0)
    }
}

const RELAXED: Ordering = Ordering::Relaxed;

/// Lines of which each names the next, in a cycle through all of them.
fn place_cycle(arena: &Arena, lines: usize) -> &[Link] {
    let stride = stride(lines);
    arena.place("lines", A_LINE_EACH, lines, |line| [Word::new(((line + stride) % lines) as u64), Word::new(0)])
}

/// A step that leads through so many lines, far from one to the next.
fn stride(lines: usize) -> usize {
    fn common_divisor(a: usize, b: usize) -> usize {
        if b == 0 { a } else { common_divisor(b, a % b) }
    }
    (lines * 5 / 8..).find(|step| common_divisor(*step, lines) == 1).unwrap_or(1)
}

/// Goes once through all lines.
fn follow(links: &[Link], lines: usize) {
    let mut at = 0;
    for _ in 0..lines {
        at = links[at][0].load(RELAXED) as usize;
    }
}

/// All CPUs, whatever happens in the order of time, nothing random, no window.
fn options(model: &Model) -> Options {
    Options {
        cpus: model.topology.cpus(),
        seed: 0,
        schedule: Schedule::Time,
        warm_up: 0,
        window: Ps::MAX,
        trace: false,
    }
}
