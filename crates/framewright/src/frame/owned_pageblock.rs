//! Estates: the pageblocks that CPUs own, and what is free in them.
//!
//! A CPU that claims a pageblock takes all of it out of its zone and becomes its *owner*. From then on the pageblock has a bit for
//! each of its frames: set, the frame is free, and for its owner to take. So splitting the pageblock is to clear bits, giving a
//! block back is to set them, whichever CPU does it, and merging is nothing at all: a run of bits is a block, a pageblock whose bits
//! are all set is whole. None of that takes a lock. (What Weiner's RFC of 2026 does with lists under the lock of the owner's
//! per-CPU lists.)
//!
//! Whoever changes a bit from set to clear has the frame; there is no other rule, and none is needed between those who take.
//! What has to be settled is who looks after a bit that is set:
//!
//! | who | does |
//! |---|---|
//! | its owner | takes bits while the word says so; sees to nothing else |
//! | who gives a block back | sets bits if there is an owner, then looks again; if there is none any more, does the next row's work |
//! | who disowns, under the zone lock | takes the owner's name away, then takes all bits, and gives what they say to the zone |
//!
//! Giver and disowner change the same word, so one of them comes first there. If it is the giver, the other meets his bit; if it is
//! the disowner, the giver has read what that wrote, and sees the name gone. Nobody needs a fence.
//!
//! That a pageblock has *no* owner is certain for whoever has a block of it: only a whole one is claimed. So nothing of an owned
//! pageblock is ever on a list of its zone.
//!
//! Its owner finds a pageblock again by its *doors*, a few places for numbers of pageblocks, where whoever gives something back
//! leaves a card. There are fewer doors than pageblocks: a card may cover another. What is not found so is found by whoever
//! drains, who looks at every pageblock; and a pageblock that becomes whole goes back to its zone by the hand of whoever gave the
//! last block, unless that is an owner who has no other whole one.
//!
//! A frame whose bit is set says nothing else: no head, no state. It counts as a per-CPU page.

use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::migratetype::MigrateType;
use crate::types::units::{CpuId, Frame, Order, ZoneIdx};

/// Frames that one word tells of: the block of this order.
const WORD: Order = Order(6);
/// Places for cards that a CPU has for each zone and type of lists: a cache line of them.
const HINTS: usize = 16;

/// Words that tell of the frames of one pageblock.
pub(crate) const fn words_of(pageblock_order: Order) -> usize {
    1 << pageblock_order.0.saturating_sub(WORD.0)
}

/// Doors of all CPUs.
pub(crate) const fn hints_of(cpus: usize, zones: usize) -> usize {
    cpus.saturating_mul(zones).saturating_mul(MigrateType::PCP_COUNT * HINTS)
}

/// See the module's description. Without the mechanism all arrays are empty, and nothing is owned.
pub(crate) struct OwnedPageblocks<'a, M: Machine> {
    /// For each pageblock its owner: number of the CPU + 1.
    pub(crate) owners: &'a [M::U32],
    /// For each pageblock the words with its frames' bits.
    pub(crate) free: &'a [M::U64],
    /// For each CPU, zone and type of lists the numbers of pageblocks + 1 that may have something.
    hints: &'a [M::U32],
    zones: usize,
    pub(crate) pageblock_order: Order,
}

impl<'a, M: Machine> OwnedPageblocks<'a, M> {
    /// Owners and words of all pageblocks; doors in so many zones.
    pub(crate) const fn new(
        (owners, free): (&'a [M::U32], &'a [M::U64]),
        (doors, zones): (&'a [M::U32], usize),
        pageblock_order: Order,
    ) -> Self {
        OwnedPageblocks { owners, free, hints: doors, zones, pageblock_order }
    }

    /// Largest block that lies in one word.
    pub(crate) fn unit(&self) -> Order {
        WORD.min(self.pageblock_order)
    }

    /// All bits of a word that are used.
    fn full(&self) -> u64 {
        bits_of(self.unit())
    }

    /// The first frame of every pageblock that a CPU could own.
    pub(crate) fn starts(&self) -> impl Iterator<Item = Frame> + use<'a, M> {
        let order = self.pageblock_order;
        (0..self.owners.len()).map(move |number| Frame((number as u32) << order.0))
    }

    fn number(&self, frame: Frame) -> usize {
        frame.index() >> self.pageblock_order.0
    }

    /// The owner of the pageblock around `frame`. That there is none is certain for whoever has a block of it; who the owner is,
    /// for nobody.
    pub(crate) fn owner(&self, frame: Frame) -> Option<CpuId> {
        // Relaxed: who came by a block has seen its pageblock claimed, and who set a bit what happened to the word before.
        let owner = self.owners.get(self.number(frame))?.load(Ordering::Relaxed);
        owner.checked_sub(1).map(|cpu| CpuId(cpu as u16))
    }

    /// The words of the pageblock around `frame`, and the first frame that each tells of.
    pub(crate) fn words(&self, frame: Frame) -> impl Iterator<Item = (Frame, &'a M::U64)> + use<'a, M> {
        let each = words_of(self.pageblock_order);
        let first = self.number(frame).wrapping_mul(each);
        let (start, unit) = (frame.align_down(self.pageblock_order), self.unit());
        let words = self.free.get(first..first.wrapping_add(each)).unwrap_or(&[]);
        words.iter().zip(0_u64..).map(move |(word, index)| (start.add(index << unit.0), word))
    }

    /// The bits of a block that lies in one word, or of as much of a larger one.
    pub(crate) fn bits(&self, frame: Frame, order: Order) -> u64 {
        bits_of(order.min(self.unit())) << (frame.0 & self.unit().mask() as u32)
    }

    fn word(&self, frame: Frame) -> Option<&'a M::U64> {
        let inner = (frame.index() & self.pageblock_order.mask() as usize) >> self.unit().0;
        self.free.get(self.number(frame).wrapping_mul(words_of(self.pageblock_order)).wrapping_add(inner))
    }

