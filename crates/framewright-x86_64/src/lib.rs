//! Framewright as frame allocator of the crate [`x86_64`].
//!
//! The page tables of `x86_64` ask for memory through two traits, [`FrameAllocator`] and [`FrameDeallocator`].
//! [`Frames`] is both, over an [`Allocator`] that is shared.
//!
//! | the traits ask | [`Frames`] |
//! |---|---|
//! | a frame of 4 KiB, 2 MiB or 1 GiB, aligned to its size | [`Allocator::alloc_exact`] with that size |
//! | a frame that nobody else uses | the allocator hands a frame out once |
//! | contents: none; a mapper clears the tables that it makes | no flag for zeros |
//! | nothing on waiting and mobility | the flags of [`Frames::with`]; [`GFP_NOWAIT`] unless given, unmovable |
//! | `&mut self` | a [`Frames`] is two words and a request: each caller makes or copies one |
//! | no error of an allocation | [`Frames::allocate`] returns the reason |
//! | no error of a free | a refused free is counted; [`Frames::deallocate`] returns the reason |
//!
//! A frame larger than the largest block, such as one of 1 GiB, is searched for.
//! A frame may be freed in parts of a smaller size: 512 frames of 4 KiB of one of 2 MiB.
//!
//! Cost: for 4 KiB what [`Allocator::alloc`] and [`Allocator::free`] cost. Other sizes are freed under the zone lock.
//!
//! Rejected: zeroed frames. A table would be cleared twice.
#![no_std]
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

use core::fmt;

use framewright::request::GFP_NOWAIT;
use framewright::{AllocError, Allocator, FreeError, Machine, PfnRange, Request};
use x86_64::PhysAddr;
use x86_64::structures::paging::{FrameAllocator, FrameDeallocator, PageSize, PhysFrame};

/// Frames of an allocator, for the page tables of the crate [`x86_64`].
///
/// The allocator's frames have 4 KiB.
pub struct Frames<'p, 'a, M: Machine> {
    pages: &'p Allocator<'a, M>,
    request: Request,
}

impl<'p, 'a, M: Machine> Frames<'p, 'a, M> {
    /// Returns the frames of `pages`, for callers that may not wait.
    ///
    /// # Safety
    /// - All usable memory that the allocator was booted with is memory, and nothing else uses it.
    /// - The allocator's machine is right: two CPUs are never pinned to one number. The kit's `Kernel` is unsafe to
    ///   implement for this reason.
    /// - No frame is freed while it is used, through whatever interface of `pages`.
    #[allow(unsafe_code, reason = "the trait promises that no two callers have one frame")]
    pub const unsafe fn new(pages: &'p Allocator<'a, M>) -> Self {
        Frames { pages, request: Request::page(GFP_NOWAIT) }
    }

    /// Returns these frames, with the flags, the policy and the limit of `request`. Its order is ignored.
    ///
    /// `Request::page(GFP_KERNEL)` is for tasks that may wait for memory to be reclaimed.
    #[must_use]
    pub const fn with(self, request: Request) -> Self {
        Frames { request, ..self }
    }

    /// Allocates a frame; [`FrameAllocator::allocate_frame`] with the reason of a failure.
    ///
    /// # Errors
    /// As [`Allocator::alloc_exact`]. [`AllocError::Foreign`] if the frame lies above the 52 bits of an address.
    pub fn allocate<S: PageSize>(&self) -> Result<PhysFrame<S>, AllocError> {
        let range = self.pages.alloc_exact(S::SIZE, S::SIZE, &self.request)?;
        let address = PhysAddr::try_new(range.bytes(self.page_shift()).start).ok();
        address.and_then(|address| PhysFrame::from_start_address(address).ok()).ok_or_else(|| {
            let _ = self.pages.free_exact(range);
            AllocError::Foreign(range.start)
        })
    }

    /// Frees a frame, or a part of a larger one; [`FrameDeallocator::deallocate_frame`] with the reason of a refusal.
    ///
    /// # Safety
    /// The frame is not used.
    ///
    /// # Errors
    /// As [`Allocator::free_exact`].
    #[allow(unsafe_code, reason = "as the trait's method, which it serves")]
    pub unsafe fn deallocate<S: PageSize>(&self, frame: PhysFrame<S>) -> Result<(), FreeError> {
        let start = frame.start_address().as_u64();
        self.pages.free_exact(PfnRange::within_bytes(start, start.saturating_add(S::SIZE), self.page_shift()))
    }

    fn page_shift(&self) -> u8 {
        self.pages.geometry().page_shift
    }
}

impl<M: Machine> Clone for Frames<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Frames<'_, '_, M> {}

impl<M: Machine> fmt::Debug for Frames<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("request", &self.request).finish_non_exhaustive()
    }
}

// SAFETY: an allocator hands a frame out once, until it is freed. That its memory and its machine are right, and that
// no frame is freed too early, is the promise of the caller of `Frames::new`.
#[allow(unsafe_code, reason = "the trait is unsafe to implement")]
unsafe impl<S: PageSize, M: Machine> FrameAllocator<S> for Frames<'_, '_, M> {
    fn allocate_frame(&mut self) -> Option<PhysFrame<S>> {
        self.allocate().ok()
    }
}

#[allow(unsafe_code, reason = "the trait's method is unsafe to call")]
impl<S: PageSize, M: Machine> FrameDeallocator<S> for Frames<'_, '_, M> {
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame<S>) {
        // A refusal is counted, and nothing has changed.
        // SAFETY: the caller's promise.
        let _ = unsafe { self.deallocate(frame) };
    }
}
