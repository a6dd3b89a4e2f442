//! The kinds of findings.

use std::fmt;

/// The kind of a finding, which a case keeps when it is made smaller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A frame was handed out that has an owner.
    HandOut,
    /// A right free was refused, or a wrong one succeeded.
    Free,
    /// `validate` found this invariant violated.
    Invariant(&'static str),
    /// The census differs from what the CPUs hold.
    Census,
    /// A drained list is not empty.
    Drain,
    /// Memory that is all free is not merged.
    Merge,
    /// A request failed while memory that it may use was free.
    Reach,
    /// CPUs wait for each other.
    Deadlock,
    /// A CPU panicked.
    Panic,
}

/// A finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// Its kind.
    pub kind: Kind,
    /// A sentence that says what is wrong.
    pub text: String,
}

impl Wrong {
    pub(crate) fn free(text: String) -> Wrong {
        Wrong { kind: Kind::Free, text }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Wrong {}
