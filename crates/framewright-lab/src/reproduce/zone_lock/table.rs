//! The table with its reasons, its curves by number of CPUs, and its shares of CPU time.

use std::iter::once;

use framewright::Order;
use framewright::report::unusable_index;
use framewright_sim::report::Report;
use framewright_sim::workload::Outcome;
use framewright_sim::workload::aftermath::FreeBlocks;
use serde::Serialize;

use super::plan::{BandedFigure, KernelPreset, Load, ZoneLockPlan};
use super::published::ORDERS;
use crate::html::plot::{Axis, Plot, Series};
use crate::reproduce::check::Standing;
use crate::reproduce::fitted::{Fitted, is_row};
use crate::reproduce::found::{Object, Reproduction, object};
use crate::reproduce::plan::Runs;
use crate::reproduce::show::{Grid, GridCell, Place, Show, band, cell, either, escaped, named, on_page};
use crate::reproduce::variation::Band;
use crate::reproduce::why::hold_p999;
use framewright_table::figures::{counted, duration, grouped, percent};

/// Points by which a change against the first row may be off.
pub(super) const CHANGE: f64 = 10.0;
/// Points by which a fitted row may be off, half of that: in a full run it is 1.3.
const FIT: f64 = 5.0;
/// Points by which a share of CPU time may be off, or else lie in a band that holds the published one.
pub(super) const SHARE: f64 = 15.0;
/// Columns of a kernel's name.
pub(super) const KERNEL: usize = 24;
/// The order whose requests fragmentation is measured by.
const ORDER: Order = Order(5);

/// A kernel, theirs and ours.
pub(super) struct KernelComparison<'a> {
    pub(super) name: &'a str,
    fitted: bool,
    /// None if nothing was published.
    pub(super) theirs: Option<KernelFigures>,
    /// Published free blocks by order at the end, if there are any.
    pub(super) blocks: Option<[u64; ORDERS]>,
    /// None if there is no such preset.
    pub(super) ours: Option<Ours<'a>>,
}

/// Figures of a kernel, published or ours.
#[derive(Clone, Copy)]
pub(super) struct KernelFigures {
    /// Faults per second.
    pub(super) performance: f64,
    /// Against the first row; none if that has not been run.
    pub(super) change_percent: Option<f64>,
    pub(super) zone_lock_contention_percent: f64,
    /// None if it was not told.
    pub(super) smp_list_add_percent: Option<f64>,
}

/// Results of one kernel's run.
pub(super) struct Ours<'a> {
    pub(super) figures: KernelFigures,
    mechanisms: String,
    bands: Option<KernelBands>,
    /// 999 of 1000 times the zone lock was held no longer, in nanoseconds.
    pub(super) held: f64,
    /// Free blocks by order that were left, by zone.
    pub(super) left: Vec<FreeBlocks>,
    /// Of those in both zones, the share of free memory that is unfit for a request of order 5: as left, and drained.
    pub(super) unusable: f64,
    pub(super) drained: f64,
    /// Pairs of free buddies that could then be one block and are not.
    pub(super) pairs: u64,
    report: &'a Report,
}

/// The least and the most that figures become with each number of the machine a tenth smaller and larger.
#[derive(Clone, Copy, Serialize)]
struct KernelBands {
    change_percent: Band,
    zone_lock_contention_percent: Band,
    smp_list_add_percent: Band,
}

