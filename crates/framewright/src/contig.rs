//! Ranges: memory at a given place, of any length.
//!
//! A range is taken in four steps, each undone if a later one fails:
//!
//! 1. its pageblocks are *isolated*: their free blocks go to the isolated lists, where no request finds them, and what is
//!    freed in them follows;
//! 2. per-CPU lists are drained, so that what they hold of the range joins;
//! 3. what is allocated and movable is moved away (`migrate.rs`); anything else ends the attempt with `Busy`;
//! 4. the free blocks of the range are taken, cut at its ends, and the pageblocks get their types back.
//!
//! Taking memory offline is the same with another mark at the end.

use crate::buddy::Place;
use crate::cluster::Heap;
use crate::error::AllocError;
use crate::frame::{Head, Kind, Part};
use crate::ground::Cx;
use crate::machine::{Fault, Machine, Ordering, Step, Word};
use crate::migrate::Stays;
use crate::node::{Plan, World};
use crate::parts::mark;
use crate::pfn::{Frame, MigrateType, Order, Pfn, PfnRange};
use crate::vmstat::ZoneEvent;
use crate::watermark::Marks;
use crate::zone::Zone;

/// How often steps 2 and 3 are repeated while the range still changes under them.
const ROUNDS: u32 = 8;
/// Compaction tries what its owner could not move again in the next round, up to one frame in so many of the range.
const FEW: u64 = 4;

/// What becomes of the blocks of a range that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// Allocated; movable or not.
    Allocate { movable: bool },
    /// Withheld.
    Offline,
}

/// What may be done to empty a range.
#[derive(Clone, Copy)]
pub(crate) enum Means<'p> {
    /// Nothing in it is moved.
    Nothing,
    /// What is in it is moved anywhere.
    Moves,
    /// What is in it is moved to a place that compaction finds, and lists are drained only if they hold something of it.
    Compaction(&'p dyn Fn(Order) -> Option<Frame>),
}

impl<'a, M: Machine> World<'a, M> {
    /// Takes exactly the frames of `range`, moving away what can be moved if `may_move`.
    pub(crate) fn take_range(&self, range: PfnRange, purpose: Purpose, may_move: bool) -> Result<(), AllocError> {
        let zone = self.zone_of_range(range).ok_or(AllocError::BadRange(range))?;
        self.take_range_of(zone, range, Some(purpose), if may_move { Means::Moves } else { Means::Nothing })
    }

    /// Takes the frames of a range that all belong to a zone; for no purpose, they are free and it is left at that.
    pub(crate) fn take_range_of(
        &self,
        zone: &Zone<M>,
        range: PfnRange,
        purpose: Option<Purpose>,
        means: Means<'_>,
    ) -> Result<(), AllocError> {
        let merging = |change: fn(&Heap<M>)| self.pinned(|cx| zone.lock(cx).change_merging(change));
        // What comes free meanwhile merges, and no cut is in progress while states are looked at.
        merging(Heap::disable);
        let isolated = self.isolate(zone, range);
        let result = if isolated.end < range.end {
            Err(AllocError::Busy { pfn: isolated.end })
        } else {
            self.vacate(zone, range, means)
                .and_then(|()| purpose.map_or(Ok(()), |purpose| self.collect(zone, range, purpose)))
        };
        self.unisolate(zone, isolated);
        merging(Heap::enable);
        result
    }

    /// Takes the first range of `frames` frames that can be had, aligned to `step`, from the zones of a plan.
    pub(crate) fn search_range(&self, frames: u64, step: Order, plan: &Plan) -> Option<PfnRange> {
        let movable = plan.migratetype == MigrateType::Movable;
        let purpose = Some(Purpose::Allocate { movable });
        for zone in self.zonelist(plan).chain(self.split_zones(plan)) {
            let end = plan.below.map_or(zone.span.end, |limit| limit.min(zone.span.end));
            let mut start = zone.span.start.align_up(step);
            while start.add(frames) <= end {
                let range = PfnRange { start, end: start.add(frames) };
                // The span may have holes, and memory of other zones.
                let found = self.zone_of_range(range).filter(|found| found.idx == zone.idx);
                let means = if plan.gfp.may_reclaim() { Means::Moves } else { Means::Nothing };
                let result = found.map(|_| self.take_range_of(zone, range, purpose, means));
                start = match result {
                    Some(Ok(())) => return Some(range),
                    // No range with the obstacle in it can be had.
                    Some(Err(AllocError::Busy { pfn })) => pfn.max(start).add(1).align_up(step),
                    _ => start.add(step.frames()),
                };
            }
        }
        None
    }

