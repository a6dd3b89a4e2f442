//! The reproduction for a terminal, in at most 100 columns.

use std::fmt;

use framewright_sim::workload::Passes;
use framewright_sim::workload::aftermath::FreeBlocks;
use framewright_table::{Table, cells};

use super::judge;
use super::others::{Elsewhere, ElsewhereRow, MixRow, Parts};
use super::plan::OURS;
use super::published::{LruRow, ORDERS};
use super::result::{Figures, Ours, Reproduction, Row, total};
use crate::reproduce::check::Standing;
use crate::reproduce::head::Head;
use crate::reproduce::text::{WHY, band, checks, fitted_note, reasons, row_name, sides, varied_note, wrapped};
use crate::reproduce::variation::Varying;
use crate::sim::figures::{count, fitted, grouped, percent, share};

/// Columns of a kernel's name.
const NAME: usize = 24;
/// Groups of orders that buddyinfo is shown in: name and first order of each.
const GROUPS: [(&str, usize); 4] = [("0", 0), ("1-4", 1), ("5-8", 5), ("9-10", 9)];

impl fmt::Display for Reproduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        head(f, self)?;
        table(f, self)?;
        reasons(f, WHY, self.rows.iter().filter_map(|row| Some((&row.name, &row.simulated.as_ref()?.why))))?;
        memory(f, self)?;
        with_lru(f, self)?;
        mix(f, self)?;
        elsewhere(f, self)?;
        checks(f, &self.checks)
    }
}

fn head(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    let Reproduction { head: Head { experiment, model, seed, title, .. }, cpus, scale, .. } = all;
    writeln!(f, "{experiment}: page faults of {cpus} processes on {model}, seed {seed}")?;
    sides(f, title, &ours(all))?;
    let lists = format!(
        "per-CPU lists of {} and {} frames, where a kernel does not size them itself",
        scale.pcp_batch, scale.pcp_high
    );
    wrapped(f, &format!("  {lists}"), 2)
}

/// What is not as it was.
pub(crate) fn ours(all: &Reproduction) -> String {
    let scale = &all.scale;
    let mib = |frames: u64| grouped(frames as f64 / 256.0);
    format!(
        "1/{} of the memory ({} MiB a process, {} MiB free a node); {}, in a pass \
         every process maps and unmaps its memory once",
        scale.fraction,
        mib(u64::from(scale.process_pages)),
        mib(scale.node_frames),
        passes(all.passes.table)
    )
}

/// How long runs are, in words.
fn passes(Passes { warm_up, window }: Passes) -> String {
    format!("{window} passes measured, {warm_up} before")
}

fn table(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    writeln!(f, "\n{:NAME$}{:^24}{:^28}{:^24}", "", "faults per second", "change, %", "waiting for zone lock, %")?;
    let mut table = Table::new("<>");
    table.row(cells![
        "{:NAME$}" = "kernel",
        "{:>12}" = "theirs",
        "{:>12}" = "ours",
        "{:>8}" = "theirs",
        "{:>7} " = "ours",
        "{:>12}" = "band",
        "{:>8}" = "theirs",
        "{:>6} " = "ours",
        "{:>9}" = "band"
    ]);
    for row in &all.rows {
        let mut cells = cells!["{:NAME$}" = fitted(&row_name(&row.name, row.fitted), NAME)];
        let their_rate = theirs(row, |figures| Some(grouped(figures.performance)));
        let Some(ours) = &row.simulated else {
            table.text(format!("{}{their_rate:>12}  not built yet", cells.concat()));
            continue;
        };
        let change = |figures: &Figures| figures.change_percent.map(|change| format!("{change:+.1}"));
        let bands = ours.band;
        let our_change = change(&ours.figures).unwrap_or_else(|| "-".to_owned());
        let waits = percent(ours.figures.zone_lock_contention_percent);
        let marks = [judge::change(row), judge::contention(row)].map(Standing::mark);
        cells.extend(cells![
            "{their_rate:>12}",
            "{:>12}" = grouped(ours.figures.performance),
            "{:>8}" = theirs(row, change),
            "{our_change:>7}{}" = marks[0],
            "{:>12}" = band(bands.map(|bands| bands.change_percent)),
            "{:>8}" = theirs(row, |figures| Some(percent(figures.zone_lock_contention_percent))),
            "{waits:>6}{}" = marks[1],
            "{:>9}" = band(bands.map(|bands| bands.zone_lock_contention_percent))
        ]);
        table.row(cells);
    }
    write!(f, "{table}")?;
    list_add(f, all)?;
    notes(f, all)
}

