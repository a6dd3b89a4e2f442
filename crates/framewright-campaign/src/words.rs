//! Words of the campaign's machine: plain cells, and a count of accesses that ends a CPU's turn.
//!
//! All CPUs are coroutines of one thread, so a word needs no atomic. Before each access the count of this turn goes
//! down by one; at zero the engine decides: another CPU goes on, an interrupt comes, or a call has taken too long. That
//! costs one decrement of a thread-local for an access, where a table of cache lines (`framewright-sim`) costs tens of
//! nanoseconds.

use std::cell::{Cell, RefCell};

use framewright::machine::{Busy, Ordering, Patience, Word};

use crate::engine;

thread_local! {
    /// Accesses until the engine must be asked.
    pub(crate) static BUDGET: Cell<u64> = const { Cell::new(u64::MAX) };
    /// Threads that wait for a store.
    static WAITERS: Cell<u32> = const { Cell::new(0) };
    /// The words that threads wait for.
    static WAITED: RefCell<Vec<Waited>> = const { RefCell::new(Vec::new()) };
    /// Address of the word that a planted bug is in; 0 for none.
    pub(crate) static PLANTED: Cell<usize> = const { Cell::new(0) };
}

/// A word that threads wait for.
struct Waited {
    address: usize,
    waiters: u32,
    /// Stores to it since the first of them came.
    stores: u64,
}

/// Notes that a thread waits for the word at an address; returns the stores to it so far.
pub(crate) fn begin_wait(address: usize) -> u64 {
    WAITERS.set(WAITERS.get() + 1);
    WAITED.with_borrow_mut(|all| match all.iter_mut().find(|waited| waited.address == address) {
        Some(waited) => {
            waited.waiters += 1;
            waited.stores
        }
        None => {
            all.push(Waited { address, waiters: 1, stores: 0 });
            0
        }
    })
}

/// Returns the stores to a word that a thread waits for.
pub(crate) fn stores_to(address: usize) -> u64 {
    let of = |all: &Vec<Waited>| all.iter().find(|waited| waited.address == address).map(|waited| waited.stores);
    WAITED.with_borrow(of).unwrap_or(u64::MAX)
}

/// Notes that a thread waits no longer.
pub(crate) fn end_wait(address: usize) {
    WAITERS.set(WAITERS.get().saturating_sub(1));
    WAITED.with_borrow_mut(|all| {
        if let Some(at) = all.iter().position(|waited| waited.address == address) {
            all[at].waiters -= 1;
            if all[at].waiters == 0 {
                all.remove(at);
            }
        }
    });
}

/// Forgets the waits of an engine that came to its end.
pub(crate) fn forget_waits() {
    WAITERS.set(0);
    WAITED.with_borrow_mut(Vec::clear);
}

/// Notes a store while threads wait.
#[cold]
#[inline(never)]
fn note_store(address: usize) {
    WAITED.with_borrow_mut(|all| {
        all.iter_mut().filter(|waited| waited.address == address).for_each(|waited| waited.stores += 1);
    });
}

/// Returns the address of a word.
#[inline(always)]
fn address_of<T>(word: &Cell<T>) -> usize {
    std::ptr::from_ref(word).addr()
}

/// Counts an access that is about to be made.
#[inline(always)]
fn touch() {
    let left = BUDGET.get();
    if left == 0 {
        engine::out_of_budget();
    } else {
        BUDGET.set(left - 1);
    }
}

/// Counts a store that is about to be made; returns whether it is made.
#[inline(always)]
fn touch_to_store<T>(word: &Cell<T>, is_cas: bool) -> bool {
    touch();
    if WAITERS.get() != 0 {
        note_store(address_of(word));
    }
    let planted = PLANTED.get();
    planted == 0 || planted != address_of(word) || !engine::is_planted_store(is_cas)
}

/// A word of the campaign's machine.
#[repr(transparent)]
pub(crate) struct CampaignWord<T>(Cell<T>);

macro_rules! words {
    ($($int:ty),+) => { $(
        impl Word<$int> for CampaignWord<$int> {
            fn new(value: $int) -> Self {
                CampaignWord(Cell::new(value))
            }

            #[inline(always)]
            fn load(&self, _: Ordering) -> $int {
                touch();
                self.0.get()
            }

            #[inline(always)]
            fn store(&self, value: $int, _: Ordering) {
                if touch_to_store(&self.0, false) {
                    self.0.set(value);
                }
            }

            #[inline(always)]
            fn swap(&self, value: $int, _: Ordering) -> $int {
                if touch_to_store(&self.0, false) { self.0.replace(value) } else { self.0.get() }
            }

            #[inline(always)]
            fn cas(&self, current: $int, new: $int, _: Ordering) -> Result<$int, $int> {
                let is_right = touch_to_store(&self.0, true);
                let now = self.0.get();
                // A planted bug: the exchange succeeds whatever the word holds.
                if now != current && is_right {
                    return Err(now);
                }
                self.0.set(new);
                Ok(current)
            }

            #[inline(always)]
            fn add(&self, value: $int, _: Ordering) -> $int {
                let is_made = touch_to_store(&self.0, false);
                let now = self.0.get();
                if is_made {
                    self.0.set(now.wrapping_add(value));
                }
                now
            }

            fn wait_while(&self, patience: Patience, mut waiting: impl FnMut($int) -> bool) -> Result<$int, Busy> {
                touch();
                let mut looks = 0;
                loop {
                    let value = self.0.get();
                    if !waiting(value) {
                        return Ok(value);
                    }
                    looks += 1;
                    match engine::wait(patience, looks, address_of(&self.0)) {
                        engine::Wait::Look => {}
                        engine::Wait::GiveUp => return Err(Busy),
                        engine::Wait::Dead => return Ok(value),
                    }
                }
            }
        }
    )+ };
}

words!(u8, u16, u32, u64, usize);
