//! A comparison for people, in the style of Go's `benchstat`: a median with its interval for each column, and the
//! change against the first column with its probability.
//!
//! `~` stands where chance may explain the difference. Numbers have four digits and a prefix, counts all of theirs.
//! Long names are cut, and stand below in full.

use std::fmt;

use framewright_table::figures::{grouped, significant};

use super::comparison::Comparison;
use super::names::Short;
use super::statistics::{least_count, least_for_interval};
use super::table::{Against, Difference, FigureRow, SampleCell, UnitTable};
use crate::compare::points::Better;

/// Columns that a name may take.
const NAME: usize = 44;
/// Columns that a side's name may take.
const SIDE: usize = 24;

/// Prints a comparison.
pub struct Text<'c>(pub &'c Comparison);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { kind, common, columns, warnings, tables, .. } = self.0;
        writeln!(f, "files of {}", kind.command())?;
        for fact in common {
            writeln!(f, "{}: {}", fact.name, fact.value)?;
        }
        for column in columns {
            let facts: Vec<String> = column.facts.iter().map(|fact| format!("{} {}", fact.name, fact.value)).collect();
            if !facts.is_empty() {
                writeln!(f, "{}: {}", column.name, facts.join(", "))?;
            }
        }
        for warning in warnings {
            writeln!(f, "warning: {warning}")?;
        }
        let sides = Short::of(columns.iter().map(|column| column.name.as_str()), SIDE);
        let labels = Short::of(self.0.figure_rows().map(|row| row.label.as_str()), NAME);
        for table in tables {
            writeln!(f)?;
            self.table(f, table, (&labels, &sides))?;
        }
        let legend = sides.legend() + &labels.legend();
        if !legend.is_empty() {
            write!(f, "\n{legend}")?;
        }
        self.notes(f)
    }
}

impl Text<'_> {
    fn table(&self, f: &mut fmt::Formatter<'_>, table: &UnitTable, (labels, sides): (&Short, &Short)) -> fmt::Result {
        let columns = &self.0.columns;
        let mut lines = vec![vec![heading(table)]];
        lines[0].extend(columns.iter().map(|column| sides.shown(&column.name).to_owned()));
        for row in &table.rows {
            let mut line = vec![labels.shown(&row.label).to_owned()];
            line.extend(row.cells.iter().map(|cell| cell.as_ref().map_or("-".to_owned(), |cell| middle(row, cell))));
            lines.push(line);
        }
        let means = geomeans(table, columns.len());
        if !means.is_empty() {
            let mut line = vec!["geomean".to_owned()];
            line.extend(means.iter().map(|mean| mean.map_or("-".to_owned(), |(mean, _)| number(mean) + "      ")));
            lines.push(line);
        }
        let width = |i: usize| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..=columns.len()).map(width).collect();
        let changes = |line: usize, column: usize| match line.checked_sub(1).map(|row| table.rows.get(row)) {
            None => String::new(),
            Some(Some(row)) => row.cells[column].as_ref().map_or(String::new(), |cell| change(row, cell)),
            Some(None) => means[column].and_then(|(_, ratio)| ratio).map_or(String::new(), percent),
        };
        let changes: Vec<Vec<String>> =
            (0..lines.len()).map(|line| (0..columns.len()).map(|column| changes(line, column)).collect()).collect();
        let change_width = |column: usize| changes.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        for (line, changes) in lines.iter().zip(&changes) {
            let mut text = format!("{:<1$}", line[0], widths[0]);
            for column in 0..columns.len() {
                text += &format!("  {:>1$}", line[column + 1], widths[column + 1]);
                if column > 0 {
                    text += &format!("  {:<1$}", changes[column], change_width(column));
                }
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        Ok(())
    }

    fn notes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = || self.0.figure_rows().filter(|row| !row.exact);
        let cells = || rows().flat_map(|row| row.cells.iter().flatten());
        if cells().any(|cell| cell.interval.is_none()) {
            writeln!(f, "\n± ∞: an interval of 95 % needs {} measurements or more", least_for_interval())?;
        }
        let few = |row: &FigureRow| {
            let count = |cell: &Option<SampleCell>| cell.as_ref().is_some_and(|cell| cell.values.len() < least_count());
            row.cells.iter().skip(1).flatten().any(|cell| cell.against.is_some()) && row.cells.iter().any(count)
        };
        if rows().any(few) {
            writeln!(
                f,
                "\n~: a difference needs {} measurements or more on each side to be believed: {}",
                least_count(),
                self.0.kind.more()
            )?;
        }
        Ok(())
    }
}

