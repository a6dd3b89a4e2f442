//! Runs of the simulated machine that an experiment consists of, as many at once as the host has CPUs.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::anyhow;
use framewright::watermark::PcpSize;
use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use framewright_sim::workload::{Job, Outcome, run};

use crate::sim::pool;

/// Per-CPU lists of Linux before 4.19 on a large machine, in frames: a batch, and six of them.
pub const LISTS: PcpSize = PcpSize { batch: 31, high: 6 * 31 };

/// Which number of the machine is changed, by its path in the machine's file, and its factor; none for the machine as
/// it is.
pub type Change<'p> = Option<(&'p str, f64)>;

/// Called with how much of how much has been done.
pub type Progress<'p> = &'p mut dyn FnMut(u64, u64);

/// One run.
#[derive(Clone, Debug)]
pub struct Run<'p> {
    /// Name that an error gives if the run fails; the change is added to it.
    pub name: String,
    /// Job of the run.
    pub job: Job,
    /// Change of the machine.
    pub change: Change<'p>,
    /// About how long it takes, in a unit that all runs of the experiment share.
    pub weight: u64,
}

impl Run<'_> {
    fn simulate(&self, machine: &Spec, advance: &mut dyn FnMut(f64)) -> anyhow::Result<Outcome> {
        let machine = match self.change {
            Some((path, factor)) => &machine.scaled(path, factor)?,
            None => machine,
        };
        let outcome = run(&machine.model(), &self.job, &mut |progress| {
            advance(progress.done as f64 / progress.total.max(1) as f64);
        })?;
        advance(1.0);
        Ok(outcome)
    }

    /// In words, to know it by.
    fn described(&self) -> String {
        let change = self.change.map_or(String::new(), |(path, factor)| format!(", {path} x {factor}"));
        format!("{}{change}", self.name)
    }
}

/// Returns the weight of all runs.
pub fn weight(runs: &[Run<'_>]) -> u64 {
    runs.iter().map(|run| run.weight).sum()
}

/// Runs all of them, each on its machine; what came of each is in their order. `progress` is told their weight as it
/// gets done. The error is the first run's that failed, and names it.
pub(super) fn all(runs: &[(&Spec, &Run<'_>)], progress: &mut dyn FnMut(u64)) -> anyhow::Result<Vec<Outcome>> {
    let named: Vec<(String, u64)> = runs.iter().map(|(_, run)| (run.described(), run.weight)).collect();
    let simulate = |number: usize, advance: &mut dyn FnMut(f64)| {
        let (machine, run) = runs[number];
        run.simulate(machine, advance)
    };
    each(&named, simulate, progress)
}

/// Runs things that have a name and a weight; what came of each is in their order. `simulate` is given the number of
/// one and tells how much of it is done, as a share; `progress` is told the weight of all that is. The error
/// is the first one's that failed, and names it.
pub(super) fn each<T: Send>(
    named: &[(String, u64)],
    simulate: impl Fn(usize, &mut dyn FnMut(f64)) -> anyhow::Result<T> + Sync,
    progress: &mut dyn FnMut(u64),
) -> anyhow::Result<Vec<T>> {
    let done = AtomicU64::new(0);
    let one = |number: usize| {
        let (name, weight) = &named[number];
        let mut told = 0;
        let mut advance = |share: f64| {
            let now = (*weight as f64 * share) as u64;
            done.fetch_add(now - told, Ordering::Relaxed);
            told = now;
        };
        // A run that finds the allocator broken panics; its message has to say which run that was.
        pool::caught(|| simulate(number, &mut advance)).map_err(|error| anyhow!("{name}: {error:#}"))
    };
    pool::run(named.len(), one, &mut |_| progress(done.load(Ordering::Relaxed)))
}

/// Cycles a second.
pub fn clock(machine: &Spec) -> f64 {
    1e18 / machine.model().topology.cycles(1e6) as f64
}

/// Cycles that all CPUs together spent for one operation.
pub fn cycles(machine: &Spec, report: &Report) -> f64 {
    report.cpus as f64 * clock(machine) / report.per_second
}
