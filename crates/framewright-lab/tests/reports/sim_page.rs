//! The page for a browser: a small one in full, and what holds for any.

use crate::sim_samples::{asks_nobody, bases, is_closed, run, sensitivity};

use framewright_lab::html::RunsPage;
use framewright_lab::sim::Sensitivity;
use framewright_sim::machine::{Parameter, Unit};
use framewright_sim::report::Report;

const COMMAND: &str = "framewright sim --machine skylake-sp-2x28 --workload page_fault1 --mechanisms patch1 \
                       --cpus 1,8,28,56,112 --seed 1 --report report";

/// One number of each basis, and a point of a curve.
fn parameters() -> Vec<Parameter> {
    let rows = [
        ("latency.hitm", 53.7, Unit::Ns, None),
        ("occupancy.read", 8.5, Unit::Ns, None),
        ("memory.loaded.1", 1.13, Unit::Ratio, Some((27.3, Unit::Percent))),
    ];
    let parameter = |((path, value, unit, at), basis): ((&str, f64, Unit, _), _)| Parameter {
        path: path.to_owned(),
        value,
        unit,
        at,
        basis,
    };
    rows.into_iter().zip(bases()).map(parameter).collect()
}

fn page(runs: &[Report], sensitivities: &[Sensitivity]) -> String {
    let parameters = parameters();
    let parameters: Vec<&Parameter> = parameters.iter().collect();
    RunsPage { command: COMMAND, runs, parameters: &parameters, sensitivities }.render().unwrap()
}

/// Curves of two sets of mechanisms.
fn two_curves() -> Vec<Report> {
    let mut runs: Vec<Report> = [1, 8, 28, 56, 112].map(run).to_vec();
    runs.extend([1, 8, 28, 56, 112].map(|cpus| {
        let faster = 1.0 + 0.3 * cpus as f64 / 112.0;
        let mut report = Report { mechanisms: "no_merge+cluster_alloc".to_owned(), ..run(cpus) };
        report.per_second *= faster;
        report.cycles_per_operation /= faster;
        report.locks.iter_mut().for_each(|lock| lock.contention_percent *= 0.4);
        report
    }));
    runs
}

/// What the style sheet says is not worth a snapshot.
fn without_style(page: &str) -> String {
    let (head, rest) = page.split_once("<style>").unwrap();
    format!("{head}{}", rest.split_once("</style>").unwrap().1)
}

#[test]
fn a_small_page() {
    let mut runs = [1, 112].map(run);
    for run in &mut runs {
        run.per_cpu.truncate(4);
        run.locks.truncate(1);
        run.lines.truncate(1);
    }
    insta::assert_snapshot!(without_style(&page(&runs, &[sensitivity()])));
}

#[test]
fn pages_ask_nobody_for_anything() {
    let page = page(&two_curves(), &[sensitivity()]);
    asks_nobody(&page);
    if let Some(path) = std::env::var_os("FRAMEWRIGHT_PAGE") {
        std::fs::write(path, page).unwrap();
    }
}

#[test]
fn what_is_in_the_data_is_text() {
    let hostile = "<script>alert(\"1\")</script> & 'more'";
    let mut report = run(8);
    report.workload = hostile.to_owned();
    report.mechanisms = hostile.to_owned();
    report.unit = hostile.to_owned();
    report.locks[0].name = hostile.to_owned();
    report.lines[0].name = hostile.to_owned();
    report.figures[0].name = hostile.to_owned();
    let page = RunsPage { command: hostile, runs: &[report, run(28)], parameters: &[], sensitivities: &[] };
    let page = page.render().unwrap();
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;"));
}

#[test]
fn every_element_is_closed() {
    let page = page(&two_curves(), &[sensitivity()]);
    is_closed(&page);
}

#[test]
fn runs_without_anything_to_show_make_a_page() {
    let bare = Report { locks: vec![], lines: vec![], per_cpu: vec![], figures: vec![], per_second: 0.0, ..run(1) };
    assert!(page(&[bare], &[]).contains("1 CPU "));
    assert!(page(&[], &[]).contains("<main>"));
}
