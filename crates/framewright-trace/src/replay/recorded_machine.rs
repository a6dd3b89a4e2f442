//! The recorded machine: its memory map, zones and initial state, as far as they were recorded.
//!
//! | recorded | memory map |
//! |---|---|
//! | `kpageflags` | exact: a frame is a hole, reserved, free or in use |
//! | `zoneinfo` alone | in each zone the frames that events name, then others from its start up to its number |
//! | neither | one zone, from the lowest to the highest frame that events name |
//!
//! Types of pageblocks are recorded only as numbers per zone. They are assigned by evidence: first to pageblocks that
//! first served an unmovable or reclaimable request, then to those with most frames in use that are on no LRU list.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;
use framewright::config::{Config, Region, SectionInit};
use framewright::units::{MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::watermark::{Marks, PcpSize, Tuning};

use super::first_pass::FirstPass;
use super::frame_span::Span;
use super::replay_error::ReplayError;
use super::zone_map::{ZoneMap, populated, reserve_of};
use crate::proc::{KPageFlags, ZoneInfo, ZoneState, flag};

/// The use of a frame when recording began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FrameUse {
    Hole,
    Reserved,
    Free,
    Used { movable: bool },
}

/// The machine, as an allocator for it needs it.
pub(crate) struct RecordedMachine {
    pub(crate) regions: Vec<Region>,
    pub(super) cpus: Vec<NodeId>,
    pub(super) tuning: Vec<Tuning>,
    pub(super) movable: Vec<PfnRange>,
    pub(crate) max_order: Order,
    pub(crate) pageblock_order: Order,
    pub(super) dma_end: Pfn,
    pub(super) dma32_end: Pfn,
    span: Span,
    pub(crate) zones: ZoneMap,
    uses: Vec<FrameUse>,
    /// Types of pageblocks other than movable.
    pub(super) types: Vec<(Pfn, MigrateType)>,
    /// The recorded part of the initial state.
    pub(super) knowledge: Knowledge,
}

/// The recorded part of the initial state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knowledge {
    /// Every frame.
    Frames,
    /// The zones.
    Zones,
    /// Nothing: frames that no event shows in use count as free.
    Nothing,
}

impl RecordedMachine {
    /// The most pieces of memory and holes in a map. Real ones have hundreds.
    const REGION_LIMIT: usize = 1 << 18;

    /// # Errors
    /// The memory map is in too many pieces.
    pub(super) fn new(first_pass: &FirstPass) -> Result<RecordedMachine, ReplayError> {
        let zones = first_pass.initial.zoneinfo.as_ref();
        let uses = uses(first_pass);
        let regions = regions(first_pass, zones, &uses);
        if regions.len() > RecordedMachine::REGION_LIMIT {
            return Err(ReplayError::Scattered { file: first_pass.name.clone(), limit: RecordedMachine::REGION_LIMIT });
        }
        let movable = zones.into_iter().flat_map(populated).enumerate();
        let movable = movable.filter(|(_, zone)| zone.zone_kind() == Some(ZoneKind::Movable));
        Ok(RecordedMachine {
            regions,
            cpus: first_pass.cpus.clone(),
            tuning: zones.map(|zones| tuning(zones, &first_pass.zones)).unwrap_or_default(),
            movable: movable.flat_map(|(zone, _)| first_pass.zones.of_zone(zone)).collect(),
            max_order: first_pass.max_order,
            pageblock_order: first_pass.pageblock_order,
            dma_end: zones.map_or(Pfn(0), |zones| end_of(zones, ZoneKind::Dma)),
            dma32_end: zones.map_or(Pfn(0), |zones| end_of(zones, ZoneKind::Dma32)),
            types: zones.map(|zones| types(first_pass, zones, &uses)).unwrap_or_default(),
            span: first_pass.span.clone(),
            zones: first_pass.zones.clone(),
            uses,
            knowledge: match (&first_pass.initial.kpageflags, zones) {
                (Some(_), _) => Knowledge::Frames,
                (None, Some(_)) => Knowledge::Zones,
                (None, None) => Knowledge::Nothing,
            },
        })
    }

    /// Frames in use when recording began, and whether they could be moved.
    pub(crate) fn used(&self) -> impl Iterator<Item = (Pfn, bool)> {
        self.uses.iter().enumerate().filter_map(|(index, class)| match class {
            FrameUse::Used { movable } => Some((self.span.pfn(index), *movable)),
            _ => None,
        })
    }

    /// The first frame of a pageblock's memory, and its zone; none if it is a hole.
    pub(crate) fn memory_in(&self, pageblock: Pfn) -> Option<(Pfn, ZoneIdx)> {
        let block = PfnRange::block(pageblock, self.pageblock_order);
        let next = self.regions.partition_point(|region| region.range.end <= block.start);
        let region = self.regions.get(next).filter(|region| region.range.start < block.end)?;
        let first = region.range.start.max(block.start);
        Some((first, ZoneIdx::of(region.node, self.kind_at(first))))
    }

