//! A barrier for all CPUs, and a stopwatch for parts of their work.

use std::cell::Cell;

use framewright::machine::{Ordering, Patience, Word};

use super::floor::Floor;
use crate::engine::here;
use crate::engine::words::SimWord;
use crate::memory::arena::{Arena, Packing};
use crate::model::Ps;
use crate::report::Figure;

/// A barrier: one word counts the CPUs that have come, another the meetings.
pub(crate) struct Barrier<'a> {
    count: &'a SimWord<u32>,
    times: &'a SimWord<u32>,
    /// Decision of the last CPU to arrive.
    goes_on: Cell<bool>,
}

impl<'a> Barrier<'a> {
    pub(crate) fn new(arena: &'a Arena) -> Barrier<'a> {
        // Each word in a line of its own, and no pair of lines has both.
        let words: &[SimWord<u32>] = arena.place("barrier", (true, Packing::Natural), 64, |_| Word::new(0));
        let (count, times) = (&words[0], &words[32]);
        for (word, name) in [(count, "arrived"), (times, "rounds")] {
            let address = std::ptr::from_ref(word).addr();
            arena.name(address, 4, ("barrier".to_owned(), name.to_owned()), None);
        }
        Barrier { count, times, goes_on: Cell::new(true) }
    }

    /// Waits for all CPUs; returns whether there is another round, the same for all.
    pub(crate) fn meet(&self, floor: &Floor<'_>) -> bool {
        let (count, times) = (self.count, self.times);
        let before = times.load(Ordering::Acquire);
        floor.goes_on();
        if count.add(1, Ordering::AcqRel) + 1 == floor.cpus as u32 {
            self.goes_on.set(floor.is_wanted());
            count.store(0, Ordering::Relaxed);
            times.store(before.wrapping_add(1), Ordering::Release);
        } else {
            let _ = times.wait_while(Patience::Turn, |now| now == before);
        }
        self.goes_on.get()
    }
}

/// Time of a part of the work, summed over CPUs.
#[derive(Default, Debug)]
pub(crate) struct Stopwatch {
    time: Cell<Ps>,
    count: Cell<u64>,
}

impl Stopwatch {
    /// Does `work`, which is `count` operations; times it if it begins in the window.
    pub(crate) fn time<T>(&self, floor: &Floor<'_>, count: usize, work: impl FnOnce() -> T) -> T {
        let (began, is_measured) = (here::clock(), floor.is_measured());
        let result = work();
        if !is_measured {
            return result;
        }
        self.time.set(self.time.get() + (here::clock() - began));
        self.count.set(self.count.get() + count as u64);
        result
    }

    /// Returns the time of all of them.
    pub(crate) fn all(&self) -> Ps {
        self.time.get()
    }

    /// Returns nanoseconds for one as a figure; `None` if there was none.
    pub(crate) fn figure(&self, name: &str) -> Option<Figure> {
        let count = self.count.get();
        (count != 0).then(|| Figure::new(name, self.time.get() as f64 / 1000.0 / count as f64, "ns"))
    }
}
