//! Zone counters: counts of a zone's free lists and allocations, in shared words and per-CPU deltas.
//!
//! Every request, on any CPU, reads the numbers of free frames to check a watermark. All other counters are read only
//! by reports. A write takes the line from all CPUs that read it. The cost of a counter therefore depends on the words
//! on its line, more than on its own readers. So the statistics have a record of their own, apart from the lock and the
//! lists. [`CounterPlaces`] decides the position of each word in it.
//!
//! Where the mechanisms say so, a CPU keeps its counts ([`ZoneDiffs`]) until they exceed a threshold. It then adds them
//! to the zone, and to the sums over all zones ([`Stats`]), by an atomic addition each. Only the CPU itself, and a CPU
//! that folds its counts, write the deltas. Each holds a lock that excludes the other, or exchanges the word:
//!
//! | counter | the owner CPU holds | the folding CPU holds |
//! |---|---|---|
//! | free frames, CMA's | the zone lock, exclusive or shared | the zone lock, exclusive |
//! | NUMA counters | its per-CPU lists of the zone, as owner | those lists, as claimer |
//! | an embedder's | nothing: it exchanges the word | nothing: it exchanges the word |
//!
//! A CPU that allocates without its lists adds to the zone at once. Its lists may be claimed, or the request may go to
//! the zone.

use crate::policy::mechanisms::{Mechanisms, NumaPlace};
use crate::policy::rules::CounterRules;
use crate::policy::watermark::{BoostedZone, FreeMemory, Mark, Marks, raised_boost};
use crate::seam::compiled::Compiled;
use crate::seam::field::{Record, Words, record, tell};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::per_cpu_counter::{CpuRecords, Told, not_negative};
use crate::stat::tally::{Tally, add};
use crate::stat::vmstat::NumaItem;
use crate::stat::zone_diffs::{CMA, FREE, ITEMS, OWN, ZoneDiffs};
use crate::sync::zone_lock::LockMode;
use crate::types::counts::FrameCount;
use crate::types::units::{CpuId, Order, ZoneIdx};

/// Words of a zone's record: two pairs of cache lines.
const WORDS: usize = 32;
/// Words in a pair of cache lines.
const PAIR: usize = 16;
/// Positions of the words that depend on a choice, in words from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct CounterPlaces {
    cma: u8,
    numa: u8,
}

impl CounterPlaces {
    /// Returns the positions with `own` counters of the embedder, which follow the free frames.
    #[inline]
    fn of(own: usize, place: NumaPlace) -> CounterPlaces {
        let next = own.min(OWN).saturating_add(1);
        let (cma, numa) = match place {
            NumaPlace::OwnLines => (next, PAIR),
            NumaPlace::BehindZone => (next, next.saturating_add(1)),
            NumaPlace::AmongZone => (next.saturating_add(NumaItem::COUNT), next),
        };
        CounterPlaces { cma: cma as u8, numa: numa as u8 }
    }
}

/// Background work of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Background {
    Reclaim,
    Compaction,
}

record! {
    /// Shared words of a zone's statistics.
    ///
    /// Invariant B4, with the zone lock free: `free` plus the CPUs' deltas is the sum of the blocks on all lists except
    /// the isolated ones. `cma` and `highatomic` are its parts on the lists of these types.
    #[repr(C, align(128))]
    pub(crate) struct ZoneCounters<M: Machine> {
        word(by Self::name_placed) placed: [M::U64; WORDS],
        /// Free frames on lists of type HighAtomic, and the marks.
        ///
        /// They are written rarely, and read together with the free frames.
        word highatomic: M::U64,
        word("marks.{mark:?}"; mark in [Mark::Min, Mark::Low, Mark::High]) marks: [M::U64; 3],
        /// Level below which deltas must be added; [`crate::policy::watermark::drift_mark`] computes it.
        word drift_mark: M::U64,
        /// Frames temporarily added to each mark (`watermark_boost.rs`).
        ///
        /// `boost_is_new` is 1 while background reclaim has yet to be woken for them.
        word boost: M::U64,
        word boost_is_new: M::U32,
        /// Largest orders asked of background reclaim and of background compaction, and not handled yet.
        word("asked.{who:?}"; who in [Background::Reclaim, Background::Compaction]) asked: [M::U32; 2],
        /// Values of the NUMA counters when counting was last switched on: the reports subtract them.
        word("numa_since.{item:?}"; item in NumaItem::ALL) numa_since: [M::U64; NumaItem::COUNT],
        fixed places: CounterPlaces = CounterPlaces::of(0, NumaPlace::default()),
        fixed rules: CounterRules,
    }
}

