//! Turns one edit into a replacement of a range of a file's text.
//!
//! The idea: every place is a range of bytes and the text that replaces it. For the places that only insert, the range
//! is empty and lies at the start of a line. Replacements of one file can then be checked for overlaps and be put
//! together without regard to their kinds.
//!
//! Cost: a search of the file. Rejected: lines instead of bytes, because `replace` may change a part of a line.

use std::ops::Range;

use super::anchor::{longest_beginning, matches};
use super::c_text::{Function, definitions, line_end, line_start};
use super::list::{Edit, Place};
use super::problem::ProblemKind;

/// A range of a file's text, and what comes in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    /// Number of the edit in its list, from 1.
    pub(super) number: usize,
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

/// Finds the place of edit `number` in `text`, the untouched text of its file.
pub(super) fn place(edit: &Edit, number: usize, text: &str) -> Result<Replacement, ProblemKind> {
    let functions = functions(edit, text)?;
    match edit.place {
        Place::Before | Place::After | Place::Replace => at_anchor(edit, number, text, &functions),
        Place::AtStart | Place::AtEnd => at_edge(edit, number, text, &functions),
    }
}

/// The definitions to search; empty means the whole file.
fn functions(edit: &Edit, text: &str) -> Result<Vec<Function>, ProblemKind> {
    let Some(name) = &edit.function else { return Ok(Vec::new()) };
    let definitions = definitions(text, name);
    match (definitions.unclosed, definitions.found.is_empty()) {
        (true, _) => Err(ProblemKind::Unclosed),
        (false, true) => Err(ProblemKind::NoFunction),
        (false, false) => Ok(definitions.found),
    }
}

/// The replacement of an edit that has an anchor.
fn at_anchor(edit: &Edit, number: usize, text: &str, functions: &[Function]) -> Result<Replacement, ProblemKind> {
    let anchor = edit.anchor.clone().unwrap_or_default();
    let whole = 0..text.len();
    let searched: Vec<Range<usize>> = match functions {
        [] => vec![whole],
        some => some.iter().map(|function| function.whole.clone()).collect(),
    };
    let part = |range: &Range<usize>| text.get(range.clone()).unwrap_or_default();
    let found: Vec<Range<usize>> = searched
        .iter()
        .flat_map(|range| {
            let moved = |found: Range<usize>| found.start + range.start..found.end + range.start;
            matches(part(range), &anchor).into_iter().map(moved)
        })
        .collect();
    let chosen = match (edit.occurrence, found.as_slice()) {
        (_, []) => {
            let beginning = searched.iter().find_map(|range| {
                let (words, at) = longest_beginning(part(range), &anchor)?;
                Some((words, line_number(text, range.start + at)))
            });
            return Err(ProblemKind::NoAnchor(anchor, beginning));
        }
        (None, [only]) => only,
        (None, many) => {
            let lines = many.iter().map(|range| line_number(text, range.start)).collect();
            return Err(ProblemKind::ManyAnchors(anchor, lines));
        }
        (Some(wanted), some) => match wanted.checked_sub(1).and_then(|index| some.get(index)) {
            Some(chosen) => chosen,
            None => return Err(ProblemKind::NoOccurrence(anchor, wanted, some.len())),
        },
    };
    Ok(replacement(edit, number, text, chosen))
}

/// The replacement for a match of the anchor.
fn replacement(edit: &Edit, number: usize, text: &str, chosen: &Range<usize>) -> Replacement {
    let bytes = text.as_bytes();
    let first = line_start(bytes, chosen.start);
    let line = text.get(first..chosen.start).unwrap_or_default();
    let indentation: String = line.chars().take_while(|character| matches!(character, ' ' | '\t')).collect();
    match edit.place {
        Place::Replace => {
            let text = edit.text.strip_suffix('\n').unwrap_or(&edit.text).to_owned();
            Replacement { number, range: chosen.clone(), text }
        }
        Place::Before => inserted(edit, number, text, first, &indentation),
        _ => inserted(edit, number, text, line_end(bytes, chosen.end.saturating_sub(1)), &indentation),
    }
}

/// The replacement of an edit at the start or the end of a function's body or of the file.
fn at_edge(edit: &Edit, number: usize, text: &str, functions: &[Function]) -> Result<Replacement, ProblemKind> {
    let chosen = match (edit.occurrence, functions) {
        (_, []) => None,
        (None, [only]) => Some(only),
        (None, many) => {
            let lines = many.iter().map(|function| line_number(text, function.whole.start)).collect();
            return Err(ProblemKind::ManyFunctions(lines));
        }
        (Some(wanted), some) => match wanted.checked_sub(1).and_then(|index| some.get(index)) {
            Some(chosen) => Some(chosen),
            None => {
                let name = edit.function.clone().unwrap_or_default();
                return Err(ProblemKind::NoOccurrence(name, wanted, some.len()));
            }
        },
    };
    let (range, indentation) = match chosen {
        Some(function) => (function.body.clone(), "\t"),
        None => (0..text.len(), ""),
    };
    let at = if edit.place == Place::AtStart { range.start } else { range.end };
    Ok(inserted(edit, number, text, at, indentation))
}

/// Inserts the edit's lines at `at`, which is the start of a line or the end of the file.
fn inserted(edit: &Edit, number: usize, text: &str, at: usize, indentation: &str) -> Replacement {
    let mut lines = String::new();
    if at > 0 && text.as_bytes().get(at - 1) != Some(&b'\n') {
        lines.push('\n');
    }
    for line in edit.text.trim_end_matches('\n').split('\n') {
        // Directives of the preprocessor and labels begin in column 0.
        let flush_left = line.trim().is_empty() || line.starts_with('#');
        lines += if flush_left { "" } else { indentation };
        lines += line;
        lines.push('\n');
    }
    Replacement { number, range: at..at, text: lines }
}

/// The number of the line that holds position `at`, from 1.
fn line_number(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}
