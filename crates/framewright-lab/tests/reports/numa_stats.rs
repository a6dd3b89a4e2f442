//! The reproduction of the NUMA statistics' table: text, page and checks from made-up runs.

use crate::sim_samples::{check, compared, narrow, reported, run, shows};
use framewright_lab::reproduce::check::all_hold;
use framewright_lab::reproduce::found::Reproduction;
use framewright_lab::reproduce::numa_stats::{self, NumaStatsLengths, NumaStatsPlan, NumaStatsTable};
use framewright_lab::reproduce::plan::{Plan as _, Runs, Variations};
use framewright_lab::reproduce::published::Published as _;
use framewright_lab::reproduce::variation::{Reach, Varied};
use framewright_sim::machine::{self, Spec};
use framewright_sim::report::Report;

const COMMAND: &str = "framewright reproduce numa-stats --seed 1";

/// A run in which an allocation and its free take so many cycles.
fn outcome(cycles: f64) -> Report {
    Report { per_second: 88.0 * 2.2e9 / cycles, ..run(88) }
}

/// Runs that come out as published, but for some percent.
fn runs(plan: &NumaStatsPlan<'_>, published: &NumaStatsTable, percent: impl Fn(&str) -> f64) -> Runs {
    let of = |row: &str| {
        let theirs = published.rows.iter().find(|known| known.threshold == row).map_or(110.0, |row| row.figures.cycles);
        (row.to_owned(), reported(outcome(theirs * (1.0 + percent(row) / 100.0))))
    };
    let sets = plan.sets().unwrap();
    let mut runs = plan.found(&sets, sets.iter().flat_map(|set| set.runs.iter().map(|run| of(&run.name))));
    // Rows of 399 cycles and more are varied.
    let moved = |by: f64| runs.figures.keys().map(|row| (row.clone(), by)).collect();
    let chosen = vec![Reach { parameter: "occupancy.read".to_owned(), points: 5.5 }];
    let varied = Varied { screened: 40, chosen, rest: 3.0 };
    runs.variations = Some(Variations { base: moved(500.0), samples: vec![moved(470.0), moved(540.0)], varied });
    runs
}

fn found(percent: impl Fn(&str) -> f64) -> (Reproduction, Spec) {
    let (published, machine) = (NumaStatsTable::built_in().unwrap(), machine::named("broadwell-2x22").unwrap());
    let plan = NumaStatsPlan::new(&machine, &published, 1, NumaStatsLengths::FULL).unwrap();
    let found = numa_stats::found(&plan, &runs(&plan, &published, percent), COMMAND).unwrap();
    (found, machine)
}

/// A little off everywhere, as it really is.
fn nearly(row: &str) -> f64 {
    match row {
        "64" | "125" => -5.0,
        "256" => -4.0,
        _ => 0.0,
    }
}

#[test]
fn a_table_that_is_nearly_theirs() {
    let (found, _) = found(nearly);
    insta::assert_snapshot!(narrow(&found.text()));
    assert!(all_hold(&found.checks));
}

#[test]
fn the_same_as_json() {
    let json = compared(&found(nearly).0, 10);
    insta::assert_snapshot!(serde_json::to_string_pretty(&json["rows"][2]).unwrap());
    let fitted = |row: &&serde_json::Value| row["fitted"] == true;
    let names: Vec<&str> =
        json["rows"].as_array().unwrap().iter().filter(fitted).map(|row| row["threshold"].as_str().unwrap()).collect();
    assert_eq!(names, ["32", "20000", "30000", "disabled"]);
}

#[test]
fn what_is_off_fails() {
    type Off = fn(&str) -> f64;
    let cases: [(&str, Off); 4] = [
        ("rows in the published order", |row| if row == "64" { -20.0 } else { 0.0 }),
        ("rows not fitted within 8 %", |row| if row == "512" { 8.5 } else { 0.0 }),
        ("gain of all patches", |row| if row == "125" { -7.5 } else { 0.0 }),
        ("default: counters cost", |row| if row == "default" { 2.0 } else { 0.0 }),
    ];
    for (name, percent) in cases {
        let (found, _) = found(percent);
        let check = check(&found, name);
        assert_eq!(check.passed, Some(false), "{check}");
    }
}

#[test]
fn what_was_not_run_is_not_seen() {
    let (published, machine) = (NumaStatsTable::built_in().unwrap(), machine::named("broadwell-2x22").unwrap());
    let plan = NumaStatsPlan::new(&machine, &published, 1, NumaStatsLengths::FULL).unwrap();
    let mut runs = runs(&plan, &published, nearly);
    runs.sets.remove("beside");
    assert_eq!(numa_stats::found(&plan, &runs, COMMAND).unwrap().checks.pop().unwrap().passed, None);
}

#[test]
fn the_page_has_both_columns_and_the_checks() {
    let (found, machine) = found(nearly);
    let page = found.page(&[machine]).unwrap();
    shows(
        &page,
        &["<td>799</td>", "numa-threshold-125,numa-place=own-lines", "An allocation and its free", "occupancy.read"],
    );
    assert_eq!(page.matches("class=\"word holds\"").count(), found.checks.len());
}
