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
use crate::frame::frame::Part;
use crate::frame::head::Head;
use crate::range::migrate::MigrateError;
use crate::range::split::mark;
use crate::seam::machine::{Fault, Machine, Ordering, Patience, Step, Word};
use crate::shared::CallCx;
use crate::types::error::AllocError;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, Order, Pfn, PfnRange};
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
    pub(crate) fn alloc_contig_range(
        &self,
        range: PfnRange,
        purpose: Purpose,
        may_move: bool,
    ) -> Result<(), AllocError> {
        let zone = self.zone_of_range(range)?;
        self.alloc_contig_range_of(zone, range, Some(purpose), if may_move { Means::Moves } else { Means::Nothing })
    }

    /// Takes the frames of a range that all belong to a zone; for no purpose, they are free and it is left at that.
    pub(crate) fn alloc_contig_range_of(
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

    /// Takes one block, if it is free as it stands. Cheaper than [`World::alloc_contig_range`]: one look under the lock.
    pub(crate) fn alloc_free_block(&self, pfn: Pfn, order: Order, movable: bool) -> Option<()> {
        let frames = &self.shared.frames;
        let frame = frames.frame(pfn)?;
        let zone = self.zone_of(frame)?;
        self.pinned(|cx| {
            let guard = zone.lock(cx);
            guard.alloc_with(|buddy| {
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
        let frames = &self.shared.frames;
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
        self.shared.machine.step(Step::Range);
        let frames = &self.shared.frames;
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
        let frames = &self.shared.frames;
        let order = frames.geometry.pageblock_order;
        let mut done = PfnRange { start: range.start.align_down(order), end: range.start.align_down(order) };
        while done.end < range.end {
            let isolated = self.pinned(|cx| {
                let frame = frames.frame(done.end)?;
                let guard = zone.lock(cx);
                (!self.shared.machine.fault(Fault::Isolate) && guard.isolate(frame, alone)).then_some(())
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
        let frames = &self.shared.frames;
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
        let frames = &self.shared.frames;
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
        let frames = &self.shared.frames;
        let Some(Part::Pcp(head, _)) = frames.frame(pfn).map(|frame| frames.part_of(frame)) else { return false };
        let Some(word) = frames.heads.get(head.index()) else { return false };
        let before = word.load(Ordering::Relaxed);
        Head(before).is_pcp() && word.wait_while(Patience::Tries(LOOKS), |now| now == before).is_ok()
    }

    /// One pass of steps 2 and 3. None if all of the range is free, otherwise a frame that may be so after another drain.
    fn move_away(&self, zone: &Zone<M>, range: PfnRange, means: Means<'_>) -> Result<Option<Pfn>, AllocError> {
        let frames = &self.shared.frames;
        let (mut again, mut busy) = (None, 0_u64);
        let mut pfn = range.start;
        while pfn < range.end {
            self.shared.machine.step(Step::Range);
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
                        let is_worth_a_wait = stays == MigrateError::Busy && matches!(means, Means::Compaction(_));
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
            let Some(frame) = self.shared.frames.frame(pfn) else { continue };
            match purpose {
                Purpose::Allocate { .. } if self.shared.frames.head(frame) == Head::allocated(order, movable) => {}
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

    /// Takes the free block around `pfn`, gives back what lies outside of `range`, and returns the first frame behind what
    /// it took, which is allocated.
    fn collect_one(
        &self,
        cx: CallCx<'_, 'a, M>,
        zone: &Zone<M>,
        pfn: Pfn,
        range: PfnRange,
        movable: bool,
    ) -> Option<Pfn> {
        let frames = &self.shared.frames;
        let frame = frames.frame(pfn)?;
        let guard = zone.lock(cx);
        let (head, order) = guard.alloc_with(|buddy| {
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
                guard.free(frame, order, Place::Warm);
            }
        }
        for (pfn, order) in inside.blocks(self.max_order()) {
            self.shared.machine.step(Step::Range);
            mark(frames, pfn, order, movable);
        }
        self.count_range(cx, zone, inside.frames());
        Some(inside.end)
    }
}
