//! Estimates how much of a zone's free memory is in blocks of some order or type.
//!
//! The numbers are a moment's view of the lengths of the zone's lists.

use crate::seam::machine::Machine;
use crate::types::migratetype::MigrateType;
use crate::types::units::Order;
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

impl<'a, M: Machine> World<'a, M> {
    /// Whether a zone has a free block of this order or larger for ordinary requests.
    pub(crate) fn has_block(&self, zone: &Zone<M>, order: Order) -> bool {
        let usable = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
        order
            .up_to(self.max_order())
            .any(|larger| usable.into_iter().any(|mt| !zone.blocks_racy(&self.shared, larger, mt).is_zero()))
    }

    /// Returns the frames of a zone in free blocks of a pageblock or more.
    pub(crate) fn free_in_pageblocks(&self, zone: &Zone<M>) -> u64 {
        self.free_in_blocks(zone, |is_whole, _| is_whole)
    }

    /// Returns the frames that a movable request may use without mixing mobilities.
    ///
    /// Most requests are movable.
    pub(crate) fn free_unmixed(&self, zone: &Zone<M>) -> u64 {
        self.free_in_blocks(zone, |is_whole, migratetype| is_whole || migratetype == MigrateType::Movable)
    }

    /// Returns the frames of a zone in the free blocks that `counts` accepts.
    ///
    /// Its arguments are whether a block is a pageblock or more, and the block's type.
    pub(crate) fn free_in_blocks(&self, zone: &Zone<M>, counts: impl Fn(bool, MigrateType) -> bool) -> u64 {
        let geometry = &self.shared.frames.geometry;
        let of = |order: Order| {
            let counted = |migratetype: &MigrateType| counts(order >= geometry.pageblock_order, *migratetype);
            let blocks = MigrateType::ALL.into_iter().filter(counted);
            let blocks = blocks.map(|migratetype| zone.blocks_racy(&self.shared, order, migratetype).0);
            blocks.fold(0, u64::saturating_add).saturating_mul(order.frames())
        };
        Order(0).up_to(geometry.max_order).map(of).fold(0, u64::saturating_add)
    }
}
