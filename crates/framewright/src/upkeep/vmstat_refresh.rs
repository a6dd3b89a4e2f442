//! What CPUs keep of the statistics reaches the zones, and how much they may keep.
//!
//! A CPU tells a zone what it counted when that is more than a threshold (`zone_stat.rs`). What is left over reaches the zone here: when
//! the CPU goes offline, and whenever somebody refreshes, as Linux's `vmstat_update` does every second where
//! [`World::needs_refresh`] says that there is something. A refresh also empties lists of other nodes' zones that the CPU does not use any more
//! (`expire.rs`). All of it takes the lists of the CPU and the zone's lock for a moment, so it may come from any CPU; Linux's comes from the CPU itself.
//! Lists whose owner does not let go of them in time are left for the next refresh.

use crate::pcp::expire::Round;
use crate::pcp::pcp::{Claim, Pcp};
use crate::policy::mechanisms::NumaStat;
use crate::policy::watermark::{drift_mark, node_threshold, pressure_threshold, stat_threshold};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::vmstat::NumaItem;
use crate::types::units::{CpuId, NodeId};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// What a refresh did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refreshed {
    /// Counters of zones and nodes that the CPU had changed and not told.
    pub told: u64,
    /// Frames that went back to other nodes' zones, from lists that were idle for long enough; and to any, that were freed while it was
    /// locked.
    pub drained: u64,
    /// Lists of other nodes' zones that hold blocks and will go back if they stay idle.
    pub waiting: u64,
}

