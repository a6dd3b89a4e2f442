//! `numa-stats`: an allocation and a free on 88 CPUs, by how much of the NUMA counters a CPU may keep before it tells
//! the zone.
//!
//! The published table (`data/published/numa-stats.toml`) has cycles and throughput at nine thresholds and without the
//! counters. The same loop runs on the machine that the table is from, with the counters of each row, and below it what
//! the table does not have: the kernel before the series, counters on lines of their own, those of Linux ≥ 5.14, and
//! our default with and without.
//!
//! # What the rows say
//!
//! Above a few thousand the threshold does not matter any more. What is left there is the time of one kernel's
//! instructions. Ours are a fifth more, and our counters with a sign cost no more than those without, as that kernel's
//! do. So three of the rows are *restated*, by the numbers of `RESTATED`, and flagged. The model predicts the cost of
//! counters without a sign, by the instructions of the code that counts. It also predicts how much dearer it gets when
//! the zone is told more often: nobody waits for the counters, but all CPUs read the number of free CMA frames beside
//! them.

use anyhow::{Context, ensure};
use framewright::Mechanisms;
use framewright::mechanisms::NumaStat;
use framewright_sim::machine::Spec;
use framewright_sim::report::Report;
use framewright_sim::workload::{Job, PageBench03, Workload};
use serde::{Deserialize, Serialize};

use super::check::{Check, Standing, order, points, seen};
use super::fitted::{self, is_row, list};
use super::found::{Head, Reproduction, object};
use super::plan::{self, Figures, Outcomes, Runs, Set, TABLE};
use super::published::{Published, is_amount, names_differ};
use super::runs::{self, Change, LISTS, Run, clock};
use super::show::{Grid, Place, band, cell, either, named, on_page};
use super::variation::Round;
use crate::html::plot::{Axis, Over, Plot, Series};
use framewright_table::figures::{change_percent, grouped, share};

/// Name of the experiment, and of the table that machines' numbers are fitted to.
pub const NAME: &str = "numa-stats";
/// The row without counters.
const DISABLED: &str = "disabled";
/// The system default, and a kernel with all patches: the rows whose throughput the gain is of.
const PATCHES: [&str; 2] = ["125", "65533"];
/// Rows that are looked at first.
const FIRST: [&str; 4] = ["64", "125", "512", "4096"];
/// Our own mechanisms, which nobody published, and the same without the counters.
const OURS: [&str; 2] = ["default", "default,numa-stat=off"];
/// Mechanisms that the table does not have; also the set of their runs.
pub(crate) const BESIDE: [&str; 5] =
    ["numa-base,numa-threshold=125", "numa-threshold-125,numa-place=own-lines", "baseline", OURS[0], OURS[1]];
const BESIDE_SET: &str = "beside";
/// Rows of larger thresholds than this are not varied: they are where the threshold does not matter any more.
const VARIED: u16 = 4096;

/// Rows whose published cycles are less apart, in percent, may come in any order.
const TIE: f64 = 1.0;
/// Percent by which a row's cycles may be off.
const CYCLES: f64 = 8.0;
/// Points by which the gain of all patches may be off.
const GAIN: f64 = 10.0;
/// Cycles by which our counters may make an allocation and its free dearer.
const COST: f64 = 2.0;

/// Numbers that restate rows: what they are for, and the row that each was set to.
///
/// Our baseline executes more instructions than that kernel did for all of its path, so their time is taken to be
/// shorter by `PACE`: else CPUs would look at the counters too rarely. The other number is cycles that a kernel takes
/// besides where its counters have a sign.
const RESTATED: [(&str, &str); 2] = [
    ("pace of instructions (costs.sibling x 0.74 in every run here, our own rows too)", DISABLED),
    ("cycles of counters with a sign", "20000, 30000"),
];
/// Cycles of two counters with a sign, besides those of counters without.
const SIGNS: u32 = 24;
/// Factor of the time of instructions while both threads of a core run.
const PACE: (&str, f64) = ("costs.sibling", 0.74);
/// Cycles in which lists are filled for the first time.
const FILLING: u32 = 2_000_000;
/// About the cycles of an allocation and its free.
const PAIR: u32 = 400;

/// The published table of the series.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct NumaStatsTable {
    title: String,
    source: String,
    #[serde(rename = "workload")]
    _workload: String,
    /// CPUs.
    pub cpus: usize,
    /// Thresholds, from the smallest.
    #[serde(rename = "row")]
    pub rows: Vec<ThresholdRow>,
}

