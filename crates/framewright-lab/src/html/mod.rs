//! Runs of the simulated machine as one page for a browser.
//!
//! The page is a single file without scripts that asks the network for nothing, follows the reader's light or dark
//! setting, and says everything that its plots show in a table as well. What it contains comes from a template; the
//! numbers are written by the functions that the text form uses, so that the two never differ. All templates extend
//! `frame.html`, those of reproduced tables `reproduction.html`, which does.

pub(crate) mod plot;

use framewright_sim::machine::{Parameter, Unit};
use framewright_sim::report::Report;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Value, context};
use serde::Serialize;

use crate::sim::Sensitivity;
use crate::sim::cpu_time::CpuTime;
use crate::sim::curve::{against_first, by_mechanisms, contention, scaling, worst_lock};
use crate::sim::run::{cost, figure_value};
use crate::sim::sensitivity::{Effect, in_words};
use framewright_table::figures;
use plot::{Axis, Plot, Series};

/// Content of a page about simulated runs.
pub struct RunsPage<'a> {
    /// The command that makes this page.
    pub command: &'a str,
    /// Runs of one workload on one machine.
    pub runs: &'a [Report],
    /// Numbers of the machine model.
    pub parameters: &'a [&'a Parameter],
    /// How results depend on them, if that was asked for.
    pub sensitivities: &'a [Sensitivity],
}

/// A run with what its tables need beyond the report.
#[derive(Serialize)]
pub(crate) struct RunSection<'a> {
    report: &'a Report,
    anchor: String,
    waiting: f64,
    scaling: f64,
    change: Option<String>,
    worst_lock: Option<&'a str>,
    cpu_time: Option<CpuTime>,
    cost: f64,
}

/// All that the template names.
#[derive(Serialize)]
struct RunsContext<'a> {
    command: &'a str,
    first: Option<&'a Report>,
    plots: Vec<Plot>,
    groups: Vec<Group<'a>>,
    parameters: Vec<ParameterRow<'a>>,
    sensitivities: Vec<Moved<'a>>,
}

/// A sensitivity without the parameters that do nothing.
#[derive(Serialize)]
struct Moved<'a> {
    table: &'a Sensitivity,
    rows: Vec<&'a Effect>,
    still: usize,
}

/// Runs under the same mechanisms.
#[derive(Serialize)]
struct Group<'a> {
    mechanisms: &'a str,
    runs: Vec<RunSection<'a>>,
}

/// A number of the machine model, in words.
#[derive(Serialize)]
pub(crate) struct ParameterRow<'a> {
    name: &'a str,
    value: String,
    kind: &'static str,
    detail: &'a str,
}

/// Locks and lines, and fields of a line, that a run's tables show.
const SHOWN: (usize, usize) = (8, 20);
/// Lines and fields that cost less than this many percent of all are not shown.
const SMALL: f64 = 0.1;

impl RunsPage<'_> {
    /// The page.
    ///
    /// # Errors
    /// The template does not fit the data, which is a mistake in this crate.
    pub fn render(&self) -> Result<String, minijinja::Error> {
        let environment = environment()?;
        let groups = by_mechanisms(self.runs);
        let content = RunsContext {
            command: self.command,
            first: self.runs.first(),
            plots: if self.runs.len() > 1 { plots(&groups) } else { Vec::new() },
            groups: groups.iter().enumerate().map(|(i, group)| Group::of(i, group, &groups)).collect(),
            parameters: self.parameters.iter().map(|parameter| ParameterRow::of(parameter)).collect(),
            sensitivities: self.sensitivities.iter().map(Moved::of).collect(),
        };
        environment.get_template("page.html")?.render(Serde(content))
    }
}

