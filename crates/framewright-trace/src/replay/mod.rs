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
//! - A fault that is served here and failed in the kernel *gains* a huge page. The task's next base pages are not
//!   allocated, at most 512: they stand for pages of the huge page. It is freed with the last of them
//!   (`gained.rs`).
//! - A request that fails here and was served by the kernel is counted, and its free is dropped.
//! - A smaller request that the kernel failed is tried, counted and freed at once, because nothing used it.
//!
//! The kernel's reclaim shows as frees, and its compaction as moves. When our allocator is short of memory, an object
//! that the kernel reclaimed later is *reclaimed early*, and a gained huge page is split last of all (`relief.rs`).
//! Each set of mechanisms is also run with two bounds: nothing is reclaimed here, and all of it as soon as it is
//! allocated. With `compaction` our allocator moves objects as well, if their request's flags make them movable, and
//! the replay counts them (`frame_map.rs`).
//!
//! The trace is read once for its quality, for the kernel's own results, and for the memory in use before it began
//! (`first_pass.rs`). Then it is read three times for each set of mechanisms (`replayer.rs`). It is never in memory
//! as a whole.

mod report_text;
mod relief_text;
mod report_row;
mod run;
mod replayer;
mod report;
mod bound;
mod page_costs;
mod recording;
mod relief;
mod observer;
mod reclaimable;
mod gained;
mod frame_map;
mod recorded_machine;
mod first_pass;
mod reclaim_context;
mod lifetimes;
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

pub use self::bound::Bound;
pub(crate) use self::frame_span::Span;
pub(crate) use self::observer::{Observer, Pages};
pub use self::page_costs::PageCosts;
pub use self::recorded_machine::Knowledge;
pub(crate) use self::recorded_machine::RecordedMachine;
pub(crate) use self::recording::Recording;
pub(crate) use self::relief::EarlyReclaim;
pub use self::replay_error::ReplayError;
pub use self::replay_options::ReplayOptions;
pub use self::report::{
    Column, ExtfragRow, FreeRecorded, LinuxColumn, OrderRow, Report, TraceQuality, UnusableIndex, ZoneBlocks,
};
pub use self::report_text::Table;
pub(crate) use self::run::run;
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
    let mut passes = 0;
    let mut pass = |mechanisms, early| {
        passes += 1;
        run(&recording, (mechanisms, early), &nobody, &mut |n| progress(passes, n))
    };
    let mut columns = Vec::new();
    for &mechanisms in if mechanisms.is_empty() { &[Mechanisms::DEFAULT] } else { mechanisms } {
        columns.push(Column {
            nothing_reclaimed: pass(mechanisms, EarlyReclaim::Never)?.into(),
            all_reclaimed_at_once: pass(mechanisms, EarlyReclaim::AtOnce)?.into(),
            ..pass(mechanisms, EarlyReclaim::WhenAsked)?
        });
    }
    let first = columns[0].clone();
    Ok(report::report(&recording.first_pass, &recording.machine, first, columns))
}

/// Number of times that [`replay`] reads a trace for this number of sets of mechanisms.
pub const fn passes(mechanisms: usize) -> usize {
    1 + 3 * mechanisms
}
