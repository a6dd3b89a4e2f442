//! Zone spin lock: the lock of a zone, of the kind chosen at boot.
//!
//! All kinds lie in one record, so the choice costs one branch that always goes the same way. With the ticket lock,
//! which is the baseline, only its own two words are ever touched. The two other kinds are one lock, which is shared or
//! not.

use crate::policy::mechanisms::ZoneLock;
use crate::seam::field::record;
use crate::seam::machine::{LockEvent, LockName, Machine};
use crate::sync::queued_lock::{QueuedLock, WaitSlots};
use crate::sync::ticket_lock::{Ticket, TicketLock};

/// Mode in which a zone lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockMode {
    /// The holder is alone.
    Alone,
    /// Holders in this mode share the lock, if its kind can be shared.
    Shared,
}

/// Kind of a zone lock, and the mode in which it is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LockChoice {
    pub(crate) kind: ZoneLock,
    pub(crate) mode: LockMode,
}

record! {
    /// Lock of a zone, of the kind chosen at boot.
    pub(crate) struct ZoneSpinLock<M: Machine> {
        record("{}") ticket: TicketLock<M>,
        record("{}") queued: QueuedLock<M>,
    }
}

impl<M: Machine> ZoneSpinLock<M> {
    /// Takes the lock, waiting for the turn; returns the ticket.
    ///
    /// The caller must pass the ticket to [`ZoneSpinLock::release`] with the same choice.
    pub(crate) fn take<P: WaitSlots<M> + ?Sized>(
        &self,
        choice: LockChoice,
        machine: &M,
        places: &P,
        name: LockName,
    ) -> Ticket {
        if choice.kind == ZoneLock::Ticket {
            return self.ticket.take(machine, name);
        }
        machine.lock(name, LockEvent::Wanted);
        let ticket = match choice {
            LockChoice { kind: ZoneLock::Rw, mode: LockMode::Shared } => {
                self.queued.take_shared(places);
                Ticket::NONE
            }
            _ => self.queued.take(places),
        };
        machine.lock(name, LockEvent::Taken);
        ticket
    }

    /// Takes the lock exclusively if it is free; reports no event to the machine.
    ///
    /// The caller must pass the ticket to [`ZoneSpinLock::give_up`].
    pub(crate) fn try_take(&self, kind: ZoneLock) -> Option<Ticket> {
        if kind == ZoneLock::Ticket { self.ticket.try_take() } else { self.queued.try_take() }
    }

    /// Releases a lock that [`ZoneSpinLock::try_take`] took.
    pub(crate) fn give_up<P: WaitSlots<M> + ?Sized>(&self, kind: ZoneLock, ticket: &Ticket, places: &P) {
        if kind == ZoneLock::Ticket { self.ticket.give_up(ticket) } else { self.queued.release(ticket, places) }
    }

    /// Releases the lock.
    pub(crate) fn release<P: WaitSlots<M> + ?Sized>(
        &self,
        choice: LockChoice,
        ticket: &Ticket,
        machine: &M,
        places: &P,
        name: LockName,
    ) {
        if choice.kind == ZoneLock::Ticket {
            return self.ticket.release(ticket, machine, name);
        }
        match choice {
            LockChoice { kind: ZoneLock::Rw, mode: LockMode::Shared } => self.queued.release_shared(),
            _ => self.queued.release(ticket, places),
        }
        machine.lock(name, LockEvent::Released);
    }

    /// Releases an exclusively held lock whose ticket is lost.
    pub(crate) fn release_held<P: WaitSlots<M> + ?Sized>(
        &self,
        kind: ZoneLock,
        machine: &M,
        places: &P,
        name: LockName,
    ) {
        if kind == ZoneLock::Ticket {
            return self.ticket.release_held(machine, name);
        }
        self.queued.release_held(places);
        machine.lock(name, LockEvent::Released);
    }

    /// Releases a copy of the lock, for example after a fork.
    ///
    /// The waiters of the original do not exist in the copy.
    pub(crate) fn release_copied(&self) {
        self.ticket.release_copied();
        self.queued.release_copied();
    }
}
