//! What came of it, table by table.

use std::iter::once;

use framewright_sim::thpfioscale::Outcome;
use framewright_sim::thpfioscale::outcome::Sample;
use serde::Serialize;

use super::checks::{EventChange, Rounds, ThpComparison, checks, is_fewer, is_huge};
use super::map;
use super::measured::{Measured, READING, reading, why};
use super::plan::{
    ABLATION, CLOSER, CaseRuns, FragmentationLengths, FragmentationPlan, MACHINES, NAME, OURS, Purpose, REPEATED,
    RESTATED, SETTINGS, Setting, kernels as all_kernels,
};
use super::published::{Before, Earlier, KERNELS};
use crate::html::plot::{Axis, Over, Plot, Series};
use crate::reproduce::check::points;
use crate::reproduce::estimate::Estimate;
use crate::reproduce::fitted::{Fitted, is_row};
use crate::reproduce::found::{Head, Reproduction, object};
use crate::reproduce::show::{Grid, GridCell, Place, broken, cell, either, escaped, named, on_page};
use framewright_table::figures::{change_if_any, change_percent, count, counted, duration, grouped, percent, ratio};

/// A change of fragmentation is as published within this many points, as one of the zone lock's table is.
const POINTS: f64 = 10.0;
/// Points of a curve over time, about.
const CURVE: u64 = 20;

/// Compares the runs with the published tables. `command` makes the same again.
pub fn found(plan: &FragmentationPlan<'_>, runs: &CaseRuns, command: &str) -> Reproduction {
    let (published, [first, second]) = (plan.published, plan.machines);
    let mut found =
        Reproduction::new((NAME, command), [&published.title, &published.source], (first, plan.seed), &RESTATED, None);
    let Head { model, seed, .. } = &found.head;
    found.show.open(
        format!("files that push each other out, then huge pages; seeds from {seed} on"),
        format!("<a href=\"#machine\">The machine models {model}</a> and {}, seeds from {seed} on. Ours: ", second.name),
        "memory, files and log with the proportions of nodes of 64 GiB, marks of 16; two sockets with 24 CPUs each. Size of nodes and log, \
         and one page a slab, are assumptions made knowing the tables; the disk is as fast as the published run's 16 minutes say. Counts \
         of events are not comparable, what patches do to them is",
    );
    if plan.lengths != FragmentationLengths::FULL {
        let [these, full] = [plan.lengths, FragmentationLengths::FULL].map(lengths);
        found.show.note(&format!("not to be quoted: {these}; that takes {full}"), 2);
    }
    let was_run = |setting: &&Setting| !runs.of(Purpose::Table, setting.name, OURS).is_empty();
    let ran: Vec<&Setting> = SETTINGS.iter().filter(was_run).collect();
    let configs: Vec<Config> = ran.iter().map(|setting| config(plan, setting)).collect();
    let rows: Vec<ThpComparison> = ran.iter().flat_map(|setting| rows(plan, runs, (setting, &found.fitted))).collect();
    // The configuration that pictures are of.
    let pictured =
        ran.iter().find(|setting| setting.name == CLOSER).or(ran.first()).map_or(CLOSER, |setting| setting.name);
    events(&configs, &rows, &mut found);
    let rounds: Vec<Rounds> = REPEATED.iter().filter_map(|kernel| rounds_of(runs, kernel)).collect();
    pictures(runs, &rounds, pictured, &mut found);
    costs(&configs, &rows, &mut found);
    found.json.put("lengths", plan.lengths);
    headline(configs.first().map_or("", |config| config.name), &rows, &mut found);
    found.json.put("configs", configs);
    found.json.put("rows", rows.clone());
    found.json.put("fitted", found.fitted.clone());
    ablation(runs, pictured, &mut found);
    by_round(&rounds, pictured, &mut found);
    rows.iter().for_each(|row| found.show.reason(&format!("{}, {}", row.config, row.kernel), &row.why));
    found.show.whys("Why");
    found.show.tallies_checks = true;
    let checks = checks(&rows, &rounds, published);
    found.json.put("rounds", rounds);
    found.checked(checks)
}

/// A configuration.
#[derive(Serialize)]
struct Config {
    name: &'static str,
    /// The machine that it stands for, in words, or what it is if it was not published.
    title: String,
    model: String,
    cpus: usize,
    /// Its memory, in MiB.
    mib: u32,
    /// Inodes in the log when it is written: on nodes of 64 GiB (assumed), fewer on smaller ones; as they were seen on
    /// the emulated machine.
    log: u32,
    /// How far postings of one kernel are apart, in points of huge pages; none if it was not published.
    noise_points: Option<f64>,
    /// Published results of another kernel, if there are any.
    before: Option<Before>,
}

