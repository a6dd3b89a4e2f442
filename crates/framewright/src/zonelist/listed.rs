//! Serves a request that must not wait from the CPU's lists (`api/no_wait.rs`).
//!
//! The lists of the first zone, their depot and one refill are all that it uses. Neither takes a turn at a lock.

use crate::pcp::pcp_guard::PcpGuard;
use crate::pcp::ring_id::RingId;
use crate::policy::watermark::AllocFlags;
use crate::seam::machine::Machine;
use crate::shared::CallCx;
use crate::types::units::Frame;
use crate::zonelist::alloc_flags::first_alloc_flags;
use crate::zonelist::numa_stat::ServedFrom;
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

impl<'a, M: Machine> World<'a, M> {
    /// Goes on with a request that found no block in the lists `searched`, and in their depot.
    #[inline(always)]
    pub(crate) fn alloc_searched<'g>(
        &'g self,
        cx: CallCx<'g, 'a, M>,
        searched: PcpGuard<'g, 'a, M>,
        plan: &Plan,
    ) -> Option<Frame> {
        if cx.may_wait() {
            return self.walk(cx, searched.zone, Some(searched), plan, first_alloc_flags(plan)).ok();
        }
        self.alloc_refilled(&searched, plan)
    }

    /// Takes a block from the CPU's lists of the first zone, from its depot, or by a refill.
    pub(crate) fn alloc_listed(&self, cx: CallCx<'_, 'a, M>, plan: &Plan) -> Option<Frame> {
        let (alloc_flags, mechanisms) = (first_alloc_flags(plan), self.shared.mechanisms());
        let zone = self.zonelist(plan).next()?;
        // A block that was written to goes into quarantine under the zone lock.
        if mechanisms.is_hardened() || (mechanisms.marks_bind_cached() && !self.may_serve(zone, plan, alloc_flags)) {
            return None;
        }
        let mut lists = None;
        let from = ServedFrom { zone, preferred: zone };
        let cached = self.alloc_cached_of(cx, from, &mut lists, plan, alloc_flags);
        cached.or_else(|| self.alloc_refilled(lists.as_ref()?, plan))
    }

    /// Fills lists from their zone, if its lock is free, and takes a block of them.
    fn alloc_refilled(&self, pcp: &PcpGuard<'_, 'a, M>, plan: &Plan) -> Option<Frame> {
        let (zone, alloc_flags) = (pcp.zone, first_alloc_flags(plan));
        let alloc_flags = AllocFlags { nofragment: self.may_avoid_mixing(zone), ..alloc_flags };
        let ring = RingId::of(plan.order, plan.migratetype, self.shared.frames.geometry.pageblock_order)?;
        let may_serve = self.may_serve(zone, plan, alloc_flags);
        let frame = may_serve.then(|| pcp.alloc_refilled(ring, &self.want(plan, alloc_flags))).flatten()?;
        self.hand_out(pcp.cx, frame, ServedFrom { zone, preferred: zone }, plan, pcp.counted());
        Some(frame)
    }
}