impl<M: Machine> ZoneCounters<M> {
    /// Lays the words out, with `own` counters of the embedder.
    pub(crate) fn place(&mut self, own: usize, mechanisms: &Mechanisms) {
        self.places = CounterPlaces::of(own, mechanisms.numa_place);
        self.rules = mechanisms.counter_rules();
    }

    /// Returns the rules of the counters.
    #[inline(always)]
    fn rules(&self) -> CounterRules {
        M::MECHANISMS.map_or(self.rules, |fixed| fixed.counter_rules())
    }

    /// Names the words whose position depends on a choice.
    fn name_placed(&self, visit: &mut Words<'_>) {
        let numa = usize::from(self.places.numa);
        for (index, word) in self.placed.iter().enumerate() {
            match index {
                FREE => tell(visit, format_args!("nr_free_pages"), word),
                _ if index == usize::from(self.places.cma) => tell(visit, format_args!("nr_free_cma"), word),
                _ => match NumaItem::ALL.get(index.wrapping_sub(numa)) {
                    Some(item) => tell(visit, format_args!("numa.{item:?}"), word),
                    None => tell(visit, format_args!("other[{index}]"), word),
                },
            }
        }
    }

    /// Returns the word of a kind of counter.
    fn word(&self, item: usize) -> &M::U64 {
        let [first, ..] = &self.placed;
        let index = if item == CMA { usize::from(self.places.cma) } else { item };
        self.placed.get(index).unwrap_or(first)
    }

    /// Returns the word of free frames, without the CPUs' deltas.
    pub(crate) fn free(&self) -> &M::U64 {
        self.word(FREE)
    }

    /// Returns the word of free frames on lists of type CMA.
    pub(crate) fn cma(&self) -> &M::U64 {
        self.word(CMA)
    }

    /// Returns the word of a NUMA counter, without the CPUs' deltas.
    pub(crate) fn numa(&self, item: NumaItem) -> &M::U64 {
        self.placed.get(usize::from(self.places.numa).wrapping_add(item as usize)).unwrap_or(self.free())
    }

    /// Returns the value that a NUMA counter had when counting was last switched on.
    pub(crate) fn numa_since(&self, item: NumaItem) -> &M::U64 {
        self.numa_since.get(item as usize).unwrap_or(self.free())
    }

    /// Returns a mark as it is in force, including the boost.
    pub(crate) fn mark(&self, mark: Mark) -> u64 {
        let stored = self.mark_unboosted(mark);
        if self.rules().has_boost { stored.saturating_add(self.boost()) } else { stored }
    }

