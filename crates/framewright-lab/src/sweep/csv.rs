//! Merged results for spreadsheets and data frames: a row for each cell, as RFC 4180 has it but for the ends of lines.
//!
//! Columns are the cell's fields, the result's, and then the figures of the workloads, each with its unit in its name.
//! A value that a row does not have is empty.

use std::fmt::Display;

use super::results::{Figure, Outcome, ResultLine};

/// The table, with its head.
///
/// # Errors
/// None that a table of text could cause.
pub fn csv(lines: &[ResultLine]) -> anyhow::Result<String> {
    let figures = figures(lines);
    let mut table = ::csv::Writer::from_writer(Vec::new());
    let named =
        figures.iter().map(|(name, unit)| if unit.is_empty() { name.clone() } else { format!("{name} ({unit})") });
    table.write_record(COLUMNS.iter().map(|(name, _)| (*name).to_owned()).chain(named))?;
    for line in lines {
        let known = COLUMNS.iter().map(|(_, read)| read(line).unwrap_or_default());
        table.write_record(known.chain(figures.iter().map(|figure| text_of(value(line, figure)))))?;
    }
    Ok(String::from_utf8(table.into_inner()?)?)
}

/// A column that every sweep has: its name, and how it is read off; none where a row has no such value.
type CsvColumn = (&'static str, fn(&ResultLine) -> Option<String>);

const COLUMNS: [CsvColumn; 20] = [
    ("index", |line| Some(line.index.to_string())),
    ("hash", |line| Some(line.hash.to_string())),
    ("version", |line| Some(line.version.clone())),
    ("machine", |line| Some(line.cell.machine.clone())),
    ("workload", |line| Some(line.cell.workload.clone())),
    ("mechanisms", |line| Some(line.cell.mechanisms.clone())),
    ("switches", |line| Some(line.cell.switches.clone())),
    ("cpus", |line| Some(line.cell.cpus.to_string())),
    ("seed", |line| Some(line.cell.seed.to_string())),
    ("schedule", |line| Some(line.cell.schedule.clone())),
    ("warm_up_ns", |line| Some(line.found()?.warm_up_ns.to_string())),
    ("window_ns", |line| Some(line.found()?.window_ns.to_string())),
    ("unit", |line| Some(line.found()?.unit.clone())),
    ("operations", |line| Some(line.found()?.operations.to_string())),
    ("per_second", |line| Some(text_of(line.found()?.per_second))),
    ("cycles_per_operation", |line| Some(text_of(line.found()?.cycles_per_operation))),
    ("waiting_percent", |line| Some(text_of(line.found()?.waiting_percent))),
    ("lock", |line| line.found()?.lock.clone()),
    ("report", |line| Some(line.found()?.report.to_string())),
    ("error", |line| match &line.outcome {
        Outcome::Result(_) => None,
        Outcome::Failure(failure) => Some(failure.error.clone()),
    }),
];

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
    line.found().map_or(&[], |found| &found.figures)
}

fn value(line: &ResultLine, (name, unit): &(String, String)) -> Option<f64> {
    figures_of(line).iter().find(|figure| figure.name == *name && figure.unit == *unit)?.value
}

fn text_of(value: Option<impl Display>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
