//! Theirs and ours as data; what has to hold before one may say that the table was reproduced, and what our own kernel has to reach.

use framewright::Order;
use framewright::report::unusable_index;
use framewright_sim::report::Report;
use framewright_sim::workload::aftermath::FreeBlocks;
use framewright_sim::workload::{Aftermath, LruLists, Outcome, Passes};
use serde::Serialize;

use super::others::{self, Elsewhere, MixRow, Parts};
use super::plan::{Figure, Kernel, Lengths, Load, NAME, OURS, Plan, STEADY, Scale};
use super::published::{LruRow, ORDERS};
use crate::reproduce::check::{self, Check, Standing, points, seen};
use crate::reproduce::fitted::{self, Fitted, is_row};
use crate::reproduce::head::Head;
use crate::reproduce::plan::Runs;
use crate::reproduce::variation::{Band, Varied};
use crate::reproduce::why::{self, LRU, ZONE, hold_p999, waiting};
use crate::sim::figures::{change_percent, duration, grouped, percent, share};

/// The order whose requests fragmentation is measured by.
const ORDER: Order = Order(5);
/// Rows whose published throughput is less apart, in percent, may come in any order.
const TIE: f64 = 2.0;
/// Points by which a change against the first row may be off.
pub(super) const CHANGE: f64 = 10.0;
/// Points by which a share of CPU time may be off, or else lie in a band that holds the published one.
pub(super) const SHARE: f64 = 15.0;
/// Numbers of the machine that may be fitted to the table, each to one row.
const FITTED: usize = 2;
/// Kernels that leave large blocks, and kernels that do not, by the published buddyinfo; and how many times less of the
/// free memory is of no use to a request of order 5.
const TIDY: [&str; 2] = ["patch7", "patch9"];
const UNTIDY: [&str; 2] = ["patch8", "no_merge"];
const TIDIER: f64 = 2.0;
/// What our kernel has to reach: this share of the throughput of the kernel that sees no lock, in percent.
const CEILING: (&str, f64) = ("no_merge+cluster_alloc", 99.0);
/// Percent of CPU time that may be spent waiting for the zone lock; the published one of the same kernel.
const WAITING: f64 = 0.73;
/// The kernel that leaves the largest blocks.
const TIDIEST: &str = "patch7";
/// Nanoseconds for which the zone lock may be held, 999 times of 1000.
const HOLD: f64 = 10_000.0;
/// Percent of the first kernel's pages that each half of the processes has to reach when one half has huge pages.
const PART: f64 = 98.0;

/// Theirs and ours.
#[derive(Clone, Serialize, Debug)]
pub struct Found {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) cpus: usize,
    pub(super) scale: Scale,
    pub(super) passes: Lengths,
    pub(super) fitted: Vec<Fitted>,
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
    pub(super) published: Option<Theirs>,
    /// Ours; none if there is no such preset.
    pub simulated: Option<Ours>,
    /// Whether a number of the machine was fitted to this row.
    pub(super) fitted: bool,
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
    pub(super) published: LruRow,
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

