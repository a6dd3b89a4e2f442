//! The oracle's memory: a record for each frame.
//!
//! It is naive on purpose: a table has each frame's use and zone, without lists, buddies or the core's descriptors.
//! Only rules are shared with the core, no methods:
//!
//! - a pageblock belongs to the node of its first memory, and other nodes' memory in it is like a hole;
//! - zone limits are rounded down to pageblocks;
//! - withheld memory is withheld in the largest aligned blocks that tile it.

use std::collections::{BTreeMap, BTreeSet};

use framewright::{Order, Pfn, PfnRange, Region, ZoneIdx, ZoneKind};

use crate::language::{Handle, Shape};

/// The use of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Free, on whatever list.
    Free,
    /// Part of an allocated block.
    Held {
        /// First frame of the block.
        head: Pfn,
        /// Its order.
        order: Order,
        /// Whether its contents can move.
        movable: bool,
        /// Its owner.
        owner: Handle,
    },
    /// Part of a block that is withheld.
    Withheld {
        /// First frame of the block.
        head: Pfn,
        /// Its order.
        order: Order,
    },
}

/// The record of a frame that is memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// The zone of its pageblock.
    pub zone: ZoneIdx,
    /// Its use.
    pub used: Use,
    /// Whether its pageblock has been of type CMA since boot.
    pub cma: bool,
}

/// A range of memory and the index of its first frame in the table.
#[derive(Clone, Copy, Debug)]
struct Span {
    range: PfnRange,
    first: usize,
}

/// A record for each frame that is memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    spans: Vec<Span>,
    frames: Vec<Known>,
    /// First frame of each zone, other zones' pageblocks included.
    begins: BTreeMap<ZoneIdx, Pfn>,
    /// Where memory may be added, and to which zone.
    possible: Vec<(PfnRange, ZoneIdx)>,
    pageblock_order: Order,
    max_order: Order,
}

impl Memory {
    /// The memory of a machine after boot.
    pub fn new(shape: &Shape) -> Memory {
        let geometry = shape.geometry;
        let (pageblock_order, max_order) = (geometry.pageblock_order, geometry.max_order);
        let mut memory = Memory { pageblock_order, max_order, ..Memory::default() };
        let mut owners: BTreeMap<u64, ZoneIdx> = BTreeMap::new();
        for (range, region, own) in pieces(shape) {
            memory.begins.entry(own).or_insert(range.start);
            if !region.present {
                memory.possible.push((range, own));
                continue;
            }
            if let Some(part) = memory.own_part(range, own, &mut owners) {
                memory.spans.push(Span { range: part, first: memory.frames.len() });
                let known = Known { zone: own, used: Use::Free, cma: false };
                memory.frames.extend((0..part.frames()).map(|_| known));
            }
            if !region.usable {
                for (head, order) in range.blocks(max_order) {
                    memory.set(PfnRange::block(head, order), Use::Withheld { head, order });
                }
            }
        }
        for range in &shape.cma {
            for region in &shape.regions {
                memory.mark_cma(region.range, *range);
            }
        }
        memory
    }

    /// The part of a piece of zone `own` that is not in another zone's pageblock.
    fn own_part(&self, piece: PfnRange, own: ZoneIdx, owners: &mut BTreeMap<u64, ZoneIdx>) -> Option<PfnRange> {
        let order = self.pageblock_order;
        // Only the first pageblock can have memory below the piece; the others are the piece's.
        let first = *owners.entry(piece.start.0 >> order.0).or_insert(own);
        for block in piece.start.0 >> order.0..=(piece.end.0 - 1) >> order.0 {
            owners.entry(block).or_insert(own);
        }
        let start = if first == own { piece.start } else { self.pageblock(piece.start).end };
        (start < piece.end).then_some(PfnRange { start, ..piece })
    }

    /// Adds memory where it may be added; returns whether it may, and none of it was there.
    ///
    /// Only whole largest blocks of one zone each are added.
    pub fn add(&mut self, range: PfnRange) -> bool {
        let order = self.max_order;
        let sections = || range.blocks(order).map(|(start, _)| PfnRange::block(start, order));
        let zone_of = |section: PfnRange| {
            let fits = self.possible.iter().find(|(possible, _)| section.intersect(*possible) == section);
            fits.filter(|_| self.known(section.start).is_none()).map(|(_, zone)| *zone)
        };
        let is_whole = !range.is_empty() && range.start.is_aligned(order) && range.end.is_aligned(order);
        if !is_whole || !sections().all(|section| zone_of(section).is_some()) {
            return false;
        }
        let added: Vec<_> = sections().filter_map(|section| Some((section, zone_of(section)?))).collect();
        for (section, zone) in added {
            let at = self.spans.partition_point(|span| span.range.start < section.start);
            self.spans.insert(at, Span { range: section, first: self.frames.len() });
            let known = Known { zone, used: Use::Free, cma: false };
            self.frames.extend((0..section.frames()).map(|_| known));
        }
        true
    }

    /// Whole pageblocks of `cma` that begin in `memory`.
    fn mark_cma(&mut self, memory: PfnRange, cma: PfnRange) {
        let blocks = memory.intersect(cma);
        for pfn in (blocks.start.0..blocks.end.0).map(Pfn) {
            let block = self.pageblock(pfn);
            let whole = cma.intersect(block) == block;
            if let Some(known) = self.known_mut(pfn) {
                known.cma = whole;
            }
        }
    }