fn config(plan: &FragmentationPlan<'_>, setting: &Setting) -> Config {
    let published = plan.published.configs.iter().find(|config| config.name == setting.name);
    let (machine, options) = (&MACHINES[setting.machine], plan.options(setting));
    let topology = plan.machines[setting.machine].model().topology;
    Config {
        name: setting.name,
        title: published.map_or(setting.title().to_owned(), |config| config.title.clone()),
        model: machine.name.to_owned(),
        cpus: usize::from(topology.sockets * machine.cores * topology.threads),
        mib: options.mib,
        log: options.log,
        noise_points: published.map(|config| plan.published.noise(&config.name)),
        before: published.map(|config| plan.published.before(&config.name)),
    }
}

/// Rows of a configuration.
fn rows(plan: &FragmentationPlan<'_>, runs: &CaseRuns, (setting, fitted): (&Setting, &[Fitted])) -> Vec<ThpComparison> {
    let config = setting.name;
    let theirs = |kernel| plan.published.row(config, kernel);
    let first = Measured::of(&runs.of(Purpose::Table, config, KERNELS[0]));
    let change = |from: Option<f64>, to: Option<f64>| change_if_any(from?, to?);
    let row = |kernel: &'static str| {
        let outcomes = runs.of(Purpose::Table, config, kernel);
        let simulated = Measured::of(&outcomes)?;
        let [theirs_first, published] = [KERNELS[0], kernel].map(theirs);
        let is_first = kernel == KERNELS[0];
        Some(ThpComparison {
            config,
            kernel,
            fitted: is_row(fitted, &format!("{config} {kernel}")),
            published: published.cloned(),
            simulated,
            change_percent: EventChange {
                published: change(theirs_first.map(|row| row.events), published.map(|row| row.events))
                    .filter(|_| !is_first),
                simulated: change(first.map(|row| row.events.mean), Some(simulated.events.mean)).filter(|_| !is_first),
            },
            why: why(&outcomes),
        })
    };
    setting.kernels().filter_map(row).collect()
}

/// Rows of a configuration.
fn of<'r>(rows: &'r [ThpComparison], config: &str) -> impl Iterator<Item = &'r ThpComparison> {
    rows.iter().filter(move |row| row.config == config)
}

/// Events that mixed mobilities, and huge pages.
fn events(configs: &[Config], rows: &[ThpComparison], found: &mut Reproduction) {
    let show = &mut found.show;
    let all = kernels().map(|(name, what)| format!("<code>{name}</code>: {what}")).join("; ");
    show.html(format!("<p>{all}.</p>\n"));
    let heads = "Kernel|Events that mixed mobilities:theirs;change;ours;change|Huge pages, % of faults:theirs;ours";
    for config in configs {
        let (described, before) = (described(config), before(config));
        let seeds = of(rows, config.name).map(|row| row.simulated.seeds).max().unwrap_or(0);
        let quiet =
            before.as_ref().map(|told| format!(" <span class=\"quiet\">not compared: {}</span>", escaped(told)));
        let above = broken(&format!("{described}, {}", counted(seeds, "seed")), 2);
        let caption = escaped(&described) + &quiet.unwrap_or_default();
        let mut table = Grid::new("<16|>8 events:|>9 theirs|>17 ours|>10|>23 huge %:       theirs|>16 ours ")
            .above(above.trim_end())
            .page(escaped(&described), caption, heads);
        for row in of(rows, config.name) {
            let theirs = row.published.as_ref();
            let change = |change: Option<f64>| cell(change.map_or(String::new(), |by| format!("{} %", points(by))));
            table.row(vec![
                named(row.kernel, row.fitted).indented(),
                cell(theirs.map_or(String::new(), |row| grouped(row.events))),
                change(row.change_percent.published),
                cell(whole(row.simulated.events)),
                change(row.change_percent.simulated).holds(is_fewer(row)),
                cell(theirs.map_or(String::new(), |row| percent(row.huge_percent))),
                cell(tenths(row.simulated.huge_percent)).holds(is_huge(row)),
            ]);
        }
        show.grid(&table);
        if let Some(told) = before {
            show.note(&format!("not compared: {told}"), 2);
        }
    }
    let legend = kernels().map(|(name, what)| format!("{name}: {what}")).join("; ");
    let mark = "! not as it had to be. ±: what the mean over all seeds may be off, 95 times of 100";
    show.line("");
    show.note(&format!("{mark}. {legend}"), 2);
    show.fitted(&found.fitted);
    let of = found.fitted.iter().map(|fit| format!("{} was chosen knowing {}", fit.parameter, fit.rows.join(" and ")));
    show.evidence = Some(format!(
        "<p class=\"quiet\">A fitted row says nothing about the model: {}. ±: what the mean over all seeds may be off, 95 times of \
         100.</p>\n",
        escaped(of.collect::<Vec<_>>().join(", "))
    ));
}

