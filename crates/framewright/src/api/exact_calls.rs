//! Memory by its size in bytes, as Linux's `alloc_pages_exact`: any number of frames, freed whole or in parts.
//!
//! Most kernels, and the traits of other allocators, ask for a size and an alignment in bytes. They free all of the
//! memory or any part, by its addresses. A block of the buddy system has a power of two of frames and is freed as a
//! whole.
//!
//! The idea: the size becomes frames, the frames a range. [`Allocator::alloc_contig`] and [`Allocator::free_range`] do
//! the rest, so that no caller rounds, cuts a block or joins its parts. Single frames take the fast path, because such
//! callers mostly ask for those.
//!
//! Cost: a single frame costs what [`Allocator::alloc`] and [`Allocator::free`] do. More frames cost a block, and a cut
//! under the zone lock where their number is no power of two.
//!
//! Rejected: sizes rounded up to a block. A caller of five frames would hold eight, and could not free a part.

use crate::api::allocator::Allocator;
use crate::seam::machine::Machine;
use crate::types::error::{AllocError, FreeError};
use crate::types::request::Request;
use crate::types::units::{Order, PfnRange};

impl<M: Machine> Allocator<'_, M> {
    /// Allocates the frames of `bytes` bytes at a multiple of `align` bytes.
    ///
    /// The order of the request is ignored. The size is rounded up to whole frames, the alignment to a power of two and
    /// to a frame. Free it by [`Allocator::free_exact`], whole or in parts.
    ///
    /// # Errors
    /// As [`Allocator::alloc_contig`]; for a single frame as [`Allocator::alloc`].
    pub fn alloc_exact(&self, bytes: u64, align: u64, request: &Request) -> Result<PfnRange, AllocError> {
        let page_shift = self.geometry().page_shift;
        let frames = PfnRange::around_bytes(0, bytes, page_shift).frames();
        let log2 = 64_u32.saturating_sub(align.saturating_sub(1).leading_zeros());
        let align = Order(log2.saturating_sub(page_shift.into()) as u8);
        if frames != 1 || align != Order(0) {
            return self.alloc_contig(frames, align, request);
        }
        let pfn = self.alloc(&Request { order: Order(0), ..*request })?;
        Ok(PfnRange::block(pfn, Order(0)))
    }

    /// Frees any stretch of allocated frames; a single frame costs what [`Allocator::free`] does.
    ///
    /// # Errors
    /// As [`Allocator::free_range`]; for a single frame also as [`Allocator::free`], whose note on two CPUs that free
    /// it in the same instant holds.
    pub fn free_exact(&self, range: PfnRange) -> Result<(), FreeError> {
        // A part of a larger block is refused here, and cut below.
        if range.frames() == 1 && self.free_pages_at_once(range.start, Order(0)) {
            return Ok(());
        }
        self.free_range(range)
    }
}
