//! The context of a call, as a type.
//!
//! | context | what it may call |
//! |---|---|
//! | a thread | everything: [`Allocator`] |
//! | an interrupt of a thread | calls that neither wait for another CPU nor reclaim or move memory: [`Interrupt`] |
//! | any, such as an interrupt of an interrupt or an NMI | calls that never wait: [`AnyContext`] |
//!
//! An embedder passes the type to the code that runs there, and the compiler checks the calls. Code that holds the
//! [`Allocator`] itself is checked at run time. In an interrupt, calls that wait, reclaim or move memory fail with
//! [`AllocError::InInterrupt`]. In an interrupt of an interrupt, or of a section with interrupts off,
//! [`crate::Machine::pin`] must name no CPU; then every call fails but [`Allocator::alloc_nolock`] and
//! [`Allocator::free_nolock`]. The check costs the fast path nothing: a CPU that does not exist has no lists.

use crate::api::allocator::Allocator;
use crate::api::bulk::BulkFree;
use crate::seam::machine::Machine;
use crate::types::error::{AllocError, FreeError};
use crate::types::request::{__GFP_DIRECT_RECLAIM, Gfp, Request};
use crate::types::units::{Order, Pfn, PfnRange};

/// The calls that an interrupt may make; from [`Allocator::interrupt`].
pub struct Interrupt<'w, 'a, M: Machine>(&'w Allocator<'a, M>);

/// The calls that are allowed in any context; from [`Allocator::any_context`].
pub struct AnyContext<'w, 'a, M: Machine>(&'w Allocator<'a, M>);

// Not derived: that would ask for `M: Copy`.
impl<M: Machine> Clone for Interrupt<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Interrupt<'_, '_, M> {}

impl<M: Machine> Clone for AnyContext<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for AnyContext<'_, '_, M> {}

impl<'a, M: Machine> Allocator<'a, M> {
    /// The calls that an interrupt may make; `None` where the machine has no CPU for the caller, as in an interrupt of
    /// an interrupt.
    pub fn interrupt(&self) -> Option<Interrupt<'_, 'a, M>> {
        self.world().pinned(|_| Interrupt(self))
    }

    /// The calls that are allowed in any context.
    pub const fn any_context(&self) -> AnyContext<'_, 'a, M> {
        AnyContext(self)
    }
}

/// A copy of the request that must not wait.
const fn without_reclaim(request: &Request) -> Request {
    Request { gfp: Gfp(request.gfp.0 & !__GFP_DIRECT_RECLAIM.0), ..*request }
}

impl<M: Machine> Interrupt<'_, '_, M> {
    /// Allocates as [`Allocator::alloc`] does, without reclaim whatever the flags say.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.0.alloc(&without_reclaim(request))
    }

    /// Frees as [`Allocator::free`] does.
    ///
    /// # Errors
    /// As [`Allocator::free`].
    #[inline]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.0.free(pfn, order)
    }

    /// Allocates as [`Allocator::alloc_bulk`] does, without reclaim whatever the flags say.
    ///
    /// # Errors
    /// As [`Allocator::alloc_bulk`].
    pub fn alloc_bulk(&self, request: &Request, out: &mut [Pfn]) -> Result<usize, AllocError> {
        self.0.alloc_bulk(&without_reclaim(request), out)
    }

    /// Allocates as [`Allocator::alloc_contig`] does, without reclaim whatever the flags say.
    ///
    /// # Errors
    /// As [`Allocator::alloc_contig`].
    pub fn alloc_contig(&self, frames: u64, align: Order, request: &Request) -> Result<PfnRange, AllocError> {
        self.0.alloc_contig(frames, align, &without_reclaim(request))
    }

    /// Frees as [`Allocator::free_range`] does.
    ///
    /// # Errors
    /// As [`Allocator::free_range`].
    pub fn free_range(&self, range: PfnRange) -> Result<(), FreeError> {
        self.0.free_range(range)
    }

    /// Frees as [`Allocator::free_bulk`] does.
    pub fn free_bulk(&self, blocks: &[Pfn], order: Order) -> BulkFree {
        self.0.free_bulk(blocks, order)
    }
}

impl<M: Machine> AnyContext<'_, '_, M> {
    /// Allocates as [`Allocator::alloc_nolock`] does.
    ///
    /// # Errors
    /// As [`Allocator::alloc_nolock`].
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.0.alloc_nolock(request)
    }

    /// Frees as [`Allocator::free_nolock`] does.
    ///
    /// # Errors
    /// As [`Allocator::free_nolock`].
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.0.free_nolock(pfn, order)
    }
}
