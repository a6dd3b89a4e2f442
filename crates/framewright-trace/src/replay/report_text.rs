//! Prints the report for a person: first the quality of the trace, then the kernel's results beside ours.
//!
//! There is a column for the kernel and one for each set of mechanisms; `-` where the kernel has no such number. Rows
//! of zeros are left out of the tables of free blocks. The JSON form has them, and `pagetypeinfo` in the kernel's
//! layout.

use std::collections::BTreeSet;
use std::fmt::{self, Formatter};

use framewright::Mechanisms;
use framewright::units::MigrateType;
use framewright_table::Table as Sheet;
use framewright_table::figures::thousands;

use super::recorded_machine::Knowledge;
use super::relief_text;
use super::report::{Column, ExtfragRow, LinuxColumn, Report, TraceQuality, UnusableIndex, ZoneBlocks, free_frames};
use super::report_row::{line, percent, row};
use super::thp_faults::FirstTry;
use crate::counted::counted;
use crate::mechanisms::unlike;
use crate::proc::PageTypeInfo;
use crate::record::Kind;

/// Prints a [`Report`] for a terminal.
pub struct Table<'r>(pub &'r Report);

/// Least width of the first column of the tables of blocks, and of the others.
const BLOCKS: (usize, usize) = (40, 7);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let report = self.0;
        quality(f, report)?;
        for (i, column) in report.columns.iter().enumerate() {
            writeln!(f, "  {}: {}", name(report, i), unlike_baseline(&column.mechanisms))?;
        }
        // One table for all parts, so that their columns are aligned.
        let mut table = Sheet::new("<>");
        let columns = (0..report.columns.len()).map(|i| name(report, i));
        line(&mut table, "", std::iter::once("Linux".to_owned()).chain(columns));
        faults(&mut table, report);
        fragmentation(&mut table, report);
        relief_text::reclaim(&mut table, report);
        conduct(&mut table, report);
        free(&mut table, report);
        relief_text::bounds(&mut table, report);
        table.text(notes(report));
        orders(&mut table, report);
        extfrag(&mut table, report);
        write!(f, "\n{table}")?;
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
                format!(" ({} failed)", thousands(q.failed_allocs))
            } else {
                String::new()
            };
            format!("{} {name}{failed}", thousands(count))
        })
        .collect();
    writeln!(f, "  {} events: {}", thousands(q.events), names.join(", "))?;
    let lost = if q.lost_events == 0 { "an unknown number".to_owned() } else { thousands(q.lost_events) };
    match q.lost_reports {
        0 => writeln!(f, "  lost by the tracer: none")?,
        gaps => {
            writeln!(f, "  lost by the tracer: {lost}, in {}: what follows a gap is DOUBTFUL", counted(gaps, "gap"))?
        }
    }
    left_out(f, q)?;
    writeln!(
        f,
        "  unknown frees {}, re-allocations {}, blocks freed in parts {}, moves to an allocated page {}",
        thousands(q.free_unknown),
        thousands(q.reallocations),
        thousands(q.splits),
        thousands(q.moves_to_allocated)
    )?;
    let m = &report.machine;
    writeln!(
        f,
        "  machine: {} frames, {}, {}",
        thousands(m.frames),
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
        Some(off) => writeln!(f, "; {} free blocks more or less than in buddyinfo", thousands(off)),
        None => writeln!(f),
    }
}

/// Prints what the replay leaves out: other events, unreadable lines and unknown flags.
fn left_out(f: &mut Formatter<'_>, q: &TraceQuality) -> fmt::Result {
    let left_out = [
        (q.unknown_events, "events of other kinds"),
        (q.unrecognized_lines, "lines that are no events"),
        (q.malformed_lines, "events that could not be read"),
    ];
    let left_out = left_out.iter().filter(|(count, _)| *count != 0);
    let left_out: Vec<String> = left_out.map(|(count, what)| format!("{what} {}", thousands(*count))).collect();
    if !left_out.is_empty() {
        writeln!(f, "  not used: {}", left_out.join(", "))?;
        q.malformed.iter().try_for_each(|message| writeln!(f, "    {message}"))?;
    }
    if q.unknown_flags.is_empty() {
        return Ok(());
    }
    let flags = q.unknown_flags.iter().map(|(flag, count)| format!("{flag} {}", thousands(*count)));
    let flags: Vec<String> = flags.collect();
    writeln!(f, "  flags that are not known here, left out of their requests: {}", flags.join(", "))
}

/// The switches that differ from the baseline.
fn unlike_baseline(mechanisms: &str) -> String {
    let switches = unlike(mechanisms, &Mechanisms::BASELINE);
    if switches.is_empty() { "baseline".to_owned() } else { switches.join(",") }
}

/// The title of the column of the `i`-th set of mechanisms.
fn name(report: &Report, i: usize) -> String {
    if report.columns.len() > 1 { format!("ours {}", i + 1) } else { "Framewright".to_owned() }
}

