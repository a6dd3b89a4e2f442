//! The table of the zone lock as a page for a browser.

use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use serde::Serialize;

use super::plot::{Axis, Over, Plot, Series};
use super::reproduction::{Reproduced, band};
use crate::reproduce::check::Standing;
use crate::reproduce::zone_lock::judge;
use crate::reproduce::zone_lock::others::{MixRow, Other};
use crate::reproduce::zone_lock::result::{Curve, Figures, Row, total};
use crate::reproduce::zone_lock::{Reproduction, text};
use crate::sim::figures::{grouped, percent};

/// What only this page names.
#[derive(Serialize)]
struct Own<'a> {
    curves: Option<Plot>,
    names: Vec<&'a str>,
    table: Vec<Line<'a>>,
    shares: Vec<Share<'a>>,
    orders: Vec<Plot>,
    groups: Vec<&'static str>,
    memory: Vec<Memory<'a>>,
    mix: Vec<Mix<'a>>,
}

/// A row of the table, in words.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    fitted: bool,
    performance: [String; 2],
    change: [String; 2],
    change_band: String,
    change_is: &'static str,
    waiting: [String; 2],
    waiting_band: String,
    waiting_is: &'static str,
    hold: Option<f64>,
    why: Option<&'a str>,
}

/// A share of CPU time, theirs and ours.
#[derive(Serialize)]
struct Share<'a> {
    name: &'a str,
    what: &'static str,
    theirs: Option<f64>,
    ours: Option<f64>,
}

/// What a kernel left of memory.
#[derive(Serialize)]
struct Memory<'a> {
    name: &'a str,
    whose: &'static str,
    groups: Vec<f64>,
    kept: Option<f64>,
    index: f64,
    drained: Option<f64>,
    pairs: Option<u64>,
}

/// A kernel under small and huge pages at once, in words.
#[derive(Serialize)]
struct Mix<'a> {
    name: &'a str,
    parts: [[String; 2]; 5],
    fell_back: String,
    waiting: String,
}

/// The page of the reproduced table.
///
/// # Errors
/// The template does not fit the data, which is a mistake in this crate.
pub fn zone_lock_page(found: &Reproduction, machine: &Spec) -> Result<String, minijinja::Error> {
    let series = |curve: &Curve| Series {
        name: curve.name.clone(),
        points: curve.points.iter().map(|&(cpus, speed)| (cpus as f64, speed)).collect(),
    };
    let curves: Vec<Series> = found.curves.iter().map(series).collect();
    let own = Own {
        curves: (!curves.is_empty()).then(|| Plot::new("Throughput", &Axis::rate("faults"), &curves)),
        names: found.curves.iter().map(|curve| curve.name.as_str()).collect(),
        table: found.rows.iter().map(line).collect(),
        shares: found.rows.iter().flat_map(shares).collect(),
        orders: found.rows.iter().filter_map(orders).collect(),
        groups: text::group_names().collect(),
        memory: found.rows.iter().flat_map(memory).collect(),
        mix: found.mix.iter().map(mix).collect(),
    };
    let what_differs = text::ours(found);
    Reproduced::new((found, &found.checks), machine, what_differs, runs(found), own).render("zone_lock.html")
}

/// The table's runs, and those of both sizes of pages.
fn runs(found: &Reproduction) -> impl Iterator<Item = (String, &Report)> {
    let table = found.rows.iter().map(|row| (row.name.clone(), row.simulated.as_ref().map(|ours| &ours.report)));
    let mix = |row: &'_ MixRow| format!("{}, {}", row.name, Other::Mix.title());
    let mix = found.mix.iter().map(move |row| (mix(row), row.simulated.as_ref().map(|ours| &ours.report)));
    table.chain(mix).filter_map(|(name, report)| Some((name, report?)))
}

