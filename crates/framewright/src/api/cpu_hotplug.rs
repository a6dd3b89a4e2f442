//! Calls for CPU hotplug: a CPU goes offline, or comes online again.

use crate::api::allocator::Allocator;
use crate::seam::machine::Machine;
use crate::types::units::CpuId;

impl<M: Machine> Allocator<'_, M> {
    /// Takes a CPU offline: drains its lists and folds its counters; returns the frames drained.
    ///
    /// `cpu` is a CPU record: a CPU with several contexts ([`crate::Config::contexts`]) takes a call for each.
    ///
    /// Context: the CPU runs no more. It may run again later without further notice; [`Allocator::online_cpu`] makes
    /// reports show it again.
    pub fn offline_cpu(&self, cpu: CpuId) -> u64 {
        let drained = self.world().drain_cpu(cpu).0;
        self.world().fold_offline_cpu(cpu);
        self.world().set_online(cpu, false);
        drained
    }

    /// Marks a CPU that was taken offline as running again.
    pub fn online_cpu(&self, cpu: CpuId) {
        self.world().set_online(cpu, true);
    }

    /// Returns whether a CPU exists and is online.
    ///
    /// It is online from boot, or from [`Allocator::online_cpu`], until it is taken offline.
    pub fn is_online(&self, cpu: CpuId) -> bool {
        self.world().is_online(cpu)
    }
}
