//! The view of an arena's allocator for safe code.
//!
//! [`ArenaState`] is the allocator in a private field. It implements [`Source`] and nothing else, which makes the
//! reports safe to hand out. An opaque type (`impl Source`) is not private: it is `'static`, so `Any` names it again.
//! The type that it hides would be the allocator itself, whose frees are `unsafe` to reach
//! ([`crate::Arena::allocator`]). A downcast of this one finds a value with nothing to call.
//!
//! Rejected: a type that borrows the allocator. It is not `'static`, until some code leaks an arena.

use framewright::report::{NumaCounters, PcpSnapshot, Source, VmEvents, ZoneSnapshot};
use framewright::{Allocator, CpuId, NodeId, Order, ZoneIdx};

use crate::native::Native;

/// An arena's allocator, to be read only: the source of its reports ([`crate::Arena::source`]).
pub struct ArenaState(Allocator<'static, Native>);

impl ArenaState {
    pub(super) const fn new(allocator: Allocator<'static, Native>) -> ArenaState {
        ArenaState(allocator)
    }

    /// Caller: code of this crate that keeps the promises of [`crate::Arena::allocator`].
    #[inline(always)]
    pub(super) const fn allocator(&self) -> &Allocator<'static, Native> {
        &self.0
    }
}

impl std::fmt::Debug for ArenaState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArenaState").finish_non_exhaustive()
    }
}

/// Every method is passed on, so that none answers by its default; `tests/arena/safe_views.rs` compares all files.
impl Source for ArenaState {
    fn max_order(&self) -> Order {
        Source::max_order(&self.0)
    }

    fn pageblock_order(&self) -> Order {
        Source::pageblock_order(&self.0)
    }

    fn has_cma(&self) -> bool {
        self.0.has_cma()
    }

    fn has_device_zone(&self) -> bool {
        self.0.has_device_zone()
    }

    fn nr_nodes(&self) -> usize {
        self.0.nr_nodes()
    }

    fn nr_cpus(&self) -> usize {
        self.0.nr_cpus()
    }

    fn zone(&self, zone: ZoneIdx) -> Option<ZoneSnapshot> {
        self.0.zone(zone)
    }

    fn pcp(&self, zone: ZoneIdx, cpu: CpuId) -> Option<PcpSnapshot> {
        self.0.pcp(zone, cpu)
    }

    fn events(&self) -> VmEvents {
        Source::events(&self.0)
    }

    fn zone_counter(&self, zone: ZoneIdx, index: usize) -> Option<(&str, u64)> {
        Source::zone_counter(&self.0, zone, index)
    }

    fn node_counter(&self, node: NodeId, index: usize) -> Option<(&str, u64)> {
        Source::node_counter(&self.0, node, index)
    }

    fn global_numa(&self) -> Option<NumaCounters> {
        self.0.global_numa()
    }

    fn numa_before_cma(&self) -> bool {
        self.0.numa_before_cma()
    }
}
