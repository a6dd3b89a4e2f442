//! Many runs of the simulated machine, on as many hosts as one has: planned, run in parts, and put together again.
//!
//! A sweep is the product of mechanisms, workloads, machines, CPUs and seeds. Each element is a cell, and a cell is
//! known by a digest of all that its result depends on. That makes three programs enough, which share nothing but
//! files: one writes the plan, any number of others run cells of it and append a line for each, and one sorts the lines
//! of all of them.
//!
//! ```text
//! plan.jsonl ── run, shard 1/2 ── plan.results-1-of-2.jsonl ──┐
//!           └── run, shard 2/2 ── plan.results-2-of-2.jsonl ──┴── merge ── a table, or the same lines whoever ran them
//! ```
//!
//! A plan holds what it names, machines and lists of operations too, so a host needs the plan and the program and
//! nothing else. What is in the results by its digest is not run again, so a sweep that was killed goes on where it
//! was. And since a result is a function of its cell, a cell that was run twice has to have come out the same twice:
//! [`merge`] checks it.
//!
//! - [`merge`]: lines of any number of files, in the plan's order; what is missing, foreign, or not equal;
//! - [`table`], [`csv`]: the same for people and for spreadsheets;
//! - [`part`]: which cells are this process' own, by its options or by what Slurm, Kubernetes and GNU parallel tell it;
//! - [`run`]: cells on all CPUs of a host;
//! - [`results`]: the file that a process appends to, and what is left of it when the process is killed;
//! - [`plan`]: the plan as a file;
//! - [`cell`], [`digest`]: one run, and how it is known again.

pub mod merge;
pub mod table;
pub mod csv;
pub mod part;
pub mod run;
pub mod results;
pub mod plan;
pub mod cell;
pub mod digest;
