//! The paths by name: how the allocator is called, for what, with which mechanisms.

use std::fmt;

use framewright::Mechanisms;
use framewright::mechanisms::FallbackPolicy;

/// How the allocator is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Through {
    /// Through `Allocator::local`.
    Local,
    /// Plainly.
    Plain,
}

/// The work of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathWork {
    /// `blocks` blocks of an order are allocated and then freed, the last first.
    Batch {
        /// Order of the blocks.
        order: u8,
        /// How many.
        blocks: usize,
    },
    /// Unmovable pages are allocated where all memory is movable and one page in `share` is free.
    Fallback {
        /// One page in this many is free.
        share: usize,
    },
}

/// A path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// Its name.
    pub name: &'static str,
    /// How the allocator is called.
    pub through: Through,
    /// The work of a path.
    pub work: PathWork,
    /// The allocator's mechanisms.
    pub mechanisms: Mechanisms,
}

/// Frames of the allocator: 256 MiB.
pub const FRAMES: u64 = 1 << 16;
/// Its first frame: 4 GiB, where zone Normal begins.
pub const START: u64 = 0x10_0000;
const fn batch(name: &'static str, through: Through, order: u8, blocks: usize, mechanisms: Mechanisms) -> Path {
    Path { name, through, work: PathWork::Batch { order, blocks }, mechanisms }
}

const fn fallback(name: &'static str, fallback: FallbackPolicy, share: usize, mechanisms: Mechanisms) -> Path {
    let mechanisms = Mechanisms { fallback, ..mechanisms };
    Path { name, through: Through::Plain, work: PathWork::Fallback { share }, mechanisms }
}

const D: Mechanisms = Mechanisms::DEFAULT;
const B: Mechanisms = Mechanisms::BASELINE;
const CLASSIC: FallbackPolicy = FallbackPolicy::Classic;
const CLAIM_STEAL: FallbackPolicy = FallbackPolicy::ClaimSteal;

/// The two that the numbers are fitted to: they differ by pins, and by instructions that are known.
pub const FITTED: [Path; 2] = [
    batch("order 0, batch 64, local", Through::Local, 0, 64, D),
    batch("order 0, batch 64, plain", Through::Plain, 0, 64, D),
];

/// Those that are predicted.
pub const PREDICTED: [Path; 18] = [
    batch("order 0, batch 64, plain, baseline", Through::Plain, 0, 64, B),
    batch("order 0, batch 1, local", Through::Local, 0, 1, D),
    batch("order 0, batch 1, plain", Through::Plain, 0, 1, D),
    batch("order 0, batch 1, plain, baseline", Through::Plain, 0, 1, B),
    batch("order 0, batch 1024, local", Through::Local, 0, 1024, D),
    batch("order 0, batch 1024, plain", Through::Plain, 0, 1024, D),
    batch("order 0, batch 1024, plain, baseline", Through::Plain, 0, 1024, B),
    batch("order 3, batch 16, local", Through::Local, 3, 16, D),
    batch("order 3, batch 16, plain", Through::Plain, 3, 16, D),
    batch("order 3, batch 16, plain, baseline", Through::Plain, 3, 16, B),
    batch("order 4, batch 16, plain", Through::Plain, 4, 16, D),
    batch("order 9, batch 1, plain", Through::Plain, 9, 1, D),
    batch("order 9, batch 16, plain", Through::Plain, 9, 16, D),
    batch("order 9, batch 16, plain, baseline", Through::Plain, 9, 16, B),
    fallback("fallback, half free, classic", CLASSIC, 2, D),
    fallback("fallback, half free, claim-steal", CLAIM_STEAL, 2, D),
    fallback("fallback, quarter free, classic", CLASSIC, 4, D),
    fallback("fallback, quarter free, claim-steal", CLAIM_STEAL, 4, D),
];

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
