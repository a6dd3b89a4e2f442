//! What a request may get, and when it may fail.
//!
//! The rules that a served request must meet, whichever block it got: the zone is one that its flags allow, the node one that
//! policy and `__GFP_THISNODE` allow, every frame lies below the address limit, and a request that cannot move has no part
//! of CMA. And the rules for one that was not served: errors about the request itself are predicted exactly, "no zone"
//! must be true, and otherwise no zone may be left that could serve it, wherever its free memory lies (`reach.rs`).

use framewright::machine::Machine;
use framewright::mechanisms::Nofragment;
use framewright::report::{Source, ZoneSnapshot};
use framewright::request::{
    __GFP_ATOMIC, __GFP_DMA, __GFP_DMA32, __GFP_MOVABLE, __GFP_NOMEMALLOC, __GFP_RECLAIMABLE, __GFP_THISNODE,
};
use framewright::{
    AllocError, Allocator, FrameState, Gfp, MigrateType, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, Request, Why,
    ZoneIdx,
};

use crate::memory::{Memory, Use};
use crate::outcome::Wrong;
use crate::reach::Call;
use crate::row::zones;

/// A request, judged on one machine.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'j, 'a, M: Machine> {
    pub(crate) pages: &'j Allocator<'a, M>,
    pub(crate) memory: &'j Memory,
    pub(crate) request: Request,
    /// The node of the CPU that asked.
    pub(crate) here: NodeId,
    /// Distances between nodes, row by row.
    pub(crate) distances: &'j [u8],
    /// Which turn of this CPU's interleaved requests it was; none if that is not known.
    pub(crate) turn: Option<u32>,
    /// Whether something was made to fail on the way: then any honest failure is right.
    pub(crate) disturbed: bool,
}

impl<M: Machine> Judge<'_, '_, M> {
    /// The error that a request gets because it makes no sense.
    pub(crate) fn refusal(&self) -> Option<AllocError> {
        let Request { gfp, order, policy, .. } = self.request;
        let max = self.memory.max_order();
        if order > max {
            return Some(AllocError::BadOrder { order, max });
        }
        if contradict(gfp) {
            return Some(AllocError::BadFlags);
        }
        match policy {
            Policy::Prefer(node) if node.index() >= self.pages.nodes() => Some(AllocError::BadNode(node)),
            _ => None,
        }
    }

    /// The nodes that a block may come from, and those of which none may have been passed over.
    pub(crate) fn nodes(&self) -> (NodeSet, NodeSet) {
        let only_here = self.request.gfp.contains(__GFP_THISNODE);
        let both = |nodes| (nodes, nodes);
        match self.request.policy {
            Policy::Local if only_here => both(NodeSet::only(self.here)),
            Policy::Prefer(node) if only_here => both(NodeSet::only(node)),
            // Of several that could serve it *this* node is the nearest, which is the allocator's to know.
            Policy::Bind(nodes) if only_here => match self.usable(nodes) {
                usable if usable.len() > 1 => (usable, NodeSet(0)),
                usable => both(usable),
            },
            Policy::Bind(nodes) => both(nodes),
            Policy::Interleave(nodes) if only_here => match self.whose_turn(nodes) {
                Some(node) => both(NodeSet::only(node)),
                None => (self.usable(nodes).with(NodeSet::only(self.here)), NodeSet(0)),
            },
            Policy::Local | Policy::Prefer(_) | Policy::Interleave(_) => both(NodeSet::ALL),
        }
    }

    /// Those of some nodes that have memory, not withheld, in a zone that the request may use.
    pub(crate) fn usable(&self, nodes: NodeSet) -> NodeSet {
        let highest = self.request.gfp.highest_zone();
        let begins_below = |zone: &ZoneIdx, limit| self.memory.zones().get(zone).is_some_and(|&first| first < limit);
        let frames = self.memory.all().filter(|(_, known)| {
            let reaches = self.request.below.is_none_or(|limit| begins_below(&known.zone, limit));
            !matches!(known.used, Use::Withheld { .. }) && known.zone.kind() <= highest && reaches
        });
        let with_memory = frames.fold(NodeSet(0), |all, (_, known)| all.with(NodeSet::only(known.zone.node())));
        with_memory.only_with(nodes)
    }

    /// The node whose turn it is: of those that count, round and round; where none does, the caller's. None if the turn is not known.
    pub(crate) fn whose_turn(&self, nodes: NodeSet) -> Option<NodeId> {
        let usable = self.usable(nodes);
        if usable.is_empty() { Some(self.here) } else { usable.nth_cyclic(self.turn?) }
    }

    /// Checks where a block or range lies that a request was given.
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

