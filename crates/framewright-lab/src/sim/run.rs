//! One run as text, in at most 100 columns: what it was, how fast, and why.
//!
//! The reasons come in the order in which one asks: the locks that were waited for, the cache lines that were fought for, by
//! field name as `perf c2c` shows them by offset, and where CPU time went. What is all zero is left out, and of many rows the
//! first are shown; the JSON form has all.

use std::fmt;

use framewright_sim::report::{LineReport, LockReport, Report, Traffic};

use super::cpu_time::CpuTime;
use super::figures::{count, duration, fitted, grouped, percent, plural, share, short, significant};

/// Prints a run for a terminal.
pub struct Run<'r>(pub &'r Report);

/// Columns that there are.
const WIDTH: usize = 100;
/// Columns for the name of a lock, of a line or field, and of what time was spent for.
const NAMES: (usize, usize, usize) = (32, 37, 28);
/// Locks, lines, and fields of a line that are shown at most.
const SHOWN: (usize, usize, usize) = (8, 10, 6);
/// Lines and fields that cost less than this many percent of all are not.
const SMALL: f64 = 0.5;

impl fmt::Display for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        head(f, report)?;
        speed(f, report)?;
        locks(f, report)?;
        lines(f, report)?;
        cpu_time(f, report)
    }
}

fn head(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let Report { machine, workload, mechanisms, cpus, seed, schedule, .. } = report;
    let cpus = if *cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
    writeln!(f, "{workload} on {machine}, {cpus}, seed {seed}, {schedule} schedule")?;
    wrapped(f, &format!("mechanisms {mechanisms}"))?;
    writeln!(
        f,
        "{} of virtual time after {} of warm-up, {} accesses, {} switches in all",
        duration(report.window_ns as f64),
        duration(report.warm_up_ns as f64),
        count(report.accesses),
        count(report.switches)
    )?;
    if schedule == "random" {
        writeln!(
            f,
            "Under a random schedule CPUs run in any order: this looks for mistakes, and no time here means anything."
        )?;
    }
    Ok(())
}

fn speed(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let mut rows = vec![
        (format!("{} per second", plural(&report.unit)), grouped(report.per_second), ""),
        ("  of each CPU".to_owned(), grouped(report.per_second / report.cpus.max(1) as f64), ""),
        (format!("cycles per {}, all CPUs", report.unit), grouped(report.cycles_per_operation), ""),
    ];
    if report.cpus <= 1 {
        rows.remove(1);
    }
    rows.extend(
        report.figures.iter().map(|figure| (figure.name.clone(), figure_value(figure.value), figure.unit.as_str())),
    );
    writeln!(f)?;
    for (name, value, unit) in rows {
        writeln!(f, "{}", format!("  {:<38}{value:>16} {unit}", fitted(&name, 38)).trim_end())?;
    }
    Ok(())
}

/// A figure that is not known to be a count or a share.
pub(crate) fn figure_value(value: f64) -> String {
    if value.abs() < 1.0 { significant(value, 3) } else { grouped(value) }
}

fn locks(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let used: Vec<&LockReport> = report.locks.iter().filter(|lock| lock.taken != 0).collect();
    if used.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "\n{:<name$}{:>8}{:>11}{:>9}{:8}{:>8}{:>8}{:>8}{:>8}",
        "Locks",
        "taken",
        "contended",
        "of time",
        "",
        "p50",
        "p99",
        "p99.9",
        "max",
        name = NAMES.0
    )?;
    for lock in used.iter().take(SHOWN.0) {
        lock_rows(f, lock)?;
    }
    match used.len().saturating_sub(SHOWN.0) {
        0 => Ok(()),
        left => writeln!(f, "  {}", more(left, "lock")),
    }
}

fn lock_rows(f: &mut fmt::Formatter<'_>, lock: &LockReport) -> fmt::Result {
    let contended = percent(share(lock.contended as f64, lock.taken as f64)) + " %";
    let of_time = percent(lock.contention_percent) + " %";
    let name = format!("  {}", fitted(&lock.name, NAMES.0 - 2));
    let head = format!("{name:<width$}{:>8}{contended:>11}{of_time:>9}", count(lock.taken), width = NAMES.0);
    let times = [("waited", &lock.waiting), ("held", &lock.holding)];
    let mut lead = head.as_str();
    for (what, times) in times.into_iter().filter(|(_, times)| times.count != 0 && times.max_ns > 0.0) {
        let [p50, p99, p999, max] = [times.p50_ns, times.p99_ns, times.p999_ns, times.max_ns].map(duration);
        writeln!(f, "{lead:<60}  {what:<6}{p50:>8}{p99:>8}{p999:>8}{max:>8}")?;
        lead = "";
    }
    if lead.is_empty() { Ok(()) } else { writeln!(f, "{lead}") }
}

