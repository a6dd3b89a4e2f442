//! The bits of a ledger: header, entries of the table, words of the journal.
//!
//! All numbers are little-endian. An entry is 32 bits, 0 for a frame at which no held block begins:
//!
//! | bits | of an entry |
//! |---|---|
//! | 0 to 5 | order of the block, plus 1 |
//! | 6 | a further piece of the range that the entry before it belongs to |
//! | 7 | an earlier recovery could not tell whether its allocation had returned |
//! | 8 to 31 | number of the slot that allocated it, plus 1; 0 for none |
//!
//! | bits | of a word of the journal |
//! |---|---|
//! | 0 to 1 | 0: nothing, the word is 0; 1: an allocation; 2: a split; 3: a move |
//! | 2 to 6, 7 to 11 | of a split: order of the block, and of the pieces |
//! | 12 to 63 | index of the block's first frame; of a move, of the new place |
//!
//! A line of the journal has four words: the thread's, the old place of its move, and the same two for its signal
//! handlers, which are a slot of their own.

use framewright::{Order, Pfn};
use thiserror::Error;

/// Threads that have a line of the journal at a time.
///
/// More than a process usually has, and 256 KiB, of which only used pages take memory.
pub(crate) const THREADS: usize = 4096;
/// Words of a line: a cache line, so that threads do not disturb each other.
pub(crate) const LINE: usize = 8;
/// Bytes of the journal.
pub(crate) const JOURNAL: u64 = (THREADS * LINE * 8) as u64;
/// Bytes of the header.
pub(crate) const HEADER: u64 = 4096;
/// Unit of a ledger's length in bytes: the largest page of a kernel.
const UNIT: u64 = 1 << 16;
/// Nodes at most, so that their sizes fit into the header.
const NODES: usize = 64;
const MAGIC: u64 = u64::from_le_bytes(*b"fwledger");
const VERSION: u32 = 1;
/// Places in the header.
const AT_CHECK: usize = 56;
const AT_NODES: usize = 64;
/// Blocks are at most 1 GiB.
const LARGEST_BLOCK_SHIFT: u8 = 30;
/// Frame numbers have 52 bits.
const FRAME_LIMIT: u64 = 1 << 52;

