//! Words of threads: the standard library's atomics.
//!
//! # Why the unsafe code is right
//!
//! A word that holds a pointer is the standard library's, which returns what was stored.

use std::ptr::null_mut;
use std::sync::atomic::{self, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use framewright::machine::{Busy, Ordering, Patience, Word};

use crate::pointer::Pointer;

/// A word shared between threads: the atomic integer `A`.
#[repr(transparent)]
#[derive(Debug)]
pub struct NativeWord<A>(A);

impl<A> NativeWord<A> {
    /// The atomic integer, for a system call.
    pub(crate) const fn atomic(&self) -> &A {
        &self.0
    }
}

const fn load_order(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed | Ordering::Release => atomic::Ordering::Relaxed,
        Ordering::Acquire | Ordering::AcqRel => atomic::Ordering::Acquire,
    }
}

const fn store_order(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed | Ordering::Acquire => atomic::Ordering::Relaxed,
        Ordering::Release | Ordering::AcqRel => atomic::Ordering::Release,
    }
}

const fn rmw_order(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed => atomic::Ordering::Relaxed,
        Ordering::Acquire => atomic::Ordering::Acquire,
        Ordering::Release => atomic::Ordering::Release,
        Ordering::AcqRel => atomic::Ordering::AcqRel,
    }
}

/// Looks of a waiter before it yields, because the holder may have been preempted.
const SPINS: u32 = 64;
/// Yields after which a waiter has given a preempted holder its turn often enough.
const YIELDS: u32 = 128;
/// Time for each look of a bounded wait: twenty times what a look takes where nobody else wants the processor.
const LOOK: Duration = Duration::from_micros(1);

/// Returns whether a bounded wait is over, after `looks` and after `yields` that took `waited` together.
///
/// The number of looks alone does not bound the time. Where many threads share a processor, each yield lasts as long as
/// a turn of all of them: a million looks at a list whose holder is stopped, or does not exist in a fork's child, took
/// minutes.
fn is_over(tries: u32, looks: u32, yields: u32, waited: impl FnOnce() -> Duration) -> bool {
    looks >= tries || yields >= YIELDS && waited() >= LOOK * tries
}

macro_rules! native_words {
    ($($int:ty => $atomic:ty),+) => { $(
        impl Word<$int> for NativeWord<$atomic> {
            #[inline]
            fn new(value: $int) -> Self {
                NativeWord(<$atomic>::new(value))
            }

            #[inline]
            fn load(&self, order: Ordering) -> $int {
                self.0.load(load_order(order))
            }

            #[inline]
            fn store(&self, value: $int, order: Ordering) {
                self.0.store(value, store_order(order));
            }

            #[inline]
            fn swap(&self, value: $int, order: Ordering) -> $int {
                self.0.swap(value, rmw_order(order))
            }

            #[inline]
            fn cas(&self, current: $int, new: $int, order: Ordering) -> Result<$int, $int> {
                self.0.compare_exchange(current, new, rmw_order(order), load_order(order))
            }

            #[inline]
            fn add(&self, value: $int, order: Ordering) -> $int {
                self.0.fetch_add(value, rmw_order(order))
            }

            fn wait_while(&self, patience: Patience, mut waiting: impl FnMut($int) -> bool) -> Result<$int, Busy> {
                let (mut looks, mut yields, mut begin) = (0_u32, 0_u32, None);
                loop {
                    let value = self.0.load(atomic::Ordering::Acquire);
                    if !waiting(value) {
                        return Ok(value);
                    }
                    looks = looks.saturating_add(1);
                    let waited = || begin.map_or(Duration::ZERO, |begin: Instant| begin.elapsed());
                    if matches!(patience, Patience::Tries(tries) if is_over(tries, looks, yields, waited)) {
                        return Err(Busy);
                    }
                    if looks.is_multiple_of(SPINS) {
                        begin.get_or_insert_with(Instant::now);
                        yields = yields.saturating_add(1);
                        std::thread::yield_now();
                    } else {
                        std::hint::spin_loop();
                    }
                }
            }
        }
    )+ };
}

native_words!(u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32, u64 => AtomicU64, usize => AtomicUsize);

// SAFETY: an atomic pointer of the standard library.
unsafe impl<T> Pointer<T> for AtomicPtr<T> {
    fn load(&self, order: Ordering) -> *mut T {
        self.load(load_order(order))
    }

    fn store(&self, new: *mut T, order: Ordering) {
        self.store(new, store_order(order));
    }

    fn swap(&self, new: *mut T, order: Ordering) -> *mut T {
        self.swap(new, rmw_order(order))
    }

    fn set(&self, new: *mut T, order: Ordering) -> bool {
        self.compare_exchange(null_mut(), new, rmw_order(order), atomic::Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounded_wait_is_over_by_looks_or_by_time() {
        const TRIES: u32 = 1 << 20;
        let second = Duration::from_micros(u64::from(TRIES));
        let table = [
            // Where a look takes nanoseconds, their number decides.
            (TRIES - 1, TRIES / SPINS - 1, Duration::from_millis(50), false),
            (TRIES, TRIES / SPINS, Duration::from_millis(50), true),
            // Where a yield takes milliseconds, the time does,
            (YIELDS * SPINS, YIELDS, second, true),
            (YIELDS * SPINS, YIELDS, second - LOOK, false),
            // but not before the holder had its turns.
            ((YIELDS - 1) * SPINS, YIELDS - 1, 100 * second, false),
        ];
        for (looks, yields, waited, over) in table {
            assert_eq!(is_over(TRIES, looks, yields, || waited), over, "{looks} looks, {yields} yields, {waited:?}");
        }
    }

    #[test]
    fn a_wait_for_a_holder_that_is_gone_ends() {
        let word: NativeWord<AtomicU32> = Word::new(1);
        assert_eq!(word.wait_while(Patience::Tries(1 << 16), |held| held != 0), Err(Busy));
        assert_eq!(word.wait_while(Patience::Turn, |held| held == 0), Ok(1));
    }
}
