//! High-atomic reserve: pageblocks kept for high-order requests that may not wait.
//!
//! A high-order request that may not wait, and finds memory short, leaves its pageblock in reserve for the next such
//! request. The pageblock gets a type of its own. The rules are those of Linux from 6.12 on, with two exceptions:
//!
//! - **Size**: at most a hundredth of the zone, rounded up to whole pageblocks; none where a hundredth is less than a
//!   pageblock ([`highatomic_limit`]).
//! - **Use**: requests above order 0 with `GFP_ATOMIC` take from it first. Requests of order 0 that may not wait take
//!   from it after all other memory is used up.
//! - **Begin**: with the first such request, whatever list served it.
//! - **Growth**: when neither the reserve nor a per-CPU list, refilled if need be, could serve such a request. Linux
//!   also lets it grow by requests that those serve.
//! - **Release**: for a request that may wait and reclaimed in vain (`slowpath.rs`); when the zone shrinks so that the
//!   reserve exceeds its limit (`contig_range.rs`); and when the reserve is idle.
//!
//! The reserve is idle if background reclaim ends with the node above its high marks (`kswapd.rs`) and one of two
//! holds. Background reclaim had nothing to do, or no request used the reserve since the run before. Linux keeps a
//! reserve until a request fails for it.
//!
//! Rejected: keeping blocks of several pageblocks, because one request could take the whole limit.

use crate::buddy::pageblock_usage::PageblockUsage;
use crate::policy::watermark::highatomic_limit;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, FrameRange, Order};
use crate::zone::zone::Zone;
use crate::zone::zone_guard::ZoneGuard;

impl<M: Machine> Zone<M> {
    /// Returns the largest number of frames that the reserve can have now.
    fn highatomic_limit(&self, pageblock_order: Order) -> u64 {
        highatomic_limit(self.managed.load(Ordering::Relaxed), pageblock_order)
    }

    /// Returns whether a request used the reserve since the last call.
    pub(crate) fn was_highatomic_used(&self) -> bool {
        self.highatomic_used.swap(0, Ordering::Relaxed) != 0
    }
}

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Takes a block from the reserve, for a high-order request that may not wait.
    pub(crate) fn alloc_highatomic(&self, order: Order) -> Option<Frame> {
        let frame = self.attempt(|buddy| buddy.alloc_smallest(order, MigrateType::HighAtomic)).flatten()?;
        self.zone.highatomic_used.store(1, Ordering::Relaxed);
        Some(frame)
    }

    /// Adds the pageblock of a request to the reserve, within the limit.
    ///
    /// The request is of high order and may not wait.
    ///
    /// Blocks of several pageblocks are not added.
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

    /// Begins the reserve with the pageblock of a request that a per-CPU list served.
    ///
    /// Does nothing if there is a reserve.
    pub(crate) fn begin_highatomic(&self, frame: Frame, order: Order) {
        if self.reserved() == 0 {
            self.reserve_highatomic(frame, order);
        }
    }

    /// Returns the frames in pageblocks of the reserve, free or not.
    fn reserved(&self) -> u64 {
        self.zone.highatomic_reserved.load(Ordering::Relaxed)
    }

    /// Releases one pageblock of the reserve to requests of `migratetype`; returns whether there was one.
    ///
    /// The pageblock has free memory; one with a free block of `order` is preferred.
    pub(crate) fn unreserve_highatomic(&self, migratetype: MigrateType, order: Order) -> bool {
        let first = |order| self.zone.lists.first(order, MigrateType::HighAtomic);
        let max_order = self.buddy().max_order();
        let large = order.up_to(max_order).find_map(first);
        match large.or_else(|| Order(0).up_to(order.min(max_order)).find_map(first)) {
            Some(frame) => self.set_type(frame, migratetype),
            None => false,
        }
    }

    /// Releases an idle pageblock of the reserve; returns whether there was one.
    ///
    /// It gets the mobility of most of its frames in use.
    pub(crate) fn unreserve_idle(&self) -> bool {
        let max_order = self.buddy().max_order();
        let first = |order| self.zone.lists.first(order, MigrateType::HighAtomic);
        let Some(frame) = Order(0).up_to(max_order).rev().find_map(first) else { return false };
        let start = frame.align_down(self.buddy().pageblock_order());
        let usage = PageblockUsage::of(self.shared, FrameRange::block(start, self.buddy().pageblock_order()));
        let is_movable = usage.other <= usage.movable;
        self.set_type(frame, if is_movable { MigrateType::Movable } else { MigrateType::Unmovable })
    }

    /// Releases a pageblock of the reserve if it exceeds its limit; returns whether it did.
    pub(crate) fn trim_highatomic(&self) -> bool {
        self.reserved() > self.zone.highatomic_limit(self.buddy().pageblock_order()) && self.unreserve_idle()
    }
}