/// Time inside of list operations, where that is of interest.
fn list_add(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    for row in &all.rows {
        let (Some(theirs), Some(ours)) = (&row.published, &row.simulated) else { continue };
        let (Some(theirs), Some(share)) = (theirs.figures.smp_list_add_percent, ours.figures.smp_list_add_percent)
        else {
            continue;
        };
        let band =
            ours.band.map_or(String::new(), |bands| format!(", band {}", band(Some(bands.smp_list_add_percent))));
        let mark = Standing::mark(judge::list_add(row)).trim_end();
        writeln!(f, "  {} in smp_list_add: theirs {}, ours {}{mark}{band}", row.name, percent(theirs), percent(share))?;
    }
    Ok(())
}

fn notes(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    fitted_note(f, &all.fitted)?;
    writeln!(
        f,
        "! off by more than {} points (change) or {} (waiting); ~ the band holds theirs",
        judge::CHANGE,
        judge::SHARE
    )?;
    let varied = all.varied.as_ref().zip(all.passes.varied);
    varied_note(f, varied.map(|(varied, Varying { screen, band })| (varied, [screen, band].map(passes))))
}

/// A figure of theirs, or a dash.
fn theirs(row: &Row, of: impl Fn(&Figures) -> Option<String>) -> String {
    row.published.as_ref().and_then(|theirs| of(&theirs.figures)).unwrap_or_else(|| "-".to_owned())
}

/// Percent of the free frames by group of orders.
pub(crate) fn groups(blocks: &[u64; ORDERS]) -> [f64; GROUPS.len()] {
    let frames = |orders: std::ops::Range<usize>| orders.map(|order| blocks[order] << order).sum::<u64>() as f64;
    std::array::from_fn(|group| {
        let end = GROUPS.get(group + 1).map_or(ORDERS, |(_, first)| *first);
        share(frames(GROUPS[group].1..end), frames(0..ORDERS))
    })
}

/// Percent of all free frames that are on per-CPU lists and in depots, and so in no block of buddyinfo.
pub(crate) fn kept(zones: &[FreeBlocks]) -> f64 {
    let cached: u64 = zones.iter().map(|zone| zone.cached).sum();
    let listed: u64 = total(zones).iter().enumerate().map(|(order, blocks)| blocks << order).sum();
    share(cached as f64, (cached + listed) as f64)
}

/// Names of the groups.
pub(crate) fn group_names() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|(name, _)| *name)
}

