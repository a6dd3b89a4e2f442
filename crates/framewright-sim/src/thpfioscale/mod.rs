//! `thpfioscale`: files that fill memory and push each other out, and then a process that wants huge pages.
//!
//! The workload that Linux's fragmentation avoidance series was measured with (mmtests, `config-global-dhp__workload_thpfioscale`, November 2018). Four
//! processes write files of 64 KiB, half as much again as there is memory, all files at once and page by page, so that what the file system and the page
//! cache allocate lies mixed. Then four read them at random for as long as the writing took, and go on while a process touches half of
//! three quarters of the first node, in huge pages if it gets them. What counts is how many requests were served from a free block of another
//! mobility smaller than a pageblock; then how many huge pages were to be had, and how long a fault took.
//!
//! Unlike the workloads of `workload.rs` it has no window: it begins, goes through its phases and ends. What it needs of a kernel around the allocator
//! it brings along:
//!
//! ```text
//! roles.rs     who does what on which CPU: writers, readers, faults, background threads
//! load.rs      what else the machine may do: compile (build.rs), serve files (network.rs)
//!   kernel.rs    how parts of a kernel get memory: files, objects, pages of processes
//!     disk.rs      what is dirty, when it is written, who waits; and all else that happens on a machine
//!     reclaim.rs   what the allocator asks for: pages freed, pages moved (`host.rs`)
//!       files.rs     files and their pages      slab.rs      kernel objects in slabs
//!       lists.rs     frames and LRU lists       buffers.rs   blocks of the file system
//!       costs.rs     what all of that takes
//! outcome.rs   what is counted
//! ```
//!
//! # Memory
//!
//! How large the machines of 2018 were is not written anywhere, but the percentages of huge pages that were printed have two decimals: no number of
//! faults that a node of 16 GiB leads to has all five of one machine, few of one of 32 GiB do, and any of one of 64 GiB. So a node has
//! the proportions of one of 64 GiB with 3 GiB below the gap at 4 GiB: zone DMA is 1/4096 of the first node, all below the gap 3/64; each at least a
//! pageblock. What does not grow with memory is a share of it, too ([`Marks`]): per-CPU lists, the log, what the kernel has from the start. But
//! pageblocks cannot shrink, and compaction needs a few that are free: so the marks are four times that share, as on a node of 16 GiB,
//! with huge pages on, for which khugepaged raises `min_free_kbytes`; that grows with the number of zones, not with their size, and would be a twentieth
//! of a machine of 1 GiB.
//!
//! # Not there
//!
//! khugepaged; swap; memory groups; batches of pages on their way to the LRU lists; readahead (fio tells the kernel that it reads at random); the time that
//! the log takes on the disk; files that are open only while they are used.

mod buffers;
mod build;
mod chain;
mod costs;
mod disk;
mod files;
mod kernel;
mod lists;
mod load;
mod network;
pub mod outcome;
mod reclaim;
mod roles;
mod slab;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::str::FromStr;

use framewright::pfn::{NodeId, ZoneIdx, ZoneKind};
use framewright::request::{__GFP_RECLAIMABLE, GFP_KERNEL};
use framewright::watermark::{PcpSize, Tuning};
use framewright::{AllocError, Allocator, BootError, Mechanisms, Pfn, Region, Request, Violation};

use crate::engine::here;
use crate::engine::run::{Deadlock, Options, Schedule, SetupError, Simulation};
use crate::engine::sim::Sim;
use crate::measure::About;
use crate::memory::arena::Arena;
use crate::model::{Model, Ps, S};
use crate::settings::SpecError;
use crate::settings::{Choice, Value, read_all, settings};
use crate::stage::{Descriptors, arena_for, boot, contexts};

use buffers::Buffers;
use disk::Flusher;
use files::Files;
use kernel::{Kernel, Memory};
use lists::Lists;
pub use load::Load;
pub use outcome::Outcome;
use outcome::{Phase, Tally};
pub use reclaim::Shrinkers;
use roles::{Cast, Held, JOBS, Stage};
use slab::Caches;
pub use slab::Slabs;

