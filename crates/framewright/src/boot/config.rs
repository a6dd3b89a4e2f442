//! Configuration: the memory map, the CPUs, and the sizes that follow from them.
//!
//! A region is cut into zones by address. The first row that applies decides:
//!
//! | address | zone |
//! |---|---|
//! | inside a movable range | Movable |
//! | below `dma_end` | DMA |
//! | below `dma32_end` | DMA32 |
//! | otherwise | Normal |
//!
//! From the zones' sizes follow their watermarks, reserves and per-CPU lists, by Linux's formulas (`watermark.rs`)
//! unless a [`Tuning`] says otherwise. From all of these follows the size of the descriptors (`layout.rs`).
//!
//! Memory that is in use at boot is described in three ways. A region of its own ([`Region::reserved`]) is what
//! firmware's map says. A range in [`Config::reserved`] lies over the regions, as in Linux's memblock. The sizes of the
//! descriptors do not depend on such ranges. So a kernel can ask for the layout first, choose a place for the
//! descriptors, and reserve that place afterwards. A range in [`Config::allocated`] is in use too, and its owner will
//! free it.

use crate::frame::frame::Geometry;
use crate::policy::mechanisms::Mechanisms;
use crate::policy::watermark::{Marks, Tuning, lowmem_reserve, min_free_kbytes};
use crate::types::units::{NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};

/// A range of memory on one node.
///
/// It is laid out as a structure of C, so that a kernel in C can write the map.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its frames.
    pub range: PfnRange,
    /// Its node.
    pub node: NodeId,
    /// Whether the allocator may allocate from it.
    ///
    /// Memory that is not usable is present but withheld, until [`crate::Allocator::bring_online`].
    pub usable: bool,
    /// Whether the memory is there at boot.
    ///
    /// Memory that is not has descriptors, and may be added later ([`crate::Allocator::add_memory`]).
    pub present: bool,
}

impl Region {
    /// Returns usable memory: the frames from `start` to `end`, exclusive, on `node`.
    pub const fn usable(start: u64, end: u64, node: u8) -> Region {
        Region { range: PfnRange::new(start, end), node: NodeId(node), usable: true, present: true }
    }

    /// Returns memory that is in use otherwise: firmware, the kernel's image, the descriptors themselves.
    pub const fn reserved(start: u64, end: u64, node: u8) -> Region {
        Region { usable: false, ..Region::usable(start, end, node) }
    }

    /// Returns address space where memory may be added after boot, in whole largest blocks.
    pub const fn possible(start: u64, end: u64, node: u8) -> Region {
        Region { present: false, ..Region::reserved(start, end, node) }
    }
}

/// When sections of memory are put on the free lists.
///
/// A section has the size of the largest block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SectionInit {
    /// At boot up to 1,024 sections of memory (4 GiB on x86-64), else when they are used.
    #[default]
    BySize,
    /// All at boot.
    AtBoot,
    /// Each when it is first used, or by [`crate::Allocator::init_section`].
    WhenUsed,
}

/// Most sections that [`SectionInit::BySize`] initialises at boot.
///
/// They take about 40 ms if their descriptors are not resident.
const SECTIONS_AT_BOOT: u64 = 1 << 10;

