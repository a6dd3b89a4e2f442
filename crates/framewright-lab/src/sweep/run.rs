//! Cells of a plan on the CPUs of a host, in the plan's order.
//!
//! A cell that fails is a result too: it holds the message and the command that repeats the failure, and the other
//! cells go on. A run ends early only if its results cannot be kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::anyhow;
use framewright_sim::VERSION;
use framewright_sim::report::Report;
use framewright_sim::workload;

use super::cell::Cell;
use super::digest::Digest;
use super::plan::SweepPlan;
use super::results::{Failure, Figure, Found, Outcome, ResultLine};
use crate::sim::{curve, pool};

/// A report while cells run: the number of finished cells, and their share of all the work.
pub type SweepProgress<'p> = &'p mut dyn FnMut(usize, f64);

/// Runs cells of a plan, by their indices, on `threads` threads. Each is given to `record` as soon as it is done;
/// `again` is the command that runs one of them again.
///
/// # Errors
/// That of `record`, which ends the run.
///
/// # Panics
/// An index that the plan does not have.
pub fn run(
    plan: &SweepPlan,
    (indices, threads): (&[usize], usize),
    again: impl Fn(usize) -> String + Sync,
    record: impl Fn(&ResultLine) -> anyhow::Result<()> + Sync,
    progress: SweepProgress<'_>,
) -> anyhow::Result<()> {
    let thousandths = AtomicU64::new(0);
    let one = |number: usize| {
        // The pool takes the last first.
        let index = indices[indices.len() - 1 - number];
        let (hash, cell) = &plan.cells[index];
        let began = Instant::now();
        let mut told = 0;
        let mut tell = |now: u64| {
            thousandths.fetch_add(now.saturating_sub(told), Ordering::Relaxed);
            told = told.max(now);
        };
        let outcome = pool::caught(|| simulate(plan, cell, &mut |share| tell((share * 1000.0) as u64)));
        tell(1000);
        let outcome = match outcome {
            Ok(found) => Outcome::Result(found),
            Err(error) => Outcome::Failure(Failure { error: format!("{error:#}"), again: again(index) }),
        };
        let seconds = (began.elapsed().as_secs_f64() * 1000.0).round() / 1000.0;
        record(&ResultLine { seconds: Some(seconds), ..ResultLine::new(index, (hash, cell), VERSION, outcome) })
    };
    let all = indices.len() as f64 * 1000.0;
    pool::on(threads, indices.len(), one, &mut |done| {
        progress(done, thousandths.load(Ordering::Relaxed) as f64 / all);
    })?;
    Ok(())
}

/// One cell; `advance` is told which share of it is done.
fn simulate(plan: &SweepPlan, cell: &Cell, advance: &mut dyn FnMut(f64)) -> anyhow::Result<Found> {
    let job = plan.job(cell)?;
    let outcome = workload::run(&plan.machine(cell)?.model(), &job, &mut |progress| {
        advance((progress.done as f64 / progress.total.max(1) as f64).min(1.0));
    });
    // Its words have the cause in them.
    let outcome = outcome.map_err(|failure| anyhow!("{failure}"))?;
    let report = Report { mechanisms: cell.mechanisms.clone(), ..outcome.report };
    let finite = |value: f64| value.is_finite().then_some(value);
    let figure = |figure: &framewright_sim::report::Figure| Figure {
        name: figure.name.clone(),
        value: finite(figure.value),
        unit: figure.unit.clone(),
    };
    Ok(Found {
        unit: report.unit.clone(),
        operations: report.operations,
        per_second: finite(report.per_second),
        cycles_per_operation: finite(report.cycles_per_operation),
        waiting_percent: finite(curve::contention(&report)),
        lock: curve::worst_lock(&report).map(str::to_owned),
        figures: report.figures.iter().map(figure).collect(),
        warm_up_ns: report.warm_up_ns,
        window_ns: report.window_ns,
        accesses: report.accesses,
        switches: report.switches,
        report: Digest::of(&serde_json::to_string(&report)?),
    })
}
