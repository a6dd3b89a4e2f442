//! Prints answers for a person, in about 100 columns.
//!
//! Times are the trace's own, in seconds, so that an event can be found in it. Frames are in hexadecimal, as the
//! tracepoints print them. Flags in tables lose their `__GFP_`.

use std::fmt::{self, Formatter};

use framewright::units::MigrateType;
use framewright_table::figures::thousands;
use framewright_table::{Table, cells};

use super::explanation::{Explanation, Holding, IncidentKind, Listing, Near, Obstacles, Row, Taken, Tried};
use super::requester::Requester;
use super::zonelist::{Verdict, ZoneThen};
use crate::counted::counted;
use crate::mechanisms::label;

/// Prints a [`Listing`]: the worst of each kind.
pub struct Overview<'l> {
    /// The list to print.
    pub listing: &'l Listing,
    /// The only kind to print; none for both.
    pub only: Option<IncidentKind>,
    /// The most lines.
    pub limit: usize,
}

/// Prints an [`Explanation`].
pub struct Answer<'e>(pub &'e Explanation);

/// The most requesters that are named: in all, and for one pageblock.
const NAMED: usize = 5;
const NAMED_HERE: usize = 3;

impl fmt::Display for Overview<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Listing { trace, mechanisms, happenings, .. } = self.listing;
        writeln!(f, "{trace} under {}", short(mechanisms))?;
        let kinds = [IncidentKind::Fallback, IncidentKind::Failure]
            .map(|kind| self.only.is_none_or(|only| only == kind).then_some(kind));
        let rows = kinds.map(|kind| happenings.iter().filter(|row| Some(row.kind) == kind).collect::<Vec<_>>());
        for (at, kind) in kinds.into_iter().enumerate().filter_map(|(at, kind)| Some((at, kind?))) {
            // Half of the lines for each kind; one kind's unused lines go to the other.
            let others = rows[1 - at].len().min(self.limit / 2);
            section(f, kind, &rows[at], self.limit - others)?;
        }
        if rows.iter().all(Vec::is_empty) {
            let kernel = "linux-6.1";
            let where_else = if short(mechanisms) == kernel {
                "A machine with memory to spare has nothing to explain; with less of it, there may be some."
            } else {
                "Under other mechanisms there may be some: -m linux-6.1 has that kernel's."
            };
            writeln!(f, "\n{where_else}")
        } else {
            writeln!(f, "\n--why NUMBER explains one of them.")
        }
    }
}

fn section(f: &mut Formatter<'_>, kind: IncidentKind, rows: &[&Row], limit: usize) -> fmt::Result {
    let count = rows.len() as u64;
    match kind {
        IncidentKind::Fallback if rows.is_empty() => return writeln!(f, "\nNo request fell back to another mobility."),
        IncidentKind::Failure if rows.is_empty() => return writeln!(f, "\nNo request failed."),
        IncidentKind::Fallback => {
            let count = counted(count, "fallback");
            writeln!(f, "\n{count}, by how many huge pages failed while their pages were there")?;
        }
        IncidentKind::Failure => {
            writeln!(f, "\n{}, by how much memory was to spare", counted(count, "failed request"))?
        }
    }
    let mut table = heads(kind);
    rows.iter().take(limit).for_each(|row| table.row(line(row)));
    write!(f, "{table}")?;
    match rows.len().saturating_sub(limit) {
        0 => Ok(()),
        more => writeln!(f, "    and {} more", thousands(more as u64)),
    }
}

/// The table of one kind, with its heading.
fn heads(kind: IncidentKind) -> Table {
    let mut table = Table::new(if kind == IncidentKind::Fallback { ">><<<>>" } else { ">><<>><" });
    let mut heads = cells!["{:>7}" = "number", "{:>12}" = "time", "  {:<23}" = "task", "{:<16}" = "asked for"];
    heads.extend(match kind {
        IncidentKind::Fallback => cells!["{:<15}" = "from the lists", "{:>11}" = "there for", "{:>9}" = "failed"],
        IncidentKind::Failure => cells!["{:>9}" = "to spare", "{:>10}" = "largest", "  why"],
    });
    table.row(heads);
    table
}

