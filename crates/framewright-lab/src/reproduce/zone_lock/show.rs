//! The tables and plots, and the figures to look at first.

use std::iter::once;

use framewright_sim::workload::Passes;
use framewright_sim::workload::aftermath::FreeBlocks;

use super::found::{CHANGE, Figures, Found, Ours, Row, SHARE, change, contention, list_add, total};
use super::others::{Elsewhere, MixRow, Parts};
use super::plan::{NAME, OURS, Other};
use super::published::{LruRow, ORDERS};
use crate::html::plot::{Axis, Over, Plot, Series};
use crate::reproduce::check::Standing;
use crate::reproduce::head::Head;
use crate::reproduce::headline::{self, Gain, Headline};
use crate::reproduce::reproduction::{Common, Reproduction};
use crate::reproduce::show::{Cell, Grid, Place, Show, band, cell, cpus, definitions, either, escaped, named, on_page};
use crate::reproduce::text::WHY;
use crate::reproduce::variation::Varying;
use crate::sim::figures::{count, duration, grouped, percent, plural, share};

/// Columns of a kernel's name.
const KERNEL: usize = 24;
/// Groups of orders that buddyinfo is shown in: name and first order of each.
const GROUPS: [(&str, usize); 4] = [("0", 0), ("1-4", 1), ("5-8", 5), ("9-10", 9)];

impl Reproduction for Found {
    fn common(&self) -> Common<'_> {
        Common { head: &self.head, fitted: &self.fitted, varied: self.varied.as_ref(), checks: &self.checks }
    }

    fn show<'a>(&'a self, show: &mut Show<'a>) {
        let Self { head: Head { model, seed, .. }, cpus, scale, .. } = self;
        let mib = |frames: u64| grouped(frames as f64 / 256.0);
        let lists = format!(
            "per-CPU lists of {} and {} frames, where a kernel does not size them itself",
            scale.pcp_batch, scale.pcp_high
        );
        show.open(
            format!("page faults of {cpus} processes on {model}, seed {seed}"),
            format!("Page faults of {cpus} processes on <a href=\"#machine\">the machine model {model}</a>, seed {seed}. Ours has "),
            format!(
                "1/{} of the memory ({} MiB a process, {} MiB free a node); {}, in a pass every process maps and unmaps its memory once",
                scale.fraction,
                mib(u64::from(scale.process_pages)),
                mib(scale.node_frames),
                passes(self.passes.table)
            ),
        );
        show.note(&format!("  {lists}"), 2);
        show.also = format!("; {lists}");
        self.show_table(show);
        show.at(Place::Beside);
        self.show_curves(show);
        show.at(Place::Details);
        let reasons = || self.rows.iter().filter_map(|row| Some((&row.name, &row.simulated.as_ref()?.why)));
        show.heading("Why");
        show.why_on_page(reasons());
        show.why(WHY, reasons());
        self.show_shares(show);
        self.show_memory(show);
        show.html("\n");
        self.show_lru(show);
        show.html("\n");
        self.show_mix(show);
        show.html("\n");
        self.show_others(show);
        let table = self.rows.iter().filter_map(|row| Some((row.name.clone(), &row.simulated.as_ref()?.report)));
        let mix =
            |row: &'a MixRow| Some((format!("{}, {}", row.name, Other::Mix.title()), &row.simulated.as_ref()?.report));
        show.runs = table.chain(self.mix.iter().filter_map(mix)).collect();
    }

    fn headline(&self) -> Headline {
        let first = self.rows.first();
        let name = first.map_or("", |row| row.name.as_str());
        let row = |row: &Row| {
            let theirs = row.published.as_ref()?.figures.change_percent?;
            let ours = row.simulated.as_ref()?.figures.change_percent?;
            let near = change(row) == Some(Standing::Near);
            Some(headline::Row::new(&row.name, "%", [theirs, ours], row.fitted, near))
        };
        let both = || Some((first?.simulated.as_ref()?, self.row(OURS)?.simulated.as_ref()?));
        let (from, ours) = both().unzip();
        let of_default = ours.and_then(|ours| ours.figures.change_percent);
        let waiting = [from, ours].map(|of| of.map_or(f64::NAN, |of| of.figures.zone_lock_contention_percent));
        let unusable = [from, ours].map(|of| of.map_or(f64::NAN, |of| of.unusable_index_order5 * 100.0));
        Headline {
            experiment: NAME,
            what: format!("page faults a second of {} CPUs, against {name}", self.cpus),
            rows: (self.rows.iter().skip(1).filter_map(row))
                .chain(of_default.map(|percent| headline::Row::of_default("default", "%", percent)))
                .collect(),
            gain: Gain::new(
                "of CPU time waits for the zone lock",
                waiting.map(|share| format!("{} %", percent(share))),
            ),
            ours: format!(
                "time waiting for the zone lock {1} % ({name}: {0}), free memory unfit for order 5 {3} % ({2})",
                percent(waiting[0]),
                percent(waiting[1]),
                percent(unusable[0]),
                percent(unusable[1]),
            ),
            fails: Vec::new(),
        }
    }
}

