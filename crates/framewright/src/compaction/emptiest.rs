//! Compaction by the emptiest range: of the next [`WINDOW`] ranges, the one with the least in use is emptied.
//!
//! The range is isolated as a contiguous range is (`contig_range.rs`), so that no request uses its freed blocks. Its
//! blocks move to those of the other pageblocks looked at that have the most in use.
//!
//! Cost: [`WINDOW`] ranges are looked at for one that is emptied, and one move for each block in use there. Rejected
//! alternatives: `compaction.rs`.

use core::cell::Cell;

use crate::buddy::pageblock_usage::PageblockUsage;
use crate::compaction::progress::{Compacted, Effort};
use crate::policy::watermark::Mark;
use crate::range::contig_range::{Means, Purpose};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::vmstat::GlobalEvent;
use crate::types::counts::FrameCount;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, FrameRange, Order, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// Ranges of which the one with the least in use is emptied.
const WINDOW: u32 = 64;

/// Pageblocks that were looked at, as places to move blocks to.
///
/// Those with the most in use come first, so that pageblocks with little in use get emptier.
#[derive(Clone, Copy)]
struct Targets {
    /// First frame, and how many frames are free; 0 for an empty entry.
    blocks: [(Frame, u32); WINDOW as usize],
    /// First frame of the fullest that was not searched yet.
    at: Frame,
}

impl Default for Targets {
    fn default() -> Targets {
        Targets { blocks: [(Frame(0), 0); WINDOW as usize], at: Frame(0) }
    }
}

impl Targets {
    /// Records a pageblock.
    ///
    /// If all entries are used, it replaces one that has more free.
    fn note(&mut self, start: Frame, usage: PageblockUsage) {
        let free = usage.free.0 as u32;
        let worst = self.blocks.iter_mut().max_by_key(|(_, free)| if *free == 0 { u32::MAX } else { *free });
        if let Some(worst) = worst
            && free != 0
            && !usage.used().plus(usage.other).is_zero()
            && (worst.1 == 0 || free < worst.1)
        {
            *worst = (start, free);
        }
    }

    /// Removes the pageblocks between two frames.
    fn leave_out(&mut self, start: Frame, end: Frame) {
        for block in self.blocks.iter_mut().filter(|block| (start..end).contains(&block.0)) {
            block.1 = 0;
        }
    }

    /// Returns the pageblock with the most in use.
    fn fullest(&mut self) -> Option<&mut (Frame, u32)> {
        self.blocks.iter_mut().filter(|(_, free)| *free != 0).min_by_key(|(_, free)| *free)
    }

    fn forget_fullest(&mut self) {
        if let Some(block) = self.fullest() {
            block.1 = 0;
        }
        self.at = Frame(0);
    }
}

impl<'a, M: Machine> World<'a, M> {
    /// Empties one range after the other until there is enough.
    ///
    /// Ends also if a look at the whole zone found nothing more, or if as many ranges were emptied as there are: where
    /// frees do not merge, an emptied range takes the pages of the next, which is then emptied again.
    pub(crate) fn empty_until(
        &self,
        zone: &Zone<M>,
        order: Order,
        is_enough: impl Fn(&Zone<M>) -> bool,
        run: &mut Compacted,
    ) {
        let ranges = self.ranges_of(zone, order).count() as u32;
        let (mut left, mut in_vain) = (ranges, 0_u32);
        let keep = || zone.stat.mark_unboosted(Mark::Min);
        while left != 0 && in_vain <= ranges / WINDOW && !is_enough(zone) && self.has_room(zone, order, keep) {
            match self.empty_one(zone, order, Effort::Worthwhile, None, run) {
                Some(_) => (left, in_vain) = (left.saturating_sub(1), 0),
                None => in_vain = in_vain.saturating_add(1),
            }
        }
    }

    /// Returns whether a zone can spare a range of this order, and keeps as many free frames as `keep` returns.
    pub(crate) fn has_room(&self, zone: &Zone<M>, order: Order, keep: impl FnOnce() -> u64) -> bool {
        let free = zone.stat.memory_racy(&self.shared.stats, zone.idx).free;
        free > keep().saturating_add(order.frames())
    }

