//! An arena's counters in one structure, for a program's own monitoring.
//!
//! [`Arena::source`] has them all, by zone and CPU, in the words of `/proc`. Here is what most programs look at.
//!
//! Cost: the counters of each CPU are summed up, without a lock.

use framewright::report::Source;
use framewright::{ZoneIdx, ZoneKind};

use super::arena::Arena;

/// State and counters of an arena, in pages unless told otherwise.
///
/// The figures of a busy arena are those of no single moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct ArenaStats {
    /// Pages that the arena has at this moment.
    pub present: u64,
    /// Pages free in a zone.
    pub free: u64,
    /// Pages allocated.
    pub allocated: u64,
    /// Pages that are neither: kept by CPUs for the next requests, or in quarantine.
    pub cached: u64,
    /// Pages ever allocated.
    pub total_allocated: u64,
    /// Pages ever freed.
    pub total_freed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Frees that were refused.
    pub bad_frees: u64,
    /// Blocks quarantined because they were written to after their free. Only hardened arenas check.
    pub written_after_free: u64,
    /// Free lists rebuilt because a descriptor was damaged.
    pub repairs: u64,
}

impl Arena {
    /// Returns the arena's state and counters. At any time, from any thread.
    pub fn stats(&self) -> ArenaStats {
        let (source, counters) = (self.source(), self.inner.allocator().counters());
        let kinds = (source.nr_nodes() * ZoneKind::COUNT) as u16;
        let zones = (0..kinds).filter_map(|zone| source.zone(ZoneIdx(zone)));
        let (present, free) = zones.fold((0, 0), |(present, free), zone| (present + zone.managed, free + zone.free));
        let events = source.events();
        let total_allocated = events.pgalloc.iter().fold(0_u64, |sum, &pages| sum.wrapping_add(pages));
        // Two frees of one block in the same instant may both have counted.
        let allocated = total_allocated.saturating_sub(events.pgfree);
        ArenaStats {
            present,
            free,
            allocated,
            cached: present.saturating_sub(free).saturating_sub(allocated),
            total_allocated,
            total_freed: events.pgfree,
            failed: counters.failed,
            bad_frees: counters.bad_frees,
            written_after_free: counters.written_after_free,
            repairs: counters.repairs,
        }
    }
}