    /// Returns the pageblock around `pfn`.
    pub fn pageblock(&self, pfn: Pfn) -> PfnRange {
        PfnRange::block(Pfn(pfn.0 & !self.pageblock_order.mask()), self.pageblock_order)
    }

    fn index(&self, pfn: Pfn) -> Option<usize> {
        let behind = self.spans.partition_point(|span| span.range.start <= pfn);
        let span = self.spans.get(behind.checked_sub(1)?)?;
        span.range.contains(pfn).then(|| span.first + (pfn.0 - span.range.start.0) as usize)
    }

    /// Returns the record of a frame; `None` if it is no memory.
    pub fn known(&self, pfn: Pfn) -> Option<&Known> {
        self.frames.get(self.index(pfn)?)
    }

    fn known_mut(&mut self, pfn: Pfn) -> Option<&mut Known> {
        let index = self.index(pfn)?;
        self.frames.get_mut(index)
    }

    /// Sets the use of the memory in `range`.
    pub fn set(&mut self, range: PfnRange, used: Use) {
        for pfn in range.start.0..range.end.0 {
            if let Some(known) = self.known_mut(Pfn(pfn)) {
                known.used = used;
            }
        }
    }

    /// Notes that the pageblock around `pfn` was given a type, so it may no longer be CMA.
    pub fn retyped(&mut self, pfn: Pfn) {
        let block = self.pageblock(pfn);
        for pfn in block.start.0..block.end.0 {
            if let Some(known) = self.known_mut(Pfn(pfn)) {
                known.cma = false;
            }
        }
    }

    /// Returns the zone of all frames of a range.
    ///
    /// `None` if it is empty, or some frame is no memory or of another zone.
    pub fn zone_of(&self, range: PfnRange) -> Option<ZoneIdx> {
        let zone = self.known(range.start)?.zone;
        if range.is_empty() || range.frames() > self.frames.len() as u64 {
            return None;
        }
        let same = |pfn| self.known(Pfn(pfn)).is_some_and(|known| known.zone == zone);
        let all = (range.start.0..range.end.0).all(same);
        all.then_some(zone)
    }

    /// Returns the first frame of a range that is not free; `None` if all are free memory.
    pub(crate) fn first_used(&self, range: PfnRange) -> Option<(Pfn, Option<Use>)> {
        let used = |pfn| (pfn, self.known(pfn).map(|known| known.used));
        (range.start.0..range.end.0).map(Pfn).map(used).find(|(_, used)| *used != Some(Use::Free))
    }

    /// Returns the memory in `range`, frame by frame.
    pub(crate) fn frames_in(&self, range: PfnRange) -> impl Iterator<Item = (Pfn, &Known)> {
        self.spans.iter().flat_map(move |span| {
            let part = span.range.intersect(range);
            (part.start.0..part.end.0).map(move |pfn| {
                let index = span.first + (pfn - span.range.start.0) as usize;
                (Pfn(pfn), &self.frames[index])
            })
        })
    }

    /// Returns all memory, frame by frame.
    pub fn all(&self) -> impl Iterator<Item = (Pfn, &Known)> {
        self.frames_in(PfnRange::new(0, u64::MAX))
    }

    /// Returns the number of frames that are memory.
    pub fn present(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Returns the largest order of a block.
    pub fn max_order(&self) -> Order {
        self.max_order
    }

    /// Returns the order of a pageblock.
    pub fn pageblock_order(&self) -> Order {
        self.pageblock_order
    }

    /// Returns the zones, and the first frame of each by address and node.
    ///
    /// That frame may lie in another zone's pageblock.
    pub fn zones(&self) -> &BTreeMap<ZoneIdx, Pfn> {
        &self.begins
    }
}

/// Returns the first frame of a pageblock.
fn whole(shape: &Shape, pfn: Pfn) -> Pfn {
    Pfn(pfn.0 & !shape.geometry.pageblock_order.mask())
}

fn kind_at(shape: &Shape, pfn: Pfn) -> ZoneKind {
    let movable = |range: &PfnRange| whole(shape, range.start) <= pfn && pfn < whole(shape, range.end);
    match pfn {
        _ if shape.movable.iter().any(movable) => ZoneKind::Movable,
        _ if pfn < whole(shape, shape.dma_end) => ZoneKind::Dma,
        _ if pfn < whole(shape, shape.dma32_end) => ZoneKind::Dma32,
        _ => ZoneKind::Normal,
    }
}

/// Returns the memory map, cut wherever a zone may begin.
///
/// Each piece has its range, the region that it is part of, and its zone by address.
fn pieces(shape: &Shape) -> Vec<(PfnRange, Region, ZoneIdx)> {
    let movable = shape.movable.iter().flat_map(|range| [range.start, range.end]);
    let cuts = movable.chain([shape.dma_end, shape.dma32_end]).map(|cut| whole(shape, cut));
    let cuts: BTreeSet<Pfn> = cuts.collect();
    let mut pieces = Vec::new();
    for region in &shape.regions {
        let mut start = region.range.start;
        let inside = cuts.iter().copied().filter(|&cut| region.range.start < cut && cut < region.range.end);
        for end in inside.chain([region.range.end]) {
            pieces.push((PfnRange { start, end }, *region, ZoneIdx::of(region.node, kind_at(shape, start))));
            start = end;
        }
    }
    pieces
}
