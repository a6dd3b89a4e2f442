//! Contiguous frames anywhere: which ranges are tried.
//!
//! Up to the largest order a run of frames is a block whose tail is freed. That finds only runs inside of one free block, so where no
//! block is large enough, and always above the largest order, the zones are searched from their first frame on. Every start that the
//! alignment allows counts, wherever a zone or its pageblocks begin and end.
//!
//! The search looks before it takes ([`World::gap`]): a frame that no range can have (a hole, another zone's, withheld, in use for good)
//! ends a candidate, and the next begins behind it. So each frame of a zone is looked at about once. A candidate without such a frame is
//! taken as any range is (`contig_range.rs`), and if that fails, the next begins behind the frame in the way.
//!
//! Rejected: pageblock by pageblock, as Linux does for its areas. A run that begins in the middle of a pageblock is as good.

use core::cell::Cell;

use crate::api::allocator::Allocator;
use crate::api::fast_path::Route;
use crate::frame::frame::Part;
use crate::policy::mechanisms::Nofragment;
use crate::policy::watermark::{Mark, Rights};
use crate::range::contig_range::{Means, Purpose, Stretch};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::shared::Cx;
use crate::stat::vmstat::ZoneEvent;
use crate::types::error::{AllocError, Why};
use crate::types::request::Request;
use crate::types::units::{MigrateType, Order, Pfn, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::world::{Plan, World, first_rights};

/// Above this order nothing is aligned: frame numbers have 52 bits.
const MOST_ALIGNED: Order = Order(51);

impl<M: Machine> Allocator<'_, M> {
    /// Allocates `frames` contiguous frames, the first a multiple of `1 << align`: a block whose tail is freed, or else the first range
    /// of a zone that can be had.
    ///
    /// # Errors
    /// `frames` is 0, `align` is above 51, or there is no such range; or this is an interrupt.
    pub fn alloc_contig(&self, frames: u64, align: Order, request: &Request) -> Result<PfnRange, AllocError> {
        self.outside_of_interrupts()?;
        if frames == 0 {
            return Err(AllocError::BadRange(PfnRange::new(0, 0)));
        }
        if align > MOST_ALIGNED {
            return Err(AllocError::BadOrder { order: align, max: MOST_ALIGNED });
        }
        let _held = self.hold_cpu_or_fail(request.gfp)?;
        let order = Order(64_u32.saturating_sub(frames.saturating_sub(1).leading_zeros()) as u8).max(align);
        if order <= self.geometry().max_order {
            return self.contig_of_block(frames, align, &Request { order, ..*request });
        }
        self.check(&Request { order: Order(0), ..*request })?;
        let world = self.world();
        let plan = world.pinned(|cx| world.plan(cx, request)).ok_or(AllocError::NoMemory { why: Why::NoCpu })?;
        let range = world.search_range(frames, align, &plan, (|_| true, |_| true));
        let range = range.ok_or(AllocError::NoMemory { why: Why::Fragmented })?;
        self.announce_range(range, request.gfp);
        Ok(range)
    }

    /// Allocates a block and frees its tail; where memory is there, but in no block so large, any range of it.
    fn contig_of_block(&self, frames: u64, align: Order, block: &Request) -> Result<PfnRange, AllocError> {
        let scattered = Cell::new(None);
        let route = |route: Route| self.take_here(route);
        let pfn = self.alloc_by(block, route, || {
            self.alloc_long_or(block, |why| {
                // A range may be of another mobility, which the mechanisms may forbid.
                let mixes = self.mechanisms().nofragment != Nofragment::Enforced;
                let range =
                    (why == Why::Fragmented && mixes).then(|| self.search_above_mark(frames, align, block)).flatten();
                scattered.set(range);
                range.map(|range| range.start)
            })
        })?;
        if let Some(range) = scattered.get() {
            self.announce_range(range, block.gfp);
            return Ok(range);
        }
        let range = PfnRange { start: pfn, end: pfn.add(frames) };
        let tail = PfnRange { start: range.end, end: pfn.add(block.order.frames()) };
        if !tail.is_empty() {
            // The block is ours, so its tail can be freed.
            let _ = self.free_range(tail);
        }
        Ok(range)
    }

    /// Searches for a range in zones that stay above their min mark without it. The request has had its turn.
    fn search_above_mark(&self, frames: u64, align: Order, block: &Request) -> Option<PfnRange> {
        let world = self.world();
        let plan = world.pinned(|cx| {
            let turn = cx.own.turn.load(Ordering::Relaxed).wrapping_sub(1);
            world.plan_from(cx.node, turn, block)
        })?;
        let rights = Rights { mark: Mark::Min, unboosted: true, ..first_rights(&plan) };
        let want = world.want(&plan, rights);
        let may_take = |zone: &Zone<M>| zone.has_room(&world.ground, frames, plan.highest, rights);
        let range = world.search_range(frames, align, &plan, (may_take, |migratetype| want.may_use(migratetype)))?;
        world.pinned(|cx| world.count_searched(cx, &plan, range.start));
        Some(range)
    }
}

