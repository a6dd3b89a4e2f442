//! A pointer that threads share, as a word.
//!
//! Files that publish values by a pointer are generic over it, so that the models of `framewright-models` run them on
//! loom's words.
//!
//! # Why the unsafe code is right
//!
//! Such a file follows a pointer that it has set. So the trait is unsafe to implement: a word returns what was stored.

use framewright::machine::Ordering;

/// A word that holds a pointer.
///
/// # Safety
/// Each call returns a pointer that an earlier call stored, or that the word was made with.
pub(crate) unsafe trait Pointer<T> {
    /// The pointer.
    fn load(&self, order: Ordering) -> *mut T;
    /// Stores a pointer.
    fn store(&self, new: *mut T, order: Ordering);
    /// Stores a pointer and returns the one before.
    fn swap(&self, new: *mut T, order: Ordering) -> *mut T;
    /// Stores a pointer if it is null, and says whether it did.
    fn set(&self, new: *mut T, order: Ordering) -> bool;
}
