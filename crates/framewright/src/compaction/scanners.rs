//! Compaction as in Linux: two scanners that walk towards each other.
//!
//! One goes through the zone's pageblocks from the first on and moves what it finds in use and movable; the other comes from the last pageblock
//! and finds the places. So memory in use gathers at the end of the zone, and free memory at its start. A run ends when there is
//! enough, or when the scanners meet: then the next begins anew. Where they stopped is kept in the zone.
//!
//! Both look at movable pageblocks only, and neither at those that are free as a whole. What the first leaves behind goes to the lists of the
//! running CPU, as anything freed does, so these are drained behind each pageblock; until then others may use it, and a pageblock from which
//! nearly all was moved may fill up again. Nor does the scanner mind what it cannot move: it moves what is around that.
//!
//! Left out: the hints that let Linux skip pageblocks in which it found nothing the last time, and its modes: this is the one that kcompactd and a
//! request that waits use, which does not stop because a lock is wanted.

use crate::compaction::progress::Compacted;
use crate::frame::frame::Part;
use crate::range::migrate::{MigrateError, is_for_movable};
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::stat::vmstat::GlobalEvent;
use crate::types::units::{Frame, Order, Pfn};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// Where the scanner for places is.
struct FreeScanner {
    /// First frame of the pageblock.
    pageblock: Frame,
    /// The next frame in it that may begin a free block.
    at: Frame,
    scanned: u64,
}

impl<M: Machine> World<'_, M> {
    /// The first frames of the first and the last pageblock of a zone's span.
    pub(crate) fn pageblocks_of(&self, zone: &Zone<M>) -> (Frame, Frame) {
        let order = self.shared.frames.geometry.pageblock_order;
        let start = |pfn| self.shared.frames.frame(pfn).unwrap_or(Frame(0)).align_down(order);
        (start(zone.span.start), start(Pfn(zone.span.end.0.saturating_sub(1))))
    }

    /// Lets the scanners go on until there is enough or they meet. Returns the frames that were looked at for places.
    pub(crate) fn scan(&self, zone: &Zone<M>, is_enough: impl Fn() -> bool, run: &mut Compacted) -> u64 {
        let order = self.shared.frames.geometry.pageblock_order;
        let (first, last) = self.pageblocks_of(zone);
        let mut source = Frame(zone.compaction.cursor.load(Ordering::Relaxed)).align_down(order).max(first);
        let begin = Frame(zone.compaction.far.load(Ordering::Relaxed)).align_down(order);
        let begin = if begin > source && begin <= last { begin } else { last };
        let mut places = FreeScanner { pageblock: begin, at: begin, scanned: 0 };
        let scanned = run.scanned;
        while source < places.pageblock && !is_enough() {
            let moved = run.moved;
            let result = self.empty_into(zone, source, &mut places, run);
            if run.moved != moved {
                self.pinned(|cx| cx.cpu).map(|cpu| self.drain_cpu(cpu));
                if self.is_free(source, order) {
                    run.ranges = run.ranges.saturating_add(1);
                }
            }
            if result == Err(MigrateError::NoPlace) {
                break;
            }
            source = source.add(order.frames());
        }
        // They met: anew.
        if source >= places.pageblock {
            (source, places.pageblock) = (first, last);
        }
        zone.compaction.cursor.store(source.0, Ordering::Relaxed);
        zone.compaction.far.store(places.pageblock.0, Ordering::Relaxed);
        self.shared.events.add(GlobalEvent::CompactMigrateScanned, run.scanned.saturating_sub(scanned));
        self.shared.events.add(GlobalEvent::CompactFreeScanned, places.scanned);
        places.scanned
    }

    /// Whether a pageblock may be moved from or to: it is movable, and not free as a whole.
    fn is_suitable(&self, zone: &Zone<M>, start: Frame) -> bool {
        let (frames, order) = (&self.shared.frames, self.shared.frames.geometry.pageblock_order);
        let pageblock = frames.pageblock(start);
        pageblock.zone() == Some(zone.idx) && is_for_movable(pageblock.migratetype()) && !self.is_free(start, order)
    }

    fn is_free(&self, start: Frame, order: Order) -> bool {
        let part = self.shared.frames.part_of(start);
        matches!(part, Part::Free(_, larger) if larger >= order)
    }

    /// Moves what can be moved out of a pageblock.
    fn empty_into(
        &self,
        zone: &Zone<M>,
        start: Frame,
        places: &mut FreeScanner,
        run: &mut Compacted,
    ) -> Result<(), MigrateError> {
        let (frames, order) = (&self.shared.frames, self.shared.frames.geometry.pageblock_order);
        if !self.is_suitable(zone, start) {
            return Ok(());
        }
        let end = start.add(order.frames());
        let mut at = start;
        while at < end {
            self.shared.machine.step(Step::Range);
            let part = frames.block_at(at).unwrap_or(Part::Hole);
            let next = part.end(at).min(end);
            run.scanned = run.scanned.saturating_add(u64::from(next.0.wrapping_sub(at.0)));
            if let Part::Allocated(head, size) = part
                && size < order
                && frames.head(head).is_movable()
            {
                match self.migrate(head, size, |size| self.place_near_end(zone, start, size, places)) {
                    Err(MigrateError::NoPlace) => return Err(MigrateError::NoPlace),
                    Err(MigrateError::Busy) => {}
                    Ok(()) => run.moved = run.moved.saturating_add(size.frames()),
                }
            }
            at = next;
        }
        Ok(())
    }

    /// The next place, behind the pageblock that is being emptied.
    fn place_near_end(&self, zone: &Zone<M>, source: Frame, order: Order, places: &mut FreeScanner) -> Option<Frame> {
        let pageblock = self.shared.frames.geometry.pageblock_order;
        while places.pageblock > source {
            if self.is_suitable(zone, places.pageblock) {
                let start = places.at;
                let found = self.place_in(zone, order, &mut places.at, places.pageblock.add(pageblock.frames()));
                places.scanned = places.scanned.saturating_add(u64::from(places.at.0.wrapping_sub(start.0)));
                if found.is_some() {
                    return found;
                }
            }
            places.pageblock = Frame(places.pageblock.0.wrapping_sub(pageblock.frames() as u32));
            places.at = places.pageblock;
        }
        None
    }
}
