//! Theirs and ours, as data.

use framewright_sim::report::Report;
use serde::Serialize;

use super::judge;
use super::plan::{BESIDE, Plan, RESTATED, Runs};
use super::published::Figures;
use crate::reproduce::check::Check;
use crate::reproduce::fitted::{self, Fitted, is_row};
use crate::reproduce::head::Head;
use crate::reproduce::variation::{Band, Varied};
use crate::reproduce::why;
use crate::sim::figures::change_percent;

/// Name of the experiment, and of the table that machines' numbers are fitted to.
pub const NAME: &str = "numa-stats";

/// See the module's description.
#[derive(Clone, Serialize, Debug)]
pub struct Reproduction {
    /// Which experiment it is, and how it is made again.
    #[serde(flatten)]
    pub head: Head,
    /// CPUs.
    pub cpus: usize,
    /// Numbers of the machine that were fitted to this table, and others that restate rows.
    pub fitted: Vec<Fitted>,
    /// Thresholds.
    pub rows: Vec<Row>,
    /// Throughput of all patches against the system default, in percent: 65533 against 125.
    pub gain_percent: Pair,
    /// What the table does not have.
    pub beside: Vec<Beside>,
    /// What was varied for the bands.
    pub varied: Option<Varied>,
    /// What had to hold.
    pub checks: Vec<Check>,
}

/// Theirs and ours.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Pair {
    /// Theirs.
    pub published: f64,
    /// Ours.
    pub simulated: f64,
}

/// A threshold.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// Events that a CPU keeps at most, or `disabled`.
    pub threshold: String,
    /// Theirs.
    pub published: Figures,
    /// Ours.
    pub simulated: Figures,
    /// Whether a number was fitted to this row.
    pub fitted: bool,
    /// The least and the most cycles with each number of the machine a tenth smaller and larger; none of rows that restate.
    pub band: Option<Band>,
    /// What limits it, in a sentence.
    pub why: String,
    /// The run.
    #[serde(skip)]
    pub report: Report,
}

/// A row that the table does not have.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Beside {
    /// The mechanisms.
    pub name: String,
    /// Ours.
    pub simulated: Figures,
    /// What limits it, in a sentence.
    pub why: String,
    /// The run.
    #[serde(skip)]
    pub report: Report,
}

impl Reproduction {
    /// From what was published and what was run. `command` says how it is made again.
    pub fn new(plan: &Plan<'_>, runs: &Runs, command: &str) -> Self {
        let published = plan.published;
        let of_machine = fitted::to(NAME, plan.machine);
        let all: Vec<Fitted> = of_machine.iter().cloned().chain(fitted::restated(&RESTATED)).collect();
        let rows: Vec<Row> = (0..published.rows.len()).map(|number| row(plan, runs, &all, number)).collect();
        let beside: Vec<Beside> = BESIDE.iter().zip(&runs.beside).map(|(name, run)| beside(plan, name, run)).collect();
        let gain_percent = gain(&rows);
        Self {
            head: Head::new(NAME, command, [&published.title, &published.source], (plan.machine, plan.seed)),
            cpus: published.cpus,
            checks: judge::checks(&rows, &of_machine, gain_percent, &beside),
            fitted: all,
            rows,
            gain_percent,
            beside,
            varied: runs.variations.as_ref().map(|variations| variations.varied.clone()),
        }
    }
}

fn row(plan: &Plan<'_>, runs: &Runs, fitted: &[Fitted], number: usize) -> Row {
    let (published, report) = (&plan.published.rows[number], &runs.table[number]);
    let simulated = plan.figures(report);
    let varied = runs.variations.as_ref();
    Row {
        threshold: published.threshold.clone(),
        published: published.figures,
        simulated,
        fitted: is_row(fitted, &published.threshold),
        band: varied.and_then(|variations| variations.band(simulated.cycles, |sample| sample[number])),
        why: why::sentence(report),
        report: report.clone(),
    }
}

fn beside(plan: &Plan<'_>, name: &str, report: &Report) -> Beside {
    Beside {
        name: name.to_owned(),
        simulated: plan.figures(report),
        why: why::sentence(report),
        report: report.clone(),
    }
}

/// What all patches gain.
fn gain(rows: &[Row]) -> Pair {
    let of = |threshold: &str, figures: fn(&Row) -> Figures| {
        rows.iter().find(|row| row.threshold == threshold).map_or(f64::NAN, |row| figures(row).throughput)
    };
    let gain = |figures: fn(&Row) -> Figures| change_percent(of("125", figures), of("65533", figures));
    Pair { published: gain(|row| row.published), simulated: gain(|row| row.simulated) }
}
