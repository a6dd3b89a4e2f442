//! Nodes: which zone a request goes to next, and the way of one block out of a zone and back.
//!
//! A request has a preferred node. Zones are tried node by node, nearest first, and within a node from the highest kind that the
//! request may use down to DMA, so that scarce low memory is used last. `__GFP_THISNODE` stops after the first
//! node, a policy may leave nodes out, and an address limit leaves out zones that begin above it.
//!
//! With `nofragment`, the first pass takes nothing from another type that is smaller than a pageblock: it prefers a
//! lower zone of the *same* node. Locality comes before that: when the walk would leave the node, it starts over without.

use crate::buddy::Place;
use crate::error::Why;
use crate::fallback::{Mode, Want};
use crate::frame::{Head, Part};
use crate::ground::{Cx, Ground};
use crate::machine::{Machine, Ordering, Pinned, Word};
use crate::mechanisms::{Nofragment, NumaStat};
use crate::pcp::{Pcps, RingId};
use crate::pfn::{CpuId, Frame, MigrateType, NodeId, Order, Pfn, ZoneIdx, ZoneKind};
use crate::request::{__GFP_THISNODE, Gfp, NodeSet, Policy, Request};
use crate::vmstat::ZoneEvent;
use crate::watermark::{Mark, Rights};
use crate::zone::Zone;

/// Everything of one allocator.
pub(crate) struct World<'a, M: Machine> {
    pub(crate) ground: Ground<'a, M>,
    pub(crate) zones: &'a [Zone<M>],
    pub(crate) pcps: Pcps<'a, M>,
    /// For each node, all nodes by distance, itself first.
    pub(crate) near: &'a [NodeId],
    pub(crate) nodes: usize,
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
    /// The request is one of an interleaved sequence.
    pub(crate) interleaved: bool,
}

impl Plan {
    pub(crate) fn want(&self, rights: Rights) -> Want {
        let Plan { order, migratetype, .. } = *self;
        Want { order, migratetype, cma: rights.cma, nofragment: rights.nofragment }
    }
}

impl<'a, M: Machine> World<'a, M> {
    /// Pins the caller to its CPU and runs `operation` there; none if the machine names a CPU that does not exist.
    pub(crate) fn pinned<T>(&self, operation: impl FnOnce(Cx<'_, 'a, M>) -> T) -> Option<T> {
        let pin = self.ground.machine.pin();
        let cpu = pin.cpu();
        let own = self.ground.cpus.get(cpu.index())?;
        Some(operation(Cx { ground: &self.ground, cpu, node: pin.node(), own }))
    }

