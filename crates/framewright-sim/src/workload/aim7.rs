//! `aim7`: processes that live shortly, as in aim7's fork and exit loads.
//!
//! A CPU runs one process after the other. A process allocates pages in bursts, between which it computes, and when
//! it ends all of them are freed at once. Sizes and pauses are random around their means. Which loads aim7 was run
//! with for the published table (zone-layout) is not known; the model is what the simulation of that
//! table needed: order-0 pages, batches from the zone, and allocation on the CPU's node or on any
//! ([`Aim7::elsewhere`]). The defaults are assumed: 256 pages are the megabyte that aim7's load of pages allocates.
//!
//! Processes that end in a window are few; pages are many. So how much is done in a window of any length is best read from its
//! pages ([`Aim7::PAGES`]).

use framewright::pfn::NodeId;
use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::{Order, Pfn, Request};

use super::floor::{Floor, Trouble};
use super::gate::Stopwatch;
use super::settings::settings;
use super::{Ground, Kind, Length, Needs, Play};
use crate::report::{Figure, Report};
use crate::run::here;

/// Pages that are freed in one go, as in Linux (`SWAP_CLUSTER_MAX`).
const BATCH: usize = 32;

settings! {
    /// Options of `aim7`.
    Aim7 {
        pages: u32 = 256, 1..=1 << 18, "pages of a process, on average: from 1 to twice as many";
        burst: u32 = 32, 1..=1 << 18, "pages that it allocates in one go";
        think: u32 = 20_000, 0..=100_000_000, "cycles between bursts, on average: from half to one and a half of that";
        elsewhere: u32 = 0, 0..=100, "percent of the bursts that go to a node drawn by lot, not to the CPU's own";
    }
}

impl Kind for Aim7 {
    const NAME: &'static str = "aim7";
    const SUMMARY: &'static str =
        "processes that allocate in bursts, compute in between, and free all when they end (aim7's fork and exit)";
    const UNIT: &'static str = "process";

    fn needs(&self, _: usize) -> Needs {
        let frames = 2 * u64::from(self.pages);
        // Lives differ, so there are to be many, however large they are.
        Needs { frames, bytes: (0, 0), length: Length::of_rounds(self.pages.min(64) as usize) }
    }

    fn set_up<'a>(&self, _: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        let [alloc, free, computing] = std::array::from_fn(|_| Stopwatch::default());
        Ok(Box::new(Lives { settings: *self, alloc, free, computing }))
    }
}

struct Lives {
    settings: Aim7,
    alloc: Stopwatch,
    free: Stopwatch,
    computing: Stopwatch,
}

impl Aim7 {
    /// Name of the figure: pages that were allocated per second.
    pub const PAGES: &'static str = "pages";
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
                let request = self.request(floor);
                self.alloc.time(floor, end - held.len(), || {
                    (held.len()..end).try_for_each(|_| floor.alloc(&request).map(|pfn| held.push(pfn)))
                })?;
                let think = think / 2 + here::below(think + 1);
                self.computing.time(floor, 1, || floor.work(think));
            }
            self.free.time(floor, held.len(), || {
                held.chunks(BATCH).try_for_each(|batch| floor.free_bulk(batch, Order(0)))
            })?;
            held.clear();
            floor.done_round(1);
        }
        Ok(())
    }

    fn figures(&self, report: &Report) -> Vec<Figure> {
        let seconds = report.window_ns as f64 / 1e9;
        let share = self.computing.all() as f64 / 1e12 / (seconds * report.cpus as f64).max(f64::MIN_POSITIVE);
        let rates = [
            Figure::new(Aim7::PAGES, self.alloc.count() as f64 / seconds.max(f64::MIN_POSITIVE), "page/s"),
            Figure::new(Aim7::COMPUTING, share * 100.0, "%"),
        ];
        let each = [self.alloc.figure("an allocation"), self.free.figure("a free")];
        each.into_iter().flatten().chain(rates).collect()
    }
}

impl Lives {
    fn request(&self, floor: &Floor<'_>) -> Request {
        let request = Request::page(GFP_HIGHUSER_MOVABLE);
        if here::below(100) < self.settings.elsewhere {
            request.on(NodeId(here::below(u32::from(floor.model.topology.sockets)) as u8))
        } else {
            request
        }
    }
}
