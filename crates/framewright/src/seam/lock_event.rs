//! Names of the allocator's locks, and the events from which a machine measures waiting and holding.

use core::fmt;

use crate::types::units::{CpuId, ZoneIdx};

/// Event of a lock.
///
/// A CPU waits from `Wanted` to `Taken`, and holds the lock from `Taken` to `Released`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockEvent {
    /// A CPU is about to ask for the lock.
    Wanted,
    /// The CPU holds the lock.
    Taken,
    /// The CPU released the lock a moment ago. Without `Taken` before, it stopped waiting.
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
    /// A CPU's lists of a zone, claimed by another CPU.
    Pcp,
    /// A zone's locks of ranges of frames; all share one name.
    Range,
    /// The fronts of a zone's free lists, where several CPUs insert blocks at once.
    ///
    /// All of them share one name.
    FreeList,
    /// A node's lists of pages in use, which belong to the allocator's callers.
    ///
    /// The callers report its events, so that this lock is measured like the others.
    Lru,
}

/// One of an allocator's locks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockName {
    /// Kind of data that the lock guards.
    pub kind: LockKind,
    /// Number of the lock among those of its kind.
    ///
    /// The zone's number is in the upper half, the shard's or CPU's number in the lower half.
    ///
    /// For [`LockKind::Lru`] it is the node.
    pub index: u32,
}

impl LockName {
    /// Returns the name of a zone's lock.
    pub const fn zone(zone: ZoneIdx) -> LockName {
        LockName { kind: LockKind::Zone, index: (zone.0 as u32) << 16 }
    }

    /// Returns the name of a zone's range locks, or of the heads of its lists.
    pub(crate) const fn of_zone(kind: LockKind, zone: ZoneIdx) -> LockName {
        LockName { kind, index: (zone.0 as u32) << 16 }
    }

    /// Returns the name of the lock of a shard of a zone's depot.
    pub const fn depot(zone: ZoneIdx, shard: u16) -> LockName {
        LockName { kind: LockKind::Depot, index: (zone.0 as u32) << 16 | shard as u32 }
    }

    /// Returns the zone whose lock this is.
    pub(crate) const fn zone_index(self) -> ZoneIdx {
        ZoneIdx((self.index >> 16) as u16)
    }

    /// Returns the name of the claim on a CPU's lists of a zone.
    pub const fn pcp(zone: ZoneIdx, cpu: CpuId) -> LockName {
        LockName { kind: LockKind::Pcp, index: (zone.0 as u32) << 16 | cpu.0 as u32 }
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (zone, part) = (self.zone_index(), self.index as u16);
        // The distinguishing part of a name comes first: tables cut names off at the end.
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

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;
    use crate::types::units::{NodeId, ZoneKind};

    #[test]
    fn names_tell_zone_and_part() {
        let zone = ZoneIdx::of(NodeId(3), ZoneKind::Normal);
        for (name, text) in [
            (LockName::pcp(zone, CpuId(5)), "lists of CPU 5, Node 3, zone Normal"),
            (LockName::depot(zone, 2), "depot shard 2, Node 3, zone Normal"),
            (LockName::of_zone(LockKind::Range, zone), "range locks, Node 3, zone Normal"),
        ] {
            assert_eq!((name.zone_index(), name.to_string().as_str()), (zone, text));
        }
    }
}
