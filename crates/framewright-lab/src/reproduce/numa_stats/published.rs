//! The published table.

use anyhow::{Context, ensure};
use framewright::Mechanisms;
use serde::{Deserialize, Serialize};

use crate::reproduce::published::{built_in, is_amount, names_differ};

/// The file.
const FILE: &str = include_str!("../../../../../data/published/numa-stats.toml");
/// The row without counters.
pub const DISABLED: &str = "disabled";

/// What was published.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// What it is.
    pub title: String,
    /// Where it is from.
    pub source: String,
    /// What was measured.
    pub workload: String,
    /// CPUs.
    pub cpus: usize,
    /// Thresholds, from the smallest.
    #[serde(rename = "row")]
    pub rows: Vec<Row>,
}

/// A threshold.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Events that a CPU keeps at most, or `disabled`.
    pub threshold: String,
    /// What was measured.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What an allocation and its free take.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct Figures {
    /// Cycles of one.
    pub cycles: f64,
    /// How many all CPUs do in a second.
    pub throughput: f64,
}

impl Published {
    /// The table that comes with the program.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn built_in() -> anyhow::Result<Self> {
        built_in("numa-stats.toml", FILE, Self::check)
    }

    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.cpus != 0, "there is no CPU");
        names_differ(self.rows.iter().map(|row| row.threshold.as_str()))?;
        for Row { threshold, figures } in &self.rows {
            mechanisms(threshold).with_context(|| format!("row {threshold}: no threshold"))?;
            is_amount(&format!("row {threshold}: cycles"), figures.cycles)?;
            is_amount(&format!("row {threshold}: throughput"), figures.throughput)?;
        }
        Ok(())
    }
}

/// The preset that models a row.
pub fn mechanisms(threshold: &str) -> Option<Mechanisms> {
    match threshold {
        DISABLED => Mechanisms::preset("numa-off"),
        events => Mechanisms::preset(&format!("numa-threshold-{events}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::published::mistake;

    #[test]
    fn the_two_columns_are_one_measurement() {
        let published = Published::built_in().unwrap();
        assert_eq!((published.rows.len(), published.cpus), (10, 88));
        for Row { threshold, figures } in &published.rows {
            let clock = figures.cycles * figures.throughput / published.cpus as f64 / 1e9;
            assert!((clock - 2.19).abs() < 0.006, "{threshold}: {clock}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |from, to| mistake(FILE, Published::check, (from, to));
        assert_eq!(wrong("\"64\"", "\"32\""), "row 32 is there twice");
        assert_eq!(wrong("\"64\"", "\"65534\""), "row 65534: no threshold");
        assert_eq!(wrong("cycles = 640", "cycles = 0"), "row 64: cycles is 0");
        assert!(wrong("cpus = 88", "cpu = 88").contains("unknown field"));
    }
}
