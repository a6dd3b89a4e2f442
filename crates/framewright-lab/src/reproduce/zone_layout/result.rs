//! Theirs and ours, as data.

use framewright_sim::report::{LineReport, Report};
use framewright_sim::workload::Workload;
use serde::Serialize;

use super::judge;
use super::plan::{LOCKS, Lengths, MEMORY, PLACES, Plan, Runs, Speed, Variant, Variations};
use super::published::{Place, Published, Quantity, Row as Measured};
use crate::reproduce::check::Check;
use crate::reproduce::fitted::{self, Fitted};
use crate::reproduce::head::Head;
use crate::reproduce::variation::{Band, Varied};
use crate::reproduce::why::{self, ZONE, waiting};
use crate::sim::figures;
use crate::sim::run::accesses;

/// Name of the experiment, and of the table that machines' numbers are fitted to.
pub const NAME: &str = "zone-layout";
/// Fields of the lock's lines that are named at most, and how often one has to be fetched for a taking.
const FIELDS: (usize, f64) = (4, 0.5);

/// See the module's description.
#[derive(Clone, Serialize, Debug)]
pub struct Reproduction {
    /// Which experiment it is, and how it is made again.
    #[serde(flatten)]
    pub head: Head,
    /// CPUs of the table.
    pub cpus: usize,
    /// The workload.
    pub workload: String,
    /// How long runs were.
    pub lengths: Lengths,
    /// What was fitted to this table.
    pub fitted: Vec<Fitted>,
    /// What was measured, and what our model says.
    pub rows: Vec<Row>,
    /// Locks at their places, on all CPUs.
    pub variants: Vec<VariantRow>,
    /// From how many CPUs on the place behind the lists is the faster, of those that were run; by lock.
    pub crossover: Vec<Crossover>,
    /// The table's lock with other memory of the tasks, if that was run.
    pub memory: Vec<Memory>,
    /// What was varied for the bands.
    pub varied: Option<Varied>,
    /// What had to hold.
    pub checks: Vec<Check>,
}

/// One measurement.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What was measured.
    pub quantity: Quantity,
    /// Theirs.
    pub published: Change,
    /// Ours, in units of its own ([`Quantity`] per process); none if the model has nothing of the kind.
    pub simulated: Option<Change>,
    /// How much the change moves with the machine's numbers, if that was asked for.
    pub band: Option<Band>,
    /// Whether a number of the machine was fitted to this row, or to the one that it restates.
    pub fitted: bool,
    /// Why there is nothing of ours, if so.
    pub why_not: Option<&'static str>,
}

/// Something before and after the lock was moved.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Change {
    /// With the lock where it was.
    pub before: f64,
    /// With the lock where it is.
    pub after: f64,
    /// The change.
    pub change_percent: f64,
}

/// What an assumption about tasks' memory leads to.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Memory {
    /// The assumption.
    pub name: &'static str,
    /// The workload.
    pub workload: String,
    /// The change of jobs from the lock behind the lists to the one beside them, in percent.
    pub change_percent: f64,
    /// Percent of CPU time in which processes compute, with the lock behind the lists and beside them.
    pub computing_percent: [f64; 2],
}

/// A lock at a place.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct VariantRow {
    /// Lock and place.
    pub name: String,
    /// The mechanisms, as a list of switches.
    pub mechanisms: String,
    /// Processes per second on all CPUs.
    pub performance: f64,
    /// Against the table's lock behind the lists, in percent.
    pub change_percent: f64,
    /// Share of CPU time spent waiting for the zone lock, in percent.
    pub zone_lock_contention_percent: f64,
    /// Half of the times the zone lock was held no longer, in nanoseconds, of the one that was held longest.
    pub hold_p50_ns: f64,
    /// What limits it, in a sentence.
    pub why: String,
    /// Which fields of the lock's lines are fetched how often.
    pub lines: String,
    /// Numbers of CPUs and processes per second.
    pub points: Vec<(usize, f64)>,
    /// Numbers of CPUs and nanoseconds of a taking of the zone lock, from asking for it to giving it up.
    pub takings_ns: Vec<(usize, f64)>,
    /// The run on all CPUs.
    #[serde(skip)]
    pub report: Report,
}

