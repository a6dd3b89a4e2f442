//! Ticket lock: the fair spin lock of the baseline.
//!
//! A thread draws a number and waits until it is served ([`TicketLock`]). The wait has no bound of its own, and needs
//! none. A section under the lock moves at most a batch of blocks, or the free pages of one pageblock. It calls no code
//! outside the core and takes no lock of equal or lower rank. The turn therefore comes after at most (tickets ahead) ×
//! (longest section).
//!
//! [`TicketLock::try_take`] never waits, so it takes no rank (`rank.rs`) and is not recorded: it may run inside an
//! interrupt that hit any other lock section.
//!
//! The machine is told when a lock is wanted, taken and released: before the number is drawn, after the wait, and after
//! the store that admits the next waiter. What the machine does at a release therefore delays no waiter.

use crate::seam::field::record;
use crate::seam::machine::{LockEvent, LockName, Machine, Ordering, Patience, Word};

record! {
    /// Fair spin lock.
    ///
    /// Invariant L1: `next - serving` is the number of holders and waiters.
    pub(crate) struct TicketLock<M: Machine> {
        word next: M::U32,
        word serving: M::U32,
    }
}

impl<M: Machine> TicketLock<M> {
    /// Takes the lock, waiting for the turn; returns the ticket.
    ///
    /// The caller must pass the ticket to [`TicketLock::release`]; otherwise the lock is held until
    /// [`TicketLock::release_held`].
    pub(crate) fn take(&self, machine: &M, name: LockName) -> Ticket {
        machine.lock(name, LockEvent::Wanted);
        let ticket = self.next.add(1, Ordering::Relaxed);
        // ORDER: the wait acquires what was done under the lock; partner: the Release in `TicketLock::give_up`.
        // Model: lock_ticket.
        let _ = self.serving.wait_while(Patience::Turn, |serving| serving != ticket);
        machine.lock(name, LockEvent::Taken);
        Ticket(ticket)
    }

    /// Takes the lock if it is free; reports no event to the machine.
    ///
    /// The call may have interrupted code that is reporting an event of another lock.
    pub(crate) fn try_take(&self) -> Option<Ticket> {
        // ORDER: Acquire. Sees what was done under the lock; partner: the Release in `TicketLock::give_up`.
        // Model: nolock_ticket.
        let ticket = self.serving.load(Ordering::Acquire);
        // The lock is free as long as no thread has drawn the number that is served.
        self.next.cas(ticket, ticket.wrapping_add(1), Ordering::Relaxed).ok().map(Ticket)
    }

    /// Releases the lock; reports no event to the machine.
    pub(crate) fn give_up(&self, ticket: &Ticket) {
        // ORDER: Release. Publishes everything written under the lock; partners: the wait in `TicketLock::take`, and
        // `TicketLock::try_take`. Model: lock_ticket, nolock_ticket.
        self.serving.store(ticket.0.wrapping_add(1), Ordering::Release);
    }

    /// Releases the lock.
    pub(crate) fn release(&self, ticket: &Ticket, machine: &M, name: LockName) {
        self.give_up(ticket);
        machine.lock(name, LockEvent::Released);
    }

    /// Releases a lock whose ticket is lost.
    pub(crate) fn release_held(&self, machine: &M, name: LockName) {
        // ORDER: Release, as in `TicketLock::give_up`. Model: lock_ticket_held.
        self.serving.add(1, Ordering::Release);
        machine.lock(name, LockEvent::Released);
    }

    /// Releases a copy of the lock, for example after a fork.
    ///
    /// The waiters of the original do not exist in the copy, nor does any other thread yet.
    pub(crate) fn release_copied(&self) {
        self.serving.store(self.next.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Number with which a lock is held.
pub struct Ticket(pub(crate) u32);

impl Ticket {
    /// Ticket of a lock without numbers.
    pub(crate) const NONE: Ticket = Ticket(0);
}
