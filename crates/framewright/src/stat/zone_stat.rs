//! What a zone's free lists and allocations are counted in: words that all CPUs share, and what each CPU has not told yet.
//!
//! A watermark reads the numbers of free frames at every request, on any CPU; everything else is read when somebody looks. Whoever
//! writes to a line takes it from all who read it, so what matters of a counter is not who reads it but which words lie beside
//! it. Therefore the statistics have a record of their own, apart from the lock and the lists, and where in it a word lies is a matter
//! of `Places`.
//!
//! Where the mechanisms say so, a CPU keeps what it counts (`Diffs`) until that is more than a threshold. Then it tells the zone, and the
//! sums over all zones ([`Stats`]), by an atomic addition each. Nobody but the CPU itself and whoever folds its counts writes there,
//! and both hold something that excludes the other:
//!
//! | counter | the CPU holds | who folds it holds |
//! |---|---|---|
//! | free frames, CMA's | the zone lock, alone or together with others | the zone lock, alone |
//! | NUMA counters | its per-CPU lists of the zone, as owner | the same, as claimer |
//! | an embedder's | nothing: exchanges of the word | nothing |
//!
//! A CPU that allocates without its lists, because they are claimed or the request goes to the zone, tells the zone at once.

use core::array;

use crate::policy::mechanisms::{Mechanisms, NumaPlace, ZoneStat};
use crate::policy::watermark::{FreeMemory, Mark, Marks, raised_boost};
use crate::seam::field::{Words, tell};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::stat::per_cpu_counter::{PerCpu, Told, not_negative};
use crate::stat::tally::{Tally, add};
use crate::stat::vmstat::NumaItem;
use crate::stat::zone_diffs::{CMA, FREE, ITEMS, OWN, ZoneDiffs};
use crate::sync::zone_lock::LockMode;
use crate::types::units::{CpuId, Order, ZoneIdx};

/// Words of a zone's record: two pairs of cache lines.
const WORDS: usize = 32;
/// Words in a pair of cache lines.
const PAIR: usize = 16;
/// Where words lie that have a choice, counted in words from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct CounterPlaces {
    cma: u8,
    numa: u8,
}

impl CounterPlaces {
    /// With so many counters of the embedder, which follow the free frames.
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

/// What works for a node in the background.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Background {
    Reclaim,
    Compaction,
}

/// The shared words of a zone's statistics.
///
/// Invariant B4: with the zone lock free, `free` and what CPUs keep of it is the sum of the blocks on all lists but those of isolated
/// ones, `cma` and `highatomic` the parts of it on the lists of these types.
#[repr(C, align(128))]
pub(crate) struct ZoneCounters<M: Machine> {
    words: [M::U64; WORDS],
    /// Free frames on lists of type HighAtomic, and the marks: written rarely, read with the free frames.
    highatomic: M::U64,
    marks: [M::U64; 3],
    /// See [`crate::policy::watermark::drift_mark`].
    drift_mark: M::U64,
    /// Frames on top of each mark for a while (`watermark_boost.rs`), and whether background reclaim is still to be woken because of them.
    boost: M::U64,
    boost_is_new: M::U32,
    /// The largest orders that background reclaim, and background compaction, were asked for and have not looked at.
    asked: [M::U32; 2],
    /// The NUMA counters when they were last switched on: that is what they count from.
    numa_since: [M::U64; NumaItem::COUNT],
    // Fixed at boot.
    places: CounterPlaces,
    deltas: bool,
    boosts: bool,
}

impl<M: Machine> Default for ZoneCounters<M> {
    fn default() -> Self {
        ZoneCounters {
            words: array::from_fn(|_| Word::new(0)),
            highatomic: Word::new(0),
            marks: array::from_fn(|_| Word::new(0)),
            drift_mark: Word::new(0),
            boost: Word::new(0),
            boost_is_new: Word::new(0),
            asked: [Word::new(0), Word::new(0)],
            numa_since: array::from_fn(|_| Word::new(0)),
            places: CounterPlaces::of(0, NumaPlace::default()),
            deltas: false,
            boosts: false,
        }
    }
}

