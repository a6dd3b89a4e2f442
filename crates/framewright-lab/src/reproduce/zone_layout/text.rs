//! The reproduction for a terminal, in at most 100 columns.

use std::fmt;

use framewright_sim::workload::Passes;

use super::judge;
use super::result::{Memory, Reproduction, Row, VariantRow};
use crate::reproduce::check::Standing;
use crate::reproduce::head::Head;
use crate::reproduce::text::{WHY, checks, fitted_note, reasons, row_name, sides, varied_note, wrapped};
use crate::reproduce::variation::{Band, Varying};
use crate::sim::figures::{duration, fitted, grouped, percent};

/// Columns of a row's name, and of a lock's.
const NAMES: (usize, usize) = (54, 26);

impl fmt::Display for Reproduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        head(f, self)?;
        table(f, self)?;
        memory(f, self)?;
        variants(f, self)?;
        curves(f, self)?;
        let why = |variant: &VariantRow| format!("{}; {}", variant.why, variant.lines);
        reasons(f, WHY, self.variants.iter().map(|variant| (&variant.name, why(variant))))?;
        checks(f, &self.checks)
    }
}

fn head(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    let Reproduction { head: Head { experiment, model, seed, title, .. }, cpus, workload, .. } = all;
    writeln!(f, "{experiment}: {workload} on {model}, {cpus} CPUs, seed {seed}")?;
    sides(f, title, &ours(all))
}

/// What is not as it was.
pub(crate) fn ours(all: &Reproduction) -> String {
    format!(
        "processes that allocate, compute and end, {}; per-CPU lists of 31 and 186 frames; jobs are processes, elapsed time is what a \
         process takes, system time its CPU time in which it does not compute; no CPU is ever idle",
        passes(all.lengths.table)
    )
}

/// How long runs are, in words.
pub(crate) fn passes(Passes { warm_up, window }: Passes) -> String {
    format!("{window} processes of each CPU measured, {warm_up} before")
}

fn table(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    writeln!(f, "\n{:name$}{:>12}{:>12}{:>14}", "change, %", "theirs", "ours", "band", name = NAMES.0)?;
    all.rows.iter().filter(|row| row.simulated.is_some()).try_for_each(|row| line(f, row))?;
    fitted_note(f, &all.fitted)?;
    writeln!(f, "~ the band holds theirs; ! it does not")?;
    let varied = all.varied.as_ref().zip(all.lengths.varied);
    varied_note(f, varied.map(|(varied, Varying { screen, band })| (varied, [screen, band].map(passes))))?;
    let absent = all.rows.iter().filter_map(|row| Some((row, row.why_not?)));
    absent.into_iter().try_for_each(|(row, why_not)| {
        wrapped(f, &format!("  {}: theirs {:+.1}, ours {why_not}", row.name, row.published.change_percent), 4)
    })
}

fn line(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    let name = row_name(&row.name, row.fitted);
    let ours = row.simulated.map_or("-".to_owned(), |ours| format!("{:+.1}", ours.change_percent));
    let (theirs, mark) = (format!("{:+.1}", row.published.change_percent), Standing::mark(judge::change(row)));
    let text = format!("{:name$}{theirs:>12}{ours:>12}{mark}{:>13}", fitted(&name, NAMES.0), band(row), name = NAMES.0);
    writeln!(f, "{}", text.trim_end())
}

/// A row's band, in words.
pub(crate) fn band(row: &Row) -> String {
    row.band.map_or(String::new(), |Band([least, most])| format!("{least:+.0}..{most:+.0}"))
}

fn memory(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    if all.memory.is_empty() {
        return Ok(());
    }
    writeln!(f, "\n{:name$}{:>12}{:>24}", "Memory of the tasks", "change, %", "computing, %", name = NAMES.0)?;
    all.memory.iter().try_for_each(|Memory { name, change_percent, computing_percent: [behind, beside], .. }| {
        let computing = format!("{behind:.1} -> {beside:.1}");
        writeln!(f, "{name:width$}{change_percent:>+12.1}{computing:>24}", width = NAMES.0)
    })
}

fn variants(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    writeln!(f, "\nThe lock and its place, on {} CPUs", all.cpus)?;
    writeln!(
        f,
        "{:name$}{:>18}{:>12}{:>20}{:>14}",
        "",
        "processes a second",
        "change, %",
        "waiting for it, %",
        "held, p50",
        name = NAMES.1
    )?;
    all.variants.iter().try_for_each(|variant| {
        let VariantRow { name, performance, change_percent, zone_lock_contention_percent, hold_p50_ns, .. } = variant;
        let waits = percent(*zone_lock_contention_percent);
        let held = duration(*hold_p50_ns);
        writeln!(
            f,
            "{:width$}{:>18}{change_percent:>+12.1}{waits:>20}{held:>14}",
            fitted(name, NAMES.1),
            grouped(*performance),
            width = NAMES.1
        )
    })
}

fn curves(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    let Some(first) = all.variants.first() else { return Ok(()) };
    writeln!(f, "\nThousand processes a second by number of CPUs")?;
    write!(f, "{:width$}", "", width = NAMES.1)?;
    first.points.iter().try_for_each(|(cpus, _)| write!(f, "{cpus:>9}"))?;
    writeln!(f)?;
    for variant in &all.variants {
        write!(f, "{:width$}", fitted(&variant.name, NAMES.1), width = NAMES.1)?;
        variant.points.iter().try_for_each(|(_, jobs)| write!(f, "{:>9.1}", jobs / 1e3))?;
        writeln!(f)?;
    }
    for crossover in &all.crossover {
        write!(f, "{:width$}", fitted(&format!("{}, beside gains, %", crossover.lock), NAMES.1), width = NAMES.1)?;
        crossover.gain_percent.iter().try_for_each(|(_, gain)| write!(f, "{gain:>+9.1}"))?;
        writeln!(f)?;
        write!(f, "{:width$}", "  of a taking of the lock", width = NAMES.1)?;
        crossover.taking_gain_percent.iter().try_for_each(|(_, gain)| write!(f, "{gain:>+9.1}"))?;
        writeln!(f)?;
    }
    all.crossover.iter().try_for_each(|crossover| {
        let lock = crossover.lock;
        match crossover.cpus {
            Some(cpus) => writeln!(f, "  {lock}: from {cpus} CPUs on the lock is better off behind the lists"),
            None => writeln!(f, "  {lock}: behind the lists the lock is never better off"),
        }
    })
}