/// Why a file is no ledger that an arena can be recovered from. Offsets are bytes of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
#[non_exhaustive]
pub enum LedgerFault {
    /// The file is too short to have a header.
    #[error("a file of {bytes} bytes has no ledger")]
    TooShort { bytes: u64 },
    /// The header does not begin as that of a ledger.
    #[error("no ledger's header at {offset:#x}: {value:#x}")]
    NoHeader { offset: u64, value: u64 },
    /// The ledger is of another version of this crate.
    #[error("a ledger of version {found}, and this code knows version {known}")]
    Version { found: u32, known: u32 },
    /// The header was changed.
    #[error("the header's check sum is {stored:#x}, and should be {computed:#x}")]
    Checksum { stored: u32, computed: u32 },
    /// A field of the header makes no sense.
    #[error("the header's {what}, at {offset:#x}, is {value}")]
    Header { offset: u64, value: u64, what: &'static str },
    /// The file is not as long as its header says.
    #[error("the file has {bytes} bytes, and its header describes {expected}")]
    Length { bytes: u64, expected: u64 },
    /// An entry of the table makes no sense.
    #[error("the entry of frame {pfn:#x}, {value:#x} at {offset:#x}, {what}")]
    Entry { offset: u64, value: u32, pfn: u64, what: &'static str },
    /// A word of the journal makes no sense.
    #[error("the journal's word {value:#x} at {offset:#x} {what}")]
    Word { offset: u64, value: u64, what: &'static str },
}

/// The shape of an arena, as the header keeps it. Sizes in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Form {
    pub(crate) page_shift: u8,
    pub(crate) max_order: Order,
    pub(crate) first: Pfn,
    /// Kept at the end of each node for movable requests.
    pub(crate) movable: u64,
    /// Of each node, if the arena may grow.
    pub(crate) limit: Option<u64>,
    /// Present at first, of each node.
    pub(crate) nodes: Vec<u64>,
}

impl Form {
    /// Bytes that a node has, or may have.
    pub(crate) fn room_of(&self, node: u64) -> u64 {
        self.limit.unwrap_or(node)
    }

    /// Bytes of the blocks, which are the file's first part.
    pub(crate) fn blocks(&self) -> u64 {
        self.nodes.iter().fold(0, |sum: u64, &node| sum.saturating_add(self.room_of(node)))
    }

    pub(crate) fn frames(&self) -> u64 {
        self.blocks() >> self.page_shift
    }

    /// Bytes of the ledger, which follows the blocks.
    pub(crate) fn ledger(&self) -> u64 {
        (JOURNAL + HEADER).saturating_add(self.frames().saturating_mul(4)).next_multiple_of(UNIT)
    }

    /// Bytes of the file.
    pub(crate) fn file(&self) -> u64 {
        self.blocks().saturating_add(self.ledger())
    }

    pub(crate) fn header(&self) -> [u8; HEADER as usize] {
        let mut bytes = [0; HEADER as usize];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &MAGIC.to_le_bytes());
        put(8, &VERSION.to_le_bytes());
        put(12, &[self.page_shift, self.max_order.0]);
        put(16, &self.first.0.to_le_bytes());
        put(24, &(self.nodes.len() as u64).to_le_bytes());
        put(32, &self.movable.to_le_bytes());
        put(40, &self.limit.unwrap_or(0).to_le_bytes());
        for (node, bytes) in self.nodes.iter().enumerate() {
            put(AT_NODES + 8 * node, &bytes.to_le_bytes());
        }
        let sum = check_sum(&bytes).to_le_bytes();
        bytes[AT_CHECK..AT_CHECK + sum.len()].copy_from_slice(&sum);
        bytes
    }

    /// Reads the header of a file of `length` bytes. Trusts nothing of it.
    pub(crate) fn of_header(bytes: &[u8; HEADER as usize], length: u64) -> Result<Form, LedgerFault> {
        let start = length.saturating_sub(HEADER);
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().unwrap_or(&[0; 8]));
        let half = |at: usize| word(at) as u32;
        if word(0) != MAGIC {
            return Err(LedgerFault::NoHeader { offset: start, value: word(0) });
        }
        if half(8) != VERSION {
            return Err(LedgerFault::Version { found: half(8), known: VERSION });
        }
        let (stored, computed) = (half(AT_CHECK), check_sum(bytes));
        if stored != computed {
            return Err(LedgerFault::Checksum { stored, computed });
        }
        let wrong = |at: usize, value: u64, what| LedgerFault::Header { offset: start + at as u64, value, what };
        let (page_shift, max_order, first, count) = (bytes[12], bytes[13], word(16), word(24));
        let (movable, limit) = (word(32), Some(word(40)).filter(|&limit| limit != 0));
        if !(12..=LARGEST_BLOCK_SHIFT).contains(&page_shift) {
            return Err(wrong(12, page_shift.into(), "page size, as a power of two,"));
        }
        if max_order > LARGEST_BLOCK_SHIFT - page_shift {
            return Err(wrong(13, max_order.into(), "largest order"));
        }
        if count == 0 || count > NODES as u64 {
            return Err(wrong(24, count, "number of nodes"));
        }
        let nodes: Vec<u64> = (0..count as usize).map(|node| word(AT_NODES + 8 * node)).collect();
        for (node, &bytes) in nodes.iter().enumerate() {
            let limit = limit.unwrap_or(bytes);
            if bytes == 0 || bytes > limit || (bytes | limit) & ((1 << page_shift) - 1) != 0 {
                return Err(wrong(AT_NODES + 8 * node, bytes, "size of a node"));
            }
        }
        let form = Form { page_shift, max_order: Order(max_order), first: Pfn(first), movable, limit, nodes };
        if first >= FRAME_LIMIT || form.frames() >= FRAME_LIMIT - first || !form.first.is_aligned(form.max_order) {
            return Err(wrong(16, first, "first frame"));
        }
        if form.file() != length {
            return Err(LedgerFault::Length { bytes: length, expected: form.file() });
        }
        Ok(form)
    }
}

/// The check sum of a header, whatever its own field holds.
fn check_sum(header: &[u8; HEADER as usize]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..AT_CHECK]);
    hasher.update(&header[AT_CHECK + 4..]);
    hasher.finalize()
}

/// A context with a word of the journal: a thread, or the signal handlers of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JournalSlot(pub(crate) u32);

impl JournalSlot {
    pub(crate) const COUNT: u32 = 2 * THREADS as u32;

    /// Place of its word in the journal. The next word is its move's old place.
    pub(crate) const fn word(self) -> usize {
        (self.0 / 2) as usize * LINE + (self.0 % 2) as usize * 2
    }
}

/// An entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) order: Order,
    pub(crate) is_piece: bool,
    pub(crate) is_unsure: bool,
    pub(crate) slot: Option<JournalSlot>,
}

impl Entry {
    /// The entry of a block, or of a range's first piece.
    pub(crate) const fn block(order: Order, slot: Option<JournalSlot>) -> Entry {
        Entry { order, is_piece: false, is_unsure: false, slot }
    }

    /// The entry of a range's further piece.
    pub(crate) const fn piece(order: Order) -> Entry {
        Entry { is_piece: true, ..Entry::block(order, None) }
    }

    pub(crate) const fn bits(self) -> u32 {
        let slot = match self.slot {
            Some(slot) => slot.0 + 1,
            None => 0,
        };
        (self.order.0 as u32 + 1) | (self.is_piece as u32) << 6 | (self.is_unsure as u32) << 7 | slot << 8
    }

    /// Whether the bits are those of a block of this order, or of a range's first piece.
    pub(crate) const fn is_block(bits: u32, order: Order) -> bool {
        bits & 0x7f == order.0 as u32 + 1
    }

