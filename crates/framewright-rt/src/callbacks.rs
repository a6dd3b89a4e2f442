//! The embedder's code that the allocator calls when memory is short or must move.
//!
//! # Panics
//!
//! The core calls back while its own work is unfinished: pageblocks are isolated, and a target block is taken that only
//! the core knows. The core would undo all of that if it were unwound, and no panic reaches it all the same. Each call
//! of the embedder's code is caught here ([`Panics`]) and counted. A panic means refusal: nothing freed, nothing moved,
//! the page stays.
//!
//! The panic is not raised again when the core is done. The thread that ran short of memory is seldom the one with the
//! bug. A background thread has no caller at all. And a request that unwound would leak its block. The panic hook has
//! reported it by then. [`crate::Arena::callback_panics`] returns the number of panics.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use framewright::machine::{Busy, Need};
use framewright::{Order, Pfn};

/// Callbacks of an allocator on a [`crate::Native`] machine ([`crate::Native::with_callbacks`]).
///
/// They run on the thread whose request is short of memory, or that calls [`framewright::Allocator::balance`], takes a
/// range of frames or compacts. Such a thread holds nothing of the allocator and is not in an interrupt; several
/// threads may call at once. Callbacks may sleep, fail, and call the allocator. Their own requests must carry
/// `__GFP_MEMALLOC` or ask for no reclaim.
///
/// A callback that panics has refused: it freed nothing, does not migrate, or found the block busy. The panic ends
/// there and is counted ([`crate::Native::callback_panics`], [`crate::Arena::callback_panics`]).
pub trait Callbacks: Send + Sync {
    /// Frees memory through the allocator's own calls, and returns the number of frames.
    ///
    /// `need` tells how many are needed, how hard to look, and whether to be gentle.
    fn reclaim(&self, need: &Need) -> u64 {
        let _ = need;
        0
    }

    /// Returns whether [`Callbacks::migrate`] moves anything. If not, the allocator looks for no block to move.
    fn migrates(&self) -> bool {
        false
    }

    /// Moves the contents of the movable block at `from` to the block at `to`, and frees `from`.
    ///
    /// Both have this order. `to` belongs to the callback from now on. The callback must find `from` among its own
    /// blocks, under a lock of its own: the owner may have freed it since.
    ///
    /// # Errors
    /// [`Busy`] if the block cannot move now: it stays, or its owner has freed it. `to` is the allocator's again. A
    /// panic has that effect too, so a callback must not panic once it uses `to`.
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
        // Unfinished work is the embedder's, whose locks are poisoned.
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
