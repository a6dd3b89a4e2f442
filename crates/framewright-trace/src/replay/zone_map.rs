//! The zones of the recorded machine, checked: zoneinfo is the trace's word, and sizes of tables follow from it.
//!
//! Zones of device memory are left out, because they are not the page allocator's. Zones without a present frame are
//! left out too: memory that can be plugged in, for which Linux has a span and no start.
//!
//! # Nodes
//!
//! Linux numbers nodes up to 1,023 and leaves gaps. The replay's allocator has at most [`NodeId::LIMIT`] nodes and
//! wastes memory on gaps. So nodes with memory are numbered from 0, in the order of Linux's numbers. The report shows
//! Linux's numbers.
//!
//! # Shared spans
//!
//! A node's memory can lie inside another's span, in one piece or alternating. So can a movable zone's where the
//! firmware mirrors memory. The owner of a frame is recorded nowhere: zoneinfo has each zone's first frame, its span
//! and its number of present frames.
//!
//! Frames in one span alone are that zone's. A stretch in several spans is assigned in the order of the zones' starts,
//! from the last to the first. Each zone gets the frames that it still lacks, and the zone that starts first gets the
//! rest. That is exact for one zone inside another, and for two that alternate once. For more pieces the numbers are
//! right and the places guessed.

use std::collections::BTreeSet;

use framewright::units::{NodeId, Pfn, PfnRange, ZoneKind};

use crate::proc::{ZoneInfo, ZoneState};
use crate::struct_page::PFN_LIMIT;

/// A fault of a recorded zone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum ZoneFault {
    /// A zone has frames, but no first one.
    #[error("has memory but no start_pfn")]
    NoStart,
    /// A zone reaches beyond all possible memory.
    #[error("ends above the last possible frame, 2^52")]
    Above,
    /// There are more nodes with memory than the allocator can have.
    #[error("is of one of {0} nodes with memory; this program cannot follow more than 64")]
    Nodes(usize),
    /// A CPU's number is too large.
    #[error("has lists of CPU {0}; this program cannot follow CPUs above 65534")]
    Cpu(u32),
    /// No kernel has a zone of this name.
    #[error("is none of DMA, DMA32, Normal, HighMem and Movable, the zones that this program can follow")]
    Kind,
    /// A zone occurs twice.
    #[error("is listed twice")]
    Twice,
    /// Two zones share more frames than there are.
    #[error("shares frames with zone {zone} of node {node}, and both together have more than there are")]
    Overlap { node: u32, zone: String },
}

/// The zones with memory that the page allocator manages.
pub(super) fn populated(zones: &ZoneInfo) -> impl Iterator<Item = &ZoneState> {
    zones.zones.iter().filter(|zone| zone.spanned != 0 && zone.present != 0 && zone.name != "Device")
}

/// Frames of one zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) range: PfnRange,
    /// The zone, counted as [`populated`] lists them.
    pub(super) zone: usize,
    pub(super) node: NodeId,
}

/// The owner of each frame, and the nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ZoneMap {
    /// Ascending, and no two share a frame.
    pub(super) pieces: Vec<Piece>,
    /// Linux's numbers of the nodes, ascending.
    nodes: Vec<u32>,
}

impl ZoneMap {
    /// Checks that one machine can have these zones.
    ///
    /// # Errors
    /// The first zone that it cannot have.
    pub(super) fn new(zones: &ZoneInfo) -> Result<ZoneMap, (&ZoneState, ZoneFault)> {
        let nodes: BTreeSet<u32> = populated(zones).map(|zone| zone.node).collect();
        let mut before: Vec<&ZoneState> = Vec::new();
        for zone in populated(zones) {
            let too_many = (nodes.len() > NodeId::LIMIT).then_some(ZoneFault::Nodes(nodes.len()));
            if let Some(fault) = too_many.or_else(|| fault(zone, &before)) {
                return Err((zone, fault));
            }
            before.push(zone);
        }
        let nodes: Vec<u32> = nodes.into_iter().collect();
        let node = |zone: usize| NodeId(nodes.partition_point(|&node| node < before[zone].node) as u8);
        let shared = share(&before).map_err(|(i, j)| {
            let other = before[i.min(j)];
            (before[i.max(j)], ZoneFault::Overlap { node: other.node, zone: other.name.clone() })
        })?;
        let pieces = shared.into_iter().map(|(range, zone)| Piece { range, zone, node: node(zone) }).collect();
        Ok(ZoneMap { pieces, nodes })
    }

