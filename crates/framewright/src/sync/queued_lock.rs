//! A fair lock whose waiters wait apart, and that those who do not disturb each other may share.
//!
//! Who waits for a ticket lock (`ticket_lock.rs::TicketLock`) looks at the word that the holder will write. When that is written,
//! every waiter fetches the line anew, one after the other, although only one of them may go on: the more wait, the longer a
//! hand-over takes, and all the while the line is not with the holder. Here only the *next* in line looks at the lock. All others
//! look at a *place*, one of as many words as there are CPUs, each on lines of its own; whoever gives the lock up first lets
//! the next one in and then, when nobody waits for that any more, tells the one behind to come forward (Dice and Kogan,
//! Euro-Par 2019). So a hand-over costs the two transfers of a line that it must, however many wait.
//!
//! Numbers are drawn as in the ticket lock, so the order is that of asking, and nobody has to be somebody to wait: a CPU may hold
//! any number of such locks, and a copy of one has no queue to mend. All locks share the places: a number leads to one of
//! them. Two waiters that have the same look, after being told, which of them was meant.
//!
//! # Sharing
//!
//! A *reader* shares the lock with other readers, a *writer* has it alone. (What readers may change at the same time is for those
//! to say who take it so: it is a lock against writers.) A reader counts itself and looks then: if no number is
//! out, no writer has the lock or waits for it, and it is in. Otherwise it takes itself off the count and draws a number. When its
//! turn comes, it counts itself and passes the turn on at once, so that readers in line go in together. A writer whose turn has
//! come waits for all readers to go, and has the turn until it gives the lock up. So neither sort starves: nobody gets in
//! before who drew an earlier number.
//!
//! That is what guards lists that many CPUs change at once (`smp_list.rs`) against whoever does more to them. The core's zones have
//! it for that, and it is open to all who have such lists of their own.
//!
//! # One word
//!
//! Both numbers and the count lie in one word, so that all changes see each other in one order: who gives up learns whether
//! somebody waits who must be told, and who draws a number how far off it is. In words of their own that would need a fence.

use crate::seam::machine::{Machine, Ordering, Patience, Word};
pub use crate::sync::ticket_lock::Ticket;

/// The lowest half of the word counts readers. Above are the number that is served and the next to be drawn, a quarter each.
const READER: u64 = 1;
const SERVED: u64 = 1 << 32;
const DRAWN: u64 = 1 << 48;

/// The word's parts.
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

/// What passes the turn on from `number`: the number served runs over without a carry.
const fn passing(number: u16) -> u64 {
    if number == u16::MAX { SERVED.wrapping_sub(DRAWN) } else { SERVED }
}

/// Where waiters wait.
pub trait WaitSlots<M: Machine> {
    /// One of the places, for a waiter with that number. None if there are none: all wait at the lock.
    fn place(&self, number: u16) -> Option<&M::U32>;
}

/// See the module's description.
///
/// Invariants:
/// - L2 drawn - served is the number of writers that hold the lock, and of all who wait in line. They are fewer than 65,536.
/// - L3 the count of readers is those that hold the lock, and who has yet to see that it may not.
pub struct QueuedLock<M: Machine> {
    turns: M::U64,
}

impl<M: Machine> Default for QueuedLock<M> {
    fn default() -> Self {
        QueuedLock { turns: Word::new(0) }
    }
}

impl<M: Machine> QueuedLock<M> {
    /// Its one word.
    pub(crate) fn word(&self) -> &M::U64 {
        &self.turns
    }

    /// Takes the lock alone, waiting for the turn. Whoever gets the ticket has to give it to [`QueuedLock::release`], or
    /// else the lock stays held.
    pub fn take<P: WaitSlots<M> + ?Sized>(&self, places: &P) -> Ticket {
        // ORDER: Acquire. Sees what was done under the lock; partners: the Releases in `QueuedLock::pass_on` and
        // `QueuedLock::release_shared`. Model: lock_queued, lock_shared_both.
        let turns = Turns(self.turns.add(DRAWN, Ordering::Acquire));
        if turns.drawn() != turns.served() || turns.has_readers() {
            self.wait(turns, true, places);
        }
        Ticket(u32::from(turns.drawn()))
    }

