//! A list of operations under given mechanisms, and what shows of it.

use framewright::Mechanisms;
use framewright_ops::{Scenario, transcript};

/// Plays a list; returns the outcome of each operation, the free lists after it, and the reports.
pub(crate) fn play(machine: &str, ops: &str, mechanisms: Mechanisms) -> Vec<String> {
    let parsed = format!("{machine}\n{ops}").parse();
    let mut scenario: Scenario = parsed.unwrap_or_else(|error| panic!("{error}"));
    scenario.shape.mechanisms = mechanisms;
    let seen = transcript(&scenario).unwrap_or_else(|wrong| panic!("{mechanisms}: {wrong}"));
    [seen.outcomes, seen.lists, seen.reports].concat()
}