/// First frame of the machine.
const FIRST: u64 = 1 << 10;
/// Frames of the largest block.
const BLOCK: u64 = 1 << 10;
/// Frames of a pageblock.
const PAGEBLOCK: u64 = 512;
/// Frames of zone DMA: 16 MiB.
const DMA: u64 = 16 << 8;
/// Frames of a node whose proportions others have, 64 GiB; and of one that has their marks, 16 GiB.
const NODE: u64 = 64 << 18;
const MARKS: u64 = 16 << 18;
/// Batch and high of per-CPU lists in Linux 4.20, in zones of a gigabyte or more.
const PCP: [u64; 2] = [63, 378];
/// Frames that the kernel has from the start, unmovable and reclaimable, and as what part of memory at most: 10.8 MB and 13.5 MB of slabs were
/// measured behind the boot of a machine of 1 GiB.
const BOOT: [u64; 2] = [2_700, 3_380];
const BOOT_SHARE: u64 = 64;

/// How huge pages are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Config {
    /// Huge pages always, `defrag` for those who ask, and nobody asks: no fault waits.
    Default,
    /// The same, and the process asks (`MADV_HUGEPAGE`): faults compact and reclaim.
    Madvise,
    /// `defrag` always: each fault compacts once.
    Defrag,
}

impl Choice for Config {
    const NAMES: &'static [(&'static str, Config)] =
        &[("default", Config::Default), ("madvise", Config::Madvise), ("defrag", Config::Defrag)];
}

impl Choice for Shrinkers {
    const NAMES: &'static [(&'static str, Shrinkers)] = &[("batch", Shrinkers::Batch), ("share", Shrinkers::Share)];
}

impl Choice for Slabs {
    const NAMES: &'static [(&'static str, Slabs)] = &[("slub", Slabs::Slub), ("single", Slabs::Single)];
}

/// How large is what does not grow with memory: the memory that is to stay free, per-CPU lists, what the log holds, what the kernel has from the
/// start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marks {
    /// The share of memory that it is on a node of 64 GiB; marks, of 16 GiB.
    Scaled,
    /// As it is, and as Linux would choose it for as much memory as there is.
    Own,
}

impl Choice for Marks {
    const NAMES: &'static [(&'static str, Marks)] = &[("scaled", Marks::Scaled), ("own", Marks::Own)];
}

impl Value for u64 {
    fn form(range: &std::ops::RangeInclusive<u32>) -> String {
        <u32 as Value>::form(range)
    }

    fn read(text: &str, range: &std::ops::RangeInclusive<u32>) -> Option<u64> {
        <u32 as Value>::read(text, range).map(u64::from)
    }

    fn show(self) -> String {
        self.to_string()
    }
}

settings! {
    /// Options of `thpfioscale`.
    Thpfioscale {
        mib: u32 = 1024, 64..=262_144, "memory of the machine, in MiB, on all nodes alike";
        config: Config = Config::Default, 0..=2, "how huge pages are asked for: default, madvise or defrag";
        rounds: u32 = 1, 1..=1_000, "how often files are written, read and deleted";
        load: Load = Load::Files, 0..=2, "what the machine does besides: fio writes and reads files (files), sources are compiled (build), files are sent to clients (network)";
        readers: bool = true, 0..=1, "whether it goes on with that while huge pages are wanted";
        log: u32 = 220_000, 1..=100_000_000,
            "inodes in the log when it is written, 1 KiB of unmovable memory each: an eighth of a log of 512 MiB, 300 bytes each there (assumed); on a small disk 20480 were seen";
        slabs: Slabs = Slabs::Single, 0..=1, "slabs of one page each (single: SLAB), or of several where there are some (slub)";
        shrinkers: Shrinkers = Shrinkers::Batch, 0..=1, "how hard reclaim presses shrinkers: a batch of objects at least, but not files with pages in memory (batch: Linux 4.20), or their share (share: before and after)";
        marks: Marks = Marks::Scaled, 0..=1, "what does not grow with memory: the share that it is on a node of 64 GiB, marks of 16 GiB (scaled), or as it is (own)";
        low: u32 = 0, 0..=4_096, "MiB of the first node below the gap at 4 GiB, of which 16 are zone DMA; 0: the share that it is on a node of 64 GiB";
        min_free: u32 = 0, 0..=100_000_000, "KiB of the machine that are to stay free (min_free_kbytes); 0: what khugepaged makes of it";
        held: u32 = 0, 0..=1_000_000, "pages that the kernel has from the start besides slabs, unmovable: stacks, modules, per-CPU data";
        seed: u64 = 1, 0..=u32::MAX, "seed of all that is random";
    }
}

