//! One run of a workload, from the memory map to the report.
//!
//! The simulated machine has as much memory as the workload needs and a quarter more, all of it in zone Normal, on
//! the node of each CPU: runs on more CPUs have more memory, and lists are as full as they would be on a large
//! machine. What is said of memory stands in the report's figures.
//!
//! When the last CPU has ended, everything was freed. The allocator is then checked, outside of virtual time.

use framewright::mechanisms::{Depot, PRESETS};
use framewright::pfn::{NodeId, ZoneIdx, ZoneKind};
use framewright::request::GFP_ATOMIC;
use framewright::watermark::PcpSize;
use framewright::{Allocator, Census, Config, Counters, Mechanisms, Order, Region, Request, Tuning};

use super::failure::{Cause, Failure};
use super::floor::{Floor, Progress};
use super::{Ground, Needs, Play, Workload};
use crate::arena::Arena;
use crate::measure::About;
use crate::model::{Model, Ps};
use crate::report::{Figure, LockSpan, Report};
use crate::run::{Options, Schedule, SetupError, Simulation};
use crate::sim::Sim;
use crate::stage::{Descriptors, arena_for, boot};

/// First frame of the machine: 4 GiB, from where on memory is zone Normal.
const FIRST: u64 = 0x10_0000;
/// Frames of the largest block: nodes begin and end with whole ones.
const BLOCK: u64 = 1 << 10;
/// Frames that a node has at least: 64 MiB.
const LEAST: u64 = 1 << 14;
/// Per-CPU lists of the machines that the published tables are from: a batch of 63 frames, and six of them.
pub const LARGE_MACHINE: PcpSize = PcpSize { batch: 63, high: 6 * 63 };

/// What to run.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// What CPUs do.
    pub workload: Workload,
    /// The allocator's mechanisms.
    pub mechanisms: Mechanisms,
    /// CPUs that take part: the first so many of the machine.
    pub cpus: usize,
    /// Seed of all that is random.
    pub seed: u64,
    /// How the next CPU is chosen.
    pub schedule: Schedule,
    /// Virtual time before the window.
    pub warm_up: Ps,
    /// Length of the window.
    pub window: Ps,
    /// Frames of each node; none for what the workload needs.
    pub memory: Option<u64>,
    /// Size of the per-CPU lists; none for what the allocator computes from its memory.
    pub lists: Option<PcpSize>,
    /// How large frames' descriptors are.
    pub descriptors: Descriptors,
    /// Whether takings of locks are kept one by one.
    pub trace: bool,
    /// Mean time between two interrupts of a CPU, each of which allocates and frees a page; none for no interrupts.
    pub interrupts: Option<Ps>,
}

impl Job {
    /// A run with the times that are usual for the workload. The lists of the published tables' machines, where there
    /// is no depot behind them; descriptors that are lines of their own, as in Linux.
    pub fn new(workload: Workload, mechanisms: Mechanisms, cpus: usize) -> Job {
        let (warm_up, window) = workload.needs(cpus).times;
        let lists = (mechanisms.depot == Depot::Off).then_some(LARGE_MACHINE);
        Job {
            workload,
            mechanisms,
            cpus,
            seed: 1,
            schedule: Schedule::Time,
            warm_up,
            window,
            memory: None,
            lists,
            descriptors: Descriptors::Line,
            trace: false,
            interrupts: None,
        }
    }

    fn options(&self) -> Options {
        let Job { cpus, seed, schedule, warm_up, window, trace, .. } = *self;
        Options { cpus, seed, schedule, warm_up, window, trace }
    }

    fn failed(&self, cause: impl Into<Cause>) -> Failure {
        Failure { workload: self.workload.to_string(), cpus: self.cpus, seed: self.seed, cause: cause.into() }
    }
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What was measured.
    pub report: Report,
    /// Takings of locks one by one, if they were to be kept.
    pub spans: Vec<LockSpan>,
    /// Where all frames were when everything had been freed.
    pub census: Census,
    /// What the allocator's slow paths counted, the warm-up included.
    pub counters: Counters,
}

/// The memory and CPUs that an allocator is set up over.
pub(crate) struct Map {
    pub(crate) regions: Vec<Region>,
    pub(crate) cpus: Vec<NodeId>,
    tuning: Vec<Tuning>,
}

impl Map {
    /// As much memory on each node as its CPUs need.
    fn of(job: &Job, model: &Model, needs: &Needs) -> Map {
        let topology = model.topology;
        let cpus: Vec<NodeId> = (0..job.cpus).map(|cpu| NodeId(topology.socket_of(cpu) as u8)).collect();
        let most = (0..topology.sockets).map(|node| cpus.iter().filter(|cpu| cpu.index() == usize::from(node)).count());
        // All nodes alike, so that a figure can say how much.
        let most = most.max().unwrap_or(0) as u64;
        let frames = job.memory.unwrap_or(LEAST + most * (needs.frames * 5 / 4 + 4 * BLOCK));
        let frames = frames.max(1).next_multiple_of(BLOCK);
        let region = |node| Region::usable(FIRST + node * frames, FIRST + (node + 1) * frames, node as u8);
        let zone = |node| ZoneIdx::of(NodeId(node as u8), ZoneKind::Normal);
        let tuned = |lists| move |node| Tuning { zone: zone(node), marks: None, reserve: None, pcp: Some(lists) };
        let nodes = 0..u64::from(topology.sockets);
        let tuning = job.lists.map_or_else(Vec::new, |lists| nodes.clone().map(tuned(lists)).collect());
        Map { regions: nodes.map(region).collect(), cpus, tuning }
    }

