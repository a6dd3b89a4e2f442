//! An arena's counters in one structure, for a program's own monitoring.
//!
//! [`Arena::source`] has them all, by zone and CPU, in the words of `/proc`. Here is what most programs look at.
//!
//! Cost: the counters of each CPU are summed up, without a lock.

use framewright::{Counters, Totals};

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
        let pages = self.inner.allocator();
        // Memory that is withheld is memory that the arena does not have.
        let Totals { managed: present, free, allocated, cached, total_allocated, total_freed, .. } = pages.totals();
        let Counters { failed, bad_frees, written_after_free, repairs, .. } = pages.counters();
        ArenaStats {
            present,
            free,
            allocated,
            cached,
            total_allocated,
            total_freed,
            failed,
            bad_frees,
            written_after_free,
            repairs,
        }
    }
}
