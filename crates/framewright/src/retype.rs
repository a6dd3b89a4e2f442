//! The type of a pageblock, and the reserve for high orders.
//!
//! A high-order request that must not wait finds its pageblock again: it is kept, by a type of its own, for the next such request. The
//! reserve has at most one hundredth of the zone and one pageblock more, and goes back when memory is short (`slowpath.rs`).

use crate::disown::disown;
use crate::machine::{Machine, Ordering, Word};
use crate::pfn::{Frame, MigrateType, Order};
use crate::zone::ZoneGuard;

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Sets a pageblock's type; its free blocks follow. Returns false if descriptors were damaged beyond repair.
    pub(crate) fn set_type(&self, frame: Frame, migratetype: MigrateType) -> bool {
        let old = self.ground.frames.pageblock(frame).migratetype();
        disown(&self.buddy(), frame, u32::MAX);
        let done = self.attempt(|buddy| buddy.retype_pageblock(frame, migratetype)).is_some();
        if done && (old == MigrateType::HighAtomic) != (migratetype == MigrateType::HighAtomic) {
            let frames = self.buddy().pageblock_order().frames();
            let change = if migratetype == MigrateType::HighAtomic { frames } else { frames.wrapping_neg() };
            self.zone.highatomic_reserved.add(change, Ordering::Relaxed);
        }
        done
    }

    /// Keeps the pageblock of a high-order request that must not wait for the next such request. The reserve has at most one
    /// hundredth of the zone and one pageblock more; blocks of several pageblocks are not kept.
    pub(crate) fn reserve_highatomic(&self, frame: Frame, order: Order) {
        let pageblock = self.buddy().pageblock_order().frames();
        let limit = (self.zone.managed.load(Ordering::Relaxed) / 100).saturating_add(pageblock);
        let reserved = self.zone.highatomic_reserved.load(Ordering::Relaxed);
        let migratetype = self.ground.frames.pageblock(frame).migratetype();
        if reserved < limit && migratetype.is_mergeable() && order <= self.buddy().pageblock_order() {
            self.set_type(frame, MigrateType::HighAtomic);
        }
    }

    /// Gives one pageblock of the high-atomic reserve that has free memory to requests of `migratetype`, keeping one in
    /// reserve unless `force`. Returns whether there was one.
    pub(crate) fn unreserve_highatomic(&self, migratetype: MigrateType, force: bool) -> bool {
        let buddy = self.buddy();
        let pageblock = buddy.pageblock_order().frames();
        if !force && self.zone.highatomic_reserved.load(Ordering::Relaxed) <= pageblock {
            return false;
        }
        let first = |order| self.zone.lists.first(order, MigrateType::HighAtomic);
        match Order(0).up_to(buddy.max_order()).find_map(first) {
            Some(frame) => self.set_type(frame, migratetype),
            None => false,
        }
    }
}