    pub(crate) fn config(&self, mechanisms: Mechanisms) -> Config<'_> {
        Config { mechanisms, tuning: &self.tuning, ..Config::new(&self.regions, &self.cpus) }
    }

    fn frames_per_node(&self) -> u64 {
        self.regions.first().map_or(0, |region| region.range.frames())
    }

    /// Bytes of the workload's own.
    fn bytes(&self, needs: &Needs) -> usize {
        let (bytes, each) = needs.bytes;
        // Some regions, each of which takes a little more than its bytes.
        bytes + each * self.frames_per_node() as usize * self.regions.len() + (1 << 20)
    }

    /// Puts frames' descriptors where the frames are.
    fn set_homes(&self, arena: &Arena) {
        let first = self.regions.first().map_or(0, |region| region.range.start.0);
        let node = |frame: usize| {
            let at = self.regions.partition_point(|region| region.range.end.0 <= first + frame as u64);
            self.regions.get(at).map_or(0, |region| region.node.index())
        };
        ["frame states", "frame links", "frame heads"].iter().for_each(|name| arena.set_homes(name, node));
    }
}

/// Runs a job on a machine. `progress` is told now and then how far it is.
///
/// # Errors
/// The job makes no sense on this machine, a CPU got no memory, or the allocator did something wrong.
pub fn run(model: &Model, job: &Job, progress: &mut dyn FnMut(Progress)) -> Result<Outcome, Failure> {
    let has = model.topology.cpus();
    if job.cpus == 0 || job.cpus > has {
        return Err(job.failed(SetupError::Cpus { asked: job.cpus, has, machine: model.name.clone() }));
    }
    let needs = job.workload.needs(job.cpus);
    let map = Map::of(job, model, &needs);
    let config = map.config(job.mechanisms);
    let arena = arena_for(&config, map.bytes(&needs)).map_err(|error| job.failed(Cause::Boot(error)))?;
    let pages = boot(&arena, &config, job.descriptors).map_err(|error| job.failed(Cause::Boot(error)))?;
    map.set_homes(&arena);
    let ground = Ground { arena: &arena, map: &map, descriptors: job.descriptors };
    let play = job.workload.set_up(&ground).map_err(|reason| job.failed(Cause::Unfit(reason)))?;
    let free: u64 = (0..pages.nodes()).map(|node| free_frames(pages, node)).sum();
    let mut simulation = Simulation::new(model, &arena, &job.options()).map_err(|error| job.failed(error))?;
    simulation.set_frames(map.regions.iter().map(|region| (region.range.end.0, u16::from(region.node.0))).collect());
    name_fields(pages, &mut simulation);
    play.name(&mut simulation);
    let floor = Floor::new((pages, model, job.cpus), job.warm_up + job.window, progress);
    let ended = simulate(job, &mut simulation, &floor, &*play);
    if let Some(trouble) = floor.trouble() {
        return Err(job.failed(Cause::of(trouble, map.frames_per_node())));
    }
    ended.map_err(|deadlock| job.failed(deadlock))?;
    let census = pages.validate().map_err(|violation| job.failed(violation))?;
    if census.allocated != 0 || !census.is_conserved() {
        return Err(job.failed(Cause::Lost(census.allocated)));
    }
    let memory = [
        Figure { name: "memory of each node".into(), value: map.frames_per_node() as f64, unit: "frame".into() },
        Figure { name: "free at the start".into(), value: free as f64, unit: "frame".into() },
    ];
    let mut report = simulation.report(&about(job));
    report.figures = play.figures(&report).into_iter().chain(memory).collect();
    Ok(Outcome { report, spans: simulation.lock_spans().to_vec(), census, counters: pages.counters() })
}

/// Gives each word of the allocator's records its name.
fn name_fields(pages: &Allocator<'_, Sim>, simulation: &mut Simulation<'_>) {
    pages.fields(&mut |field| {
        if field.count == 1 {
            simulation.name_field(field.address, field.size, &field.record.to_string(), &field.name.to_string());
        }
    });
}

/// All CPUs play; interrupts come if they are wanted.
fn simulate(
    job: &Job,
    simulation: &mut Simulation<'_>,
    floor: &Floor<'_>,
    play: &dyn Play,
) -> Result<(), crate::run::Deadlock> {
    let body = |cpu| {
        if let Err(trouble) = play.play(floor, cpu) {
            floor.note(trouble);
        }
    };
    let Some(every) = job.interrupts else { return simulation.run(body) };
    simulation.run_interrupted(body, every, |_| {
        // It must not wait, so it may fail; a driver would drop the packet.
        if let Ok(pfn) = floor.pages.alloc(&Request::page(GFP_ATOMIC))
            && let Err(trouble) = floor.free(pfn, Order(0))
        {
            floor.note(trouble);
        }
    })
}

fn free_frames(pages: &Allocator<'_, Sim>, node: usize) -> u64 {
    ZoneKind::ALL.into_iter().map(|kind| pages.free_frames(ZoneIdx::of(NodeId(node as u8), kind))).sum()
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
