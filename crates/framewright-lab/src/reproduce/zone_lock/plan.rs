//! What is run.

use framewright::Mechanisms;
use framewright::mechanisms::PRESETS;
use framewright_sim::machine::Spec;
use framewright_sim::workload::{
    Job, LARGE_MACHINE, LruLists, Outcome, PageFault1, PageFaultMix, ParallelFree, Passes, ProducerConsumer, Workload,
};
use serde::Serialize;

use super::published::ZoneLockTable;
use crate::reproduce::plan::{self, Figures, Outcomes, Runs, Set, TABLE};
use crate::reproduce::runs::{Change, Run};
use crate::reproduce::variation::{Round, Varying, passes};
use crate::reproduce::why::{FREE_LIST, ZONE, inside, waiting};
use framewright_table::figures::change_percent;

/// Name of the experiment, and of the table that machines' numbers are fitted to.
pub const NAME: &str = "zone-lock";
/// Our own kernel, which nobody published.
pub(crate) const OURS: &str = "default";
/// By how much smaller memory is than the published.
const FRACTION: u64 = 4;
/// Frames in a MiB.
const FRAMES_OF_MIB: u64 = 256;
/// Sets of runs besides the table's: pages on LRU lists, on such that many CPUs change at once, and fewer CPUs.
const LRU: &str = "lru";
const SMP_LRU: &str = "smp-lru";
const CURVES: &str = "curves";
/// Numbers of CPUs at which curves have a point.
pub(crate) const CURVE: [usize; 6] = [1, 8, 28, 56, 84, 112];
/// As `CURVE`, of a first look, with the table's own between them.
pub const FEW: [usize; 2] = [1, 28];

/// A kernel, and the preset that models it.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelPreset {
    /// Name of the row and of the preset.
    pub name: String,
    /// Its mechanisms; none as long as there is no preset of this name.
    pub mechanisms: Option<Mechanisms>,
}

impl KernelPreset {
    /// The kernels of a published table, and ours.
    pub fn all(published: &ZoneLockTable) -> Vec<Self> {
        let names = published.rows.iter().map(|row| row.name.as_str()).chain([OURS]);
        names.map(Self::named).collect()
    }

    /// These kernels, and before ours every other preset. Left out is one that differs from another only in where it
    /// looks when a list is empty, as all that is allocated here is of one mobility, or in what it counts where, or in
    /// what interrupts may do: those are the questions of `numa-stats` and `irq-safe`.
    pub fn presets(published: &ZoneLockTable) -> Vec<Self> {
        let alike = |one: &Mechanisms, other: &Mechanisms| {
            let like_other = Mechanisms {
                fallback: other.fallback,
                hygiene: other.hygiene,
                nofragment: other.nofragment,
                compaction: other.compaction,
                watermark_boost: other.watermark_boost,
                proactiveness: other.proactiveness,
                stall_order: other.stall_order,
                zone_stat: other.zone_stat,
                numa_stat: other.numa_stat,
                numa_place: other.numa_place,
                numa_read: other.numa_read,
                numa_threshold: other.numa_threshold,
                pcp_protection: other.pcp_protection,
                ..*one
            };
            like_other == *other
        };
        let mut all = Self::all(published);
        let ours = all.pop();
        for (name, mechanisms) in PRESETS.iter().filter(|(name, _)| *name != OURS) {
            let is_new = |kernel: &Self| kernel.mechanisms.is_none_or(|other| !alike(mechanisms, &other));
            if all.iter().all(is_new) {
                all.push(Self::named(name));
            }
        }
        all.extend(ours);
        all
    }

    /// Its mechanisms, as a list of switches.
    pub fn switches(&self) -> String {
        self.mechanisms.map_or(String::new(), |mechanisms| mechanisms.to_string())
    }

    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), mechanisms: Mechanisms::preset(name) }
    }
}

/// How much memory there is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct MemoryScale {
    /// How many times as large the published memory is.
    pub fraction: u64,
    /// Pages of a process.
    pub process_pages: u32,
    /// Frames of each node, all free when no process runs.
    pub node_frames: u64,
    /// Frames that per-CPU lists of the published kernels fetch and give back at a time.
    pub pcp_batch: u32,
    /// Frames above which they give back.
    pub pcp_high: u32,
}

impl MemoryScale {
    /// The usual fraction of a published table's.
    pub fn of(published: &ZoneLockTable) -> Self {
        Self {
            fraction: FRACTION,
            process_pages: (published.process_mib * FRAMES_OF_MIB / FRACTION) as u32,
            node_frames: published.free_gib_per_node * 1024 * FRAMES_OF_MIB / FRACTION,
            pcp_batch: LARGE_MACHINE.batch,
            pcp_high: LARGE_MACHINE.high,
        }
    }
}

