//! What the pages of all reproductions have: theirs beside ours, what had to hold, each run, and what the numbers rest on.

use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use minijinja::value::Serde;
use serde::Serialize;

use super::{Row, Section, environment};
use crate::reproduce::check::Check;
use crate::reproduce::variation::Band;

/// All that `reproduction.html` names, and what only one page does.
#[derive(Serialize)]
pub(super) struct Reproduced<'a, F, O> {
    found: &'a F,
    what_differs: String,
    checks: Vec<(&'a Check, String)>,
    runs: Vec<(String, Section<'a>)>,
    parameters: Vec<Row<'a>>,
    #[serde(flatten)]
    own: O,
}

impl<'a, F: Serialize, O: Serialize> Reproduced<'a, F, O> {
    /// Of what was found on a machine, with the page's own.
    pub(super) fn new(
        (found, checks): (&'a F, &'a [Check]),
        machine: &'a Spec,
        what_differs: impl Into<String>,
        runs: impl Iterator<Item = (String, &'a Report)>,
        own: O,
    ) -> Self {
        Self {
            found,
            what_differs: what_differs.into(),
            checks: checks.iter().map(|check| (check, check.word().to_lowercase())).collect(),
            runs: runs.map(|(name, report)| (name, Section::of(report))).collect(),
            parameters: machine.parameters().map(Row::of).collect(),
            own,
        }
    }

    /// The page, from a template that extends `reproduction.html`.
    ///
    /// # Errors
    /// The template does not fit the data, which is a mistake in this crate.
    pub(super) fn render(self, template: &str) -> Result<String, minijinja::Error> {
        environment()?.get_template(template)?.render(Serde(self))
    }
}

/// A band in words; none is nothing.
pub(super) fn band(band: Option<Band>) -> String {
    band.map_or(String::new(), |Band([least, most])| format!("{least:.0} … {most:.0}"))
}