impl KernelComparison<'_> {
    pub(super) fn both(&self) -> Option<(&KernelFigures, &Ours<'_>)> {
        Some((self.theirs.as_ref()?, self.ours.as_ref()?))
    }

    /// How its change stands to the published one; none for a row that predicts nothing.
    pub(super) fn change(&self) -> Option<Standing> {
        let (theirs, ours) = self.both().filter(|_| !self.fitted)?;
        let (theirs, off) = (theirs.change_percent?, self.off()?);
        Some(Standing::near(off <= CHANGE, theirs, ours.bands.map(|bands| bands.change_percent)))
    }

    /// Points by which its change is off the published one.
    fn off(&self) -> Option<f64> {
        let (theirs, ours) = self.both()?;
        Some((ours.figures.change_percent? - theirs.change_percent?).abs())
    }

    /// Whether the row was fitted and is off all the same.
    fn missed(&self) -> bool {
        self.fitted && self.off().is_some_and(|off| off > FIT)
    }

    /// How its share of time spent waiting for the zone lock stands to the published one.
    pub(super) fn contention(&self) -> Option<Standing> {
        let (theirs, ours) = self.both()?;
        let band = ours.bands.map(|bands| bands.zone_lock_contention_percent);
        let [theirs, ours] = [theirs, &ours.figures].map(|figures| figures.zone_lock_contention_percent);
        Some(Standing::of(theirs, ours, SHARE, band))
    }

    /// As [`KernelComparison::contention`], of concurrent list operations, where that was published.
    pub(super) fn list_add(&self) -> Option<Standing> {
        let (theirs, ours) = self.both()?;
        let band = ours.bands.map(|bands| bands.smp_list_add_percent);
        Some(Standing::of(theirs.smp_list_add_percent?, ours.figures.smp_list_add_percent?, SHARE, band))
    }

    fn json(&self, why: Option<String>) -> Object {
        let of =
            |KernelFigures { performance, change_percent, zone_lock_contention_percent, smp_list_add_percent }: KernelFigures| {
                object! {
                    "performance": performance, "change_percent": change_percent,
                    "zone_lock_contention_percent": zone_lock_contention_percent, "smp_list_add_percent": smp_list_add_percent,
                }
            };
        let theirs = self.theirs.map(|figures| {
            let mut theirs = of(figures);
            theirs.put("buddyinfo", self.blocks);
            theirs.put("unusable_index_order5", self.blocks.as_ref().map(index));
            theirs
        });
        let ours = self.ours.as_ref().map(|found| {
            let mut ours = of(found.figures);
            ours.put("mechanisms", found.mechanisms.clone());
            ours.put("band", found.bands);
            ours.put("hold_p999_ns", found.held);
            ours.put("buddyinfo", found.left.clone());
            ours.put("unusable_index_order5", found.unusable);
            ours.put("drained", object! { "unusable_index_order5": found.drained, "mergeable_pairs": found.pairs });
            ours.put("why", why);
            ours
        });
        object! { "name": self.name.to_owned(), "published": theirs, "simulated": ours, "fitted": self.fitted }
    }
}

/// Returns our results of a kernel, if there is such a preset.
pub(super) fn find<'r>(rows: &'r [KernelComparison<'r>], name: &str) -> Option<&'r Ours<'r>> {
    rows.iter().find(|row| row.name == name)?.ours.as_ref()
}

/// Share of free memory in blocks too small for a request of order 5: 0 to 1.
pub(super) fn index(blocks: &[u64; ORDERS]) -> f64 {
    f64::from(unusable_index(blocks, ORDER)) / 1000.0
}

/// Blocks of all zones.
pub(super) fn total(zones: &[FreeBlocks]) -> [u64; ORDERS] {
    zones.iter().fold([0; ORDERS], |mut sum, zone| {
        sum.iter_mut().zip(&zone.blocks).for_each(|(sum, blocks)| *sum += blocks);
        sum
    })
}

/// All kernels of the plan.
pub(super) fn rows<'a>(plan: &'a ZoneLockPlan<'_>, runs: &'a Runs, fitted: &[Fitted]) -> Vec<KernelComparison<'a>> {
    let row = |kernel: &'a KernelPreset| {
        let name = &kernel.name;
        let theirs = plan.published.row(name).map(|row| KernelFigures {
            performance: row.performance,
            change_percent: Some(row.change_percent),
            zone_lock_contention_percent: row.zone_lock_contention_percent,
            smp_list_add_percent: row.smp_list_add_percent,
        });
        let ours = plan.outcome(runs, name, Load::Faults).map(|outcome| ours(outcome, kernel, runs));
        KernelComparison { name, fitted: is_row(fitted, name), theirs, blocks: plan.published.free_blocks(name), ours }
    };
    plan.kernels.iter().map(row).collect()
}

fn ours<'a>(outcome: &'a Outcome, kernel: &KernelPreset, runs: &Runs) -> Ours<'a> {
    let report = &outcome.report;
    let figure = |figure: BandedFigure| runs.figures.get(&figure.of(&kernel.name)).copied();
    let band = |figure: BandedFigure| runs.band(&figure.of(&kernel.name));
    let bands = || {
        Some(KernelBands {
            change_percent: band(BandedFigure::Change)?,
            zone_lock_contention_percent: band(BandedFigure::ZoneLock)?.of_a_share(),
            smp_list_add_percent: band(BandedFigure::ListAdd)?.of_a_share(),
        })
    };
    let aftermath = outcome.aftermath.as_ref();
    let left = aftermath.map_or(Vec::new(), |aftermath| aftermath.left.clone());
    Ours {
        figures: KernelFigures {
            performance: report.per_second,
            change_percent: figure(BandedFigure::Change),
            zone_lock_contention_percent: figure(BandedFigure::ZoneLock).unwrap_or(f64::NAN),
            smp_list_add_percent: figure(BandedFigure::ListAdd),
        },
        mechanisms: kernel.switches(),
        bands: bands(),
        held: hold_p999(report),
        unusable: index(&total(&left)),
        drained: index(&total(aftermath.map_or(&[][..], |aftermath| &aftermath.drained))),
        pairs: aftermath.map_or(0, |aftermath| aftermath.mergeable),
        left,
        report,
    }
}

