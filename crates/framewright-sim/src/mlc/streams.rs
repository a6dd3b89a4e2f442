//! Reads from memory on all cores, at a given rate or as fast as possible.

use std::cell::Cell;

use framewright::machine::{Machine, Word};

use super::lines::{A_LINE_EACH, Link, MANY, MlcError, RELAXED, options, place_cycle};
use crate::engine::here;
use crate::engine::run::Simulation;
use crate::engine::sim::Sim;
use crate::memory::arena::Arena;
use crate::model::{Model, Ps};

/// Time until a controller knows its load, and the time that is measured after it.
const WARM_UP: Ps = 30_000_000;
const MEASURED: Ps = 30_000_000;
const END: Ps = WARM_UP + MEASURED;

/// Time between two steps of a chase under load: its own reads are not part of the load.
const REST: Ps = 500_000;

/// Lines that a core has asked for and that have not arrived: about as many as its second-level cache tracks.
const AHEAD: usize = 48;

/// Bytes of a line.
const LINE: f64 = 64.0;

/// Measures a chase by CPU 0 while all other cores read `rate` 10^9 bytes a second together.
///
/// Returns the nanoseconds that CPU 0 waits for a line of its node, and the rate that was reached. `None` if there is
/// no other core.
pub(super) fn loaded(model: &Model, rate: f64) -> Result<Option<(f64, f64)>, MlcError> {
    let topology = model.topology;
    let cpus = topology.cpus();
    if topology.cores < 2 {
        return Ok(None);
    }
    // All nodes have equal load; on the node of CPU 0 fewer CPUs make it.
    let every = |cpu: usize| {
        let cores = topology.cores - u16::from(topology.socket_of(cpu) == 0);
        let share = rate / f64::from(topology.sockets) / f64::from(cores * topology.threads);
        ((LINE / share * 1000.0) as Ps).max(END * cpus as Ps / MANY as Ps)
    };
    let chased = (END / REST) as usize + 1;
    let per_cpu = (0..cpus).map(|cpu| (END / every(cpu)) as usize).max().unwrap_or(0) + 2;
    let arena = Arena::new(Arena::bytes_of::<Link>(chased) + Arena::bytes_of::<Link>(cpus * per_cpu));
    let links = place_cycle(&arena, chased);
    let streams = place_streams(&arena, model, per_cpu);
    let mut simulation = Simulation::new(model, &arena, &options(model))?;
    let (waited, steps, read) = (Cell::new(0), Cell::new(0_u64), Cell::new(0));
    let body = |cpu: usize| {
        if cpu == 0 {
            let mut at = 0;
            while here::clock() < END {
                here::idle(REST);
                let began = here::clock();
                at = links[at][0].load(RELAXED) as usize;
                if began >= WARM_UP {
                    waited.set(waited.get() + here::clock() - began);
                    steps.set(steps.get() + 1);
                }
            }
        } else if topology.core_of(cpu) != 0 {
            let stream = Stream { lines: &streams[cpu * per_cpu..][..per_cpu], every: every(cpu) };
            // CPUs do not ask all at once.
            here::idle(stream.every * cpu as Ps / cpus as Ps);
            let lines = stream.run();
            read.set(read.get() + lines);
        }
    };
    simulation.run(body)?;
    Ok(Some((waited.get() as f64 / steps.get().max(1) as f64 / 1000.0, bandwidth(read.get()))))
}

/// Returns the 10^9 bytes a second that all CPUs read together, each from its own node.
pub(super) fn peak(model: &Model) -> Result<f64, MlcError> {
    let cpus = model.topology.cpus();
    // Twice a fair share: some are faster.
    let of_all = (END / model.memory.read_line.max(1)) as usize * usize::from(model.topology.sockets);
    let per_cpu = (2 * of_all).min(MANY) / cpus + AHEAD;
    let arena = Arena::new(Arena::bytes_of::<Link>(cpus * per_cpu));
    let streams = place_streams(&arena, model, per_cpu);
    let mut simulation = Simulation::new(model, &arena, &options(model))?;
    let read = Cell::new(0);
    let body = |cpu: usize| {
        let stream = Stream { lines: &streams[cpu * per_cpu..][..per_cpu], every: 0 };
        // Others run meanwhile: only then is the sum looked at.
        let lines = stream.run();
        read.set(read.get() + lines);
    };
    simulation.run(body)?;
    Ok(bandwidth(read.get()))
}

fn bandwidth(lines: u64) -> f64 {
    lines as f64 * LINE / (MEASURED as f64 / 1000.0)
}

/// Places `per_cpu` lines for each CPU, on its node.
fn place_streams<'a>(arena: &'a Arena, model: &Model, per_cpu: usize) -> &'a [Link] {
    let topology = model.topology;
    let lines = arena.place("streams", A_LINE_EACH, topology.cpus() * per_cpu, |_| [Word::new(0), Word::new(0)]);
    arena.set_homes("streams", |line| topology.socket_of(line / per_cpu));
    lines
}

/// A CPU that reads lines one after the other and prefetches each.
struct Stream<'a> {
    lines: &'a [Link],
    /// Time from one to the next; at once if it is 0.
    every: Ps,
}

impl Stream<'_> {
    /// Reads until the end. Returns how many lines came in the measured time.
    fn run(&self) -> u64 {
        let first = here::clock();
        let mut read = 0;
        for (number, line) in self.lines.iter().enumerate() {
            let due = first + number as Ps * self.every;
            here::idle(due.saturating_sub(here::clock()));
            Sim.prefetch(&line[0]);
            if let Some(before) = number.checked_sub(AHEAD) {
                self.lines[before][0].load(RELAXED);
                read += u64::from((WARM_UP..END).contains(&here::clock()));
            }
            if here::clock() >= END {
                break;
            }
        }
        read
    }
}