impl Found {
    fn show_table(&self, show: &mut Show<'_>) {
        let columns = "<24 kernel|>12 theirs|>12 ours|>8 theirs|>8 ours |>12 band|>8 theirs|>7 ours |>9 band";
        let heads = "Kernel|Faults per second:theirs;ours|Change, %:theirs;ours;band|\
                     Waiting for the zone lock, % of CPU time:theirs;ours;band|Held, p99.9";
        let mut table = Grid::new(columns)
            .above(format!(
                "{:KERNEL$}{:^24}{:^28}{:^24}",
                "", "faults per second", "change, %", "waiting for zone lock, %"
            ))
            .page("The table", "The table", heads);
        for row in &self.rows {
            let theirs = |of: fn(&Figures) -> Option<String>| {
                dash(row.published.as_ref().and_then(|theirs| of(&theirs.figures)))
            };
            let changed = |figures: &Figures| figures.change_percent.map(|change| format!("{change:+.1}"));
            let waits = |figures: &Figures| Some(percent(figures.zone_lock_contention_percent));
            let (name, rate) = (named(&row.name, row.fitted).cut(KERNEL), theirs(|of| Some(grouped(of.performance))));
            let Some(ours) = &row.simulated else {
                table.line(format!("{:KERNEL$}{:>12}  not built yet", name.as_text(), rate.as_text()));
                let rest = on_page("not built yet").with("colspan=\"8\" class=\"name quiet\"");
                table.row([name, rate, rest].map(Cell::page_alone).to_vec());
                continue;
            };
            let hold = Some(ours.hold_p999_ns).filter(|&hold| hold > 0.0).map_or(String::new(), duration);
            table.row(vec![
                name,
                rate,
                cell(grouped(ours.figures.performance)),
                theirs(changed),
                dash(changed(&ours.figures)).judged(change(row)),
                band(ours.band.map(|bands| bands.change_percent)),
                theirs(waits),
                dash(waits(&ours.figures)).judged(contention(row)),
                band(ours.band.map(|bands| bands.zone_lock_contention_percent)),
                on_page(hold),
            ]);
        }
        show.grid(&table);
        self.show_list_add(show);
        show.fitted(&self.fitted);
        show.line(format!("! off by more than {CHANGE} points (change) or {SHARE} (waiting); ~ the band holds theirs"));
        let varied = self.varied.as_ref().zip(self.passes.varied);
        show.varied(varied.map(|(varied, Varying { screen, band })| (varied, [screen, band].map(passes))));
    }

