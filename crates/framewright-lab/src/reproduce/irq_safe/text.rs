//! The reproduction for a terminal, in at most 100 columns.

use std::fmt;

use framewright_table::{Table, cells};

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
        let mut table = Table::new("<>");
        let saving = format!("{:>9}{:>9}", "saving:", "theirs");
        table.row(cells![
            "{:<14}" = "",
            "{:>18}" = "theirs, printed",
            "{:>20}" = "corrected",
            "{:>20}" = "ours",
            "{saving:>18}",
            "{:>7} " = "ours"
        ]);
        self.rows.iter().for_each(|row| table.row(line(row)));
        write!(f, "{table}")?;
        fitted_note(f, &self.fitted)?;
        writeln!(f, "! saving more than {} % off", judge::SAVING)?;
        let mut table = Table::new("<>");
        table.row(cells![
            "{:<36}" = "Not in the table, cycles a page:",
            "{:>18}" = "to allocate",
            "{:>12}" = "to free"
        ]);
        let last = self.rows.iter().map(|row| row.batch).max();
        let shown = self.beside.iter().filter(|row| row.batch == 64 || Some(row.batch) == last);
        for row in shown {
            let name = format!("{}, batch {}", row.mode, row.batch);
            table.row(cells!["  {name:<34}", "{:>18.1}" = row.alloc, "{:>12.1}" = row.free]);
        }
        write!(f, "\n{table}")
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
        let mut table = Table::new("<>><>");
        table.row(cells![
            "{:<33}" = "time_bench: theirs",
            "{:>8}" = "cycles",
            "{:>8}" = "ns",
            "   {:<34}" = "here",
            "{:>6}" = "cycles",
            "{:>7}" = "ns"
        ]);
        self.time_bench.iter().for_each(|row| table.row(part(row)));
        write!(f, "\n{table}")
    }

    fn tests(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\naim9, {ITERATIONS} iterations; better by, in percent")?;
        let mut table = Table::new("<>");
        table.row(cells![
            "{:<22}" = "",
            "{:>26}" = "theirs, a second",
            "{:>9}" = "by",
            "{:>30}" = "ours",
            "{:>9}" = "by"
        ]);
        self.aim9.iter().for_each(|row| table.row(test(row)));
        write!(f, "{table}")
    }

    fn packets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nPackets: {STREAMS} streams, pages allocated in interrupts and freed by tasks")?;
        let mut table = Table::new("<>");
        table.row(cells![
            "{:<18}" = "",
            "{:>15}" = "theirs: Mbit/s",
            "{:>9}" = "change",
            "{:>16}" = "ours: Mbit/s",
            "{:>9}" = "change",
            "{:>14}" = "band"
        ]);
        self.softirq.iter().for_each(|row| table.row(packets(row)));
        write!(f, "{table}")?;
        let full = Lengths::FULL.packets;
        let rounds = Lengths::VARIED.map(|window| format!("{:.0} % of the window", share(window as f64, full as f64)));
        varied_note(f, self.varied.as_ref().map(|varied| (varied, rounds)))
    }
}

/// Cycles, before and after.
fn both(both: Both) -> String {
    format!("{:.1} -> {:.1}", both.vanilla, both.irqsafe)
}

fn line(row: &Row) -> Vec<String> {
    let mark = if judge::is_near(row) == Some(false) { "!" } else { "" };
    let name = row_name(&row.name(), row.fitted);
    let [printed, corrected, ours] = [row.published, row.corrected, row.simulated].map(both);
    let [theirs_saved, saved] = [row.corrected, row.simulated].map(Both::saving);
    let mark = if mark.is_empty() { " " } else { mark };
    cells!["{name:<14}", "{printed:>18}", "{corrected:>20}", "{ours:>20}", "{theirs_saved:>18.1}", "{saved:>7.1}{mark}"]
}

fn part(row: &Primitive) -> Vec<String> {
    let mut cells = row.published.as_ref().map_or_else(
        || vec![String::new(); 3],
        |theirs| cells!["{:<33}" = theirs.name, "{:>8.0}" = theirs.cycles, "{:>8.3}" = theirs.ns],
    );
    if let Some(here) = &row.native {
        let cycles = here.cycles.map_or_else(|| "-".to_owned(), |cycles| format!("{cycles:.1}"));
        cells.extend(cells!["   {:<34}" = here.name, "{cycles:>6}", "{:>7.2}" = here.ns]);
    }
    cells
}

fn test(row: &Aim9) -> Vec<String> {
    let name = row_name(&row.test.row(row.statistic), row.fitted);
    let rates = |both: Both| format!("{} -> {}", rate(both.vanilla), rate(both.irqsafe));
    let [theirs, ours] = [row.published, row.simulated].map(rates);
    let [by, our_gain] = [row.published_gain_percent, row.simulated_gain_percent];
    cells!["{name:<22}", "{theirs:>26}", "{by:>+9.2}", "{ours:>30}", "{our_gain:>+9.2}"]
}

/// A statistic of rates: what scatters little needs decimals.
pub(crate) fn rate(value: f64) -> String {
    if value < 10.0 { format!("{value:.2}") } else { grouped(value) }
}

fn packets(row: &Softirq) -> Vec<String> {
    let theirs = row.published_mbit.map_or(String::new(), grouped);
    let change = |change: f64| if change == 0.0 { String::new() } else { format!("{change:+.1} %") };
    let theirs_change = row.published_change_percent.map_or(String::new(), change);
    let (ours, ours_change, name) =
        (grouped(row.simulated_mbit), change(row.change_percent), row_name(row.mode, row.fitted));
    let band = band(row.band);
    cells!["{name:<18}", "{theirs:>15}", "{theirs_change:>9}", "{ours:>16}", "{ours_change:>9}", "{band:>14}"]
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
