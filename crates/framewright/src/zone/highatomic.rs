//! The high-atomic reserve: pageblocks kept for high-order requests that may not wait.
//!
//! A high-order request that may not wait and finds memory short leaves its pageblock in reserve for the next such request, by a
//! type of its own. The rules are those of Linux from 6.12 on:
//!
//! | | |
//! |---|---|
//! | size | at most a hundredth of the zone, rounded up to whole pageblocks; none where a hundredth is less than a pageblock ([`highatomic_limit`]) |
//! | taken from | before anything else by requests above order 0 with `GFP_ATOMIC`; by order 0 that may not wait, when all else is used up |
//! | begins | with the first such request, whatever served it |
//! | grows | when neither the reserve nor a per-CPU list, refilled if need be, could serve such a request; Linux lets it grow by those too |
//! | goes back | to a request that may wait and reclaimed in vain (`slowpath.rs`); when the zone shrinks below what the reserve may have (`contig_range.rs`); and when it is idle |
//!
//! Idle: background reclaim ends with the node above its high marks (`kswapd.rs`), and either had nothing to do, or no request used the
//! reserve since the run before. Linux keeps a reserve until a request fails for it.
//!
//! Blocks of several pageblocks are not kept: one request could take all that the reserve may have.

use crate::buddy::pageblock_usage::PageblockUsage;
use crate::policy::watermark::highatomic_limit;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, Order};
use crate::zone::zone::Zone;
use crate::zone::zone_guard::ZoneGuard;

impl<M: Machine> Zone<M> {
    /// Most frames that the high-atomic reserve can have now.
    fn highatomic_limit(&self, pageblock_order: Order) -> u64 {
        highatomic_limit(self.managed.load(Ordering::Relaxed), pageblock_order)
    }

    /// Whether a request used the high-atomic reserve since this was last asked.
    pub(crate) fn was_highatomic_used(&self) -> bool {
        self.highatomic_used.swap(0, Ordering::Relaxed) != 0
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Takes a block from the reserve for high-order requests that must not wait.
    pub(crate) fn alloc_highatomic(&self, order: Order) -> Option<Frame> {
        let frame = self.attempt(|buddy| buddy.alloc_smallest(order, MigrateType::HighAtomic)).flatten()?;
        self.zone.highatomic_used.store(1, Ordering::Relaxed);
        Some(frame)
    }

    /// Keeps the pageblock of a high-order request that may not wait for the next such request, within the limit. Blocks of several
    /// pageblocks are not kept.
    pub(crate) fn reserve_highatomic(&self, frame: Frame, order: Order) {
        let pageblock_order = self.buddy().pageblock_order();
        let limit = self.zone.highatomic_limit(pageblock_order);
        let after = self.reserved().saturating_add(pageblock_order.frames());
        let migratetype = self.shared.frames.pageblock(frame).migratetype();
        if after <= limit && migratetype.is_mergeable() && order <= pageblock_order {
            self.set_type(frame, MigrateType::HighAtomic);
            self.zone.highatomic_used.store(1, Ordering::Relaxed);
        }
    }

    /// Begins the reserve with the pageblock of a request that a per-CPU list served. Does nothing if there is a reserve.
    pub(crate) fn begin_highatomic(&self, frame: Frame, order: Order) {
        if self.reserved() == 0 {
            self.reserve_highatomic(frame, order);
        }
    }

    /// Frames in pageblocks of the reserve, free or not.
    fn reserved(&self) -> u64 {
        self.zone.highatomic_reserved.load(Ordering::Relaxed)
    }

    /// Gives one pageblock of the high-atomic reserve that has free memory to requests of `migratetype`: one with a free block of
    /// `order` if there is any. Returns whether there was one.
    pub(crate) fn unreserve_highatomic(&self, migratetype: MigrateType, order: Order) -> bool {
        let first = |order| self.zone.lists.first(order, MigrateType::HighAtomic);
        let max_order = self.buddy().max_order();
        let large = order.up_to(max_order).find_map(first);
        match large.or_else(|| Order(0).up_to(order.min(max_order)).find_map(first)) {
            Some(frame) => self.set_type(frame, migratetype),
            None => false,
        }
    }

    /// Gives an idle pageblock of the reserve to the mobility that most of what is in use there has. Returns whether there was one.
    pub(crate) fn unreserve_idle(&self) -> bool {
        let max_order = self.buddy().max_order();
        let first = |order| self.zone.lists.first(order, MigrateType::HighAtomic);
        let Some(frame) = Order(0).up_to(max_order).rev().find_map(first) else { return false };
        let start = frame.align_down(self.buddy().pageblock_order());
        let usage = PageblockUsage::of(self.shared, (start, start.add(self.buddy().pageblock_order().frames())));
        let is_movable = usage.other <= usage.movable;
        self.set_type(frame, if is_movable { MigrateType::Movable } else { MigrateType::Unmovable })
    }

    /// Gives a pageblock of the reserve back if it has more than it may. Returns whether it did.
    pub(crate) fn trim_highatomic(&self) -> bool {
        self.reserved() > self.zone.highatomic_limit(self.buddy().pageblock_order()) && self.unreserve_idle()
    }
}
