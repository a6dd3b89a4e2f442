//! The reproduction for a terminal, in at most 100 columns.

use std::fmt;

use framewright_table::{Table, cells};

use super::judge;
use super::plan::Lengths;
use super::result::{Reproduction, Row};
use crate::reproduce::check::Standing;
use crate::reproduce::head::Head;
use crate::reproduce::text::{self, checks, fitted_note, reasons, row_name, sides, varied_note};
use crate::sim::figures::{grouped, share};

impl fmt::Display for Reproduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reproduction { head: Head { experiment, model, seed, title, .. }, cpus, .. } = self;
        writeln!(f, "{experiment}: an allocation and its free on {cpus} CPUs of {model}, seed {seed}")?;
        sides(f, title, ours())?;
        let mut table = Table::new("<>");
        table.row(cells![
            "{:>10}" = "",
            "{:>18}" = "theirs: cycles",
            "{:>10} " = "ours",
            "{:>11}" = "band",
            "{:>19}" = "theirs: a second",
            "{:>15}" = "ours"
        ]);
        self.rows.iter().for_each(|row| table.row(line(row)));
        write!(f, "\n{table}")?;
        fitted_note(f, &self.fitted)?;
        writeln!(f, "! more than {} % off", judge::CYCLES)?;
        varied_note(f, self.varied.as_ref().map(|varied| (varied, rounds())))?;
        let mut table = Table::new("<>");
        table.row(cells!["{:<72}" = "Not in the table", "{:>6}" = "cycles"]);
        self.beside.iter().for_each(|row| table.row(cells!["  {:<70}" = row.name, "{:>6.1}" = row.simulated.cycles]));
        write!(f, "\n{table}")?;
        reasons(f, "Why", self.reasons())?;
        checks(f, &self.checks)
    }
}

impl Reproduction {
    /// Why each row is what it is.
    pub fn reasons(&self) -> impl Iterator<Item = (&str, &str)> {
        let rows = self.rows.iter().map(|row| (row.threshold.as_str(), row.why.as_str()));
        rows.chain(self.beside.iter().map(|row| (row.name.as_str(), row.why.as_str())))
    }
}

/// What is not as it was.
pub(crate) fn ours() -> &'static str {
    "the same loop with per-CPU lists of 31 and 186 frames, starts that are not in step, and zones with the counters of a whole \
     kernel; cycles are those of the time-stamp counter"
}

/// How long runs of both rounds of variation are, in words: a small threshold's window, and a large one's.
fn rounds() -> [String; 2] {
    let full = Lengths::FULL;
    Lengths::VARIED.map(|Lengths { window, periods, .. }| {
        let small = share(f64::from(window), f64::from(full.window));
        let large = share(periods, full.periods);
        format!("{small:.0} % of the table's window, {large:.0} % of a large threshold's")
    })
}

fn line(row: &Row) -> Vec<String> {
    let Row { threshold, published, simulated, band, fitted, .. } = row;
    let mark = Standing::mark(judge::standing(row).map(|(standing, _)| standing));
    let (name, band) = (row_name(threshold, *fitted), text::band(*band));
    let (theirs, ours) = (grouped(published.throughput), grouped(simulated.throughput));
    let (theirs_cycles, cycles) = (published.cycles, simulated.cycles);
    cells!["{name:<10}", "{theirs_cycles:>18.0}", "{cycles:>10.1}{mark}", "{band:>11}", "{theirs:>19}", "{ours:>15}"]
}
