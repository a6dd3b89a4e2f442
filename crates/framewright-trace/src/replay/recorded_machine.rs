//! The recorded machine: its memory map, zones and initial state, as far as they were recorded.
//!
//! With `kpageflags` the map is exact: a frame is a hole, reserved, free or in use. With `zoneinfo` alone the zones are known,
//! but not which of their frames are memory: those that events name are, and others from the start of the zone on until
//! the number is right. With neither there is one zone, from the lowest to the highest frame that events name.
//!
//! Types of pageblocks are recorded only as numbers per zone. They are dealt out by evidence: pageblocks that first served
//! an unmovable or reclaimable request, then those with most frames in use that are on no LRU list.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;
use framewright::config::{Config, Region};
use framewright::pfn::{MigrateType, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use framewright::watermark::{Marks, PcpSize, Tuning};

use super::ReplayError;
use super::first_pass::Survey;
use super::frame_span::Span;
use super::zone_map::{ZoneMap, populated, reserve_of};
use crate::proc::{KPageFlags, ZoneInfo, ZoneState, flag};

/// What a frame was when recording began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Hole,
    Reserved,
    Free,
    Used { movable: bool },
}

/// See the module's description.
pub(crate) struct Recorded {
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
    classes: Vec<Class>,
    /// Types of pageblocks other than movable.
    pub(super) types: Vec<(Pfn, MigrateType)>,
    /// How much of the initial state was recorded.
    pub(super) knowledge: Knowledge,
}

/// How much of the initial state was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knowledge {
    /// Every frame.
    Frames,
    /// The zones.
    Zones,
    /// Nothing: what events do not show in use is taken to be free.
    Nothing,
}

impl Recorded {
    /// How many pieces of memory and holes a map can have. Real ones have hundreds.
    const REGION_LIMIT: usize = 1 << 18;

    /// # Errors
    /// The memory map is in too many pieces.
    pub(super) fn new(survey: &Survey) -> Result<Recorded, ReplayError> {
        let zones = survey.initial.zoneinfo.as_ref();
        let classes = classes(survey);
        let regions = regions(survey, zones, &classes);
        if regions.len() > Recorded::REGION_LIMIT {
            return Err(ReplayError::Scattered { file: survey.name.clone(), limit: Recorded::REGION_LIMIT });
        }
        let movable = zones.into_iter().flat_map(populated).enumerate();
        let movable = movable.filter(|(_, zone)| zone.kind() == Some(ZoneKind::Movable));
        Ok(Recorded {
            regions,
            cpus: survey.cpus.clone(),
            tuning: zones.map(|zones| tuning(zones, &survey.zones)).unwrap_or_default(),
            movable: movable.flat_map(|(zone, _)| survey.zones.of_zone(zone)).collect(),
            max_order: survey.max_order,
            pageblock_order: survey.pageblock_order,
            dma_end: zones.map_or(Pfn(0), |zones| end_of(zones, ZoneKind::Dma)),
            dma32_end: zones.map_or(Pfn(0), |zones| end_of(zones, ZoneKind::Dma32)),
            types: zones.map(|zones| types(survey, zones, &classes)).unwrap_or_default(),
            span: survey.span.clone(),
            zones: survey.zones.clone(),
            classes,
            knowledge: match (&survey.initial.kpageflags, zones) {
                (Some(_), _) => Knowledge::Frames,
                (None, Some(_)) => Knowledge::Zones,
                (None, None) => Knowledge::Nothing,
            },
        })
    }

