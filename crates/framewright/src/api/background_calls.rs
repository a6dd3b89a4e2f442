//! Calls for background threads: one run of reclaim (kswapd) or of compaction (kcompactd) on a node.
//!
//! The core has no threads. The embedder runs one of each kind for each node, and calls these functions each time it is
//! woken.

use crate::api::allocator::Allocator;
use crate::compaction::progress::Compacted;
use crate::reclaim::kswapd::Balanced;
use crate::seam::machine::Machine;
use crate::stat::zone_stat::Background;
use crate::types::migratetype::MigrateType;
use crate::types::units::NodeId;

impl<M: Machine> Allocator<'_, M> {
    /// Frees memory on a node until there is enough.
    ///
    /// For the node's background thread ([`Waiter::Kswapd`](crate::machine::Waiter::Kswapd)), each time it is woken;
    /// any other thread may call it too. Calls [`Machine::reclaim`]. Does nothing for a node without memory.
    ///
    /// Context: not in an interrupt, no lock held.
    pub fn balance(&self, node: NodeId) -> Balanced {
        if self.machine().in_interrupt() {
            return Balanced::default();
        }
        let world = self.world();
        // From here on the marks must be compared with exact counts.
        world.set_pressure(node, true);
        let run = world.balance(node);
        world.set_pressure(node, false);
        run
    }

    /// Initialises one section of a node's memory ahead of its first use; returns whether there was one.
    ///
    /// For a thread of each node after boot, so that no request does it
    /// ([`SectionInit`](crate::config::SectionInit)). Each call takes one zone lock once.
    ///
    /// Context: any that may allocate, no lock held.
    pub fn init_section(&self, node: NodeId) -> bool {
        let world = self.world();
        world.zones_of(node).any(|zone| {
            let left = zone.uninit_racy(&world.shared) != 0;
            left && world.pinned(|cx| zone.lock(cx).init_section()) == Some(true)
        })
    }

    /// Compacts a node's zones until each has a free block of the order asked for.
    ///
    /// Where mobilities are kept apart by force, each zone must also have a whole free pageblock for every mobility
    /// that requests ask for.
    ///
    /// For the node's background thread ([`Waiter::Kcompactd`](crate::machine::Waiter::Kcompactd)), each time it is
    /// woken. Calls [`Machine::migrate`]. Does nothing where compaction is off or nothing can be moved.
    ///
    /// Context: not in an interrupt, no lock held.
    pub fn compact(&self, node: NodeId) -> Compacted {
        let world = self.world();
        let order = world.zones_of(node).map(|zone| zone.stat.take_asked(Background::Compaction)).max();
        let order = order.unwrap_or_default().max(self.geometry().pageblock_order);
        let stock = if self.mechanisms().mixes_last() {
            self.geometry().pageblock_order.frames().saturating_mul(MigrateType::PCP_COUNT as u64)
        } else {
            0
        };
        world.compact_node(node, order, |zone| world.has_block(zone, order) && world.free_in_pageblocks(zone) >= stock)
    }

    /// Compacts a node's zones if too much of their free memory is scattered.
    ///
    /// The mechanisms set the limit (`proactiveness`). The run ends when a tenth less is scattered. For a background
    /// thread, every half second or so. Otherwise like [`Allocator::compact`].
    pub fn compact_proactively(&self, node: NodeId) -> Compacted {
        let (world, proactiveness) = (self.world(), self.mechanisms().proactiveness.get());
        let low = 100_u64.saturating_sub(u64::from(proactiveness)).max(5);
        let high = low.saturating_add(10).min(100);
        let idle = Compacted { is_enough: true, ..Compacted::default() };
        if proactiveness == 0 || world.zones_of(node).all(|zone| world.scattered(zone) <= high) {
            return idle;
        }
        world.compact_node(node, self.geometry().pageblock_order, |zone| world.scattered(zone) <= low)
    }
}
