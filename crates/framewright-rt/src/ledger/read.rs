//! Reads the ledger of a file, which may hold anything.
//!
//! The file is read and not mapped, so that another process that changes it meanwhile changes nothing that was checked.
//! Each number is checked before it is used. What is wrong is an error that names the place and the value.
//!
//! An entry that is set counts, with these exceptions, which a kill can leave:
//!
//! | left by | found as | done |
//! |---|---|---|
//! | a range's allocation or free | a piece without the entry before it | it is cleared |
//! | a split | a word, and entries of both sizes inside the block | the split is finished |
//! | a move | a word, and two entries | the move is finished |
//!
//! Cost: a read of the parts of the table that were ever written, and 16 bytes for each entry there.

use std::os::fd::BorrowedFd;

use framewright::{Order, PfnRange};

use super::format::{Entry, Form, HEADER, JOURNAL, JournalSlot, LedgerFault, Word};
use crate::os::{self, OsError};

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 16;

/// Why a ledger could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadError {
    Os(OsError),
    Fault(LedgerFault),
}

impl From<OsError> for ReadError {
    fn from(error: OsError) -> ReadError {
        ReadError::Os(error)
    }
}

/// A block or range that the ledger holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeldRun {
    pub(crate) frames: PfnRange,
    /// Its allocation was its thread's last call: it may not have returned.
    pub(crate) in_flight: bool,
}

/// A split that was under way. The place is the index of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PendingSplit {
    pub(crate) at: u64,
    pub(crate) from: Order,
    pub(crate) to: Order,
}

impl PendingSplit {
    fn end(&self) -> u64 {
        self.at + self.from.frames()
    }
}

/// What is to be changed so that the ledger says what was read. Places are indices of frames.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Repair {
    /// Entries of blocks whose allocation may not have returned.
    pub(crate) unsure: Vec<u64>,
    /// Entries that do not count.
    pub(crate) cleared: Vec<u64>,
    pub(crate) splits: Vec<PendingSplit>,
}

/// The content of a ledger: in ascending order, without overlaps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reading {
    pub(crate) held: Vec<HeldRun>,
    pub(crate) repair: Repair,
}

/// Reads the header of a file.
pub(crate) fn form(file: BorrowedFd<'_>) -> Result<Form, ReadError> {
    let bytes = os::file_len(file)?;
    let Some(start) = bytes.checked_sub(HEADER) else {
        return Err(ReadError::Fault(LedgerFault::TooShort { bytes }));
    };
    let mut header = [0; HEADER as usize];
    os::read_at(file, start, &mut header)?;
    Form::of_header(&header, bytes).map_err(ReadError::Fault)
}

/// Reads journal and table.
pub(crate) fn ledger(file: BorrowedFd<'_>, form: &Form) -> Result<Reading, ReadError> {
    let words = read_words(file, form)?;
    let entries = read_entries(file, form)?;
    Reader { form, words, entries, repair: Repair::default() }.read().map_err(ReadError::Fault)
}

/// The words that are not 0, each with its place.
fn read_words(file: BorrowedFd<'_>, form: &Form) -> Result<Vec<(usize, u64)>, ReadError> {
    let mut words = Vec::new();
    each_chunk(file, form.blocks()..form.blocks() + JOURNAL, |at, bytes| {
        let all = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word));
        let first = (at - form.blocks()) as usize / 8;
        words.extend(all.enumerate().filter(|&(_, word)| word != 0).map(|(place, word)| (first + place, word)));
    })?;
    Ok(words)
}

/// The entries that are not 0, each with its index.
fn read_entries(file: BorrowedFd<'_>, form: &Form) -> Result<Vec<(u64, u32)>, ReadError> {
    let mut entries = Vec::new();
    let start = form.blocks() + JOURNAL;
    each_chunk(file, start..start + form.frames() * 4, |at, bytes| {
        let all = bytes.as_chunks().0.iter().map(|&entry| u32::from_le_bytes(entry));
        let first = (at - start) / 4;
        entries.extend(all.enumerate().filter(|&(_, entry)| entry != 0).map(|(index, e)| (first + index as u64, e)));
    })?;
    Ok(entries)
}

