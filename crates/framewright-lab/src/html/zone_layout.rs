//! The zone's layout as a page for a browser.

use framewright_sim::machine::Spec;
use serde::Serialize;

use super::plot::{Axis, Plot, Series};
use super::reproduction::Reproduced;
use crate::reproduce::check::Standing;
use crate::reproduce::zone_layout::result::Row;
use crate::reproduce::zone_layout::{Reproduction, judge, text};

/// What only this page names.
#[derive(Serialize)]
struct Own<'a> {
    names: Vec<&'a str>,
    curves: Plot,
    gains: Plot,
    table: Vec<Line<'a>>,
}

/// A row of the table, in words.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    fitted: bool,
    theirs: f64,
    ours: Option<f64>,
    is: &'static str,
    band: String,
    why_not: Option<&'static str>,
}

/// The page of the reproduced table.
///
/// # Errors
/// The template does not fit the data, which is a mistake in this crate.
pub fn zone_layout_page(found: &Reproduction, machine: &Spec) -> Result<String, minijinja::Error> {
    let points = |points: &[(usize, f64)]| points.iter().map(|&(cpus, value)| (cpus as f64, value)).collect();
    let curve = |name: &str, of: &[(usize, f64)]| Series { name: name.to_owned(), points: points(of) };
    let curves: Vec<Series> = found.variants.iter().map(|one| curve(&one.name, &one.points)).collect();
    let lost = |gains: &[(usize, f64)]| -> Vec<(usize, f64)> {
        gains.iter().map(|&(cpus, gain)| (cpus, (-gain).max(0.0))).collect()
    };
    let losses: Vec<Series> = found.crossover.iter().map(|one| curve(one.lock, &lost(&one.gain_percent))).collect();
    let own = Own {
        names: found.variants.iter().map(|variant| variant.name.as_str()).collect(),
        curves: Plot::new("Throughput", &Axis::rate("processes"), &curves),
        gains: Plot::new(
            "Lost beside the lists",
            &Axis::percent("of the throughput behind them; a gain is drawn as 0"),
            &losses,
        ),
        table: found.rows.iter().map(line).collect(),
    };
    let runs = found.variants.iter().map(|one| (one.name.clone(), &one.report));
    Reproduced::new((found, &found.checks), machine, text::ours(found), runs, own).render("zone_layout.html")
}

fn line(row: &Row) -> Line<'_> {
    Line {
        name: &row.name,
        fitted: row.fitted,
        theirs: row.published.change_percent,
        ours: row.simulated.map(|ours| ours.change_percent),
        is: Standing::class(judge::change(row)),
        band: text::band(row),
        why_not: row.why_not,
    }
}
