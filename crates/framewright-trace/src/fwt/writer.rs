//! Writes a `*.fwt`.

use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};

use super::block;
use super::layout::{
    BLOCK_RECORDS, COLUMN_LIMIT, EVENTS, FLAGS, HEADER, MAGIC, QUALITY, SECTION_LIMIT, TEXTS, pack, quality_counts,
};
use super::varint::put;
use crate::error::FWT_VERSION;
use crate::record::{Comms, Quality, Record};
use crate::state::{InitialState, StateFile};

/// Writes one trace. The reader refuses a file that is not [finished](CompactWriter::finish).
pub struct CompactWriter<W> {
    out: W,
    pending: Vec<Record>,
    records: u64,
    blocks: u32,
}

impl<W: Write + Seek> CompactWriter<W> {
    /// Runs of frames in one section.
    const RUNS: usize = 1 << 19;

    /// Starts a trace; `state` is that of memory before the first event.
    ///
    /// # Errors
    /// Writing failed, or a file of the state has more than 16 MiB.
    pub fn new(out: W, state: &InitialState) -> io::Result<CompactWriter<W>> {
        let mut out = out;
        out.write_all(&header(0, u64::MAX))?;
        for (file, tag) in StateFile::ALL.into_iter().zip(TEXTS) {
            if let Some(text) = state.text(file) {
                section(&mut out, tag, &packed(text.as_bytes())?)?;
            }
        }
        if let Some(flags) = &state.kpageflags {
            let runs: Vec<_> = flags.runs().collect();
            for runs in runs.chunks(Self::RUNS) {
                let mut raw = Vec::new();
                for (range, flags) in runs {
                    put(&mut raw, range.frames());
                    put(&mut raw, *flags);
                }
                section(&mut out, FLAGS, &packed(&raw)?)?;
            }
        }
        Ok(CompactWriter { out, pending: Vec::new(), records: 0, blocks: 0 })
    }

    /// Appends a record; `comms` has its task's name.
    ///
    /// # Errors
    /// Writing failed.
    pub fn push(&mut self, record: Record, comms: &Comms) -> io::Result<()> {
        self.pending.push(record);
        if self.pending.len() == BLOCK_RECORDS { self.write_block(comms) } else { Ok(()) }
    }

    /// Writes the remaining events and the counts in the header. Returns the output.
    ///
    /// # Errors
    /// Writing failed.
    pub fn finish(mut self, comms: &Comms, quality: &Quality) -> io::Result<W> {
        if !self.pending.is_empty() {
            self.write_block(comms)?;
        }
        section(&mut self.out, QUALITY, &packed(&quality_bytes(quality))?)?;
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header(self.blocks, self.records))?;
        self.out.seek(SeekFrom::End(0))?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn write_block(&mut self, comms: &Comms) -> io::Result<()> {
        section(&mut self.out, EVENTS, &block::encode(&self.pending, comms)?)?;
        self.records += self.pending.len() as u64;
        self.blocks = self.blocks.checked_add(1).ok_or_else(|| io::Error::other("too many events"))?;
        self.pending.clear();
        Ok(())
    }
}

fn header(blocks: u32, records: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&FWT_VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&blocks.to_le_bytes());
    header[16..24].copy_from_slice(&records.to_le_bytes());
    let sum = crc32fast::hash(&header[..24]);
    header[24..].copy_from_slice(&sum.to_le_bytes());
    header
}

fn section(out: &mut impl Write, tag: [u8; 4], content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len()).ok().filter(|&length| u64::from(length) <= SECTION_LIMIT);
    let length = length.ok_or_else(|| io::Error::other("a section is too long"))?.to_le_bytes();
    let mut sum = crc32fast::Hasher::new();
    [&tag[..], &length, content].iter().for_each(|part| sum.update(part));
    out.write_all(&tag)?;
    out.write_all(&length)?;
    out.write_all(&sum.finalize().to_le_bytes())?;
    out.write_all(content)
}

fn packed(raw: &[u8]) -> io::Result<Vec<u8>> {
    if raw.len() as u64 > COLUMN_LIMIT {
        return Err(io::Error::other("a part of the state has more than 16 MiB"));
    }
    let mut out = Vec::new();
    pack(raw, &mut out)?;
    Ok(out)
}

/// Encodes the counts that do not follow from the records.
fn quality_bytes(quality: &Quality) -> Vec<u8> {
    let mut out = Vec::new();
    quality_counts(&mut quality.clone()).into_iter().for_each(|count| put(&mut out, *count));
    let mut text = |text: &str| {
        put(&mut out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    };
    text(&quality.malformed.join("\n"));
    let counts = |names: &BTreeMap<String, u64>| {
        names.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join("\n")
    };
    text(&counts(&quality.unknown));
    // Left out where empty, so that older programs can read the file.
    if !quality.unknown_flags.is_empty() {
        text(&counts(&quality.unknown_flags));
    }
    out
}