    /// Checks the error of a request that makes sense.
    pub(crate) fn failed(&self, error: AllocError, (faulted, call): (bool, Call)) -> Result<(), Wrong> {
        let AllocError::NoMemory { why } = error else {
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
        // A zone of which other zones' pageblocks have all may be taken for one or not.
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

    /// Checks that a contiguous request was not answered "fragmented" though a zone had a range for it, and enough besides.
    pub(crate) fn scattered(&self, error: AllocError, frames: u64, align: Order) -> Result<(), Wrong> {
        let is_fragmented = matches!(error, AllocError::NoMemory { why: Why::Fragmented });
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

    /// Whether a zone has so many free frames above its low mark.
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

    /// Whether the request may use the reserve for high orders, at order 0 when all else is used up.
    pub(crate) fn uses_highatomic(&self) -> bool {
        let Request { gfp, order, .. } = self.request;
        let is_urgent = if order.0 == 0 { !gfp.may_reclaim() } else { gfp.contains(__GFP_ATOMIC) };
        is_urgent && !gfp.contains(__GFP_NOMEMALLOC)
    }

    /// A zone that the request may use on nodes that `counts` says yes of, and that has room.
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

    /// Checks that no node nearer than the one that served the request could have: when the last try was made it had no
    /// more room than now. Within a node a lower zone may be right, to avoid mixing.
    pub(crate) fn nearest(&self, range: PfnRange) -> Result<(), Wrong> {
        let Some(served) = self.memory.zone_of(range).map(ZoneIdx::node) else { return Ok(()) };
        if self.request.below.is_some() || self.pages.mechanisms().nofragment == Nofragment::Enforced {
            // Zones that the limit runs through come last, wherever they are. Where mobilities are kept apart by force, so do nodes on
            // which they would be mixed.
            return Ok(());
        }
        let start = match self.request.policy {
            Policy::Local => self.here,
            Policy::Prefer(node) => node,
            Policy::Bind(nodes) if nodes.contains(self.here) && self.has_memory(self.here) => self.here,
            // From the nearest node of the set on, distances count from there.
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

    /// Whether a zone has a block and, with `more` on top, free memory above its low mark. `reserve`: that for high orders counts.
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
    /// Whether a zone has a free block for the request that ends below a limit, on a list that it may use.
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

/// Whether flags contradict each other.
pub(crate) fn contradict(gfp: Gfp) -> bool {
    gfp.contains(__GFP_MOVABLE | __GFP_RECLAIMABLE) || gfp.contains(__GFP_DMA | __GFP_DMA32)
}

/// What must answer an allocation of exactly these frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RangeVerdict {
    /// It makes no sense, for this reason.
    Bad(AllocError),
    /// All is free.
    Serve,
    /// Something movable is in the way, and may be moved.
    Move,
    /// Something stays.
    Busy,
}

/// Judges a range by what is in it.
pub(crate) fn range_verdict(memory: &Memory, range: PfnRange, may_move: bool) -> RangeVerdict {
    if let Some(error) = range_refusal(memory, range) {
        return RangeVerdict::Bad(error);
    }
    let mut verdict = RangeVerdict::Serve;
    for (_, known) in memory.frames_in(range) {
        verdict = match known.used {
            Use::Free | Use::Withheld { .. } => verdict,
            Use::Held { movable: true, .. } if may_move && verdict != RangeVerdict::Busy => RangeVerdict::Move,
            Use::Held { .. } => RangeVerdict::Busy,
        };
    }
    verdict
}

/// Why no range can have these frames: the first of them that is no memory, withheld, or of another zone than the range's first.
fn range_refusal(memory: &Memory, range: PfnRange) -> Option<AllocError> {
    if range.is_empty() {
        return Some(AllocError::BadRange(range));
    }
    let zone = memory.known(range.start).map(|known| known.zone);
    (range.start.0..range.end.0).map(Pfn).find_map(|pfn| match memory.known(pfn) {
        None => Some(AllocError::Foreign(pfn)),
        Some(known) if Some(known.zone) != zone => Some(AllocError::OtherZone(pfn)),
        Some(known) if matches!(known.used, Use::Withheld { .. }) => Some(AllocError::Offline(pfn)),
        Some(_) => None,
    })
}

/// A range of free frames that a contiguous request of so many could have had: aligned, in an allowed zone, each frame one that counts.
pub(crate) fn free_range<M: Machine>(
    judge: &Judge<'_, '_, M>,
    frames: u64,
    align: Order,
    counts: impl Fn(ZoneIdx, Pfn) -> bool,
) -> Option<PfnRange> {
    let (_, must) = judge.nodes();
    let highest = judge.request.gfp.highest_zone();
    let below = judge.request.below.unwrap_or(Pfn(u64::MAX));
    // The free frames of one zone that end with the frame at hand.
    let mut run: Option<(ZoneIdx, PfnRange)> = None;
    judge.memory.all().find_map(|(pfn, known)| {
        let zone = known.zone;
        let usable = zone.kind() <= highest && must.contains(zone.node()) && pfn < below && counts(zone, pfn);
        if known.used != Use::Free || !usable {
            run = None;
            return None;
        }
        let start = match run {
            Some((before, run)) if before == zone && run.end == pfn => run.start,
            _ => pfn,
        };
        let free = PfnRange { start, end: pfn.add(1) };
        run = Some((zone, free));
        let first = free.start.align_up(align);
        (first.add(frames) <= free.end).then(|| PfnRange { start: first, end: first.add(frames) })
    })
}
