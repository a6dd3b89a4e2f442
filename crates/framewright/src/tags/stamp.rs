//! The word of a block: its tag, the time of its allocation and its order, as pure transitions.

use crate::types::units::Order;

/// Number of the owner of a block; the embedder gives it its meaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tag(pub u32);

/// Owner of a block, and the time of its allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Owner of the block.
    pub tag: Tag,
    /// Time in units of [`Stamp::UNIT`] nanoseconds; 26 bits, so that it wraps after 834 days.
    pub time: u32,
}

impl Stamp {
    /// Nanoseconds of a unit of time: 2^30, about a second.
    pub const UNIT: u64 = 1 << Stamp::SHIFT;
    const SHIFT: u32 = 30;

    /// Returns the stamp of `tag` at a time in nanoseconds.
    pub const fn at(tag: Tag, nanoseconds: u64) -> Stamp {
        Stamp { tag, time: (nanoseconds >> Stamp::SHIFT) as u32 & Entry::TIMES }
    }

    /// Returns the time in nanoseconds, rounded down to a unit.
    pub const fn nanoseconds(self) -> u64 {
        (self.time as u64) << Stamp::SHIFT
    }
}

/// Entry of a frame in the table. 0: no tag is known for a block that starts here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry(pub(super) u64);

// Bits: 0 recorded, 1-5 order + 1, 6-31 time, 32-63 tag. A word without bit 0 whose other bits are set is withdrawn.
impl Entry {
    const RECORDED: u64 = 1;
    const ORDER: u32 = 1;
    const TIME: u32 = 6;
    const TAG: u32 = 32;
    const TIMES: u32 = (1 << (Entry::TAG - Entry::TIME)) - 1;

    pub(super) const NOTHING: Entry = Entry(0);

    /// Returns the field of an order: not 0, so that a word which is withdrawn differs from nothing.
    const fn field(order: Order) -> u64 {
        (order.0 as u64 + 1) & 0x1f
    }

    /// Returns the word of a block of `order`.
    pub(super) const fn new(stamp: Stamp, order: Order) -> Entry {
        let time = (stamp.time & Entry::TIMES) as u64;
        let (tag, order) = (stamp.tag.0 as u64, Entry::field(order));
        Entry(tag << Entry::TAG | time << Entry::TIME | order << Entry::ORDER | Entry::RECORDED)
    }

    /// Returns the stamp, if one is recorded for a block of `order`.
    pub(super) const fn stamp(self, order: Order) -> Option<Stamp> {
        let is_recorded = self.0 & Entry::RECORDED != 0 && self.0 >> Entry::ORDER & 0x1f == order.0 as u64 + 1;
        let time = (self.0 >> Entry::TIME) as u32 & Entry::TIMES;
        if is_recorded { Some(Stamp { tag: Tag((self.0 >> Entry::TAG) as u32), time }) } else { None }
    }

    /// Recorded → withdrawn; all others → nothing.
    pub(super) const fn withdrawn(self) -> Entry {
        if self.0 & Entry::RECORDED != 0 { Entry(self.0 & !Entry::RECORDED) } else { Entry::NOTHING }
    }

    /// Withdrawn → recorded; all others stay.
    pub(super) const fn restored(self) -> Entry {
        if self.0 == 0 { self } else { Entry(self.0 | Entry::RECORDED) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMPS: [Stamp; 4] = [
        Stamp { tag: Tag(0), time: 0 },
        Stamp { tag: Tag(u32::MAX), time: 0 },
        Stamp { tag: Tag(0), time: Entry::TIMES },
        Stamp { tag: Tag(0x1234_5678), time: 0x0155_5555 },
    ];

    #[test]
    fn a_word_returns_what_was_recorded_for_its_order_alone() {
        for stamp in STAMPS {
            for order in Order(0).up_to(Order(30)) {
                let word = Entry::new(stamp, order);
                assert_eq!(word.stamp(order), Some(stamp));
                assert_eq!(word.stamp(order.up()), None);
                let gone = word.withdrawn();
                assert_eq!((gone.stamp(order), gone.restored()), (None, word));
                assert_eq!(gone.withdrawn(), Entry::NOTHING, "withdrawn twice");
            }
        }
        assert_eq!((Entry::NOTHING.withdrawn(), Entry::NOTHING.restored()), (Entry::NOTHING, Entry::NOTHING));
        assert_eq!(Entry::new(STAMPS[0], Order(31)).stamp(Order(31)), None, "no block has this order");
    }

    #[test]
    fn times_are_rounded_down_and_wrap() {
        for (nanoseconds, back) in [(0, 0), (Stamp::UNIT - 1, 0), (Stamp::UNIT, Stamp::UNIT), (1 << 56, 0)] {
            assert_eq!(Stamp::at(Tag(7), nanoseconds).nanoseconds(), back, "{nanoseconds}");
        }
    }
}
