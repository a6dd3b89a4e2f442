//! Events as the kernel keeps them: the pages of ftrace's per-CPU ring buffers.
//!
//! `per_cpu/cpuN/trace_pipe_raw` yields whole pages, each with a time, a length and events one after the other. The
//! kernel prints nothing, and an event takes 28 to 48 bytes instead of 150. So a machine can be recorded under load.
//!
//! Files in tracefs describe the bytes. They differ from kernel to kernel, and nothing is assumed that they tell:
//!
//! | read from | by | tells |
//! |---|---|---|
//! | `events/header_page` | `page.rs` | the places of a page's own fields |
//! | `format` of an event | `event_format.rs` | the places of the event's fields |
//! | its `print fmt` | `print_fmt.rs` | the names of a request's flags |
//!
//! The names of tasks are not in the events. They come from the tracepoints of new and renamed tasks
//! (`event_decoder.rs`), and from `/proc` for older tasks. Each CPU has a buffer of its own; `merge.rs` puts them in
//! one order by their times.
//!
//! ```text
//! page      time u64, length (its top bits: events were lost before this page; their number follows the data), data
//! data      header of 32 bits: kind or length in 4 bytes (5 bits), nanoseconds since the event before (27 bits); then:
//!   1..=28  an event of that many words      0   an event whose length is the first word
//!   29      nothing, up to the next or to the end of the page
//!   30      more nanoseconds: the next word shifted by 27     31  the time itself, but for its top 5 bits
//! ```
//!
//! Little-endian machines only: elsewhere the 5 and the 27 bits change places.
//!
//! Rejected:
//!
//! - the text of `trace_pipe`, which costs the recorded machine more than its own allocations;
//! - perf's ring buffers, whose maps need `unsafe`;
//! - the library `libtraceevent`, which needs a C compiler.

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
