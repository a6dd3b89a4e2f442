//! The table of the NUMA statistics as a page for a browser.

use framewright_sim::machine::Spec;
use serde::Serialize;

use super::plot::{Axis, Over, Plot, Series};
use super::reproduction::{Reproduced, band};
use crate::reproduce::check::Standing;
use crate::reproduce::numa_stats::published::Figures;
use crate::reproduce::numa_stats::result::Row;
use crate::reproduce::numa_stats::{Reproduction, judge, text};
use crate::sim::figures::grouped;

/// What only this page names.
#[derive(Serialize)]
struct Own<'a> {
    plot: Plot,
    table: Vec<Line<'a>>,
    reasons: Vec<(&'a str, &'a str)>,
}

/// A threshold, in words.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    fitted: bool,
    cycles: [String; 2],
    is: &'static str,
    band: String,
    throughput: [String; 2],
}

/// The page of the reproduced table.
///
/// # Errors
/// The template does not fit the data, which is a mistake in this crate.
pub fn numa_stats_page(found: &Reproduction, machine: &Spec) -> Result<String, minijinja::Error> {
    let table = found.rows.iter().map(|row| (row.threshold.clone(), &row.report));
    let beside = found.beside.iter().map(|row| (row.name.clone(), &row.report));
    let own = Own {
        plot: plot(&found.rows),
        table: found.rows.iter().map(line).collect(),
        reasons: found.reasons().collect(),
    };
    Reproduced::new((found, &found.checks), machine, text::ours(), table.chain(beside), own).render("numa_stats.html")
}

fn line(row: &Row) -> Line<'_> {
    let both = [row.published, row.simulated];
    Line {
        name: &row.threshold,
        fitted: row.fitted,
        cycles: both.map(|figures| format!("{:.0}", figures.cycles)),
        is: Standing::class(judge::standing(row).map(|(standing, _)| standing)),
        band: band(row.band),
        throughput: both.map(|figures| grouped(figures.throughput)),
    }
}

/// Cycles over the threshold, which is shown by its number of bits.
fn plot(rows: &[Row]) -> Plot {
    let points = |figures: fn(&Row) -> Figures| {
        let point = |row: &Row| Some((row.threshold.parse::<f64>().ok()?.log2().round(), figures(row).cycles));
        rows.iter().filter_map(point).collect()
    };
    let series = [("theirs", points(|row| row.published)), ("ours", points(|row| row.simulated))];
    let series = series.map(|(name, points)| Series { name: name.to_owned(), points });
    Plot::over("An allocation and its free", &Axis::count("cycles"), &Over::BITS, &series)
}
