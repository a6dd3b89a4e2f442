//! Where a call is made from, as a type.
//!
//! | context | what it may call |
//! |---|---|
//! | a thread | everything: [`Allocator`] |
//! | an interrupt of a thread | what neither waits for another CPU nor reclaims or moves memory: [`Interrupt`] |
//! | an interrupt of an interrupt, or of whoever holds interrupts off (an NMI); or nobody knows | what waits for nobody: [`AnyContext`] |
//!
//! An embedder hands the type down to the code that runs there, and the compiler does the rest. Code that has the [`Allocator`] itself and
//! does not know where it runs is refused at run time: what waits, reclaims or moves says [`AllocError::InInterrupt`] where the machine says
//! that this is one, and where its [`crate::Machine::pin`] names no CPU, as it must in the third row, every call is refused but
//! [`Allocator::alloc_nolock`] and [`Allocator::free_nolock`]. At the front that costs nothing: a CPU that is not there has no lists.

use crate::api::allocator::Allocator;
use crate::api::bulk::BulkFree;
use crate::seam::machine::Machine;
use crate::types::error::{AllocError, FreeError};
use crate::types::request::{__GFP_DIRECT_RECLAIM, Gfp, Request};
use crate::types::units::{Order, Pfn};

/// What an interrupt may call; by [`Allocator::interrupt`].
pub struct Interrupt<'w, 'a, M: Machine>(&'w Allocator<'a, M>);

/// What anybody may call at any moment; by [`Allocator::any_context`].
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
    /// What an interrupt may call. None where the machine has no CPU for the caller: in an interrupt of an interrupt, say.
    pub fn interrupt(&self) -> Option<Interrupt<'_, 'a, M>> {
        self.world().pinned(|_| Interrupt(self))
    }

    /// What anybody may call at any moment.
    pub const fn any_context(&self) -> AnyContext<'_, 'a, M> {
        AnyContext(self)
    }
}

/// The same request, which waits for nothing.
const fn without_reclaim(request: &Request) -> Request {
    Request { gfp: Gfp(request.gfp.0 & !__GFP_DIRECT_RECLAIM.0), ..*request }
}

impl<M: Machine> Interrupt<'_, '_, M> {
    /// [`Allocator::alloc`], without reclaim whatever the flags say.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.0.alloc(&without_reclaim(request))
    }

    /// [`Allocator::free`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.0.free(pfn, order)
    }

    /// [`Allocator::alloc_bulk`], without reclaim whatever the flags say.
    ///
    /// # Errors
    /// As there.
    pub fn alloc_bulk(&self, request: &Request, out: &mut [Pfn]) -> Result<usize, AllocError> {
        self.0.alloc_bulk(&without_reclaim(request), out)
    }

    /// [`Allocator::free_bulk`].
    pub fn free_bulk(&self, blocks: &[Pfn], order: Order) -> BulkFree {
        self.0.free_bulk(blocks, order)
    }
}

impl<M: Machine> AnyContext<'_, '_, M> {
    /// [`Allocator::alloc_nolock`].
    ///
    /// # Errors
    /// As there.
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.0.alloc_nolock(request)
    }

    /// [`Allocator::free_nolock`].
    ///
    /// # Errors
    /// As there.
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.0.free_nolock(pfn, order)
    }
}
