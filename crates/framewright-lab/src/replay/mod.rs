//! What would have happened: a recorded kernel's requests, served by our allocator.
//!
//! A trace says what the kernel's users asked of its allocator and what they gave back, not what they would have asked of
//! another one. A replay carries the requests out on an allocator set up like the recorded machine, and is fair where
//! the two part ways:
//!
//! - An *object* is what the kernel kept in a block. It is ours wherever our allocator put it; `mirror.rs` keeps for
//!   each of the kernel's frames where our copy lies. When the kernel moved an object to a free page, ours stays where it is and
//!   changes its name; the page left behind is freed in the trace, and that free has no counterpart here.
//! - A *fault* is a task's first try for a huge page together with its retries, up to its next first try. What counts is whether it got one.
//! - Where we serve a fault that the kernel failed, the trace does not say when the huge page would have been freed: it
//!   stays allocated to the end of the run. In exchange the base pages that the task then took instead (until its next
//!   try, at most 512) are not taken.
//! - Where we fail what the kernel served, that is counted, and its free is dropped.
//! - A smaller request that the kernel failed is tried for the record and freed at once: nobody used it.
//!
//! Nothing is reclaimed or compacted here: what the kernel reclaimed comes as frees, what it compacted as moves.
//!
//! The trace is read once to see what it is worth, what the kernel did, and what was allocated before it began
//! (`survey.rs`); then once for each set of mechanisms. It is never in memory as a whole.

mod frames;
mod machine;
mod mirror;
mod outcome;
mod survey;
mod table;

use std::path::Path;

use framewright::Mechanisms;

pub use outcome::{Column, ExtfragRow, LinuxColumn, OrderRow, Report, UnusableIndex};
pub use table::Table;

use crate::trace::error::TraceError;
use crate::trace::text::TextOptions;

/// What can go wrong with a replay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace has no request.
    #[error("{0} has no allocation and no free")]
    Empty(String),
    /// The frames of the trace do not fit a replay.
    #[error("{file}: frames {first:#x} to {last:#x} are more than a replay can follow ({limit})")]
    TooManyFrames {
        /// The trace.
        file: String,
        /// Lowest frame.
        first: u64,
        /// Highest frame.
        last: u64,
        /// How many it can.
        limit: u64,
    },
    /// An allocator for the recorded machine cannot be set up.
    #[error("the recorded machine cannot be set up: {0}")]
    Boot(#[from] framewright::BootError),
    /// Memory was lost, or an invariant broken: a bug of ours.
    #[error("{when}: {violation}")]
    Invalid {
        /// At what point.
        when: &'static str,
        /// Which invariant.
        violation: framewright::Violation,
    },
}

/// Replays the trace at `path` under each of `mechanisms`. `progress` hears after every stretch of records how many were
/// read so far in which pass (0 is the survey).
///
/// # Errors
/// The trace cannot be read or replayed, or our allocator broke an invariant.
pub fn replay(
    path: &Path,
    options: &TextOptions,
    mechanisms: &[Mechanisms],
    progress: &mut dyn FnMut(usize, u64),
) -> Result<Report, ReplayError> {
    let survey = survey::survey(path, options, &mut |records| progress(0, records))?;
    let machine = machine::Recorded::new(&survey);
    let mut columns = Vec::new();
    for (i, &mechanisms) in mechanisms.iter().enumerate() {
        columns.push(mirror::run(path, options, &survey, &machine, mechanisms, &mut |n| progress(i + 1, n))?);
    }
    Ok(outcome::report(&survey, &machine, columns))
}