    /// The kind of zone that a frame belongs to.
    pub(super) fn kind_at(&self, pfn: Pfn) -> ZoneKind {
        if self.movable.iter().any(|range| range.contains(pfn)) {
            ZoneKind::Movable
        } else if pfn < self.dma_end {
            ZoneKind::Dma
        } else if pfn < self.dma32_end {
            ZoneKind::Dma32
        } else {
            ZoneKind::Normal
        }
    }

    pub(super) fn config(&self) -> Config<'_> {
        let mut config = Config::new(&self.regions, &self.cpus);
        config.section_init = SectionInit::AtBoot;
        config.geometry.max_order = self.max_order;
        config.geometry.pageblock_order = self.pageblock_order;
        config.dma_end = self.dma_end;
        config.dma32_end = self.dma32_end;
        config.movable = &self.movable;
        config.tuning = &self.tuning;
        config
    }
}

/// The use of each frame of the span.
fn uses(first_pass: &FirstPass) -> Vec<FrameUse> {
    let span = &first_pass.span;
    let mut uses: Vec<FrameUse> = match (&first_pass.initial.kpageflags, &first_pass.initial.zoneinfo) {
        (Some(flags), _) => from_flags(first_pass, flags),
        (None, Some(zones)) => from_zones(first_pass, zones),
        (None, None) => {
            // The span is rounded to large steps; frames far from all events are no memory.
            let mut uses = vec![FrameUse::Hole; span.len()];
            let range = PfnRange {
                start: first_pass.named.start.align_down(first_pass.max_order),
                end: first_pass.named.end.align_up(first_pass.max_order),
            };
            uses[span.positions(range)].fill(FrameUse::Free);
            uses
        }
    };
    // The evidence of events is certain.
    for index in first_pass.was_free.ones() {
        uses[index] = FrameUse::Free;
    }
    for index in first_pass.was_used.ones() {
        if !matches!(uses[index], FrameUse::Used { .. }) {
            uses[index] = FrameUse::Used { movable: false };
        }
    }
    uses
}

fn from_flags(first_pass: &FirstPass, flags: &KPageFlags) -> Vec<FrameUse> {
    let span = &first_pass.span;
    let mut uses = vec![FrameUse::Hole; span.len()];
    for (range, flags) in flags.runs() {
        let class = if flags & (flag::NOPAGE | flag::OFFLINE) != 0 {
            FrameUse::Hole
        } else if flags & flag::RESERVED != 0 {
            FrameUse::Reserved
        } else if flags & flag::BUDDY != 0 {
            FrameUse::Free
        } else {
            FrameUse::Used { movable: flags & (flag::LRU | flag::ANON) != 0 }
        };
        uses[span.positions(range)].fill(class);
    }
    uses
}

fn from_zones(first_pass: &FirstPass, zones: &ZoneInfo) -> Vec<FrameUse> {
    let span = &first_pass.span;
    let mut uses = vec![FrameUse::Hole; span.len()];
    let touched = &first_pass.linux.touched;
    for (i, zone) in populated(zones).enumerate() {
        let pieces = || first_pass.zones.of_zone(i).map(|range| span.positions(range));
        let known = |set: &FixedBitSet| pieces().map(|frames| set.count_ones(frames) as u64).sum();
        let mut missing = zone.present.saturating_sub(known(touched));
        let free = zone.free.saturating_add(zone.pageset_frames());
        let mut missing_free = free.saturating_sub(known(&first_pass.was_free));
        for index in pieces().flatten().filter(|&index| !touched.contains(index)) {
            if missing == 0 {
                break;
            }
            missing -= 1;
            // Large free blocks come from freeing neighbours: used frames are at the start, free ones after them.
            uses[index] = if missing < missing_free {
                missing_free -= 1;
                FrameUse::Free
            } else {
                FrameUse::Used { movable: false }
            };
        }
    }
    uses
}

/// The end of the zones of a kind: the first frame of the next populated kind.
fn end_of(zones: &ZoneInfo, kind: ZoneKind) -> Pfn {
    let above = |zone: &&ZoneState| zone.zone_kind().is_none_or(|above| above > kind);
    let next = populated(zones).filter(above).map(|zone| zone.range().start).min();
    let own = populated(zones).filter(|zone| zone.zone_kind() == Some(kind)).map(|zone| zone.range().end).max();
    match (own, next) {
        (Some(own), Some(next)) => next.max(own),
        (Some(own), None) => own,
        (None, _) => Pfn(0),
    }
}

