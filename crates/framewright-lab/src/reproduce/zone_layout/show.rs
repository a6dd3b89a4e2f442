//! The tables and plots, and the figures to look at first.

use framewright_sim::workload::Passes;

use super::found::{Crossover, Found, Memory, Points, Row, VariantRow, standing};
use super::plan::{NAME, PLACES};
use crate::html::plot::{Axis, Plot, Series};
use crate::reproduce::check::{Standing, points};
use crate::reproduce::head::Head;
use crate::reproduce::headline::{self, Gain, Headline};
use crate::reproduce::reproduction::{Common, Reproduction};
use crate::reproduce::show::{Cell, Grid, Place, Show, cell, cpus, either, in_text, named, on_page};
use crate::reproduce::text::WHY;
use crate::reproduce::variation::{Band, Varying};
use crate::sim::figures::{change_percent, duration, grouped, percent};

/// Columns of a row's name, and of a lock's.
const NAMES: (usize, usize) = (54, 26);

fn passes_in_words(Passes { warm_up, window }: Passes) -> String {
    format!("{window} processes of each CPU measured, {warm_up} before")
}

fn signed(percent: f64) -> Cell {
    cell(format!("{percent:+.1}"))
}

impl Reproduction for Found {
    fn common(&self) -> Common<'_> {
        Common { head: &self.head, fitted: &self.fitted, varied: self.varied.as_ref(), checks: &self.checks }
    }

    fn show<'a>(&'a self, show: &mut Show<'a>) {
        let Self { head: Head { model, seed, .. }, cpus, workload, .. } = self;
        show.open(
            format!("{workload} on {model}, {cpus} CPUs, seed {seed}"),
            format!("<code>{workload}</code> on {cpus} CPUs of <a href=\"#machine\">the machine model {model}</a>, seed {seed}. Ours: "),
            format!(
                "processes that allocate, compute and end, {}; per-CPU lists of 31 and 186 frames; jobs are processes, elapsed time is \
                 what a process takes, system time its CPU time in which it does not compute; no CPU is ever idle",
                passes_in_words(self.lengths.table)
            ),
        );
        self.show_table(show);
        show.at(Place::Details);
        self.show_memory(show);
        self.show_variants(show);
        show.at(Place::Beside);
        self.show_curves(show);
        show.at(Place::Details);
        let reasons = || self.variants.iter().map(|one| (&one.name, format!("{}; {}", one.why, one.lines)));
        show.heading("Why");
        show.why_on_page(reasons());
        show.why(WHY, reasons());
        show.runs = self.variants.iter().map(|variant| (variant.name.clone(), &variant.report)).collect();
    }

    fn headline(&self) -> Headline {
        let row = |row: &Row| {
            let both = [row.published.change_percent, row.simulated?.change_percent];
            Some(headline::Row::new(&row.name, "%", both, row.fitted, standing(row) == Some(Standing::InBand)))
        };
        let (first, best) = (self.variants.first(), self.variants.last());
        let beside_queued = self.variants.get(PLACES.len());
        let jobs = [first, best].map(|of| of.map_or(f64::NAN, |of| of.performance));
        let against_cure = [best, beside_queued].map(|of| points(of.map_or(f64::NAN, |of| of.change_percent)));
        let ours = headline::Row::of_default("beside -> default's lock", "%", change_percent(jobs[0], jobs[1]));
        Headline {
            experiment: NAME,
            what: format!("aim7 on {} CPUs, the lock beside the order-0 lists or apart", self.cpus),
            rows: self.rows.iter().filter(|row| !row.fitted).filter_map(row).chain([ours]).collect(),
            gain: Gain::new("processes of aim7 a second, by the lock", jobs.map(grouped)),
            ours: format!(
                "queued, on a line of its own: {} % against separate; beside the lists {} % still",
                against_cure[0], against_cure[1]
            ),
            fails: Vec::new(),
        }
    }
}

impl Found {
    fn show_table(&self, show: &mut Show<'_>) {
        let mut table = Grid::new(&format!("<{} change, %|>12 theirs|>13 ours |>13 band", NAMES.0)).page(
            "The table",
            "Change, percent",
            "Row|theirs|ours|band",
        );
        for row in &self.rows {
            let theirs = signed(row.published.change_percent);
            match (row.simulated, row.why_not) {
                (Some(ours), _) => {
                    let name = named(&row.name, row.fitted).cut(NAMES.0);
                    let ours = signed(ours.change_percent).judged(standing(row));
                    let band = row.band.map(|Band([least, most])| format!("{least:+.0}..{most:+.0}"));
                    table.row(vec![name, theirs, ours, cell(band.unwrap_or_default())]);
                }
                (None, why_not) => {
                    let why_not = on_page(why_not.unwrap_or_default()).with("colspan=\"2\" class=\"name quiet\"");
                    table.row([named(&row.name, row.fitted), theirs, why_not].map(Cell::page_alone).to_vec());
                }
            }
        }
        show.grid(&table);
        show.fitted(&self.fitted);
        show.line("~ the band holds theirs; ! it does not");
        let varied = self.varied.as_ref().zip(self.lengths.varied);
        show.varied(varied.map(|(varied, Varying { screen, band })| (varied, [screen, band].map(passes_in_words))));
        for (row, why_not) in self.rows.iter().filter_map(|row| Some((row, row.why_not?))) {
            show.note(&format!("  {}: theirs {:+.1}, ours {why_not}", row.name, row.published.change_percent), 4);
        }
    }

