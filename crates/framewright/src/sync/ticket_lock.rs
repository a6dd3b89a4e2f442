//! The ticket lock.
//!
//! [`TicketLock`] is fair: a taker draws a number and waits until it is served. Its wait has no bound of its own, and
//! needs none: sections under it move at most a batch of blocks (or one pageblock's free pages), call nobody and
//! take no lock of equal or lower rank, so the turn comes after at most (tickets ahead) × (longest section).
//!
//! [`TicketLock::try_take`] never waits, so it takes no rank (`rank.rs`) and is not recorded: it may run inside an interrupt that hit
//! any other lock section.
//!
//! The machine is told when a lock is wanted, taken and released: before the number is drawn, after the wait, and behind the
//! store that lets the next one in, so that what it does with that makes nobody wait.

use crate::seam::machine::{LockEvent, LockName, Machine, Ordering, Patience, Word};

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
    /// Its words by name.
    pub(crate) fn words(&self) -> [(&'static str, &M::U32); 2] {
        [("next", &self.next), ("serving", &self.serving)]
    }

    /// Takes the lock, waiting for the turn. Whoever gets the ticket has to give it to [`TicketLock::release`], or else
    /// the lock is held until [`TicketLock::release_held`].
    pub(crate) fn take(&self, machine: &M, name: LockName) -> Ticket {
        machine.lock(name, LockEvent::Wanted);
        let ticket = self.next.add(1, Ordering::Relaxed);
        // ORDER: the wait acquires what was done under the lock; partner: the Release in `TicketLock::give_up`.
        // Model: lock_ticket.
        let _ = self.serving.wait_while(Patience::Turn, |serving| serving != ticket);
        machine.lock(name, LockEvent::Taken);
        Ticket(ticket)
    }

    /// Takes the lock if it is free. Tells nobody: the caller may have interrupted somebody who is telling of another.
    pub(crate) fn try_take(&self) -> Option<Ticket> {
        // ORDER: Acquire. Sees what was done under the lock; partner: the Release in `TicketLock::give_up`. Model: nolock_ticket.
        let ticket = self.serving.load(Ordering::Acquire);
        // As long as nobody has drawn the number that is served, the lock is free.
        self.next.cas(ticket, ticket.wrapping_add(1), Ordering::Relaxed).ok().map(Ticket)
    }

    /// Gives the lock up, and tells nobody.
    pub(crate) fn give_up(&self, ticket: &Ticket) {
        // ORDER: Release. Publishes everything written under the lock; partners: the wait in `TicketLock::take`, and
        // `TicketLock::try_take`. Model: lock_ticket, nolock_ticket.
        self.serving.store(ticket.0.wrapping_add(1), Ordering::Release);
    }

    /// Gives the lock up.
    pub(crate) fn release(&self, ticket: &Ticket, machine: &M, name: LockName) {
        self.give_up(ticket);
        machine.lock(name, LockEvent::Released);
    }

    /// Gives up what a ticket that is lost was for.
    pub(crate) fn release_held(&self, machine: &M, name: LockName) {
        // ORDER: Release, as in `TicketLock::give_up`. Model: lock_ticket.
        self.serving.add(1, Ordering::Release);
        machine.lock(name, LockEvent::Released);
    }

    /// The same in a copy of the lock that nobody waits for: who did is not there.
    pub(crate) fn release_copied(&self) {
        self.serving.store(self.next.load(Ordering::Relaxed), Ordering::Release);
    }
}

/// The number that a lock is held with.
pub struct Ticket(pub(crate) u32);

impl Ticket {
    /// For locks without numbers.
    pub(crate) const NONE: Ticket = Ticket(0);
}
