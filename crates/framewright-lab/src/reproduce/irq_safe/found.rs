//! Theirs and ours as data, and what has to hold before one may say that the tables were reproduced.

use anyhow::Context;
use framewright_bench::time_bench::{Primitive as Part, ProtectionPair};
use framewright_sim::report::Report;
use serde::Serialize;

use super::plan::{AIM9, BATCHES, ITERATIONS, LOST, MODES, Mode, NAME, Native, PAIR_SET, Plan, RESTATED, lost, mbit};
use super::published::{self, Both, Operation, Published, Statistic, Test};
use crate::reproduce::check::Check;
use crate::reproduce::fitted::{self, Fitted, at_most, is_row};
use crate::reproduce::head::Head;
use crate::reproduce::plan::{Runs, TABLE};
use crate::reproduce::runs;
use crate::reproduce::variation::{Band, Varied};
use crate::reproduce::why;
use crate::sim::figures::change_percent;

/// Percent by which a saving may be off.
pub(super) const SAVING: f64 = 20.0;
/// Percent of the savings that have to be within that.
const SHARE: f64 = 80.0;
/// The smallest batch that counts: of one page, most is the loop around it.
const LEAST: u32 = 2;
/// Cycles by which the pair's saving may be off.
const PAIR: f64 = 5.0;
/// Percent that a test of aim9 may gain: least and most.
const GAINS: [(Test, [f64; 2]); 2] = [(Test::PageTest, [1.0, 5.0]), (Test::BrkTest, [0.0, 2.0])];
/// Percent of the packets that the change may lose.
const LOSS: [f64; 2] = [15.0, 27.0];
/// Percent that the other modes may lose at most.
const LITTLE: f64 = 2.0;

/// Theirs and ours.
#[derive(Clone, Serialize, Debug)]
pub struct Found {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) desktop: String,
    /// Numbers of the machine that were fitted to these tables, and others that restate rows.
    pub(super) fitted: Vec<Fitted>,
    pub(super) rows: Vec<Row>,
    /// What is not in that table: the batches in the other modes.
    pub(super) beside: Vec<Beside>,
    pub(super) page_bench02: PageBench02,
    /// Parts of a pair, theirs beside what was measured here.
    pub(super) time_bench: Vec<Primitive>,
    pub(super) aim9: Vec<Aim9>,
    pub(super) softirq: Vec<Softirq>,
    /// What was varied for the band of the packets.
    pub(super) varied: Option<Varied>,
    /// What had to hold.
    pub checks: Vec<Check>,
    #[serde(skip)]
    pub(super) runs: Vec<(&'static str, Report)>,
}

/// A batch: cycles a page.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    pub(super) operation: Operation,
    pub(super) batch: u32,
    /// As printed.
    pub(super) published: Both,
    /// Over as many pages as there were.
    pub(super) corrected: Both,
    pub(super) simulated: Both,
    pub(super) fitted: bool,
}

impl Row {
    /// By how much our saving is off theirs, in percent.
    pub fn off_percent(&self) -> f64 {
        change_percent(self.corrected.saving(), self.simulated.saving())
    }

    /// As a machine's file names it.
    pub fn name(&self) -> String {
        self.operation.row(self.batch)
    }
}

/// A batch in another mode: cycles a page.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Beside {
    pub(super) mode: &'static str,
    pub(super) batch: u32,
    pub(super) alloc: f64,
    pub(super) free: f64,
}

/// A pair: cycles.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct PageBench02 {
    pub(super) published: Both,
    pub(super) simulated: Both,
    /// By each mode.
    pub(super) modes: Vec<(&'static str, f64)>,
    /// Measured here, by each mode.
    pub(super) native: Vec<ProtectionPair>,
}

/// A part of a pair.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Primitive {
    /// Theirs; none for what they did not measure.
    pub(super) published: Option<published::Primitive>,
    /// What was measured here; none for what there is not in user space.
    pub(super) native: Option<Part>,
}