/// A figure of theirs and of ours, in words.
fn both(row: &Row, of: impl Fn(&Figures) -> Option<String>) -> [String; 2] {
    let theirs = row.published.as_ref().and_then(|theirs| of(&theirs.figures));
    let ours = row.simulated.as_ref().and_then(|ours| of(&ours.figures));
    [theirs, ours].map(|figure| figure.unwrap_or_else(|| "–".to_owned()))
}

fn line(row: &Row) -> Line<'_> {
    let ours = row.simulated.as_ref();
    let bands = ours.and_then(|ours| ours.band);
    Line {
        name: &row.name,
        fitted: row.fitted,
        performance: both(row, |figures| Some(grouped(figures.performance))),
        change: both(row, |figures| figures.change_percent.map(|change| format!("{change:+.1}"))),
        change_band: band(bands.map(|bands| bands.change_percent)),
        change_is: Standing::class(judge::change(row)),
        waiting: both(row, |figures| Some(percent(figures.zone_lock_contention_percent))),
        waiting_band: band(bands.map(|bands| bands.zone_lock_contention_percent)),
        waiting_is: Standing::class(judge::contention(row)),
        hold: ours.map(|ours| ours.hold_p999_ns).filter(|&hold| hold > 0.0),
        why: ours.map(|ours| ours.why.as_str()),
    }
}

/// Shares of CPU time: of the zone lock, and of list operations where that was published.
fn shares(row: &Row) -> Vec<Share<'_>> {
    let theirs = row.published.as_ref().map(|theirs| theirs.figures);
    let ours = row.simulated.as_ref().map(|ours| ours.figures);
    let zone = |figures: Figures| figures.zone_lock_contention_percent;
    let mut all = vec![Share { name: &row.name, what: "zone lock", theirs: theirs.map(zone), ours: ours.map(zone) }];
    let add = theirs.and_then(|figures| figures.smp_list_add_percent);
    all.extend(add.map(|add| Share {
        name: &row.name,
        what: "smp_list_add",
        theirs: Some(add),
        ours: ours.and_then(|figures| figures.smp_list_add_percent),
    }));
    all
}

/// Free blocks by order, theirs and ours, of a kernel of which theirs were published.
fn orders(row: &Row) -> Option<Plot> {
    let theirs = row.published.as_ref()?.buddyinfo?;
    let points = |blocks: &[u64]| (0..).map(f64::from).zip(blocks.iter().map(|&blocks| blocks as f64)).collect();
    let mut series = vec![Series { name: "theirs".to_owned(), points: points(&theirs) }];
    series.extend(
        row.simulated.as_ref().map(|ours| Series { name: "ours".to_owned(), points: points(&total(&ours.buddyinfo)) }),
    );
    Some(Plot::over(&row.name, &Axis::powers("free blocks"), &Over::ORDERS, &series))
}

fn memory(row: &Row) -> Vec<Memory<'_>> {
    let theirs = row.published.as_ref().and_then(|theirs| {
        Some(Memory {
            name: &row.name,
            whose: "theirs",
            groups: text::groups(&theirs.buddyinfo?).to_vec(),
            kept: None,
            index: theirs.unusable_index_order5?,
            drained: None,
            pairs: None,
        })
    });
    let ours = row.simulated.as_ref().map(|ours| Memory {
        name: &row.name,
        whose: "ours",
        groups: text::groups(&total(&ours.buddyinfo)).to_vec(),
        kept: Some(text::kept(&ours.buddyinfo)),
        index: ours.unusable_index_order5,
        drained: Some(ours.drained.unusable_index_order5),
        pairs: Some(ours.drained.mergeable_pairs),
    });
    theirs.into_iter().chain(ours).collect()
}

fn mix(row: &MixRow) -> Mix<'_> {
    let ours = row.simulated.as_ref();
    let share = |share: Option<f64>| share.map_or(String::new(), percent);
    Mix {
        name: &row.name,
        parts: text::parts(row),
        fell_back: share(ours.map(|ours| ours.fallback_percent)),
        waiting: share(ours.map(|ours| ours.zone_lock_contention_percent)),
    }
}