    /// What the bits mean, or what is wrong with them.
    pub(crate) fn of(bits: u32, max_order: Order) -> Result<Entry, &'static str> {
        let (order, slot) = ((bits & 0x3f) as u8, bits >> 8);
        let entry = Entry {
            order: Order(order.wrapping_sub(1)),
            is_piece: bits & 1 << 6 != 0,
            is_unsure: bits & 1 << 7 != 0,
            slot: slot.checked_sub(1).map(JournalSlot),
        };
        if order == 0 || entry.order > max_order {
            Err("has no order of this arena")
        } else if slot > JournalSlot::COUNT {
            Err("names a slot that does not exist")
        } else if entry.is_piece && (slot != 0 || entry.is_unsure) {
            Err("is a piece with facts of a block")
        } else {
            Ok(entry)
        }
    }
}

/// What a word of the journal says. Places are indices of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Nothing,
    /// The slot's last call is the allocation of the block here.
    Allocation(u64),
    /// A split is under way.
    Split {
        at: u64,
        from: Order,
        to: Order,
    },
    /// A move to this place is under way.
    Move(u64),
}

impl Word {
    pub(crate) const fn bits(self) -> u64 {
        match self {
            Word::Nothing => 0,
            Word::Allocation(at) => at << 12 | 1,
            Word::Split { at, from, to } => at << 12 | (to.0 as u64) << 7 | (from.0 as u64) << 2 | 2,
            Word::Move(to) => to << 12 | 3,
        }
    }

    /// What the bits mean in an arena of `frames` frames, or what is wrong with them.
    pub(crate) fn of(bits: u64, frames: u64) -> Result<Word, &'static str> {
        let (at, orders) = (bits >> 12, bits >> 2 & 0x3ff);
        let word = match bits & 3 {
            0 => Word::Nothing,
            1 => Word::Allocation(at),
            2 => Word::Split { at, from: Order((orders & 0x1f) as u8), to: Order((orders >> 5) as u8) },
            _ => Word::Move(at),
        };
        if word.bits() != bits {
            Err("has bits that mean nothing")
        } else if at >= frames {
            Err("names a frame that the arena does not have")
        } else {
            Ok(word)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> Form {
        let nodes = vec![4 << 20, 8 << 20];
        Form { page_shift: 12, max_order: Order(9), first: Pfn(0x200), movable: 2 << 20, limit: Some(16 << 20), nodes }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let form = form();
        assert_eq!((form.blocks(), form.frames(), form.ledger()), (32 << 20, 8192, 320 << 10));
        assert_eq!(Form::of_header(&form.header(), form.file()), Ok(form));
    }

    /// Each byte of the header, changed in every bit.
    #[test]
    fn no_changed_header_is_taken() {
        let (form, good) = (form(), form().header());
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good;
                bytes[at] ^= 1 << bit;
                assert!(Form::of_header(&bytes, form.file()).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_header_with_a_right_check_sum_is_not_trusted_either() {
        for (at, value, what) in [
            (12, 11, "page size, as a power of two,"),
            (12, 31, "page size, as a power of two,"),
            (13, 19, "largest order"),
            (16, 1, "first frame"),
            (16, FRAME_LIMIT, "first frame"),
            (24, 0, "number of nodes"),
            (24, 65, "number of nodes"),
            (64, 0, "size of a node"),
            (64, 17 << 20, "size of a node"),
            (72, 4097, "size of a node"),
        ] {
            let mut bytes = form().header();
            if at == 12 || at == 13 {
                bytes[at] = value as u8;
            } else {
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            let sum = check_sum(&bytes);
            bytes[AT_CHECK..AT_CHECK + 4].copy_from_slice(&sum.to_le_bytes());
            let offset = form().file() - HEADER + at as u64;
            assert_eq!(Form::of_header(&bytes, form().file()), Err(LedgerFault::Header { offset, value, what }));
        }
        let (bytes, expected) = (form().file() + 4096, form().file());
        assert_eq!(Form::of_header(&form().header(), bytes), Err(LedgerFault::Length { bytes, expected }));
    }

    #[test]
    fn entries_and_words_are_read_as_they_were_written() {
        for order in 0..=18 {
            for slot in [None, Some(JournalSlot(0)), Some(JournalSlot(JournalSlot::COUNT - 1))] {
                for is_unsure in [false, true] {
                    let entry = Entry { is_unsure, ..Entry::block(Order(order), slot) };
                    assert_eq!(Entry::of(entry.bits(), Order(18)), Ok(entry));
                }
            }
            assert_eq!(Entry::of(Entry::piece(Order(order)).bits(), Order(18)), Ok(Entry::piece(Order(order))));
            let split = Word::Split { at: 77, from: Order(order), to: Order(order / 2) };
            for word in [split, Word::Allocation(99), Word::Move(0)] {
                assert_eq!(Word::of(word.bits(), 100), Ok(word));
            }
        }
        assert!(Entry::of(0, Order(18)).is_err() && Entry::of(Entry::block(Order(10), None).bits(), Order(9)).is_err());
        assert!(Word::of(Word::Allocation(100).bits(), 100).is_err() && Word::of(4, 100).is_err());
    }
}
