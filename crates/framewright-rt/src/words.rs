//! Words of threads: the standard library's atomics.

use std::sync::atomic::{self, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

use framewright::machine::{Busy, Ordering, Patience, Word};

/// A word shared between threads: the atomic integer `A`.
#[repr(transparent)]
#[derive(Debug)]
pub struct NativeWord<A>(A);

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
                let mut looks = 0_u32;
                loop {
                    let value = self.0.load(atomic::Ordering::Acquire);
                    if !waiting(value) {
                        return Ok(value);
                    }
                    looks = looks.saturating_add(1);
                    if matches!(patience, Patience::Tries(tries) if looks >= tries) {
                        return Err(Busy);
                    }
                    if looks.is_multiple_of(SPINS) { std::thread::yield_now() } else { std::hint::spin_loop() }
                }
            }
        }
    )+ };
}

native_words!(u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32, u64 => AtomicU64, usize => AtomicUsize);