/// Memory and CPUs that the allocator manages.
#[derive(Clone, Copy, Debug)]
pub struct Config<'c> {
    /// The memory map: ascending, not overlapping.
    pub regions: &'c [Region],
    /// Frames in use at boot: the kernel's image, the descriptors themselves. In any order; they may overlap.
    ///
    /// They are withheld, as frames of a region that is not usable are. Frames in holes are ignored.
    pub reserved: &'c [PfnRange],
    /// Usable frames that are allocated at boot: their owners free them later, whole or in parts.
    ///
    /// Freed as any allocated frames ([`crate::Allocator::free_range`]), and managed memory meanwhile. In any order;
    /// they may overlap. Frames that are reserved too, or not usable, are withheld. `pgalloc` counts them, no request.
    pub allocated: &'c [PfnRange],
    /// The node of each CPU.
    pub cpus: &'c [NodeId],
    /// Contexts of each CPU that call the allocator and have CPU records of their own; at least 1.
    ///
    /// For example 2, where interrupts are kept apart ([`crate::Machine::keeps_interrupts_apart`]). Context `c` of CPU
    /// `i` has the number `c * cpus.len() + i` ([`crate::Machine::pin`]). The sizes of lists follow from `cpus` alone.
    pub contexts: usize,
    /// Distances between nodes, row by row (`nodes * nodes`); empty: all others are equally far.
    pub distances: &'c [u8],
    /// Page size and largest orders.
    pub geometry: Geometry,
    /// First frame above zone DMA; rounded down to a pageblock ([`Config::lost_zone`]).
    pub dma_end: Pfn,
    /// First frame above zone DMA32; rounded down to a pageblock ([`Config::lost_zone`]).
    pub dma32_end: Pfn,
    /// Memory kept for movable requests, as zone Movable; both ends rounded down to a pageblock.
    pub movable: &'c [PfnRange],
    /// Pageblocks kept for large contiguous requests and lent to movable ones; whole pageblocks.
    pub cma: &'c [PfnRange],
    /// `min_free_kbytes`; none for Linux's formula.
    pub min_free_kbytes: Option<u64>,
    /// Gap between watermarks in ten-thousandths of the zone.
    pub watermark_scale_factor: u64,
    /// Zones with sizes of their own.
    pub tuning: &'c [Tuning],
    /// The mechanisms that are on.
    pub mechanisms: Mechanisms,
    /// When sections are put on the free lists.
    ///
    /// At boot in any case where `hardened` fills freed memory and the machine's memory does not start zeroed.
    pub section_init: SectionInit,
    /// Whether `states`, `links`, `heads` and `pageblocks` of [`crate::Parts`] are zeroed; if not, boot zeroes them.
    ///
    /// It leaves the states and links of sections that are initialised when used.
    pub is_zeroed: bool,
    /// Names of the embedder's counters in each zone, in zoneinfo's order; at most 14.
    pub zone_counters: &'static [&'static str],
    /// Names of the embedder's counters in each node, in zoneinfo's order; at most 48.
    pub node_counters: &'static [&'static str],
}

