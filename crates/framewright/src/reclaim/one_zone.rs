//! A request in one zone, for an embedder that walks the zones and checks their marks itself (`zone_calls.rs`).
//!
//! The request gets what a walk would take from that zone: a block of the CPU's list or the depot, a refill, a block
//! under the lock. It keeps no mark, for the embedder has looked at them. If the zone has enough memory in blocks that
//! are too small, or where no list shows it, that memory is brought together once: deferred frees, the depot, owned
//! pageblocks, blocks that were freed unmerged. There is no further rung. Reclaim is the embedder's.

use crate::buddy::fallback::Mode;
use crate::policy::watermark::{AllocFlags, Mark};
use crate::seam::machine::{Machine, Step};
use crate::shared::CallCx;
use crate::types::counts::FrameCount;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, Order};
use crate::zone::zone::Zone;
use crate::zonelist::numa_stat::ServedFrom;
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

/// What the embedder lets a request take of a zone, besides its ordinary memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights {
    /// Blocks of the high-atomic reserve: above order 0 first, at order 0 last.
    ///
    /// A request above order 0 that the reserve cannot serve adds its pageblock to it, within the limit.
    pub highatomic: bool,
    /// Pageblocks of type CMA, for a movable request.
    pub cma: bool,
    /// No block smaller than a pageblock of another mobility, where the mechanisms keep them apart.
    pub nofragment: bool,
}

impl Rights {
    /// Returns those of the rights that a request of this mobility can have.
    pub(crate) fn of_request(self, migratetype: MigrateType) -> Rights {
        Rights { cma: self.cma && migratetype == MigrateType::Movable, ..self }
    }

    /// Returns these rights as flags of a request that keeps no mark.
    pub(crate) const fn alloc_flags(self) -> AllocFlags {
        AllocFlags {
            mark: Mark::Min,
            no_watermarks: true,
            high: false,
            harder: false,
            highatomic: self.highatomic,
            cma: self.cma,
            nofragment: self.nofragment,
            stall: false,
            unboosted: true,
        }
    }
}

impl<'a, M: Machine> World<'a, M> {
    /// Takes a block from one zone, whose head says "allocated", and that was not written to since it was freed.
    ///
    /// The rights are those that the request can have ([`Rights::of_request`]).
    pub(crate) fn alloc_in(
        &self,
        cx: CallCx<'_, 'a, M>,
        from: ServedFrom<'_, M>,
        plan: &Plan,
        rights: Rights,
    ) -> Option<Frame> {
        loop {
            let frame = self.alloc_in_any(cx, from, plan, rights)?;
            if self.is_intact(cx, frame, plan.order) {
                return Some(frame);
            }
        }
    }

    fn alloc_in_any(
        &self,
        cx: CallCx<'_, 'a, M>,
        from: ServedFrom<'_, M>,
        plan: &Plan,
        rights: Rights,
    ) -> Option<Frame> {
        self.shared.machine.step(Step::ZoneTry);
        let alloc_flags =
            AllocFlags { nofragment: rights.nofragment && self.may_avoid_mixing(from.zone), ..rights.alloc_flags() };
        // The CPU's movable blocks may be of a pageblock of type CMA.
        let no_cma = plan.migratetype == MigrateType::Movable && !rights.cma;
        if M::FEATURES.mobility && no_cma {
            let frame = from.zone.lock(cx).alloc(&self.want(plan, alloc_flags), &mut Mode::Normal, false)?;
            return self.hand_out_aside(cx, frame, from, plan);
        }
        let mut lists = None;
        let cached = self.alloc_cached_of(cx, from, &mut lists, plan, alloc_flags);
        cached.or_else(|| self.alloc_from_zone(cx, from, &mut lists, plan, alloc_flags))
    }

    /// Frees to a zone what no list of it shows, and merges for a block of `order`; returns the number of frames.
    ///
    /// Deferred frees, then the depot, then owned pageblocks, each whole, and unmerged blocks until there is one.
    pub(crate) fn gather(&self, zone: &Zone<M>, order: Order, rights: Rights) -> FrameCount {
        let freed = self.drain_deferred(zone).plus(self.drain_depot(zone));
        let owned = &self.shared.frames.owned;
        let freed = freed.plus(self.release_owned(zone, |start, _| !owned.is_used_up(start), || false));
        if order.0 != 0
            && !zone.count.skipped_racy().is_zero()
            && let Some(search) = zone.merging.begin(order)
        {
            self.merge_skipped(zone, || self.has_block_for(zone, order, rights));
            search.end(order, self.has_block_for(zone, order, rights));
        }
        freed
    }

    /// Returns whether a zone has a free block of this order or larger for a request with these rights.
    pub(crate) fn has_block_for(&self, zone: &Zone<M>, order: Order, rights: Rights) -> bool {
        let may_use = |migratetype| match migratetype {
            MigrateType::Cma => rights.cma,
            MigrateType::HighAtomic => rights.highatomic,
            other => other.is_mergeable(),
        };
        let types = || MigrateType::ALL.into_iter().filter(|&migratetype| may_use(migratetype));
        order
            .up_to(self.max_order())
            .any(|order| types().any(|mt| !zone.blocks_racy(&self.shared, order, mt).is_zero()))
    }
}