impl FromStr for Thpfioscale {
    type Err = SpecError;

    /// Options as `mib=1024,config=madvise`.
    fn from_str(text: &str) -> Result<Thpfioscale, SpecError> {
        if text.is_empty() { Ok(Thpfioscale::default()) } else { read_all("thpfioscale", text) }
    }
}

/// Why a run came to nothing.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Failure {
    /// Fewer CPUs than roles.
    #[error(
        "{machine} has {cpus} CPUs: too few for four readers, one that wants huge pages and the kernel's threads of each node"
    )]
    Cpus {
        /// The machine.
        machine: String,
        /// How many it has.
        cpus: usize,
    },
    /// The configuration is wrong.
    #[error("the allocator cannot be set up: {0}")]
    Boot(BootError),
    /// The machine cannot be had.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// All CPUs wait.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// A request failed over and over.
    #[error("no memory for {request:?}: {error}")]
    Memory {
        /// Which.
        request: Request,
        /// Why.
        error: AllocError,
    },
    /// The allocator's words contradict each other.
    #[error("the allocator is in disorder: {0}")]
    Disorder(Violation),
    /// Frames are still in use at the end.
    #[error("{0} frames are in use when all was freed")]
    Lost(u64),
}

/// Runs the workload on all CPUs of a machine.
///
/// # Errors
/// The machine is too small, memory ran out, or the allocator did something wrong.
pub fn run(model: &Model, mechanisms: Mechanisms, options: &Thpfioscale) -> Result<Outcome, Failure> {
    let cpus = model.topology.cpus();
    let cast = Cast::of(model).ok_or_else(|| Failure::Cpus { machine: model.name.clone(), cpus })?;
    let map = Map::of(model, options);
    let nodes: Vec<NodeId> = (0..cpus).map(|cpu| NodeId(model.topology.socket_of(cpu) as u8)).collect();
    let (contexts, _) = contexts(&nodes, &mechanisms, false);
    let config = map.config(&contexts, mechanisms);
    let arena: Arena = arena_for(&config, 1 << 20).map_err(Failure::Boot)?;
    let pages = boot(&arena, &config, Descriptors::Line).map_err(Failure::Boot)?;
    let whole =
        Options { cpus, seed: options.seed, schedule: Schedule::Time, warm_up: 0, window: Ps::MAX, trace: false };
    let mut simulation = Simulation::new(model, &arena, &whole)?;
    simulation.set_frames(map.regions.iter().map(|region| (region.range.end.0, u16::from(region.node.0))).collect());
    let kernel = kernel(pages, model, (&cast, &map), options);
    let run = Run { kernel: &kernel, cast: &cast, map: &map, options, flusher: Flusher::default() };
    let own = run.boot(&mut simulation)?;
    let mut phases = Vec::new();
    for round in 0..u64::from(options.rounds) {
        run.round(&mut simulation, round, &mut phases)?;
    }
    own.into_iter().for_each(|pfn| kernel.free(pfn.0, 0));
    let slabs = kernel.with(|memory| memory.caches.empty());
    slabs.into_iter().for_each(|(pfn, order)| kernel.free(pfn, order));
    let report = simulation.report(&About::default());
    let outcome = kernel.outcome(phases, report.locks, (report.accesses, report.switches));
    let census = pages.validate().map_err(Failure::Disorder)?;
    if census.allocated != 0 || !census.is_conserved() { Err(Failure::Lost(census.allocated)) } else { Ok(outcome) }
}

