//! Words of the campaign's machine: plain cells, and a count of accesses that ends a CPU's turn.
//!
//! All CPUs are coroutines of one thread, so a word needs no atomic. Before each access the count of this turn goes
//! down by one; at zero the engine decides: another CPU goes on, an interrupt comes, or a call has taken too long. That
//! costs one decrement of a thread-local for an access, where a table of cache lines (`framewright-sim`) costs tens of
//! nanoseconds.

use std::cell::Cell;

use framewright::machine::{Busy, Ordering, Patience, Word};

use crate::engine;

thread_local! {
    /// Accesses until the engine must be asked.
    pub(crate) static BUDGET: Cell<u64> = const { Cell::new(u64::MAX) };
    /// Stores so far by a part of the address: a wait is looked at again only after a store that may end it.
    static STORES: [Cell<u32>; PARTS] = const { [const { Cell::new(0) }; PARTS] };
    /// Address of the word that a planted bug is in; 0 for none.
    pub(crate) static PLANTED: Cell<usize> = const { Cell::new(0) };
}

/// Parts of memory whose stores are counted apart.
const PARTS: usize = 256;

/// Returns the part of memory that a word is in.
#[inline(always)]
fn part_of<T>(word: &Cell<T>) -> u8 {
    (std::ptr::from_ref(word).addr() >> 3) as u8
}

/// Returns the number of stores to a part of memory so far.
pub(crate) fn stores_to(part: u8) -> u32 {
    STORES.with(|stores| stores[usize::from(part)].get())
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
    STORES.with(|stores| {
        let stores = &stores[usize::from(part_of(word))];
        stores.set(stores.get().wrapping_add(1));
    });
    let planted = PLANTED.get();
    planted == 0 || planted != std::ptr::from_ref(word).addr() || !engine::is_planted_store(is_cas)
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
                    match engine::wait(patience, looks, part_of(&self.0)) {
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
