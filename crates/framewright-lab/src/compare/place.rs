//! Points into rows and columns, and the differences beside the compared one.
//!
//! A column is a file (or several together), a set of mechanisms, or a contender. Any other fact that varies inside of
//! a column becomes part of its rows' names. A fact that is constant in a column is told of the column, and a fact that
//! is constant everywhere is told once. So two cells of a row are runs of one thing, and the points of one cell are its
//! sample. The first column is the base.
//!
//! A run without chance (of the simulator, for a seed) counts once however often it is given: two copies of a number
//! are no two measurements.

use super::points::{FigurePoint, Metric, Subject};
use super::read::Document;
use super::table::{Against, By, Column, Fact, FigureRow, SampleCell, UnitTable};

/// An argument: files whose runs are one sample.
pub struct Side {
    /// The name of its column.
    pub name: String,
    /// The documents in the files.
    pub documents: Vec<Document>,
}

/// Points on their way into tables.
pub struct Placed {
    by: By,
    /// Which facts vary inside of a column, and so belong into names.
    varying: Vec<&'static str>,
    /// The facts about all columns.
    pub common: Vec<Fact>,
    /// The columns.
    pub columns: Vec<Column>,
    /// Warnings about the numbers.
    pub warnings: Vec<String>,
    /// The key of each column: two arguments may have one name.
    keys: Vec<String>,
    rows: Vec<Gathered>,
}

/// A row that is being gathered.
struct Gathered {
    name: String,
    workload: String,
    machine: String,
    cpus: Option<usize>,
    metric: Metric,
    /// For each column its points.
    cells: Vec<Vec<CellPoint>>,
}

/// A point in its cell: seed, setting and values.
type CellPoint = (Option<u64>, String, Vec<f64>);

