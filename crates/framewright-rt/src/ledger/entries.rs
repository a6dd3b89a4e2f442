//! The stores of each call into a ledger, and their order.
//!
//! | call | stores, in this order |
//! |---|---|
//! | allocation, after the allocator returned the block | the word of the thread's slot: this block; the entry |
//! | free, before the allocator frees the block | the word: nothing; the entry: none |
//! | a free that was refused | the entry again |
//! | range of several blocks | as a block; the further entries before the first one, and at a free after it |
//! | split, after the allocator split | the word; the entries from the end; the word: nothing |
//! | move, while the page is locked | the word; the new entry; the old entry: none; the word: nothing |
//! | each block of a bulk call | as an allocation |
//!
//! So the entry of a block's first frame decides whether it is held. A kill that hits a split or a move leaves a word
//! from which [`super::read`] finishes it.
//!
//! A word that names an allocation stays until the slot's next call. It counts only if the entry names the slot too:
//! otherwise the block was freed, and is another caller's.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, compiler_fence};

use framewright::{FreeError, Order, Pfn, PfnRange};

use super::format::{Entry, Form, JournalSlot, Word};
use super::map::Map;
use super::read::{PendingSplit, Repair};
use super::slots::Slots;
use crate::os::{self, OsError};

/// An arena's ledger, mapped.
#[derive(Debug)]
pub(crate) struct Ledger {
    slots: Arc<Slots>,
    first: Pfn,
    max_order: Order,
    /// Has the lock that keeps other processes out.
    file: OwnedFd,
}

impl Ledger {
    /// Maps the ledger of a locked file that is as long as its form says.
    pub(crate) fn map(file: OwnedFd, form: &Form) -> Result<Ledger, OsError> {
        let slots = Slots::new(Map::new(file.as_fd(), form)?);
        Ok(Ledger { slots, first: form.first, max_order: form.max_order, file })
    }

    /// Writes the header, which makes the file one that an arena can be recovered from.
    pub(crate) fn begin(&self, form: &Form) -> Result<(), OsError> {
        let header = form.header();
        os::write_at(self.file.as_fd(), form.file() - header.len() as u64, &header)
    }

    /// Number of the ledger in this process; never 0.
    pub(crate) fn id(&self) -> u64 {
        self.slots.id
    }

    fn index(&self, pfn: Pfn) -> u64 {
        pfn.0.wrapping_sub(self.first.0)
    }

    fn entry(&self, index: u64) -> Option<&AtomicU32> {
        self.slots.map.table().get(usize::try_from(index).ok()?)
    }

    fn word(&self, slot: JournalSlot) -> Option<&AtomicU64> {
        self.slots.map.words().get(slot.word())
    }

    /// Sets an entry. A kill finds all earlier stores of this thread done, and no later one.
    #[inline]
    fn set(&self, index: u64, entry: Option<Entry>) {
        if let Some(word) = self.entry(index) {
            // ORDER: Release. The word of the journal is written before; for the compiler alone, as the fence.
            word.store(entry.map_or(0, Entry::bits), Release);
            compiler_fence(SeqCst);
        }
    }

    #[inline]
    fn note(&self, slot: Option<JournalSlot>, word: Word) {
        if let Some(place) = slot.and_then(|slot| self.word(slot)) {
            // ORDER: Release. As in `set`.
            place.store(word.bits(), Release);
            compiler_fence(SeqCst);
        }
    }

    /// Enters a block or range that was just allocated, before its caller gets it.
    #[inline(never)]
    pub(crate) fn enter(&self, frames: PfnRange) {
        let slot = self.slots.own();
        // Before any entry: a kill in between finds a word whose block is not held.
        self.note(slot, Word::Allocation(self.index(frames.start)));
        if let Some(order) = self.block_of(frames) {
            self.set(self.index(frames.start), Some(Entry::block(order, slot)));
        } else if let Some((_, order)) = frames.blocks(self.max_order).next() {
            self.set_range(frames, Entry::block(order, slot));
        }
    }

    /// The order of the frames, if they are one block.
    #[inline]
    fn block_of(&self, frames: PfnRange) -> Option<Order> {
        let count = frames.frames();
        let order = Order(count.trailing_zeros() as u8);
        (count.is_power_of_two() && order <= self.max_order && frames.start.is_aligned(order)).then_some(order)
    }

    /// Sets the entries of a block or range, the first one last.
    fn set_range(&self, frames: PfnRange, first: Entry) {
        let mut pieces = frames.blocks(self.max_order);
        let _ = pieces.next();
        for (pfn, order) in pieces.rev() {
            self.set(self.index(pfn), Some(Entry::piece(order)));
        }
        self.set(self.index(frames.start), Some(first));
    }

