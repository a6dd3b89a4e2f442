//! What came of an experiment, and its three forms: text, JSON and a page.
//!
//! An experiment goes through what it ran once, table by table, and says of each what the JSON, the tables of [`Show`],
//! the checks and the headline have of it. What all experiments have in common is written here: the head, theirs and
//! ours, what had to hold, each run, and the numbers of the machine.

use erased_serde::Serialize as AnyForm;
use framewright_sim::machine::Spec;
use minijinja::value::Serde;
use serde::{Serialize, Serializer};

use super::check::Check;
use super::fitted::{self, Fitted};
use super::headline::Headline;
use super::show::{Show, broken};
use super::variation::Varied;
use crate::html::{ParameterRow, RunSection, environment};

/// Values by name, in an order of their own: a part of the JSON.
#[derive(Default)]
pub struct Object(Vec<(&'static str, Box<dyn AnyForm + Send + Sync>)>);

impl Object {
    /// Adds a value.
    pub fn put(&mut self, name: &'static str, value: impl Serialize + Send + Sync + 'static) {
        self.0.push((name, Box::new(value)));
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// An [`Object`] of these values.
macro_rules! object {
    ($($name:literal: $value:expr),* $(,)?) => {{
        let mut object = $crate::reproduce::found::Object::default();
        $(object.put($name, $value);)*
        object
    }};
}
pub(crate) use object;

/// Name of the checks in the JSON.
const CHECKS: &str = "checks";
/// Version of the JSON.
pub const SCHEMA: &str = "framewright-reproduce/1";

/// Head of the JSON: the experiment, and the command that makes it again.
#[derive(Serialize)]
pub(super) struct Head {
    schema: &'static str,
    /// Name of the experiment, and of the table that machines' numbers are fitted to.
    experiment: &'static str,
    /// The command that prints it.
    command: String,
    /// Title of the published table.
    title: String,
    /// Place of its publication.
    source: String,
    /// The machine.
    pub(super) model: String,
    /// Seed of all that is random.
    pub(super) seed: u64,
}

/// Results of an experiment.
#[derive(Serialize)]
pub struct Reproduction {
    #[serde(flatten)]
    pub(super) head: Head,
    /// The rest of the JSON.
    #[serde(flatten)]
    pub(super) json: Object,
    #[serde(skip)]
    pub(super) fitted: Vec<Fitted>,
    #[serde(skip)]
    pub(super) varied: Option<Varied>,
    /// Checks of the results.
    #[serde(skip)]
    pub checks: Vec<Check>,
    #[serde(skip)]
    pub(super) show: Show,
    /// The few figures to look at first.
    #[serde(skip)]
    pub headline: Headline,
}

impl Reproduction {
    /// Nothing yet, of an experiment whose name and command are given, and the title and source of what was published.
    /// Fitted are the machine's numbers that say so, and those that are `restated`.
    pub(super) fn new(
        (experiment, command): (&'static str, &str),
        [title, source]: [&str; 2],
        (machine, seed): (&Spec, u64),
        restated: &[(&str, &str)],
        varied: Option<&Varied>,
    ) -> Self {
        let (schema, varied) = (SCHEMA, varied.cloned());
        let fitted = fitted::to(experiment, machine).into_iter().chain(fitted::restated(restated)).collect();
        let [command, title, source, model] = [command, title, source, &machine.name].map(str::to_owned);
        Self {
            head: Head { schema, experiment, command, title, source, model, seed },
            json: Object::default(),
            fitted,
            varied,
            checks: Vec::new(),
            show: Show::default(),
            headline: Headline { experiment, ..Headline::default() },
        }
    }

    /// Leaves to a full run the checks that do not hold in this one, which is a quick one.
    #[must_use]
    pub fn in_a_quick_run(mut self) -> Self {
        self.json.0.retain(|(name, _)| *name != CHECKS);
        let checks = std::mem::take(&mut self.checks);
        self.checked(checks.into_iter().map(Check::in_a_quick_run).collect())
    }

    /// Ends the JSON with what had to hold.
    pub fn checked(mut self, checks: Vec<Check>) -> Self {
        self.json.put(CHECKS, checks.clone());
        self.checks = checks;
        self
    }

    /// For a terminal of 100 columns.
    pub fn text(&self) -> String {
        let Self { head, checks, show: Show { title, ours, text, tallies_checks, .. }, .. } = self;
        let sides = [format!("theirs: {}", head.title), format!("ours: {ours}")].map(|side| broken(&side, 2));
        let mut all = format!("{}: {title}\n{}{text}{}", head.experiment, sides.concat(), in_lines(checks));
        if *tallies_checks {
            all += &tally(checks);
        }
        all
    }

    /// As a page for a browser, of these machines.
    ///
    /// # Errors
    /// The template does not fit the data, which is a mistake in this crate.
    pub fn page(&self, machines: &[Spec]) -> Result<String, minijinja::Error> {
        let Self { head, fitted, varied, checks, show, .. } = self;
        let page = ReproductionContext {
            found: Evidence { head, fitted, varied: varied.as_ref() },
            show,
            checks: checks.iter().map(|check| (check, check.word().to_lowercase())).collect(),
            runs: show.runs.iter().map(|(name, report)| (name.as_str(), RunSection::of(report))).collect(),
            machines: machines
                .iter()
                .map(|spec| (&*spec.name, spec.parameters().map(ParameterRow::of).collect()))
                .collect(),
        };
        environment()?.get_template("reproduction.html")?.render(Serde(page))
    }
}

/// All that the template names.
#[derive(Serialize)]
struct ReproductionContext<'a> {
    found: Evidence<'a>,
    show: &'a Show,
    checks: Vec<(&'a Check, String)>,
    runs: Vec<(&'a str, RunSection<'a>)>,
    machines: Vec<(&'a str, Vec<ParameterRow<'a>>)>,
}

#[derive(Serialize)]
struct Evidence<'a> {
    #[serde(flatten)]
    head: &'a Head,
    fitted: &'a [Fitted],
    varied: Option<&'a Varied>,
}

/// Writes the checks, one a line.
fn in_lines(checks: &[Check]) -> String {
    let lines: String = checks.iter().map(|check| broken(&format!("  {check}"), 10)).collect();
    format!("\nChecks\n{lines}")
}

/// Writes how many checks passed, failed and were not made.
fn tally(checks: &[Check]) -> String {
    let count = |passed: Option<bool>| checks.iter().filter(|check| check.passed == passed).count();
    let [held, failed, unseen] = [Some(true), Some(false), None].map(count);
    format!("\n{held} of {} checks hold, {failed} fail, {unseen} could not be seen\n", checks.len())
}
