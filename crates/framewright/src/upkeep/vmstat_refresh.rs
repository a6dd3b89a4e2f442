//! Folds the statistics that CPUs keep into the zones, and sets how much CPUs may keep.
//!
//! A CPU reports its counts to a zone when they exceed a threshold (`zone_stat.rs`). The remainder reaches the zone
//! here: when the CPU goes offline, and at each refresh. Linux's `vmstat_update` refreshes every second where
//! [`World::needs_refresh`] says that there is something to do. A refresh also empties lists of other nodes' zones that
//! the CPU does not use any more (`expire.rs`).
//!
//! All of it takes the CPU's lists and the zone lock for a moment, so any CPU may run it; Linux's runs on the CPU
//! itself. Lists whose owner does not leave them in time are left for the next refresh.

use crate::pcp::expire::Round;
use crate::pcp::pcp::{Claim, Pcp};
use crate::policy::watermark::{drift_mark, node_threshold, pressure_threshold, stat_threshold};
use crate::seam::compiled::Compiled;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::vmstat::NumaItem;
use crate::types::units::{CpuId, NodeId};
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// Counts of a refresh.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Refreshed {
    /// Counters of zones and nodes that the CPU had changed and not reported.
    pub told: u64,
    /// Frames that were freed to zones.
    ///
    /// They come from idle lists of other nodes' zones, and from frees to any zone that were deferred while it was
    /// locked.
    pub drained: u64,
    /// Lists of other nodes' zones whose blocks will be freed if they stay idle.
    pub waiting: u64,
}

impl<M: Machine> World<'_, M> {
    /// Reports what a CPU keeps, and empties idle lists of other nodes' zones.
    pub(crate) fn refresh(&self, cpu: CpuId) -> Refreshed {
        let mut refreshed = Refreshed { told: u64::from(self.shared.node_stats.fold(cpu)), drained: 0, waiting: 0 };
        for zone in self.zones {
            // In this order: frames that are freed here are counted on the CPU that runs here.
            self.expire(cpu, zone, &mut refreshed);
            refreshed.told = refreshed.told.saturating_add(self.fold(cpu, zone));
            refreshed.drained = refreshed.drained.saturating_add(self.drain_deferred(zone).0);
        }
        refreshed
    }

    /// Reports to a zone what a CPU keeps; returns the number of counters.
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

    /// Empties a CPU's lists of another node's zone if they were idle long enough.
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

    /// Returns a CPU's lists of another node's zone, their traffic, and whether they hold blocks.
    ///
    /// `None` for a zone of the CPU's own node, and for a zone without memory.
    fn far_lists(&self, cpu: CpuId, zone: &Zone<M>) -> Option<(&Pcp<M>, u64, bool)> {
        let own = self.shared.cpus.get(cpu.index())?;
        let is_far = own.node != zone.node();
        let pcp = self.pcps.record(cpu, zone.idx.index()).filter(|pcp| is_far && pcp.is_used())?;
        let pageblock_order = self.shared.frames.geometry.pageblock_order;
        Some((pcp, pcp.traffic_racy(pageblock_order), pcp.count_racy(pageblock_order) != 0))
    }

    /// Whether a refresh has something to do, or will have.
    ///
    /// That is so if the CPU keeps counts that zones or nodes lack, or holds blocks of other nodes' zones that may
    /// become idle. Deferred frees of any zone count as well.
    pub(crate) fn needs_refresh(&self, cpu: CpuId) -> bool {
        let is_kept = |zone: &Zone<M>| self.shared.stats.diffs(cpu, zone.idx).is_some_and(|diffs| diffs.is_kept());
        let waits = |zone: &Zone<M>| {
            let lists = self.far_lists(cpu, zone);
            lists.is_some_and(|(pcp, traffic, holds)| pcp.expiry.look(traffic, holds) != Round::Nothing)
        };
        self.zones.iter().any(|zone| is_kept(zone) || waits(zone) || !zone.deferred.is_empty())
            || self.shared.node_stats.is_kept(cpu)
    }

    /// Moves the counters of a CPU that is gone to its zones.
    pub(crate) fn fold_offline_cpu(&self, cpu: CpuId) {
        let Some(record) = self.shared.cpus.get(cpu.index()) else { return };
        // A fork waits for claims of lists that are used, and for no others: its child would find them claimed for
        // ever.
        let is_used = |zone: &&Zone<M>| self.pcps.record(cpu, zone.idx.index()).is_some_and(Pcp::is_used);
        for zone in self.zones.iter().filter(is_used) {
            self.pinned(|cx| {
                if let Ok(lists) = self.pcps.claim(cx, cpu, zone, Claim::Wait) {
                    lists.fold_events(record.node != zone.node());
                }
            });
        }
        self.refresh(cpu);
    }

    /// Records whether a CPU runs.
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

    /// Sets how much CPUs may keep.
    ///
    /// Depends on the number of running CPUs and on the zones' sizes.
    pub(crate) fn refresh_thresholds(&self) {
        if !M::MAY_KEEP {
            return;
        }
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

    /// Sets how much CPUs may keep for one node's zones; less if memory is short.
    pub(crate) fn set_pressure(&self, node: NodeId, is_short: bool) {
        self.zones.iter().filter(|zone| zone.node() == node).for_each(|zone| self.set_threshold(zone, is_short));
    }

    fn set_threshold(&self, zone: &Zone<M>, is_short: bool) {
        let (cpus, marks, usual) = (self.cpus_online().max(1), zone.stat.marks(), self.usual_threshold(zone));
        let threshold = if is_short { pressure_threshold(cpus, marks).min(usual) } else { usual };
        self.shared.stats.of_zone(zone.idx).for_each(|diffs| diffs.deltas.set_threshold(threshold));
        // A CPU may run although it was reported as stopped.
        zone.stat.set_drift_mark(drift_mark(self.shared.cpus.len() as u64, threshold, marks));
    }

    /// Switches the NUMA counters on or off; returns false where the mechanisms have none.
    ///
    /// Switched off, they read as 0. Switched on, they count from 0.
    pub(crate) fn set_numa_stat(&self, on: bool) -> bool {
        let (shared, stats) = (&self.shared, &self.shared.stats);
        if !shared.mechanisms().counts_numa() {
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
