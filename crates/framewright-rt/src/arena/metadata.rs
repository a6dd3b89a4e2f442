//! The memory of an arena's descriptors.
//!
//! Descriptors that grow with the number of frames lie in a mapping of their own between guard pages: 17 bytes for each
//! frame, and room for per-CPU lists. That is far from the memory that they describe, so a buffer overrun does not
//! reach them. The kernel makes the pages when they are touched. The core begins with zeroed descriptors and touches
//! only those of block heads, so an arena of 1 TiB costs a few MiB at first. Transparent huge pages are off there;
//! otherwise each touch would make 2 MiB resident. Descriptors of zones and CPUs lie on the heap in a [`Storage`].
//!
//! # Why the unsafe code is right
//!
//! The allocator borrows its descriptors for good, because it lies beside them in one value ([`super::inner`]). So
//! [`Metadata::parts`] is unsafe: its caller drops the allocator first, and asks once. Given that, each descriptor is
//! borrowed once. [`Remainder`] hands each byte of the mapping out at most once, as [`Words`], of which zeros are valid
//! ones. The storage is used by no other code until it is dropped.

use std::ptr::NonNull;

use framewright::{Layout, Link, Machine, Magazine, Parts};

use crate::native::Native;
use crate::os::{Advice, Backed, Mapping, OsError, Table, Words};
use crate::storage::Storage;

// SAFETY: a record of words alone; the core documents that a memory of zeros is a valid descriptor of a hole.
unsafe impl Words for Link<Native> {}
// SAFETY: as above; a magazine of zeros was never used.
unsafe impl Words for Magazine<Native> {}

/// Parts begin at multiples of this: no type has a larger alignment.
const PART: usize = 4096;

/// Owns the memory that an arena's allocator borrows. It must outlive the allocator.
pub(super) struct Metadata {
    frames: Mapping,
    /// On the heap, from a box.
    ///
    /// A pointer, because the allocator refers into it while this value is moved.
    rest: NonNull<Storage<Native>>,
}

// SAFETY: the storage is owned like a box, and only dropped here. Its contents are words that threads may share, and
// plain data.
unsafe impl Send for Metadata {}
// SAFETY: as above.
unsafe impl Sync for Metadata {}

/// Returns the bytes of the parts that grow with frames; none if the address space is too small.
fn bytes_of(layout: &Layout) -> Option<usize> {
    let parts = [
        (layout.frames, size_of::<<Native as Machine>::U64>()),
        (layout.frames, size_of::<Link<Native>>()),
        (layout.frames, size_of::<<Native as Machine>::U8>()),
        (layout.pageblocks, size_of::<<Native as Machine>::U32>()),
        (layout.slots, size_of::<<Native as Machine>::U32>()),
        (layout.magazines, size_of::<Magazine<Native>>()),
        (layout.cluster_of, size_of::<<Native as Machine>::U32>()),
        (layout.owners, size_of::<<Native as Machine>::U32>()),
        (layout.owned, size_of::<<Native as Machine>::U64>()),
    ];
    let add = |sum: usize, &(count, size): &(usize, usize)| room_of(count, size)?.checked_add(sum);
    parts.iter().try_fold(0, add)
}

/// Returns the bytes of a part: it fills whole pages.
fn room_of(count: usize, size: usize) -> Option<usize> {
    count.checked_mul(size)?.checked_next_multiple_of(PART)
}

/// Zeroed memory that no code refers to, valid as long as the allocator lives.
struct Remainder {
    start: NonNull<u8>,
    len: usize,
}

impl Remainder {
    /// Cuts `count` descriptors off its start; none if it is too small.
    fn cut<T: Words>(&mut self, count: usize) -> Option<&'static mut [T]> {
        let bytes = room_of(count, size_of::<T>()).filter(|&bytes| bytes <= self.len && align_of::<T>() <= PART)?;
        let part = self.start;
        self.start = part.map_addr(|start| start.saturating_add(bytes));
        self.len -= bytes;
        // SAFETY: these bytes were the room's, which is smaller now. They are aligned, and zeros are words. `parts`,
        // which makes the room, passes the lifetime on to its caller.
        Some(unsafe { std::slice::from_raw_parts_mut(part.cast().as_ptr(), count) })
    }
}

impl Metadata {
    /// Memory for the descriptors of `layout`.
    pub(super) fn new(layout: &Layout) -> Result<Metadata, OsError> {
        let frames = Mapping::new(Backed::Anonymous, bytes_of(layout).unwrap_or(usize::MAX / 2), PART)?;
        // A kernel without transparent huge pages does not know it, and needs it not.
        let _ = frames.advise(0, frames.len(), Advice::NoHugePages);
        let few =
            Layout { frames: 0, pageblocks: 0, slots: 0, magazines: 0, cluster_of: 0, owners: 0, owned: 0, ..*layout };
        let rest = NonNull::from(Box::leak(Box::new(Storage::new(&few))));
        Ok(Metadata { frames, rest })
    }

    /// Address space of the descriptors that grow with frames, in bytes.
    pub(super) const fn len(&self) -> usize {
        self.frames.len()
    }

    /// The parts to boot with; none if the memory was made for another layout.
    ///
    /// # Safety
    /// Called once. The result is not used after this value is dropped.
    pub(super) unsafe fn parts(&mut self, layout: &Layout) -> Option<Parts<'static, Native>> {
        let mut room = Remainder { start: self.frames.start(), len: self.frames.len() };
        // SAFETY: from a leaked box, so valid and alone; the caller takes care of the lifetime.
        let rest = unsafe { &mut *self.rest.as_ptr() };
        Some(Parts {
            states: room.cut(layout.frames)?,
            links: room.cut(layout.frames)?,
            heads: room.cut(layout.frames)?,
            pageblocks: room.cut(layout.pageblocks)?,
            slots: room.cut(layout.slots)?,
            magazines: room.cut(layout.magazines)?,
            cluster_of: room.cut(layout.cluster_of)?,
            owners: room.cut(layout.owners)?,
            owned: room.cut(layout.owned)?,
            ..rest.parts()
        })
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        // SAFETY: from a leaked box in `new`, dropped nowhere else; the allocator that used it is gone.
        drop(unsafe { Box::from_raw(self.rest.as_ptr()) });
    }
}

/// Zeroed words, one for each frame, in a mapping of their own.
pub(super) struct FrameWords {
    table: Table,
    count: usize,
}

impl FrameWords {
    pub(super) fn new(count: usize) -> Result<FrameWords, OsError> {
        let bytes = count.saturating_mul(size_of::<<Native as Machine>::U64>());
        Ok(FrameWords { table: Table::zeroed(bytes)?, count })
    }

    #[inline]
    pub(super) fn get(&self) -> &[<Native as Machine>::U64] {
        self.table.words(0, self.count)
    }
}