/// A fact about runs: its name, and how it is read off.
type FactReader = (&'static str, fn(&Subject) -> &str);

/// The facts that may vary besides workload and CPUs.
const FACTS: [FactReader; 3] = [
    ("mechanisms", |subject| &subject.mechanisms),
    ("allocator", |subject| &subject.allocator),
    ("machine", |subject| &subject.machine),
];

impl Placed {
    /// Finds the columns of all points, each of which is given with the number of its side.
    pub fn new(sides: &[Side], by: By, all: &[(usize, FigurePoint)]) -> Self {
        let mut keys: Vec<String> = Vec::new();
        for (side, point) in all {
            let key = key(by, *side, &point.subject);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let of_column = |column: &String| -> Vec<&(usize, FigurePoint)> {
            all.iter().filter(|(side, point)| key(by, *side, &point.subject) == *column).collect()
        };
        let groups: Vec<Vec<&(usize, FigurePoint)>> = keys.iter().map(of_column).collect();
        let varies = |read: fn(&Subject) -> &str| groups.iter().any(|group| distinct(group, read).len() > 1);
        let varying = FACTS.iter().filter(|(_, read)| varies(*read)).map(|(name, _)| *name).collect();
        let (common, columns, warnings, rows) = Default::default();
        let mut placed = Self { by, varying, common, columns, warnings, keys, rows };
        placed.tell(sides, &groups);
        placed
    }

    /// Fills the facts about columns, and about all of them.
    fn tell(&mut self, sides: &[Side], groups: &[Vec<&(usize, FigurePoint)>]) {
        let facts_of = |group: &Vec<&(usize, FigurePoint)>| -> Vec<Fact> {
            let told = |name: &&str| !self.varying.contains(name) && *name != self.by.fact();
            let constant = FACTS.iter().filter(|(name, _)| told(name)).filter_map(|(name, read)| {
                let value = distinct(group, *read).first().map(|value| (*value).to_owned())?;
                (!value.is_empty()).then_some(Fact { name, value })
            });
            let seeds = seeds(group).map(|value| Fact { name: "seeds", value });
            let files = (self.by != By::File && sides.len() > 1).then(|| files(sides, group));
            let files = files.map(|value| Fact { name: "files", value });
            constant.chain(seeds).chain(files).collect()
        };
        let facts: Vec<Vec<Fact>> = groups.iter().map(facts_of).collect();
        let everywhere = |fact: &&Fact| facts.iter().all(|facts| facts.contains(fact));
        self.common = facts.first().into_iter().flatten().filter(everywhere).cloned().collect();
        let own = |facts: Vec<Fact>| facts.into_iter().filter(|fact| !self.common.contains(fact)).collect();
        let name = |group: &[&(usize, FigurePoint)]| match (self.by, group.first()) {
            (By::File, Some((side, _))) => sides.get(*side).map_or(String::new(), |side| side.name.clone()),
            (_, Some((side, point))) => key(self.by, *side, &point.subject),
            (_, None) => String::new(),
        };
        let columns =
            groups.iter().zip(facts.clone()).map(|(group, facts)| Column { name: name(group), facts: own(facts) });
        self.columns = columns.collect();
        let machines = self.columns.iter().filter_map(|column| column.facts.iter().find(|fact| fact.name == "machine"));
        let machines: Vec<String> = machines.map(|fact| fact.value.clone()).collect();
        if !machines.is_empty() {
            let machines = machines.join(" and ");
            self.warnings.push(format!("the machines differ ({machines}), so a difference may be theirs alone"));
        }
    }

    /// Puts all points into their cells.
    pub fn fill(&mut self, all: &[(usize, FigurePoint)]) {
        for (side, point) in all {
            let key = key(self.by, *side, &point.subject);
            let Some(column) = self.keys.iter().position(|known| *known == key) else { continue };
            let name = self.row_name(&point.subject);
            let row = self.rows.iter().position(|row| row.name == name && row.metric == point.metric);
            let row = row.unwrap_or_else(|| {
                let Subject { name: workload, machine, cpus, .. } = point.subject.clone();
                let (metric, cells) = (point.metric.clone(), vec![Vec::new(); self.columns.len()]);
                self.rows.push(Gathered { name: name.clone(), workload, machine, cpus, metric, cells });
                self.rows.len() - 1
            });
            let Subject { seed, setting, .. } = &point.subject;
            let has_chance = seed.is_none() && !point.metric.exact;
            let cell = &mut self.rows[row].cells[column];
            let twin = cell.iter().find(|(known, how, _)| !has_chance && known == seed && how == setting);
            match twin.map(|(.., values)| *values == point.values) {
                None => cell.push((*seed, setting.clone(), point.values.clone())),
                Some(true) => self.warn("the same run is there more than once, and counts once", &name),
                Some(false) => {
                    let what = match seed {
                        Some(seed) => {
                            format!("runs with seed {seed} that should be equal differ: two versions of the program?")
                        }
                        None => {
                            "runs without chance that should be equal differ: two versions of the program?".to_owned()
                        }
                    };
                    self.warn(&what, &name);
                    self.rows[row].cells[column].push((*seed, setting.clone(), point.values.clone()));
                }
            }
        }
        self.check_settings();
    }

    /// Says once what holds for one row or more.
    fn warn(&mut self, what: &str, row: &str) {
        if !self.warnings.iter().any(|warning| warning.starts_with(what)) {
            self.warnings.push(format!("{what} ({row})"));
        }
    }

    /// Runs of one row that were of another length, or made in another way.
    fn check_settings(&mut self) {
        let mut found = Vec::new();
        for row in &self.rows {
            let mut settings: Vec<&str> = row.cells.iter().flatten().map(|(_, how, _)| how.as_str()).collect();
            settings.sort_unstable();
            settings.dedup();
            if settings.len() > 1 {
                found.push((format!("runs of one row were not made alike: {}", settings.join("; ")), row.name.clone()));
            }
        }
        for (what, row) in found {
            self.warn(&what, &row);
        }
    }

    /// A row's name: the workload, the facts that vary in a column, and CPUs after a dash, as Go and will-it-scale
    /// write it.
    fn row_name(&self, subject: &Subject) -> String {
        let varying = FACTS.iter().filter(|(name, _)| self.varying.contains(name) && *name != self.by.fact());
        let parts = varying.map(|(_, read)| read(subject)).filter(|part| !part.is_empty());
        let name: Vec<&str> = [subject.name.as_str()].into_iter().chain(parts).collect();
        let cpus = subject.cpus.map_or(String::new(), |cpus| format!("-{cpus}"));
        name.join("/") + &cpus
    }

    /// The tables, one for each unit, in the order in which units came up.
    pub fn tables(&self) -> Vec<UnitTable> {
        let mut tables: Vec<(String, Vec<&Gathered>)> = Vec::new();
        for row in &self.rows {
            match tables.iter_mut().find(|(unit, _)| *unit == row.metric.unit) {
                Some((_, rows)) => rows.push(row),
                None => tables.push((row.metric.unit.clone(), vec![row])),
            }
        }
        tables.into_iter().map(|(unit, rows)| UnitTable { unit, rows: self.rows_of(&rows) }).collect()
    }

    fn rows_of(&self, rows: &[&Gathered]) -> Vec<FigureRow> {
        let one_name = rows.iter().all(|row| row.name == rows[0].name);
        let one_metric = rows.iter().all(|row| row.metric.name == rows[0].metric.name);
        let label = |row: &Gathered| match (one_name, one_metric) {
            (_, true) => row.name.clone(),
            (true, false) => row.metric.name.clone(),
            _ => format!("{}: {}", row.name, row.metric.name),
        };
        let finished = |row: &&Gathered| {
            let sample = |points: &Vec<CellPoint>| {
                SampleCell::new(points.iter().flat_map(|(.., values)| values.iter().copied()).collect())
            };
            let mut cells: Vec<Option<SampleCell>> = row.cells.iter().map(sample).collect();
            let Metric { name: metric, better, exact, .. } = row.metric.clone();
            if let Some((Some(base), others)) = cells.split_first_mut() {
                for cell in others.iter_mut().flatten() {
                    cell.against = Some(Against::new(base, cell, better, exact));
                }
            }
            let (name, workload, machine) = (row.name.clone(), row.workload.clone(), row.machine.clone());
            FigureRow { label: label(row), name, workload, machine, cpus: row.cpus, metric, better, exact, cells }
        };
        rows.iter().map(finished).collect()
    }
}

/// Which column a point belongs to.
fn key(by: By, side: usize, subject: &Subject) -> String {
    match by {
        By::File => side.to_string(),
        By::Mechanisms => subject.mechanisms.clone(),
        By::Allocator => subject.allocator.clone(),
    }
}

/// Values of a fact in a column, in the order in which they came up.
fn distinct<'p>(group: &[&'p (usize, FigurePoint)], read: fn(&Subject) -> &str) -> Vec<&'p str> {
    let mut found = Vec::new();
    for (_, point) in group {
        let value = read(&point.subject);
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Seeds of a column, as `1-6` or `1,4`.
fn seeds(group: &[&(usize, FigurePoint)]) -> Option<String> {
    let mut seeds: Vec<u64> = group.iter().filter_map(|(_, point)| point.subject.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let runs = seeds.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let text = |run: &[u64]| match run {
        [only] => only.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    (!seeds.is_empty()).then(|| runs.map(text).collect::<Vec<_>>().join(","))
}

/// Arguments that a column is from.
fn files(sides: &[Side], group: &[&(usize, FigurePoint)]) -> String {
    let from = |number: &usize| group.iter().any(|(side, _)| side == number);
    let names: Vec<&str> = (0..sides.len()).filter(from).map(|number| sides[number].name.as_str()).collect();
    names.join(" and ")
}
