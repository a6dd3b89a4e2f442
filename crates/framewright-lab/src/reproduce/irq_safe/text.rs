//! The reproduction for a terminal, in at most 100 columns.

use std::fmt;

use super::judge;
use super::plan::{ITERATIONS, Lengths, MODES, STREAMS};
use super::published::Both;
use super::result::{Aim9, Primitive, Reproduction, Row, Softirq};
use crate::reproduce::head::Head;
use crate::reproduce::text::{band, checks, fitted_note, reasons, row_name, sides, varied_note, wrapped};
use crate::sim::figures::{grouped, share};

impl fmt::Display for Reproduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reproduction { head: Head { experiment, model, seed, title, .. }, desktop, .. } = self;
        writeln!(f, "{experiment}: interrupts and the per-CPU lists, on {model} and {desktop}, seed {seed}")?;
        sides(f, title, ours())?;
        self.batches(f)?;
        self.pair(f)?;
        self.parts(f)?;
        self.tests(f)?;
        self.packets(f)?;
        reasons(f, "Why", self.reasons())?;
        checks(f, &self.checks)
    }
}

/// What is not as it was.
pub(crate) fn ours() -> &'static str {
    "the machine of the batches, of aim9 and of the packets is not named, the first stands in for it; per-CPU lists of 31 and 186 frames"
}

impl Reproduction {
    fn batches(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nCycles a page; theirs over as many pages as there were, one more than a batch is called")?;
        writeln!(
            f,
            "{:<14}{:>18}{:>20}{:>20}{:>9}{:>9}{:>7}",
            "", "theirs, printed", "corrected", "ours", "saving:", "theirs", "ours"
        )?;
        self.rows.iter().try_for_each(|row| line(f, row))?;
        fitted_note(f, &self.fitted)?;
        writeln!(f, "! saving more than {} % off", judge::SAVING)?;
        writeln!(f, "\nNot in the table, cycles a page:{:>22}{:>12}", "to allocate", "to free")?;
        let last = self.rows.iter().map(|row| row.batch).max();
        let shown = self.beside.iter().filter(|row| row.batch == 64 || Some(row.batch) == last);
        for row in shown {
            writeln!(f, "  {:<34}{:>18.1}{:>12.1}", format!("{}, batch {}", row.mode, row.batch), row.alloc, row.free)?;
        }
        Ok(())
    }

    fn pair(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = &self.page_bench02;
        let savings = [found.published, found.simulated].map(Both::saving);
        writeln!(f, "\npage_bench02: cycles of a pair on {}", self.desktop)?;
        writeln!(f, "  theirs {}, saves {:.0}", both(found.published), savings[0])?;
        writeln!(f, "  ours   {}, saves {:.1}", both(found.simulated), savings[1])?;
        let modes: Vec<String> = found.modes.iter().map(|(mode, cycles)| format!("{mode} {cycles:.1}")).collect();
        wrapped(f, &format!("  by mode: {}", modes.join(", ")), 4)?;
        let native = found.native.iter().map(|row| format!("{}, {} {:.1} ns", row.preset, row.protection, row.ns));
        let native: Vec<String> = native.collect();
        if native.is_empty() {
            return Ok(());
        }
        wrapped(f, &format!("  natively, here, where nothing is masked: {}", native.join("; ")), 4)
    }

