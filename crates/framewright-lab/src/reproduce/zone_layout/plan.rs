//! What is run, and what comes of it.

use framewright::Mechanisms;
use framewright::mechanisms::{LockPlace, ZoneLock};
use framewright::watermark::PcpSize;
use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use framewright_sim::workload::{Aim7, Job, Workload};
use serde::Serialize;

use crate::reproduce::runs::{self, Change, Progress, Run};
use crate::reproduce::variation::{self, Round, samples, vary};

/// Numbers of CPUs at which curves have a point; the last is the table's.
pub const CURVE: [usize; 8] = [1, 2, 4, 8, 15, 30, 60, 120];
/// Locks that are compared: theirs, and the one that waits apart.
pub const LOCKS: [ZoneLock; 2] = [ZoneLock::Ticket, ZoneLock::Queued];
/// Places of the lock, those of the table first.
pub const PLACES: [LockPlace; 3] = [LockPlace::BesideLists, LockPlace::BehindLists, LockPlace::OwnLine];
/// How many of the machine's numbers are varied both ways.
const CHOSEN: usize = 8;
/// Per-CPU lists of kernels before 4.19 on machines of that size.
const LISTS: PcpSize = PcpSize { batch: 31, high: 6 * 31 };
/// A millisecond in picoseconds.
const MILLISECOND: f64 = 1e9;

/// The option of the workload that was chosen knowing the table, and the row that it counts as fitted to.
pub const FITTED: (&str, &str) = ("aim7: elsewhere", "separate -> beside");

/// The workload. Its defaults, but for two options: by the published seconds a job is outside of the kernel for one part in forty of
/// its time where the lock is separate (658 s of 219 s on 120 CPUs), which is 5,000 cycles for 32 pages; and one burst in
/// four is of another node's memory, as tasks that outnumber CPUs move between sockets. How often they do was not published ([`FITTED`]).
pub fn workload() -> Aim7 {
    Aim7 { think: 5_000, elsewhere: 25, ..Aim7::default() }
}

/// How long runs are, in milliseconds of virtual time on all CPUs of the machine; runs on fewer are longer.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Lengths {
    /// Runs of the table and the curves.
    pub table: Window,
    /// Runs with one of the machine's numbers changed; none for no such runs.
    pub varied: Option<Varying>,
}

/// How long a run is.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Window {
    /// Before it is measured.
    pub warm_up_ms: f64,
    /// While it is.
    pub window_ms: f64,
}

/// How long runs with a number changed are.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Varying {
    /// Those that show which numbers matter.
    pub screen: Window,
    /// Those that bands are from.
    pub band: Window,
}

const fn ms(warm_up_ms: f64, window_ms: f64) -> Window {
    Window { warm_up_ms, window_ms }
}

impl Lengths {
    /// What a result that is to be quoted takes.
    pub const FULL: Self =
        Self { table: ms(6.0, 12.0), varied: Some(Varying { screen: ms(4.0, 4.0), band: ms(6.0, 8.0) }) };
    /// A first look: no variations.
    pub const QUICK: Self = Self { table: ms(3.0, 4.0), varied: None };
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
    /// The variations, if there were any.
    pub variations: Option<Variations>,
}

/// Runs with one number of the machine changed: of both places of the table, in the order of [`PLACES`].
pub type Variations = variation::Variations<[Speed; 2]>;

/// What a run shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Pages that are allocated per second.
    pub pages: f64,
    /// Percent of CPU time in which processes compute.
    pub computing: f64,
}

impl Speed {
    /// Of a run.
    pub fn of(report: &Report) -> Self {
        let figure = |name| report.figures.iter().find(|figure| figure.name == name).map_or(f64::NAN, |one| one.value);
        Self { pages: figure(Aim7::PAGES), computing: figure(Aim7::COMPUTING) }
    }

    /// Seconds of CPU time for a page in which nobody computes, on so many CPUs.
    pub fn system(&self, cpus: usize) -> f64 {
        cpus as f64 * (1.0 - self.computing / 100.0) / self.pages
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
        let (done, total) = (runs::weight(&table), self.weight());
        let outcomes = runs::all(self.machine, &table, &mut |now| progress(now, total))?;
        let mut reports = outcomes.into_iter().map(|outcome| outcome.report);
        let curves = Variant::all().map(|variant| (variant, reports.by_ref().take(self.cpus.len()).collect()));
        let curves = curves.collect();
        let variations = match self.lengths.varied {
            Some(varying) => Some(self.vary(varying, &mut |now| progress(done + now, total))?),
            None => None,
        };
        Ok(Runs { curves, variations })
    }

    fn table(&self) -> Vec<Run<'_>> {
        let of = |variant| self.cpus.iter().map(move |&cpus| self.run_of(variant, cpus, self.lengths.table, None));
        Variant::all().flat_map(of).collect()
    }

    fn run_of<'p>(&self, variant: Variant, cpus: usize, window: Window, change: Change<'p>) -> Run<'p> {
        // With fewer CPUs as much happens in a longer time.
        let longer = (self.most() as f64 / cpus as f64).min(20.0);
        let mut job = Job::new(Workload::Aim7(self.workload), variant.mechanisms(), cpus);
        (job.seed, job.lists) = (self.seed, Some(LISTS));
        job.warm_up = (window.warm_up_ms * longer * MILLISECOND) as u64;
        job.window = (window.window_ms * longer * MILLISECOND) as u64;
        let weight = (window.warm_up_ms + window.window_ms) * longer * cpus as f64;
        Run { name: format!("{} on {cpus} CPUs", variant.name()), job, change, weight: (weight * 1000.0) as u64 }
    }

    /// Both places of the table with their lock.
    fn pair<'p>(&self, window: Window, change: Change<'p>) -> [Run<'p>; 2] {
        let of = |place| self.run_of(Variant { lock: LOCKS[0], place }, self.most(), window, change);
        [of(PLACES[0]), of(PLACES[1])]
    }

    /// Of all that is run.
    fn weight(&self) -> u64 {
        let table = runs::weight(&self.table());
        let Some(Varying { screen, band }) = self.lengths.varied else { return table };
        let [screened, varied] = samples(self.machine, CHOSEN);
        let pair = |window| runs::weight(&self.pair(window, None));
        table + screened as u64 * pair(screen) + varied as u64 * pair(band)
    }

    /// See the module `variation`.
    fn vary(&self, varying: Varying, progress: &mut dyn FnMut(u64)) -> anyhow::Result<Variations> {
        let mut before = 0;
        let sample = |changes: &[Change<'_>], round: Round| {
            let window = if round == Round::Screen { varying.screen } else { varying.band };
            let runs: Vec<Run<'_>> = changes.iter().flat_map(|&change| self.pair(window, change)).collect();
            let outcomes = runs::all(self.machine, &runs, &mut |now| progress(before + now))?;
            before += runs::weight(&runs);
            let speeds: Vec<Speed> = outcomes.iter().map(|outcome| Speed::of(&outcome.report)).collect();
            Ok(speeds.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect())
        };
        vary(self.machine, CHOSEN, sample, points)
    }
}

/// By how many points the change of jobs differs where it does more: from beside to behind.
fn points(base: &[Speed; 2], sample: &[Speed; 2]) -> f64 {
    let gain = |[beside, behind]: &[Speed; 2]| change(beside.pages, behind.pages);
    (gain(sample) - gain(base)).abs()
}

/// Change of `to` against `from` in percent.
pub(super) fn change(from: f64, to: f64) -> f64 {
    (to / from - 1.0) * 100.0
}
