//! What is run, and what comes of it.

use anyhow::Context;
use framewright::Mechanisms;
use framewright::mechanisms::NumaStat;
use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use framewright_sim::workload::{Job, Outcome, PageBench03, Workload};
use serde::Serialize;

use super::published::{Figures, Published, Row, mechanisms};
use crate::reproduce::runs::{self, Change, LISTS, Progress, Run, clock};
use crate::reproduce::variation::{self, Round, Variations, vary};
use crate::sim::figures::change_percent;

/// Our own mechanisms, which nobody published, and the same without the counters.
pub const OURS: [&str; 2] = ["default", "default,numa-stat=off"];
/// What the table does not have.
pub const BESIDE: [&str; 5] =
    ["numa-base,numa-threshold=125", "numa-threshold-125,numa-place=own-lines", "baseline", OURS[0], OURS[1]];
/// How many of the machine's numbers are varied both ways.
const CHOSEN: usize = 6;
/// Rows of larger thresholds than this are not varied: they are where the threshold does not matter any more.
const VARIED: u16 = 4096;

/// Numbers that restate rows in which the threshold does not matter: what they are for, and to which row each was set.
///
/// Our baseline executes more instructions than that kernel did for all of its path, so their time is taken to be shorter by
/// `PACE`: else CPUs would look at the counters too rarely. The other two are cycles that a kernel with counters takes besides.
pub const RESTATED: [(&str, &str); 3] = [
    ("pace of instructions (costs.sibling x 0.507 in every run here, our own rows too)", "disabled"),
    ("cycles with 16 bits without sign", "65533"),
    ("cycles with a sign", "20000, 30000"),
];
/// Factor of the time of instructions while both threads of a core run.
const PACE: (&str, f64) = ("costs.sibling", 0.507);
/// Cycles besides, of counters without a sign and with one.
const BESIDES: [u32; 2] = [26, 52];

/// How long runs are.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Lengths {
    /// Cycles of the window, at least.
    pub window: u32,
    /// The window of a large threshold, in times that a CPU takes to tell the zone once.
    pub periods: f64,
    /// Over how many cycles the CPUs begin, at most.
    pub spread: u32,
    /// Whether the machine's numbers are varied.
    pub varied: bool,
}

impl Lengths {
    /// What a result that is to be quoted takes.
    pub const FULL: Self = Self { window: 1_000_000, periods: 1.0, spread: u32::MAX, varied: true };
    /// A first look. Where a CPU counts tens of thousands of events before it tells the zone, what telling costs is less than a
    /// tenth of a cycle for each; so nobody waits until all CPUs do it in turn.
    pub const QUICK: Self = Self { window: 200_000, periods: 0.1, spread: 4_000_000, varied: false };
    /// Runs with one of the machine's numbers changed, by round.
    pub(super) const VARIED: [Self; 2] = [
        Self { window: 100_000, periods: 0.05, spread: u32::MAX, varied: false },
        Self { window: 400_000, periods: 0.25, spread: u32::MAX, varied: false },
    ];
}

/// Cycles in which lists are filled for the first time.
const FILLING: u32 = 2_000_000;
/// About the cycles of an allocation and its free.
const PAIR: u32 = 400;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The machine.
    pub machine: &'a Spec,
    /// The table.
    pub published: &'a Published,
    /// Seed of all that is random.
    pub seed: u64,
    /// How long runs are.
    pub lengths: Lengths,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Runs {
    /// The table's runs.
    pub table: Vec<Report>,
    /// Those of [`BESIDE`].
    pub beside: Vec<Report>,
    /// The variations, if there were any.
    pub variations: Option<Variations<Vec<Option<f64>>>>,
}

