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

mod merge;
mod event_decoder;
mod print_fmt;
mod page;
mod event_format;

#[cfg(test)]
mod tests;

pub use self::event_decoder::{DecodedEvent, Decoder, Mobilities, Payload};
pub use self::event_format::{Field, Format};
pub use self::merge::RawReader;
pub use self::page::{Lost, Page, PageLayout};
pub use self::print_fmt::FlagNames;
pub use crate::error::RawFault;
