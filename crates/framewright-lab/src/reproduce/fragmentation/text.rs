//! The reproduction for a terminal, in at most 100 columns.

use std::fmt;

use framewright_table::{Table, cells};

use super::judge;
use super::plan::{CLOSER, Lengths};
use super::published::{Before, Earlier};
use super::result::{Alone, Ours, Reproduction, Rounds, Row};
use crate::reproduce::check::{Standing, points};
use crate::reproduce::estimate::Estimate;
use crate::reproduce::head::Head;
use crate::reproduce::text::{checks, fitted_note, reasons, row_name, sides, verdict, wrapped};
use crate::sim::figures::{change_percent, count, counted, duration, grouped, percent};

impl fmt::Display for Reproduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reproduction { head: Head { experiment, seed, title, .. }, .. } = self;
        writeln!(f, "{experiment}: files that push each other out, then huge pages; seeds from {seed} on")?;
        sides(f, title, ours())?;
        if self.lengths != Lengths::FULL {
            wrapped(
                f,
                &format!("not to be quoted: {}; that takes {}", lengths(self.lengths), lengths(Lengths::FULL)),
                2,
            )?;
        }
        self.configs.iter().try_for_each(|config| self.events(f, config))?;
        writeln!(f)?;
        let mark = "! not as it had to be. ±: what the mean over all seeds may be off, 95 times of 100";
        wrapped(f, &format!("{mark}. {}", legend()), 2)?;
        fitted_note(f, &self.fitted)?;
        self.configs.iter().try_for_each(|config| self.costs(f, config))?;
        self.alone(f)?;
        self.decay(f)?;
        reasons(f, "Why", self.reasons())?;
        checks(f, &self.checks)?;
        verdict(f, &self.checks)
    }
}

/// What is not as it was.
pub(crate) fn ours() -> &'static str {
    "memory, files and log with the proportions of nodes of 64 GiB, marks of 16; two sockets with 24 CPUs each. Size of nodes and log, and one page a slab, are \
     assumptions made knowing the tables; the disk is as fast as the published run's 16 minutes say. Counts of events are not comparable, what patches do to them is"
}

