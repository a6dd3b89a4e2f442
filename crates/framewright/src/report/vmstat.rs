//! `/proc/vmstat` and a node's `numastat`: a name and a number on each line.

use core::fmt;

use super::{NodeSnapshot, Source, nodes, zones_of};
use crate::pfn::NodeId;

/// Prints `/proc/vmstat`: sums over all zones, then the events.
#[derive(Clone, Copy, Debug)]
pub struct VmStat<'a, S: Source + ?Sized>(pub &'a S);

impl<S: Source + ?Sized> fmt::Display for VmStat<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = nodes(self.0)
            .flat_map(|node| zones_of(self.0, node))
            .fold(NodeSnapshot::default(), |sum, zone| sum.plus(&zone));
        writeln!(f, "nr_free_pages {}", all.free)?;
        writeln!(f, "nr_free_cma {}", all.free_cma)?;
        for (name, count) in all.numa.named() {
            writeln!(f, "{name} {count}")?;
        }
        for (name, count) in self.0.events().named() {
            writeln!(f, "{name} {count}")?;
            if let (true, Some(event)) = (self.0.has_device_zone(), name.strip_suffix("_movable")) {
                writeln!(f, "{event}_device 0")?;
            }
        }
        Ok(())
    }
}

/// Prints a node's `numastat` (`/sys/devices/system/node/node*/numastat`); nothing for an offline node.
#[derive(Clone, Copy, Debug)]
pub struct NumaStat<'a, S: Source + ?Sized> {
    /// The state to print.
    pub source: &'a S,
    /// The node.
    pub node: NodeId,
}

impl<S: Source + ?Sized> fmt::Display for NumaStat<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(NodeSnapshot { numa, .. }) = NodeSnapshot::of(self.source, self.node) else { return Ok(()) };
        writeln!(f, "numa_hit {}", numa.hit)?;
        writeln!(f, "numa_miss {}", numa.miss)?;
        writeln!(f, "numa_foreign {}", numa.foreign)?;
        // Here three names differ from those of vmstat.
        writeln!(f, "interleave_hit {}", numa.interleave)?;
        writeln!(f, "local_node {}", numa.local)?;
        writeln!(f, "other_node {}", numa.other)
    }
}