/// How long runs are, in passes of all processes.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct ZoneLockLengths {
    /// Runs of the table.
    pub table: Passes,
    /// Page faults of both sizes: which half has how much of the memory's bandwidth swings for some passes.
    pub mix: Passes,
    /// Pages that each CPU frees at once, where all of them do.
    pub freed_at_once: u32,
    /// Runs with one of the machine's numbers changed; none for no such runs.
    pub varied: Option<Varying>,
}

/// Passes of page faults of both sizes over which both halves' shares come within half a percent of what they are in
/// the long run, by two seeds.
pub(super) const STEADY: f64 = 10.0;

impl ZoneLockLengths {
    /// Lengths of a run whose result may be quoted.
    pub const FULL: Self = Self {
        table: passes(2.0, 1.0),
        mix: passes(3.0, STEADY),
        freed_at_once: 4096,
        varied: Some(Varying { screen: passes(0.1, 0.1), band: passes(0.5, 0.25) }),
    };
    /// A first look: no variations.
    pub const QUICK: Self = Self { table: passes(0.4, 0.2), mix: passes(1.0, 1.0), freed_at_once: 512, varied: None };
}

/// Plan of the experiment's runs.
#[derive(Clone, Debug)]
pub struct ZoneLockPlan<'a> {
    /// The machine.
    pub machine: &'a Spec,
    /// The table.
    pub published: &'a ZoneLockTable,
    /// Kernels, the one that others are compared with first.
    pub kernels: Vec<KernelPreset>,
    /// Of them, by name, those that are also run with pages on LRU lists.
    pub with_lru: Vec<String>,
    /// Presets that are compared under other workloads; none for no such runs.
    pub presets: Vec<KernelPreset>,
    /// CPUs, each with a process.
    pub cpus: usize,
    /// Numbers of CPUs for curves; none for no curves.
    pub curve: Vec<usize>,
    /// Seed of all that is random.
    pub seed: u64,
    /// How much memory there is.
    pub scale: MemoryScale,
    /// How long runs are.
    pub lengths: ZoneLockLengths,
}

/// A workload besides the table's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Other {
    /// Small and huge pages.
    Mix,
    /// Producers and consumers that are neighbours.
    Pipe,
    /// Producers and consumers on different sockets.
    FarPipe,
    /// All at once.
    ParallelFree,
}

impl Other {
    /// Each of them.
    pub const ALL: [Other; 4] = [Other::Mix, Other::Pipe, Other::FarPipe, Other::ParallelFree];

    /// The workload as the simulator has it.
    pub fn workload(self, lengths: &ZoneLockLengths) -> Workload {
        let pipe = |far| Workload::ProducerConsumer(ProducerConsumer { far, ..ProducerConsumer::default() });
        match self {
            Other::Mix => Workload::PageFaultMix(PageFaultMix::default()),
            Other::Pipe => pipe(false),
            Other::FarPipe => pipe(true),
            Other::ParallelFree => {
                Workload::ParallelFree(ParallelFree { pages: lengths.freed_at_once, ..ParallelFree::default() })
            }
        }
    }

    /// Returns a short description.
    pub fn title(self) -> &'static str {
        match self {
            Other::Mix => "small and huge pages",
            Other::Pipe => "producer/consumer, neighbours",
            Other::FarPipe => "producer/consumer, other socket",
            Other::ParallelFree => "parallel free of all pages",
        }
    }
}

/// Load of a run's CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Load {
    /// Page faults.
    Faults,
    /// Page faults whose pages are on LRU lists.
    FaultsOnLru(LruLists),
    /// Another workload.
    Other(Other),
}

/// About what a workload takes that is counted in rounds.
const ROUNDS: Passes = passes(0.2, 0.3);

/// Figures of a kernel, by which its bands are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BandedFigure {
    /// The change against the first kernel.
    Change,
    /// Percent of CPU time spent waiting for the zone lock.
    ZoneLock,
    /// Percent of CPU time spent in concurrent list operations.
    ListAdd,
}

impl BandedFigure {
    /// A kernel's figure among those of all.
    pub fn of(self, kernel: &str) -> String {
        format!("{kernel}: {self:?}")
    }
}

