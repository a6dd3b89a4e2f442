//! Quotas: how many blocks each ring may hold, so that all rings together hold at most `high` frames.
//!
//! Only lists next to a depot have quotas. A ring may fill up to its quota without a further check. A ring that needs
//! more takes the unused quota of other rings. If that is not enough, the oldest blocks make room: the ring's own full
//! magazine goes to the depot, then the blocks of other rings and those that wait go to the zone.

use crate::pcp::pcp_guard::PcpGuard;
use crate::pcp::ring::Ring;
use crate::pcp::ring_id::RingId;
use crate::seam::machine::{Machine, Ordering, Word};

impl<M: Machine> PcpGuard<'_, '_, M> {
    /// Whether the ring can hold blocks.
    ///
    /// It cannot if it has no magazine and could get none, or if `high` leaves no room.
    pub(crate) fn has_room(&self, id: RingId) -> bool {
        self.pcp.ring(id).is_some_and(|ring| ring.capacity() != 0 && (id.huge().is_some() || ring.is_within_quota()))
    }

    /// Makes room for another block in a ring.
    ///
    /// Returns false if `high` leaves none, or if there is no magazine for it.
    pub(crate) fn make_room(&self, id: RingId, ring: &Ring<M>) -> bool {
        if !self.pcp.rules().has_depot {
            // Without a depot, a ring is full only if drains passed it over, since they take from all rings in turn.
            if ring.is_full()
                && let Some(frame) = self.pop_bottom(id, ring)
            {
                self.free_to_zone(frame, id.order);
            }
            return true;
        }
        let is_huge = id.huge().is_some();
        let is_at_end = if is_huge { ring.is_full() } else { ring.is_at_end() };
        if !is_at_end && ring.is_within_quota() {
            return true;
        }
        if is_huge {
            // A huge page is not worth freeing other blocks for.
            return !is_at_end && self.entitle(id, ring, ring.len().saturating_add(1));
        }
        let limit = self.pcp.limit(id.order);
        if self.frames_of(id, limit) > self.pcp.size.high {
            return false;
        }
        let full = limit.saturating_mul(2);
        if ring.quota() < full {
            self.entitle(id, ring, full);
        }
        if is_at_end && !self.pcps.depots.unload(self.cx, self.zone, id, ring, limit) {
            return false;
        }
        if ring.is_within_quota() {
            return true;
        }
        // The oldest blocks make room: the ring's own full magazine, then the blocks of other rings.
        self.pcps.depots.shed(self.cx, self.zone, id, ring);
        if !self.entitle(id, ring, full) {
            self.evict(id, self.frames_of(id, limit));
            self.entitle(id, ring, full);
        }
        ring.is_within_quota()
    }

    /// Whether a ring may get the next magazine without a free of other rings' blocks to the zone.
    pub(crate) fn has_quota_for_magazine(&self, id: RingId, ring: &Ring<M>) -> bool {
        // The next magazine is the ring's own spare one, if that has blocks.
        let blocks = if ring.total() == 0 { self.pcp.limit(id.order) } else { ring.total() };
        if ring.quota() < blocks {
            self.entitle(id, ring, blocks);
        }
        ring.quota() >= blocks
    }

    /// Frees blocks above `high` from other rings, after a ring has got a full magazine.
    pub(crate) fn fit(&self, id: RingId, ring: &Ring<M>) {
        if ring.total() <= ring.quota() {
            return;
        }
        self.entitle(id, ring, self.pcp.limit(id.order).saturating_mul(2));
        let above = self.above_high();
        if above != 0 {
            let trimmed = self.trim_others(id, above);
            if trimmed < above {
                self.evict(id, above.saturating_sub(trimmed));
            }
        }
    }

    /// Frees blocks above `high`, after a waiting block was added.
    pub(crate) fn keep_below_high(&self) {
        for (id, ring) in self.pcp.rings(self.order_of_huge()) {
            if self.above_high() == 0 {
                break;
            }
            ring.set_quota(0);
            self.drain_cold(id, ring, self.above_high());
            ring.set_quota(0);
            self.settle(id, ring, 0);
        }
    }

    /// Lets a ring hold up to `blocks` blocks, or as many as `high` permits.
    ///
    /// Other rings lose unused quota if necessary. Returns whether the ring may hold another block.
    pub(crate) fn entitle(&self, id: RingId, ring: &Ring<M>, blocks: u32) -> bool {
        ring.set_quota(0);
        let more = blocks.saturating_sub(ring.total());
        let entitled = self.entitled();
        let mut high = self.pcp.size.high;
        let above = entitled.saturating_add(self.frames_of(id, more)).saturating_sub(high);
        if above != 0 {
            high = high.saturating_add(self.trim_others(id, above));
        }
        let granted = (high.saturating_sub(entitled) >> id.order.0.min(31)).min(more);
        ring.set_quota(ring.total().saturating_add(granted));
        granted != 0
    }

    /// Returns the frames that the rings hold or may hold, and those that wait.
    ///
    /// A ring may fill up to its quota without a further check.
    fn entitled(&self) -> u32 {
        let rings = self.pcp.rings(self.order_of_huge()).map(|(id, ring)| self.frames_of(id, ring.entitled()));
        rings.fold(self.pcp.waiting_frames.load(Ordering::Relaxed), u32::saturating_add)
    }

    /// Removes unused quota of other rings, until `frames` frames are gained; returns the gain.
    fn trim_others(&self, id: RingId, frames: u32) -> u32 {
        let mut gained = 0_u32;
        for (other, ring) in self.pcp.rings(self.order_of_huge()).filter(|(other, _)| *other != id) {
            if gained >= frames {
                break;
            }
            gained = gained.saturating_add(self.frames_of(other, ring.entitled().saturating_sub(ring.total())));
            ring.set_quota(0);
            self.settle(other, ring, 0);
        }
        gained
    }

    /// Frees `frames` frames, or all there are, to the zone.
    ///
    /// They come from the cold ends of the other rings, then from the blocks that wait.
    fn evict(&self, id: RingId, frames: u32) {
        let mut left = frames;
        for (other, ring) in self.pcp.rings(self.order_of_huge()).filter(|(other, _)| *other != id) {
            left = left.saturating_sub(self.drain_cold(other, ring, left));
        }
        while left != 0
            && let Some((frame, order)) = self.pop_waiting()
        {
            left = left.saturating_sub(order.frames() as u32);
            self.free_to_zone(frame, order);
        }
        self.trim_others(id, u32::MAX);
    }

    /// Returns how many frames above `high` the lists may hold.
    ///
    /// Counts the frames of [`Self::entitled`].
    fn above_high(&self) -> u32 {
        self.entitled().saturating_sub(self.pcp.size.high)
    }
}