/// Shows the cost of each kernel.
fn costs(configs: &[Config], rows: &[ThpComparison], found: &mut Reproduction) {
    let show = &mut found.show;
    show.at(Place::Details);
    show.heading("What it costs");
    let columns =
        "<14|>7 theirs|>8 ours|>8 theirs|>8 ours|>7 theirs|>6 ours|>8 scanned|>8 pages/s|>9 p99.9|>9 max|>7 moved";
    let heads = "Kernel|Base fault, µs:theirs;ours|Huge fault, µs:theirs;ours|Stalls:theirs;ours|kswapd<br>scanned|\
                 Readers,<br>pages/s|Zone lock held:p99.9;max|Pages<br>moved";
    let groups = format!(
        "{:>14}{:>15}{:>16}{:>13}{:>8}{:>8}{:>18}{:>7}",
        "", "base fault, µs", "huge fault, µs", "stalls", "kswapd", "readers", "zone lock held", "pages"
    );
    for config in configs {
        let described = escaped(described(config));
        let mut table = Grid::new(columns).above(format!("What it costs, {}\n{groups}", config.name)).page(
            format!("What it costs, {described}"),
            described,
            heads,
        );
        of(rows, config.name).for_each(|row| table.row(costs_of(row)));
        show.grid(&table);
    }
}

/// Mechanisms alone and together. What was not run for its own sake is in the table.
fn ablation(runs: &CaseRuns, pictured: &str, found: &mut Reproduction) {
    let was_run = runs.0.iter().any(|(case, _)| case.part == Purpose::Ablation);
    let heads = "Mechanisms|.What they are|Events|Huge pages, %|kswapd scanned|Pages moved";
    let caption = format!("Mechanisms alone and together, {pictured}");
    let columns = format!("<42 Each alone, {CLOSER}|>18 events|>15 huge %|>11 scanned|>11 moved");
    let (mut table, mut json) = (Grid::new(&columns).page("Each alone", caption, heads), Vec::new());
    for (mechanisms, what) in ABLATION.iter().filter(|_| was_run) {
        let both = [Purpose::Ablation, Purpose::Table].map(|part| runs.of(part, CLOSER, mechanisms));
        let Some(ours) = Measured::of(&both.concat()) else { continue };
        table.row(vec![
            on_page(mechanisms).code(),
            cell(what).indented().with("class=\"name\""),
            cell(whole(ours.events)),
            cell(tenths(ours.huge_percent)),
            amount(ours.kswapd_scanned),
            amount(ours.moved),
        ]);
        json.push(object! { "mechanisms": *mechanisms, "what": *what, "simulated": ours });
    }
    if !json.is_empty() {
        found.show.heading("Each alone");
        found.show.grid(&table);
    }
    found.json.put("ablation", json);
}

/// Faults that got a huge page by round; none of a kernel that was not run for several.
fn rounds_of(runs: &CaseRuns, kernel: &'static str) -> Option<Rounds> {
    let outcome = *runs.of(Purpose::Rounds, CLOSER, kernel).first()?;
    Some(Rounds { kernel, huge_percent: reading(outcome).map(|phase| phase.faults.percent()).collect() })
}