fn faults(t: &mut Sheet, report: &Report) {
    let share = |served: u64, of: u64| if of == 0 { String::new() } else { percent(served, of) };
    let number = |value: u64| Some(thousands(value));
    row(t, report, "huge page faults", |l| number(l.order9_faults), |c| thousands(c.order9_faults));
    let (linux, ours) = (
        |l: &LinuxColumn| Some(thousands(l.order9_faults_served) + &share(l.order9_faults_served, l.order9_faults)),
        |c: &Column| thousands(c.order9_faults_served) + &share(c.order9_faults_served, c.order9_faults),
    );
    row(t, report, "  served with a huge page", linux, ours);
    row(t, report, "  served here, failed by Linux", |_| None, |c| thousands(c.served_where_linux_failed));
    row(t, report, "  failed here, served by Linux", |_| None, |c| thousands(c.failed_where_linux_served));
    let label = "  requests: first tries and retries";
    row(t, report, label, |l| number(l.order9_requests), |c| thousands(c.order9_requests));
    let label = "  most huge pages held at once";
    row(t, report, label, |l| number(l.peak_blocks_held), |c| thousands(c.peak_blocks_held));
    row(t, report, "  base pages not taken for those served here", |_| None, |c| thousands(c.base_pages_skipped));
    let label = "  given back when Linux's base pages were";
    row(t, report, label, |_| None, |c| thousands(c.huge_pages_given_back));
    row(t, report, "  split because memory was short", |_| None, |c| thousands(c.huge_pages_split));
}

fn fragmentation(t: &mut Sheet, report: &Report) {
    let number = |value: u64| Some(thousands(value));
    let label = match report.linux.page_moves {
        Some(_) => "pages moved by compaction",
        None => "pages moved by compaction, Linux's not recorded",
    };
    row(t, report, label, |l| l.page_moves.map(thousands), |c| thousands(c.page_moves));
    row(t, report, "fallbacks to another mobility", |l| number(l.extfrag_events), |c| thousands(c.extfrag_events));
    let label = "  fragmenting: of less than a pageblock";
    row(t, report, label, |l| number(l.extfrag_fragmenting), |c| thousands(c.extfrag_fragmenting));
    for order in report.linux.unusable_index.keys() {
        let share = |index: &UnusableIndex| format!("{:.3}", index.get(order).copied().unwrap_or(0.0));
        let label = format!("share of free memory unusable for order {order}");
        row(t, report, &label, |l| Some(share(&l.unusable_index)), |c| share(&c.unusable_index));
    }
}

/// Compares free memory at the end with the kernel's own figure.
///
/// The difference is a measure of the trace and of its start.
fn free(t: &mut Sheet, report: &Report) {
    let Some(recorded) = report.free_recorded else { return };
    let off = |zones: &[ZoneBlocks]| {
        let off = free_frames(zones) as f64 - recorded.free_frames as f64;
        format!("{:+.2} %", off * 100.0 / recorded.managed.max(1) as f64)
    };
    let frames = |zones: &[ZoneBlocks]| thousands(free_frames(zones));
    row(t, report, "frames free at the end", |l| Some(frames(&l.buddyinfo)), |c| frames(&c.buddyinfo));
    let (kernels, managed) = (thousands(recorded.free_frames), thousands(recorded.managed));
    let label = format!("  off the kernel's {kernels}, of {managed} managed");
    row(t, report, &label, |l| Some(off(&l.buddyinfo)), |c| off(&c.buddyinfo));
}

fn conduct(t: &mut Sheet, report: &Report) {
    row(t, report, "other requests failed here, served by Linux", |_| None, |c| thousands(c.failed_smaller));
    relief_text::reasons(t, report);
    row(t, report, "frees refused", |_| None, |c| thousands(c.frees_refused));
    let conserved = |c: &Column| if c.pages_conserved { "yes" } else { "NO" }.to_owned();
    row(t, report, "every page accounted for at the end", |_| None, conserved);
    row(t, report, "events/s on one core", |_| None, |c| thousands(c.events_per_second as u64));
}

fn notes(report: &Report) -> String {
    let flags = match report.quality.first_tries {
        FirstTry::ThisNodeNoRetry => " with __GFP_THISNODE and __GFP_NORETRY",
        FirstTry::ThisNode => " with __GFP_THISNODE",
        FirstTry::Any => "",
    };
    let order = report.machine.pageblock_order;
    let moves = match report.linux.page_moves {
        Some(_) => "",
        None => "\nThe trace has no event page_migrate: framewright doctor says whether a recording can have it.",
    };
    format!(
        "\nA fault is a task's first request of order {order}{flags}, and its retries.\n{}{moves}",
        relief_text::notes(report)
    )
}

fn orders(t: &mut Sheet, report: &Report) {
    t.text("\nRequests by order: made / failed");
    let all = report.columns.iter().flat_map(|column| &column.orders).chain(&report.linux.orders);
    let orders: BTreeSet<u8> = all.map(|row| row.order).collect();
    for order in orders {
        let rows = std::iter::once(&report.linux.orders).chain(report.columns.iter().map(|column| &column.orders));
        let cells = rows.map(|row| {
            let row = row.iter().find(|row| row.order == order);
            let (requests, failed) = row.map_or((0, 0), |row| (row.requests, row.failed));
            format!("{} / {}", thousands(requests), thousands(failed))
        });
        line(t, &format!("  order {order}"), cells);
    }
}

