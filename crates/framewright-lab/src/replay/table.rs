//! The report as a person reads it: the trace's quality first, then what the kernel did beside what we did.

use std::collections::BTreeSet;
use std::fmt;

use super::outcome::{Column, ExtfragRow, Report, ZoneBlocks};

/// Prints a [`Report`] for a terminal.
pub struct Table<'r>(pub &'r Report);

/// Width of the first column.
const LABEL: usize = 46;
/// Width of the others.
const VALUE: usize = 15;

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        quality(f, report)?;
        heading(f, report)?;
        let rows: [(&str, u64, fn(&Column) -> u64); 6] = [
            ("fallbacks to another mobility", report.linux.extfrag_events, |c| c.extfrag_events),
            ("  fragmenting (less than a pageblock)", report.linux.extfrag_fragmenting, |c| c.extfrag_fragmenting),
            ("requests for huge pages", report.linux.order9_requests, |c| c.order9_requests),
            ("huge page faults", report.linux.order9_faults, |c| c.order9_faults),
            ("  served", report.linux.order9_faults_served, |c| c.order9_faults_served),
            ("most huge pages held at once", report.linux.peak_blocks_held, |c| c.peak_blocks_held),
        ];
        for (label, linux, ours) in rows {
            numbers(f, label, Some(linux), report.columns.iter().map(ours))?;
        }
        for order in report.linux.unusable_index.keys() {
            let share = |index: &super::UnusableIndex| index.get(order).copied().unwrap_or(0.0);
            let label = format!("unusable for order {order}, of free memory");
            write!(f, "{label:<LABEL$}{:>VALUE$.3}", share(&report.linux.unusable_index))?;
            for column in &report.columns {
                write!(f, "{:>VALUE$.3}", share(&column.unusable_index))?;
            }
            writeln!(f)?;
        }
        let rows: [(&str, fn(&Column) -> u64); 6] = [
            ("faults served that Linux failed", |c| c.served_where_linux_failed),
            ("  base pages not taken for them", |c| c.base_pages_skipped),
            ("faults failed that Linux served", |c| c.failed_where_linux_served),
            ("smaller requests failed that Linux served", |c| c.failed_smaller),
            ("frees refused", |c| c.frees_refused),
            ("events/s on one core", |c| c.events_per_second as u64),
        ];
        for (label, ours) in rows {
            numbers(f, label, None, report.columns.iter().map(ours))?;
        }
        orders(f, report)?;
        extfrag(f, report)?;
        blocks(f, report)
    }
}

fn quality(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let q = &report.quality;
    writeln!(f, "Trace {}", report.trace)?;
    let names: Vec<String> = q.by_name.iter().map(|(name, count)| format!("{count} {name}")).collect();
    writeln!(f, "  {} events: {}", q.events, names.join(", "))?;
    let lost = if q.lost_events == 0 { "none".to_owned() } else { format!("{}: THE REPLAY IS DOUBTFUL", q.lost_events) };
    writeln!(f, "  lost {lost}; unknown {}; unreadable lines {}", q.unknown_events, q.malformed_lines)?;
    writeln!(
        f,
        "  unknown frees {}, re-allocations {}, splits {}, moves to an allocated page {}",
        q.free_unknown, q.reallocations, q.splits, q.moves_to_allocated
    )?;
    let known = match q.initial_state {
        super::machine::Knowledge::Frames => "every frame",
        super::machine::Knowledge::Zones => "zones only",
        super::machine::Knowledge::Nothing => "nothing (what events do not show in use counts as free)",
    };
    write!(f, "  state before the first event: {known}")?;
    match q.initial_blocks_off {
        Some(0) => writeln!(f, "; free blocks agree with buddyinfo"),
        Some(off) => writeln!(f, "; {off} free blocks differ from buddyinfo"),
        None => writeln!(f),
    }
}

fn heading(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    writeln!(f)?;
    if report.columns.len() > 1 {
        for (i, column) in report.columns.iter().enumerate() {
            writeln!(f, "  ours {}: {}", i + 1, column.mechanisms)?;
        }
    }
    write!(f, "{:<LABEL$}{:>VALUE$}", "", "Linux")?;
    for i in 1..=report.columns.len() {
        let name = if report.columns.len() > 1 { format!("ours {i}") } else { "Framewright".to_owned() };
        write!(f, "{name:>VALUE$}")?;
    }
    writeln!(f)
}

fn numbers(
    f: &mut fmt::Formatter<'_>,
    label: &str,
    linux: Option<u64>,
    ours: impl Iterator<Item = u64>,
) -> fmt::Result {
    let linux = linux.map_or_else(|| "-".to_owned(), grouped);
    write!(f, "{label:<LABEL$}{linux:>VALUE$}")?;
    for value in ours {
        write!(f, "{:>VALUE$}", grouped(value))?;
    }
    writeln!(f)
}

/// A number with a comma every three digits.
fn grouped(value: u64) -> String {
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

fn orders(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
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

fn extfrag(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    type Key = (&'static str, &'static str, u8, u8);
    let key = |row: &ExtfragRow| -> Key {
        (row.alloc_migratetype, row.fallback_migratetype, row.alloc_order, row.fallback_order)
    };
    let all = report.columns.iter().flat_map(|column| &column.extfrag).chain(&report.linux.extfrag);
    let keys: BTreeSet<Key> = all.map(key).collect();
    if keys.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nFallbacks: mobility asked for, mobility found, order asked for, order found")?;
    for wanted in keys {
        let (want, from, order, found) = wanted;
        let label = format!("{want} from {from}, order {order} from {found}");
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

/// Final free blocks, in the layout of `/proc/buddyinfo`.
fn blocks(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    writeln!(f, "\nFree blocks at the end, by order (per-CPU lists drained)")?;
    let rows = |f: &mut fmt::Formatter<'_>, name: &str, zones: &[ZoneBlocks]| {
        for zone in zones {
            write!(f, "  {name:<12}Node {}, zone {:>8} ", zone.node, zone.zone)?;
            for count in &zone.free {
                write!(f, "{count:>6} ")?;
            }
            writeln!(f)?;
        }
        Ok(())
    };
    rows(f, "Linux", &report.linux.buddyinfo)?;
    for (i, column) in report.columns.iter().enumerate() {
        let name = if report.columns.len() > 1 { format!("ours {}", i + 1) } else { "Framewright".to_owned() };
        rows(f, &name, &column.buddyinfo)?;
    }
    for column in &report.columns {
        writeln!(f, "\nAt the end{}:\n{}", under(report, column), column.pagetypeinfo.trim_end())?;
    }
    Ok(())
}

fn under(report: &Report, column: &Column) -> String {
    if report.columns.len() > 1 { format!(" under {}", column.mechanisms) } else { String::new() }
}
