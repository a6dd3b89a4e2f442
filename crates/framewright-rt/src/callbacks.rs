//! What the embedder does when memory is short, or in the way.
//!
//! # Panics
//!
//! The core calls back in the middle of its work: pageblocks are isolated, and a place is taken that nobody else knows of. It does not
//! expect to be unwound, so no panic gets there. Each call of the embedder's code is caught here ([`Panics`]), counted, and taken for a
//! refusal: nothing freed, nothing moved, the page stays.
//!
//! It is not raised again when the core is done. The thread that happened to be short of memory is seldom the one with the
//! bug; a background thread has no caller at all; and a request that fails would leave its block to nobody. The panic hook has
//! told of it by then. [`crate::Arena::callback_panics`] says how often it happened.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use framewright::machine::{Busy, Need};
use framewright::{Order, Pfn};

/// Callbacks of an allocator on a [`crate::Native`] machine ([`crate::Native::with_callbacks`]).
///
/// They run on the thread whose request is short of memory, on one that calls [`framewright::Allocator::balance`], or on one that wants
/// a range of frames or moves memory together: with nothing of the allocator held, never in an interrupt, and on several threads at once. They may sleep,
/// fail, and call the allocator. What they allocate themselves must carry `__GFP_MEMALLOC` or ask for no reclaim.
///
/// One that panics has refused: it freed nothing, does not migrate, or found the block busy. The panic ends there and is counted
/// ([`crate::Native::callback_panics`], [`crate::Arena::callback_panics`]).
pub trait Callbacks: Send + Sync {
    /// Frees memory through the allocator's own calls, and says how many frames. `need` says of how much, how hard to look, and
    /// whether to be gentle.
    fn reclaim(&self, need: &Need) -> u64 {
        let _ = need;
        0
    }

    /// Whether [`Callbacks::migrate`] moves anything. If not, nobody looks for what to move.
    fn migrates(&self) -> bool {
        false
    }

    /// Moves the contents of the allocated, movable block at `from` to the block of the same order at `to`, which is its own from now on,
    /// and frees `from`. It must know `from` as its own, under a lock of its own: the owner may have freed it since.
    ///
    /// # Errors
    /// [`Busy`] when the block cannot move now; it then stays as it was, or was freed by its owner. `to` is the allocator's again. So
    /// it is after a panic: a callback must not panic once it has made `to` its own.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let _ = (from, to, order);
        Err(Busy)
    }
}

/// How often the embedder's code panicked.
#[derive(Default, Debug)]
pub(crate) struct Panics(AtomicU64);

impl Panics {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Calls the embedder's code. None if it panicked.
    pub(crate) fn catch<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        // What it left half done is the embedder's, who has locks that say so.
        let payload = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(value) => return Some(value),
            Err(payload) => payload,
        };
        self.0.fetch_add(1, Relaxed);
        // The payload is the embedder's too. One that panics when it is dropped has a payload that is not.
        if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(another);
        }
        None
    }
}

/// The callbacks, if there are any.
#[derive(Clone, Default)]
pub(crate) struct Called(pub(crate) Option<Arc<dyn Callbacks>>);

impl fmt::Debug for Called {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Called" } else { "NotCalled" })
    }
}
