//! Theirs and ours, as data.

use framewright::Order;
use framewright::report::unusable_index;
use framewright_sim::report::Report;
use framewright_sim::workload::aftermath::FreeBlocks;
use framewright_sim::workload::{Aftermath, Outcome};
use serde::Serialize;

use super::judge;
use super::others::{self, Elsewhere, MixRow};
use super::plan::{Lengths, Plan, Runs, Sample, Scale, Variations};
use super::published::{LruRow, ORDERS, Published};
use crate::reproduce::check::Check;
use crate::reproduce::fitted::{self, Fitted, is_row};
use crate::reproduce::head::Head;
use crate::reproduce::variation::{Band, Varied};
use crate::reproduce::why::{self, LRU, ZONE, hold_p999, waiting};
use crate::sim::figures::change_percent;

/// Name of the experiment, and of the table that machines' numbers are fitted to.
pub const NAME: &str = "zone-lock";
/// The order whose requests fragmentation is measured by.
pub const ORDER: Order = Order(5);

/// See the module's description.
#[derive(Clone, Serialize, Debug)]
pub struct Reproduction {
    /// Which experiment it is, and how it is made again.
    #[serde(flatten)]
    pub head: Head,
    /// CPUs.
    pub cpus: usize,
    /// How much memory there was.
    pub scale: Scale,
    /// How long runs were.
    pub passes: Lengths,
    /// Numbers of the machine that were fitted to this table.
    pub fitted: Vec<Fitted>,
    /// Kernels.
    pub rows: Vec<Row>,
    /// Kernels with pages on LRU lists.
    pub with_lru: Vec<WithLru>,
    /// Small and huge pages at once, under every preset.
    pub mix: Vec<MixRow>,
    /// Other workloads, under every preset.
    pub other_workloads: Vec<Elsewhere>,
    /// Operations a second by number of CPUs, if that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// What was varied for the bands.
    pub varied: Option<Varied>,
    /// What had to hold.
    pub checks: Vec<Check>,
}

/// A kernel.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Row {
    /// Name of the kernel and of the preset.
    pub name: String,
    /// Theirs; none if nothing was published.
    pub published: Option<Theirs>,
    /// Ours; none if there is no such preset.
    pub simulated: Option<Ours>,
    /// Whether a number of the machine was fitted to this row.
    pub fitted: bool,
}

/// What was measured of a kernel, by them or by us.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Figures {
    /// Faults per second.
    pub performance: f64,
    /// Against the first row, in percent; none if that has not been run.
    pub change_percent: Option<f64>,
    /// Share of CPU time spent waiting for the zone lock, in percent.
    pub zone_lock_contention_percent: f64,
    /// Share of CPU time inside of concurrent list operations, in percent; none if it was not told.
    pub smp_list_add_percent: Option<f64>,
}

/// Theirs.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Theirs {
    /// What was measured.
    #[serde(flatten)]
    pub figures: Figures,
    /// Free blocks by order that were left in both zones Normal, where that was published.
    pub buddyinfo: Option<[u64; ORDERS]>,
    /// Of that, the share of free memory in blocks too small for a request of order 5: 0 to 1.
    pub unusable_index_order5: Option<f64>,
}

/// Ours.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Ours {
    /// What was measured.
    #[serde(flatten)]
    pub figures: Figures,
    /// The mechanisms, as a list of switches.
    pub mechanisms: String,
    /// How much the figures move with the machine's numbers, if that was asked for.
    pub band: Option<Bands>,
    /// 999 of 1000 times the zone lock was held no longer, in nanoseconds.
    pub hold_p999_ns: f64,
    /// Free blocks by order that were left, by zone.
    pub buddyinfo: Vec<FreeBlocks>,
    /// Of those in both zones, the share of free memory in blocks too small for a request of order 5: 0 to 1.
    pub unusable_index_order5: f64,
    /// After per-CPU lists and depots were drained.
    pub drained: Drained,
    /// What limits the kernel, in a sentence.
    pub why: String,
    /// The run.
    #[serde(skip)]
    pub report: Report,
}

