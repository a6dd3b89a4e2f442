//! What the embedder does when memory is short, or in the way.

use std::fmt;
use std::sync::Arc;

use framewright::machine::{Busy, Need};
use framewright::{Order, Pfn};

/// Callbacks of an allocator on a [`crate::Native`] machine ([`crate::Native::with_callbacks`]).
///
/// They run on the thread whose request is short of memory, on one that calls [`framewright::Allocator::balance`], or on one that wants
/// a range of frames or moves memory together: with nothing of the allocator held, never in an interrupt, and on several threads at once. They may sleep,
/// fail, and call the allocator. What they allocate themselves must carry `__GFP_MEMALLOC` or ask for no reclaim.
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
    /// [`Busy`] when the block cannot move now; it then stays as it was, or was freed by its owner. `to` is the allocator's again.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order) -> Result<(), Busy> {
        let _ = (from, to, order);
        Err(Busy)
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
