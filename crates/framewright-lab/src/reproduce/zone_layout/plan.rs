//! What is run, and what comes of it.

use framewright::Mechanisms;
use framewright::mechanisms::{LockPlace, ZoneLock};
use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use framewright_sim::workload::{Aim7, Job, Outcome, Passes, Workload};
use serde::Serialize;

use crate::reproduce::runs::{self, Change, LISTS, Progress, Run};
use crate::reproduce::variation::{self, Round, Varying, vary};
use crate::sim::figures::change_percent;

/// Numbers of CPUs at which curves have a point; the last is the table's.
pub const CURVE: [usize; 8] = [1, 2, 4, 8, 15, 30, 60, 120];
/// The same of a first look.
pub const FEW: [usize; 4] = [1, 4, 30, 120];
/// Locks that are compared: theirs, and the one that waits apart.
pub const LOCKS: [ZoneLock; 2] = [ZoneLock::Ticket, ZoneLock::Queued];
/// Places of the lock, those of the table first.
pub const PLACES: [LockPlace; 3] = [LockPlace::BesideLists, LockPlace::BehindLists, LockPlace::OwnLine];
/// How many of the machine's numbers are varied both ways.
const CHOSEN: usize = 8;
/// How many times longer runs on few CPUs are at most.
const LONGER: f64 = 20.0;

/// What tasks' memory may be: a name, percent of the bursts that go to any node ([`Aim7::elsewhere`]), and of the processes that end
/// on any CPU ([`Aim7::moved`]). How it was is not known; the table is made with the last.
pub const MEMORY: [(&str, u32, u32); 4] = [
    ("of the CPU's node, freed there", 0, 0),
    ("of the CPU's node, freed on any CPU", 0, 100),
    ("of any node, freed there", 100, 0),
    ("of any node, freed on any CPU", 100, 100),
];

/// The workload, with the last of [`MEMORY`]. By the published seconds a job is outside of the kernel for one part in 37 of its time where the
/// lock is separate (658 s of 24,506 s). So much of it it computes with 7,000 cycles for 32 pages.
pub fn workload() -> Aim7 {
    let (_, elsewhere, moved) = MEMORY[MEMORY.len() - 1];
    Aim7 { think: 7_000, elsewhere, moved, ..Aim7::default() }
}

/// How long runs are, in processes of each CPU; runs on few CPUs are longer.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Lengths {
    /// Runs of the table and the curves.
    pub table: Passes,
    /// Runs with one of the machine's numbers, or tasks' memory, changed; none for no such runs.
    pub varied: Option<Varying>,
}

const fn passes(warm_up: f64, window: f64) -> Passes {
    Passes { warm_up, window }
}

impl Lengths {
    /// What a result that is to be quoted takes. Until those who wait have gathered at one zone some twenty processes of each CPU
    /// end; over as many more the change comes out within a point and a half, by three seeds.
    pub const FULL: Self = Self {
        table: passes(24.0, 48.0),
        varied: Some(Varying { screen: passes(12.0, 12.0), band: passes(24.0, 72.0) }),
    };
    /// A first look: no variations.
    pub const QUICK: Self = Self { table: passes(5.0, 5.0), varied: None };
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The machine.
    pub machine: &'a Spec,
    /// What its CPUs do.
    pub workload: Aim7,
    /// Numbers of CPUs for curves; the last is the table's.
    pub cpus: Vec<usize>,
    /// Seed of all that is random.
    pub seed: u64,
    /// How long runs are.
    pub lengths: Lengths,
}

/// A lock and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variant {
    /// The lock.
    pub lock: ZoneLock,
    /// Its place.
    pub place: LockPlace,
}

impl Variant {
    /// Each of them, by lock.
    pub fn all() -> impl Iterator<Item = Self> {
        LOCKS.into_iter().flat_map(|lock| PLACES.into_iter().map(move |place| Self { lock, place }))
    }

    /// In a word for each.
    pub fn name(self) -> String {
        format!("{}, {}", self.lock.name(), self.place.name())
    }

    /// The baseline with this lock at this place.
    pub fn mechanisms(self) -> Mechanisms {
        Mechanisms { zone_lock: self.lock, lock_place: self.place, ..Mechanisms::BASELINE }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Of each variant, by numbers of CPUs as the plan has them.
    pub curves: Vec<(Variant, Vec<Report>)>,
    /// Both places of the table, for each kind of [`MEMORY`], and the variations, if there were any.
    pub varied: Option<(Vec<[Speed; 2]>, Variations)>,
}

/// Runs with one number of the machine changed: of both places of the table, in the order of [`PLACES`].
pub type Variations = variation::Variations<[Speed; 2]>;

/// What a run shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Processes per second.
    pub jobs: f64,
    /// Percent of CPU time in which processes compute.
    pub computing: f64,
}

