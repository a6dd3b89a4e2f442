//! The words of a kernel's machine: core's atomics.
//!
//! Each method is one instruction, or a loop around one. A wait looks again and again; it neither sleeps nor yields,
//! since its caller has preemption off.

use core::sync::atomic::{self, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize};

use framewright::machine::{Busy, Ordering, Patience, Word};

/// Returns the ordering of a load. Core's atomics panic on an ordering that a load cannot have.
const fn for_load(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed | Ordering::Release => atomic::Ordering::Relaxed,
        Ordering::Acquire | Ordering::AcqRel => atomic::Ordering::Acquire,
    }
}

/// Returns the ordering of a store, likewise.
const fn for_store(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed | Ordering::Acquire => atomic::Ordering::Relaxed,
        Ordering::Release | Ordering::AcqRel => atomic::Ordering::Release,
    }
}

/// Returns the ordering of a read-modify-write.
const fn for_both(order: Ordering) -> atomic::Ordering {
    match order {
        Ordering::Relaxed => atomic::Ordering::Relaxed,
        Ordering::Acquire => atomic::Ordering::Acquire,
        Ordering::Release => atomic::Ordering::Release,
        Ordering::AcqRel => atomic::Ordering::AcqRel,
    }
}

macro_rules! words {
    ($( $name:ident($atomic:ident) of $integer:ident; )*) => { $(
        #[doc = concat!("A `", stringify!($integer), "` that all CPUs share. Every value of its bytes is valid.")]
        #[repr(transparent)]
        #[derive(Debug)]
        pub struct $name($atomic);

        impl Word<$integer> for $name {
            #[inline]
            fn new(value: $integer) -> Self {
                $name($atomic::new(value))
            }

            #[inline]
            fn load(&self, order: Ordering) -> $integer {
                self.0.load(for_load(order))
            }

            #[inline]
            fn store(&self, value: $integer, order: Ordering) {
                self.0.store(value, for_store(order));
            }

            #[inline]
            fn swap(&self, value: $integer, order: Ordering) -> $integer {
                self.0.swap(value, for_both(order))
            }

            #[inline]
            fn cas(&self, current: $integer, new: $integer, order: Ordering) -> Result<$integer, $integer> {
                self.0.compare_exchange(current, new, for_both(order), for_load(order))
            }

            #[inline]
            fn add(&self, value: $integer, order: Ordering) -> $integer {
                self.0.fetch_add(value, for_both(order))
            }

            fn wait_while(
                &self,
                patience: Patience,
                mut waiting: impl FnMut($integer) -> bool,
            ) -> Result<$integer, Busy> {
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
                    core::hint::spin_loop();
                }
            }
        }
    )* };
}

words! {
    U8(AtomicU8) of u8;
    U16(AtomicU16) of u16;
    U32(AtomicU32) of u32;
    U64(AtomicU64) of u64;
    Usize(AtomicUsize) of usize;
}
