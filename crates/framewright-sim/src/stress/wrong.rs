//! What can be wrong.

use std::fmt;

/// Kinds of findings. A case that is made smaller keeps its kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A frame was handed out that is somebody's.
    HandOut,
    /// A right free was refused, or a wrong one was not.
    Free,
    /// `validate` found this invariant violated.
    Invariant(&'static str),
    /// The census is not what the CPUs have.
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

/// Something is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// What kind of thing.
    pub kind: Kind,
    /// What it is, in a sentence.
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
