//! Free page reporting: which free blocks nobody was told of yet (Linux: `mm/page_reporting.c`).
//!
//! A host that backs this memory wants to know which of it is free, to take its own memory back. A bit of a free
//! block's state says that the block was reported. The bit ends with the block: an allocation, a split or a merge
//! clears it. So a pass over the free lists finds what became free since the last one.
//!
//! A pass takes blocks off their lists, a few in each lock section. Meanwhile they are allocated blocks that are being
//! freed: no request gets them, no other call can free them, and every count is right at any moment. Afterwards they
//! are freed with the mark, at the back of their list, where requests find them last. A block that merges as it is
//! freed gets no mark: a part of the result was not reported.
//!
//! A pass holds at most 1/[`SHARE`] of a zone's free memory at a time, or one block. Requests get the rest meanwhile.
//!
//! Blocks that have the mark are moved to the back as the pass meets them. So each is met once in a pass, and a lock
//! section never walks a list.
//!
//! Cost: per reported block, two lock sections shared with 31 others, and one visit of each block reported before.
//!
//! Rejected: a list of unreported blocks. Each free would touch one more link.

use crate::buddy::buddy::Place;
use crate::frame::head::Head;
use crate::policy::watermark::{AllocFlags, Mark};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::vmstat::ZoneEvent;
use crate::types::counts::BlockCount;
use crate::types::migratetype::{ListId, MigrateType};
use crate::types::units::{Order, Pfn};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// Blocks that are visited in one lock section.
const VISITS: u32 = 64;

/// Part of a zone's free memory that a pass may hold.
///
/// Linux takes as much of a list in one cycle (`PAGE_REPORTING_CAPACITY * 16` in `page_reporting_cycle`).
const SHARE: u64 = 16;

/// Returns whether a block of this order makes too much of a zone's memory held.
fn is_much<M: Machine>(zone: &Zone<M>, held: u64, order: Order) -> bool {
    let free = zone.stat.free().load(Ordering::Relaxed).saturating_add(held);
    held.saturating_add(order.frames()) > free / SHARE
}

/// Place of a pass: a zone, one of its lists, and how much of that list is to be visited.
#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    /// Number of the zone.
    zone: usize,
    order: Order,
    /// Number of the type; those above the last one mean the next order.
    migratetype: usize,
    /// Blocks of the list that the pass has not visited; none before its first visit.
    ///
    /// A visited block is at the back of its list or allocated, so this many visits end at the first one's block.
    left: Option<BlockCount>,
    /// The smallest order that is reported.
    least: Order,
    /// The largest order that there is.
    most: Order,
}

impl Cursor {
    /// Returns the start of a pass over blocks of orders `least` to `most`.
    pub(crate) const fn start(least: Order, most: Order) -> Cursor {
        Cursor { zone: 0, order: most, migratetype: 0, left: None, least, most }
    }

    /// Returns the list, after skipping what is not reported; none at the zone's end.
    fn list(&mut self) -> Option<ListId> {
        loop {
            match MigrateType::ALL.get(self.migratetype) {
                Some(MigrateType::Isolate) => self.next_list(),
                Some(&migratetype) => return Some(ListId { order: self.order, migratetype }),
                None if self.order <= self.least => return None,
                None => (self.order, self.migratetype) = (self.order.down(), 0),
            }
        }
    }

    fn next_list(&mut self) {
        (self.migratetype, self.left) = (self.migratetype.saturating_add(1), None);
    }

    fn next_zone(&mut self) {
        *self = Cursor { zone: self.zone.saturating_add(1), ..Cursor::start(self.least, self.most) };
    }
}

impl<'a, M: Machine> World<'a, M> {
    /// Allocates unreported blocks and passes each to `take`; returns false once the pass has no zone left.
    ///
    /// One lock section of the cursor's zone. It ends early once `take` returns that it has no room for more.
    pub(crate) fn take_unreported(&self, cursor: &mut Cursor, mut take: impl FnMut(Pfn, Order) -> bool) -> bool {
        let Some(zone) = self.zones.get(cursor.zone) else { return false };
        let frames = &self.shared.frames;
        let is_done = self.pinned(|cx| {
            let guard = zone.lock(cx);
            let buddy = guard.buddy();
            let mut held = 0_u64;
            for _ in 0..VISITS {
                let Some(list) = cursor.list() else { return true };
                let left = cursor.left.unwrap_or(zone.lists.len_racy(list.order, list.migratetype));
                let first = zone.lists.first(list.order, list.migratetype);
                let Some(frame) = first.filter(|_| !left.is_zero()) else {
                    cursor.next_list();
                    continue;
                };
                let after = Some(BlockCount(left.0.saturating_sub(1)));
                if frames.state(frame).is_reported() {
                    cursor.left = after;
                    if buddy.move_to_back(frame, list).is_err() {
                        cursor.next_list();
                    }
                    continue;
                }
                guard.account();
                let may_report = self.may_report(zone, list);
                if held != 0 && (!may_report || is_much(zone, held, list.order)) {
                    return false;
                }
                if !may_report || buddy.remove(frame, list.order, list.migratetype).is_err() {
                    cursor.next_list();
                    continue;
                }
                cursor.left = after;
                frames.set_head(frame, Head::going(list.order));
                self.count_range(cx, zone, list.order.frames());
                held = held.saturating_add(list.order.frames());
                if !take(frames.pfn(frame), list.order) {
                    break;
                }
            }
            false
        });
        match is_done {
            Some(true) => cursor.next_zone(),
            Some(false) => {}
            None => return false,
        }
        true
    }

    /// Returns whether a zone stays above its low mark without a block of this list.
    ///
    /// CMA memory and the high-atomic reserve do not stand for other memory.
    fn may_report(&self, zone: &Zone<M>, list: ListId) -> bool {
        let flags = AllocFlags {
            mark: Mark::Low,
            no_watermarks: false,
            high: false,
            harder: false,
            highatomic: list.migratetype == MigrateType::HighAtomic,
            cma: list.migratetype == MigrateType::Cma,
            nofragment: false,
            stall: false,
            unboosted: false,
        };
        zone.may_take_racy(&self.shared, list.order, zone.idx.kind(), flags)
    }

    /// Frees blocks of one call of [`World::take_unreported`], with the mark if they were reported.
    ///
    /// One lock section: they are of one zone.
    pub(crate) fn give_reported(&self, blocks: &[(Pfn, Order)], are_reported: bool) {
        let frames = &self.shared.frames;
        let first = blocks.first().and_then(|&(pfn, _)| frames.frame(pfn));
        let Some(zone) = first.and_then(|frame| self.zone_of(frame)) else { return };
        self.pinned(|cx| {
            let guard = zone.lock(cx);
            let mut freed = 0_u64;
            for &(pfn, order) in blocks {
                let Some(frame) = frames.frame(pfn) else { continue };
                frames.set_head(frame, Head::NONE);
                if are_reported {
                    guard.buddy().free_reported(frame, order);
                } else {
                    // At the back, so that this pass does not meet it again.
                    guard.free(frame, order, Place::Last);
                }
                freed = freed.saturating_add(order.frames());
            }
            if let Some(own) = self.pcps.record(cx.cpu, zone.idx.index()) {
                own.aside.count(ZoneEvent::FreeFrames, freed);
            }
        });
    }
}
