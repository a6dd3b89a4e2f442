//! The source of the reports: an allocator's state, by zone, node and CPU.

use super::snapshot::{NumaCounters, PcpSnapshot, VmEvents, ZoneSnapshot};
use crate::types::units::{CpuId, NodeId, Order, ZoneIdx, ZoneKind};

/// An allocator's state, to be printed.
///
/// Implemented by the allocator, by recorded states and by simulated ones. Any answer is printed as it is. Nodes from
/// [`NodeId::LIMIT`] and CPUs from 65536 on are not asked for, and orders above [`Order::LIMIT`] are not printed.
pub trait Source {
    /// Returns the largest order of a free block.
    ///
    /// Linux 6.1 on most machines: 10.
    fn max_order(&self) -> Order;

    /// Returns the order of a pageblock.
    ///
    /// Linux on x86: 9.
    fn pageblock_order(&self) -> Order;

    /// Returns whether [`MigrateType::Cma`](crate::MigrateType::Cma) exists.
    ///
    /// If not, pagetypeinfo has no line and no column for it.
    fn has_cma(&self) -> bool;

    /// Returns whether zoneinfo and vmstat show a fifth, empty zone `Device`.
    ///
    /// A kernel with `CONFIG_ZONE_DEVICE` does. The allocator never has one; a comparison with a distribution's kernel
    /// needs it.
    fn has_device_zone(&self) -> bool {
        false
    }

    /// Returns the number of nodes: one more than the highest node number.
    fn nr_nodes(&self) -> usize;

    /// Returns the number of CPUs: one more than the highest CPU number.
    fn nr_cpus(&self) -> usize;

    /// Returns a zone's state; `None` if its node is offline.
    ///
    /// A kind without memory on an online node is a snapshot whose `present` is 0. Then zoneinfo prints it in short,
    /// and the other files skip it.
    fn zone(&self, zone: ZoneIdx) -> Option<ZoneSnapshot>;

    /// Returns the state of a CPU's list; `None` if the CPU is offline.
    fn pcp(&self, zone: ZoneIdx, cpu: CpuId) -> Option<PcpSnapshot>;

    /// Returns the event counters of all CPUs together.
    fn events(&self) -> VmEvents;

    /// Returns name and value of a counter that the embedder keeps in a zone.
    ///
    /// Linux, for example, keeps `nr_mlock`. `None` from the first index after the last counter. An index means the
    /// same counter in every zone. Printed after `nr_free_pages`: in zoneinfo for the zone, in vmstat and in a node's
    /// vmstat as a sum. At most [`COUNTER_LIMIT`] are asked for.
    fn zone_counter(&self, _zone: ZoneIdx, _index: usize) -> Option<(&str, u64)> {
        None
    }

    /// Returns name and value of a counter that the embedder keeps in a node.
    ///
    /// Linux, for example, keeps `nr_dirty`. `None` from the first index after the last counter. An index means the
    /// same counter in every node. Printed under `per-node stats` of zoneinfo, last in the node's vmstat, and as a sum
    /// after the NUMA counters of vmstat. At most [`COUNTER_LIMIT`] are asked for.
    fn node_counter(&self, _node: NodeId, _index: usize) -> Option<(&str, u64)> {
        None
    }

    /// Returns the NUMA counters of vmstat, if they are not the sums over the zones.
    ///
    /// In Linux 4.14 and later, a zone's and a node's files contain the shares that CPUs have not folded yet. The file
    /// vmstat does not.
    fn global_numa(&self) -> Option<NumaCounters> {
        None
    }

    /// Returns whether the six NUMA counters precede `nr_free_cma`.
    ///
    /// They were among the zone's other counters until Linux 4.14 made them separate.
    fn numa_before_cma(&self) -> bool {
        false
    }
}

/// Largest number of an embedder's counters in a zone or a node.
///
/// Linux 6.1 has about 10 and 45.
pub const COUNTER_LIMIT: usize = 256;

/// Returns the numbers of all nodes that may exist.
pub(super) fn nodes<S: Source + ?Sized>(source: &S) -> impl Iterator<Item = NodeId> + Clone + use<S> {
    // The limit is below 256, so the cast loses nothing.
    (0..source.nr_nodes().min(NodeId::LIMIT)).map(|node| NodeId(node as u8))
}

/// Returns the zones of a node, lowest first; none for an offline node.
pub(super) fn zones_of<S: Source + ?Sized>(source: &S, node: NodeId) -> impl Iterator<Item = ZoneSnapshot> {
    ZoneKind::ALL.into_iter().filter_map(move |kind| source.zone(ZoneIdx::of(node, kind)))
}

/// Returns the zones of a node that have memory, lowest first.
pub(super) fn populated_of<S: Source + ?Sized>(source: &S, node: NodeId) -> impl Iterator<Item = ZoneSnapshot> {
    zones_of(source, node).filter(ZoneSnapshot::is_populated)
}

/// Returns the zones that have memory, by node and kind.
pub(super) fn populated<S: Source + ?Sized>(source: &S) -> impl Iterator<Item = ZoneSnapshot> {
    nodes(source).flat_map(move |node| populated_of(source, node))
}

/// Returns the number of columns in a line by order.
pub(super) fn orders<S: Source + ?Sized>(source: &S) -> usize {
    source.max_order().min(Order::LIMIT).up().index()
}

/// A node: the sums of its zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeSnapshot {
    /// The node.
    pub node: NodeId,
    /// Frames from the first to the last of each zone, holes included.
    pub spanned: u64,
    /// Frames that exist.
    pub present: u64,
    /// Frames that the allocator was given.
    pub managed: u64,
    /// Frames on the buddy lists.
    pub free: u64,
    /// Of `free`, the frames in pageblocks of type CMA.
    pub free_cma: u64,
    /// Where requests were served.
    pub numa: NumaCounters,
}

impl NodeSnapshot {
    /// Returns the sums of `node`'s zones; `None` if the node is offline.
    pub fn of<S: Source + ?Sized>(source: &S, node: NodeId) -> Option<NodeSnapshot> {
        zones_of(source, node).fold(None, |sum: Option<NodeSnapshot>, zone| {
            let empty = NodeSnapshot { node, ..NodeSnapshot::default() };
            Some(sum.unwrap_or(empty).plus(&zone))
        })
    }

    /// Returns these sums with one zone more; saturates.
    pub(super) fn plus(self, zone: &ZoneSnapshot) -> NodeSnapshot {
        NodeSnapshot {
            node: self.node,
            spanned: self.spanned.saturating_add(zone.spanned),
            present: self.present.saturating_add(zone.present),
            managed: self.managed.saturating_add(zone.managed),
            free: self.free.saturating_add(zone.free),
            free_cma: self.free_cma.saturating_add(zone.free_cma),
            numa: self.numa.plus(zone.numa),
        }
    }
}
