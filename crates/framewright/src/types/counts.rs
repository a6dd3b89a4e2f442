//! Counts: numbers of frames, of blocks and of pageblocks, which cannot be mixed up.
//!
//! A number of blocks becomes a number of frames only by an order ([`BlockCount::frames`]), a number of pageblocks only
//! by the pageblock order. All arithmetic saturates, so callers need not say what happens at the limits.
//!
//! | type | counts | example |
//! |---|---|---|
//! | [`FrameCount`] | frames | what a zone's watermarks compare |
//! | [`BlockCount`] | blocks, of one order where they become frames | the length of a free list (`nr_free`) |
//! | [`PageblockCount`] | pageblocks | what CPUs own, how far marks are boosted |
//!
//! They cost nothing: each is its number. Words of the machine hold the plain number; a record's methods return the
//! type.

use core::iter::Sum;

use crate::types::units::{FrameRange, Order};

/// Number of frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub(crate) struct FrameCount(pub(crate) u64);

impl FrameCount {
    pub(crate) const ZERO: FrameCount = FrameCount(0);

    /// Returns the frames in a block of this order.
    pub(crate) const fn of_block(order: Order) -> FrameCount {
        FrameCount(order.frames())
    }

    /// Returns the sum; saturates.
    pub(crate) const fn plus(self, more: FrameCount) -> FrameCount {
        FrameCount(self.0.saturating_add(more.0))
    }

    /// Returns half of the frames, rounded down.
    pub(crate) const fn half(self) -> FrameCount {
        FrameCount(self.0 / 2)
    }

    /// Returns the difference; 0 if it would be negative.
    pub(crate) const fn minus(self, less: FrameCount) -> FrameCount {
        FrameCount(self.0.saturating_sub(less.0))
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Sum for FrameCount {
    fn sum<I: Iterator<Item = FrameCount>>(counts: I) -> FrameCount {
        counts.fold(FrameCount::ZERO, FrameCount::plus)
    }
}

impl FrameRange {
    /// Returns the number of frames.
    pub(crate) const fn frames(self) -> FrameCount {
        FrameCount(self.end.0.saturating_sub(self.start.0) as u64)
    }
}

/// Number of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub(crate) struct BlockCount(pub(crate) u64);

impl BlockCount {
    pub(crate) const ZERO: BlockCount = BlockCount(0);
    pub(crate) const ONE: BlockCount = BlockCount(1);
    /// No limit.
    pub(crate) const ALL: BlockCount = BlockCount(u64::MAX);

    /// Returns the frames in that many blocks of this order; saturates.
    pub(crate) const fn frames(self, order: Order) -> FrameCount {
        FrameCount(self.0.saturating_mul(order.frames()))
    }

    /// Returns the sum; saturates.
    pub(crate) const fn plus(self, more: BlockCount) -> BlockCount {
        BlockCount(self.0.saturating_add(more.0))
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Number of pageblocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(transparent)]
pub(crate) struct PageblockCount(pub(crate) u64);

impl PageblockCount {
    pub(crate) const ONE: PageblockCount = PageblockCount(1);

    /// Returns the frames in that many pageblocks; saturates.
    pub(crate) const fn frames(self, pageblock_order: Order) -> FrameCount {
        FrameCount(self.0.saturating_mul(pageblock_order.frames()))
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_frames_by_an_order_and_saturate() {
        assert_eq!(BlockCount(3).frames(Order(2)), FrameCount(12));
        assert_eq!(PageblockCount(2).frames(Order(9)), FrameCount(1024));
        assert_eq!(BlockCount(u64::MAX).frames(Order(1)), FrameCount(u64::MAX));
        assert_eq!(FrameCount(3).minus(FrameCount(5)), FrameCount::ZERO);
        assert_eq!(FrameCount(u64::MAX).plus(FrameCount::of_block(Order(1))), FrameCount(u64::MAX));
    }
}