/// A threshold.
#[derive(Clone, PartialEq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ThresholdRow {
    /// Events that a CPU keeps at most, or `disabled`.
    pub threshold: String,
    /// Measured costs.
    #[serde(flatten)]
    pub figures: PairCost,
}

/// Cost of an allocation and its free.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Debug)]
pub struct PairCost {
    /// Cycles of one.
    pub cycles: f64,
    /// How many all CPUs do in a second.
    pub throughput: f64,
}

impl Published for NumaStatsTable {
    const FILE: &'static str = "numa-stats.toml";
    const TEXT: &'static str = include_str!("../../data/published/numa-stats.toml");

    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.cpus != 0, "there is no CPU");
        names_differ(self.rows.iter().map(|row| &row.threshold))?;
        for ThresholdRow { threshold, figures } in &self.rows {
            mechanisms(threshold).with_context(|| format!("row {threshold}: no threshold"))?;
            is_amount(&format!("row {threshold}: cycles"), figures.cycles)?;
            is_amount(&format!("row {threshold}: throughput"), figures.throughput)?;
        }
        Ok(())
    }
}

/// The preset that models a row.
fn mechanisms(threshold: &str) -> Option<Mechanisms> {
    match threshold {
        DISABLED => Mechanisms::preset("numa-off"),
        events => Mechanisms::preset(&format!("numa-threshold-{events}")),
    }
}

/// How long runs are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NumaStatsLengths {
    /// Cycles of the window, at least.
    window: u32,
    /// The window of a large threshold, in times that a CPU takes to tell the zone once.
    periods: f64,
    /// Over how many cycles the CPUs begin, at most.
    spread: u32,
    /// Whether the machine's numbers are varied.
    varied: bool,
}

impl NumaStatsLengths {
    /// Lengths of a run whose result may be quoted.
    pub const FULL: Self = Self { window: 1_000_000, periods: 1.0, spread: u32::MAX, varied: true };
    /// A first look. Where a CPU counts tens of thousands of events before it tells the zone, what telling costs is
    /// less than a tenth of a cycle for each; so nobody waits until all CPUs do it in turn.
    pub const QUICK: Self = Self { window: 200_000, periods: 0.1, spread: 4_000_000, varied: false };
    /// Runs with one of the machine's numbers changed, by round.
    const VARIED: [Self; 2] = [
        Self { window: 100_000, periods: 0.05, spread: u32::MAX, varied: false },
        Self { window: 400_000, periods: 0.25, spread: u32::MAX, varied: false },
    ];
}

/// Plan of the experiment's runs.
#[derive(Clone, Debug)]
pub struct NumaStatsPlan<'a> {
    machine: &'a Spec,
    /// The machine at the pace of that kernel.
    paced: Spec,
    published: &'a NumaStatsTable,
    seed: u64,
    lengths: NumaStatsLengths,
}

impl<'a> NumaStatsPlan<'a> {
    /// The table's runs on a machine, and those beside it.
    ///
    /// # Errors
    /// The machine has no pace.
    pub fn new(
        machine: &'a Spec,
        published: &'a NumaStatsTable,
        seed: u64,
        lengths: NumaStatsLengths,
    ) -> anyhow::Result<Self> {
        Ok(Self { machine, paced: machine.scaled(PACE.0, PACE.1)?, published, seed, lengths })
    }

    fn table<'p>(&self, lengths: NumaStatsLengths, change: Change<'p>) -> anyhow::Result<Vec<Run<'p>>> {
        let of = |row: &ThresholdRow| {
            let mechanisms = mechanisms(&row.threshold).with_context(|| format!("row {}", row.threshold))?;
            Ok(self.job(&row.threshold, mechanisms, lengths, change))
        };
        self.published.rows.iter().map(of).collect()
    }

    fn job<'p>(&self, name: &str, mechanisms: Mechanisms, lengths: NumaStatsLengths, change: Change<'p>) -> Run<'p> {
        let period = period(&mechanisms);
        let spread = (period * PAIR).min(lengths.spread);
        let work = if matches!(mechanisms.numa_stat, NumaStat::S8 | NumaStat::S16) { SIGNS } else { 0 };
        let workload = PageBench03 { work, spread, ..PageBench03::default() };
        let mut job = Job::new(Workload::PageBench03(workload), mechanisms, self.published.cpus);
        let clock = clock(self.machine);
        let time = |cycles: u32| (f64::from(cycles) / clock * 1e12) as u64;
        let window = lengths.window.max((f64::from(spread) * lengths.periods) as u32);
        (job.seed, job.warm_up, job.window) = (self.seed, time(FILLING.max(spread)), time(window));
        job.lists = job.lists.map(|_| LISTS);
        let weight = u64::from(FILLING.max(spread / 2 + FILLING) + window) / 1000;
        Run { name: name.to_owned(), job, change, weight }
    }

    fn pair(&self, report: &Report) -> PairCost {
        PairCost { cycles: runs::cycles(self.machine, report), throughput: report.per_second }
    }
}

