//! Runs generated scenarios on several threads, as many as there is time for.
//!
//! Scenario `n` of a run is that of seed `first + n`, so the list of scenarios does not depend on the number of
//! threads. Threads share only the number of the next scenario. The reported failure is that of the lowest seed: after
//! a failure, threads go on only below it.

use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use framewright::AllocError;

use crate::generate::variety::is_preset;
use crate::generate::{self, Limits};
use crate::language::{Outcome, Scenario};
use crate::run::{Checks, Failure, Report, run_with};

/// Which scenarios, and how they are checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Seed of the first.
    pub seed: u64,
    /// Most scenarios; `None` for as many as `more` wants.
    pub scenarios: Option<u64>,
    /// What they are like.
    pub limits: Limits,
    /// Operations between two checks of invariants and census.
    pub every: usize,
    /// Threads.
    pub threads: usize,
}

/// The CPUs of a machine that each row of [`Tally::by_cpus`] counts.
pub const CPU_ROWS: [RangeInclusive<usize>; 5] = [1..=1, 2..=4, 5..=16, 17..=64, 65..=usize::MAX];

/// Counts over all scenarios.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Scenarios that were run.
    pub scenarios: u64,
    /// Their operations.
    pub operations: u64,
    /// Requests that were served, with ranges.
    pub served: u64,
    /// Requests that found no memory.
    pub out_of_memory: u64,
    /// Requests that were not served for another reason.
    pub not_served: u64,
    /// Frees and splits that were refused.
    pub refused: u64,
    /// Other operations that were done.
    pub done: u64,
    /// Operations on handles that were not held.
    pub skipped: u64,
    /// Points that were made to fail.
    pub faults: u64,
    /// Calls of the reclaim callback.
    pub reclaims: u64,
    /// Calls of the migrate callback.
    pub migrations: u64,
    /// Blocks taken from another mobility's lists.
    pub fallbacks: u64,
    /// Scenarios whose mechanisms are those of a preset.
    pub presets: u64,
    /// Operations by the machine's number of CPUs, as in [`CPU_ROWS`].
    pub by_cpus: [u64; CPU_ROWS.len()],
}

impl Tally {
    /// Counts a scenario.
    fn count(&mut self, scenario: &Scenario, report: &Report) {
        self.scenarios += 1;
        self.operations += report.outcomes.len() as u64;
        for (step, outcome) in scenario.steps.iter().zip(&report.outcomes) {
            *match outcome {
                Outcome::Skipped => &mut self.skipped,
                Outcome::NotServed(AllocError::NoMemory { .. }) => &mut self.out_of_memory,
                Outcome::NotServed(_) => &mut self.not_served,
                Outcome::Refused(_) => &mut self.refused,
                _ if step.op.defines().is_some() => &mut self.served,
                _ => &mut self.done,
            } += 1;
        }
        self.faults += report.encounters.fired.iter().sum::<u64>();
        self.reclaims += report.encounters.reclaims;
        self.migrations += report.encounters.migrations;
        self.fallbacks += report.fallbacks;
        self.presets += u64::from(is_preset(&scenario.shape.mechanisms));
        let row = CPU_ROWS.iter().position(|row| row.contains(&scenario.shape.cpus.len()));
        self.by_cpus[row.unwrap_or(0)] += report.outcomes.len() as u64;
    }

    /// Adds two tallies.
    fn plus(mut self, more: &Tally) -> Tally {
        for (sum, more) in self.numbers().into_iter().zip(more.to_owned().numbers()) {
            *sum += *more;
        }
        self.by_cpus.iter_mut().zip(more.by_cpus).for_each(|(sum, more)| *sum += more);
        self
    }

    fn numbers(&mut self) -> [&mut u64; 13] {
        [
            &mut self.scenarios,
            &mut self.operations,
            &mut self.served,
            &mut self.out_of_memory,
            &mut self.not_served,
            &mut self.refused,
            &mut self.done,
            &mut self.skipped,
            &mut self.faults,
            &mut self.reclaims,
            &mut self.migrations,
            &mut self.fallbacks,
            &mut self.presets,
        ]
    }
}

/// A scenario that failed.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its seed.
    pub seed: u64,
    /// The scenario.
    pub scenario: Scenario,
    /// What is wrong with it.
    pub failure: Failure,
}