fn extfrag(t: &mut Sheet, report: &Report) {
    type Key = (&'static str, &'static str, u8, u8);
    let key = |row: &ExtfragRow| -> Key {
        (row.alloc_migratetype, row.fallback_migratetype, row.alloc_order, row.fallback_order)
    };
    let all = report.columns.iter().flat_map(|column| &column.extfrag).chain(&report.linux.extfrag);
    let keys: BTreeSet<Key> = all.map(key).collect();
    if keys.is_empty() {
        return;
    }
    t.text("\nFallbacks: what was asked for, and the free block that it was taken from");
    for wanted in keys {
        let (want, from, order, found) = wanted;
        let rows = std::iter::once(&report.linux.extfrag).chain(report.columns.iter().map(|column| &column.extfrag));
        let events = |rows: &Vec<ExtfragRow>| rows.iter().find(|row| key(row) == wanted).map_or(0, |row| row.events);
        let label = format!("  {want} order {order} from {from} order {found}");
        line(t, &label, rows.map(|rows| thousands(events(rows))));
    }
}

/// Prints the final free blocks by order, as in `/proc/buddyinfo`.
fn blocks(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let orders = report.linux.buddyinfo.iter().map(|zone| zone.free.len()).max().unwrap_or(0);
    let mut table = block_heading("Free blocks at the end, by order", orders);
    let mut rows = |name: &str, zones: &[ZoneBlocks]| {
        zones.iter().for_each(|zone| block_row(&mut table, &label(name, zone.node, (zone.zone, "")), &zone.free));
    };
    rows("Linux", &report.linux.buddyinfo);
    for (i, column) in report.columns.iter().enumerate() {
        rows(&name(report, i), &column.buddyinfo);
    }
    write!(f, "\n{table}")
}

/// Prints the final free blocks by mobility as well, and the pageblocks, as in `/proc/pagetypeinfo`.
///
/// Linux's own are not recorded.
fn mobilities(f: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let infos = report.columns.iter().map(|column| PageTypeInfo::parse(&column.pagetypeinfo, "pagetypeinfo"));
    // Our own output, which parses.
    let infos: Vec<PageTypeInfo> = infos.filter_map(Result::ok).collect();
    let orders = infos.iter().flat_map(|info| &info.free).map(|row| row.free.len()).max().unwrap_or(0);
    let mut table = block_heading("The same by mobility", orders);
    for (i, info) in infos.iter().enumerate() {
        for row in info.free.iter().filter(|row| row.free.iter().any(|&count| count != 0)) {
            let label = label(&name(report, i), row.node, (&row.zone, row.migratetype.name()));
            block_row(&mut table, &label, &row.free);
        }
    }
    write!(f, "\n{table}")?;
    let mut table = Sheet::new("<>");
    let mut row = |label: &str, cells: Vec<String>| {
        let cells = cells.into_iter().map(|cell| format!("{cell:>12}"));
        table.row(std::iter::once(format!("{label:<width$}", width = BLOCKS.0)).chain(cells).collect());
    };
    let types = MigrateType::ALL.iter().map(|migratetype| migratetype.name().to_owned());
    row("Pageblocks at the end, by mobility", types.collect());
    for (i, info) in infos.iter().enumerate() {
        for counts in &info.pageblocks {
            let label = label(&name(report, i), counts.node, (&counts.zone, ""));
            row(&label, counts.count.iter().map(|&count| thousands(count)).collect());
        }
    }
    write!(f, "\n{table}")
}

fn block_heading(heading: &str, orders: usize) -> Sheet {
    let mut table = Sheet::new("<>");
    let (label, value) = BLOCKS;
    let orders = (0..orders).map(|order| format!("{order:>value$}"));
    table.row(std::iter::once(format!("{heading:<label$}")).chain(orders).collect());
    table
}

fn block_row(table: &mut Sheet, label: &str, counts: &[u64]) {
    let counts = counts.iter().map(|count| format!("{count:>value$}", value = BLOCKS.1));
    table.row(std::iter::once(format!("{label:<width$}", width = BLOCKS.0)).chain(counts).collect());
}

fn label(name: &str, node: u32, (zone, mobility): (&str, &str)) -> String {
    format!("  {name:<12}{node:>2} {zone:<9}{mobility}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_do_not_touch() {
        let mut table = Sheet::new("<>");
        line(
            &mut table,
            "  order 0",
            [692_422_u64, u64::MAX, 7].map(|n| format!("{} / {}", thousands(n), thousands(n))).into_iter(),
        );
        let text = table.to_string();
        assert!(text.contains("692,422 / 692,422 18,446,744"), "{text}");
        let mut table = block_heading("Free blocks at the end, by order", 3);
        block_row(&mut table, &label("Framewright", 1023, ("DMA32", "Reclaimable")), &[u64::MAX, 12_345_678, 9]);
        let text = table.to_string();
        assert!(text.contains("18446744073709551615 12345678 "), "{text}");
    }
}
