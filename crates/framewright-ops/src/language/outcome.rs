//! What came of an operation, in words.

use std::fmt;

use framewright::{AllocError, FreeError, Pfn, PfnRange};

/// What came of an operation. Its text is what a scenario may expect behind ` -> `.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Nothing was done: the handle that the operation names is not held, or already is.
    Skipped,
    /// Done.
    Done,
    /// A block was allocated.
    Block(Pfn),
    /// So many blocks were allocated or freed.
    Blocks(usize),
    /// A range was allocated.
    Range(PfnRange),
    /// So many frames were drained, freed or brought online.
    Frames(u64),
    /// A request was not served.
    NotServed(AllocError),
    /// A free or a split was refused.
    Refused(FreeError),
}

impl Outcome {
    /// Whether the operation did what it is for.
    pub fn is_served(&self) -> bool {
        !matches!(self, Outcome::Skipped) && !self.is_failed()
    }

    /// Whether the request was not served, or the free or split refused.
    pub fn is_failed(&self) -> bool {
        matches!(self, Outcome::NotServed(_) | Outcome::Refused(_))
    }

    /// Blocks that were allocated or freed, or frames of a range, of a drain or brought online; none where nothing is counted.
    pub fn count(&self) -> Option<u64> {
        match *self {
            Outcome::Block(_) => Some(1),
            Outcome::Blocks(blocks) => Some(blocks as u64),
            Outcome::Range(range) => Some(range.frames()),
            Outcome::Frames(frames) => Some(frames),
            Outcome::NotServed(_) => Some(0),
            Outcome::Skipped | Outcome::Done | Outcome::Refused(_) => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Skipped => f.write_str("skipped"),
            Outcome::Done => f.write_str("ok"),
            Outcome::Block(pfn) => pfn.fmt(f),
            Outcome::Blocks(blocks) => write!(f, "{blocks} blocks"),
            Outcome::Range(range) => range.fmt(f),
            Outcome::Frames(frames) => write!(f, "{frames} frames"),
            Outcome::NotServed(error) => error.fmt(f),
            Outcome::Refused(error) => error.fmt(f),
        }
    }
}

/// What the allocator did against what the oracle says it must, in words.
pub(crate) type Wrong = String;