impl<'c> Config<'c> {
    /// Returns x86-64's choices for everything but memory and CPUs.
    ///
    /// 4 KiB pages, blocks of up to 4 MiB, pageblocks of 2 MiB.
    pub const fn new(regions: &'c [Region], cpus: &'c [NodeId]) -> Config<'c> {
        Config {
            regions,
            reserved: &[],
            allocated: &[],
            cpus,
            contexts: 1,
            distances: &[],
            geometry: Geometry { page_shift: 12, max_order: Order(10), pageblock_order: Order(9) },
            dma_end: Pfn(0x1000),
            dma32_end: Pfn(0x10_0000),
            movable: &[],
            cma: &[],
            min_free_kbytes: None,
            watermark_scale_factor: 10,
            tuning: &[],
            mechanisms: Mechanisms::DEFAULT,
            section_init: SectionInit::BySize,
            is_zeroed: true,
            zone_counters: &[],
            node_counters: &[],
        }
    }

    /// Returns whether boot may leave sections uninitialised.
    pub(crate) fn is_lazy(&self) -> bool {
        match self.section_init {
            SectionInit::AtBoot => false,
            SectionInit::WhenUsed => true,
            SectionInit::BySize => Runs::of(self).sections() > SECTIONS_AT_BOOT,
        }
    }

    /// Returns whether memory may be added after boot.
    pub(crate) fn may_grow(&self) -> bool {
        self.regions.iter().any(|region| !region.present)
    }

    /// Returns whether a block has memory of the type CMA.
    pub(crate) fn has_cma(&self, block: PfnRange) -> bool {
        self.cma.iter().any(|range| !range.intersect(block).is_empty())
    }

    /// Returns the nodes of memory and CPUs, each as often as it is named.
    pub(crate) fn named_nodes(&self) -> impl Iterator<Item = NodeId> + use<'c> {
        self.regions.iter().map(|region| region.node).chain(self.cpus.iter().copied())
    }

    /// Calls `visit` with the pieces of the memory map, which is cut at zone boundaries.
    // Not generic, so that its code exists once.
    pub(crate) fn each_piece(&self, visit: &mut dyn FnMut(Piece)) {
        for &Region { range, node, usable, present } in self.regions {
            let mut start = range.start;
            while start < range.end {
                let end = self.boundary_behind(start).min(range.end);
                let zone = ZoneIdx::of(node, self.kind_at(start));
                let reserved = usable && has(self.reserved, start);
                let usable = usable && !reserved;
                let allocated = usable && has(self.allocated, start);
                visit(Piece { range: PfnRange { start, end }, zone, usable, present, reserved, allocated });
                start = end;
            }
        }
    }

    /// Returns the kind of zone at a frame.
    ///
    /// Limits are rounded down to pageblocks, so that no pageblock has frames of two kinds. Memory below a limit may
    /// always count as memory above it, but not the reverse.
    fn kind_at(&self, pfn: Pfn) -> ZoneKind {
        if self.movable.iter().any(|&range| self.whole(range).contains(pfn)) {
            ZoneKind::Movable
        } else if pfn < self.limit(self.dma_end) {
            ZoneKind::Dma
        } else if pfn < self.limit(self.dma32_end) {
            ZoneKind::Dma32
        } else {
            ZoneKind::Normal
        }
    }

    /// Returns a zone that loses all its memory because its limit is rounded down, and the limit.
    ///
    /// The limit lies inside the zone's first pageblock. The memory is in the next zone, so requests for this zone
    /// (`__GFP_DMA`) find none. Boot allows it, because 64 KiB pages have pageblocks larger than x86-64's zone DMA; a
    /// kernel says so in its boot report.
    pub fn lost_zone(&self) -> Option<(ZoneKind, Pfn)> {
        let has_memory = |start: Pfn, end: Pfn| {
            self.regions.iter().any(|region| !region.range.intersect(PfnRange { start, end }).is_empty())
        };
        let mut start = Pfn(0);
        for (kind, end) in [(ZoneKind::Dma, self.dma_end), (ZoneKind::Dma32, self.dma32_end)] {
            if has_memory(start, end) && !has_memory(self.limit(start), self.limit(end)) {
                return Some((kind, end));
            }
            start = end;
        }
        None
    }

    fn limit(&self, pfn: Pfn) -> Pfn {
        pfn.align_down(self.geometry.pageblock_order)
    }

    fn whole(&self, range: PfnRange) -> PfnRange {
        PfnRange { start: self.limit(range.start), end: self.limit(range.end) }
    }

    fn boundary_behind(&self, pfn: Pfn) -> Pfn {
        let pageblock = self.geometry.pageblock_order;
        let limits = [PfnRange { start: self.dma_end, end: self.dma32_end }];
        let next = end_behind(pfn, Pfn(u64::MAX), &limits, pageblock);
        let next = end_behind(pfn, next, self.movable, pageblock);
        let next = end_behind(pfn, next, self.reserved, Order(0));
        end_behind(pfn, next, self.allocated, Order(0))
    }

    /// Returns the sizes of a zone: span, present and managed frames.
    ///
    /// Memory that may be added counts as present.
    pub(crate) fn size_of(&self, zone: ZoneIdx) -> ZoneSize {
        let mut size = ZoneSize::default();
        self.each_piece(&mut |piece| {
            if piece.zone != zone {
                return;
            }
            size.span = if size.present == 0 {
                piece.range
            } else {
                PfnRange { start: size.span.start.min(piece.range.start), end: size.span.end.max(piece.range.end) }
            };
            size.present = size.present.saturating_add(piece.range.frames());
            let counter = match piece {
                Piece { usable: true, .. } => &mut size.managed,
                Piece { reserved: true, .. } => &mut size.reserved,
                Piece { present: false, .. } => &mut size.possible,
                _ => return,
            };
            *counter = counter.saturating_add(piece.range.frames());
        });
        size
    }

    pub(crate) fn tuning_of(&self, zone: ZoneIdx) -> Option<&'c Tuning> {
        self.tuning.iter().find(|tuning| tuning.zone == zone)
    }

    /// Returns the frames to keep free of `managed`, to be shared out among the zones.
    pub(crate) fn min_free_frames(&self, managed: u64) -> u64 {
        let shift = u32::from(self.geometry.page_shift);
        let kib_of = |frames: u64| if shift >= 10 { frames << (shift - 10) } else { frames >> (10 - shift) };
        let frames_of =
            |kib: u64| if shift >= 10 { kib >> (shift - 10) } else { kib.saturating_mul(1 << (10 - shift)) };
        frames_of(self.min_free_kbytes.unwrap_or_else(|| min_free_kbytes(kib_of(managed))))
    }

    /// Returns the marks of a zone that has `managed` of all `total` frames that requests can get.
    pub(crate) fn marks_of(&self, zone: ZoneIdx, managed: u64, total: u64) -> Marks {
        let scale = self.watermark_scale_factor;
        let computed = || Marks::compute(self.min_free_frames(total), managed, total, scale);
        self.tuning_of(zone).and_then(|tuning| tuning.marks).unwrap_or_else(computed)
    }

    /// Returns the CPUs that share a zone's memory.
    ///
    /// Those of its node, or all if it has none.
    pub(crate) fn cpus_at(&self, zone: ZoneIdx) -> u64 {
        let here = self.cpus.iter().filter(|&&node| node == zone.node()).count();
        if here == 0 { self.cpus.len() as u64 } else { here as u64 }
    }

    /// Returns the frames that `zone` keeps from requests, by their highest zone kind.
    pub(crate) fn reserve_of(&self, zone: ZoneIdx) -> [u64; ZoneKind::COUNT] {
        let computed = || {
            let mut above = 0_u64;
            ZoneKind::ALL.map(|kind| {
                if kind <= zone.kind() {
                    return 0;
                }
                above = above.saturating_add(self.size_of(ZoneIdx::of(zone.node(), kind)).managed);
                lowmem_reserve(zone.kind(), above)
            })
        };
        self.tuning_of(zone).and_then(|tuning| tuning.reserve).unwrap_or_else(computed)
    }
}

