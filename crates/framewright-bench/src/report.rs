//! The results, as JSON has them.

use serde::Serialize;

use crate::goals::Goal;
use crate::machine::MachineFacts;
use crate::row::{Failure, Row};

/// Version of the form of [`Report`]; it changes when a field changes its meaning or goes.
pub const SCHEMA: &str = "framewright-bench/1";

/// Everything that a run found out.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The machine.
    pub machine: MachineFacts,
    /// The mechanisms of the project's own allocator.
    pub mechanisms: String,
    /// For all shuffles.
    pub seed: u64,
    /// Rounds that numbers are medians of.
    pub rounds: usize,
    /// What each cell was given in each round, in milliseconds.
    pub cell_ms: u64,
    /// Frames of 4 KiB that each contender managed.
    pub frames: usize,
    /// A row for each contender at each workload and number of threads.
    pub rows: Vec<Row>,
    /// How the project's own rows stand to what it promises.
    pub goals: Vec<Goal>,
    /// Contenders that failed, with the reason.
    pub failures: Vec<Failure>,
    /// What could not be measured as described, and why.
    pub notes: Vec<String>,
}
