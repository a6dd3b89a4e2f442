//! Route: where a request without special wishes looks for a block.
//!
//! Nearly every request names no policy, no node and no address limit, and asks for an order that per-CPU lists keep.
//! All that a path has to know of it are a ring, the highest kind of zone, and the head of the block once it is
//! allocated. These are four bytes. [`Route::of`] finds them, or says that only the slow path can serve the request.
//!
//! Cost: where the request is a constant, none, because the compiler computes the route. Otherwise some thirty
//! instructions. A call that gets its flags at run time compares them with the last ones instead (`fast_path.rs`).

use crate::frame::head::Head;
use crate::pcp::ring_id::RingId;
use crate::seam::compiled::Compiled;
use crate::seam::machine::Machine;
use crate::types::migratetype::MigrateType;
use crate::types::request::{
    __GFP_DMA, __GFP_DMA32, __GFP_MOVABLE, __GFP_RECLAIMABLE, __GFP_THISNODE, __GFP_ZERO, Gfp, Request,
};
use crate::types::units::{Order, ZoneIdx, ZoneKind};

/// Where a request without special wishes looks for a block.
// Four bytes, so that a call passes it in a register.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    ring: u8,
    order: Order,
    /// The highest kind of zone that the request may use.
    pub(crate) highest: ZoneKind,
    /// The head of the block once it is allocated.
    pub(crate) head: Head,
}

/// Whether the flags contradict each other.
pub(crate) const fn are_contradictory(gfp: Gfp) -> bool {
    gfp.contains(Gfp(__GFP_MOVABLE.0 | __GFP_RECLAIMABLE.0)) || gfp.contains(Gfp(__GFP_DMA.0 | __GFP_DMA32.0))
}

impl Route {
    /// The route of a request; `None` if only the slow path can serve it.
    #[inline(always)]
    pub(crate) fn of<M: Machine>(request: &Request, pageblock_order: Order) -> Option<Route> {
        let Request { gfp, order, .. } = *request;
        let slow = const { if M::FEATURES.zero { __GFP_THISNODE } else { Gfp(__GFP_THISNODE.0 | __GFP_ZERO.0) } };
        if request.is_special() || gfp.intersects(slow) || are_contradictory(gfp) {
            return None;
        }
        Some(Route { highest: gfp.highest_zone(), ..Route::listed(order, M::mobility_of(gfp), pageblock_order)? })
    }

    /// The route of requests of one mobility in any zone; `None` if per-CPU lists keep no such blocks.
    #[inline(always)]
    pub(crate) fn listed(order: Order, mobility: MigrateType, pageblock_order: Order) -> Option<Route> {
        let ring = RingId::of(order, mobility, pageblock_order)?;
        let head = Head::allocated(order, matches!(mobility, MigrateType::Movable));
        Some(Route { ring: ring.index as u8, order, highest: ZoneKind::Normal, head })
    }

    /// Returns the ring of such blocks.
    #[inline(always)]
    pub(crate) const fn ring(self) -> RingId {
        RingId { index: self.ring as usize, order: self.order }
    }

    /// Returns the route of the same request in the zone of its kind alone.
    #[inline(always)]
    pub(crate) const fn in_zone(self, zone: ZoneIdx) -> Route {
        Route { highest: zone.kind(), ..self }
    }

    /// The heads of the block before and after its allocation.
    #[inline(always)]
    pub(crate) const fn heads(self) -> HeadChange {
        HeadChange { listed: Head::pcp(self.order), allocated: self.head }
    }
}

/// The head that a block on a ring must have, and the head that it gets when it is allocated.
#[derive(Clone, Copy)]
pub(crate) struct HeadChange {
    pub(crate) listed: Head,
    pub(crate) allocated: Head,
}
