//! Traces of a kernel's page allocator: the requests of its users, as its tracepoints recorded them.
//!
//! [`Trace::open`] reads all forms of a trace:
//!
//! - the text that ftrace, `trace-cmd report` or `perf script` print, compressed or not;
//! - a directory with such a text and files of `/proc` from just before it;
//! - our own file `*.fwt`, which holds both.
//!
//! It yields [`record::Record`]s in the order of the trace. With them come the state of memory before the first one
//! ([`state::InitialState`]) and the quality of the trace ([`record::Quality`]). [`convert`] writes a `*.fwt`.
//!
//! [`replay::replay`] makes the recorded requests on Framewright's allocator. [`explain`] tells why one of them fell
//! back or failed.
//!
//! The modules stand in call order, and each uses only modules below it:
//!
//! | module | job |
//! |---|---|
//! | `explain/` | the events that led to a fallback or a failure |
//! | `replay/` | a trace's requests on our allocator, beside what Linux did |
//! | `trace.rs` | which form a file has |
//! | `fwt/`, `text/`, `ring_buffer/` | the three forms: our file, a tracer's text, the kernel's pages |
//! | `state.rs`, `proc/` | memory before the trace, from files of `/proc` |
//! | `record/` | one event, the names of tasks, the quality of the whole |
//! | `flags/` | `gfp_flags` of all kernels since 2.6.31 |
//! | `input.rs`, `lines.rs`, `decompress.rs`, `output.rs` | files |
//!
//! Everything here reads files that others made. So memory is bounded whatever they hold, nothing in them can make the
//! program panic, and an error names file, line and reason.
#![forbid(unsafe_code)]

pub mod explain;
pub mod replay;
mod trace;
pub mod fwt;
pub mod text;
pub mod ring_buffer;
pub mod state;
pub mod proc;
pub mod record;
pub mod input;
pub mod error;
pub mod flags;
mod lines;
mod decompress;
pub mod output;
pub mod mechanisms;
mod struct_page;
mod counted;

#[cfg(test)]
mod tests;

pub use self::trace::{AFTER, Place, Trace, convert};

/// Tests the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
