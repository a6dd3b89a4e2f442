//! What would have happened: a recorded kernel's requests, served by our allocator.
//!
//! A trace says what the kernel's users asked of its allocator and what they gave back, not what they would have asked of
//! another one. A replay carries the requests out on an allocator set up like the recorded machine, and is fair where
//! the two part ways:
//!
//! - An *object* is what the kernel kept in a block. It is ours wherever our allocator put it; `replayer.rs` keeps for
//!   each of the kernel's frames where our copy lies. When the kernel moved an object to a free page, ours stays where it is and
//!   changes its name; the page left behind is freed in the trace, and that free has no counterpart here.
//! - A *fault* is a task's first try for a huge page together with its retries, up to its next first try (`thp_faults.rs`
//!   tells them). What counts is whether it got one.
//! - Where we serve a fault that the kernel failed, the trace does not say when the huge page would have been freed: it
//!   stays allocated to the end of the run. In exchange the base pages that the task then took instead (until its next
//!   try, at most 512) are not taken.
//! - Where we fail what the kernel served, that is counted, and its free is dropped.
//! - A smaller request that the kernel failed is tried for the record and freed at once: nobody used it.
//!
//! Nothing is reclaimed here: what the kernel reclaimed comes as frees, and what it compacted as moves. With `compaction` ours moves objects
//! as well, those that are movable by their request's flags, and counts how many (`frame_map.rs`).
//!
//! The trace is read once to see what it is worth, what the kernel did, and what was allocated before it began
//! (`first_pass.rs`); then once for each set of mechanisms. It is never in memory as a whole.

mod thp_faults;
mod frame_span;
mod frame_map;
mod high_order;
mod recorded_machine;
mod replayer;
mod report;
mod first_pass;
mod report_text;
mod observer;
mod zone_map;

use std::cell::RefCell;
use std::path::Path;

use framewright::Mechanisms;
use framewright::pfn::{Order, Pfn, PfnRange};

pub use recorded_machine::Knowledge;
pub use report::{
    Column, ExtfragRow, FreeRecorded, LinuxColumn, OrderRow, Report, TraceQuality, UnusableIndex, ZoneBlocks,
};
pub use report_text::{Table, counted};
pub use thp_faults::FirstTry;
pub use zone_map::ZoneFault;

pub(crate) use frame_span::Span;
pub(crate) use observer::{Pages, Watch};
pub(crate) use recorded_machine::Recorded;
pub(crate) use report_text::grouped;

use crate::Trace;
use crate::error::{TraceError, file_name};
use crate::text::TextOptions;
use first_pass::Survey;

/// How to replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplayOptions {
    /// How to read a text trace.
    pub text: TextOptions,
    /// How many bytes the tables may take: those with an entry for each frame or CPU of the recorded machine, which a trace can
    /// claim to be of any size. A machine of 1 GiB has 6 MiB of tables.
    pub memory_limit: u64,
}

impl Default for ReplayOptions {
    /// Up to 4 GiB of tables, enough for a machine of 680 GiB.
    fn default() -> ReplayOptions {
        ReplayOptions { text: TextOptions::default(), memory_limit: 4 << 30 }
    }
}