    /// Whether a frame is free in an owned pageblock.
    pub(crate) fn has(&self, frame: Frame) -> bool {
        let bit = frame.0 & self.unit().mask() as u32;
        self.word(frame).is_some_and(|word| word.load(Ordering::Relaxed) >> bit & 1 != 0)
    }

    /// Whether all of the pageblock around `frame` is free in its owner's hands, at this moment.
    pub(crate) fn is_whole(&self, frame: Frame) -> bool {
        let full = self.full();
        self.words(frame).all(|(_, word)| word.load(Ordering::Relaxed) == full)
    }

    /// Whether nothing of it is, at this moment.
    pub(crate) fn is_used_up(&self, frame: Frame) -> bool {
        self.words(frame).all(|(_, word)| word.load(Ordering::Relaxed) == 0)
    }

    /// Makes a CPU the owner of the pageblock at `start`, which is the caller's own, all of it. The zone lock is held.
    pub(crate) fn claim(&self, start: Frame, cpu: CpuId) {
        let full = self.full();
        self.words(start).for_each(|(_, word)| word.store(full, Ordering::Relaxed));
        if let Some(owner) = self.owners.get(self.number(start)) {
            owner.store(u32::from(cpu.0).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Takes the name of the owner away; says whether there was one. The zone lock is held. To be followed by a take of all bits.
    pub(crate) fn release(&self, frame: Frame) -> bool {
        let Some(owner) = self.owners.get(self.number(frame)) else { return false };
        let was_owned = owner.load(Ordering::Relaxed) != 0;
        owner.store(0, Ordering::Relaxed);
        was_owned
    }

    /// Takes all that a word says is free.
    pub(crate) fn take(&self, word: &M::U64) -> u64 {
        // ORDER: AcqRel. Acquires what the frames' last owners did with them; partner: `put`. Publishes that the name is gone, if
        // this is who took it away; partner: `put`. An exchange even where the word was empty: who comes later must read it.
        // Model: owned_disown, owned_refill.
        word.swap(0, Ordering::AcqRel)
    }

    /// Says of frames of the caller's that they are free: the bits of `mask`, in the word that tells of the frames from `start`
    /// on. Returns whether the word is full then. The caller must look at [`OwnedPageblocks::owner`] afterwards.
    ///
    /// Bits that are set already are no business of the caller's: somebody freed the same block in the same instant, or the word is
    /// damaged. Then nothing is changed, not even for a moment, in which others would take what a carry of an addition says.
    pub(crate) fn put(&self, start: Frame, mask: u64) -> bool {
        let Some(word) = self.word(start) else { return false };
        // A guess instead of a look: where it is wrong, the line has come to be written to all the same.
        let mut before = 0;
        while before & mask == 0 {
            // ORDER: AcqRel. Publishes what the frames' last owner did; partner: `take`. Acquires that the name is gone, if a
            // disowner took the bits before; partner: `take`. Model: owned_disown.
            match word.cas(before, before | mask, Ordering::AcqRel) {
                Ok(_) => return before | mask == self.full(),
                // Every turn more is another CPU's success.
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

    /// Leaves a card at an owner's door: the pageblock around `frame`, with blocks for these lists, has something.
    pub(crate) fn hint(&self, owner: CpuId, zone: ZoneIdx, lists: usize, frame: Frame) {
        let number = self.number(frame) as u32;
        let door = self.hints(owner, zone, lists).get(number as usize % HINTS);
        if let Some(door) = door.filter(|door| door.load(Ordering::Relaxed) != number.wrapping_add(1)) {
            door.store(number.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// The doors of a CPU at which there is a card, and the pageblocks' first frames.
    pub(crate) fn hinted(
        &self,
        cpu: CpuId,
        zone: ZoneIdx,
        lists: usize,
    ) -> impl Iterator<Item = (&'a M::U32, Frame)> + use<'a, M> {
        let order = self.pageblock_order;
        let card = move |door: &'a M::U32| {
            let number = door.load(Ordering::Relaxed).checked_sub(1)?;
            Some((door, Frame(number << order.0)))
        };
        self.hints(cpu, zone, lists).iter().filter_map(card)
    }
}

/// The bits of a block of at most [`WORD`] that starts at bit 0.
const fn bits_of(order: Order) -> u64 {
    if order.0 >= WORD.0 { u64::MAX } else { (1 << (1_u64 << order.0)) - 1 }
}

/// Of the bits of free frames, some blocks: returns the bits at which they start, and what is left without them.
pub(crate) fn choose(bits: u64, order: Order, most: u32) -> (u64, u64) {
    let block = bits_of(order);
    let mut starts = bits;
    for half in 0..order.0.min(WORD.0) {
        starts &= starts >> (1_u32 << half);
    }
    // Aligned: every so many bits one.
    starts &= u64::MAX.checked_div(block).unwrap_or(0);
    let (mut chosen, mut rest) = (0_u64, bits);
    for start in bits_in(starts).take(most as usize) {
        chosen |= 1 << start;
        rest &= !(block << start);
    }
    (chosen, rest)
}

/// The numbers of the bits that are set, ascending.
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
