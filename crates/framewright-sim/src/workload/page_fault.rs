//! `page-fault1`: processes that fault memory in and give it back, all at once.
//!
//! Modelled on will-it-scale's `page_fault1_processes`: map anonymous memory, write to each page, unmap, over and
//! over. Its mapping is 128 MiB; here a process has [`PageFault1::pages`] pages, as many as lists and caches need to
//! be in their steady state.
//!
//! # What a fault costs
//!
//! The tables of the zone lock (`patch1`) say that one of 112 CPUs takes 12.15 µs a fault and spins for 77 % of it:
//! 2.8 µs are left. Zeroing the page takes at least 0.33 µs of them, the allocator's own work about 0.37 µs. The
//! rest, 2.1 µs with the core's other thread running and 1.16 µs without, is entry, page table, accounting and exit
//! of the fault and the same page's share of unmapping: 2,900 cycles of 2.5 GHz. How they are divided between the two
//! ([`PageFault1::work`], [`PageFault1::unmap`]) is assumed.

use framewright::machine::Machine;
use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::{Order, Pfn, Request};

use super::floor::{Floor, Trouble};
use super::lru::{Lru, PAGEVEC};
use super::settings::settings;
use super::{Ground, Kind, Needs, Play, times};
use crate::report::{Figure, Report};
use crate::run::here;
use crate::sim::Sim;

/// Pages that unmapping frees in one go, as in Linux (`SWAP_CLUSTER_MAX`).
const BATCH: usize = 32;
/// Nanoseconds of a fault that nothing delays, and what each CPU of a node that contends adds: for the length of runs
/// alone.
const ALONE_NS: u64 = 3000;
const CONTENDED_NS: u64 = 165;

settings! {
    /// Options of `page-fault1`.
    PageFault1 {
        pages: u32 = 4096, 1..=1 << 20, "pages of a process";
        work: u32 = 2500, 0..=1_000_000, "cycles of a fault, besides the allocator, zeroing and lists";
        unmap: u32 = 400, 0..=1_000_000, "cycles to unmap a page";
        zero: bool = true, 0..=1, "whether pages are filled with zeros, at the node's memory controller";
        lru: bool = false, 0..=1, "whether pages go on their node's LRU list (15 at a time) and off it (32)";
    }
}

impl Kind for PageFault1 {
    const NAME: &'static str = "page-fault1";
    const SUMMARY: &'static str =
        "processes that fault in anonymous memory page by page and unmap it (will-it-scale page_fault1)";
    const UNIT: &'static str = "fault";

    fn needs(&self, cpus: usize) -> Needs {
        let pages = u64::from(self.pages);
        let round = pages * (ALONE_NS + CONTENDED_NS * cpus as u64 / 2) * 1000;
        let bytes = (0, if self.lru { Lru::FRAME_BYTES } else { 0 });
        Needs { frames: pages, bytes, times: times(round, 60_000_000_000) }
    }

    fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        let lru = self.lru.then(|| Lru::new(ground));
        Ok(Box::new(Processes { settings: *self, lru }))
    }
}

struct Processes<'a> {
    settings: PageFault1,
    lru: Option<Lru<'a>>,
}

impl Play for Processes<'_> {
    fn play(&self, floor: &Floor<'_>, _: usize) -> Result<(), Trouble> {
        let pages = self.settings.pages as usize;
        let mut held = Vec::with_capacity(pages);
        // The first round is cut short somewhere, or all would unmap at the same times for ever.
        let mut round = 1 + here::random() as usize % pages;
        while floor.goes_on() {
            self.fault_in(floor, &mut held, round)?;
            self.unmap(floor, &mut held)?;
            round = pages;
        }
        Ok(())
    }

    fn figures(&self, report: &Report) -> Vec<Figure> {
        let time = |of: fn(&crate::report::Times) -> f64| report.per_cpu.iter().map(|cpu| of(&cpu.time)).sum::<f64>();
        let all = |t: &crate::report::Times| {
            t.instructions
                + t.hits
                + t.near
                + t.far
                + t.memory
                + t.queued
                + t.stores
                + t.zeroing
                + t.asleep
                + t.interrupts
        };
        let faults = report.operations.max(1) as f64;
        let mut figures = vec![
            Figure::new("a fault, spinning", time(|t| t.spinning) / faults, "ns"),
            Figure::new("a fault, not spinning", time(all) / faults, "ns"),
        ];
        if self.settings.zero {
            figures.push(Figure::new("zeroing a page", time(|t| t.zeroing) / faults, "ns"));
            figures.push(Figure::new("zeroed", report.per_second * 4096.0 / 1e9, "GB/s"));
        }
        figures
    }
}

impl Processes<'_> {
    /// Faults in so many pages, or fewer if the run is over.
    fn fault_in(&self, floor: &Floor<'_>, held: &mut Vec<Pfn>, pages: usize) -> Result<(), Trouble> {
        let request = Request::page(GFP_HIGHUSER_MOVABLE);
        let mut added = 0;
        while held.len() < pages && floor.goes_on() {
            floor.work(self.settings.work);
            let pfn = floor.alloc(&request)?;
            if self.settings.zero {
                Sim.zero(pfn, Order(0));
            }
            held.push(pfn);
            if held.len() - added == PAGEVEC {
                self.lru.iter().for_each(|lru| lru.add(floor, &held[added..]));
                added = held.len();
            }
            here::done(1);
        }
        self.lru.iter().for_each(|lru| lru.add(floor, &held[added..]));
        Ok(())
    }

    fn unmap(&self, floor: &Floor<'_>, held: &mut Vec<Pfn>) -> Result<(), Trouble> {
        for batch in held.chunks(BATCH) {
            floor.work(self.settings.unmap * batch.len() as u32);
            self.lru.iter().for_each(|lru| lru.remove(floor, batch));
            floor.free_bulk(batch, Order(0))?;
        }
        held.clear();
        Ok(())
    }
}