fn line(row: &Row) -> Vec<String> {
    let task = format!("{}-{}", row.by.task, row.by.pid);
    let asked = format!("{} {}", row.migratetype, row.order);
    let mut cells = cells!["{:>7}" = row.number, "{:>12}" = seconds(row.by.time_ns), "  {task:<23}", "{asked:<16}"];
    if let Some(fallback) = &row.fallback {
        let from = format!("{} {}", fallback.from, fallback.found_order);
        let (held, failed) = (duration(fallback.held_ns), thousands(fallback.failed_meanwhile));
        cells.extend(cells!["{from:<15}", "{held:>11}", "{failed:>9}"]);
    }
    if let Some(failure) = &row.failure {
        let largest = failure.largest.map_or_else(|| "none".to_owned(), |order| format!("order {order}"));
        cells.extend(cells!["{:>9}" = thousands(failure.free), "{largest:>10}", "  {}" = failure.why]);
    }
    cells
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let answer = self.0;
        heading(f, answer)?;
        zones(f, answer)?;
        tried(f, answer)?;
        if let Some(pageblocks) = &answer.pageblocks {
            taken(f, &answer.row, pageblocks)?;
            became(f, &answer.row, pageblocks)?;
        }
        match &answer.obstacles {
            Some(obstacles) => in_the_way(f, &answer.row, obstacles),
            None => Ok(()),
        }
    }
}

fn heading(f: &mut Formatter<'_>, answer: &Explanation) -> fmt::Result {
    let row = &answer.row;
    let what = match (&row.fallback, row.kind) {
        (Some(fallback), _) if fallback.claimed => format!("took over {} memory", fallback.from),
        (Some(fallback), _) => format!("took a block of {} memory", fallback.from),
        (None, _) => "got nothing".to_owned(),
    };
    let (mobility, order, by) = (row.migratetype, row.order, &row.by);
    writeln!(f, "Number {} of {}: a request for {mobility} memory of order {order} {what}", row.number, answer.of)?;
    writeln!(f, "  trace  {}, event {}, time {}", answer.trace, thousands(by.event), seconds(by.time_ns))?;
    writeln!(f, "  under  {}", short(&answer.mechanisms))?;
    writeln!(f, "  task   {}-{} on CPU {}", by.task, by.pid, by.cpu)?;
    writeln!(f, "  flags  {}", row.gfp)?;
    let linux = match (by.linux_served, row.kind) {
        (true, _) => "served it",
        (false, IncidentKind::Fallback) => "failed it",
        (false, IncidentKind::Failure) => "failed it too",
    };
    writeln!(f, "  Linux  {linux}")?;
    writeln!(f, "  why    {}", in_short(answer))
}

/// The answer in one sentence.
fn in_short(answer: &Explanation) -> String {
    let Explanation { row, tried, .. } = answer;
    let Some(failure) = &row.failure else {
        let (mobility, order) = (row.migratetype, row.order);
        return match tried.refill {
            true => format!("the refill of a CPU's list used up the {mobility} lists from order {order} up"),
            false => format!("the {mobility} lists had no block of order {order} or more"),
        };
    };
    if failure.why != "fragmented" {
        return lack(failure.why).to_owned();
    }
    let compaction = match tried {
        Tried { compacted: false, .. } => "was not tried",
        Tried { scanned: 0, moved, .. } if moved.is_empty() => "was put off",
        Tried { moved, .. } if moved.iter().any(|pageblock| pageblock.emptied) => "emptied too little",
        _ => "emptied no pageblock",
    };
    let free = thousands(failure.free);
    format!("{free} frames above the marks, but no block of order {}; compaction {compaction}", row.order)
}

