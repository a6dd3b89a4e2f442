//! Merged results for spreadsheets and data frames: a row for each cell, as RFC 4180 has it but for the ends of lines.
//!
//! Columns are the cell's fields, the result's, and then the figures of the workloads, each with its unit in its name.
//! A value that a row does not have is empty.

use std::fmt::Display;

use super::results::{Figure, Outcome, ResultLine};

/// Columns that every sweep has.
const COLUMNS: [&str; 20] = [
    "index",
    "hash",
    "version",
    "machine",
    "workload",
    "mechanisms",
    "switches",
    "cpus",
    "seed",
    "schedule",
    "warm_up_ns",
    "window_ns",
    "unit",
    "operations",
    "per_second",
    "cycles_per_operation",
    "waiting_percent",
    "lock",
    "report",
    "error",
];

/// The table, with its head.
///
/// # Errors
/// None that a table of text could cause.
pub fn csv(lines: &[ResultLine]) -> anyhow::Result<String> {
    let figures = figures(lines);
    let mut table = ::csv::Writer::from_writer(Vec::new());
    let named =
        figures.iter().map(|(name, unit)| if unit.is_empty() { name.clone() } else { format!("{name} ({unit})") });
    table.write_record(COLUMNS.into_iter().map(str::to_owned).chain(named))?;
    for line in lines {
        let cell = &line.cell;
        let known = [
            line.index.to_string(),
            line.hash.to_string(),
            line.version.clone(),
            cell.machine.clone(),
            cell.workload.clone(),
            cell.mechanisms.clone(),
            cell.switches.clone(),
            cell.cpus.to_string(),
            cell.seed.to_string(),
            cell.schedule.clone(),
        ];
        let came = came(line);
        let value = |figure: &(String, String)| text_of(value(line, figure));
        table.write_record(known.into_iter().chain(came).chain(figures.iter().map(value)))?;
    }
    Ok(String::from_utf8(table.into_inner()?)?)
}

/// The columns of what came of a cell.
fn came(line: &ResultLine) -> [String; 10] {
    match &line.outcome {
        Outcome::Result(found) => [
            found.warm_up_ns.to_string(),
            found.window_ns.to_string(),
            found.unit.clone(),
            found.operations.to_string(),
            text_of(found.per_second),
            text_of(found.cycles_per_operation),
            text_of(found.waiting_percent),
            found.lock.clone().unwrap_or_default(),
            found.report.to_string(),
            String::new(),
        ],
        Outcome::Failure(failure) => {
            let mut came: [String; 10] = Default::default();
            came[9].clone_from(&failure.error);
            came
        }
    }
}

/// Names and units of all figures, in the order in which they first appear.
fn figures(lines: &[ResultLine]) -> Vec<(String, String)> {
    let mut figures: Vec<(String, String)> = Vec::new();
    for figure in lines.iter().flat_map(figures_of) {
        if !figures.iter().any(|(name, unit)| *name == figure.name && *unit == figure.unit) {
            figures.push((figure.name.clone(), figure.unit.clone()));
        }
    }
    figures
}

fn figures_of(line: &ResultLine) -> &[Figure] {
    match &line.outcome {
        Outcome::Result(found) => &found.figures,
        Outcome::Failure(_) => &[],
    }
}

fn value(line: &ResultLine, (name, unit): &(String, String)) -> Option<f64> {
    figures_of(line).iter().find(|figure| figure.name == *name && figure.unit == *unit)?.value
}

fn text_of(value: Option<impl Display>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
