//! The block that a request may get, and when it may fail.
//!
//! Rules for the block of a served request:
//!
//! - its zone is one that the flags allow;
//! - its node is one that the policy and `__GFP_THISNODE` allow;
//! - every frame lies below the address limit;
//! - it is no part of CMA, if the request cannot move.
//!
//! Rules for a request that failed: errors about the request itself are predicted exactly, and "no zone" must be true.
//! Otherwise no zone may be left that could serve it, wherever its free memory lies (`reach.rs`).

use framewright::machine::Machine;
use framewright::mechanisms::Nofragment;
use framewright::report::{Source, ZoneSnapshot};
use framewright::{
    AllocError, FrameState, MigrateType, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, Request, Why, ZoneIdx,
};

use crate::language::{Wrong, zones};
use crate::oracle::ranges::free_range;
use crate::oracle::reach::Call;
use crate::oracle::rights::Judge;

impl<M: Machine> Judge<'_, '_, M> {
    /// Checks the place of a block or range that a request got.
    pub(crate) fn placed(&self, range: PfnRange) -> Result<(), Wrong> {
        let Some(zone) = self.memory.zone_of(range) else {
            return Err(format!("not memory of one zone: {range}"));
        };
        let highest = self.request.gfp.highest_zone();
        if zone.kind() > highest {
            return Err(format!("not allowed by the flags: {range} in zone {}, above {highest}", zone.kind()));
        }
        if !self.nodes().0.contains(zone.node()) {
            return Err(format!("not allowed by the policy: {range} on node {}", zone.node().0));
        }
        match self.request.below {
            Some(limit) if range.end > limit => Err(format!("not below the limit: {range}, {limit}")),
            _ => Ok(()),
        }
    }

    /// Checks that a request that cannot move was given no part of CMA.
    pub(crate) fn mobility(&self, range: PfnRange) -> Result<(), Wrong> {
        let movable = self.request.gfp.migratetype() == MigrateType::Movable;
        match self.memory.frames_in(range).find(|(_, known)| known.cma && !movable) {
            Some((pfn, _)) => Err(format!("CMA was given to a request that cannot move: frame {pfn}")),
            None => Ok(()),
        }
    }

    /// Checks the error of a valid request.
    pub(crate) fn failed(&self, error: AllocError, (faulted, call): (bool, Call)) -> Result<(), Wrong> {
        let AllocError::NoMemory { why, .. } = error else {
            return Err(format!("the request makes sense, but was answered: {error}"));
        };
        if (why == Why::Fault) != faulted {
            return Err(format!("answered {error:?}, made to fail: {faulted}"));
        }
        if faulted {
            return Ok(());
        }
        let (may, must) = self.nodes();
        let highest = self.request.gfp.highest_zone();
        let allowed = |nodes: NodeSet, counts: &dyn Fn(ZoneIdx) -> bool| {
            self.memory.zones().iter().any(|(&zone, first)| {
                let below = self.request.below.is_none_or(|limit| *first < limit);
                below && nodes.contains(zone.node()) && zone.kind() <= highest && counts(zone)
            })
        };
        // A zone whose memory all lies in other zones' pageblocks may exist or not.
        let exists = |zone| self.pages.zone(zone).is_some_and(|zone| zone.is_populated());
        if why == Why::NoZone && allowed(must, &exists) {
            return Err("answered that no zone satisfies the request, but one does".into());
        }
        if why != Why::NoZone && !allowed(may, &|_| true) {
            return Err(format!("no zone satisfies the request, but the answer was {error:?}"));
        }
        match self.within_reach(call) {
            Some(zone) if !self.disturbed => {
                Err(format!("answered {error:?}, but {} on node {} could serve it", zone.kind(), zone.node().0))
            }
            _ => Ok(()),
        }
    }

    /// Checks an answer "fragmented": no zone may have had a range, and enough free frames besides.
    pub(crate) fn scattered(&self, error: AllocError, frames: u64, align: Order) -> Result<(), Wrong> {
        let is_fragmented = matches!(error, AllocError::NoMemory { why: Why::Fragmented, .. });
        if !is_fragmented || self.disturbed || self.pages.mechanisms().nofragment == Nofragment::Enforced {
            return Ok(());
        }
        let movable = self.request.gfp.migratetype() == MigrateType::Movable;
        let may_use = |pfn| match self.pages.pageblock_type(pfn) {
            Some(MigrateType::Cma) => movable,
            found => found.is_some_and(MigrateType::is_mergeable),
        };
        match free_range(self, frames, align, |zone, pfn| may_use(pfn) && self.has_frames(zone, frames)) {
            Some(range) => Err(format!("answered {error:?}, but {range} is free")),
            None => Ok(()),
        }
    }

    /// Returns whether a zone has `frames` free frames above its low mark.
    fn has_frames(&self, zone: ZoneIdx, frames: u64) -> bool {
        let Some(zone) = self.pages.zone(zone) else { return false };
        let movable = self.request.gfp.migratetype() == MigrateType::Movable;
        let types = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
        let types = types.into_iter().chain(movable.then_some(MigrateType::Cma));
        let counted = types.flat_map(|mt| Order(0).up_to(self.memory.max_order()).map(move |order| (order, mt)));
        let free: u64 = counted.map(|(order, mt)| zone.nr_free[order.index()][mt.index()] << order.0).sum();
        let keep = zone.low.saturating_add(zone.protection[self.request.gfp.highest_zone().index()]);
        free.saturating_sub(frames - 1) > keep
    }

