//! The results for people, in at most 100 columns.
//!
//! A workload is a table of contenders, the limit first, the project's own next; the sizes of a batch are columns of
//! one table. Own rows are marked, and bold on a terminal. Spreads that have no room here are in the JSON form. The
//! promises come last, because a reader scrolls back from there.

use std::fmt;

use framewright_table::figures::grouped;
use framewright_table::{Table as Sheet, cells, wrapped};

use crate::entry::Role;
use crate::goals::Goal;
use crate::report::Report;
use crate::row::{Row, threads_text};
use crate::workload::Shape;

/// Prints a report as text.
pub struct Table<'a> {
    /// The report.
    pub report: &'a Report,
    /// Whether to print own rows in bold.
    pub bold: bool,
}

/// Workloads that stand in one table.
struct Group {
    name: String,
    about: String,
    limit: String,
    workloads: Vec<Shape>,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        for group in self.groups() {
            for threads in self.thread_counts(&group) {
                writeln!(f, "\n{}, {}: {} (limit: {})", group.name, threads_text(threads), group.about, group.limit)?;
                match group.workloads.as_slice() {
                    &[only] => self.detailed(f, only, threads)?,
                    all => self.matrix(f, all, threads)?,
                }
            }
        }
        self.goals(f)?;
        for failure in &self.report.failures {
            writeln!(f, "\nFAILED: {failure}")?;
        }
        for note in &self.report.notes {
            writeln!(f, "\nNote: {note}.")?;
        }
        Ok(())
    }
}

