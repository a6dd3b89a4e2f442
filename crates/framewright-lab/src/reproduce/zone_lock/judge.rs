//! What has to hold before one may say that the table was reproduced, and what our own kernel has to reach.

use framewright_sim::workload::Passes;

use super::others::{Elsewhere, MixRow, Parts};
use super::plan::{OURS, STEADY};
use super::result::{Figures, Ours, Row};
use crate::reproduce::check::{self, Check, Standing, points, seen};
use crate::reproduce::fitted::{self, Fitted};
use crate::sim::figures::{duration, grouped, percent, share};

/// Rows whose published throughput is less apart, in percent, may come in any order.
const TIE: f64 = 2.0;
/// Points by which a change against the first row may be off.
pub const CHANGE: f64 = 10.0;
/// Points by which a share of CPU time may be off, or else lie in a band that holds the published one.
pub const SHARE: f64 = 15.0;
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

/// How a row's change stands to the published one; none for a row that predicts nothing.
pub fn change(row: &Row) -> Option<Standing> {
    let (theirs, ours) = both(row).filter(|_| !row.fitted)?;
    // Here a band is no excuse.
    Some(Standing::of(theirs.change_percent?, ours.figures.change_percent?, CHANGE, None))
}

/// How a row's share of time spent waiting for the zone lock stands to the published one.
pub fn contention(row: &Row) -> Option<Standing> {
    let (theirs, ours) = both(row)?;
    let band = ours.band.map(|bands| bands.zone_lock_contention_percent);
    let (theirs, ours) = (theirs.zone_lock_contention_percent, ours.figures.zone_lock_contention_percent);
    Some(Standing::of(theirs, ours, SHARE, band))
}

/// The same of concurrent list operations, where that was published.
pub fn list_add(row: &Row) -> Option<Standing> {
    let (theirs, ours) = both(row)?;
    let band = ours.band.map(|bands| bands.smp_list_add_percent);
    Some(Standing::of(theirs.smp_list_add_percent?, ours.figures.smp_list_add_percent?, SHARE, band))
}

fn both(row: &Row) -> Option<(&Figures, &Ours)> {
    Some((&row.published.as_ref()?.figures, row.simulated.as_ref()?))
}

/// All checks, of the table and then of our kernel.
pub fn checks(rows: &[Row], fitted: &[Fitted]) -> Vec<Check> {
    let table = [
        order(rows),
        fitted::at_most(FITTED, "at most two numbers fitted, each to one row", fitted),
        changes(rows),
        shares(rows),
        fragmentation(rows),
    ];
    table.into_iter().chain(ours(rows)).collect()
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
fn ours(rows: &[Row]) -> Vec<Check> {
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
pub fn elsewhere(mix: &[MixRow], of_mix: Passes, others: &[Elsewhere]) -> Vec<Check> {
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
