//! The report as a person reads it: the trace's quality first, then what the kernel did beside what we did.
//!
//! A column for the kernel and one for each set of mechanisms; `-` where the kernel has no such number. Rows that are all
//! zero in the tables of free blocks are left out; the JSON form has them, and `pagetypeinfo` in the kernel's layout.

use std::collections::BTreeSet;
use std::fmt::{self, Formatter};

use framewright::Mechanisms;
use framewright::pfn::MigrateType;

use super::faults::FirstTry;
use super::machine::Knowledge;
use super::outcome::{Column, ExtfragRow, LinuxColumn, Report, ZoneBlocks, free_frames};
use crate::proc::PageTypeInfo;
use crate::record::Kind;

/// Prints a [`Report`] for a terminal.
pub struct Table<'r>(pub &'r Report);

/// Width of the first column.
const LABEL: usize = 48;
/// Width of the others.
const VALUE: usize = 15;
/// Width of the first column of the tables of blocks, and of the others.
const BLOCKS: (usize, usize) = (40, 7);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let report = self.0;
        quality(f, report)?;
        heading(f, report)?;
        faults(f, report)?;
        fragmentation(f, report)?;
        conduct(f, report)?;
        free(f, report)?;
        notes(f, report)?;
        orders(f, report)?;
        extfrag(f, report)?;
        blocks(f, report)?;
        mobilities(f, report)
    }
}

fn quality(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let q = &report.quality;
    writeln!(f, "Trace {}", report.trace)?;
    let names: Vec<String> = Kind::NAMES
        .iter()
        .filter_map(|name| q.by_name.get(name).map(|&count| (name, count)))
        .map(|(name, count)| {
            let failed = if *name == Kind::NAMES[0] && q.failed_allocs != 0 {
                format!(" ({} failed)", grouped(q.failed_allocs))
            } else {
                String::new()
            };
            format!("{} {name}{failed}", grouped(count))
        })
        .collect();
    writeln!(f, "  {} events: {}", grouped(q.events), names.join(", "))?;
    let lost = if q.lost_events == 0 { "an unknown number".to_owned() } else { grouped(q.lost_events) };
    match q.lost_reports {
        0 => writeln!(f, "  lost by the tracer: none")?,
        gaps => {
            writeln!(f, "  lost by the tracer: {lost}, in {}: what follows a gap is DOUBTFUL", counted(gaps, "gap"))?
        }
    }
    let left_out = [
        (q.unknown_events, "events of other kinds"),
        (q.unrecognized_lines, "lines that are no events"),
        (q.malformed_lines, "events that could not be read"),
    ];
    let left_out = left_out.iter().filter(|(count, _)| *count != 0);
    let left_out: Vec<String> = left_out.map(|(count, what)| format!("{what} {}", grouped(*count))).collect();
    if !left_out.is_empty() {
        writeln!(f, "  not used: {}", left_out.join(", "))?;
        q.malformed.iter().try_for_each(|message| writeln!(f, "    {message}"))?;
    }
    writeln!(
        f,
        "  unknown frees {}, re-allocations {}, blocks freed in parts {}, moves to an allocated page {}",
        grouped(q.free_unknown),
        grouped(q.reallocations),
        grouped(q.splits),
        grouped(q.moves_to_allocated)
    )?;
    let m = &report.machine;
    writeln!(
        f,
        "  machine: {} frames, {}, {}",
        grouped(m.frames),
        counted(m.nodes as u64, "node"),
        counted(m.cpus as u64, "CPU")
    )?;
    let known = match q.initial_state {
        Knowledge::Frames => "every frame",
        Knowledge::Zones => "the zones, not which frames were in use",
        Knowledge::Nothing => "nothing; what no event shows in use counts as free",
    };
    write!(f, "  known of the state before the first event: {known}")?;
    match q.initial_blocks_off {
        Some(0) => writeln!(f, "; free blocks are those of buddyinfo"),
        Some(off) => writeln!(f, "; {} free blocks more or less than in buddyinfo", grouped(off)),
        None => writeln!(f),
    }
}

/// So many of something.
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn heading(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    for (i, column) in report.columns.iter().enumerate() {
        writeln!(f, "  {}: {}", name(report, i), unlike_baseline(&column.mechanisms))?;
    }
    write!(f, "\n{:<LABEL$}{:>VALUE$}", "", "Linux")?;
    for i in 0..report.columns.len() {
        write!(f, "{:>VALUE$}", name(report, i))?;
    }
    writeln!(f)
}

/// The switches that are not set as in the baseline.
fn unlike_baseline(mechanisms: &str) -> String {
    let baseline = Mechanisms::BASELINE.to_string();
    let switches = mechanisms.split(',').zip(baseline.split(','));
    let unlike: Vec<&str> = switches.filter(|(ours, theirs)| ours != theirs).map(|(ours, _)| ours).collect();
    if unlike.is_empty() { "baseline".to_owned() } else { unlike.join(",") }
}