/// What is left when nothing is kept on the side.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Drained {
    /// As in [`Ours`].
    pub unusable_index_order5: f64,
    /// Pairs of free buddies that could be one block and are not.
    pub mergeable_pairs: u64,
}

/// The least and the most that figures become with each number of the machine a tenth smaller and larger.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Bands {
    /// Of the change against the first row.
    pub change_percent: Band,
    /// Of the share of time spent waiting for the zone lock.
    pub zone_lock_contention_percent: Band,
    /// Of the share of time inside of concurrent list operations.
    pub smp_list_add_percent: Band,
}

/// A kernel with pages on LRU lists.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct WithLru {
    /// Name of the kernel.
    pub name: String,
    /// Theirs.
    pub published: LruRow,
    /// Ours; none if there is no such preset.
    pub simulated: Option<LruRow>,
    /// Ours, with LRU lists that many CPUs change at once, by the same `smp_list` as free lists.
    pub smp_list: Option<LruRow>,
}

/// A kernel's operations a second by number of CPUs.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Curve {
    /// Name of the kernel.
    pub name: String,
    /// Numbers of CPUs and operations per second.
    pub points: Vec<(usize, f64)>,
}

impl Reproduction {
    /// From what was published and what was run. `command` says how it is made again.
    pub fn new(published: &Published, plan: &Plan<'_>, runs: &Runs, command: &str) -> Self {
        let fitted = fitted::to(NAME, plan.machine);
        let row = |number| row(published, (plan, &fitted), runs, number);
        let rows: Vec<Row> = (0..plan.kernels.len()).map(row).collect();
        let (mix, other_workloads) = (others::mix(published, plan, runs), others::elsewhere(plan, runs));
        let mut checks = judge::checks(&rows, &fitted);
        checks.extend(judge::elsewhere(&mix, plan.lengths.mix, &other_workloads));
        Self {
            head: Head::new(NAME, command, [&published.title, &published.source], (plan.machine, plan.seed)),
            cpus: plan.cpus,
            scale: plan.scale,
            passes: plan.lengths,
            fitted,
            with_lru: with_lru(published, plan, runs),
            mix,
            other_workloads,
            curves: curves(plan, runs),
            varied: runs.variations.as_ref().map(|variations| variations.varied.clone()),
            rows,
            checks,
        }
    }

