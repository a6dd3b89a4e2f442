//! What validation reports: the first violated invariant, or that the allocator was not at rest.

use core::fmt;

use crate::types::units::Pfn;

/// A violated invariant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Its number in the table of [`crate::validate`].
    pub invariant: &'static str,
    /// The frame where it is violated, if there is one.
    pub pfn: Option<Pfn>,
    /// Expected value.
    pub expected: u64,
    /// Found value.
    pub found: u64,
}

impl Violation {
    /// Returns whether the allocator was in use or the caller in an interrupt, so that nothing was found out.
    ///
    /// If not, the allocator need not have been at rest: another CPU may have changed what was being checked. Only the
    /// caller knows that.
    pub fn is_of_the_moment(&self) -> bool {
        matches!(self.invariant, "C1" | "C2")
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_of_the_moment() {
            return write!(f, "the allocator is in use, or the caller in an interrupt (invariant {})", self.invariant);
        }
        write!(f, "invariant {} is violated", self.invariant)?;
        if let Some(pfn) = self.pfn {
            write!(f, " at frame {pfn}")?;
        }
        write!(f, ": expected {}, found {}", self.expected, self.found)
    }
}

impl core::error::Error for Violation {}

/// Returns a violation unless the value found is the expected one.
pub(super) fn equal(invariant: &'static str, pfn: Option<Pfn>, expected: u64, found: u64) -> Result<(), Violation> {
    if expected == found { Ok(()) } else { Err(Violation { invariant, pfn, expected, found }) }
}

/// Returns the violation that says that the allocator is in use.
pub(super) fn not_at_rest<T>() -> Result<T, Violation> {
    Err(Violation { invariant: "C2", pfn: None, expected: 1, found: 0 })
}