    /// Returns a usable zone that has room, on a node that `counts` selects.
    fn could_serve_on(
        &self,
        counts: impl Fn(NodeId) -> bool,
        has_room: impl Fn(&ZoneSnapshot) -> bool,
    ) -> Option<ZoneIdx> {
        let (_, must) = self.nodes();
        let highest = self.request.gfp.highest_zone();
        zones(self.pages.nodes()).find(|&idx| {
            let allowed = idx.kind() <= highest && must.contains(idx.node()) && counts(idx.node());
            allowed && self.pages.zone(idx).is_some_and(|zone| zone.is_populated() && has_room(&zone))
        })
    }

    /// Checks that no nearer node could have served the request.
    ///
    /// When the last try was made, it had no more room than now. Within a node a lower zone may be right, to avoid
    /// mixing.
    pub(crate) fn nearest(&self, range: PfnRange) -> Result<(), Wrong> {
        let Some(served) = self.memory.zone_of(range).map(ZoneIdx::node) else { return Ok(()) };
        if self.request.below.is_some() || self.pages.mechanisms().nofragment == Nofragment::Enforced {
            // Zones that the limit runs through come last, wherever they are. With enforced nofragment, so do nodes on
            // which mobilities would be mixed.
            return Ok(());
        }
        let start = match self.request.policy {
            Policy::Local => self.here,
            Policy::Prefer(node) => node,
            Policy::Bind(nodes) if nodes.contains(self.here) && self.has_memory(self.here) => self.here,
            // Distances count from the nearest node of the set.
            Policy::Bind(_) => return Ok(()),
            Policy::Interleave(nodes) => match self.whose_turn(nodes) {
                Some(node) => node,
                None => return Ok(()),
            },
        };
        let nodes = self.pages.nodes();
        let distance = |to: NodeId| {
            let row = start.index() * nodes;
            let turn = (to.index() + nodes - start.index()) % nodes;
            (to != start, self.distances.get(row + to.index()).copied().unwrap_or(10), turn)
        };
        // The reserve for high orders is tried last.
        let has_room = |zone: &ZoneSnapshot| self.has_room(zone, zone.boost, false);
        match self.could_serve_on(|node| distance(node) < distance(served), has_room) {
            Some(zone) if !self.disturbed => {
                Err(format!("served by node {}, though node {} is nearer and has room", served.0, zone.node().0))
            }
            _ => Ok(()),
        }
    }

    fn has_memory(&self, node: NodeId) -> bool {
        self.memory.zones().keys().any(|zone| zone.node() == node)
    }

    /// Returns whether a zone has a block, and free memory above its low mark plus `more`.
    ///
    /// With `reserve`, the reserve for high orders counts.
    fn has_room(&self, zone: &ZoneSnapshot, more: u64, reserve: bool) -> bool {
        let Request { gfp, order, below, .. } = self.request;
        if below.is_some() && self.keeps_apart() {
            return false;
        }
        let span = PfnRange { start: zone.start_pfn, end: zone.start_pfn.add(zone.spanned) };
        if below
            .is_some_and(|limit| limit < span.end && !self.has_block(ZoneIdx::of(zone.node, zone.kind), span, limit))
        {
            return false;
        }
        let movable = gfp.migratetype() == MigrateType::Movable;
        let types = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
        let types = types.into_iter().chain(movable.then_some(MigrateType::Cma));
        let types = types.chain(reserve.then_some(MigrateType::HighAtomic));
        let blocks = |order: Order, migratetype: MigrateType| zone.nr_free[order.index()][migratetype.index()];
        let max = self.memory.max_order();
        let is_kept = |migratetype| self.keeps_apart() && migratetype != gfp.migratetype();
        let least = |migratetype| if is_kept(migratetype) { order.max(self.memory.pageblock_order()) } else { order };
        let large =
            types.clone().any(|migratetype| least(migratetype).up_to(max).any(|order| blocks(order, migratetype) != 0));
        let counted = types.flat_map(|migratetype| Order(0).up_to(max).map(move |order| (order, migratetype)));
        let free: u64 = counted.map(|(order, migratetype)| blocks(order, migratetype) << order.0).sum();
        let keep = (zone.low + more).saturating_add(zone.protection[gfp.highest_zone().index()]);
        large && free.saturating_sub(order.frames() - 1) > keep
    }
}

impl<M: Machine> Judge<'_, '_, M> {
    /// Returns whether a zone has a usable free block that ends below a limit.
    fn has_block(&self, zone: ZoneIdx, span: PfnRange, limit: Pfn) -> bool {
        let Request { gfp, order, .. } = self.request;
        let below = span.intersect(PfnRange { end: limit, ..span });
        self.memory.frames_in(below).any(|(pfn, known)| {
            let free = |pfn| matches!(self.pages.state_of(pfn), FrameState::Free(_, free) if free >= order);
            let usable = match self.pages.pageblock_type(pfn) {
                Some(MigrateType::Cma) => gfp.migratetype() == MigrateType::Movable,
                Some(MigrateType::HighAtomic) => self.uses_highatomic(),
                Some(migratetype) => migratetype.is_mergeable(),
                None => false,
            };
            known.zone == zone && usable && pfn.is_aligned(order) && pfn.add(order.frames()) <= limit && free(pfn)
        })
    }
}
