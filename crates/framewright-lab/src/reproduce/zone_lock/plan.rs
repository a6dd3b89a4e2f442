//! What is run, and what comes of it.

use framewright::Mechanisms;
use framewright::mechanisms::PRESETS;
use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use framewright_sim::workload::{Job, LARGE_MACHINE, LruLists, Outcome, PageFault1, Passes, Workload};
use serde::Serialize;

use super::others::Other;
use super::published::Published;
use crate::reproduce::runs::{self, Change, Progress, Run};
use crate::reproduce::variation::{self, Round, Varying, vary};
use crate::reproduce::why::{FREE_LIST, ZONE, inside, waiting};
use crate::sim::figures::change_percent;

/// Our own kernel, which nobody published.
pub const OURS: &str = "default";
/// By how much smaller memory is than the published.
const FRACTION: u64 = 4;
/// Frames in a MiB.
const FRAMES_OF_MIB: u64 = 256;
/// How many of the machine's numbers are varied both ways.
const CHOSEN: usize = 8;
/// Numbers of CPUs at which curves have a point.
pub const CURVE: [usize; 6] = [1, 8, 28, 56, 84, 112];
/// The same of a first look, with the table's own between them.
pub const FEW: [usize; 2] = [1, 28];

/// A kernel, and the preset that models it.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Name of the row and of the preset.
    pub name: String,
    /// Its mechanisms; none as long as there is no preset of this name.
    pub mechanisms: Option<Mechanisms>,
}

impl Kernel {
    /// The kernels of a published table, and ours.
    pub fn all(published: &Published) -> Vec<Self> {
        let names = published.rows.iter().map(|row| row.name.as_str()).chain([OURS]);
        names.map(Self::named).collect()
    }

    /// These kernels, and before ours every other preset. Left out is one that differs from another only in where it looks when a list
    /// is empty, as all that is allocated here is of one mobility, or in what it counts where, or in what interrupts may do: those are the
    /// questions of `numa-stats` and `irq-safe`.
    pub fn presets(published: &Published) -> Vec<Self> {
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

    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), mechanisms: Mechanisms::preset(name) }
    }
}

/// How much memory there is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
pub struct Scale {
    /// The published memory is so many times as large.
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

impl Scale {
    /// The usual fraction of a published table's.
    pub fn of(published: &Published) -> Self {
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
pub struct Lengths {
    /// Runs of the table.
    pub table: Passes,
    /// Page faults of both sizes: which half has how much of the memory's bandwidth swings for some passes.
    pub mix: Passes,
    /// Pages that each CPU frees at once, where all of them do.
    pub freed_at_once: u32,
    /// Runs with one of the machine's numbers changed; none for no such runs.
    pub varied: Option<Varying>,
}

/// Passes of page faults of both sizes over which both halves' shares come within half a percent of what they are in the long
/// run, by two seeds.
pub(super) const STEADY: f64 = 10.0;

const fn passes(warm_up: f64, window: f64) -> Passes {
    Passes { warm_up, window }
}

impl Lengths {
    /// What a result that is to be quoted takes.
    pub const FULL: Self = Self {
        table: passes(2.0, 1.0),
        mix: passes(3.0, STEADY),
        freed_at_once: 4096,
        varied: Some(Varying { screen: passes(0.1, 0.1), band: passes(0.5, 0.25) }),
    };
    /// A first look: no variations.
    pub const QUICK: Self = Self { table: passes(0.4, 0.2), mix: passes(1.0, 1.0), freed_at_once: 512, varied: None };
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The machine.
    pub machine: &'a Spec,
    /// Kernels, the one that others are compared with first.
    pub kernels: Vec<Kernel>,
    /// Of them, by name, those that are also run with pages on LRU lists.
    pub with_lru: Vec<String>,
    /// Presets that are compared under other workloads; none for no such runs.
    pub presets: Vec<Kernel>,
    /// CPUs, each with a process.
    pub cpus: usize,
    /// Numbers of CPUs for curves; none for no curves.
    pub curve: Vec<usize>,
    /// Seed of all that is random.
    pub seed: u64,
    /// How much memory there is.
    pub scale: Scale,
    /// How long runs are.
    pub lengths: Lengths,
}

/// What came of it, by kernel in the order of the plan; none where there is no preset.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The table's runs.
    pub table: Vec<Option<Outcome>>,
    /// The runs with pages on LRU lists, of the kernels that the plan names.
    pub with_lru: Vec<Option<Report>>,
    /// The same, with lists that many CPUs change at once.
    pub with_smp_lru: Vec<Option<Report>>,
    /// The other workloads in their order, each with a run of each preset.
    pub others: Vec<Vec<Option<Report>>>,
    /// Operations per second by number of CPUs.
    pub curves: Vec<Vec<(usize, f64)>>,
    /// The variations, if there were any.
    pub variations: Option<Variations>,
}

/// Runs with one number of the machine changed, by kernel.
pub type Variations = variation::Variations<Vec<Option<Sample>>>;

/// What a run shows of a row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Operations per second.
    pub per_second: f64,
    /// Percent of CPU time spent waiting for the zone lock.
    pub zone_lock: f64,
    /// Percent of CPU time spent in concurrent list operations.
    pub list_add: f64,
}

impl Sample {
    /// Of a run.
    pub fn of(report: &Report) -> Self {
        Self { per_second: report.per_second, zone_lock: waiting(report, ZONE), list_add: inside(report, FREE_LIST) }
    }
}

/// What the CPUs of a run do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Faults,
    FaultsOnLru(LruLists),
    Other(Other),
}

