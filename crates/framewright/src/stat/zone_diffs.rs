//! Zone deltas: one CPU's counts for a zone that are not yet added to it; Linux calls them differentials.
//!
//! `zone_stat.rs` defines the writers of these words, and the moment when they are added to the zone.

use crate::policy::mechanisms::{Mechanisms, NumaStat, Threshold};
use crate::policy::rules::NumaRules;
use crate::policy::watermark::MOST_THRESHOLD;
use crate::seam::field::{Words, record, tell};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::per_cpu_counter::CounterDeltas;
use crate::stat::vmstat::NumaItem;

/// Number of counters that an embedder may keep in each zone.
pub(crate) const OWN: usize = 14;
/// Number of a zone's counters besides the NUMA counters.
///
/// They are the free frames, the embedder's counters, and CMA's free frames.
pub(crate) const ITEMS: usize = OWN + 2;
pub(crate) const FREE: usize = 0;
pub(crate) const CMA: usize = OWN + 1;

record! {
    /// Deltas of one CPU for one zone: counts not yet added to the zone.
    ///
    /// Invariant S3 (`per_cpu_counter.rs`):
    ///
    /// - A NUMA counter's delta is at most its own threshold, and at least minus half of it.
    /// - Any other delta is at most the threshold, up or down.
    // Aligned so that no two CPUs write to the same pair of cache lines.
    #[repr(align(128))]
    pub struct ZoneDiffs<M: Machine> {
        /// Deltas of the numbers of free frames, and of the embedder's counters.
        pub(crate) record(by Self::name_deltas) deltas: CounterDeltas<M, ITEMS>,
        word("diffs.numa8.{item:?}"; item in NumaItem::ALL) numa8: [M::U8; NumaItem::COUNT],
        word("diffs.numa16.{item:?}"; item in NumaItem::ALL) numa16: [M::U16; NumaItem::COUNT],
        fixed numa_kind: NumaStat,
        fixed numa_threshold: Threshold = Threshold::COMPUTED,
    }
}

impl<M: Machine> ZoneDiffs<M> {
    pub(crate) fn place(&mut self, mechanisms: &Mechanisms) {
        let NumaRules { kind, threshold } = mechanisms.numa_rules();
        (self.numa_kind, self.numa_threshold) = (kind, threshold);
    }

    /// Names the counters' words.
    fn name_deltas(&self, visit: &mut Words<'_>) {
        for (index, word) in self.deltas.items.iter().enumerate() {
            match index {
                FREE => tell(visit, format_args!("diffs.nr_free_pages"), word),
                CMA => tell(visit, format_args!("diffs.nr_free_cma"), word),
                _ => tell(visit, format_args!("diffs.other[{index}]"), word),
            }
        }
        tell(visit, format_args!("diffs.threshold"), &self.deltas.threshold);
    }

    /// Returns the delta of a NUMA counter.
    pub(crate) fn numa_kept(&self, item: NumaItem) -> i64 {
        let (byte, word) = (self.numa8.get(item as usize), self.numa16.get(item as usize));
        match self.numa_kind {
            NumaStat::S8 => byte.map_or(0, |byte| i64::from(byte.load(Ordering::Relaxed) as i8)),
            NumaStat::S16 => word.map_or(0, |word| i64::from(word.load(Ordering::Relaxed) as i16)),
            _ => word.map_or(0, |word| i64::from(word.load(Ordering::Relaxed))),
        }
    }

    pub(crate) fn keep_numa(&self, item: NumaItem, keep: i64) {
        let (byte, word) = (self.numa8.get(item as usize), self.numa16.get(item as usize));
        match self.numa_kind {
            NumaStat::S8 => byte.iter().for_each(|byte| byte.store(keep as u8, Ordering::Relaxed)),
            _ => word.iter().for_each(|word| word.store(keep as u16, Ordering::Relaxed)),
        }
    }

    /// Returns the largest delta that a NUMA counter may keep.
    pub(crate) fn numa_threshold(&self) -> i64 {
        match (self.numa_threshold.get(), self.numa_kind) {
            (Some(threshold), _) => i64::from(threshold),
            (None, NumaStat::S8) => i64::from(self.deltas.threshold()),
            (None, kind) => i64::from(kind.most()),
        }
    }

    /// Counts one event; returns the amount to add to the shared words now.
    ///
    /// Caller holds: the CPU's lists of this zone.
    pub(crate) fn count_numa(&self, item: NumaItem) -> i64 {
        let (keep, told) = tick(self.numa_kind, self.numa_kept(item), self.numa_threshold());
        self.keep_numa(item, keep);
        told
    }

    /// Checks invariant S3.
    pub(crate) fn is_within(&self) -> bool {
        let most = i64::from(MOST_THRESHOLD);
        // A lowered threshold takes effect with the next change.
        let numa = if self.numa_kind == NumaStat::S8 { most } else { self.numa_threshold() };
        self.deltas.is_within()
            && NumaItem::ALL.into_iter().all(|item| (-(numa / 2)..=numa).contains(&self.numa_kept(item)))
    }

    /// Returns whether any delta is not 0.
    pub(crate) fn is_kept(&self) -> bool {
        self.deltas.is_kept() || NumaItem::ALL.into_iter().any(|item| self.numa_kept(item) != 0)
    }
}

/// Returns a growing counter's new delta, and the amount to add to the shared words.
///
/// The counter grows by one. A signed counter adds half a threshold in advance, as Linux does.
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
        // 8-bit counters: every delta fits.
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
