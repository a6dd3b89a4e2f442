//! The memory of an arena's descriptors.
//!
//! Descriptors that grow with the number of frames lie in a mapping of their own between guard pages: 17 bytes for each
//! frame, and room for per-CPU lists. That is far from the memory that they describe, so a buffer overrun does not
//! reach them. The kernel makes the pages when they are touched. The core begins with zeroed descriptors and touches
//! only those of block heads, so an arena of 1 TiB costs a few MiB at first. Transparent huge pages are off there;
//! otherwise each touch would make 2 MiB resident. Descriptors of zones and CPUs lie on the heap in a [`Storage`].

use std::mem::{align_of, size_of};
use std::ptr::NonNull;

use framewright::{Layout, Link, Machine, Magazine, Parts};

use crate::native::Native;
use crate::os::{Advice, Backed, Mapping, OsError};
use crate::storage::Storage;

/// Types of which a memory of zeros is a valid value.
///
/// # Safety
/// All bytes zero must be a valid value without further meaning (no pointer, no owner).
unsafe trait Zeroed {}

// SAFETY: an atomic integer in a transparent wrapper.
unsafe impl Zeroed for <Native as Machine>::U64 {}
// SAFETY: as above.
unsafe impl Zeroed for <Native as Machine>::U32 {}
// SAFETY: as above.
unsafe impl Zeroed for <Native as Machine>::U8 {}
// SAFETY: a record of such words alone; the core documents that a memory of zeros is a valid descriptor of a hole.
unsafe impl Zeroed for Link<Native> {}
// SAFETY: as above; a magazine of zeros was never used.
unsafe impl Zeroed for Magazine<Native> {}

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

/// Where a part begins in the mapping, in bytes, and how many entries it has.
#[derive(Clone, Copy)]
struct Span {
    at: usize,
    count: usize,
}

/// The parts that grow with frames.
struct Plan {
    states: Span,
    links: Span,
    heads: Span,
    pageblocks: Span,
    slots: Span,
    magazines: Span,
    cluster_of: Span,
    owners: Span,
    owned: Span,
    bytes: usize,
}

impl Plan {
    /// None if the address space is too small.
    fn of(layout: &Layout) -> Option<Plan> {
        let mut bytes = 0_usize;
        let mut place = |count: usize, size: usize| {
            let at = bytes;
            // Parts begin on pages of their own: `align` of none is larger.
            bytes = count.checked_mul(size)?.checked_next_multiple_of(4096)?.checked_add(bytes)?;
            Some(Span { at, count })
        };
        Some(Plan {
            states: place(layout.frames, size_of::<<Native as Machine>::U64>())?,
            links: place(layout.frames, size_of::<Link<Native>>())?,
            heads: place(layout.frames, size_of::<<Native as Machine>::U8>())?,
            pageblocks: place(layout.pageblocks, size_of::<<Native as Machine>::U32>())?,
            slots: place(layout.slots, size_of::<<Native as Machine>::U32>())?,
            magazines: place(layout.magazines, size_of::<Magazine<Native>>())?,
            cluster_of: place(layout.cluster_of, size_of::<<Native as Machine>::U32>())?,
            owners: place(layout.owners, size_of::<<Native as Machine>::U32>())?,
            owned: place(layout.owned, size_of::<<Native as Machine>::U64>())?,
            bytes,
        })
    }
}

impl Metadata {
    /// Memory for the descriptors of `layout`.
    pub(super) fn new(layout: &Layout) -> Result<Metadata, OsError> {
        let bytes = Plan::of(layout).map_or(usize::MAX / 2, |plan| plan.bytes);
        let frames = Mapping::new(Backed::Anonymous, bytes, 4096)?;
        // SAFETY: this advice changes no contents.
        // A kernel without transparent huge pages does not know it, and needs it not.
        let _ = unsafe { frames.advise(0, frames.len(), Advice::NoHugePages) };
        let few =
            Layout { frames: 0, pageblocks: 0, slots: 0, magazines: 0, cluster_of: 0, owners: 0, owned: 0, ..*layout };
        let rest = NonNull::from(Box::leak(Box::new(Storage::new(&few))));
        Ok(Metadata { frames, rest })
    }

    /// Address space of the descriptors that grow with frames, in bytes.
    pub(super) const fn len(&self) -> usize {
        self.frames.len()
    }

    /// The parts to boot with.
    ///
    /// # Safety
    /// Called once, with the layout that the memory was made for. The result is not used after this value is dropped.
    pub(super) unsafe fn parts(&mut self, layout: &Layout) -> Option<Parts<'static, Native>> {
        let plan = Plan::of(layout)?;
        // SAFETY: from a leaked box, so valid and alone; the caller takes care of the lifetime.
        let rest = unsafe { &mut *self.rest.as_ptr() };
        // SAFETY: the parts lie side by side in the mapping that was made by the same plan, and are used once.
        unsafe {
            Some(Parts {
                states: self.slice(plan.states),
                links: self.slice(plan.links),
                heads: self.slice(plan.heads),
                pageblocks: self.slice(plan.pageblocks),
                slots: self.slice(plan.slots),
                magazines: self.slice(plan.magazines),
                cluster_of: self.slice(plan.cluster_of),
                owners: self.slice(plan.owners),
                owned: self.slice(plan.owned),
                ..rest.parts()
            })
        }
    }

    /// # Safety
    /// No two slices may share bytes, and none may be used after this value is dropped.
    unsafe fn slice<T: Zeroed>(&self, place: Span) -> &'static mut [T] {
        assert!(place.at + place.count * size_of::<T>() <= self.frames.len() && align_of::<T>() <= 4096);
        // SAFETY: within the mapping, aligned to pages, and zeroed memory is a valid `T`; the caller does the rest.
        unsafe { std::slice::from_raw_parts_mut(self.frames.start().add(place.at).cast().as_ptr(), place.count) }
    }
}

/// Zeroed words, one for each frame, in a mapping of their own.
pub(super) struct Words {
    memory: Mapping,
    count: usize,
}

impl Words {
    pub(super) fn new(count: usize) -> Result<Words, OsError> {
        let bytes = count.saturating_mul(size_of::<<Native as Machine>::U64>());
        let memory = Mapping::new(Backed::Anonymous, bytes.max(1), 4096)?;
        // SAFETY: this advice changes no contents.
        let _ = unsafe { memory.advise(0, memory.len(), Advice::NoHugePages) };
        Ok(Words { memory, count })
    }

    #[inline]
    pub(super) fn get(&self) -> &[<Native as Machine>::U64] {
        // SAFETY: `count` words fit into the mapping, which lives as long as this; zeroed memory is valid words.
        unsafe { std::slice::from_raw_parts(self.memory.start().cast().as_ptr(), self.count) }
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        // SAFETY: from a leaked box in `new`, dropped nowhere else; the allocator that used it is gone.
        drop(unsafe { Box::from_raw(self.rest.as_ptr()) });
    }
}