    /// Empties the range with the least in use of the next ones.
    ///
    /// Without a purpose, the range is left free. `None` if there was no such range, or emptying it failed.
    pub(crate) fn empty_one(
        &self,
        zone: &Zone<M>,
        order: Order,
        effort: Effort,
        purpose: Option<Purpose>,
        run: &mut Compacted,
    ) -> Option<PfnRange> {
        let before = self.shared.events.get(GlobalEvent::MigrateSuccess);
        let mut places = Targets::default();
        let start = self.choose(zone, order, effort, &mut places, run)?;
        places.leave_out(start, start.add(order.frames()));
        let range = PfnRange::block(self.shared.frames.pfn(start), order);
        let places = Cell::new(places);
        let place = |order| {
            let mut some = places.take();
            let place = self.place_where_most_is_in_use(zone, order, &mut some);
            places.set(some);
            place.or_else(|| self.place_among_small(zone, order))
        };
        let done = self.alloc_contig_range_of(zone, range, purpose, Means::Compaction(&place)).is_ok();
        // Other CPUs may move blocks at the same time: the figure is approximate.
        let moved = self.shared.events.get(GlobalEvent::MigrateSuccess).saturating_sub(before);
        run.moved = run.moved.saturating_add(moved);
        run.ranges = run.ranges.saturating_add(u64::from(done));
        done.then_some(range)
    }

    /// Returns the start of the range with the least in use of the next few.
    ///
    /// If several have as little, returns the first. The pageblocks on the way are recorded as places.
    fn choose(
        &self,
        zone: &Zone<M>,
        order: Order,
        effort: Effort,
        places: &mut Targets,
        run: &mut Compacted,
    ) -> Option<Frame> {
        let mut best: Option<(Frame, FrameCount)> = None;
        let mut scanned = 0_u64;
        let most_at_all = match effort {
            Effort::Worthwhile => FrameCount::of_block(order).half().plus(FrameCount(1)),
            Effort::Any => FrameCount::of_block(order),
        };
        let first = zone.compaction.cursor.load(Ordering::Relaxed);
        let (ahead, wrapped) = (self.ranges_of(zone, order), self.ranges_of(zone, order));
        let turn = ahead.filter(|start| start.0 >= first).chain(wrapped.filter(|start| start.0 < first));
        for start in turn.take(WINDOW as usize) {
            zone.compaction.cursor.store(start.add(order.frames()).0, Ordering::Relaxed);
            let most = best.map_or(most_at_all, |(_, in_use)| in_use);
            let in_use = self.in_use(zone, start, order, places, &mut scanned);
            if let Some(in_use) = in_use.filter(|&in_use| in_use < most) {
                best = Some((start, in_use));
            }
        }
        run.scanned = run.scanned.saturating_add(scanned);
        self.shared.events.add(GlobalEvent::CompactMigrateScanned, scanned);
        best.map(|(start, _)| start)
    }

    /// Returns the frames in use in a range.
    ///
    /// `None` if it cannot be emptied, or is already free.
    fn in_use(
        &self,
        zone: &Zone<M>,
        start: Frame,
        order: Order,
        places: &mut Targets,
        scanned: &mut u64,
    ) -> Option<FrameCount> {
        let frames = &self.shared.frames;
        let (end, pageblock_order) = (start.add(order.frames()), frames.geometry.pageblock_order);
        let (mut in_use, mut free, mut at) = (Some(FrameCount::ZERO), FrameCount::ZERO, start);
        while at < end {
            let range = FrameRange::block(at, pageblock_order);
            let pageblock = frames.pageblock(at);
            if pageblock.zone() != Some(zone.idx) || pageblock.migratetype() != MigrateType::Movable {
                return None;
            }
            let usage = PageblockUsage::of(&self.shared, range);
            *scanned = scanned.saturating_add(usage.memory().0);
            places.note(at, usage);
            let can_be_emptied = usage.memory() == range.frames() && usage.other.is_zero();
            in_use = in_use.filter(|_| can_be_emptied).map(|in_use| in_use.plus(usage.used()));
            free = free.plus(usage.free);
            at = range.end;
        }
        in_use.filter(|_| free < FrameCount::of_block(order))
    }

    /// Allocates a place in the fullest of the recorded pageblocks.
    fn place_where_most_is_in_use(&self, zone: &Zone<M>, order: Order, places: &mut Targets) -> Option<Frame> {
        let step = self.shared.frames.geometry.pageblock_order.frames();
        while let Some(start) = places.fullest().map(|block| block.0) {
            places.at = places.at.max(start);
            let found = self.place_in(zone, order, &mut places.at, start.add(step));
            if found.is_some() {
                return found;
            }
            places.forget_fullest();
        }
        None
    }

    /// Returns the first frames of the ranges of an order in a zone's span.
    ///
    /// Some of them may be holes, or belong to another zone.
    fn ranges_of(&self, zone: &Zone<M>, order: Order) -> impl Iterator<Item = Frame> + use<M> {
        let (first, last) = self.pageblocks_of(zone);
        let step = order.frames().min(1 << 31) as usize;
        (first.align_down(order).0..last.0.saturating_add(1)).step_by(step.max(1)).map(Frame)
    }
}
