//! Our own form of a trace: one file `*.fwt` with the events and the state before them.
//!
//! A text of 150 bytes an event becomes about one byte and a quarter, and is read several times faster. Nothing that
//! a [`Record`](crate::record::Record) holds is lost.
//!
//! ```text
//! header    magic (8 bytes), version u32, blocks u32, records u64, CRC-32 of the 24 bytes before
//! section*  tag (4 bytes), length u32, CRC-32 of tag, length and content, content
//! ```
//!
//! Numbers of fixed size are little-endian; all others are varints of seven bits a byte. Sections come in this order:
//! `zone`, `budd`, `ptyp`, `vmst` (texts of `/proc`) and `flag` (runs of frames with equal flags, in pieces), each at most
//! once but for `flag`, then one `evts` for each block of events, then `qual`, what is known of the trace's quality.
//! The content of a state section is the length of the bare data and the data compressed by brotli. A block is seven
//! columns, each compressed by itself (`block.rs`). The counts in the header are filled in last: a file whose writer died
//! has `u64::MAX` records and is refused.
//!
//! Whoever reads trusts nothing: lengths are checked against limits before memory is taken, memory for one section is
//! all that is held, and every section has a checksum, so that damage is found where it is. What was rejected: general
//! columnar formats (their libraries are larger than this crate), and one compressed stream for the whole file, which
//! has no bound on memory and no place for checksums.

mod reader;
mod writer;
mod block;
mod event_shape;
mod layout;
mod varint;

#[cfg(test)]
mod tests;

pub use self::layout::MAGIC;
pub use self::reader::CompactReader;
pub use self::writer::CompactWriter;
pub use crate::error::{CompactFault, FWT_VERSION as VERSION};