/// A statistic of a test of aim9.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Aim9 {
    pub(super) test: Test,
    pub(super) statistic: Statistic,
    pub(super) published: Both,
    /// By how much the change is better, theirs.
    pub(super) published_gain_percent: f64,
    pub(super) simulated: Both,
    /// By how much the change is better, ours.
    pub(super) simulated_gain_percent: f64,
    /// Whether what is simulated before the change restates theirs.
    pub(super) fitted: bool,
}

/// Throughput of packets in a mode.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Softirq {
    pub(super) mode: &'static str,
    pub(super) mechanisms: &'static str,
    /// Megabits a second, theirs; none if nobody published that.
    pub(super) published_mbit: Option<f64>,
    /// Against interrupts held off, in percent, theirs.
    pub(super) published_change_percent: Option<f64>,
    /// Megabits a second, ours.
    pub(super) simulated_mbit: f64,
    /// Against interrupts held off, in percent, ours.
    pub(super) change_percent: f64,
    /// The least and the most that the change becomes with each number of the machine a tenth smaller and larger.
    pub(super) band: Option<Band>,
    /// Whether its throughput restates theirs.
    pub(super) fitted: bool,
    pub(super) why: String,
}

impl Found {
    /// From what was published, what was run and what was measured here. `command` says how it is made again.
    ///
    /// # Errors
    /// A run is missing, or has not measured what it should have.
    pub fn new(plan: &Plan<'_>, (runs, native): (&Runs, &Native), command: &str) -> anyhow::Result<Self> {
        let published = plan.published;
        let of_machine = fitted::to(NAME, plan.machine);
        let fitted: Vec<Fitted> = of_machine.iter().cloned().chain(fitted::restated(&RESTATED)).collect();
        let (rows, beside) = batches(plan, runs, &fitted)?;
        let mut found = Self {
            head: Head::new(NAME, command, [&published.title, &published.source], (plan.machine, plan.seed)),
            desktop: plan.desktop.name.clone(),
            rows,
            beside,
            page_bench02: page_bench02(plan, runs, native)?,
            time_bench: time_bench(published, native),
            aim9: aim9(published, runs, &fitted),
            softirq: softirq(published, runs, &fitted)?,
            fitted,
            varied: runs.variations.as_ref().map(|variations| variations.varied.clone()),
            checks: Vec::new(),
            runs: MODES.iter().zip(runs.of(TABLE)).map(|(mode, (_, run))| (mode.name, run.report.clone())).collect(),
        };
        found.checks = checks(&found, &of_machine);
        Ok(found)
    }
}

/// Reports of a set, by each mode.
fn by_mode<'r>(runs: &'r Runs, set: &str) -> impl Iterator<Item = [&'r Report; 4]> {
    let modes = runs.of(set).as_chunks::<4>().0;
    modes.iter().map(|modes| modes.each_ref().map(|(_, outcome)| &outcome.report))
}

fn batches(plan: &Plan<'_>, runs: &Runs, fitted: &[Fitted]) -> anyhow::Result<(Vec<Row>, Vec<Beside>)> {
    let timed = |(batch, reports): (u32, [&Report; 4])| {
        let of = |(mode, report): (&Mode, &Report)| {
            plan.cycles(report).with_context(|| format!("batch {batch}, {}: not timed", mode.name))
        };
        anyhow::Ok((batch, MODES.iter().zip(reports).map(of).collect::<anyhow::Result<Vec<_>>>()?))
    };
    let batches = plan.published.batches().into_iter().zip(by_mode(runs, BATCHES));
    let batches = batches.map(timed).collect::<anyhow::Result<Vec<_>>>()?;
    let row = |row: &published::Row| {
        let name = row.operation.row(row.batch);
        let (_, cycles) =
            batches.iter().find(|(batch, _)| *batch == row.batch).with_context(|| format!("{name}: not run"))?;
        Ok(Row {
            operation: row.operation,
            batch: row.batch,
            published: row.printed,
            corrected: row.corrected(),
            simulated: Both { vanilla: row.operation.of(cycles[0]), irqsafe: row.operation.of(cycles[1]) },
            fitted: is_row(fitted, &name),
        })
    };
    let beside = batches.iter().flat_map(|(batch, cycles)| {
        let others = MODES.iter().zip(cycles).skip(2);
        others.map(|(mode, &[alloc, free])| Beside { mode: mode.name, batch: *batch, alloc, free })
    });
    Ok((plan.published.rows.iter().map(row).collect::<anyhow::Result<_>>()?, beside.collect()))
}