/// What can go wrong with a replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace has no request.
    #[error("{0} has no allocation and no free")]
    Empty(String),
    /// The trace is read more than once, and this is no file.
    #[error("{0} is no file; a replay reads its trace more than once")]
    NotAFile(String),
    /// The trace was not the same when it was read again.
    #[error("{file} had {first} events when it was read first and {then} when it was read again")]
    Changed {
        /// The trace.
        file: String,
        /// Its events at first.
        first: u64,
        /// Its events then.
        then: u64,
    },
    /// A zone of the recorded machine cannot be.
    #[error("{file}: zone {zone} of node {node} {fault}")]
    Zone {
        /// The trace.
        file: String,
        /// The zone's node.
        node: u32,
        /// The zone's name.
        zone: String,
        /// What is wrong with it.
        fault: ZoneFault,
    },
    /// The tables for the recorded machine would take too much memory.
    #[error(
        "{file}: a machine with frames {first} to {last} takes {} MiB for its frames and CPUs, more than the limit of {} MiB",
        bytes.div_ceil(1 << 20), limit >> 20
    )]
    TooLarge {
        /// The trace.
        file: String,
        /// The machine's first frame.
        first: Pfn,
        /// The machine's last frame.
        last: Pfn,
        /// What they would take.
        bytes: u64,
        /// What they may take.
        limit: u64,
    },
    /// The recorded machine has more frames than the tables can number.
    #[error(
        "{file}: a machine with frames {first} to {last}, {frames} of them, is larger than this program can follow: {limit} frames"
    )]
    TooManyFrames {
        /// The trace.
        file: String,
        /// The machine's first frame.
        first: Pfn,
        /// The machine's last frame.
        last: Pfn,
        /// How many frames it has, without wide gaps.
        frames: u64,
        /// How many it may have.
        limit: u64,
    },
    /// An event says another order of a pageblock than pagetypeinfo or an earlier event.
    #[error("{file}: event {event} has pageblock_order={said}, but pagetypeinfo or an earlier event says {known}")]
    Pageblock {
        /// The trace.
        file: String,
        /// Number of the event, counted from 1.
        event: u64,
        /// What the event says.
        said: Order,
        /// What was said before.
        known: Order,
    },
    /// An event names memory that the recorded machine does not have.
    #[error("{file}: event {event} names frames {block}, but the recorded machine's are {known}")]
    Outside {
        /// The trace.
        file: String,
        /// Number of the event, counted from 1.
        event: u64,
        /// The frames.
        block: PfnRange,
        /// From the machine's first frame to its last.
        known: PfnRange,
    },
    /// Memory, reserved memory and holes alternate too often.
    #[error("{file}: the memory map is in more than {limit} pieces")]
    Scattered {
        /// The trace.
        file: String,
        /// How many there may be.
        limit: usize,
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

/// A trace that was read once, to be replayed any number of times.
pub(crate) struct Stage<'a> {
    path: &'a Path,
    options: &'a ReplayOptions,
    pub(crate) survey: Survey,
    pub(crate) machine: Recorded,
}

impl<'a> Stage<'a> {
    /// Surveys a trace. `progress` hears how many records were read.
    pub(crate) fn set(
        path: &'a Path,
        options: &'a ReplayOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Stage<'a>, ReplayError> {
        // What cannot be asked for its kind cannot be opened either; that error says more.
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            return Err(ReplayError::NotAFile(file_name(path)));
        }
        let survey = first_pass::survey(path, options, progress)?;
        let machine = Recorded::new(&survey)?;
        Ok(Stage { path, options, survey, machine })
    }

    /// The trace, from its first record.
    pub(crate) fn open(&self) -> Result<Trace, TraceError> {
        Trace::open_with(self.path, &self.options.text)
    }

    /// Checks that tables with so many more bytes for each frame may be made.
    pub(crate) fn spare(&self, more: u64) -> Result<(), ReplayError> {
        let bytes = self.survey.span.bytes(more);
        let (span, limit) = (&self.survey.span, self.options.memory_limit);
        if bytes > limit { Err(span.too_large(&self.survey.name, bytes, limit)) } else { Ok(()) }
    }

    /// Replays it, with somebody watching.
    pub(crate) fn play<W: Watch>(
        &self,
        mechanisms: Mechanisms,
        watch: &RefCell<W>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Column, ReplayError> {
        replayer::run(self, mechanisms, watch, progress)
    }
}

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
    let stage = Stage::set(path, options, &mut |records| progress(0, records))?;
    let nobody = RefCell::new(());
    let mut run = |pass, mechanisms| stage.play(mechanisms, &nobody, &mut |n| progress(pass, n));
    let first = run(1, mechanisms.first().copied().unwrap_or(Mechanisms::DEFAULT))?;
    let mut columns = vec![first.clone()];
    for (i, &mechanisms) in mechanisms.iter().enumerate().skip(1) {
        columns.push(run(i + 1, mechanisms)?);
    }
    Ok(report::report(&stage.survey, &stage.machine, first, columns))
}
