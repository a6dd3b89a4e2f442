//! Reads a `*.fwt`, a section at a time.

use std::collections::BTreeMap;
use std::io::Read;

use super::block;
use super::layout::{
    COLUMN_LIMIT, EVENTS, FLAGS, HEADER, MAGIC, QUALITY, SECTION_LIMIT, TEXTS, bounded, quality_counts, section_name,
    unpack,
};
use super::varint::VarintReader;
use crate::error::{CompactFault, FWT_VERSION, FwtResult, Reason, Result, TraceError};
use crate::proc::KPageFlags;
use crate::record::{Comms, Quality, Record};
use crate::state::{InitialState, StateFile};

/// Reads the records of a compact trace, one after the other.
///
/// After an error there is nothing more.
pub struct CompactReader<R> {
    source: R,
    file: String,
    state: InitialState,
    comms: Comms,
    quality: Quality,
    /// Counts of the header.
    records: u64,
    blocks: u32,
    /// Counts so far.
    blocks_read: u32,
    block: Vec<Record>,
    next: usize,
    /// The section after the state's.
    pending: Option<Section>,
    ended: bool,
}

struct Section {
    tag: [u8; 4],
    content: Vec<u8>,
}

impl<R: Read> CompactReader<R> {
    /// Reads the header and the state from `source`, called `file` in messages.
    ///
    /// # Errors
    /// The source cannot be read, or is no whole compact trace.
    pub fn new(source: R, file: &str) -> Result<CompactReader<R>> {
        let mut reader = CompactReader {
            source,
            file: file.to_owned(),
            state: InitialState::default(),
            comms: Comms::new(),
            quality: Quality::default(),
            records: 0,
            blocks: 0,
            blocks_read: 0,
            block: Vec::new(),
            next: 0,
            pending: None,
            ended: false,
        };
        reader.header().map_err(|reason| reader.error(reason))?;
        reader.state()?;
        Ok(reader)
    }

    /// The state before the first event.
    pub fn initial(&self) -> &InitialState {
        &self.state
    }

    /// The names of tasks so far.
    pub fn comms(&self) -> &Comms {
        &self.comms
    }

