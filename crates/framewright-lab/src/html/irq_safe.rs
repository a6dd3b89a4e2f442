//! The tables of the irq-safe lists as a page for a browser.

use framewright_sim::machine::Spec;
use serde::Serialize;

use super::plot::{Axis, Over, Plot, Series};
use super::reproduction::{Reproduced, band};
use crate::reproduce::irq_safe::published::{Both, Operation};
use crate::reproduce::irq_safe::result::{Aim9, Row, Softirq};
use crate::reproduce::irq_safe::text::rate;
use crate::reproduce::irq_safe::{Reproduction, judge, text};
use crate::sim::figures::grouped;

/// What only this page names.
#[derive(Serialize)]
struct Own<'a> {
    plots: [Plot; 2],
    batches: Vec<Line>,
    tests: Vec<Test>,
    packets: Vec<Packets<'a>>,
    modes: Vec<(&'static str, &'static str)>,
    reasons: Vec<(&'a str, &'a str)>,
}

/// A batch, in words.
#[derive(Serialize)]
struct Line {
    name: String,
    fitted: bool,
    printed: String,
    corrected: String,
    simulated: String,
    saved: [String; 2],
    is: &'static str,
}

/// A statistic of a test, in words.
#[derive(Serialize)]
struct Test {
    name: String,
    fitted: bool,
    theirs: [String; 3],
    ours: [String; 3],
}

/// A mode's throughput, in words.
#[derive(Serialize)]
struct Packets<'a> {
    mode: &'a str,
    mechanisms: &'a str,
    fitted: bool,
    theirs: [String; 2],
    ours: [String; 2],
    band: String,
}

/// The page of the reproduced tables.
///
/// # Errors
/// The template does not fit the data, which is a mistake in this crate.
pub fn irq_safe_page(found: &Reproduction, machine: &Spec) -> Result<String, minijinja::Error> {
    let own = Own {
        plots: [Operation::Alloc, Operation::Free].map(|operation| plot(&found.rows, operation)),
        batches: found.rows.iter().map(line).collect(),
        tests: found.aim9.iter().map(test).collect(),
        packets: found.softirq.iter().map(packets).collect(),
        modes: text::modes(),
        reasons: found.reasons().collect(),
    };
    let runs = found.runs.iter().map(|(name, report)| (format!("packets, {name}"), report));
    Reproduced::new((found, &found.checks), machine, text::ours(), runs, own).render("irq_safe.html")
}

fn arrow(both: Both) -> String {
    format!("{:.1} → {:.1}", both.vanilla, both.irqsafe)
}

fn line(row: &Row) -> Line {
    Line {
        name: row.name(),
        fitted: row.fitted,
        printed: arrow(row.published),
        corrected: arrow(row.corrected),
        simulated: arrow(row.simulated),
        saved: [row.corrected, row.simulated].map(|both| format!("{:.1}", both.saving())),
        is: match judge::is_near(row) {
            Some(true) => "holds",
            Some(false) => "fails",
            None => "",
        },
    }
}

fn test(row: &Aim9) -> Test {
    let of = |both: Both, gain: f64| [rate(both.vanilla), rate(both.irqsafe), format!("{gain:+.2}")];
    Test {
        name: row.test.row(row.statistic),
        fitted: row.fitted,
        theirs: of(row.published, row.published_gain_percent),
        ours: of(row.simulated, row.simulated_gain_percent),
    }
}

fn packets(row: &Softirq) -> Packets<'_> {
    let percent = |change: f64| format!("{change:+.1}");
    Packets {
        mode: row.mode,
        mechanisms: row.mechanisms,
        fitted: row.fitted,
        theirs: [
            row.published_mbit.map_or(String::new(), grouped),
            row.published_change_percent.map_or(String::new(), percent),
        ],
        ours: [grouped(row.simulated_mbit), percent(row.change_percent)],
        band: band(row.band),
    }
}

/// Savings over the batch.
fn plot(rows: &[Row], operation: Operation) -> Plot {
    let points = |of: fn(&Row) -> Both| {
        let rows = rows.iter().filter(|row| row.operation == operation && row.batch > 1);
        rows.map(|row| (f64::from(row.batch).log2(), of(row).saving())).collect()
    };
    let series = [("theirs", points(|row| row.corrected)), ("ours", points(|row| row.simulated))];
    let series = series.map(|(name, points)| Series { name: name.to_owned(), points });
    let title = match operation {
        Operation::Free => "Saved by a free",
        _ => "Saved by an allocation",
    };
    Plot::over(title, &Axis::count("cycles"), &Over::PAGES, &series)
}
