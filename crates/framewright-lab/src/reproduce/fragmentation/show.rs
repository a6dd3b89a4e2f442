//! The tables, plots and pictures, and the figures to look at first.

use std::iter::once;

use framewright_sim::thpfioscale::outcome::Sample;

use super::found::{Alone, Found, Ours, Picture, Rounds, Row, is_fewer, is_huge};
use super::map;
use super::measured::READING;
use super::plan::{CLOSER, Lengths, NAME, OURS};
use super::published::{Before, Earlier, KERNELS};
use crate::html::plot::{Axis, Over, Plot, Series};
use crate::reproduce::check::points;
use crate::reproduce::estimate::Estimate;
use crate::reproduce::head::Head;
use crate::reproduce::headline::{self, Gain, Headline};
use crate::reproduce::reproduction::{Common, Reproduction};
use crate::reproduce::show::{Cell, Grid, Place, Show, cell, either, escaped, named, on_page};
use crate::reproduce::text::Wrapped;
use crate::sim::figures::{change_percent, count, counted, duration, grouped, percent, ratio};

/// A change of fragmentation is as published within so many points, as one of the zone lock's table is.
const POINTS: f64 = 10.0;
/// Points of a curve over time, about.
const CURVE: u64 = 20;

impl Reproduction for Found {
    fn common(&self) -> Common<'_> {
        Common { head: &self.head, fitted: &self.fitted, varied: None, checks: &self.checks }
    }

    fn show<'a>(&'a self, show: &mut Show<'a>) {
        let Head { model, seed, .. } = &self.head;
        show.open(
            format!("files that push each other out, then huge pages; seeds from {seed} on"),
            format!("<a href=\"#machine\">The machine models {model}</a> and {}, seeds from {seed} on. Ours: ", self.other),
            "memory, files and log with the proportions of nodes of 64 GiB, marks of 16; two sockets with 24 CPUs each. Size of nodes and \
             log, and one page a slab, are assumptions made knowing the tables; the disk is as fast as the published run's 16 minutes \
             say. Counts of events are not comparable, what patches do to them is",
        );
        if self.lengths != Lengths::FULL {
            let [these, full] = [self.lengths, Lengths::FULL].map(lengths);
            show.note(&format!("not to be quoted: {these}; that takes {full}"), 2);
        }
        self.show_events(show);
        show.at(Place::Beside);
        self.show_memory(show);
        show.at(Place::Details);
        self.show_costs(show);
        self.show_alone(show);
        show.at(Place::Beside);
        self.show_rounds(show);
        show.at(Place::Details);
        let reasons = || self.rows.iter().map(|row| (format!("{}, {}", row.config, row.kernel), &row.why));
        show.heading("Why");
        show.why_on_page(reasons());
        show.why("Why", reasons());
        show.tallies_checks = true;
    }

    /// Of the first configuration that was run.
    fn headline(&self) -> Headline {
        let config = self.configs.first().map_or("", |config| config.name);
        let first = self.rows.first().map_or("", |row| row.kernel);
        let row = |row: &Row| {
            let (theirs, ours) = (row.change_percent.published, row.change_percent.simulated?);
            if row.kernel == OURS {
                return Some(headline::Row::of_default(row.kernel, "%", ours));
            }
            let theirs = theirs?;
            let near = is_fewer(row) == Some(true) && (ours - theirs).abs() <= POINTS;
            Some(headline::Row::new(row.kernel, "%", [theirs, ours], row.fitted, near))
        };
        let of = |kernel: &str| self.of(config).find(|row| row.kernel == kernel).map(|row| &row.simulated);
        let both = [of(first), of(OURS)];
        let events = both.map(|of| grouped(of.map_or(f64::NAN, |of| of.events.mean)));
        let held = both.map(|of| ratio(of.map_or(f64::NAN, |of| of.zone_lock_held_max_us.mean)));
        Headline {
            experiment: NAME,
            what: format!("requests that mix mobilities, {config}, against {first}"),
            rows: self.of(config).filter_map(row).collect(),
            ours: format!(
                "{} such requests ({first}: {}); the zone lock is held for {} µs at most ({})",
                events[1], events[0], held[1], held[0]
            ),
            gain: Gain::new("requests that mix mobilities", events),
            fails: Vec::new(),
        }
    }
}

