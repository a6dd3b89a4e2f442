//! Ranges: memory at a given place, of any length.
//!
//! A range is taken in four steps, each undone if a later one fails:
//!
//! 1. its pageblocks are *isolated*: their free blocks go to the isolated lists, where no request finds them, and what is
//!    freed in them follows; a pageblock is isolated as long as any range keeps it so;
//! 2. per-CPU lists are drained, so that what they hold of the range joins;
//! 3. what is allocated and movable is moved away (`migrate.rs`); anything else ends the attempt with `Busy`;
//! 4. the free blocks of the range are taken, cut at its ends, and the pageblocks get their types back.
//!
//! Taking memory offline is the same with another mark at the end.
//!
//! Callers of disjoint ranges do not fail for each other, wherever their ranges lie. In one pageblock each takes its own frames out of the isolated
//! lists, a block at a time and under the zone lock; what lies outside of its range is on the lists again before the lock is released. What
//! a caller finds on its way between a list and the zone, because another caller or a drain has it in hand, it waits for ([`World::await_return`]). Of two
//! whose ranges overlap at most one succeeds: each takes its frames in ascending order, so the one that takes the first shared frame first
//! meets no frame of the other's. Compaction wants a whole pageblock and gives up if it is isolated already.
//!
//! Rejected: one range at a time in a zone, because moving what is in use calls the embedder, which may want a range in turn. In Linux the second
//! caller fails (`start_isolate_page_range`), and contiguous areas have a lock each.

use crate::buddy::buddy::Place;
use crate::frame::cluster::Heap;
use crate::frame::frame::{Head, Kind, Part};
use crate::policy::mechanisms::Hardened;
use crate::policy::watermark::Marks;
use crate::range::migrate::Stays;
use crate::range::split::mark;
use crate::seam::machine::{Fault, Machine, Ordering, Patience, Step, Word};
use crate::shared::Cx;
use crate::stat::vmstat::ZoneEvent;
use crate::types::error::AllocError;
use crate::types::units::{Frame, MigrateType, Order, Pfn, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// How often steps 2 and 3 are repeated while the range still changes under them.
const ROUNDS: u32 = 8;
/// How often a caller waits for frames of its range that others have in hand before it takes them for a list's that cannot be drained.
const RETURNS: u32 = 64;
/// Looks at such a frame in one wait: as many as at a list that somebody else drains.
const LOOKS: u32 = 1 << 20;
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

/// What a frame is part of, and the first frame behind that.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) part: Part,
    pub(crate) end: Pfn,
}

impl<'a, M: Machine> World<'a, M> {
    /// Takes exactly the frames of `range`, moving away what can be moved if `may_move`.
    pub(crate) fn take_range(&self, range: PfnRange, purpose: Purpose, may_move: bool) -> Result<(), AllocError> {
        let zone = self.zone_of_range(range)?;
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
        let isolated = self.isolate(zone, range, matches!(means, Means::Compaction(_)));
        let result = if isolated.end < range.end {
            Err(AllocError::Contended { pfn: isolated.end.max(range.start) })
        } else {
            self.vacate(zone, range, means)
                .and_then(|()| purpose.map_or(Ok(()), |purpose| self.collect(zone, range, purpose)))
        };
        self.unisolate(zone, isolated);
        merging(Heap::enable);
        result
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

    /// The zone that all frames of a range belong to, none of which is a hole, withheld or put aside.
    fn zone_of_range(&self, range: PfnRange) -> Result<&'a Zone<M>, AllocError> {
        if range.is_empty() {
            return Err(AllocError::BadRange(range));
        }
        let frames = &self.ground.frames;
        let first = frames.frame(range.start).and_then(|frame| self.zone_of(frame));
        let zone = first.ok_or(AllocError::Foreign(range.start))?;
        let mut pfn = range.start;
        while pfn < range.end {
            let part = self.part_within(zone, pfn)?;
            pfn = part.end;
        }
        Ok(zone)
    }

