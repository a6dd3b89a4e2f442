//! A word that says which thread has something: a CPU of the allocator, or a line of a ledger.
//!
//! The word is the thread's mark, or 0. A thread takes the thing by an exchange of 0 for its own mark. It gives it back
//! by a store of 0, which no other thread does: a word that is not 0 is its holder's. So each holder comes after the
//! one before it, with all that the earlier one wrote.
//!
//! | | by | orders |
//! |---|---|---|
//! | take | an exchange, acquire; or a restartable sequence ([`crate::cpus`]) | after the last holder |
//! | give back | a store, release | before the next holder |
//!
//! It is generic over the word, so that the models of `framewright-models` run this code on loom's words.

use framewright::machine::{Ordering, Word};

/// The mark of the thread that has something; 0 for none.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Holder<W>(W);

impl<W: Word<usize>> Default for Holder<W> {
    /// No thread has it.
    fn default() -> Holder<W> {
        Holder(W::new(0))
    }
}

impl<W: Word<usize>> Holder<W> {
    /// The mark, which is only sure if it is the caller's.
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes it for the thread `me`.
    ///
    /// # Errors
    /// The mark of the thread that has it, perhaps `me`: an interrupt of this thread was faster.
    pub(crate) fn take(&self, me: usize) -> Result<(), usize> {
        // ORDER: Acquire. Comes after all that the last holder did; partner: `give_back`.
        self.0.cas(0, me, Ordering::Acquire).map(drop)
    }

    /// Gives it back; the caller's thread has it.
    #[inline]
    pub(crate) fn give_back(&self) {
        // ORDER: Release. All that this holder did comes before; partner: `take`, and the sequences.
        self.0.store(0, Ordering::Release);
    }

    /// Takes it away from a thread that does not exist here, in a fork's child of one thread.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}
