//! The handler of a signal, as a pointer that threads share.
//!
//! A thread sets a handler; a signal may run it on any other. So what the thread did before, such as filling the
//! handler's tables, comes before the handler. If the kernel refuses, the earlier handler is put back, with all that
//! came before it.

use std::ptr::NonNull;

use framewright::machine::Ordering;

use crate::pointer::Pointer;

/// The handler of a signal, or none.
pub(crate) struct HandlerWord<P>(pub(crate) P);

impl<P> HandlerWord<P> {
    /// Sets a handler. Returns the one before.
    pub(crate) fn replace<T>(&self, new: *mut T) -> *mut T
    where
        P: Pointer<T>,
    {
        // ORDER: AcqRel. Publishes what the handler needs, and sees what the one before needs; partners: `get`,
        // `replace`.
        self.0.swap(new, Ordering::AcqRel)
    }

    /// Sets the handler again that a call of [`HandlerWord::replace`] returned.
    pub(crate) fn put_back<T>(&self, old: *mut T)
    where
        P: Pointer<T>,
    {
        // ORDER: Release. Passes on what `replace` has seen; partner: `get`.
        self.0.store(old, Ordering::Release);
    }

    /// The handler, if there is one.
    pub(crate) fn get<T>(&self) -> Option<NonNull<T>>
    where
        P: Pointer<T>,
    {
        // ORDER: Acquire. Sees what the handler needs; partners: `replace`, `put_back`.
        NonNull::new(self.0.load(Ordering::Acquire))
    }
}
