//! The state of zones, nodes and per-CPU lists, and the counters, as plain data.
//!
//! All types are `Copy` and have no effect on the allocator: a snapshot may be kept, sent, compared or made up.
//!
//! Cost: a [`ZoneSnapshot`] has about 1.2 KiB, nearly all of it the table of free blocks.

use crate::types::migratetype::MigrateType;
use crate::types::units::{CpuId, NodeId, Order, Pfn, ZoneKind};

/// State of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneSnapshot {
    /// The node that the zone belongs to.
    pub node: NodeId,
    /// The zone's kind.
    pub kind: ZoneKind,
    /// First frame of the zone's span.
    pub start_pfn: Pfn,
    /// Frames from the first to the last, holes included.
    pub spanned: u64,
    /// Frames that exist: `spanned` less the holes.
    pub present: u64,
    /// Frames that the allocator was given: `present` less those withheld at boot.
    pub managed: u64,
    /// Frames in pageblocks of type CMA.
    pub cma: u64,
    /// Frames on the buddy lists (`nr_free_pages`), without those in per-CPU lists.
    pub free: u64,
    /// Of `free`, the frames in pageblocks of type CMA (`nr_free_cma`).
    pub free_cma: u64,
    /// Frames by which all watermarks are raised at present.
    pub boost: u64,
    /// Watermark below which only reserves are left, in frames and without the boost.
    pub min: u64,
    /// Watermark below which background reclaim is woken, in frames and without the boost.
    pub low: u64,
    /// Watermark at which background reclaim stops, in frames and without the boost.
    pub high: u64,
    /// `lowmem_reserve`: frames that must stay free here for requests of a higher kind.
    ///
    /// Indexed by [`ZoneKind::index`] of the highest kind that a request could have used, if the request is then served
    /// from this zone.
    pub protection: [u64; ZoneKind::COUNT],
    /// Free blocks by order and [`MigrateType::index`] of the list that they are on.
    pub nr_free: [[u64; MigrateType::COUNT]; Order::COUNT],
    /// Pageblocks by [`MigrateType::index`].
    pub blocks: [u64; MigrateType::COUNT],
    /// Of `blocks`, those in which a frame of another type is allocated.
    ///
    /// `None` if that is not tracked (Linux: without `page_owner`); then pagetypeinfo has no such table.
    pub mixed: Option<[u64; MigrateType::COUNT]>,
    /// Where requests were served.
    pub numa: NumaCounters,
    /// Largest share of a zone's counter that a CPU may keep unfolded.
    ///
    /// In the counter's unit.
    pub stat_threshold: u32,
    /// Whether background reclaim has given up on the node.
    pub unreclaimable: bool,
}

impl ZoneSnapshot {
    /// Returns whether the zone has any memory.
    pub const fn is_populated(&self) -> bool {
        self.present != 0
    }

    /// Returns the free blocks by order, of all types together.
    pub fn free_by_order(&self) -> [u64; Order::COUNT] {
        self.nr_free.map(|by_type| by_type.iter().fold(0, |sum: u64, &blocks| sum.saturating_add(blocks)))
    }
}

/// Where a zone's or node's requests were served.
///
/// Each unit is one request, whatever its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NumaCounters {
    /// Served here, as intended.
    pub hit: u64,
    /// Served here, though another node was intended.
    pub miss: u64,
    /// Intended for here, but served on another node.
    pub foreign: u64,
    /// Of `hit`, those whose node was chosen by interleaving.
    pub interleave: u64,
    /// Served here to a CPU of this node.
    pub local: u64,
    /// Served here to a CPU of another node.
    pub other: u64,
}

impl NumaCounters {
    /// Returns the sum of both counts; saturates.
    #[must_use]
    pub const fn plus(self, more: NumaCounters) -> NumaCounters {
        NumaCounters {
            hit: self.hit.saturating_add(more.hit),
            miss: self.miss.saturating_add(more.miss),
            foreign: self.foreign.saturating_add(more.foreign),
            interleave: self.interleave.saturating_add(more.interleave),
            local: self.local.saturating_add(more.local),
            other: self.other.saturating_add(more.other),
        }
    }