    /// Time inside of list operations, for a terminal, where that is of interest.
    fn show_list_add(&self, show: &mut Show<'_>) {
        for row in &self.rows {
            let both = || Some((row.published.as_ref()?.figures, row.simulated.as_ref()?));
            let both = both().and_then(|(theirs, ours)| {
                Some((theirs.smp_list_add_percent?, ours.figures.smp_list_add_percent?, ours.band))
            });
            let Some((theirs, ours, bands)) = both else { continue };
            let band = bands.map(|bands| format!(", band {}", band(Some(bands.smp_list_add_percent)).as_text()));
            let mark = Standing::mark(list_add(row)).trim_end();
            let (name, theirs, ours, band) = (&row.name, percent(theirs), percent(ours), band.unwrap_or_default());
            show.line(format!("  {name} in smp_list_add: theirs {theirs}, ours {ours}{mark}{band}"));
        }
    }

    fn show_curves(&self, show: &mut Show<'_>) {
        let Some(first) = self.curves.first() else { return };
        let heads: String = first.points.iter().map(|&(number, _)| format!("|{}", cpus(number))).collect();
        let mut table =
            Grid::new("").page("Faults per second by number of CPUs", "Faults per second", &format!("Kernel{heads}"));
        let mut series = Vec::new();
        for curve in &self.curves {
            let points = curve.points.iter();
            table.row(
                once(on_page(&curve.name)).chain(points.clone().map(|(_, rate)| on_page(grouped(*rate)))).collect(),
            );
            let points = points.map(|&(cpus, rate)| (cpus as f64, rate)).collect();
            series.push(Series { name: curve.name.clone(), points });
        }
        let names = self.curves.iter().map(|curve| curve.name.clone());
        show.heading("Throughput by number of CPUs");
        show.plots(names.collect(), 1, [Plot::new("Throughput", &Axis::rate("faults"), &series)]);
        show.grid(&table);
    }

    /// Shares of CPU time, for a page: of the zone lock, and of list operations where that was published.
    fn show_shares(&self, show: &mut Show<'_>) {
        let mut table = Grid::new("").page("Shares of CPU time", "Percent of CPU time", "Kernel|.In|theirs|ours|");
        let figures: [(&str, fn(&Figures) -> Option<f64>); 2] = [
            ("zone lock", |figures| Some(figures.zone_lock_contention_percent)),
            ("smp_list_add", |figures| figures.smp_list_add_percent),
        ];
        for row in &self.rows {
            for (what, of) in figures {
                let theirs = row.published.as_ref().and_then(|theirs| of(&theirs.figures));
                let ours = row.simulated.as_ref().and_then(|ours| of(&ours.figures));
                if what != figures[0].0 && theirs.is_none() {
                    continue;
                }
                let bar = |share: Option<f64>, whose: &str| {
                    share.map_or(String::new(), |share| {
                        let width = (share * 10.0).round() / 10.0;
                        format!("<span class=\"bar {whose}\"><span style=\"width:{width:?}%\"></span></span>\n")
                    })
                };
                let bars = bar(theirs, "theirs") + &bar(ours, "ours");
                table.row(vec![
                    on_page(&row.name),
                    on_page(what).with("class=\"name\""),
                    dash(theirs.map(percent)).page_alone(),
                    dash(ours.map(percent)).page_alone(),
                    on_page("").around([&bars, ""]).with("aria-hidden=\"true\""),
                ]);
            }
        }
        show.html("\n<h2>Where CPU time waits</h2>\n");
        show.grid(&table);
        show.html("<p class=\"quiet\">Upper bars are theirs, lower ones ours.</p>\n");
    }