/// A figure, or a dash.
pub(super) fn dash(figure: Option<impl std::fmt::Display>) -> GridCell {
    figure.map_or_else(|| either("-", "–"), cell)
}

/// The table.
pub(super) fn table(plan: &ZoneLockPlan<'_>, rows: &[KernelComparison<'_>], found: &mut Reproduction) {
    let columns = "<24 kernel|>12 theirs|>12 ours|>8 theirs|>8 ours |>12 band|>8 theirs|>7 ours |>9 band";
    let heads = "Kernel|Faults per second:theirs;ours|Change, %:theirs;ours;band|\
                 Waiting for the zone lock, % of CPU time:theirs;ours;band|Held, p99.9";
    let mut table = Grid::new(columns)
        .above(format!(
            "{:KERNEL$}{:^24}{:^28}{:^24}",
            "", "faults per second", "change, %", "waiting for zone lock, %"
        ))
        .page("The table", "The table", heads);
    let mut json = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let theirs = |of: fn(&KernelFigures) -> Option<String>| dash(row.theirs.as_ref().and_then(of));
        let changed = |figures: &KernelFigures| figures.change_percent.map(|change| format!("{change:+.1}"));
        let waits = |figures: &KernelFigures| Some(percent(figures.zone_lock_contention_percent));
        let (name, rate) = (named(row.name, row.fitted).cut(KERNEL), theirs(|of| Some(grouped(of.performance))));
        let Some(ours) = &row.ours else {
            table.line(format!("{:KERNEL$}{:>12}  not built yet", name.as_text(), rate.as_text()));
            let rest = on_page("not built yet").with("colspan=\"8\" class=\"name quiet\"");
            table.row([name, rate, rest].map(GridCell::page_alone).to_vec());
            json.push(row.json(None));
            continue;
        };
        let both = row.theirs.and_then(|theirs| Some([theirs.change_percent?, ours.figures.change_percent?]));
        if let Some(both) = both.filter(|_| number != 0) {
            let near = if row.fitted { !row.missed() } else { row.change() != Some(Standing::Off) };
            found.headline.row(row.name, "%", both, row.fitted, near);
            found.headline.within(ours.bands.map(|bands| bands.change_percent));
        }
        table.row(vec![
            name,
            rate,
            cell(grouped(ours.figures.performance)),
            theirs(changed),
            dash(changed(&ours.figures)).judged(row.change()),
            band(ours.bands.map(|bands| bands.change_percent)),
            theirs(waits),
            dash(waits(&ours.figures)).judged(row.contention()),
            band(ours.bands.map(|bands| bands.zone_lock_contention_percent)),
            on_page(Some(ours.held).filter(|&held| held > 0.0).map_or(String::new(), duration)),
        ]);
        let why = found.show.run(row.name, ours.report);
        found.show.reason(row.name, &why);
        json.push(row.json(Some(why)));
    }
    found.json.put("rows", json);
    found.show.grid(&table);
    rows.iter().for_each(|row| list_add(row, &mut found.show));
    found.show.fitted(&found.fitted);
    missed_fits(plan, rows, &mut found.show);
    found.show.line(format!(
        "! off by more than {CHANGE} points (change) or {SHARE} (waiting); ~ the band holds theirs; ^ it does not"
    ));
    let varied = found.varied.as_ref().zip(plan.lengths.varied);
    found.show.varied(varied.map(|(varied, varying)| (varied, varying.in_words("passes"))));
}

/// Tells of rows that were fitted and are off all the same.
fn missed_fits(plan: &ZoneLockPlan<'_>, rows: &[KernelComparison<'_>], show: &mut Show) {
    for row in rows.iter().filter(|row| row.missed()) {
        let (name, off) = (row.name, row.off().unwrap_or(f64::NAN));
        let is_quick = plan.lengths.varied.is_none();
        let why = if is_quick { " in so short a run: a full one shows whether the fit holds" } else { "" };
        let told = format!("{name} is fitted, and {off:.1} points off{why}");
        show.note(&told, 2);
        show.html(format!("<p class=\"unseen\">{}.</p>\n", escaped(told)));
    }
}

