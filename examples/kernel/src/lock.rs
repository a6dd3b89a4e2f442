//! A spin lock that holds interrupts off: for the console and the run queue.
//!
//! Locks of the allocator are its own; this one knows nothing of it.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::{irq_restore, irq_save};

/// A value and its lock.
pub(crate) struct Lock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the holder alone, one CPU at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The lock, held, with interrupts off.
pub(crate) struct Held<'l, T> {
    lock: &'l Lock<T>,
    saved: usize,
}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Lock { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock and takes it.
    ///
    /// Context: not in an NMI; this CPU does not hold the lock.
    pub(crate) fn lock(&self) -> Held<'_, T> {
        let saved = irq_save();
        while self.taken.swap(true, Ordering::Acquire) {
            while self.taken.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
        Held { lock: self, saved }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.lock.taken.store(false, Ordering::Release);
        irq_restore(self.saved);
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, and `self` is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}