/// The machine's memory.
struct Map {
    regions: Vec<Region>,
    tuning: Vec<Tuning>,
    dma_end: u64,
    dma32_end: u64,
    /// Frames of a node.
    each: u64,
    min_free_kbytes: u64,
}

impl Map {
    fn of(model: &Model, options: &Thpfioscale) -> Map {
        let nodes = u64::from(model.topology.sockets);
        let each = (u64::from(options.mib) * 256 / nodes / BLOCK).max(8) * BLOCK;
        let region = |node: u64| Region::usable(FIRST + node * each, FIRST + (node + 1) * each, node as u8);
        let [dma, low] = match u64::from(options.low) {
            0 => [(each / 4096 / PAGEBLOCK).max(1) * PAGEBLOCK, (each * 3 / 64 / BLOCK).max(1) * BLOCK],
            mib => [DMA, (mib * 256).next_multiple_of(BLOCK)],
        };
        let min_free_kbytes = match options.marks {
            _ if options.min_free != 0 => options.min_free.into(),
            Marks::Own => min_free_kbytes(nodes, nodes * each),
            Marks::Scaled => min_free_kbytes(nodes, MARKS) * each / MARKS,
        };
        let regions = (0..nodes).map(region).collect();
        let share = |pages: u64| (pages * each).div_ceil(NODE) as u32;
        let pcp = PcpSize { batch: share(PCP[0]), high: share(PCP[1]) };
        let zones = (0..nodes)
            .flat_map(|node| [ZoneKind::Dma32, ZoneKind::Normal].map(|kind| ZoneIdx::of(NodeId(node as u8), kind)));
        let tuning = match options.marks {
            Marks::Own => Vec::new(),
            Marks::Scaled => zones.map(|zone| Tuning { zone, marks: None, reserve: None, pcp: Some(pcp) }).collect(),
        };
        Map { regions, tuning, dma_end: FIRST + dma, dma32_end: FIRST + low, each, min_free_kbytes }
    }

    fn frames(&self) -> u64 {
        self.each * self.regions.len() as u64
    }

    fn config<'c>(&'c self, cpus: &'c [NodeId], mechanisms: Mechanisms) -> framewright::Config<'c> {
        framewright::Config {
            mechanisms,
            dma_end: Pfn(self.dma_end),
            dma32_end: Pfn(self.dma32_end),
            min_free_kbytes: Some(self.min_free_kbytes),
            tuning: &self.tuning,
            ..framewright::Config::new(&self.regions, cpus)
        }
    }
}

/// What khugepaged makes of `min_free_kbytes` on a machine of so many nodes and frames: two pageblocks of each zone, and one for each pair of mobilities;
/// a twentieth of memory at most.
fn min_free_kbytes(nodes: u64, frames: u64) -> u64 {
    // DMA, DMA32 and Normal of the first node, Normal of others.
    4 * (PAGEBLOCK * (2 + nodes) * (2 + 3 * 3)).min(frames / 20)
}

fn kernel<'a>(
    pages: &'a Allocator<'a, Sim>,
    model: &'a Model,
    (cast, map): (&Cast, &Map),
    options: &Thpfioscale,
) -> Kernel<'a> {
    let ends: Vec<u64> = map.regions.iter().map(|region| region.range.end.0).collect();
    let files = options.load.files(map.frames());
    let memory = Memory {
        lists: Lists::new(FIRST, &ends),
        files: Files::new(files as usize),
        caches: Caches::new(options.slabs, ends.len(), model.topology.cpus()),
        buffers: Buffers::new(files as usize),
        dirty: 0,
        writeback: 0,
        anon: Vec::new(),
        deferred: [0; 3],
        tally: Tally::default(),
    };
    let (background, frames) = (cast.kswapd.clone(), map.frames());
    let like = if options.marks == Marks::Scaled { NODE * ends.len() as u64 } else { frames };
    let mut kernel = Kernel {
        pages,
        model,
        memory: RefCell::new(memory),
        background,
        frames,
        like,
        log: 0,
        shrinkers: options.shrinkers,
        load: options.load,
        trouble: Cell::new(None),
    };
    kernel.log = kernel.scaled(u64::from(options.log));
    kernel
}