fn page_bench02(plan: &Plan<'_>, runs: &Runs, native: &Native) -> anyhow::Result<PageBench02> {
    let pair = by_mode(runs, PAIR_SET).next().context("the pair was not run")?;
    let cycles = pair.map(|report| runs::cycles(plan.desktop, report));
    Ok(PageBench02 {
        published: plan.published.page_bench02,
        simulated: Both { vanilla: cycles[0], irqsafe: cycles[1] },
        modes: MODES.iter().map(|mode| mode.name).zip(cycles).collect(),
        native: native.pairs.clone(),
    })
}

/// Theirs, each with what corresponds to it here; then what is measured here alone.
fn time_bench(published: &Published, native: &Native) -> Vec<Primitive> {
    let mut all = Vec::new();
    for theirs in &published.time_bench {
        let here: Vec<_> =
            native.time_bench.iter().filter(|row| row.published_name == Some(theirs.name.as_str())).collect();
        if here.is_empty() {
            all.push(Primitive { published: Some(theirs.clone()), native: None });
        }
        all.extend(
            here.into_iter().map(|row| Primitive { published: Some(theirs.clone()), native: Some(row.clone()) }),
        );
    }
    let own = native.time_bench.iter().filter(|row| row.published_name.is_none());
    all.extend(own.map(|row| Primitive { published: None, native: Some(row.clone()) }));
    all
}

fn aim9(published: &Published, runs: &Runs, fitted: &[Fitted]) -> Vec<Aim9> {
    let row = |&published::Aim9 { test, statistic, value }: &published::Aim9| {
        let iterations = || by_mode(runs, AIM9).skip(test as usize * ITERATIONS as usize).take(ITERATIONS as usize);
        let of = |mode: usize| statistic.of(&iterations().map(|modes| modes[mode].per_second).collect::<Vec<_>>());
        let [vanilla, irqsafe] = [0, 1].map(of);
        let simulated = Both { vanilla, irqsafe };
        Aim9 {
            test,
            statistic,
            published: value,
            published_gain_percent: statistic.gain_percent(value),
            simulated,
            simulated_gain_percent: statistic.gain_percent(simulated),
            fitted: is_row(fitted, &test.row(statistic)),
        }
    };
    published.aim9.iter().map(row).collect()
}

fn softirq(published: &Published, runs: &Runs, fitted: &[Fitted]) -> anyhow::Result<Vec<Softirq>> {
    let packets = by_mode(runs, TABLE).next().context("the packets were not run")?;
    let before = published.kernel(MODES[0].name);
    let row = |(number, mode): (usize, &Mode)| {
        let (report, theirs) = (packets[number], published.kernel(mode.name));
        Softirq {
            mode: mode.name,
            mechanisms: mode.mechanisms,
            published_mbit: theirs.map(|row| row.mbit),
            published_change_percent: before.zip(theirs).map(|(one, other)| change_percent(one.mbit, other.mbit)),
            simulated_mbit: mbit(report),
            change_percent: lost(packets[0], report),
            band: (number == 1).then(|| runs.band(LOST)).flatten(),
            fitted: theirs.is_some_and(|row| is_row(fitted, &row.kernel)),
            why: why::sentence(report),
        }
    };
    Ok(MODES.iter().enumerate().map(row).collect())
}