/// Time inside of list operations, for a terminal, where that is of interest.
fn list_add(row: &KernelComparison<'_>, show: &mut Show) {
    let both = row.both().and_then(|(theirs, ours)| {
        Some((theirs.smp_list_add_percent?, ours.figures.smp_list_add_percent?, ours.bands))
    });
    let Some((theirs, ours, bands)) = both else { return };
    let band = bands.map(|bands| format!(", band {}", band(Some(bands.smp_list_add_percent)).as_text()));
    let mark = Standing::marks(row.list_add())[0].trim_end();
    let (name, theirs, ours, band) = (row.name, percent(theirs), percent(ours), band.unwrap_or_default());
    show.line(format!("  {name} in smp_list_add: theirs {theirs}, ours {ours}{mark}{band}"));
}

/// Throughput by number of CPUs, for a page.
pub(super) fn curves(plan: &ZoneLockPlan<'_>, runs: &Runs, found: &mut Reproduction) {
    let was_run = |kernel: &&KernelPreset| plan.outcome(runs, &kernel.name, Load::Faults).is_some();
    let kernels = plan.kernels.iter().filter(was_run).filter(|_| !plan.curve.is_empty());
    let all: Vec<_> = kernels.map(|kernel| (&kernel.name, plan.curve(runs, &kernel.name))).collect();
    let Some((_, first)) = all.first() else { return };
    let heads: String = first.iter().map(|&(number, _)| format!("|{}", counted(number, "CPU"))).collect();
    let mut table =
        Grid::new("").page("Faults per second by number of CPUs", "Faults per second", &format!("Kernel{heads}"));
    let (mut series, mut json) = (Vec::new(), Vec::new());
    for (name, points) in all {
        table.row(once(on_page(name)).chain(points.iter().map(|(_, rate)| on_page(grouped(*rate)))).collect());
        let plotted = points.iter().map(|&(cpus, rate)| (cpus as f64, rate)).collect();
        series.push(Series { name: name.clone(), points: plotted });
        json.push(object! { "name": name.clone(), "points": points });
    }
    found.json.put("curves", json);
    let names = series.iter().map(|series| series.name.clone()).collect();
    found.show.at(Place::Beside);
    found.show.heading("Throughput by number of CPUs");
    found.show.plots(names, 1, [Plot::new("Throughput", &Axis::rate("faults"), &series)]);
    found.show.grid(&table);
}

/// Shares of CPU time, for a page: of the zone lock, and of list operations where that was published.
pub(super) fn shares(rows: &[KernelComparison<'_>], show: &mut Show) {
    type Of = fn(&KernelFigures) -> Option<f64>;
    let mut table = Grid::new("").page("Shares of CPU time", "Percent of CPU time", "Kernel|.In|theirs|ours|");
    let figures: [(&str, Of); 2] = [
        ("zone lock", |figures| Some(figures.zone_lock_contention_percent)),
        ("smp_list_add", |figures| figures.smp_list_add_percent),
    ];
    for (row, (what, of)) in rows.iter().flat_map(|row| figures.map(|figure| (row, figure))) {
        let [theirs, ours] =
            [row.theirs.as_ref(), row.ours.as_ref().map(|ours| &ours.figures)].map(|one| one.and_then(of));
        if what != figures[0].0 && theirs.is_none() {
            continue;
        }
        let bar = |(share, whose): (Option<f64>, &str)| {
            let width = share.map(|share| (share * 10.0).round() / 10.0);
            let bar = |width| format!("<span class=\"bar {whose}\"><span style=\"width:{width:?}%\"></span></span>\n");
            width.map_or(String::new(), bar)
        };
        let bars = [(theirs, "theirs"), (ours, "ours")].map(bar).concat();
        table.row(vec![
            on_page(row.name),
            on_page(what).with("class=\"name\""),
            dash(theirs.map(percent)).page_alone(),
            dash(ours.map(percent)).page_alone(),
            on_page("").around([&bars, ""]).with("aria-hidden=\"true\""),
        ]);
    }
    show.html("\n<h2>Where CPU time waits</h2>\n");
    show.grid(&table);
    show.html("<p class=\"quiet\">Upper bars are theirs, lower ones ours.</p>\n");
}
