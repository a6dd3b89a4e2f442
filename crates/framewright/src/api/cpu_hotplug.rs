//! Calls for CPU hotplug: a CPU stops running for good, or runs again.

use crate::api::allocator::Allocator;
use crate::seam::machine::Machine;
use crate::types::units::CpuId;

impl<M: Machine> Allocator<'_, M> {
    /// A CPU stopped running for good: drains its lists and takes over its counters. Returns the number of frames. It may
    /// run again later without further notice; [`Allocator::online_cpu`] makes reports show it again.
    pub fn offline_cpu(&self, cpu: CpuId) -> u64 {
        let drained = self.world().drain_cpu(cpu);
        self.world().fold_offline_cpu(cpu);
        self.world().set_online(cpu, false);
        drained
    }

    /// A CPU that was taken offline runs again.
    pub fn online_cpu(&self, cpu: CpuId) {
        self.world().set_online(cpu, true);
    }

    /// Whether a CPU exists and was not taken offline since boot or [`Allocator::online_cpu`].
    pub fn is_online(&self, cpu: CpuId) -> bool {
        self.world().is_online(cpu)
    }
}
