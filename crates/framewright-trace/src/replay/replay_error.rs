//! Errors of a replay.

use framewright::units::{Order, Pfn, PfnRange};

use super::zone_map::ZoneFault;
use crate::error::TraceError;

/// An error of a replay.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
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
    Changed { file: String, first: u64, then: u64 },
    /// A zone of the recorded machine is impossible.
    #[error("{file}: zone {zone} of node {node} {fault}")]
    Zone { file: String, node: u32, zone: String, fault: ZoneFault },
    /// The tables for the recorded machine would take too much memory.
    #[error(
        "{file}: a machine with frames {first} to {last} takes {} MiB for its frames and CPUs, more than the limit of {} MiB",
        bytes.div_ceil(1 << 20), limit >> 20
    )]
    TooLarge { file: String, first: Pfn, last: Pfn, bytes: u64, limit: u64 },
    /// The recorded machine has more frames than the tables can number.
    #[error(
        "{file}: a machine with frames {first} to {last}, {frames} of them, is larger than this program can follow: {limit} frames"
    )]
    TooManyFrames { file: String, first: Pfn, last: Pfn, frames: u64, limit: u64 },
    /// An event says another order of a pageblock than pagetypeinfo or an earlier event.
    #[error("{file}: event {event} has pageblock_order={said}, but pagetypeinfo or an earlier event says {known}")]
    Pageblock { file: String, event: u64, said: Order, known: Order },
    /// An event names memory that the recorded machine does not have.
    #[error("{file}: event {event} names frames {block}, but the recorded machine's are {known}")]
    Outside { file: String, event: u64, block: PfnRange, known: PfnRange },
    /// Memory, reserved memory and holes alternate too often.
    #[error("{file}: the memory map is in more than {limit} pieces")]
    Scattered { file: String, limit: usize },
    /// An allocator for the recorded machine cannot be set up.
    #[error("the recorded machine cannot be set up: {0}")]
    Boot(framewright::BootError),
    /// Memory was lost or an invariant broken: a bug of this project.
    #[error("{when}: {violation}")]
    Invalid { when: &'static str, violation: framewright::Violation },
}

impl From<framewright::BootError> for ReplayError {
    fn from(error: framewright::BootError) -> ReplayError {
        ReplayError::Boot(error)
    }
}
