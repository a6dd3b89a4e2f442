//! What one CPU has counted in a zone and not told it yet: differentials, as Linux calls them.
//!
//! Who may write here, and when the zone is told, is said in `zone_stat.rs`.

use core::array;

use crate::field::{Words, tell};
use crate::machine::{Machine, Ordering, Word};
use crate::mechanisms::{Mechanisms, NumaStat, Threshold};
use crate::vmstat::NumaItem;
use crate::watermark::MOST_THRESHOLD;

/// Counters that an embedder may keep in each zone.
pub(crate) const OWN: usize = 14;
/// How often a counter is changed anew that somebody else changed meanwhile, before the change is told right away.
const TRIES: u32 = 16;
/// Kinds of counters of a zone besides the NUMA counters: free frames, the embedder's, and CMA's free frames.
pub(crate) const ITEMS: usize = OWN + 2;
pub(crate) const FREE: usize = 0;
pub(crate) const CMA: usize = OWN + 1;

/// What one CPU has counted in a zone and not told it.
///
/// Invariant S3: what is kept of the numbers of free frames is at most the threshold, up or down; of a NUMA counter, at most its own
/// threshold, and down to half of it.
// Aligned so that no two CPUs write to the same pair of cache lines.
#[repr(align(128))]
pub struct Diffs<M: Machine> {
    items: [M::U8; ITEMS],
    numa8: [M::U8; NumaItem::COUNT],
    numa16: [M::U16; NumaItem::COUNT],
    threshold: M::U8,
    // Fixed at boot.
    kind: NumaStat,
    numa_threshold: Threshold,
}

impl<M: Machine> Default for Diffs<M> {
    fn default() -> Self {
        Diffs {
            items: array::from_fn(|_| Word::new(0)),
            numa8: array::from_fn(|_| Word::new(0)),
            numa16: array::from_fn(|_| Word::new(0)),
            threshold: Word::new(1),
            kind: NumaStat::default(),
            numa_threshold: Threshold::COMPUTED,
        }
    }
}

