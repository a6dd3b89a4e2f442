//! Many runs of the simulated machine on any number of hosts: planned, run in parts, and merged.
//!
//! A sweep is the product of mechanisms, workloads, machines, CPUs and seeds. Each element is a cell, and its identity
//! is a digest of all that its result depends on. So three programs are enough, and they share only files: one writes
//! the plan, any number of others run cells of it and append a line for each, and one sorts the lines of all of them.
//!
//! ```text
//! plan.jsonl ── run, shard 1/2 ── plan.results-1-of-2.jsonl ──┐
//!            └── run, shard 2/2 ── plan.results-2-of-2.jsonl ──┴── merge ── a table, or the lines in the plan's order
//! ```
//!
//! A plan includes the machines and the lists of operations that it names, so a host needs only the plan and the
//! program. A cell whose digest is in the results is not run again, so a killed sweep goes on where it stopped. A
//! result is a function of its cell, so a cell that was run twice must have equal results: [`merge`] checks that.
//!
//! - [`merge`]: lines of any number of files in the plan's order; cells that are missing, foreign, or not equal;
//! - [`table`], [`csv`]: merged results for people and for spreadsheets;
//! - [`part`]: the cells of this process, by its options or by what Slurm, Kubernetes and GNU parallel tell it;
//! - [`run`]: cells on all CPUs of a host;
//! - [`results`]: the file that a process appends to, and its state after the process was killed;
//! - [`plan`]: the plan as a file;
//! - [`cell`], [`digest`]: one run, and its identity.

pub mod merge;
pub mod table;
pub mod csv;
pub mod part;
pub mod run;
pub mod results;
pub mod plan;
pub mod cell;
pub mod digest;