impl<M: Machine> World<'_, M> {
    /// Tells the zones and nodes what a CPU keeps, and empties idle lists of other nodes' zones.
    pub(crate) fn refresh(&self, cpu: CpuId) -> Refreshed {
        let mut refreshed = Refreshed { told: u64::from(self.shared.node_stats.fold(cpu)), drained: 0, waiting: 0 };
        for zone in self.zones {
            // In this order: what is given back is counted, on the CPU that runs here.
            self.expire(cpu, zone, &mut refreshed);
            refreshed.told = refreshed.told.saturating_add(self.fold(cpu, zone));
            refreshed.drained = refreshed.drained.saturating_add(self.drain_deferred(zone));
        }
        refreshed
    }

    /// Tells a zone what a CPU keeps. Returns how many counters that were.
    fn fold(&self, cpu: CpuId, zone: &Zone<M>) -> u64 {
        let kept = self.shared.stats.diffs(cpu, zone.idx).filter(|diffs| diffs.is_kept());
        let told = kept.and_then(|diffs| {
            self.pinned(|cx| {
                let told = zone.lock_ends(cx).fold(diffs);
                let numa = self.pcps.claim(cx, cpu, zone, Claim::Wait).map_or(0, |lists| lists.fold_numa(diffs));
                told.saturating_add(numa)
            })
        });
        u64::from(told.unwrap_or(0))
    }

    /// Empties a CPU's lists of a zone of another node if they have been idle for long enough.
    fn expire(&self, cpu: CpuId, zone: &Zone<M>, refreshed: &mut Refreshed) {
        let Some((pcp, traffic, holds_blocks)) = self.far_lists(cpu, zone) else { return };
        let mut drained = 0;
        let empty = || {
            let claimed =
                self.pinned(|cx| self.pcps.claim(cx, cpu, zone, Claim::Wait).map(|lists| drained = lists.drain_all()));
            matches!(claimed, Some(Ok(())))
        };
        if pcp.expiry.refresh(traffic, holds_blocks, empty) == Round::Wait {
            refreshed.waiting = refreshed.waiting.saturating_add(1);
        }
        refreshed.drained = refreshed.drained.saturating_add(drained);
    }

    /// A CPU's lists of a zone of another node: what went through them, and whether they hold blocks. None of the CPU's own node, and
    /// of a zone without memory.
    fn far_lists(&self, cpu: CpuId, zone: &Zone<M>) -> Option<(&Pcp<M>, u64, bool)> {
        let own = self.shared.cpus.get(cpu.index())?;
        let is_far = own.node != zone.node();
        let pcp = self.pcps.record(cpu, zone.idx.index()).filter(|pcp| is_far && pcp.is_used())?;
        let pageblock_order = self.shared.frames.geometry.pageblock_order;
        Some((pcp, pcp.traffic_racy(pageblock_order), pcp.count_racy(pageblock_order) != 0))
    }

    /// Whether a refresh has something to do or will have: a CPU keeps what zones or nodes were not told, or holds blocks of other
    /// nodes' zones that may become idle.
    pub(crate) fn needs_refresh(&self, cpu: CpuId) -> bool {
        let is_kept = |zone: &Zone<M>| self.shared.stats.diffs(cpu, zone.idx).is_some_and(|diffs| diffs.is_kept());
        let waits = |zone: &Zone<M>| {
            let lists = self.far_lists(cpu, zone);
            lists.is_some_and(|(pcp, traffic, holds)| pcp.expiry.look(traffic, holds) != Round::Nothing)
        };
        self.zones.iter().any(|zone| is_kept(zone) || waits(zone) || !zone.deferred.is_empty())
            || self.shared.node_stats.is_kept(cpu)
    }

    /// A CPU is gone: its zones take over its counters.
    pub(crate) fn fold_offline_cpu(&self, cpu: CpuId) {
        let Some(record) = self.shared.cpus.get(cpu.index()) else { return };
        for zone in self.zones {
            self.pinned(|cx| {
                if let Ok(lists) = self.pcps.claim(cx, cpu, zone, Claim::Wait) {
                    lists.fold_events(record.node != zone.node());
                }
            });
        }
        self.refresh(cpu);
    }

    /// Notes that a CPU runs, or does not any more.
    pub(crate) fn set_online(&self, cpu: CpuId, online: bool) {
        if let Some(record) = self.shared.cpus.get(cpu.index()) {
            record.offline.store(u32::from(!online), Ordering::Relaxed);
            self.refresh_thresholds();
        }
    }

    pub(crate) fn is_online(&self, cpu: CpuId) -> bool {
        self.shared.cpus.get(cpu.index()).is_some_and(|record| record.offline.load(Ordering::Relaxed) == 0)
    }

    fn cpus_online(&self) -> u64 {
        self.shared.cpus.iter().filter(|record| record.offline.load(Ordering::Relaxed) == 0).count() as u64
    }

    /// Sets how much CPUs may keep, by the number of CPUs that run and the sizes of the zones.
    pub(crate) fn refresh_thresholds(&self) {
        self.zones.iter().for_each(|zone| self.set_threshold(zone, false));
        for node in (0..self.nodes).map(|node| NodeId(node as u8)) {
            let zones = self.zones.iter().filter(|zone| zone.node() == node && zone.is_populated());
            let threshold = node_threshold(zones.map(|zone| self.usual_threshold(zone)));
            self.shared.node_stats.set_threshold(node, threshold);
        }
    }

    fn usual_threshold(&self, zone: &Zone<M>) -> u8 {
        let page_shift = self.shared.frames.geometry.page_shift;
        stat_threshold(self.cpus_online().max(1), zone.managed.load(Ordering::Relaxed), page_shift)
    }

    /// The same for the zones of one node, whose memory is short or not.
    pub(crate) fn set_pressure(&self, node: NodeId, is_short: bool) {
        self.zones.iter().filter(|zone| zone.node() == node).for_each(|zone| self.set_threshold(zone, is_short));
    }

    fn set_threshold(&self, zone: &Zone<M>, is_short: bool) {
        let (cpus, marks, usual) = (self.cpus_online().max(1), zone.stat.marks(), self.usual_threshold(zone));
        let threshold = if is_short { pressure_threshold(cpus, marks).min(usual) } else { usual };
        self.shared.stats.of_zone(zone.idx).for_each(|diffs| diffs.deltas.set_threshold(threshold));
        // A CPU may run although somebody said that it had stopped.
        zone.stat.set_drift_mark(drift_mark(self.shared.cpus.len() as u64, threshold, marks));
    }

    /// Switches the NUMA counters off, when they read as 0, or on, when they count from 0. False where the mechanisms have none.
    pub(crate) fn set_numa_stat(&self, on: bool) -> bool {
        let (shared, stats) = (&self.shared, &self.shared.stats);
        if shared.mechanisms.numa_stat == NumaStat::Off {
            return false;
        }
        if on && !stats.is_counting() {
            for zone in self.zones {
                let ever = self.pcps.numa_ever(shared, zone);
                for (item, count) in NumaItem::ALL.into_iter().zip(ever) {
                    zone.stat.numa_since(item).store(count, Ordering::Relaxed);
                }
            }
            for (sum, since) in
                NumaItem::ALL.into_iter().filter_map(|item| stats.numa(item).zip(stats.numa_since(item)))
            {
                since.store(sum.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        stats.set_counting(on);
        true
    }
}
