//! Contiguous ranges: allocates memory at a given place, of any length.
//!
//! A range is allocated in four steps. If a step fails, all steps before it are undone:
//!
//! 1. *Isolate* its pageblocks. Their free blocks move to the isolated lists, where no request finds them. Blocks that
//!    are freed in them later follow. A pageblock stays isolated as long as any range needs it.
//! 2. *Drain* the per-CPU lists, so that the blocks of the range that they hold return to the zone.
//! 3. *Move* allocated, movable blocks away (`migrate.rs`). Any other allocated block ends the attempt with `Busy`.
//! 4. *Collect* the free blocks of the range, cut at its ends. Then the pageblocks get their types back.
//!
//! Taking memory offline differs only in the last mark: the blocks are withheld, not allocated.
//!
//! Callers of disjoint ranges do not fail for each other, wherever their ranges lie. Within one pageblock, each caller
//! removes its own frames from the isolated lists, one block at a time and under the zone lock. Frames outside of its
//! range are on the lists again before the lock is released. A frame may be between a list and the zone, because
//! another caller or a drain is moving it. The caller waits for such a frame ([`World::await_return`]).
//!
//! Of two callers whose ranges overlap, at most one succeeds. Each collects its frames in ascending order. The caller
//! that collects the first shared frame first therefore meets no frame of the other. Compaction needs a whole
//! pageblock, and gives up if it is already isolated.
//!
//! Cost: the zone lock once for each pageblock to isolate it, once to restore it, and once for each block collected.
//! Each round of steps 2 and 3 looks at every block of the range; there are at most `ROUNDS` rounds, and `RETURNS`
//! waits.
//!
//! Rejected: one range at a time in a zone. Moving blocks calls the embedder, which may need a range in turn. In Linux
//! the second caller fails (`start_isolate_page_range`), and contiguous areas have a lock each.

use crate::buddy::buddy::{Halves, Place};
use crate::frame::cluster::Heap;
use crate::frame::frame::Part;
use crate::frame::head::Head;
use crate::range::migrate::MigrateError;
use crate::range::split::mark;
use crate::seam::machine::{Fault, Machine, Ordering, Patience, Step, Word};
use crate::shared::CallCx;
use crate::types::counts::FrameCount;
use crate::types::error::AllocError;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, Order, Pfn, PfnRange};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// Rounds of steps 2 and 3, while the range still changes.
const ROUNDS: u32 = 8;
/// Waits for frames of the range that other CPUs are moving.
///
/// After that many, the frames count as held by a list that cannot be drained.
const RETURNS: u32 = 64;
/// Polls of such a frame in one wait.
///
/// As many as of a list that another CPU drains.
const LOOKS: u32 = 1 << 20;
/// Divisor of a range's frames that may be busy and are retried.
///
/// Compaction retries blocks that their owner could not move, in the next round, up to this share of the range.
const FEW: u64 = 4;

/// State that the blocks of a range get once it is collected.
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
    /// Nothing is moved.
    Nothing,
    /// Blocks are moved to any place.
    Moves,
    /// Blocks are moved to a place that compaction finds.
    ///
    /// Lists are drained only if they hold frames of the range.
    Compaction(&'p dyn Fn(Order) -> Option<Frame>),
}

/// What a frame is part of, and the first frame after that.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) part: Part,
    pub(crate) end: Pfn,
}

impl<'a, M: Machine> World<'a, M> {
    /// Allocates exactly the frames of `range`, moving blocks away if `may_move`.
    pub(crate) fn alloc_contig_range(
        &self,
        range: PfnRange,
        purpose: Purpose,
        may_move: bool,
    ) -> Result<(), AllocError> {
        let zone = self.zone_of_range(range)?;
        self.alloc_contig_range_of(zone, range, Some(purpose), if may_move { Means::Moves } else { Means::Nothing })
    }

    /// Collects the frames of a range that all belong to `zone`.
    ///
    /// Without a purpose, the frames are only made free, and stay on the free lists.
    pub(crate) fn alloc_contig_range_of(
        &self,
        zone: &Zone<M>,
        range: PfnRange,
        purpose: Option<Purpose>,
        means: Means<'_>,
    ) -> Result<(), AllocError> {
        let isolation = Isolation::of(self, zone, range, matches!(means, Means::Compaction(_)));
        if isolation.pageblocks.end < range.end {
            return Err(AllocError::Contended { pfn: isolation.pageblocks.end.max(range.start) });
        }
        self.vacate(zone, range, means)?;
        purpose.map_or(Ok(()), |purpose| self.collect(zone, range, purpose))
    }