impl ZoneLockPlan<'_> {
    /// A kernel's run, by which it is known.
    fn name(kernel: &str, cpus: usize, load: Load) -> String {
        let load = match load {
            Load::Faults => String::new(),
            Load::FaultsOnLru(LruLists::Smp) => ", pages on LRU lists, smp".to_owned(),
            Load::FaultsOnLru(_) => ", pages on LRU lists".to_owned(),
            Load::Other(other) => format!(", {}", other.title()),
        };
        format!("{kernel} on {cpus} CPUs{load}")
    }

    /// Returns the outcome of a kernel's run on all CPUs, if it was run.
    pub fn outcome<'r>(&self, runs: &'r Runs, kernel: &str, load: Load) -> Option<&'r Outcome> {
        let set = match load {
            Load::Faults => TABLE,
            Load::FaultsOnLru(LruLists::Smp) => SMP_LRU,
            Load::FaultsOnLru(_) => LRU,
            Load::Other(other) => other.title(),
        };
        runs.outcome(set, &Self::name(kernel, self.cpus, load))
    }

    /// A kernel's operations per second by number of CPUs.
    pub fn curve(&self, runs: &Runs, kernel: &str) -> Vec<(usize, f64)> {
        let of = |set, cpus| Some((cpus, runs.report(set, &Self::name(kernel, cpus, Load::Faults))?.per_second));
        let fewer = self.curve.iter().filter(|&&cpus| cpus != self.cpus).filter_map(|&cpus| of(CURVES, cpus));
        let mut points: Vec<(usize, f64)> = fewer.chain(of(TABLE, self.cpus)).collect();
        points.sort_by_key(|&(cpus, _)| cpus);
        points
    }

    /// The run of a kernel, with the machine as it is; none if there is no preset of its name.
    fn run_of<'p>(&self, kernel: &KernelPreset, cpus: usize, load: Load) -> Option<Run<'p>> {
        let passes = match load {
            Load::Other(Other::Mix) => Some(self.lengths.mix),
            Load::Other(_) => None,
            Load::Faults | Load::FaultsOnLru(_) => Some(self.lengths.table),
        };
        let lru = if let Load::FaultsOnLru(lists) = load { lists } else { LruLists::Off };
        let workload = match load {
            Load::Other(other) => other.workload(&self.lengths),
            _ => Workload::PageFault1(PageFault1 { pages: self.scale.process_pages, lru, ..PageFault1::default() }),
        };
        let mut job = Job::new(workload, kernel.mechanisms?, cpus);
        (job.seed, job.passes) = (self.seed, passes);
        // Other workloads have as much as they need.
        job.memory = (!matches!(load, Load::Other(_))).then_some(self.scale.node_frames);
        let weight = weight(passes.unwrap_or(ROUNDS), cpus);
        Some(Run { name: Self::name(&kernel.name, cpus, load), job, change: None, weight })
    }
}

fn weight(Passes { warm_up, window }: Passes, cpus: usize) -> u64 {
    ((warm_up + window) * cpus as f64 * 1000.0) as u64
}

impl plan::Plan for ZoneLockPlan<'_> {
    const CHOSEN: usize = 8;

    fn machine(&self) -> &Spec {
        self.machine
    }

    fn sets(&self) -> anyhow::Result<Vec<Set<'_>>> {
        let of = |name, runs| Set { name, machine: self.machine, runs };
        let table = self.kernels.iter().filter_map(|kernel| self.run_of(kernel, self.cpus, Load::Faults));
        let table = table.map(|mut run| {
            run.job.aftermath = true;
            run
        });
        let on_lru = |lists| {
            let kernels = self.kernels.iter().filter(|kernel| self.with_lru.contains(&kernel.name));
            kernels.filter_map(|kernel| self.run_of(kernel, self.cpus, Load::FaultsOnLru(lists))).collect()
        };
        let fewer = || self.curve.iter().filter(|&&cpus| cpus != self.cpus);
        let curve = |kernel| fewer().filter_map(move |&cpus| self.run_of(kernel, cpus, Load::Faults));
        let presets =
            |other| self.presets.iter().filter_map(move |kernel| self.run_of(kernel, self.cpus, Load::Other(other)));
        let mut sets = vec![
            of(TABLE, table.collect()),
            of(LRU, on_lru(LruLists::Lock)),
            of(SMP_LRU, on_lru(LruLists::Smp)),
            of(CURVES, self.kernels.iter().flat_map(curve).collect()),
        ];
        sets.extend(Other::ALL.into_iter().map(|other| of(other.title(), presets(other).collect())));
        Ok(sets)
    }

    fn varied<'p>(&self, change: Change<'p>, round: Round) -> anyhow::Result<Vec<Run<'p>>> {
        let Some(varying) = self.lengths.varied else { return Ok(Vec::new()) };
        let passes = varying.of(round);
        let all = self.kernels.iter().filter_map(|kernel| self.run_of(kernel, self.cpus, Load::Faults));
        let all = all.map(|mut run| {
            run.job.passes = Some(passes);
            Run { change, weight: weight(passes, self.cpus), ..run }
        });
        Ok(all.collect())
    }

    fn figures(&self, table: &Outcomes) -> Figures {
        let report = |kernel: &KernelPreset| {
            let name = Self::name(&kernel.name, self.cpus, Load::Faults);
            table.iter().find(|(known, _)| *known == name).map(|(_, outcome)| &outcome.report)
        };
        let first = self.kernels.first().and_then(report).map(|report| report.per_second);
        let mut figures = Figures::new();
        for (kernel, report) in self.kernels.iter().filter_map(|kernel| Some((&kernel.name, report(kernel)?))) {
            figures
                .extend(first.map(|first| (BandedFigure::Change.of(kernel), change_percent(first, report.per_second))));
            figures.insert(BandedFigure::ZoneLock.of(kernel), waiting(report, ZONE));
            figures.insert(BandedFigure::ListAdd.of(kernel), inside(report, FREE_LIST));
        }
        figures
    }
}
