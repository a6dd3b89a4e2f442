//! Collects the results of all runs, and shows them as a table and as CSV.
//!
//! The idea: a row is a measured quantity, a column a preset. A cell has the median of the rounds and its ratio to the
//! first column, which is stock unless the user chose otherwise.
//!
//! Cost: none. Rejected: means, which one slow round of a busy host moves.

use std::io::Write;

use anyhow::Result;
use framewright_table::{Table, figures};

use crate::console::Measured;

/// Results of all runs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    presets: Vec<String>,
    runs: Vec<(usize, u32, Vec<Measured>)>,
}

impl Report {
    /// A report without results on these presets.
    pub fn new(presets: &[String]) -> Report {
        Report { presets: presets.to_vec(), runs: Vec::new() }
    }

    /// Adds the results of a round for the preset with this index.
    pub fn add(&mut self, preset: usize, round: u32, results: Vec<Measured>) {
        self.runs.push((preset, round, results));
    }

    /// The table.
    pub fn table(&self) -> String {
        let mut table = Table::new("<<>");
        let mut heading = vec!["quantity".to_owned(), "unit".to_owned()];
        for (column, preset) in self.presets.iter().enumerate() {
            heading.push(preset.clone());
            if column > 0 {
                heading.push(String::new());
            }
        }
        table.row(heading);
        for (name, unit) in self.quantities() {
            let mut row = vec![name.to_owned(), unit.to_owned()];
            let first = self.median(0, name);
            for column in 0..self.presets.len() {
                let median = self.median(column, name);
                row.push(median.map_or("-".to_owned(), figures::grouped));
                if column > 0 {
                    let ratio = first.filter(|first| *first != 0.0).zip(median).map(|(first, median)| median / first);
                    row.push(ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}x")));
                }
            }
            table.row(row);
        }
        table.to_string()
    }

    /// Writes every single result as CSV, with a heading.
    ///
    /// # Errors
    ///
    /// The output cannot be written.
    pub fn csv(&self, output: impl Write) -> Result<()> {
        let mut csv = csv::Writer::from_writer(output);
        csv.write_record(["preset", "round", "quantity", "value", "unit"])?;
        for (preset, round, results) in &self.runs {
            let preset = self.presets.get(*preset).map_or("", String::as_str);
            for Measured { name, value, unit } in results {
                csv.write_record([preset, &round.to_string(), name, &value.to_string(), unit])?;
            }
        }
        csv.flush()?;
        Ok(())
    }

    /// Whether no run has a result.
    pub fn is_empty(&self) -> bool {
        self.quantities().is_empty()
    }

    /// The quantities and their units, in the order in which they came first.
    fn quantities(&self) -> Vec<(&str, &str)> {
        let mut quantities: Vec<(&str, &str)> = Vec::new();
        for Measured { name, unit, .. } in self.runs.iter().flat_map(|(_, _, results)| results) {
            if !quantities.iter().any(|(known, _)| known == name) {
                quantities.push((name, unit));
            }
        }
        quantities
    }

    /// The median of a quantity over the rounds of a preset.
    fn median(&self, preset: usize, name: &str) -> Option<f64> {
        let of_preset = self.runs.iter().filter(|(run, _, _)| *run == preset).flat_map(|(_, _, results)| results);
        median(of_preset.filter(|result| result.name == name).map(|result| result.value))
    }
}

/// The median; of an even number of values, the mean of the middle two.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied()?;
    match values.len() % 2 {
        0 => Some(upper.midpoint(values.get(middle.checked_sub(1)?).copied()?)),
        _ => Some(upper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_medians_and_ratios() {
        let mut report = Report::new(&["stock".to_owned(), "default".to_owned(), "none".to_owned()]);
        let measured =
            |name: &str, value: f64, unit: &str| Measured { name: name.to_owned(), value, unit: unit.to_owned() };
        assert!(report.is_empty());
        for (round, factor) in [(1, 1.0), (2, 3.0), (3, 1.1)] {
            let rate = measured("page_fault_1", 1_234_567.0 * factor, "faults/s");
            report.add(0, round, vec![rate, measured("boot_seconds", 0.42, "s")]);
            report.add(1, round, vec![measured("page_fault_1", 1_300_000.0 * factor, "faults/s")]);
        }
        report.add(1, 4, vec![measured("page_fault_1", 1_500_000.0, "faults/s"), measured("only_default", 0.0, "KiB")]);
        let mut csv = Vec::new();
        report.csv(&mut csv).expect("CSV");
        insta::assert_snapshot!(format!("{}\n{}", report.table(), String::from_utf8_lossy(&csv)));
    }
}