    /// Linux's number of a node.
    pub(crate) fn linux(&self, node: NodeId) -> u32 {
        self.nodes.get(node.index()).copied().unwrap_or(node.0.into())
    }

    /// The node with Linux's number.
    pub(super) fn node(&self, linux: u32) -> NodeId {
        NodeId(self.nodes.partition_point(|&node| node < linux).min(NodeId::LIMIT - 1) as u8)
    }

    /// The stretches of a zone.
    pub(super) fn of_zone(&self, zone: usize) -> impl Iterator<Item = PfnRange> {
        self.pieces.iter().filter(move |piece| piece.zone == zone).map(|piece| piece.range)
    }

    /// Returns a text of `/proc` with Linux's numbers for nodes.
    pub(super) fn renumbered(&self, text: &str) -> String {
        let line = |line: &str| {
            let numbered = || {
                let rest = line.strip_prefix("Node ")?;
                let (node, zone) = rest.split_once(',')?;
                let number: u8 = node.trim().parse().ok()?;
                Some(format!("Node {:>width$},{zone}\n", self.linux(NodeId(number)), width = node.len()))
            };
            numbered().unwrap_or_else(|| format!("{line}\n"))
        };
        text.lines().map(line).collect()
    }
}

fn fault(zone: &ZoneState, before: &[&ZoneState]) -> Option<ZoneFault> {
    let Some(start) = zone.start_pfn else { return Some(ZoneFault::NoStart) };
    if start.0.saturating_add(zone.spanned) > PFN_LIMIT {
        return Some(ZoneFault::Above);
    }
    if zone.zone_kind().is_none() && zone.name != "HighMem" {
        return Some(ZoneFault::Kind);
    }
    if let Some(set) = zone.pagesets.iter().find(|set| set.cpu >= u16::MAX.into()) {
        return Some(ZoneFault::Cpu(set.cpu));
    }
    before.iter().any(|other| other.node == zone.node && other.name == zone.name).then_some(ZoneFault::Twice)
}

/// Assigns the frames of all spans to zones. The result is ascending.
///
/// # Errors
/// A zone that lacks frames, and another zone that it shares frames with.
fn share(zones: &[&ZoneState]) -> Result<Vec<(PfnRange, usize)>, (usize, usize)> {
    let ends: BTreeSet<Pfn> = zones.iter().flat_map(|zone| [zone.range().start, zone.range().end]).collect();
    let ends: Vec<Pfn> = ends.into_iter().collect();
    // Stretches between two ends, each with the zones whose span has it; the zone that starts last comes first.
    let mut stretches: Vec<(PfnRange, Vec<usize>)> = Vec::new();
    for pair in ends.windows(2) {
        let stretch = PfnRange { start: pair[0], end: pair[1] };
        let mut owners: Vec<usize> = (0..zones.len()).filter(|&i| zones[i].range().contains(stretch.start)).collect();
        owners.sort_by_key(|&i| (std::cmp::Reverse(zones[i].range().start), zones[i].spanned, std::cmp::Reverse(i)));
        if !owners.is_empty() {
            stretches.push((stretch, owners));
        }
    }
    let mut lacks: Vec<u64> = zones.iter().map(|zone| zone.present).collect();
    for (stretch, owners) in stretches.iter().filter(|(_, owners)| owners.len() == 1) {
        lacks[owners[0]] = lacks[owners[0]].saturating_sub(stretch.frames());
    }
    let mut pieces: Vec<(PfnRange, usize)> = Vec::new();
    for (stretch, owners) in &stretches {
        let mut rest = *stretch;
        for &owner in &owners[..owners.len() - 1] {
            let taken = rest.frames().min(lacks[owner]);
            lacks[owner] -= taken;
            let end = rest.start.add(taken);
            pieces.push((PfnRange { start: rest.start, end }, owner));
            rest.start = end;
        }
        let last = owners[owners.len() - 1];
        if owners.len() > 1 {
            lacks[last] = lacks[last].saturating_sub(rest.frames());
        }
        pieces.push((rest, last));
    }
    for (_, owners) in stretches.iter().filter(|(_, owners)| owners.len() > 1) {
        if let Some(&short) = owners.iter().find(|&&owner| lacks[owner] != 0) {
            let other = owners.iter().find(|&&owner| owner != short);
            return Err((short, *other.unwrap_or(&short)));
        }
    }
    pieces.retain(|(range, _)| !range.is_empty());
    // Adjacent pieces of one zone are joined.
    pieces.dedup_by(|next, piece| {
        let joins = piece.1 == next.1 && piece.0.end == next.0.start;
        piece.0.end = if joins { next.0.end } else { piece.0.end };
        joins
    });
    Ok(pieces)
}

