//! The tables of the fragmentation avoidance series as a page for a browser.

use framewright_sim::machine::Spec;
use framewright_sim::thpfioscale::outcome::Sample;
use serde::Serialize;

use super::Row as Parameter;
use super::blocks;
use super::plot::{Axis, Over, Plot, Series};
use super::reproduction::Reproduced;
use crate::reproduce::check::Standing;
use crate::reproduce::fragmentation::measured::READING;
use crate::reproduce::fragmentation::plan::OURS;
use crate::reproduce::fragmentation::published::KERNELS;
use crate::reproduce::fragmentation::result::{Alone, Picture, Row};
use crate::reproduce::fragmentation::{Reproduction, judge, text};

/// Points of a curve over time, about.
const POINTS: u64 = 20;

/// What only this page names.
#[derive(Serialize)]
struct Own<'a> {
    kernels: [(&'static str, &'static str); 5],
    configs: Vec<Config<'a>>,
    closer: &'static str,
    over_time: Vec<&'static str>,
    events: Plot,
    rounds: Option<Plot>,
    maps: Vec<blocks::Picture>,
    alone: Vec<Line<'a, 5>>,
    reasons: Vec<(String, &'a str)>,
    others: Vec<Parameter<'a>>,
    other: &'a str,
}

/// A configuration, in words.
#[derive(Serialize)]
struct Config<'a> {
    described: String,
    before: Option<String>,
    events: Vec<Line<'a, 6>>,
    costs: Vec<Line<'a, 11>>,
}

/// A row, in words, and how its figures stand.
#[derive(Serialize)]
struct Line<'a, const N: usize>
where
    [String; N]: Serialize,
{
    name: &'a str,
    fitted: bool,
    cells: [String; N],
    is: [&'static str; 2],
}

/// The page of the reproduced tables.
///
/// # Errors
/// The template does not fit the data, which is a mistake in this crate.
pub fn fragmentation_page(found: &Reproduction, machines: [&Spec; 2]) -> Result<String, minijinja::Error> {
    let [machine, other] = machines;
    let configs = found.configs.iter().map(|config| Config {
        described: text::described(config),
        before: text::before(config),
        events: found.of(config.name).map(events).collect(),
        costs: found.of(config.name).map(costs).collect(),
    });
    let own = Own {
        kernels: text::kernels(),
        configs: configs.collect(),
        closer: found.pictured,
        over_time: found.pictures.iter().map(|picture| picture.kernel).collect(),
        events: over_time(&found.pictures),
        rounds: (!found.rounds.is_empty()).then(|| by_round(found)),
        maps: maps(&found.pictures),
        alone: found.ablation.iter().map(alone).collect(),
        reasons: found.reasons().collect(),
        others: other.parameters().map(Parameter::of).collect(),
        other: &other.name,
    };
    let no_runs = std::iter::empty();
    Reproduced::new((found, &found.checks), machine, text::ours(), no_runs, own).render("fragmentation.html")
}

fn events(row: &Row) -> Line<'_, 6> {
    let class =
        |holds: Option<bool>| Standing::class(holds.map(|holds| if holds { Standing::Near } else { Standing::Off }));
    Line {
        name: row.kernel,
        fitted: row.fitted,
        cells: text::events(row),
        is: [judge::is_fewer(row), judge::is_huge(row)].map(class),
    }
}

fn costs(row: &Row) -> Line<'_, 11> {
    Line { name: row.kernel, fitted: row.fitted, cells: text::costs(row), is: [""; 2] }
}

fn alone(row: &Alone) -> Line<'_, 5> {
    Line { name: row.mechanisms, fitted: false, cells: text::alone(row), is: [""; 2] }
}

/// Events so far of each kernel.
fn over_time(pictures: &[Picture]) -> Plot {
    let end = pictures.iter().filter_map(|picture| picture.samples.last()).map(|sample| sample.ms).max().unwrap_or(0);
    let step = (end / POINTS).next_multiple_of(100).max(100);
    let series: Vec<Series> = pictures.iter().map(|picture| curve(picture, step)).collect();
    Plot::over("What mixed mobilities, so far", &Axis::powers("events"), &Over::SECONDS, &series)
}

/// The last sample before each of the times, and before the end: most may happen behind the last full step.
fn curve(picture: &Picture, step: u64) -> Series {
    let end = picture.samples.last().map_or(0, |sample| sample.ms).next_multiple_of(100);
    let at = |ms: u64| {
        let before = |sample: &&Sample| sample.ms <= ms;
        let events = picture.samples.iter().rev().find(before).map_or(0, |sample| sample.events);
        (ms as f64 / 1e3, events as f64)
    };
    let times = (0..end).step_by(step as usize).chain([end]);
    Series { name: picture.kernel.to_owned(), points: times.map(at).collect() }
}

/// Huge pages of those kernels that were run for several rounds, in the looks that they have in the other plot.
fn by_round(found: &Reproduction) -> Plot {
    let points = |kernel: &str| {
        let rounds = found.rounds.iter().find(|rounds| rounds.kernel == kernel);
        let all = rounds.map_or(&[][..], |rounds| &rounds.huge_percent).iter().enumerate();
        all.map(|(i, percent)| ((i + 1) as f64, *percent)).collect()
    };
    let names = found.pictures.iter().map(|picture| picture.kernel);
    let series = names.map(|kernel| Series { name: kernel.to_owned(), points: points(kernel) });
    Plot::over("Huge pages by round", &Axis::percent("of faults"), &Over::ROUNDS, &series.collect::<Vec<_>>())
}

/// Memory under the first kernel and ours, when huge pages were wanted and when all was over.
fn maps(pictures: &[Picture]) -> Vec<blocks::Picture> {
    let shown = [KERNELS[0], OURS].map(|kernel| pictures.iter().find(|picture| picture.kernel == kernel));
    let moments = [(READING, "files in memory"), ("clean up", "files deleted")];
    let map = |picture: &Picture, (phase, words): (&str, &str)| {
        let (_, blocks) = picture.blocks.iter().find(|(name, _)| *name == phase)?;
        Some(blocks::Picture::new(format!("{}, {words}", picture.kernel), blocks))
    };
    moments.iter().flat_map(|moment| shown.iter().flatten().filter_map(|picture| map(picture, *moment))).collect()
}
