//! Theirs and ours, as data.

use anyhow::Context;
use framewright_sim::report::Report;
use serde::Serialize;

use super::judge;
use super::plan::{MODES, Mode, Native, Plan, RESTATED, Runs, lost, mbit};
use super::published::{self, Both, Operation, Published, Statistic, Test};
use crate::reproduce::check::Check;
use crate::reproduce::fitted::{self, Fitted, is_row};
use crate::reproduce::head::Head;
use crate::reproduce::runs;
use crate::reproduce::variation::{Band, Varied};
use crate::reproduce::why;
use crate::sim::figures::change_percent;

/// Name of the experiment, and of the table that machines' numbers are fitted to.
pub const NAME: &str = "irq-safe";

/// See the module's description.
#[derive(Clone, Serialize, Debug)]
pub struct Reproduction {
    /// Which experiment it is, and how it is made again.
    #[serde(flatten)]
    pub head: Head,
    /// The machine of the pair.
    pub desktop: String,
    /// Numbers of the machine that were fitted to these tables, and others that restate rows.
    pub fitted: Vec<Fitted>,
    /// Batches.
    pub rows: Vec<Row>,
    /// What is not in that table: the batches in the other modes.
    pub beside: Vec<Beside>,
    /// The pair.
    pub page_bench02: PageBench02,
    /// Parts of a pair, theirs beside what was measured here.
    pub time_bench: Vec<Primitive>,
    /// Tests of aim9.
    pub aim9: Vec<Aim9>,
    /// Packets.
    pub softirq: Vec<Softirq>,
    /// What was varied for the band of the packets.
    pub varied: Option<Varied>,
    /// What had to hold.
    pub checks: Vec<Check>,
    /// The packets' runs.
    #[serde(skip)]
    pub runs: Vec<(String, Report)>,
}

/// A batch: cycles a page.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// What is done.
    pub operation: Operation,
    /// Pages.
    pub batch: u32,
    /// As printed.
    pub published: Both,
    /// Over as many pages as there were.
    pub corrected: Both,
    /// Ours.
    pub simulated: Both,
    /// Whether a number was fitted to this row.
    pub fitted: bool,
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
    /// The mode.
    pub mode: &'static str,
    /// Pages.
    pub batch: u32,
    /// To allocate one.
    pub alloc: f64,
    /// To free one.
    pub free: f64,
}

/// A pair: cycles.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct PageBench02 {
    /// Theirs.
    pub published: Both,
    /// Ours.
    pub simulated: Both,
    /// By each mode.
    pub modes: Vec<(&'static str, f64)>,
    /// Measured here, by each mode.
    pub native: Vec<framewright_bench::time_bench::ProtectionPair>,
}

/// A part of a pair.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Primitive {
    /// Theirs; none for what they did not measure.
    pub published: Option<published::Primitive>,
    /// What was measured here; none for what there is not in user space.
    pub native: Option<framewright_bench::time_bench::Primitive>,
}

/// A statistic of a test of aim9.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Aim9 {
    /// The test.
    pub test: Test,
    /// Which.
    pub statistic: Statistic,
    /// Theirs.
    pub published: Both,
    /// By how much the change is better, theirs.
    pub published_gain_percent: f64,
    /// Ours.
    pub simulated: Both,
    /// By how much the change is better, ours.
    pub simulated_gain_percent: f64,
    /// Whether what is simulated before the change restates theirs.
    pub fitted: bool,
}

/// Throughput of packets in a mode.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Softirq {
    /// The mode.
    pub mode: &'static str,
    /// The mechanisms.
    pub mechanisms: &'static str,
    /// Megabits a second, theirs; none if nobody published that.
    pub published_mbit: Option<f64>,
    /// Against interrupts held off, in percent, theirs.
    pub published_change_percent: Option<f64>,
    /// Megabits a second, ours.
    pub simulated_mbit: f64,
    /// Against interrupts held off, in percent, ours.
    pub change_percent: f64,
    /// The least and the most that the change becomes with each number of the machine a tenth smaller and larger.
    pub band: Option<Band>,
    /// Whether its throughput restates theirs.
    pub fitted: bool,
    /// What limits it, in a sentence.
    pub why: String,
}

