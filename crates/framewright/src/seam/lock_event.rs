//! The locks of an allocator by name, and what happens to them: what the machine is told to measure waiting and holding.

use core::fmt;

use crate::types::units::{CpuId, ZoneIdx};

/// What happened to a lock. Between `Wanted` and `Taken` a CPU waits, between `Taken` and `Released` it holds the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockEvent {
    /// A CPU is about to ask for it.
    Wanted,
    /// It has it.
    Taken,
    /// It gave it up, a moment ago. Without `Taken` before, it gave up waiting.
    Released,
}

/// Kinds of locks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum LockKind {
    /// A zone's free lists.
    Zone,
    /// A shard of a zone's depot.
    Depot,
    /// A CPU's lists of a zone, taken by somebody else than that CPU.
    Pcp,
    /// A zone's locks of ranges of frames; one name for all of them.
    Range,
    /// The front of a zone's free lists, where blocks are put by several CPUs at once; one name for all of them.
    FreeList,
    /// A node's lists of pages in use, which belong to the allocator's callers: told by them, for the same report.
    Lru,
}

/// One of an allocator's locks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockName {
    /// What it guards.
    pub kind: LockKind,
    /// Of what: the zone's number in the upper half, the shard's or CPU's in the lower; of [`LockKind::Lru`] the node.
    pub index: u32,
}

impl LockName {
    /// The lock of a zone.
    pub const fn zone(zone: ZoneIdx) -> LockName {
        LockName { kind: LockKind::Zone, index: (zone.0 as u32) << 16 }
    }

    /// The range locks of a zone, and the fronts of its lists.
    pub(crate) const fn of_zone(kind: LockKind, zone: ZoneIdx) -> LockName {
        LockName { kind, index: (zone.0 as u32) << 16 }
    }

    /// The lock of a shard of a zone's depot.
    pub const fn depot(zone: ZoneIdx, shard: u16) -> LockName {
        LockName { kind: LockKind::Depot, index: (zone.0 as u32) << 16 | shard as u32 }
    }

    /// The claim of a CPU's lists of a zone.
    pub const fn pcp(zone: ZoneIdx, cpu: CpuId) -> LockName {
        LockName { kind: LockKind::Pcp, index: (zone.0 as u32) << 16 | cpu.0 as u32 }
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (zone, part) = (ZoneIdx((self.index >> 16) as u16), self.index as u16);
        // What tells locks of a kind apart comes first: tables cut names off at the end.
        match self.kind {
            LockKind::Zone => f.write_str("zone lock")?,
            LockKind::Depot => write!(f, "depot shard {part}")?,
            LockKind::Pcp => write!(f, "lists of CPU {part}")?,
            LockKind::Range => f.write_str("range locks")?,
            LockKind::FreeList => f.write_str("list fronts")?,
            LockKind::Lru => return write!(f, "LRU lock, Node {}", self.index),
        }
        write!(f, ", Node {}, zone {}", zone.node().0, zone.kind())
    }
}