impl Found {
    fn show_events(&self, show: &mut Show<'_>) {
        let all = kernels().map(|(name, what)| format!("<code>{name}</code>: {what}")).join("; ");
        show.html(format!("<p>{all}.</p>\n"));
        let heads = "Kernel|Events that mixed mobilities:theirs;change;ours;change|Huge pages, % of faults:theirs;ours";
        for config in &self.configs {
            let (described, before) = (described(config), before(config));
            let seeds = self.of(config.name).map(|row| row.simulated.seeds).max().unwrap_or(0);
            let quiet =
                before.as_ref().map(|told| format!(" <span class=\"quiet\">not compared: {}</span>", escaped(told)));
            let above = Wrapped(&format!("{described}, {}", counted(seeds, "seed")), 2).to_string();
            let caption = escaped(&described) + &quiet.unwrap_or_default();
            let mut table = Grid::new("<16|>8 events:|>9 theirs|>17 ours|>10|>23 huge %:       theirs|>16 ours ")
                .above(above.trim_end())
                .page(escaped(&described), caption, heads);
            for row in self.of(config.name) {
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
        show.fitted(&self.fitted);
        let of =
            self.fitted.iter().map(|fit| format!("{} was chosen knowing {}", fit.parameter, fit.rows.join(" and ")));
        show.evidence = Some(format!(
            "<p class=\"quiet\">A fitted row says nothing about the model: {}. ±: what the mean over all seeds may be off, 95 times of \
             100.</p>\n",
            escaped(of.collect::<Vec<_>>().join(", "))
        ));
    }

    /// Pictures of memory, and curves over time and by round.
    fn show_memory(&self, show: &mut Show<'_>) {
        show.heading("Where memory is");
        show.html(format!(
            "<p>One cell a pageblock, from the lowest address on, in {}. The stronger its colour, the more of it is in use. When files are \
             deleted, a movable pageblock with a dot is no huge page.</p>\n",
            self.pictured
        ));
        show.maps(maps(&self.pictures));
        show.heading("Over time, and round by round");
        let rounds = (!self.rounds.is_empty()).then(|| self.by_round());
        let names = self.pictures.iter().map(|picture| picture.kernel.to_owned());
        show.plots(names.collect(), 1, once(over_time(&self.pictures)).chain(rounds));
    }

    fn show_costs(&self, show: &mut Show<'_>) {
        show.heading("What it costs");
        let columns =
            "<14|>7 theirs|>8 ours|>8 theirs|>8 ours|>7 theirs|>6 ours|>8 scanned|>8 pages/s|>9 p99.9|>9 max|>7 moved";
        let heads = "Kernel|Base fault, µs:theirs;ours|Huge fault, µs:theirs;ours|Stalls:theirs;ours|kswapd<br>scanned|\
                     Readers,<br>pages/s|Zone lock held:p99.9;max|Pages<br>moved";
        let groups = format!(
            "{:>14}{:>15}{:>16}{:>13}{:>8}{:>8}{:>18}{:>7}",
            "", "base fault, µs", "huge fault, µs", "stalls", "kswapd", "readers", "zone lock held", "pages"
        );
        for config in &self.configs {
            let described = escaped(described(config));
            let mut table = Grid::new(columns).above(format!("What it costs, {}\n{groups}", config.name)).page(
                format!("What it costs, {described}"),
                described,
                heads,
            );
            self.of(config.name).for_each(|row| table.row(costs(row)));
            show.grid(&table);
        }
    }

    fn show_alone(&self, show: &mut Show<'_>) {
        if self.ablation.is_empty() {
            return;
        }
        let heads = "Mechanisms|.What they are|Events|Huge pages, %|kswapd scanned|Pages moved";
        let caption = format!("Mechanisms alone and together, {}", self.pictured);
        let columns = format!("<42 Each alone, {CLOSER}|>18 events|>15 huge %|>11 scanned|>11 moved");
        let mut table = Grid::new(&columns).page("Each alone", caption, heads);
        for Alone { mechanisms, what, simulated } in &self.ablation {
            table.row(vec![
                on_page(mechanisms).code(),
                cell(what).indented().with("class=\"name\""),
                cell(whole(simulated.events)),
                cell(tenths(simulated.huge_percent)),
                amount(simulated.kswapd_scanned),
                amount(simulated.moved),
            ]);
        }
        show.heading("Each alone");
        show.grid(&table);
    }

    fn show_rounds(&self, show: &mut Show<'_>) {
        let Some(first) = self.rounds.first() else { return };
        let rounds = first.huge_percent.len();
        let heads: String = (1..=rounds).map(|round| format!("|{round}")).collect();
        let caption = format!(
            "Huge pages by round <span class=\"quiet\">files written, read and deleted over and over, {}, percent of faults</span>",
            self.pictured
        );
        let mut table = Grid::new(&format!("<14{}", "|>5".repeat(rounds)))
            .above(format!("Huge pages by round, {CLOSER}, percent"))
            .page("Huge pages by round", caption, &format!("Kernel{heads}"));
        for Rounds { kernel, huge_percent } in &self.rounds {
            let all = huge_percent.iter().map(|&huge| either(format!("{huge:.0}"), percent(huge)));
            table.row(once(cell(kernel).indented()).chain(all).collect());
        }
        show.grid(&table);
    }

    /// Huge pages of those kernels that were run for several rounds, in the looks that they have in the other plot.
    fn by_round(&self) -> Plot {
        let points = |kernel: &str| {
            let rounds = self.rounds.iter().find(|rounds| rounds.kernel == kernel);
            let all = rounds.map_or(&[][..], |rounds| &rounds.huge_percent).iter().enumerate();
            all.map(|(i, percent)| ((i + 1) as f64, *percent)).collect()
        };
        let names = self.pictures.iter().map(|picture| picture.kernel);
        let series = names.map(|kernel| Series { name: kernel.to_owned(), points: points(kernel) });
        Plot::over("Huge pages by round", &Axis::percent("of faults"), &Over::ROUNDS, &series.collect::<Vec<_>>())
    }
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
fn lengths(Lengths { mib, settings, seeds, .. }: Lengths) -> String {
    let settings = if settings == 1 { "one configuration".to_owned() } else { format!("{settings} configurations") };
    format!("{settings}, {} MiB a socket, {}", grouped(f64::from(mib)), counted(seeds as usize, "seed"))
}

/// A configuration's name, and what it is, theirs and ours.
fn described(config: &Ours) -> String {
    format!(
        "{}: {}; ours {} CPUs of {}, {} MiB",
        config.name,
        config.title,
        config.cpus,
        config.model,
        grouped(f64::from(config.mib))
    )
}

/// What was published of another kernel: events of the first, what patches changed, and huge pages of all.
fn before(config: &Ours) -> Option<String> {
    let Before { name, rows, .. } = config.before.as_ref()?;
    let (first, patched) = rows.split_first()?;
    let change = |row: &Earlier| format!(" {} {} %", row.kernel, points(change_percent(first.events, row.events)));
    let changes: Vec<String> = patched.iter().map(change).collect();
    let huge: Vec<String> = rows.iter().filter_map(|row| row.huge_percent).map(percent).collect();
    Some(format!("{name}: events {},{}; huge {} %", grouped(first.events), changes.join(","), huge.join(", ")))
}

/// What a row costs, in the order of the columns.
fn costs(row: &Row) -> Vec<Cell> {
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

fn amount(amount: Estimate) -> Cell {
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

/// Events so far of each kernel.
fn over_time(pictures: &[Picture]) -> Plot {
    let end = pictures.iter().filter_map(|picture| picture.samples.last()).map(|sample| sample.ms).max().unwrap_or(0);
    let step = (end / CURVE).next_multiple_of(100).max(100);
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

/// Memory under the first kernel and ours, when huge pages were wanted and when all was over.
fn maps(pictures: &[Picture]) -> Vec<map::Picture> {
    let shown = [KERNELS[0], OURS].map(|kernel| pictures.iter().find(|picture| picture.kernel == kernel));
    let moments = [(READING, "files in memory"), ("clean up", "files deleted")];
    let map = |picture: &Picture, (phase, words): (&str, &str)| {
        let (_, blocks) = picture.blocks.iter().find(|(name, _)| *name == phase)?;
        Some(map::Picture::new(format!("{}, {words}", picture.kernel), blocks))
    };
    moments.iter().flat_map(|moment| shown.iter().flatten().filter_map(|picture| map(picture, *moment))).collect()
}
