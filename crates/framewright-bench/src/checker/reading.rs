//! What was measured, and why something was not.

use serde::Serialize;

/// One number, over several rounds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reading {
    /// Path of the number in a machine's file, as `latency.dram`; a number that the file does not have is named only.
    pub path: String,
    /// What was measured, in words.
    pub what: String,
    /// Unit: `ns`, `gb_per_s` or `ghz`.
    pub unit: &'static str,
    /// The median of the rounds.
    pub value: f64,
    /// The smallest of them.
    pub low: f64,
    /// The largest of them.
    pub high: f64,
    /// How many rounds there were.
    pub rounds: usize,
}

/// Latency of memory while other CPUs read.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LoadedPoint {
    /// What the others read, in 10^9 bytes a second.
    pub gb_per_s: f64,
    /// What a load of another line took meanwhile, in nanoseconds.
    pub ns: f64,
}

/// Numbers that this host cannot give.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Missing {
    /// What could not be measured.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// Everything that a host gave.
#[derive(Clone, PartialEq, Default, Debug, Serialize)]
pub struct Readings {
    /// Numbers, in the order in which they were measured.
    pub rows: Vec<Reading>,
    /// The curve of loaded latency, from the lowest load to the highest.
    pub loaded: Vec<LoadedPoint>,
    /// What it could not give.
    pub missing: Vec<Missing>,
    /// Circumstances that make numbers less certain.
    pub notes: Vec<String>,
}

impl Readings {
    /// Returns the number of a path.
    pub fn value(&self, path: &str) -> Option<f64> {
        self.rows.iter().find(|row| row.path == path).map(|row| row.value)
    }
}