impl<M: Machine> Diffs<M> {
    pub(crate) fn place(&mut self, mechanisms: &Mechanisms) {
        (self.kind, self.numa_threshold) = (mechanisms.numa_stat, mechanisms.numa_threshold);
    }

    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        for (index, word) in self.items.iter().enumerate() {
            match index {
                FREE => tell(visit, format_args!("diffs.nr_free_pages"), word),
                CMA => tell(visit, format_args!("diffs.nr_free_cma"), word),
                _ => tell(visit, format_args!("diffs.other[{index}]"), word),
            }
        }
        for (item, (byte, word)) in NumaItem::ALL.iter().zip(self.numa8.iter().zip(&self.numa16)) {
            tell(visit, format_args!("diffs.numa8.{item:?}"), byte);
            tell(visit, format_args!("diffs.numa16.{item:?}"), word);
        }
        tell(visit, format_args!("diffs.threshold"), &self.threshold);
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
        let (keep, told) = drift(i64::from(word.load(Ordering::Relaxed) as i8), change, self.threshold());
        word.store(keep as u8, Ordering::Relaxed);
        told
    }

    /// Changes a counter that anybody on the CPU may change, and another CPU fold, at the same time; returns what is to be told now.
    pub(crate) fn change_shared(&self, item: usize, change: i64) -> i64 {
        let Some(word) = self.items.get(item) else { return change };
        for _ in 0..TRIES {
            let kept = word.load(Ordering::Relaxed);
            let (keep, told) = drift(i64::from(kept as i8), change, self.threshold());
            if word.cas(kept, keep as u8, Ordering::Relaxed).is_ok() {
                return told;
            }
        }
        change
    }

    /// Takes what is kept of such a counter.
    pub(crate) fn take(&self, item: usize) -> i64 {
        self.items.get(item).map_or(0, |word| i64::from(word.swap(0, Ordering::Relaxed) as i8))
    }

    /// What is kept of a NUMA counter.
    pub(crate) fn numa_kept(&self, item: NumaItem) -> i64 {
        let (byte, word) = (self.numa8.get(item as usize), self.numa16.get(item as usize));
        match self.kind {
            NumaStat::S8 => byte.map_or(0, |byte| i64::from(byte.load(Ordering::Relaxed) as i8)),
            NumaStat::S16 => word.map_or(0, |word| i64::from(word.load(Ordering::Relaxed) as i16)),
            _ => word.map_or(0, |word| i64::from(word.load(Ordering::Relaxed))),
        }
    }

    pub(crate) fn keep_numa(&self, item: NumaItem, keep: i64) {
        let (byte, word) = (self.numa8.get(item as usize), self.numa16.get(item as usize));
        match self.kind {
            NumaStat::S8 => byte.iter().for_each(|byte| byte.store(keep as u8, Ordering::Relaxed)),
            _ => word.iter().for_each(|word| word.store(keep as u16, Ordering::Relaxed)),
        }
    }

    /// What a NUMA counter may be before the zone is told.
    pub(crate) fn numa_threshold(&self) -> i64 {
        match (self.numa_threshold.get(), self.kind) {
            (Some(threshold), _) => i64::from(threshold),
            (None, NumaStat::S8) => i64::from(self.threshold()),
            (None, kind) => i64::from(kind.most()),
        }
    }

    /// Counts one more; returns what is to be told now. The lists of its CPU are held.
    pub(crate) fn count_numa(&self, item: NumaItem) -> i64 {
        let (keep, told) = tick(self.kind, self.numa_kept(item), self.numa_threshold());
        self.keep_numa(item, keep);
        told
    }

    /// S3.
    pub(crate) fn is_within(&self) -> bool {
        let most = i64::from(MOST_THRESHOLD);
        // A threshold that fell takes effect with the next change.
        let numa = if self.kind == NumaStat::S8 { most } else { self.numa_threshold() };
        (0..ITEMS).all(|item| self.kept(item).abs() <= most)
            && NumaItem::ALL.into_iter().all(|item| (-(numa / 2)..=numa).contains(&self.numa_kept(item)))
    }

    /// Whether something is kept that others do not see.
    pub(crate) fn is_kept(&self) -> bool {
        (0..ITEMS).any(|item| self.kept(item) != 0) || NumaItem::ALL.into_iter().any(|item| self.numa_kept(item) != 0)
    }
}

/// A counter that may go either way: what is kept of it and what is told.
fn drift(kept: i64, change: i64, threshold: u8) -> (i64, i64) {
    let now = kept.saturating_add(change);
    if now.unsigned_abs() > u64::from(threshold) { (0, now) } else { (now, 0) }
}

/// A counter that only grows, by one more. With a sign, half a threshold is told in advance, as Linux does.
fn tick(kind: NumaStat, kept: i64, threshold: i64) -> (i64, i64) {
    let now = kept.saturating_add(1);
    let over = if kind == NumaStat::U16 { 0 } else { threshold / 2 };
    if now > threshold { (over.saturating_neg(), now.saturating_add(over)) } else { (now, 0) }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn small_changes_stay_and_large_ones_are_told() {
        assert_eq!(drift(3, 7, 10), (10, 0));
        assert_eq!(drift(3, 8, 10), (0, 11));
        assert_eq!(drift(-4, -7, 10), (0, -11));
        assert_eq!(drift(i64::from(i8::MIN), i64::MIN, 125), (0, i64::MIN));
    }

    #[test]
    fn a_growing_counter_is_told_every_one_and_a_half_thresholds() {
        // Of 8 bits: nothing is ever kept that does not fit.
        let mut kept = 0;
        let mut times = std::vec::Vec::new();
        for event in 1..=1_000_i64 {
            let (keep, told) = tick(NumaStat::S8, kept, 125);
            kept = keep;
            assert!(i64::from(keep as i8) == keep);
            if told != 0 {
                times.push((event, told));
            }
        }
        assert_eq!(times[..3], [(126, 188), (314, 188), (502, 188)]);
        assert_eq!(tick(NumaStat::U16, 65_533, 65_533), (0, 65_534));
        assert_eq!(tick(NumaStat::S16, 32_765, 32_765), (-16_382, 32_766 + 16_382));
    }
}
