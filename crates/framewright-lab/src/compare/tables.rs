//! A comparison as the kernel's own testers print one: the tables of mmtests, and those of the 0-day robot (LKP).
//!
//! mmtests: a row for each statistic and figure. Rates have harmonic means, everything else arithmetic ones. The number
//! in parentheses is the improvement in percent, so that a rate that grows and a time that shrinks are both positive.
//! Stars instead of parentheses mark differences that chance does not explain. Counts without chance are rows of `Ops`.
//!
//! LKP: the base's mean, the change in percent of it (of shares in percent: in points), the other mean; each with its
//! standard deviation in percent if that is 2 or more. Both formats belong to other projects; this code follows
//! published tables.

use std::fmt::{self, Write as _};

use framewright_bench::foreign;

use super::comparison::Comparison;
use super::points::Better;
use super::table::{Difference, FigureRow, SampleCell};

/// Least columns of a name, and of a side.
const NAME: usize = 24;
const SIDE: usize = 28;

/// A statistic of mmtests: its name, and how it is read off.
type MmtestsStatistic = (&'static str, fn(&SampleCell) -> f64);

/// As `compare-kernels.sh` of mmtests.
pub struct Mmtests<'c>(pub &'c Comparison);

impl fmt::Display for Mmtests<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.0.figure_rows();
        let name = rows.map(|row| row.label.chars().count() + 12).max().unwrap_or(0).max(NAME);
        let heads = self.0.columns.iter().map(|column| column.name.chars().count());
        let of_row = |row: &FigureRow| {
            let all = statistics(row).iter();
            let cells = all.flat_map(|statistic| row.cells.iter().map(|cell| mmtests_cell(row, *statistic, cell)));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let cells = self.0.figure_rows().map(of_row);
        // All columns of all tables are as wide as the widest, which mmtests has as wide as their names.
        let side = (heads.chain(cells).max().unwrap_or(0) + 2).max(SIDE);
        for (number, table) in self.0.tables.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            writeln!(f, "{}", table.unit)?;
            let heads: Vec<(&str, &str)> = self.0.columns.iter().map(|column| two_rows(&column.name)).collect();
            for half in [|head: &(&'_ str, &'_ str)| head.0.to_owned(), |head: &(&'_ str, &'_ str)| head.1.to_owned()] {
                let cells: String = heads.iter().map(|head| format!("{:>side$}", half(head))).collect();
                writeln!(f, "{}", format!("{:name$}{cells}", "").trim_end())?;
            }
            for statistic in 0..4 {
                for row in &table.rows {
                    let Some((title, read)) = statistics(row).get(statistic).copied() else { continue };
                    let cells: String = row
                        .cells
                        .iter()
                        .map(|cell| format!("{:>side$}", mmtests_cell(row, (title, read), cell)))
                        .collect();
                    writeln!(f, "{:<name$}{cells}", format!("{title:<10}{}", one_word(&row.label)))?;
                }
            }
        }
        Ok(())
    }
}

/// The statistics of a row.
fn statistics(row: &FigureRow) -> &'static [MmtestsStatistic] {
    const MEAN: fn(&SampleCell) -> f64 = |cell| cell.mean;
    const REST: [MmtestsStatistic; 3] = [
        ("Stddev", |cell| cell.deviation),
        ("CoeffVar", |cell| cell.summary().variation_percent()),
        ("Max", |cell| cell.values.iter().copied().fold(f64::MIN, f64::max)),
    ];
    match (row.exact, row.better) {
        (true, _) => &[("Ops", MEAN)],
        (_, Better::Higher) => &[("Hmean", harmonic), REST[0], REST[1], REST[2]],
        _ => &[("Amean", MEAN), REST[0], REST[1], REST[2]],
    }
}

/// The harmonic mean, which is that of rates; of numbers not above zero the arithmetic one.
fn harmonic(cell: &SampleCell) -> f64 {
    if cell.values.iter().any(|&value| value <= 0.0) {
        return cell.mean;
    }
    cell.values.len() as f64 / cell.values.iter().map(|value| value.recip()).sum::<f64>()
}

/// A statistic, and by how much it is better than the base's.
fn mmtests_cell(row: &FigureRow, (title, read): MmtestsStatistic, cell: &Option<SampleCell>) -> String {
    let Some(cell) = cell else { return "-".to_owned() };
    let value = read(cell);
    let Some(base) = row.cells.first().and_then(Option::as_ref).map(read) else { return format!("{value:.2}") };
    let spread = matches!(title, "Stddev" | "CoeffVar");
    let better = better_by((base, value), spread || row.better == Better::Lower);
    // A negative zero is no finding.
    let better = if better.abs() >= 0.005 { better } else { 0.0 };
    let sure = matches!(
        cell.against.map(|against| against.verdict),
        Some(Difference::Better | Difference::Worse | Difference::Differs)
    );
    if sure && matches!(title, "Hmean" | "Amean") {
        return format!("{value:.2} *{better:7.2}%*");
    }
    foreign::mmtests_cell(value, better)
}