    /// Enters a block or range again whose free was refused.
    #[cold]
    pub(crate) fn enter_again(&self, frames: PfnRange, entry: Entry) {
        self.set_range(frames, entry);
    }

    /// Takes a block or range out, before it is freed. Returns its entry, if it was there.
    ///
    /// Memory that is not in the ledger as these frames is left as it is there: it came from the allocator's own calls,
    /// or its free will be refused.
    pub(crate) fn leave(&self, frames: PfnRange) -> Option<Entry> {
        // The slot's last allocation has returned, whatever becomes of this call.
        self.note(self.slots.own(), Word::Nothing);
        if let Some(order) = self.block_of(frames) {
            let bits = self.entry(self.index(frames.start))?.load(Relaxed);
            if !Entry::is_block(bits, order) {
                return None;
            }
            self.set(self.index(frames.start), None);
            return Entry::of(bits, self.max_order).ok();
        }
        let mut pieces = frames.blocks(self.max_order);
        let (start, order) = pieces.next()?;
        let entry = self.read(start)?;
        let is_piece = |(pfn, order)| self.read(pfn) == Some(Entry::piece(order));
        if entry.is_piece || entry.order != order || !pieces.clone().all(is_piece) {
            return None;
        }
        self.set(self.index(start), None);
        pieces.for_each(|(pfn, _)| self.set(self.index(pfn), None));
        Some(entry)
    }

    #[inline]
    fn read(&self, pfn: Pfn) -> Option<Entry> {
        Entry::of(self.entry(self.index(pfn))?.load(Relaxed), self.max_order).ok()
    }

    /// Splits by `split`, and then the entry. Blocks that are not in the ledger are split alone.
    ///
    /// # Errors
    /// As of `split`; [`FreeError::NoCpu`] if all lines of the journal are taken, and nothing was split.
    pub(crate) fn split(
        &self,
        pfn: Pfn,
        (from, to): (Order, Order),
        split: impl FnOnce() -> Result<(), FreeError>,
    ) -> Result<(), FreeError> {
        let slot = self.slots.own().ok_or(FreeError::NoCpu)?;
        split()?;
        if self.read(pfn).is_some_and(|entry| !entry.is_piece && entry.order == from) && to < from {
            let split = PendingSplit { at: self.index(pfn), from, to };
            self.note(Some(slot), Word::Split { at: split.at, from, to });
            self.set_pieces(split);
            self.note(Some(slot), Word::Nothing);
        }
        Ok(())
    }

    /// Writes the pieces of a split, the first one last.
    fn set_pieces(&self, PendingSplit { at, from, to }: PendingSplit) {
        for piece in (0..from.frames() >> to.0).rev() {
            self.set(at + (piece << to.0), Some(Entry::block(to, None)));
        }
    }

    /// Whether the calling thread may move blocks.
    pub(crate) fn may_move(&self) -> bool {
        self.slots.own().is_some()
    }

    /// Enters that the contents of a block are at `to` now. Its user is kept out meanwhile.
    pub(crate) fn relocate(&self, from: Pfn, to: Pfn) {
        let Some((entry, slot)) = self.read(from).zip(self.slots.own()) else { return };
        let (old, new) = (self.index(from), self.index(to));
        if let Some(place) = self.slots.map.words().get(slot.word() + 1) {
            place.store(old, Relaxed);
        }
        self.note(Some(slot), Word::Move(new));
        self.set(new, Some(Entry { slot: Some(slot), is_unsure: false, ..entry }));
        self.set(old, None);
        self.note(Some(slot), Word::Nothing);
    }

    /// Notes that the program has taken a block over that a recovery found.
    pub(crate) fn confirm(&self, pfn: Pfn) {
        if let Some(entry) = self.read(pfn).filter(|entry| entry.is_unsure) {
            self.set(self.index(pfn), Some(Entry { is_unsure: false, ..entry }));
        }
    }

    /// Finishes what the killed process had begun, as [`super::read`] found it.
    ///
    /// A kill in the middle of that leaves a ledger that is read as before.
    pub(crate) fn repair(&self, repair: &Repair) {
        for &index in &repair.unsure {
            if let Some(entry) = self.read(self.first.add(index)) {
                self.set(index, Some(Entry { is_unsure: true, slot: None, ..entry }));
            }
        }
        repair.cleared.iter().for_each(|&index| self.set(index, None));
        repair.splits.iter().for_each(|&split| self.set_pieces(split));
        for word in self.slots.map.words().iter().filter(|word| word.load(Relaxed) != 0) {
            // ORDER: Release. As in `set`.
            word.store(0, Release);
        }
    }
}
