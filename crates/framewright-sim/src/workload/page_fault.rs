//! `page-fault1`: processes that fault memory in and unmap it again.
//!
//! Modelled on will-it-scale's `page_fault1_processes`: map anonymous memory, write to each page, unmap, and repeat.
//! Its mapping is 128 MiB. Here a process has [`PageFault1::pages`] pages, as many as bring lists and caches into their
//! steady state.
//!
//! When time begins, processes are at different places of their rounds, with the pages that they would have there.
//! Before that, all of them once had all of their memory at the same time, because they are started together. This
//! memory, twice what is used at any time, circulates from then on. (In the zone-lock tables, no_merge leaves just as
//! many single pages.)
//!
//! What processes hold at the end is freed outside of the run: filling and emptying all of them at once would be
//! another workload. Only with [`super::Job::aftermath`] do all of them exit at once.
//!
//! # What a fault costs
//!
//! The tables of the zone lock (`patch1`) say that one of 112 CPUs takes 12.15 µs a fault and spins for 77 % of it: 2.8
//! µs are left. Zeroing the page takes at least 0.33 µs of them, the allocator's own work about 0.37 µs. The rest is
//! 2.1 µs with the core's other thread running and 1.16 µs without: 2,900 cycles of 2.5 GHz. It is entry, page table,
//! accounting and exit of the fault, and the page's share of unmapping. The split between the two
//! ([`PageFault1::work`], [`PageFault1::unmap`]) is assumed.

use std::cell::RefCell;

use framewright::machine::Machine;
use framewright::request::GFP_HIGHUSER_MOVABLE;
use framewright::units::CpuId;
use framewright::{Order, Pfn, Request};
use framewright_ops::rng::Rng;
use framewright_ops::zones;

use super::floor::{BATCH, Floor, Trouble};
use super::lru::{GATHER, Lru, LruLists};
use super::play::{Ground, Length, Needs, Play, WorkloadKind};
use crate::engine::sim::Sim;
use crate::model::MS;
use crate::report::{Figure, Report};
use crate::settings::settings;

/// Pages that processes allocate or free in turn before the run: a batch of the published tables' kernel.
pub(super) const GIVEN: usize = 63;

settings! {
    /// Options of `page-fault1`.
    PageFault1 {
        pages: u32 = 4096, 1..=1 << 20, "pages of a process";
        work: u32 = 2500, 0..=1_000_000, "cycles of a fault, besides the allocator, zeroing and lists";
        unmap: u32 = 400, 0..=1_000_000, "cycles to unmap a page";
        zero: bool = true, 0..=1, "whether pages are filled with zeros, at the node's memory controller";
        lru: LruLists = LruLists::Off, 0..=2,
            "LRU lists, a pagevec on and 32 pages off at a time: off; lock, one CPU after the other; smp, many at once";
        pagevec: u32 = 15, 1..=512, "pages of a pagevec: 14 up to Linux 4.15, then 15, and 31 since 6.9";
    }
}

impl WorkloadKind for PageFault1 {
    const NAME: &'static str = "page-fault1";
    const SUMMARY: &'static str =
        "processes that fault in anonymous memory page by page and unmap it (will-it-scale page_fault1)";
    const UNIT: &'static str = "fault";

    fn needs(&self, cpus: usize) -> Needs {
        // With fewer CPUs to average over, more rounds are needed.
        let window = if cpus < 16 { 160 * MS } else { 60 * MS };
        let bytes = (0, if self.lru == LruLists::Off { 0 } else { Lru::FRAME_BYTES });
        let length = Length::Time { warm_up: 40 * MS, window, pass: u64::from(self.pages) };
        Needs { frames: u64::from(self.pages), bytes, length }
    }

    fn set_up<'a>(&self, ground: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        let lru = Lru::new(ground, self.lru);
        Ok(Box::new(Processes { settings: *self, lru, begin: RefCell::default() }))
    }
}

struct Processes<'a> {
    settings: PageFault1,
    lru: Option<Lru<'a>>,
    /// Where each process is when time begins.
    begin: RefCell<Vec<Begin>>,
}

/// Where a process is in its round.
#[derive(Clone, Default, Debug)]
struct Begin {
    held: Vec<Pfn>,
    /// Whether it is unmapping, not faulting in.
    unmaps: bool,
}