    /// What kernels left of memory.
    fn show_memory(&self, show: &mut Show<'_>) {
        let names = GROUPS.map(|(name, _)| name);
        let columns: String = names.map(|name| format!("|>7 {name}")).concat();
        let columns = format!("<24 kernel|<7{columns}|>10 on lists|>15 unusable at 5|>9 drained|>7 pairs");
        let caption = "Percent of free memory by order of its blocks <span class=\"quiet\">of what buddyinfo shows; beside it, what lay on \
                       per-CPU lists and in depots</span>";
        let heads = format!("Kernel|.|{}|On lists, %|Unusable at order 5|Drained|Pairs left", names.join("|"));
        let mut table = Grid::new(&columns)
            .above("Free memory left in both zones Normal, percent by order of its blocks")
            .page("Free memory by order", caption, &heads);
        for row in &self.rows {
            let theirs = row.published.as_ref().and_then(|theirs| theirs.buddyinfo.zip(theirs.unusable_index_order5));
            let mut line = |name: Cell, whose: &str, blocks: &[u64; ORDERS], rest: [Cell; 4]| {
                let groups = groups(blocks).map(|group| cell(percent(group)));
                table.row([name, cell(whose).with("class=\"name\"")].into_iter().chain(groups).chain(rest).collect());
            };
            let name = cell(&row.name).cut(KERNEL);
            if let Some((blocks, index)) = &theirs {
                line(name.clone(), "theirs", blocks, [cell(""), thousandths(*index), cell(""), cell("")]);
            }
            if let Some(Ours { buddyinfo, unusable_index_order5, drained, .. }) = &row.simulated {
                let name = if theirs.is_some() { either("", &row.name) } else { name };
                let kept = percent(kept(buddyinfo));
                let kept = either(format!("{kept} %"), kept);
                let [index, left] = [*unusable_index_order5, drained.unusable_index_order5].map(thousandths);
                line(name, "ours", &total(buddyinfo), [kept, index, left, cell(count(drained.mergeable_pairs))]);
            }
        }
        show.html(format!(
            "\n<h2>What was left of memory</h2>\n<p>Free blocks by order in both zones Normal, when all processes had ended. Ours is {} times \
             smaller a machine, so its curves lie lower; what to compare is the shape. Drained: when per-CPU lists and depots have been \
             given back; pairs: free buddies that then could be one block and are not.</p>\n",
            self.scale.fraction
        ));
        show.plots(vec!["theirs".to_owned(), "ours".to_owned()], 2, self.rows.iter().filter_map(orders));
        show.grid(&table);
        let words = "on lists: free, but on per-CPU lists and in depots, and so not among the blocks; drained: unusable at 5 when these \
                     have been given back; pairs: of free buddies, which then could be one block and are not";
        show.note(words, 2);
    }

    /// With pages on LRU lists.
    fn show_lru(&self, show: &mut Show<'_>) {
        if self.with_lru.is_empty() {
            return;
        }
        let heads = "Kernel|Change:theirs;ours|Waiting for the zone lock:theirs;ours|Waiting for LRU locks:theirs;ours";
        let caption = "With pages on LRU lists <span class=\"quiet\">percent; the kernels were others than those of the table. Smp: lists \
                       that many CPUs change at once</span>";
        let mut table = Grid::new("<24 kernel|>8 theirs|>8 ours|>11 theirs|>11 ours|>13 theirs|>11 ours")
            .above(format!("With pages on LRU lists{:>15}{:>22}{:>24}", "change, %", "zone lock, %", "LRU lock, %"))
            .page("With pages on LRU lists", caption, heads);
        let words = |row: &LruRow| {
            let [zone, lru] = [row.zone_lock_contention_percent, row.lru_lock_contention_percent].map(percent);
            [format!("{:+.1}", row.change_percent), zone, lru]
        };
        for row in &self.with_lru {
            let [theirs, ours] = [Some(&row.published), row.simulated.as_ref()].map(|row| row.map(words));
            let cells =
                (0..3).flat_map(|figure| [&theirs, &ours].map(|all| dash(all.as_ref().map(|all| &all[figure]))));
            table.row(once(cell(&row.name).cut(KERNEL)).chain(cells).collect());
            if let Some(smp) = row.smp_list.as_ref().map(words) {
                let cells = smp.into_iter().flat_map(|figure| [cell(""), cell(figure)]);
                table.part(once(either("  lists on smp_list", "smp")).chain(cells).collect());
            }
        }
        show.heading("With pages on LRU lists");
        show.grid(&table);
    }

