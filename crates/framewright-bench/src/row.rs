//! One row of the results: a contender at a workload and a number of threads.

use std::fmt;

use serde::Serialize;

use crate::cell::Sample;
use crate::entry::Role;

/// One contender at one workload and number of threads.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// Threads at work.
    pub threads: usize,
    /// The contender.
    pub allocator: String,
    /// Its role.
    pub role: Role,
    /// Median over rounds: nanoseconds of a thread's time for allocation and free of one page (one block for orders
    /// above 0; for producer and consumer, time passed from page to page).
    pub ns_per_page: f64,
    /// Smallest of the rounds.
    pub min: f64,
    /// Largest of the rounds.
    pub max: f64,
    /// Median over rounds of the ratio to the limit within a round.
    pub ratio_to_limit: Option<f64>,
    /// The contender that the ratio is taken to.
    pub limit: String,
    /// The part of `ns_per_page` that allocation took, where it was told apart.
    pub alloc_ns: Option<f64>,
    /// The part of `ns_per_page` that the free took.
    pub free_ns: Option<f64>,
    /// Throughput against one thread, paired by rounds; none for one thread.
    pub scaling: Option<f64>,
    /// Rounds that it took part in: fewer than the report's for what is very slow.
    pub rounds: usize,
    /// Blocks allocated and freed in each round, by all threads.
    pub blocks: u64,
    /// The measurements of each round, for other statistics.
    pub samples: Vec<Sample>,
}

/// A contender that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failure {
    /// The workload.
    pub workload: String,
    /// Threads at work.
    pub threads: usize,
    /// The contender.
    pub allocator: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { workload, threads, allocator, reason } = self;
        write!(f, "{allocator} at {workload} on {}: {reason}", threads_text(*threads))
    }
}

/// `1 thread`, `2 threads`.
pub(crate) fn threads_text(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}