impl<M: Machine> ZoneCounters<M> {
    /// Lays the words out, with so many of the embedder.
    pub(crate) fn place(&mut self, own: usize, mechanisms: &Mechanisms) {
        self.places = CounterPlaces::of(own, mechanisms.numa_place);
        self.deltas = mechanisms.zone_stat == ZoneStat::Differentials;
        self.boosts = mechanisms.watermark_boost.get() != 0;
    }

    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        let numa = usize::from(self.places.numa);
        for (index, word) in self.words.iter().enumerate() {
            match index {
                FREE => tell(visit, format_args!("stat.nr_free_pages"), word),
                _ if index == usize::from(self.places.cma) => tell(visit, format_args!("stat.nr_free_cma"), word),
                _ => match NumaItem::ALL.get(index.wrapping_sub(numa)) {
                    Some(item) => tell(visit, format_args!("stat.numa.{item:?}"), word),
                    None => tell(visit, format_args!("stat.other[{index}]"), word),
                },
            }
        }
        tell(visit, format_args!("stat.highatomic"), &self.highatomic);
        for (mark, word) in [Mark::Min, Mark::Low, Mark::High].iter().zip(&self.marks) {
            tell(visit, format_args!("stat.marks.{mark:?}"), word);
        }
        tell(visit, format_args!("stat.drift_mark"), &self.drift_mark);
        tell(visit, format_args!("stat.boost"), &self.boost);
        tell(visit, format_args!("stat.boost_is_new"), &self.boost_is_new);
        for (who, word) in [Background::Reclaim, Background::Compaction].iter().zip(&self.asked) {
            tell(visit, format_args!("stat.asked.{who:?}"), word);
        }
        for (item, word) in NumaItem::ALL.iter().zip(&self.numa_since) {
            tell(visit, format_args!("stat.numa_since.{item:?}"), word);
        }
    }

    /// The word of a kind of counter.
    fn word(&self, item: usize) -> &M::U64 {
        let [first, ..] = &self.words;
        let index = if item == CMA { usize::from(self.places.cma) } else { item };
        self.words.get(index).unwrap_or(first)
    }

    /// Free frames, as the zone was told.
    pub(crate) fn free(&self) -> &M::U64 {
        self.word(FREE)
    }

    /// Of those, the ones on lists of type CMA.
    pub(crate) fn cma(&self) -> &M::U64 {
        self.word(CMA)
    }

    /// A NUMA counter, as the zone was told.
    pub(crate) fn numa(&self, item: NumaItem) -> &M::U64 {
        self.words.get(usize::from(self.places.numa).wrapping_add(item as usize)).unwrap_or(self.free())
    }

    /// What it counts from.
    pub(crate) fn numa_since(&self, item: NumaItem) -> &M::U64 {
        self.numa_since.get(item as usize).unwrap_or(self.free())
    }

    /// A mark as it is in force: with the boost.
    pub(crate) fn mark(&self, mark: Mark) -> u64 {
        let stored = self.mark_unboosted(mark);
        if self.boosts { stored.saturating_add(self.boost()) } else { stored }
    }

    /// A mark as it was set. For reserves that a boost must not take away, and for compaction, which is what a boost is for.
    pub(crate) fn mark_unboosted(&self, mark: Mark) -> u64 {
        self.marks.get(mark.index()).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// The marks as they were set.
    pub(crate) fn marks(&self) -> Marks {
        let [min, low, high] = [Mark::Min, Mark::Low, Mark::High].map(|mark| self.mark_unboosted(mark));
        Marks { min, low, high }
    }

    /// Frames that the marks are higher by.
    pub(crate) fn boost(&self) -> u64 {
        self.boost.load(Ordering::Relaxed)
    }

    /// Raises the marks by so many frames, as far as they may rise. False if they may not. The zone lock is held alone.
    pub(crate) fn raise_boost(&self, by: u64, factor: u32, (managed, pageblock): (u64, u64)) -> bool {
        let zone = (managed, self.mark_unboosted(Mark::High), pageblock);
        let raised = raised_boost(self.boost(), by, factor, zone);
        raised.inspect(|&frames| self.boost.store(frames, Ordering::Relaxed)).is_some()
    }

    /// Takes back what background reclaim has made good; others may have raised the marks in between. The zone lock is held alone.
    pub(crate) fn lower_boost(&self, by: u64) {
        self.boost.store(self.boost().saturating_sub(by), Ordering::Relaxed);
    }

    /// Notes that background reclaim is to be woken, by who comes next without the lock.
    pub(crate) fn note_boost(&self) {
        self.boost_is_new.store(1, Ordering::Relaxed);
    }

    /// Tells background work of what order a request was that failed. Of several at once the larger one may be lost; it asks again.
    pub(crate) fn ask(&self, who: Background, order: Order) {
        let word = self.asked(who);
        if word.load(Ordering::Relaxed) < u32::from(order.0) {
            word.store(u32::from(order.0), Ordering::Relaxed);
        }
    }

    /// What was asked for since the last time.
    pub(crate) fn take_asked(&self, who: Background) -> Order {
        Order(self.asked(who).swap(0, Ordering::Relaxed) as u8)
    }

    fn asked(&self, who: Background) -> &M::U32 {
        let [reclaim, compaction] = &self.asked;
        if who == Background::Reclaim { reclaim } else { compaction }
    }

    /// Whether the caller is to wake it: one of those who ask.
    pub(crate) fn take_note(&self) -> bool {
        self.boosts
            && self.boost_is_new.load(Ordering::Relaxed) != 0
            && self.boost_is_new.swap(0, Ordering::Relaxed) != 0
    }

    pub(crate) fn set_marks(&self, marks: Marks) {
        for (word, mark) in self.marks.iter().zip([Mark::Min, Mark::Low, Mark::High]) {
            word.store(marks.get(mark), Ordering::Relaxed);
        }
    }

    /// Whether CPUs keep something of the numbers of free frames.
    pub(crate) fn has_deltas(&self) -> bool {
        self.deltas
    }

    pub(crate) fn set_drift_mark(&self, frames: u64) {
        self.drift_mark.store(frames, Ordering::Relaxed);
    }

    /// Free memory as a watermark sees it: as the zone was told, and to the frame where it matters. A moment's view unless the zone lock
    /// is held.
    pub(crate) fn memory_racy(&self, stats: &Stats<'_, M>, zone: ZoneIdx) -> FreeMemory {
        let told = FreeMemory {
            free: not_negative(self.free().load(Ordering::Relaxed)),
            cma: not_negative(self.cma().load(Ordering::Relaxed)),
            highatomic: self.highatomic.load(Ordering::Relaxed),
        };
        if self.deltas && told.free < self.drift_mark.load(Ordering::Relaxed) {
            return self.memory_exact(stats, zone);
        }
        told
    }

    /// Free memory with what CPUs keep of it.
    pub(crate) fn memory_exact(&self, stats: &Stats<'_, M>, zone: ZoneIdx) -> FreeMemory {
        let exact = |item| self.exact(item, stats, zone);
        FreeMemory { free: exact(FREE), cma: exact(CMA), highatomic: self.highatomic.load(Ordering::Relaxed) }
    }

    /// A counter with what CPUs keep of it.
    fn exact(&self, item: usize, stats: &Stats<'_, M>, zone: ZoneIdx) -> u64 {
        self.told(item, stats).exact(stats.of_zone(zone).map(|diffs| diffs.deltas.kept(item)))
    }

    /// Forgets what is on the lists. The zone lock is held alone.
    pub(crate) fn reset(&self, stats: &Stats<'_, M>, zone: ZoneIdx) {
        for item in [FREE, CMA] {
            let told = self.told(item, stats);
            if let Some(sum) = told.everywhere {
                sum.add(told.here.load(Ordering::Relaxed).wrapping_neg(), Ordering::Relaxed);
            }
            told.here.store(0, Ordering::Relaxed);
            stats.of_zone(zone).for_each(|diffs| diffs.deltas.forget(item));
        }
        self.highatomic.store(0, Ordering::Relaxed);
    }

    /// Adds what one CPU changed, which holds the zone lock in this mode. Who is on none in particular tells the zone at once.
    pub(crate) fn account(&self, tally: &Tally, (stats, zone): (&Stats<'_, M>, ZoneIdx), cpu: CpuId, mode: LockMode) {
        let [free, cma, highatomic] = tally.free_change();
        for (item, change) in [(FREE, free), (CMA, cma)] {
            match stats.diffs(cpu, zone).filter(|_| self.deltas && change != 0) {
                Some(diffs) => self.told(item, stats).tell(diffs.deltas.change(item, change as i64)),
                None if self.deltas => self.told(item, stats).tell(change as i64),
                None => add(self.word(item), change, mode),
            }
        }
        add(&self.highatomic, highatomic, mode);
    }

    /// What the zone and the sum of all zones were told of a counter.
    fn told<'t>(&'t self, item: usize, stats: &'t Stats<'_, M>) -> Told<'t, M> {
        Told { here: self.word(item), everywhere: stats.sum(item) }
    }

    /// Adds what a CPU keeps of the numbers of free frames and of the embedder's counters; the zone lock is held alone. Returns how many
    /// numbers that were.
    pub(crate) fn fold(&self, stats: &Stats<'_, M>, diffs: &ZoneDiffs<M>) -> u32 {
        diffs.deltas.fold(|item, kept| self.told(item, stats).tell(kept))
    }

    /// Changes a counter of the embedder's, on this CPU.
    pub(crate) fn count_own(&self, (stats, zone): (&Stats<'_, M>, ZoneIdx), cpu: CpuId, index: usize, change: i64) {
        let item = index.saturating_add(1);
        let kept = stats.diffs(cpu, zone).filter(|_| self.deltas).map(|diffs| &diffs.deltas);
        self.told(item, stats).count(kept, item, change);
    }

    /// A counter of the embedder's, with what CPUs keep of it.
    pub(crate) fn own(&self, (stats, zone): (&Stats<'_, M>, ZoneIdx), index: usize) -> u64 {
        self.exact(index.saturating_add(1), stats, zone)
    }
}

/// What was told of all zones. Nobody reads it but who looks.
#[repr(C, align(128))]
struct Sums<M: Machine> {
    items: [M::U64; ITEMS],
    numa: [M::U64; NumaItem::COUNT],
    numa_since: [M::U64; NumaItem::COUNT],
}

/// Whether NUMA counters count: not, since boot, or since they were switched on again.
const OFF: u32 = 0;
const ALWAYS: u32 = 1;
const AGAIN: u32 = 2;

/// That, on a line that nobody writes to.
#[repr(align(128))]
struct Counting<M: Machine>(M::U32);

/// The statistics of all zones: what CPUs keep, and the sums of what they told.
pub(crate) struct Stats<'a, M: Machine> {
    pub(crate) diffs: PerCpu<'a, ZoneDiffs<M>>,
    sums: Sums<M>,
    counting: Counting<M>,
}

