//! The note that a page's handle leaves when it is dropped, for the holder of the page's lock.
//!
//! A dropped handle does not wait for the lock. It leaves the note and tries the lock; the holder of the lock releases
//! it and looks for the note. Between the two steps each side passes a full fence. So either the handle's try finds the
//! lock free, or the holder sees the note, and one of them frees the page.
//!
//! It is generic over the word, so that the models of `framewright-models` run this code on loom's words.

use framewright::machine::{Ordering, Word};

/// A word whose user may need a full fence.
pub(crate) trait Fenced: Word<u8> {
    /// Passes a full fence.
    fn fence(&self);
}

/// Whether a page's handle is gone.
#[derive(Debug)]
pub(crate) struct Abandoned<W>(W);

impl<W: Fenced> Default for Abandoned<W> {
    fn default() -> Abandoned<W> {
        Abandoned(W::new(0))
    }
}

impl<W: Fenced> Abandoned<W> {
    /// Leaves the note.
    pub(crate) fn note(&self) {
        self.0.store(1, Ordering::Relaxed);
    }

    /// Whether the note is there; asked after it was left, or after the lock was released.
    pub(crate) fn is_noted(&self) -> bool {
        // ORDER: SeqCst. Between the note and the try of the lock, and between the release of the lock and this look.
        self.0.fence();
        self.0.load(Ordering::Relaxed) != 0
    }
}