    /// The quality of the trace so far; counts of lines and losses come last.
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// Number of records in the file.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn error(&self, reason: impl Into<Reason>) -> TraceError {
        TraceError::new(&self.file, reason)
    }

    fn header(&mut self) -> std::result::Result<(), Reason> {
        let header = self.bytes(HEADER as u64, "the header")?;
        let field = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if header[..8] != MAGIC {
            return Err(CompactFault::NotOurs.into());
        }
        if field(8) != FWT_VERSION {
            return Err(CompactFault::Version(field(8)).into());
        }
        if crc32fast::hash(&header[..24]) != field(24) {
            return Err(CompactFault::Checksum("the header".into()).into());
        }
        self.blocks = field(12);
        self.records = u64::from(field(16)) | u64::from(field(20)) << 32;
        if self.records == u64::MAX { Err(CompactFault::Unfinished.into()) } else { Ok(()) }
    }

    /// Reads the next `length` bytes. Memory is taken as they come, not as they are announced.
    fn bytes(&mut self, length: u64, what: &str) -> std::result::Result<Vec<u8>, Reason> {
        let mut bytes = Vec::new();
        (&mut self.source).take(length).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < length {
            let whole = !bytes.starts_with(&MAGIC[..bytes.len().min(8)]) && what == "the header";
            return Err(if whole { CompactFault::NotOurs } else { CompactFault::Truncated(what.into()) }.into());
        }
        Ok(bytes)
    }

    fn section(&mut self) -> std::result::Result<Section, Reason> {
        let head = self.bytes(12, "the list of sections")?;
        let field = |at: usize| std::array::from_fn::<u8, 4, _>(|i| head[at + i]);
        let name = section_name(field(0));
        let length = bounded("a section", u32::from_le_bytes(field(4)).into(), SECTION_LIMIT)?;
        let content = self.bytes(length, &name)?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head[..8]);
        sum.update(&content);
        if sum.finalize() != u32::from_le_bytes(field(8)) {
            return Err(CompactFault::Checksum(name).into());
        }
        Ok(Section { tag: field(0), content })
    }

    /// Reads the sections up to the first block of events.
    fn state(&mut self) -> Result<()> {
        let mut last = 0;
        loop {
            let section = self.section().map_err(|reason| self.error(reason))?;
            let rank = TEXTS.iter().chain([&FLAGS]).position(|&tag| tag == section.tag).map(|rank| rank + 1);
            match rank {
                None => {
                    self.pending = Some(section);
                    return Ok(());
                }
                Some(rank) if rank < last || (rank == last && section.tag != FLAGS) => {
                    return Err(self.error(CompactFault::Misplaced(section_name(section.tag))));
                }
                Some(rank) => {
                    last = rank;
                    self.state_section(rank - 1, &section.content)?;
                }
            }
        }
    }

    fn state_section(&mut self, rank: usize, content: &[u8]) -> Result<()> {
        const WHAT: &str = "the state";
        let mut input = VarintReader::new(content);
        let raw = unpack(WHAT, &mut input, COLUMN_LIMIT).and_then(|raw| input.end(WHAT).map(|()| raw));
        let raw = raw.map_err(|fault| self.error(fault))?;
        if let Some(&file) = StateFile::ALL.get(rank) {
            let name = format!("{} ({})", self.file, file.name());
            return self.state.set(file, raw, &name);
        }
        let mut flags = self.state.kpageflags.take().unwrap_or_default();
        self.state.kpageflags = Some(match append_runs(&mut flags, &raw) {
            Ok(()) => flags,
            Err(reason) => return Err(self.error(reason)),
        });
        Ok(())
    }

    /// Reads the next block; false at the end of the file.
    fn next_block(&mut self) -> std::result::Result<bool, Reason> {
        let section = match self.pending.take() {
            Some(section) => section,
            None => self.section()?,
        };
        match section.tag {
            EVENTS => {
                self.block.clear();
                self.next = 0;
                block::decode(&section.content, &mut self.comms, &mut self.block)?;
                self.block.iter().for_each(|record| self.quality.count(&record.kind));
                self.blocks_read = self.blocks_read.saturating_add(1);
                Ok(true)
            }
            QUALITY => {
                self.read_quality(&section.content)?;
                self.check_end()?;
                Ok(false)
            }
            tag => Err(CompactFault::Misplaced(section_name(tag)).into()),
        }
    }

    fn check_end(&mut self) -> std::result::Result<(), Reason> {
        let counts =
            [("events", self.quality.records(), self.records), ("blocks", self.blocks_read.into(), self.blocks.into())];
        for (what, found, header) in counts {
            if found != header {
                return Err(CompactFault::Count { what, found, header }.into());
            }
        }
        let mut more = [0];
        match self.source.read(&mut more)? {
            0 => Ok(()),
            _ => Err(CompactFault::Misplaced("what follows the last section".into()).into()),
        }
    }

    fn read_quality(&mut self, content: &[u8]) -> FwtResult<()> {
        const WHAT: &str = "the quality";
        let mut input = VarintReader::new(content);
        let raw = unpack(WHAT, &mut input, COLUMN_LIMIT)?;
        input.end(WHAT)?;
        let mut input = VarintReader::new(&raw);
        let quality = &mut self.quality;
        for count in quality_counts(quality) {
            *count = input.get(WHAT)?;
        }
        let mut text = || {
            let length = input.get(WHAT)?;
            std::str::from_utf8(input.bytes(WHAT, length)?).map_err(|_| CompactFault::Value(WHAT))
        };
        quality.malformed = text()?.lines().take(Quality::MESSAGES).map(printable).collect();
        quality.unknown = counts(text()?).ok_or(CompactFault::Value(WHAT))?;
        if !input.is_empty() {
            let length = input.get(WHAT)?;
            let flags = std::str::from_utf8(input.bytes(WHAT, length)?).ok().and_then(counts);
            quality.unknown_flags = flags.ok_or(CompactFault::Value(WHAT))?;
        }
        input.end(WHAT)
    }
}

impl<R: Read> Iterator for CompactReader<R> {
    type Item = Result<Record>;

    #[inline]
    fn next(&mut self) -> Option<Result<Record>> {
        loop {
            if let Some(&record) = self.block.get(self.next) {
                self.next += 1;
                return Some(Ok(record));
            }
            if self.ended {
                return None;
            }
            match self.next_block() {
                Ok(more) => self.ended = !more,
                Err(reason) => {
                    self.ended = true;
                    self.block.clear();
                    return Some(Err(self.error(reason)));
                }
            }
        }
    }
}

fn append_runs(flags: &mut KPageFlags, raw: &[u8]) -> std::result::Result<(), Reason> {
    const WHAT: &str = "the flags of frames";
    let mut input = VarintReader::new(raw);
    while !input.is_empty() {
        let frames = input.get(WHAT)?;
        flags.push(frames, input.get(WHAT)?)?;
    }
    Ok(())
}

/// Counts by name, one a line.
fn counts(text: &str) -> Option<BTreeMap<String, u64>> {
    let count = |line: &str| {
        let (count, name) = line.split_once(' ')?;
        Some((printable(name), count.parse().ok()?))
    };
    text.lines().take(Quality::UNKNOWN_NAMES + 1).map(count).collect()
}

/// Returns a text without control characters, for a terminal.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(400).collect()
}
