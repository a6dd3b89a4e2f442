//! Owned pageblocks: pageblocks whose free frames belong to one CPU.
//!
//! A CPU that claims a pageblock removes all of it from its zone and becomes its *owner*. From then on a bitmap has a
//! bit for each frame of the pageblock: a set bit means that the frame is free, and that its owner may take it. To
//! split the pageblock is to clear bits. To free a block is to set them, on any CPU. Merging needs no work: a run of
//! bits is a block, and a pageblock whose bits are all set is whole. None of this takes a lock. Weiner's RFC of 2026
//! does it with lists, under the lock of the owner's per-CPU lists.
//!
//! The CPU that changes a bit from set to clear has the frame. There is no other rule, and CPUs that take frames need
//! none. The protocol decides which CPU handles a set bit:
//!
//! | CPU | action |
//! |---|---|
//! | the owner | takes bits while the word has some; checks nothing else |
//! | a CPU that frees a block | sets bits if there is an owner, then checks again; owner gone: acts as releaser |
//! | the releaser (zone lock) | clears the owner's name, then takes all bits, and frees those frames to the zone |
//!
//! The freeing CPU and the releaser change the same word, so one of them is first. If the freeing CPU is first, the
//! releaser finds its bit. If the releaser is first, the freeing CPU has read the releaser's write, and sees that the
//! name is gone. No fence is needed.
//!
//! That a pageblock has *no* owner is certain for a CPU that holds a block of it: only a whole pageblock is claimed. No
//! block of an owned pageblock is therefore ever on a list of its zone.
//!
//! The owner finds such a pageblock again through *hints*: a small table of pageblock numbers, written by CPUs that
//! free a block. There are fewer entries than pageblocks, so a hint may overwrite another. A drain looks at every
//! pageblock, and so finds those without a hint. A pageblock that becomes whole is freed to its zone by the CPU that
//! freed its last block. The exception is the owner itself, if it has no other whole pageblock: it keeps this one.
//!
//! A frame whose bit is set has no other descriptor: no head, no state. It counts as a per-CPU page.

use crate::seam::compiled::Compiled;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::migratetype::MigrateType;
use crate::types::units::{CpuId, Frame, Order, ZoneIdx};

/// Order of the block whose frames one word of the bitmap covers.
const WORD: Order = Order(6);
/// Number of a CPU's hints for each zone and type: one cache line.
const HINTS: usize = 16;

/// Returns the number of words in one pageblock's bitmap.
pub(crate) const fn words_of(pageblock_order: Order) -> usize {
    1 << pageblock_order.0.saturating_sub(WORD.0)
}

/// Returns the number of hints of all CPUs.
pub(crate) const fn hints_of(cpus: usize, zones: usize) -> usize {
    cpus.saturating_mul(zones).saturating_mul(MigrateType::PCP_COUNT * HINTS)
}

/// Owners, bitmaps and hints of all pageblocks; the description of this module explains them.
///
/// Without the mechanism all arrays are empty, and no pageblock is owned.
pub(crate) struct OwnedPageblocks<'a, M: Machine> {
    /// For each pageblock its owner: the number of the CPU + 1; 0 for none.
    pub(crate) owners: &'a [M::U32],
    /// For each pageblock the words of its bitmap.
    pub(crate) free: &'a [M::U64],
    /// For each CPU, zone and type: numbers + 1 of pageblocks with free frames.
    ///
    /// It is a hint: such a pageblock may have no free frames.
    pub(crate) hints: &'a [M::U32],
    zones: usize,
    pub(crate) pageblock_order: Order,
}

impl<'a, M: Machine> OwnedPageblocks<'a, M> {
    /// Creates the table from owners and bitmaps of all pageblocks, and hints for `zones` zones.
    pub(crate) const fn new(
        owners: &'a [M::U32],
        free: &'a [M::U64],
        hints: &'a [M::U32],
        zones: usize,
        pageblock_order: Order,
    ) -> Self {
        OwnedPageblocks { owners, free, hints, zones, pageblock_order }
    }

