//! Nodes: which zone a request goes to next, and the way of one block out of a zone and back.
//!
//! A request has a preferred node. Zones are tried node by node, nearest first, and within a node from the highest kind that the
//! request may use down to DMA, so that scarce low memory is used last. `__GFP_THISNODE` stops after the first
//! node, a policy may leave nodes out, and an address limit leaves out zones above it. A zone that the limit runs through
//! is searched block by block, when all else has failed.
//!
//! With `nofragment`, the first pass takes nothing from another type that is smaller than a pageblock: it prefers a
//! lower zone of the *same* node. Locality comes before that: when the walk would leave the node, it starts over without. Where it is
//! enforced, every pass does so, other nodes included, until the ladder gives it up (`slowpath.rs`).

use core::cell::Cell;

use crate::buddy::fallback::{Mode, Want};
use crate::frame::frame::{Head, Part};
use crate::free_path::free_batch::Block;
use crate::free_path::free_path::give_one;
use crate::pcp::lists::Pcps;
use crate::pcp::ring::RingId;
use crate::policy::mechanisms::{Hardened, Nofragment, PcpMark};
use crate::policy::watermark::{Mark, Rights};
use crate::seam::machine::{Busy, Machine, Ordering, Pinned, Step, Word};
use crate::shared::{Cx, Ground};
use crate::stat::vmstat::{GlobalEvent, ZoneEvent};
use crate::types::error::Why;
use crate::types::request::{__GFP_KSWAPD_RECLAIM, __GFP_THISNODE, Gfp, NodeSet, Policy, Request};
use crate::types::units::{Frame, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use crate::zone::zone::Zone;
use crate::zonelist::node_states::{NodeStates, nodes_with};
use crate::zonelist::numa_stat::Teller;

/// Everything of one allocator.
pub(crate) struct World<'a, M: Machine> {
    pub(crate) ground: Ground<'a, M>,
    pub(crate) zones: &'a [Zone<M>],
    pub(crate) pcps: Pcps<'a, M>,
    /// For each node, the zones with memory in the order they are tried from there.
    pub(crate) zonelists: &'a [ZoneIdx],
    pub(crate) nodes: usize,
    pub(crate) node_states: NodeStates<M>,
    /// Frames to keep free, shared out among the zones, and the gap between their marks; see `Config`.
    pub(crate) min_free_frames: u64,
    pub(crate) scale: u64,
    /// Names of the embedder's counters, of zones and of nodes.
    pub(crate) zone_counters: &'static [&'static str],
    pub(crate) node_counters: &'static [&'static str],
}

/// A request after its flags and policy were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) order: Order,
    pub(crate) migratetype: MigrateType,
    pub(crate) gfp: Gfp,
    pub(crate) highest: ZoneKind,
    pub(crate) start: NodeId,
    pub(crate) allowed: NodeSet,
    pub(crate) below: Option<Pfn>,
    /// The node whose turn it is, of an interleaved sequence that has one.
    pub(crate) turn: Option<NodeId>,
}

impl<'a, M: Machine> World<'a, M> {
    /// Pins the caller to its CPU and runs `operation` there; none if the machine names a CPU that does not exist, or if the call
    /// comes in the middle of a section under a lock of its own.
    pub(crate) fn pinned<T>(&self, operation: impl FnOnce(Cx<'_, 'a, M>) -> T) -> Option<T> {
        self.pinned_by(self.ground.machine.pin(), operation)
    }

    /// Like [`World::pinned`]; none as well if the caller would have to wait for a CPU's holder.
    pub(crate) fn pinned_now<T>(&self, operation: impl FnOnce(Cx<'_, 'a, M>) -> T) -> Option<T> {
        self.pinned_by(self.ground.machine.pin_now(), operation)
    }

    fn pinned_by<T>(&self, pin: M::Pin<'_>, operation: impl FnOnce(Cx<'_, 'a, M>) -> T) -> Option<T> {
        let cpu = pin.cpu();
        let own = self.ground.cpus.get(cpu.index()).filter(|_| !self.ground.machine.is_in_section())?;
        Some(operation(Cx { ground: &self.ground, cpu, node: pin.node(), own }))
    }

