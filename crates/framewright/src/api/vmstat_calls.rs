//! Calls that keep counters up to date: the refresh of each second, the embedder's own counters, the NUMA switch.

use crate::api::allocator::Allocator;
use crate::seam::machine::Machine;
use crate::shared::CallCx;
use crate::types::units::{CpuId, NodeId, ZoneIdx};
use crate::upkeep::vmstat_refresh::Refreshed;

impl<M: Machine> Allocator<'_, M> {
    /// What Linux does every second on each CPU; here from any CPU. Tells zones and nodes what a CPU has counted and kept, where the mechanisms let
    /// it (`zone-stat=differentials`; `numa-stat=s8`, `s16`, `u16`). And gives back the blocks on its lists of zones of other nodes at the third
    /// call since the CPU last allocated or freed there, whatever the mechanisms.
    pub fn refresh_statistics(&self, cpu: CpuId) -> Refreshed {
        self.world().refresh(cpu)
    }

    /// Whether [`Allocator::refresh_statistics`] has something to do for a CPU, or will have if nothing happens until then: it keeps
    /// counts, or holds blocks of other nodes' zones. Whoever refreshes only where this says so forgets nothing.
    pub fn needs_refresh(&self, cpu: CpuId) -> bool {
        self.world().needs_refresh(cpu)
    }

    /// While a node's memory is short, CPUs keep less of the numbers of free frames, so that watermarks see them more exactly. For whoever
    /// reclaims in the background: from when it is woken until it sleeps again.
    pub fn set_pressure(&self, node: NodeId, is_short: bool) {
        self.world().set_pressure(node, is_short);
    }

    /// Changes one of the counters that the embedder keeps in each zone ([`crate::Config::zone_counters`]), as cheaply as the allocator's own: a CPU
    /// tells the zone when it has more than a threshold, where the mechanisms say `zone-stat=differentials`. From any context. False if
    /// there is no such zone or counter.
    pub fn count_in_zone(&self, zone: ZoneIdx, index: usize, change: i64) -> bool {
        let world = self.world();
        let Some(zone) = world.zone(zone).filter(|_| index < world.zone_counters.len()) else { return false };
        let count = |cx: CallCx<'_, '_, M>| zone.stat.count_own((&cx.shared.stats, zone.idx), cx.cpu, index, change);
        world.pinned(count).is_some()
    }

    /// Changes one of the counters that the embedder keeps in each node ([`crate::Config::node_counters`]), in the same way: what a CPU may
    /// keep is the most that it may keep in a zone of the node. False if there is no such node or counter.
    pub fn count_in_node(&self, node: NodeId, index: usize, change: i64) -> bool {
        let world = self.world();
        let count = |cx: CallCx<'_, '_, M>| cx.shared.node_stats.count(node, cx.cpu, index, change);
        index < world.node_counters.len() && world.pinned(count) == Some(true)
    }

    /// Switches the NUMA counters off or on, as Linux's `vm.numa_stat`: off they read as 0, and on again they count from 0. Exact if no
    /// call is in progress. False where the mechanisms have none (`numa-stat=off`).
    pub fn set_numa_stat(&self, on: bool) -> bool {
        self.world().set_numa_stat(on)
    }
}
