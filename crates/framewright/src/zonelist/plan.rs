//! Plans a request: reads its flags, policy and address limit once.
//!
//! A request has a preferred node. Zones are tried node by node, nearest first. Within a node, the highest kind that
//! the request may use comes first and DMA last. So scarce low memory is used last.
//!
//! - `__GFP_THISNODE` stops after the first node.
//! - A policy may leave nodes out.
//! - An address limit leaves out zones above it (`address_limit.rs`).

use crate::buddy::fallback::Want;
use crate::policy::watermark::AllocFlags;
use crate::seam::compiled::Compiled;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::shared::CallCx;
use crate::types::migratetype::MigrateType;
use crate::types::request::{__GFP_KSWAPD_RECLAIM, __GFP_THISNODE, Gfp, NodeSet, Policy, Request};
use crate::types::units::{NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use crate::zone::zone::Zone;
use crate::zonelist::node_states::nodes_with;
use crate::zonelist::world::World;

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
    /// The node whose turn it is, for an interleaved policy that has one.
    pub(crate) turn: Option<NodeId>,
}

impl<'a, M: Machine> World<'a, M> {
    /// Returns what a request wants of a zone's lists.
    pub(crate) fn want(&self, plan: &Plan, alloc_flags: AllocFlags) -> Want {
        let Plan { order, migratetype, gfp, .. } = *plan;
        let frames = &self.shared.frames;
        let least = match self.shared.mechanisms().stall_order.get() {
            _ if alloc_flags.nofragment => frames.geometry.pageblock_order,
            Some(stall) if alloc_flags.stall => stall,
            _ => Order(0),
        };
        Want { order, migratetype, cma: alloc_flags.cma, least, wakes: gfp.contains(__GFP_KSWAPD_RECLAIM) }
    }

    /// Reads a request's policy on the running CPU.
    ///
    /// Counts the turn of an interleaved policy.
    pub(crate) fn plan(&self, cx: CallCx<'_, 'a, M>, request: &Request) -> Plan {
        let turn = match request.policy {
            Policy::Interleave(_) if M::FEATURES.nodes => {
                let turn = cx.own.turn.load(Ordering::Relaxed);
                cx.own.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
                turn
            }
            _ => 0,
        };
        self.plan_from(cx.node, turn, request)
    }

    /// Reads a request's policy for a caller near this node.
    ///
    /// `turn` selects the node that an interleaved policy prefers.
    pub(crate) fn plan_from(&self, near: NodeId, turn: u32, request: &Request) -> Plan {
        let gfp = request.gfp;
        let plan = Plan {
            order: request.order,
            migratetype: M::mobility_of(gfp),
            gfp,
            highest: gfp.highest_zone(),
            start: near,
            allowed: NodeSet::ALL,
            below: if M::FEATURES.address_limits { request.below } else { None },
            turn: None,
        };
        if M::FEATURES.nodes { self.plan_nodes(plan, turn, request) } else { Plan { start: NodeId(0), ..plan } }
    }

    /// Adds the nodes of a request to its plan, which prefers the caller's node so far.
    fn plan_nodes(&self, plan: Plan, turn: u32, request: &Request) -> Plan {
        let near = plan.start;
        let only_here = request.gfp.contains(__GFP_THISNODE);
        let turn = match request.policy {
            Policy::Interleave(nodes) => nodes.only_with(self.nodes_for(request)).nth_cyclic(turn),
            _ => None,
        };
        let (start, allowed) = match request.policy {
            Policy::Prefer(node) => (node, NodeSet::ALL),
            // The one node of a strict request: the nearest node of the set that could serve it.
            Policy::Bind(nodes) if only_here => (near, self.nearest(near, nodes.only_with(self.nodes_for(request)))),
            Policy::Bind(nodes) => (near, nodes),
            Policy::Local | Policy::Interleave(_) => (turn.unwrap_or(near), NodeSet::ALL),
        };
        let is_one = only_here && !matches!(request.policy, Policy::Bind(_));
        Plan { start, allowed: if is_one { NodeSet::only(start) } else { allowed }, turn, ..plan }
    }

