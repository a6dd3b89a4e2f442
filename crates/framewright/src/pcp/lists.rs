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
//! All code that needs the lists uses [`PcpGuard`], which their owner or a claimer holds (`pcp.rs`).

use crate::frame::head::Head;
use crate::free_path::free_batch::{Block, FreeBatch};
use crate::free_path::free_path::{collect, free_batch, free_one, unlist};
use crate::pcp::depot::Depots;
use crate::pcp::pcp::{Claim, Pcp, Turn};
use crate::pcp::ring::{RINGS, Ring, RingId};
use crate::policy::watermark::Mark;
use crate::seam::machine::{Busy, LockEvent, LockName, Machine, Ordering, Step, Word};
use crate::shared::{CallCx, Shared};
use crate::stat::vmstat::ZoneEvent;
use crate::types::units::{CpuId, Frame, Order};
use crate::zone::zone::Zone;

/// All per-CPU lists: records per CPU and zone, ring entries, and depots.
pub(crate) struct Pcps<'a, M: Machine> {
    pub(crate) records: &'a [Pcp<M>],
    pub(crate) slots: &'a [M::U32],
    pub(crate) depots: Depots<'a, M>,
    pub(crate) zones: usize,
}

impl<'a, M: Machine> Pcps<'a, M> {
    /// Returns a CPU's lists of the zone with this index.
    #[inline(always)]
    pub(crate) fn record(&self, cpu: CpuId, zone: usize) -> Option<&'a Pcp<M>> {
        if zone < self.zones { self.records.get(cpu.index().wrapping_mul(self.zones).wrapping_add(zone)) } else { None }
    }

    /// Enters the lists of the running CPU.
    ///
    /// `None` when they are in use by a drain or by the code that this call interrupted. The caller goes to the zone
    /// instead.
    #[inline]
    pub(crate) fn enter<'g>(&'g self, cx: CallCx<'g, 'a, M>, zone: &'g Zone<M>) -> Option<PcpGuard<'g, 'a, M>> {
        cx.shared.machine.step(Step::PcpEnter);
        let pcp = self.record(cx.cpu, zone.idx.index())?;
        let turn = pcp.enter(&cx.shared.machine, cx.own)?;
        Some(PcpGuard { turn, pcp, cx, zone, pcps: self, claimed: None })
    }

    /// Claims the lists of any CPU and excludes its owner.
    ///
    /// # Errors
    /// [`Busy`] when another claimer or the owner did not leave in time; nothing was changed.
    pub(crate) fn claim<'g>(
        &'g self,
        cx: CallCx<'g, 'a, M>,
        cpu: CpuId,
        zone: &'g Zone<M>,
        how: Claim,
    ) -> Result<PcpGuard<'g, 'a, M>, Busy> {
        cx.shared.machine.step(Step::PcpEnter);
        let pcp = self.record(cpu, zone.idx.index()).ok_or(Busy)?;
        let (machine, name) = (&cx.shared.machine, LockName::pcp(zone.idx, cpu));
        machine.lock(name, LockEvent::Wanted);
        let turn = pcp.claim(machine, cx.own, how).inspect_err(|_| machine.lock(name, LockEvent::Released))?;
        machine.lock(name, LockEvent::Taken);
        Ok(PcpGuard { turn, pcp, cx, zone, pcps: self, claimed: Some(cpu) })
    }

    /// Takes every block off a CPU's lists of a zone and passes it to `give`.
    ///
    /// Does nothing if the lists are in use, or if this context allows no heavy fence.
    ///
    /// Context: any.
    pub(crate) fn drain_nolock(&self, shared: &Shared<'a, M>, cpu: CpuId, zone: &Zone<M>, give: impl Fn(Frame, Order)) {
        let (machine, huge) = (&shared.machine, shared.frames.geometry.pageblock_order);
        let Some(pcp) = self.record(cpu, zone.idx.index()) else { return };
        if pcp.count_racy(huge) == 0 || !machine.may_fence() || pcp.try_seize(machine, 1).is_err() {
            return;
        }
        for (id, ring) in pcp.rings(huge) {
            while let Some(frame) = self.pop_cold(ring) {
                pcp.uncount(id);
                give(frame, id.order);
            }
        }
        while let Some((frame, order)) = pcp.pop_waiting(self.slots, &shared.frames) {
            give(frame, order);
        }
        pcp.release_seized();
    }

    /// Takes the oldest block off a ring or its spare magazine.
    ///
    /// The caller must adjust the lists' count of frames.
    fn pop_cold(&self, ring: &Ring<M>) -> Option<Frame> {
        let frame = self.depots.pop_spare(ring).or_else(|| ring.pop_bottom(self.slots))?;
        ring.count_moved(u64::MAX);
        Some(frame)
    }
}

