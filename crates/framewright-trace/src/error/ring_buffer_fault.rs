//! Faults of a page of a ring buffer, or of a description of its events.

use super::excerpt::Excerpt;

/// The result of reading a page of a ring buffer, or a description.
pub(crate) type RawResult<T> = Result<T, RawFault>;

/// A fault of a page of a ring buffer, or of a description of its events.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages show what the fields hold")]
pub enum RawFault {
    /// A description lacks a line.
    #[error("the description of {what} has no {field}")]
    Missing { what: String, field: &'static str },
    /// A line of a description cannot be read.
    #[error("expected {expected}, found {found}")]
    Expected { expected: &'static str, found: Excerpt },
    /// An event that is none of those that are read.
    #[error("events called {0} are not read")]
    UnknownEvent(Excerpt),
    /// A field is no number of 1, 2, 4 or 8 bytes.
    #[error("field {0} has {1} bytes, which is no number")]
    Size(String, usize),
    /// A page is shorter than it says, or than its header.
    #[error("the page has {found} bytes, but needs {needed}")]
    Short { found: usize, needed: usize },
    /// An event goes beyond its page.
    #[error("an event at byte {at} of the page's data goes beyond its end")]
    Beyond { at: usize },
    /// An event is too short for its fields.
    #[error("an event of {found} bytes has no {field}")]
    NoField { field: &'static str, found: usize },
    /// An impossible value.
    #[error("an event has {field} {value}, which cannot be")]
    Value { field: &'static str, value: u64 },
    /// The file ends in the middle of a page.
    #[error("the file ends in the middle of page {0}")]
    Cut(u64),
    /// A page has a fault.
    #[error("page {number}: {fault}")]
    InPage { number: u64, fault: Box<RawFault> },
}