pub(crate) fn environment() -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    let templates = [
        ("frame.html", include_str!("frame.html")),
        ("tables.html", include_str!("tables.html")),
        ("page.html", include_str!("page.html")),
        ("reproduction.html", include_str!("reproduction.html")),
        ("overview.html", include_str!("overview.html")),
        ("why.html", include_str!("why.html")),
    ];
    for (name, template) in templates {
        environment.add_template(name, template)?;
    }
    environment.add_global("style", Value::from_safe_string(include_str!("style.css").to_owned()));
    environment.add_global("shown", context! { locks => SHOWN.0, lines => SHOWN.1, small => SMALL });
    environment.add_filter("count", figures::count);
    environment.add_filter("duration", figures::duration);
    environment.add_filter("percent", figures::percent);
    environment.add_filter("grouped", figures::grouped);
    environment.add_filter("ratio", figures::ratio);
    environment.add_filter("short", figures::short);
    environment.add_filter("figure", figure_value);
    environment.add_filter("plural", |unit: String| figures::plural(&unit));
    environment.add_filter("basis", |basis: String| if basis == "source" { "sourced".to_owned() } else { basis });
    environment.add_filter("share", figures::share);
    environment.add_filter("capitalize_first", capitalized);
    environment.add_filter("change", |to: f64, from: f64| figures::change(from, to));
    Ok(environment)
}

/// A sentence's first letter as one writes it there.
fn capitalized(text: String) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

impl<'a> Group<'a> {
    fn of(number: usize, (mechanisms, runs): &(&'a str, Vec<&'a Report>), all: &[(&'a str, Vec<&'a Report>)]) -> Self {
        let section = |report: &&'a Report| RunSection {
            anchor: format!("run-{}-{}", number + 1, report.cpus),
            scaling: scaling(runs, report),
            change: against_first(all, report),
            ..RunSection::of(report)
        };
        Self { mechanisms, runs: runs.iter().map(section).collect() }
    }
}

impl<'a> RunSection<'a> {
    /// A run by itself.
    pub(crate) fn of(report: &'a Report) -> Self {
        Self {
            report,
            anchor: String::new(),
            waiting: contention(report),
            scaling: f64::NAN,
            change: None,
            worst_lock: worst_lock(report),
            cpu_time: CpuTime::of(report),
            cost: report.lines.iter().map(|line| cost(&line.total)).sum(),
        }
    }
}

impl<'a> Moved<'a> {
    fn of(table: &'a Sensitivity) -> Self {
        let (rows, still): (Vec<_>, Vec<_>) = table.rows.iter().partition(|row| table.matters(row));
        Self { table, rows, still: still.len() }
    }
}

impl<'a> ParameterRow<'a> {
    /// A number in words.
    pub(crate) fn of(parameter: &'a Parameter) -> Self {
        let amount = |value: f64, unit: Unit| {
            let number = value.to_string();
            match unit {
                Unit::Count => number,
                Unit::Ratio => format!("× {number}"),
                Unit::Percent => format!("{number} %"),
                Unit::Ghz => format!("{number} GHz"),
                Unit::Kib => format!("{number} KiB"),
                Unit::Mib => format!("{number} MiB"),
                Unit::GbPerS => format!("{number} GB/s"),
                Unit::Cycles | Unit::Ns | Unit::Lines => format!("{number} {}", unit.key()),
            }
        };
        let value = amount(parameter.value, parameter.unit);
        let value = parameter.at.map_or(value.clone(), |(at, unit)| format!("{value} at {}", amount(at, unit)));
        let (kind, detail) = in_words(&parameter.basis);
        Self { name: &parameter.path, value, kind, detail }
    }
}

/// Throughput, share of time spent waiting for locks, and cycles, by number of CPUs.
fn plots(groups: &[(&str, Vec<&Report>)]) -> Vec<Plot> {
    let series = |value: &dyn Fn(&Report) -> f64| -> Vec<Series> {
        let of = |(name, runs): &(&str, Vec<&Report>)| Series {
            name: (*name).to_owned(),
            points: runs.iter().map(|run| (run.cpus as f64, value(run))).collect(),
        };
        groups.iter().map(of).collect()
    };
    let unit = groups.first().and_then(|(_, runs)| runs.first()).map_or("", |run| run.unit.as_str());
    vec![
        Plot::new("Throughput", &Axis::rate(&figures::plural(unit)), &series(&|run| run.per_second)).with_ideal(),
        Plot::new("Waiting for locks", &Axis::percent("of CPU time"), &series(&contention)),
        Plot::new(
            "Cycles",
            &Axis::count(&format!("for one {unit}, all CPUs")),
            &series(&|run| run.cycles_per_operation),
        ),
    ]
}
