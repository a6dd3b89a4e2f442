//! What came of an experiment, and its three forms: text, JSON and a page.
//!
//! An experiment brings what it found as data, whose serialized form is the JSON, and says by [`Show`] how to show it. What all
//! have in common is written here: the head, theirs and ours, what had to hold, each run, and the numbers of the machine.

use framewright_sim::machine::Spec;
use minijinja::value::Serde;
use serde::Serialize;

use super::check::Check;
use super::fitted::Fitted;
use super::head::Head;
use super::headline::Headline;
use super::show::Show;
use super::text::Wrapped;
use super::variation::Varied;
use crate::html::{Row, Section, environment};

/// What every reproduction has.
#[derive(Clone, Copy, Serialize)]
pub struct Common<'a> {
    /// Which experiment it is, and how it is made again.
    #[serde(flatten)]
    pub head: &'a Head,
    /// What was fitted to the table.
    pub fitted: &'a [Fitted],
    /// What was varied for the bands.
    pub varied: Option<&'a Varied>,
    /// What had to hold.
    #[serde(skip)]
    pub checks: &'a [Check],
}

/// What came of an experiment.
pub trait Reproduction: Serialize {
    /// What every reproduction has.
    fn common(&self) -> Common<'_>;

    /// Says how to show it.
    fn show<'a>(&'a self, show: &mut Show<'a>);

    /// The few figures to look at first.
    fn headline(&self) -> Headline;

    /// For a terminal of 100 columns.
    fn text(&self) -> String {
        let (Common { head, checks, .. }, mut show) = (self.common(), Show::default());
        self.show(&mut show);
        let Show { title, ours, text, tallies_checks, .. } = show;
        let sides =
            [format!("theirs: {}", head.title), format!("ours: {ours}")].map(|side| Wrapped(&side, 2).to_string());
        let mut all = format!("{}: {title}\n{}{text}{}", head.experiment, sides.concat(), in_lines(checks));
        if tallies_checks {
            all += &tally(checks);
        }
        all
    }

    /// As a page for a browser, of these machines.
    ///
    /// # Errors
    /// The template does not fit the data, which is a mistake in this crate.
    fn page(&self, machines: &[&Spec]) -> Result<String, minijinja::Error> {
        let (found, mut show) = (self.common(), Show::default());
        self.show(&mut show);
        let runs = show.runs.iter().map(|(name, report)| (name.as_str(), Section::of(report))).collect();
        let checks = found.checks.iter().map(|check| (check, check.word().to_lowercase())).collect();
        let machines =
            machines.iter().map(|spec| (spec.name.as_str(), spec.parameters().map(Row::of).collect())).collect();
        let page = Page { found, show: &show, checks, runs, machines };
        environment()?.get_template("reproduction.html")?.render(Serde(page))
    }
}

/// All that the template names.
#[derive(Serialize)]
struct Page<'a> {
    found: Common<'a>,
    show: &'a Show<'a>,
    checks: Vec<(&'a Check, String)>,
    runs: Vec<(&'a str, Section<'a>)>,
    machines: Vec<(&'a str, Vec<Row<'a>>)>,
}

/// What had to hold, in lines.
fn in_lines(checks: &[Check]) -> String {
    let lines: String = checks.iter().map(|check| Wrapped(&format!("  {check}"), 10).to_string()).collect();
    format!("\nChecks\n{lines}")
}

/// What the checks come to.
fn tally(checks: &[Check]) -> String {
    let count = |passed: Option<bool>| checks.iter().filter(|check| check.passed == passed).count();
    let [held, failed, unseen] = [Some(true), Some(false), None].map(count);
    format!("\n{held} of {} checks hold, {failed} fail, {unseen} could not be seen\n", checks.len())
}