/// One run.
struct Work<'p> {
    /// Its kernel: which of the plan's, or of its presets.
    kernel: usize,
    name: &'p str,
    mechanisms: Mechanisms,
    load: Load,
    cpus: usize,
    /// None where the workload says how long it is.
    passes: Option<Passes>,
    aftermath: bool,
}

impl Work<'_> {
    /// How long it takes, beside others.
    fn weight(&self) -> u64 {
        let Passes { warm_up, window } = self.passes.unwrap_or(ROUNDS);
        ((warm_up + window) * self.cpus as f64 * 1000.0) as u64
    }
}

/// About what a workload takes that is counted in rounds.
const ROUNDS: Passes = passes(0.2, 0.3);

impl Plan<'_> {
    /// Runs all of it on as many threads as there are CPUs.
    ///
    /// # Errors
    /// The first run that failed, and which it was.
    pub fn run(&self, progress: Progress<'_>) -> anyhow::Result<Runs> {
        let (lists, total) = (self.base_work(), self.weight()?);
        let [table, lru, smp_lru, curves, others] = &lists;
        let all: Vec<Run<'_>> = lists.iter().flatten().map(|work| self.run_of(work, None)).collect();
        let done = runs::weight(&all);
        let mut outcomes = runs::all(self.machine, &all, &mut |now| progress(now, total))?.into_iter();
        let mut take = |of: &[Work<'_>]| outcomes.by_ref().take(of.len()).collect::<Vec<Outcome>>();
        let (at_table, at_lru, at_smp_lru) = (take(table), take(lru), take(smp_lru));
        let (at_curves, at_others) = (take(curves), take(others));
        let reports = |outcomes: Vec<Outcome>| outcomes.into_iter().map(|outcome| outcome.report).collect();
        let variations = match self.lengths.varied {
            Some(varying) => Some(self.vary(varying, &mut |now| progress(done + now, total))?),
            None => None,
        };
        Ok(Runs {
            table: self.by_kernel(table, at_table),
            with_lru: self.by_kernel(lru, reports(at_lru)),
            with_smp_lru: self.by_kernel(smp_lru, reports(at_smp_lru)),
            curves: self.curves(curves, &at_curves),
            others: self.others(others, &at_others),
            variations,
        })
    }

    /// The runs of the table, those with pages on LRU lists of either kind, those of the curves, and those of other workloads.
    fn base_work(&self) -> [Vec<Work<'_>>; 5] {
        let faults = |load| built(&self.kernels).map(move |kernel| self.work(kernel, load));
        let curve = |kernel| self.curve.iter().map(move |&cpus| Work { cpus, ..self.work(kernel, Load::Faults) });
        let on_lru = |lists| -> Vec<Work<'_>> {
            faults(Load::FaultsOnLru(lists)).filter(|work| self.with_lru.iter().any(|name| name == work.name)).collect()
        };
        let others = |&other| built(&self.presets).map(move |kernel| self.work(kernel, Load::Other(other)));
        [
            faults(Load::Faults).map(|work| Work { aftermath: true, ..work }).collect(),
            on_lru(LruLists::Lock),
            on_lru(LruLists::Smp),
            built(&self.kernels).flat_map(curve).filter(|work| work.cpus != self.cpus).collect(),
            Other::ALL.iter().flat_map(others).collect(),
        ]
    }

    /// A kernel's run of the usual length, with the machine as it is.
    fn work<'p>(&self, (kernel, name, mechanisms): (usize, &'p str, Mechanisms), load: Load) -> Work<'p> {
        let passes = match load {
            Load::Other(Other::Mix) => Some(self.lengths.mix),
            Load::Other(_) => None,
            Load::Faults | Load::FaultsOnLru(_) => Some(self.lengths.table),
        };
        Work { kernel, name, mechanisms, load, cpus: self.cpus, passes, aftermath: false }
    }

    /// Of all that is run.
    fn weight(&self) -> anyhow::Result<u64> {
        let base: u64 = self.base_work().iter().flatten().map(Work::weight).sum();
        let Some(varying) = self.lengths.varied else { return Ok(base) };
        let varied = variation::weight(self.machine, CHOSEN, |change, round| Ok(self.varied(varying, change, round)))?;
        Ok(base + varied)
    }

    /// See the module `variation`.
    fn vary(&self, varying: Varying, progress: &mut dyn FnMut(u64)) -> anyhow::Result<Variations> {
        let shown = |outcomes: &[Outcome]| {
            let mut samples = outcomes.iter().map(|outcome| Sample::of(&outcome.report));
            self.kernels.iter().map(|kernel| kernel.mechanisms.and_then(|_| samples.next())).collect()
        };
        let points = |base: &Vec<_>, sample: &Vec<_>| points(base, sample);
        vary(self.machine, CHOSEN, |change, round| Ok(self.varied(varying, change, round)), shown, points, progress)
    }

    fn varied<'p>(&self, varying: Varying, change: Change<'p>, round: Round) -> Vec<Run<'p>> {
        let passes = Some(varying.of(round));
        let work = built(&self.kernels).map(|kernel| Work { passes, ..self.work(kernel, Load::Faults) });
        work.map(|work| self.run_of(&work, change)).collect()
    }

    fn run_of<'p>(&self, work: &Work<'_>, change: Change<'p>) -> Run<'p> {
        let lru = if let Load::FaultsOnLru(lists) = work.load { lists } else { LruLists::Off };
        let faults = PageFault1 { pages: self.scale.process_pages, lru, ..PageFault1::default() };
        let workload = match work.load {
            Load::Faults | Load::FaultsOnLru(_) => Workload::PageFault1(faults),
            Load::Other(other) => other.workload(&self.lengths),
        };
        let mut job = Job::new(workload, work.mechanisms, work.cpus);
        job.seed = self.seed;
        job.passes = work.passes;
        // Other workloads have as much as they need.
        job.memory = (!matches!(work.load, Load::Other(_))).then_some(self.scale.node_frames);
        job.aftermath = work.aftermath;
        Run { name: Self::described(work), job, change, weight: work.weight() }
    }

    /// A run in words, to know it by.
    fn described(work: &Work<'_>) -> String {
        let load = match work.load {
            Load::Faults => String::new(),
            Load::FaultsOnLru(LruLists::Smp) => ", pages on LRU lists, smp".to_owned(),
            Load::FaultsOnLru(_) => ", pages on LRU lists".to_owned(),
            Load::Other(other) => format!(", {}", other.title()),
        };
        format!("{} on {} CPUs{load}", work.name, work.cpus)
    }

    /// What was found of each kernel, at its place in the plan.
    fn by_kernel<T>(&self, work: &[Work<'_>], found: Vec<T>) -> Vec<Option<T>> {
        let mut all: Vec<Option<T>> = self.kernels.iter().map(|_| None).collect();
        work.iter().zip(found).for_each(|(work, found)| all[work.kernel] = Some(found));
        all
    }

    /// What the other workloads came to, each by preset.
    fn others(&self, work: &[Work<'_>], outcomes: &[Outcome]) -> Vec<Vec<Option<Report>>> {
        let of = |other| {
            let mut all = vec![None; self.presets.len()];
            let runs = work.iter().zip(outcomes).filter(|(work, _)| work.load == Load::Other(other));
            runs.for_each(|(work, outcome)| all[work.kernel] = Some(outcome.report.clone()));
            all
        };
        Other::ALL.into_iter().map(of).collect()
    }

    fn curves(&self, work: &[Work<'_>], outcomes: &[Outcome]) -> Vec<Vec<(usize, f64)>> {
        let of = |kernel: usize| {
            let runs = work.iter().zip(outcomes).filter(|(work, _)| work.kernel == kernel);
            runs.map(|(work, outcome)| (work.cpus, outcome.report.per_second)).collect()
        };
        (0..self.kernels.len()).map(of).collect()
    }
}

/// Kernels that there is a preset for: which, their names and their mechanisms.
fn built(kernels: &[Kernel]) -> impl Iterator<Item = (usize, &str, Mechanisms)> {
    kernels.iter().enumerate().filter_map(|(i, kernel)| Some((i, kernel.name.as_str(), kernel.mechanisms?)))
}

/// The most points by which anything of any kernel moved.
fn points(base: &[Option<Sample>], samples: &[Option<Sample>]) -> f64 {
    let (first, first_now) = (base.first().copied().flatten(), samples.first().copied().flatten());
    let of = |(was, is): (&Option<Sample>, &Option<Sample>)| {
        let (was, is) = was.as_ref().zip(is.as_ref())?;
        let changes = first.zip(first_now).map_or(0.0, |(first, now)| {
            change_percent(now.per_second, is.per_second) - change_percent(first.per_second, was.per_second)
        });
        let all = [changes, is.zone_lock - was.zone_lock, is.list_add - was.list_add];
        Some(all.into_iter().map(f64::abs).fold(0.0, f64::max))
    };
    base.iter().zip(samples).filter_map(of).fold(0.0, f64::max)
}