    /// Returns a mark as it was set, without the boost.
    ///
    /// It is for reserves that a boost must not take away. It is also for compaction, which is the purpose of a boost.
    pub(crate) fn mark_unboosted(&self, mark: Mark) -> u64 {
        self.marks.get(mark.index()).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Returns the marks as they were set.
    pub(crate) fn marks(&self) -> Marks {
        let [min, low, high] = [Mark::Min, Mark::Low, Mark::High].map(|mark| self.mark_unboosted(mark));
        Marks { min, low, high }
    }

    /// Returns the boost: the frames added to the marks.
    pub(crate) fn boost(&self) -> u64 {
        self.boost.load(Ordering::Relaxed)
    }

    /// Raises the boost by `by` frames; returns false if the marks may not rise.
    ///
    /// The boost rises no further than its limit.
    ///
    /// Caller holds: the zone lock, exclusively.
    pub(crate) fn raise_boost(&self, by: FrameCount, factor: u32, zone: BoostedZone) -> bool {
        let raised = raised_boost(self.boost(), by.0, factor, zone);
        raised.inspect(|&frames| self.boost.store(frames, Ordering::Relaxed)).is_some()
    }

    /// Lowers the boost by the frames that background reclaim has freed.
    ///
    /// Other CPUs may have raised the marks in between.
    ///
    /// Caller holds: the zone lock, exclusively.
    pub(crate) fn lower_boost(&self, by: u64) {
        self.boost.store(self.boost().saturating_sub(by), Ordering::Relaxed);
    }

    /// Notes that the next CPU without the lock must wake background reclaim.
    pub(crate) fn note_boost(&self) {
        self.boost_is_new.store(1, Ordering::Relaxed);
    }

    /// Passes the order of a failed request to background work.
    ///
    /// Of several requests at once, the larger order may be lost; that request asks again.
    pub(crate) fn ask(&self, who: Background, order: Order) {
        let word = self.asked(who);
        if word.load(Ordering::Relaxed) < u32::from(order.0) {
            word.store(u32::from(order.0), Ordering::Relaxed);
        }
    }

    /// Takes the largest order asked for since the last call.
    pub(crate) fn take_asked(&self, who: Background) -> Order {
        Order(self.asked(who).swap(0, Ordering::Relaxed) as u8)
    }

    fn asked(&self, who: Background) -> &M::U32 {
        let [reclaim, compaction] = &self.asked;
        if who == Background::Reclaim { reclaim } else { compaction }
    }

    /// Returns true to one of the callers if background reclaim must be woken.
    pub(crate) fn take_note(&self) -> bool {
        self.rules().has_boost
            && self.boost_is_new.load(Ordering::Relaxed) != 0
            && self.boost_is_new.swap(0, Ordering::Relaxed) != 0
    }

    pub(crate) fn set_marks(&self, marks: Marks) {
        for (word, mark) in self.marks.iter().zip([Mark::Min, Mark::Low, Mark::High]) {
            word.store(marks.get(mark), Ordering::Relaxed);
        }
    }

    /// Returns whether CPUs keep deltas of the numbers of free frames.
    pub(crate) fn has_deltas(&self) -> bool {
        self.rules().has_deltas
    }

    pub(crate) fn set_drift_mark(&self, frames: u64) {
        self.drift_mark.store(frames, Ordering::Relaxed);
    }

    /// Returns free memory as a watermark sees it: exact only where the error would matter.
    ///
    /// It is a momentary view unless the zone lock is held.
    pub(crate) fn memory_racy(&self, stats: &Stats<'_, M>, zone: ZoneIdx) -> FreeMemory {
        let free = not_negative(self.free().load(Ordering::Relaxed));
        let told = if M::PARTS.mobility {
            let cma = not_negative(self.cma().load(Ordering::Relaxed));
            FreeMemory { free, cma, highatomic: self.highatomic.load(Ordering::Relaxed) }
        } else {
            FreeMemory { free, ..FreeMemory::default() }
        };
        if self.rules().has_deltas && told.free < self.drift_mark.load(Ordering::Relaxed) {
            return self.memory_exact(stats, zone);
        }
        told
    }

    /// Returns free memory with the CPUs' deltas.
    pub(crate) fn memory_exact(&self, stats: &Stats<'_, M>, zone: ZoneIdx) -> FreeMemory {
        let exact = |item| self.exact(item, stats.zone(zone));
        FreeMemory { free: exact(FREE), cma: exact(CMA), highatomic: self.highatomic.load(Ordering::Relaxed) }
    }

    /// Returns a counter with the CPUs' deltas.
    fn exact(&self, item: usize, stats: ZoneStats<'_, '_, M>) -> u64 {
        self.told(item, stats.all).exact(stats.all.of_zone(stats.zone).map(|diffs| diffs.deltas.kept(item)))
    }

    /// Resets the counts of blocks on the lists to 0.
    ///
    /// Caller holds: the zone lock, exclusively.
    pub(crate) fn reset(&self, stats: ZoneStats<'_, '_, M>) {
        for item in [FREE, CMA] {
            let told = self.told(item, stats.all);
            if let Some(sum) = told.everywhere {
                sum.add(told.here.load(Ordering::Relaxed).wrapping_neg(), Ordering::Relaxed);
            }
            told.here.store(0, Ordering::Relaxed);
            stats.all.of_zone(stats.zone).for_each(|diffs| diffs.deltas.forget(item));
        }
        self.highatomic.store(0, Ordering::Relaxed);
    }

    /// Adds the changes of one CPU.
    ///
    /// A caller without a CPU adds them to the shared words at once.
    ///
    /// Caller holds: the zone lock, in this mode.
    pub(crate) fn account(&self, tally: &Tally, stats: ZoneStats<'_, '_, M>, cpu: CpuId, mode: LockMode) {
        let ZoneStats { all, zone } = stats;
        let [free, cma, highatomic] = tally.free_change();
        for (item, change) in [(FREE, free), (CMA, cma)] {
            if !M::PARTS.mobility && item != FREE {
                break;
            }
            match all.diffs(cpu, zone).filter(|_| self.rules().has_deltas && change != 0) {
                Some(diffs) => self.told(item, all).tell(diffs.deltas.change(item, change as i64)),
                None if self.rules().has_deltas => self.told(item, all).tell(change as i64),
                None => add(self.word(item), change, mode),
            }
        }
        if M::PARTS.mobility {
            add(&self.highatomic, highatomic, mode);
        }
    }

    /// Returns the shared words of a counter: the zone's, and the sum over all zones.
    fn told<'t>(&'t self, item: usize, stats: &'t Stats<'_, M>) -> Told<'t, M> {
        Told { here: self.word(item), everywhere: stats.sum(item) }
    }

    /// Adds a CPU's deltas to the zone; returns the number of counters changed.
    ///
    /// They are the deltas of free frames and of the embedder's counters.
    ///
    /// Caller holds: the zone lock, exclusively.
    pub(crate) fn fold(&self, stats: &Stats<'_, M>, diffs: &ZoneDiffs<M>) -> u32 {
        diffs.deltas.fold(|item, kept| self.told(item, stats).tell(kept))
    }

    /// Changes a counter of the embedder on this CPU.
    pub(crate) fn count_own(&self, stats: ZoneStats<'_, '_, M>, cpu: CpuId, index: usize, change: i64) {
        let item = index.saturating_add(1);
        let kept = stats.all.diffs(cpu, stats.zone).filter(|_| self.rules().has_deltas).map(|diffs| &diffs.deltas);
        self.told(item, stats.all).count(kept, item, change);
    }

    /// Returns a counter of the embedder with the CPUs' deltas.
    pub(crate) fn own(&self, stats: ZoneStats<'_, '_, M>, index: usize) -> u64 {
        self.exact(index.saturating_add(1), stats)
    }
}

