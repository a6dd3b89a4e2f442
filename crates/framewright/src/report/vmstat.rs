//! `/proc/vmstat`, and a node's `vmstat` and `numastat`: a name and a number on each line.

use core::fmt;

use super::counters::{node_counters, zone_lines};
use super::source::{NodeSnapshot, Source, nodes, zones_of};
use crate::types::units::{NodeId, ZoneIdx, ZoneKind};

/// Prints the counters of zones and nodes.
///
/// They are all of a node's file, and the beginning of vmstat.
fn counters<S: Source + ?Sized>(
    f: &mut fmt::Formatter<'_>,
    source: &S,
    nodes: impl Iterator<Item = NodeId> + Clone,
    sum: &NodeSnapshot,
) -> fmt::Result {
    let zones = nodes.clone().flat_map(|node| ZoneKind::ALL.into_iter().map(move |kind| ZoneIdx::of(node, kind)));
    zone_lines(source, zones, sum, |name, count| writeln!(f, "{name} {count}"))?;
    for (name, count) in node_counters(source, nodes) {
        writeln!(f, "{name} {count}")?;
    }
    Ok(())
}

/// Prints `/proc/vmstat`: sums over all zones, then over all nodes, then the events.
#[derive(Clone, Copy, Debug)]
pub struct VmStat<'a, S: Source + ?Sized>(pub &'a S);

impl<S: Source + ?Sized> fmt::Display for VmStat<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = nodes(self.0)
            .flat_map(|node| zones_of(self.0, node))
            .fold(NodeSnapshot::default(), |sum, zone| sum.plus(&zone));
        all.numa = self.0.global_numa().unwrap_or(all.numa);
        counters(f, self.0, nodes(self.0), &all)?;
        for (name, count) in self.0.events().named() {
            writeln!(f, "{name} {count}")?;
            if let (true, Some(event)) = (self.0.has_device_zone(), name.strip_suffix("_movable")) {
                writeln!(f, "{event}_device 0")?;
            }
        }
        Ok(())
    }
}

/// Prints a node's `vmstat` (`/sys/devices/system/node/node*/vmstat`).
///
/// It is the beginning of vmstat for one node; nothing for an offline node.
#[derive(Clone, Copy, Debug)]
pub struct NodeVmStat<'a, S: Source + ?Sized> {
    /// The state to print.
    pub source: &'a S,
    /// The node.
    pub node: NodeId,
}

impl<S: Source + ?Sized> fmt::Display for NodeVmStat<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(sum) = NodeSnapshot::of(self.source, self.node) else { return Ok(()) };
        counters(f, self.source, core::iter::once(self.node), &sum)
    }
}

/// Prints a node's `numastat` (`/sys/devices/system/node/node*/numastat`).
///
/// Nothing for an offline node.
#[derive(Clone, Copy, Debug)]
pub struct NodeNumaStat<'a, S: Source + ?Sized> {
    /// The state to print.
    pub source: &'a S,
    /// The node.
    pub node: NodeId,
}

impl<S: Source + ?Sized> fmt::Display for NodeNumaStat<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(NodeSnapshot { numa, .. }) = NodeSnapshot::of(self.source, self.node) else { return Ok(()) };
        writeln!(f, "numa_hit {}", numa.hit)?;
        writeln!(f, "numa_miss {}", numa.miss)?;
        writeln!(f, "numa_foreign {}", numa.foreign)?;
        // Three names here differ from those of vmstat.
        writeln!(f, "interleave_hit {}", numa.interleave)?;
        writeln!(f, "local_node {}", numa.local)?;
        writeln!(f, "other_node {}", numa.other)
    }
}
