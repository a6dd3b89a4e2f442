//! Other workloads: what a table of page faults does not show.
//!
//! - Pages on LRU lists. That was published of other kernels than those of the table.
//! - [`Other::Mix`]: half of the processes have huge pages, in fragmented memory. That was published for three kernels,
//!   each part by itself. Those kernels had their pages on LRU lists and compacted memory while the test ran, which
//!   ours do not, so theirs are shown beside ours and nothing is asked of how near they are.
//! - [`Other::Pipe`] and [`Other::FarPipe`]: what one CPU allocates, another frees.
//! - [`Other::ParallelFree`]: all CPUs free all that they have at the same time.
//!
//! Processes have the simulator's usual 16 MiB, and nodes as much memory as they need.

use std::iter::once;

use framewright_sim::report::Report;
use framewright_sim::workload::{LruLists, PageFaultMix};
use serde::Serialize;

use super::plan::{KernelPreset, Load, OURS, Other, STEADY, ZoneLockPlan};
use super::published::LruRow;
use super::table::{KERNEL, dash};
use crate::reproduce::check::Check;
use crate::reproduce::found::{Reproduction, object};
use crate::reproduce::plan::Runs;
use crate::reproduce::show::{Grid, cell, definitions, either, escaped, on_page};
use crate::reproduce::why::{self, LRU, ZONE, hold_p999, waiting};
use framewright_table::figures::{change_percent, duration, grouped, percent, plural, share};

/// Percent of the first kernel's pages that each half of the processes has to reach when one half has huge pages.
const PART: f64 = 98.0;

/// The kernels with pages on LRU lists, and ours with lists that many CPUs change at once, by the same `smp_list` as
/// free lists.
pub(super) fn with_lru(plan: &ZoneLockPlan<'_>, runs: &Runs, found: &mut Reproduction) {
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
    let report = |name: &str, lists| Some(&plan.outcome(runs, name, Load::FaultsOnLru(lists))?.report);
    let first = plan.published.lru.first().and_then(|row| report(&row.name, LruLists::Lock));
    let first = first.map_or(f64::NAN, |report| report.per_second);
    let mut json = Vec::new();
    for row in plan.published.lru.iter().filter(|row| plan.with_lru.contains(&row.name)) {
        let ours = |lists| {
            report(&row.name, lists).map(|report| LruRow {
                name: row.name.clone(),
                change_percent: change_percent(first, report.per_second),
                zone_lock_contention_percent: waiting(report, ZONE),
                lru_lock_contention_percent: waiting(report, LRU),
            })
        };
        let (simulated, smp_list) = (ours(LruLists::Lock), ours(LruLists::Smp));
        let both = [Some(row), simulated.as_ref()].map(|row| row.map(words));
        let cells = (0..3).flat_map(|figure| both.each_ref().map(|all| dash(all.as_ref().map(|all| &all[figure]))));
        table.row(once(cell(&row.name).cut(KERNEL)).chain(cells).collect());
        if let Some(smp) = smp_list.as_ref().map(words) {
            let cells = smp.into_iter().flat_map(|figure| [cell(""), cell(figure)]);
            table.part(once(either("  lists on smp_list", "smp")).chain(cells).collect());
        }
        json.push(object! {
            "name": row.name.clone(), "published": row.clone(), "simulated": simulated, "smp_list": smp_list,
        });
    }
    if !json.is_empty() {
        found.show.heading("With pages on LRU lists");
        found.show.grid(&table);
    }
    found.json.put("with_lru", json);
}

/// Throughput of both halves of the processes: pages of 4 KiB a second, and percent of the first kernel's; none if that
/// has not been run.
#[derive(Clone, Copy, Serialize)]
struct Parts {
    small_performance: f64,
    huge_performance: f64,
    small_percent: Option<f64>,
    huge_percent: Option<f64>,
    geometric_mean_percent: Option<f64>,
}

/// Results of our run of one kernel.
#[derive(Serialize)]
struct OurMix {
    #[serde(flatten)]
    parts: Parts,
    mechanisms: String,
    /// Huge faults that got small pages.
    fallback_percent: f64,
    zone_lock_contention_percent: f64,
    hold_p999_ns: f64,
    why: String,
}