fn by_round(all: &[Rounds], pictured: &str, found: &mut Reproduction) {
    let Some(first) = all.first() else { return };
    let rounds = first.huge_percent.len();
    let heads: String = (1..=rounds).map(|round| format!("|{round}")).collect();
    let caption = format!(
        "Huge pages by round <span class=\"quiet\">files written, read and deleted over and over, {pictured}, percent of faults</span>"
    );
    let mut table = Grid::new(&format!("<14{}", "|>5".repeat(rounds)))
        .above(format!("Huge pages by round, {CLOSER}, percent"))
        .page("Huge pages by round", caption, &format!("Kernel{heads}"));
    for Rounds { kernel, huge_percent } in all {
        let all = huge_percent.iter().map(|&huge| either(format!("{huge:.0}"), percent(huge)));
        table.row(once(cell(kernel).indented()).chain(all).collect());
    }
    found.show.at(Place::Beside);
    found.show.grid(&table);
}

/// Computes a curve's points from a kernel and its outcome.
type PointsOf<'p> = &'p dyn Fn(&str, &Outcome) -> Vec<(f64, f64)>;

/// Pictures of memory, and curves over time and by round, of one run of each kernel.
fn pictures(runs: &CaseRuns, rounds: &[Rounds], pictured: &str, found: &mut Reproduction) {
    let one = |kernel: &'static str| Some((kernel, *runs.of(Purpose::Table, pictured, kernel).first()?));
    let all: Vec<(&str, &Outcome)> = all_kernels().filter_map(one).collect();
    let end = all.iter().filter_map(|(_, outcome)| outcome.samples.last()).map(|sample| sample.ms).max().unwrap_or(0);
    let step = (end / CURVE).next_multiple_of(100).max(100);
    let series = |points: PointsOf<'_>| -> Vec<Series> {
        all.iter().map(|(name, outcome)| Series { name: (*name).to_owned(), points: points(name, outcome) }).collect()
    };
    let events = series(&|_, outcome| curve(&outcome.samples, step));
    let by_round = series(&|kernel, _| {
        let rounds = rounds.iter().find(|rounds| rounds.kernel == kernel);
        let all = rounds.map_or(&[][..], |rounds| &rounds.huge_percent).iter().enumerate();
        all.map(|(i, percent)| ((i + 1) as f64, *percent)).collect()
    });
    let events = Plot::over("What mixed mobilities, so far", &Axis::powers("events"), &Over::SECONDS, &events);
    let by_round = Plot::over("Huge pages by round", &Axis::percent("of faults"), &Over::ROUNDS, &by_round);
    // Memory under the first kernel and ours, when huge pages were wanted and when all was over.
    let shown = [KERNELS[0], OURS].map(|shown| all.iter().find(|(kernel, _)| *kernel == shown));
    let moments = [(READING, "files in memory"), ("clean up", "files deleted")];
    let map = |(kernel, outcome): (&str, &Outcome), (phase, words): (&str, &str)| {
        let phase = outcome.phases.iter().find(|known| known.name == phase)?;
        Some(map::Picture::new(format!("{kernel}, {words}"), &phase.blocks))
    };
    let maps = moments.iter().flat_map(|moment| shown.iter().flatten().filter_map(|one| map(**one, *moment)));
    let maps: Vec<_> = maps.collect();
    let show = &mut found.show;
    show.at(Place::Beside);
    show.heading("Where memory is");
    show.html(format!(
        "<p>One cell a pageblock, from the lowest address on, in {pictured}. The stronger its colour, the more of it is in use. When files \
         are deleted, a movable pageblock with a dot is no huge page.</p>\n"
    ));
    show.maps(maps);
    show.heading("Over time, and round by round");
    let names = all.iter().map(|(kernel, _)| (*kernel).to_owned()).collect();
    show.plots(names, 1, once(events).chain((!rounds.is_empty()).then_some(by_round)));
}

/// The last sample before each of the times, and before the end: most may happen after the last full step.
fn curve(samples: &[Sample], step: u64) -> Vec<(f64, f64)> {
    let end = samples.last().map_or(0, |sample| sample.ms).next_multiple_of(100);
    let at = |ms: u64| {
        let before = |sample: &&Sample| sample.ms <= ms;
        let events = samples.iter().rev().find(before).map_or(0, |sample| sample.events);
        (ms as f64 / 1e3, events as f64)
    };
    let times = (0..end).step_by(step as usize).chain([end]);
    times.map(at).collect()
}

