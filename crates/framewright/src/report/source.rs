//! What the formats read: an allocator's state, by zone, node and CPU.

use super::snapshot::{NumaCounters, PcpSnapshot, VmEvents, ZoneSnapshot};
use crate::types::units::{CpuId, NodeId, Order, ZoneIdx, ZoneKind};

/// An allocator's state, to be printed: implemented by the allocator, by recorded states and by simulated ones.
///
/// Any answer is printed as it is. Nodes from [`NodeId::LIMIT`] and CPUs from 65536 on are not asked for, and orders above
/// [`Order::LIMIT`] not printed.
pub trait Source {
    /// The largest order of a free block. Linux 6.1 on most machines: 10.
    fn max_order(&self) -> Order;

    /// The order of a pageblock. Linux on x86: 9.
    fn pageblock_order(&self) -> Order;

    /// Whether [`MigrateType::Cma`](crate::MigrateType::Cma) exists; if not, pagetypeinfo has no line and no column for it.
    fn has_cma(&self) -> bool;

    /// Whether zoneinfo and vmstat show a fifth, empty zone `Device`, as a kernel with `CONFIG_ZONE_DEVICE` does. The
    /// allocator never has one; a comparison with a distribution's kernel wants it.
    fn has_device_zone(&self) -> bool {
        false
    }

    /// Number of nodes: one more than the highest node number.
    fn nr_nodes(&self) -> usize;

    /// Number of CPUs: one more than the highest CPU number.
    fn nr_cpus(&self) -> usize;

    /// A zone's state; none if its node is offline. A kind without memory on a node that is online is a snapshot whose
    /// `present` is 0: zoneinfo prints it in short, the other files skip it.
    fn zone(&self, zone: ZoneIdx) -> Option<ZoneSnapshot>;

    /// State of a CPU's list of free pages of a zone; none if the CPU is offline.
    fn pcp(&self, zone: ZoneIdx, cpu: CpuId) -> Option<PcpSnapshot>;

    /// The event counters of all CPUs together.
    fn events(&self) -> VmEvents;

    /// Name and value of a counter that the embedder keeps in a zone, as Linux keeps `nr_mlock`; none from the last on.
    ///
    /// An index means the same counter in every zone. Printed behind `nr_free_pages`: in zoneinfo for the zone, in vmstat and in a
    /// node's vmstat as a sum. At most [`COUNTER_LIMIT`] are asked for.
    fn zone_counter(&self, _zone: ZoneIdx, _index: usize) -> Option<(&str, u64)> {
        None
    }

    /// Name and value of a counter that the embedder keeps in a node, as Linux keeps `nr_dirty`; none from the last on.
    ///
    /// An index means the same counter in every node. Printed under `per-node stats` of zoneinfo, last in the node's
    /// vmstat, and as a sum behind the NUMA counters of vmstat. At most [`COUNTER_LIMIT`] are asked for.
    fn node_counter(&self, _node: NodeId, _index: usize) -> Option<(&str, u64)> {
        None
    }

    /// The NUMA counters of vmstat, if those are not the sums over the zones: in Linux 4.14 and later a CPU's share that it
    /// has not handed in yet is in what a zone's and a node's files say, and not in vmstat.
    fn global_numa(&self) -> Option<NumaCounters> {
        None
    }

    /// Whether the six NUMA counters stand before `nr_free_cma`, among the zone's other counters, as they did until Linux
    /// 4.14 gave them a framework of their own.
    fn numa_before_cma(&self) -> bool {
        false
    }
}

/// How many counters of an embedder a zone or a node can have; Linux 6.1 has about 10 and 45.
pub const COUNTER_LIMIT: usize = 256;

/// The numbers of all nodes that may exist.
pub(super) fn nodes<S: Source + ?Sized>(source: &S) -> impl Iterator<Item = NodeId> + Clone + use<S> {
    // The limit is below 256, so the cast loses nothing.
    (0..source.nr_nodes().min(NodeId::LIMIT)).map(|node| NodeId(node as u8))
}

/// The zones of a node, lowest first; nothing for an offline node.
pub(super) fn zones_of<S: Source + ?Sized>(source: &S, node: NodeId) -> impl Iterator<Item = ZoneSnapshot> {
    ZoneKind::ALL.into_iter().filter_map(move |kind| source.zone(ZoneIdx::of(node, kind)))
}

/// The zones of a node that have memory, lowest first.
pub(super) fn populated_of<S: Source + ?Sized>(source: &S, node: NodeId) -> impl Iterator<Item = ZoneSnapshot> {
    zones_of(source, node).filter(ZoneSnapshot::is_populated)
}

/// The zones that have memory, by node and kind.
pub(super) fn populated<S: Source + ?Sized>(source: &S) -> impl Iterator<Item = ZoneSnapshot> {
    nodes(source).flat_map(move |node| populated_of(source, node))
}

/// How many columns a line by order has.
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
    /// The sums of `node`'s zones; none if the node is offline.
    pub fn of<S: Source + ?Sized>(source: &S, node: NodeId) -> Option<NodeSnapshot> {
        zones_of(source, node).fold(None, |sum: Option<NodeSnapshot>, zone| {
            let empty = NodeSnapshot { node, ..NodeSnapshot::default() };
            Some(sum.unwrap_or(empty).plus(&zone))
        })
    }

    /// This and one zone more; saturates.
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