    /// Takes one block, if it is free as it stands. Cheaper than [`World::take_range`]: one look under the lock.
    pub(crate) fn take_free_block(&self, pfn: Pfn, order: Order, movable: bool) -> Option<()> {
        let frames = &self.ground.frames;
        let frame = frames.frame(pfn)?;
        let zone = self.zone_of(frame)?;
        self.pinned(|cx| {
            let guard = zone.lock(cx);
            guard.take_with(|buddy| {
                let around = buddy.free_around(frame);
                let Some((head, larger, mt)) = around.filter(|&(_, o, mt)| o >= order && mt != MigrateType::Isolate)
                else {
                    return Ok(None);
                };
                buddy.remove(head, larger, mt)?;
                buddy.carve(head, larger, (frame, order), mt);
                Ok(Some(()))
            })?;
            frames.set_head(frame, Head::allocated(order, movable));
            self.count_range(cx, zone, order.frames());
            Some(())
        })?
    }

    /// The zone that all frames of a non-empty range belong to; none if one of them is a hole, withheld or put aside.
    fn zone_of_range(&self, range: PfnRange) -> Option<&'a Zone<M>> {
        let frames = &self.ground.frames;
        let zone = self.zone_of(frames.frame(range.start)?)?;
        let mut pfn = range.start;
        while pfn < range.end {
            self.ground.machine.step(Step::Range);
            let frame = frames.frame(pfn)?;
            if frames.pageblock(frame).zone() != Some(zone.idx) {
                return None;
            }
            let part = frames.part_of(frame);
            let is_none = |part| matches!(part, Part::Hole | Part::Offline(..) | Part::Quarantined(..));
            // A frame may have seemed to be in no block because it was on its way between two. It is so only under the lock.
            if is_none(part) && is_none(self.look_locked(frame)) {
                return None;
            }
            pfn = pfn.add(u64::from(part.end(frame).0.wrapping_sub(frame.0)).max(1));
        }
        (!range.is_empty()).then_some(zone)
    }

    /// Isolates the pageblocks of `range` from the first on; returns the part that was, whole pageblocks.
    fn isolate(&self, zone: &Zone<M>, range: PfnRange) -> PfnRange {
        let frames = &self.ground.frames;
        let order = frames.geometry.pageblock_order;
        let mut done = PfnRange { start: range.start.align_down(order), end: range.start.align_down(order) };
        while done.end < range.end {
            let isolated = self.pinned(|cx| {
                let frame = frames.frame(done.end)?;
                let guard = zone.lock(cx);
                let taken = frames.pageblock(frame).migratetype() == MigrateType::Isolate;
                let fails = taken || self.ground.machine.fault(Fault::Isolate);
                (!fails && guard.set_type(frame, MigrateType::Isolate)).then_some(())
            });
            if isolated.flatten().is_none() {
                break;
            }
            done.end = done.end.add(order.frames());
        }
        done
    }

    /// Gives pageblocks their types back.
    fn unisolate(&self, zone: &Zone<M>, range: PfnRange) {
        let frames = &self.ground.frames;
        let step = frames.geometry.pageblock_order.frames();
        let mut pfn = range.start;
        while pfn < range.end {
            self.pinned(|cx| {
                if let Some(frame) = frames.frame(pfn) {
                    let guard = zone.lock(cx);
                    guard.set_type(frame, frames.pageblock(frame).restored());
                }
            });
            pfn = pfn.add(step.max(1));
        }
    }

    /// In a copy of the allocator nobody is there who was taking ranges: gives the pageblocks of these their types back.
    pub(crate) fn abandon_ranges(&self) {
        let frames = &self.ground.frames;
        let order = frames.geometry.pageblock_order;
        for zone in self.zones.iter().filter(|zone| zone.clusters.is_disabled()) {
            for index in 0..frames.pageblocks.len() {
                let start = Frame((index as u32) << order.0);
                let pageblock = frames.pageblock(start);
                if pageblock.zone() == Some(zone.idx) && pageblock.migratetype() == MigrateType::Isolate {
                    self.unisolate(zone, PfnRange::block(frames.pfn(start), order));
                }
            }
            self.pinned(|cx| zone.lock(cx).change_merging(Heap::enable_for_all));
        }
    }

    /// Empties an isolated range: everything in it is free, or the first frame in the way is named.
    fn vacate(&self, zone: &Zone<M>, range: PfnRange, means: Means<'_>) -> Result<(), AllocError> {
        let mut obstacle = Some(range.start);
        for round in 0..ROUNDS {
            match means {
                Means::Compaction(_) if round == 0 => 0,
                Means::Compaction(_) => self.drain_unmerged(),
                _ => self.drain_all(),
            };
            obstacle = self.move_away(zone, range, means)?;
            if obstacle.is_none() {
                return Ok(());
            }
        }
        Err(AllocError::Busy { pfn: obstacle.unwrap_or(range.start) })
    }

    /// One pass of steps 2 and 3. None if all of the range is free, otherwise a frame that may be so after another drain.
    fn move_away(&self, zone: &Zone<M>, range: PfnRange, means: Means<'_>) -> Result<Option<Pfn>, AllocError> {
        let frames = &self.ground.frames;
        let (mut again, mut busy) = (None, 0_u64);
        let mut pfn = range.start;
        while pfn < range.end {
            self.ground.machine.step(Step::Range);
            let frame = frames.frame(pfn).ok_or(AllocError::BadRange(range))?;
            let part = frames.part_of(frame);
            match part {
                Part::Free(..) => {}
                Part::Pcp(..) => again = Some(pfn),
                Part::Allocated(head, order) if !matches!(means, Means::Nothing) && frames.head(head).is_movable() => {
                    let moved = self.migrate(head, order, |order| match means {
                        Means::Compaction(place) => place(order),
                        _ => self.place_anywhere(zone, order),
                    });
                    if let Err(stays) = moved {
                        busy = busy.saturating_add(order.frames());
                        let is_worth_a_wait = stays == Stays::Busy && matches!(means, Means::Compaction(_));
                        if !is_worth_a_wait || busy > range.frames() / FEW {
                            return Err(AllocError::Busy { pfn: frames.pfn(head) });
                        }
                    }
                    // Once freed it is isolated, unless its owner did not free it, or somebody keeps it on a list.
                    if !matches!(frames.part_of(frame), Part::Free(..)) {
                        again = Some(pfn);
                    }
                }
                // A block between two states: look again.
                Part::Hole if frames.pageblock(frame).zone().is_some() => again = Some(pfn),
                Part::Hole | Part::Offline(..) | Part::Allocated(..) | Part::Quarantined(..) => {
                    return Err(AllocError::Busy { pfn });
                }
            }
            pfn = pfn.add(u64::from(part.end(frame).0.wrapping_sub(frame.0)).max(1));
        }
        Ok(again)
    }

    /// Step 4: takes the free blocks of an isolated range. What somebody got hold of meanwhile undoes all of it.
    fn collect(&self, zone: &Zone<M>, range: PfnRange, purpose: Purpose) -> Result<(), AllocError> {
        let movable = purpose == Purpose::Allocate { movable: true };
        let mut pfn = range.start;
        while pfn < range.end {
            let Some(next) = self.pinned(|cx| self.collect_one(cx, zone, pfn, range, movable)).flatten() else {
                // What was taken so far is allocated, and freed as such.
                let _ = self.free_range(PfnRange { start: range.start, end: pfn });
                return Err(AllocError::Busy { pfn });
            };
            pfn = next;
        }
        for (pfn, order) in range.blocks(self.max_order()) {
            let Some(frame) = self.ground.frames.frame(pfn) else { continue };
            match purpose {
                Purpose::Allocate { .. } if self.ground.frames.head(frame) == Head::allocated(order, movable) => {}
                Purpose::Allocate { .. } => {
                    self.pinned(|cx| {
                        let _guard = zone.lock_ends(cx);
                        self.join(frame, order, movable);
                    });
                }
                Purpose::Offline => self.withhold(zone, frame, order),
            }
        }
        Ok(())
    }

    /// Makes one allocated block of those that lie in a block of ours. The zone lock is held, lest somebody copies half of it.
    fn join(&self, frame: Frame, order: Order, movable: bool) {
        let frames = &self.ground.frames;
        if frames.head(frame) != Head::allocated(order, movable) {
            // The block's head first: who looks at a frame whose own is gone finds that.
            frames.set_head(frame, Head::allocated(order, movable));
            let mut inner = frame.add(1);
            while inner < frame.add(order.frames()) {
                self.ground.machine.step(Step::Range);
                frames.set_head(inner, Head::NONE);
                inner = inner.add(1);
            }
        }
    }

    /// Turns a block of ours into a withheld one.
    fn withhold(&self, zone: &Zone<M>, frame: Frame, order: Order) {
        let frames = &self.ground.frames;
        self.pinned(|cx| {
            let _guard = zone.lock(cx);
            self.join(frame, order, false);
            frames.set_head(frame, Head::NONE);
            let _ = frames.change(frame, |state| state.retire(order));
            zone.offline.add(order.frames(), Ordering::Relaxed);
            zone.managed.add(order.frames().wrapping_neg(), Ordering::Relaxed);
            if let Some(own) = self.pcps.record(cx.cpu, zone.idx.index()) {
                own.aside.count(ZoneEvent::FreeFrames, order.frames());
            }
        });
    }

    /// Sets the marks anew after memory came or went.
    pub(crate) fn refresh_marks(&self) {
        let managed = |zone: &Zone<M>| zone.managed.load(Ordering::Relaxed);
        let total = self.zones.iter().map(managed).fold(0, u64::saturating_add);
        for zone in self.zones.iter().filter(|zone| !zone.tuned) {
            zone.stat.set_marks(Marks::compute(self.min_free_frames, managed(zone), total, self.scale));
            self.cap_boost(zone);
        }
    }

    /// Counts frames taken by place, which no request preferred to be anywhere. Called with interrupts held off.
    pub(crate) fn count_range(&self, cx: Cx<'_, 'a, M>, zone: &Zone<M>, frames: u64) {
        if let Some(own) = self.pcps.record(cx.cpu, zone.idx.index()) {
            own.aside.count(ZoneEvent::AllocFrames, frames);
        }
    }

    /// Takes the free block around `pfn`, gives back what lies outside of `range`, and returns the first frame behind what
    /// it took, which is allocated.
    fn collect_one(&self, cx: Cx<'_, 'a, M>, zone: &Zone<M>, pfn: Pfn, range: PfnRange, movable: bool) -> Option<Pfn> {
        let frames = &self.ground.frames;
        let frame = frames.frame(pfn)?;
        let guard = zone.lock(cx);
        let (head, order) = guard.take_with(|buddy| {
            let Some((head, order, mt)) = buddy.free_around(frame).filter(|found| found.2 == MigrateType::Isolate)
            else {
                return Ok(None);
            };
            buddy.remove(head, order, mt)?;
            Ok(Some((head, order)))
        })?;
        let block = PfnRange::block(frames.pfn(head), order);
        let inside = block.intersect(range);
        let outside = [PfnRange { end: inside.start, ..block }, PfnRange { start: inside.end, ..block }];
        for (pfn, order) in outside.into_iter().flat_map(|part| part.blocks(self.max_order())) {
            if let Some(frame) = frames.frame(pfn) {
                guard.give(frame, order, Place::Warm);
            }
        }
        for (pfn, order) in inside.blocks(self.max_order()) {
            self.ground.machine.step(Step::Range);
            mark(frames, pfn, order, movable);
        }
        self.count_range(cx, zone, inside.frames());
        Some(inside.end)
    }

    /// Gives withheld blocks that lie wholly in `range` to the allocator. Returns the number of frames.
    pub(crate) fn bring_online(&self, range: PfnRange) -> u64 {
        let frames = &self.ground.frames;
        let mut online = 0_u64;
        let range = range.intersect(frames.span());
        let mut pfn = range.start;
        while pfn < range.end {
            let Some(frame) = frames.frame(pfn) else {
                pfn = Pfn(pfn.0 | self.max_order().mask()).add(1);
                continue;
            };
            let mut next = pfn.add(1);
            if let Some(Part::Offline(_, order)) = frames.block_at(frame) {
                next = pfn.add(order.frames());
                if next <= range.end && self.revive(frame, order) {
                    online = online.saturating_add(order.frames());
                }
            }
            pfn = next;
        }
        online
    }

    fn revive(&self, frame: Frame, order: Order) -> bool {
        let Some(zone) = self.zone_of(frame) else { return false };
        self.pinned(|cx| {
            let guard = zone.lock(cx);
            // Somebody else may have done it since.
            let frames = &self.ground.frames;
            let still = frames.state(frame).kind() == Kind::Offline && frames.state(frame).order() == order;
            let revived = still && frames.change(frame, |state| state.revive()).is_ok();
            if revived {
                zone.offline.add(order.frames().wrapping_neg(), Ordering::Relaxed);
                zone.managed.add(order.frames(), Ordering::Relaxed);
                guard.give(frame, order, Place::Last);
            }
            revived
        })
        .unwrap_or(false)
    }
}