fn zones(f: &mut Formatter<'_>, answer: &Explanation) -> fmt::Result {
    writeln!(f, "\nJust before: the zones in the order in which they are asked, in frames")?;
    let mut table = Table::new("<>>><");
    table.row(cells!["  {:<14}" = "", "{:>10}" = "free", "{:>10}" = "above low", "{:>10}" = "above min"]);
    for zone in &answer.zones {
        let name = format!("{} {}", zone.node, zone.zone);
        let (free, low, min) =
            (thousands(zone.free), margin(zone.free, zone.keeps_low), margin(zone.free, zone.keeps_min));
        let verdict = verdict(zone, answer.row.order);
        table.row(cells!["  {name:<14}", "{free:>10}", "{low:>11}", "{min:>11}", "  {verdict}"]);
    }
    write!(f, "{table}")?;
    let orders = answer.zones.iter().flat_map(|zone| zone.blocks.values()).map(Vec::len).max().unwrap_or(0);
    let mut table = Table::new("<>");
    let numbered = (0..orders).map(|order| format!("{order:>6}"));
    table.row(cells!["  {:<26}" = "free blocks, by order"].into_iter().chain(numbered).collect());
    for zone in &answer.zones {
        for migratetype in MigrateType::ALL {
            let Some(blocks) = zone.blocks.get(migratetype.name()) else { continue };
            let name = format!("{} {}", zone.node, zone.zone);
            let counts = blocks.iter().map(|count| format!("{count:>6}"));
            table.row(cells!["  {name:<14} {:<11}" = migratetype.name()].into_iter().chain(counts).collect());
        }
    }
    write!(f, "\n{table}")
}

/// The free frames above those that have to stay free; negative below.
fn margin(free: u64, keeps: u64) -> String {
    if free >= keeps { thousands(free - keeps) } else { format!("-{}", thousands(keeps - free)) }
}

fn verdict(zone: &ZoneThen, order: u8) -> String {
    match zone.verdict {
        Verdict::BelowMin => "too little is free".to_owned(),
        Verdict::TooSmall => format!("no block of order {order} or more"),
        Verdict::OtherMobility => "only other mobilities' lists have a block".to_owned(),
        Verdict::BelowLow => "has a block, below the low mark".to_owned(),
        Verdict::HasBlock => "has a block".to_owned(),
    }
}

fn tried(f: &mut Formatter<'_>, answer: &Explanation) -> fmt::Result {
    let Explanation { tried, row, .. } = answer;
    let mut steps = vec!["the free lists of each zone, down to the low mark".to_owned()];
    if tried.stalled {
        steps.push("waited for background reclaim rather than mix mobilities".to_owned());
    }
    if tried.woke_reclaim {
        steps.push("background reclaim was woken; the free lists down to the min mark".to_owned());
    } else if row.kind == IncidentKind::Failure {
        steps.push("the free lists down to the min mark".to_owned());
    }
    if let Some(step) = compaction(tried, &answer.mechanisms, row.kind) {
        steps.push(step);
    }
    if tried.drained != 0 {
        steps.push(format!("{} came back from the CPUs' lists", counted(tried.drained, "frame")));
    }
    if tried.reclaimed {
        steps.push("freeing memory itself: in a replay nobody has any to give".to_owned());
    }
    if tried.refill {
        steps.push("to refill the CPU's list: all there was on the lists of its mobility, then another's".to_owned());
    }
    writeln!(f, "\nTried, in this order")?;
    steps.iter().zip(1..).try_for_each(|(step, i)| writeln!(f, "  {i}. {step}"))?;
    match &row.failure {
        Some(failure) => writeln!(f, "  => failed: {}", lack(failure.why)),
        None => writeln!(f, "  => served"),
    }
}

fn compaction(tried: &Tried, mechanisms: &str, kind: IncidentKind) -> Option<String> {
    let off = mechanisms.split(',').any(|switch| switch == "compaction=off");
    if !tried.compacted {
        return (off && kind == IncidentKind::Failure).then(|| "no compaction: it is switched off".to_owned());
    }
    if tried.scanned == 0 && tried.moved.is_empty() {
        return Some("compaction was put off: it was in vain lately, or a zone had no room for it".to_owned());
    }
    let moved: u64 = tried.moved.iter().map(|pageblock| pageblock.frames).sum();
    let emptied: Vec<String> =
        tried.moved.iter().filter(|pageblock| pageblock.emptied).map(|pageblock| hex(pageblock.pfn)).collect();
    let mut text = format!("compaction looked at {}, moved {}", counted(tried.scanned, "frame"), thousands(moved));
    if !tried.moved.is_empty() {
        text += &format!(" out of {}", counted(tried.moved.len() as u64, "pageblock"));
    }
    if tried.stayed != 0 {
        text += &format!("; {} could not be moved", thousands(tried.stayed));
    }
    text += &match emptied.len() {
        0 => "; no pageblock was emptied".to_owned(),
        _ => format!("; emptied {}", few(&emptied)),
    };
    Some(text)
}