impl Found {
    /// From what was published and what was run. `command` says how it is made again.
    pub fn new(plan: &Plan<'_>, runs: &Runs, command: &str) -> Self {
        let (published, fitted) = (plan.published, fitted::to(NAME, plan.machine));
        let rows: Vec<Row> = plan.kernels.iter().map(|kernel| row(kernel, plan, runs, &fitted)).collect();
        let (mix, other_workloads) = (others::mix(plan, runs), others::elsewhere(plan, runs));
        let mut checks = checks(&rows, &fitted);
        checks.extend(elsewhere(&mix, plan.lengths.mix, &other_workloads));
        Self {
            head: Head::new(NAME, command, [&published.title, &published.source], (plan.machine, plan.seed)),
            cpus: plan.cpus,
            scale: plan.scale,
            passes: plan.lengths,
            fitted,
            with_lru: with_lru(plan, runs),
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

fn row(kernel: &Kernel, plan: &Plan<'_>, runs: &Runs, fitted: &[Fitted]) -> Row {
    let name = &kernel.name;
    let theirs = plan.published.row(name).map(|row| {
        let buddyinfo = plan.published.free_blocks(name);
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
    let simulated = plan.outcome(runs, name, Load::Faults).map(|outcome| ours(outcome, kernel, runs));
    Row { name: name.clone(), published: theirs, simulated, fitted: is_row(fitted, name) }
}

fn ours(outcome: &Outcome, kernel: &Kernel, runs: &Runs) -> Ours {
    let report = &outcome.report;
    let figure = |figure: Figure| runs.figures.get(&figure.of(&kernel.name)).copied();
    let band = |figure: Figure| runs.band(&figure.of(&kernel.name));
    let bands = || {
        Some(Bands {
            change_percent: band(Figure::Change)?,
            zone_lock_contention_percent: band(Figure::ZoneLock)?.of_a_share(),
            smp_list_add_percent: band(Figure::ListAdd)?.of_a_share(),
        })
    };
    let nothing = Aftermath { left: Vec::new(), drained: Vec::new(), mergeable: 0 };
    let Aftermath { left, drained, mergeable } = outcome.aftermath.clone().unwrap_or(nothing);
    Ours {
        figures: Figures {
            performance: report.per_second,
            change_percent: figure(Figure::Change),
            zone_lock_contention_percent: figure(Figure::ZoneLock).unwrap_or(f64::NAN),
            smp_list_add_percent: figure(Figure::ListAdd),
        },
        mechanisms: kernel.mechanisms.map_or(String::new(), |mechanisms| mechanisms.to_string()),
        band: bands(),
        hold_p999_ns: hold_p999(report),
        unusable_index_order5: index(&total(&left)),
        buddyinfo: left,
        drained: Drained { unusable_index_order5: index(&total(&drained)), mergeable_pairs: mergeable },
        why: why::sentence(report),
        report: report.clone(),
    }
}

/// Blocks of all zones.
pub(super) fn total(zones: &[FreeBlocks]) -> [u64; ORDERS] {
    zones.iter().fold([0; ORDERS], |mut sum, zone| {
        sum.iter_mut().zip(&zone.blocks).for_each(|(sum, blocks)| *sum += blocks);
        sum
    })
}

/// Share of free memory in blocks too small for a request of order 5.
fn index(blocks: &[u64; ORDERS]) -> f64 {
    f64::from(unusable_index(blocks, ORDER)) / 1000.0
}

fn with_lru(plan: &Plan<'_>, runs: &Runs) -> Vec<WithLru> {
    let report = |name: &str, lists| Some(&plan.outcome(runs, name, Load::FaultsOnLru(lists))?.report);
    let first = plan.published.lru.first().and_then(|row| report(&row.name, LruLists::Lock));
    let first = first.map(|report| report.per_second);
    let of = |row: &LruRow| {
        let ours = |lists| {
            report(&row.name, lists).map(|report| LruRow {
                name: row.name.clone(),
                change_percent: first.map_or(f64::NAN, |first| change_percent(first, report.per_second)),
                zone_lock_contention_percent: waiting(report, ZONE),
                lru_lock_contention_percent: waiting(report, LRU),
            })
        };
        let (simulated, smp_list) = (ours(LruLists::Lock), ours(LruLists::Smp));
        WithLru { name: row.name.clone(), published: row.clone(), simulated, smp_list }
    };
    plan.published.lru.iter().filter(|row| plan.with_lru.contains(&row.name)).map(of).collect()
}

/// The curves of kernels that were run.
fn curves(plan: &Plan<'_>, runs: &Runs) -> Vec<Curve> {
    if plan.curve.is_empty() {
        return Vec::new();
    }
    let was_run = |kernel: &&Kernel| plan.outcome(runs, &kernel.name, Load::Faults).is_some();
    let of = |kernel: &Kernel| Curve { name: kernel.name.clone(), points: plan.curve(runs, &kernel.name) };
    plan.kernels.iter().filter(was_run).map(of).collect()
}

/// How a row's change stands to the published one; none for a row that predicts nothing.
pub(super) fn change(row: &Row) -> Option<Standing> {
    let (theirs, ours) = both(row).filter(|_| !row.fitted)?;
    // Here a band is no excuse.
    Some(Standing::of(theirs.change_percent?, ours.figures.change_percent?, CHANGE, None))
}

/// How a row's share of time spent waiting for the zone lock stands to the published one.
pub(super) fn contention(row: &Row) -> Option<Standing> {
    let (theirs, ours) = both(row)?;
    let band = ours.band.map(|bands| bands.zone_lock_contention_percent);
    let (theirs, ours) = (theirs.zone_lock_contention_percent, ours.figures.zone_lock_contention_percent);
    Some(Standing::of(theirs, ours, SHARE, band))
}

/// The same of concurrent list operations, where that was published.
pub(super) fn list_add(row: &Row) -> Option<Standing> {
    let (theirs, ours) = both(row)?;
    let band = ours.band.map(|bands| bands.smp_list_add_percent);
    Some(Standing::of(theirs.smp_list_add_percent?, ours.figures.smp_list_add_percent?, SHARE, band))
}

fn both(row: &Row) -> Option<(&Figures, &Ours)> {
    Some((&row.published.as_ref()?.figures, row.simulated.as_ref()?))
}

/// All checks, of the table and then of our kernel.
fn checks(rows: &[Row], fitted: &[Fitted]) -> Vec<Check> {
    let table = [
        order(rows),
        fitted::at_most(FITTED, "at most two numbers fitted, each to one row", fitted),
        changes(rows),
        shares(rows),
        fragmentation(rows),
    ];
    table.into_iter().chain(of_ours(rows)).collect()
}

/// Rows that were published and cannot be run.
fn missing(rows: &[Row]) -> Option<String> {
    let absent = rows.iter().filter(|row| row.published.is_some() && row.simulated.is_none());
    let names: Vec<&str> = absent.map(|row| row.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("not built yet: {}", names.join(", ")))
}

fn order(rows: &[Row]) -> Check {
    let name = "rank order as published";
    if let Some(missing) = missing(rows) {
        return Check::unseen(name, missing);
    }
    let of = |row| both(row).map(|(theirs, ours)| [theirs.performance, ours.figures.performance]);
    let speeds: Vec<_> = rows.iter().filter_map(|row| Some((row.name.as_str(), of(row)?))).collect();
    check::order(name, TIE, &speeds)
}

fn changes(rows: &[Row]) -> Check {
    let name = format!("rows not fitted within {CHANGE} points of the published change");
    if let Some(missing) = missing(rows) {
        return Check::unseen(&name, missing);
    }
    let of = |row: &Row| {
        let (theirs, ours) = both(row)?;
        let by = ours.figures.change_percent? - theirs.change_percent?;
        change(row).map(|standing| (standing, format!("{} {}", row.name, points(by))))
    };
    seen(&name, rows.iter().filter_map(of))
}

fn shares(rows: &[Row]) -> Check {
    let name = format!("time waiting for locks within {SHARE} points, or the band holds it");
    if let Some(missing) = missing(rows) {
        return Check::unseen(&name, missing);
    }
    let of = |row: &Row, what: &str, standing: Option<Standing>, value: fn(&Figures) -> Option<f64>| {
        let (theirs, ours) = both(row)?;
        let by = value(&ours.figures)? - value(theirs)?;
        let band = if standing? == Standing::InBand { " (in band)" } else { "" };
        Some((standing?, format!("{}{what} {}{band}", row.name, points(by))))
    };
    let all = rows.iter().flat_map(|row| {
        let zone = of(row, "", contention(row), |figures| Some(figures.zone_lock_contention_percent));
        [zone, of(row, " list add", list_add(row), |figures| figures.smp_list_add_percent)]
    });
    seen(&name, all.flatten())
}

fn simulated<'r>(rows: &'r [Row], name: &str) -> Option<&'r Ours> {
    rows.iter().find(|row| row.name == name)?.simulated.as_ref()
}

fn fragmentation(rows: &[Row]) -> Check {
    let name = "patch7 and patch9 leave half as much unusable at order 5 as patch8 and no_merge, or less";
    let index = |name: &str| simulated(rows, name).map(|ours| ours.unusable_index_order5);
    let [tidy, untidy] = [TIDY, UNTIDY].map(|names| names.into_iter().map(index).collect::<Option<Vec<f64>>>());
    let Some((tidy, untidy)) = tidy.zip(untidy) else {
        return Check::unseen(name, missing(rows).unwrap_or_default());
    };
    let most = tidy.iter().copied().fold(0.0, f64::max);
    let least = untidy.iter().copied().fold(f64::INFINITY, f64::min);
    let detail = format!("{:.3} and {:.3} against {:.3} and {:.3}", tidy[0], tidy[1], untidy[0], untidy[1]);
    Check::seen(name, most * TIDIER <= least, detail)
}

/// What our kernel has to reach.
fn of_ours(rows: &[Row]) -> Vec<Check> {
    let names = [
        format!("{OURS}: {} % of {} or more", CEILING.1, CEILING.0),
        format!("{OURS}: waits for the zone lock for {WAITING} % of the time at most"),
        format!("{OURS}: leaves no more unusable at order 5 than {TIDIEST}"),
        format!("{OURS}: no merge is lost for good"),
        format!("{OURS}: zone lock held for {} at most (p99.9)", duration(HOLD)),
    ];
    let Some(ours) = simulated(rows, OURS) else {
        return names.iter().map(|name| Check::unseen(name, "not built yet")).collect();
    };
    let against = |name: &str, check: &str, of: &dyn Fn(&Ours) -> (bool, String)| match simulated(rows, name) {
        None => Check::unseen(check, format!("not built yet: {name}")),
        Some(other) => {
            let (holds, detail) = of(other);
            Check::seen(check, holds, detail)
        }
    };
    let throughput = |ceiling: &Ours| {
        let share = ours.figures.performance / ceiling.figures.performance * 100.0;
        (share >= CEILING.1, format!("{share:.2} %"))
    };
    let cached: u64 = ours.buddyinfo.iter().map(|zone| zone.cached).sum();
    let usable = |tidiest: &Ours| {
        let (left, drained, limit) =
            (ours.unusable_index_order5, ours.drained.unusable_index_order5, tidiest.unusable_index_order5);
        let beside = format!("{} frames on per-CPU lists and in depots", grouped(cached as f64));
        let detail = format!("{left:.3} with {beside}, {drained:.3} drained, against {limit:.3}");
        (left <= limit && drained <= limit, detail)
    };
    let waiting = ours.figures.zone_lock_contention_percent;
    let pairs = ours.drained.mergeable_pairs;
    vec![
        against(CEILING.0, &names[0], &throughput),
        Check::seen(&names[1], waiting <= WAITING, format!("{} %", percent(waiting))),
        against(TIDIEST, &names[2], &usable),
        Check::seen(&names[3], pairs == 0, format!("{pairs} pairs of free buddies after draining")),
        Check::seen(&names[4], ours.hold_p999_ns <= HOLD, duration(ours.hold_p999_ns)),
    ]
}

/// What our kernel has to reach under other workloads.
fn elsewhere(mix: &[MixRow], of_mix: Passes, others: &[Elsewhere]) -> Vec<Check> {
    let mut checks = both_parts(mix, of_mix);
    checks.extend(others.iter().map(|other| {
        let name = format!("{OURS}, {}: no preset does more", other.title);
        let (ours, rest): (Vec<_>, Vec<_>) = other.rows.iter().partition(|row| row.name == OURS);
        let best = rest.into_iter().max_by(|a, b| a.performance.total_cmp(&b.performance));
        let Some((ours, best)) = ours.first().zip(best) else { return Check::unseen(&name, "not run") };
        let detail = format!("{} against {} of {}", grouped(ours.performance), grouped(best.performance), best.name);
        Check::seen(&name, ours.performance >= best.performance, detail)
    }));
    checks
}

/// Small and huge pages: neither part may pay for the other.
fn both_parts(mix: &[MixRow], passes: Passes) -> Vec<Check> {
    let names = [
        format!("{OURS}, small and huge pages: each part {PART} % of patch1's or more"),
        format!("{OURS}, small and huge pages: no preset has a higher geometric mean"),
    ];
    let parts = |row: &MixRow| Some((row.name.clone(), row.simulated.as_ref()?.parts));
    let (ours, rest): (Vec<_>, Vec<_>) = mix.iter().filter_map(parts).partition(|(name, _)| name == OURS);
    let mean = |parts: &Parts| parts.geometric_mean_percent.unwrap_or(0.0);
    let best = rest.iter().max_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
    let first = rest.first().map(|(_, parts)| parts.total());
    let (Some((_, ours)), Some((name, best)), Some(first)) = (ours.first(), best, first) else {
        return names.iter().map(|name| Check::unseen(name, "not run")).collect();
    };
    let [small, huge] = [ours.small_percent, ours.huge_percent].map(|part| part.unwrap_or(0.0));
    let together = share(ours.total(), first);
    let is_steady = passes.window >= STEADY;
    let check = |name: &str, holds, detail: String| match is_steady {
        true => Check::seen(name, holds, detail),
        false => Check::unseen(name, format!("{detail} (too short a run to say, it takes {STEADY} passes)")),
    };
    vec![
        check(
            &names[0],
            small.min(huge) >= PART,
            format!("small {small:.1} %, huge {huge:.1} %; both together {together:.1} %"),
        ),
        check(
            &names[1],
            mean(ours) >= mean(best),
            format!("{:.2} % of patch1's, against {:.2} % of {name}", mean(ours), mean(best)),
        ),
    ]
}