impl Speed {
    /// Of a run.
    pub fn of(report: &Report) -> Self {
        Self { jobs: report.per_second, computing: report.figure(Aim7::COMPUTING).unwrap_or(f64::NAN) }
    }

    /// Seconds of CPU time for a process in which it does not compute, on so many CPUs.
    pub fn system(&self, cpus: usize) -> f64 {
        cpus as f64 * (1.0 - self.computing / 100.0) / self.jobs
    }
}

impl Plan<'_> {
    /// CPUs of the table.
    pub fn most(&self) -> usize {
        self.cpus.last().copied().unwrap_or(1)
    }

    /// Runs all of it.
    ///
    /// # Errors
    /// The first run that failed, and which it was.
    pub fn run(&self, progress: Progress<'_>) -> anyhow::Result<Runs> {
        let table = self.table();
        let (done, total) = (runs::weight(&table), self.weight()?);
        let outcomes = runs::all(self.machine, &table, &mut |now| progress(now, total))?;
        let mut reports = outcomes.into_iter().map(|outcome| outcome.report);
        let curves = Variant::all().map(|variant| (variant, reports.by_ref().take(self.cpus.len()).collect()));
        let curves = curves.collect();
        let varied = match self.lengths.varied {
            Some(varying) => Some(self.vary(varying, &mut |now| progress(done + now, total))?),
            None => None,
        };
        Ok(Runs { curves, varied })
    }

    fn table(&self) -> Vec<Run<'_>> {
        let of = |variant| {
            self.cpus.iter().map(move |&cpus| self.run_of((variant, self.workload), cpus, self.lengths.table, None))
        };
        Variant::all().flat_map(of).collect()
    }

    fn run_of<'p>(
        &self,
        (variant, workload): (Variant, Aim7),
        cpus: usize,
        length: Passes,
        change: Change<'p>,
    ) -> Run<'p> {
        // So that as many processes end.
        let longer = (self.most() as f64 / cpus as f64).min(LONGER);
        let Passes { warm_up, window } = length;
        let length = passes(warm_up * longer, window * longer);
        let mut job = Job::new(Workload::Aim7(workload), variant.mechanisms(), cpus);
        (job.seed, job.lists, job.passes) = (self.seed, Some(LISTS), Some(length));
        let weight = (length.warm_up + length.window) * cpus as f64 * 1000.0;
        Run { name: format!("{} on {cpus} CPUs", variant.name()), job, change, weight: weight as u64 }
    }

    /// Both places of the table with its lock.
    fn pair<'p>(&self, workload: Aim7, length: Passes, change: Change<'p>) -> [Run<'p>; 2] {
        [PLACES[0], PLACES[1]]
            .map(|place| self.run_of((Variant { lock: LOCKS[0], place }, workload), self.most(), length, change))
    }

    /// Of all that is run.
    fn weight(&self) -> anyhow::Result<u64> {
        let table = runs::weight(&self.table());
        let Some(varying) = self.lengths.varied else { return Ok(table) };
        let varied = variation::weight(self.machine, CHOSEN, |change, round| Ok(self.varied(varying, change, round)))?;
        Ok(table + runs::weight(&self.memory(varying)) + varied)
    }

    /// Both places with each kind of memory.
    fn memory(&self, varying: Varying) -> Vec<Run<'_>> {
        MEMORY.map(|memory| self.pair(self.kept(memory), varying.band, None)).concat()
    }

    fn varied<'p>(&self, varying: Varying, change: Change<'p>, round: Round) -> Vec<Run<'p>> {
        self.pair(self.workload, varying.of(round), change).to_vec()
    }

    /// Both places with each kind of memory; for the rest see the module `variation`.
    fn vary(&self, varying: Varying, progress: &mut dyn FnMut(u64)) -> anyhow::Result<(Vec<[Speed; 2]>, Variations)> {
        let both = |pair: &[Outcome]| [&pair[0], &pair[1]].map(|outcome| Speed::of(&outcome.report));
        let memory = self.memory(varying);
        let done = runs::weight(&memory);
        let pairs = runs::all(self.machine, &memory, progress)?.chunks_exact(2).map(both).collect();
        let progress = &mut |now| progress(done + now);
        let variations = vary(
            self.machine,
            CHOSEN,
            |change, round| Ok(self.varied(varying, change, round)),
            both,
            points,
            progress,
        )?;
        Ok((pairs, variations))
    }

    /// The workload with another memory.
    pub fn kept(&self, (_, elsewhere, moved): (&str, u32, u32)) -> Aim7 {
        Aim7 { elsewhere, moved, ..self.workload }
    }
}

/// By how many points the change of jobs differs where it does more: from beside to behind.
fn points(base: &[Speed; 2], sample: &[Speed; 2]) -> f64 {
    let gain = |[beside, behind]: &[Speed; 2]| change_percent(beside.jobs, behind.jobs);
    (gain(sample) - gain(base)).abs()
}
