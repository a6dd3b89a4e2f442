//! What can go wrong with a replay.

use framewright::pfn::{Order, Pfn, PfnRange};

use super::zone_map::ZoneFault;
use crate::error::TraceError;

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
