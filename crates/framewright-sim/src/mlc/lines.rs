//! The lines that a latency checker touches, and the machine that it runs on.

use framewright::machine::{Ordering, Word};

use crate::engine::run::{Deadlock, Options, Schedule, SetupError};
use crate::engine::words::SimWord;
use crate::memory::arena::{Arena, Packing};
use crate::model::{Model, Ps};

/// A line with the number of the next one in it, and an unused line.
pub(super) type Link = [SimWord<u64>; 2];

/// Each word of the region is a line of its own.
pub(super) const A_LINE_EACH: (bool, Packing) = (false, Packing::Spread(8));

/// Most lines of any program here; a row that needs more is left out, to spare the host's memory.
pub(super) const MANY: usize = 1 << 22;

pub(super) const RELAXED: Ordering = Ordering::Relaxed;

/// Places lines of which each names the next, in one cycle through all.
pub(super) fn place_cycle(arena: &Arena, lines: usize) -> &[Link] {
    let stride = stride(lines);
    arena.place("lines", A_LINE_EACH, lines, |line| [Word::new(((line + stride) % lines) as u64), Word::new(0)])
}

/// Returns a step that visits all `lines` lines, each far from the one before.
fn stride(lines: usize) -> usize {
    fn common_divisor(a: usize, b: usize) -> usize {
        if b == 0 { a } else { common_divisor(b, a % b) }
    }
    (lines * 5 / 8..).find(|step| common_divisor(*step, lines) == 1).unwrap_or(1)
}

/// Returns the options of a run: all CPUs, in the order of time, no window.
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

/// The checker did not finish.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MlcError {
    /// The machine cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The CPUs waited for each other.
    #[error(transparent)]
    Stuck(#[from] Deadlock),
}