impl Table<'_> {
    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { machine, rounds, cell_ms, mechanisms, .. } = self.report;
        let cpus = if machine.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", machine.cpus) };
        writeln!(
            f,
            "{}, {cpus}, {}{}",
            machine.cpu,
            machine.kernel,
            match &machine.rustc {
                Some(rustc) => format!(", {}", rustc.split(" (").next().unwrap_or(rustc)),
                None => String::new(),
            }
        )?;
        write!(f, "{}", wrapped(&format!("mechanisms {mechanisms}"), ',', 96, 2))?;
        writeln!(
            f,
            "nanoseconds of a thread for each page: median of {rounds} rounds of about {cell_ms} ms, min-max,"
        )?;
        writeln!(f, "and ratio to the limit in the same round")
    }

    /// Workloads of a family that is a series are one table, if there are at least three of them.
    fn groups(&self) -> Vec<Group> {
        let measured = |shape: &Shape| self.report.rows.iter().any(|row| row.workload == shape.to_string());
        let shapes: Vec<Shape> = Shape::all().into_iter().filter(measured).collect();
        let mut groups: Vec<Group> = Vec::new();
        for &shape in &shapes {
            let family: Vec<Shape> = shapes.iter().copied().filter(|other| other.family() == shape.family()).collect();
            let series = matches!(shape, Shape::Batch { .. }) && family.len() > 2;
            if series && family[0] != shape {
                continue;
            }
            let (name, about) = if series { shape.series() } else { (shape.to_string(), shape.about()) };
            let workloads = if series { family } else { vec![shape] };
            groups.push(Group { name, about, limit: shape.limit().to_owned(), workloads });
        }
        groups
    }

    fn thread_counts(&self, group: &Group) -> Vec<usize> {
        let rows = self.report.rows.iter();
        let here = rows.filter(|row| group.workloads.iter().any(|shape| row.workload == shape.to_string()));
        let mut counts: Vec<usize> = here.map(|row| row.threads).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    fn row(&self, shape: Shape, threads: usize, allocator: &str) -> Option<&Row> {
        let workload = shape.to_string();
        let mut rows = self.report.rows.iter();
        rows.find(|row| row.workload == workload && row.threads == threads && row.allocator == allocator)
    }

    /// Contenders with a row in one of the workloads: limits, own, peers.
    fn contenders(&self, shapes: &[Shape], threads: usize) -> Vec<(&str, Role)> {
        let mut found: Vec<(&str, Role)> = Vec::new();
        for role in [Role::Limit, Role::Own, Role::Variant, Role::Peer] {
            for row in self.report.rows.iter().filter(|row| row.role == role && row.threads == threads) {
                let here = shapes.iter().any(|shape| row.workload == shape.to_string());
                if here && !found.iter().any(|(name, _)| *name == row.allocator) {
                    found.push((&row.allocator, role));
                }
            }
        }
        found
    }

    /// One workload: every number of it.
    fn detailed(&self, f: &mut fmt::Formatter<'_>, shape: Shape, threads: usize) -> fmt::Result {
        let contenders = self.contenders(&[shape], threads);
        let rows: Vec<&Row> = contenders.iter().filter_map(|(name, _)| self.row(shape, threads, name)).collect();
        let split = rows.iter().any(|row| row.alloc_ns.is_some());
        let scaled = rows.iter().any(|row| row.scaling.is_some());
        let mut head = cells!["", "ns", "min-max", "x limit"];
        let mut columns = "<25>8>22>10".to_owned();
        if split {
            head.extend(cells!["alloc", "free"]);
            columns += ">10>8";
        }
        if scaled {
            head.extend(cells!["x one thread"]);
            columns += ">17";
        }
        let mut table = Sheet::new(&columns);
        table.row(head);
        for row in rows {
            let range = format!("{}-{}", number(row.min), number(row.max));
            let mut cells = vec![number(row.ns_per_page), range, optional(row.ratio_to_limit)];
            if split {
                cells.extend([row.alloc_ns, row.free_ns].map(optional));
            }
            if scaled {
                cells.push(optional(row.scaling));
            }
            self.line(&mut table, &row.allocator, row.role, cells);
        }
        write!(f, "{table}")
    }

    /// Several sizes of one workload: medians, and ratios of own rows.
    fn matrix(&self, f: &mut fmt::Formatter<'_>, shapes: &[Shape], threads: usize) -> fmt::Result {
        let mut table = Sheet::new("<25>8");
        let sizes = shapes.iter().map(|shape| shape.unit().to_string());
        table.row(cells!["{:>25}" = "N ="].into_iter().chain(sizes).collect());
        for (name, role) in self.contenders(shapes, threads) {
            let rows = || shapes.iter().map(|&shape| self.row(shape, threads, name));
            let numbers = rows().map(|row| optional(row.map(|row| row.ns_per_page)));
            self.line(&mut table, name, role, numbers.collect());
            if matches!(role, Role::Own | Role::Variant) {
                let ratios = rows().map(|row| optional(row.and_then(|row| row.ratio_to_limit)));
                self.line(&mut table, "  x limit", role, ratios.collect());
            }
        }
        write!(f, "{table}")
    }

    fn line(&self, table: &mut Sheet, name: &str, role: Role, numbers: Vec<String>) {
        let own = role == Role::Own;
        let around = if own && self.bold { ["\x1b[1m", "\x1b[0m"] } else { ["", ""] };
        let marker = if own { '>' } else { ' ' };
        table.row_within(around, cells!["{marker} {name}"].into_iter().chain(numbers).collect());
    }

    fn goals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goals = &self.report.goals;
        let mut done: Vec<&str> = Vec::new();
        for first in goals {
            let name = first.allocator.as_str();
            if done.contains(&name) {
                continue;
            }
            done.push(name);
            let own: Vec<&Goal> = goals.iter().filter(|goal| goal.allocator == name).collect();
            let mut table = Sheet::new("<45>8>10<31<");
            table.row(cells!["Goals of {name}", "wanted", "measured", "worst at"]);
            for goal in &own {
                let wanted = format!("{} {}", goal.sense.sign(), goal.bound);
                let verdict = match goal.met {
                    Some(true) => "met",
                    Some(false) => "MISSED",
                    None => "",
                };
                let worst = goal.worst.as_deref().unwrap_or("not measured");
                let measured = optional(goal.measured);
                table.row(cells!["  {}" = goal.goal, "{wanted}", "{measured}", "{worst}", "{verdict}"]);
            }
            write!(f, "\n{table}")?;
            let judged = own.iter().filter(|goal| goal.met.is_some()).count();
            let met = own.iter().filter(|goal| goal.met == Some(true)).count();
            writeln!(f, "  {met} of {judged} met")?;
        }
        Ok(())
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// Three digits that count, and thousands apart.
fn number(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (0.0, "0.00"),
            (2.345, "2.35"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (999.6, "1,000"),
            (123_456.7, "123,457"),
            (1_234_567.0, "1,234,567"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
