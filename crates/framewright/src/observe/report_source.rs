//! The allocator as a source of reports.
//!
//! Collects the state that the formats of `report/` print. All figures are those of a moment; at a quiescent point they
//! are exact.

use crate::api::allocator::Allocator;
use crate::policy::mechanisms::NumaPlace;
use crate::policy::watermark::Marks;
use crate::report::{NumaCounters, PcpSnapshot, Source, VmEvents, ZoneSnapshot};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::shared::Shared;
use crate::stat::vmstat::{GlobalEvent, ZoneEvent};
use crate::types::migratetype::MigrateType;
use crate::types::units::{CpuId, Frame, NodeId, Order, Pfn, PfnRange, ZoneIdx, ZoneKind};
use crate::zone::zone::Zone;
use crate::zonelist::numa_stat::{Numa, numa_told};

/// Events that only slow paths count, since boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Requests that failed.
    pub failed: u64,
    /// Frees that were refused.
    pub bad_frees: u64,
    /// Times background reclaim was woken.
    pub kswapd_wakes: u64,
    /// Blocks below the pageblock order stolen from another type's lists.
    ///
    /// `mm_page_alloc_extfrag` with fragmenting=1.
    pub extfrag_fragmenting: u64,
    /// Blocks of whole pageblocks stolen from another type's lists (fragmenting=0).
    pub extfrag_whole: u64,
    /// Free lists rebuilt after a damaged descriptor was met.
    pub repairs: u64,
    /// Blocks quarantined because they were written to after they were freed.
    ///
    /// Only with `hardened`.
    pub written_after_free: u64,
    /// Requests that waited for background reclaim rather than mix mobilities.
    ///
    /// Only with `stall-order`.
    pub fragment_stalls: u64,
    /// Time that all of them waited, in nanoseconds.
    pub fragment_stall_ns: u64,
}

/// A zone's memory and marks, in frames: what can be read without a look at lists and pageblocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneMemory {
    /// From the first frame to the last, holes included.
    pub span: PfnRange,
    /// Memory, whoever has it.
    pub present: u64,
    /// Of `present`, what the allocator may allocate.
    pub managed: u64,
    /// On the zone's free lists.
    pub free: u64,
    /// Of `free`, in pageblocks of type CMA.
    pub free_cma: u64,
    /// The marks, without the boost.
    pub marks: Marks,
    /// By how much the marks are raised for the moment.
    pub boost: u64,
}

/// An allocator's memory in few numbers, in frames.
///
/// The figures of a busy allocator are those of no single moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Memory, whoever has it.
    pub present: u64,
    /// Of `present`, what the allocator may allocate: all but what is withheld.
    pub managed: u64,
    /// Free in a zone.
    pub free: u64,
    /// Allocated; 0 if more was freed, by frees of one block in the same instant.
    pub allocated: u64,
    /// Neither: kept by CPUs for the next requests, or in quarantine.
    pub cached: u64,
    /// Ever allocated.
    pub total_allocated: u64,
    /// Ever freed.
    pub total_freed: u64,
}