record! {
    /// Sums over all zones; only reports read them.
    #[repr(C, align(128))]
    struct Sums<M: Machine> {
        word("sums.items[{index}]"; index in 0..) items: [M::U64; ITEMS],
        word("sums.numa.{item:?}"; item in NumaItem::ALL) numa: [M::U64; NumaItem::COUNT],
        word("sums.numa_since.{item:?}"; item in NumaItem::ALL) numa_since: [M::U64; NumaItem::COUNT],
    }
}

/// States of NUMA counting: off, on since boot, or switched on again.
const OFF: u32 = 0;
const ALWAYS: u32 = 1;
const AGAIN: u32 = 2;

record! {
    /// The state of NUMA counting, on a line without frequent writers.
    #[repr(align(128))]
    struct Counting<M: Machine> {
        word counting: M::U32 = ALWAYS,
    }
}

/// Statistics of all zones: the CPUs' deltas, and the sums of the shared counts.
pub(crate) struct Stats<'a, M: Machine> {
    pub(crate) diffs: CpuRecords<'a, ZoneDiffs<M>>,
    sums: Sums<M>,
    counting: Counting<M>,
}

/// Statistics of all zones, seen from one zone.
pub(crate) struct ZoneStats<'s, 'a, M: Machine> {
    all: &'s Stats<'a, M>,
    zone: ZoneIdx,
}

// Not derived: a derived impl would require `M: Copy`.
impl<M: Machine> Clone for ZoneStats<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for ZoneStats<'_, '_, M> {}

impl<'a, M: Machine> Stats<'a, M> {
    pub(crate) fn new(diffs: &'a [ZoneDiffs<M>], zones: usize) -> Self {
        let diffs = CpuRecords { records: diffs, places: zones };
        Stats { diffs, sums: Sums::default(), counting: Counting::default() }
    }