    /// Small and huge pages at once.
    fn show_mix(&self, show: &mut Show<'_>) {
        let Some(first) = self.mix.first() else { return };
        let against = format!("percent of {}", first.name);
        let parts = ["small", "huge", "small", "huge", "mean"].map(|part| format!("{part:>13}")).concat();
        let above = format!(
            "Half of the processes with small pages, half with huge ones, in fragmented memory\n\
             {:KERNEL$}{:>26}{against:>39}\n{:KERNEL$}{parts}{:>9}",
            "", "million pages per second", "", "fell"
        );
        let heads = ["Small, M/s", "Huge, M/s", "Small, %", "Huge, %", "Geometric mean, %"];
        let heads = heads.map(|head| format!("|{head}:theirs;ours")).concat();
        let caption = "Small and huge pages at once <span class=\"quiet\">millions of pages of 4 KiB per second, and percent of the \
                       first</span>";
        let mut table =
            Grid::new(&format!("<24 kernel{}|>9 back, %", "|>7 theirs|>6 ours".repeat(PARTS.len()))).above(above).page(
                "Small and huge pages at once",
                caption,
                &format!("Kernel{heads}|Fell back, %|Waiting for the zone lock, %"),
            );
        for row in &self.mix {
            let both = [row.published, row.simulated.as_ref().map(|ours| ours.parts)];
            let parts = PARTS.iter().flat_map(|of| {
                both.map(|parts| cell(parts.and_then(|parts| of(&parts)).unwrap_or_else(|| "-".to_owned())))
            });
            let ours = row.simulated.as_ref();
            let fell_back = ours.map_or(String::new(), |ours| percent(ours.fallback_percent));
            let waiting = ours.map_or(String::new(), |ours| percent(ours.zone_lock_contention_percent));
            let name = cell(&row.name).cut(KERNEL);
            table.row(once(name).chain(parts).chain([cell(fell_back), on_page(waiting)]).collect());
        }
        show.heading("Small and huge pages at once");
        show.html(
            "<p>Half of the processes fault in pages of 4 KiB, the other half huge ones, in memory that was fragmented before. Theirs had \
             their pages on LRU lists, and compacted memory while the test ran; no row was to be met. Where memory bandwidth is the \
             limit, what one half gains the other loses.</p>\n",
        );
        show.grid(&table);
        let words = "pages of 4 KiB; mean: geometric. Theirs had pages on LRU lists, and compacted memory meanwhile: no row was to be met. \
                     Where memory bandwidth is the limit, what one half gains the other loses";
        show.note(words, 2);
        let reasons = || self.mix.iter().filter_map(|row| Some((&row.name, &row.simulated.as_ref()?.why)));
        reasons().for_each(|(name, why)| show.note(&format!("  {name}: {why}"), 4));
        show.html(folded("", definitions(reasons())));
    }

    /// Other workloads: a column each; for a terminal reasons of ours, and of the best of the others.
    fn show_others(&self, show: &mut Show<'_>) {
        let all = &self.other_workloads;
        let Some(first) = all.first() else { return };
        let lines = all.iter().map(|other| in_two_lines(other.title)).collect::<Vec<_>>();
        let line = |of: fn(&(&str, &str)) -> String| lines.iter().map(of).collect::<String>();
        let above = format!(
            "Other workloads: operations per second, and percent of CPU time that waits for the zone lock\n\
             {:KERNEL$}{}\n{:KERNEL$}{}",
            "",
            line(|(line, _)| format!("{line:>25}")),
            "",
            line(|(_, line)| format!("{line:>25}"))
        );
        let head = |other: &Elsewhere| {
            format!("|{}:{};of ours, %;waits, %", escaped(other.title), escaped(plural(&other.unit)))
        };
        let caption = "Other workloads <span class=\"quiet\">operations per second, percent of our default's, and percent of CPU time that \
                       waits for the zone lock</span>";
        let mut table = Grid::new(&format!("<24 kernel{}", "|>17 per second|>8 waits".repeat(all.len())))
            .above(above)
            .page("Other workloads", caption, &format!("Preset{}", all.iter().map(head).collect::<String>()));
        for (number, row) in first.rows.iter().enumerate() {
            let rows = all.iter().filter_map(|other| other.rows.get(number));
            let cells = rows.flat_map(|row| {
                let of_ours = dash(row.percent_of_default.map(percent)).page_alone();
                [cell(grouped(row.performance)), of_ours, cell(percent(row.zone_lock_contention_percent))]
            });
            table.row(once(cell(&row.name).cut(KERNEL)).chain(cells).collect());
        }
        show.heading("Other workloads");
        show.grid(&table);
        for Elsewhere { title, workload, rows, .. } in all {
            let best =
                rows.iter().filter(|row| row.name != OURS).max_by(|a, b| a.performance.total_cmp(&b.performance));
            let both = rows.iter().find(|row| row.name == OURS).into_iter().chain(best);
            both.for_each(|row| show.note(&format!("  {title}, {}: {}", row.name, row.why), 4));
            let of = format!(" <span class=\"quiet\">{}, <code>{}</code></span>", escaped(title), escaped(workload));
            show.html(folded(&of, definitions(rows.iter().map(|row| (&row.name, &row.why)))));
        }
    }
}