fn lack(why: &str) -> &str {
    match why {
        "watermark" => "every zone is at its watermark",
        "fragmented" => "enough is free, but no block is large enough",
        "would-wait" => "it must not wait, and what it may use is exhausted",
        "no-zone" => "no zone with memory satisfies its flags",
        other => other,
    }
}

fn taken(f: &mut Formatter<'_>, row: &Row, taken: &Taken) -> fmt::Result {
    let Some(fallback) = &row.fallback else { return Ok(()) };
    let (pfns, one) = (taken.pfns.iter().map(|&pfn| hex(pfn)).collect::<Vec<_>>(), taken.pfns.len() == 1);
    writeln!(
        f,
        "\nTaken: the free block {} of order {}, from the {} lists",
        hex(fallback.pfn),
        fallback.found_order,
        fallback.from
    )?;
    let of = if one { "pageblock" } else { "pageblocks" };
    let claimed = match (fallback.claimed, one) {
        (true, true) => format!("is {} from now on", row.migratetype),
        (true, false) => format!("are {} from now on", row.migratetype),
        (false, true) => format!("stays {}, with {} pages in it", fallback.from, row.migratetype),
        (false, false) => format!("stay {}, with {} pages in them", fallback.from, row.migratetype),
    };
    writeln!(f, "  {of} {} {claimed}", few(&pfns))?;
    let used: u64 = taken.held.iter().map(|holding| holding.frames).sum();
    writeln!(f, "  in use there just before: {} of {} frames", thousands(used), thousands(taken.memory))?;
    holders(f, &taken.held, NAMED, row.by.time_ns)?;
    match taken.earlier.len() {
        0 => writeln!(f, "  no fallback took from there before"),
        _ => writeln!(f, "  fallbacks there before: number {}", few(&numbers(&taken.earlier))),
    }
}

fn became(f: &mut Formatter<'_>, row: &Row, taken: &Taken) -> fmt::Result {
    let Some(fallback) = &row.fallback else { return Ok(()) };
    let first = taken.pfns.first().map_or_else(String::new, |&pfn| hex(pfn));
    writeln!(f, "\nWhat became of pageblock {first}")?;
    let (mobility, held) = (row.migratetype, duration(fallback.held_ns));
    let most = counted(taken.most, "frame");
    write!(f, "  {mobility} pages were there for {held} in all, at most {most} at once")?;
    match fallback.left {
        0 => writeln!(f, "; none at the end")?,
        left => writeln!(f, "; {} at the end", thousands(left))?,
    }
    match taken.free_again_ns {
        Some(time) => {
            let after = duration(time.saturating_sub(row.by.time_ns));
            writeln!(f, "  free as a whole after {after}, at {}", seconds(time))?;
        }
        None => writeln!(f, "  never free as a whole since")?,
    }
    match taken.failures.len() {
        0 => writeln!(f, "  no request for a huge page failed while they were there"),
        count => {
            writeln!(f, "  {} for a huge page failed while they were there:", counted(count as u64, "request"))?;
            writeln!(f, "    number {}", few(&numbers(&taken.failures)))?;
            match taken.alone {
                0 => Ok(()),
                alone => writeln!(f, "    in {} of these cases nothing else was in use there", thousands(alone)),
            }
        }
    }
}

