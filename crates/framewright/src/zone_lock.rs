//! The lock of a zone, of the kind that was chosen at boot.
//!
//! All kinds lie side by side, so that the choice is a branch, always taken the same way, and nothing else. With the
//! ticket lock, which is the baseline, only its own two words are ever touched.

use crate::lock::{Ticket, TicketLock};
use crate::machine::{LockEvent, LockName, Machine};
use crate::mechanisms::ZoneLock as Kind;
use crate::queued::{Asker, Nodes};
use crate::read_write::ReadWriteLock;

/// Whether others may have the lock at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(dead_code, reason = "for the free path in read mode")]
pub(crate) enum Mode {
    /// Nobody else.
    Alone,
    /// Those who take it in the same mode; nobody else, if the lock is of a kind that cannot tell.
    Shared,
}

/// See the module's description.
pub(crate) struct ZoneLock<M: Machine> {
    ticket: TicketLock<M>,
    /// Its waiting room by itself is the queued lock.
    shared: ReadWriteLock<M>,
}

impl<M: Machine> Default for ZoneLock<M> {
    fn default() -> Self {
        ZoneLock { ticket: TicketLock::default(), shared: ReadWriteLock::default() }
    }
}

impl<M: Machine> ZoneLock<M> {
    /// Its words by name.
    pub(crate) fn words(&self) -> impl Iterator<Item = (&'static str, &M::U32)> {
        self.ticket.words().into_iter().chain(self.shared.room.words()).chain(self.shared.words())
    }

    /// Takes the lock, waiting for the turn. What is returned has to be given to [`ZoneLock::release`] with the same
    /// kind and mode.
    pub(crate) fn take<N: Nodes<M> + ?Sized>(
        &self,
        (kind, mode): (Kind, Mode),
        machine: &M,
        asker: &Asker<'_, N>,
        name: LockName,
    ) -> Ticket {
        if kind == Kind::Ticket {
            return self.ticket.take(machine, name);
        }
        machine.lock(name, LockEvent::Wanted);
        match (kind, mode) {
            (Kind::Rw, Mode::Shared) => self.shared.take_shared(asker),
            (Kind::Rw, Mode::Alone) => self.shared.take(asker),
            _ => self.shared.room.take(asker),
        }
        machine.lock(name, LockEvent::Taken);
        Ticket::NONE
    }

    /// Gives the lock up.
    pub(crate) fn release(&self, (kind, mode): (Kind, Mode), ticket: &Ticket, machine: &M, name: LockName) {
        if kind == Kind::Ticket {
            return self.ticket.release(ticket, machine, name);
        }
        self.release_others(kind, mode);
        machine.lock(name, LockEvent::Released);
    }

    fn release_others(&self, kind: Kind, mode: Mode) {
        match (kind, mode) {
            (Kind::Rw, Mode::Shared) => self.shared.release_shared(),
            (Kind::Rw, Mode::Alone) => self.shared.release(),
            _ => self.shared.room.release(),
        }
    }

    /// Gives the lock up that somebody took alone whose ticket is lost.
    pub(crate) fn release_held(&self, kind: Kind, machine: &M, name: LockName) {
        if kind == Kind::Ticket {
            return self.ticket.release_held(machine, name);
        }
        self.release_others(kind, Mode::Alone);
        machine.lock(name, LockEvent::Released);
    }

    /// The same in a copy of the lock that nobody waits for: who did is not there.
    pub(crate) fn release_copied(&self) {
        self.ticket.release_copied();
        self.shared.release_copied();
    }
}