    /// Allocates one block if it is free as it stands; `None` otherwise.
    ///
    /// Cheaper than [`World::alloc_contig_range`]: one look under the lock. `isolated`: also in isolated pageblocks.
    pub(crate) fn alloc_free_block(&self, pfn: Pfn, order: Order, movable: bool, isolated: bool) -> Option<()> {
        let frames = &self.shared.frames;
        let frame = frames.frame(pfn)?;
        let zone = self.zone_of(frame)?;
        self.pinned(|cx| {
            let guard = zone.lock(cx);
            guard.init_section_at(frame);
            guard.alloc_with(|buddy| {
                let around = buddy.free_around(frame);
                let may_take = |mt| isolated || mt != MigrateType::Isolate;
                let Some((head, larger, mt)) = around.filter(|&(_, o, mt)| o >= order && may_take(mt)) else {
                    return Ok(None);
                };
                buddy.remove(head, larger, mt)?;
                buddy.carve(Halves { head, order: larger, kept: frame, kept_order: order }, mt);
                Ok(Some(()))
            })?;
            frames.set_head(frame, Head::allocated(order, movable));
            self.count_range(cx, zone, order.frames());
            drop(guard);
            self.is_intact(cx, frame, order).then_some(())
        })?
    }

    /// Returns the zone that all frames of a range belong to.
    ///
    /// Fails if a frame is a hole, withheld or quarantined.
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