impl Parts {
    fn of([small, huge]: [f64; 2], first: Option<[f64; 2]>) -> Self {
        let against = first.map(|first| [share(small, first[0]), share(huge, first[1])]);
        Self {
            small_performance: small,
            huge_performance: huge,
            small_percent: against.map(|against| against[0]),
            huge_percent: against.map(|against| against[1]),
            geometric_mean_percent: against.map(|[small, huge]| (small * huge).sqrt()),
        }
    }

    /// Columns of the table.
    fn words(&self) -> [Option<String>; 5] {
        let millions = |pages: f64| Some(format!("{:.2}", pages / 1e6));
        let percent = |part: Option<f64>| part.map(|part| format!("{part:.0}"));
        [
            millions(self.small_performance),
            millions(self.huge_performance),
            percent(self.small_percent),
            percent(self.huge_percent),
            percent(self.geometric_mean_percent),
        ]
    }

    fn pages(&self) -> f64 {
        self.small_performance + self.huge_performance
    }

    fn mean(&self) -> f64 {
        self.geometric_mean_percent.unwrap_or(0.0)
    }
}

/// Presets with their runs of a workload.
fn reports<'r>(
    plan: &'r ZoneLockPlan<'_>,
    runs: &'r Runs,
    other: Other,
) -> Vec<(&'r KernelPreset, Option<&'r Report>)> {
    let report = |kernel: &KernelPreset| Some(&plan.outcome(runs, &kernel.name, Load::Other(other))?.report);
    plan.presets.iter().map(|kernel| (kernel, report(kernel))).collect()
}

/// A figure of the workload's own.
fn figure(report: &Report, name: &str) -> f64 {
    report.figure(name).unwrap_or(f64::NAN)
}

fn halves(report: &Report) -> [f64; 2] {
    [PageFaultMix::SMALL, PageFaultMix::HUGE].map(|name| figure(report, name))
}

/// Reasons that a page shows if they are asked for.
fn folded(of: &str, reasons: String) -> String {
    format!("<details>\n<summary>Why, of each{of}</summary>\n{reasons}</details>\n")
}

/// The table of small and huge pages at once, against this kernel.
fn mix_table(first: &str) -> Grid {
    let against = format!("percent of {first}");
    let parts = ["small", "huge", "small", "huge", "mean"].map(|part| format!("{part:>13}")).concat();
    let above = format!(
        "Half of the processes with small pages, half with huge ones, in fragmented memory\n\
         {:KERNEL$}{:>26}{against:>39}\n{:KERNEL$}{parts}{:>9}",
        "", "million pages per second", "", "fell"
    );
    let heads = ["Small, M/s", "Huge, M/s", "Small, %", "Huge, %", "Geometric mean, %"];
    let caption = "Small and huge pages at once <span class=\"quiet\">millions of pages of 4 KiB per second, and percent of the first\
                   </span>";
    Grid::new(&format!("<24 kernel{}|>9 back, %", "|>7 theirs|>6 ours".repeat(heads.len()))).above(above).page(
        "Small and huge pages at once",
        caption,
        &format!(
            "Kernel{}|Fell back, %|Waiting for the zone lock, %",
            heads.map(|head| format!("|{head}:theirs;ours")).concat()
        ),
    )
}