/// One more than the highest CPU that zoneinfo names.
pub(super) fn cpus(zones: &ZoneInfo) -> usize {
    populated(zones).flat_map(|zone| &zone.pagesets).map(|set| set.cpu as usize + 1).max().unwrap_or(1)
}

/// Frames that a zone keeps from requests for higher zones, by the kind of those.
///
/// zoneinfo has a number for each kind that the kernel was built with. If it also lists all of them, their names tell
/// which number is whose.
pub(super) fn reserve_of(zones: &ZoneInfo, zone: &ZoneState) -> [u64; ZoneKind::COUNT] {
    let listed: Vec<Option<ZoneKind>> =
        zones.zones.iter().filter(|other| other.node == zone.node).map(ZoneState::zone_kind).collect();
    let by_name = listed.len() == zone.protection.len();
    let mut reserve = [0; ZoneKind::COUNT];
    for (i, &frames) in zone.protection.iter().enumerate() {
        let kind = if by_name { listed[i] } else { ZoneKind::ALL.get(i).copied() };
        if let Some(kind) = kind {
            reserve[kind.index()] = frames;
        }
    }
    reserve
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::PageSet;

    fn zone(node: u32, name: &str, start: u64, frames: u64) -> ZoneState {
        let name = name.to_owned();
        ZoneState { node, name, start_pfn: Some(Pfn(start)), spanned: frames, present: frames, ..ZoneState::default() }
    }

    #[test]
    fn zones_that_cannot_be_are_refused() {
        let fine = zone(0, "DMA", 1, 4095);
        let set = PageSet { cpu: 65_535, ..PageSet::default() };
        let overlap = ZoneFault::Overlap { node: 0, zone: "DMA".into() };
        let table = [
            (zone(0, "Normal", 4096, 4096), None),
            (zone(63, "Movable", 1 << 51, 1 << 51), None),
            (zone(1023, "Normal", 4096, 1), None),
            (zone(99, "Normal", 0, 0), None),
            (zone(99, "Device", 0, 1 << 60), None),
            (ZoneState { start_pfn: None, ..zone(0, "Normal", 0, 1) }, Some(ZoneFault::NoStart)),
            // Memory that can be plugged in.
            (ZoneState { start_pfn: None, present: 0, ..zone(0, "Movable", 0, 1) }, None),
            (ZoneState { present: 0, ..zone(0, "Movable", 0, u64::MAX) }, None),
            (zone(0, "Normal", 4096, u64::MAX), Some(ZoneFault::Above)),
            (zone(0, "Normal", u64::MAX, 1), Some(ZoneFault::Above)),
            (ZoneState { pagesets: vec![set], ..zone(0, "Normal", 4096, 1) }, Some(ZoneFault::Cpu(65_535))),
            (zone(0, "HighMem", 4096, 1), None),
            (zone(0, "Fast", 4096, 1), Some(ZoneFault::Kind)),
            (zone(0, "DMA", 4096, 1), Some(ZoneFault::Twice)),
            (zone(1, "Normal", 4095, 10), Some(overlap.clone())),
            (zone(1, "Normal", 1, 4095), Some(overlap)),
            (ZoneState { present: 9, ..zone(1, "Normal", 4095, 10) }, None),
        ];
        for (zone, fault) in table {
            let zones = ZoneInfo { zones: vec![fine.clone(), zone.clone()] };
            assert_eq!(ZoneMap::new(&zones).err().map(|(_, fault)| fault), fault, "{zone:?}");
        }
    }

    #[test]
    fn nodes_are_numbered_without_gaps() {
        let zones = [252, 0, 8, 8].iter().zip(["Movable", "Normal", "DMA", "Normal"]).zip(0..);
        let zones = ZoneInfo { zones: zones.map(|((&node, name), i)| zone(node, name, i * 100, 100)).collect() };
        let map = ZoneMap::new(&zones).unwrap();
        assert_eq!(map.pieces.iter().map(|piece| piece.node.0).collect::<Vec<_>>(), [2, 0, 1, 1]);
        assert_eq!([0, 1, 2].map(|node| map.linux(NodeId(node))), [0, 8, 252]);
        assert_eq!([0, 8, 252].map(|node| map.node(node)), [0, 1, 2].map(NodeId));
        let text = "Page block order: 9\nNode    2, zone   Normal, type      Movable   1\nNode 1, zone   Normal   3\n";
        let shown = "Page block order: 9\nNode  252, zone   Normal, type      Movable   1\nNode 8, zone   Normal   3\n";
        assert_eq!(map.renumbered(text), shown);

        let many =
            |nodes: u32| ZoneInfo { zones: (0..nodes).map(|i| zone(i * 3, "Normal", u64::from(i), 1)).collect() };
        assert!(ZoneMap::new(&many(64)).is_ok());
        let fault = ZoneMap::new(&many(65)).unwrap_err().1;
        assert_eq!(fault, ZoneFault::Nodes(65));
    }

    #[test]
    fn shared_spans_are_shared_out() {
        // Node, start, span, present of each zone; pieces as start, end and zone.
        type Row<'a> = (&'a [(u32, u64, u64, u64)], &'a [(u64, u64, usize)]);
        let table: [Row<'_>; 8] = [
            // One inside another.
            (&[(0, 0, 100, 80), (1, 40, 20, 20)], &[(0, 40, 0), (40, 60, 1), (60, 100, 0)]),
            // With a hole in it.
            (&[(0, 0, 100, 80), (1, 40, 20, 15)], &[(0, 40, 0), (40, 55, 1), (55, 100, 0)]),
            // Alternating.
            (&[(0, 0, 30, 20), (1, 10, 30, 20)], &[(0, 10, 0), (10, 20, 1), (20, 30, 0), (30, 40, 1)]),
            // Two inside one, and one of these in another.
            (
                &[(0, 0, 100, 60), (1, 10, 30, 20), (2, 20, 10, 10), (3, 50, 10, 10)],
                &[(0, 10, 0), (10, 20, 1), (20, 30, 2), (30, 40, 1), (40, 50, 0), (50, 60, 3), (60, 100, 0)],
            ),
            // Two zones with one start.
            (&[(0, 0, 100, 50), (1, 0, 50, 50)], &[(0, 50, 1), (50, 100, 0)]),
            // Two zones with one span.
            (&[(0, 0, 100, 50), (1, 0, 100, 50)], &[(0, 50, 1), (50, 100, 0)]),
            // Nothing shared, with a hole between.
            (&[(1, 50, 50, 50), (0, 0, 40, 40)], &[(0, 40, 1), (50, 100, 0)]),
            // More present than spanned, which no kernel prints: accepted where no other zone shares the span.
            (&[(0, 0, 10, 99)], &[(0, 10, 0)]),
        ];
        for (zones, pieces) in table {
            let zones = zones
                .iter()
                .map(|&(node, start, span, present)| ZoneState { present, ..zone(node, "Normal", start, span) });
            let zones = ZoneInfo { zones: zones.collect() };
            let map = ZoneMap::new(&zones).unwrap();
            let found: Vec<_> = map.pieces.iter().map(|p| (p.range.start.0, p.range.end.0, p.zone)).collect();
            assert_eq!(found, pieces);
        }
    }

    #[test]
    fn reserves_go_by_name_where_all_kinds_are_listed() {
        let state = |name: &str| ZoneState { protection: vec![1, 2, 3], ..zone(0, name, 0, 0) };
        let of = |names: &[&str]| {
            let zones = ZoneInfo { zones: names.iter().map(|name| state(name)).collect() };
            reserve_of(&zones, &zones.zones[0])
        };
        assert_eq!(of(&["DMA32", "Normal", "Movable"]), [0, 1, 2, 3]);
        assert_eq!(of(&["DMA", "Normal", "HighMem"]), [1, 0, 2, 0]);
        assert_eq!(of(&["DMA", "Normal"]), [1, 2, 3, 0]);
    }
}
