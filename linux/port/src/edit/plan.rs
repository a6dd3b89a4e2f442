//! Finds the place of every edit before anything is written.
//!
//! The idea: all edits of a file are resolved against its untouched text. They are then put together from left to
//! right. Edits at the same position keep the order of the list. A place inside text that another edit replaces is a
//! problem, because its anchor is gone.
//!
//! Cost: each edited file is in memory twice, before and after; the largest of Linux's have some 300 KiB.
//!
//! Rejected: applying edits one after the other to the same text. An anchor could then match text of an earlier edit.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use framewright_table::figures::counted;

use super::list::{Edit, EditList};
use super::place::{Replacement, place};
use super::problem::{EditError, Problem, ProblemKind};
use super::version::KernelVersion;

/// What all edits together make of a tree. Nothing is written yet.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The version of the tree.
    pub version: KernelVersion,
    /// The changed files, by path.
    pub files: Vec<FileChange>,
    /// Optional edits that find no place.
    pub left_out: Vec<LeftOut>,
    /// Number of edits that are for other versions.
    pub other_versions: usize,
}

/// The text of a changed file.
#[derive(Clone, Debug)]
pub struct FileChange {
    /// Path in the tree.
    pub file: String,
    /// The text after all edits.
    pub text: String,
    /// Number of edits of the file.
    pub edits: usize,
    /// Lines that are new.
    pub added: usize,
    /// Lines that are gone.
    pub removed: usize,
}

/// An optional edit that finds no place, and why.
#[derive(Clone, Debug)]
pub struct LeftOut(pub Problem);

/// Prints what a plan does, a line for each file.
#[derive(Debug)]
pub struct Summary<'a>(pub &'a Plan);

impl Plan {
    /// Finds the place of every edit of the list that is for the tree's version.
    ///
    /// # Errors
    ///
    /// The directory is no source tree of Linux, or edits find no place: then all of these are in the error.
    pub fn new(list: &EditList, tree: &Path) -> Result<Plan, EditError> {
        let version = version_of(tree)?;
        let numbered = (1..).zip(&list.edits);
        let (ours, others): (Vec<_>, Vec<_>) = numbered.partition(|(_, edit)| edit.is_for(version));
        let mut by_file: BTreeMap<&str, Vec<(usize, &Edit)>> = BTreeMap::new();
        for (number, edit) in ours {
            by_file.entry(&edit.file).or_default().push((number, edit));
        }
        let mut plan = Plan { version, files: Vec::new(), left_out: Vec::new(), other_versions: others.len() };
        let mut problems = Vec::new();
        for (file, edits) in by_file {
            let text = fs::read_to_string(tree.join(file)).ok();
            let replacements = plan.places(&edits, text.as_deref(), &mut problems);
            if let Some(text) = text.filter(|_| !replacements.is_empty()) {
                plan.files.push(changed(file, &text, replacements));
            }
        }
        problems.sort_by_key(|problem| problem.number);
        match problems.is_empty() {
            true => Ok(plan),
            false => Err(EditError::NoPlace { version, problems }),
        }
    }

    /// The places of all edits of one file, from left to right; `text` is `None` if there is no such file.
    fn places(
        &mut self,
        edits: &[(usize, &Edit)],
        text: Option<&str>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Replacement> {
        let mut replacements: Vec<Replacement> = Vec::new();
        for (number, edit) in edits {
            let found = text.ok_or(ProblemKind::NoFile).and_then(|text| place(edit, *number, text));
            let free = found.and_then(|found| match replacements.iter().find(|other| overlap(other, &found)) {
                Some(other) => Err(ProblemKind::Overlap(other.number)),
                None => Ok(found),
            });
            match free {
                Ok(replacement) => replacements.push(replacement),
                Err(kind) => {
                    let (file, function) = (edit.file.clone(), edit.function.clone());
                    let problem = Problem { number: *number, file, function, kind };
                    if edit.optional { self.left_out.push(LeftOut(problem)) } else { problems.push(problem) }
                }
            }
        }
        // The sort is stable: edits at the same position keep their order.
        replacements.sort_by_key(|replacement| (replacement.range.start, replacement.range.end));
        replacements
    }
}

/// The version of a tree, by its Makefile.
fn version_of(tree: &Path) -> Result<KernelVersion, EditError> {
    let path = tree.join("Makefile");
    let text = fs::read_to_string(&path).map_err(|error| EditError::io("read", &path, error))?;
    KernelVersion::of_makefile(&text).ok_or(EditError::NotLinux { path })
}

/// Whether one of two replacements takes text that the other needs.
fn overlap(one: &Replacement, other: &Replacement) -> bool {
    one.range.start < other.range.end && other.range.start < one.range.end
}

/// The file's text with the replacements, which are sorted and do not overlap.
fn changed(file: &str, text: &str, replacements: Vec<Replacement>) -> FileChange {
    let mut change = FileChange {
        file: file.to_owned(),
        text: String::with_capacity(text.len() + 4096),
        edits: replacements.len(),
        added: 0,
        removed: 0,
    };
    let mut done = 0;
    for Replacement { range, text: new, .. } in replacements {
        change.text += text.get(done..range.start).unwrap_or_default();
        change.text += &new;
        let old = text.get(range.clone()).unwrap_or_default();
        // A replaced part of a line counts as its line.
        let part_of_line = usize::from(!range.is_empty());
        change.added += new.matches('\n').count() + part_of_line;
        change.removed += old.matches('\n').count() + part_of_line;
        done = range.end;
    }
    change.text += text.get(done..).unwrap_or_default();
    change
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary(plan) = self;
        let sum = |number: fn(&FileChange) -> usize| plan.files.iter().map(number).sum::<usize>();
        let width = plan.files.iter().map(|file| file.file.len()).max().unwrap_or_default();
        for FileChange { file, edits, added, removed, .. } in &plan.files {
            writeln!(f, "{file:width$}  +{added:<3} -{removed:<3} {}", counted(*edits, "edit"))?;
        }
        for LeftOut(problem) in &plan.left_out {
            writeln!(f, "left out, optional: {problem}")?;
        }
        let (edits, files) = (counted(sum(|file| file.edits), "edit"), counted(plan.files.len(), "file"));
        let (added, removed) = (counted(sum(|file| file.added), "line"), sum(|file| file.removed));
        write!(f, "Linux {}: {edits} in {files}, {added} added, {removed} removed", plan.version)?;
        match plan.other_versions {
            0 => Ok(()),
            others => write!(f, "; for other versions: {}", counted(others, "edit")),
        }
    }
}
