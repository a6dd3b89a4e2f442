//! Points of failure: where a test can make the allocator fail ([`crate::Machine::fault`]).

/// Points at which a test can make the allocator fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fault {
    /// A whole request fails: no zone has memory.
    Alloc,
    /// A refill of a per-CPU list returns nothing.
    Refill,
    /// Entering a per-CPU list is refused, as if another CPU were draining it.
    PcpBusy,
    /// A block of a contiguous range cannot be isolated.
    Isolate,
    /// A request that found nothing drains none of the cached blocks.
    Drain,
}

impl Fault {
    /// Every point.
    pub const ALL: [Fault; 5] = [Fault::Alloc, Fault::Refill, Fault::PcpBusy, Fault::Isolate, Fault::Drain];
}
