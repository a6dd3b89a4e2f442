//! Our own form of a trace: one file `*.fwt` with the events and the state before them.
//!
//! A text of 150 bytes an event becomes about one byte and a quarter, and is read several times faster. Nothing that
//! a [`Record`](super::record::Record) holds is lost.
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

mod block;
mod reader;
mod event_shape;
mod varint;
mod writer;

#[cfg(test)]
mod tests;

pub use self::reader::CompactReader;
pub use self::writer::CompactWriter;

/// First bytes of a file. The last ones show when a transfer has changed line ends.
pub const MAGIC: [u8; 8] = *b"\x89FWT\r\n\x1a\n";
/// Version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// Bytes of the header.
const HEADER: usize = 28;
/// Events in a block, except for the last one.
const BLOCK_RECORDS: usize = 1 << 17;
/// Events that a block may have.
const BLOCK_LIMIT: u64 = 1 << 20;
/// Bytes that one column or one part of the state may have, before compression.
const COLUMN_LIMIT: u64 = 16 << 20;
/// Bytes that a section may have.
const SECTION_LIMIT: u64 = 128 << 20;

/// Tag of the sections with blocks of events.
const EVENTS: [u8; 4] = *b"evts";
/// Tag of the last section.
const QUALITY: [u8; 4] = *b"qual";
/// Tag of the sections with flags of frames.
const FLAGS: [u8; 4] = *b"flag";
/// Tags of the sections with texts, as in [`StateFile::ALL`](super::state::StateFile::ALL).
const TEXTS: [[u8; 4]; 4] = [*b"zone", *b"budd", *b"ptyp", *b"vmst"];

/// What is wrong with a compact trace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CompactFault {
    /// The file does not start as it must.
    #[error("is no compact trace: it does not start with the bytes of one")]
    NotOurs,
    /// Another version of the format.
    #[error("has version {0} of the format; this program reads version {VERSION}")]
    Version(u32),
    /// The writer did not get to the end.
    #[error("was not finished by whoever wrote it")]
    Unfinished,
    /// The file is too short.
    #[error("ends in the middle of {0}")]
    Truncated(String),
    /// Bytes have changed.
    #[error("{0} is damaged: its checksum is wrong")]
    Checksum(String),
    /// A section of an unknown kind, or where it must not be.
    #[error("{0} should not be there")]
    Misplaced(String),
    /// Something is longer than it may be.
    #[error("{what} claims a length of {value}, above {limit}")]
    Length {
        /// What.
        what: &'static str,
        /// Its length.
        value: u64,
        /// The largest length.
        limit: u64,
    },
    /// Something has not the length that it claims.
    #[error("{0} has another length than it claims")]
    Mismatch(&'static str),
    /// A value that cannot be.
    #[error("{0} has a value that cannot be")]
    Value(&'static str),
    /// Data that brotli refuses.
    #[error("{0} cannot be decompressed")]
    Compression(&'static str),
    /// The header's counts are wrong.
    #[error("has {found} {what}, but the header says {header}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there should be.
        header: u64,
    },
}

type Decoded<T> = Result<T, CompactFault>;

/// `value` if it is at most `limit`.
fn bounded(what: &'static str, value: u64, limit: u64) -> Decoded<u64> {
    if value <= limit { Ok(value) } else { Err(CompactFault::Length { what, value, limit }) }
}

/// `raw` compressed, with its length before.
fn pack(raw: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    varint::put(out, raw.len() as u64);
    let params = brotli::enc::BrotliEncoderParams {
        quality: 9,
        lgwin: 22,
        size_hint: raw.len(),
        ..brotli::enc::BrotliEncoderParams::default()
    };
    let mut packed = Vec::new();
    brotli::BrotliCompress(&mut &raw[..], &mut packed, &params)?;
    varint::put(out, packed.len() as u64);
    out.extend_from_slice(&packed);
    Ok(())
}

/// The next piece of `input` that [`pack`] has written, of at most `limit` bytes.
fn unpack(what: &'static str, input: &mut varint::Reader<'_>, limit: u64) -> Decoded<Vec<u8>> {
    let length = bounded(what, input.get(what)?, limit)?;
    let packed = input.get(what)?;
    let packed = input.bytes(what, packed)?;
    // A window of more than 16 MiB, which nothing here needs, starts with this code.
    if packed.first().is_some_and(|first| first & 0x7f == 0x11) {
        return Err(CompactFault::Compression(what));
    }
    let mut raw = Vec::with_capacity(length as usize);
    let stream = brotli::Decompressor::new(packed, 4096);
    std::io::Read::read_to_end(&mut std::io::Read::take(stream, length + 1), &mut raw)
        .map_err(|_| CompactFault::Compression(what))?;
    if raw.len() as u64 == length { Ok(raw) } else { Err(CompactFault::Mismatch(what)) }
}

/// A section's name for messages.
fn section_name(tag: [u8; 4]) -> String {
    format!("section `{}`", tag.escape_ascii())
}
