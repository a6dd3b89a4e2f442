//! What a run finds: the symptom, by which two failures are compared, and the text for a reader.

use std::fmt;

/// What is wrong, without numbers: a smaller run must fail with an equal symptom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Symptom {
    /// A frame was handed out that is not free.
    HandOut,
    /// A right free or split was refused, or a wrong one was not.
    Free,
    /// The allocator's counts are not those of the table of owners.
    Census,
    /// An invariant of `validate` does not hold.
    Invariant(&'static str),
    /// A CPU's lists are not empty after a drain.
    Drain,
    /// Free memory does not merge at the end.
    Merge,
    /// A call takes longer than it may.
    Progress,
    /// Threads wait for what none of them will do.
    Deadlock,
    /// An NMI waits.
    NmiWaits,
    /// Code panics.
    Panic,
    /// An answer that is impossible.
    Answer,
    /// The machine of the seed cannot be booted.
    Boot,
}

/// A finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// What two findings are compared by.
    pub symptom: Symptom,
    /// The finding in words.
    pub text: String,
    /// The operation during which it was found, if it was found in one.
    pub operation: Option<u64>,
}

impl Wrong {
    pub(crate) fn new(symptom: Symptom, text: String) -> Wrong {
        Wrong { symptom, text, operation: None }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.symptom, self.text)?;
        self.operation.map_or(Ok(()), |number| write!(f, " (operation {number})"))
    }
}
