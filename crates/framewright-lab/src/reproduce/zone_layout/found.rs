//! Theirs and ours as data, and what has to hold before one may say that the table was reproduced.

use framewright::mechanisms::{LockPlace, ZoneLock};
use framewright_sim::report::{LineReport, Report};
use framewright_sim::workload::Workload;
use serde::Serialize;

use super::plan::{
    Change, LOCKS, Lengths, MEMORY, MEMORY_SET, NAME, PLACES, Plan, Quantity, Theirs, Variant, computing, mechanisms,
    run_name, variant_name, variants, with_memory,
};
use crate::reproduce::check::{Check, Standing, points, seen};
use crate::reproduce::fitted::{self, Fitted};
use crate::reproduce::head::Head;
use crate::reproduce::plan::{Outcomes, Runs, TABLE};
use crate::reproduce::variation::{Band, Varied};
use crate::reproduce::why::{self, ZONE, waiting};
use crate::sim::figures::change_percent;
use crate::sim::run::accesses;

/// Points that a band may be wide.
const WIDTH: f64 = 30.0;
/// CPUs that are few.
const IS_FEW: usize = 4;
/// Percent by which the lock on a line of its own may be behind the one behind the lists.
const CURED: f64 = 2.0;
/// With waiters that wait apart, at most this part of what the place beside the lists costs else is left.
const LEFT: f64 = 0.25;
/// Fields of the lock's lines that are named at most, and how often one has to be fetched for a taking.
const FIELDS: (usize, f64) = (4, 0.5);

/// Theirs and ours.
#[derive(Clone, Serialize, Debug)]
pub struct Found {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) cpus: usize,
    pub(super) workload: String,
    pub(super) lengths: Lengths,
    pub(super) fitted: Vec<Fitted>,
    /// What was measured, and what our model says.
    pub rows: Vec<Row>,
    /// Locks at their places, on all CPUs.
    pub variants: Vec<VariantRow>,
    /// By lock.
    pub(super) crossover: Vec<Crossover>,
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
    pub(super) quantity: Quantity,
    pub(super) published: Change,
    /// Ours, in units of its own ([`Quantity`] per process); none if the model has nothing of the kind.
    pub simulated: Option<Change>,
    /// How much the change moves with the machine's numbers, if that was asked for.
    pub band: Option<Band>,
    /// Whether a number of the machine was fitted to this row, or to the one that it restates.
    pub fitted: bool,
    /// Why there is nothing of ours, if so.
    pub why_not: Option<&'static str>,
}

/// What an assumption about tasks' memory leads to.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Memory {
    pub(super) name: &'static str,
    pub(super) workload: String,
    /// The change of jobs from the lock behind the lists to the one beside them.
    pub(super) change_percent: f64,
    /// With the lock behind the lists and beside them.
    pub(super) computing_percent: [f64; 2],
}

/// A lock at a place.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct VariantRow {
    pub(super) name: String,
    pub(super) mechanisms: String,
    /// Processes per second on all CPUs.
    pub performance: f64,
    /// Against the table's lock behind the lists.
    pub(super) change_percent: f64,
    pub(super) zone_lock_contention_percent: f64,
    /// Of the zone lock that was held longest.
    pub(super) hold_p50_ns: f64,
    pub(super) why: String,
    /// Which fields of the lock's lines are fetched how often.
    pub(super) lines: String,
    /// Numbers of CPUs and processes per second.
    pub points: Points,
    /// Numbers of CPUs and nanoseconds of a taking of the zone lock, from asking for it to giving it up.
    pub(super) takings_ns: Points,
    #[serde(skip)]
    pub(super) report: Report,
}

/// Values by number of CPUs.
pub(super) type Points = Vec<(usize, f64)>;

/// Where the faster place changes.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub(super) struct Crossover {
    pub(super) lock: &'static str,
    /// The least number of CPUs from which on the lock behind the lists is faster; none if it never is.
    pub(super) cpus: Option<usize>,
    /// What the place beside the lists gains against the one behind.
    pub(super) gain_percent: Points,
    /// As `gain_percent`, of the time of a taking of the lock: with few CPUs it is a small part of theirs.
    pub(super) taking_gain_percent: Points,
}

