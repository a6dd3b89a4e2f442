//! What the allocator knows, as data and as the files that Linux prints.
//!
//! The trade's tools read an allocator through a handful of text files: `buddyinfo` (free blocks by order),
//! `pagetypeinfo` (the same by mobility, and the pageblocks), `zoneinfo` (watermarks, sizes, per-CPU lists), `vmstat` and
//! a node's `numastat` (counters), and the two fragmentation scores of debugfs. Each has a type here whose `Display`
//! writes the file, byte for byte as Linux 6.1 lays it out, blanks at the ends of lines included: parsers in the field
//! split on columns, on line beginnings and on exact words.
//!
//! Everything is counted in frames, except where a name says blocks, pageblocks or events. `docs/stats.md` of the
//! repository says for every line what it counts and which sums it takes part in.
//!
//! The formats read a [`Source`], one zone at a time, and keep nothing: there is no buffer and no heap, so they work in a
//! kernel that has just booted or is about to die. The price is that a file is no snapshot of one instant. Each zone is
//! consistent in itself if the source reads it under the zone's lock, as Linux does; two zones are read one after
//! the other, and `pagetypeinfo` reads each zone up to three times.
//!
//! A counter that a page allocator doesn't have (LRU lists, writeback, slab ...) has no line of its own here: a 0 would
//! claim that something was counted. Lines that remain are in Linux's order. An embedder that does keep such counters hands
//! them in through its source ([`Source::zone_counter`], [`Source::node_counter`]), and they stand where Linux has them.
//! Without any, the text `per-node stats` of zoneinfo is followed by nothing: it stays because readers take it for the
//! start of a node.
//!
//! Rejected: filling a `String` (needs a heap), a visitor of (label, value) pairs with a generic printer (the five layouts
//! share nothing but `Node %d, zone %8s`), and reading through the allocator's own type (its machine parameter would be in
//! every signature, and a recorded or simulated state could not be printed).

mod buddyinfo;
mod counters;
mod fragmentation;
mod pagetypeinfo;
mod snapshot;
mod vmstat;
mod zoneinfo;

pub use buddyinfo::BuddyInfo;
pub use fragmentation::{ExtfragIndex, UnusableIndex, fragmentation_index, unusable_index};
pub use pagetypeinfo::PageTypeInfo;
pub use snapshot::{NodeSnapshot, NumaCounters, PcpSnapshot, VmEvents, ZoneSnapshot};
pub use vmstat::{NodeVmStat, NumaStat, VmStat};
pub use zoneinfo::ZoneInfo;

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

    /// Whether [`MigrateType::Cma`](crate::types::units::MigrateType::Cma) exists; if not, pagetypeinfo has no line and no column for it.
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
fn nodes<S: Source + ?Sized>(source: &S) -> impl Iterator<Item = NodeId> + Clone + use<S> {
    // The limit is below 256, so the cast loses nothing.
    (0..source.nr_nodes().min(NodeId::LIMIT)).map(|node| NodeId(node as u8))
}

/// The zones of a node, lowest first; nothing for an offline node.
fn zones_of<S: Source + ?Sized>(source: &S, node: NodeId) -> impl Iterator<Item = ZoneSnapshot> {
    ZoneKind::ALL.into_iter().filter_map(move |kind| source.zone(ZoneIdx::of(node, kind)))
}

/// The zones of a node that have memory, lowest first.
fn populated_of<S: Source + ?Sized>(source: &S, node: NodeId) -> impl Iterator<Item = ZoneSnapshot> {
    zones_of(source, node).filter(ZoneSnapshot::is_populated)
}

/// The zones that have memory, by node and kind.
fn populated<S: Source + ?Sized>(source: &S) -> impl Iterator<Item = ZoneSnapshot> {
    nodes(source).flat_map(move |node| populated_of(source, node))
}

/// How many columns a line by order has.
fn orders<S: Source + ?Sized>(source: &S) -> usize {
    source.max_order().min(Order::LIMIT).up().index()
}