impl Plan<'_> {
    /// Runs all of it.
    ///
    /// # Errors
    /// The first run that failed, and which it was.
    pub fn run(&self, progress: Progress<'_>) -> anyhow::Result<Runs> {
        let machine = self.machine.scaled(PACE.0, PACE.1)?;
        let table = self.table(self.lengths, None)?;
        let named = |name: &&str| anyhow::Ok(self.job(name, crate::mechanisms::parse(name)?, self.lengths, None));
        let beside = BESIDE.iter().map(named).collect::<anyhow::Result<Vec<_>>>()?;
        let done: u64 = runs::weight(&table) + runs::weight(&beside);
        let varied = || variation::weight(&machine, CHOSEN, |change, round| self.varied(change, round));
        let total = done + if self.lengths.varied { varied()? } else { 0 };
        let all: Vec<Run<'_>> = table.iter().chain(&beside).cloned().collect();
        let outcomes = runs::all(&machine, &all, &mut |now| progress(now, total))?;
        let mut reports: Vec<Report> = outcomes.into_iter().map(|outcome| outcome.report).collect();
        let at_beside = reports.split_off(table.len());
        let variations = match self.lengths.varied {
            true => Some(self.vary(&machine, &mut |now| progress(done + now, total))?),
            false => None,
        };
        Ok(Runs { table: reports, beside: at_beside, variations })
    }

    /// The rows that are varied, each in its place; the others none.
    fn vary(&self, machine: &Spec, progress: &mut dyn FnMut(u64)) -> anyhow::Result<Variations<Vec<Option<f64>>>> {
        let shown = |outcomes: &[Outcome]| {
            let mut cycles = outcomes.iter().map(|outcome| self.figures(&outcome.report).cycles);
            let of = |row: &Row| is_varied(&row.threshold).then(|| cycles.next()).flatten();
            self.published.rows.iter().map(of).collect()
        };
        let points = |still: &Vec<Option<f64>>, moved: &Vec<Option<f64>>| {
            let both = still.iter().zip(moved).filter_map(|(still, moved)| Some(change_percent((*still)?, (*moved)?)));
            both.fold(0.0, |most: f64, by| most.max(by.abs()))
        };
        vary(machine, CHOSEN, |change, round| self.varied(change, round), shown, points, progress)
    }

    fn varied<'p>(&self, change: Change<'p>, round: Round) -> anyhow::Result<Vec<Run<'p>>> {
        let all = self.table(Lengths::VARIED[round as usize], change)?.into_iter().zip(&self.published.rows);
        Ok(all.filter(|(_, row)| is_varied(&row.threshold)).map(|(run, _)| run).collect())
    }

    fn table<'p>(&self, lengths: Lengths, change: Change<'p>) -> anyhow::Result<Vec<Run<'p>>> {
        let of = |row: &Row| {
            let mechanisms = mechanisms(&row.threshold).with_context(|| format!("row {}", row.threshold))?;
            Ok(self.job(&row.threshold, mechanisms, lengths, change))
        };
        self.published.rows.iter().map(of).collect()
    }

    fn job<'p>(&self, name: &str, mechanisms: Mechanisms, lengths: Lengths, change: Change<'p>) -> Run<'p> {
        let period = period(&mechanisms);
        let spread = (period * PAIR).min(lengths.spread);
        let work = match mechanisms.numa_stat {
            NumaStat::U16 => BESIDES[0],
            NumaStat::S8 | NumaStat::S16 => BESIDES[1],
            _ => 0,
        };
        let workload = PageBench03 { work, spread, ..PageBench03::default() };
        let mut job = Job::new(Workload::PageBench03(workload), mechanisms, self.published.cpus);
        let clock = clock(self.machine);
        let time = |cycles: u32| (f64::from(cycles) / clock * 1e12) as u64;
        let window = lengths.window.max((f64::from(spread) * lengths.periods) as u32);
        (job.seed, job.warm_up, job.window) = (self.seed, time(FILLING.max(spread)), time(window));
        job.lists = job.lists.map(|_| LISTS);
        let weight = u64::from(FILLING.max(spread / 2 + FILLING) + window) / 1000;
        Run { name: name.to_owned(), job, change, weight }
    }

    /// What a run shows.
    pub fn figures(&self, report: &Report) -> Figures {
        Figures { cycles: runs::cycles(self.machine, report), throughput: report.per_second }
    }
}

fn is_varied(threshold: &str) -> bool {
    threshold.parse().is_ok_and(|events: u16| events <= VARIED)
}

/// Events of a kind after which a CPU tells the zone again.
fn period(mechanisms: &Mechanisms) -> u32 {
    match (mechanisms.numa_stat, mechanisms.numa_threshold.get()) {
        (NumaStat::U16, Some(events)) => u32::from(events) + 1,
        (NumaStat::S8 | NumaStat::S16, Some(events)) => u32::from(events) + 1 + u32::from(events / 2),
        _ => 188,
    }
}
