//! A workload on a machine, for each number of CPUs and each set of mechanisms.
//!
//! On request each run is made again with every number of the machine a tenth smaller and a tenth larger.

use anyhow::anyhow;
use framewright::Mechanisms;
use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use framewright_table::figures;
use serde::Serialize;

use super::pool;
use super::sensitivity::{Effect, Sensitivity};

/// The runs to make.
pub struct RunSweep<'a> {
    /// The machine.
    pub machine: &'a Spec,
    /// Sets of mechanisms.
    pub mechanisms: &'a [Mechanisms],
    /// Numbers of CPUs.
    pub cpus: &'a [usize],
    /// Whether to find out how results depend on the machine's numbers.
    pub sensitivity: bool,
}

/// The results.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct SweepFindings {
    /// Runs, by mechanisms and then by CPUs, in the order in which they were asked for.
    pub runs: Vec<Report>,
    /// How the throughput of each depends on the machine's numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sensitivities: Vec<Sensitivity>,
}

/// One run.
pub struct Job<'a> {
    /// The machine, as it is or with one number changed.
    pub machine: Spec,
    /// The number, and what it was multiplied by.
    pub change: Option<(&'a str, f64)>,
    /// Mechanisms.
    pub mechanisms: &'a Mechanisms,
    /// CPUs.
    pub cpus: usize,
}

/// How much a number is changed, down and up.
pub(crate) const FACTORS: [f64; 2] = [0.9, 1.1];

impl RunSweep<'_> {
    /// Runs all with `simulate`, on as many threads as there are CPUs. `repeat` says how a run is made again alone, and
    /// `progress` is told how many of how many runs are done.
    ///
    /// # Errors
    /// The first error of `simulate`, or what it panicked with, and how to have it again.
    pub fn run(
        &self,
        simulate: impl Fn(&Job<'_>) -> anyhow::Result<Report> + Sync,
        repeat: impl Fn(&Job<'_>) -> String + Sync,
        progress: &mut dyn FnMut(usize, usize),
    ) -> anyhow::Result<SweepFindings> {
        let parameters: Vec<&str> = self.machine.parameters().filter(|p| p.scales()).map(|p| p.path.as_str()).collect();
        let variants = if self.sensitivity { 1 + parameters.len() * FACTORS.len() } else { 1 };
        let bases = self.mechanisms.len() * self.cpus.len();
        let job = |number: usize| {
            let (variant, base) = (number / bases, number % bases);
            let change = variant.checked_sub(1).map(|change| (parameters[change / 2], FACTORS[change % 2]));
            let machine = match change {
                None => self.machine.clone(),
                Some((path, factor)) => self.machine.scaled(path, factor)?,
            };
            let (mechanisms, cpus) = (&self.mechanisms[base / self.cpus.len()], self.cpus[base % self.cpus.len()]);
            let job = Job { machine, change, mechanisms, cpus };
            // A run that finds the allocator broken panics; the message has to name the run.
            pool::caught(|| simulate(&job)).map_err(|error| match job.change {
                None => anyhow!("{error:#}\nThe run again: {}", repeat(&job)),
                Some((path, factor)) => anyhow!("{error:#}\nThe run again, with {path} x {factor}: {}", repeat(&job)),
            })
        };
        let total = variants * bases;
        let mut runs = pool::run(total, job, &mut |done| progress(done, total))?;
        let changed = runs.split_off(bases.min(runs.len()));
        let sensitivities = if self.sensitivity { self.sensitivities(&runs, &parameters, &changed) } else { vec![] };
        Ok(SweepFindings { runs, sensitivities })
    }

    /// From the runs with numbers changed, for each parameter and factor all the runs: of the throughput of each run,
    /// and of its ratio to the run with the first mechanisms on as many CPUs. A number that is wrong is so for both, so
    /// the ratio moves less.
    fn sensitivities(&self, runs: &[Report], parameters: &[&str], changed: &[Report]) -> Vec<Sensitivity> {
        let table = |result: &str, base: usize, value: &dyn Fn(&[Report]) -> f64| {
            let variant = |number: usize| value(&changed[number * runs.len()..][..runs.len()]);
            let effect = |(i, path): (usize, &&str)| {
                let parameter = self.machine.parameter(path)?;
                let (lower, higher) = (variant(2 * i), variant(2 * i + 1));
                Some(Effect { parameter: parameter.path.clone(), basis: parameter.basis.clone(), lower, higher })
            };
            let effects = parameters.iter().enumerate().filter_map(effect).collect();
            Sensitivity::new(result, (runs[base].cpus, &runs[base].mechanisms), value(runs), effects)
        };
        let throughput = |(base, run): (usize, &Report)| {
            table(&format!("{} per second", figures::plural(&run.unit)), base, &|runs| runs[base].per_second)
        };
        let ratio = |base: usize| {
            let first = base % self.cpus.len();
            let name = format!("times the throughput of {}", runs[first].mechanisms);
            table(&name, base, &|runs| runs[base].per_second / runs[first].per_second)
        };
        let ratios = (self.cpus.len()..runs.len()).map(ratio);
        runs.iter().enumerate().map(throughput).chain(ratios).collect()
    }
}
