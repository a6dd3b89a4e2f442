//! The table of the NUMA statistics as a page for a browser.

use framewright_sim::machine::Parameter;
use minijinja::value::Serde;
use serde::Serialize;

use super::plot::{Axis, Over, Plot, Series};
use super::{Row, SHOWN, SMALL, STYLE, Section, environment};
use crate::reproduce::check::{Check, Standing};
use crate::reproduce::numa_stats::published::Figures;
use crate::reproduce::numa_stats::result::Row as Threshold;
use crate::reproduce::numa_stats::{Reproduction, judge, text};
use crate::reproduce::variation::Band;
use crate::sim::figures::grouped;

/// What the page shows.
pub struct NumaStatsPage<'a> {
    /// The table.
    pub found: &'a Reproduction,
    /// Numbers of the machine model.
    pub parameters: &'a [&'a Parameter],
}

/// All that the template names.
#[derive(Serialize)]
struct Content<'a> {
    style: &'static str,
    found: &'a Reproduction,
    what_differs: &'static str,
    plot: Plot,
    table: Vec<Line<'a>>,
    reasons: Vec<(&'a str, &'a str)>,
    checks: Vec<(&'a Check, String)>,
    runs: Vec<(&'a str, Section<'a>)>,
    locks: usize,
    lines: usize,
    small: f64,
    parameters: Vec<Row<'a>>,
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

impl NumaStatsPage<'_> {
    /// The page.
    ///
    /// # Errors
    /// The template does not fit the data, which is a mistake in this crate.
    pub fn render(&self) -> Result<String, minijinja::Error> {
        let found = self.found;
        let table = found.rows.iter().map(|row| (row.threshold.as_str(), &row.report));
        let beside = found.beside.iter().map(|row| (row.name.as_str(), &row.report));
        let content = Content {
            style: STYLE,
            found,
            what_differs: text::ours(),
            plot: plot(&found.rows),
            table: found.rows.iter().map(line).collect(),
            reasons: found.reasons().collect(),
            checks: found.checks.iter().map(|check| (check, check.word().to_lowercase())).collect(),
            runs: table.chain(beside).map(|(name, report)| (name, Section::of(report))).collect(),
            locks: SHOWN.0,
            lines: SHOWN.1,
            small: SMALL,
            parameters: self.parameters.iter().map(|parameter| Row::of(parameter)).collect(),
        };
        environment()?.get_template("numa_stats.html")?.render(Serde(content))
    }
}

fn line(row: &Threshold) -> Line<'_> {
    let both = [row.published, row.simulated];
    Line {
        name: &row.threshold,
        fitted: row.fitted,
        cycles: both.map(|figures| format!("{:.0}", figures.cycles)),
        is: Standing::class(judge::standing(row).map(|(standing, _)| standing)),
        band: row.band.map_or(String::new(), |Band([least, most])| format!("{least:.0} … {most:.0}")),
        throughput: both.map(|figures| grouped(figures.throughput)),
    }
}

/// Cycles over the threshold, which is shown by its number of bits.
fn plot(rows: &[Threshold]) -> Plot {
    let points = |figures: fn(&Threshold) -> Figures| {
        let point = |row: &Threshold| Some((row.threshold.parse::<f64>().ok()?.log2().round(), figures(row).cycles));
        rows.iter().filter_map(point).collect()
    };
    let series = [("theirs", points(|row| row.published)), ("ours", points(|row| row.simulated))];
    let series = series.map(|(name, points)| Series { name: name.to_owned(), points });
    Plot::over("An allocation and its free", &Axis::count("cycles"), &Over::BITS, &series)
}
