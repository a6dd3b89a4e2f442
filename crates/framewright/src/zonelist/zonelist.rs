//! Walks the zonelist: one attempt to serve a request, zone after zone (Linux: `get_page_from_freelist`).
//!
//! With `nofragment`, the first pass takes nothing from another type that is smaller than a pageblock. It prefers a
//! lower zone of the *same* node. Locality takes precedence: before the walk would leave the node, it starts again
//! without `nofragment`.
//!
//! Where `nofragment` is enforced, every pass applies it, other nodes included, until the slow path gives it up
//! (`slowpath.rs`).

use crate::buddy::fallback::Mode;
use crate::pcp::pcp_guard::PcpGuard;
use crate::pcp::ring_id::RingId;
use crate::policy::mechanisms::Nofragment;
use crate::policy::watermark::AllocFlags;
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::shared::CallCx;
use crate::types::error::Why;
use crate::types::units::{Frame, Order, ZoneIdx, ZoneKind};
use crate::zone::zone::Zone;
use crate::zonelist::alloc_flags::keeps_reserve;
use crate::zonelist::numa_stat::ServedFrom;
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

impl<'a, M: Machine> World<'a, M> {
    pub(crate) fn try_once(&self, plan: &Plan, alloc_flags: AllocFlags) -> Result<Frame, Why> {
        let result = self.pinned(|cx| self.alloc_intact(cx, plan, alloc_flags)).unwrap_or(Err(Why::NoCpu));
        result.or_else(|why| self.alloc_below(plan, alloc_flags).ok_or(why))
    }

    /// Takes a block that was not written to since it was freed.
    ///
    /// Blocks that were written to are quarantined.
    pub(crate) fn alloc_intact(
        &self,
        cx: CallCx<'_, 'a, M>,
        plan: &Plan,
        alloc_flags: AllocFlags,
    ) -> Result<Frame, Why> {
        loop {
            let frame = self.alloc_from_zonelist(cx, plan, alloc_flags)?;
            if self.is_intact(cx, frame, plan.order) {
                return Ok(frame);
            }
        }
    }

    /// Tries every zone of the plan once and returns a block whose head says "allocated".
    ///
    /// Zones that an address limit cuts through are left to [`World::alloc_below`].
    pub(crate) fn alloc_from_zonelist(
        &self,
        cx: CallCx<'_, 'a, M>,
        plan: &Plan,
        alloc_flags: AllocFlags,
    ) -> Result<Frame, Why> {
        match self.zonelist(plan).next() {
            Some(preferred) => {
                // A listed block is served even if the zone has none of that order, as long as the zone has free
                // memory.
                let usable = self.shared.mechanisms().marks_bind_cached()
                    && preferred.may_take_racy(&self.shared, Order(0), plan.highest, alloc_flags);
                let from = ServedFrom { zone: preferred, preferred };
                if usable && let Some(frame) = self.alloc_cached_of(cx, from, &mut None, plan, alloc_flags) {
                    return Ok(frame);
                }
                self.walk(cx, preferred, None, plan, alloc_flags)
            }
            None if self.split_zones(plan).next().is_some() => Err(Why::Fragmented),
            None => Err(Why::NoZone),
        }
    }

