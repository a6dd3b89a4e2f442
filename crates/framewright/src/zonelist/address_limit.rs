//! Serves requests below an address limit from zones that the limit cuts through.
//!
//! A zone that lies below the limit is served as any other. A zone that the limit cuts through is searched block by
//! block, after everything else has failed.

use crate::frame::frame::Part;
use crate::policy::watermark::AllocFlags;
use crate::seam::machine::{Machine, Step};
use crate::shared::CallCx;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::numa_stat::ServedFrom;
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

impl<'a, M: Machine> World<'a, M> {
    /// Whether the limit cuts through all usable zones of the node whose turn it is.
    pub(crate) fn is_turn_split(&self, plan: &Plan) -> bool {
        M::FEATURES.address_limits
            && plan.below.is_some()
            && plan.turn.is_some_and(|turn| self.zonelist(plan).all(|zone| zone.node() != turn))
    }

    /// Takes a block below an address limit, from the zones that the limit cuts through.
    ///
    /// Looks at the free blocks one after the other, a stretch at a time and without the lock. Takes the first one that
    /// is large enough under the lock. Such requests are rare (a device's odd limit), so the search may be expensive.
    pub(crate) fn alloc_below(&self, plan: &Plan, alloc_flags: AllocFlags) -> Option<Frame> {
        let limit = if M::FEATURES.address_limits { plan.below? } else { return None };
        let max_order = self.max_order();
        for zone in self.split_zones(plan) {
            let mut start = zone.span.start;
            while start < limit && self.may_serve(zone, plan, alloc_flags) {
                let end = start.add(1).align_up(max_order).min(limit);
                let stretch = PfnRange { start, end };
                let taken = self.pinned(|cx| {
                    let frame = self.alloc_within(cx, zone, stretch, plan, alloc_flags)?;
                    Some((frame, self.is_intact(cx, frame, plan.order)))
                });
                match taken.flatten() {
                    Some((frame, true)) => return Some(frame),
                    // Quarantined; there may be another one.
                    Some((_, false)) => continue,
                    None => {}
                }
                start = self.shared.frames.map.next(end).unwrap_or(limit);
            }
        }
        None
    }

    /// Takes a block that begins and ends inside a stretch.
    ///
    /// The stretch is at most as long as a largest block.
    pub(crate) fn alloc_within(
        &self,
        cx: CallCx<'_, 'a, M>,
        zone: &'a Zone<M>,
        stretch: PfnRange,
        plan: &Plan,
        alloc_flags: AllocFlags,
    ) -> Option<Frame> {
        let (cx, frames) = (cx.for_request(plan.gfp), &self.shared.frames);
        let want = self.want(plan, alloc_flags);
        let is_reserved = |mt| mt == MigrateType::HighAtomic && alloc_flags.highatomic;
        // Everything that starts in the stretch is in one section, or the stretch is a hole.
        let first = frames.frame(stretch.start).filter(|&first| !frames.is_absent(first))?;
        let end = first.add(stretch.frames());
        let mut at = first;
        while at < end {
            self.shared.machine.step(Step::Below);
            let part = frames.block_at(at);
            let next = part.map_or(at.add(1), |part| part.end(at));
            let fits =
                matches!(part, Some(Part::Free(_, free)) if free >= plan.order) && at.add(plan.order.frames()) <= end;
            if fits && frames.pageblock(at).zone() == Some(zone.idx) {
                let guard = if cx.may_wait() { zone.lock(cx) } else { zone.lock_in_time(cx.shared)? };
                guard.init_section_at(at);
                let taken = guard.alloc_with(|buddy| match frames.state(at).as_free() {
                    Some((free, mt)) if free >= plan.order && (want.may_use(mt) || is_reserved(mt)) => {
                        buddy.alloc(at, free, plan.order, mt).map(Some)
                    }
                    _ => Ok(None),
                });
                if let Some(frame) = taken {
                    return self.hand_out_aside(cx, frame, ServedFrom { zone, preferred: zone }, plan);
                }
            }
            at = next.max(at.add(1));
        }
        None
    }
}
