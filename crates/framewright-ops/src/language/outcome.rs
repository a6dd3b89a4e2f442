//! The outcome of an operation.

use std::fmt;

use framewright::{AllocError, FreeError, Pfn, PfnRange};

/// The outcome of an operation.
///
/// Its text is what a scenario may expect after ` -> `.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Nothing was done: the operation's handle is not held, or is already held.
    Skipped,
    /// Done.
    Done,
    /// A block was allocated.
    Block(Pfn),
    /// Number of blocks that were allocated or freed.
    Blocks(usize),
    /// A range was allocated.
    Range(PfnRange),
    /// Number of frames that were drained, freed or brought online.
    Frames(u64),
    /// A request was not served.
    NotServed(AllocError),
    /// A free or a split was refused.
    Refused(FreeError),
}

impl Outcome {
    /// Returns whether the operation succeeded.
    pub fn is_served(&self) -> bool {
        !matches!(self, Outcome::Skipped) && !self.is_failed()
    }

    /// Returns whether the request was not served, or the free or split refused.
    pub fn is_failed(&self) -> bool {
        matches!(self, Outcome::NotServed(_) | Outcome::Refused(_))
    }

    /// Returns the number of blocks or frames; `None` where nothing is counted.
    ///
    /// Blocks are those allocated or freed; frames are those of a range, of a drain or brought online.
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

/// A wrong answer of the allocator, in words.
pub(crate) type Wrong = String;
