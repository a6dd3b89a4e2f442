//! How many threads are at work in an arena, for a caller that needs it at rest.
//!
//! A worker begins with a lock that the caller holds too, so none begins while the caller looks. It ends without the
//! lock, because it calls other code meanwhile. So the end has a pair: what the workers did comes before a look that
//! finds none.
//!
//! It is generic over the word, so that the models of `framewright-models` run this code on loom's words.

use framewright::machine::{Ordering, Word};

/// Number of threads at work.
#[derive(Debug)]
pub(crate) struct Workers<W>(W);

impl<W: Word<usize>> Default for Workers<W> {
    fn default() -> Workers<W> {
        Workers(W::new(0))
    }
}

impl<W: Word<usize>> Workers<W> {
    /// Adds one. The caller holds the lock.
    pub(crate) fn begin(&self) {
        self.0.add(1, Ordering::Relaxed);
    }

    /// Removes one, if there is any: in a fork's child there is none.
    pub(crate) fn end(&self) {
        let mut now = self.0.load(Ordering::Relaxed);
        while let Some(less) = now.checked_sub(1) {
            // ORDER: Release. What the worker did comes before; partner: the Acquire in `is_none`.
            match self.0.cas(now, less, Ordering::Release) {
                Ok(_) => return,
                Err(other) => now = other,
            }
        }
    }

    /// Whether there is none. The caller holds the lock, so it stays true.
    pub(crate) fn is_none(&self) -> bool {
        // ORDER: Acquire. Comes after all that the workers did; partner: the Release in `end`.
        self.0.load(Ordering::Acquire) == 0
    }

    /// Forgets all, in a fork's child of one thread.
    pub(crate) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
