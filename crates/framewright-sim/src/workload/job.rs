//! One run of a workload, from the memory map to the report.
//!
//! The simulated machine has as much memory as the workload needs and a quarter more. All of it is in zone Normal, on
//! the nodes of the CPUs. So runs on more CPUs have more memory, and lists are as full as on a large machine. The
//! report's figures say how much memory there is.
//!
//! When the last CPU has ended, everything is freed and the allocator is checked, outside of virtual time.
//! [`Outcome::aftermath`] has the free blocks that were left, if they were asked for.

use framewright::mechanisms::{Depot, PRESETS};
use framewright::report::Source;
use framewright::units::{NodeId, ZoneIdx, ZoneKind};
use framewright::watermark::PcpSize;
use framewright::{Config, Counters, FrameCounts, Mechanisms, Region};
use framewright_ops::rng::Rng;
use framewright_ops::{Shape, zones};
use serde::Serialize;

use super::aftermath::Aftermath;
use super::catalog::Workload;
use super::failure::{Cause, Failure};
use super::floor::{End, Eyes, Floor, Progress};
use super::memory_map::{FIRST, MemoryMap};
use super::play::{Ground, Length, Needs, Play};
use super::watch::Watch;
use crate::engine::run::{Options, Schedule, SetupError, Simulation};
use crate::measure::About;
use crate::model::{Model, Ps};
use crate::report::{Figure, LockSpan, Report};
use crate::stage::{Descriptors, arena_for, boot, contexts};
/// Frames of the largest block: nodes begin and end with whole ones.
const BLOCK: u64 = 1 << 10;
/// Least frames of a node: 64 MiB.
const LEAST: u64 = 1 << 14;
/// Per-CPU lists of the published tables' machines: a batch of 63 frames, and six batches.
pub const LARGE_MACHINE: PcpSize = PcpSize { batch: 63, high: 6 * 63 };

/// Counters of the rest of a kernel in each zone, in the order of Linux 4.13. The allocator's own counters lie around
/// them.
const ZONE_COUNTERS: &[&str] = &[
    "nr_zone_inactive_anon",
    "nr_zone_active_anon",
    "nr_zone_inactive_file",
    "nr_zone_active_file",
    "nr_zone_unevictable",
    "nr_zone_write_pending",
    "nr_mlock",
    "nr_page_table_pages",
    "nr_kernel_stack",
    "nr_bounce",
    "nr_zspages",
];

/// A workload on a machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// The workload.
    pub workload: Workload,
    /// The allocator's mechanisms.
    pub mechanisms: Mechanisms,
    /// Number of CPUs that take part: the machine's first ones.
    pub cpus: usize,
    /// Seed of all that is random.
    pub seed: u64,
    /// How the next CPU is chosen.
    pub schedule: Schedule,
    /// Virtual time before the window.
    pub warm_up: Ps,
    /// Length of the window, which should hold some rounds of every CPU.
    ///
    /// 0 for the workload's usual number of rounds, after one that is not measured.
    pub window: Ps,
    /// Warm-up and window in passes of all CPUs instead of times; for workloads whose window is a time.
    pub passes: Option<Passes>,
    /// Whether to read the free blocks at the end. CPUs then free what they hold all at once.
    pub aftermath: bool,
    /// Frames of each node; `None` for what the workload needs.
    pub memory: Option<u64>,
    /// Size of the per-CPU lists; `None` for what the allocator computes from its memory.
    pub lists: Option<PcpSize>,
    /// How large frames' descriptors are.
    pub descriptors: Descriptors,
    /// Whether each acquisition of a lock is kept.
    pub trace: bool,
    /// Mean time between two interrupts of a CPU; `None` for no interrupts.
    ///
    /// Most workloads' interrupts allocate and free a page.
    pub interrupts: Option<Ps>,
}

/// Length of a run in passes.
///
/// In a pass each CPU does on average one turn of its workload.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Passes {
    /// Before the window.
    pub warm_up: f64,
    /// In the window.
    pub window: f64,
}

impl Job {
    /// Makes a job with the workload's usual times.
    ///
    /// Without a depot the lists have the size of the published tables' machines. Descriptors are lines of their own,
    /// as in Linux.
    pub fn new(workload: Workload, mechanisms: Mechanisms, cpus: usize) -> Job {
        let (warm_up, window) = match workload.needs(cpus).length {
            Length::Time { warm_up, window, .. } => (warm_up, window),
            Length::Rounds(_) => (0, 0),
        };
        let interrupts = workload.interrupts();
        let lists = (mechanisms.depot == Depot::Off).then_some(LARGE_MACHINE);
        Job {
            workload,
            mechanisms,
            cpus,
            seed: 1,
            schedule: Schedule::Time,
            warm_up,
            window,
            passes: None,
            aftermath: false,
            memory: None,
            lists,
            descriptors: Descriptors::Line,
            trace: false,
            interrupts,
        }
    }

