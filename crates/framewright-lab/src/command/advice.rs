//! Advice about a trace that cannot be read or replayed.
//!
//! The library's messages hold for every program. This file adds the option of this command that helps, or the file to
//! record again.

use std::io;

use anyhow::anyhow;
use framewright_trace::error::{Reason, TraceError};
use framewright_trace::flags::BitsFault;
use framewright_trace::proc::ProcFault;
use framewright_trace::replay::{ReplayError, ZoneFault};
use framewright_trace::text::LineFault;

/// A replay's error with advice.
pub(crate) fn advised(error: ReplayError) -> anyhow::Error {
    let advice = match &error {
        ReplayError::Trace(fault) => of_trace(fault.reason()),
        ReplayError::Empty(_) => "record the kernel's events kmem:mm_page_alloc and kmem:mm_page_free",
        ReplayError::NotAFile(_) => "write it to a file first",
        ReplayError::Changed { .. } => "wait until it is written, or copy it",
        ReplayError::Zone { fault, .. } => of_zone(fault),
        ReplayError::Outside { .. } => "is zoneinfo of the machine and the boot that the trace is of?",
        ReplayError::Pageblock { .. } => "is pagetypeinfo of the machine and the boot that the trace is of?",
        ReplayError::Scattered { .. } => "copy kpageflags again from the recorded machine, or leave it out",
        ReplayError::TooLarge { .. } => "--max-memory sets it",
        ReplayError::Invalid { .. } => "this is a bug of Framewright: please report it, with the trace",
        // Limits of ours: nothing that a user can do about the trace helps.
        ReplayError::TooManyFrames { .. } | ReplayError::Boot(_) => "",
    };
    with(error.into(), advice)
}

/// Advice about a zone. Its file was changed or cut, or is right and beyond a limit of ours.
fn of_zone(fault: &ZoneFault) -> &'static str {
    match fault {
        ZoneFault::NoStart | ZoneFault::Above | ZoneFault::Twice | ZoneFault::Overlap { .. } => {
            "record zoneinfo again, on the machine and in the boot that the trace is of"
        }
        ZoneFault::Nodes(_) | ZoneFault::Cpu(_) | ZoneFault::Kind => "",
    }
}

/// A trace's error with advice.
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
        Reason::Line(fault) => of_line(fault),
        Reason::Proc(fault) => of_proc(fault),
        Reason::Compact(_) => "copy the file again, or make it again with framewright convert",
        Reason::NotATrace(_) => "these are read with events of kmem in them",
        Reason::NoTrace => "name the file itself",
        _ => "",
    }
}

fn of_line(fault: &LineFault) -> &'static str {
    match fault {
        LineFault::Contradiction { .. } | LineFault::Numbering => "--migratetypes says so",
        LineFault::PageTable { .. } | LineFault::FrameAbove { .. } | LineFault::Descriptor { .. } => {
            "--vmemmap does, with the address"
        }
        LineFault::Bits(BitsFault::Doubtful { .. } | BitsFault::Atomic { .. }) => "--kernel says which it is",
        LineFault::Bits(BitsFault::Unknown { .. }) | LineFault::Flag(_) => {
            "--lenient reads such requests without it, and counts them"
        }
        // All lines of the trace are so: without them nothing is left.
        LineFault::Ticks(_) => "",
        _ => "--lenient goes on without such lines, and counts them",
    }
}

fn of_proc(fault: &ProcFault) -> &'static str {
    match fault {
        ProcFault::Empty("kernel's version") => "write its version into it, or take the file away",
        // A kernel with a mobility or of a size that is not known here says so however often it is asked.
        ProcFault::MigrateType(_) | ProcFault::TooMany(_) => "",
        _ => "copy this file again from the recorded machine",
    }
}
