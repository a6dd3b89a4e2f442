//! The lock of a zone, of the kind that was chosen at boot.
//!
//! The kinds lie side by side, so that the choice is a branch, always taken the same way, and nothing else. With the
//! ticket lock, which is the baseline, only its own two words are ever touched; the two others are one lock, which is
//! shared or not.

use crate::policy::mechanisms::ZoneLock;
use crate::seam::field::{Words, tell};
use crate::seam::machine::{LockEvent, LockName, Machine};
use crate::sync::queued_lock::{QueuedLock, WaitSlots};
use crate::sync::ticket_lock::{Ticket, TicketLock};

/// Whether others may have the lock at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockMode {
    /// Nobody else.
    Alone,
    /// Those who take it in the same mode; nobody else, if the lock is of a kind that cannot tell.
    Shared,
}

/// See the module's description.
pub(crate) struct ZoneSpinLock<M: Machine> {
    ticket: TicketLock<M>,
    queued: QueuedLock<M>,
}

impl<M: Machine> Default for ZoneSpinLock<M> {
    fn default() -> Self {
        ZoneSpinLock { ticket: TicketLock::default(), queued: QueuedLock::default() }
    }
}

impl<M: Machine> ZoneSpinLock<M> {
    /// Names its words.
    pub(crate) fn words(&self, lock: &str, visit: &mut Words<'_>) {
        for (name, word) in self.ticket.words() {
            tell(visit, format_args!("{lock}.{name}"), word);
        }
        tell(visit, format_args!("{lock}.turns"), self.queued.word());
    }

    /// Takes the lock, waiting for the turn. What is returned has to be given to [`ZoneSpinLock::release`] with the same
    /// kind and mode.
    pub(crate) fn take<P: WaitSlots<M> + ?Sized>(
        &self,
        (kind, mode): (ZoneLock, LockMode),
        machine: &M,
        places: &P,
        name: LockName,
    ) -> Ticket {
        if kind == ZoneLock::Ticket {
            return self.ticket.take(machine, name);
        }
        machine.lock(name, LockEvent::Wanted);
        let ticket = match (kind, mode) {
            (ZoneLock::Rw, LockMode::Shared) => {
                self.queued.take_shared(places);
                Ticket::NONE
            }
            _ => self.queued.take(places),
        };
        machine.lock(name, LockEvent::Taken);
        ticket
    }

    /// Takes the lock alone if it is free; tells nobody. What is returned has to be given to [`ZoneSpinLock::give_up`].
    pub(crate) fn try_take(&self, kind: ZoneLock) -> Option<Ticket> {
        if kind == ZoneLock::Ticket { self.ticket.try_take() } else { self.queued.try_take() }
    }

    /// Gives up what [`ZoneSpinLock::try_take`] took.
    pub(crate) fn give_up<P: WaitSlots<M> + ?Sized>(&self, kind: ZoneLock, ticket: &Ticket, places: &P) {
        if kind == ZoneLock::Ticket { self.ticket.give_up(ticket) } else { self.queued.release(ticket, places) }
    }

    /// Gives the lock up.
    pub(crate) fn release<P: WaitSlots<M> + ?Sized>(
        &self,
        (kind, mode): (ZoneLock, LockMode),
        ticket: &Ticket,
        machine: &M,
        places: &P,
        name: LockName,
    ) {
        if kind == ZoneLock::Ticket {
            return self.ticket.release(ticket, machine, name);
        }
        match (kind, mode) {
            (ZoneLock::Rw, LockMode::Shared) => self.queued.release_shared(),
            _ => self.queued.release(ticket, places),
        }
        machine.lock(name, LockEvent::Released);
    }

    /// Gives the lock up that somebody took alone whose ticket is lost.
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

    /// The same in a copy of the lock that nobody waits for: who did is not there.
    pub(crate) fn release_copied(&self) {
        self.ticket.release_copied();
        self.queued.release_copied();
    }
}
