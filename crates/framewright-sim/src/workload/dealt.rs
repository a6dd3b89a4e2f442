//! `rand` and `parallel-free`: all CPUs allocate, meet, and free at the same time.
//!
//! With `rand` the pages of all CPUs are shuffled and dealt out again, so that a CPU frees what others allocated. Each
//! CPU writes its pages into boxes of the CPUs that will free them; a box is a word of the machine and holds one page.
//! With `parallel-free` each CPU frees its own pages, like processes that end together.

use framewright::machine::{Ordering, Word};
use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::{Order, Pfn, Request};
use framewright_ops::rng::Rng;

use super::floor::{Floor, Trouble};
use super::gate::{Barrier, Stopwatch};
use super::memory_map::FIRST;
use super::play::{Ground, Length, Needs, Play, WorkloadKind};
use crate::engine::words::SimWord;
use crate::memory::arena::Packing;
use crate::report::{Figure, Report};
use crate::settings::settings;

settings! {
    /// Options of `rand`.
    Rand {
        pages: u32 = 256, 1..=1 << 16, "pages that each CPU allocates and frees in a round";
    }
}

settings! {
    /// Options of `parallel-free`.
    ParallelFree {
        pages: u32 = 512, 1..=1 << 20, "pages that each CPU allocates and frees in a round";
        shuffled: bool = false, 0..=1, "whether a CPU frees its pages in random order, not as it allocated them";
    }
}

impl WorkloadKind for Rand {
    const NAME: &'static str = "rand";
    const SUMMARY: &'static str =
        "CPUs allocate, shuffle all pages among them, and free what they are dealt (as LLFree's rand)";
    const UNIT: &'static str = "page";

    fn needs(&self, cpus: usize) -> Needs {
        let pages = self.pages as usize;
        let bytes = cpus * pages * size_of::<u32>();
        Needs { frames: u64::from(self.pages), bytes: (bytes, 0), length: Length::of_rounds(self.pages as usize) }
    }

    fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        let (arena, cpus, pages) = (ground.arena, ground.cpus, self.pages as usize);
        let boxes: &[SimWord<u32>] = arena.place("boxes", (false, Packing::Natural), cpus * pages, |_| Word::new(0));
        let topology = ground.model.topology;
        arena.set_homes("boxes", |page| topology.socket_of(page / pages));
        let order = shuffled(cpus * pages, ground.seed);
        let (alloc, free) = Default::default();
        Ok(Box::new(Dealt { pages, boxes: Some(boxes), order, barrier: Barrier::new(arena), alloc, free }))
    }
}

impl WorkloadKind for ParallelFree {
    const NAME: &'static str = "parallel-free";
    const SUMMARY: &'static str = "CPUs allocate, wait for each other, and free at the same time";
    const UNIT: &'static str = "page";

    fn needs(&self, _: usize) -> Needs {
        Needs { frames: u64::from(self.pages), bytes: (0, 0), length: Length::of_rounds(self.pages as usize) }
    }

    fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        let pages = self.pages as usize;
        let order = if self.shuffled { shuffled(pages, ground.seed) } else { (0..pages as u32).collect() };
        let (alloc, free) = Default::default();
        Ok(Box::new(Dealt { pages, boxes: None, order, barrier: Barrier::new(ground.arena), alloc, free }))
    }
}

/// Returns the numbers below `count` in random order.
fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    Rng::new(seed).shuffle(&mut order);
    order
}

struct Dealt<'a> {
    pages: usize,
    /// The boxes of all CPUs, if pages are dealt out.
    boxes: Option<&'a [SimWord<u32>]>,
    /// The box of each page of each CPU; or the order in which each CPU frees its own.
    order: Vec<u32>,
    barrier: Barrier<'a>,
    alloc: Stopwatch,
    free: Stopwatch,
}

impl Play for Dealt<'_> {
    fn play(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble> {
        let request = Request::page(GFP_HIGHUSER_MOVABLE);
        let mut held = vec![Pfn(0); self.pages];
        while self.barrier.meet(floor) {
            self.alloc.time(floor, self.pages, || {
                held.iter_mut().try_for_each(|page| floor.alloc(&request).map(|pfn| *page = pfn))
            })?;
            self.deal(cpu, &held);
            self.barrier.meet(floor);
            self.free.time(floor, self.pages, || (0..self.pages).try_for_each(|n| self.free(floor, cpu, &held, n)))?;
            floor.done_round(self.pages);
        }
        Ok(())
    }

    fn figures(&self, _: &Report) -> Vec<Figure> {
        self.alloc.figure("an allocation").into_iter().chain(self.free.figure("a free")).collect()
    }
}

impl Dealt<'_> {
    /// Puts pages into boxes.
    fn deal(&self, cpu: usize, held: &[Pfn]) {
        let Some(boxes) = self.boxes else { return };
        for (pfn, &number) in held.iter().zip(&self.order[cpu * self.pages..]) {
            boxes[number as usize].store((pfn.0 - FIRST) as u32, Ordering::Relaxed);
        }
    }

    /// Frees the `n`-th page that the CPU has to free.
    fn free(&self, floor: &Floor<'_>, cpu: usize, held: &[Pfn], n: usize) -> Result<(), Trouble> {
        let pfn = match self.boxes {
            Some(boxes) => Pfn(FIRST + u64::from(boxes[cpu * self.pages + n].load(Ordering::Relaxed))),
            None => held[self.order[n] as usize],
        };
        floor.free(pfn, Order(0))
    }
}
