//! Search for contiguous frames anywhere: which ranges are tried.
//!
//! Up to the largest order, a run of frames is a block whose tail is freed. That finds only runs inside one free block.
//! Where no block is large enough, and always above the largest order, the zones are searched from their first frame
//! on. Every start that the alignment allows counts, wherever a zone or its pageblocks begin and end.
//!
//! The search looks before it allocates ([`World::gap`]). A frame that no range can have ends a candidate. It is a
//! hole, belongs to another zone, is withheld, or is in use for good. The next candidate begins after that frame. A
//! candidate without such a frame is allocated as any range is (`contig_range.rs`). If that fails, the next begins
//! after the frame in the way.
//!
//! Cost: each frame of a zone is looked at about once.
//!
//! Rejected: pageblock by pageblock, as Linux does for its areas. A run that begins in the middle of a pageblock is as
//! good.

use crate::frame::frame::Part;
use crate::range::contig_range::{Means, Purpose, Stretch};
use crate::seam::machine::Machine;
use crate::shared::CallCx;
use crate::stat::vmstat::ZoneEvent;
use crate::types::error::AllocError;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Order, Pfn, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::numa_stat::{Counted, ServedFrom};
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

impl<'a, M: Machine> World<'a, M> {
    /// Counts a request that was served by a range.
    ///
    /// The frames of the range are already counted.
    pub(crate) fn count_searched(&self, cx: CallCx<'_, 'a, M>, plan: &Plan, pfn: Pfn) {
        let zone = self.shared.frames.frame(pfn).and_then(|frame| self.zone_of(frame));
        let preferred = self.zonelist(plan).next().or(zone);
        if let (Some(zone), Some(preferred), Some(own)) =
            (zone, preferred, zone.and_then(|zone| self.pcps.record(cx.cpu, zone.idx.index())))
        {
            let _irq = cx.shared.machine.irq_save();
            own.aside.count(ZoneEvent::Allocs, 1);
            self.pcps.count_numa(cx, ServedFrom { zone, preferred }, plan.turn, Counted::aside(own));
        }
    }

    /// Allocates the first possible range of `frames` frames; its first frame is aligned.
    ///
    /// Only zones of the plan that `may_take` accepts are searched, and only pageblocks whose type `may_use` accepts.
    pub(crate) fn search_range(
        &self,
        frames: u64,
        align: Order,
        plan: &Plan,
        may_take: impl Fn(&Zone<M>) -> bool,
        may_use: impl Fn(MigrateType) -> bool,
    ) -> Option<PfnRange> {
        let movable = plan.migratetype == MigrateType::Movable;
        let moves = plan.gfp.may_reclaim();
        for zone in self.all_zones(plan).filter(|zone| may_take(zone)) {
            let end = plan.below.map_or(zone.span.end, |limit| limit.min(zone.span.end));
            let mut start = zone.span.start.align_up(align);
            while start.add(frames) <= end {
                let range = PfnRange { start, end: start.add(frames) };
                let means = if moves { Means::Moves } else { Means::Nothing };
                let take = || self.alloc_contig_range_of(zone, range, Some(Purpose::Allocate { movable }), means);
                let next = match self.gap(zone, range, moves, &may_use) {
                    Some(behind) => behind,
                    None => match take() {
                        Ok(()) => return Some(range),
                        // No range that contains the obstacle is possible.
                        Err(AllocError::Busy { pfn }) => match self.part_within(zone, pfn) {
                            Ok(Stretch { part: Part::Allocated(..), end }) => end,
                            _ => pfn.add(1),
                        },
                        Err(_) => start.add(1),
                    },
                };
                start = next.max(start.add(1)).align_up(align);
            }
        }
        None
    }

    /// Returns the first frame after one that no range of the zone can have.
    ///
    /// `None` if each frame of the range is possible.
    fn gap(&self, zone: &Zone<M>, range: PfnRange, moves: bool, may_use: &impl Fn(MigrateType) -> bool) -> Option<Pfn> {
        let frames = &self.shared.frames;
        let moves = moves && self.shared.machine.migrates();
        let is_kept = |pfn| frames.frame(pfn).is_some_and(|frame| !may_use(frames.pageblock(frame).restored()));
        let mut pfn = range.start;
        while pfn < range.end {
            match self.part_within(zone, pfn) {
                Ok(Stretch { part: Part::Allocated(head, _), end }) if !moves || !frames.head(head).is_movable() => {
                    return Some(end);
                }
                Ok(_) if is_kept(pfn) => return Some(pfn.add(1).align_up(frames.geometry.pageblock_order)),
                Ok(Stretch { end, .. }) => pfn = end,
                // The next largest block with memory. Without it, a hole as wide as the address space would be searched
                // step by step.
                Err(AllocError::Foreign(pfn)) if frames.frame(pfn).is_none() => {
                    return Some(frames.map.next(pfn).map_or(Pfn(u64::MAX), |next| next.max(pfn.add(1))));
                }
                Err(AllocError::Foreign(pfn)) if frames.frame(pfn).is_some_and(|frame| frames.is_absent(frame)) => {
                    return Some(pfn.add(1).align_up(frames.geometry.max_order));
                }
                Err(_) => return Some(pfn.add(1)),
            }
        }
        None
    }
}
