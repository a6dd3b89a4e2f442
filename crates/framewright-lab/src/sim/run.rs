//! One run as text, in at most 100 columns: its settings, its speed, and the reasons for it.
//!
//! The reasons come in the order in which a reader asks: the locks that CPUs waited for; the cache lines that they
//! fought for, by field name as `perf c2c` shows them by offset; and the shares of CPU time. Rows of zeros are left
//! out, and of many rows the first are shown; the JSON form has all.

use std::fmt;

use framewright_sim::report::{LineReport, LockReport, Report, Traffic};
use framewright_table::figures::{
    count, counted, duration, fitted, grouped, percent, plural, share, short, significant,
};
use framewright_table::{Table, cells, wrapped};

use super::cpu_time::CpuTime;

/// Prints a run for a terminal.
pub struct RunText<'r>(pub &'r Report);

/// Columns that there are.
const WIDTH: usize = 100;
/// Columns for the name of a lock, and of a line or field.
const NAMES: (usize, usize) = (32, 36);
/// Locks, lines, and fields of a line that are shown at most.
const SHOWN: (usize, usize, usize) = (8, 10, 6);
/// Lines and fields that cost less than this many percent of all are not.
const SMALL: f64 = 0.5;

impl fmt::Display for RunText<'_> {
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
    let cpus = counted(*cpus, "CPU");
    writeln!(f, "{workload} on {machine}, {cpus}, seed {seed}, {schedule} schedule")?;
    write!(f, "{}", wrapped(&format!("mechanisms {mechanisms}"), ',', WIDTH, 2))?;
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
    let widest = rows.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or(0).max(16);
    let mut table = Table::new("<40<");
    for (name, value, unit) in rows {
        table.row(cells!["  {}" = fitted(&name, 38), "{value:>widest$} {unit}"]);
    }
    write!(f, "\n{table}")
}

/// A figure that is not known to be a count or a share.
pub(crate) fn figure_value(value: f64) -> String {
    if value.abs() < 1.0 { significant(value, 3) } else { grouped(value) }
}

fn locks(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let used: Vec<&LockReport> =
        report.locks.iter().filter(|lock| lock.taken != 0 || lock.contention_percent > 0.0).collect();
    if used.is_empty() {
        return Ok(());
    }
    let mut table = Table::new("<32>8>11>9<8>8");
    table.row(cells!["Locks", "taken", "contended", "of time", "", "p50", "p99", "p99.9", "max"]);
    used.iter().take(SHOWN.0).for_each(|lock| lock_rows(&mut table, lock));
    write!(f, "\n{table}")?;
    match used.len().saturating_sub(SHOWN.0) {
        0 => Ok(()),
        left => writeln!(f, "  and {} more", counted(left, "lock")),
    }
}

/// A lock, and how long was waited for it and it was held.
fn lock_rows(table: &mut Table, lock: &LockReport) {
    let contended = percent(share(lock.contended as f64, lock.taken as f64)) + " %";
    let of_time = percent(lock.contention_percent) + " %";
    let name = fitted(&lock.name, NAMES.0 - 2);
    let mut head = cells!["  {name}", "{}" = count(lock.taken), "{contended}", "{of_time}"];
    let times = [("waited", &lock.waiting), ("held", &lock.holding)];
    for (what, times) in times.into_iter().filter(|(_, times)| times.count != 0 && times.max_ns > 0.0) {
        let times = [times.p50_ns, times.p99_ns, times.p999_ns, times.max_ns].map(duration);
        let mut row = if head.is_empty() { vec![String::new(); 4] } else { std::mem::take(&mut head) };
        row.push(what.to_owned());
        row.extend(times);
        table.row(row);
    }
    if !head.is_empty() {
        table.row(head);
    }
}

/// Which lines of memory moved between CPUs, by the fields in them.
fn lines(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let hot: Vec<&LineReport> = report.lines.iter().filter(|line| accesses(&line.total) != 0).collect();
    let whole: f64 = hot.iter().map(|line| cost(&line.total)).sum();
    if hot.is_empty() {
        return Ok(());
    }
    let mut table = Table::new("<36>7");
    table.text(format!(
        "{:<name$}{:>8}{:^23}{:^20}{:>13}",
        "",
        "share",
        "missed",
        "came from",
        "ns per miss",
        name = NAMES.1
    ));
    let heads = ["loads", "stores", "rmws", "near", "far", "memory", "queued", "moving"];
    let mut row = cells!["Hottest cache lines, by field", "of cost"];
    row.extend(heads.map(str::to_owned));
    table.row(row);
    let dear = |traffic: &Traffic| share(cost(traffic), whole) >= SMALL;
    let shown: Vec<&&LineReport> = hot.iter().filter(|line| dear(&line.total)).take(SHOWN.1).collect();
    for line in &shown {
        let lines = if line.lines > 1 { format!(" ({} lines)", count(line.lines)) } else { String::new() };
        let name = fitted(&line.name, NAMES.1 - 2 - lines.chars().count()) + &lines;
        table.row(traffic(&format!("  {name}"), &line.total, whole));
        // An array's only field would repeat the row.
        let fields = line.fields.iter().filter(|field| dear(&field.traffic) && field.name != line.name);
        for field in fields.take(SHOWN.2) {
            table.row(traffic(&format!("    {}", fitted(&field.name, NAMES.1 - 4)), &field.traffic, whole));
        }
    }
    let rest = whole - shown.iter().map(|line| cost(&line.total)).sum::<f64>();
    if hot.len() > shown.len() {
        table.row(cells![
            "  and {} more" = counted(hot.len() - shown.len(), "line"),
            "{}" = percent(share(rest, whole))
        ]);
    }
    write!(f, "\n{table}")
}

fn traffic(name: &str, traffic: &Traffic, whole: f64) -> Vec<String> {
    let Traffic { loads, stores, rmws, near, far, memory, queued_ns, moving_ns } = *traffic;
    let mut row = vec![name.to_owned(), percent(share(cost(traffic), whole))];
    row.extend([loads, stores, rmws, near, far, memory].map(count));
    let per_miss = |nanoseconds: f64| short(nanoseconds / accesses(traffic) as f64);
    row.extend([queued_ns, moving_ns].map(per_miss));
    row
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
    let mut text = Table::new("<28>17");
    let mut row = |name: &str, cells: Vec<String>| text.row([vec![name.to_owned()], cells].concat());
    row("Where CPU time went, percent", table.columns.iter().map(|column| column.name.to_string()).collect());
    for part in &table.rows {
        row(&format!("  {}", part.name), part.percent.iter().map(|&value| percent(value)).collect());
    }
    row("  operations", table.columns.iter().map(|column| count(column.operations)).collect());
    write!(f, "\n{text}")
}