    /// Takes a block from this CPU's list or the depot of one zone.
    ///
    /// Such a block has left the zone's free memory already. A request that keeps a reserve is served from the zone
    /// instead.
    ///
    /// `lists` is empty before. If the lists and the depot have no block, it is the lists, still held.
    // The lists stay in the caller's place: the guard is large, and moving it takes more code than what it guards.
    pub(crate) fn alloc_cached_of<'g>(
        &'g self,
        cx: CallCx<'g, 'a, M>,
        from: ServedFrom<'g, M>,
        lists: &mut Option<PcpGuard<'g, 'a, M>>,
        plan: &Plan,
        alloc_flags: AllocFlags,
    ) -> Option<Frame> {
        let ring = RingId::of(plan.order, plan.migratetype, self.shared.frames.geometry.pageblock_order)?;
        if M::FEATURES.mobility && keeps_reserve(plan, alloc_flags) {
            return None;
        }
        *lists = self.pcps.enter(cx, from.zone);
        let pcp = lists.as_ref()?;
        let frame = pcp.alloc_cached(ring)?;
        self.hand_out(cx, frame, from, plan, pcp.counted());
        *lists = None;
        Some(frame)
    }

    /// Tries zone after zone.
    ///
    /// `searched`: the lists of the preferred zone, if the caller has found no block in them and in the depot. They are
    /// not searched again.
    pub(crate) fn walk<'g>(
        &'g self,
        cx: CallCx<'g, 'a, M>,
        preferred: &'g Zone<M>,
        mut searched: Option<PcpGuard<'g, 'a, M>>,
        plan: &Plan,
        alloc_flags: AllocFlags,
    ) -> Result<Frame, Why> {
        let mut zones = self.zonelist(plan);
        let mut alloc_flags =
            AllocFlags { nofragment: alloc_flags.nofragment && self.may_avoid_mixing(preferred), ..alloc_flags };
        // Not enforced: given up when the walk would leave the node, or found nothing.
        let enforced = self.shared.mechanisms().mixes_last();
        let mut zone = zones.next();
        let mut why = Why::Watermark;
        let cached_first = !self.shared.mechanisms().marks_bind_cached();
        loop {
            self.shared.machine.step(Step::ZoneTry);
            let here = zone.filter(|zone| !alloc_flags.nofragment || enforced || zone.node() == preferred.node());
            if let Some(zone) = here.filter(|_| cached_first && searched.is_none())
                && let Some(frame) =
                    self.alloc_cached_of(cx, ServedFrom { zone, preferred }, &mut searched, plan, alloc_flags)
            {
                return Ok(frame);
            }
            match here {
                Some(zone) if self.may_serve(zone, plan, alloc_flags) => {
                    let taken =
                        self.alloc_from_zone(cx, ServedFrom { zone, preferred }, &mut searched, plan, alloc_flags);
                    drop(searched.take());
                    self.wake_boosted(zone);
                    if let Some(frame) = taken {
                        return Ok(frame);
                    }
                    // No block is too small for a single frame: what is left is not for this request.
                    why = if plan.order.0 == 0 { Why::Watermark } else { Why::Fragmented };
                }
                Some(zone) if self.has_enough(zone, plan, alloc_flags) => why = Why::Fragmented,
                Some(_) => {}
                None if alloc_flags.nofragment && !enforced => {
                    // The walk starts again, with mixing allowed.
                    alloc_flags.nofragment = false;
                    zones = self.zonelist(plan);
                }
                None => return Err(why),
            }
            searched = None;
            zone = zones.next();
        }
    }

    /// Whether mobilities are kept apart in this pass.
    ///
    /// In the first pass they are, if it is worthwhile to try a lower zone of the node first. The tiny DMA zone is not
    /// worth it.
    pub(crate) fn may_avoid_mixing(&self, preferred: &Zone<M>) -> bool {
        let lower = self.zone(ZoneIdx::of(preferred.node(), ZoneKind::Dma32));
        match self.shared.mechanisms().nofragment {
            Nofragment::Off => false,
            Nofragment::FirstPass => {
                preferred.kind() == ZoneKind::Normal && (self.nodes == 1 || lower.is_some_and(Zone::is_populated))
            }
            Nofragment::Enforced => true,
        }
    }

    /// Whether the zone has free memory above its mark, in blocks of any size.
    pub(crate) fn has_enough(&self, zone: &Zone<M>, plan: &Plan, alloc_flags: AllocFlags) -> bool {
        plan.order.0 != 0 && zone.may_take_racy(&self.shared, Order(0), plan.highest, alloc_flags)
    }

    /// Takes a block from one zone.
    ///
    /// Uses the per-CPU list if there is one, else the zone lock. `lists`: those of this zone, if they were searched.
    pub(crate) fn alloc_from_zone<'g>(
        &'g self,
        cx: CallCx<'g, 'a, M>,
        from: ServedFrom<'g, M>,
        lists: &mut Option<PcpGuard<'g, 'a, M>>,
        plan: &Plan,
        alloc_flags: AllocFlags,
    ) -> Option<Frame> {
        let zone = from.zone;
        let want = self.want(plan, alloc_flags);
        let reserve = M::FEATURES.mobility && keeps_reserve(plan, alloc_flags);
        if reserve && let Some(frame) = self.alloc_highatomic(cx, from, plan) {
            return Some(frame);
        }
        let ring = RingId::of(plan.order, plan.migratetype, self.shared.frames.geometry.pageblock_order);
        let is_searched = lists.is_some();
        if ring.is_some() && !is_searched {
            *lists = self.pcps.enter(cx, zone);
        }
        if let Some(ring) = ring
            && let Some(pcp) = lists
        {
            let frame = if is_searched { pcp.alloc_refilled(ring, &want) } else { pcp.alloc(ring, &want) };
            if let Some(frame) = frame {
                self.hand_out(cx, frame, from, plan, pcp.counted());
                *lists = None;
                if reserve && zone.highatomic_reserved.load(Ordering::Relaxed) == 0 {
                    zone.lock(cx).begin_highatomic(frame, plan.order);
                }
                return Some(frame);
            }
            if !alloc_flags.highatomic && pcp.has_room(ring) {
                return None;
            }
            *lists = None;
        }
        let guard = zone.lock(cx);
        if let Some(frame) = guard.alloc(&want, &mut Mode::Normal, false) {
            if reserve {
                guard.reserve_highatomic(frame, plan.order);
            }
            return self.hand_out_aside(cx, frame, from, plan);
        }
        drop(guard);
        if alloc_flags.highatomic { self.alloc_highatomic(cx, from, plan) } else { None }
    }

    /// Takes a block from a zone's high-atomic reserve.
    fn alloc_highatomic(&self, cx: CallCx<'_, 'a, M>, from: ServedFrom<'_, M>, plan: &Plan) -> Option<Frame> {
        let zone = from.zone;
        if !M::FEATURES.mobility || zone.highatomic_reserved.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let guard = zone.lock(cx);
        let frame = guard.alloc_highatomic(plan.order)?;
        self.hand_out_aside(cx, frame, from, plan)
    }
}