impl plan::Plan for NumaStatsPlan<'_> {
    const CHOSEN: usize = 6;

    fn machine(&self) -> &Spec {
        &self.paced
    }

    fn sets(&self) -> anyhow::Result<Vec<Set<'_>>> {
        let beside = |name: &&str| anyhow::Ok(self.job(name, crate::mechanisms::parse(name)?, self.lengths, None));
        Ok(vec![
            Set { name: TABLE, machine: &self.paced, runs: self.table(self.lengths, None)? },
            Set { name: BESIDE_SET, machine: &self.paced, runs: BESIDE.iter().map(beside).collect::<Result<_, _>>()? },
        ])
    }

    fn varied<'p>(&self, change: Change<'p>, round: Round) -> anyhow::Result<Vec<Run<'p>>> {
        if !self.lengths.varied {
            return Ok(Vec::new());
        }
        let all = self.table(NumaStatsLengths::VARIED[round as usize], change)?.into_iter();
        Ok(all.filter(|run| is_varied(&run.name)).collect())
    }

    /// Cycles of the rows that are varied.
    fn figures(&self, table: &Outcomes) -> Figures {
        let rows = table.iter().filter(|(name, _)| is_varied(name));
        rows.map(|(name, outcome)| (name.clone(), self.pair(&outcome.report).cycles)).collect()
    }

    /// In percent.
    fn reach(&self, still: &Figures, moved: &Figures) -> f64 {
        let both = still.iter().filter_map(|(name, was)| Some(change_percent(*was, *moved.get(name)?)));
        both.fold(0.0, |most: f64, by| most.max(by.abs()))
    }
}

fn is_varied(threshold: &str) -> bool {
    threshold.parse().is_ok_and(|events: u16| events <= VARIED)
}

/// Events of a kind after which a CPU tells the zone again.
fn period(mechanisms: &Mechanisms) -> u32 {
    match (mechanisms.numa_stat, mechanisms.numa_threshold.get()) {
        (NumaStat::U16, Some(events)) => u32::from(events) + 1,
        (NumaStat::S8 | NumaStat::S16, Some(events)) => u32::from(events) + 1 + u32::from(events / 2),
        _ => 188,
    }
}

/// Compares the runs with the published table. `command` makes the same again.
///
/// # Errors
/// A run is missing.
pub fn found(plan: &NumaStatsPlan<'_>, runs: &Runs, command: &str) -> anyhow::Result<Reproduction> {
    let NumaStatsTable { title, source, cpus, .. } = plan.published;
    let of_machine = fitted::to(NAME, plan.machine);
    let mut found =
        Reproduction::new((NAME, command), [title, source], (plan.machine, plan.seed), &RESTATED, runs.varied());
    let Head { model, seed, .. } = &found.head;
    found.show.open(
        format!("an allocation and its free on {cpus} CPUs of {model}, seed {seed}"),
        format!("{cpus} CPUs of <a href=\"#machine\">the machine model {model}</a>, seed {seed}. Ours: "),
        "the same loop with per-CPU lists of 31 and 186 frames, starts that are not in step, and zones with the counters of a whole \
         kernel; cycles are those of the time-stamp counter",
    );
    found.json.put("cpus", *cpus);
    found.json.put("fitted", found.fitted.clone());
    let rows = rows(plan, runs, &mut found)?;
    let (of_all_patches, gain) = gain(&rows, &mut found);
    let ours = beside(plan, runs, &mut found);
    headline(*cpus, &rows, ours, &mut found);
    found.json.put("varied", found.varied.clone());
    let name = format!("{}: counters cost {COST} cycles or less", OURS[0]);
    let fitted_once = of_machine.len() == 1 && of_machine.iter().all(|fitted| fitted.rows.len() == 1);
    let off = rows.iter().filter_map(|row| Some((row.standing?, format!("{} {}", row.name, points(row.off())))));
    let cycles: Vec<_> = rows.iter().map(|row| (row.name, [row.theirs.cycles, row.ours.cycles])).collect();
    Ok(found.checked(vec![
        order("rows in the published order", TIE, &cycles),
        Check::seen("one number of the machine fitted, to one row", fitted_once, list(&of_machine)),
        seen(&format!("rows not fitted within {CYCLES} % of the published cycles"), off),
        Check::seen(&format!("gain of all patches within {GAIN} points"), of_all_patches, gain),
        match ours {
            [Some(with), Some(without)] => {
                Check::seen(&name, with - without <= COST, format!("{with:.1} cycles with, {without:.1} without"))
            }
            _ => Check::unseen(&name, "not run"),
        },
    ]))
}

