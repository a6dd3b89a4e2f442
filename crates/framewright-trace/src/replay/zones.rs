//! The zones of the recorded machine, checked: what zoneinfo says is the trace's word, and sizes of tables follow from it.
//!
//! Zones of device memory are left out; the page allocator has no part in them. Which node a CPU belongs to is not in
//! zoneinfo. It shows in the events: most of what a CPU allocates is its own node's.

use std::collections::HashMap;

use framewright::pfn::{CpuId, NodeId, Pfn, PfnRange, ZoneKind};

use crate::proc::{ZoneInfo, ZoneState};

/// What is wrong with a recorded zone.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ZoneFault {
    /// A zone has frames, but none is the first.
    #[error("has memory but no start_pfn")]
    NoStart,
    /// A zone reaches beyond all possible memory.
    #[error("ends above the last possible frame, 2^52")]
    Above,
    /// The node's number is too large.
    #[error("is of a node above the largest that can be followed, 63")]
    Node,
    /// A CPU's number is too large.
    #[error("has lists of CPU {0}, above the largest that can be followed, 65534")]
    Cpu(u32),
    /// No kernel has a zone of this name.
    #[error("is none of DMA, DMA32, Normal, HighMem and Movable")]
    Kind,
    /// A zone is there twice.
    #[error("is listed twice")]
    Twice,
    /// Two zones share frames, so that theirs cannot be told apart.
    #[error("shares frames with zone {zone} of node {node}")]
    Overlap {
        /// The other zone's node.
        node: u32,
        /// The other zone.
        zone: String,
    },
}

/// The zones with memory that the page allocator manages.
pub(super) fn populated(zones: &ZoneInfo) -> impl Iterator<Item = &ZoneState> {
    zones.zones.iter().filter(|zone| zone.spanned != 0 && zone.name != "Device")
}

/// Checks that the zones can be those of one machine.
///
/// # Errors
/// The first that cannot.
pub(super) fn check(zones: &ZoneInfo) -> Result<(), (&ZoneState, ZoneFault)> {
    let mut before: Vec<&ZoneState> = Vec::new();
    for zone in populated(zones) {
        if let Some(fault) = fault(zone, &before) {
            return Err((zone, fault));
        }
        before.push(zone);
    }
    Ok(())
}

fn fault(zone: &ZoneState, before: &[&ZoneState]) -> Option<ZoneFault> {
    let Some(start) = zone.start_pfn else { return Some(ZoneFault::NoStart) };
    if start.0.saturating_add(zone.spanned) > 1 << 52 {
        return Some(ZoneFault::Above);
    }
    if zone.node as usize >= NodeId::LIMIT {
        return Some(ZoneFault::Node);
    }
    if zone.kind().is_none() && zone.name != "HighMem" {
        return Some(ZoneFault::Kind);
    }
    if let Some(set) = zone.pagesets.iter().find(|set| set.cpu >= u16::MAX.into()) {
        return Some(ZoneFault::Cpu(set.cpu));
    }
    if before.iter().any(|other| other.node == zone.node && other.name == zone.name) {
        return Some(ZoneFault::Twice);
    }
    let other = before.iter().find(|other| !other.range().intersect(zone.range()).is_empty())?;
    Some(ZoneFault::Overlap { node: other.node, zone: other.name.clone() })
}

/// One more than the highest CPU that zoneinfo names.
pub(super) fn cpus(zones: &ZoneInfo) -> usize {
    populated(zones).flat_map(|zone| &zone.pagesets).map(|set| set.cpu as usize + 1).max().unwrap_or(1)
}

