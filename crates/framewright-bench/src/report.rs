//! The report of a run, in the form of its JSON.

use serde::Serialize;

use crate::goals::Goal;
use crate::machine::MachineFacts;
use crate::row::{Failure, Row};

/// Version of the form of [`Report`]; it changes when a field changes its meaning or goes.
pub const SCHEMA: &str = "framewright-bench/1";

/// The complete result of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine.
    pub machine: MachineFacts,
    /// The mechanisms of the project's own allocator.
    pub mechanisms: String,
    /// Seed of all shuffles.
    pub seed: u64,
    /// Rounds that numbers are medians of.
    pub rounds: usize,
    /// The length of a cell in each round, in milliseconds.
    pub cell_ms: u64,
    /// Frames of 4 KiB that each contender managed.
    pub frames: usize,
    /// A row for each contender at each workload and number of threads.
    pub rows: Vec<Row>,
    /// The promises about the project's own rows, judged.
    pub goals: Vec<Goal>,
    /// Contenders that failed, with the reason.
    pub failures: Vec<Failure>,
    /// Deviations from the described method, with their reasons.
    pub notes: Vec<String>,
}