    /// Returns the block around a frame that a range of `zone` could have.
    ///
    /// That block is allocated, free, or moving between the two. Otherwise, returns why no range of that zone can have
    /// the frame.
    pub(crate) fn part_within(&self, zone: &Zone<M>, pfn: Pfn) -> Result<Stretch, AllocError> {
        self.shared.machine.step(Step::Range);
        let frames = &self.shared.frames;
        let frame = frames.frame(pfn).ok_or(AllocError::Foreign(pfn))?;
        let is_none = |part: &Part| matches!(part, Part::Hole | Part::Offline(..) | Part::Quarantined(..));
        // A frame that moves between two blocks may seem to be in none. Under the lock it does not.
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

    /// Restores the types of all isolated pageblocks, in a copy of the allocator.
    ///
    /// The callers that were allocating ranges do not exist there.
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

    /// Empties an isolated range, so that all of it is free.
    ///
    /// # Errors
    /// Names the first frame in the way.
    fn vacate(&self, zone: &Zone<M>, range: PfnRange, means: Means<'_>) -> Result<(), AllocError> {
        let (mut round, mut returns) = (0_u32, 0_u32);
        loop {
            match means {
                Means::Compaction(_) if round == 0 => FrameCount::ZERO,
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

    /// Waits while a frame's block is held by a list or is being drained.
    ///
    /// Returns whether that changed.
    fn await_return(&self, pfn: Pfn) -> bool {
        let frames = &self.shared.frames;
        let Some(Part::Pcp(head, _)) = frames.frame(pfn).map(|frame| frames.part_of(frame)) else { return false };
        let Some(word) = frames.heads.get(head.index()) else { return false };
        let before = word.load(Ordering::Relaxed);
        Head(before).is_pcp() && word.wait_while(Patience::Tries(LOOKS), |now| now == before).is_ok()
    }

    /// Makes one pass of steps 2 and 3.
    ///
    /// `None` if all of the range is free; otherwise a frame that may be free after another drain.
    fn move_away(&self, zone: &Zone<M>, range: PfnRange, means: Means<'_>) -> Result<Option<Pfn>, AllocError> {
        let frames = &self.shared.frames;
        let (mut again, mut busy) = (None, 0_u64);
        let mut pfn = range.start;
        while pfn < range.end {
            self.shared.machine.step(Step::Range);
            let frame = frames.frame(pfn).ok_or(AllocError::BadRange(range))?;
            let part = match frames.part_of(frame) {
                // Either a block between two states, which only a holder of the zone lock sees as a hole, or a real
                // hole.
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
                    // Once freed, the block is isolated; unless its owner did not free it, or a list of some CPU holds
                    // it.
                    if !matches!(frames.part_of(frame), Part::Free(..)) {
                        again = again.or(Some(pfn));
                    }
                }
                // Held by a CPU that removed it before the isolation and is about to allocate it. No look shows that.
                Part::Hole if frames.pageblock(frame).zone().is_some() => again = again.or(Some(pfn)),
                Part::Hole | Part::Offline(..) | Part::Allocated(..) | Part::Quarantined(..) => {
                    return Err(AllocError::Busy { pfn });
                }
            }
            pfn = pfn.add(u64::from(part.end(frame).0.wrapping_sub(frame.0)).max(1));
        }
        Ok(again)
    }

    /// Step 4: collects the free blocks of an isolated range.
    ///
    /// A frame that another CPU got meanwhile undoes all of it.
    fn collect(&self, zone: &Zone<M>, range: PfnRange, purpose: Purpose) -> Result<(), AllocError> {
        let movable = purpose == Purpose::Allocate { movable: true };
        let mut pfn = range.start;
        while pfn < range.end {
            let Some(next) = self.pinned(|cx| self.collect_one(cx, zone, pfn, range, movable)).flatten() else {
                // The frames collected so far are allocated, and are freed as such.
                let _ = self.free_range(PfnRange { start: range.start, end: pfn });
                return Err(AllocError::Busy { pfn });
            };
            pfn = next;
        }
        if purpose != Purpose::Offline {
            self.check_contents(range)?;
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

    /// Frees a collected range if some of it was written to after its free; those blocks are quarantined.
    fn check_contents(&self, range: PfnRange) -> Result<(), AllocError> {
        if !self.shared.mechanisms().is_hardened() {
            return Ok(());
        }
        let (mut intact, mut pfn, mut refused) = (range.start, range.start, Ok(()));
        let frames = &self.shared.frames;
        while pfn < range.end
            && let Some(frame) = frames.frame(pfn)
        {
            let order = frames.head(frame).order();
            let end = pfn.add(order.frames());
            if self.pinned(|cx| self.is_intact(cx, frame, order)) == Some(false) {
                refused = refused.and(Err(AllocError::Quarantined(pfn)));
                let _ = self.free_range(PfnRange { start: intact, end: pfn });
                intact = end;
            }
            pfn = end;
        }
        refused.inspect_err(|_| {
            let _ = self.free_range(PfnRange { start: intact, end: range.end });
        })
    }

    /// Collects the free block around `pfn`; returns the first frame after it.
    ///
    /// The part outside of `range` is freed. The part inside is allocated.
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

/// Isolated pageblocks of a zone in which freed blocks merge.
///
/// The drop gives the pageblocks their types back, also where a callback's panic unwinds.
struct Isolation<'w, 'a, M: Machine> {
    world: &'w World<'a, M>,
    zone: &'w Zone<M>,
    /// Whole pageblocks.
    pageblocks: PfnRange,
}

impl<'w, 'a, M: Machine> Isolation<'w, 'a, M> {
    /// Isolates the pageblocks of `range` in order, up to the first that cannot be.
    ///
    /// `alone`: stop at a pageblock that is already isolated.
    fn of(world: &'w World<'a, M>, zone: &'w Zone<M>, range: PfnRange, alone: bool) -> Isolation<'w, 'a, M> {
        let frames = &world.shared.frames;
        let order = frames.geometry.pageblock_order;
        let start = range.start.align_down(order);
        let mut isolation = Isolation { world, zone, pageblocks: PfnRange { start, end: start } };
        // From here on, freed blocks merge, and no cut is in progress while states are looked at.
        isolation.change_merging(Heap::disable);
        while isolation.pageblocks.end < range.end {
            let isolated = world.pinned(|cx| {
                let frame = frames.frame(isolation.pageblocks.end)?;
                let guard = zone.lock(cx);
                (!world.shared.machine.fault(Fault::Isolate) && guard.isolate(frame, alone)).then_some(())
            });
            if isolated.flatten().is_none() {
                break;
            }
            isolation.pageblocks.end = isolation.pageblocks.end.add(order.frames());
        }
        isolation
    }

    fn change_merging(&self, change: fn(&Heap<M>)) {
        self.world.pinned(|cx| self.zone.lock(cx).change_merging(change));
    }
}

impl<M: Machine> Drop for Isolation<'_, '_, M> {
    fn drop(&mut self) {
        let frames = &self.world.shared.frames;
        let step = frames.geometry.pageblock_order.frames();
        let mut pfn = self.pageblocks.start;
        while pfn < self.pageblocks.end {
            self.world.pinned(|cx| {
                if let Some(frame) = frames.frame(pfn) {
                    self.zone.lock(cx).unisolate(frame);
                }
            });
            pfn = pfn.add(step.max(1));
        }
        self.change_merging(Heap::enable);
    }
}
