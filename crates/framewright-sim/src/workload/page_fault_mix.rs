//! `page-fault-mix`: half of the processes fault in small pages, half huge ones, in fragmented memory.
//!
//! Modelled on the run that the series of no_merge and cluster_alloc published in 2018: 56 tasks of will-it-scale's
//! page_fault1 with 4 KiB pages beside 56 with transparent huge pages, "after deliberate fragmentation". How memory was
//! fragmented and how much of it was left is not published, so both are assumed here. Processes are those of
//! `page-fault1`; on every other CPU they fault in 2 MiB at a time.
//!
//! # What is counted
//!
//! The benchmark counts the pages of 4 KiB that it writes to, of either size: a huge fault counts 512. The published
//! scores can mean nothing else. Both parts together are 12.06 million a second for the first kernel. That is 0.3 %
//! less than the fastest kernel faults in small pages, where memory bandwidth is the limit.
//!
//! # Memory
//!
//! Each node is filled with small pages. Then as many are freed, in random order, as [`PageFaultMix::free`] says.
//! [`HOLES`] percent of them are every other page of some pageblocks, which no merge ever makes large. The others are
//! all pages of other pageblocks, each a huge page for a kernel that merges. The rest stays occupied until the run is
//! over. Free memory is a little more than what processes have on average. So a pageblock of small pages is soon wanted
//! as a huge page, and freed huge pages are split again.
//!
//! # A huge fault
//!
//! As in Linux 4.19 with `defrag=madvise`, and for memory about which nothing was advised: one attempt on the process's
//! own node that may not wait (`GFP_TRANSHUGE_LIGHT`, `__GFP_THISNODE`). If it fails, the 512 pages are faulted in one
//! by one, without another attempt. A huge page is zeroed page by page, as in `clear_huge_page`: cores share the memory
//! controller, and none waits for the 2 MiB of another. The fault itself takes as many cycles as a small one. The page
//! table that Linux sets aside for it costs nothing here, nor do writes to pages that are in caches by then.
//!
//! A process that gets no small page frees what it has and begins again, where Linux would reclaim.

use std::cell::{Cell, RefCell};

use framewright::machine::Machine;
use framewright::request::{__GFP_NORETRY, __GFP_THISNODE, GFP_HIGHUSER_MOVABLE, GFP_TRANSHUGE_LIGHT};
use framewright::units::NodeId;
use framewright::{AllocError, Order, Pfn, Request};
use framewright_ops::rng::Rng;

use super::floor::{BATCH, Floor, Trouble};
use super::gate::Stopwatch;
use super::page_fault::{GIVEN, places, settle};
use super::play::{Ground, Length, Needs, Play, WorkloadKind};
use crate::engine::here;
use crate::engine::sim::Sim;
use crate::model::MS;
use crate::report::{CpuReport, Figure, Report};
use crate::settings::settings;

/// A huge page: 2 MiB, as large as a pageblock.
const HUGE: Order = Order(9);
/// Percent of the free memory that are single pages between occupied ones.
const HOLES: u64 = 20;
/// Most attempts in a row for a process's first page: others may hold all memory for a while, but not for ever.
const PATIENCE: u32 = 10_000;

settings! {
    /// Options of `page-fault-mix`.
    PageFaultMix {
        pages: u32 = 4096, 512..=1 << 20, "pages of 4 KiB of a process";
        free: u32 = 80, 60..=1000, "free memory before the run, in percent of what all processes have at most";
        work: u32 = 2500, 0..=1_000_000, "cycles of a fault, besides the allocator and zeroing";
        unmap: u32 = 400, 0..=1_000_000, "cycles to unmap a page of either size";
    }
}

impl PageFaultMix {
    /// Name of the figure: pages that processes with small pages fault in.
    pub const SMALL: &'static str = "pages of tasks with small pages";
    /// Name of the figure: pages of 4 KiB that processes with huge pages fault in.
    pub const HUGE: &'static str = "pages of tasks with huge pages";
    /// Name of the figure: huge faults that were served with small pages, in percent.
    pub const FALLBACKS: &'static str = "huge faults that fell back";
    /// Name of the figure: how long it takes to ask the allocator for a huge page, on average, in nanoseconds.
    pub const ATTEMPT: &'static str = "an attempt at a huge page";

    fn is_huge(cpu: usize) -> bool {
        cpu % 2 == 1
    }
}

impl WorkloadKind for PageFaultMix {
    const NAME: &'static str = "page-fault-mix";
    const SUMMARY: &'static str =
        "page-fault1 with small pages on even CPUs, with huge pages on odd ones, in fragmented memory";
    const UNIT: &'static str = "page";

    fn needs(&self, cpus: usize) -> Needs {
        let window = if cpus < 16 { 160 * MS } else { 60 * MS };
        let length = Length::Time { warm_up: 40 * MS, window, pass: u64::from(self.pages) };
        let frames = u64::from(self.pages) * u64::from(self.free.max(100)) / 100;
        Needs { frames, bytes: (0, 0), length }
    }

