//! Ranges of pages side by side, which know their address and free themselves.
//!
//! A [`Block`](super::pages::Block) has a power of two of pages. A [`PageRange`] has as many as its bytes need: the
//! allocator takes a block and frees its tail, or finds free pages that lie side by side.
//!
//! Rejected: a method for a range's part. Its owner frees the whole, or keeps it.
//!
//! # Why the unsafe code is right
//!
//! A [`PageRange`] is the one owner of its frames, as a block is ([`super::pages`]): its fields are private, and each
//! is made in this file of frames that were just allocated, or by [`PageRange::new`], which is unsafe.

use std::alloc::Layout;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use framewright::{AllocError, Order, PfnRange, Request};

use super::arena::Arena;
use super::pages::Handle;
use crate::view::{self, Piece, Reads, Writes};

/// Allocated pages side by side, freed when dropped. It dereferences to their bytes.
pub struct PageRange<H: Handle> {
    arena: H,
    frames: PfnRange,
}

impl Arena {
    /// Allocates pages side by side for `layout`; they are freed when dropped.
    ///
    /// The size is rounded up to whole pages, not to a power of two, and may be larger than the largest block. The
    /// request's order does not count. The contents are as of [`Arena::alloc`].
    ///
    /// ```
    /// use framewright_rt::{Arena, Request, request::GFP_USER};
    /// use std::alloc::Layout;
    ///
    /// let arena = Arena::builder().size(64 << 20).build()?;
    /// let mut ring = arena.alloc_range(&Request::page(GFP_USER), Layout::from_size_align(5 << 20, 2 << 20)?)?;
    /// ring[5_000_000] = 1;
    /// assert_eq!((ring.len(), ring.address().addr().get() % (2 << 20)), (5 << 20, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`framewright::Allocator::alloc_contig`]. [`AllocError::BadRange`] if the size is 0, and
    /// [`AllocError::BadAlignment`] if the alignment exceeds that of [`Arena::aligned_order`].
    #[cfg_attr(any(debug_assertions, feature = "owners"), track_caller)]
    pub fn alloc_range(&self, request: &Request, layout: Layout) -> Result<PageRange<&Arena>, AllocError> {
        Ok(PageRange { arena: self, frames: self.contiguous(request, layout)? })
    }

    /// Allocates a range as [`Arena::alloc_range`] does; it keeps the arena alive.
    ///
    /// # Errors
    /// As [`Arena::alloc_range`].
    #[cfg_attr(any(debug_assertions, feature = "owners"), track_caller)]
    pub fn alloc_range_owned(
        self: &Arc<Self>,
        request: &Request,
        layout: Layout,
    ) -> Result<PageRange<Arc<Arena>>, AllocError> {
        Ok(PageRange { arena: Arc::clone(self), frames: self.contiguous(request, layout)? })
    }

    #[cfg_attr(any(debug_assertions, feature = "owners"), track_caller)]
    fn contiguous(&self, request: &Request, layout: Layout) -> Result<PfnRange, AllocError> {
        let frames = layout.size().div_ceil(self.page_size()) as u64;
        let align = Order(layout.align().div_ceil(self.page_size()).trailing_zeros() as u8);
        let max = self.aligned_order();
        // A larger alignment would be one of numbers alone.
        if align > max {
            return Err(AllocError::BadAlignment { align, max });
        }
        let range = self.alloc_contig(frames, align, request)?;
        self.inner.record(range, self.inner.owners.caller());
        Ok(range)
    }

    /// Allocates frames side by side as [`Allocator::alloc_contig`](framewright::Allocator::alloc_contig) does.
    ///
    /// Where none are found, and the request may reclaim, the arena grows by as many and they are searched once more.
    /// The caller frees them by the allocator's own call.
    ///
    /// # Errors
    /// As that call's.
    pub fn alloc_contig(&self, frames: u64, align: Order, request: &Request) -> Result<PfnRange, AllocError> {
        let inner = &self.inner;
        let search = || inner.allocator().alloc_contig(frames, align, request);
        match search() {
            // A smaller range is part of a block, whose request has made the arena grow.
            Err(AllocError::NoMemory { .. })
                if frames > self.report().max_order.frames()
                    && request.gfp.may_reclaim()
                    && inner.grow_for(&inner.need_of(frames, request)) != 0 =>
            {
                search()
            }
            found => found,
        }
    }

    /// Returns the largest order whose blocks have addresses that are multiples of their size.
    ///
    /// It is that of the largest block, unless the arena uses memory that begins at a multiple of less
    /// ([`crate::ArenaBuilder::build_in`]).
    pub fn aligned_order(&self) -> Order {
        // The first frame's number is a multiple of the largest block.
        let start = self.inner.memory.start().addr().get() >> self.page_shift();
        Order(start.trailing_zeros() as u8).min(self.report().max_order)
    }

    /// Returns the smallest order whose blocks hold `bytes` bytes; none if the largest block is smaller.
    pub fn order_of(&self, bytes: usize) -> Option<Order> {
        let pages = bytes.div_ceil(self.page_size()).checked_next_power_of_two()?;
        let order = Order(pages.trailing_zeros() as u8);
        (order <= self.report().max_order).then_some(order)
    }
}

impl<H: Handle> PageRange<H> {
    /// # Safety
    /// The frames are allocated from this arena, and have no other owner.
    pub(crate) unsafe fn new(arena: H, frames: PfnRange) -> Self {
        PageRange { arena, frames }
    }

    /// Its frames.
    pub const fn frames(&self) -> PfnRange {
        self.frames
    }

    /// Where it is.
    pub fn address(&self) -> NonNull<u8> {
        self.arena.address_of(self.frames.start)
    }

    /// Its size in bytes: whole pages.
    #[expect(clippy::len_without_is_empty, reason = "no range is empty")]
    pub fn len(&self) -> usize {
        (self.frames.frames() as usize) << self.arena.page_shift()
    }

    /// Its arena.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }
}

impl<H: Handle> Drop for PageRange<H> {
    fn drop(&mut self) {
        self.arena.inner.free_range(self.frames);
    }
}

// SAFETY: the pages lie side by side in the arena's memory, which is one object. They are mapped as long as the arena
// lives, of which the handle has a share. The value owns them.
unsafe impl<H: Handle> Reads for PageRange<H> {
    #[inline(always)]
    fn place(&self) -> Piece {
        let (base, offset) = self.arena.place_of(self.frames.start);
        (base, offset, self.len())
    }
}

// SAFETY: as above; the pages have one owner.
unsafe impl<H: Handle> Writes for PageRange<H> {}

impl<H: Handle> Deref for PageRange<H> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        view::read(self)
    }
}

impl<H: Handle> DerefMut for PageRange<H> {
    fn deref_mut(&mut self) -> &mut [u8] {
        view::write(self)
    }
}

impl<H: Handle> fmt::Debug for PageRange<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageRange({} at {:p})", self.frames, self.address())
    }
}