    /// Returns the nodes with memory in a zone that a request may use.
    ///
    /// Only its flags and its address limit are considered.
    pub(crate) fn nodes_for(&self, request: &Request) -> NodeSet {
        let highest = request.gfp.highest_zone();
        match request.below {
            None => self.node_states.with_memory(highest),
            limit => nodes_with(self.zones, highest, limit),
        }
    }

    /// Returns the set that holds only the nearest of some nodes.
    pub(crate) fn nearest(&self, node: NodeId, among: NodeSet) -> NodeSet {
        let nearest = self.zones_from(node).map(Zone::node).find(|&near| among.contains(near));
        nearest.map_or(NodeSet::default(), NodeSet::only)
    }

    /// Returns the zones with memory, nearest to `node` first.
    pub(crate) fn zones_from(&self, node: NodeId) -> impl Iterator<Item = &'a Zone<M>> + use<'a, M> {
        let zones = self.zones;
        let start = node.index().saturating_mul(zones.len());
        let list = self.zonelists.get(start..start.saturating_add(zones.len())).unwrap_or(&[]);
        list.iter().map_while(move |idx| zones.get(idx.index()))
    }

    /// Returns the zones that a plan may use, in the order of trial.
    ///
    /// None of them has a frame at or above the plan's address limit.
    pub(crate) fn zonelist(&self, plan: &Plan) -> Zonelist<'a, M> {
        self.zonelist_of(plan, Limit::Below)
    }

    /// Returns the zones of a plan that its address limit cuts through (`address_limit.rs`).
    pub(crate) fn split_zones(&self, plan: &Plan) -> Zonelist<'a, M> {
        self.zonelist_of(plan, Limit::Cut)
    }

    /// Returns the zones of [`World::zonelist`], then those of [`World::split_zones`].
    pub(crate) fn all_zones(&self, plan: &Plan) -> Zonelist<'a, M> {
        self.zonelist_of(plan, Limit::BelowThenCut)
    }

    // Out of line, as its iterator.
    #[inline(never)]
    fn zonelist_of(&self, plan: &Plan, limit: Limit) -> Zonelist<'a, M> {
        let start = plan.start.index().saturating_mul(self.zones.len());
        let list = self.zonelists.get(start..start.saturating_add(self.zones.len())).unwrap_or(&[]);
        let Plan { highest, allowed, below, .. } = *plan;
        Zonelist { list, next: 0, zones: self.zones, highest, allowed, below, limit }
    }
}

/// How a zone lies to an address limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limit {
    /// No frame is at or above the limit.
    Below,
    /// Some are below, some are not.
    Cut,
    /// All zones of the first kind, then all of the second.
    BelowThenCut,
}

/// Iterator over the zones that a plan may use.
pub(crate) struct Zonelist<'a, M: Machine> {
    list: &'a [ZoneIdx],
    next: usize,
    zones: &'a [Zone<M>],
    highest: ZoneKind,
    allowed: NodeSet,
    below: Option<Pfn>,
    limit: Limit,
}

impl<M: Machine> Zonelist<'_, M> {
    fn fits(&self, span: PfnRange) -> bool {
        let is_below = self.below.is_none_or(|limit| span.end <= limit);
        let is_cut = || self.below.is_some_and(|limit| span.start < limit && limit < span.end);
        if self.limit == Limit::Cut { is_cut() } else { is_below }
    }
}

impl<'a, M: Machine> Iterator for Zonelist<'a, M> {
    type Item = &'a Zone<M>;

    // Out of line: a dozen loops of the slow path share it.
    #[inline(never)]
    fn next(&mut self) -> Option<&'a Zone<M>> {
        loop {
            // The list ends with entries that name no zone.
            let Some(zone) = self.list.get(self.next).and_then(|idx| self.zones.get(idx.index())) else {
                if !M::FEATURES.address_limits || self.limit != Limit::BelowThenCut || self.below.is_none() {
                    return None;
                }
                (self.next, self.limit) = (0, Limit::Cut);
                continue;
            };
            self.next = self.next.wrapping_add(1);
            let is_allowed = !M::FEATURES.nodes || self.allowed.contains(zone.node());
            let fits = if M::FEATURES.address_limits { self.fits(zone.span) } else { self.limit != Limit::Cut };
            if is_allowed && fits && zone.kind() <= self.highest {
                return Some(zone);
            }
        }
    }
}
