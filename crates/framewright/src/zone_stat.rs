//! What a zone's free lists and allocations are counted in: words that all CPUs share.
//!
//! A watermark reads the numbers of free frames at every request, on any CPU; everything else is read when somebody looks. Whoever
//! writes to a line takes it from all who read it, so what matters of a counter is not who reads it but which words lie beside
//! it. Therefore the statistics have a record of their own, apart from the lock and the lists, and where in it a word lies is a matter
//! of [`Places`].

use core::array;

use crate::count::{Tally, add};
use crate::field::{Words, tell};
use crate::machine::{Machine, Ordering, Word};
use crate::watermark::{FreeMemory, Mark, Marks};
use crate::zone_lock::Mode;

/// Words of the record: two pairs of cache lines.
const WORDS: usize = 32;
/// The word with the number of free frames. Those with the counts of an embedder follow.
const FREE: usize = 0;

/// Where words lie that have a choice, counted in words from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    cma: u8,
}

impl Default for Places {
    fn default() -> Self {
        Places { cma: 1 }
    }
}

/// The shared words of a zone's statistics.
///
/// Invariant B4: with the zone lock free, `free` is the sum of the blocks on all lists but those of isolated ones, `cma` and
/// `highatomic` the parts of it on the lists of these types.
#[repr(C, align(128))]
pub(crate) struct ZoneStat<M: Machine> {
    words: [M::U64; WORDS],
    /// Free frames on lists of type HighAtomic, and the marks: written rarely, read with the free frames.
    highatomic: M::U64,
    marks: [M::U64; 3],
    // Fixed at boot.
    places: Places,
}

impl<M: Machine> Default for ZoneStat<M> {
    fn default() -> Self {
        ZoneStat {
            words: array::from_fn(|_| Word::new(0)),
            highatomic: Word::new(0),
            marks: array::from_fn(|_| Word::new(0)),
            places: Places::default(),
        }
    }
}

impl<M: Machine> ZoneStat<M> {
    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        for (index, word) in self.words.iter().enumerate() {
            match index {
                FREE => tell(visit, format_args!("stat.nr_free_pages"), word),
                _ if index == usize::from(self.places.cma) => tell(visit, format_args!("stat.nr_free_cma"), word),
                _ => tell(visit, format_args!("stat.unused[{index}]"), word),
            }
        }
        tell(visit, format_args!("stat.highatomic"), &self.highatomic);
        for (mark, word) in [Mark::Min, Mark::Low, Mark::High].iter().zip(&self.marks) {
            tell(visit, format_args!("stat.marks.{mark:?}"), word);
        }
    }

    /// Free frames.
    pub(crate) fn free(&self) -> &M::U64 {
        let [free, ..] = &self.words;
        free
    }

    /// Of those, the ones on lists of type CMA.
    pub(crate) fn cma(&self) -> &M::U64 {
        self.words.get(usize::from(self.places.cma)).unwrap_or(self.free())
    }

    pub(crate) fn mark(&self, mark: Mark) -> u64 {
        self.marks.get(mark.index()).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn set_marks(&self, marks: Marks) {
        for (word, mark) in self.marks.iter().zip([Mark::Min, Mark::Low, Mark::High]) {
            word.store(marks.get(mark), Ordering::Relaxed);
        }
    }

    /// Free memory as a watermark sees it. A moment's view unless the zone lock is held.
    pub(crate) fn memory_racy(&self) -> FreeMemory {
        let [free, cma, highatomic] = self.free_words().map(|word| word.load(Ordering::Relaxed));
        FreeMemory { free, cma, highatomic }
    }

    fn free_words(&self) -> [&M::U64; 3] {
        [self.free(), self.cma(), &self.highatomic]
    }

    /// Forgets what is on the lists.
    pub(crate) fn reset(&self) {
        self.free_words().into_iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Adds what one CPU changed, who holds the zone lock in this mode.
    pub(crate) fn add(&self, tally: &Tally, mode: Mode) {
        for (word, change) in self.free_words().into_iter().zip(tally.take_free()) {
            add(word, change, mode);
        }
    }
}
