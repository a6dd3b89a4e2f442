//! Per-CPU counters: counters of zones (`zone_stat.rs`) and nodes (`node_stat.rs`) with a part on each CPU.
//!
//! | words of a counter | written by |
//! |---|---|
//! | a CPU's delta: a signed byte for each CPU and zone or node ([`CounterDeltas`]) | the CPU, and CPUs that fold it |
//! | the count of the zone or node, 64 bits ([`Told::here`]) | each CPU whose delta exceeds a threshold |
//! | the sum of those over all zones or nodes ([`Told::everywhere`]) | each CPU whose delta exceeds a threshold |
//!
//! The exact count is the second word plus the deltas of all CPUs. Two writers of a delta must not lose a count. Each
//! counter decides how: both writers hold a lock, or both exchange the word.

use crate::policy::watermark::MOST_THRESHOLD;
use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::CpuId;

/// Number of attempts to change a delta that other writers change.
///
/// After them, the change is added to the zone or node.
const TRIES: u32 = 16;

record! {
    /// Deltas of one CPU for `N` counters, and their threshold.
    ///
    /// Invariant S3: a delta is at most the threshold, up or down.
    pub(crate) struct CounterDeltas<M: Machine, const N: usize> {
        pub(super) word("kept[{index}]"; index in 0..) items: [M::U8; N],
        pub(super) word threshold: M::U8 = 1,
    }
}

impl<M: Machine, const N: usize> CounterDeltas<M, N> {
    pub(crate) fn threshold(&self) -> u8 {
        self.threshold.load(Ordering::Relaxed)
    }

    pub(crate) fn set_threshold(&self, threshold: u8) {
        self.threshold.store(threshold.clamp(1, MOST_THRESHOLD), Ordering::Relaxed);
    }

    /// Returns the delta of a counter.
    pub(crate) fn kept(&self, item: usize) -> i64 {
        self.items.get(item).map_or(0, |word| i64::from(word.load(Ordering::Relaxed) as i8))
    }

    pub(crate) fn forget(&self, item: usize) {
        if let Some(word) = self.items.get(item) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Changes a counter; returns the amount to add to the shared words now.
    ///
    /// Caller holds: the lock that excludes other writers of the delta.
    pub(crate) fn change(&self, item: usize, change: i64) -> i64 {
        let Some(word) = self.items.get(item) else { return change };
        let (keep, told) = delta(i64::from(word.load(Ordering::Relaxed) as i8), change, self.threshold());
        word.store(keep as u8, Ordering::Relaxed);
        told
    }

    /// Like [`Self::change`], without a lock.
    ///
    /// Other code, on this CPU or on another, may change or fold the delta at that moment.
    ///
    /// Returns the amount to add to the shared words now.
    pub(crate) fn change_shared(&self, item: usize, change: i64) -> i64 {
        let Some(word) = self.items.get(item) else { return change };
        for _ in 0..TRIES {
            let kept = word.load(Ordering::Relaxed);
            let (keep, told) = delta(i64::from(kept as i8), change, self.threshold());
            if word.cas(kept, keep as u8, Ordering::Relaxed).is_ok() {
                return told;
            }
        }
        change
    }

    /// Passes each delta to `tell` and resets it; returns the number of counters changed.
    pub(crate) fn fold(&self, tell: impl Fn(usize, i64)) -> u32 {
        let take = |word: &M::U8| i64::from(word.swap(0, Ordering::Relaxed) as i8);
        let changed = self.items.iter().map(take).enumerate().filter(|(_, kept)| *kept != 0);
        changed.fold(0, |changes: u32, (item, kept)| {
            tell(item, kept);
            changes.wrapping_add(1)
        })
    }

    /// Checks invariant S3.
    pub(crate) fn is_within(&self) -> bool {
        // A lowered threshold takes effect with the next change.
        (0..N).all(|item| self.kept(item).abs() <= i64::from(MOST_THRESHOLD))
    }

    /// Returns whether any delta is not 0.
    pub(crate) fn is_kept(&self) -> bool {
        (0..N).any(|item| self.kept(item) != 0)
    }
}

/// Returns a counter's new delta, and the amount to add to the shared words.
///
/// The counter may grow or shrink.
fn delta(kept: i64, change: i64, threshold: u8) -> (i64, i64) {
    let Some(now) = kept.checked_add(change) else { return (kept, change) };
    if now.unsigned_abs() > u64::from(threshold) { (0, now) } else { (now, 0) }
}

/// Words of a counter that all CPUs share.
pub(crate) struct Told<'t, M: Machine> {
    pub(crate) here: &'t M::U64,
    /// Word of the sum; `None` where CPUs keep no deltas.
    ///
    /// Readers of the sum want no more than the shared counts.
    pub(crate) everywhere: Option<&'t M::U64>,
}

impl<M: Machine> Told<'_, M> {
    /// Adds a CPU's count to the shared words.
    pub(crate) fn tell(&self, change: i64) {
        if change != 0 {
            self.here.add(change as u64, Ordering::Relaxed);
            if let Some(sum) = self.everywhere {
                sum.add(change as u64, Ordering::Relaxed);
            }
        }
    }

    /// Counts from any context; uses the CPU's delta if there is one.
    pub(crate) fn count<const N: usize>(&self, kept: Option<&CounterDeltas<M, N>>, item: usize, change: i64) {
        self.tell(kept.map_or(change, |drifts| drifts.change_shared(item, change)));
    }

    /// Returns the count with the CPUs' deltas.
    pub(crate) fn exact(&self, kept: impl Iterator<Item = i64>) -> u64 {
        let told = self.here.load(Ordering::Relaxed);
        not_negative(kept.fold(told, |sum, kept| sum.wrapping_add(kept as u64)))
    }
}

/// Returns `sum`, or 0 if it is negative.
///
/// It can be negative because some CPUs have added only a part of it.
pub(crate) fn not_negative(sum: u64) -> u64 {
    if (sum as i64) < 0 { 0 } else { sum }
}

/// Records by CPU and place, ordered by CPU.
///
/// A place is a zone or a node.
pub(crate) struct CpuRecords<'a, T> {
    pub(crate) records: &'a [T],
    pub(crate) places: usize,
}

impl<'a, T> CpuRecords<'a, T> {
    /// Returns the record of a CPU and place; `None` where CPUs keep no deltas.
    pub(crate) fn get(&self, cpu: CpuId, place: usize) -> Option<&'a T> {
        let index = cpu.index().wrapping_mul(self.places).wrapping_add(place);
        if place < self.places { self.records.get(index) } else { None }
    }

    /// Returns the records of all CPUs for a place.
    pub(crate) fn of(&self, place: usize) -> impl Iterator<Item = &'a T> + use<'a, T> {
        self.records.iter().skip(place).step_by(self.places.max(1))
    }

    /// Returns all records, each with its CPU and place.
    pub(crate) fn every(&self) -> impl Iterator<Item = (CpuId, usize, &'a T)> + use<'a, T> {
        let places = self.places;
        self.records.iter().enumerate().map(move |(index, record)| {
            let (cpu, place) = (index.checked_div(places).unwrap_or(0), index.checked_rem(places).unwrap_or(0));
            (CpuId(cpu as u16), place, record)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_stay_and_large_ones_are_told() {
        assert_eq!(delta(3, 7, 10), (10, 0));
        assert_eq!(delta(3, 8, 10), (0, 11));
        assert_eq!(delta(-4, -7, 10), (0, -11));
        assert_eq!(delta(-4, i64::MIN, 125), (-4, i64::MIN));
    }
}
