//! Tally: counts of a zone's lists that the lock holder collects and adds up once.
//!
//! Every request that checks a watermark reads the numbers of free frames, on any CPU. Each write to them takes their
//! line from all of these readers (`zone_stat.rs`). A CPU that changes the lists therefore counts in a [`Tally`] of its
//! own. It adds the tally up once, right before it releases the zone lock.

use core::cell::Cell;

use crate::seam::compiled::Compiled;
use crate::seam::field::record;
use crate::seam::machine::{FreeChange, Machine, Ordering, Word};
use crate::sync::zone_lock::LockMode;
use crate::types::counts::{BlockCount, FrameCount, PageblockCount};
use crate::types::migratetype::MigrateType;

record! {
    /// Counts of a zone's lists that no watermark reads.
    ///
    /// Invariant B4, with the lock free:
    ///
    /// - `isolated` is the sum of the blocks on the isolated lists, in frames.
    /// - `quarantined` is the number of quarantined frames.
    /// - `skipped` is the number of free blocks whose state has the mark.
    /// - `owned` is the number of pageblocks that CPUs own.
    pub(crate) struct ListCount<M: Machine> {
        pub(crate) word isolated: M::U64,
        pub(crate) word quarantined: M::U64,
        /// Free *blocks* that were not checked for merging.
        word skipped: M::U64,
        /// Pageblocks that CPUs own; changed under the zone lock, held exclusively.
        word owned: M::U64,
    }
}

impl<M: Machine> ListCount<M> {
    /// Returns the number of free blocks that were not checked for merging, at this moment.
    pub(crate) fn skipped_racy(&self) -> BlockCount {
        if M::MAY_SKIP { BlockCount(self.skipped.load(Ordering::Relaxed)) } else { BlockCount::ZERO }
    }

    /// Returns the number of pageblocks that CPUs own, at this moment.
    pub(crate) fn owned_racy(&self) -> PageblockCount {
        if M::MAY_OWN { PageblockCount(self.owned.load(Ordering::Relaxed)) } else { PageblockCount(0) }
    }

    /// Resets the counts of blocks on the lists to 0.
    #[inline]
    pub(crate) fn reset(&self) {
        for word in [&self.isolated, &self.skipped] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Adds the changes of one CPU.
    ///
    /// Caller holds: the zone lock, in this mode.
    pub(crate) fn add(&self, tally: &Tally, mode: LockMode) {
        if M::PARTS.mobility {
            add(&self.isolated, tally.isolated.take(), mode);
        }
        add(&self.quarantined, tally.quarantined.take(), mode);
        if M::MAY_SKIP {
            add(&self.skipped, tally.skipped.take(), mode);
        }
        if M::MAY_OWN {
            add(&self.owned, tally.owned.take(), mode);
        }
    }
}

/// Adds to a word that changes under the zone lock; does nothing for 0.
///
/// Caller holds: the zone lock, in this mode.
pub(crate) fn add(word: &impl Word<u64>, change: u64, mode: LockMode) {
    match mode {
        _ if change == 0 => {}
        LockMode::Alone => word.store(word.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed),
        LockMode::Shared => {
            word.add(change, Ordering::Relaxed);
        }
    }
}

/// Changes by one CPU that are not added up yet.
///
/// Negative numbers are in two's complement.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) free: Cell<u64>,
    pub(crate) cma: Cell<u64>,
    highatomic: Cell<u64>,
    isolated: Cell<u64>,
    quarantined: Cell<u64>,
    skipped: Cell<u64>,
    owned: Cell<u64>,
}

fn bump(cell: &Cell<u64>, change: u64) {
    cell.set(cell.get().wrapping_add(change));
}

fn lower(cell: &Cell<u64>, change: u64) {
    bump(cell, change.wrapping_neg());
}

impl Tally {
    /// Takes the changes of free frames, CMA frames and high-atomic frames; resets them to 0.
    #[inline]
    pub(crate) fn free_change(&self) -> [u64; 3] {
        [&self.free, &self.cma, &self.highatomic].map(Cell::take)
    }

    /// Returns the changes that [`Tally::free_change`] will take.
    #[inline]
    pub(crate) fn told(&self) -> FreeChange {
        let [free, cma, highatomic] = [&self.free, &self.cma, &self.highatomic].map(|cell| cell.get() as i64);
        FreeChange { free, cma, highatomic }
    }

    /// Counts more free frames on lists of this type.
    pub(crate) fn count(&self, migratetype: MigrateType, frames: FrameCount) {
        self.change(migratetype, frames.0);
    }

    /// Counts fewer free frames on lists of this type.
    pub(crate) fn uncount(&self, migratetype: MigrateType, frames: FrameCount) {
        self.change(migratetype, frames.0.wrapping_neg());
    }

    fn change(&self, migratetype: MigrateType, frames: u64) {
        match migratetype {
            MigrateType::Isolate => return bump(&self.isolated, frames),
            MigrateType::Cma => bump(&self.cma, frames),
            MigrateType::HighAtomic => bump(&self.highatomic, frames),
            _ => {}
        }
        bump(&self.free, frames);
    }

    /// Counts more blocks that were not checked for merging.
    pub(crate) fn count_skipped(&self, blocks: BlockCount) {
        bump(&self.skipped, blocks.0);
    }

    /// Counts fewer blocks that were not checked for merging.
    pub(crate) fn uncount_skipped(&self, blocks: BlockCount) {
        lower(&self.skipped, blocks.0);
    }

    /// Counts more pageblocks owned by CPUs.
    pub(crate) fn count_owned(&self, pageblocks: PageblockCount) {
        bump(&self.owned, pageblocks.0);
    }

    /// Counts fewer pageblocks owned by CPUs.
    pub(crate) fn uncount_owned(&self, pageblocks: PageblockCount) {
        lower(&self.owned, pageblocks.0);
    }

    /// Counts more quarantined frames.
    pub(crate) fn count_quarantined(&self, frames: FrameCount) {
        bump(&self.quarantined, frames.0);
    }

    /// Resets the changes of blocks on the lists to 0.
    #[inline]
    pub(crate) fn reset(&self) {
        for cell in [&self.free, &self.cma, &self.highatomic, &self.isolated, &self.skipped] {
            cell.set(0);
        }
    }
}
