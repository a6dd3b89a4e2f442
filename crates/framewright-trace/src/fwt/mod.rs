//! Our own file of a trace, `*.fwt`: the events and the state before them.
//!
//! A text of 150 bytes an event becomes about one byte and a quarter, and is read several times faster. Nothing that a
//! [`Record`](crate::record::Record) holds is lost.
//!
//! ```text
//! header    magic (8 bytes), version u32, blocks u32, records u64, CRC-32 of the 24 bytes before
//! section*  tag (4 bytes), length u32, CRC-32 of tag, length and content, content
//! ```
//!
//! Numbers of fixed size are little-endian; all others are varints of seven bits a byte. The sections, in their order:
//!
//! | tag | number | content |
//! |---|---|---|
//! | `zone`, `budd`, `ptyp`, `vmst` | at most one each | a text of `/proc` |
//! | `flag` | any | runs of frames with equal flags, in pieces |
//! | `evts` | one a block | events |
//! | `qual` | one | the quality of the trace |
//!
//! The content of a state section is the length of the bare data, and the data compressed by brotli. A block is seven
//! columns, each compressed by itself (`block.rs`). The counts in the header are written last: a file whose writer
//! died has `u64::MAX` records and is refused.
//!
//! The reader trusts nothing. It checks lengths against limits before it takes memory, and holds one section at a
//! time. Every section has a checksum, so damage is found where it is.
//!
//! Rejected: general columnar formats, because their libraries are larger than this crate. Also rejected: one
//! compressed stream for the whole file, because it has no bound on memory and no place for checksums.

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
