//! The zone's layout as a page for a browser.

use framewright_sim::machine::Parameter;
use minijinja::value::Serde;
use serde::Serialize;

use super::plot::{Axis, Plot, Series};
use super::{Row as Number, SHOWN, SMALL, STYLE, Section, environment};
use crate::reproduce::check::{Check, Standing};
use crate::reproduce::zone_layout::result::Row;
use crate::reproduce::zone_layout::{Reproduction, judge, text};

/// What the page shows.
pub struct ZoneLayoutPage<'a> {
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
    what_differs: String,
    names: Vec<&'a str>,
    curves: Plot,
    gains: Plot,
    table: Vec<Line<'a>>,
    checks: Vec<(&'a Check, String)>,
    runs: Vec<(&'a str, Section<'a>)>,
    locks: usize,
    lines: usize,
    small: f64,
    parameters: Vec<Number<'a>>,
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

impl ZoneLayoutPage<'_> {
    /// The page.
    ///
    /// # Errors
    /// The template does not fit the data, which is a mistake in this crate.
    pub fn render(&self) -> Result<String, minijinja::Error> {
        let found = self.found;
        let points = |points: &[(usize, f64)]| points.iter().map(|&(cpus, value)| (cpus as f64, value)).collect();
        let curve = |name: &str, of: &[(usize, f64)]| Series { name: name.to_owned(), points: points(of) };
        let curves: Vec<Series> = found.variants.iter().map(|one| curve(&one.name, &one.points)).collect();
        let lost = |gains: &[(usize, f64)]| -> Vec<(usize, f64)> {
            gains.iter().map(|&(cpus, gain)| (cpus, (-gain).max(0.0))).collect()
        };
        let losses: Vec<Series> = found.crossover.iter().map(|one| curve(one.lock, &lost(&one.gain_percent))).collect();
        let content = Content {
            style: STYLE,
            found,
            what_differs: text::ours(found),
            names: found.variants.iter().map(|variant| variant.name.as_str()).collect(),
            curves: Plot::new("Throughput", &Axis::rate("pages"), &curves),
            gains: Plot::new("Lost beside the lists", &Axis::percent("of the throughput behind them"), &losses),
            table: found.rows.iter().map(line).collect(),
            checks: found.checks.iter().map(|check| (check, check.word().to_lowercase())).collect(),
            runs: found.variants.iter().map(|one| (one.name.as_str(), Section::of(&one.report))).collect(),
            locks: SHOWN.0,
            lines: SHOWN.1,
            small: SMALL,
            parameters: self.parameters.iter().map(|parameter| Number::of(parameter)).collect(),
        };
        environment()?.get_template("zone_layout.html")?.render(Serde(content))
    }
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