    /// Returns the owners; none where the machine is compiled without.
    #[inline(always)]
    pub(crate) fn owners(&self) -> &'a [M::U32] {
        if M::MAY_OWN { self.owners } else { &[] }
    }

    /// Returns the bitmap; as for [`OwnedPageblocks::owners`].
    #[inline(always)]
    fn free(&self) -> &'a [M::U64] {
        if M::MAY_OWN { self.free } else { &[] }
    }

    /// Returns the order of the largest block that lies in one word.
    pub(crate) fn unit(&self) -> Order {
        WORD.min(self.pageblock_order)
    }

    /// Returns all used bits of a word.
    fn full(&self) -> u64 {
        bits_of(self.unit())
    }

    /// Returns the first frame of every pageblock that a CPU could own.
    pub(crate) fn starts(&self) -> impl Iterator<Item = Frame> + use<'a, M> {
        let order = self.pageblock_order;
        (0..self.owners().len()).map(move |number| Frame((number as u32) << order.0))
    }

    fn number(&self, frame: Frame) -> usize {
        frame.index() >> self.pageblock_order.0
    }

    /// Returns the owner of the pageblock that contains `frame`.
    ///
    /// `None` is certain for a caller that has a block of the pageblock. The name of an owner is never certain.
    pub(crate) fn owner(&self, frame: Frame) -> Option<CpuId> {
        // Relaxed: a CPU that has a block of the pageblock has seen its claim. A CPU that set a bit has seen the
        // earlier changes of that word.
        let owner = self.owners().get(self.number(frame))?.load(Ordering::Relaxed);
        owner.checked_sub(1).map(|cpu| CpuId(cpu as u16))
    }

    /// Returns the words of the pageblock that contains `frame`, each with its first frame.
    pub(crate) fn words(&self, frame: Frame) -> impl Iterator<Item = (Frame, &'a M::U64)> + use<'a, M> {
        let each = words_of(self.pageblock_order);
        let first = self.number(frame).wrapping_mul(each);
        let (start, unit) = (frame.align_down(self.pageblock_order), self.unit());
        let words = self.free().get(first..first.wrapping_add(each)).unwrap_or(&[]);
        words.iter().zip(0_u64..).map(move |(word, index)| (start.add(index << unit.0), word))
    }

    /// Returns the bits of a block in its word.
    ///
    /// For a block larger than a word, it returns all bits of the word.
    pub(crate) fn bits(&self, frame: Frame, order: Order) -> u64 {
        bits_of(order.min(self.unit())) << (frame.0 & self.unit().mask() as u32)
    }

    fn word(&self, frame: Frame) -> Option<&'a M::U64> {
        let inner = (frame.index() & self.pageblock_order.mask() as usize) >> self.unit().0;
        self.free().get(self.number(frame).wrapping_mul(words_of(self.pageblock_order)).wrapping_add(inner))
    }

    /// Returns whether a frame is free in an owned pageblock.
    pub(crate) fn has(&self, frame: Frame) -> bool {
        let bit = frame.0 & self.unit().mask() as u32;
        self.word(frame).is_some_and(|word| word.load(Ordering::Relaxed) >> bit & 1 != 0)
    }

    /// Returns whether the whole pageblock that contains `frame` is free and owned, at this moment.
    pub(crate) fn is_whole(&self, frame: Frame) -> bool {
        let full = self.full();
        self.words(frame).all(|(_, word)| word.load(Ordering::Relaxed) == full)
    }

    /// Returns whether no frame of the owned pageblock is free, at this moment.
    pub(crate) fn is_used_up(&self, frame: Frame) -> bool {
        self.words(frame).all(|(_, word)| word.load(Ordering::Relaxed) == 0)
    }

    /// Makes a CPU the owner of the pageblock at `start`.
    ///
    /// Caller holds: the zone lock, and all frames of the pageblock.
    pub(crate) fn claim(&self, start: Frame, cpu: CpuId) {
        let full = self.full();
        self.words(start).for_each(|(_, word)| word.store(full, Ordering::Relaxed));
        if let Some(owner) = self.owners().get(self.number(start)) {
            owner.store(u32::from(cpu.0).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Clears the owner's name; returns whether there was one.
    ///
    /// The caller must take all bits afterwards.
    ///
    /// Caller holds: the zone lock.
    pub(crate) fn release(&self, frame: Frame) -> bool {
        let Some(owner) = self.owners().get(self.number(frame)) else { return false };
        let was_owned = owner.load(Ordering::Relaxed) != 0;
        owner.store(0, Ordering::Relaxed);
        was_owned
    }

    /// Takes all set bits of a word and returns them.
    pub(crate) fn take(&self, word: &M::U64) -> u64 {
        // ORDER: AcqRel. Acquires what the frames' last owners did with them; partner: `put`. Publishes that the name
        // is gone, if this caller cleared it; partner: `put`. An exchange even where the word was empty: a later `put`
        // must read it. Model: owned_disown, owned_refill.
        word.swap(0, Ordering::AcqRel)
    }

    /// Sets the bits of freed frames; returns whether the word is full then.
    ///
    /// The frames belong to the caller until then.
    ///
    /// `mask` applies to the word whose first frame is `start`. The caller must check [`OwnedPageblocks::owner`]
    /// afterwards.
    ///
    /// If a bit is set already, another CPU freed the block at the same instant, or the word is damaged. Then nothing
    /// is changed, not even for a moment. An addition would let other CPUs take the frames of its carry.
    pub(crate) fn put(&self, start: Frame, mask: u64) -> bool {
        let Some(word) = self.word(start) else { return false };
        // A guess instead of a load: even where it is wrong, the line has been fetched for writing.
        let mut before = 0;
        while before & mask == 0 {
            // ORDER: AcqRel. Publishes what the frames' last owner did; partner: `take`. Acquires that the name is
            // gone, if a releaser took the bits before; partner: `take`. Model: owned_disown.
            match word.cas(before, before | mask, Ordering::AcqRel) {
                Ok(_) => return before | mask == self.full(),
                // Each further iteration means that another CPU succeeded.
                Err(now) => before = now,
            }
        }
        false
    }

    fn hints(&self, cpu: CpuId, zone: ZoneIdx, lists: usize) -> &'a [M::U32] {
        let record = cpu.index().wrapping_mul(self.zones).wrapping_add(zone.index());
        let first = record.wrapping_mul(MigrateType::PCP_COUNT).wrapping_add(lists).wrapping_mul(HINTS);
        self.hints.get(first..first.wrapping_add(HINTS)).unwrap_or(&[])
    }

    /// Hints to an owner that the pageblock of `frame` has free frames.
    ///
    /// Its blocks are for these lists.
    pub(crate) fn hint(&self, owner: CpuId, zone: ZoneIdx, lists: usize, frame: Frame) {
        let number = self.number(frame) as u32;
        let slot = self.hints(owner, zone, lists).get(number as usize % HINTS);
        if let Some(slot) = slot.filter(|slot| slot.load(Ordering::Relaxed) != number.wrapping_add(1)) {
            slot.store(number.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Returns a CPU's hints that are set, with the first frames of their pageblocks.
    pub(crate) fn hinted(
        &self,
        cpu: CpuId,
        zone: ZoneIdx,
        lists: usize,
    ) -> impl Iterator<Item = (&'a M::U32, Frame)> + use<'a, M> {
        let order = self.pageblock_order;
        let hinted = move |slot: &'a M::U32| {
            let number = slot.load(Ordering::Relaxed).checked_sub(1)?;
            Some((slot, Frame(number << order.0)))
        };
        self.hints(cpu, zone, lists).iter().filter_map(hinted)
    }
}

/// Returns the bits of a block of at most [`WORD`] that starts at bit 0.
const fn bits_of(order: Order) -> u64 {
    if order.0 >= WORD.0 { u64::MAX } else { (1 << (1_u64 << order.0)) - 1 }
}

/// Chooses blocks among the bits of free frames.
///
/// Returns the bits at which the blocks start, and the remaining bits.
pub(crate) fn choose(bits: u64, order: Order, most: u32) -> (u64, u64) {
    let block = bits_of(order);
    let mut starts = bits;
    for half in 0..order.0.min(WORD.0) {
        starts &= starts >> (1_u32 << half);
    }
    // Aligned: one bit in every 2^`order`.
    starts &= u64::MAX.checked_div(block).unwrap_or(0);
    let (mut chosen, mut rest) = (0_u64, bits);
    for start in bits_in(starts).take(most as usize) {
        chosen |= 1 << start;
        rest &= !(block << start);
    }
    (chosen, rest)
}

/// Returns the numbers of the set bits, ascending.
pub(crate) fn bits_in(mut bits: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let lowest = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (lowest < u64::BITS).then_some(lowest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_chosen_from_below_and_aligned() {
        for (bits, order, most, expected) in [
            (0, 0, 9, (0, 0)),
            (0b1011, 0, 9, (0b1011, 0)),
            (0b1011, 0, 2, (0b11, 0b1000)),
            (0b0110, 1, 9, (0, 0b0110)),
            (0b1111_1110, 1, 2, (0b1_0100, 0b1100_0010)),
            (0b1111_1110, 2, 9, (0b1_0000, 0b1110)),
            (u64::MAX, 3, 8, (0x0101_0101_0101_0101, 0)),
            (u64::MAX, 6, 1, (1, 0)),
            (u64::MAX >> 1, 6, 1, (0, u64::MAX >> 1)),
            (u64::MAX, 7, 1, (1, 0)),
        ] {
            assert_eq!(choose(bits, Order(order), most), expected, "{bits:#b}, order {order}, {most} at most");
        }
    }
}
