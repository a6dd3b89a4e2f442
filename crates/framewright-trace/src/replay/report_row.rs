//! Rows of the report's main table.

use framewright_table::Table as Sheet;

use super::report::{Column, LinuxColumn, Report};

/// Least width of the first column.
const LABEL: usize = 48;
/// Least width of the others.
const VALUE: usize = 15;
/// Adds a row to the main table: a label and a cell for each column.
pub(super) fn line(table: &mut Sheet, label: &str, values: impl Iterator<Item = String>) {
    let values = values.map(|value| format!("{value:>VALUE$}"));
    table.row(std::iter::once(format!("{label:<LABEL$}")).chain(values).collect());
}

/// Adds a row: the kernel's number, if it has one, and ours.
pub(super) fn row(
    table: &mut Sheet,
    report: &Report,
    label: &str,
    linux: impl Fn(&LinuxColumn) -> Option<String>,
    ours: impl Fn(&Column) -> String,
) {
    let linux = linux(&report.linux).unwrap_or_else(|| "-".to_owned());
    line(table, label, std::iter::once(linux).chain(report.columns.iter().map(ours)));
}

/// Formats a share in percent, after a number.
pub(super) fn percent(part: u64, of: u64) -> String {
    format!(" ({:.1} %)", part as f64 * 100.0 / of as f64)
}
