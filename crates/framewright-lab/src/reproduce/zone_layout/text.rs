//! The reproduction for a terminal, in at most 100 columns.

use std::fmt;

use framewright_sim::workload::Passes;
use framewright_table::{Table, cells};

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
    let mut table = Table::new("<>");
    let name = format!("{:1$}", "change, %", NAMES.0);
    table.row(cells!["{name}", "{:>12}" = "theirs", "{:>12} " = "ours", "{:>13}" = "band"]);
    all.rows.iter().filter(|row| row.simulated.is_some()).for_each(|row| table.row(line(row)));
    write!(f, "\n{table}")?;
    fitted_note(f, &all.fitted)?;
    writeln!(f, "~ the band holds theirs; ! it does not")?;
    let varied = all.varied.as_ref().zip(all.lengths.varied);
    varied_note(f, varied.map(|(varied, Varying { screen, band })| (varied, [screen, band].map(passes))))?;
    let absent = all.rows.iter().filter_map(|row| Some((row, row.why_not?)));
    absent.into_iter().try_for_each(|(row, why_not)| {
        wrapped(f, &format!("  {}: theirs {:+.1}, ours {why_not}", row.name, row.published.change_percent), 4)
    })
}

fn line(row: &Row) -> Vec<String> {
    let name = row_name(&row.name, row.fitted);
    let ours = row.simulated.map_or("-".to_owned(), |ours| format!("{:+.1}", ours.change_percent));
    let (theirs, mark) = (format!("{:+.1}", row.published.change_percent), Standing::mark(judge::change(row)));
    let name = format!("{:1$}", fitted(&name, NAMES.0), NAMES.0);
    cells!["{name}", "{theirs:>12}", "{ours:>12}{mark}", "{:>13}" = band(row)]
}

/// A row's band, in words.
pub(crate) fn band(row: &Row) -> String {
    row.band.map_or(String::new(), |Band([least, most])| format!("{least:+.0}..{most:+.0}"))
}

fn memory(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    if all.memory.is_empty() {
        return Ok(());
    }
    let mut table = Table::new("<>");
    let label = |name: &str| format!("{name:0$}", NAMES.0);
    table.row(cells!["{}" = label("Memory of the tasks"), "{:>12}" = "change, %", "{:>24}" = "computing, %"]);
    for Memory { name, change_percent, computing_percent: [behind, beside], .. } in &all.memory {
        let computing = format!("{behind:.1} -> {beside:.1}");
        table.row(cells!["{}" = label(name), "{change_percent:>+12.1}", "{computing:>24}"]);
    }
    write!(f, "\n{table}")
}

fn variants(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    writeln!(f, "\nThe lock and its place, on {} CPUs", all.cpus)?;
    let mut table = Table::new("<>");
    let label = |name: &str| format!("{:1$}", fitted(name, NAMES.1), NAMES.1);
    let heads = ["processes a second", "change, %", "waiting for it, %", "held, p50"];
    let row = |name: &str, [rate, change, waits, held]: [&str; 4]| {
        cells!["{}" = label(name), "{rate:>18}", "{change:>12}", "{waits:>20}", "{held:>14}"]
    };
    table.row(row("", heads));
    for variant in &all.variants {
        let VariantRow { name, performance, change_percent, zone_lock_contention_percent, hold_p50_ns, .. } = variant;
        let (waits, held) = (percent(*zone_lock_contention_percent), duration(*hold_p50_ns));
        table.row(row(name, [&grouped(*performance), &format!("{change_percent:+.1}"), &waits, &held]));
    }
    write!(f, "{table}")
}

fn curves(f: &mut fmt::Formatter<'_>, all: &Reproduction) -> fmt::Result {
    let Some(first) = all.variants.first() else { return Ok(()) };
    writeln!(f, "\nThousand processes a second by number of CPUs")?;
    let mut table = Table::new("<>");
    let mut row = |name: &str, cells: Vec<String>| {
        let name = format!("{:1$}", fitted(name, NAMES.1), NAMES.1);
        table.row(std::iter::once(name).chain(cells.into_iter().map(|cell| format!("{cell:>9}"))).collect());
    };
    row("", first.points.iter().map(|(cpus, _)| cpus.to_string()).collect());
    for variant in &all.variants {
        row(&variant.name, variant.points.iter().map(|(_, jobs)| format!("{:.1}", jobs / 1e3)).collect());
    }
    for crossover in &all.crossover {
        let gains = |gains: &[(usize, f64)]| gains.iter().map(|(_, gain)| format!("{gain:+.1}")).collect();
        row(&format!("{}, beside gains, %", crossover.lock), gains(&crossover.gain_percent));
        row("  of a taking of the lock", gains(&crossover.taking_gain_percent));
    }
    write!(f, "{table}")?;
    all.crossover.iter().try_for_each(|crossover| {
        let lock = crossover.lock;
        match crossover.cpus {
            Some(cpus) => writeln!(f, "  {lock}: from {cpus} CPUs on the lock is better off behind the lists"),
            None => writeln!(f, "  {lock}: behind the lists the lock is never better off"),
        }
    })
}
