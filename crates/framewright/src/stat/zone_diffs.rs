//! What one CPU has counted in a zone and not told it yet: differentials, as Linux calls them.
//!
//! Who may write here, and when the zone is told, is said in `zone_stat.rs`.

use core::array;

use crate::policy::mechanisms::{Mechanisms, NumaStat, Threshold};
use crate::policy::watermark::MOST_THRESHOLD;
use crate::seam::field::{Words, tell};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::per_cpu_counter::CounterDeltas;
use crate::stat::vmstat::NumaItem;

/// Counters that an embedder may keep in each zone.
pub(crate) const OWN: usize = 14;
/// Kinds of counters of a zone besides the NUMA counters: free frames, the embedder's, and CMA's free frames.
pub(crate) const ITEMS: usize = OWN + 2;
pub(crate) const FREE: usize = 0;
pub(crate) const CMA: usize = OWN + 1;

/// What one CPU has counted in a zone and not told it.
///
/// Invariant S3: of a NUMA counter at most its own threshold is kept, and down to half of it; of all others at most the threshold, up or
/// down (`per_cpu_counter.rs`).
// Aligned so that no two CPUs write to the same pair of cache lines.
#[repr(align(128))]
pub struct ZoneDiffs<M: Machine> {
    /// Numbers of free frames, and the embedder's counters.
    pub(crate) deltas: CounterDeltas<M, ITEMS>,
    numa8: [M::U8; NumaItem::COUNT],
    numa16: [M::U16; NumaItem::COUNT],
    // Fixed at boot.
    kind: NumaStat,
    numa_threshold: Threshold,
}

impl<M: Machine> Default for ZoneDiffs<M> {
    fn default() -> Self {
        ZoneDiffs {
            deltas: CounterDeltas::default(),
            numa8: array::from_fn(|_| Word::new(0)),
            numa16: array::from_fn(|_| Word::new(0)),
            kind: NumaStat::default(),
            numa_threshold: Threshold::COMPUTED,
        }
    }
}

impl<M: Machine> ZoneDiffs<M> {
    pub(crate) fn place(&mut self, mechanisms: &Mechanisms) {
        (self.kind, self.numa_threshold) = (mechanisms.numa_stat, mechanisms.numa_threshold);
    }

    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        let (items, threshold) = self.deltas.words();
        for (index, word) in items.iter().enumerate() {
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
        tell(visit, format_args!("diffs.threshold"), threshold);
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
            (None, NumaStat::S8) => i64::from(self.deltas.threshold()),
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
        self.deltas.is_within()
            && NumaItem::ALL.into_iter().all(|item| (-(numa / 2)..=numa).contains(&self.numa_kept(item)))
    }

    /// Whether something is kept that others do not see.
    pub(crate) fn is_kept(&self) -> bool {
        self.deltas.is_kept() || NumaItem::ALL.into_iter().any(|item| self.numa_kept(item) != 0)
    }
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