fn memory(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    writeln!(f, "\nFree memory left in both zones Normal, percent by order of its blocks")?;
    let mut table = Table::new("<<>");
    let row = |name: &str, whose: &str, groups: Vec<String>, rest: [&str; 4]| {
        let mut cells = cells!["{:NAME$}" = fitted(name, NAME), "{whose:7}"];
        cells.extend(groups.into_iter().map(|group| format!("{group:>7}")));
        cells.extend(rest.iter().zip([10, 15, 9, 7]).map(|(cell, width)| format!("{cell:>width$}")));
        cells
    };
    let names = group_names().map(str::to_owned).collect();
    table.row(row("kernel", "", names, ["on lists", "unusable at 5", "drained", "pairs"]));
    let shares = |blocks: &[u64; ORDERS]| groups(blocks).iter().map(|group| percent(*group)).collect::<Vec<_>>();
    for kernel in &all.rows {
        let mut name = kernel.name.as_str();
        if let Some((blocks, index)) =
            kernel.published.as_ref().and_then(|row| row.buddyinfo.zip(row.unusable_index_order5))
        {
            table.row(row(name, "theirs", shares(&blocks), ["", &format!("{index:.3}"), "", ""]));
            name = "";
        }
        if let Some(Ours { buddyinfo, unusable_index_order5, drained, .. }) = &kernel.simulated {
            let (pairs, kept) = (count(drained.mergeable_pairs), percent(kept(buddyinfo)) + " %");
            let [index, drained] =
                [*unusable_index_order5, drained.unusable_index_order5].map(|index| format!("{index:.3}"));
            table.row(row(name, "ours", shares(&total(buddyinfo)), [&kept, &index, &drained, &pairs]));
        }
    }
    write!(f, "{table}")?;
    let words = "on lists: free, but on per-CPU lists and in depots, and so not among the blocks; drained: unusable at 5 when these have \
                 been given back; pairs: of free buddies, which then could be one block and are not";
    wrapped(f, words, 2)
}

fn with_lru(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    if all.with_lru.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nWith pages on LRU lists{:>15}{:>22}{:>24}", "change, %", "zone lock, %", "LRU lock, %")?;
    let mut table = Table::new("<>");
    let heads = ["theirs", "ours", "theirs", "ours", "theirs", "ours"].map(str::to_owned);
    table.row(lru_cells("kernel".to_owned(), heads));
    for row in &all.with_lru {
        let LruRow { change_percent, zone_lock_contention_percent: zone, lru_lock_contention_percent: lru, .. } =
            row.published;
        let theirs = [format!("{change_percent:+.1}"), percent(zone), percent(lru)];
        table.row(lru_row(fitted(&row.name, NAME), theirs, row.simulated.as_ref()));
        if row.smp_list.is_some() {
            table.row(lru_row("  lists on smp_list".to_owned(), Default::default(), row.smp_list.as_ref()));
        }
    }
    write!(f, "{table}")
}

fn lru_cells(name: String, cells: [String; 6]) -> Vec<String> {
    let cells = cells.into_iter().zip([8, 8, 11, 11, 13, 11]).map(|(cell, width)| format!("{cell:>width$}"));
    cells!["{name:NAME$}"].into_iter().chain(cells).collect()
}

/// What was found with pages on LRU lists; nothing of theirs where there was nothing of the kind.
fn lru_row(name: String, theirs: [String; 3], ours: Option<&LruRow>) -> Vec<String> {
    let [change, zone, lru] = ours.map_or(["-"; 3].map(str::to_owned), |row| {
        let [zone, lru] = [row.zone_lock_contention_percent, row.lru_lock_contention_percent].map(percent);
        [format!("{:+.1}", row.change_percent), zone, lru]
    });
    let [their_change, their_zone, their_lru] = theirs;
    lru_cells(name, [their_change, change, their_zone, zone, their_lru, lru])
}

/// Small and huge pages at once.
fn mix(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    if all.mix.is_empty() {
        return Ok(());
    }
    writeln!(f, "\nHalf of the processes with small pages, half with huge ones, in fragmented memory")?;
    let against = format!("percent of {}", all.mix[0].name);
    writeln!(f, "{:NAME$}{:>26}{against:>39}", "", "million pages per second")?;
    write!(f, "{:NAME$}", "")?;
    ["small", "huge", "small", "huge", "mean"].iter().try_for_each(|part| write!(f, "{part:>13}"))?;
    writeln!(f, "{:>9}", "fell")?;
    let mut table = Table::new("<>");
    let row = |name: &str, parts: [[String; 2]; PARTS.len()], fell_back: &str| {
        let parts = parts.iter().flat_map(|[theirs, ours]| cells!["{theirs:>7}", "{ours:>6}"]);
        let cells = cells!["{:NAME$}" = fitted(name, NAME)].into_iter().chain(parts);
        cells.chain(cells!["{fell_back:>9}"]).collect::<Vec<_>>()
    };
    table.row(row("kernel", PARTS.map(|_| ["theirs", "ours"].map(str::to_owned)), "back, %"));
    for mix in &all.mix {
        let fell_back = mix.simulated.as_ref().map_or(String::new(), |ours| percent(ours.fallback_percent));
        table.row(row(&mix.name, parts(mix), &fell_back));
    }
    write!(f, "{table}")?;
    let words = "pages of 4 KiB; mean: geometric. Theirs had pages on LRU lists, and compacted memory meanwhile: no row was to be met. \
                 Where memory bandwidth is the limit, what one half gains the other loses";
    wrapped(f, words, 2)?;
    let reason = |row: &MixRow| Some((row.name.clone(), row.simulated.as_ref()?.why.clone()));
    all.mix.iter().filter_map(reason).try_for_each(|(name, why)| wrapped(f, &format!("  {name}: {why}"), 4))
}