/// Where the faster place changes.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Crossover {
    /// The lock.
    pub lock: &'static str,
    /// The least number of CPUs from which on the lock behind the lists is faster; none if it never is.
    pub cpus: Option<usize>,
    /// By number of CPUs, what the place beside the lists gains against the one behind, in percent.
    pub gain_percent: Vec<(usize, f64)>,
    /// The same of the time of a taking of the lock: with few CPUs it is a small part of theirs.
    pub taking_gain_percent: Vec<(usize, f64)>,
}

impl Reproduction {
    /// From what was published and what was run. `command` says how it is made again.
    pub fn new(published: &Published, plan: &Plan<'_>, runs: &Runs, command: &str) -> Self {
        let fitted = fitted::to(NAME, plan.machine);
        let variants = variants(plan, runs);
        let row = |measured: &Measured| row(measured, (plan, &fitted), runs);
        let rows: Vec<Row> = published.rows.iter().map(row).collect();
        let crossover: Vec<Crossover> = LOCKS.iter().map(|lock| crossing(lock.name(), &variants)).collect();
        let checks = judge::checks(&rows, &fitted, &variants, &crossover);
        Self {
            head: Head::new(NAME, command, [&published.title, &published.source], (plan.machine, plan.seed)),
            cpus: plan.most(),
            workload: Workload::Aim7(plan.workload).to_string(),
            lengths: plan.lengths,
            fitted,
            rows,
            variants,
            crossover,
            memory: runs.varied.iter().flat_map(|(pairs, _)| memory(plan, pairs)).collect(),
            varied: runs.varied.as_ref().map(|(_, variations)| variations.varied.clone()),
            checks,
        }
    }
}

/// A quantity of a run; none if the model has nothing of the kind.
fn value(quantity: Quantity, speed: &Speed, cpus: usize) -> Option<f64> {
    match quantity {
        Quantity::Jobs => Some(speed.jobs),
        Quantity::Elapsed => Some(1.0 / speed.jobs),
        Quantity::System => Some(speed.system(cpus)),
        Quantity::User | Quantity::VoluntarySwitches | Quantity::InvoluntarySwitches => None,
    }
}