/// The unit, and which way is better if all rows agree on it.
fn heading(table: &UnitTable) -> String {
    let better = table.rows.first().map_or(Better::Neither, |row| row.better);
    let agreed = table.rows.iter().all(|row| row.better == better);
    match better {
        Better::Higher if agreed => format!("{}, more is better", table.unit),
        Better::Lower if agreed => format!("{}, less is better", table.unit),
        _ => table.unit.clone(),
    }
}

/// A median and its interval.
fn middle(row: &FigureRow, cell: &SampleCell) -> String {
    if row.exact {
        let is_small_count = cell.median.fract() == 0.0 && cell.median.abs() < 100.0;
        return if is_small_count { format!("{:.0}", cell.median) } else { grouped(cell.median) };
    }
    let spread = match (cell.interval, cell.summary().spread_percent()) {
        (None, _) => "∞ ".to_owned(),
        (_, Some(spread)) => format!("{spread:.0}%"),
        (_, None) => "? ".to_owned(),
    };
    format!("{} ± {spread:>3}", number(cell.median))
}

/// Against the base: by how much, how sure, and what that means.
fn change(row: &FigureRow, cell: &SampleCell) -> String {
    let Some(against) = cell.against else { return String::new() };
    let Against { delta_percent, p, verdict } = against;
    let delta = match verdict {
        Difference::Unclear => "~".to_owned(),
        Difference::Same => "=".to_owned(),
        _ => delta_percent.map_or("from 0".to_owned(), |delta| percent(1.0 + delta / 100.0)),
    };
    let base = row.cells.first().and_then(Option::as_ref).map_or(0, |base| base.values.len());
    let counts = if base == cell.values.len() { base.to_string() } else { format!("{base}+{}", cell.values.len()) };
    let sure = p.map_or("(exact)".to_owned(), |p| format!("(p={p:.3} n={counts})"));
    let word = match verdict {
        Difference::Better => " better",
        Difference::Worse => " worse",
        _ => "",
    };
    format!("{delta:>8} {sure}{word}")
}

/// A ratio as a change in percent.
fn percent(ratio: f64) -> String {
    format!("{:>8}", format!("{:+.2}%", (ratio - 1.0) * 100.0))
}

/// Of each column the geometric mean of its medians, and of their ratios to the base's where both have a row. None at
/// all if that would say nothing: of one row, of counts, of different figures, or where one is not above zero.
pub(crate) fn geomeans(table: &UnitTable, columns: usize) -> Vec<Option<(f64, Option<f64>)>> {
    let alike = table.rows.iter().all(|row| row.metric == table.rows[0].metric && !row.exact);
    let positive = table.rows.iter().flat_map(|row| row.cells.iter().flatten()).all(|cell| cell.median > 0.0);
    if table.rows.len() < 2 || !alike || !positive {
        return Vec::new();
    }
    let mean = |values: Vec<f64>| {
        let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
        (!values.is_empty()).then(|| (logarithms / values.len() as f64).exp())
    };
    let median = |row: &FigureRow, column: usize| row.cells[column].as_ref().map(|cell| cell.median);
    let of = |column: usize| {
        let own = mean(table.rows.iter().filter_map(|row| median(row, column)).collect())?;
        let ratio = |row: &FigureRow| Some(median(row, column)? / median(row, 0)?);
        let ratio = (column > 0).then(|| mean(table.rows.iter().filter_map(ratio).collect())).flatten();
        Some((own, ratio))
    };
    (0..columns).map(of).collect()
}

/// Four digits, and a prefix for thousands.
fn number(value: f64) -> String {
    let (mut value, mut prefixes) = (value, ["", "k", "M", "G", "T"].into_iter());
    let mut prefix = prefixes.next().unwrap_or_default();
    while value.abs() >= 999.95 {
        let Some(next) = prefixes.next() else { break };
        value /= 1000.0;
        prefix = next;
    }
    significant(value, 4) + prefix
}