/// The kernels in words.
pub(crate) fn kernels() -> [(&'static str, &'static str); 5] {
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

fn legend() -> String {
    kernels().map(|(name, what)| format!("{name}: {what}")).join("; ")
}

/// A configuration's name, and what it is, theirs and ours.
pub(crate) fn described(config: &Ours) -> String {
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
pub(crate) fn before(config: &Ours) -> Option<String> {
    let Before { name, rows, .. } = config.before.as_ref()?;
    let (first, patched) = rows.split_first()?;
    let change = |row: &Earlier| format!(" {} {} %", row.kernel, points(change_percent(first.events, row.events)));
    let changes: Vec<String> = patched.iter().map(change).collect();
    let huge: Vec<String> = rows.iter().filter_map(|row| row.huge_percent).map(percent).collect();
    Some(format!("{name}: events {},{}; huge {} %", grouped(first.events), changes.join(","), huge.join(", ")))
}

impl Reproduction {
    /// Why each row is what it is.
    pub fn reasons(&self) -> impl Iterator<Item = (String, &str)> {
        self.rows.iter().map(|row| (format!("{}, {}", row.config, row.kernel), row.why.as_str()))
    }

    fn events(&self, f: &mut fmt::Formatter<'_>, config: &Ours) -> fmt::Result {
        let seeds = self.of(config.name).map(|row| row.simulated.seeds).max().unwrap_or(0);
        writeln!(f)?;
        wrapped(f, &format!("{}, {}", described(config), counted(seeds, "seed")), 2)?;
        let mut table = Table::new("<>");
        let huge = format!("{:>10}{:>13}", "huge %:", "theirs");
        table.row(cells![
            "{:16}" = "",
            "{:>8}" = "events:",
            "{:>9}" = "theirs",
            "{:>17}" = "ours",
            "",
            "{huge:>22}",
            "{:>15} " = "ours"
        ]);
        self.of(config.name).for_each(|row| table.row(events_line(row)));
        write!(f, "{table}")?;
        before(config).map_or(Ok(()), |told| wrapped(f, &format!("not compared: {told}"), 2))
    }

    fn costs(&self, f: &mut fmt::Formatter<'_>, config: &Ours) -> fmt::Result {
        writeln!(f, "\nWhat it costs, {}", config.name)?;
        let mut table = Table::new("<>");
        table.text(format!(
            "{:>14}{:>15}{:>16}{:>13}{:>8}{:>8}{:>18}{:>7}",
            "", "base fault, µs", "huge fault, µs", "stalls", "kswapd", "readers", "zone lock held", "pages"
        ));
        let heads =
            ["theirs", "ours", "theirs", "ours", "theirs", "ours", "scanned", "pages/s", "p99.9", "max", "moved"];
        table.row(costs_line("", heads.map(str::to_owned)));
        self.of(config.name).for_each(|row| table.row(costs_line(row.kernel, costs(row))));
        write!(f, "{table}")
    }

    fn alone(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ablation.is_empty() {
            return Ok(());
        }
        let heading = format!("Each alone, {CLOSER}");
        let mut table = Table::new("<>");
        table.row(alone_line(&heading, ["events", "huge %", "scanned", "moved"].map(str::to_owned)));
        for row in &self.ablation {
            let [what, events, huge, scanned, moved] = alone(row);
            table.row(alone_line(&format!("  {what}"), [events, huge, scanned, moved]));
        }
        write!(f, "\n{table}")
    }

    fn decay(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rounds.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nHuge pages by round, {CLOSER}, percent")?;
        let mut table = Table::new("<>");
        for Rounds { kernel, huge_percent, .. } in &self.rounds {
            let all = huge_percent.iter().map(|percent| format!("{percent:>5.0}"));
            table.row(cells!["  {kernel:<12}"].into_iter().chain(all).collect());
        }
        write!(f, "{table}")
    }
}

/// Events and huge pages of a row: theirs and its change, ours and its change; theirs, and ours.
pub(crate) fn events(row: &Row) -> [String; 6] {
    let change = |change: Option<f64>| change.map_or(String::new(), |change| format!("{} %", points(change)));
    let theirs = row.published.as_ref();
    [
        theirs.map_or(String::new(), |row| grouped(row.events)),
        change(row.change_percent.published),
        whole(row.simulated.events),
        change(row.change_percent.simulated),
        theirs.map_or(String::new(), |row| percent(row.huge_percent)),
        tenths(row.simulated.huge_percent),
    ]
}

/// What a row costs, in the order of the columns.
pub(crate) fn costs(row: &Row) -> [String; 11] {
    let theirs = row.published.as_ref();
    let us = |time: Option<f64>| time.filter(|time| *time != 0.0).map_or("-".to_owned(), |time| grouped(time.round()));
    let ours = |time: Option<Estimate>| us(time.map(|time| time.mean));
    let of = |amount: Estimate| count(amount.mean.round() as u64);
    let held = |time: Estimate| duration(time.mean * 1e3);
    let simulated = &row.simulated;
    [
        us(theirs.map(|row| row.fault_base_us)),
        ours(simulated.fault_base_us),
        us(theirs.map(|row| row.fault_huge_us)),
        ours(simulated.fault_huge_us),
        theirs.and_then(|row| row.stalls).map_or(String::new(), |stalls| count(stalls.count as u64)),
        of(simulated.stalls),
        of(simulated.kswapd_scanned),
        grouped(simulated.read_pages_per_s.mean),
        held(simulated.zone_lock_held_p999_us),
        held(simulated.zone_lock_held_max_us),
        of(simulated.moved),
    ]
}

/// What stands beside a figure that is not as it had to be.
fn mark(holds: Option<bool>) -> &'static str {
    Standing::mark(holds.filter(|holds| !holds).map(|_| Standing::Off))
}

fn events_line(row: &Row) -> Vec<String> {
    let [theirs, their_change, ours, change, theirs_huge, huge] = events(row);
    let [fewer, better] = [judge::is_fewer(row), judge::is_huge(row)].map(mark);
    let name = row_name(row.kernel, row.fitted);
    cells![
        "  {name:<14}",
        "{theirs:>8}",
        "{their_change:>9}",
        "{ours:>17}",
        "{change:>9}{fewer}",
        "{theirs_huge:>22}",
        "{huge:>15}{better}"
    ]
}

fn costs_line(kernel: &str, costs: [String; 11]) -> Vec<String> {
    let widths = [7, 8, 8, 8, 7, 6, 8, 8, 9, 9, 7];
    let cells = costs.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
    cells!["  {kernel:<12}"].into_iter().chain(cells).collect()
}

/// What some mechanisms are and do.
pub(crate) fn alone(row: &Alone) -> [String; 5] {
    let Alone { what, simulated, .. } = row;
    let of = |amount: Estimate| count(amount.mean.round() as u64);
    let (scanned, moved) = (of(simulated.kswapd_scanned), of(simulated.moved));
    [(*what).to_owned(), whole(simulated.events), tenths(simulated.huge_percent), scanned, moved]
}

fn alone_line(what: &str, [events, huge, scanned, moved]: [String; 4]) -> Vec<String> {
    cells!["{what:<42}", "{events:>18}", "{huge:>15}", "{scanned:>11}", "{moved:>11}"]
}

/// A mean of counts.
pub(crate) fn whole(value: Estimate) -> String {
    let exact = |value: f64| if value < 999.5 { format!("{value:.0}") } else { grouped(value.round()) };
    exact(value.mean) + &value.error().map_or(String::new(), |error| format!(" ±{}", exact(error)))
}

/// A mean of percentages.
pub(crate) fn tenths(value: Estimate) -> String {
    percent(value.mean) + &value.error().map_or(String::new(), |error| format!(" ±{error:.1}"))
}