impl<M: Machine> Allocator<'_, M> {
    /// Returns memory and calls summed up over all zones and CPUs.
    ///
    /// Takes no lock, and reads counters only.
    pub fn totals(&self) -> Totals {
        let world = self.world();
        let mut sum = Totals::default();
        for zone in world.zones {
            let event = |event| world.pcps.event_racy(&world.shared, zone, event);
            let memory = self.memory_of(zone);
            sum.present = sum.present.saturating_add(memory.present);
            sum.managed = sum.managed.saturating_add(memory.managed);
            sum.free = sum.free.saturating_add(memory.free);
            sum.total_allocated = sum.total_allocated.wrapping_add(event(ZoneEvent::AllocFrames));
            sum.total_freed = sum.total_freed.wrapping_add(event(ZoneEvent::FreeFrames));
        }
        // Other CPUs allocate and free while the counters are read.
        sum.allocated = sum.total_allocated.saturating_sub(sum.total_freed);
        sum.cached = sum.managed.saturating_sub(sum.free).saturating_sub(sum.allocated);
        sum
    }

    /// Returns a zone's memory and marks; none if there is no such zone.
    ///
    /// Takes no lock, and reads counters only.
    pub fn zone_memory(&self, zone: ZoneIdx) -> Option<ZoneMemory> {
        self.world().zone(zone).map(|zone| self.memory_of(zone))
    }

    fn memory_of(&self, zone: &Zone<M>) -> ZoneMemory {
        let free = zone.memory_exact(&self.world().shared);
        ZoneMemory {
            span: zone.span,
            present: zone.present.load(Ordering::Relaxed),
            managed: zone.managed.load(Ordering::Relaxed),
            free: free.free,
            free_cma: free.cma,
            marks: zone.stat.marks(),
            boost: zone.stat.boost(),
        }
    }

    /// Returns the slow paths' counters.
    pub fn counters(&self) -> Counters {
        let events = &self.world().shared.events;
        Counters {
            failed: events.get(GlobalEvent::AllocFail),
            bad_frees: events.get(GlobalEvent::BadFree),
            kswapd_wakes: events.get(GlobalEvent::KswapdWake),
            extfrag_fragmenting: events.get(GlobalEvent::ExtFragFragmenting),
            extfrag_whole: events.get(GlobalEvent::ExtFragWhole),
            repairs: events.get(GlobalEvent::Repairs),
            written_after_free: events.get(GlobalEvent::WrittenAfterFree),
            fragment_stalls: events.get(GlobalEvent::FragmentStall),
            fragment_stall_ns: events.get(GlobalEvent::FragmentStallTime),
        }
    }

    /// Returns how much CPUs may keep of a zone's counters; 0 if nothing.
    fn threshold_of(&self, zone: ZoneIdx) -> u8 {
        self.world().shared.stats.of_zone(zone).next().map_or(0, |diffs| diffs.deltas.threshold())
    }

    /// Returns a zone's pageblocks by type.
    ///
    /// Reads the words of all pageblocks from the zone's first to its last.
    fn pageblocks_by_type(&self, zone: &Zone<M>) -> [u64; MigrateType::COUNT] {
        let frames = &self.world().shared.frames;
        let order = frames.geometry.pageblock_order.0;
        // Descriptors are in the order of frame numbers, and the zone's span begins and ends with memory.
        let pageblock = |pfn: Pfn| frames.frame(pfn).map_or(0, |frame| frame.0 >> order);
        let last = Pfn(zone.span.end.0.saturating_sub(1));
        let mut blocks = [0_u64; MigrateType::COUNT];
        for index in pageblock(zone.span.start)..=pageblock(last) {
            let word = frames.pageblock(Frame(index << order));
            if word.zone() == Some(zone.idx)
                && let Some(count) = blocks.get_mut(word.migratetype().index())
            {
                *count = count.saturating_add(1);
            }
        }
        blocks
    }

    /// Returns the counters of migration and compaction.
    ///
    /// All `None` where compaction is off: vmstat then has no such lines.
    fn moves(&self) -> VmEvents {
        let events = &self.world().shared.events;
        if !self.mechanisms().has_compaction() {
            return VmEvents::default();
        }
        let get = |event| Some(events.get(event));
        VmEvents {
            pgmigrate_success: get(GlobalEvent::MigrateSuccess),
            pgmigrate_fail: get(GlobalEvent::MigrateFail),
            compact_migrate_scanned: get(GlobalEvent::CompactMigrateScanned),
            compact_free_scanned: get(GlobalEvent::CompactFreeScanned),
            compact_stall: get(GlobalEvent::CompactStall),
            compact_fail: get(GlobalEvent::CompactFail),
            compact_success: get(GlobalEvent::CompactSuccess),
            compact_daemon_wake: get(GlobalEvent::CompactDaemonWake),
            compact_daemon_migrate_scanned: get(GlobalEvent::CompactDaemonMigrateScanned),
            compact_daemon_free_scanned: get(GlobalEvent::CompactDaemonFreeScanned),
            ..VmEvents::default()
        }
    }

    fn numa_of(&self, zone: &Zone<M>) -> NumaCounters {
        counters(self.world().pcps.numa_of(&self.world().shared, zone))
    }
}

fn counters([hit, miss, foreign, interleave, local, other]: Numa) -> NumaCounters {
    NumaCounters { hit, miss, foreign, interleave, local, other }
}

