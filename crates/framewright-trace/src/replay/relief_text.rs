//! The rows of the report about reclaim: what was reclaimed early, the bounds, and why requests failed.

use std::collections::BTreeSet;

use framewright_table::Table as Sheet;
use framewright_table::figures::thousands;

use super::bound::Bound;
use super::page_costs::PageCosts;
use super::report::{Column, LinuxColumn, Report};
use super::report_row::{percent, row};

/// Adds the rows of reclaim, and of the time for it.
pub(super) fn reclaim(t: &mut Sheet, report: &Report) {
    let number = |value: u64| Some(thousands(value));
    row(t, report, "pages reclaimed by Linux", |l| number(l.reclaimed), |_| "-".to_owned());
    row(t, report, "  of these known from their allocation on", |l| number(l.reclaimed_known), |_| "-".to_owned());
    row(t, report, "pages reclaimed early", |_| None, |c| thousands(c.reclaimed_early));
    let earlier = |c: &Column| c.reclaimed_earlier_s.map_or("-".to_owned(), |seconds| format!("{seconds:.3}"));
    row(t, report, "  seconds before Linux reclaimed them, on average", |_| None, earlier);
    let PageCosts { move_ns, read_ns } = report.costs;
    let label = format!("ms for pages moved, at {} us each", micros(move_ns));
    row(t, report, &label, |l: &LinuxColumn| l.page_moves_ms.map(millis), |c| millis(c.page_moves_ms));
    let label = format!("ms to read pages reclaimed early again, at {} us", micros(read_ns));
    row(t, report, &label, |_| None, |c| millis(c.reclaimed_early_ms));
}

fn micros(nanoseconds: u64) -> String {
    format!("{}", nanoseconds as f64 / 1e3)
}

fn millis(time: f64) -> String {
    thousands(time.round() as u64)
}

/// Adds a row for each reason for which a request failed that Linux served.
pub(super) fn reasons(t: &mut Sheet, report: &Report) {
    let reasons: BTreeSet<&str> =
        report.columns.iter().flat_map(|column| column.failed_because.keys().copied()).collect();
    for reason in reasons {
        let count = |column: &Column| column.failed_because.get(reason).copied().unwrap_or(0);
        row(t, report, &format!("  tries that failed: {reason}"), |_| None, |c| thousands(count(c)));
    }
}

/// Adds the bounds: the results of the two other ways to reclaim.
pub(super) fn bounds(t: &mut Sheet, report: &Report) {
    type Get = fn(&Column) -> &Bound;
    let bounds: [(&str, Get); 2] = [
        ("\nIf nothing were reclaimed here, and no huge page split", |c| &c.nothing_reclaimed),
        ("\nIf all that Linux reclaimed were reclaimed at once", |c| &c.all_reclaimed_at_once),
    ];
    for (heading, bound) in bounds {
        t.text(heading);
        let served = |c: &Column| {
            let served = bound(c).order9_faults_served;
            thousands(served) + &if c.order9_faults == 0 { String::new() } else { percent(served, c.order9_faults) }
        };
        row(t, report, "  huge page faults served", |_| None, served);
        row(t, report, "  failed here, served by Linux", |_| None, |c| thousands(bound(c).failed_where_linux_served));
        row(
            t,
            report,
            "  other requests failed here, served by Linux",
            |_| None,
            |c| thousands(bound(c).failed_smaller),
        );
        row(t, report, "  pages moved by compaction", |_| None, |c| thousands(bound(c).page_moves));
        row(t, report, "  pages reclaimed early", |_| None, |c| thousands(bound(c).reclaimed_early));
    }
}

/// The notes about reclaim.
pub(super) fn notes(report: &Report) -> String {
    let context = match report.linux.direct_reclaims {
        Some(count) => format!("in kswapd or by one of {} requests.", thousands(count)),
        None => {
            "in kswapd.\nThe trace has no event of direct reclaim, so what requests reclaimed is not known.".to_owned()
        }
    };
    format!(
        "One that is served here and that Linux failed is freed with the last of the base pages that the task took.\n\
         Reclaimed early is what Linux reclaimed later, {context}\n\
         What Linux freed is freed here too, and what it moved has moved."
    )
}
