//! Files beside each other: those that belong together, the choice of rows, and rows that got worse.

use std::collections::BTreeSet;

use framewright_table::figures::counted;
use serde::Serialize;

use super::place::{Placed, Side};
use super::points::{Better, FigurePoint, points, remarks};
use super::read::{Kind, ReadError};
use super::statistics::{can_differ, least_count};
use super::table::{Against, By, Column, Difference, Fact, FigureRow, UnitTable};

/// The choice of rows and columns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'c> {
    /// The kind of a column; by default files, or of one file its sets of mechanisms.
    pub by: Option<By>,
    /// Whether figures are shown that are usually left out.
    pub all: bool,
    /// Text that a row's name, or its figure's, must contain.
    pub only: Option<&'c str>,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A file is not what it should be.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Documents of different kinds.
    #[error("{0} is of {1}, {2} of {3}: they have no figure in common; compare files of one command")]
    Kinds(String, &'static str, String, &'static str),
    /// Nothing has allocators but benchmarks.
    #[error("--by allocator is for files of framewright bench; these are of {0}: --by mechanisms or --by file")]
    NoAllocators(&'static str),
    /// Nothing is left.
    #[error("neither a row nor a figure or its unit has {0:?} in its name; rows are {1}; figures are {2}")]
    Only(String, String, String),
    /// There was nothing.
    #[error("{0} has no figures to compare: nothing was measured in it; make it again")]
    Nothing(String),
    /// Nothing that got worse could be told from chance.
    #[error(
        "{row}: with {runs} a side nothing that got worse can be told from chance; {} a side are needed: {}",
        least_count(), .kind.more()
    )]
    Few {
        /// The first row with too few.
        row: String,
        /// How many there are of it in the base and in the other column.
        runs: String,
        /// Kind of the files.
        kind: Kind,
    },
    /// No column can be held against the base.
    #[error("nothing can have got worse: no row has both the base and another column; name a base and another file")]
    OneSide,
}

/// All that is shown.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Version of this form.
    pub schema: &'static str,
    /// Kind of the files.
    pub kind: Kind,
    /// The kind of a column.
    pub by: By,
    /// The facts about all columns.
    pub common: Vec<Fact>,
    /// The columns, the base first.
    pub columns: Vec<Column>,
    /// Warnings about the numbers.
    pub warnings: Vec<String>,
    /// A table for each unit.
    pub tables: Vec<UnitTable>,
}

/// Version of the JSON.
pub const SCHEMA: &str = "framewright-compare/1";

impl Comparison {
    /// Sets sides beside each other.
    ///
    /// # Errors
    /// Files that cannot be compared, or of which nothing is left.
    pub fn new(sides: &[Side], choice: Choice<'_>) -> Result<Self, CompareError> {
        let kind = one_kind(sides)?;
        let mut all = Vec::new();
        for (number, side) in sides.iter().enumerate() {
            for document in &side.documents {
                all.extend(points(document)?.into_iter().map(|point| (number, point)));
            }
        }
        if all.is_empty() {
            return Err(CompareError::Nothing(sides.first().map_or(String::new(), |side| side.name.clone())));
        }
        let by = choice.by.unwrap_or_else(|| usual(sides, &all));
        if by == By::Allocator && kind != Kind::Bench {
            return Err(CompareError::NoAllocators(kind.command()));
        }
        all.retain(|(_, point)| choice.all || point.metric.usual);
        let mut placed = Placed::new(sides, by, &all);
        placed.fill(&all);
        let mut tables = placed.tables();
        keep(&mut tables, choice.only)?;
        let remarks = sides
            .iter()
            .flat_map(|side| &side.documents)
            .flat_map(|document| remarks(document).into_iter().map(|remark| format!("{}: {remark}", document.file)));
        let warnings = placed.warnings.into_iter().chain(remarks).collect::<BTreeSet<String>>().into_iter().collect();
        Ok(Self { schema: SCHEMA, kind, by, common: placed.common, columns: placed.columns, warnings, tables })
    }