    /// Returns names and values in the order of zoneinfo and vmstat.
    pub const fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("numa_hit", self.hit),
            ("numa_miss", self.miss),
            ("numa_foreign", self.foreign),
            ("numa_interleave", self.interleave),
            ("numa_local", self.local),
            ("numa_other", self.other),
        ]
    }
}

/// State of a CPU's list of free pages of one zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PcpSnapshot {
    /// The CPU.
    pub cpu: CpuId,
    /// Frames in the list.
    pub count: u64,
    /// Frames above which the list is drained.
    pub high: u64,
    /// Frames that are refilled or drained at a time.
    pub batch: u64,
}

/// Event counters of all CPUs together, under Linux's names.
///
/// They only grow, and wrap at 64 bits. `None`: the source does not keep this counter, and vmstat has no line for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VmEvents {
    /// Frames allocated, by kind of their zone (`pgalloc_dma` ...).
    pub pgalloc: [u64; ZoneKind::COUNT],
    /// Requests that had to reclaim, by the highest kind that they allowed (`allocstall_dma` ...).
    pub allocstall: Option<[u64; ZoneKind::COUNT]>,
    /// Frames freed.
    pub pgfree: u64,
    /// Runs of background reclaim over a node.
    pub pageoutrun: Option<u64>,
    /// Frames whose contents were moved elsewhere, for compaction or for a contiguous range.
    pub pgmigrate_success: Option<u64>,
    /// Frames whose contents could not be moved.
    pub pgmigrate_fail: Option<u64>,
    /// Frames at which compaction looked for a block to move.
    pub compact_migrate_scanned: Option<u64>,
    /// Frames at which compaction looked for a place to move a block to.
    pub compact_free_scanned: Option<u64>,
    /// Frames that compaction removed from their lists, as source or as target.
    pub compact_isolated: Option<u64>,
    /// Requests that had to compact memory.
    pub compact_stall: Option<u64>,
    /// Of `compact_stall`, those that got no block from it.
    pub compact_fail: Option<u64>,
    /// Of `compact_stall`, those that got a block from it.
    pub compact_success: Option<u64>,
    /// Wake-ups of background compaction.
    pub compact_daemon_wake: Option<u64>,
    /// Of `compact_migrate_scanned`, the frames at which background compaction looked.
    pub compact_daemon_migrate_scanned: Option<u64>,
    /// Of `compact_free_scanned`, the frames at which background compaction looked.
    pub compact_daemon_free_scanned: Option<u64>,
}

impl VmEvents {
    /// Returns names and values of the counters that are kept, in the order of vmstat.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let [alloc_dma, alloc_dma32, alloc_normal, alloc_movable] = self.pgalloc.map(Some);
        let [stall_dma, stall_dma32, stall_normal, stall_movable] =
            self.allocstall.map_or([None; ZoneKind::COUNT], |stalls| stalls.map(Some));
        [
            ("pgalloc_dma", alloc_dma),
            ("pgalloc_dma32", alloc_dma32),
            ("pgalloc_normal", alloc_normal),
            ("pgalloc_movable", alloc_movable),
            ("allocstall_dma", stall_dma),
            ("allocstall_dma32", stall_dma32),
            ("allocstall_normal", stall_normal),
            ("allocstall_movable", stall_movable),
            ("pgfree", Some(self.pgfree)),
            ("pageoutrun", self.pageoutrun),
            ("pgmigrate_success", self.pgmigrate_success),
            ("pgmigrate_fail", self.pgmigrate_fail),
            ("compact_migrate_scanned", self.compact_migrate_scanned),
            ("compact_free_scanned", self.compact_free_scanned),
            ("compact_isolated", self.compact_isolated),
            ("compact_stall", self.compact_stall),
            ("compact_fail", self.compact_fail),
            ("compact_success", self.compact_success),
            ("compact_daemon_wake", self.compact_daemon_wake),
            ("compact_daemon_migrate_scanned", self.compact_daemon_migrate_scanned),
            ("compact_daemon_free_scanned", self.compact_daemon_free_scanned),
        ]
        .into_iter()
        .filter_map(|(name, count)| Some((name, count?)))
    }
}
