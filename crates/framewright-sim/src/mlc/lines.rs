//! The lines that a latency checker touches, and the machine that it runs on.

use framewright::machine::{Ordering, Word};

use crate::engine::run::{Deadlock, Options, Schedule, SetupError};
use crate::engine::words::SimWord;
use crate::memory::arena::{Arena, Packing};
use crate::model::{Model, Ps};

/// A line with the number of the next one in it, and a line that nobody uses.
pub(super) type Link = [SimWord<u64>; 2];

/// Each word of the arena is a line of its own.
pub(super) const A_LINE_EACH: (bool, Packing) = (false, Packing::Spread(8));

/// Most lines of any program here: what is left out of a table is better than a host without memory.
pub(super) const MANY: usize = 1 << 22;

pub(super) const RELAXED: Ordering = Ordering::Relaxed;

/// Lines of which each names the next, in a cycle through all of them.
pub(super) fn place_cycle(arena: &Arena, lines: usize) -> &[Link] {
    let stride = stride(lines);
    arena.place("lines", A_LINE_EACH, lines, |line| [Word::new(((line + stride) % lines) as u64), Word::new(0)])
}

/// A step that leads through so many lines, far from one to the next.
fn stride(lines: usize) -> usize {
    fn common_divisor(a: usize, b: usize) -> usize {
        if b == 0 { a } else { common_divisor(b, a % b) }
    }
    (lines * 5 / 8..).find(|step| common_divisor(*step, lines) == 1).unwrap_or(1)
}

/// All CPUs, whatever happens in the order of time, nothing random, no window.
pub(super) fn options(model: &Model) -> Options {
    Options {
        cpus: model.topology.cpus(),
        seed: 0,
        schedule: Schedule::Time,
        warm_up: 0,
        window: Ps::MAX,
        trace: false,
    }
}

/// The checker did not come to its end.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MlcError {
    /// The machine cannot be had.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It stood still.
    #[error(transparent)]
    Stuck(#[from] Deadlock),
}
