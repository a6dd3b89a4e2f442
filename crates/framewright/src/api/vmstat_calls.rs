//! Calls that keep counters up to date: the refresh of each second, the embedder's own counters, the NUMA switch.

use crate::api::allocator::Allocator;
use crate::seam::machine::Machine;
use crate::shared::CallCx;
use crate::types::units::{CpuId, NodeId, ZoneIdx};
use crate::upkeep::vmstat_refresh::Refreshed;

impl<M: Machine> Allocator<'_, M> {
    /// Folds what a CPU has counted into its zones and nodes.
    ///
    /// Linux does this every second on each CPU. Here any CPU may do it, for each record
    /// ([`crate::Config::contexts`]). Counts are folded where the mechanisms let CPUs keep some
    /// (`zone-stat=differentials`; `numa-stat=s8`, `s16`, `u16`).
    ///
    /// Whatever the mechanisms, the call also frees blocks of other nodes' zones on the CPU's lists. It does so at the
    /// third call since the CPU last allocated or freed there.
    pub fn refresh_statistics(&self, cpu: CpuId) -> Refreshed {
        self.world().refresh(cpu)
    }

    /// Returns whether [`Allocator::refresh_statistics`] has or will have work for a CPU.
    ///
    /// It has if the CPU keeps counts, or holds blocks of other nodes' zones; it will have if nothing happens until
    /// then. An embedder that refreshes only where this returns true misses nothing.
    pub fn needs_refresh(&self, cpu: CpuId) -> bool {
        self.world().needs_refresh(cpu)
    }

    /// Limits what CPUs keep of the free-frame counts while a node's memory is short.
    ///
    /// Watermarks then see these counts more exactly. A background reclaimer sets this when it is woken, and clears it
    /// when it sleeps again.
    pub fn set_pressure(&self, node: NodeId, is_short: bool) {
        self.world().set_pressure(node, is_short);
    }

    /// Changes an embedder's counter in a zone; false if it does not exist.
    ///
    /// The counters are those of [`crate::Config::zone_counters`]. The call is as cheap as the allocator's own counts.
    /// With `zone-stat=differentials`, a CPU folds its share into the zone only when that exceeds a threshold. Context:
    /// any.
    pub fn count_in_zone(&self, zone: ZoneIdx, index: usize, change: i64) -> bool {
        let world = self.world();
        let Some(zone) = world.zone(zone).filter(|_| index < world.zone_counters.len()) else { return false };
        let count = |cx: CallCx<'_, '_, M>| zone.stat.count_own(cx.shared.stats.zone(zone.idx), cx.cpu, index, change);
        world.pinned(count).is_some()
    }

    /// Changes an embedder's counter in a node; false if it does not exist.
    ///
    /// Like [`Allocator::count_in_zone`], for [`crate::Config::node_counters`]. A CPU may keep at most what it may keep
    /// in a zone of the node.
    pub fn count_in_node(&self, node: NodeId, index: usize, change: i64) -> bool {
        let world = self.world();
        let count = |cx: CallCx<'_, '_, M>| cx.shared.node_stats.count(node, cx.cpu, index, change);
        index < world.node_counters.len() && world.pinned(count) == Some(true)
    }

    /// Switches the NUMA counters off or on, as Linux's `vm.numa_stat`.
    ///
    /// While off they read as 0; when switched on they count from 0. Exact if no call is in progress. False where the
    /// mechanisms have none (`numa-stat=off`).
    pub fn set_numa_stat(&self, on: bool) -> bool {
        self.world().set_numa_stat(on)
    }
}