/// What the threads of a run share.
struct Shared<'p> {
    plan: &'p Plan,
    more: &'p (dyn Fn(u64) -> bool + Sync),
    runner: Runner<'p>,
    next: AtomicU64,
    /// Number of the lowest scenario that failed.
    lowest: AtomicU64,
    operations: AtomicU64,
    found: Mutex<Option<(u64, Found)>>,
}

/// Runs scenarios until the plan's number is reached or `more` returns false.
///
/// `more` hears how many operations all threads have done.
///
/// # Errors
/// The failure of the lowest seed; boxed, because it holds the whole case.
pub fn fuzz(plan: &Plan, more: &(dyn Fn(u64) -> bool + Sync)) -> Result<Tally, Box<Found>> {
    fuzz_by(plan, more, &run_with)
}

/// A function that runs a scenario.
type Runner<'p> = &'p (dyn Fn(&Scenario, Checks) -> Result<Report, Failure> + Sync);

fn fuzz_by(plan: &Plan, more: &(dyn Fn(u64) -> bool + Sync), runner: Runner<'_>) -> Result<Tally, Box<Found>> {
    let shared = Shared {
        plan,
        more,
        runner,
        next: AtomicU64::new(0),
        lowest: AtomicU64::new(u64::MAX),
        operations: AtomicU64::new(0),
        found: Mutex::new(None),
    };
    let tally = thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads.max(1)).map(|_| scope.spawn(|| shared.work())).collect();
        let tallies =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        tallies.fold(Tally::default(), |sum, tally| sum.plus(&tally))
    });
    let found = shared.found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    match found {
        Some((_, found)) => Err(Box::new(found)),
        None => Ok(tally),
    }
}

impl Shared<'_> {
    fn work(&self) -> Tally {
        let mut tally = Tally::default();
        let checks = Checks { every: self.plan.every, expected: true };
        while (self.more)(self.operations.load(Ordering::Relaxed)) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let is_last = self.plan.scenarios.is_some_and(|scenarios| number >= scenarios);
            if is_last || number > self.lowest.load(Ordering::Relaxed) {
                break;
            }
            let seed = self.plan.seed.wrapping_add(number);
            let scenario = generate::scenario_within(seed, &self.plan.limits);
            match (self.runner)(&scenario, checks) {
                Ok(report) => tally.count(&scenario, &report),
                Err(failure) => self.note(number, Found { seed, scenario: scenario.clone(), failure }),
            }
            self.operations.fetch_add(scenario.steps.len() as u64, Ordering::Relaxed);
        }
        tally
    }

    fn note(&self, number: u64, found: Found) {
        self.lowest.fetch_min(number, Ordering::Relaxed);
        let mut lowest = self.found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if lowest.as_ref().is_none_or(|(lowest, _)| number < *lowest) {
            *lowest = Some((number, found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(threads: usize) -> Plan {
        Plan { seed: 100, scenarios: Some(60), limits: Limits::default(), every: 0, threads }
    }

    #[test]
    fn sums_do_not_depend_on_the_threads() {
        let one = fuzz(&plan(1), &|_| true).unwrap();
        assert_eq!(one.scenarios, 60);
        assert_eq!(one.by_cpus.iter().sum::<u64>(), one.operations);
        let kinds = [one.served, one.out_of_memory, one.not_served, one.refused, one.done, one.skipped];
        assert_eq!(kinds.iter().sum::<u64>(), one.operations, "{one:?}");
        assert_eq!(fuzz(&plan(3), &|_| true).unwrap(), one);
        assert_eq!(fuzz(&plan(2), &|_| false).unwrap(), Tally::default());
    }

    /// Lists of more than 80 operations fail, the later ones sooner.
    #[test]
    fn the_lowest_seed_is_told() {
        let fails = |scenario: &Scenario, checks| {
            let report = run_with(scenario, checks)?;
            let failure = || run_with(&"memory 0x0..0x10 node 0\n#! cached 77".parse().unwrap(), checks).unwrap_err();
            if report.outcomes.len() > 80 { Err(failure()) } else { Ok(report) }
        };
        let first = (100..).find(|&seed| generate::scenario(seed).steps.len() > 80).unwrap();
        for threads in [1, 2, 5] {
            let found = fuzz_by(&plan(threads), &|_| true, &fails).unwrap_err();
            assert_eq!((found.seed, &found.scenario), (first, &generate::scenario(first)), "{threads} threads");
        }
    }
}