    /// Reports the words that belong to no single CPU.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        self.sums.words(visit);
        self.counting.words(visit);
    }

    /// Returns the statistics as seen from a zone.
    pub(crate) const fn zone(&self, zone: ZoneIdx) -> ZoneStats<'_, 'a, M> {
        ZoneStats { all: self, zone }
    }

    /// Returns a CPU's deltas of a zone; `None` where CPUs keep no deltas.
    pub(crate) fn diffs(&self, cpu: CpuId, zone: ZoneIdx) -> Option<&'a ZoneDiffs<M>> {
        self.diffs.get(cpu, zone.index())
    }

    /// Returns all CPUs' deltas of a zone.
    pub(crate) fn of_zone(&self, zone: ZoneIdx) -> impl Iterator<Item = &'a ZoneDiffs<M>> + use<'a, M> {
        self.diffs.of(zone.index())
    }

    /// Returns the sum of a counter over all zones; `None` where CPUs keep no deltas.
    fn sum(&self, item: usize) -> Option<&M::U64> {
        self.sums.items.get(item).filter(|_| !self.diffs.records.is_empty())
    }

    /// Returns the free frames of all zones, without the CPUs' deltas.
    pub(crate) fn free_told(&self) -> u64 {
        let [free, ..] = &self.sums.items;
        free.load(Ordering::Relaxed)
    }

    /// Returns the sum of a NUMA counter over all zones, without the CPUs' deltas.
    pub(crate) fn numa(&self, item: NumaItem) -> Option<&M::U64> {
        self.sums.numa.get(item as usize)
    }

    /// Returns the value of that sum when counting was last switched on.
    pub(crate) fn numa_since(&self, item: NumaItem) -> Option<&M::U64> {
        self.sums.numa_since.get(item as usize)
    }

    /// Returns whether NUMA counters count.
    pub(crate) fn is_counting(&self) -> bool {
        self.counting.counting.load(Ordering::Relaxed) != OFF
    }

    /// Returns whether NUMA counters have counted since boot.
    pub(crate) fn has_always_counted(&self) -> bool {
        self.counting.counting.load(Ordering::Relaxed) == ALWAYS
    }

    pub(crate) fn set_counting(&self, counting: bool) {
        if counting != self.is_counting() {
            self.counting.counting.store(if counting { AGAIN } else { OFF }, Ordering::Relaxed);
        }
    }

    /// Counts one event in a NUMA counter of a zone.
    ///
    /// `kept` is the CPU's deltas if it holds its lists of that zone. Otherwise the event is added to the shared words
    /// at once.
    pub(crate) fn count_numa(&self, stat: &ZoneCounters<M>, item: NumaItem, kept: Option<&ZoneDiffs<M>>) {
        let told = kept.map_or(1, |diffs| diffs.count_numa(item));
        self.tell_numa(stat, item, told);
    }

    fn tell_numa(&self, stat: &ZoneCounters<M>, item: NumaItem, events: i64) {
        if events != 0 {
            stat.numa(item).add(events as u64, Ordering::Relaxed);
            if let Some(sum) = self.numa(item) {
                sum.add(events as u64, Ordering::Relaxed);
            }
        }
    }

    /// Adds a CPU's NUMA deltas to the zone; returns the number of counters changed.
    ///
    /// Caller holds: that CPU's lists of the zone.
    pub(crate) fn fold_numa(&self, stat: &ZoneCounters<M>, diffs: &ZoneDiffs<M>) -> u32 {
        let kept = NumaItem::ALL.map(|item| (item, diffs.numa_kept(item)));
        kept.into_iter().filter(|(_, kept)| *kept != 0).fold(0, |changes: u32, (item, kept)| {
            diffs.keep_numa(item, 0);
            self.tell_numa(stat, item, kept);
            changes.wrapping_add(1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lie_where_linux_had_them() {
        // Eleven counters of the embedder: zoneinfo of 2017, in bytes.
        let bytes = |place| {
            let CounterPlaces { cma, numa } = CounterPlaces::of(11, place);
            (usize::from(numa) * 8, (usize::from(numa) + NumaItem::Local as usize) * 8, usize::from(cma) * 8)
        };
        assert_eq!(bytes(NumaPlace::AmongZone), (96, 128, 144));
        assert_eq!(bytes(NumaPlace::BehindZone), (104, 136, 96));
        assert_eq!(bytes(NumaPlace::OwnLines), (128, 160, 96));
        for place in NumaPlace::ALL {
            let CounterPlaces { cma, numa } = CounterPlaces::of(OWN, *place);
            assert!(usize::from(cma.max(numa + 5)) < WORDS);
        }
    }
}