/// Small and huge pages at once, under every preset; whether neither part pays for the other under ours.
pub(super) fn mix(plan: &ZoneLockPlan<'_>, runs: &Runs, found: &mut Reproduction) -> Vec<Check> {
    let (theirs, all) = (&plan.published.mix, reports(plan, runs, Other::Mix));
    let first = theirs.first().and_then(|first| all.iter().find(|(kernel, _)| kernel.name == first.name)?.1);
    let first = first.map(halves);
    let their_first = theirs.first().map(|first| [first.small, first.huge]);
    let mut table = mix_table(all.first().map_or("", |(kernel, _)| &kernel.name));
    let (mut json, mut parts, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    for (kernel, report) in &all {
        let name = &kernel.name;
        let theirs = theirs.iter().find(|row| row.name == *name);
        let theirs = theirs.map(|row| Parts::of([row.small, row.huge], their_first));
        let ours = report.map(|report| Parts::of(halves(report), first));
        let words = [theirs, ours].map(|parts| parts.map_or([const { None }; 5], |parts| parts.words()));
        let cells = (0..5).flat_map(|part| words.each_ref().map(|all| cell(all[part].as_deref().unwrap_or("-"))));
        let share = |share: &dyn Fn(&Report) -> f64| report.map_or(String::new(), |report| percent(share(report)));
        let fell_back = cell(share(&|report| figure(report, PageFaultMix::FALLBACKS)));
        let waits = on_page(share(&|report| waiting(report, ZONE)));
        table.row(once(cell(name).cut(KERNEL)).chain(cells).chain([fell_back, waits]).collect());
        let of_ours = report.zip(ours).map(|(report, ours)| {
            let fallbacks = figure(report, PageFaultMix::FALLBACKS);
            let (share, attempt) = (percent(fallbacks), duration(figure(report, PageFaultMix::ATTEMPT)));
            let why = found.show.run(&format!("{name}, {}", Other::Mix.title()), report);
            let why = format!(
                "{why}; {share} % of the huge faults got small pages, and to ask for a huge one took {attempt}"
            );
            reasons.push((name, why.clone()));
            parts.push((name.as_str(), ours));
            OurMix {
                parts: ours,
                mechanisms: kernel.switches(),
                fallback_percent: fallbacks,
                zone_lock_contention_percent: waiting(report, ZONE),
                hold_p999_ns: hold_p999(report),
                why,
            }
        });
        json.push(object! { "name": name.clone(), "published": theirs, "simulated": of_ours });
    }
    if !all.is_empty() {
        let show = &mut found.show;
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
        reasons.iter().for_each(|(name, why)| show.note(&format!("  {name}: {why}"), 4));
        show.html(folded("", definitions(reasons)));
    }
    found.json.put("mix", json);
    both_parts(&parts, plan.lengths.mix.window >= STEADY)
}

/// Small and huge pages: neither part may pay for the other. `parts` are of each preset that was run.
fn both_parts(parts: &[(&str, Parts)], is_steady: bool) -> Vec<Check> {
    let names = [
        format!("{OURS}, small and huge pages: each part {PART} % of patch1's or more"),
        format!("{OURS}, small and huge pages: no preset has a higher geometric mean"),
    ];
    let (ours, rest): (Vec<&(&str, Parts)>, Vec<_>) = parts.iter().partition(|(name, _)| *name == OURS);
    let best = rest.iter().max_by(|a, b| a.1.mean().total_cmp(&b.1.mean()));
    let (Some((_, ours)), Some((name, best)), Some((_, first))) = (ours.first(), best, rest.first()) else {
        return names.iter().map(|name| Check::unseen(name, "not run")).collect();
    };
    let [small, huge] = [ours.small_percent, ours.huge_percent].map(|part| part.unwrap_or(0.0));
    let together = share(ours.pages(), first.pages());
    let check = |name: &str, holds, detail: String| match is_steady {
        true => Check::seen(name, holds, detail),
        false => Check::unseen(name, format!("{detail} (too short a run to say, it takes {STEADY} passes)")),
    };
    vec![
        check(
            &names[0],
            small.min(huge) >= PART,
            format!("small {small:.1} %, huge {huge:.1} %; both together {together:.1} %"),
        ),
        check(
            &names[1],
            ours.mean() >= best.mean(),
            format!("{:.2} % of patch1's, against {:.2} % of {name}", ours.mean(), best.mean()),
        ),
    ]
}

/// The table of the other workloads: a column each.
fn elsewhere_table(all: &[(Other, String)]) -> Grid {
    let lines = |of: fn((&'static str, &'static str)) -> &'static str| {
        all.iter().map(|(other, _)| format!("{:>25}", of(in_two_lines(other.title())))).collect::<String>()
    };
    let above = format!(
        "Other workloads: operations per second, and percent of CPU time that waits for the zone lock\n\
         {:KERNEL$}{}\n{:KERNEL$}{}",
        "",
        lines(|(line, _)| line),
        "",
        lines(|(_, line)| line)
    );
    let head = |(other, unit): &(Other, String)| {
        format!("|{}:{};of ours, %;waits, %", escaped(other.title()), escaped(plural(unit)))
    };
    let caption = "Other workloads <span class=\"quiet\">operations per second, percent of our default's, and percent of CPU time that \
                   waits for the zone lock</span>";
    Grid::new(&format!("<24 kernel{}", "|>17 per second|>8 waits".repeat(all.len()))).above(above).page(
        "Other workloads",
        caption,
        &format!("Preset{}", all.iter().map(head).collect::<String>()),
    )
}