    fn show_memory(&self, show: &mut Show<'_>) {
        if self.memory.is_empty() {
            return show.html("\n");
        }
        let caption = "How it was is not known; the table is made with the last";
        let heads = "Memory|Change of jobs, %|Computing behind the lists, % of CPU time|beside, %";
        let mut table = Grid::new(&format!("<{} Memory of the tasks|>12 change, %|>24 computing, %", NAMES.0)).page(
            "Memory of the tasks",
            caption,
            heads,
        );
        for Memory { name, change_percent, computing_percent, .. } in &self.memory {
            let [behind, beside] = computing_percent.map(|percent| format!("{percent:.1}"));
            let both = in_text(format!("{behind} -> {beside}"));
            table.row(vec![cell(name), signed(*change_percent), both, on_page(behind), on_page(beside)]);
        }
        show.heading("Memory of the tasks");
        show.grid(&table);
        show.html("\n");
    }

    fn show_variants(&self, show: &mut Show<'_>) {
        let columns = format!("<{}|>18 processes a second|>12 change, %|>20 waiting for it, %|>14 held, p50", NAMES.1);
        let heads = "Lock and place|Processes per second|Change, %|Waiting for it, % of CPU time|Held, p50";
        let mut table = Grid::new(&columns).above(format!("The lock and its place, on {} CPUs", self.cpus)).page(
            "The lock and its place",
            format!("On {}", cpus(self.cpus)),
            heads,
        );
        for variant in &self.variants {
            table.row(vec![
                cell(&variant.name).cut(NAMES.1),
                cell(grouped(variant.performance)),
                signed(variant.change_percent),
                cell(percent(variant.zone_lock_contention_percent)),
                cell(duration(variant.hold_p50_ns)),
            ]);
        }
        show.heading("The lock and its place");
        show.grid(&table);
    }

    fn show_curves(&self, show: &mut Show<'_>) {
        let Some(first) = self.variants.first() else { return };
        let numbers = first.points.iter().map(|(number, _)| *number);
        let columns: String = numbers.clone().map(|number| format!("|>9 {number}")).collect();
        let heads: String = numbers.map(|number| format!("|{}", cpus(number))).collect();
        let mut table = Grid::new(&format!("<{}{columns}", NAMES.1))
            .above("Thousand processes a second by number of CPUs")
            .page("Processes per second by number of CPUs", "Processes per second", &format!("Lock and place{heads}"));
        for VariantRow { name, points, .. } in &self.variants {
            let jobs = points.iter().map(|(_, jobs)| either(format!("{:.1}", jobs / 1e3), grouped(*jobs)));
            table.row([cell(name).cut(NAMES.1)].into_iter().chain(jobs).collect());
        }
        for Crossover { lock, gain_percent, taking_gain_percent, .. } in &self.crossover {
            let taking = "of a taking of the lock";
            let gains = |name, points: &Points| -> Vec<Cell> {
                [name].into_iter().chain(points.iter().map(|(_, gain)| signed(*gain))).collect()
            };
            let name = either(format!("{lock}, beside gains, %"), format!("{lock}: beside gains, %"));
            table.part(gains(name.cut(NAMES.1), gain_percent));
            table.part(gains(cell(taking).indented(), taking_gain_percent));
        }
        let plots = self.plots();
        show.heading("By number of CPUs");
        show.plots(self.variants.iter().map(|variant| variant.name.clone()).collect(), 1, [plots.0]);
        show.grid(&table);
        show.plots(self.crossover.iter().map(|crossover| crossover.lock.to_owned()).collect(), 2, [plots.1]);
        let told = |crossover: &Crossover| {
            let place = match crossover.cpus {
                Some(number) => format!("better from {} on", cpus(number)),
                None => "never better".to_owned(),
            };
            format!("With the {} lock, the place behind the lists is {place}", crossover.lock)
        };
        show.html(format!("<p>{}.</p>\n", self.crossover.iter().map(told).collect::<Vec<_>>().join("; ")));
        for Crossover { lock, cpus, .. } in &self.crossover {
            show.line(match cpus {
                Some(cpus) => format!("  {lock}: from {cpus} CPUs on the lock is better off behind the lists"),
                None => format!("  {lock}: behind the lists the lock is never better off"),
            });
        }
    }

    /// Throughput, and what is lost beside the lists.
    fn plots(&self) -> (Plot, Plot) {
        let series = |name: &str, points: &Points, of: fn(f64) -> f64| Series {
            name: name.to_owned(),
            points: points.iter().map(|&(cpus, value)| (cpus as f64, of(value))).collect(),
        };
        let curves: Vec<Series> =
            self.variants.iter().map(|one| series(&one.name, &one.points, |value| value)).collect();
        let lost = |one: &Crossover| series(one.lock, &one.gain_percent, |gain| (-gain).max(0.0));
        let losses: Vec<Series> = self.crossover.iter().map(lost).collect();
        let percent = Axis::percent("of the throughput behind them; a gain is drawn as 0");
        (
            Plot::new("Throughput", &Axis::rate("processes"), &curves),
            Plot::new("Lost beside the lists", &percent, &losses),
        )
    }
}