    fn set_up<'a>(&self, _: &Ground<'a>) -> Result<Box<dyn Play + 'a>, String> {
        Ok(Box::new(Mix { settings: *self, begin: RefCell::default(), counts: FaultCounts::default() }))
    }
}

struct Mix {
    settings: PageFaultMix,
    /// Each process when time begins, and whether it is unmapping.
    begin: RefCell<Vec<(Process, bool)>>,
    counts: FaultCounts,
}

/// Counts of the window.
#[derive(Default)]
struct FaultCounts {
    huge: Cell<u64>,
    fallbacks: Cell<u64>,
    cut_short: Cell<u64>,
    attempts: Stopwatch,
}

/// A process and its blocks, the oldest first.
#[derive(Default)]
struct Process {
    is_huge: bool,
    held: Vec<(Pfn, Order)>,
    /// Their pages of 4 KiB.
    pages: u32,
}

impl Play for Mix {
    fn prepare(&self, floor: &Floor<'_>, rng: &mut Rng) -> Result<(), Trouble> {
        for node in 0..floor.pages.nodes() {
            let cpus = (0..floor.cpus).filter(|&cpu| floor.node(cpu).index() == node).count();
            if cpus != 0 {
                let free = cpus as u64 * u64::from(self.settings.pages) * u64::from(self.settings.free) / 100;
                fragment(floor, NodeId(node as u8), free, rng)?;
            }
        }
        settle(floor);
        let mut begin: Vec<(Process, bool)> = Vec::new();
        let places = places(floor, rng);
        for (cpu, &(_, unmaps)) in places.iter().enumerate() {
            begin.push((Process { is_huge: PageFaultMix::is_huge(cpu), ..Process::default() }, unmaps));
        }
        // Processes allocate in turn, as they would have in a run.
        let aim = |cpu: usize| (places[cpu].0 * f64::from(self.settings.pages)) as u32;
        let mut is_done = false;
        while !std::mem::replace(&mut is_done, true) {
            for (cpu, (process, _)) in begin.iter_mut().enumerate() {
                for _ in 0..GIVEN {
                    if process.pages < aim(cpu) && process.grow(floor, floor.node(cpu)).is_ok() {
                        is_done = false;
                    }
                }
            }
        }
        settle(floor);
        self.begin.replace(begin);
        Ok(())
    }

    fn play(&self, floor: &Floor<'_>, cpu: usize) -> Result<(), Trouble> {
        let (mut process, unmaps) = std::mem::take(&mut self.begin.borrow_mut()[cpu]);
        if unmaps {
            self.unmap(floor, &mut process)?;
        }
        let mut refused = 0;
        while floor.goes_on() {
            let served = self.fault_in(floor, &mut process, floor.node(cpu));
            refused = if process.pages == 0 && served.is_err() { refused + 1 } else { 0 };
            if refused == PATIENCE {
                return served;
            }
            self.unmap(floor, &mut process)?;
        }
        for run in process.runs() {
            let blocks: Vec<Pfn> = run.iter().map(|&(pfn, _)| pfn).collect();
            floor.leave(&blocks, run[0].1, BATCH)?;
        }
        Ok(())
    }

    fn figures(&self, report: &Report) -> Vec<Figure> {
        let seconds = report.window_ns as f64 / 1e9;
        let of = |is_huge| {
            let cpus = report.per_cpu.iter().filter(move |cpu: &&CpuReport| PageFaultMix::is_huge(cpu.cpu) == is_huge);
            cpus.map(|cpu| cpu.operations as f64).sum::<f64>() / seconds
        };
        let FaultCounts { huge, fallbacks, cut_short, attempts } = &self.counts;
        let tried = huge.get() + fallbacks.get();
        let mut figures = vec![
            Figure::new(PageFaultMix::SMALL, of(false), "/s"),
            Figure::new(PageFaultMix::HUGE, of(true), "/s"),
            Figure::new("huge faults", huge.get() as f64 / seconds, "/s"),
            Figure::new(PageFaultMix::FALLBACKS, fallbacks.get() as f64 * 100.0 / tried.max(1) as f64, "%"),
            Figure::new("processes that got no page", cut_short.get() as f64 / seconds, "/s"),
            Figure::new("zeroed", report.per_second * 4096.0 / 1e9, "GB/s"),
        ];
        figures.extend(attempts.figure(PageFaultMix::ATTEMPT));
        figures
    }
}

