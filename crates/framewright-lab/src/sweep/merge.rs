//! Results of any number of processes as one list, in the plan's order.
//!
//! A result is a function of its cell, so two results of a cell have to be equal in every number. Unequal ones are kept
//! out of the list and reported with both of their places: a host computes wrongly, or the program is less
//! deterministic than it says. A result replaces a failure of its cell, because one host may fail where another does
//! not.

use std::collections::HashMap;

use serde::Serialize;

use super::cell::Cell;
use super::digest::Digest;
use super::plan::SweepPlan;
use super::results::{Outcome, ResultLine, ResultsContent};

/// Version of the merged JSON.
pub const SCHEMA: &str = "framewright-sweep/1";

/// Results in order, and what is not right about them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Merged {
    /// One for each cell, by their place in the plan; without what differs from one host to another.
    pub lines: Vec<ResultLine>,
    /// Cells that came out in more than one way.
    pub differing: Vec<Differing>,
    /// Cells of the given plan that were not run, by index.
    pub missing: Vec<(usize, Cell)>,
    /// Results that are not of the plan, or that another version made, and how many.
    pub foreign: Vec<Foreign>,
    /// Results that were there more than once, and equal.
    pub repeated: usize,
    /// Files with a last line that was not written to its end.
    pub torn: Vec<String>,
}

/// A cell that came out in two ways.
#[derive(Clone, PartialEq, Debug)]
pub struct Differing {
    /// The cell.
    pub cell: Cell,
    /// Where each of them stands: the file, the line, and the line's text.
    pub places: [(String, usize, String); 2],
}

/// Results that do not belong to the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Foreign {
    /// The file.
    pub file: String,
    /// The version that made them.
    pub version: String,
    /// How many.
    pub lines: usize,
}

/// The JSON form.
#[derive(Serialize)]
struct MergedDocument<'m> {
    schema: &'static str,
    /// Indices of cells that were not run.
    missing: Vec<usize>,
    cells: &'m [ResultLine],
}

/// A cell while files are read.
struct Entry<'c> {
    line: &'c ResultLine,
    file: &'c str,
    number: usize,
    index: usize,
    differs: bool,
}

impl Merged {
    /// From what is in files; of a plan, if there is one.
    pub fn of(contents: &[ResultsContent], plan: Option<&SweepPlan>) -> Merged {
        let places = plan.map(|plan| {
            let place = |(index, (hash, _)): (usize, &(Digest, Cell))| (hash.clone(), index);
            plan.cells.iter().enumerate().map(place).collect::<HashMap<_, _>>()
        });
        let mut merged = Merged::default();
        let mut entries: HashMap<&Digest, Entry<'_>> = HashMap::new();
        for content in contents {
            if content.torn > 0 {
                merged.torn.push(content.name.clone());
            }
            for (number, line) in &content.lines {
                let place = places.as_ref().map_or(Some(line.index), |places| places.get(&line.hash).copied());
                let Some(index) = place else {
                    merged.foreigner(&content.name, &line.version);
                    continue;
                };
                let entry = Entry { line, file: &content.name, number: *number, index, differs: false };
                match entries.get_mut(&line.hash) {
                    Some(known) => merged.again(known, entry),
                    None => {
                        entries.insert(&line.hash, entry);
                    }
                }
            }
        }
        if let Some(plan) = plan {
            let is_missing = |(_, (hash, _)): &(usize, &(Digest, Cell))| !entries.contains_key(hash);
            let missing = plan.cells.iter().enumerate().filter(is_missing);
            merged.missing = missing.map(|(index, (_, cell))| (index, cell.clone())).collect();
        }
        let equal = entries.into_values().filter(|entry| !entry.differs);
        let lines = equal.map(|entry| ResultLine { index: entry.index, seconds: None, ..entry.line.clone() });
        merged.lines = lines.collect();
        merged.lines.sort_by(|a, b| (a.index, &a.hash).cmp(&(b.index, &b.hash)));
        merged
    }

    /// A cell that was there before.
    fn again<'c>(&mut self, known: &mut Entry<'c>, entry: Entry<'c>) {
        known.index = known.index.min(entry.index);
        let takes_its_place = match (&known.line.outcome, &entry.line.outcome) {
            (Outcome::Result(one), Outcome::Result(other)) if one == other => {
                self.repeated += 1;
                false
            }
            (Outcome::Result(_), Outcome::Result(_)) => {
                known.differs = true;
                let place = |entry: &Entry<'_>| {
                    let line = ResultLine { seconds: None, ..entry.line.clone() };
                    (entry.file.to_owned(), entry.number, line.json().unwrap_or_default())
                };
                self.differing.push(Differing { cell: known.line.cell.clone(), places: [place(known), place(&entry)] });
                false
            }
            (Outcome::Failure(_), Outcome::Result(_)) => true,
            (Outcome::Result(_), Outcome::Failure(_)) => false,
            // The first by the alphabet, so that the order of the files does not matter.
            (Outcome::Failure(one), Outcome::Failure(other)) => other < one,
        };
        if takes_its_place {
            let (index, differs) = (known.index, known.differs);
            *known = Entry { index, differs, ..entry };
        }
    }

    fn foreigner(&mut self, file: &str, version: &str) {
        let known = self.foreign.iter_mut().find(|foreign| foreign.file == file && foreign.version == version);
        match known {
            Some(foreign) => foreign.lines += 1,
            None => self.foreign.push(Foreign { file: file.to_owned(), version: version.to_owned(), lines: 1 }),
        }
    }

    /// Cells that failed.
    pub fn failed(&self) -> impl Iterator<Item = &ResultLine> {
        self.lines.iter().filter(|line| line.found().is_none())
    }

    /// Whether all cells are there with one result each.
    pub fn is_whole(&self) -> bool {
        self.differing.is_empty() && self.missing.is_empty() && self.failed().next().is_none()
    }

    /// Versions that the results are of, in the order of the results.
    pub fn versions(&self) -> Vec<&str> {
        self.lines.iter().fold(Vec::new(), |mut versions, line| {
            if !versions.contains(&line.version.as_str()) {
                versions.push(&line.version);
            }
            versions
        })
    }

    /// A line for each, in the format that they were read in.
    ///
    /// # Errors
    /// None that results could cause.
    pub fn jsonl(&self) -> anyhow::Result<String> {
        self.lines.iter().map(ResultLine::json).collect()
    }

    /// One document.
    ///
    /// # Errors
    /// None that results could cause.
    pub fn json(&self) -> anyhow::Result<String> {
        let missing = self.missing.iter().map(|(index, _)| *index).collect();
        let document = MergedDocument { schema: SCHEMA, missing, cells: &self.lines };
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }
}
