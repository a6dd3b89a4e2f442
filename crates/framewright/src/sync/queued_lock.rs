//! Queued lock: a fair lock, shared or exclusive, whose waiters wait at separate words.
//!
//! A waiter for a ticket lock (`ticket_lock.rs::TicketLock`) polls the word that the holder will write. Each release
//! makes every waiter fetch that line again, one after the other, although only one of them may proceed. More waiters
//! make each hand-over slower, and meanwhile the holder does not have the line.
//!
//! Here only the *next* waiter polls the lock. Every other waiter polls a *wait slot*. There are as many wait slots as
//! CPUs, each on lines of its own. A release takes two steps (Dice and Kogan, Euro-Par 2019):
//!
//! 1. Pass the turn to the next waiter.
//! 2. Then, when no waiter depends on it any more, notify the second waiter, which moves up to poll the lock.
//!
//! A hand-over therefore costs two transfers of a line, which is the minimum, for any number of waiters.
//!
//! Numbers are drawn as in the ticket lock, so the order is that of the requests. A waiter needs no identity: a CPU may
//! hold any number of such locks, and a copy of a lock has no queue to repair. All locks share the wait slots: a number
//! selects one of them. Wake-ups may therefore be spurious; a waiter re-checks the lock after each.
//!
//! # Sharing
//!
//! A *reader* shares the lock with other readers; a *writer* holds it alone. The lock orders readers only against
//! writers. The readers themselves decide which data they may change at the same time.
//!
//! | | reader | writer |
//! |---|---|---|
//! | arrives | counts itself | draws a number |
//! | enters at once | if every drawn number is served | if, in addition, no reader is counted |
//! | otherwise | takes itself off the count and draws a number | waits for its turn |
//! | at its turn | counts itself and passes the turn on at once | waits until all readers have left |
//!
//! Readers in line therefore enter together. A writer keeps the turn until its release.
//! Neither kind starves: no thread enters before a thread that drew an earlier number.
//!
//! This protects lists that many CPUs change at once (`smp_list.rs`) from every other kind of change to them. The
//! core's zones use it for that. It is public for embedders that have such lists of their own.
//!
//! # One word
//!
//! Both numbers and the count lie in one word, so that all changes see each other in one order. A release learns from
//! it whether a waiter must be notified. A thread that draws a number learns how far it is from its turn. Rejected:
//! separate words, because they would need a fence.

use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Patience, Word};
pub use crate::sync::ticket_lock::Ticket;

/// Addend of one reader: the lowest half of the word counts readers.
///
/// Above are the number that is served and the next to be drawn, a quarter each.
const READER: u64 = 1;
const SERVED: u64 = 1 << 32;
const DRAWN: u64 = 1 << 48;

/// The word, split into its parts.
#[derive(Clone, Copy)]
struct Turns(u64);

impl Turns {
    const fn drawn(self) -> u16 {
        (self.0 >> 48) as u16
    }

    const fn served(self) -> u16 {
        (self.0 >> 32) as u16
    }

    const fn has_readers(self) -> bool {
        self.0 as u32 != 0
    }
}

/// Returns the addend that passes the turn on from `number`.
///
/// The served number wraps without a carry.
const fn passing(number: u16) -> u64 {
    if number == u16::MAX { SERVED.wrapping_sub(DRAWN) } else { SERVED }
}

/// Source of the wait slots.
pub trait WaitSlots<M: Machine> {
    /// Returns the wait slot for a waiter with that number.
    ///
    /// `None` if there are no slots: then all waiters poll the lock.
    fn place(&self, number: u16) -> Option<&M::U32>;
}

record! {
    /// Fair lock with shared and exclusive mode; the description of this module explains it.
    ///
    /// Invariants:
    /// - L2 drawn - served is the number of writers that hold the lock, plus all threads that wait in line. They are
    ///   fewer than 65,536.
    /// - L3 the count of readers is the readers that hold the lock, plus those that have yet to see that they may not
    ///   enter.
    pub struct QueuedLock<M: Machine> {
        pub(crate) word turns: M::U64,
    }
}

impl<M: Machine> QueuedLock<M> {
    /// Takes the lock exclusively, waiting for the turn; returns the ticket.
    ///
    /// The caller must pass the ticket to [`QueuedLock::release`]; otherwise the lock stays held.
    pub fn take<P: WaitSlots<M> + ?Sized>(&self, places: &P) -> Ticket {
        // ORDER: Acquire. Sees what was done under the lock; partners: the Releases in `QueuedLock::pass_on` and
        // `QueuedLock::release_shared`. Model: lock_queued, lock_shared_both.
        let turns = Turns(self.turns.add(DRAWN, Ordering::Acquire));
        if turns.drawn() != turns.served() || turns.has_readers() {
            self.wait(turns, true, places);
        }
        Ticket(u32::from(turns.drawn()))
    }