    /// Frames in use when recording began, and whether they could be moved.
    pub(crate) fn used(&self) -> impl Iterator<Item = (Pfn, bool)> {
        self.classes.iter().enumerate().filter_map(|(index, class)| match class {
            Class::Used { movable } => Some((self.span.pfn(index), *movable)),
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
        config.geometry.max_order = self.max_order;
        config.geometry.pageblock_order = self.pageblock_order;
        config.dma_end = self.dma_end;
        config.dma32_end = self.dma32_end;
        config.movable = &self.movable;
        config.tuning = &self.tuning;
        config
    }
}

/// What each frame of the span was.
fn classes(survey: &Survey) -> Vec<Class> {
    let span = &survey.span;
    let mut classes: Vec<Class> = match (&survey.initial.kpageflags, &survey.initial.zoneinfo) {
        (Some(flags), _) => from_flags(survey, flags),
        (None, Some(zones)) => from_zones(survey, zones),
        (None, None) => {
            // The span is rounded to large steps; what no event comes near is no memory.
            let mut classes = vec![Class::Hole; span.len()];
            let range = PfnRange {
                start: survey.named.start.align_down(survey.max_order),
                end: survey.named.end.align_up(survey.max_order),
            };
            classes[span.positions(range)].fill(Class::Free);
            classes
        }
    };
    // What events show is certain.
    for index in survey.was_free.ones() {
        classes[index] = Class::Free;
    }
    for index in survey.was_used.ones() {
        if !matches!(classes[index], Class::Used { .. }) {
            classes[index] = Class::Used { movable: false };
        }
    }
    classes
}

fn from_flags(survey: &Survey, flags: &KPageFlags) -> Vec<Class> {
    let span = &survey.span;
    let mut classes = vec![Class::Hole; span.len()];
    for (range, flags) in flags.runs() {
        let class = if flags & (flag::NOPAGE | flag::OFFLINE) != 0 {
            Class::Hole
        } else if flags & flag::RESERVED != 0 {
            Class::Reserved
        } else if flags & flag::BUDDY != 0 {
            Class::Free
        } else {
            Class::Used { movable: flags & (flag::LRU | flag::ANON) != 0 }
        };
        classes[span.positions(range)].fill(class);
    }
    classes
}

fn from_zones(survey: &Survey, zones: &ZoneInfo) -> Vec<Class> {
    let span = &survey.span;
    let mut classes = vec![Class::Hole; span.len()];
    let touched = &survey.linux.touched;
    for (i, zone) in populated(zones).enumerate() {
        let pieces = || survey.zones.of_zone(i).map(|range| span.positions(range));
        let known = |set: &FixedBitSet| pieces().map(|frames| set.count_ones(frames) as u64).sum();
        let mut missing = zone.present.saturating_sub(known(touched));
        let free = zone.free.saturating_add(zone.pageset_frames());
        let mut missing_free = free.saturating_sub(known(&survey.was_free));
        for index in pieces().flatten().filter(|&index| !touched.contains(index)) {
            if missing == 0 {
                break;
            }
            missing -= 1;
            // Large free blocks come back by freeing neighbours: what is in use lies at the start, free memory behind it.
            classes[index] = if missing < missing_free {
                missing_free -= 1;
                Class::Free
            } else {
                Class::Used { movable: false }
            };
        }
    }
    classes
}

/// The first frame behind the zones of a kind: where the next populated kind starts.
fn end_of(zones: &ZoneInfo, kind: ZoneKind) -> Pfn {
    let above = |zone: &&ZoneState| zone.kind().is_none_or(|above| above > kind);
    let next = populated(zones).filter(above).map(|zone| zone.range().start).min();
    let own = populated(zones).filter(|zone| zone.kind() == Some(kind)).map(|zone| zone.range().end).max();
    match (own, next) {
        (Some(own), Some(next)) => next.max(own),
        (Some(own), None) => own,
        (None, _) => Pfn(0),
    }
}

/// The memory map: runs of usable and reserved frames within each zone's span.
fn regions(survey: &Survey, zones: Option<&ZoneInfo>, classes: &[Class]) -> Vec<Region> {
    let ranges: Vec<(PfnRange, NodeId)> = match zones {
        Some(_) => survey.zones.pieces.iter().map(|piece| (piece.range, piece.node)).collect(),
        None => vec![(survey.span.range, NodeId(0))],
    };
    let mut regions: Vec<Region> = Vec::new();
    for (range, node) in ranges {
        let inside = &classes[survey.span.positions(range)];
        let kind = |class: &Class| match class {
            Class::Hole => None,
            Class::Reserved => Some(false),
            Class::Free | Class::Used { .. } => Some(true),
        };
        let mut at = range.start;
        for run in inside.chunk_by(|a, b| kind(a) == kind(b)) {
            if regions.len() > Recorded::REGION_LIMIT {
                break;
            }
            let end = at.add(run.len() as u64);
            if let Some(usable) = run.first().and_then(kind) {
                regions.push(Region { range: PfnRange { start: at, end }, node, usable });
            }
            at = end;
        }
    }
    regions.sort_by_key(|region| region.range.start);
    regions
}

fn tuning(zones: &ZoneInfo, map: &ZoneMap) -> Vec<Tuning> {
    let known = populated(zones).filter_map(|zone| Some((zone, zone.kind()?)));
    known
        .map(|(zone, kind)| {
            let set = zone.pagesets.first();
            // No list is larger than its zone, whatever the file says; the memory for it is taken at once.
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

/// Deals out the recorded numbers of pageblock types.
fn types(survey: &Survey, zones: &ZoneInfo, classes: &[Class]) -> Vec<(Pfn, MigrateType)> {
    let Some(info) = &survey.initial.pagetypeinfo else { return Vec::new() };
    let order = survey.pageblock_order;
    let mut types = Vec::new();
    for (i, zone) in populated(zones).enumerate() {
        let Some(row) = info.pageblocks.iter().find(|row| row.node == zone.node && row.zone == zone.name) else {
            continue;
        };
        let pieces = survey.zones.of_zone(i);
        let blocks = pieces.flat_map(|range| range.start.0 >> order.0..range.end.align_up(order).0 >> order.0);
        let blocks: BTreeSet<u64> = blocks.collect();
        let scored = blocks.into_iter().map(|block| (score(survey, classes, block), block));
        let mut scored: Vec<(u32, u64)> = scored.filter(|&(score, _)| score != 0).collect();
        scored.sort_by_key(|&(score, block)| (std::cmp::Reverse(score), block));
        for wanted in [MigrateType::Reclaimable, MigrateType::Unmovable, MigrateType::HighAtomic, MigrateType::Cma] {
            let mut left = row.count[wanted.index()];
            let fits = |block: u64| wanted != MigrateType::Reclaimable || first_type(survey, block) == Some(wanted);
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

fn first_type(survey: &Survey, block: u64) -> Option<MigrateType> {
    survey.first_type.get(&block).copied()
}

/// How much speaks for a pageblock not being movable: 0 for one that is wholly free or a hole.
fn score(survey: &Survey, classes: &[Class], block: u64) -> u32 {
    let frames = survey.span.block(Pfn(block << survey.pageblock_order.0), survey.pageblock_order);
    let fixed = |class: &&Class| matches!(class, Class::Used { movable: false } | Class::Reserved);
    let fixed = classes[frames].iter().filter(fixed).count() as u32;
    match first_type(survey, block) {
        Some(MigrateType::Unmovable | MigrateType::Reclaimable) if fixed != 0 => fixed + (1 << 16),
        Some(MigrateType::Movable) => fixed.min(1),
        _ => fixed,
    }
}