    fn options(&self) -> Options {
        let Job { cpus, seed, schedule, trace, .. } = *self;
        // Without a length of the job's own, the workload begins and ends the window.
        let is_counted = self.window == 0 || self.passes.is_some();
        let (warm_up, window) = if is_counted { (Ps::MAX, Ps::MAX) } else { (self.warm_up, self.window) };
        Options { cpus, seed, schedule, warm_up, window, trace }
    }

    fn end(&self, needs: &Needs) -> Result<End, Failure> {
        match (self.passes, needs.length) {
            (Some(Passes { warm_up, window }), Length::Time { pass, .. }) if warm_up > 0.0 && window > 0.0 => {
                let all = |passes: f64| (passes * pass as f64 * self.cpus as f64).ceil() as u64;
                Ok(End::Operations(all(warm_up), all(warm_up + window)))
            }
            (Some(_), _) => Err(self.failed(Cause::Unfit("the workload's window is not one of passes".to_owned()))),
            (None, Length::Rounds(rounds)) if self.window == 0 => Ok(End::Rounds(rounds)),
            (None, _) => Ok(End::At(self.warm_up.saturating_add(self.window))),
        }
    }

    fn failed(&self, cause: impl Into<Cause>) -> Failure {
        Failure { workload: self.workload.to_string(), cpus: self.cpus, seed: self.seed, cause: cause.into() }
    }
}

/// The result of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Report of the run.
    pub report: Report,
    /// Each acquisition of a lock, if they were kept.
    pub spans: Vec<LockSpan>,
    /// Where all frames were after everything was freed.
    pub census: FrameCounts,
    /// Counts of the allocator's slow paths, the warm-up included.
    pub counters: Counters,
    /// Free blocks at the end, if they were asked for. `census` is from before the lists were drained.
    pub aftermath: Option<Aftermath>,
}

/// Returns the memory that a list of operations describes, or as much as the CPUs need on each node.
fn memory_map(job: &Job, model: &Model, needs: &Needs) -> MemoryMap {
    let topology = model.topology;
    let cpus: Vec<NodeId> = (0..job.cpus).map(|cpu| NodeId(topology.socket_of(cpu) as u8)).collect();
    if let Workload::Ops(ops) = &job.workload {
        let shape = Shape { cpus, mechanisms: job.mechanisms, ..ops.shape().clone() };
        return MemoryMap { shape, each: None };
    }
    let most = (0..topology.sockets).map(|node| cpus.iter().filter(|cpu| cpu.index() == usize::from(node)).count());
    // All nodes have as much, so that one figure can say how much.
    let most = most.max().unwrap_or(0) as u64;
    let frames = job.memory.unwrap_or(LEAST + most * (needs.frames * 5 / 4 + 4 * BLOCK));
    let frames = frames.max(1).next_multiple_of(BLOCK);
    let region = |node| Region::usable(FIRST + node * frames, FIRST + (node + 1) * frames, node as u8);
    let nodes = 0..u64::from(topology.sockets);
    let regions: Vec<Region> = nodes.clone().map(region).collect();
    let mut shape = Shape { mechanisms: job.mechanisms, ..Shape::new(&regions, &cpus) };
    for node in nodes {
        let zone = ZoneIdx::of(NodeId(node as u8), ZoneKind::Normal);
        job.lists.iter().for_each(|&lists| shape.tuning_mut(zone).pcp = Some(lists));
    }
    MemoryMap { shape, each: Some(frames) }
}

/// Returns the bytes of the workload's own.
fn bytes(map: &MemoryMap, needs: &Needs) -> usize {
    let (bytes, each) = needs.bytes;
    // Some regions, each of which takes a little more than its bytes.
    bytes + each * map.frames() as usize + (1 << 20)
}