    /// The row of a name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}

fn row(published: &Published, (plan, fitted): (&Plan<'_>, &[Fitted]), runs: &Runs, number: usize) -> Row {
    let name = &plan.kernels[number].name;
    let first = runs.table.first().and_then(Option::as_ref).map(|outcome| outcome.report.per_second);
    let theirs = published.row(name).map(|row| {
        let buddyinfo = published.free_blocks(name);
        Theirs {
            figures: Figures {
                performance: row.performance,
                change_percent: Some(row.change_percent),
                zone_lock_contention_percent: row.zone_lock_contention_percent,
                smp_list_add_percent: row.smp_list_add_percent,
            },
            unusable_index_order5: buddyinfo.map(|blocks| index(&blocks)),
            buddyinfo,
        }
    });
    let simulated = runs.table[number].as_ref().map(|outcome| {
        let mechanisms = plan.kernels[number].mechanisms.map_or(String::new(), |mechanisms| mechanisms.to_string());
        ours(outcome, first, mechanisms, |base| bands(runs.variations.as_ref()?, base, number))
    });
    Row { name: name.clone(), published: theirs, simulated, fitted: is_row(fitted, name) }
}

fn ours(
    outcome: &Outcome,
    first: Option<f64>,
    mechanisms: String,
    bands: impl Fn((Option<f64>, Sample)) -> Option<Bands>,
) -> Ours {
    let report = &outcome.report;
    let sample = Sample::of(report);
    let change_percent = first.map(|first| change_percent(first, sample.per_second));
    let nothing = Aftermath { left: Vec::new(), drained: Vec::new(), mergeable: 0 };
    let Aftermath { left, drained, mergeable } = outcome.aftermath.clone().unwrap_or(nothing);
    Ours {
        figures: Figures {
            performance: sample.per_second,
            change_percent,
            zone_lock_contention_percent: sample.zone_lock,
            smp_list_add_percent: Some(sample.list_add),
        },
        mechanisms,
        band: bands((change_percent, sample)),
        hold_p999_ns: hold_p999(report),
        unusable_index_order5: index(&total(&left)),
        buddyinfo: left,
        drained: Drained { unusable_index_order5: index(&total(&drained)), mergeable_pairs: mergeable },
        why: why::sentence(report),
        report: report.clone(),
    }
}

/// Blocks of all zones.
pub(crate) fn total(zones: &[FreeBlocks]) -> [u64; ORDERS] {
    zones.iter().fold([0; ORDERS], |mut sum, zone| {
        sum.iter_mut().zip(&zone.blocks).for_each(|(sum, blocks)| *sum += blocks);
        sum
    })
}

/// Share of free memory in blocks too small for a request of order 5.
fn index(blocks: &[u64; ORDERS]) -> f64 {
    f64::from(unusable_index(blocks, ORDER)) / 1000.0
}

/// How a row's figures move.
fn bands(variations: &Variations, (base, sample): (Option<f64>, Sample), number: usize) -> Option<Bands> {
    let changed = |samples: &Vec<Option<Sample>>| {
        let (first, this) = (samples.first().copied().flatten()?, samples[number]?);
        Some(change_percent(first.per_second, this.per_second))
    };
    let share =
        |base, of: fn(Sample) -> f64| variations.band(base, |samples| samples[number].map(of)).map(Band::of_a_share);
    Some(Bands {
        change_percent: variations.band(base?, changed)?,
        zone_lock_contention_percent: share(sample.zone_lock, |sample| sample.zone_lock)?,
        smp_list_add_percent: share(sample.list_add, |sample| sample.list_add)?,
    })
}

fn with_lru(published: &Published, plan: &Plan<'_>, runs: &Runs) -> Vec<WithLru> {
    fn report<'r>(plan: &Plan<'_>, runs: &'r [Option<Report>], name: &str) -> Option<&'r Report> {
        let number = plan.kernels.iter().position(|kernel| kernel.name == name)?;
        runs.get(number)?.as_ref()
    }
    let first = published.lru.first().and_then(|row| report(plan, &runs.with_lru, &row.name));
    let first = first.map(|report| report.per_second);
    let of = |row: &LruRow| {
        let ours = |runs: &[Option<Report>]| {
            report(plan, runs, &row.name).map(|report| LruRow {
                name: row.name.clone(),
                change_percent: first.map_or(f64::NAN, |first| change_percent(first, report.per_second)),
                zone_lock_contention_percent: waiting(report, ZONE),
                lru_lock_contention_percent: waiting(report, LRU),
            })
        };
        let (simulated, smp_list) = (ours(&runs.with_lru), ours(&runs.with_smp_lru));
        WithLru { name: row.name.clone(), published: row.clone(), simulated, smp_list }
    };
    published.lru.iter().filter(|row| plan.with_lru.contains(&row.name)).map(of).collect()
}

/// The curves, with the table's own runs in their place.
fn curves(plan: &Plan<'_>, runs: &Runs) -> Vec<Curve> {
    if plan.curve.is_empty() {
        return Vec::new();
    }
    let of = |(number, outcome): (usize, &Option<Outcome>)| {
        let mut points = runs.curves[number].clone();
        points.push((plan.cpus, outcome.as_ref()?.report.per_second));
        points.sort_by_key(|&(cpus, _)| cpus);
        Some(Curve { name: plan.kernels[number].name.clone(), points })
    };
    runs.table.iter().enumerate().filter_map(of).collect()
}