    fn parts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<34}{:>8}{:>8}   {:<34}{:>6}{:>7}",
            "time_bench: theirs", "cycles", "ns", "here", "cycles", "ns"
        )?;
        self.time_bench.iter().try_for_each(|row| part(f, row))
    }

    fn tests(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\naim9, {ITERATIONS} iterations; better by, in percent")?;
        writeln!(f, "{:<22}{:>26}{:>9}{:>30}{:>9}", "", "theirs, a second", "by", "ours", "by")?;
        self.aim9.iter().try_for_each(|row| test(f, row))
    }

    fn packets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nPackets: {STREAMS} streams, pages allocated in interrupts and freed by tasks")?;
        writeln!(
            f,
            "{:<18}{:>15}{:>9}{:>16}{:>9}{:>14}",
            "", "theirs: Mbit/s", "change", "ours: Mbit/s", "change", "band"
        )?;
        self.softirq.iter().try_for_each(|row| packets(f, row))?;
        let full = Lengths::FULL.packets;
        let rounds = Lengths::VARIED.map(|window| format!("{:.0} % of the window", share(window as f64, full as f64)));
        varied_note(f, self.varied.as_ref().map(|varied| (varied, rounds)))
    }
}

/// Cycles, before and after.
fn both(both: Both) -> String {
    format!("{:.1} -> {:.1}", both.vanilla, both.irqsafe)
}

fn line(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    let mark = if judge::is_near(row) == Some(false) { "!" } else { "" };
    let name = row_name(&row.name(), row.fitted);
    let [printed, corrected, ours] = [row.published, row.corrected, row.simulated].map(both);
    let [theirs_saved, saved] = [row.corrected, row.simulated].map(Both::saving);
    writeln!(f, "{name:<14}{printed:>18}{corrected:>20}{ours:>20}{theirs_saved:>18.1}{saved:>7.1}{mark}")
}

fn part(f: &mut fmt::Formatter<'_>, row: &Primitive) -> fmt::Result {
    let theirs = row.published.as_ref().map_or_else(
        || format!("{:<34}{:>8}{:>8}", "", "", ""),
        |theirs| format!("{:<34}{:>8.0}{:>8.3}", theirs.name, theirs.cycles, theirs.ns),
    );
    let here = row.native.as_ref().map_or_else(String::new, |here| {
        let cycles = here.cycles.map_or_else(|| "-".to_owned(), |cycles| format!("{cycles:.1}"));
        format!("   {:<34}{cycles:>6}{:>7.2}", here.name, here.ns)
    });
    writeln!(f, "{}", format!("{theirs}{here}").trim_end())
}

fn test(f: &mut fmt::Formatter<'_>, row: &Aim9) -> fmt::Result {
    let name = row_name(&row.test.row(row.statistic), row.fitted);
    let rates = |both: Both| format!("{} -> {}", rate(both.vanilla), rate(both.irqsafe));
    let [theirs, ours] = [row.published, row.simulated].map(rates);
    let [by, our_gain] = [row.published_gain_percent, row.simulated_gain_percent];
    writeln!(f, "{name:<22}{theirs:>26}{by:>+9.2}{ours:>30}{our_gain:>+9.2}")
}

/// A statistic of rates: what scatters little needs decimals.
pub(crate) fn rate(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { grouped(value) }
}

fn packets(f: &mut fmt::Formatter<'_>, row: &Softirq) -> fmt::Result {
    let theirs = row.published_mbit.map_or(String::new(), grouped);
    let change = |change: f64| if change == 0.0 { String::new() } else { format!("{change:+.1} %") };
    let theirs_change = row.published_change_percent.map_or(String::new(), change);
    let (ours, ours_change, name) =
        (grouped(row.simulated_mbit), change(row.change_percent), row_name(row.mode, row.fitted));
    let line = format!("{name:<18}{theirs:>15}{theirs_change:>9}{ours:>16}{ours_change:>9}{:>14}", band(row.band));
    writeln!(f, "{}", line.trim_end())
}

/// The modes in words.
pub(crate) fn modes() -> Vec<(&'static str, &'static str)> {
    let words = [
        "Linux until 2022: interrupts are held off while a CPU is at its lists",
        "the change of 2017: preemption is held off, and whoever comes in an interrupt goes to the zone",
        "Linux since 2022: the lists' lock is tried, and whoever finds them in use goes to the zone",
        "ours: an interrupt has lists of its own",
    ];
    MODES.iter().map(|mode| mode.name).zip(words).collect()
}
