//! Counters of which each CPU keeps a part: of zones (`zone_stat.rs`) and of nodes (`node_stat.rs`).
//!
//! | words of a counter | who writes there |
//! |---|---|
//! | what a CPU keeps, a signed byte for each CPU and zone or node (`Drifts`) | the CPU, and whoever folds its counts |
//! | what the zone or node was told, 64 bits ([`Told::here`]) | every CPU that has counted more than a threshold |
//! | the sum over all zones or nodes of that ([`Told::everywhere`]) | the same |
//!
//! The second and what all CPUs keep of it together are the count. Which of two writers at a time loses nothing, because both hold something or
//! because they exchange the word, is a matter of the counter.

use core::array;

use crate::policy::watermark::MOST_THRESHOLD;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::CpuId;

/// How often a counter is changed anew that somebody else changed meanwhile, before the change is told right away.
const TRIES: u32 = 16;

/// What one CPU keeps of `N` counters, and how much of each it may keep.
///
/// Invariant S3: at most the threshold, up or down.
pub(crate) struct CounterDeltas<M: Machine, const N: usize> {
    items: [M::U8; N],
    threshold: M::U8,
}

impl<M: Machine, const N: usize> Default for CounterDeltas<M, N> {
    fn default() -> Self {
        CounterDeltas { items: array::from_fn(|_| Word::new(0)), threshold: Word::new(1) }
    }
}

impl<M: Machine, const N: usize> CounterDeltas<M, N> {
    /// Its words, for who names them: the counters', and the threshold.
    pub(crate) fn words(&self) -> (&[M::U8; N], &M::U8) {
        (&self.items, &self.threshold)
    }

    pub(crate) fn threshold(&self) -> u8 {
        self.threshold.load(Ordering::Relaxed)
    }

    pub(crate) fn set_threshold(&self, threshold: u8) {
        self.threshold.store(threshold.clamp(1, MOST_THRESHOLD), Ordering::Relaxed);
    }

    /// What is kept of a counter.
    pub(crate) fn kept(&self, item: usize) -> i64 {
        self.items.get(item).map_or(0, |word| i64::from(word.load(Ordering::Relaxed) as i8))
    }

    pub(crate) fn forget(&self, item: usize) {
        if let Some(word) = self.items.get(item) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Changes a counter; returns what is to be told now.
    pub(crate) fn change(&self, item: usize, change: i64) -> i64 {
        let Some(word) = self.items.get(item) else { return change };
        let (keep, told) = delta(i64::from(word.load(Ordering::Relaxed) as i8), change, self.threshold());
        word.store(keep as u8, Ordering::Relaxed);
        told
    }

    /// Changes a counter that anybody on the CPU may change, and another CPU fold, at the same time; returns what is to be told now.
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

    /// Takes what is kept and has it told, counter by counter. Returns how many that were.
    pub(crate) fn fold(&self, tell: impl Fn(usize, i64)) -> u32 {
        let take = |word: &M::U8| i64::from(word.swap(0, Ordering::Relaxed) as i8);
        let changed = self.items.iter().map(take).enumerate().filter(|(_, kept)| *kept != 0);
        changed.fold(0, |changes: u32, (item, kept)| {
            tell(item, kept);
            changes.wrapping_add(1)
        })
    }

    /// S3.
    pub(crate) fn is_within(&self) -> bool {
        // A threshold that fell takes effect with the next change.
        (0..N).all(|item| self.kept(item).abs() <= i64::from(MOST_THRESHOLD))
    }

    /// Whether something is kept that others do not see.
    pub(crate) fn is_kept(&self) -> bool {
        (0..N).any(|item| self.kept(item) != 0)
    }
}

/// A counter that may go either way: what is kept of it and what is told.
fn delta(kept: i64, change: i64, threshold: u8) -> (i64, i64) {
    let Some(now) = kept.checked_add(change) else { return (kept, change) };
    if now.unsigned_abs() > u64::from(threshold) { (0, now) } else { (now, 0) }
}

/// The words of a counter that all CPUs share.
pub(crate) struct Told<'t, M: Machine> {
    pub(crate) here: &'t M::U64,
    /// None where CPUs keep nothing: the sum is for who reads no more than what was told.
    pub(crate) everywhere: Option<&'t M::U64>,
}

impl<M: Machine> Told<'_, M> {
    /// Adds what a CPU counted.
    pub(crate) fn tell(&self, change: i64) {
        if change != 0 {
            self.here.add(change as u64, Ordering::Relaxed);
            if let Some(sum) = self.everywhere {
                sum.add(change as u64, Ordering::Relaxed);
            }
        }
    }

    /// Counts from any context, with what the CPU keeps, if it keeps something.
    pub(crate) fn count<const N: usize>(&self, kept: Option<&CounterDeltas<M, N>>, item: usize, change: i64) {
        self.tell(kept.map_or(change, |drifts| drifts.change_shared(item, change)));
    }

    /// The count, with what CPUs keep of it.
    pub(crate) fn exact(&self, kept: impl Iterator<Item = i64>) -> u64 {
        let told = self.here.load(Ordering::Relaxed);
        not_negative(kept.fold(told, |sum, kept| sum.wrapping_add(kept as u64)))
    }
}

/// A sum of which others have told a part that would make it negative.
pub(crate) fn not_negative(sum: u64) -> u64 {
    if (sum as i64) < 0 { 0 } else { sum }
}

/// A record for each CPU and place, which is a zone or a node: CPU by CPU.
pub(crate) struct PerCpu<'a, T> {
    pub(crate) records: &'a [T],
    pub(crate) places: usize,
}

impl<'a, T> PerCpu<'a, T> {
    /// The record of a CPU and place; none where CPUs keep nothing.
    pub(crate) fn get(&self, cpu: CpuId, place: usize) -> Option<&'a T> {
        let index = cpu.index().wrapping_mul(self.places).wrapping_add(place);
        if place < self.places { self.records.get(index) } else { None }
    }

    /// The records of all CPUs.
    pub(crate) fn of(&self, place: usize) -> impl Iterator<Item = &'a T> + use<'a, T> {
        self.records.iter().skip(place).step_by(self.places.max(1))
    }

    /// All of them, with CPU and place.
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
