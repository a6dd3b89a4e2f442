//! The experiments at a glance as a page for a browser: each figure, theirs and ours on one scale, and where its own
//! page is.

use minijinja::value::Serde;
use serde::Serialize;

use super::all::{All, band};
use crate::html::environment;
use crate::reproduce::headline::{Headline, HeadlineRow};

/// Width of a figure's picture, in units of its own.
const WIDTH: f64 = 240.0;
/// Free space at both of its ends.
const MARGIN: f64 = 8.0;

/// All that the template names.
#[derive(Serialize)]
struct OverviewContext<'a> {
    all: &'a All,
    tally: String,
    legend: String,
    experiments: Vec<ExperimentSection<'a>>,
}

/// An experiment.
#[derive(Serialize)]
struct ExperimentSection<'a> {
    headline: &'a Headline,
    lines: Vec<Line<'a>>,
}

/// A figure in words, and in places of the picture.
#[derive(Serialize)]
struct Line<'a> {
    row: &'a HeadlineRow,
    published: String,
    ours: String,
    band: String,
    verdict: &'static str,
    class: &'static str,
    zero: f64,
    theirs: Option<f64>,
    at: f64,
    within: Option<[f64; 2]>,
}

/// Begins what a page shows.
const CONTENT: &str = "<main>\n";
/// Leads back to this page.
const BACK: &str = "<p><a href=\"index.html\">All experiments</a></p>\n";

/// An experiment's own page, as one of several in a folder.
pub fn beside_overview(page: &str) -> String {
    page.replacen(CONTENT, &format!("{CONTENT}{BACK}"), 1)
}

/// The page.
///
/// # Errors
/// The template does not fit the data, which is a mistake in this crate.
pub fn overview_page(all: &All) -> Result<String, minijinja::Error> {
    let content = OverviewContext {
        all,
        tally: all.tally(),
        legend: all.legend(),
        experiments: all.experiments.iter().map(ExperimentSection::of).collect(),
    };
    environment()?.get_template("overview.html")?.render(Serde(content))
}

impl<'a> ExperimentSection<'a> {
    fn of(headline: &'a Headline) -> Self {
        let line = |row: &'a HeadlineRow| {
            Line::of(row, PictureScale::of(headline.rows.iter().filter(|other| other.unit == row.unit)))
        };
        Self { headline, lines: headline.rows.iter().map(line).collect() }
    }
}

impl<'a> Line<'a> {
    fn of(row: &'a HeadlineRow, scale: PictureScale) -> Self {
        Self {
            row,
            published: row.told(row.published),
            ours: row.told(Some(row.ours)),
            band: band(row),
            verdict: row.verdict.words(),
            class: row.verdict.class(),
            zero: scale.place(0.0),
            theirs: row.published.map(|value| scale.place(value)),
            at: scale.place(row.ours),
            within: row.band.map(|band| band.0.map(|value| scale.place(value))),
        }
    }
}

/// The least and the most that figures of one unit are, zero among them.
#[derive(Clone, Copy)]
struct PictureScale([f64; 2]);

impl PictureScale {
    fn of<'r>(rows: impl Iterator<Item = &'r HeadlineRow>) -> Self {
        let all = rows.flat_map(|row| {
            [Some(row.ours), row.published].into_iter().flatten().chain(row.band.into_iter().flat_map(|band| band.0))
        });
        Self(
            all.filter(|value| value.is_finite())
                .fold([0.0, 0.0], |[least, most], value| [least.min(value), most.max(value)]),
        )
    }

    fn place(self, value: f64) -> f64 {
        let Self([least, most]) = self;
        let share = (value - least) / (most - least).max(f64::MIN_POSITIVE);
        ((MARGIN + share * (WIDTH - 2.0 * MARGIN)) * 10.0).round() / 10.0
    }
}