/// The figures of a configuration to look at first.
fn headline(config: &str, rows: &[ThpComparison], found: &mut Reproduction) {
    let first = rows.first().map_or("", |row| row.kernel);
    for row in of(rows, config) {
        let (kernel, Some(ours)) = (row.kernel, row.change_percent.simulated) else { continue };
        if kernel == OURS {
            found.headline.row_of_default(kernel, "%", ours);
        } else if let Some(theirs) = row.change_percent.published {
            let near = is_fewer(row) == Some(true) && (ours - theirs).abs() <= POINTS;
            found.headline.row(kernel, "%", [theirs, ours], row.fitted, near);
        }
    }
    let of = |kernel: &str| of(rows, config).find(|row| row.kernel == kernel).map(|row| &row.simulated);
    let both = [of(first), of(OURS)];
    let events = both.map(|of| grouped(of.map_or(f64::NAN, |of| of.events.mean)));
    let held = both.map(|of| ratio(of.map_or(f64::NAN, |of| of.zone_lock_held_max_us.mean)));
    let told = format!(
        "{} such requests ({first}: {}); the zone lock is held for {} µs at most ({})",
        events[1], events[0], held[1], held[0]
    );
    let what = format!("requests that mix mobilities, {config}, against {first}");
    found.headline.tell(what, ("requests that mix mobilities", events), told);
}

/// The kernels in words.
fn kernels() -> [(&'static str, &'static str); 5] {
    [
        ("lowzone", "patch 1, a lower zone first"),
        ("boost", "patches 1 to 4, with the watermark boost"),
        ("stall", "all five, with stalls"),
        ("linux-6.1", "its mechanisms, beside that kernel itself, with nothing scaled"),
        ("default", "ours"),
    ]
}

/// How much is run, in words.
fn lengths(FragmentationLengths { mib, settings, seeds, .. }: FragmentationLengths) -> String {
    let settings = if settings == 1 { "one configuration".to_owned() } else { format!("{settings} configurations") };
    format!("{settings}, {} MiB a socket, {}", grouped(f64::from(mib)), counted(seeds as usize, "seed"))
}

/// A configuration's name, and what it is, theirs and ours.
fn described(config: &Config) -> String {
    format!(
        "{}: {}; ours {} CPUs of {}, {} MiB",
        config.name,
        config.title,
        config.cpus,
        config.model,
        grouped(f64::from(config.mib))
    )
}

/// Writes another kernel's published results: its events, the changes by patches, and all huge pages.
fn before(config: &Config) -> Option<String> {
    let Before { name, rows, .. } = config.before.as_ref()?;
    let (first, patched) = rows.split_first()?;
    let change = |row: &Earlier| format!(" {} {} %", row.kernel, points(change_percent(first.events, row.events)));
    let changes: Vec<String> = patched.iter().map(change).collect();
    let huge: Vec<String> = rows.iter().filter_map(|row| row.huge_percent).map(percent).collect();
    Some(format!("{name}: events {},{}; huge {} %", grouped(first.events), changes.join(","), huge.join(", ")))
}

/// Returns the costs of a row, in the order of the columns.
fn costs_of(row: &ThpComparison) -> Vec<GridCell> {
    let (theirs, simulated) = (row.published.as_ref(), &row.simulated);
    let us = |time: Option<f64>| time.filter(|time| *time != 0.0).map_or("-".to_owned(), |time| grouped(time.round()));
    let ours = |time: Option<Estimate>| cell(us(time.map(|time| time.mean)));
    let held = |time: Estimate| cell(duration(time.mean * 1e3));
    vec![
        cell(row.kernel).indented(),
        cell(us(theirs.map(|row| row.fault_base_us))),
        ours(simulated.fault_base_us),
        cell(us(theirs.map(|row| row.fault_huge_us))),
        ours(simulated.fault_huge_us),
        cell(theirs.and_then(|row| row.stalls).map_or(String::new(), |stalls| count(stalls.count as u64))),
        amount(simulated.stalls),
        amount(simulated.kswapd_scanned),
        cell(grouped(simulated.read_pages_per_s.mean)),
        held(simulated.zone_lock_held_p999_us),
        held(simulated.zone_lock_held_max_us),
        amount(simulated.moved),
    ]
}

fn amount(amount: Estimate) -> GridCell {
    cell(count(amount.mean.round() as u64))
}

/// A mean of counts.
fn whole(value: Estimate) -> String {
    let exact = |value: f64| if value < 999.5 { format!("{value:.0}") } else { grouped(value.round()) };
    exact(value.mean) + &value.error().map_or(String::new(), |error| format!(" ±{}", exact(error)))
}

/// A mean of percentages.
fn tenths(value: Estimate) -> String {
    percent(value.mean) + &value.error().map_or(String::new(), |error| format!(" ±{error:.1}"))
}
