//! Compaction as in Linux: two scanners that move towards each other.
//!
//! | scanner | direction | what it does |
//! |---|---|---|
//! | for sources | from the zone's first pageblock up | moves the blocks in use that are movable |
//! | for places | from the zone's last pageblock down | finds free blocks to move them to |
//!
//! So memory in use gathers at the end of the zone, and free memory at its start. A run ends when there is enough, or
//! when the scanners meet; then the next run starts at both ends again. The zone stores where they stopped.
//!
//! Both scanners look only at movable pageblocks, and skip those that are wholly free. A block that the first scanner
//! empties is freed to the lists of the running CPU, as any block is. So these lists are drained after each pageblock.
//! Until then other requests may use the blocks, and a pageblock that is nearly empty may fill up again. A block that
//! cannot be moved does not stop the scanner: it moves the blocks around it.
//!
//! Cost: a run looks at each movable pageblock at most once. It drains the running CPU's lists once for each pageblock
//! from which blocks were moved.
//!
//! Left out: the hints by which Linux skips pageblocks in which it found nothing the last time, and Linux's other
//! modes. This mode is the one that kcompactd and a waiting request use. It does not stop because another CPU wants a
//! lock.

use crate::compaction::progress::Compacted;
use crate::frame::frame::Part;
use crate::range::migrate::{MigrateError, is_for_movable};
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::stat::vmstat::GlobalEvent;
use crate::types::units::{Frame, Order, Pfn};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// Position of the scanner for places.
struct FreeScanner {
    /// First frame of the pageblock.
    pageblock: Frame,
    /// The next frame in it that may begin a free block.
    at: Frame,
    scanned: u64,
}

impl<M: Machine> World<'_, M> {
    /// Returns the first frames of a zone's first and last pageblock.
    pub(crate) fn pageblocks_of(&self, zone: &Zone<M>) -> (Frame, Frame) {
        let order = self.shared.frames.geometry.pageblock_order;
        let start = |pfn| self.shared.frames.frame(pfn).unwrap_or(Frame(0)).align_down(order);
        (start(zone.span.start), start(Pfn(zone.span.end.0.saturating_sub(1))))
    }

    /// Runs the scanners until there is enough or they meet.
    ///
    /// Returns the number of frames that were looked at for places.
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
                self.see_freed(core::iter::once(zone));
                if self.is_free(source, order) {
                    run.ranges = run.ranges.saturating_add(1);
                }
            }
            if result == Err(MigrateError::NoPlace) {
                break;
            }
            source = source.add(order.frames());
        }
        // The scanners met: the next run starts at both ends.
        if source >= places.pageblock {
            (source, places.pageblock) = (first, last);
        }
        zone.compaction.cursor.store(source.0, Ordering::Relaxed);
        zone.compaction.far.store(places.pageblock.0, Ordering::Relaxed);
        self.shared.events.add(GlobalEvent::CompactMigrateScanned, run.scanned.saturating_sub(scanned));
        self.shared.events.add(GlobalEvent::CompactFreeScanned, places.scanned);
        places.scanned
    }

    /// Returns whether blocks may be moved from or to a pageblock.
    ///
    /// It must be movable, and not wholly free.
    fn is_suitable(&self, zone: &Zone<M>, start: Frame) -> bool {
        let (frames, order) = (&self.shared.frames, self.shared.frames.geometry.pageblock_order);
        let pageblock = frames.pageblock(start);
        pageblock.zone() == Some(zone.idx) && is_for_movable(pageblock.migratetype()) && !self.is_free(start, order)
    }

    fn is_free(&self, start: Frame, order: Order) -> bool {
        let part = self.shared.frames.part_of(start);
        matches!(part, Part::Free(_, larger) if larger >= order)
    }

    /// Moves the movable blocks out of a pageblock.
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

    /// Allocates the next place above the pageblock that is being emptied.
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