impl<'a, M: Machine> Stats<'a, M> {
    pub(crate) fn new(diffs: &'a [ZoneDiffs<M>], zones: usize) -> Self {
        let sums = Sums {
            items: array::from_fn(|_| Word::new(0)),
            numa: array::from_fn(|_| Word::new(0)),
            numa_since: array::from_fn(|_| Word::new(0)),
        };
        Stats { diffs: PerCpu { records: diffs, places: zones }, sums, counting: Counting(Word::new(ALWAYS)) }
    }

    /// Names the words that are not of one CPU.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        for (index, word) in self.sums.items.iter().enumerate() {
            tell(visit, format_args!("sums.items[{index}]"), word);
        }
        for (item, (word, since)) in NumaItem::ALL.iter().zip(self.sums.numa.iter().zip(&self.sums.numa_since)) {
            tell(visit, format_args!("sums.numa.{item:?}"), word);
            tell(visit, format_args!("sums.numa_since.{item:?}"), since);
        }
        tell(visit, format_args!("counting"), &self.counting.0);
    }

    /// What a CPU keeps of a zone's counters; none where CPUs keep nothing.
    pub(crate) fn diffs(&self, cpu: CpuId, zone: ZoneIdx) -> Option<&'a ZoneDiffs<M>> {
        self.diffs.get(cpu, zone.index())
    }

    /// What all CPUs keep of a zone's counters.
    pub(crate) fn of_zone(&self, zone: ZoneIdx) -> impl Iterator<Item = &'a ZoneDiffs<M>> + use<'a, M> {
        self.diffs.of(zone.index())
    }

    /// What was told of a counter of all zones together; none where CPUs keep nothing.
    fn sum(&self, item: usize) -> Option<&M::U64> {
        self.sums.items.get(item).filter(|_| !self.diffs.records.is_empty())
    }

    /// Free frames of all zones, as was told.
    pub(crate) fn free_told(&self) -> u64 {
        let [free, ..] = &self.sums.items;
        free.load(Ordering::Relaxed)
    }

    /// The sum of a NUMA counter over all zones, as was told.
    pub(crate) fn numa(&self, item: NumaItem) -> Option<&M::U64> {
        self.sums.numa.get(item as usize)
    }

    /// What that counts from.
    pub(crate) fn numa_since(&self, item: NumaItem) -> Option<&M::U64> {
        self.sums.numa_since.get(item as usize)
    }

    /// Whether NUMA counters count.
    pub(crate) fn is_counting(&self) -> bool {
        self.counting.0.load(Ordering::Relaxed) != OFF
    }

    /// Whether they have counted since boot.
    pub(crate) fn has_always_counted(&self) -> bool {
        self.counting.0.load(Ordering::Relaxed) == ALWAYS
    }

    pub(crate) fn set_counting(&self, counting: bool) {
        if counting != self.is_counting() {
            self.counting.0.store(if counting { AGAIN } else { OFF }, Ordering::Relaxed);
        }
    }

    /// Counts in a NUMA counter of a zone: with what the CPU keeps, if it holds its lists of that zone, or else right there.
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

    /// Tells the zone what a CPU keeps of its NUMA counters, whose lists of that zone are held. Returns how many there were.
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
        // Eleven counters of others: zoneinfo of 2017, in bytes.
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