impl Reproduction {
    /// From what was published and what was run. `command` says how it is made again.
    ///
    /// # Errors
    /// A run has not measured what it should have.
    pub fn new(plan: &Plan<'_>, runs: &Runs, command: &str) -> anyhow::Result<Self> {
        let published = plan.published;
        let of_machine = fitted::to(NAME, plan.machine);
        let all: Vec<Fitted> = of_machine.iter().cloned().chain(fitted::restated(&RESTATED)).collect();
        let (rows, beside) = batches(plan, runs, &all)?;
        let mut found = Self {
            head: Head::new(NAME, command, [&published.title, &published.source], (plan.machine, plan.seed)),
            desktop: plan.desktop.name.clone(),
            rows,
            beside,
            page_bench02: page_bench02(plan, runs),
            time_bench: time_bench(published, &runs.native),
            aim9: aim9(published, runs, &all),
            softirq: softirq(published, runs, &all),
            fitted: all,
            varied: runs.variations.as_ref().map(|variations| variations.varied.clone()),
            checks: Vec::new(),
            runs: MODES.iter().zip(&runs.packets).map(|(mode, run)| (mode.name.to_owned(), run.clone())).collect(),
        };
        found.checks = judge::checks(&found, &of_machine);
        Ok(found)
    }

    /// Why each mode's throughput is what it is.
    pub fn reasons(&self) -> impl Iterator<Item = (&str, &str)> {
        self.softirq.iter().map(|row| (row.mode, row.why.as_str()))
    }
}

fn batches(plan: &Plan<'_>, runs: &Runs, fitted: &[Fitted]) -> anyhow::Result<(Vec<Row>, Vec<Beside>)> {
    let timed = |(batch, reports): (u32, &[Report; 4])| {
        let of = |(mode, report): (&Mode, &Report)| {
            plan.cycles(report).with_context(|| format!("batch {batch}, {}: not timed", mode.name))
        };
        anyhow::Ok((batch, MODES.iter().zip(reports).map(of).collect::<anyhow::Result<Vec<_>>>()?))
    };
    let batches = plan.published.batches().into_iter().zip(&runs.batches);
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

fn page_bench02(plan: &Plan<'_>, runs: &Runs) -> PageBench02 {
    let cycles = runs.pair.each_ref().map(|report| runs::cycles(plan.desktop, report));
    PageBench02 {
        published: plan.published.page_bench02,
        simulated: Both { vanilla: cycles[0], irqsafe: cycles[1] },
        modes: MODES.iter().map(|mode| mode.name).zip(cycles).collect(),
        native: runs.native.pairs.clone(),
    }
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
        let of =
            |reports: &Vec<Report>| statistic.of(&reports.iter().map(|report| report.per_second).collect::<Vec<_>>());
        let [vanilla, irqsafe, ..] = runs.aim9[test as usize].each_ref().map(of);
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

fn softirq(published: &Published, runs: &Runs, fitted: &[Fitted]) -> Vec<Softirq> {
    let first = &runs.packets[0];
    let before = published.kernel(MODES[0].name);
    let row = |(number, mode): (usize, &Mode)| {
        let (report, theirs) = (&runs.packets[number], published.kernel(mode.name));
        let change = lost(first, report);
        let varied = runs.variations.as_ref().filter(|_| number == 1);
        Softirq {
            mode: mode.name,
            mechanisms: mode.mechanisms,
            published_mbit: theirs.map(|row| row.mbit),
            published_change_percent: before.zip(theirs).map(|(one, other)| change_percent(one.mbit, other.mbit)),
            simulated_mbit: mbit(report),
            change_percent: change,
            band: varied.and_then(|variations| variations.band(change, |&sample| Some(sample))),
            fitted: theirs.is_some_and(|row| is_row(fitted, &row.kernel)),
            why: why::sentence(report),
        }
    };
    MODES.iter().enumerate().map(row).collect()
}
