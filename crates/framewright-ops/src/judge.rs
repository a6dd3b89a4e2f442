//! What a request may get, and when it may fail.
//!
//! The rules that a served request must meet, whichever block it got: the zone is one that its flags allow, the node one that
//! policy and `__GFP_THISNODE` allow, every frame lies below the address limit, and a request that cannot move has no part
//! of CMA. And the rules for one that was not served: errors about the request itself are predicted exactly, "no zone"
//! must be true, and otherwise no zone may be left that could serve it while keeping its low mark, boosted or not. The last rule reads free
//! counts and marks as the allocator reports them; they are checked by `validate` and by the census.

use framewright::machine::Machine;
use framewright::mechanisms::Nofragment;
use framewright::report::{Source, ZoneSnapshot};
use framewright::request::{
    __GFP_DMA, __GFP_DMA32, __GFP_MOVABLE, __GFP_NOFAIL, __GFP_NORETRY, __GFP_RECLAIMABLE, __GFP_THISNODE,
};
use framewright::{
    AllocError, Allocator, FrameState, Gfp, MigrateType, NodeId, NodeSet, Order, Pfn, PfnRange, Policy, Request, Why,
    ZoneIdx,
};

use crate::memory::Memory;
use crate::outcome::Wrong;
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
    fn nodes(&self) -> (NodeSet, NodeSet) {
        let only_here = self.request.gfp.contains(__GFP_THISNODE);
        let exist = NodeSet::ALL.0 >> (NodeId::LIMIT - self.pages.nodes().clamp(1, NodeId::LIMIT));
        match self.request.policy {
            // Nodes that do not exist have no turn; without any, it is the caller's.
            Policy::Interleave(NodeSet(nodes)) if only_here && nodes & exist == 0 => {
                (NodeSet::only(self.here), NodeSet::only(self.here))
            }
            Policy::Local if only_here => (NodeSet::only(self.here), NodeSet::only(self.here)),
            Policy::Prefer(node) if only_here => (NodeSet::only(node), NodeSet::only(node)),
            // Which of several is *this* node is the policy's choice.
            Policy::Bind(nodes) | Policy::Interleave(nodes) if only_here && nodes.len() > 1 => (nodes, NodeSet(0)),
            Policy::Bind(nodes) => (nodes, nodes),
            Policy::Interleave(nodes) if only_here => (nodes, nodes),
            Policy::Local | Policy::Prefer(_) | Policy::Interleave(_) => (NodeSet::ALL, NodeSet::ALL),
        }
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
    pub(crate) fn failed(&self, error: AllocError, faulted: bool) -> Result<(), Wrong> {
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
        match self.could_serve() {
            Some(zone) if !self.disturbed => {
                Err(format!("answered {error:?}, but {} on node {} could serve it", zone.kind(), zone.node().0))
            }
            _ => Ok(()),
        }
    }

    /// A zone that the request may use, with enough free memory above its low mark and a block that is large enough.
    pub(crate) fn could_serve(&self) -> Option<ZoneIdx> {
        self.could_serve_on(|_| true, |_| 0)
    }

    /// The same on nodes that `counts`, with so much more free memory.
    fn could_serve_on(&self, counts: impl Fn(NodeId) -> bool, more: impl Fn(&ZoneSnapshot) -> u64) -> Option<ZoneIdx> {
        let (_, must) = self.nodes();
        let highest = self.request.gfp.highest_zone();
        zones(self.pages.nodes()).find(|&idx| {
            let allowed = idx.kind() <= highest && must.contains(idx.node()) && counts(idx.node());
            allowed && self.pages.zone(idx).is_some_and(|zone| zone.is_populated() && self.has_room(&zone, more(&zone)))
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
            // Whose turn it was is the allocator's to know.
            Policy::Interleave(_) => return Ok(()),
        };
        let nodes = self.pages.nodes();
        let distance = |to: NodeId| {
            let row = start.index() * nodes;
            let turn = (to.index() + nodes - start.index()) % nodes;
            (to != start, self.distances.get(row + to.index()).copied().unwrap_or(10), turn)
        };
        match self.could_serve_on(|node| distance(node) < distance(served), |zone| zone.boost) {
            Some(zone) if !self.disturbed => {
                Err(format!("served by node {}, though node {} is nearer and has room", served.0, zone.node().0))
            }
            _ => Ok(()),
        }
    }

    fn has_memory(&self, node: NodeId) -> bool {
        self.memory.zones().keys().any(|zone| zone.node() == node)
    }

    fn has_room(&self, zone: &ZoneSnapshot, more: u64) -> bool {
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
    /// Whether the request takes nothing smaller than a pageblock from another mobility, whatever comes: it has another way.
    fn keeps_apart(&self) -> bool {
        let Request { gfp, order, .. } = self.request;
        let is_optional = order.0 != 0 && gfp.contains(__GFP_NORETRY) && !gfp.contains(__GFP_NOFAIL);
        is_optional && self.pages.mechanisms().nofragment == Nofragment::Enforced
    }

    /// Whether a zone has a free block for the request that ends below a limit, on a list that it may use.
    fn has_block(&self, zone: ZoneIdx, span: PfnRange, limit: Pfn) -> bool {
        let Request { gfp, order, .. } = self.request;
        let below = span.intersect(PfnRange { end: limit, ..span });
        self.memory.frames_in(below).any(|(pfn, known)| {
            let free = |pfn| matches!(self.pages.state_of(pfn), FrameState::Free(_, free) if free >= order);
            let usable = match self.pages.pageblock_type(pfn) {
                Some(MigrateType::Cma) => gfp.migratetype() == MigrateType::Movable,
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
    /// It makes no sense.
    Bad,
    /// All is free.
    Serve,
    /// Something movable is in the way, and may be moved.
    Move,
    /// Something stays.
    Busy,
}

/// Judges a range by what is in it.
pub(crate) fn range_verdict(memory: &Memory, range: PfnRange, may_move: bool) -> RangeVerdict {
    use crate::memory::Use;
    if memory.zone_of(range).is_none() {
        return RangeVerdict::Bad;
    }
    let mut verdict = RangeVerdict::Serve;
    for (_, known) in memory.frames_in(range) {
        verdict = match known.used {
            Use::Withheld { .. } => return RangeVerdict::Bad,
            Use::Free => verdict,
            Use::Held { movable: true, .. } if may_move && verdict != RangeVerdict::Busy => RangeVerdict::Move,
            Use::Held { .. } => RangeVerdict::Busy,
        };
    }
    verdict
}

/// A range of free frames that a contiguous request of so many could have had: aligned to `step`, in an allowed zone.
pub(crate) fn free_range<M: Machine>(judge: &Judge<'_, '_, M>, frames: u64, step: u64) -> Option<PfnRange> {
    let (_, must) = judge.nodes();
    let highest = judge.request.gfp.highest_zone();
    let starts = judge
        .memory
        .all()
        .filter(|(pfn, known)| pfn.0 % step == 0 && known.zone.kind() <= highest && must.contains(known.zone.node()));
    let ranges = starts.map(|(start, _)| PfnRange { start, end: start.add(frames) });
    let below = judge.request.below.unwrap_or(Pfn(u64::MAX));
    let memory = judge.memory;
    let mut fitting = ranges.filter(|range| range.end <= below);
    fitting.find(|&range| range_verdict(memory, range, false) == RangeVerdict::Serve)
}
