//! Free blocks by order after a workload has freed everything, as in `/proc/buddyinfo`.
//!
//! They are read twice. The first reading is that of a machine that has just become idle: part of the memory lies in
//! per-CPU lists and depots, block by block, and is not in `buddyinfo`. The second comes after all of these were
//! drained, when nothing merges by itself any more. Two free buddies that lie side by side have then lost their merge,
//! until one of them is allocated and freed.

use framewright::report::Source;
use framewright::units::{CpuId, Order, Pfn, ZoneIdx};
use framewright::{Allocator, FrameState, Region};
use framewright_ops::zones;
use serde::Serialize;

use crate::engine::sim::Sim;

/// Free memory after a workload.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct Aftermath {
    /// Zones with memory, as the workload left them.
    pub left: Vec<FreeBlocks>,
    /// Zones with memory, after per-CPU lists and depots were drained.
    pub drained: Vec<FreeBlocks>,
    /// Pairs of free buddies that could be one block and are not, after draining.
    pub mergeable: u64,
}

/// A zone's free memory.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct FreeBlocks {
    /// Which zone, as in `/proc/buddyinfo`: `Node 0, zone Normal`.
    pub zone: String,
    /// Free blocks on the buddy lists, by order from 0.
    pub blocks: Vec<u64>,
    /// Free frames in per-CPU lists, depots and pageblocks that CPUs own, on no buddy list.
    pub cached: u64,
}

impl Aftermath {
    /// Reads an allocator whose frames are all free, and drains it.
    pub(crate) fn of(pages: &Allocator<'_, Sim>, regions: &[Region]) -> Aftermath {
        let left = free_blocks(pages);
        pages.drain_all();
        Aftermath { left, drained: free_blocks(pages), mergeable: mergeable(pages, regions) }
    }
}

fn free_blocks(pages: &Allocator<'_, Sim>) -> Vec<FreeBlocks> {
    let of = |zone: ZoneIdx| {
        let snapshot = pages.zone(zone).filter(framewright::report::ZoneSnapshot::is_populated)?;
        let cpus = (0..pages.cpus()).map(|cpu| CpuId(cpu as u16));
        let listed: u64 = cpus.filter_map(|cpu| pages.pcp(zone, cpu)).map(|list| list.count).sum();
        let orders = pages.max_order().up().index();
        Some(FreeBlocks {
            zone: format!("Node {}, zone {}", snapshot.node.0, snapshot.kind),
            blocks: snapshot.free_by_order()[..orders].to_vec(),
            cached: listed + pages.depot_frames(zone) + pages.owned_frames(zone),
        })
    };
    zones(pages.nodes()).filter_map(of).collect()
}

/// Counts free blocks whose buddy is a free block of the same order and mobility.
fn mergeable(pages: &Allocator<'_, Sim>, regions: &[Region]) -> u64 {
    let free = |pfn: Pfn| match pages.state_of(pfn) {
        FrameState::Free(head, order) if head == pfn => Some(order),
        _ => None,
    };
    let of = |region: &Region| {
        let (mut at, mut pairs) = (region.range.start.0, 0);
        while at < region.range.end.0 {
            let order = free(Pfn(at));
            let buddy = Pfn(at ^ order.map_or(0, Order::frames));
            // From the lower of the two, and inside of one zone: a region has one.
            let is_pair = order.is_some_and(|order| order < pages.max_order())
                && (at..region.range.end.0).contains(&buddy.0)
                && free(buddy) == order
                && pages.pageblock_type(buddy) == pages.pageblock_type(Pfn(at));
            pairs += u64::from(is_pair);
            at += order.map_or(1, Order::frames);
        }
        pairs
    };
    regions.iter().map(of).sum()
}
