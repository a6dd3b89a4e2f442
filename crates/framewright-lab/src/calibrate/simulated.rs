//! The paths on a simulated machine: one CPU, alone.

use std::cell::Cell;
use std::fmt::Display;

use framewright::{Config, NodeId, Region};
use framewright_bench::path::{FRAMES, Path, START, Watch, mean};
use framewright_sim::machine::Spec;
use framewright_sim::model::Ps;
use framewright_sim::run::{Options, Schedule, Simulation, here};
use framewright_sim::stage::{Descriptors, arena_for, boot};

/// Instructions of a path's own loop for each call, as callgrind counts them of a loop whose calls do nothing: 21 for
/// two, of which the steps count 5.
const LOOP: f64 = 8.0;

/// The clock of the running CPU.
struct Clock {
    /// Time of the loop for each call.
    call: Ps,
}

impl Watch for Clock {
    fn now(&self) -> f64 {
        here::clock() as f64 / 1000.0
    }

    fn called(&self) {
        here::work(self.call);
    }
}

/// Nanoseconds of a path on CPU 0 of a machine.
///
/// # Errors
/// Why it could not be run.
pub(super) fn measure(path: &Path, spec: &Spec) -> Result<f64, String> {
    let text = |what: &dyn Display| format!("{path}, simulated: {what}");
    let region = [Region::usable(START, START + FRAMES, 0)];
    let cpus = [NodeId(0); 2];
    let config = Config { mechanisms: path.mechanisms, ..Config::new(&region, &cpus) };
    let arena = arena_for(&config, 0).map_err(|error| text(&error))?;
    let allocator = boot(&arena, &config, Descriptors::Compact).map_err(|error| text(&error))?;
    let options = Options { cpus: 1, seed: 1, schedule: Schedule::Time, warm_up: 0, window: 0, trace: false };
    let mut simulation = Simulation::new(&spec.model(), &arena, &options).map_err(|error| text(&error))?;
    let clock = Clock { call: (LOOP * instruction(spec) * 1000.0).round() as Ps };
    let found = Cell::new(None);
    simulation.run(|_| found.set(path.round(allocator, &clock))).map_err(|error| text(&error))?;
    found.take().map(|parts| mean(&parts)).ok_or_else(|| text(&"the allocator did not serve it"))
}

/// Nanoseconds of one instruction.
fn instruction(spec: &Spec) -> f64 {
    spec.nanoseconds("costs.instruction").unwrap_or(0.0)
}
