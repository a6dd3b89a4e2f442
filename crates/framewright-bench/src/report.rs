//! The results, as JSON has them.

use serde::Serialize;

use crate::cell::Sample;
use crate::contender::Role;
use crate::goals::Goal;
use crate::machine::MachineFacts;

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

/// One contender at one workload and number of threads.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// Threads at work.
    pub threads: usize,
    /// The contender.
    pub allocator: String,
    /// What it is for.
    pub role: Role,
    /// Median over rounds: nanoseconds of a thread's time for allocation and free of one page (one block for orders above 0;
    /// for producer and consumer, time passed from page to page).
    pub ns_per_page: f64,
    /// Smallest of the rounds.
    pub min: f64,
    /// Largest of the rounds.
    pub max: f64,
    /// Median over rounds of the ratio to the limit in the same round.
    pub ratio_to_limit: Option<f64>,
    /// The contender that the ratio is taken to.
    pub limit: String,
    /// Of `ns_per_page`, what allocation took, where it was told apart.
    pub alloc_ns: Option<f64>,
    /// Of `ns_per_page`, what the free took.
    pub free_ns: Option<f64>,
    /// Throughput against one thread, paired by rounds; none for one thread.
    pub scaling: Option<f64>,
    /// Rounds that it took part in: fewer than the report's for what is very slow.
    pub rounds: usize,
    /// Blocks allocated and freed in each round, by all threads.
    pub blocks: u64,
    /// What was measured in each of its rounds, for whoever does statistics of their own.
    pub samples: Vec<Sample>,
}

/// A contender that did not do what it should.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failure {
    /// The workload.
    pub workload: String,
    /// Threads at work.
    pub threads: usize,
    /// The contender.
    pub allocator: String,
    /// What it did.
    pub reason: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Failure { workload, threads, allocator, reason } = self;
        write!(f, "{allocator} at {workload} on {}: {reason}", threads_text(*threads))
    }
}

/// `1 thread`, `2 threads`.
pub(crate) fn threads_text(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}