/// One CPU's lists of a zone, held, with what fills and empties them.
pub(crate) struct PcpGuard<'g, 'a, M: Machine> {
    turn: Turn<'g, M>,
    pub(crate) pcp: &'a Pcp<M>,
    pub(crate) cx: CallCx<'g, 'a, M>,
    pub(crate) zone: &'g Zone<M>,
    pub(crate) pcps: &'g Pcps<'a, M>,
    /// The CPU whose lists these are, if a claimer holds them.
    claimed: Option<CpuId>,
}

impl<M: Machine> Drop for PcpGuard<'_, '_, M> {
    fn drop(&mut self) {
        match self.claimed {
            None => self.turn.end(),
            Some(cpu) => {
                self.pcp.open();
                self.turn.end();
                self.cx.shared.machine.lock(LockName::pcp(self.zone.idx, cpu), LockEvent::Released);
            }
        }
    }
}

impl<'a, M: Machine> PcpGuard<'_, 'a, M> {
    fn order_of_huge(&self) -> Order {
        self.cx.shared.frames.geometry.pageblock_order
    }

    /// Accounts for `blocks` blocks that a ring gained outside its owner's window.
    ///
    /// A negated number means that the ring lost blocks.
    pub(crate) fn settle(&self, id: RingId, ring: &Ring<M>, blocks: u32) {
        if !self.pcp.depot {
            let count = self.pcp.count.load(Ordering::Relaxed);
            self.pcp.count.store(count.wrapping_add(blocks << id.order.0.min(31)), Ordering::Relaxed);
        } else if self.claimed.is_none() && self.pcp.fast_path {
            ring.open();
        }
    }

    /// Takes a block if the ring or the depot has one.
    ///
    /// Such a block left the zone's free memory earlier.
    pub(crate) fn alloc_cached(&self, id: RingId) -> Option<Frame> {
        self.alloc_from_ring(id).or_else(|| {
            let ring = self.pcp.ring(id).filter(|_| self.has_magazines(id))?;
            let restocked = self.pcps.depots.restock(self.cx, self.zone, id, ring, self.pcp.limit(id.order));
            if restocked {
                self.fit(id, ring);
            }
            self.settle(id, ring, 0);
            if restocked { self.alloc_from_ring(id) } else { None }
        })
    }

    /// Whether the ring can hold blocks.
    ///
    /// It cannot if it has no magazine and could get none, or if `high` leaves no room.
    pub(crate) fn has_room(&self, id: RingId) -> bool {
        self.pcp.ring(id).is_some_and(|ring| ring.capacity() != 0 && (id.huge().is_some() || ring.is_within_quota()))
    }

    fn has_magazines(&self, id: RingId) -> bool {
        self.pcp.depot && id.huge().is_none()
    }

    /// Takes a block if the ring has one.
    pub(crate) fn alloc_from_ring(&self, id: RingId) -> Option<Frame> {
        self.cx.shared.machine.step(Step::PcpTake);
        let ring = self.pcp.ring(id)?;
        loop {
            let frame = ring.pop(self.pcps.slots)?;
            self.settle(id, ring, u32::MAX);
            if self.cx.shared.frames.head(frame) == Head::pcp(id.order) {
                ring.count_taken();
                if self.pcp.autotune.is_on() && self.pcp.autotune.note_taken() {
                    self.age();
                }
                return Some(frame);
            }
            // A damaged entry is dropped here and found by `validate`; it must not be handed out.
            ring.count_moved(u64::MAX);
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
        let surplus = if self.pcp.depot { 0 } else { self.surplus(id) };
        if surplus != 0 {
            // A batch may be less than what is above `high`, where blocks of several orders are cached.
            let above = self.pcp.count.load(Ordering::Relaxed).saturating_sub(self.high());
            self.drain(surplus.max(above));
        }
    }

    fn high(&self) -> u32 {
        if self.pcp.autotune.is_on() { self.pcp.autotune.high() } else { self.pcp.size.high }
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

    /// Shrinks lists whose sizes follow their use.
    #[cold]
    fn age(&self) {
        let surplus = self.pcp.autotune.decay(self.pcp.size, self.pcp.count.load(Ordering::Relaxed));
        if surplus != 0 {
            self.drain(surplus);
        }
    }

    /// Returns the frames to fetch for an empty ring, where sizes follow their use.
    pub(crate) fn autotuned_batch(&self, id: RingId) -> u32 {
        let count = self.pcp.count.load(Ordering::Relaxed);
        self.pcp.autotune.refill(self.pcp.size, id.order.0 == 0, count, self.is_scarce())
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
        let room = self.pcp.size.high.saturating_sub(frames);
        while waiting.len() != 0 && (waiting.is_full() || self.pcp.waiting_frames.load(Ordering::Relaxed) > room) {
            self.let_go();
        }
        waiting.push(self.pcps.slots, frame);
        self.pcp.count_waiting(frames);
        if self.pcp.depot {
            self.keep_below_high();
        }
    }

    /// Frees blocks above `high`, after a waiting block was added.
    fn keep_below_high(&self) {
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

    /// Takes the block that has waited longest; returns it and its order.
    fn pop_waiting(&self) -> Option<(Frame, Order)> {
        self.cx.shared.machine.step(Step::Waiting);
        self.pcp.pop_waiting(self.pcps.slots, &self.cx.shared.frames)
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

    /// Makes room for another block in a ring.
    ///
    /// Returns false if `high` leaves none, or if there is no magazine for it.
    pub(crate) fn make_room(&self, id: RingId, ring: &Ring<M>) -> bool {
        if !self.pcp.depot {
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

    fn frames_of(&self, id: RingId, blocks: u32) -> u32 {
        blocks.saturating_mul(id.order.frames() as u32)
    }

    /// Returns the frames that the rings hold or may hold, and those that wait.
    ///
    /// A ring may fill up to its quota without a further check.
    fn entitled(&self) -> u32 {
        let rings = self.pcp.rings(self.order_of_huge()).map(|(id, ring)| self.frames_of(id, ring.entitled()));
        rings.fold(self.pcp.waiting_frames.load(Ordering::Relaxed), u32::saturating_add)
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

    /// Removes unused quota of other rings, until `frames` frames are gained; returns the gain.
    fn trim_others(&self, id: RingId, frames: u32) -> u32 {
        let mut gained = 0_u32;
        for (other, ring) in self.pcp.rings(self.order_of_huge()).filter(|(other, _)| *other != id) {
            if gained >= frames {
                break;
            }
            gained = gained.saturating_add(self.frames_of(other, ring.entitled().saturating_sub(ring.total())));
            ring.set_quota(0);
            if self.claimed.is_none() && self.pcp.fast_path {
                ring.open();
            }
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

    /// Frees `frames` frames, or all, from the cold end of a ring.
    ///
    /// Returns how many, which may be more than `frames`.
    fn drain_cold(&self, id: RingId, ring: &Ring<M>, frames: u32) -> u32 {
        let mut given = 0_u32;
        let mut batch = FreeBatch::new();
        while given < frames
            && let Some(frame) = self.pop_bottom(id, ring)
        {
            given = given.saturating_add(self.frames_of(id, 1));
            collect(self.cx.shared, &mut batch, frame, id.order);
            if batch.room() == 0 {
                free_batch(self.cx, self.zone, &mut batch);
            }
        }
        free_batch(self.cx, self.zone, &mut batch);
        given
    }

    /// Returns how many frames above `high` the lists may hold.
    ///
    /// Counts the frames of [`Self::entitled`].
    fn above_high(&self) -> u32 {
        self.entitled().saturating_sub(self.pcp.size.high)
    }

    /// Frees blocks above `high` from other rings, after a ring has got a full magazine.
    fn fit(&self, id: RingId, ring: &Ring<M>) {
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

    /// Frees at least `frames` frames to the zone, or all there are; returns their number.
    ///
    /// They come from the cold ends, ring by ring.
    pub(crate) fn drain(&self, frames: u32) -> u32 {
        self.cx.shared.machine.step(Step::Drain);
        if self.pcp.depot {
            self.cx.shared.machine.step(Step::DrainCount);
        }
        if self.pcp.count_racy(self.order_of_huge()) == 0 {
            return 0;
        }
        let mut batch = FreeBatch::new();
        let mut drained = 0_u32;
        while drained < frames {
            self.collect_rings(&mut batch, frames.saturating_sub(drained));
            while batch.frames() < frames.saturating_sub(drained)
                && batch.room() != 0
                && let Some((frame, order)) = self.pop_waiting()
            {
                collect(self.cx.shared, &mut batch, frame, order);
            }
            if batch.is_empty() {
                break;
            }
            drained = drained.saturating_add(batch.frames());
            free_batch(self.cx, self.zone, &mut batch);
        }
        drained
    }

    /// Frees all blocks to the zone; returns the number of frames.
    ///
    /// One batch at a time, so that the zone lock is never held for long.
    pub(crate) fn drain_all(&self) -> u64 {
        let mut drained = 0_u64;
        loop {
            match self.drain(self.zone.pcp.batch.max(1)) {
                0 => return drained,
                frames => drained = drained.saturating_add(u64::from(frames)),
            }
        }
    }

    /// Moves blocks from the cold ends of the rings into a batch.
    ///
    /// Stops at `frames` frames, at a full batch, or when all rings are empty. Rings take turns. A ring that has blocks
    /// gives one for each ring passed since the last one that had any. The only ring that has blocks gives all. This is
    /// Linux's way; one block of each ring in turn would mean looking at all rings for each block.
    fn collect_rings(&self, batch: &mut FreeBatch, frames: u32) {
        let pageblock_order = self.order_of_huge();
        let mut at = self.pcp.turn.load(Ordering::Relaxed) as usize;
        let mut run = 0_usize;
        let mut empty = 0;
        while batch.frames() < frames && batch.room() != 0 && empty < RINGS {
            self.cx.shared.machine.step(Step::DrainRing);
            at = if at + 1 < RINGS { at + 1 } else { 0 };
            run += 1;
            let id = RingId::nth(at, pageblock_order);
            let Some((id, ring)) = id.and_then(|id| Some((id, self.pcp.ring(id).filter(|ring| ring.total() != 0)?)))
            else {
                empty += 1;
                continue;
            };
            let most = if empty + 1 >= RINGS { usize::MAX } else { run };
            (run, empty) = (0, 0);
            for _ in 0..most.min(batch.room()) {
                let Some(frame) = self.pop_bottom(id, ring) else { break };
                collect(self.cx.shared, batch, frame, id.order);
                if batch.frames() >= frames {
                    break;
                }
            }
        }
        self.pcp.turn.store(at as u32, Ordering::Relaxed);
    }

    fn pop_bottom(&self, id: RingId, ring: &Ring<M>) -> Option<Frame> {
        let frame = self.pcps.pop_cold(ring)?;
        self.settle(id, ring, u32::MAX);
        Some(frame)
    }

    /// Frees a block that was on a list here to the zone.
    fn free_to_zone(&self, frame: Frame, order: Order) {
        // A damaged entry stays out of the lists; `validate` finds it.
        if self.cx.shared.frames.head(frame) == Head::pcp(order) {
            free_one(self.cx, self.zone, Block::new(frame, order), &|block| unlist(self.cx.shared, block));
        }
    }

    /// Whether every ring has room for its number of entries.
    pub(crate) fn fits(&self) -> bool {
        self.pcp.every_ring().all(Ring::fits)
    }

    /// Calls `visit` with every entry and the order it should have.
    pub(crate) fn entries(&self, mut visit: impl FnMut(Frame, Order)) {
        for (id, ring) in self.pcp.rings(self.order_of_huge()) {
            self.pcps.depots.each_spare(ring, |frame| visit(frame, id.order));
            ring.each(self.pcps.slots, |frame| visit(frame, id.order));
        }
        self.pcp.waiting.each(self.pcps.slots, |frame| visit(frame, self.cx.shared.frames.head(frame).order()));
    }
}
