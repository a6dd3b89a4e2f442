//! Mapped memory that many threads, or processes, change at once: tables of words.
//!
//! # Why the unsafe code is right
//!
//! A [`Table`] owns its mapping and lends it as slices of atomic integers, never as bytes. So every reference into it
//! allows that others write there: other threads, and other processes that map its file. It has no call that takes
//! memory away or forgets contents, so a slice is right as long as the table lives.
//!
//! [`Words`] names the types of such slices. The arena's descriptors are of these types too; [`crate::arena`] cuts them
//! out of a mapping of its own, because an allocator wants them alone (`metadata.rs`).
//!
//! Cost: a comparison for each slice.
//!
//! Rejected: traits of a library (`zerocopy`). Records of the core would have to implement them, and the core depends
//! on no crate.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use super::call::OsError;
use super::mapping::{Advice, Backed, Mapping};
use crate::words::NativeWord;

/// Types that consist of atomic integers alone.
///
/// # Safety
/// Any bits must be a valid value, without a pointer or an owner, and a value must allow changes while it is shared.
/// The alignment is at most that of a page.
pub(crate) unsafe trait Words {}

// SAFETY: atomic integers.
unsafe impl Words for AtomicU32 {}
// SAFETY: as above.
unsafe impl Words for AtomicU64 {}
// SAFETY: an atomic integer in a transparent wrapper.
unsafe impl Words for NativeWord<AtomicU64> {}
// SAFETY: as above.
unsafe impl Words for NativeWord<AtomicU32> {}
// SAFETY: as above.
unsafe impl Words for NativeWord<AtomicU8> {}

/// Mapped memory that is used as words.
#[derive(Debug)]
pub(crate) struct Table {
    memory: Mapping,
}

impl Table {
    /// At least `len` bytes of zeros, made at the first touch, without huge pages.
    pub(crate) fn zeroed(len: usize) -> Result<Table, OsError> {
        let memory = Mapping::new(Backed::Anonymous, len.max(1), 1)?;
        // A kernel without transparent huge pages does not know it, and needs it not.
        let _ = memory.advise(0, memory.len(), Advice::NoHugePages);
        Ok(Table { memory })
    }

    /// `len` bytes of a file from `from` on, a multiple of the page; shared with others that map it.
    pub(crate) fn of_file(file: BorrowedFd<'_>, from: u64, len: usize) -> Result<Table, OsError> {
        Ok(Table { memory: Mapping::new(Backed::File(file, from), len, 1)? })
    }

    /// The `count` words that begin `at` bytes from its start.
    ///
    /// # Panics
    /// They do not lie in the table, or not at a multiple of their alignment.
    #[inline]
    pub(crate) fn words<T: Words>(&self, at: usize, count: usize) -> &[T] {
        let end = count.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(at));
        assert!(end.is_some_and(|end| end <= self.memory.len()) && at.is_multiple_of(align_of::<T>()));
        // SAFETY: within the mapping, which begins at a page and lives as long as this. Any bits are words, and all
        // references to this memory are to words, which others may change.
        unsafe { std::slice::from_raw_parts(self.memory.start().add(at).cast().as_ptr(), count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lie_in_their_table() {
        let table = Table::zeroed(4096).unwrap();
        assert_eq!(table.words::<AtomicU64>(8, 511).len(), 511);
        for (at, count) in [(8, 512), (4, 1), (4096, 1), (0, usize::MAX)] {
            let looked = std::panic::catch_unwind(|| table.words::<AtomicU64>(at, count).len());
            assert!(looked.is_err(), "{count} from {at} on");
        }
    }
}