/// What both halves did: theirs and ours, in words.
pub(crate) fn parts(row: &MixRow) -> [[String; 2]; PARTS.len()] {
    let both = [row.published, row.simulated.as_ref().map(|ours| ours.parts)];
    PARTS.map(|of| both.map(|parts| parts.and_then(|parts| of(&parts)).unwrap_or_else(|| "-".to_owned())))
}

/// Columns of what both halves did.
const PARTS: [fn(&Parts) -> Option<String>; 5] = [
    |parts| Some(format!("{:.2}", parts.small_performance / 1e6)),
    |parts| Some(format!("{:.2}", parts.huge_performance / 1e6)),
    |parts| parts.small_percent.map(|part| format!("{part:.0}")),
    |parts| parts.huge_percent.map(|part| format!("{part:.0}")),
    |parts| parts.geometric_mean_percent.map(|mean| format!("{mean:.0}")),
];

/// Other workloads: a column each; reasons of ours, and of the best of the others.
fn elsewhere(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    let Some(first) = all.other_workloads.first() else { return Ok(()) };
    writeln!(f, "\nOther workloads: operations per second, and percent of CPU time that waits for the zone lock")?;
    for line in [|(line, _): (_, _)| line, |(_, line)| line] {
        write!(f, "{:NAME$}", "")?;
        all.other_workloads.iter().try_for_each(|other| write!(f, "{:>25}", line(head_of(other.title))))?;
        writeln!(f)?;
    }
    let mut table = Table::new("<>");
    let heads = all.other_workloads.iter().flat_map(|_| cells!["{:>17}" = "per second", "{:>8}" = "waits"]);
    table.row(cells!["{:NAME$}" = "kernel"].into_iter().chain(heads).collect());
    for (number, ElsewhereRow { name, .. }) in first.rows.iter().enumerate() {
        let rows = all.other_workloads.iter().filter_map(|other| other.rows.get(number));
        let cells = rows.flat_map(|row| {
            let waits = percent(row.zone_lock_contention_percent);
            cells!["{:>17}" = grouped(row.performance), "{waits:>8}"]
        });
        table.row(cells!["{:NAME$}" = fitted(name, NAME)].into_iter().chain(cells).collect());
    }
    write!(f, "{table}")?;
    let reasons = |Elsewhere { title, rows, .. }: &Elsewhere| {
        let best = rows.iter().filter(|row| row.name != OURS).max_by(|a, b| a.performance.total_cmp(&b.performance));
        let both = rows.iter().find(|row| row.name == OURS).into_iter().chain(best);
        both.map(|row| format!("  {title}, {}: {}", row.name, row.why)).collect::<Vec<_>>()
    };
    all.other_workloads.iter().flat_map(reasons).try_for_each(|reason| wrapped(f, &reason, 4))
}

/// A title in two lines.
fn head_of(title: &'static str) -> (&'static str, &'static str) {
    title.split_once(", ").or_else(|| title.split_once(" of ")).unwrap_or((title, ""))
}
