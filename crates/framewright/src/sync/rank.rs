//! The order in which locks are taken, checked in debug builds.
//!
//! Lock order is data: [`Rank`]. While a lock of some rank is held, only higher ranks may be taken. Debug builds keep a mask of
//! held ranks per CPU and stop at the first violation; release builds keep nothing.

use crate::seam::machine::{Machine, Ordering, Word};

/// Order in which locks are taken, lowest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// One side of a per-CPU list: its owner, or who drains it.
    Pcp,
    /// A shard of a zone's depot.
    Depot,
    /// A zone's free lists.
    Zone,
}

/// Ranks that one CPU holds, a bit each: in the lower half outside of interrupts, in the upper half in one.
pub(crate) struct Held<M: Machine>(M::U32);

/// Bits of half a word.
const HALF: u32 = 16;

impl<M: Machine> Default for Held<M> {
    fn default() -> Self {
        Held(Word::new(0))
    }
}

impl<M: Machine> Held<M> {
    /// Its word.
    pub(crate) fn word(&self) -> &M::U32 {
        &self.0
    }

    /// Notes that `rank` is about to be taken. What an interrupt came in between does not matter: it cannot have been a lock that
    /// others wait for, as these are held with interrupts off.
    pub(crate) fn enter(&self, machine: &M, rank: Rank) {
        if cfg!(debug_assertions) {
            let (held, bit) = (self.0.load(Ordering::Relaxed), bit(machine, rank));
            let here = if machine.in_interrupt() { held & (u32::MAX << HALF) } else { held };
            debug_assert!(here < bit, "rank {rank:?} taken while ranks {held:#b} are held");
            self.0.store(held | bit, Ordering::Relaxed);
        }
    }

    /// Notes that the CPU holds nothing.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Notes that `rank` was released.
    pub(crate) fn leave(&self, machine: &M, rank: Rank) {
        if cfg!(debug_assertions) {
            let held = self.0.load(Ordering::Relaxed);
            self.0.store(held & !bit(machine, rank), Ordering::Relaxed);
        }
    }
}

fn bit(machine: &impl Machine, rank: Rank) -> u32 {
    1 << (rank as u32).saturating_add(if machine.in_interrupt() { HALF } else { 0 })
}