/// What the column of the `i`-th set of mechanisms is called.
fn name(report: &Report, i: usize) -> String {
    if report.columns.len() > 1 { format!("ours {}", i + 1) } else { "Framewright".to_owned() }
}

/// A row of the main table.
fn row(
    f: &mut Formatter<'_>,
    report: &Report,
    label: &str,
    linux: impl Fn(&LinuxColumn) -> Option<String>,
    ours: impl Fn(&Column) -> String,
) -> fmt::Result {
    // A number as wide as its column still has a space before it.
    const NUMBER: usize = VALUE - 1;
    write!(f, "{label:<LABEL$} {:>NUMBER$}", linux(&report.linux).unwrap_or_else(|| "-".to_owned()))?;
    report.columns.iter().try_for_each(|column| write!(f, " {:>NUMBER$}", ours(column)))?;
    writeln!(f)
}

fn faults(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let share = |served: u64, of: u64| if of == 0 { String::new() } else { percent(served, of) };
    let number = |value: u64| Some(grouped(value));
    row(f, report, "huge page faults", |l| number(l.order9_faults), |c| grouped(c.order9_faults))?;
    let (linux, ours) = (
        |l: &LinuxColumn| Some(grouped(l.order9_faults_served) + &share(l.order9_faults_served, l.order9_faults)),
        |c: &Column| grouped(c.order9_faults_served) + &share(c.order9_faults_served, c.order9_faults),
    );
    row(f, report, "  served with a huge page", linux, ours)?;
    row(f, report, "  served here, failed by Linux", |_| None, |c| grouped(c.served_where_linux_failed))?;
    row(f, report, "  failed here, served by Linux", |_| None, |c| grouped(c.failed_where_linux_served))?;
    row(
        f,
        report,
        "  requests: first tries and retries",
        |l| number(l.order9_requests),
        |c| grouped(c.order9_requests),
    )?;
    row(f, report, "  most huge pages held at once", |l| number(l.peak_blocks_held), |c| grouped(c.peak_blocks_held))?;
    row(f, report, "  base pages not taken for those served here", |_| None, |c| grouped(c.base_pages_skipped))
}

fn percent(part: u64, of: u64) -> String {
    format!(" ({:.1} %)", part as f64 * 100.0 / of as f64)
}

fn fragmentation(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let number = |value: u64| Some(grouped(value));
    row(f, report, "pages moved by compaction", |l| number(l.page_moves), |c| grouped(c.page_moves))?;
    row(f, report, "fallbacks to another mobility", |l| number(l.extfrag_events), |c| grouped(c.extfrag_events))?;
    row(
        f,
        report,
        "  fragmenting: of less than a pageblock",
        |l| number(l.extfrag_fragmenting),
        |c| grouped(c.extfrag_fragmenting),
    )?;
    for order in report.linux.unusable_index.keys() {
        let share = |index: &super::UnusableIndex| format!("{:.3}", index.get(order).copied().unwrap_or(0.0));
        let label = format!("share of free memory unusable for order {order}");
        row(f, report, &label, |l| Some(share(&l.unusable_index)), |c| share(&c.unusable_index))?;
    }
    Ok(())
}

/// Free memory at the end beside what the kernel said of itself: how far the trace and its start can be right.
fn free(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let Some(recorded) = report.free_recorded else { return Ok(()) };
    let off = |zones: &[ZoneBlocks]| {
        let off = free_frames(zones) as f64 - recorded.free_frames as f64;
        format!("{:+.2} %", off * 100.0 / recorded.managed.max(1) as f64)
    };
    let frames = |zones: &[ZoneBlocks]| grouped(free_frames(zones));
    row(f, report, "frames free at the end", |l| Some(frames(&l.buddyinfo)), |c| frames(&c.buddyinfo))?;
    let label = format!("  off the kernel's own {}", grouped(recorded.free_frames));
    row(f, report, &label, |l| Some(off(&l.buddyinfo)), |c| off(&c.buddyinfo))
}

fn conduct(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    row(f, report, "other requests failed here, served by Linux", |_| None, |c| grouped(c.failed_smaller))?;
    row(f, report, "frees refused", |_| None, |c| grouped(c.frees_refused))?;
    let conserved = |c: &Column| if c.pages_conserved { "yes" } else { "NO" }.to_owned();
    row(f, report, "every page accounted for at the end", |_| None, conserved)?;
    row(f, report, "events/s on one core", |_| None, |c| grouped(c.events_per_second as u64))
}

fn notes(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let flags = match report.quality.first_tries {
        FirstTry::ThisNodeNoRetry => " with __GFP_THISNODE and __GFP_NORETRY",
        FirstTry::ThisNode => " with __GFP_THISNODE",
        FirstTry::Any => "",
    };
    let order = report.machine.pageblock_order;
    writeln!(f, "\nA fault is a task's first request of order {order}{flags}, and its retries.")?;
    writeln!(f, "One that is served here and that Linux failed keeps its huge page to the end.")?;
    writeln!(f, "Nothing is reclaimed here; what Linux freed is freed, and what it moved has moved.")
}

