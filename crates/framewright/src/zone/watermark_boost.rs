//! Watermark boost: frees memory ahead of the next request that would mix mobilities.
//!
//! A request that takes less than a pageblock from the lists of another type leaves a pageblock with pages of both. It
//! did so because its own lists were empty, and the next request will find them empty too. The zone's marks therefore
//! rise at that moment, by a pageblock each time. Background reclaim is woken to free as much (`kswapd.rs`). The marks
//! then fall again, and background compaction is woken, because the freed memory is scattered. Linux has this since
//! 5.0; the rules are in `watermark.rs`.
//!
//! The marks change under the zone lock, but no thread is woken under it. The request that was served records the
//! wake-up, and performs it after the lock is released.

use crate::policy::watermark::{BoostedZone, Mark, boost_cap};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::shared::Shared;
use crate::types::counts::PageblockCount;
use crate::zone::zone::Zone;

impl<M: Machine> Zone<M> {
    /// Returns the highest boost that the zone's marks allow, in frames.
    pub(crate) fn most_boost(&self, shared: &Shared<'_, M>) -> u64 {
        let (factor, high) = (shared.mechanisms().watermark_boost.get(), self.stat.mark_unboosted(Mark::High));
        boost_cap(factor, high, shared.frames.geometry.pageblock_order.frames()).unwrap_or(0)
    }

    /// Raises the zone's marks by a number of pageblocks, up to their limit.
    ///
    /// Returns false if they may not rise, or the mechanism is off.
    pub(crate) fn boost(&self, shared: &Shared<'_, M>, pageblocks: PageblockCount) -> bool {
        let factor = shared.mechanisms().watermark_boost.get();
        if factor == 0 {
            return false;
        }
        let pageblock_order = shared.frames.geometry.pageblock_order;
        let (managed, high) = (self.managed.load(Ordering::Relaxed), self.stat.mark_unboosted(Mark::High));
        let zone = BoostedZone { managed, high, pageblock: pageblock_order.frames() };
        self.stat.raise_boost(pageblocks.frames(pageblock_order), factor, zone)
    }
}
