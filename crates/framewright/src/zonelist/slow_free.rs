//! The slow path of a free: to the running CPU's list, or else to the zone.

use core::cell::Cell;

use crate::frame::head::Head;
use crate::free_path::free_batch::Block;
use crate::free_path::free_path::free_one;
use crate::pcp::ring_id::RingId;
use crate::seam::machine::Machine;
use crate::shared::CallCx;
use crate::stat::vmstat::ZoneEvent;
use crate::types::units::{Frame, Order};
use crate::zonelist::world::World;

impl<'a, M: Machine> World<'a, M> {
    /// Frees a block that was found to be allocated with this order.
    ///
    /// Returns false if it is not allocated any more, because another CPU freed it in between. `exact`: detect that in
    /// any case, not only where it costs nothing.
    pub(crate) fn free_slow(&self, cx: CallCx<'_, 'a, M>, frame: Frame, order: Order, exact: bool) -> bool {
        let frames = &self.shared.frames;
        let pageblock = frames.pageblock(frame);
        let Some(zone) = pageblock.zone().and_then(|idx| self.zone(idx)) else { return false };
        let is_hardened = self.shared.mechanisms().is_hardened();
        if is_hardened && !self.claim_freed(frame, order) {
            return false;
        }
        let ring = RingId::of(order, pageblock.migratetype(), frames.geometry.pageblock_order);
        if let Some(ring) = ring
            && let Some(pcp) = self.pcps.enter(cx, zone)
        {
            if is_hardened {
                pcp.free_waiting(frame, order);
                return true;
            }
            let is_ours = !exact || frames.claim_head(frame, order);
            if is_ours {
                pcp.free(ring, frame);
            }
            return is_ours;
        }
        let given = Cell::new(false);
        free_one(cx, zone, Block::new(frame, order), &|_| {
            // A double free cannot pass: for blocks that no per-CPU list keeps the check is exact.
            if !is_hardened && !frames.claim_head(frame, order) {
                return false;
            }
            if let Some(own) = self.pcps.record(cx.cpu, zone.idx.index()) {
                own.aside.count(ZoneEvent::FreeFrames, order.frames());
            }
            frames.set_head(frame, Head::NONE);
            given.set(true);
            true
        });
        given.get()
    }
}