/// A number with a comma every three digits.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i != 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn orders(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    writeln!(f, "\nRequests by order: made / failed")?;
    let all = report.columns.iter().flat_map(|column| &column.orders).chain(&report.linux.orders);
    let orders: BTreeSet<u8> = all.map(|row| row.order).collect();
    for order in orders {
        write!(f, "  {:<width$}", format!("order {order}"), width = LABEL - 2)?;
        let rows = std::iter::once(&report.linux.orders).chain(report.columns.iter().map(|column| &column.orders));
        for row in rows {
            let row = row.iter().find(|row| row.order == order);
            let (requests, failed) = row.map_or((0, 0), |row| (row.requests, row.failed));
            write!(f, "{:>VALUE$}", format!("{} / {}", grouped(requests), grouped(failed)))?;
        }
        writeln!(f)?;
    }
    Ok(())
}

fn extfrag(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    type Key = (&'static str, &'static str, u8, u8);
    let key = |row: &ExtfragRow| -> Key {
        (row.alloc_migratetype, row.fallback_migratetype, row.alloc_order, row.fallback_order)
    };
    let all = report.columns.iter().flat_map(|column| &column.extfrag).chain(&report.linux.extfrag);
    let keys: BTreeSet<Key> = all.map(key).collect();
    if keys.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nFallbacks: what was asked for, and the free block that it was taken from")?;
    for wanted in keys {
        let (want, from, order, found) = wanted;
        let label = format!("{want} order {order} from {from} order {found}");
        write!(f, "  {label:<width$}", width = LABEL - 2)?;
        let rows = std::iter::once(&report.linux.extfrag).chain(report.columns.iter().map(|column| &column.extfrag));
        for rows in rows {
            let events = rows.iter().find(|row| key(row) == wanted).map_or(0, |row| row.events);
            write!(f, "{:>VALUE$}", grouped(events))?;
        }
        writeln!(f)?;
    }
    Ok(())
}

/// Final free blocks by order, as in `/proc/buddyinfo`.
fn blocks(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let orders = report.linux.buddyinfo.iter().map(|zone| zone.free.len()).max().unwrap_or(0);
    block_heading(f, "Free blocks at the end, by order", orders)?;
    let rows = |f: &mut Formatter<'_>, name: &str, zones: &[ZoneBlocks]| {
        zones.iter().try_for_each(|zone| block_row(f, name, zone.node.into(), (zone.zone, ""), &zone.free))
    };
    rows(f, "Linux", &report.linux.buddyinfo)?;
    for (i, column) in report.columns.iter().enumerate() {
        rows(f, &name(report, i), &column.buddyinfo)?;
    }
    Ok(())
}

/// What `/proc/pagetypeinfo` has beyond that: the same by mobility, and pageblocks. What Linux had is not recorded.
fn mobilities(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let infos = report.columns.iter().map(|column| PageTypeInfo::parse(&column.pagetypeinfo, "pagetypeinfo"));
    // Our own output, which reads well.
    let infos: Vec<PageTypeInfo> = infos.filter_map(Result::ok).collect();
    let orders = infos.iter().flat_map(|info| &info.free).map(|row| row.free.len()).max().unwrap_or(0);
    block_heading(f, "The same by mobility", orders)?;
    for (i, info) in infos.iter().enumerate() {
        for row in info.free.iter().filter(|row| row.free.iter().any(|&count| count != 0)) {
            block_row(f, &name(report, i), row.node, (&row.zone, row.migratetype.name()), &row.free)?;
        }
    }
    write!(f, "\n{:<width$}", "Pageblocks at the end, by mobility", width = BLOCKS.0)?;
    MigrateType::ALL.iter().try_for_each(|migratetype| write!(f, "{:>12}", migratetype.name()))?;
    writeln!(f)?;
    for (i, info) in infos.iter().enumerate() {
        for row in &info.pageblocks {
            label(f, &name(report, i), row.node, (&row.zone, ""))?;
            row.count.iter().try_for_each(|&count| write!(f, "{:>12}", grouped(count)))?;
            writeln!(f)?;
        }
    }
    Ok(())
}

fn block_heading(f: &mut Formatter<'_>, heading: &str, orders: usize) -> fmt::Result {
    let (label, value) = BLOCKS;
    write!(f, "\n{heading:<label$}")?;
    (0..orders).try_for_each(|order| write!(f, "{order:>value$}"))?;
    writeln!(f)
}

fn block_row(f: &mut Formatter<'_>, name: &str, node: u32, zone: (&str, &str), counts: &[u64]) -> fmt::Result {
    label(f, name, node, zone)?;
    counts.iter().try_for_each(|count| write!(f, "{count:>value$}", value = BLOCKS.1))?;
    writeln!(f)
}

fn label(f: &mut Formatter<'_>, name: &str, node: u32, (zone, mobility): (&str, &str)) -> fmt::Result {
    let label = format!("  {name:<12}{node:>2} {zone:<9}{mobility}");
    write!(f, "{label:<width$}", width = BLOCKS.0)
}
