//! Owned memory as slices of bytes.
//!
//! A block, a range and a locked movable page each own a piece of an arena's memory, and each is a slice of bytes to
//! its user. They name the piece by [`Reads::place`]; [`read`] and [`write`] make the slice.
//!
//! # Why the unsafe code is right
//!
//! The borrow of the value stands for the borrow of the memory. A value that implements [`Reads`] has a right to its
//! piece as long as it lives: other code may read it at most, and nothing unmaps it. So a shared borrow of the value
//! may become a shared slice. A value that implements [`Writes`] has the piece alone, so a unique borrow of the value
//! excludes every other slice of it. The memory is initialized: the kernel made it, or the caller that handed it in
//! promised so. Both functions bind the slice to the borrow. The proof that a type has the right stands at its `impl`.
//!
//! Cost: none; both functions are inlined to an addition.
//!
//! Rejected: a slice inside of the value. It would be a second pointer, and a slice must not exist while the value is
//! moved after the memory went to another owner.

use std::ptr::NonNull;

/// Where a piece of memory is: an address, the distance from it in bytes, and the length in bytes.
pub(crate) type Piece = (NonNull<u8>, usize, usize);

/// A value that may read a piece of memory as long as it lives.
///
/// # Safety
/// While the value is borrowed its place stays, lies in one mapped object, is initialized, and is written only by
/// [`write`].
pub(crate) unsafe trait Reads {
    /// The place, which is always the same one.
    fn place(&self) -> Piece;
}

/// A value that has its piece of memory alone.
///
/// # Safety
/// While the value is borrowed uniquely, no other code reads or writes its place.
pub(crate) unsafe trait Writes: Reads {}

/// The bytes of a value.
#[inline(always)]
pub(crate) fn read<T: Reads>(value: &T) -> &[u8] {
    let (base, offset, len) = value.place();
    // SAFETY: the promise of `Reads`, as long as the value is borrowed.
    unsafe { std::slice::from_raw_parts(base.add(offset).as_ptr(), len) }
}

/// The bytes of a value, to be written.
#[inline(always)]
pub(crate) fn write<T: Writes>(value: &mut T) -> &mut [u8] {
    let (base, offset, len) = value.place();
    // SAFETY: the promises of `Reads` and `Writes`, as long as the value is borrowed uniquely.
    unsafe { std::slice::from_raw_parts_mut(base.add(offset).as_ptr(), len) }
}