    /// The CPU of a caller that must not wait for one, to be held until its call ends: all pins below are that one again, so
    /// no step of the call waits either. None where pins never wait.
    ///
    /// # Errors
    /// [`Busy`]: no CPU is to be had at once.
    pub(crate) fn hold_now(&self) -> Result<Option<M::Pin<'_>>, Busy> {
        let pin = M::SLEEPS_PINNED.then(|| self.ground.machine.pin_now());
        if pin.as_ref().is_some_and(Pinned::is_busy) { Err(Busy) } else { Ok(pin) }
    }

    pub(crate) fn zone(&self, idx: ZoneIdx) -> Option<&'a Zone<M>> {
        self.zones.get(idx.index())
    }

    /// The zone that a frame belongs to.
    pub(crate) fn zone_of(&self, frame: Frame) -> Option<&'a Zone<M>> {
        self.zone(self.ground.frames.pageblock(frame).zone()?)
    }

    /// What a frame is part of while nobody takes its zone's memory away or brings it back.
    pub(crate) fn look_locked(&self, frame: Frame) -> Part {
        let looked = self.pinned(|cx| {
            let _guard = self.zone_of(frame).map(|zone| zone.lock(cx));
            self.ground.frames.part_of(frame)
        });
        looked.unwrap_or(Part::Hole)
    }

    /// What a request wants of a zone's lists.
    pub(crate) fn want(&self, plan: &Plan, rights: Rights) -> Want {
        let Plan { order, migratetype, gfp, .. } = *plan;
        let Ground { mechanisms, frames, .. } = &self.ground;
        let least = match mechanisms.stall_order.get() {
            _ if rights.nofragment => frames.geometry.pageblock_order,
            Some(stall) if rights.stall => stall,
            _ => Order(0),
        };
        Want { order, migratetype, cma: rights.cma, least, wakes: gfp.contains(__GFP_KSWAPD_RECLAIM) }
    }

    /// Reads a request's policy on the running CPU. Counts the turn of an interleaved one.
    pub(crate) fn plan(&self, cx: Cx<'_, 'a, M>, request: &Request) -> Plan {
        let turn = match request.policy {
            Policy::Interleave(_) => {
                let turn = cx.own.turn.load(Ordering::Relaxed);
                cx.own.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
                turn
            }
            _ => 0,
        };
        self.plan_from(cx.node, turn, request)
    }

    /// Reads a request's policy for somebody near this node. `turn`: which of its nodes an interleaved one prefers.
    pub(crate) fn plan_from(&self, near: NodeId, turn: u32, request: &Request) -> Plan {
        let only_here = request.gfp.contains(__GFP_THISNODE);
        let turn = match request.policy {
            Policy::Interleave(nodes) => nodes.only_with(self.nodes_for(request)).nth_cyclic(turn),
            _ => None,
        };
        let (start, allowed) = match request.policy {
            Policy::Prefer(node) => (node, NodeSet::ALL),
            // The one node of a strict request: of those of the set that could serve it the nearest.
            Policy::Bind(nodes) if only_here => (near, self.nearest(near, nodes.only_with(self.nodes_for(request)))),
            Policy::Bind(nodes) => (near, nodes),
            Policy::Local | Policy::Interleave(_) => (turn.unwrap_or(near), NodeSet::ALL),
        };
        let is_one = only_here && !matches!(request.policy, Policy::Bind(_));
        Plan {
            order: request.order,
            migratetype: request.gfp.migratetype(),
            gfp: request.gfp,
            highest: request.gfp.highest_zone(),
            start,
            allowed: if is_one { NodeSet::only(start) } else { allowed },
            below: request.below,
            turn,
        }
    }

    /// The zones with memory, nearest to `node` first.
    pub(crate) fn zones_from(&self, node: NodeId) -> impl Iterator<Item = &'a Zone<M>> + use<'a, M> {
        let zones = self.zones;
        let start = node.index().saturating_mul(zones.len());
        let list = self.zonelists.get(start..start.saturating_add(zones.len())).unwrap_or(&[]);
        list.iter().map_while(move |idx| zones.get(idx.index()))
    }

    /// The nodes with memory in a zone that a request may use, as far as its flags and its address limit go.
    fn nodes_for(&self, request: &Request) -> NodeSet {
        let highest = request.gfp.highest_zone();
        match request.below {
            None => self.node_states.with_memory(highest),
            limit => nodes_with(self.zones, highest, limit),
        }
    }

    /// The set with the nearest of some nodes alone.
    fn nearest(&self, node: NodeId, among: NodeSet) -> NodeSet {
        let nearest = self.zones_from(node).map(Zone::node).find(|&near| among.contains(near));
        nearest.map_or(NodeSet::default(), NodeSet::only)
    }

    /// The zones that a plan may use, in the order they are tried: none of which has a frame at or above its address limit.
    pub(crate) fn zonelist(&self, plan: &Plan) -> impl Iterator<Item = &'a Zone<M>> + use<'a, M> {
        let Plan { highest, allowed, below, start, .. } = *plan;
        self.zones_from(start).filter(move |zone| {
            let fits = below.is_none_or(|limit| zone.span.end <= limit);
            zone.kind() <= highest && allowed.contains(zone.node()) && fits
        })
    }

    /// The first zone of a plan that has memory; `or` if none does.
    #[cold]
    fn first_with_memory<'z>(&'z self, plan: &Plan, or: &'z Zone<M>) -> &'z Zone<M> {
        self.zonelist(plan).find(|zone| zone.has_memory()).unwrap_or(or)
    }

    /// Tries every zone of the plan once and returns a block whose head says "allocated". Zones that an address limit runs
    /// through are left to [`World::take_below`].
    pub(crate) fn take(&self, cx: Cx<'_, 'a, M>, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        match self.zonelist(plan).next() {
            Some(preferred) => {
                // A block on a list is served though the zone has none of that order, as long as it has free memory.
                let usable = self.ground.mechanisms.pcp_mark == PcpMark::EveryRequest
                    && preferred.may_take_racy(&self.ground, Order(0), plan.highest, rights);
                let stocked = if usable { self.take_stocked(cx, preferred, preferred, plan, rights) } else { None };
                stocked.map_or_else(|| self.walk(cx, preferred, plan, rights), Ok)
            }
            None if self.split_zones(plan).next().is_some() => Err(Why::Fragmented),
            None => Err(Why::NoZone),
        }
    }

    /// Takes a block from one zone that has left its free memory already: from this CPU's list or the depot. (A request for
    /// which a reserve is kept goes the long way.)
    fn take_stocked(
        &self,
        cx: Cx<'_, 'a, M>,
        zone: &'a Zone<M>,
        preferred: &Zone<M>,
        plan: &Plan,
        rights: Rights,
    ) -> Option<Frame> {
        let ring = RingId::of(plan.order, plan.migratetype, self.ground.frames.geometry.pageblock_order)?;
        if keeps_reserve(plan, rights) {
            return None;
        }
        let pcp = self.pcps.enter(cx, zone)?;
        let frame = pcp.take_stocked(ring)?;
        self.hand_out(cx, frame, (zone, preferred), plan, pcp.teller());
        Some(frame)
    }

    /// Tries zone after zone.
    fn walk(&self, cx: Cx<'_, 'a, M>, preferred: &'a Zone<M>, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        let mut zones = self.zonelist(plan);
        let mut rights = Rights { nofragment: rights.nofragment && self.may_avoid_mixing(preferred), ..rights };
        // Whether this is given up when the walk would leave the node, or found nothing.
        let enforced = self.ground.mechanisms.nofragment == Nofragment::Enforced;
        let mut zone = zones.next();
        let mut why = Why::Watermark;
        let stock_is_free = self.ground.mechanisms.pcp_mark == PcpMark::Refill;
        loop {
            self.ground.machine.step(Step::ZoneTry);
            let here = zone.filter(|zone| !rights.nofragment || enforced || zone.node() == preferred.node());
            if let Some(zone) = here.filter(|_| stock_is_free)
                && let Some(frame) = self.take_stocked(cx, zone, preferred, plan, rights)
            {
                return Ok(frame);
            }
            match here {
                Some(zone) if self.may_serve(zone, plan, rights) => {
                    let taken = self.take_from(cx, zone, preferred, plan, rights);
                    self.wake_boosted(zone);
                    if let Some(frame) = taken {
                        return Ok(frame);
                    }
                    // For a single frame there is no block too small: what is left is not for this request.
                    why = if plan.order.0 == 0 { Why::Watermark } else { Why::Fragmented };
                }
                Some(zone) if self.has_enough(zone, plan, rights) => why = Why::Fragmented,
                Some(_) => {}
                None if rights.nofragment && !enforced => {
                    // Once more from the start, mixing allowed.
                    rights.nofragment = false;
                    zones = self.zonelist(plan);
                }
                None => return Err(why),
            }
            zone = zones.next();
        }
    }

    /// Whether a zone may serve a request, at this moment.
    pub(crate) fn may_serve(&self, zone: &Zone<M>, plan: &Plan, rights: Rights) -> bool {
        zone.may_take_racy(&self.ground, plan.order, plan.highest, rights)
    }

    pub(crate) fn max_order(&self) -> Order {
        self.ground.frames.geometry.max_order
    }

    /// Whether mobilities are kept apart in this pass. In the first pass where trying a lower zone of the node first is worth it:
    /// not in favour of the tiny DMA zone.
    pub(crate) fn may_avoid_mixing(&self, preferred: &Zone<M>) -> bool {
        let lower = self.zone(ZoneIdx::of(preferred.node(), ZoneKind::Dma32));
        match self.ground.mechanisms.nofragment {
            Nofragment::Off => false,
            Nofragment::FirstPass => {
                preferred.kind() == ZoneKind::Normal && (self.nodes == 1 || lower.is_some_and(Zone::is_populated))
            }
            Nofragment::Enforced => true,
        }
    }

    /// Whether the zone has free memory above its mark, if in too small blocks.
    fn has_enough(&self, zone: &Zone<M>, plan: &Plan, rights: Rights) -> bool {
        plan.order.0 != 0 && zone.may_take_racy(&self.ground, Order(0), plan.highest, rights)
    }

    /// Takes a block from one zone: through the per-CPU list where there is one, else under the zone lock.
    fn take_from(
        &self,
        cx: Cx<'_, 'a, M>,
        zone: &'a Zone<M>,
        preferred: &Zone<M>,
        plan: &Plan,
        rights: Rights,
    ) -> Option<Frame> {
        let want = self.want(plan, rights);
        let reserve = keeps_reserve(plan, rights);
        if reserve && let Some(frame) = self.take_reserved(cx, (zone, preferred), plan) {
            return Some(frame);
        }
        let ring = RingId::of(plan.order, plan.migratetype, self.ground.frames.geometry.pageblock_order);
        if let Some(ring) = ring
            && let Some(pcp) = self.pcps.enter(cx, zone)
        {
            if let Some(frame) = pcp.take(ring, &want) {
                self.hand_out(cx, frame, (zone, preferred), plan, pcp.teller());
                drop(pcp);
                if reserve && zone.highatomic_reserved.load(Ordering::Relaxed) == 0 {
                    zone.lock(cx).begin_highatomic(frame, plan.order);
                }
                return Some(frame);
            }
            if !rights.highatomic && pcp.has_room(ring) {
                return None;
            }
        }
        let guard = zone.lock(cx);
        if let Some(frame) = guard.take(&want, &mut Mode::Normal, false) {
            if reserve {
                guard.reserve_highatomic(frame, plan.order);
            }
            return self.hand_out_aside(cx, frame, (zone, preferred), plan);
        }
        drop(guard);
        if rights.highatomic { self.take_reserved(cx, (zone, preferred), plan) } else { None }
    }

    /// Takes a block from a zone's high-atomic reserve.
    fn take_reserved(
        &self,
        cx: Cx<'_, 'a, M>,
        (zone, preferred): (&'a Zone<M>, &Zone<M>),
        plan: &Plan,
    ) -> Option<Frame> {
        if zone.highatomic_reserved.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let guard = zone.lock(cx);
        let frame = guard.take_highatomic(plan.order)?;
        self.hand_out_aside(cx, frame, (zone, preferred), plan)
    }

    /// Hands out a block that was taken from a zone under its lock, past the per-CPU lists. The lock is held.
    fn hand_out_aside(
        &self,
        cx: Cx<'_, 'a, M>,
        frame: Frame,
        (zone, preferred): (&Zone<M>, &Zone<M>),
        plan: &Plan,
    ) -> Option<Frame> {
        let own = self.pcps.record(cx.cpu, zone.idx.index())?;
        own.aside.count_alloc(plan.order);
        self.hand_out(cx, frame, (zone, preferred), plan, (&own.aside, false));
        Some(frame)
    }

    /// Marks a block as allocated and counts where it came from.
    pub(crate) fn hand_out(
        &self,
        cx: Cx<'_, 'a, M>,
        frame: Frame,
        (zone, preferred): (&Zone<M>, &Zone<M>),
        plan: &Plan,
        teller: Teller<'_, M>,
    ) {
        self.ground.machine.step(Step::HandOut);
        let movable = plan.migratetype == MigrateType::Movable;
        self.ground.frames.set_head(frame, Head::allocated(plan.order, movable));
        let is_miss = zone.node() != preferred.node();
        // A zone whose memory is all offline was preferred by nobody.
        let preferred = if is_miss && !preferred.has_memory() { self.first_with_memory(plan, zone) } else { preferred };
        self.pcps.count_numa(cx, (zone, preferred), plan.turn, teller);
    }

    /// Whether the node whose turn it is has memory for the request only in zones that the address limit runs through.
    pub(crate) fn is_turn_split(&self, plan: &Plan) -> bool {
        plan.below.is_some() && plan.turn.is_some_and(|turn| self.zonelist(plan).all(|zone| zone.node() != turn))
    }

    /// The zones of a plan that its address limit runs through.
    pub(crate) fn split_zones(&self, plan: &Plan) -> impl Iterator<Item = &'a Zone<M>> + use<'a, M> {
        let limit = plan.below.unwrap_or(Pfn(0));
        let whole = Plan { below: None, ..*plan };
        self.zonelist(&whole).filter(move |zone| zone.span.start < limit && limit < zone.span.end)
    }

    /// Takes a block below an address limit, from the zones that it runs through. Looks at the free blocks one after the
    /// other, a stretch at a time and without the lock, and takes the first that is large enough under it. Rare (a
    /// device's odd limit), so it may cost.
    pub(crate) fn take_below(&self, plan: &Plan, rights: Rights) -> Option<Frame> {
        let limit = plan.below?;
        let max_order = self.max_order();
        for zone in self.split_zones(plan) {
            let mut start = zone.span.start;
            while start < limit && self.may_serve(zone, plan, rights) {
                let end = start.add(1).align_up(max_order).min(limit);
                let stretch = PfnRange { start, end };
                if let Some(frame) = self.pinned(|cx| self.take_within(cx, zone, stretch, plan, rights)).flatten() {
                    return Some(frame);
                }
                start = self.ground.frames.map.next(end).unwrap_or(limit);
            }
        }
        None
    }

    /// Takes a block that begins and ends in a stretch of at most a largest block.
    fn take_within(
        &self,
        cx: Cx<'_, 'a, M>,
        zone: &'a Zone<M>,
        stretch: PfnRange,
        plan: &Plan,
        rights: Rights,
    ) -> Option<Frame> {
        let frames = &self.ground.frames;
        let want = self.want(plan, rights);
        let is_reserved = |mt| mt == MigrateType::HighAtomic && rights.highatomic;
        // Everything that starts in the stretch is in one section, or the stretch is a hole.
        let first = frames.frame(stretch.start)?;
        let end = first.add(stretch.frames());
        let mut at = first;
        while at < end {
            self.ground.machine.step(Step::Below);
            let part = frames.block_at(at);
            let next = part.map_or(at.add(1), |part| part.end(at));
            let fits =
                matches!(part, Some(Part::Free(_, free)) if free >= plan.order) && at.add(plan.order.frames()) <= end;
            if fits && frames.pageblock(at).zone() == Some(zone.idx) {
                let guard = zone.lock(cx);
                let taken = guard.take_with(|buddy| match frames.state(at).as_free() {
                    Some((free, mt)) if free >= plan.order && (want.may_use(mt) || is_reserved(mt)) => {
                        buddy.take(at, free, plan.order, mt).map(Some)
                    }
                    _ => Ok(None),
                });
                if let Some(frame) = taken {
                    return self.hand_out_aside(cx, frame, (zone, zone), plan);
                }
            }
            at = next.max(at.add(1));
        }
        None
    }

    /// Gives back a block that was found to be allocated with this order. False if it is so no more: another CPU freed it in
    /// between. `exact`: that is seen in any case, and not only where it costs nothing.
    pub(crate) fn give(&self, cx: Cx<'_, 'a, M>, frame: Frame, order: Order, exact: bool) -> bool {
        let frames = &self.ground.frames;
        let pageblock = frames.pageblock(frame);
        let Some(zone) = pageblock.zone().and_then(|idx| self.zone(idx)) else { return false };
        let hardened = self.ground.mechanisms.hardened;
        if hardened != Hardened::Off && !self.claim_freed(frame, order) {
            return false;
        }
        let ring = RingId::of(order, pageblock.migratetype(), frames.geometry.pageblock_order);
        if let Some(ring) = ring
            && let Some(pcp) = self.pcps.enter(cx, zone)
        {
            if hardened != Hardened::Off {
                pcp.give_waiting(frame, order);
                return true;
            }
            let is_ours = !exact || frames.claim_head(frame, order);
            if is_ours {
                pcp.give(ring, frame);
            }
            return is_ours;
        }
        let given = Cell::new(false);
        give_one(cx, zone, Block::new(frame, order), &|_| {
            // No second free can pass: for blocks that no per-CPU list keeps the check is exact.
            if hardened == Hardened::Off && !frames.claim_head(frame, order) {
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

    /// Takes a block from whoever frees it, for good, and fills its memory.
    fn claim_freed(&self, frame: Frame, order: Order) -> bool {
        let claimed = self.ground.frames.claim_head(frame, order);
        if claimed {
            self.fill_freed(frame, order);
        }
        claimed
    }

    /// Fills the memory of a block that is being freed.
    pub(crate) fn fill_freed(&self, frame: Frame, order: Order) {
        let Ground { machine, frames, mechanisms, .. } = &self.ground;
        match mechanisms.hardened {
            Hardened::Zero => machine.zero(frames.pfn(frame), order),
            _ => machine.poison(frames.pfn(frame), order),
        }
    }

    /// Takes a block to which nobody wrote since it was freed. Others are put aside.
    pub(crate) fn take_intact(&self, cx: Cx<'_, 'a, M>, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        loop {
            let frame = self.take(cx, plan, rights)?;
            if self.is_intact(cx, frame, plan.order) {
                return Ok(frame);
            }
        }
    }

    /// Whether nobody wrote to an allocated block of ours since it was freed. One that somebody wrote to is put aside.
    pub(crate) fn is_intact(&self, cx: Cx<'_, 'a, M>, frame: Frame, order: Order) -> bool {
        let Ground { machine, frames, mechanisms, .. } = &self.ground;
        let is_intact = mechanisms.hardened == Hardened::Off || machine.is_poisoned(frames.pfn(frame), order);
        if !is_intact {
            self.put_aside(cx, frame, order);
        }
        is_intact
    }

    /// Puts an allocated block of ours into quarantine.
    fn put_aside(&self, cx: Cx<'_, 'a, M>, frame: Frame, order: Order) {
        let frames = &self.ground.frames;
        let Some(zone) = self.zone_of(frame) else { return };
        self.ground.events.count(GlobalEvent::WrittenAfterFree);
        let guard = zone.lock(cx);
        frames.set_head(frame, Head::NONE);
        if frames.change(frame, |state| Some(state.quarantine(order))).is_ok() {
            guard.buddy().tally.count_quarantined(order.frames());
        }
        if let Some(own) = self.pcps.record(cx.cpu, zone.idx.index()) {
            own.aside.count(ZoneEvent::FreeFrames, order.frames());
        }
    }
}

/// Whether what is taken comes from the high-atomic reserve first, or adds to it.
fn keeps_reserve(plan: &Plan, rights: Rights) -> bool {
    rights.highatomic && plan.order.0 != 0
}

/// What a request may do beyond the ordinary, at first: leave the low mark untouched and mix no mobilities.
pub(crate) fn first_rights(plan: &Plan) -> Rights {
    Rights {
        mark: Mark::Low,
        no_watermarks: false,
        high: false,
        harder: false,
        highatomic: false,
        cma: plan.migratetype == MigrateType::Movable,
        nofragment: true,
        stall: false,
        unboosted: false,
    }
}