/// How long runs are, in words.
fn passes(Passes { warm_up, window }: Passes) -> String {
    format!("{window} passes measured, {warm_up} before")
}

/// A figure, or a dash.
fn dash(figure: Option<impl std::fmt::Display>) -> Cell {
    figure.map_or_else(|| either("-", "–"), cell)
}

fn thousandths(index: f64) -> Cell {
    cell(format!("{index:.3}"))
}

/// Reasons that a page shows if they are asked for.
fn folded(of: &str, reasons: String) -> String {
    format!("<details>\n<summary>Why, of each{of}</summary>\n{reasons}</details>\n")
}

/// Percent of the free frames by group of orders.
fn groups(blocks: &[u64; ORDERS]) -> [f64; GROUPS.len()] {
    let frames = |orders: std::ops::Range<usize>| orders.map(|order| blocks[order] << order).sum::<u64>() as f64;
    std::array::from_fn(|group| {
        let end = GROUPS.get(group + 1).map_or(ORDERS, |(_, first)| *first);
        share(frames(GROUPS[group].1..end), frames(0..ORDERS))
    })
}

/// Percent of all free frames that are on per-CPU lists and in depots, and so in no block of buddyinfo.
fn kept(zones: &[FreeBlocks]) -> f64 {
    let cached: u64 = zones.iter().map(|zone| zone.cached).sum();
    let listed: u64 = total(zones).iter().enumerate().map(|(order, blocks)| blocks << order).sum();
    share(cached as f64, (cached + listed) as f64)
}

/// Free blocks by order, theirs and ours, of a kernel of which theirs were published.
fn orders(row: &Row) -> Option<Plot> {
    let theirs = row.published.as_ref()?.buddyinfo?;
    let points = |blocks: &[u64]| (0..).map(f64::from).zip(blocks.iter().map(|&blocks| blocks as f64)).collect();
    let series = |name: &str, blocks: &[u64]| Series { name: name.to_owned(), points: points(blocks) };
    let ours = row.simulated.as_ref().map(|ours| series("ours", &total(&ours.buddyinfo)));
    let both: Vec<Series> = once(series("theirs", &theirs)).chain(ours).collect();
    Some(Plot::over(&row.name, &Axis::powers("free blocks"), &Over::ORDERS, &both))
}

/// Columns of what both halves of the processes did.
const PARTS: [fn(&Parts) -> Option<String>; 5] = [
    |parts| Some(format!("{:.2}", parts.small_performance / 1e6)),
    |parts| Some(format!("{:.2}", parts.huge_performance / 1e6)),
    |parts| parts.small_percent.map(|part| format!("{part:.0}")),
    |parts| parts.huge_percent.map(|part| format!("{part:.0}")),
    |parts| parts.geometric_mean_percent.map(|mean| format!("{mean:.0}")),
];

/// A title in two lines.
fn in_two_lines(title: &'static str) -> (&'static str, &'static str) {
    title.split_once(", ").or_else(|| title.split_once(" of ")).unwrap_or((title, ""))
}