fn row(measured: &Measured, (plan, fitted): (&Plan<'_>, &[Fitted]), runs: &Runs) -> Row {
    let Measured { name, from, to, quantity, before, after, change_percent } = measured;
    let of = |speeds: &[Speed; 2]| {
        let at = |place: Place| {
            let number = PLACES.iter().position(|&one| one == place.mechanism())?;
            value(*quantity, speeds.get(number)?, plan.most())
        };
        let (before, after) = (at(*from)?, at(*to)?);
        Some(Change { before, after, change_percent: figures::change_percent(before, after) })
    };
    let speeds = speeds(runs);
    let simulated = speeds.as_ref().and_then(of);
    let band = |variations: &Variations| {
        variations.band(simulated?.change_percent, |speeds| of(speeds).map(|change| change.change_percent))
    };
    // What is derived from the same runs of a row that was fitted is no evidence either.
    let restated = name.split(", ").next().unwrap_or(name);
    Row {
        name: name.clone(),
        quantity: *quantity,
        published: Change { before: *before, after: *after, change_percent: *change_percent },
        simulated,
        band: runs.varied.as_ref().and_then(|(_, variations)| band(variations)),
        fitted: fitted::is_row(fitted, restated),
        why_not: quantity.unmodelled(),
    }
}

fn memory(plan: &Plan<'_>, pairs: &[[Speed; 2]]) -> Vec<Memory> {
    let of = |(memory, [beside, behind]): ((&'static str, u32, u32), &[Speed; 2])| Memory {
        name: memory.0,
        workload: Workload::Aim7(plan.kept(memory)).to_string(),
        change_percent: figures::change_percent(behind.jobs, beside.jobs),
        computing_percent: [behind.computing, beside.computing],
    };
    MEMORY.into_iter().zip(pairs).map(of).collect()
}

/// The table's runs: its lock at both places, on all CPUs.
fn speeds(runs: &Runs) -> Option<[Speed; 2]> {
    let of = |place| {
        let (_, reports) = runs.curves.iter().find(|(variant, _)| *variant == Variant { lock: LOCKS[0], place })?;
        reports.last().map(Speed::of)
    };
    Some([of(PLACES[0])?, of(PLACES[1])?])
}

fn variants(plan: &Plan<'_>, runs: &Runs) -> Vec<VariantRow> {
    let behind = speeds(runs).map_or(f64::NAN, |[_, behind]| behind.jobs);
    let of = |(variant, reports): &(Variant, Vec<Report>)| {
        let report = reports.last()?;
        let performance = Speed::of(report).jobs;
        let held = report.locks.iter().filter(|lock| lock.kind == ZONE).map(|lock| lock.holding.p50_ns);
        Some(VariantRow {
            name: variant.name(),
            mechanisms: variant.mechanisms().to_string(),
            performance,
            change_percent: figures::change_percent(behind, performance),
            zone_lock_contention_percent: waiting(report, ZONE),
            hold_p50_ns: held.fold(0.0, f64::max),
            why: why::sentence(report),
            lines: fetched(report),
            points: plan.cpus.iter().zip(reports).map(|(&cpus, report)| (cpus, Speed::of(report).jobs)).collect(),
            takings_ns: plan.cpus.iter().zip(reports).map(|(&cpus, report)| (cpus, taking(report))).collect(),
            report: report.clone(),
        })
    };
    runs.curves.iter().filter_map(of).collect()
}

/// Which fields of the lock's lines are fetched how often.
fn fetched(report: &Report) -> String {
    let taken: u64 = report.locks.iter().filter(|lock| lock.kind == ZONE).map(|lock| lock.taken).sum();
    let is_of_lock = |line: &&LineReport| line.fields.iter().any(|field| field.name.starts_with("lock"));
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for field in report.lines.iter().filter(is_of_lock).flat_map(|line| &line.fields) {
        let each = accesses(&field.traffic) as f64 / taken.max(1) as f64;
        match sums.iter_mut().find(|(name, _)| *name == field.name) {
            Some((_, sum)) => *sum += each,
            None => sums.push((&field.name, each)),
        }
    }
    let all: f64 = sums.iter().map(|(_, each)| each).sum();
    // A stable sort: fields that are fetched as often stay in the report's order.
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    sums.retain(|(_, each)| *each >= FIELDS.1);
    let named: Vec<String> = sums.iter().take(FIELDS.0).map(|(name, each)| format!("{each:.1} for {name}")).collect();
    let named = if named.is_empty() { "none of its fields stands out".to_owned() } else { named.join(", ") };
    format!("for each taking the lock's line is fetched {all:.1} times: {named}")
}

/// Nanoseconds of a taking of the zone lock, from asking for it to giving it up.
fn taking(report: &Report) -> f64 {
    let zones = || report.locks.iter().filter(|lock| lock.kind == ZONE);
    let time: f64 = zones().map(|lock| lock.waiting.total_ns + lock.holding.total_ns).sum();
    time / zones().map(|lock| lock.taken).sum::<u64>().max(1) as f64
}

fn crossing(lock: &'static str, variants: &[VariantRow]) -> Crossover {
    type Of = fn(&VariantRow) -> &[(usize, f64)];
    let points = |place: usize, of: Of| {
        let name = format!("{lock}, {}", PLACES[place].name());
        variants.iter().find(|variant| variant.name == name).map_or(&[][..], of)
    };
    let jobs: Of = |variant| &variant.points;
    let takings: Of = |variant| &variant.takings_ns;
    let pairs = |of: Of| points(0, of).iter().zip(points(1, of));
    let gain_percent: Vec<(usize, f64)> = pairs(jobs).map(|(a, b)| (a.0, figures::change_percent(b.1, a.1))).collect();
    let taking_gain_percent = pairs(takings).map(|(a, b)| (a.0, -figures::change_percent(b.1, a.1))).collect();
    let slower = gain_percent.iter().rev().take_while(|(_, gain)| *gain < 0.0).last();
    Crossover { lock, cpus: slower.map(|&(cpus, _)| cpus), gain_percent, taking_gain_percent }
}
