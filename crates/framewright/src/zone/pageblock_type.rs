//! The type of a pageblock, and the reserve for high orders.
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

use crate::buddy::pageblock_usage::Census;
use crate::frame::pageblock::Pageblock;
use crate::policy::watermark::highatomic_limit;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::{Frame, MigrateType, Order};
use crate::zone::release_owned::disown;
use crate::zone::zone::{Zone, ZoneGuard};

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
    /// Sets a pageblock's type; its free blocks follow. Returns false if descriptors were damaged beyond repair.
    pub(crate) fn set_type(&self, frame: Frame, migratetype: MigrateType) -> bool {
        let old = self.ground.frames.pageblock(frame);
        disown(&self.buddy(), frame, u32::MAX);
        let done = self.attempt(|buddy| buddy.retype_pageblock(frame, migratetype)).is_some();
        self.count_reserve(old, self.ground.frames.pageblock(frame));
        done
    }

    /// Counts the frames of the high-atomic reserve after a pageblock's word changed. What is isolated and goes back there stays counted, so
    /// that no other pageblock takes its place.
    fn count_reserve(&self, old: Pageblock, new: Pageblock) {
        let is_reserved = |pageblock: Pageblock| pageblock.restored() == MigrateType::HighAtomic;
        let frames = self.buddy().pageblock_order().frames();
        let change = match (is_reserved(old), is_reserved(new)) {
            (false, true) => frames,
            (true, false) => frames.wrapping_neg(),
            _ => return,
        };
        self.zone.highatomic_reserved.add(change, Ordering::Relaxed);
    }

    /// Keeps a pageblock isolated for one range more. `alone`: only if no other does. Returns whether it is.
    pub(crate) fn isolate(&self, frame: Frame, alone: bool) -> bool {
        let frames = &self.ground.frames;
        let is_isolated = frames.pageblock(frame).migratetype() == MigrateType::Isolate;
        if (is_isolated && alone) || frames.pageblock(frame).held().is_none() {
            return false;
        }
        let done = is_isolated || self.set_type(frame, MigrateType::Isolate);
        if done && let Some(held) = frames.pageblock(frame).held() {
            frames.set_pageblock(frame, held);
        }
        done
    }

    /// Keeps a pageblock isolated for one range less; after the last it gets its type back.
    pub(crate) fn unisolate(&self, frame: Frame) {
        let frames = &self.ground.frames;
        frames.set_pageblock(frame, frames.pageblock(frame).released());
        let pageblock = frames.pageblock(frame);
        if pageblock.holders() == 0 && pageblock.migratetype() == MigrateType::Isolate {
            self.set_type(frame, pageblock.restored());
        }
    }

    /// Gives a pageblock that ranges kept isolated its type back, though nobody will say that they are done.
    pub(crate) fn abandon(&self, frame: Frame) {
        let frames = &self.ground.frames;
        frames.set_pageblock(frame, frames.pageblock(frame).abandoned());
        self.unisolate(frame);
    }

    /// Sets a pageblock's type, as [`ZoneGuard::set_type`]; of an isolated one, the type that it will go back to.
    pub(crate) fn set_type_by_hand(&self, frame: Frame, migratetype: MigrateType) -> bool {
        let frames = &self.ground.frames;
        let old = frames.pageblock(frame);
        if old.migratetype() != MigrateType::Isolate {
            return self.set_type(frame, migratetype);
        }
        let new = old.restoring(migratetype);
        frames.set_pageblock(frame, new);
        self.count_reserve(old, new);
        true
    }

    /// Keeps the pageblock of a high-order request that may not wait for the next such request, within the limit. Blocks of several
    /// pageblocks are not kept.
    pub(crate) fn reserve_highatomic(&self, frame: Frame, order: Order) {
        let pageblock_order = self.buddy().pageblock_order();
        let limit = self.zone.highatomic_limit(pageblock_order);
        let after = self.reserved().saturating_add(pageblock_order.frames());
        let migratetype = self.ground.frames.pageblock(frame).migratetype();
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
        let census = Census::of(self.ground, (start, start.add(self.buddy().pageblock_order().frames())));
        let is_movable = census.other <= census.movable;
        self.set_type(frame, if is_movable { MigrateType::Movable } else { MigrateType::Unmovable })
    }

    /// Gives a pageblock of the reserve back if it has more than it may. Returns whether it did.
    pub(crate) fn trim_highatomic(&self) -> bool {
        self.reserved() > self.zone.highatomic_limit(self.buddy().pageblock_order()) && self.unreserve_idle()
    }
}
