//! Merged results for people: the throughput of each set of mechanisms by number of CPUs, and its uncertainty.
//!
//! There is a table for each workload on each machine, mechanisms by CPUs. A number is the mean over the seeds. The
//! percent after it say how far the mean over all seeds may be off, 95 times of 100. Below it stands the difference to
//! the first mechanisms on as many CPUs, over the seeds that both have. `n=` marks a number of fewer seeds than the
//! others. Columns that do not fit a line of 100 go on below, and so do names that were cut.

use std::{fmt, iter};

use framewright_table::Table;
use framewright_table::figures::{change, plural, significant};

use super::results::{Found, ResultLine};
use crate::compare::names::Short;
use crate::reproduce::estimate::Estimate;

/// Prints the tables.
pub struct SweepTable<'l>(pub &'l [ResultLine]);

/// Width of a name.
const NAME: usize = 24;
/// Columns of a line.
const COLUMNS: usize = 4;

/// Results of one workload on one machine by one version.
struct CellGroup<'l> {
    line: &'l ResultLine,
    results: Vec<(&'l ResultLine, &'l Found)>,
}

/// Operations per second by seed, of a set of mechanisms on a number of CPUs.
type Rates = Vec<(u64, f64)>;

impl fmt::Display for SweepTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = groups(self.0);
        let one_version = groups.iter().all(|group| group.line.version == groups[0].line.version);
        for (number, group) in groups.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            group.print(f, !one_version)?;
        }
        Ok(())
    }
}

fn groups(lines: &[ResultLine]) -> Vec<CellGroup<'_>> {
    let mut groups: Vec<CellGroup<'_>> = Vec::new();
    for line in lines {
        let Some(found) = line.found() else { continue };
        let known = groups.iter_mut().find(|group| alike(group.line, line));
        match known {
            Some(group) => group.results.push((line, found)),
            None => groups.push(CellGroup { line, results: vec![(line, found)] }),
        }
    }
    groups
}

/// Whether two results differ in mechanisms, CPUs and seed at most.
fn alike(one: &ResultLine, other: &ResultLine) -> bool {
    let (a, b) = (&one.cell, &other.cell);
    let lengths = (a.warm_up_ps, a.window_ps, &a.schedule) == (b.warm_up_ps, b.window_ps, &b.schedule);
    let contents = (&a.machine, &a.model, &a.workload, &a.list) == (&b.machine, &b.model, &b.workload, &b.list);
    one.version == other.version && lengths && contents
}

impl CellGroup<'_> {
    fn print(&self, f: &mut fmt::Formatter<'_>, says_version: bool) -> fmt::Result {
        let (cell, unit) = (&self.line.cell, plural(&self.results[0].1.unit));
        let seeds = distinct(self.results.iter().map(|(line, _)| line.cell.seed)).len();
        writeln!(f, "{} on {}", cell.workload, cell.machine)?;
        if says_version {
            writeln!(f, "version {}", self.line.version)?;
        }
        if cell.schedule != "time" {
            writeln!(f, "{} schedule: this looks for mistakes, and no time here means anything", cell.schedule)?;
        }
        let spread = match seeds {
            1 => "of one seed".to_owned(),
            seeds => format!(
                "mean of {seeds} seeds{} ± what it may be off",
                if self.has_all(seeds) { "" } else { ", or of n," }
            ),
        };
        writeln!(f, "{unit} per second, {spread}")?;
        let mechanisms = distinct(self.results.iter().map(|(line, _)| line.cell.mechanisms.as_str()));
        let mut cpus = distinct(self.results.iter().map(|(line, _)| line.cell.cpus));
        cpus.sort_unstable();
        let names = Short::of(mechanisms.iter().copied(), NAME - 1);
        for columns in cpus.chunks(COLUMNS) {
            let mut table = Table::new("<24>19");
            let heads = columns.iter().map(ToString::to_string);
            table.row(iter::once("CPUs".to_owned()).chain(heads).collect());
            for name in &mechanisms {
                self.rows(&mut table, names.shown(name), (mechanisms[0], name), (columns, seeds));
            }
            write!(f, "\n{table}")?;
        }
        let legend = names.legend();
        if legend.is_empty() { Ok(()) } else { write!(f, "\n{legend}") }
    }

    /// The rows of a set of mechanisms, usually of `seeds` seeds; for all but the first with a comparison.
    fn rows(&self, table: &mut Table, shown: &str, (first, name): (&str, &str), (columns, seeds): (&[usize], usize)) {
        let rates: Vec<Rates> = columns.iter().map(|cpus| self.rates(name, *cpus)).collect();
        let means = rates.iter().map(|rates| {
            let mean = Estimate::of(rates.iter().map(|(_, rate)| *rate));
            mean.as_ref().map_or("-".to_owned(), |mean| in_words(mean) + &of_fewer(rates.len(), seeds))
        });
        table.row(iter::once(shown.to_owned()).chain(means).collect());
        if name == first {
            return;
        }
        let compared = columns.iter().zip(&rates);
        let changes = compared.map(|(cpus, rates)| difference(&self.rates(first, *cpus), rates, seeds));
        table.row(iter::once(String::new()).chain(changes).collect());
    }

    /// Whether each number is of `seeds` seeds.
    fn has_all(&self, seeds: usize) -> bool {
        let cells = distinct(self.results.iter().map(|(line, _)| (line.cell.mechanisms.as_str(), line.cell.cpus)));
        cells.iter().all(|(mechanisms, cpus)| [0, seeds].contains(&self.rates(mechanisms, *cpus).len()))
    }

    fn rates(&self, mechanisms: &str, cpus: usize) -> Rates {
        let is_it = |(line, _): &&(&ResultLine, &Found)| line.cell.mechanisms == mechanisms && line.cell.cpus == cpus;
        let of = |(line, found): &(&ResultLine, &Found)| Some((line.cell.seed, found.per_second?));
        self.results.iter().filter(is_it).filter_map(of).collect()
    }
}

/// By how much others are above or below the first mechanisms, over the seeds that both have: another seed is another
/// run.
fn difference(first: &Rates, others: &Rates, seeds: usize) -> String {
    if first.is_empty() || others.is_empty() {
        return String::new();
    }
    let both: Vec<(f64, f64)> = others
        .iter()
        .filter_map(|(seed, to)| first.iter().find(|(known, _)| known == seed).map(|(_, from)| (*from, *to)))
        .collect();
    if both.is_empty() {
        return "no seed of both".to_owned();
    }
    let (from, to) = both.iter().fold((0.0, 0.0), |(from, to), pair| (from + pair.0, to + pair.1));
    change(from, to) + &of_fewer(both.len(), seeds)
}

/// Of how many seeds a number is, where that is not the usual.
fn of_fewer(count: usize, seeds: usize) -> String {
    if count == seeds { String::new() } else { format!(" n={count}") }
}

/// A mean and its error in percent.
fn in_words(estimate: &Estimate) -> String {
    let (value, unit) = match estimate.mean {
        mean if mean >= 999.5e6 => (mean / 1e9, "G"),
        mean if mean >= 999.5e3 => (mean / 1e6, "M"),
        mean if mean >= 9_999.5 => (mean / 1e3, "k"),
        mean => (mean, ""),
    };
    let mean = significant(value, 4) + unit;
    match estimate.error() {
        Some(error) if estimate.mean > 0.0 => format!("{mean} ±{:.1} %", error / estimate.mean * 100.0),
        _ => mean,
    }
}

fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut distinct, value| {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
        distinct
    })
}
