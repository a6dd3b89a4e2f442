//! The answer as text: at most 25 lines of at most 120 columns.

use std::fmt;

use framewright_table::figures::{fitted, thousands};
use framewright_table::{Table, cells, wrapped};

use crate::answer::{Answer, spare};
use crate::decision::{Bounds, Excluded, ZoneAnswer, ZoneCase};
use crate::remedies::Helps;
use crate::report::{Context, Kind};

/// Width of a line.
const WIDTH: usize = 118;
/// Most zones shown.
const ZONES: usize = 6;
/// Most changes shown; the JSON form has all.
const REMEDIES: usize = 6;
/// Most remarks on what the report lacks.
const MISSING: usize = 3;
/// Width of the first column.
const LABEL: usize = 13;

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", fitted(&self.head(), WIDTH))?;
        if let Some(asked) = &self.asked {
            let frames = 1_u64 << asked.order.min(63);
            let plural = if frames == 1 { "" } else { "s" };
            let size = self.page_size.map_or(String::new(), |bytes| format!(", {}", bytes_of(frames, bytes)));
            let text = format!(
                "order {} ({} frame{plural}{size}) by {}: {}",
                asked.order,
                thousands(frames),
                fitted(&asked.flags, 90),
                asked.words.join("; ")
            );
            labelled(f, "asked for", &text, 2)?;
        }
        self.zones(f)?;
        if let Some((all, local)) = self.cached {
            let local = local
                .map_or(String::new(), |frames| format!(", of which {} on the reporting CPU's", thousands(frames)));
            labelled(f, "per-CPU lists", &format!("{} free frames{local}, not counted above", thousands(all)), 1)?;
        }
        labelled(f, "verdict", &self.verdict.sentence, 2)?;
        if !self.largest.is_empty() {
            let up_to = |order: Option<u8>| order.map_or("nothing".to_owned(), |order| format!("up to order {order}"));
            let served = self.largest.iter().map(|one| match (up_to(one.order), up_to(one.at_best)) {
                (surely, best) if surely == best => format!("{} {surely}", one.flags),
                (surely, best) => format!("{} {best} at best, surely {surely}", one.flags),
            });
            labelled(f, "would serve", &served.collect::<Vec<_>>().join(", "), 2)?;
        }
        self.changes(f)?;
        self.tries(f)?;
        for (i, text) in self.missing.iter().take(MISSING).enumerate() {
            labelled(f, if i == 0 { "not known" } else { "" }, text, 1)?;
        }
        Ok(())
    }
}

impl Answer {
    fn head(&self) -> String {
        let what = match self.kind {
            Kind::Failure => "page allocation failure",
            Kind::Stall => "page allocation stall",
            Kind::Vmalloc => "failure of vmalloc",
            Kind::Oom => "OOM kill",
            Kind::OomByHand => "OOM kill by hand",
            Kind::State => "state of memory",
        };
        let task = self.task.as_ref().map_or(String::new(), |task| format!(" of {task}"));
        let context = if self.context == Context::Interrupt { ", in an interrupt" } else { "" };
        let kernel = self.release.as_ref().map_or("kernel not named".to_owned(), |release| format!("Linux {release}"));
        let page = self.page_size.map_or(String::new(), |bytes| format!(", pages of {} KiB", bytes / 1024));
        format!("line {}: {what}{task}{context} ({kernel}{page})", self.line)
    }

    /// The zones of the most likely case: those that are asked first, the nearest to serving first.
    fn zones(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(case) = self.decision.as_ref().and_then(|decision| decision.cases.first()) else {
            return self.state(f);
        };
        let mut rows: Vec<&ZoneCase> = case.zones.iter().collect();
        if rows.len() > ZONES {
            rows.sort_by_key(|zone| {
                (zone.excluded.is_some(), !zone.account.best.serves(), std::cmp::Reverse(spare(zone)))
            });
        }
        let mut table = Table::new("<13>9>9>9>9>9<2");
        table.row(cells!["zone, frames", "free", "excluded", "keep", "reserve", "spare", ""]);
        for zone in rows.iter().take(ZONES) {
            let account = &zone.account;
            let excluded = Bounds {
                least: account.of_the_block + account.highatomic.least + account.cma.least,
                most: account.of_the_block + account.highatomic.most + account.cma.most,
            };
            let name = format!("  {} {}", zone.node, zone.name);
            let answer = zone.in_words();
            if zone.excluded.is_some() {
                table.row(cells!["{name}", "{}" = thousands(account.free), "", "", "", "", "{answer}"]);
            } else {
                table.row(cells![
                    "{name}",
                    "{}" = thousands(account.free),
                    "{}" = between(excluded),
                    "{}" = thousands(account.keep),
                    "{}" = between(account.reserve),
                    "{}" = thousands(spare(zone)),
                    "{answer}"
                ]);
            }
        }
        put(f, &table)?;
        match rows.len().saturating_sub(ZONES) {
            0 => Ok(()),
            rest => writeln!(f, "  … and {rest} more, further from serving or not asked"),
        }
    }

