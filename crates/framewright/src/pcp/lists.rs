//! Fills per-CPU lists from the depot or the zone, and empties them there.
//!
//! | a ring is | with a depot (`depot.rs`) | without |
//! |---|---|---|
//! | empty | gets a magazine of the depot, else `batch` frames of the zone | gets `batch` frames of the zone |
//! | full | leaves its magazine to the depot | frees one block; if all rings together reach `high`, a batch |
//!
//! Frames of the zone are taken and freed under the zone lock. A freed batch comes from the cold ends, ring by ring in
//! turn.
//!
//! All code that needs the lists uses a [`PcpGuard`] (`pcp_guard.rs`).

use crate::frame::head::Head;
use crate::free_path::free_batch::Block;
use crate::free_path::free_path::free_one;
use crate::pcp::autotune::TunedRefill;
use crate::pcp::pcp_guard::PcpGuard;
use crate::pcp::ring_id::RingId;
use crate::policy::watermark::Mark;
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::stat::vmstat::ZoneEvent;
use crate::types::units::{Frame, Order};

impl<M: Machine> PcpGuard<'_, '_, M> {
    /// Takes a block if the ring or the depot has one.
    ///
    /// Such a block left the zone's free memory earlier.
    pub(crate) fn alloc_cached(&self, id: RingId) -> Option<Frame> {
        self.alloc_from_ring(id).or_else(|| {
            let ring = self.pcp.ring(id).filter(|_| self.has_magazines(id))?;
            let may_restock = self.cx.may_wait() || self.has_quota_for_magazine(id, ring);
            let limit = self.pcp.limit(id.order);
            let restocked = may_restock && self.pcps.depots.restock(self.cx, self.zone, id, ring, limit);
            if restocked {
                self.fit(id, ring);
            }
            self.settle(id, ring, 0);
            if restocked { self.alloc_from_ring(id) } else { None }
        })
    }

    /// Takes a block if the ring has one.
    ///
    /// Ends after as many entries as the array has. Those of a ring that is damaged may come round again.
    pub(crate) fn alloc_from_ring(&self, id: RingId) -> Option<Frame> {
        self.cx.shared.machine.step(Step::PcpTake);
        let ring = self.pcp.ring(id)?;
        for _ in 0..=self.pcps.slots.len() {
            let frame = ring.pop(self.pcps.slots)?;
            self.settle(id, ring, u32::MAX);
            if self.cx.shared.frames.head(frame) == Head::pcp(id.order) {
                ring.count_taken(1);
                // What is too much goes to the zone, for which some calls must not wait.
                if self.pcp.autotune.is_on() && self.cx.may_wait() && self.pcp.autotune.note_taken() {
                    self.age();
                }
                return Some(frame);
            }
            // A damaged entry is dropped here and found by `validate`; it must not be handed out.
            ring.count_moved(u64::MAX);
        }
        None
    }

    fn has_magazines(&self, id: RingId) -> bool {
        self.pcp.rules().has_depot && id.huge().is_none()
    }

    /// Shrinks lists whose sizes follow their use.
    #[cold]
    fn age(&self) {
        let surplus = self.pcp.autotune.decay(self.pcp.size, self.pcp.count.load(Ordering::Relaxed));
        if surplus != 0 {
            self.drain(surplus);
        }
    }

    /// Puts a block into its ring; frees a batch to the zone if necessary.
    ///
    /// The caller has checked the block's head byte.
    pub(crate) fn free(&self, id: RingId, frame: Frame) {
        self.cx.shared.machine.step(Step::PcpGive);
        let Some(ring) = self.pcp.ring(id) else { return };
        if !self.make_room(id, ring) {
            free_one(self.cx, self.zone, Block::new(frame, id.order), &|_| {
                self.cx.shared.frames.set_head(frame, Head::NONE);
                true
            });
            self.pcp.events.count(ZoneEvent::FreeFrames, id.order.frames());
            return;
        }
        self.cx.shared.frames.set_head(frame, Head::pcp(id.order));
        ring.push(self.pcps.slots, frame);
        self.settle(id, ring, 1);
        let surplus = if self.pcp.rules().has_depot { 0 } else { self.surplus(id) };
        if surplus != 0 {
            // A batch may be less than what is above `high`, where blocks of several orders are cached.
            let above = self.pcp.count.load(Ordering::Relaxed).saturating_sub(self.high());
            self.drain(surplus.max(above));
        }
    }

    /// Returns the number of frames to free after a ring has gained a block.
    ///
    /// Only without a depot.
    fn surplus(&self, id: RingId) -> u32 {
        let (tuning, size, count) = (&self.pcp.autotune, self.pcp.size, self.pcp.count.load(Ordering::Relaxed));
        if !tuning.is_on() {
            return if count >= size.high { size.batch } else { 0 };
        }
        tuning.note_freed(id.order.frames() as u32, size.batch);
        tuning.surplus(size, count, || self.is_scarce())
    }

    fn high(&self) -> u32 {
        if self.pcp.autotune.is_on() { self.pcp.autotune.high() } else { self.pcp.size.high }
    }

    /// Returns the refill of an empty ring, where sizes follow their use.
    pub(crate) fn tuned_refill(&self, id: RingId) -> Option<TunedRefill> {
        let tuning = &self.pcp.autotune;
        tuning.is_on().then(|| {
            let count = self.pcp.count.load(Ordering::Relaxed);
            tuning.refill(self.pcp.size, id.order.0 == 0, count, self.is_scarce())
        })
    }

    /// Whether the zone is below its high mark.
    fn is_scarce(&self) -> bool {
        self.zone.stat.memory_racy(&self.cx.shared.stats, self.zone.idx).free <= self.zone.stat.mark(Mark::High)
    }

    /// Adds a block that must wait before its reuse, and releases the longest waiting ones.
    pub(crate) fn free_waiting(&self, frame: Frame, order: Order) {
        self.cx.shared.machine.step(Step::Waiting);
        let (waiting, frames) = (&self.pcp.waiting, order.frames() as u32);
        self.pcp.events.count(ZoneEvent::FreeFrames, order.frames());
        self.cx.shared.frames.set_head(frame, Head::pcp(order));
        // It counts from here on: what is let go then finds no room in its ring that this block takes.
        let waited = self.pcp.waiting_frames.load(Ordering::Relaxed);
        self.pcp.count_waiting(frames);
        let high = self.pcp.size.high;
        while waiting.len() != 0 && (waiting.is_full() || self.pcp.waiting_frames.load(Ordering::Relaxed) > high) {
            self.let_go();
        }
        waiting.push(self.pcps.slots, frame);
        // A ring that gained what was let go had room for it.
        if self.pcp.rules().has_depot && self.pcp.waiting_frames.load(Ordering::Relaxed) > waited {
            self.keep_below_high();
        }
    }

    /// Moves the block that has waited longest to its ring.
    fn let_go(&self) {
        let frames = &self.cx.shared.frames;
        let Some((frame, order)) = self.pop_waiting() else { return };
        let id = RingId::of(order, frames.pageblock(frame).migratetype(), self.order_of_huge());
        match id.and_then(|id| Some((id, self.pcp.ring(id)?))) {
            Some((id, ring)) if frames.head(frame) == Head::pcp(order) && self.make_room(id, ring) => {
                ring.push(self.pcps.slots, frame);
                ring.count_moved(1);
                self.settle(id, ring, 1);
            }
            _ => self.free_to_zone(frame, order),
        }
    }
}
