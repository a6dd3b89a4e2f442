//! Why a run is as fast as it is, in a sentence: what its CPUs do most, and which fields they fight for.

use framewright_sim::report::{LockReport, Report};

use crate::sim::run::cost;
use framewright_table::figures::{duration, percent, share};

/// Kinds of locks, as reports name them.
pub const ZONE: &str = "zone";
/// The head of a free list, in concurrent operations.
pub(crate) const FREE_LIST: &str = "free-list";
/// Ranges of frames.
pub const RANGE: &str = "range";
/// LRU lists.
pub const LRU: &str = "lru";

/// Heading above reasons that only the simulated machine has.
pub(crate) const WHY: &str = "Why, from the simulated machine's own account";
/// Words before the names of fields in a sentence.
pub(crate) const MOST: &str = "fetched and queued for most: ";
/// Fields that are named at most.
const FIELDS: usize = 2;
/// Fields that cost less than this many percent of CPU time are not.
const SMALL: f64 = 0.5;

/// The sentence.
pub fn sentence(report: &Report) -> String {
    let mut parts = vec![limit(report)];
    let fields = fields(report);
    let named: Vec<String> =
        fields.iter().take(FIELDS).map(|(name, share)| format!("{name} ({} %)", percent(*share))).collect();
    if !named.is_empty() {
        parts.push(format!("{MOST}{}", named.join(", ")));
    }
    parts.join("; ")
}

/// Percent of CPU time spent waiting for locks of a kind.
pub fn waiting(report: &Report, kind: &str) -> f64 {
    of_kind(report, kind).fold(0.0, |sum, lock| sum + lock.contention_percent)
}

/// Percent of CPU time spent waiting for locks of a kind and holding them.
pub fn inside(report: &Report, kind: &str) -> f64 {
    let all = report.window_ns as f64 * report.cpus as f64;
    share(of_kind(report, kind).fold(0.0, |sum, lock| sum + lock.waiting.total_ns + lock.holding.total_ns), all)
}

/// 999 of 1000 times a zone lock was held no longer, in nanoseconds, of the one that was held longest.
pub(crate) fn hold_p999(report: &Report) -> f64 {
    of_kind(report, ZONE).map(|lock| lock.holding.p999_ns).fold(0.0, f64::max)
}

fn of_kind<'r>(report: &'r Report, kind: &str) -> impl Iterator<Item = &'r LockReport> {
    report.locks.iter().filter(move |lock| lock.kind == kind)
}

/// Writes which use takes most of the CPUs' time.
fn limit(report: &Report) -> String {
    let held = of_kind(report, ZONE).max_by(|a, b| a.contention_percent.total_cmp(&b.contention_percent));
    let [zone_lock, range, lru] = [ZONE, RANGE, LRU].map(|kind| waiting(report, kind));
    let list_add = inside(report, FREE_LIST);
    let held = held.map_or(String::new(), |LockReport { holding, .. }| {
        format!(", held {} (p99.9 {})", duration(holding.p50_ns), duration(holding.p999_ns))
    });
    let time = |of: fn(&framewright_sim::report::Times) -> f64| -> f64 {
        let all = report.window_ns as f64 * report.cpus as f64;
        share(report.per_cpu.iter().map(|cpu| of(&cpu.time)).sum(), all)
    };
    let limits = [
        (zone_lock, format!("{} % of CPU time waits for the zone lock{held}", percent(zone_lock))),
        (list_add, format!("{} % of CPU time is spent in smp_list_add", percent(list_add))),
        (range, format!("{} % of CPU time waits for range locks", percent(range))),
        (lru, format!("{} % of CPU time waits for LRU locks", percent(lru))),
        (
            time(|t| t.zeroing),
            format!("{} % of CPU time zeroes pages at the speed of memory", percent(time(|t| t.zeroing))),
        ),
        (
            time(|t| t.instructions),
            format!("{} % of CPU time executes instructions", percent(time(|t| t.instructions))),
        ),
    ];
    let mut limits: Vec<_> = limits.into_iter().filter(|(share, _)| *share >= 10.0).collect();
    limits.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words: Vec<String> = limits.into_iter().take(2).map(|(_, words)| words).collect();
    if words.is_empty() { "nothing takes a tenth of CPU time".to_owned() } else { words.join(", ") }
}

/// Fields by the percent of CPU time that fetching them takes, on all nodes together, those that take most first.
pub fn fields(report: &Report) -> Vec<(String, f64)> {
    let all = report.window_ns as f64 * report.cpus as f64;
    let mut sums: Vec<(String, f64)> = Vec::new();
    for field in report.lines.iter().flat_map(|line| &line.fields) {
        let spent = share(cost(&field.traffic), all);
        match sums.iter_mut().find(|(name, _)| *name == field.name) {
            Some((_, sum)) => *sum += spent,
            None => sums.push((field.name.clone(), spent)),
        }
    }
    sums.retain(|(_, spent)| *spent >= SMALL);
    // A stable sort: fields that cost the same stay in the report's order.
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    sums
}
