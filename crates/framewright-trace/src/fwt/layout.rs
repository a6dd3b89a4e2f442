//! The layout that reader and writer share: tags, limits, and how a section is compressed.

use super::varint::{VarintReader, put};
use crate::error::{CompactFault, FwtResult};
use crate::record::Quality;

/// First bytes of a file. The last ones show whether a transfer has changed line ends.
pub const MAGIC: [u8; 8] = *b"\x89FWT\r\n\x1a\n";
/// Bytes of the header.
pub(super) const HEADER: usize = 28;
/// Events in a block, except for the last one.
pub(super) const BLOCK_RECORDS: usize = 1 << 17;
/// The most events of a block.
pub(super) const BLOCK_LIMIT: u64 = 1 << 20;
/// The most bytes of one column or one part of the state, before compression.
pub(super) const COLUMN_LIMIT: u64 = 16 << 20;
/// The most bytes of a section.
pub(super) const SECTION_LIMIT: u64 = 128 << 20;

/// Tag of the sections with blocks of events.
pub(super) const EVENTS: [u8; 4] = *b"evts";
/// Tag of the last section.
pub(super) const QUALITY: [u8; 4] = *b"qual";
/// Tag of the sections with flags of frames.
pub(super) const FLAGS: [u8; 4] = *b"flag";
/// Tags of the sections with texts, as in [`StateFile::ALL`](crate::state::StateFile::ALL).
pub(super) const TEXTS: [[u8; 4]; 4] = [*b"zone", *b"budd", *b"ptyp", *b"vmst"];

/// Returns `value` if it is at most `limit`.
pub(super) fn bounded(what: &'static str, value: u64, limit: u64) -> FwtResult<u64> {
    if value <= limit { Ok(value) } else { Err(CompactFault::Length { what, value, limit }) }
}

/// Appends `raw` to `out`, compressed, with its length before it.
pub(super) fn pack(raw: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
    put(out, raw.len() as u64);
    let params = brotli::enc::BrotliEncoderParams {
        quality: 9,
        lgwin: 22,
        size_hint: raw.len(),
        ..brotli::enc::BrotliEncoderParams::default()
    };
    let mut packed = Vec::new();
    brotli::BrotliCompress(&mut &raw[..], &mut packed, &params)?;
    put(out, packed.len() as u64);
    out.extend_from_slice(&packed);
    Ok(())
}

/// Reads the next piece of `input` that [`pack`] has written, of at most `limit` bytes.
pub(super) fn unpack(what: &'static str, input: &mut VarintReader<'_>, limit: u64) -> FwtResult<Vec<u8>> {
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

/// The counts of a quality that the records do not give, in the order of the file.
pub(super) fn quality_counts(quality: &mut Quality) -> [&mut u64; 8] {
    [
        &mut quality.lines,
        &mut quality.lost_events,
        &mut quality.lost_reports,
        &mut quality.skipped_lines,
        &mut quality.unrecognized_lines,
        &mut quality.malformed_lines,
        &mut quality.time_steps_back,
        &mut quality.untimed,
    ]
}

/// Returns a section's name for messages.
pub(super) fn section_name(tag: [u8; 4]) -> String {
    format!("section `{}`", tag.escape_ascii())
}