fn lines(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let hot: Vec<&LineReport> = report.lines.iter().filter(|line| accesses(&line.total) != 0).collect();
    let whole: f64 = hot.iter().map(|line| cost(&line.total)).sum();
    if hot.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "\n{:<name$}{:>7}{:^23}{:^20}{:>13}",
        "",
        "share",
        "missed",
        "came from",
        "ns per miss",
        name = NAMES.1
    )?;
    write!(f, "{:<name$}{:>7}", "Hottest cache lines, by field", "of cost", name = NAMES.1)?;
    for head in ["loads", "stores", "rmws", "near", "far", "memory", "queued", "moving"] {
        write!(f, "{head:>7}")?;
    }
    writeln!(f)?;
    let dear = |traffic: &Traffic| share(cost(traffic), whole) >= SMALL;
    let shown: Vec<&&LineReport> = hot.iter().filter(|line| dear(&line.total)).take(SHOWN.1).collect();
    for line in &shown {
        let lines = if line.lines > 1 { format!(" ({} lines)", count(line.lines)) } else { String::new() };
        let name = fitted(&line.name, NAMES.1 - 2 - lines.chars().count()) + &lines;
        traffic(f, &format!("  {name}"), &line.total, whole)?;
        // An array's only field would be the same row again.
        let fields = line.fields.iter().filter(|field| dear(&field.traffic) && field.name != line.name);
        for field in fields.take(SHOWN.2) {
            traffic(f, &format!("    {}", fitted(&field.name, NAMES.1 - 4)), &field.traffic, whole)?;
        }
    }
    let rest = whole - shown.iter().map(|line| cost(&line.total)).sum::<f64>();
    match hot.len() - shown.len() {
        0 => Ok(()),
        left => writeln!(f, "  {:<width$}{:>7}", more(left, "line"), percent(share(rest, whole)), width = NAMES.1 - 2),
    }
}

fn traffic(f: &mut fmt::Formatter<'_>, name: &str, traffic: &Traffic, whole: f64) -> fmt::Result {
    let Traffic { loads, stores, rmws, near, far, memory, queued_ns, moving_ns } = *traffic;
    write!(f, "{name:<width$}{:>7}", percent(share(cost(traffic), whole)), width = NAMES.1)?;
    for value in [loads, stores, rmws, near, far, memory] {
        write!(f, "{:>7}", count(value))?;
    }
    let per_miss = |nanoseconds: f64| short(nanoseconds / accesses(traffic) as f64);
    writeln!(f, "{:>7}{:>7}", per_miss(queued_ns), per_miss(moving_ns))
}

/// Accesses that missed.
pub(crate) fn accesses(traffic: &Traffic) -> u64 {
    traffic.loads + traffic.stores + traffic.rmws
}

/// Nanoseconds that CPUs lost to them.
pub(crate) fn cost(traffic: &Traffic) -> f64 {
    traffic.queued_ns + traffic.moving_ns
}

fn cpu_time(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let Some(table) = CpuTime::of(report) else { return Ok(()) };
    write!(f, "\n{:<name$}", "Where CPU time went, percent", name = NAMES.2)?;
    table.columns.iter().try_for_each(|column| write!(f, "{:>17}", column.name))?;
    writeln!(f)?;
    for row in &table.rows {
        write!(f, "  {:<name$}", row.name, name = NAMES.2 - 2)?;
        row.percent.iter().try_for_each(|&value| write!(f, "{:>17}", percent(value)))?;
        writeln!(f)?;
    }
    write!(f, "  {:<name$}", "operations", name = NAMES.2 - 2)?;
    table.columns.iter().try_for_each(|column| write!(f, "{:>17}", count(column.operations)))?;
    writeln!(f)
}

/// What is left out.
fn more(left: usize, what: &str) -> String {
    if left == 1 { format!("and 1 {what} more") } else { format!("and {left} {what}s more") }
}

/// `text` broken behind commas, what follows indented.
fn wrapped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut column = 0;
    for part in text.split_inclusive(',') {
        let width = part.chars().count();
        if column + width > WIDTH && column > 0 {
            write!(f, "\n  ")?;
            column = 2;
        }
        write!(f, "{part}")?;
        column += width;
    }
    writeln!(f)
}
