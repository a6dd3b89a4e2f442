//! Replays a trace: the requests of a recorded kernel, served by our allocator.
//!
//! A trace holds what the kernel's users asked of its allocator and what they gave back, not what they would have
//! asked of another one. A replay makes the requests on an allocator that is set up like the recorded machine. These
//! rules keep it fair where the two differ:
//!
//! - An *object* is what the kernel kept in a block. Its copy is wherever our allocator put it; `frame_map.rs` has for
//!   each of the kernel's frames the frame of the copy. When the kernel moved an object to a free page, the copy stays
//!   and changes its name. The trace frees the old page, and that free has no counterpart here.
//! - A *fault* is a task's first try for a huge page together with its retries, up to its next first try
//!   (`thp_faults.rs`). It counts as served if one of them was.
//! - A fault that is served here and failed in the kernel keeps its huge page to the end of the run. The trace does not
//!   say when the page would have been freed. In exchange the task's next base pages are not allocated: those
//!   that it took instead, until its next try, at most 512.
//! - A request that fails here and was served by the kernel is counted, and its free is dropped.
//! - A smaller request that the kernel failed is tried, counted and freed at once, because nothing used it.
//!
//! Nothing is reclaimed here: the kernel's reclaim shows as frees, and its compaction as moves. With `compaction` our
//! allocator moves objects as well, if their request's flags make them movable, and the replay counts them
//! (`frame_map.rs`).
//!
//! The trace is read once for its quality, for the kernel's own results, and for the memory in use before it began
//! (`first_pass.rs`). Then it is read once for each set of mechanisms (`replayer.rs`). It is never in memory as a
//! whole.

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
use crate::trace::Place;

/// Replays the trace at `place` under each of `mechanisms`, or under the default if there are none.
///
/// Calls `progress` after every stretch of records with the pass (0 is the first) and the records that it has read so
/// far.
///
/// # Errors
/// The trace cannot be read or replayed, or our allocator broke an invariant.
pub fn replay<'a>(
    place: impl Into<Place<'a>>,
    options: &ReplayOptions,
    mechanisms: &[Mechanisms],
    progress: &mut dyn FnMut(usize, u64),
) -> Result<Report, ReplayError> {
    let recording = Recording::set(place.into(), options, &mut |records| progress(0, records))?;
    let nobody = RefCell::new(());
    let mut pass = |pass, mechanisms| run(&recording, mechanisms, &nobody, &mut |n| progress(pass, n));
    let first = pass(1, mechanisms.first().copied().unwrap_or(Mechanisms::DEFAULT))?;
    let mut columns = vec![first.clone()];
    for (i, &mechanisms) in mechanisms.iter().enumerate().skip(1) {
        columns.push(pass(i + 1, mechanisms)?);
    }
    Ok(report::report(&recording.first_pass, &recording.machine, first, columns))
}