/// Runs a job on a machine; `progress` hears now and then how far it is.
///
/// # Errors
/// The job makes no sense on this machine, a CPU got no memory, or the allocator did something wrong.
pub fn run(model: &Model, job: &Job, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Failure> {
    run_and_look(model, job, progress, &mut |_| {})
}

/// Like [`run`]; `look` sees the allocator once, at the end of the window.
///
/// That is the moment at which the last CPU leaves the window, while the others are still at work. Looking takes no
/// virtual time.
///
/// # Errors
/// As [`run`].
pub fn run_and_look(
    model: &Model,
    job: &Job,
    progress: &mut dyn FnMut(Progress),
    look: &mut dyn FnMut(&dyn Source),
) -> Result<Outcome, Failure> {
    run_seen(model, job, Eyes { progress, look, watch: None })
}

/// Like [`run`]; `watch` sees the allocator again and again, from the beginning (`watch.rs`).
///
/// The run equals one without it, but for its end if `watch` has seen enough.
///
/// # Errors
/// As [`run`].
pub fn run_watched(model: &Model, job: &Job, watch: &mut Watch<'_>) -> Result<Outcome, Failure> {
    run_seen(model, job, Eyes { progress: &mut |_| {}, look: &mut |_| {}, watch: Some(watch) })
}

fn run_seen(model: &Model, job: &Job, eyes: Eyes<'_>) -> Result<Outcome, Failure> {
    let has = model.topology.cpus();
    if job.cpus == 0 || job.cpus > has {
        return Err(job.failed(SetupError::Cpus { asked: job.cpus, has, machine: model.name.clone() }));
    }
    let needs = job.workload.needs(job.cpus);
    let map = memory_map(job, model, &needs);
    let (contexts, apart) = contexts(&map.shape.cpus, &job.mechanisms, job.interrupts.is_some());
    let config = Config { zone_counters: ZONE_COUNTERS, cpus: &contexts, ..map.shape.config() };
    let arena = arena_for(&config, bytes(&map, &needs)).map_err(|error| job.failed(Cause::Boot(error)))?;
    let pages = boot(&arena, &config, job.descriptors).map_err(|error| job.failed(Cause::Boot(error)))?;
    let Job { cpus, seed, descriptors, .. } = *job;
    let ground = Ground { arena: &arena, model, map: &map, cpus, seed, descriptors };
    let play = job.workload.set_up(&ground).map_err(|reason| job.failed(Cause::Unfit(reason)))?;
    let free: u64 = zones(pages.nodes()).map(|zone| pages.free_frames(zone)).sum();
    let mut simulation = Simulation::new(model, &arena, &job.options()).map_err(|error| job.failed(error))?;
    simulation.keep_interrupts_apart(apart);
    let regions = &map.shape.regions;
    simulation.set_frames(regions.iter().map(|region| (region.range.end.0, u16::from(region.node.0))).collect());
    let length = (job.warm_up, job.end(&needs)?, job.aftermath);
    let Eyes { progress, look, watch } = eyes;
    let watch: Option<&mut Watch<'_>> = if let Some(watch) = watch { Some(&mut *watch) } else { None };
    let floor =
        Floor::new((pages, model, job.cpus), length, Eyes { progress: &mut *progress, look: &mut *look, watch });
    let trouble = |trouble| job.failed(Cause::of(trouble, map.frames()));
    play.prepare(&floor, &mut Rng::new(job.seed)).map_err(trouble)?;
    let ended = simulate(job, &mut simulation, &floor, &*play);
    floor.trouble().map_or(Ok(()), |first| Err(trouble(first)))?;
    ended.map_err(|deadlock| job.failed(deadlock))?;
    play.check(&floor.rest()).map_err(|wrong| job.failed(Cause::Disorder(wrong)))?;
    floor.free_rest().map_err(trouble)?;
    let census = pages.validate().map_err(|violation| job.failed(violation))?;
    if census.allocated != 0 || !census.is_conserved() {
        return Err(job.failed(Cause::Lost(census.allocated)));
    }
    let memory = map.each.map(|each| Figure::new("memory of each node", each as f64, "frames"));
    let memory = memory.into_iter().chain([Figure::new("free at the start", free as f64, "frames")]);
    let mut report = simulation.report(&about(job));
    report.warm_up_ns = floor.begun() / 1000;
    report.figures = play.figures(&report).into_iter().chain(memory).collect();
    let aftermath = job.aftermath.then(|| Aftermath::of(pages, &map.shape.regions));
    if aftermath.is_some() {
        pages.validate().map_err(|violation| job.failed(violation))?;
    }
    let (spans, counters) = (simulation.lock_spans().to_vec(), pages.counters());
    Ok(Outcome { report, spans, census, counters, aftermath })
}

/// Runs all CPUs, with interrupts if the job has them.
fn simulate(
    job: &Job,
    simulation: &mut Simulation<'_>,
    floor: &Floor<'_>,
    play: &dyn Play,
) -> Result<(), crate::engine::run::Deadlock> {
    let body = |cpu| {
        if let Err(trouble) = play.play(floor, cpu) {
            floor.note(trouble);
        }
    };
    let Some(every) = job.interrupts else { return simulation.run(body) };
    simulation.run_interrupted(body, every, |cpu| {
        if let Err(trouble) = play.interrupt(floor, cpu) {
            floor.note(trouble);
        }
    })
}

fn about(job: &Job) -> About {
    let preset = PRESETS.iter().find(|(_, mechanisms)| *mechanisms == job.mechanisms);
    About {
        workload: job.workload.to_string(),
        mechanisms: preset.map_or_else(|| job.mechanisms.to_string(), |(name, _)| (*name).to_owned()),
        unit: job.workload.unit().to_owned(),
        figures: Vec::new(),
    }
}
