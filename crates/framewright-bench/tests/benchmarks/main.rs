//! Benchmarks: every contender at every workload, and reports of made-up results.

mod contenders;
mod report;