/// One run's parts.
struct Run<'r, 'a> {
    kernel: &'r Kernel<'a>,
    cast: &'r Cast,
    map: &'r Map,
    options: &'r Thpfioscale,
    flusher: Flusher,
}

impl Run<'_, '_> {
    /// All CPUs do their part of a phase.
    fn all(&self, simulation: &mut Simulation<'_>, body: impl Fn(usize)) -> Result<(), Failure> {
        simulation.run_hosted(body, self.kernel)?;
        self.kernel.trouble.get().map_or(Ok(()), |(error, request)| Err(Failure::Memory { request, error }))
    }

    /// What the kernel has from the start: single pages of both kinds in turn, as slabs come to be while a machine boots.
    fn boot(&self, simulation: &mut Simulation<'_>) -> Result<Vec<Pfn>, Failure> {
        let own = RefCell::new(Vec::new());
        let [unmovable, reclaimable] =
            BOOT.map(|frames| self.kernel.scaled(frames).min(self.kernel.frames / BOOT_SHARE));
        self.all(simulation, |cpu| {
            if cpu != self.cast.jobs[0] {
                return;
            }
            let unmovable = unmovable + u64::from(self.options.held);
            let (mut one, mut other) = (unmovable, reclaimable);
            while one + other > 0 {
                let is_one = one * reclaimable >= other * unmovable;
                let gfp = if is_one { GFP_KERNEL } else { GFP_KERNEL | __GFP_RECLAIMABLE };
                own.borrow_mut().extend(self.kernel.must_alloc(&Request::page(gfp)));
                if is_one {
                    one -= 1
                } else {
                    other -= 1
                }
                if !self.kernel.is_well() {
                    break;
                }
            }
        })?;
        Ok(own.into_inner())
    }

    fn round(&self, simulation: &mut Simulation<'_>, round: u64, phases: &mut Vec<Phase>) -> Result<(), Failure> {
        let (kernel, cast) = (self.kernel, self.cast);
        let regions = &self.map.regions;
        let before = || kernel.with(|memory| memory.tally.clone());
        let seconds = |time: Ps| time as f64 / S as f64;

        let (start, tally, stage) = (simulation.clock(), before(), Stage::default());
        self.align(simulation, start)?;
        stage.working.set(JOBS);
        self.all(simulation, |cpu| _ = kernel.write_phase(cast, &stage, &self.flusher, cpu))?;
        let writing = stage.ended.get() - start;
        let now = simulation.clock();
        phases.push(kernel.phase("write", (now, seconds(writing)), &tally, regions));

        let (start, tally, stage) = (simulation.clock(), before(), Stage::default());
        self.align(simulation, start)?;
        stage.working.set(cast.huge.len());
        stage.reading.set(JOBS);
        let held = Held { node_frames: self.map.each, ..Held::default() };
        let both = (&stage, &self.flusher);
        self.all(simulation, |cpu| {
            _ = kernel.read_phase((cast, self.options), both, (start + writing, round), (cpu, &held));
        })?;
        let now = simulation.clock();
        phases.push(kernel.phase("read and fault", (now, seconds(now - start)), &tally, regions));

        let (start, tally) = (simulation.clock(), before());
        self.all(simulation, |cpu| _ = kernel.clean_up(cast, &held, cpu))?;
        kernel.checkpoint();
        kernel.free_buffers();
        let now = simulation.clock();
        phases.push(kernel.phase("clean up", (now, seconds(now - start)), &tally, regions));
        Ok(())
    }

    /// Lets all CPUs come to the same time.
    fn align(&self, simulation: &mut Simulation<'_>, time: Ps) -> Result<(), Failure> {
        self.all(simulation, |_| here::sleep_until(time))
    }
}
