//! What to do next about a trace that cannot be read or replayed.
//!
//! The library says what is wrong, in words that hold for every program; here is added which option of this command
//! helps, or what to record again.

use std::io;

use anyhow::anyhow;
use framewright_trace::error::{Reason, TraceError};
use framewright_trace::replay::ReplayError;
use framewright_trace::text::LineFault;

/// A replay's error, and what helps.
pub(crate) fn advised(error: ReplayError) -> anyhow::Error {
    let advice = match &error {
        ReplayError::Trace(fault) => of_trace(fault.reason()),
        ReplayError::Empty(_) => "record the kernel's events kmem:mm_page_alloc and kmem:mm_page_free",
        ReplayError::NotAFile(_) => "write it to a file first",
        ReplayError::Changed { .. } => "wait until it is written, or copy it",
        ReplayError::Zone { .. } => "record zoneinfo again, on the machine and in the boot that the trace is of",
        ReplayError::Outside { .. } => "is zoneinfo of the machine and the boot that the trace is of?",
        ReplayError::Scattered { .. } => "copy kpageflags again from the recorded machine, or leave it out",
        ReplayError::TooLarge { .. } => "--max-memory sets it",
        ReplayError::Invalid { .. } => "this is a bug of Framewright: please report it, with the trace",
        _ => "",
    };
    with(error.into(), advice)
}

/// A trace's error, and what helps.
pub(crate) fn advised_trace(error: TraceError) -> anyhow::Error {
    let advice = of_trace(error.reason());
    with(error.into(), advice)
}

fn with(error: anyhow::Error, advice: &str) -> anyhow::Error {
    if advice.is_empty() { error } else { anyhow!("{error:#}; {advice}") }
}

fn of_trace(reason: &Reason) -> &'static str {
    match reason {
        Reason::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            "a trace is a folder with trace.txt and files of /proc, or a text or compact file"
        }
        Reason::Compression(_) => "copy the file again from where it was recorded",
        Reason::Line(LineFault::Contradiction { .. } | LineFault::Numbering) => "--migratetypes says so",
        Reason::Line(LineFault::PageTable { .. } | LineFault::FrameAbove { .. } | LineFault::Descriptor { .. }) => {
            "--vmemmap does, with the address"
        }
        Reason::Line(_) => "--lenient goes on without such lines, and counts them",
        Reason::Proc(_) => "copy this file again from the recorded machine",
        Reason::Compact(_) => "copy the file again, or make it again with framewright convert",
        Reason::NotATrace(_) => "these are read with events of kmem in them",
        Reason::NoTrace => "name the file itself",
        _ => "",
    }
}
