//! Curves and sensitivities: every run is made once, with what it should be made with, and errors say which.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sim_samples::run;
use framewright::Mechanisms;
use framewright_lab::mechanisms;
use framewright_lab::sim::sweep::{Job, RunSweep};
use framewright_sim::machine::{self, Spec};
use framewright_sim::report::Report;

fn machine() -> Spec {
    machine::named("broadwell-2x22").unwrap()
}

/// A run whose throughput is its CPUs, over the square of how long a modified line takes to come.
fn simulate(job: &Job<'_>) -> Report {
    let latency = job.machine.parameter("latency.hitm").unwrap().value;
    let per_second = job.cpus as f64 / (latency * latency);
    Report { mechanisms: mechanisms::label(job.mechanisms), per_second, ..run(job.cpus) }
}

/// How a run is made again.
fn again(job: &Job<'_>) -> String {
    format!("{} on {}", mechanisms::label(job.mechanisms), job.cpus)
}

#[test]
fn runs_come_by_mechanisms_and_cpus() {
    let sets = [Mechanisms::BASELINE, mechanisms::parse("mixing").unwrap()];
    let machine = machine();
    let sweep = RunSweep { machine: &machine, mechanisms: &sets, cpus: &[4, 1], sensitivity: false };
    let mut told = (0, 0);
    let findings = sweep.run(|job| Ok(simulate(job)), again, &mut |done, total| told = (done, total)).unwrap();
    let runs: Vec<_> = findings.runs.iter().map(|run| (run.mechanisms.as_str(), run.cpus)).collect();
    assert_eq!(runs, [("baseline", 4), ("baseline", 1), ("mixing", 4), ("mixing", 1)]);
    assert!(findings.sensitivities.is_empty());
    assert_eq!(told, (4, 4));
}

#[test]
fn every_number_is_changed_both_ways() {
    let machine = machine();
    let scaling = machine.parameters().filter(|parameter| parameter.scales()).count();
    let sweep = RunSweep { machine: &machine, mechanisms: &[Mechanisms::BASELINE], cpus: &[1, 8], sensitivity: true };
    let made = AtomicUsize::new(0);
    let count = |job: &Job<'_>| {
        made.fetch_add(1, Ordering::Relaxed);
        Ok(simulate(job))
    };
    let findings = sweep.run(count, again, &mut |_, _| {}).unwrap();
    assert_eq!(made.into_inner(), 2 * (1 + 2 * scaling));
    assert_eq!(findings.sensitivities.len(), 2);
    for (sensitivity, cpus) in findings.sensitivities.iter().zip([1, 8]) {
        assert_eq!((sensitivity.cpus, sensitivity.rows.len()), (cpus, scaling));
        let first = &sensitivity.rows[0];
        assert_eq!(first.parameter, "latency.hitm", "the only one that does anything");
        assert!((first.lower / sensitivity.base - 1.0 / 0.81).abs() < 1e-9);
        assert!((first.higher / sensitivity.base - 1.0 / 1.21).abs() < 1e-9);
        assert_eq!(sensitivity.band, (first.higher, first.lower));
        assert!(sensitivity.rows[1..].iter().all(|row| !sensitivity.matters(row)));
    }
}

#[test]
fn a_ratio_moves_less_than_its_parts() {
    let machine = machine();
    let sets = [Mechanisms::BASELINE, mechanisms::parse("mixing").unwrap()];
    let sweep = RunSweep { machine: &machine, mechanisms: &sets, cpus: &[2, 8], sensitivity: true };
    let twice = |job: &Job<'_>| {
        let run = simulate(job);
        let factor = if *job.mechanisms == sets[0] { 1.0 } else { 2.0 };
        Ok(Report { per_second: run.per_second * factor, ..run })
    };
    let sensitivities = sweep.run(twice, again, &mut |_, _| {}).unwrap().sensitivities;
    let results: Vec<_> = sensitivities.iter().map(|s| (s.result.as_str(), s.cpus, s.mechanisms.as_str())).collect();
    let (rate, ratio) = ("page faults per second", "times the throughput of baseline");
    assert_eq!(results[..4], [(rate, 2, "baseline"), (rate, 8, "baseline"), (rate, 2, "mixing"), (rate, 8, "mixing")]);
    assert_eq!(results[4..], [(ratio, 2, "mixing"), (ratio, 8, "mixing")]);
    assert_eq!((sensitivities[4].base, sensitivities[4].band), (2.0, (2.0, 2.0)));
}

#[test]
fn errors_and_panics_end_it() {
    let machine = machine();
    let sweep = RunSweep { machine: &machine, mechanisms: &[Mechanisms::BASELINE], cpus: &[1], sensitivity: false };
    let error = sweep.run(|_| anyhow::bail!("no memory"), again, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.to_string(), "no memory\nThe run again: baseline on 1");
    let error = sweep.run(|job| panic!("{} CPU lost a page", job.cpus), again, &mut |_, _| {}).unwrap_err();
    assert_eq!(error.to_string(), "the run ended with: 1 CPU lost a page\nThe run again: baseline on 1");
    let sweep = RunSweep { sensitivity: true, ..sweep };
    let fails = |job: &Job<'_>| match job.change {
        Some(("latency.hitm", _)) => anyhow::bail!("lost a page"),
        _ => Ok(simulate(job)),
    };
    let error = sweep.run(fails, again, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.starts_with("lost a page\nThe run again, with latency.hitm x "), "{error}");
}
