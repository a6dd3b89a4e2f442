//! Runs the phases of one run, from the memory map to the result.

use std::cell::{Cell, RefCell};

use framewright::request::{__GFP_RECLAIMABLE, GFP_KERNEL};
use framewright::units::NodeId;
use framewright::{Allocator, Mechanisms, Pfn, Request};

use super::buffers::Buffers;
use super::disk::Flusher;
use super::files::Files;
use super::fio_failure::FioFailure;
use super::kernel::{Kernel, KernelMemory};
use super::lists::Lists;
use super::machine_memory::{FIRST, FioMap, NODE};
use super::options::{Marks, Thpfioscale};
use super::outcome::{FioOutcome, Phase, Tally};
use super::phase_state::{JOBS, Stage};
use super::roles::{Cast, Held};
use super::slab::Caches;
use crate::engine::here;
use crate::engine::run::{Options, Schedule, Simulation};
use crate::engine::sim::Sim;
use crate::measure::About;
use crate::memory::arena::Arena;
use crate::model::{Model, Ps, S};
use crate::stage::{Descriptors, arena_for, boot, contexts};

/// Frames that the kernel has from the start, unmovable and reclaimable, and their largest share of memory.
///
/// 10.8 MB and 13.5 MB of slabs were measured after the boot of a machine of 1 GiB.
const BOOT: [u64; 2] = [2_700, 3_380];

const BOOT_SHARE: u64 = 64;

/// Runs the workload on all CPUs of a machine.
///
/// # Errors
/// The machine is too small, memory ran out, or the allocator did something wrong.
pub fn run(model: &Model, mechanisms: Mechanisms, options: &Thpfioscale) -> Result<FioOutcome, FioFailure> {
    let cpus = model.topology.cpus();
    let cast = Cast::of(model).ok_or_else(|| FioFailure::Cpus { machine: model.name.clone(), cpus })?;
    let map = FioMap::of(model, options);
    let nodes: Vec<NodeId> = (0..cpus).map(|cpu| NodeId(model.topology.socket_of(cpu) as u8)).collect();
    let (contexts, _) = contexts(&nodes, &mechanisms, false);
    let config = map.config(&contexts, mechanisms);
    let arena: Arena = arena_for(&config, 1 << 20).map_err(FioFailure::Boot)?;
    let pages = boot(&arena, &config, Descriptors::Line).map_err(FioFailure::Boot)?;
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
    let census = pages.validate().map_err(FioFailure::Disorder)?;
    if census.allocated != 0 || !census.is_conserved() { Err(FioFailure::Lost(census.allocated)) } else { Ok(outcome) }
}

pub(super) fn kernel<'a>(
    pages: &'a Allocator<'a, Sim>,
    model: &'a Model,
    (cast, map): (&Cast, &FioMap),
    options: &Thpfioscale,
) -> Kernel<'a> {
    let ends: Vec<u64> = map.regions.iter().map(|region| region.range.end.0).collect();
    let files = options.load.files(map.frames());
    let memory = KernelMemory {
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

/// The parts of one run.
struct Run<'r, 'a> {
    kernel: &'r Kernel<'a>,
    cast: &'r Cast,
    map: &'r FioMap,
    options: &'r Thpfioscale,
    flusher: Flusher,
}

impl Run<'_, '_> {
    /// Runs `body` on all CPUs.
    fn all(&self, simulation: &mut Simulation<'_>, body: impl Fn(usize)) -> Result<(), FioFailure> {
        simulation.run_hosted(body, self.kernel)?;
        self.kernel.trouble.get().map_or(Ok(()), |(error, request)| Err(FioFailure::Memory { request, error }))
    }

    /// Allocates the memory that the kernel has from the start.
    ///
    /// The pages of both kinds alternate, as slabs do while a machine boots.
    fn boot(&self, simulation: &mut Simulation<'_>) -> Result<Vec<Pfn>, FioFailure> {
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

    fn round(&self, simulation: &mut Simulation<'_>, round: u64, phases: &mut Vec<Phase>) -> Result<(), FioFailure> {
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

    /// Brings all CPUs to one time.
    fn align(&self, simulation: &mut Simulation<'_>, time: Ps) -> Result<(), FioFailure> {
        self.all(simulation, |_| here::sleep_until(time))
    }
}