fn in_the_way(f: &mut Formatter<'_>, row: &Row, obstacles: &Obstacles) -> fmt::Result {
    writeln!(f, "\nIn the way: what is in use in the pageblocks of these zones, by the pageblock's mobility")?;
    let types: Vec<&str> = MigrateType::ALL
        .iter()
        .map(|migratetype| migratetype.name())
        .filter(|name| obstacles.classes.iter().any(|class| class.pageblocks.contains_key(name)))
        .collect();
    let mut table = Table::new("<>");
    let heads = types.iter().map(|name| format!("{name:>13}"));
    table.row(cells!["  {:<44}" = ""].into_iter().chain(heads).collect());
    for class in &obstacles.classes {
        let count = |name: &&str| class.pageblocks.get(name).copied().unwrap_or(0);
        let counts = types.iter().map(|name| format!("{:>13}", thousands(count(name))));
        table.row(cells!["  {:<44}" = class.class].into_iter().chain(counts).collect());
    }
    write!(f, "{table}")?;
    if !obstacles.nearest.is_empty() {
        writeln!(f, "\nPageblocks that the fewest pages hold which cannot be moved")?;
        obstacles.nearest.iter().try_for_each(|near| nearest(f, near, row.by.time_ns))?;
        writeln!(f, "\nWhose pages cannot be moved, in all of them")?;
        let mut table = Table::new(">><");
        table.row(cells!["  {:>10}" = "pageblocks", "{:>8}" = "pages"]);
        for group in obstacles.holders.iter().take(NAMED) {
            let who = match (&group.task, &group.gfp) {
                (Some(task), Some(gfp)) => format!("{task:<16} {}", plain(gfp)),
                _ => "in use when recording began".to_owned(),
            };
            table.row(cells!["  {:>10}" = thousands(group.pageblocks), "{:>8}" = thousands(group.frames), "  {who}"]);
        }
        write!(f, "{table}")?;
        others(f, obstacles.holders.len(), NAMED)?;
    }
    match &obstacles.next_served {
        None => writeln!(f, "\nAfterwards no request for a huge page was served any more."),
        Some(by) => {
            let after = duration(by.time_ns.saturating_sub(row.by.time_ns));
            writeln!(f, "\nA request for a huge page was served next after {after}, at {}.", seconds(by.time_ns))
        }
    }
}

fn nearest(f: &mut Formatter<'_>, near: &Near, now: u64) -> fmt::Result {
    let stays = if near.pinned == 1 { "1 page stays".to_owned() } else { format!("{} pages stay", near.pinned) };
    write!(f, "  {} {}: {stays}, {} could be moved", hex(near.pfn), near.migratetype, thousands(near.movable))?;
    match near.fallbacks.len() {
        0 => writeln!(f, "; no fallback on it"),
        _ => writeln!(f, "; fallbacks on it: number {}", few(&numbers(&near.fallbacks))),
    }?;
    holders(f, &near.held, NAMED_HERE, now)
}

fn holders(f: &mut Formatter<'_>, held: &[Holding], most: usize, now: u64) -> fmt::Result {
    let mut table = Table::new("><<<");
    for holding in held.iter().take(most) {
        let Holding { pfn, frames, migratetype, by } = holding;
        let by = match by {
            None => "in use when recording began".to_owned(),
            Some(Requester { task, pid, gfp, time_ns, .. }) => {
                let ago = duration(now.saturating_sub(*time_ns));
                format!("{ago:>8} before, {task}-{pid} {}", plain(gfp))
            }
        };
        table.row(cells!["    {:>5}" = thousands(*frames), "  {migratetype:<12}", "{:<10}" = hex(*pfn), "{by}"]);
    }
    write!(f, "{table}")?;
    others(f, held.len(), most)
}

fn others(f: &mut Formatter<'_>, count: usize, named: usize) -> fmt::Result {
    match count.saturating_sub(named) {
        0 => Ok(()),
        more => writeln!(f, "    and {}", counted(more as u64, "other")),
    }
}

/// The first few of many words, and the number of the others.
fn few(words: &[String]) -> String {
    const MOST: usize = 8;
    let named = words.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    match words.len().saturating_sub(MOST) {
        0 => named,
        more => format!("{named} and {} more", thousands(more as u64)),
    }
}

/// Numbers in order, runs of them as `3-7`.
fn numbers(numbers: &[u64]) -> Vec<String> {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let text = |run: &[u64]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u64::to_string).collect(),
    };
    runs.map(text).collect()
}

/// Flags without their common prefix.
fn plain(gfp: &str) -> String {
    gfp.replace("__GFP_", "")
}

fn hex(pfn: u64) -> String {
    format!("{pfn:#x}")
}

/// Mechanisms as a user would write them.
fn short(mechanisms: &str) -> String {
    framewright::Mechanisms::parse(mechanisms).map_or_else(|_| mechanisms.to_owned(), |parsed| label(&parsed))
}

/// A time of the trace, as ftrace prints it.
fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1_000)
}

/// A duration in a suitable unit.
fn duration(ns: u64) -> String {
    match ns {
        0 => "0 s".to_owned(),
        1..1_000_000 => format!("{} us", ns.div_ceil(1_000)),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}