    /// Makes sure that something that got worse would be seen.
    ///
    /// # Errors
    /// There is nothing that could have, or a row has too few runs for any difference to be believed.
    pub fn judgeable(&self) -> Result<(), CompareError> {
        if self.differences().next().is_none() {
            return Err(CompareError::OneSide);
        }
        for row in self.figure_rows().filter(|row| !row.exact && row.better != Better::Neither) {
            let counts: Vec<usize> =
                row.cells.iter().map(|cell| cell.as_ref().map_or(0, |cell| cell.values.len())).collect();
            let Some((&base, others)) = counts.split_first() else { continue };
            let few = others.iter().find(|&&other| base > 0 && other > 0 && !can_differ(base, other));
            if let Some(other) = few {
                let runs = match base == *other {
                    true => counted(base, "measurement"),
                    false => format!("{base} and {}", counted(*other, "measurement")),
                };
                let row = format!("{} ({})", row.name, row.metric);
                return Err(CompareError::Few { row, runs, kind: self.kind });
            }
        }
        Ok(())
    }

    /// Rows that are worse by more than `percent` percent, and not by chance.
    pub fn worse_by(&self, percent: f64) -> Vec<String> {
        let mut worse = Vec::new();
        for (row, column, against) in self.differences() {
            let Against { delta_percent, verdict: Difference::Worse, .. } = against else { continue };
            if delta_percent.is_none_or(|delta| delta.abs() > percent) {
                let delta = delta_percent.map_or("from nothing".to_owned(), |delta| format!("{delta:+.2} %"));
                worse.push(format!("{} ({}): {delta} in {}", row.name, row.metric, column.name));
            }
        }
        worse
    }

    /// Rows of all tables.
    pub(super) fn figure_rows(&self) -> impl Iterator<Item = &FigureRow> {
        self.tables.iter().flat_map(|table| &table.rows)
    }

    fn differences(&self) -> impl Iterator<Item = (&FigureRow, &Column, Against)> {
        self.figure_rows().flat_map(|row| {
            let cells = row.cells.iter().zip(&self.columns);
            cells.filter_map(move |(cell, column)| Some((row, column, cell.as_ref()?.against?)))
        })
    }
}

/// The kind of all documents.
fn one_kind(sides: &[Side]) -> Result<Kind, CompareError> {
    let mut documents = sides.iter().flat_map(|side| &side.documents);
    let Some(first) = documents.next() else { return Err(CompareError::Nothing(String::new())) };
    match documents.find(|other| other.kind != first.kind) {
        None => Ok(first.kind),
        Some(other) => {
            Err(CompareError::Kinds(first.file.clone(), first.kind.command(), other.file.clone(), other.kind.command()))
        }
    }
}

/// The default kind of a column: files; of one file alone its sets of mechanisms.
fn usual(sides: &[Side], all: &[(usize, FigurePoint)]) -> By {
    let sets: BTreeSet<&str> = all.iter().map(|(_, point)| point.subject.mechanisms.as_str()).collect();
    if sides.len() == 1 && sets.len() > 1 { By::Mechanisms } else { By::File }
}

/// Leaves the rows that have `only` in their name, in their figure's or in its unit.
fn keep(tables: &mut Vec<UnitTable>, only: Option<&str>) -> Result<(), CompareError> {
    let Some(only) = only else { return Ok(()) };
    let rows = || tables.iter().flat_map(|table| &table.rows);
    let [names, figures] =
        [rows().map(|row| row.name.clone()).collect(), rows().map(|row| row.metric.clone()).collect()];
    let wanted = |row: &FigureRow| [&row.name, &row.label, &row.metric].iter().any(|name| name.contains(only));
    for table in tables.iter_mut().filter(|table| !table.unit.contains(only)) {
        table.rows.retain(wanted);
    }
    tables.retain(|table| !table.rows.is_empty());
    if tables.is_empty() { Err(CompareError::Only(only.to_owned(), some(&names), some(&figures))) } else { Ok(()) }
}

/// A dozen of them, and a sign that there are more.
fn some(names: &BTreeSet<String>) -> String {
    let mut some: Vec<&str> = names.iter().map(String::as_str).take(12).collect();
    if names.len() > some.len() {
        some.push("…");
    }
    some.join(", ")
}