/// Frames that a zone keeps from requests that could use a higher one, by the kind of the highest. zoneinfo has a number for
/// each kind that the kernel was built with, and if it also lists all of them, their names tell which is which.
pub(super) fn reserve_of(zones: &ZoneInfo, zone: &ZoneState) -> [u64; ZoneKind::COUNT] {
    let listed: Vec<Option<ZoneKind>> =
        zones.zones.iter().filter(|other| other.node == zone.node).map(ZoneState::kind).collect();
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

/// Where each CPU's allocations lay.
#[derive(Clone, Debug)]
pub(super) struct CpuNodes {
    nodes: Vec<(PfnRange, NodeId)>,
    /// With one node there is nothing to find out.
    several: bool,
    /// Allocations by CPU and node.
    counts: HashMap<(CpuId, NodeId), u64>,
}

impl CpuNodes {
    pub(super) fn new(zones: Option<&ZoneInfo>) -> CpuNodes {
        let nodes: Vec<(PfnRange, NodeId)> =
            zones.into_iter().flat_map(populated).map(|zone| (zone.range(), NodeId(zone.node as u8))).collect();
        let several = nodes.windows(2).any(|pair| pair[0].1 != pair[1].1);
        CpuNodes { nodes, several, counts: HashMap::new() }
    }

    /// An allocation of `cpu`'s.
    pub(super) fn count(&mut self, cpu: CpuId, pfn: Pfn) {
        if !self.several {
            return;
        }
        if let Some(&(_, node)) = self.nodes.iter().find(|(range, _)| range.contains(pfn)) {
            *self.counts.entry((cpu, node)).or_default() += 1;
        }
    }

    /// The node of each of `cpus` CPUs: where most of its allocations lay, the lowest node if there are none.
    pub(super) fn settle(&self, cpus: usize) -> Vec<NodeId> {
        let lowest = self.nodes.iter().map(|&(_, node)| node).min().unwrap_or_default();
        let mut found = vec![(0, lowest); cpus];
        for (&(cpu, node), &count) in &self.counts {
            if let Some(best) = found.get_mut(cpu.index()) {
                // At equal counts the lower node, whatever order the table has.
                if count > best.0 || (count == best.0 && node < best.1) {
                    *best = (count, node);
                }
            }
        }
        found.into_iter().map(|(_, node)| node).collect()
    }
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
            (zone(99, "Normal", 0, 0), None),
            (zone(99, "Device", 0, 1 << 60), None),
            (ZoneState { start_pfn: None, ..zone(0, "Normal", 0, 1) }, Some(ZoneFault::NoStart)),
            (zone(0, "Normal", 4096, u64::MAX), Some(ZoneFault::Above)),
            (zone(0, "Normal", u64::MAX, 1), Some(ZoneFault::Above)),
            (zone(64, "Normal", 4096, 1), Some(ZoneFault::Node)),
            (zone(256, "Normal", 4096, 1), Some(ZoneFault::Node)),
            (ZoneState { pagesets: vec![set], ..zone(0, "Normal", 4096, 1) }, Some(ZoneFault::Cpu(65_535))),
            (zone(0, "HighMem", 4096, 1), None),
            (zone(0, "Fast", 4096, 1), Some(ZoneFault::Kind)),
            (zone(0, "DMA", 4096, 1), Some(ZoneFault::Twice)),
            (zone(1, "Normal", 4095, 10), Some(overlap)),
        ];
        for (zone, fault) in table {
            let zones = ZoneInfo { zones: vec![fine.clone(), zone.clone()] };
            assert_eq!(check(&zones).err().map(|(_, fault)| fault), fault, "{zone:?}");
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

    #[test]
    fn a_cpu_is_where_most_of_its_memory_lay() {
        let zones = ZoneInfo { zones: vec![zone(1, "Normal", 0, 100), zone(2, "Normal", 100, 100)] };
        let mut nodes = CpuNodes::new(Some(&zones));
        for (cpu, pfn) in [(0, 150), (0, 160), (0, 5), (1, 5), (1, 150), (7, 150), (2, 500)] {
            nodes.count(CpuId(cpu), Pfn(pfn));
        }
        assert_eq!(nodes.settle(4), [2, 1, 1, 1].map(NodeId));
        let one = ZoneInfo { zones: vec![zone(3, "DMA", 0, 100), zone(3, "Normal", 100, 100)] };
        let mut nodes = CpuNodes::new(Some(&one));
        nodes.count(CpuId(0), Pfn(5));
        assert_eq!(nodes.settle(2), [NodeId(3); 2], "the only node, whatever its number");
    }
}