/// Returns the first end of a range above `pfn`, rounded down to an order; `next` if that is lower.
// Out of line, for size.
#[inline(never)]
fn end_behind(pfn: Pfn, mut next: Pfn, ranges: &[PfnRange], order: Order) -> Pfn {
    for range in ranges {
        for end in [range.start.align_down(order), range.end.align_down(order)] {
            if end > pfn && end < next {
                next = end;
            }
        }
    }
    next
}

/// Returns whether a frame is in one of the ranges.
// Out of line, for size.
#[inline(never)]
fn has(ranges: &[PfnRange], pfn: Pfn) -> bool {
    ranges.iter().any(|range| range.contains(pfn))
}

/// A part of the map that lies in one zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) range: PfnRange,
    pub(crate) zone: ZoneIdx,
    pub(crate) usable: bool,
    pub(crate) present: bool,
    /// Whether the region is usable, and [`Config::reserved`] withholds this piece.
    pub(crate) reserved: bool,
    /// Whether it is usable, and [`Config::allocated`] names it.
    pub(crate) allocated: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ZoneSize {
    pub(crate) span: PfnRange,
    pub(crate) present: u64,
    pub(crate) managed: u64,
    /// Frames of usable regions that [`Config::reserved`] withholds.
    pub(crate) reserved: u64,
    /// Frames that may be added.
    pub(crate) possible: u64,
}

impl ZoneSize {
    /// Returns the frames for which per-CPU lists are made.
    ///
    /// Reserved frames count, so that the layout does not depend on them. A zone without memory is expected to get all
    /// that may come.
    pub(crate) fn expected(self) -> u64 {
        let usable = self.managed.saturating_add(self.reserved);
        if usable == 0 { self.possible } else { usable }
    }
}

/// The runs of consecutive sections with memory, ascending.
///
/// Each item is the first section of a run, and the one after its last.
#[derive(Clone, Copy)]
pub(crate) struct Runs<'c> {
    regions: &'c [Region],
    shift: u8,
}

impl<'c> Runs<'c> {
    pub(crate) fn of(config: &Config<'c>) -> Runs<'c> {
        Runs { regions: config.regions, shift: config.geometry.max_order.0 }
    }

    fn sections_of(&self, region: &Region) -> (u64, u64) {
        let last = region.range.end.0.saturating_sub(1) >> self.shift;
        (region.range.start.0 >> self.shift, last.saturating_add(1))
    }

    /// Returns the number of sections with memory.
    pub(crate) fn sections(self) -> u64 {
        self.map(|(start, end)| end.saturating_sub(start)).fold(0, u64::saturating_add)
    }

    /// Returns the frames from the first section's start to the last section's end.
    pub(crate) fn span(&self) -> u64 {
        let first = self.regions.first().map_or(0, |region| self.sections_of(region).0);
        let end = self.regions.last().map_or(0, |region| self.sections_of(region).1);
        end.saturating_sub(first) << self.shift
    }
}

impl Iterator for Runs<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let (first, mut rest) = self.regions.split_first()?;
        let (start, mut end) = self.sections_of(first);
        while let Some((next, more)) = rest.split_first().filter(|(next, _)| self.sections_of(next).0 <= end) {
            (end, rest) = (self.sections_of(next).1, more);
        }
        self.regions = rest;
        Some((start, end))
    }
}