/// The memory map: runs of usable and reserved frames within each zone's span.
fn regions(first_pass: &FirstPass, zones: Option<&ZoneInfo>, uses: &[FrameUse]) -> Vec<Region> {
    let ranges: Vec<(PfnRange, NodeId)> = match zones {
        Some(_) => first_pass.zones.pieces.iter().map(|piece| (piece.range, piece.node)).collect(),
        None => first_pass.span.parts().map(|range| (range, NodeId(0))).collect(),
    };
    let mut regions: Vec<Region> = Vec::new();
    for (range, node) in ranges {
        let inside = &uses[first_pass.span.positions(range)];
        let kind = |class: &FrameUse| match class {
            FrameUse::Hole => None,
            FrameUse::Reserved => Some(false),
            FrameUse::Free | FrameUse::Used { .. } => Some(true),
        };
        let mut at = range.start;
        for run in inside.chunk_by(|a, b| kind(a) == kind(b)) {
            if regions.len() > RecordedMachine::REGION_LIMIT {
                break;
            }
            let end = at.add(run.len() as u64);
            if let Some(usable) = run.first().and_then(kind) {
                regions.push(Region { range: PfnRange { start: at, end }, node, usable, present: true });
            }
            at = end;
        }
    }
    regions.sort_by_key(|region| region.range.start);
    regions
}

fn tuning(zones: &ZoneInfo, map: &ZoneMap) -> Vec<Tuning> {
    let known = populated(zones).filter_map(|zone| Some((zone, zone.zone_kind()?)));
    known
        .map(|(zone, kind)| {
            let set = zone.pagesets.first();
            // A list is allocated at once, so it is bounded by its zone, whatever the file says.
            let fits = |frames: u64| frames.min(zone.spanned).min(1 << 24) as u32;
            Tuning {
                zone: ZoneIdx::of(map.node(zone.node), kind),
                marks: Some(Marks { min: zone.min, low: zone.low, high: zone.high }),
                reserve: Some(reserve_of(zones, zone)),
                pcp: set.map(|set| PcpSize { batch: fits(set.batch), high: fits(set.high) }),
            }
        })
        .collect()
}

/// Assigns the recorded numbers of pageblock types to pageblocks.
fn types(first_pass: &FirstPass, zones: &ZoneInfo, uses: &[FrameUse]) -> Vec<(Pfn, MigrateType)> {
    let Some(info) = &first_pass.initial.pagetypeinfo else { return Vec::new() };
    let order = first_pass.pageblock_order;
    let mut types = Vec::new();
    for (i, zone) in populated(zones).enumerate() {
        let Some(row) = info.pageblocks.iter().find(|row| row.node == zone.node && row.zone == zone.name) else {
            continue;
        };
        let pieces = first_pass.zones.of_zone(i);
        let blocks = pieces.flat_map(|range| range.start.0 >> order.0..range.end.align_up(order).0 >> order.0);
        let blocks: BTreeSet<u64> = blocks.collect();
        let scored = blocks.into_iter().map(|block| (score(first_pass, uses, block), block));
        let mut scored: Vec<(u32, u64)> = scored.filter(|&(score, _)| score != 0).collect();
        scored.sort_by_key(|&(score, block)| (std::cmp::Reverse(score), block));
        for wanted in [MigrateType::Reclaimable, MigrateType::Unmovable, MigrateType::HighAtomic, MigrateType::Cma] {
            let mut left = row.count[wanted.index()];
            let fits = |block: u64| wanted != MigrateType::Reclaimable || first_type(first_pass, block) == Some(wanted);
            scored.retain(|&(_, block)| {
                let take = left != 0 && fits(block);
                if take {
                    left -= 1;
                    types.push((Pfn(block << order.0), wanted));
                }
                !take
            });
        }
    }
    types
}

fn first_type(first_pass: &FirstPass, block: u64) -> Option<MigrateType> {
    first_pass.first_type.get(&block).copied()
}

/// Rates the evidence that a pageblock is not movable; 0 if it is free or a hole.
fn score(first_pass: &FirstPass, uses: &[FrameUse], block: u64) -> u32 {
    let frames = first_pass.span.block(Pfn(block << first_pass.pageblock_order.0), first_pass.pageblock_order);
    let fixed = |class: &&FrameUse| matches!(class, FrameUse::Used { movable: false } | FrameUse::Reserved);
    let fixed = uses[frames].iter().filter(fixed).count() as u32;
    match first_type(first_pass, block) {
        Some(MigrateType::Unmovable | MigrateType::Reclaimable) if fixed != 0 => fixed + (1 << 16),
        Some(MigrateType::Movable) => fixed.min(1),
        _ => fixed,
    }
}