/// Returns a zone's free blocks by order and type.
fn free_blocks<M: Machine>(shared: &Shared<'_, M>, zone: &Zone<M>) -> [[u64; MigrateType::COUNT]; Order::COUNT] {
    core::array::from_fn(|order| {
        core::array::from_fn(|migratetype| {
            let migratetype = MigrateType::from_index(migratetype).unwrap_or_default();
            zone.blocks_racy(shared, Order(order as u8), migratetype).0
        })
    })
}

impl<M: Machine> Source for Allocator<'_, M> {
    fn max_order(&self) -> Order {
        self.geometry().max_order
    }

    fn pageblock_order(&self) -> Order {
        self.geometry().pageblock_order
    }

    fn has_cma(&self) -> bool {
        let cma = MigrateType::Cma.index();
        let count = |zone: &Zone<M>| self.pageblocks_by_type(zone).get(cma).copied();
        self.world().zones.iter().any(|zone| zone.is_populated() && count(zone) != Some(0))
    }

    fn nr_nodes(&self) -> usize {
        self.nodes()
    }

    fn nr_cpus(&self) -> usize {
        self.cpus()
    }

    fn zone(&self, idx: ZoneIdx) -> Option<ZoneSnapshot> {
        let zone = self.world().zone(idx)?;
        let blocks = self.pageblocks_by_type(zone);
        let pageblock = self.geometry().pageblock_order.frames();
        let ZoneMemory { span, present, managed, free, free_cma, marks, boost } = self.memory_of(zone);
        Some(ZoneSnapshot {
            node: zone.node(),
            kind: zone.kind(),
            start_pfn: span.start,
            spanned: span.frames(),
            present,
            managed,
            cma: blocks.get(MigrateType::Cma.index()).copied().unwrap_or(0).saturating_mul(pageblock),
            free,
            free_cma,
            boost,
            min: marks.min,
            low: marks.low,
            high: marks.high,
            protection: zone.reserve,
            nr_free: free_blocks(&self.world().shared, zone),
            blocks,
            mixed: None,
            numa: self.numa_of(zone),
            stat_threshold: u32::from(self.threshold_of(idx)),
            unreclaimable: false,
        })
    }

    fn pcp(&self, idx: ZoneIdx, cpu: CpuId) -> Option<PcpSnapshot> {
        let record = self.world().pcps.record(cpu, self.world().zone(idx)?.idx.index())?;
        let size = record.size;
        let count = u64::from(record.count_racy(self.geometry().pageblock_order));
        if count == 0 && !self.is_online(cpu) {
            return None;
        }
        let high = if record.autotune.is_on() { record.autotune.high() } else { size.high };
        Some(PcpSnapshot { cpu, count, high: u64::from(high), batch: u64::from(size.batch) })
    }

    fn zone_counter(&self, idx: ZoneIdx, index: usize) -> Option<(&str, u64)> {
        let (world, zone) = (self.world(), self.world().zone(idx)?);
        Some((*world.zone_counters.get(index)?, zone.stat.own(world.shared.stats.zone(idx), index)))
    }

    fn node_counter(&self, node: NodeId, index: usize) -> Option<(&str, u64)> {
        let world = self.world();
        Some((*world.node_counters.get(index)?, world.shared.node_stats.get(node, index)?))
    }

    fn numa_before_cma(&self) -> bool {
        self.mechanisms().numa_place == NumaPlace::AmongZone
    }

    fn global_numa(&self) -> Option<NumaCounters> {
        numa_told(&self.world().shared).map(counters)
    }

    fn events(&self) -> VmEvents {
        let world = self.world();
        let sum = |event, kind: Option<ZoneKind>| {
            let zones = world.zones.iter().filter(|zone| kind.is_none_or(|kind| zone.kind() == kind));
            zones.map(|zone| world.pcps.event_racy(&world.shared, zone, event)).fold(0_u64, u64::wrapping_add)
        };
        VmEvents {
            pgalloc: ZoneKind::ALL.map(|kind| sum(ZoneEvent::AllocFrames, Some(kind))),
            allocstall: Some(world.shared.events.stalls()),
            pgfree: sum(ZoneEvent::FreeFrames, None),
            ..self.moves()
        }
    }
}
