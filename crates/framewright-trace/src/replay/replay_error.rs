//! Errors of a replay.

use framewright::units::{Order, Pfn, PfnRange};

use super::zone_map::ZoneFault;
use crate::error::TraceError;

/// An error of a replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace has no request.
    #[error("{0} has no allocation and no free")]
    Empty(String),
    /// The trace is no file, and so cannot be read more than once.
    #[error("{0} is no file; a replay reads its trace more than once")]
    NotAFile(String),
    /// The trace changed between two passes.
    #[error("{file} had {first} events when it was read first and {then} when it was read again")]
    Changed {
        /// The trace.
        file: String,
        /// Its events at first.
        first: u64,
        /// Its events then.
        then: u64,
    },
    /// A zone of the recorded machine is impossible.
    #[error("{file}: zone {zone} of node {node} {fault}")]
    Zone {
        /// The trace.
        file: String,
        /// The zone's node.
        node: u32,
        /// The zone's name.
        zone: String,
        /// The zone's fault.
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
        /// The bytes that the tables would take.
        bytes: u64,
        /// The bytes that the tables may take.
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
        /// Its number of frames, without wide gaps.
        frames: u64,
        /// The most frames that it may have.
        limit: u64,
    },
    /// An event says another order of a pageblock than pagetypeinfo or an earlier event.
    #[error("{file}: event {event} has pageblock_order={said}, but pagetypeinfo or an earlier event says {known}")]
    Pageblock {
        /// The trace.
        file: String,
        /// Number of the event, counted from 1.
        event: u64,
        /// The order by the event.
        said: Order,
        /// The order that was known before.
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
        /// The most pieces.
        limit: usize,
    },
    /// An allocator for the recorded machine cannot be set up.
    #[error("the recorded machine cannot be set up: {0}")]
    Boot(#[from] framewright::BootError),
    /// Memory was lost or an invariant broken: a bug of this project.
    #[error("{when}: {violation}")]
    Invalid {
        /// The point of the replay.
        when: &'static str,
        /// The invariant that is broken.
        violation: framewright::Violation,
    },
}
