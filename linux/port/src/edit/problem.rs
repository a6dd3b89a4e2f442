//! The errors of editing, and the problems of edits that find no place.
//!
//! The idea: an error is one of the whole command, such as a file that cannot be read. A problem belongs to one edit.
//! All problems of a tree are shown at once, so that a port to another release is one round of mending, not ten.
//!
//! Cost: none. Rejected: one error type for both, which would stop at the first edit.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use framewright_table::figures::counted;

use super::version::KernelVersion;

/// Why a tree was not edited.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// A file could not be read or written.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was tried: read, write, rename, copy.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The list of edits is not TOML of the right form, or an edit contradicts itself.
    #[error("{origin}: {reason}")]
    List {
        /// The file of the list.
        origin: String,
        /// What is wrong, a line for each edit.
        reason: String,
    },
    /// The directory is no source tree of Linux.
    #[error("{path} sets no VERSION and PATCHLEVEL: this is no source tree of Linux", path = path.display())]
    NotLinux {
        /// The Makefile.
        path: PathBuf,
    },
    /// The tree has been edited before.
    #[error("{tree} is edited already ({trace} exists); edit an untouched copy", tree = tree.display())]
    EditedAlready {
        /// The tree.
        tree: PathBuf,
        /// The file that says so.
        trace: &'static str,
    },
    /// Edits find no place; nothing was written.
    #[error("{}", refusal(*version, problems))]
    NoPlace {
        /// The version of the tree.
        version: KernelVersion,
        /// The problems, in the list's order.
        problems: Vec<Problem>,
    },
}

/// Why one edit finds no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Number of the edit in its list, from 1.
    pub number: usize,
    /// Path of the file in the tree.
    pub file: String,
    /// The function searched, if any.
    pub function: Option<String>,
    /// What is wrong.
    pub kind: ProblemKind,
}

/// The kinds of problems. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The tree has no such file, or it is not UTF-8.
    NoFile,
    /// The file defines no such function.
    NoFunction,
    /// A definition of the function has no closing brace.
    Unclosed,
    /// The function is defined on several lines, and `at-start` or `at-end` does not choose one.
    ManyFunctions(Vec<usize>),
    /// The anchor does not occur; its longest beginning that does, and the line of that.
    NoAnchor(String, Option<(String, usize)>),
    /// The anchor occurs on several lines.
    ManyAnchors(String, Vec<usize>),
    /// The wanted occurrence is larger than the number of matches.
    NoOccurrence(String, usize, usize),
    /// The place lies inside the text that the edit with this number replaces.
    Overlap(usize),
}

impl EditError {
    pub(super) fn io(action: &'static str, path: &Path, source: io::Error) -> EditError {
        EditError::Io { action, path: path.to_owned(), source }
    }
}

/// The message about edits that find no place.
fn refusal(version: KernelVersion, problems: &[Problem]) -> String {
    let mut message =
        format!("Linux {version}: without a place: {}; nothing was written", counted(problems.len(), "edit"));
    for problem in problems {
        message += &format!("\n  {problem}");
    }
    message
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "edit {}: {}: ", self.number, self.file)?;
        if let Some(function) = &self.function {
            write!(f, "{function}(): ")?;
        }
        write!(f, "{}", self.kind)
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProblemKind::NoFile => write!(f, "no such file of text"),
            ProblemKind::NoFunction => write!(f, "no definition"),
            ProblemKind::Unclosed => write!(f, "a definition has no closing brace"),
            ProblemKind::ManyFunctions(lines) => {
                write!(f, "defined on lines {}; choose one with `occurrence`", list(lines))
            }
            ProblemKind::NoAnchor(anchor, None) => write!(f, "no anchor `{}`", one_line(anchor)),
            ProblemKind::NoAnchor(anchor, Some((beginning, line))) => {
                write!(f, "no anchor `{}`; line {line} has `{beginning}`", one_line(anchor))
            }
            ProblemKind::ManyAnchors(anchor, lines) => {
                let lines = list(lines);
                write!(f, "anchor `{}` is on lines {lines}; choose one with `occurrence`", one_line(anchor))
            }
            ProblemKind::NoOccurrence(anchor, wanted, matches) => {
                write!(f, "occurrence {wanted} of `{}` was asked for, there are {matches}", one_line(anchor))
            }
            ProblemKind::Overlap(other) => write!(f, "its place lies in what edit {other} replaces"),
        }
    }
}

/// Numbers with commas between them.
fn list(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    numbers.join(", ")
}

/// An anchor with single blanks for all of its white space.
fn one_line(anchor: &str) -> String {
    anchor.split_whitespace().collect::<Vec<_>>().join(" ")
}
