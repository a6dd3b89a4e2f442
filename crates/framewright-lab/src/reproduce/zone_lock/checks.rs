//! What has to hold before one may say that the table was reproduced, and what our own kernel has to reach.

use super::plan::OURS;
use super::table::{CHANGE, KernelComparison, KernelFigures, Ours, SHARE, find};
use crate::reproduce::check::{self, Check, Standing, points, seen};
use crate::reproduce::fitted::{self, Fitted};
use framewright_table::figures::{duration, grouped, percent};

/// Rows whose published throughput is less apart, in percent, may come in any order.
const TIE: f64 = 2.0;
/// Numbers of the machine that may be fitted to the table, each to one row.
const FITTED: usize = 2;
/// Kernels that leave large blocks, and kernels that do not, by the published buddyinfo; and how many times less of the
/// free memory is of no use to a request of order 5.
const TIDY: [&str; 2] = ["patch7", "patch9"];
const UNTIDY: [&str; 2] = ["patch8", "no_merge"];
const TIDIER: f64 = 2.0;
/// Least throughput of our kernel, in percent of that of the kernel that waits for no lock.
const CEILING: (&str, f64) = ("no_merge+cluster_alloc", 99.0);
/// Percent of CPU time that may be spent waiting for the zone lock; the published one of the same kernel.
const WAITING: f64 = 0.73;
/// The kernel that leaves the largest blocks.
const TIDIEST: &str = "patch7";
/// Nanoseconds for which the zone lock may be held, 999 times of 1000.
const HOLD: f64 = 10_000.0;

/// All checks, of the table and then of our kernel.
pub(super) fn checks(rows: &[KernelComparison<'_>], fitted: &[Fitted]) -> Vec<Check> {
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
fn missing(rows: &[KernelComparison<'_>]) -> Option<String> {
    let absent = rows.iter().filter(|row| row.theirs.is_some() && row.ours.is_none());
    let names: Vec<&str> = absent.map(|row| row.name).collect();
    (!names.is_empty()).then(|| format!("not built yet: {}", names.join(", ")))
}

fn order(rows: &[KernelComparison<'_>]) -> Check {
    let name = "rank order as published";
    if let Some(missing) = missing(rows) {
        return Check::unseen(name, missing);
    }
    let of =
        |row: &KernelComparison<'_>| row.both().map(|(theirs, ours)| [theirs.performance, ours.figures.performance]);
    let speeds: Vec<_> = rows.iter().filter_map(|row| Some((row.name, of(row)?))).collect();
    check::order(name, TIE, &speeds)
}

fn changes(rows: &[KernelComparison<'_>]) -> Check {
    let name = format!("rows not fitted within {CHANGE} points of the published change");
    if let Some(missing) = missing(rows) {
        return Check::unseen(&name, missing);
    }
    let of = |row: &KernelComparison<'_>| {
        let (theirs, ours) = row.both()?;
        let by = ours.figures.change_percent? - theirs.change_percent?;
        row.change().map(|standing| (standing, format!("{} {}{}", row.name, points(by), told(standing))))
    };
    seen(&name, rows.iter().filter_map(of))
}

/// Returns what the band says of a figure, where its distance alone would say something else.
fn told(standing: Standing) -> &'static str {
    match standing {
        Standing::InBand => " (in band)",
        Standing::NearOutside => " (outside the band)",
        Standing::Near | Standing::Off => "",
    }
}

fn shares(rows: &[KernelComparison<'_>]) -> Check {
    let name = format!("time waiting for locks within {SHARE} points, or the band holds it");
    if let Some(missing) = missing(rows) {
        return Check::unseen(&name, missing);
    }
    let of = |row: &KernelComparison<'_>,
              what: &str,
              standing: Option<Standing>,
              value: fn(&KernelFigures) -> Option<f64>| {
        let (theirs, ours) = row.both()?;
        let by = value(&ours.figures)? - value(theirs)?;
        Some((standing?, format!("{}{what} {}{}", row.name, points(by), told(standing?))))
    };
    let all = rows.iter().flat_map(|row| {
        let zone = of(row, "", row.contention(), |figures| Some(figures.zone_lock_contention_percent));
        [zone, of(row, " list add", row.list_add(), |figures| figures.smp_list_add_percent)]
    });
    seen(&name, all.flatten())
}

fn fragmentation(rows: &[KernelComparison<'_>]) -> Check {
    let name = "patch7 and patch9 leave half as much unusable at order 5 as patch8 and no_merge, or less";
    let index = |name: &str| find(rows, name).map(|ours| ours.unusable);
    let [tidy, untidy] = [TIDY, UNTIDY].map(|names| names.into_iter().map(index).collect::<Option<Vec<f64>>>());
    let Some((tidy, untidy)) = tidy.zip(untidy) else {
        return Check::unseen(name, missing(rows).unwrap_or_default());
    };
    let most = tidy.iter().copied().fold(0.0, f64::max);
    let least = untidy.iter().copied().fold(f64::INFINITY, f64::min);
    let detail = format!("{:.3} and {:.3} against {:.3} and {:.3}", tidy[0], tidy[1], untidy[0], untidy[1]);
    Check::seen(name, most * TIDIER <= least, detail)
}

/// Checks that our kernel must pass.
fn of_ours(rows: &[KernelComparison<'_>]) -> Vec<Check> {
    let names = [
        format!("{OURS}: {} % of {} or more", CEILING.1, CEILING.0),
        format!("{OURS}: waits for the zone lock for {WAITING} % of the time at most"),
        format!("{OURS}: leaves no more unusable at order 5 than {TIDIEST}"),
        format!("{OURS}: no merge is lost for good"),
        format!("{OURS}: zone lock held for {} at most (p99.9)", duration(HOLD)),
    ];
    let Some(ours) = find(rows, OURS) else {
        return names.iter().map(|name| Check::unseen(name, "not built yet")).collect();
    };
    let against = |name: &str, check: &str, of: &dyn Fn(&Ours<'_>) -> (bool, String)| match find(rows, name) {
        None => Check::unseen(check, format!("not built yet: {name}")),
        Some(other) => {
            let (holds, detail) = of(other);
            Check::seen(check, holds, detail)
        }
    };
    let throughput = |ceiling: &Ours<'_>| {
        let share = ours.figures.performance / ceiling.figures.performance * 100.0;
        (share >= CEILING.1, format!("{share:.2} %"))
    };
    let cached: u64 = ours.left.iter().map(|zone| zone.cached).sum();
    let usable = |tidiest: &Ours<'_>| {
        let (left, drained, limit) = (ours.unusable, ours.drained, tidiest.unusable);
        let beside = format!("{} frames on per-CPU lists and in depots", grouped(cached as f64));
        let detail = format!("{left:.3} with {beside}, {drained:.3} drained, against {limit:.3}");
        (left <= limit && drained <= limit, detail)
    };
    let waiting = ours.figures.zone_lock_contention_percent;
    let pairs = ours.pairs;
    vec![
        against(CEILING.0, &names[0], &throughput),
        Check::seen(&names[1], waiting <= WAITING, format!("{} %", percent(waiting))),
        against(TIDIEST, &names[2], &usable),
        Check::seen(&names[3], pairs == 0, format!("{pairs} pairs of free buddies after draining")),
        Check::seen(&names[4], ours.held <= HOLD, duration(ours.held)),
    ]
}
