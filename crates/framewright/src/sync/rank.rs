//! Ranks of locks: the order in which locks are taken, checked in debug builds.
//!
//! The lock order is data: [`Rank`]. A CPU that holds a lock of some rank may take only locks of higher ranks. Debug
//! builds keep a mask of held ranks per CPU and stop at the first violation. Release builds keep nothing.

use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};

/// Rank of a lock; lower ranks are taken first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// One side of a per-CPU list: the owner's, or the draining CPU's.
    Pcp,
    /// Shard of a zone's depot.
    Depot,
    /// Free lists of a zone.
    Zone,
}

record! {
    /// Ranks that one CPU holds, a bit each.
    ///
    /// The lower half is for code outside interrupts, the upper half for code inside.
    pub(crate) struct Held<M: Machine> {
        word("") ranks: M::U32,
    }
}

/// Bits of half a word.
const HALF: u32 = 16;

impl<M: Machine> Held<M> {
    /// Records that `rank` is about to be taken.
    ///
    /// An interrupt between the load and the store does no harm: it cannot have hit a section of a lock for which
    /// others wait, because those locks are held with interrupts off.
    pub(crate) fn enter(&self, machine: &M, rank: Rank) {
        if cfg!(debug_assertions) {
            let (held, bit) = (self.ranks.load(Ordering::Relaxed), bit(machine, rank));
            let here = if machine.in_interrupt() { held & (u32::MAX << HALF) } else { held };
            debug_assert!(here < bit, "rank {rank:?} taken while ranks {held:#b} are held");
            self.ranks.store(held | bit, Ordering::Relaxed);
        }
    }

    /// Records that the CPU holds no lock.
    pub(crate) fn clear(&self) {
        self.ranks.store(0, Ordering::Relaxed);
    }

    /// Records that `rank` was released.
    pub(crate) fn leave(&self, machine: &M, rank: Rank) {
        if cfg!(debug_assertions) {
            let held = self.ranks.load(Ordering::Relaxed);
            self.ranks.store(held & !bit(machine, rank), Ordering::Relaxed);
        }
    }
}

fn bit(machine: &impl Machine, rank: Rank) -> u32 {
    1 << (rank as u32).saturating_add(if machine.in_interrupt() { HALF } else { 0 })
}
