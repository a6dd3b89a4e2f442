//! Page-frame allocators measured side by side, with the limit of what a call can cost.
//!
//! Nanoseconds depend on the machine and on what else runs there, so the number that counts is a ratio: each contender
//! against a *limit*, the least that could do the same, taken within each of many rounds. `docs/benchmarks.md`
//! describes the workloads and the limits, and how to read the result. The modules stand in call order: each uses only
//! modules below it.
#![deny(unsafe_code)]

pub mod command;
mod smoke;
pub mod checker;
pub mod path;
mod storm;
pub mod time_bench;
pub mod instructions;
mod table;
pub mod formats;
mod report;
mod goals;
mod measure;
mod row;
pub mod foreign;
mod contenders;
mod entry;
mod cell;
mod work;
mod ring;
mod contender;
mod workload;
mod machine;
mod crew;
mod shuffle;
pub mod stats;
mod signals;
pub mod tsc;

pub use cell::{Cells, Held, Job, Sample};
pub use contender::{Contender, FRAME_BYTES, Handle, Setup, Work};
pub use contenders::contenders;
pub use contenders::system::{address_of, block_of, resident};
pub use crew::Crew;
pub use entry::{Entry, Role};
pub use foreign::Foreign;
pub use goals::{Goal, Sense, judge};
pub use machine::MachineFacts;
pub use measure::{Plan, Progress, Results, measure};
pub use report::{Report, SCHEMA};
pub use row::{Failure, Row};
pub use smoke::smoke;
pub use storm::{Storm, StormReport, StormRow};
pub use table::Table;
pub use work::Trouble;
pub use workload::Shape;