/// Fills a node with small pages and frees `free` of them.
///
/// The others are kept until the run is over.
fn fragment(floor: &Floor<'_>, node: NodeId, free: u64, rng: &mut Rng) -> Result<(), Trouble> {
    let gfp = GFP_HIGHUSER_MOVABLE | __GFP_THISNODE | __GFP_NORETRY;
    let request = Request::page(gfp).on(node);
    let mut all: Vec<Pfn> = std::iter::from_fn(|| floor.pages.alloc(&request).ok()).collect();
    all.sort_unstable();
    let mut blocks: Vec<&[Pfn]> = all.chunk_by(|a, b| a.0 >> HUGE.0 == b.0 >> HUGE.0).collect();
    rng.shuffle(&mut blocks);
    // Pageblocks with pages that could not be allocated come last.
    blocks.sort_by_key(|block| block.len() as u64 != HUGE.frames());
    let holes = free * HOLES / 100;
    let whole = (free - holes).div_ceil(HUGE.frames()) as usize;
    let broken = (holes * 2).div_ceil(HUGE.frames()) as usize;
    let (mut freed, mut kept): (Vec<Pfn>, Vec<Pfn>) = (Vec::new(), Vec::new());
    for (number, block) in blocks.into_iter().enumerate() {
        let is_freed = |pfn: &Pfn| number < whole || number < whole + broken && pfn.0.is_multiple_of(2);
        let (mut one, mut other): (Vec<Pfn>, Vec<Pfn>) = block.iter().partition(|pfn| is_freed(pfn));
        freed.append(&mut one);
        kept.append(&mut other);
    }
    rng.shuffle(&mut freed);
    floor.keep(&kept);
    freed.into_iter().try_for_each(|pfn| floor.free(pfn, Order(0)))
}

impl Process {
    /// Allocates a huge page, if the process is where it could have one, or else a small one.
    fn grow(&mut self, floor: &Floor<'_>, node: NodeId) -> Result<(), AllocError> {
        if self.wants_huge() && self.grow_by(floor, &huge_page(node)).is_ok() {
            return Ok(());
        }
        self.grow_by(floor, &Request::page(GFP_HIGHUSER_MOVABLE).on(node)).map(drop)
    }

    /// Returns whether the next fault is the first in its 2 MiB.
    fn wants_huge(&self) -> bool {
        self.is_huge && u64::from(self.pages).is_multiple_of(HUGE.frames())
    }

    fn grow_by(&mut self, floor: &Floor<'_>, request: &Request) -> Result<Pfn, AllocError> {
        let pfn = floor.pages.alloc(request)?;
        self.held.push((pfn, request.order));
        self.pages += request.order.frames() as u32;
        Ok(pfn)
    }

    /// Returns the blocks in runs of one order.
    fn runs(&self) -> impl Iterator<Item = &[(Pfn, Order)]> {
        self.held.chunk_by(|(_, one), (_, other)| one == other)
    }
}

/// Returns the request of a huge fault.
fn huge_page(node: NodeId) -> Request {
    Request { order: HUGE, ..Request::page(GFP_TRANSHUGE_LIGHT | __GFP_THISNODE).on(node) }
}

impl Mix {
    /// Faults in the pages that the process lacks, until the run is over.
    ///
    /// Fails if it gets no page.
    fn fault_in(&self, floor: &Floor<'_>, process: &mut Process, node: NodeId) -> Result<(), Trouble> {
        let small = Request::page(GFP_HIGHUSER_MOVABLE);
        let count = |count: &Cell<u64>| count.set(count.get() + u64::from(floor.is_measured()));
        while process.pages < self.settings.pages && floor.goes_on() {
            floor.work(self.settings.work);
            if process.wants_huge() {
                let is_served = self.fault_huge(floor, process, &huge_page(node));
                count(if is_served { &self.counts.huge } else { &self.counts.fallbacks });
                if is_served {
                    continue;
                }
            }
            let pfn = process.grow_by(floor, &small).map_err(|error| {
                count(&self.counts.cut_short);
                Trouble::Alloc { cpu: here::cpu(), request: small, error }
            })?;
            Sim.zero(pfn, Order(0));
            floor.done();
        }
        Ok(())
    }

    /// Faults in a huge page; returns whether there was one.
    fn fault_huge(&self, floor: &Floor<'_>, process: &mut Process, request: &Request) -> bool {
        let attempt = self.counts.attempts.time(floor, 1, || process.grow_by(floor, request));
        let Ok(pfn) = attempt else { return false };
        for page in 0..request.order.frames() {
            Sim.zero(Pfn(pfn.0 + page), Order(0));
        }
        // The benchmark counts its writes, which come after all pages are zeroed.
        (0..request.order.frames()).for_each(|_| floor.done());
        true
    }

    /// Unmaps the blocks of the process, the oldest first, until the run is over.
    fn unmap(&self, floor: &Floor<'_>, process: &mut Process) -> Result<(), Trouble> {
        let mut freed = 0;
        for run in process.runs() {
            for batch in run.chunks(BATCH) {
                if !floor.goes_on() {
                    break;
                }
                floor.work(self.settings.unmap * batch.len() as u32);
                let blocks: Vec<Pfn> = batch.iter().map(|&(pfn, _)| pfn).collect();
                floor.free_bulk(&blocks, batch[0].1)?;
                freed += batch.len();
            }
        }
        let pages: u64 = process.held.drain(..freed).map(|(_, order)| order.frames()).sum();
        process.pages -= pages as u32;
        Ok(())
    }
}