fn checks(found: &Found, fitted: &[Fitted]) -> Vec<Check> {
    let mut all = vec![
        at_most(2, "at most two numbers of the machine fitted, each to one row", fitted),
        savings(&found.rows),
        pair(found),
    ];
    all.extend(GAINS.map(|(test, band)| gain(found, test, band)));
    all.push(loss(found));
    all.extend(MODES[2..].iter().map(|mode| little(found, mode.name)));
    all
}

/// Whether our saving is near enough; none for a row that predicts nothing.
pub(super) fn is_near(row: &Row) -> Option<bool> {
    (row.batch >= LEAST && !row.fitted).then(|| row.off_percent().abs() <= SAVING)
}

fn savings(rows: &[Row]) -> Check {
    let counted: Vec<(&Row, bool)> = rows.iter().filter_map(|row| Some((row, is_near(row)?))).collect();
    let near = counted.iter().filter(|(_, near)| *near).count();
    let off = counted.iter().filter(|(_, near)| !near);
    let off: Vec<String> = off.map(|(row, _)| format!("{} {:+.0} %", row.name(), row.off_percent())).collect();
    let share = near as f64 * 100.0 / counted.len().max(1) as f64;
    let outliers = if off.is_empty() { String::new() } else { format!("; not {}", off.join(", ")) };
    Check::seen(
        &format!("{SHARE} % of the savings from a batch of {LEAST} on within {SAVING} %"),
        share >= SHARE,
        format!("{near} of {}{outliers}", counted.len()),
    )
}

/// Whether the pair's saving is near enough.
pub(super) fn is_pair(pair: &PageBench02) -> bool {
    (pair.simulated.saving() - pair.published.saving()).abs() <= PAIR
}

/// Whether a test of aim9 gains as much as it has to; none of what is not judged.
pub(super) fn is_gain(row: &Aim9) -> Option<bool> {
    let (_, [least, most]) = GAINS.into_iter().find(|(test, _)| *test == row.test)?;
    // Where nothing is allocated nothing is gained: a rounding below zero is none.
    Some(row.simulated_gain_percent >= least - 0.005 && row.simulated_gain_percent <= most)
}

/// Whether packets lose as much as they have to.
pub(super) fn is_loss(row: &Softirq) -> bool {
    (LOSS[0]..=LOSS[1]).contains(&-row.change_percent)
}

fn pair(found: &Found) -> Check {
    let [theirs, ours] = [found.page_bench02.published, found.page_bench02.simulated].map(|both| both.saving());
    Check::seen(
        &format!("page_bench02: saving within {PAIR} cycles"),
        is_pair(&found.page_bench02),
        format!("{ours:.1}, published {theirs:.0}"),
    )
}

fn gain(found: &Found, test: Test, [least, most]: [f64; 2]) -> Check {
    let name = format!("{}: gains {least} to {most} %", test.name());
    let row = found.aim9.iter().find(|row| row.test == test && row.statistic == Statistic::Hmean);
    let Some(row) = row else { return Check::unseen(&name, "not in the table") };
    let gain = row.simulated_gain_percent;
    let detail = format!("{gain:+.2} %, published {:+.2} %", row.published_gain_percent);
    Check::seen(&name, is_gain(row) == Some(true), detail)
}

fn loss(found: &Found) -> Check {
    let [least, most] = LOSS;
    let name = format!("packets: {} loses {least} to {most} %", MODES[1].name);
    let Some(row) = found.softirq.iter().find(|row| row.mode == MODES[1].name) else {
        return Check::unseen(&name, "not run");
    };
    let published = row.published_change_percent.map_or(String::new(), |change| format!(", published {change:+.1} %"));
    Check::seen(&name, is_loss(row), format!("{:+.1} %{published}", row.change_percent))
}

fn little(found: &Found, mode: &str) -> Check {
    let name = format!("packets: {mode} loses less than {LITTLE} %");
    let Some(row) = found.softirq.iter().find(|row| row.mode == mode) else { return Check::unseen(&name, "not run") };
    Check::seen(&name, row.change_percent > -LITTLE, format!("{:+.1} %", row.change_percent))
}