    /// The zones of a state without a request.
    fn state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.zones.is_empty() {
            return Ok(());
        }
        let mut table = Table::new("<13>9>9>9>9<2");
        table.row(cells!["zone, frames", "free", "min", "low", "high", "free blocks by order"]);
        for zone in self.zones.iter().take(2 * ZONES) {
            let blocks: Vec<String> = zone.orders.iter().map(|free| free.blocks.to_string()).collect();
            table.row(cells![
                "  {}" = format!("{} {}", zone.node, zone.name),
                "{}" = thousands(zone.free),
                "{}" = thousands(zone.min),
                "{}" = thousands(zone.low),
                "{}" = thousands(zone.high),
                "{}" = blocks.join(" ")
            ]);
        }
        put(f, &table)
    }

    fn changes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.remedies.is_empty() {
            return Ok(());
        }
        writeln!(f, "would have helped")?;
        let mut table = Table::new("<9<34<2");
        for remedy in self.remedies.iter().take(REMEDIES) {
            let helps = match remedy.helps {
                Helps::Yes => "yes",
                Helps::Perhaps => "perhaps",
                Helps::No => "no",
            };
            let cost = remedy.cost.map_or(String::new(), |frames| format!("costs {} frames: ", thousands(frames)));
            table.row(cells!["  {helps}", "{}" = remedy.change, "{cost}{}" = remedy.note]);
        }
        put(f, &table)
    }

    fn tries(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, tried) in self.tries.iter().enumerate() {
            let label = if i == 0 { "Framewright" } else { "" };
            labelled(f, label, &format!("{}: {}", tried.mechanisms, tried.in_words()), 1)?;
        }
        Ok(())
    }
}

/// Writes a table, its lines cut where they are too long.
fn put(f: &mut fmt::Formatter<'_>, table: &Table) -> fmt::Result {
    table.to_string().lines().try_for_each(|line| writeln!(f, "{}", fitted(line, WIDTH)))
}

/// Writes a text after its label, in at most `most` lines.
fn labelled(f: &mut fmt::Formatter<'_>, label: &str, text: &str, most: usize) -> fmt::Result {
    let whole = fitted(text, (WIDTH - LABEL - 1) * most - if most > 1 { 16 } else { 0 });
    let broken = wrapped(&format!("{label:<LABEL$} {whole}"), ' ', WIDTH, LABEL + 1);
    f.write_str(&broken)
}

fn between(bounds: Bounds) -> String {
    if bounds.is_exact() {
        thousands(bounds.least)
    } else {
        format!("{}..{}", thousands(bounds.least), thousands(bounds.most))
    }
}

impl ZoneCase {
    /// Returns what the zone answers, in words.
    pub fn in_words(&self) -> String {
        let account = &self.account;
        match self.excluded {
            Some(Excluded::Zone) => return "not asked: above the zones that the flags allow".to_owned(),
            Some(Excluded::Node) => return "not asked: another node".to_owned(),
            Some(Excluded::Empty) => return "not asked: it has no memory".to_owned(),
            Some(Excluded::Serving) => {
                return "not asked: would serve it, so the request was for another node".to_owned();
            }
            None => {}
        }
        let words = |answer: ZoneAnswer| match answer {
            ZoneAnswer::Serves { block } => format!("serves it, from order {block}"),
            ZoneAnswer::Short { by } => format!("short by {}", thousands(by)),
            ZoneAnswer::ShortOfOrder { order, by } => format!("short by {} from order {order} on", thousands(by)),
            ZoneAnswer::NoBlock => "keeps its mark, has no block".to_owned(),
        };
        match (account.best, account.worst) {
            (best, worst) if best == worst => words(best),
            (ZoneAnswer::Short { by: least }, ZoneAnswer::Short { by: most }) => {
                format!("short by {} to {}", thousands(least), thousands(most))
            }
            (best, worst) => format!("{}, or {}", words(best), words(worst)),
        }
    }
}

/// The size of frames.
fn bytes_of(frames: u64, page: u64) -> String {
    let kib = frames.saturating_mul(page) / 1024;
    if kib >= 1024 && kib.is_multiple_of(1024) {
        format!("{} MiB", thousands(kib / 1024))
    } else {
        format!("{} KiB", thousands(kib))
    }
}