/// Calls `visit` with each part of a range of the file that is not a hole, in pieces, with its place.
fn each_chunk(
    file: BorrowedFd<'_>,
    range: std::ops::Range<u64>,
    mut visit: impl FnMut(u64, &[u8]),
) -> Result<(), OsError> {
    let mut buffer = vec![0; CHUNK];
    let mut at = range.start;
    while let Some(data) = os::next_data(file, at)?.filter(|&data| data < range.end) {
        // Parts begin at multiples of a page. The buffer's pieces are multiples of an entry.
        at = (data & !7).max(at);
        let len = (range.end - at).min(CHUNK as u64);
        let part = &mut buffer[..len as usize];
        os::read_at(file, at, part)?;
        visit(at, part);
        at += len;
        if at == range.end {
            break;
        }
    }
    Ok(())
}

/// A ledger that is being read.
struct Reader<'f> {
    form: &'f Form,
    words: Vec<(usize, u64)>,
    entries: Vec<(u64, u32)>,
    repair: Repair,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Reading, LedgerFault> {
        let mut last = vec![u64::MAX; JournalSlot::COUNT as usize];
        for slot in (0..JournalSlot::COUNT).map(JournalSlot) {
            match self.word(slot)? {
                Word::Nothing => {}
                Word::Allocation(at) => last[slot.0 as usize] = at,
                Word::Split { at, from, to } => self.split(slot, PendingSplit { at, from, to })?,
                Word::Move(to) => self.relocate(slot, to)?,
            }
        }
        self.finish_splits()?;
        let held = self.walk(&last)?;
        Ok(Reading { held, repair: self.repair })
    }

    /// The bits of a word of the journal.
    fn bits(&self, place: usize) -> u64 {
        self.words.binary_search_by_key(&place, |&(at, _)| at).map_or(0, |at| self.words[at].1)
    }

    fn word(&self, slot: JournalSlot) -> Result<Word, LedgerFault> {
        let bits = self.bits(slot.word());
        Word::of(bits, self.form.frames()).map_err(|what| self.bad_word(slot.word(), bits, what))
    }

    fn bad_word(&self, place: usize, value: u64, what: &'static str) -> LedgerFault {
        LedgerFault::Word { offset: self.form.blocks() + place as u64 * 8, value, what }
    }

    fn bad_entry(&self, index: u64, value: u32, what: &'static str) -> LedgerFault {
        let offset = self.form.blocks() + JOURNAL + index * 4;
        LedgerFault::Entry { offset, value, pfn: self.form.first.0 + index, what }
    }

    /// The entry of a block or a range's first piece.
    fn entry(&self, index: u64) -> Option<Entry> {
        let at = self.entries.binary_search_by_key(&index, |&(at, _)| at).ok()?;
        Entry::of(self.entries[at].1, self.form.max_order).ok().filter(|entry| !entry.is_piece)
    }

    fn split(&mut self, slot: JournalSlot, split: PendingSplit) -> Result<(), LedgerFault> {
        let bad = |what| Err(self.bad_word(slot.word(), self.bits(slot.word()), what));
        let PendingSplit { at, from, to } = split;
        if from > self.form.max_order || to >= from {
            return bad("splits a block into no smaller ones");
        }
        if at & from.mask() != 0 || split.end() > self.form.frames() {
            return bad("splits a block that is not the arena's");
        }
        if !self.entry(at).is_some_and(|entry| entry.order == from || entry.order == to) {
            return bad("splits a block that is not held");
        }
        self.repair.splits.push(split);
        Ok(())
    }

    /// Finishes a move: where both places are held, the old one is not any more.
    fn relocate(&mut self, slot: JournalSlot, to: u64) -> Result<(), LedgerFault> {
        let place = slot.word() + 1;
        let from = self.bits(place);
        if from >= self.form.frames() || from == to {
            return Err(self.bad_word(place, from, "names no old place of a move"));
        }
        let (new, old) = (self.entry(to), self.entry(from));
        if let Some((new, old)) = new.zip(old)
            && new.slot == Some(slot)
        {
            if new.order != old.order {
                return Err(self.bad_word(slot.word(), self.bits(slot.word()), "moves a block of another order"));
            }
            self.repair.cleared.push(from);
            if let Ok(at) = self.entries.binary_search_by_key(&from, |&(at, _)| at) {
                self.entries[at].1 = 0;
            }
        }
        Ok(())
    }

    /// Replaces the entries inside each block that was being split.
    fn finish_splits(&mut self) -> Result<(), LedgerFault> {
        if self.repair.splits.is_empty() {
            return Ok(());
        }
        self.repair.splits.sort_unstable_by_key(|split| split.at);
        for two in self.repair.splits.windows(2) {
            if let [one, other] = two
                && one.end() > other.at
            {
                let value = self.entries.iter().find(|entry| entry.0 == other.at).map_or(0, |entry| entry.1);
                return Err(self.bad_entry(other.at, value, "is split twice"));
            }
        }
        let mut merged = Vec::with_capacity(self.entries.len());
        let mut entries = std::mem::take(&mut self.entries).into_iter().peekable();
        for split in &self.repair.splits {
            merged.extend(std::iter::from_fn(|| entries.next_if(|&(index, _)| index < split.at)));
            while entries.next_if(|&(index, _)| index < split.end()).is_some() {}
            let pieces = 0..split.from.frames() >> split.to.0;
            let bits = Entry::block(split.to, None).bits();
            merged.extend(pieces.map(|piece| (split.at + (piece << split.to.0), bits)));
        }
        merged.extend(entries);
        self.entries = merged;
        Ok(())
    }

    /// Joins the entries to blocks and ranges. `last` is the block that each slot allocated in its last call.
    fn walk(&mut self, last: &[u64]) -> Result<Vec<HeldRun>, LedgerFault> {
        let (form, mut held, mut end) = (self.form, Vec::<HeldRun>::new(), 0);
        let mut nodes = form.nodes.iter().map(|&node| form.room_of(node) >> form.page_shift);
        let mut node_end = nodes.next().unwrap_or(0);
        for &(index, bits) in self.entries.iter().filter(|&&(_, bits)| bits != 0) {
            let bad = |what| Err(self.bad_entry(index, bits, what));
            let entry = match Entry::of(bits, form.max_order) {
                Ok(entry) => entry,
                Err(what) => return bad(what),
            };
            // The last piece before may end at the node's end, and ranges lie in one node.
            let is_new_node = index >= node_end;
            while index >= node_end {
                node_end += nodes.next().unwrap_or(u64::MAX >> 1);
            }
            if index & entry.order.mask() != 0 {
                return bad("is misaligned");
            }
            if index < end {
                return bad("overlaps the block before it");
            }
            if index + entry.order.frames() > node_end.min(form.frames()) {
                return bad("reaches out of its node");
            }
            if entry.is_piece && (index != end || is_new_node || held.is_empty()) {
                // What is left of a range that was being allocated or freed.
                self.repair.cleared.push(index);
                continue;
            }
            end = index + entry.order.frames();
            let frames = PfnRange { start: form.first.add(index), end: form.first.add(end) };
            match held.last_mut() {
                Some(range) if entry.is_piece => range.frames.end = frames.end,
                _ => {
                    let is_last_of = |slot: JournalSlot| last.get(slot.0 as usize) == Some(&index);
                    let in_flight = entry.is_unsure || entry.slot.is_some_and(is_last_of);
                    if in_flight {
                        self.repair.unsure.push(index);
                    }
                    held.push(HeldRun { frames, in_flight });
                }
            }
        }
        Ok(held)
    }
}
