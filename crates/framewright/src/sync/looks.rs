//! Looks of a caller that must not wait at what another one holds: a bounded number, in bounded time.
//!
//! Each look gives the processor away. The number alone bounds no time: where many threads want a processor, a look may
//! take milliseconds, and a million of them minutes. The time alone may be over before the holder had its turn. So the
//! time counts from a few hundred looks on. A machine whose clock stands still bounds the number alone.

use crate::seam::machine::Machine;

/// Longest time of the looks, in nanoseconds.
///
/// A holder that waits for its turn at a processor may not have it for a tenth of a second, on a machine with ten times
/// as many busy threads as processors.
const LONGEST: u64 = 1_000_000_000;
/// Looks after which the time counts.
const FIRST_LOOKS: u32 = 1 << 8;

/// Looks of a caller that must not wait: a bounded number, in bounded time.
pub(crate) struct Looks {
    left: u32,
    sure: u32,
    /// Time of the first look in vain: who finds at once what he looks for reads no clock.
    start: Option<u64>,
}

impl Looks {
    /// Allows at most `most` looks.
    pub(crate) fn at_most(most: u32) -> Looks {
        Looks { left: most, sure: FIRST_LOOKS, start: None }
    }

    /// Gives the processor away after a look in vain; returns whether there may be another.
    pub(crate) fn again<M: Machine>(&mut self, machine: &M) -> bool {
        (self.left, self.sure) = (self.left.saturating_sub(1), self.sure.saturating_sub(1));
        let start = *self.start.get_or_insert_with(|| machine.now());
        if self.left == 0 || (self.sure == 0 && machine.now().saturating_sub(start) >= LONGEST) {
            return false;
        }
        machine.relax();
        true
    }
}
