//! Traces of a kernel's page allocator: what its users asked of it, as recorded by its tracepoints.
//!
//! [`Trace::open`] takes whatever there is: the text that ftrace, `trace-cmd report` or `perf script` print, compressed or
//! not; a directory with such a text and files of `/proc` from just before it; or our own compact form, which holds both.
//! It yields [`record::Record`]s in the order of the trace, together with what is known of memory before the first one
//! ([`state::InitialState`]) and how far the trace can be trusted ([`record::Quality`]). [`convert`] writes the compact form.
//!
//! [`replay::replay`] asks Framewright for what the trace says was asked of Linux, and [`explain`] tells why a request fell
//! back or failed.
//!
//! Files by what they know: `input.rs` compression and lines, `text/` the tracers' formats, `flags/` the kernels' flags,
//! `raw/` the kernel's own buffers, `proc/` the formats of `/proc`, `compact/` our own, `record.rs` and `state.rs` what is
//! the same for all, `open.rs` which is which, `output.rs` how files are written. `replay/` and `explain/` stand on them.
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

pub use self::trace::{AFTER, Trace, convert};
