//! The guard of one CPU's lists of a zone, which their owner or a claimer holds (`pcp.rs`).

use crate::pcp::depot::Depots;
use crate::pcp::pcp::{Claim, Pcp, Turn};
use crate::pcp::ring::Ring;
use crate::pcp::ring_id::RingId;
use crate::seam::machine::{Busy, LockEvent, LockName, Machine, Ordering, Step, Word};
use crate::shared::{CallCx, Shared};
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
    pub(crate) fn pop_cold(&self, ring: &Ring<M>) -> Option<Frame> {
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
    pub(crate) fn order_of_huge(&self) -> Order {
        self.cx.shared.frames.geometry.pageblock_order
    }

    /// Returns the frames of `blocks` blocks of a ring.
    pub(crate) fn frames_of(&self, id: RingId, blocks: u32) -> u32 {
        blocks.saturating_mul(id.order.frames() as u32)
    }

    /// Accounts for `blocks` blocks that a ring gained outside its owner's window.
    ///
    /// A negated number means that the ring lost blocks.
    pub(crate) fn settle(&self, id: RingId, ring: &Ring<M>, blocks: u32) {
        if !self.pcp.rules().has_depot {
            let count = self.pcp.count.load(Ordering::Relaxed);
            self.pcp.count.store(count.wrapping_add(blocks << id.order.0.min(31)), Ordering::Relaxed);
        } else if self.claimed.is_none() && self.pcp.rules().has_fast_path {
            ring.open();
        }
    }

    /// Takes the block that has waited longest; returns it and its order.
    pub(crate) fn pop_waiting(&self) -> Option<(Frame, Order)> {
        self.cx.shared.machine.step(Step::Waiting);
        self.pcp.pop_waiting(self.pcps.slots, &self.cx.shared.frames)
    }

    /// Whether every ring has room for its number of entries.
    pub(crate) fn fits(&self) -> bool {
        self.pcp.every_ring().all(|ring| ring.fits(self.pcps.slots))
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
