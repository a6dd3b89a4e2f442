//! Framewright with the types of the crate [`free_list`], which manages the memory of the unikernel Hermit.
//!
//! Hermit's kernel has a trait `PageRangeAllocator` of its own, and serves physical memory by a `FreeList` under a
//! lock. [`PageRanges`] has the calls that its implementation makes, with the same types and names:
//!
//! | [`free_list::FreeList`] | [`PageRanges`] |
//! |---|---|
//! | `allocate(layout)` | [`Allocator::alloc_exact`]: any number of pages, any alignment |
//! | `allocate_at(range)` | [`Allocator::alloc_range`]: just these pages; not in an interrupt |
//! | `deallocate(range)` of what was allocated, whole or in parts | [`Allocator::free_exact`] |
//! | `deallocate(range)` of new memory | refused: boot names all memory |
//! | `allocate_outside_of`, `allocate_with` | none: a limit of addresses is [`Request::below`] |
//! | `&mut self` | `&self`: no lock around it |
//! | a list that grows by the global allocator | descriptors of a fixed size |
//!
//! Cost: for one page what [`Allocator::alloc`] and [`Allocator::free`] cost; a free list is walked from its start.
//!
//! Rejected: virtual memory, for which Hermit has a second free list. Half of an address space has more pages than
//! descriptors can be kept for.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

use core::fmt;

use framewright::request::GFP_NOWAIT;
use framewright::{AllocError, Allocator, FreeError, Machine, PfnRange, Request};
use free_list::{PageLayout, PageRange};

/// Ranges of an allocator's pages, whose size is [`free_list::PAGE_SIZE`].
pub struct PageRanges<'p, 'a, M: Machine> {
    pages: &'p Allocator<'a, M>,
    request: Request,
}

impl<'p, 'a, M: Machine> PageRanges<'p, 'a, M> {
    /// Returns the page ranges of `pages`, for callers that may not wait.
    pub const fn new(pages: &'p Allocator<'a, M>) -> Self {
        PageRanges { pages, request: Request::page(GFP_NOWAIT) }
    }

    /// Returns these ranges, with the flags, the policy and the limit of `request`. Its order is ignored.
    #[must_use]
    pub const fn with(self, request: Request) -> Self {
        PageRanges { request, ..self }
    }

    /// Allocates a range of pages with the size and the alignment of `layout`.
    ///
    /// # Errors
    /// As [`Allocator::alloc_exact`]. [`AllocError::Foreign`] if the range is above what a `usize` can address.
    pub fn allocate(&self, layout: PageLayout) -> Result<PageRange, AllocError> {
        let range = self.pages.alloc_exact(layout.size() as u64, layout.align() as u64, &self.request)?;
        let bytes = range.bytes(self.pages.geometry().page_shift);
        let ends = usize::try_from(bytes.start).ok().zip(usize::try_from(bytes.end).ok());
        ends.and_then(|(start, end)| PageRange::new(start, end).ok()).ok_or_else(|| {
            let _ = self.pages.free_exact(range);
            AllocError::Foreign(range.start)
        })
    }

    /// Allocates the pages of `range`.
    ///
    /// With flags that let the caller wait, movable pages in the way are moved.
    ///
    /// # Errors
    /// As [`Allocator::alloc_range`]: some page is in use, is not memory, or lies in another zone than the first; or
    /// this is an interrupt.
    pub fn allocate_at(&self, range: PageRange) -> Result<(), AllocError> {
        let frames = self.frames(range);
        // The allocator's pages may be larger than the trait's.
        if frames.bytes(self.pages.geometry().page_shift) != (range.start() as u64..range.end() as u64) {
            return Err(AllocError::BadRange(frames));
        }
        self.pages.alloc_range(frames, self.request.gfp)
    }

    /// Frees a range of pages: one or several allocations, or any part of one.
    ///
    /// # Errors
    /// As [`Allocator::free_exact`].
    pub fn deallocate(&self, range: PageRange) -> Result<(), FreeError> {
        self.pages.free_exact(self.frames(range))
    }

    fn frames(&self, range: PageRange) -> PfnRange {
        PfnRange::within_bytes(range.start() as u64, range.end() as u64, self.pages.geometry().page_shift)
    }
}

impl<M: Machine> Clone for PageRanges<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for PageRanges<'_, '_, M> {}

impl<M: Machine> fmt::Debug for PageRanges<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageRanges").field("request", &self.request).finish_non_exhaustive()
    }
}
