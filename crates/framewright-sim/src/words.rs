//! Words of the simulated machine.
//!
//! A word is a plain cell of one host thread. What an access costs, and who runs next, is decided before it happens
//! (`running.rs`); then it happens at once. Orderings say only when a store may be seen: a release waits for the stores before it.

use std::cell::Cell;
use std::ptr::from_ref;

use framewright::machine::{Busy, Ordering, Patience, Word};

use crate::directory::Access;
use crate::running::{self, park, touch};

/// A word that several CPUs may use.
#[repr(transparent)]
pub struct SimWord<T>(Cell<T>);

impl<T> SimWord<T> {
    #[inline(always)]
    fn address(&self) -> usize {
        from_ref(self).addr()
    }
}

fn of_store(order: Ordering) -> Access {
    match order {
        Ordering::Relaxed | Ordering::Acquire => Access::Store,
        Ordering::Release | Ordering::AcqRel => Access::Release,
    }
}

macro_rules! words {
    ($($int:ty),+) => { $(
        impl Word<$int> for SimWord<$int> {
            fn new(value: $int) -> Self {
                SimWord(Cell::new(value))
            }

            #[inline]
            fn load(&self, _: Ordering) -> $int {
                touch(self.address(), Access::Load);
                self.0.get()
            }

            #[inline]
            fn store(&self, value: $int, order: Ordering) {
                touch(self.address(), of_store(order));
                self.0.set(value);
            }

            fn swap(&self, value: $int, _: Ordering) -> $int {
                touch(self.address(), Access::Rmw);
                self.0.replace(value)
            }

            fn cas(&self, current: $int, new: $int, _: Ordering) -> Result<$int, $int> {
                touch(self.address(), Access::Rmw);
                let now = self.0.get();
                if now == current {
                    self.0.set(new);
                    Ok(now)
                } else {
                    Err(now)
                }
            }

            fn add(&self, value: $int, _: Ordering) -> $int {
                touch(self.address(), Access::Rmw);
                self.0.replace(self.0.get().wrapping_add(value))
            }

            fn wait_while(&self, patience: Patience, mut waiting: impl FnMut($int) -> bool) -> Result<$int, Busy> {
                let mut left = match patience {
                    Patience::Turn => None,
                    Patience::Tries(tries) => Some(running::pauses(tries)),
                };
                loop {
                    let value = self.load(Ordering::Acquire);
                    if !waiting(value) {
                        return Ok(value);
                    }
                    let began = running::clock();
                    if left == Some(0) || !park(self.address(), left) {
                        return Err(Busy);
                    }
                    left = left.map(|left| left.saturating_sub(running::clock() - began));
                }
            }
        }
    )+ };
}

words!(u8, u16, u32, u64, usize);
