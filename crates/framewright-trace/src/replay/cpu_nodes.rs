//! The node of each CPU.
//!
//! zoneinfo does not have it. The events show it: a CPU allocates mostly from its own node.

use std::collections::HashMap;

use framewright::units::{CpuId, NodeId, Pfn, PfnRange};

use super::zone_map::ZoneMap;

/// Counts each CPU's allocations by node.
#[derive(Clone, Debug)]
pub(super) struct CpuNodes {
    nodes: Vec<(PfnRange, NodeId)>,
    /// Whether there are several nodes, so that counting is needed.
    several: bool,
    /// Allocations by CPU and node.
    counts: HashMap<(CpuId, NodeId), u64>,
}

impl CpuNodes {
    pub(super) fn new(map: &ZoneMap) -> CpuNodes {
        let nodes: Vec<(PfnRange, NodeId)> = map.pieces.iter().map(|piece| (piece.range, piece.node)).collect();
        let several = nodes.windows(2).any(|pair| pair[0].1 != pair[1].1);
        CpuNodes { nodes, several, counts: HashMap::new() }
    }

    /// Counts an allocation of `cpu`.
    pub(super) fn count(&mut self, cpu: CpuId, pfn: Pfn) {
        if !self.several {
            return;
        }
        let next = self.nodes.partition_point(|(range, _)| range.end <= pfn);
        if let Some(&(_, node)) = self.nodes.get(next).filter(|(range, _)| range.contains(pfn)) {
            *self.counts.entry((cpu, node)).or_default() += 1;
        }
    }

    /// The node of each of `cpus` CPUs: that of most of its allocations, or the lowest node.
    pub(super) fn settle(&self, cpus: usize) -> Vec<NodeId> {
        let lowest = self.nodes.iter().map(|&(_, node)| node).min().unwrap_or_default();
        let mut found = vec![(0, lowest); cpus];
        for (&(cpu, node), &count) in &self.counts {
            if let Some(best) = found.get_mut(cpu.index()) {
                // Of equal counts the lower node wins, whatever the order of the table.
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
    use crate::proc::{ZoneInfo, ZoneState};

    fn zone(node: u32, name: &str, start: u64, frames: u64) -> ZoneState {
        let name = name.to_owned();
        ZoneState { node, name, start_pfn: Some(Pfn(start)), spanned: frames, present: frames, ..ZoneState::default() }
    }

    #[test]
    fn a_cpu_is_where_most_of_its_memory_lay() {
        let zones = ZoneInfo { zones: vec![zone(1, "Normal", 0, 100), zone(2, "Normal", 100, 100)] };
        let mut nodes = CpuNodes::new(&ZoneMap::new(&zones).unwrap());
        for (cpu, pfn) in [(0, 150), (0, 160), (0, 5), (1, 5), (1, 150), (7, 150), (2, 500)] {
            nodes.count(CpuId(cpu), Pfn(pfn));
        }
        assert_eq!(nodes.settle(4), [1, 0, 0, 0].map(NodeId));
        let one = ZoneInfo { zones: vec![zone(3, "DMA", 0, 100), zone(3, "Normal", 100, 100)] };
        let mut nodes = CpuNodes::new(&ZoneMap::new(&one).unwrap());
        nodes.count(CpuId(0), Pfn(5));
        assert_eq!(nodes.settle(2), [NodeId(0); 2], "the only node, whatever its number");
    }
}
