//! A request on one machine: what it may use, and whether it is valid at all.

use framewright::machine::Machine;
use framewright::mechanisms::Nofragment;
use framewright::request::{
    __GFP_ATOMIC, __GFP_DMA, __GFP_DMA32, __GFP_MOVABLE, __GFP_NOFAIL, __GFP_NOMEMALLOC, __GFP_NORETRY,
    __GFP_RECLAIMABLE, __GFP_THISNODE,
};
use framewright::{AllocError, Allocator, Gfp, NodeId, NodeSet, Policy, Request, ZoneIdx};

use crate::oracle::memory::{Memory, Use};

/// A request that is judged on one machine.
#[derive(Clone, Copy)]
pub(crate) struct Judge<'j, 'a, M: Machine> {
    pub(crate) pages: &'j Allocator<'a, M>,
    pub(crate) memory: &'j Memory,
    pub(crate) request: Request,
    /// The node of the CPU that made the request.
    pub(crate) here: NodeId,
    /// Distances between nodes, row by row.
    pub(crate) distances: &'j [u8],
    /// Its turn among this CPU's interleaved requests; `None` if that is not known.
    pub(crate) turn: Option<u32>,
    /// Whether a fault was injected on the way: then any valid failure is right.
    pub(crate) disturbed: bool,
}

impl<M: Machine> Judge<'_, '_, M> {
    /// Returns the error of an invalid request.
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

    /// Returns the nodes that a block may come from, and those that must not be passed over.
    pub(crate) fn nodes(&self) -> (NodeSet, NodeSet) {
        let only_here = self.request.gfp.contains(__GFP_THISNODE);
        let both = |nodes| (nodes, nodes);
        match self.request.policy {
            Policy::Local if only_here => both(NodeSet::only(self.here)),
            Policy::Prefer(node) if only_here => both(NodeSet::only(node)),
            // Of several usable nodes, *this* node is the nearest, which only the allocator knows.
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

    /// Returns those of `nodes` that have memory, not withheld, in a zone that the request may use.
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

    /// Returns the node whose turn it is among the usable ones, or the caller's if there is none.
    ///
    /// `None` if the turn is not known.
    pub(crate) fn whose_turn(&self, nodes: NodeSet) -> Option<NodeId> {
        let usable = self.usable(nodes);
        if usable.is_empty() { Some(self.here) } else { usable.nth_cyclic(self.turn?) }
    }

    /// Returns whether the request may use the reserve for high orders.
    ///
    /// At order 0 it may do so when all else is used up.
    pub(crate) fn uses_highatomic(&self) -> bool {
        let Request { gfp, order, .. } = self.request;
        let is_urgent = if order.0 == 0 { !gfp.may_reclaim() } else { gfp.contains(__GFP_ATOMIC) };
        is_urgent && !gfp.contains(__GFP_NOMEMALLOC)
    }

    /// Returns whether the request takes at least whole pageblocks of another mobility.
    ///
    /// That is so for optional requests, which have a fallback of their own.
    pub(crate) fn keeps_apart(&self) -> bool {
        let gfp = self.request.gfp;
        let is_optional = self.request.order.0 != 0 && gfp.contains(__GFP_NORETRY) && !gfp.contains(__GFP_NOFAIL);
        is_optional && self.pages.mechanisms().nofragment == Nofragment::Enforced
    }
}

/// Returns whether flags contradict each other.
pub(crate) fn contradict(gfp: Gfp) -> bool {
    gfp.contains(__GFP_MOVABLE | __GFP_RECLAIMABLE) || gfp.contains(__GFP_DMA | __GFP_DMA32)
}