impl Play for Processes<'_> {
    fn prepare(&self, floor: &Floor<'_>, rng: &mut Rng) -> Result<(), Trouble> {
        let pages = self.settings.pages as usize;
        let places = places(floor, rng);
        let aim = |&(share, _): &(f64, bool)| (share * f64::from(self.settings.pages)) as usize;
        let aims: Vec<usize> = places.iter().map(aim).collect();
        let mut held = vec![Vec::new(); aims.len()];
        // All processes begin at once, and once have all of their memory.
        grow(floor, &mut held, |_| pages)?;
        shrink(floor, &mut held, |cpu| if places[cpu].1 { aims[cpu] } else { 0 })?;
        grow(floor, &mut held, |cpu| aims[cpu])?;
        settle(floor);
        if let Some(lru) = &self.lru {
            held.iter().flatten().for_each(|&pfn| lru.hold(pfn));
            held.iter().for_each(|held| lru.add(floor, held));
        }
        let begin = |(held, &(_, unmaps))| Begin { held, unmaps };
        self.begin.replace(held.into_iter().zip(&places).map(begin).collect());
        Ok(())
    }

    fn play(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble> {
        let Begin { mut held, unmaps } = std::mem::take(&mut self.begin.borrow_mut()[cpu]);
        if unmaps {
            self.unmap(floor, &mut held)?;
        }
        while floor.goes_on() {
            self.fault_in(floor, &mut held)?;
            self.unmap(floor, &mut held)?;
        }
        if floor.exits() {
            self.lru.iter().for_each(|lru| lru.remove(floor, &held));
        }
        floor.leave(&held, Order(0), BATCH)
    }

    fn check(&self, left: &[Pfn]) -> Result<(), String> {
        self.lru.as_ref().map_or(Ok(()), |lru| lru.check(left))
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

/// Empties per-CPU lists and depots, because all calls so far went through those of one CPU.
///
/// Blocks that did not merge when they were freed stay as they are.
pub(super) fn settle(floor: &Floor<'_>) {
    (0..floor.cpus).for_each(|cpu| _ = floor.pages.drain_cpu(CpuId(cpu as u16)));
    zones(floor.pages.nodes()).for_each(|zone| _ = floor.pages.drain_depot(zone));
}

/// Allocates pages for processes in turn until each has as many as `aim` says.
fn grow(floor: &Floor<'_>, held: &mut [Vec<Pfn>], aim: impl Fn(usize) -> usize) -> Result<(), Trouble> {
    let most = (0..held.len()).map(&aim).max().unwrap_or(0);
    for round in 1..=most.div_ceil(GIVEN) {
        for (cpu, held) in held.iter_mut().enumerate() {
            let request = Request::page(GFP_HIGHUSER_MOVABLE).on(floor.node(cpu));
            for _ in held.len()..aim(cpu).min(round * GIVEN) {
                held.push(floor.alloc(&request)?);
            }
        }
    }
    Ok(())
}

/// Frees pages of processes in turn, the oldest first, until each has no more than `aim` says.
fn shrink(floor: &Floor<'_>, held: &mut [Vec<Pfn>], aim: impl Fn(usize) -> usize) -> Result<(), Trouble> {
    loop {
        let mut is_done = true;
        for (cpu, held) in held.iter_mut().enumerate() {
            let batch: Vec<Pfn> = held.drain(..held.len().saturating_sub(aim(cpu)).min(GIVEN)).collect();
            if !batch.is_empty() {
                floor.free_bulk(&batch, Order(0))?;
                is_done = false;
            }
        }
        if is_done {
            return Ok(());
        }
    }
}

/// Returns each process's place in its round: the share of its pages, and whether it is unmapping.
///
/// The processes of a node are spread evenly over a round, in random order. A share of them that faulted by chance
/// would persist.
pub(super) fn places(floor: &Floor<'_>, rng: &mut Rng) -> Vec<(f64, bool)> {
    let mut places = vec![(0.0, false); floor.cpus];
    for node in 0..floor.model.topology.sockets {
        let mut cpus: Vec<usize> =
            (0..floor.cpus).filter(|&cpu| floor.node(cpu).index() == usize::from(node)).collect();
        let count = cpus.len();
        for place in 0..count {
            let cpu = cpus.swap_remove(rng.below(cpus.len() as u64) as usize);
            let at = (place as f64 + 0.5) * 2.0 / count as f64;
            places[cpu] = if at < 1.0 { (at, false) } else { (2.0 - at, true) };
        }
    }
    places
}

impl Processes<'_> {
    /// Faults in the pages that the process lacks, until the run is over.
    fn fault_in(&self, floor: &Floor<'_>, held: &mut Vec<Pfn>) -> Result<(), Trouble> {
        let request = Request::page(GFP_HIGHUSER_MOVABLE);
        let mut added = held.len();
        while held.len() < self.settings.pages as usize && floor.goes_on() {
            floor.work(self.settings.work);
            let pfn = floor.alloc(&request)?;
            if self.settings.zero {
                Sim.zero(pfn, Order(0));
            }
            held.push(pfn);
            self.lru.iter().for_each(|lru| lru.hold(pfn));
            if held.len() - added == self.settings.pagevec as usize {
                self.lru.iter().for_each(|lru| lru.add(floor, &held[added..]));
                added = held.len();
            }
            floor.done();
        }
        self.lru.iter().for_each(|lru| lru.add(floor, &held[added..]));
        Ok(())
    }

    /// Unmaps the pages of the process, the oldest first, until the run is over.
    fn unmap(&self, floor: &Floor<'_>, held: &mut Vec<Pfn>) -> Result<(), Trouble> {
        let most = if self.lru.is_some() { GATHER } else { BATCH };
        let mut freed = 0;
        while freed < held.len() && floor.goes_on() {
            let pages = &held[freed..held.len().min(freed + most)];
            floor.work(self.settings.unmap * pages.len() as u32);
            if let Some(lru) = &self.lru {
                lru.look_at(pages);
                lru.remove(floor, pages);
            }
            pages.chunks(BATCH).try_for_each(|pages| floor.free_bulk(pages, Order(0)))?;
            freed += pages.len();
        }
        held.drain(..freed);
        Ok(())
    }
}