    /// Takes the lock alone if it is free and nobody waits for it. What is returned is a ticket as of [`QueuedLock::take`].
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

    /// Gives up what [`QueuedLock::take`] took.
    pub fn release<P: WaitSlots<M> + ?Sized>(&self, ticket: &Ticket, places: &P) {
        self.pass_on(ticket.0 as u16, 0, places);
    }

    /// Gives up what a ticket that is lost was for.
    pub(crate) fn release_held<P: WaitSlots<M> + ?Sized>(&self, places: &P) {
        self.pass_on(Turns(self.turns.load(Ordering::Relaxed)).served(), 0, places);
    }

    /// The same in a copy of the lock that nobody waits for: who did is not there.
    pub(crate) fn release_copied(&self) {
        self.turns.store(0, Ordering::Release);
    }

    /// Takes the lock together with others who take it so.
    pub fn take_shared<P: WaitSlots<M> + ?Sized>(&self, places: &P) {
        // ORDER: Acquire. Sees what writers did; partner: the Release in `QueuedLock::pass_on`. Model: lock_shared_both.
        let turns = Turns(self.turns.add(READER, Ordering::Acquire));
        if turns.drawn() != turns.served() {
            self.wait_shared(places);
        }
    }

    /// Gives up what [`QueuedLock::take_shared`] took.
    pub fn release_shared(&self) {
        // ORDER: Release. Publishes what the reader did; partners: a writer's addition in `QueuedLock::take`
        // and its wait. Model: lock_shared_both.
        self.turns.add(READER.wrapping_neg(), Ordering::Release);
    }

    /// Waits in line, with the number that was drawn when the word was `turns`, until that is served; who wants to be
    /// `alone`, until all readers have gone as well. With its turn come, nobody else gets in.
    #[cold]
    fn wait<P: WaitSlots<M> + ?Sized>(&self, turns: Turns, alone: bool, places: &P) {
        let (number, mut served) = (turns.drawn(), turns.served());
        let is_far = |served: u16| number.wrapping_sub(served) > 1;
        while let Some(place) = places.place(number).filter(|_| is_far(served)) {
            // ORDER: Acquire. If it was told already, the look at the lock shows why; partner: the Release in
            // `QueuedLock::pass_on`. Model: lock_queued_3.
            let told = place.load(Ordering::Acquire);
            served = Turns(self.turns.load(Ordering::Relaxed)).served();
            if is_far(served) {
                // ORDER: the wait acquires that it is next; partner: as above. Model: lock_queued_3.
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
        // ORDER: AcqRel. Sees what writers did, if the turn has come by now; and a writer that waits for readers to go sees
        // nothing older when this one was the last to be counted. Model: lock_shared_both.
        let turns = Turns(self.turns.add(DRAWN.wrapping_sub(READER), Ordering::AcqRel));
        let number = turns.drawn();
        if number != turns.served() {
            self.wait(turns, false, places);
        }
        self.pass_on(number, READER, places);
    }

    /// Lets the next one have the turn, then has the one behind come forward. The count of readers grows by `readers`.
    fn pass_on<P: WaitSlots<M> + ?Sized>(&self, number: u16, readers: u64, places: &P) {
        // ORDER: Release. Publishes everything written under the lock; partners: the additions in `QueuedLock::take` and
        // `QueuedLock::take_shared`, and the wait in `QueuedLock::wait`. Model: lock_queued, lock_shared_both.
        let turns = Turns(self.turns.add(passing(number).wrapping_add(readers), Ordering::Release));
        if turns.drawn().wrapping_sub(number) > 2
            && let Some(place) = places.place(number.wrapping_add(2))
        {
            // ORDER: Release. Whoever is told sees that the turn was passed on; partner: the load and the wait in
            // `QueuedLock::wait`. Model: lock_queued_3.
            place.add(1, Ordering::Release);
        }
    }
}
