//! Page-frame allocators measured side by side, with the limit of what a call can cost.
//!
//! Nanoseconds depend on the machine and on what else runs there, so the number that counts is a ratio: each contender
//! against a *limit*, the least that could do the same, taken within each of many rounds. `docs/benchmarks.md` says what
//! each workload and each limit is and how to read the result; the modules below say how each is done.
#![deny(unsafe_code)]

mod cell;
pub mod command;
mod contender;
mod crew;
mod formats;
mod goals;
mod limits;
mod machine;
mod measure;
mod own;
pub mod path;
mod peers;
mod report;
mod ring;
mod shuffle;
mod signals;
mod smoke;
pub mod stats;
mod storm;
mod system;
mod table;
pub mod time_bench;
pub mod tsc;
mod work;
mod workload;

pub use cell::{Cells, Held, Job, Sample};
pub use contender::{Contender, Entry, FRAME_BYTES, Handle, Role, Setup, Work};
pub use crew::{Crew, allowed_cpus};
pub use formats::Foreign;
pub use goals::{Goal, Sense, judge};
pub use machine::MachineFacts;
pub use measure::{Plan, Progress, Results, measure};
pub use report::{Failure, Report, Row, SCHEMA};
pub use smoke::smoke;
pub use storm::{Storm, StormReport, StormRow};
pub use system::resident;
pub use table::Table;
pub use work::Trouble;
pub use workload::Shape;

/// The contenders of this crate, the project's own first.
pub fn contenders() -> Vec<Entry> {
    [own::ENTRIES, limits::ENTRIES, ring::ENTRIES, peers::ENTRIES, system::ENTRIES].concat()
}

/// A lock that a panic elsewhere does not take along.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