    /// The block around a frame of a zone that is allocated, free, or on its way; or why it could be in no range of that zone.
    pub(crate) fn part_within(&self, zone: &Zone<M>, pfn: Pfn) -> Result<Stretch, AllocError> {
        self.ground.machine.step(Step::Range);
        let frames = &self.ground.frames;
        let frame = frames.frame(pfn).ok_or(AllocError::Foreign(pfn))?;
        let is_none = |part: &Part| matches!(part, Part::Hole | Part::Offline(..) | Part::Quarantined(..));
        // A frame may have seemed to be in no block because it was on its way between two. It is so only under the lock.
        let part = Some(frames.part_of(frame)).filter(|part| !is_none(part)).unwrap_or_else(|| self.look_locked(frame));
        let end = pfn.add(u64::from(part.end(frame).0.wrapping_sub(frame.0)).max(1));
        match part {
            Part::Hole => Err(AllocError::Foreign(pfn)),
            _ if frames.pageblock(frame).zone() != Some(zone.idx) => Err(AllocError::OtherZone(pfn)),
            Part::Offline(..) => Err(AllocError::Offline(pfn)),
            Part::Quarantined(..) => Err(AllocError::Quarantined(pfn)),
            part => Ok(Stretch { part, end }),
        }
    }

    /// Isolates the pageblocks of `range` from the first on; returns the part that was, whole pageblocks. `alone`: no pageblock that is
    /// isolated already.
    fn isolate(&self, zone: &Zone<M>, range: PfnRange, alone: bool) -> PfnRange {
        let frames = &self.ground.frames;
        let order = frames.geometry.pageblock_order;
        let mut done = PfnRange { start: range.start.align_down(order), end: range.start.align_down(order) };
        while done.end < range.end {
            let isolated = self.pinned(|cx| {
                let frame = frames.frame(done.end)?;
                let guard = zone.lock(cx);
                (!self.ground.machine.fault(Fault::Isolate) && guard.isolate(frame, alone)).then_some(())
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
                    zone.lock(cx).unisolate(frame);
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
                    self.pinned(|cx| zone.lock(cx).abandon(start));
                }
            }
            self.pinned(|cx| zone.lock(cx).change_merging(Heap::enable_for_all));
        }
    }

    /// Empties an isolated range: everything in it is free, or the first frame in the way is named.
    fn vacate(&self, zone: &Zone<M>, range: PfnRange, means: Means<'_>) -> Result<(), AllocError> {
        let (mut round, mut returns) = (0_u32, 0_u32);
        loop {
            match means {
                Means::Compaction(_) if round == 0 => 0,
                Means::Compaction(_) => self.drain_unmerged(),
                _ => self.drain_all(),
            };
            let Some(pfn) = self.move_away(zone, range, means)? else { return Ok(()) };
            if returns < RETURNS && !matches!(means, Means::Compaction(_)) && self.await_return(pfn) {
                returns = returns.wrapping_add(1);
                continue;
            }
            round = round.wrapping_add(1);
            if round >= ROUNDS {
                return Err(AllocError::Busy { pfn });
            }
        }
    }

    /// Waits while a frame is part of a block that a list has, or a drain in hand. Returns whether that changed.
    fn await_return(&self, pfn: Pfn) -> bool {
        let frames = &self.ground.frames;
        let Some(Part::Pcp(head, _)) = frames.frame(pfn).map(|frame| frames.part_of(frame)) else { return false };
        let Some(word) = frames.heads.get(head.index()) else { return false };
        let before = word.load(Ordering::Relaxed);
        Head(before).is_pcp() && word.wait_while(Patience::Tries(LOOKS), |now| now == before).is_ok()
    }