/// A threshold, theirs and ours.
struct ThresholdComparison<'a> {
    name: &'a str,
    theirs: PairCost,
    ours: PairCost,
    /// None of a row that predicts nothing.
    standing: Option<Standing>,
}

impl ThresholdComparison<'_> {
    /// By how much its cycles are off, in percent.
    fn off(&self) -> f64 {
        change_percent(self.theirs.cycles, self.ours.cycles)
    }
}

fn rows<'a>(
    plan: &NumaStatsPlan<'a>,
    runs: &Runs,
    found: &mut Reproduction,
) -> anyhow::Result<Vec<ThresholdComparison<'a>>> {
    let heads = "Threshold|Cycles:theirs;ours;band|A second, all CPUs:theirs;ours";
    let mut table = Grid::new("<10|>18 theirs: cycles|>11 ours |>11 band|>19 theirs: a second|>15 ours").page(
        "The table",
        "An allocation and its free",
        heads,
    );
    let (mut rows, mut json) = (Vec::new(), Vec::new());
    for ThresholdRow { threshold, figures: theirs } in &plan.published.rows {
        let report = runs.report(TABLE, threshold).context("a run is missing")?;
        let (ours, fitted, moved) = (plan.pair(report), is_row(&found.fitted, threshold), runs.band(threshold));
        let mut row = ThresholdComparison { name: threshold, theirs: *theirs, ours, standing: None };
        row.standing = (!fitted).then(|| Standing::near(row.off().abs() <= CYCLES, theirs.cycles, moved));
        table.row(vec![
            named(threshold, fitted),
            cell(format!("{:.0}", theirs.cycles)),
            either(format!("{:.1}", ours.cycles), format!("{:.0}", ours.cycles)).judged(row.standing),
            band(moved),
            cell(grouped(theirs.throughput)),
            cell(grouped(ours.throughput)),
        ]);
        if FIRST.contains(&threshold.as_str()) {
            let (name, near) = (format!("threshold {threshold}"), row.off().abs() <= CYCLES);
            found.headline.row(&name, "cycles", [theirs.cycles, ours.cycles], fitted, near);
            found.headline.within(moved);
        }
        let why = found.show.run(threshold, report);
        found.show.reason(threshold, &why);
        json.push(object! {
            "threshold": threshold.clone(), "published": *theirs, "simulated": ours, "fitted": fitted, "band": moved, "why": why
        });
        rows.push(row);
    }
    let show = &mut found.show;
    show.grid(&table);
    show.fitted(&found.fitted);
    show.line(format!("! more than {CYCLES} % off; ^ less, outside the band"));
    show.varied(found.varied.as_ref().map(|varied| (varied, rounds())));
    show.at(Place::Beside);
    show.plots(vec!["theirs".to_owned(), "ours".to_owned()], 1, [plot(&rows)]);
    found.json.put("rows", json);
    Ok(rows)
}