    pub(crate) fn zone(&self, idx: ZoneIdx) -> Option<&'a Zone<M>> {
        self.zones.get(idx.index())
    }

    /// The zone that a frame belongs to.
    pub(crate) fn zone_of(&self, frame: Frame) -> Option<&'a Zone<M>> {
        self.zone(self.ground.frames.pageblock(frame).zone()?)
    }

    /// Reads a request's policy on the running CPU. Counts the turn of an interleaved one.
    pub(crate) fn plan(&self, cx: Cx<'_, 'a, M>, request: &Request) -> Plan {
        let (start, allowed) = match request.policy {
            Policy::Local => (cx.node, NodeSet::ALL),
            Policy::Prefer(node) => (node, NodeSet::ALL),
            Policy::Bind(nodes) => (self.nearest(cx.node, nodes), nodes),
            Policy::Interleave(nodes) => {
                let turn = cx.own.turn.load(Ordering::Relaxed);
                cx.own.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
                (nodes.nth_cyclic(turn).unwrap_or(cx.node), NodeSet::ALL)
            }
        };
        let only_here = request.gfp.contains(__GFP_THISNODE);
        Plan {
            order: request.order,
            migratetype: request.gfp.migratetype(),
            gfp: request.gfp,
            highest: request.gfp.highest_zone(),
            start,
            allowed: if only_here { NodeSet::only(start) } else { allowed },
            below: request.below,
            interleaved: matches!(request.policy, Policy::Interleave(_)),
        }
    }

    /// The nodes by distance from `node`.
    fn by_distance(&self, node: NodeId) -> &'a [NodeId] {
        let start = node.index().saturating_mul(self.nodes);
        self.near.get(start..start.saturating_add(self.nodes)).unwrap_or(&[])
    }

    fn nearest(&self, node: NodeId, among: NodeSet) -> NodeId {
        self.by_distance(node).iter().copied().find(|&near| among.contains(near)).unwrap_or(node)
    }

    /// The zones that a plan may use, in the order they are tried.
    pub(crate) fn zonelist(&self, plan: &Plan) -> impl Iterator<Item = &'a Zone<M>> {
        let Plan { highest, allowed, below, start, .. } = *plan;
        let nodes = self.by_distance(start).iter().copied().filter(move |&node| allowed.contains(node));
        let zones = self.zones;
        nodes
            .flat_map(move |node| ZoneKind::ALL.into_iter().rev().map(move |kind| ZoneIdx::of(node, kind)))
            .filter(move |idx| idx.kind() <= highest)
            .filter_map(move |idx| zones.get(idx.index()))
            .filter(move |zone| zone.is_populated() && below.is_none_or(|limit| zone.span.start < limit))
    }

    /// Tries every zone of the plan once and returns a block whose head says "allocated".
    pub(crate) fn take(&self, cx: Cx<'_, 'a, M>, plan: &Plan, rights: Rights) -> Result<Frame, Why> {
        let preferred = self.zonelist(plan).next().ok_or(Why::NoZone)?;
        let mut rights = Rights { nofragment: rights.nofragment && self.may_avoid_mixing(preferred), ..rights };
        loop {
            let mut why = Why::Watermark;
            for zone in self.zonelist(plan) {
                if rights.nofragment && zone.node() != preferred.node() {
                    break;
                }
                if !zone.may_take_racy(plan.order, self.max_order(), plan.highest, rights) {
                    if self.has_enough(zone, plan, rights) {
                        why = Why::Fragmented;
                    }
                    continue;
                }
                if let Some(frame) = self.take_from(cx, zone, preferred, plan, rights) {
                    return Ok(frame);
                }
                why = Why::Fragmented;
            }
            if !rights.nofragment {
                return Err(why);
            }
            rights.nofragment = false;
        }
    }

    pub(crate) fn max_order(&self) -> Order {
        self.ground.frames.geometry.max_order
    }

    /// Whether trying a lower zone of the node first is worth it: not in favour of the tiny DMA zone.
    fn may_avoid_mixing(&self, preferred: &Zone<M>) -> bool {
        let lower = self.zone(ZoneIdx::of(preferred.node(), ZoneKind::Dma32));
        self.ground.mechanisms.nofragment == Nofragment::FirstPass
            && preferred.kind() == ZoneKind::Normal
            && (self.nodes == 1 || lower.is_some_and(Zone::is_populated))
    }

    /// Whether the zone has free memory above its mark, if in too small blocks.
    fn has_enough(&self, zone: &Zone<M>, plan: &Plan, rights: Rights) -> bool {
        plan.order.0 != 0 && zone.may_take_racy(Order(0), self.max_order(), plan.highest, rights)
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
        let want = plan.want(rights);
        let movable = plan.migratetype == MigrateType::Movable;
        if let Some(limit) = plan.below.filter(|&limit| zone.span.end > limit) {
            let frame = self.take_below(cx, zone, plan.order, limit)?;
            self.ground.frames.set_head(frame, Head::allocated(plan.order, movable));
            let _guard = zone.lock(cx);
            self.count_alloc(cx, zone, preferred, plan);
            return Some(frame);
        }
        let ring = RingId::of(plan.order, plan.migratetype, self.ground.frames.geometry.pageblock_order);
        if let Some(ring) = ring
            && let Some(pcp) = self.pcps.enter(cx, zone)
        {
            let frame = pcp.take(ring, &want)?;
            self.ground.frames.set_head(frame, Head::allocated(plan.order, movable));
            self.count_alloc(cx, zone, preferred, plan);
            return Some(frame);
        }
        let guard = zone.lock(cx);
        let reserved = (rights.harder && plan.order.0 != 0).then(|| guard.take_highatomic(plan.order)).flatten();
        let frame = reserved.or_else(|| guard.take(&want, &mut Mode::Normal, false))?;
        if rights.harder && plan.order.0 != 0 && reserved.is_none() {
            guard.reserve_highatomic(frame);
        }
        self.ground.frames.set_head(frame, Head::allocated(plan.order, movable));
        self.count_alloc(cx, zone, preferred, plan);
        Some(frame)
    }

    /// Takes a block below an address limit that runs through the zone. Looks at the blocks one after the other without the lock
    /// and takes the first that is large enough under it; rare (a device's odd limit), so it may cost.
    fn take_below(&self, cx: Cx<'_, 'a, M>, zone: &'a Zone<M>, order: Order, limit: Pfn) -> Option<Frame> {
        let frames = &self.ground.frames;
        let mut pfn = zone.span.start;
        while pfn < limit {
            let Some(frame) = frames.frame(pfn) else {
                pfn = Pfn(pfn.0 | self.max_order().mask()).add(1);
                continue;
            };
            let part = frames.block_at(frame);
            let next = part.map_or(1, |part| u64::from(part.end(frame).0.wrapping_sub(frame.0))).max(1);
            let fits = PfnLimit { pfn, order, limit }.holds();
            if matches!(part, Some(Part::Free(_, free)) if free >= order) && fits {
                let guard = zone.lock(cx);
                let buddy = guard.buddy();
                let usable = |migratetype| migratetype != MigrateType::Isolate;
                if let Some((free, migratetype)) = frames.state(frame).as_free()
                    && free >= order
                    && usable(migratetype)
                    && frames.pageblock(frame).zone() == Some(zone.idx)
                    && buddy.remove(frame, free, migratetype).is_ok()
                {
                    return buddy.expand(frame, free, order, migratetype).ok().map(|()| frame);
                }
            }
            pfn = pfn.add(next);
        }
        None
    }

    /// Counts an allocation. Called with interrupts held off.
    pub(crate) fn count_alloc(&self, cx: Cx<'_, 'a, M>, zone: &Zone<M>, preferred: &Zone<M>, plan: &Plan) {
        let Some(own) = self.pcps.record(cx.cpu, zone) else { return };
        own.events.count(ZoneEvent::Allocs, 1);
        own.events.count(ZoneEvent::AllocFrames, plan.order.frames());
        if self.ground.mechanisms.numa_stat == NumaStat::Off {
            return;
        }
        if zone.node() == preferred.node() {
            own.events.count(ZoneEvent::NumaHit, 1);
            if plan.interleaved {
                own.events.count(ZoneEvent::NumaInterleave, 1);
            }
        } else {
            own.events.count(ZoneEvent::NumaMiss, 1);
            if let Some(record) = self.pcps.record(cx.cpu, preferred) {
                record.events.count(ZoneEvent::NumaForeign, 1);
            }
        }
        let near = if zone.node() == cx.node { ZoneEvent::NumaLocal } else { ZoneEvent::NumaOther };
        own.events.count(near, 1);
    }

    /// A zone's counter, summed over all CPUs. Exact at a quiescent point.
    pub(crate) fn event_racy(&self, zone: &Zone<M>, event: ZoneEvent) -> u64 {
        let cpus = (0..self.ground.cpus.len().min(usize::from(u16::MAX)) as u16).map(CpuId);
        let records = cpus.filter_map(|cpu| self.pcps.record(cpu, zone));
        records.map(|record| record.events.get(event)).fold(zone.events.get(event), u64::wrapping_add)
    }

    /// Gives back a block that was found to be allocated with this order.
    pub(crate) fn give(&self, cx: Cx<'_, 'a, M>, frame: Frame, order: Order) {
        let frames = &self.ground.frames;
        let pageblock = frames.pageblock(frame);
        let Some(zone) = pageblock.zone().and_then(|idx| self.zone(idx)) else { return };
        let count = |event, n| {
            if let Some(own) = self.pcps.record(cx.cpu, zone) {
                own.events.count(event, n);
            }
        };
        let ring = RingId::of(order, pageblock.migratetype(), frames.geometry.pageblock_order);
        if let Some(ring) = ring
            && let Some(pcp) = self.pcps.enter(cx, zone)
        {
            count(ZoneEvent::Frees, 1);
            count(ZoneEvent::FreeFrames, order.frames());
            pcp.give(ring, frame);
            return;
        }
        let guard = zone.lock(cx);
        count(ZoneEvent::Frees, 1);
        count(ZoneEvent::FreeFrames, order.frames());
        frames.set_head(frame, Head::NONE);
        guard.give(frame, order, Place::Warm);
    }
}

/// A block that must end below a limit.
struct PfnLimit {
    pfn: Pfn,
    order: Order,
    limit: Pfn,
}

impl PfnLimit {
    fn holds(&self) -> bool {
        self.pfn.add(self.order.frames()) <= self.limit
    }
}

/// What a request may do beyond the ordinary, at first: leave the low mark untouched and mix no mobilities.
pub(crate) fn first_rights(plan: &Plan) -> Rights {
    Rights {
        mark: Mark::Low,
        no_watermarks: false,
        high: false,
        harder: false,
        cma: plan.migratetype == MigrateType::Movable,
        nofragment: true,
    }
}