    /// One pass of steps 2 and 3. None if all of the range is free, otherwise a frame that may be so after another drain.
    fn move_away(&self, zone: &Zone<M>, range: PfnRange, means: Means<'_>) -> Result<Option<Pfn>, AllocError> {
        let frames = &self.ground.frames;
        let (mut again, mut busy) = (None, 0_u64);
        let mut pfn = range.start;
        while pfn < range.end {
            self.ground.machine.step(Step::Range);
            let frame = frames.frame(pfn).ok_or(AllocError::BadRange(range))?;
            let part = match frames.part_of(frame) {
                // A block between two states, which it is in only while somebody holds the lock; or as good as a hole.
                Part::Hole => self.look_locked(frame),
                part => part,
            };
            match part {
                Part::Free(..) => {}
                Part::Pcp(..) => again = again.or(Some(pfn)),
                Part::Allocated(head, order) if !matches!(means, Means::Nothing) && frames.head(head).is_movable() => {
                    let moved = self.migrate(head, order, |order| match means {
                        Means::Compaction(place) => place(order),
                        _ => self.place_anywhere(zone, order),
                    });
                    if let Err(stays) = moved {
                        busy = busy.saturating_add(order.frames());
                        let is_worth_a_wait = stays == Stays::Busy && matches!(means, Means::Compaction(_));
                        if !is_worth_a_wait || busy > range.frames() / FEW {
                            return Err(AllocError::Busy { pfn });
                        }
                    }
                    // Once freed it is isolated, unless its owner did not free it, or somebody keeps it on a list.
                    if !matches!(frames.part_of(frame), Part::Free(..)) {
                        again = again.or(Some(pfn));
                    }
                }
                // In nobody's hands that a look could tell: a CPU that took it before it was isolated is about to hand it out.
                Part::Hole if frames.pageblock(frame).zone().is_some() => again = again.or(Some(pfn)),
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

    /// Computes what depends on the sizes of zones after memory came or went: the nodes with memory, and the marks.
    pub(crate) fn refresh_marks(&self) {
        self.node_states.refresh(self.zones);
        for zone in self.zones.iter().filter(|zone| zone.highatomic_reserved.load(Ordering::Relaxed) != 0) {
            // Bounded: each time the reserve is a pageblock smaller, or this ends.
            while self.pinned(|cx| zone.lock(cx).trim_highatomic()) == Some(true) {}
        }
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
        let range = range.intersect(frames.map.span());
        let mut pfn = range.start;
        while pfn < range.end {
            let Some(frame) = frames.frame(pfn) else {
                // Holes may be as wide as the address space.
                pfn = frames.map.next(pfn).unwrap_or(range.end);
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

    /// Frees a withheld block. False if somebody else was faster.
    ///
    /// Where freed memory is filled and checked (`hardened`), this one is filled before it is free: nobody knows what was written to
    /// it while it was withheld. It is allocated meanwhile, as a block is that its last owner frees.
    fn revive(&self, frame: Frame, order: Order) -> bool {
        let Some(zone) = self.zone_of(frame) else { return false };
        let is_filled = self.ground.mechanisms.hardened != Hardened::Off;
        let revived = self.pinned(|cx| {
            let guard = zone.lock(cx);
            // Somebody else may have done it since.
            let frames = &self.ground.frames;
            let still = frames.state(frame).kind() == Kind::Offline && frames.state(frame).order() == order;
            let revived = still && frames.change(frame, |state| state.revive()).is_ok();
            if revived {
                zone.offline.add(order.frames().wrapping_neg(), Ordering::Relaxed);
                zone.managed.add(order.frames(), Ordering::Relaxed);
                if is_filled {
                    frames.set_head(frame, Head::allocated(order, false));
                    self.count_range(cx, zone, order.frames());
                } else {
                    guard.give(frame, order, Place::Last);
                }
            }
            revived
        });
        if revived == Some(true) && is_filled {
            self.fill_freed(frame, order);
            self.pinned(|cx| self.give_filled(cx, zone, (frame, order)));
        }
        revived.unwrap_or(false)
    }

    /// Frees an allocated block of ours whose memory has been filled, to the end of its list. One that somebody else freed
    /// meanwhile, by its number, is theirs.
    fn give_filled(&self, cx: Cx<'_, 'a, M>, zone: &Zone<M>, (frame, order): (Frame, Order)) {
        let frames = &self.ground.frames;
        let guard = zone.lock(cx);
        if frames.claim_head(frame, order) {
            frames.set_head(frame, Head::NONE);
            guard.give(frame, order, Place::Last);
            if let Some(own) = self.pcps.record(cx.cpu, zone.idx.index()) {
                own.aside.count(ZoneEvent::FreeFrames, order.frames());
            }
        }
    }
}