/// Judges the gain of all patches, in percent of throughput: whether it is near enough, and in words.
fn gain(rows: &[ThresholdComparison<'_>], found: &mut Reproduction) -> (bool, String) {
    let gain = |pair: fn(&ThresholdComparison<'_>) -> PairCost| {
        let of = |name: &str| rows.iter().find(|row| row.name == name).map_or(f64::NAN, |row| pair(row).throughput);
        change_percent(of(PATCHES[0]), of(PATCHES[1]))
    };
    let (theirs, ours) = (gain(|row| row.theirs), gain(|row| row.ours));
    let near = Standing::of(theirs, ours, GAIN, None) == Standing::Near;
    found.json.put("gain_percent", object! { "published": theirs, "simulated": ours });
    found.headline.row("all patches, throughput", "%", [theirs, ours], false, near);
    (near, format!("{ours:+.1} %, published {theirs:+.1} %"))
}

/// Shows mechanisms that the table does not have; returns the cycles of [`OURS`].
fn beside(plan: &NumaStatsPlan<'_>, runs: &Runs, found: &mut Reproduction) -> [Option<f64>; 2] {
    let mut table = Grid::new("<72 Not in the table|>6 cycles").page(
        "Not in the table",
        "Other counters",
        "Mechanisms|Cycles|A second, all CPUs",
    );
    let (mut json, mut cycles) = (Vec::new(), Vec::new());
    for (name, outcome) in runs.of(BESIDE_SET) {
        let ours = plan.pair(&outcome.report);
        let tenths = format!("{:?}", (ours.cycles * 10.0).round() / 10.0);
        let (in_text, rate) = (format!("{:.1}", ours.cycles), on_page(grouped(ours.throughput)));
        table.row(vec![cell(name).indented().code(), either(in_text, tenths), rate]);
        let why = found.show.run(name, &outcome.report);
        found.show.reason(name, &why);
        json.push(object! { "name": name.clone(), "simulated": ours, "why": why });
        cycles.push((name.as_str(), ours.cycles));
    }
    let show = &mut found.show;
    show.at(Place::Details);
    show.heading("Not in the table");
    show.grid(&table);
    show.html("\n<h2>Why</h2>\n");
    show.reasons("Why");
    found.json.put("beside", json);
    OURS.map(|name| cycles.iter().find(|(known, _)| *known == name).map(|(_, cycles)| *cycles))
}

fn headline(cpus: usize, rows: &[ThresholdComparison<'_>], ours: [Option<f64>; 2], found: &mut Reproduction) {
    let [ours, without] = ours.map(|cycles| cycles.unwrap_or(f64::NAN));
    let [first, least] = [rows.first(), rows.last()];
    let first = first.map_or(f64::NAN, |row| row.ours.cycles);
    let (name, cycles) = least.map_or(("", f64::NAN), |row| (row.name, row.theirs.cycles));
    found.headline.row_of_default("default", "cycles", ours);
    found.headline.tell(
        format!("cycles of an allocation and its free on {cpus} CPUs, by what a CPU counts on its own"),
        ("cycles of an allocation and its free", [first, ours].map(|cycles| format!("{cycles:.1}"))),
        format!(
            "of its {ours:.1} cycles counters take {:.1} (published with counters {name}: {cycles:.1})",
            (ours - without).abs()
        ),
    );
}

/// How long runs of both rounds of variation are, in words: a small threshold's window, and a large one's.
fn rounds() -> [String; 2] {
    let full = NumaStatsLengths::FULL;
    NumaStatsLengths::VARIED.map(|NumaStatsLengths { window, periods, .. }| {
        let small = share(f64::from(window), f64::from(full.window));
        let large = share(periods, full.periods);
        format!("{small:.0} % of the table's window, {large:.0} % of a large threshold's")
    })
}

/// Cycles over the threshold, which is shown by its number of bits.
fn plot(rows: &[ThresholdComparison<'_>]) -> Plot {
    let series = |name: &str, pair: fn(&ThresholdComparison<'_>) -> PairCost| {
        let point =
            |row: &ThresholdComparison<'_>| Some((row.name.parse::<f64>().ok()?.log2().round(), pair(row).cycles));
        Series { name: name.to_owned(), points: rows.iter().filter_map(point).collect() }
    };
    let both = [series("theirs", |row| row.theirs), series("ours", |row| row.ours)];
    Plot::over("An allocation and its free", &Axis::count("cycles"), &Over::BITS, &both)
}

#[cfg(test)]
mod tests {
    use super::super::published::mistake;
    use super::*;

    #[test]
    fn the_two_columns_are_one_measurement() {
        let published = NumaStatsTable::built_in().unwrap();
        assert_eq!((published.rows.len(), published.cpus), (10, 88));
        for ThresholdRow { threshold, figures } in &published.rows {
            let clock = figures.cycles * figures.throughput / published.cpus as f64 / 1e9;
            assert!((clock - 2.19).abs() < 0.006, "{threshold}: {clock}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |from, to| mistake::<NumaStatsTable>(from, to);
        assert_eq!(wrong("\"64\"", "\"32\""), "row 32 is there twice");
        assert_eq!(wrong("\"64\"", "\"65534\""), "row 65534: no threshold");
        assert_eq!(wrong("cycles = 640", "cycles = 0"), "row 64: cycles is 0");
        assert!(wrong("cpus = 88", "cpu = 88").contains("unknown field"));
    }
}
