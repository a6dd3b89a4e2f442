//! A mutant, its lasting name, and the place in a file where it is planted.

use std::fmt;
use std::ops::Range;

/// Name of a mutant: it stays when lines above it come and go.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Key {
    /// File, relative to the sources of the core.
    pub(crate) file: String,
    /// Type and name of the function.
    pub(crate) function: String,
    /// What is changed to what.
    pub(crate) change: String,
    /// Number among the mutants of the function with this change and text, from 1.
    pub(crate) nth: u32,
    /// Text of the line, without the blanks around it.
    pub(crate) text: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t{}\t{}\t{}\t{}", self.file, self.function, self.change, self.nth, self.text)
    }
}

impl Key {
    /// Reads what [`Key`]'s `Display` wrote.
    pub(crate) fn parse(line: &str) -> Option<Key> {
        let mut fields = line.splitn(5, '\t').map(str::to_owned);
        Some(Key {
            file: fields.next()?,
            function: fields.next()?,
            change: fields.next()?,
            nth: fields.next()?.parse().ok()?,
            text: fields.next()?,
        })
    }
}

/// One mutant of a site.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    pub(crate) key: Key,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Text that stands in place of the site's own.
    pub(crate) code: String,
}

/// How the text of a site's mutants takes the place of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Shape {
    /// Insertion at the begin of a function's body, which returns early.
    Entry,
    /// Statement, or none in its place.
    Statement,
    /// Insertion after a pattern: the arm of a `match` is passed over.
    Arm,
    /// Expression.
    Expression,
}

/// Place in a file with its mutants, of which at most one is at work.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Bytes of the file; empty for an insertion.
    pub(crate) range: Range<usize>,
    pub(crate) shape: Shape,
    pub(crate) mutants: Vec<Mutant>,
}

/// Code of a file in which no mutant is planted, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Skipped {
    /// Functions that implement `Debug`: text for developers.
    pub(crate) debug: usize,
    /// Constants, lengths of arrays, discriminants: the compiler evaluates them.
    pub(crate) constants: usize,
    /// Definitions of macros, and their calls outside functions.
    pub(crate) macros: usize,
}