impl Found {
    /// From what was published and what was run. `command` says how it is made again.
    pub fn new(plan: &Plan<'_>, runs: &Runs, command: &str) -> Self {
        let published = plan.published;
        let fitted = fitted::to(NAME, plan.machine);
        let rows: Vec<Row> = published.rows.iter().map(|theirs| row(theirs, (plan, runs), &fitted)).collect();
        let variants = variant_rows(plan, runs);
        let crossover: Vec<Crossover> = LOCKS.iter().map(|lock| crossing(lock.name(), &variants)).collect();
        let checks = checks(&rows, &fitted, &variants, &crossover);
        Self {
            head: Head::new(NAME, command, [&published.title, &published.source], (plan.machine, plan.seed)),
            cpus: plan.most(),
            workload: Workload::Aim7(plan.workload).to_string(),
            lengths: plan.lengths,
            fitted,
            rows,
            variants,
            crossover,
            memory: memory(plan, runs.of(MEMORY_SET)),
            varied: runs.variations.as_ref().map(|variations| variations.varied.clone()),
            checks,
        }
    }
}

fn row(theirs: &Theirs, (plan, runs): (&Plan<'_>, &Runs), fitted: &[Fitted]) -> Row {
    // What is derived from the same runs of a row that was fitted is no evidence either.
    let restated = theirs.name.split(", ").next().unwrap_or(&theirs.name);
    Row {
        name: theirs.name.clone(),
        quantity: theirs.quantity,
        published: theirs.change,
        simulated: plan.change(theirs, runs.of(TABLE)),
        band: runs.band(&theirs.name),
        fitted: fitted::is_row(fitted, restated),
        why_not: theirs.quantity.unmodelled(),
    }
}

fn memory(plan: &Plan<'_>, runs: &Outcomes) -> Vec<Memory> {
    let of = |(memory, pair): ((&'static str, u32, u32), &Outcomes)| {
        let [beside, behind] = [0, 1].map(|place| &pair[place].1.report);
        Memory {
            name: memory.0,
            workload: Workload::Aim7(with_memory(plan.workload, memory)).to_string(),
            change_percent: change_percent(behind.per_second, beside.per_second),
            computing_percent: [behind, beside].map(computing),
        }
    };
    MEMORY.into_iter().zip(runs.chunks_exact(2)).map(of).collect()
}

fn variant_rows(plan: &Plan<'_>, runs: &Runs) -> Vec<VariantRow> {
    let report = |name: &str, cpus| runs.report(TABLE, &run_name(name, cpus));
    let behind = report(&variant_name(LOCKS[0].name(), PLACES[1].name()), plan.most());
    let behind = behind.map_or(f64::NAN, |report| report.per_second);
    let of = |variant: Variant| {
        let name = variant_name(variant.0.name(), variant.1.name());
        let all = report(&name, plan.most())?;
        let held = all.locks.iter().filter(|lock| lock.kind == ZONE).map(|lock| lock.holding.p50_ns);
        let points = |of: fn(&Report) -> f64| {
            plan.cpus.iter().filter_map(|&cpus| Some((cpus, of(report(&name, cpus)?)))).collect::<Points>()
        };
        Some(VariantRow {
            mechanisms: mechanisms(variant).to_string(),
            performance: all.per_second,
            change_percent: change_percent(behind, all.per_second),
            zone_lock_contention_percent: waiting(all, ZONE),
            hold_p50_ns: held.fold(0.0, f64::max),
            why: why::sentence(all),
            lines: fetched(all),
            points: points(|report| report.per_second),
            takings_ns: points(taking),
            report: all.clone(),
            name,
        })
    };
    variants().filter_map(of).collect()
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

/// The variant with this lock at this place.
fn find<'v>(variants: &'v [VariantRow], lock: &str, place: LockPlace) -> Option<&'v VariantRow> {
    variants.iter().find(|variant| variant.name == variant_name(lock, place.name()))
}

fn crossing(lock: &'static str, variants: &[VariantRow]) -> Crossover {
    let pairs = |of: fn(&VariantRow) -> &Points| {
        let [beside, behind] =
            [PLACES[0], PLACES[1]].map(|place| find(variants, lock, place).map_or(&[][..], |variant| of(variant)));
        beside.iter().zip(behind).map(|(a, b)| (a.0, change_percent(b.1, a.1))).collect::<Points>()
    };
    let gain_percent = pairs(|variant| &variant.points);
    let taking_gain_percent =
        pairs(|variant| &variant.takings_ns).into_iter().map(|(cpus, more)| (cpus, -more)).collect();
    let slower = gain_percent.iter().rev().take_while(|(_, gain)| *gain < 0.0).last();
    Crossover { lock, cpus: slower.map(|&(cpus, _)| cpus), gain_percent, taking_gain_percent }
}

/// How a row's change stands to the published one; none for a row that predicts nothing.
pub(super) fn standing(row: &Row) -> Option<Standing> {
    let ours = row.simulated.filter(|_| !row.fitted)?;
    // Nobody claims more than the band.
    row.band.map(|band| Standing::of(row.published.change_percent, ours.change_percent, 0.0, Some(band)))
}

fn near(is_near: bool) -> Standing {
    if is_near { Standing::Near } else { Standing::Off }
}

fn checks(rows: &[Row], fitted: &[Fitted], variants: &[VariantRow], crossover: &[Crossover]) -> Vec<Check> {
    let direction = rows.iter().filter_map(|row| {
        let ours = row.simulated?.change_percent;
        let is_right = (ours > 0.0) == (row.published.change_percent > 0.0);
        Some((near(is_right), format!("{} {ours:+.1} %", row.name)))
    });
    let inside = rows.iter().filter_map(|row| {
        let by = row.simulated?.change_percent - row.published.change_percent;
        Some((standing(row)?, format!("{} {}", row.name, points(by))))
    });
    let narrow = rows.iter().filter(|row| row.quantity == Quantity::Jobs).filter_map(|row| {
        let width = row.band.map(|band| band.0[1] - band.0[0])?;
        Some((near(width <= WIDTH), format!("{} {width:.1}", row.name)))
    });
    let has_bands = rows.iter().any(|row| row.band.is_some());
    let banded = |name: &str, all: &mut dyn Iterator<Item = (Standing, String)>| match has_bands {
        true => seen(name, all),
        false => Check::unseen(name, "no bands in a quick run"),
    };
    vec![
        seen("every change in the published direction", direction),
        few(crossover),
        fitted::at_most(1, "at most one number fitted, to one row", fitted),
        banded("of rows that are not fitted, the band holds the published change", &mut { inside }),
        banded(&format!("bands of jobs are at most {WIDTH} points wide"), &mut { narrow }),
        alone(variants),
        apart(variants),
    ]
}

fn few(crossover: &[Crossover]) -> Check {
    let name = format!("with up to {IS_FEW} CPUs a taking of the lock is shorter beside the lists");
    let Some(theirs) = crossover.first() else { return Check::unseen(&name, "not run") };
    let gains = &theirs.taking_gain_percent;
    let words: Vec<String> = gains.iter().map(|(cpus, gain)| format!("{cpus}: {gain:+.1} %")).collect();
    let is_shorter = gains.iter().any(|&(cpus, gain)| cpus <= IS_FEW && gain > 0.0);
    Check::seen(&name, is_shorter, format!("by number of CPUs, {}", words.join(", ")))
}

/// The cure that was thought of and not taken.
fn alone(variants: &[VariantRow]) -> Check {
    let name = format!("on lines of its own the lock is as good as behind the lists, to {CURED} %");
    let Some(alone) = find(variants, LOCKS[0].name(), PLACES[2]) else { return Check::unseen(&name, "not run") };
    Check::seen(&name, alone.change_percent >= -CURED, format!("{:+.1} %", alone.change_percent))
}

/// The cure that came later.
fn apart(variants: &[VariantRow]) -> Check {
    let name = "a queued lock, whose waiters wait apart, loses a quarter as much beside the lists, or less";
    let at = |lock: ZoneLock, place| Some(find(variants, lock.name(), place)?.performance);
    let loss = |lock| Some(1.0 - at(lock, PLACES[0])? / at(lock, PLACES[1])?);
    let Some((theirs, apart)) = loss(LOCKS[0]).zip(loss(LOCKS[1])) else { return Check::unseen(name, "not run") };
    Check::seen(name, apart <= theirs * LEFT, format!("{:.1} % against {:.1} %", apart * 100.0, theirs * 100.0))
}
