//! `aim7`: short-lived processes, as in aim7's fork and exit loads.
//!
//! A CPU runs one process after the other. A process allocates pages in bursts, between which it computes, and when it
//! ends all of them are freed at once. Sizes and pauses are random around their means. Which loads aim7 was run with
//! for the published table (zone-layout) is not known. The model is what the simulation of that table needed: order-0
//! pages, and batches from the zone. Memory is of the CPU's node and stays with it, or is of any node
//! ([`Aim7::elsewhere`]) and ends on any CPU ([`Aim7::moved`]). The latter models far more tasks than CPUs, where a
//! forked child goes to any idle CPU. The defaults are assumed: 256 pages are the megabyte that aim7's load of pages
//! allocates.

use std::cell::RefCell;
use std::mem;

use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::units::NodeId;
use framewright::{Order, Pfn, Request};

use super::floor::{BATCH, Floor, Trouble};
use super::gate::Stopwatch;
use super::play::{Ground, Length, Needs, Play, WorkloadKind};
use crate::engine::here;
use crate::model::MS;
use crate::report::{Figure, Report};
use crate::settings::settings;

settings! {
    /// Options of `aim7`.
    Aim7 {
        pages: u32 = 256, 1..=1 << 18, "pages of a process, on average: from 1 to twice as many";
        burst: u32 = 32, 1..=1 << 18, "pages that it allocates in one go";
        think: u32 = 20_000, 0..=100_000_000, "cycles between bursts, on average: from half to one and a half of that";
        elsewhere: u32 = 0, 0..=100, "percent of the bursts that go to a node drawn by lot, not to the CPU's own";
        moved: u32 = 0, 0..=100, "percent of the processes that end on any CPU, not where they began";
    }
}

impl WorkloadKind for Aim7 {
    const NAME: &'static str = "aim7";
    const SUMMARY: &'static str =
        "processes that allocate in bursts, compute in between, and free all when they end (aim7's fork and exit)";
    const UNIT: &'static str = "process";

    fn needs(&self, _: usize) -> Needs {
        // Those of the running process, and of one that is moving to another CPU.
        let frames = 4 * u64::from(self.pages);
        // Lives differ, so the window must hold many.
        let length = Length::Time { warm_up: 10 * MS, window: 20 * MS, pass: 1 };
        Needs { frames, bytes: (0, 0), length }
    }

    fn set_up<'a>(&self, _: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        let [alloc, free, computing] = std::array::from_fn(|_| Stopwatch::default());
        Ok(Box::new(Lives { settings: *self, alloc, free, computing, on_the_way: RefCell::default() }))
    }
}

struct Lives {
    settings: Aim7,
    alloc: Stopwatch,
    free: Stopwatch,
    computing: Stopwatch,
    /// Pages of processes that are moving to another CPU; at most one process for each CPU.
    on_the_way: RefCell<Vec<Vec<Pfn>>>,
}

impl Aim7 {
    /// Name of the figure: the share of CPU time in which processes compute, in percent.
    pub const COMPUTING: &'static str = "computing";
}

impl Play for Lives {
    fn play(&self, floor: &Floor<'_>, _: usize) -> Result<(), Trouble> {
        let Aim7 { pages, burst, think, .. } = self.settings;
        let mut held: Vec<Pfn> = Vec::with_capacity(2 * pages as usize);
        while floor.goes_on() {
            let pages = 1 + here::below(2 * pages - 1) as usize;
            while held.len() < pages {
                let end = pages.min(held.len() + burst as usize);
                let request = self.page_request(floor);
                self.alloc.time(floor, end - held.len(), || {
                    (held.len()..end).try_for_each(|_| floor.alloc(&request).map(|pfn| held.push(pfn)))
                })?;
                let think = think / 2 + here::below(think + 1);
                self.computing.time(floor, 1, || floor.work(think));
            }
            held = self.ending(floor, held);
            self.free.time(floor, held.len(), || {
                held.chunks(BATCH).try_for_each(|batch| floor.free_bulk(batch, Order(0)))
            })?;
            held.clear();
            floor.done();
        }
        self.on_the_way.take().iter().try_for_each(|pages| floor.leave(pages, Order(0), BATCH))
    }

    fn figures(&self, report: &Report) -> Vec<Figure> {
        let seconds = report.window_ns as f64 / 1e9;
        let share = self.computing.all() as f64 / 1e12 / (seconds * report.cpus as f64).max(f64::MIN_POSITIVE);
        let computing = Figure::new(Aim7::COMPUTING, share * 100.0, "%");
        let each = [self.alloc.figure("an allocation"), self.free.figure("a free")];
        each.into_iter().flatten().chain([computing]).collect()
    }
}

impl Lives {
    /// Returns the pages of the process that ends on the running CPU now.
    fn ending(&self, floor: &Floor<'_>, held: Vec<Pfn>) -> Vec<Pfn> {
        if here::below(100) >= self.settings.moved {
            return held;
        }
        let mut on_the_way = self.on_the_way.borrow_mut();
        if on_the_way.len() < floor.cpus {
            on_the_way.push(held);
            return Vec::new();
        }
        let drawn = here::below(on_the_way.len() as u32) as usize;
        mem::replace(&mut on_the_way[drawn], held)
    }

    fn page_request(&self, floor: &Floor<'_>) -> Request {
        let request = Request::page(GFP_HIGHUSER_MOVABLE);
        if here::below(100) < self.settings.elsewhere {
            request.on(NodeId(here::below(u32::from(floor.model.topology.sockets)) as u8))
        } else {
            request
        }
    }
}