/// By how many percent a number is better than the base's. No share of nothing is a number: a change from 0 is told as
/// mmtests' `pdiff` and `pndiff` tell it, by 100 if more is better and by -99 if less is.
fn better_by((base, value): (f64, f64), less_is_better: bool) -> f64 {
    if value == base {
        return 0.0;
    }
    let larger = (value - base) / base * 100.0;
    let (more, less) = if larger.is_finite() { (larger, -larger) } else { (100.0, -99.0) };
    if less_is_better { less } else { more }
}

/// A kernel's name in two rows, broken after its release: `4.20.0-rc3` and `vanilla`.
fn two_rows(name: &str) -> (&str, &str) {
    let candidate = name.find("-rc").map_or(0, |at| at + 1);
    match name[candidate..].find('-') {
        Some(at) => (&name[..candidate + at], &name[candidate + at + 1..]),
        None => ("", name),
    }
}

/// Without blanks.
fn one_word(text: &str) -> String {
    text.replace(": ", ":").replace(' ', "_")
}

/// As the 0-day robot prints what it found.
pub struct Lkp<'c>(pub &'c Comparison);

impl fmt::Display for Lkp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison { kind, common, columns, tables, .. } = self.0;
        writeln!(f, "{}", "=".repeat(89))?;
        writeln!(f, "{}:", common.iter().map(|fact| fact.name).chain(["testcase"]).collect::<Vec<_>>().join("/"))?;
        let values = common.iter().map(|fact| fact.value.as_str()).chain([kind.command()]);
        writeln!(f, "  {}\n\ncommit:", values.collect::<Vec<_>>().join("/"))?;
        for column in columns {
            let facts: Vec<String> = column.facts.iter().map(|fact| format!("{} {}", fact.name, fact.value)).collect();
            let facts = if facts.is_empty() { String::new() } else { format!(" (\"{}\")", facts.join(", ")) };
            writeln!(f, "  {}{facts}", column.name)?;
        }
        let short = |name: &str, width: usize| name.chars().take(width).collect::<String>();
        let mut lines = [String::new(), String::new(), String::new(), String::new()];
        for (number, column) in columns.iter().enumerate() {
            let (width, stddev, bar) = if number == 0 {
                (16, format!("{:>16}", "%stddev"), format!("{:>14}  ", "\\"))
            } else {
                (27, format!("{:>12}{:>16}", "%change", "%stddev"), format!("{:>11}{:>17}", "|", "\\  "))
            };
            write!(lines[0], "{:<width$} ", short(&column.name, width))?;
            write!(lines[1], "{} ", "-".repeat(width))?;
            lines[2] += &stddev;
            lines[3] += &bar;
        }
        write!(f, "\n{}\n{}\n{}\n{}\n", lines[0].trim_end(), lines[1].trim_end(), lines[2], lines[3].trim_end())?;
        for table in tables {
            for row in &table.rows {
                writeln!(f, "{}  {}", lkp_row(row, &table.unit), lkp_name(row, &table.unit))?;
            }
        }
        Ok(())
    }
}

/// Whether a unit is a share in percent; changes of a share are told in points.
fn is_share(unit: &str) -> bool {
    unit.starts_with('%')
}

fn lkp_row(row: &FigureRow, unit: &str) -> String {
    let value = |cell: &Option<SampleCell>, width: usize| match cell {
        None => format!("  {:>1$}      ", "-", width - 2),
        Some(cell) => {
            let spread = cell.summary().variation_percent();
            let spread = if spread.round() >= 2.0 { format!(" ±{spread:3.0}%") } else { " ".repeat(6) };
            // The change before it has its own column; two blanks at least.
            format!("  {:>1$}{spread}", lkp_number(cell.mean), width - 2)
        }
    };
    let base = row.cells.first().and_then(Option::as_ref);
    let mut text = row.cells.first().map_or(String::new(), |cell| value(cell, 10));
    for cell in row.cells.iter().skip(1) {
        let change = base.zip(cell.as_ref()).map_or(" ".repeat(11), |(base, cell)| {
            if is_share(unit) {
                return format!("{:>+10.1} ", cell.mean - base.mean);
            }
            let change = (cell.mean / base.mean - 1.0) * 100.0;
            match change {
                _ if cell.mean == base.mean => format!("{:>11}", "+0.0%"),
                change if !change.is_finite() => format!("{:>11}", "from 0"),
                change if change.abs() >= 1e5 => format!("{:>11}", format!("{change:+.1e}%")),
                change => format!("{:>11}", format!("{change:+.1}%")),
            }
        });
        text += &change;
        text += &value(cell, 11);
    }
    text
}

/// Two decimals below a thousand, none above, an exponent above a hundred million.
fn lkp_number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e8 => format!("{value:.3e}").replace('e', "e+"),
        size if size >= 1e3 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

/// `workload.CPUs.figure`, with a percent sign after that of a share.
fn lkp_name(row: &FigureRow, unit: &str) -> String {
    let figure = one_word(&row.metric);
    let unit = if is_share(unit) { "%".to_owned() } else { format!("_{}", one_word(&unit.replace('/', "_per_"))) };
    format!("{}.{figure}{unit}", one_word(&row.name))
}