/// A title in two lines.
fn in_two_lines(title: &'static str) -> (&'static str, &'static str) {
    title.split_once(", ").or_else(|| title.split_once(" of ")).unwrap_or((title, ""))
}

/// Whether ours does as much as the best of the other presets.
fn most(title: &str, both: Option<(&Report, &Report, &str)>) -> Check {
    let name = format!("{OURS}, {title}: no preset does more");
    let Some((ours, best, of)) = both else { return Check::unseen(&name, "not run") };
    let [does, most] = [ours, best].map(|report| grouped(report.per_second));
    Check::seen(&name, ours.per_second >= best.per_second, format!("{does} against {most} of {of}"))
}

/// The other workloads, under every preset; whether no preset does more than ours.
pub(super) fn elsewhere(plan: &ZoneLockPlan<'_>, runs: &Runs, found: &mut Reproduction) -> Vec<Check> {
    let workload = |other: Other| other.workload(&plan.lengths);
    let all = Other::ALL[1..].iter().filter(|_| !plan.presets.is_empty());
    let all: Vec<(Other, String)> = all.map(|&other| (other, workload(other).unit().to_owned())).collect();
    let (mut json, mut checks, mut columns, mut folds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut notes = Vec::new();
    for (other, unit) in &all {
        let (title, workload) = (other.title(), workload(*other).to_string());
        let rows = reports(plan, runs, *other).into_iter().filter_map(|(kernel, report)| Some((kernel, report?)));
        let rows: Vec<(&KernelPreset, &Report, String)> =
            rows.map(|(kernel, report)| (kernel, report, why::sentence(report))).collect();
        let ours = rows.iter().find(|(kernel, ..)| kernel.name == OURS);
        let of_ours = |report: &Report| ours.map(|(_, ours, _)| share(report.per_second, ours.per_second));
        let others = rows.iter().filter(|(kernel, ..)| kernel.name != OURS);
        let best = others.max_by(|a, b| a.1.per_second.total_cmp(&b.1.per_second));
        let told = ours.into_iter().chain(best).map(|(kernel, _, why)| format!("  {title}, {}: {why}", kernel.name));
        notes.extend(told);
        let both = ours.zip(best).map(|((_, ours, _), (kernel, best, _))| (*ours, *best, kernel.name.as_str()));
        checks.push(most(title, both));
        let of = format!(" <span class=\"quiet\">{}, <code>{}</code></span>", escaped(title), escaped(&workload));
        folds.push(folded(&of, definitions(rows.iter().map(|(kernel, _, why)| (&kernel.name, why)))));
        columns.push(
            rows.iter()
                .map(|(kernel, report, _)| {
                    let waits = cell(percent(waiting(report, ZONE)));
                    (
                        kernel.name.clone(),
                        [cell(grouped(report.per_second)), dash(of_ours(report).map(percent)).page_alone(), waits],
                    )
                })
                .collect::<Vec<_>>(),
        );
        let rows = rows.iter().map(|(kernel, report, why)| {
            object! {
                "name": kernel.name.clone(), "mechanisms": kernel.switches(), "performance": report.per_second,
                "percent_of_default": of_ours(report), "zone_lock_contention_percent": waiting(report, ZONE),
                "hold_p999_ns": hold_p999(report), "why": why.clone(),
            }
        });
        let rows: Vec<_> = rows.collect();
        json.push(object! { "title": title, "workload": workload, "unit": unit.clone(), "rows": rows });
    }
    let mut table = elsewhere_table(&all);
    for (number, (name, _)) in columns.first().into_iter().flatten().enumerate() {
        let cells = columns.iter().filter_map(|column| Some(column.get(number)?.1.clone())).flatten();
        table.row(once(cell(name).cut(KERNEL)).chain(cells).collect());
    }
    if !all.is_empty() {
        found.show.heading("Other workloads");
        found.show.grid(&table);
        notes.iter().for_each(|told| found.show.note(told, 4));
        folds.into_iter().for_each(|fold| found.show.html(fold));
    }
    found.json.put("other_workloads", json);
    checks
}
