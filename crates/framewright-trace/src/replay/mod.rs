//! What would have happened: a recorded kernel's requests, served by our allocator.
//!
//! A trace says what the kernel's users asked of its allocator and what they gave back, not what they would have asked of
//! another one. A replay carries the requests out on an allocator set up like the recorded machine, and is fair where
//! the two part ways:
//!
//! - An *object* is what the kernel kept in a block. It is ours wherever our allocator put it; `mirror.rs` keeps for
//!   each of the kernel's frames where our copy lies. When the kernel moved an object to a free page, ours stays where it is and
//!   changes its name; the page left behind is freed in the trace, and that free has no counterpart here.
//! - A *fault* is a task's first try for a huge page together with its retries, up to its next first try (`faults.rs`
//!   tells them). What counts is whether it got one.
//! - Where we serve a fault that the kernel failed, the trace does not say when the huge page would have been freed: it
//!   stays allocated to the end of the run. In exchange the base pages that the task then took instead (until its next
//!   try, at most 512) are not taken.
//! - Where we fail what the kernel served, that is counted, and its free is dropped.
//! - A smaller request that the kernel failed is tried for the record and freed at once: nobody used it.
//!
//! Nothing is reclaimed here: what the kernel reclaimed comes as frees, and what it compacted as moves. With `compaction` ours moves objects
//! as well, those that are movable by their request's flags, and counts how many (`homes.rs`).
//!
//! The trace is read once to see what it is worth, what the kernel did, and what was allocated before it began
//! (`survey.rs`); then once for each set of mechanisms. It is never in memory as a whole.

mod report_text;
mod replayer;
mod report;
mod observer;
mod frame_map;
mod recording;
mod recorded_machine;
mod first_pass;
mod high_order;
mod run_counts;
mod thp_faults;
mod frame_span;
mod replay_error;
mod replay_options;
mod cpu_nodes;
mod zone_map;

use std::cell::RefCell;
use std::path::Path;

use framewright::Mechanisms;

pub(crate) use self::frame_span::Span;
pub(crate) use self::observer::{Observer, Pages};
pub use self::recorded_machine::Knowledge;
pub(crate) use self::recorded_machine::RecordedMachine;
pub(crate) use self::recording::Recording;
pub use self::replay_error::ReplayError;
pub use self::replay_options::ReplayOptions;
pub(crate) use self::replayer::run;
pub use self::report::{
    Column, ExtfragRow, FreeRecorded, LinuxColumn, OrderRow, Report, TraceQuality, UnusableIndex, ZoneBlocks,
};
pub use self::report_text::Table;
pub use self::thp_faults::FirstTry;
pub use self::zone_map::ZoneFault;
pub use crate::counted::counted;

/// Replays the trace at `path` under each of `mechanisms`, under the default if there are none. `progress` hears after every
/// stretch of records how many were read so far in which pass (0 is the survey).
///
/// # Errors
/// The trace cannot be read or replayed, or our allocator broke an invariant.
pub fn replay(
    path: &Path,
    options: &ReplayOptions,
    mechanisms: &[Mechanisms],
    progress: &mut dyn FnMut(usize, u64),
) -> Result<Report, ReplayError> {
    let recording = Recording::set(path, options, &mut |records| progress(0, records))?;
    let nobody = RefCell::new(());
    let mut pass = |pass, mechanisms| run(&recording, mechanisms, &nobody, &mut |n| progress(pass, n));
    let first = pass(1, mechanisms.first().copied().unwrap_or(Mechanisms::DEFAULT))?;
    let mut columns = vec![first.clone()];
    for (i, &mechanisms) in mechanisms.iter().enumerate().skip(1) {
        columns.push(pass(i + 1, mechanisms)?);
    }
    Ok(report::report(&recording.first_pass, &recording.machine, first, columns))
}
