//! Events as the kernel keeps them: the pages of ftrace's per-CPU ring buffers.
//!
//! `per_cpu/cpuN/trace_pipe_raw` hands out whole pages, each with a time, a length and events behind one another.
//! Nothing is printed in the kernel, and an event takes 28 to 48 bytes instead of 150: that is what makes it possible
//! to record a machine under load. What the bytes mean is written beside them, in files that differ from kernel to
//! kernel, and nothing is assumed where they say it: `events/header_page` has the places of a page's own fields,
//! `format` those of an event's, and its `print fmt` the names of a request's flags (`event_format.rs`, `print_fmt.rs`). The
//! names of tasks are not in the events; they come from the tracepoints of tasks that are born or renamed, and from
//! `/proc` for those that were there before (`event_decoder.rs`). Each CPU has a buffer of its own; `merge.rs` puts them in
//! one order by their times.
//!
//! ```text
//! page      time u64, length (its top bits: events were lost before this page, and how many stands behind the data), data
//! data      header of 32 bits: kind or length in 4 bytes (5 bits), nanoseconds since the event before (27 bits); then what it is
//!   1..=28  an event of so many words        0   an event whose length is the first word
//!   29      nothing, up to the next or to the end of the page
//!   30      more nanoseconds: the next word shifted by 27     31  the time itself, but for its top 5 bits
//! ```
//!
//! Little-endian machines only: elsewhere the 5 and the 27 bits change places.
//!
//! Rejected: the text of `trace_pipe`, which costs the recorded machine more than its own allocations; perf's ring
//! buffers, whose maps need `unsafe`; and the library `libtraceevent`, which would need a C compiler.

mod event_decoder;
mod print_fmt;
mod event_format;
mod merge;
mod page;

#[cfg(test)]
mod tests;

use super::error::Excerpt;

pub use self::event_decoder::{Decoder, Happening, Mobilities, What};
pub use self::event_format::{Field, Format};
pub use self::merge::RawReader;
pub use self::page::{Lost, Page, PageLayout};
pub use self::print_fmt::FlagNames;

/// What is wrong with a page of a ring buffer, or with what describes it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RawFault {
    /// A description lacks a line.
    #[error("the description of {what} has no {field}")]
    Missing {
        /// Of what.
        what: String,
        /// The field.
        field: &'static str,
    },
    /// A line of a description cannot be read.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What should be there.
        expected: &'static str,
        /// What is there.
        found: Excerpt,
    },
    /// An event that is none of those that are read.
    #[error("events called {0} are not read")]
    UnknownEvent(Excerpt),
    /// A field is no number of 1, 2, 4 or 8 bytes.
    #[error("field {0} has {1} bytes, which is no number")]
    Size(String, usize),
    /// A page is shorter than it says, or than its header.
    #[error("the page has {found} bytes, but needs {needed}")]
    Short {
        /// Bytes of the page.
        found: usize,
        /// Bytes that it needs at least.
        needed: usize,
    },
    /// An event goes beyond its page.
    #[error("an event at byte {at} of the page's data goes beyond its end")]
    Beyond {
        /// Where it starts.
        at: usize,
    },
    /// An event is too short for its fields.
    #[error("an event of {found} bytes has no {field}")]
    NoField {
        /// The field.
        field: &'static str,
        /// Bytes of the event.
        found: usize,
    },
    /// A value that cannot be.
    #[error("an event has {field} {value}, which cannot be")]
    Value {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// The file ends in the middle of a page.
    #[error("the file ends in the middle of page {0}")]
    Cut(u64),
    /// Something is wrong with a page.
    #[error("page {number}: {fault}")]
    InPage {
        /// The page, counted from 1.
        number: u64,
        /// What is wrong.
        fault: Box<RawFault>,
    },
}

type Read<T> = Result<T, RawFault>;
