//! Whether a request could be served if all caches were empty and all free memory merged.
//!
//! The promise: no request fails while frames that it may use under its watermark lie free, wherever they are cached.
//! The oracle knows whether each frame is held, and nothing of lists. So it imagines a zone with every cache empty and
//! all free memory merged. It asks how many frames are free there, and whether an aligned block of the request's order
//! is.
//!
//! The allocator's reports give the marks and the type of each pageblock.

use framewright::machine::Machine;
use framewright::report::{Source, ZoneSnapshot};
use framewright::request::{__GFP_ATOMIC, __GFP_HIGH, __GFP_MEMALLOC, __GFP_NOMEMALLOC};
use framewright::{Gfp, MigrateType, Order, Pfn, PfnRange, ZoneIdx};

use crate::language::zones;
use crate::oracle::memory::Use;
use crate::oracle::rights::Judge;

/// The kind of call, which decides the lowest watermark of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    /// `alloc` and `alloc_bulk`: the whole ladder.
    Ordinary,
    /// `alloc_nolock`: the min mark, whatever the flags say.
    Nolock,
}

impl<M: Machine> Judge<'_, '_, M> {
    /// Returns a zone that could serve the request, with all caches empty and all memory merged.
    pub(crate) fn within_reach(&self, call: Call) -> Option<ZoneIdx> {
        let (_, must) = self.nodes();
        let highest = self.request.gfp.highest_zone();
        zones(self.pages.nodes()).find(|&idx| {
            let allowed = idx.kind() <= highest && must.contains(idx.node());
            let zone = self.pages.zone(idx).filter(|zone| allowed && zone.is_populated());
            zone.is_some_and(|zone| self.reaches(idx, &zone, call))
        })
    }

    fn reaches(&self, idx: ZoneIdx, zone: &ZoneSnapshot, call: Call) -> bool {
        let gfp = self.request.gfp;
        let span = PfnRange { start: zone.start_pfn, end: zone.start_pfn.add(zone.spanned) };
        let is_split = self.request.below.is_some_and(|limit| limit < span.end);
        if is_split && (call == Call::Nolock || self.keeps_apart()) {
            // `alloc_nolock` leaves such zones out.
            return false;
        }
        let unusable = self.request.order.frames() - 1;
        let marked = ignores_marks(gfp, call) || {
            let keep = mark(zone.min, gfp, call).saturating_add(zone.protection[gfp.highest_zone().index()]);
            (self.open_frames(idx, span).count() as u64).saturating_sub(unusable) > keep
        };
        marked && self.has_room_for_block(idx, span)
    }

    /// Returns the free frames of a zone that the request may take.
    fn open_frames(&self, idx: ZoneIdx, span: PfnRange) -> impl Iterator<Item = Pfn> {
        let frames = self.memory.frames_in(span);
        let free = frames.filter(move |(_, known)| known.zone == idx && known.used == Use::Free);
        free.map(|(pfn, _)| pfn).filter(|pfn| self.is_open(*pfn))
    }

    /// Returns whether the request may take free frames of the pageblock around `pfn`.
    fn is_open(&self, pfn: Pfn) -> bool {
        match self.pages.pageblock_type(pfn) {
            Some(MigrateType::Cma) => self.request.gfp.migratetype() == MigrateType::Movable,
            Some(MigrateType::HighAtomic) => self.uses_highatomic(),
            Some(migratetype) => migratetype.is_mergeable(),
            None => false,
        }
    }

    /// Returns whether the zone has a free aligned block, of pageblocks of one type.
    fn has_room_for_block(&self, idx: ZoneIdx, span: PfnRange) -> bool {
        let limit = self.request.below.unwrap_or(Pfn(u64::MAX));
        let pageblock_order = self.memory.pageblock_order();
        let own = self.request.gfp.migratetype();
        self.open_frames(idx, span).any(|start| {
            // Of another mobility, a request may be limited to whole pageblocks.
            let is_kept = self.keeps_apart() && self.pages.pageblock_type(start) != Some(own);
            let order = if is_kept { self.request.order.max(pageblock_order) } else { self.request.order };
            start.is_aligned(order) && start.add(order.frames()) <= limit && self.is_free_block(idx, start, order)
        })
    }

    fn is_free_block(&self, idx: ZoneIdx, start: Pfn, order: Order) -> bool {
        let migratetype = self.pages.pageblock_type(start);
        (start.0..start.0 + order.frames()).map(Pfn).all(|pfn| {
            let known = self.memory.known(pfn);
            known.is_some_and(|known| known.zone == idx && known.used == Use::Free)
                && self.pages.pageblock_type(pfn) == migratetype
        })
    }
}

/// Returns the frames that must stay free for a request that has tried everything else.
///
/// `min` is the zone's min mark.
pub fn lowest_mark(min: u64, gfp: Gfp) -> u64 {
    if ignores_marks(gfp, Call::Ordinary) { 0 } else { mark(min, gfp, Call::Ordinary) }
}

/// Returns whether a request may go below every mark (`ALLOC_NO_WATERMARKS`).
fn ignores_marks(gfp: Gfp, call: Call) -> bool {
    call == Call::Ordinary && gfp.contains(__GFP_MEMALLOC) && !gfp.contains(__GFP_NOMEMALLOC)
}

/// Returns the lowest mark of a request that has tried everything else.
///
/// It is the min mark, less what the flags give (`ALLOC_HIGH`, `ALLOC_HARDER`).
fn mark(min: u64, gfp: Gfp, call: Call) -> u64 {
    if call == Call::Nolock {
        return min;
    }
    let keep = if gfp.contains(__GFP_HIGH) { min - min / 2 } else { min };
    let harder = gfp.contains(__GFP_ATOMIC) && !gfp.contains(__GFP_NOMEMALLOC);
    if harder { keep - keep / 4 } else { keep }
}