    /// Takes the lock exclusively if it is free and no thread waits for it.
    ///
    /// Returns a ticket like that of [`QueuedLock::take`].
    pub fn try_take(&self) -> Option<Ticket> {
        let turns = Turns(self.turns.load(Ordering::Relaxed));
        if turns.drawn() != turns.served() || turns.has_readers() {
            return None;
        }
        // ORDER: Acquire. Sees what was done under the lock; partners: the Releases in `QueuedLock::pass_on` and
        // `QueuedLock::release_shared`. Model: nolock_queued.
        let taken = self.turns.cas(turns.0, turns.0.wrapping_add(DRAWN), Ordering::Acquire);
        taken.is_ok().then(|| Ticket(u32::from(turns.drawn())))
    }

    /// Releases a lock that [`QueuedLock::take`] took.
    pub fn release<P: WaitSlots<M> + ?Sized>(&self, ticket: &Ticket, places: &P) {
        self.pass_on(ticket.0 as u16, 0, places);
    }

    /// Releases an exclusively held lock whose ticket is lost.
    pub(crate) fn release_held<P: WaitSlots<M> + ?Sized>(&self, places: &P) {
        self.pass_on(Turns(self.turns.load(Ordering::Relaxed)).served(), 0, places);
    }

    /// Releases a copy of the lock, for example after a fork.
    ///
    /// The waiters of the original do not exist in the copy, nor does any other thread yet.
    pub(crate) fn release_copied(&self) {
        self.turns.store(0, Ordering::Relaxed);
    }

    /// Takes the lock in shared mode, waiting for writers.
    pub fn take_shared<P: WaitSlots<M> + ?Sized>(&self, places: &P) {
        // ORDER: Acquire. Sees what writers did; partner: the Release in `QueuedLock::pass_on`.
        // Model: lock_shared_both.
        let turns = Turns(self.turns.add(READER, Ordering::Acquire));
        if turns.drawn() != turns.served() {
            self.wait_shared(places);
        }
    }

    /// Releases a lock that [`QueuedLock::take_shared`] took.
    pub fn release_shared(&self) {
        // ORDER: Release. Publishes what the reader did; partners: a writer's addition in `QueuedLock::take`
        // and its wait. Model: lock_shared_both.
        self.turns.add(READER.wrapping_neg(), Ordering::Release);
    }

    /// Waits in line until the drawn number is served.
    ///
    /// With `alone`, it also waits until all readers have left.
    ///
    /// `turns` is the word at the moment when the number was drawn. From the turn on, no other thread enters.
    #[cold]
    fn wait<P: WaitSlots<M> + ?Sized>(&self, turns: Turns, alone: bool, places: &P) {
        let (number, mut served) = (turns.drawn(), turns.served());
        let is_far = |served: u16| number.wrapping_sub(served) > 1;
        while let Some(place) = places.place(number).filter(|_| is_far(served)) {
            // ORDER: Acquire. If the slot was notified already, the following load of the lock shows why; partner: the
            // Release in `QueuedLock::pass_on`. Model: lock_queued_3.
            let told = place.load(Ordering::Acquire);
            served = Turns(self.turns.load(Ordering::Relaxed)).served();
            if is_far(served) {
                // ORDER: the wait acquires that this thread is next; partner: as above. Model: lock_queued_3.
                let _ = place.wait_while(Patience::Turn, |now| now == told);
                served = Turns(self.turns.load(Ordering::Relaxed)).served();
            }
        }
        // ORDER: the wait acquires what was done under the lock; partners: the Releases in `QueuedLock::pass_on` and
        // `QueuedLock::release_shared`. Model: lock_queued, lock_shared_both.
        let _ = self.turns.wait_while(Patience::Turn, |turns| {
            let turns = Turns(turns);
            turns.served() != number || (alone && turns.has_readers())
        });
    }

    #[cold]
    fn wait_shared<P: WaitSlots<M> + ?Sized>(&self, places: &P) {
        // ORDER: AcqRel. Sees what writers did, if the turn has come by now. A writer that waits for readers to leave
        // sees nothing older when this reader was the last one counted. Model: lock_shared_both.
        let turns = Turns(self.turns.add(DRAWN.wrapping_sub(READER), Ordering::AcqRel));
        let number = turns.drawn();
        if number != turns.served() {
            self.wait(turns, false, places);
        }
        self.pass_on(number, READER, places);
    }

    /// Passes the turn to the next waiter, then notifies the second one to move up.
    ///
    /// The count of readers grows by `readers`.
    fn pass_on<P: WaitSlots<M> + ?Sized>(&self, number: u16, readers: u64, places: &P) {
        // ORDER: Release. Publishes everything written under the lock; partners: the additions in `QueuedLock::take`
        // and `QueuedLock::take_shared`, and the wait in `QueuedLock::wait`. Model: lock_queued, lock_shared_both.
        let turns = Turns(self.turns.add(passing(number).wrapping_add(readers), Ordering::Release));
        if turns.drawn().wrapping_sub(number) > 2
            && let Some(place) = places.place(number.wrapping_add(2))
        {
            // ORDER: Release. A notified waiter sees that the turn was passed on; partner: the load and the wait in
            // `QueuedLock::wait`. Model: lock_queued_3.
            place.add(1, Ordering::Release);
        }
    }
}
