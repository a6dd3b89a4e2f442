//! Locks, and the order they are taken in.
//!
//! [`TicketLock`] is fair: a taker draws a number and waits until it is served. Its wait has no bound of its own, and
//! needs none: sections under it move at most a batch of blocks (or one pageblock's free pages), call nobody and
//! take no lock of equal or lower rank, so the turn comes after at most (tickets ahead) × (longest section).
//!
//! Lock order is data: [`Rank`]. While a lock of some rank is held, only higher ranks may be taken. Debug builds
//! keep a mask of held ranks per CPU and stop at the first violation; release builds keep nothing.

use crate::machine::{Machine, Ordering, Patience, Word};

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

/// Ranks that one CPU holds; a bit each.
pub(crate) struct Held<M: Machine>(M::U32);

impl<M: Machine> Default for Held<M> {
    fn default() -> Self {
        Held(Word::new(0))
    }
}

impl<M: Machine> Held<M> {
    /// Notes that `rank` is about to be taken.
    pub(crate) fn enter(&self, rank: Rank) {
        if cfg!(debug_assertions) {
            let bit = 1 << rank as u32;
            let held = self.0.load(Ordering::Relaxed);
            debug_assert!(held < bit, "rank {rank:?} taken while ranks {held:#b} are held");
            self.0.store(held | bit, Ordering::Relaxed);
        }
    }

    /// Notes that the CPU holds nothing.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Notes that `rank` was released.
    pub(crate) fn leave(&self, rank: Rank) {
        if cfg!(debug_assertions) {
            let held = self.0.load(Ordering::Relaxed);
            self.0.store(held & !(1 << rank as u32), Ordering::Relaxed);
        }
    }
}

/// Fair spin lock.
///
/// Invariant L1: `next - serving` is the number of holders and waiters.
pub(crate) struct TicketLock<M: Machine> {
    next: M::U32,
    serving: M::U32,
}

impl<M: Machine> Default for TicketLock<M> {
    fn default() -> Self {
        TicketLock { next: Word::new(0), serving: Word::new(0) }
    }
}

impl<M: Machine> TicketLock<M> {
    /// Takes the lock without a guard, until [`TicketLock::release_held`].
    pub(crate) fn hold(&self) {
        core::mem::forget(self.lock());
    }

    /// Gives up what [`TicketLock::hold`] took.
    pub(crate) fn release_held(&self) {
        // ORDER: Release, as in `TicketGuard::drop`. Model: lock_ticket.
        self.serving.add(1, Ordering::Release);
    }

    /// Gives up what [`TicketLock::hold`] took, in a copy of the lock that nobody waits for: who did is not there.
    pub(crate) fn release_copied(&self) {
        self.serving.store(self.next.load(Ordering::Relaxed), Ordering::Release);
    }

    /// Takes the lock, waiting for the turn.
    pub(crate) fn lock(&self) -> TicketGuard<'_, M> {
        let ticket = self.next.add(1, Ordering::Relaxed);
        // ORDER: the wait acquires what was done under the lock; partner: the Release in `TicketGuard::drop`.
        // Model: lock_ticket.
        let _ = self.serving.wait_while(Patience::Turn, |serving| serving != ticket);
        TicketGuard { lock: self, ticket }
    }
}

/// Proof that a [`TicketLock`] is held.
pub(crate) struct TicketGuard<'l, M: Machine> {
    lock: &'l TicketLock<M>,
    ticket: u32,
}

impl<M: Machine> Drop for TicketGuard<'_, M> {
    fn drop(&mut self) {
        // ORDER: Release. Publishes everything written under the lock; partner: the wait in `TicketLock::lock`.
        // Model: lock_ticket.
        self.lock.serving.store(self.ticket.wrapping_add(1), Ordering::Release);
    }
}