impl<'a, M: Machine> World<'a, M> {
    /// Counts a request that was served by a range, whose frames are counted.
    fn count_searched(&self, cx: Cx<'_, 'a, M>, plan: &Plan, pfn: Pfn) {
        let zone = self.ground.frames.frame(pfn).and_then(|frame| self.zone_of(frame));
        let preferred = self.zonelist(plan).next().or(zone);
        if let (Some(zone), Some(preferred), Some(own)) =
            (zone, preferred, zone.and_then(|zone| self.pcps.record(cx.cpu, zone.idx.index())))
        {
            let _irq = cx.ground.machine.irq_save();
            own.aside.count(ZoneEvent::Allocs, 1);
            self.pcps.count_numa(cx, (zone, preferred), plan.turn, (&own.aside, false));
        }
    }

    /// Takes the first range of `frames` frames that can be had, its first frame aligned, from those zones of a plan and pageblocks of
    /// those types that say so.
    fn search_range(
        &self,
        frames: u64,
        align: Order,
        plan: &Plan,
        (may_take, may_use): (impl Fn(&Zone<M>) -> bool, impl Fn(MigrateType) -> bool),
    ) -> Option<PfnRange> {
        let movable = plan.migratetype == MigrateType::Movable;
        let moves = plan.gfp.may_reclaim();
        for zone in self.zonelist(plan).chain(self.split_zones(plan)).filter(|zone| may_take(zone)) {
            let end = plan.below.map_or(zone.span.end, |limit| limit.min(zone.span.end));
            let mut start = zone.span.start.align_up(align);
            while start.add(frames) <= end {
                let range = PfnRange { start, end: start.add(frames) };
                let means = if moves { Means::Moves } else { Means::Nothing };
                let take = || self.take_range_of(zone, range, Some(Purpose::Allocate { movable }), means);
                let next = match self.gap(zone, range, (moves, &may_use)) {
                    Some(behind) => behind,
                    None => match take() {
                        Ok(()) => return Some(range),
                        // No range with the obstacle in it can be had.
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

    /// The first frame behind one that no range of the zone can have; none if each frame of the range may be had.
    fn gap(
        &self,
        zone: &Zone<M>,
        range: PfnRange,
        (moves, may_use): (bool, &impl Fn(MigrateType) -> bool),
    ) -> Option<Pfn> {
        let frames = &self.ground.frames;
        let moves = moves && self.ground.machine.migrates();
        let is_kept = |pfn| frames.frame(pfn).is_some_and(|frame| !may_use(frames.pageblock(frame).restored()));
        let mut pfn = range.start;
        while pfn < range.end {
            match self.part_within(zone, pfn) {
                Ok(Stretch { part: Part::Allocated(head, _), end }) if !moves || !frames.head(head).is_movable() => {
                    return Some(end);
                }
                Ok(_) if is_kept(pfn) => return Some(pfn.add(1).align_up(frames.geometry.pageblock_order)),
                Ok(Stretch { end, .. }) => pfn = end,
                // The next largest block with memory. Without that, a hole as wide as the address space would be searched step by step.
                Err(AllocError::Foreign(pfn)) if frames.frame(pfn).is_none() => {
                    return Some(frames.map.next(pfn).map_or(Pfn(u64::MAX), |next| next.max(pfn.add(1))));
                }
                Err(_) => return Some(pfn.add(1)),
            }
        }
        None
    }
}
