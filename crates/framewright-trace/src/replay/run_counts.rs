//! Counters of a run, and those that it shares with the kernel.

use std::collections::BTreeMap;

use framewright::Mechanisms;
use framewright::units::{MigrateType, Order};

/// Facts about the trace that only a run shows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) free_unknown: u64,
    pub(super) reallocations: u64,
    pub(super) splits: u64,
    pub(super) moves_to_allocated: u64,
}

/// Requests of one order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OrderCount {
    pub(super) requests: u64,
    pub(super) failed: u64,
}

impl OrderCount {
    pub(super) fn count(&mut self, served: bool) {
        self.requests += 1;
        self.failed += u64::from(!served);
    }
}

/// Fallbacks by (order asked for, order found, type asked for, type found).
#[derive(Clone, Debug, Default)]
pub(super) struct Extfrag(BTreeMap<(Order, Order, MigrateType, MigrateType), u64>);

impl Extfrag {
    pub(super) fn count(&mut self, alloc: Order, found: Order, want: MigrateType, from: MigrateType) {
        *self.0.entry((alloc, found, want, from)).or_default() += 1;
    }

    pub(super) fn total(&self) -> u64 {
        self.0.values().sum()
    }

    pub(super) fn fragmenting(&self, pageblock_order: Order) -> u64 {
        self.0.iter().filter(|((_, found, ..), _)| *found < pageblock_order).map(|(_, count)| count).sum()
    }

    /// Number of events by (order asked for, order found, mobility asked for, mobility found).
    pub(super) fn iter(&self) -> impl Iterator<Item = (&(Order, Order, MigrateType, MigrateType), &u64)> {
        self.0.iter()
    }
}

/// The counts of relief.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReliefCounts {
    /// Frames that were reclaimed early.
    pub(super) reclaimed: u64,
    /// Of these, frames of objects that the kernel has freed since.
    pub(super) freed_since: u64,
    /// By how much earlier these were reclaimed, summed over frames, in nanoseconds.
    pub(super) earlier: u128,
    /// Gained huge pages that were split.
    pub(super) split: u64,
    /// Frees that were refused.
    pub(super) refused: u64,
}

/// The raw results of one run.
#[derive(Default)]
pub(super) struct Run {
    pub(super) mechanisms: Mechanisms,
    pub(super) extfrag: Extfrag,
    pub(super) orders: BTreeMap<Order, OrderCount>,
    pub(super) faults: u64,
    pub(super) huge_requests: u64,
    pub(super) served: u64,
    pub(super) gained: u64,
    pub(super) lost: u64,
    pub(super) peak_held: u64,
    pub(super) skipped: u64,
    /// Gained huge pages that were given back with their last base page.
    pub(super) given_back: u64,
    /// Early reclaim, and gained huge pages that were split.
    pub(super) relief: ReliefCounts,
    /// Requests that failed here and that the kernel served, by reason.
    pub(super) reasons: BTreeMap<&'static str, u64>,
    pub(super) moved: u64,
    pub(super) failed_smaller: u64,
    pub(super) events: u64,
    pub(super) seconds: f64,
    pub(super) seen: Seen,
}
