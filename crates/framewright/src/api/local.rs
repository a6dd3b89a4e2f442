//! A caller that stays on one CPU.
//!
//! Each call of [`crate::Allocator`] finds the CPU that it runs on and pins itself there. [`Local`] does that once for
//! many calls: it holds the pin and everything that the fast path needs, looked up. It is for a caller that makes many
//! calls in a row or owns a CPU for good: a thread that holds a slot, a kernel with preemption off. Its calls mean the
//! same as the allocator's and are the fastest there are.

use crate::api::allocator::Allocator;
use crate::api::fast_path::FastPath;
use crate::seam::machine::{Machine, Pinned, Step};
use crate::shared::CallCx;
use crate::types::error::{AllocError, FreeError};
use crate::types::request::{__GFP_DIRECT_RECLAIM, Gfp, Request};
use crate::types::units::{CpuId, Order, Pfn};

/// One CPU of an allocator, pinned.
///
/// Where a pin turns preemption off (unless [`Machine::SLEEPS_PINNED`]), its requests never wait for memory, and it
/// should not be held for long.
pub struct Local<'l, 'a, M: Machine> {
    pub(super) allocator: &'l Allocator<'a, M>,
    fast: FastPath<'a, M>,
    pin: M::Pin<'l>,
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// A caller that stays on the CPU it runs on now; `None` if the machine has no CPU for it to keep.
    pub fn local(&self) -> Option<Local<'_, 'a, M>> {
        self.local_on(self.world().shared.machine.pin_kept())
    }

    /// Like [`Allocator::local`]; also `None` if the caller would have to wait for a CPU's holder.
    pub(crate) fn local_now(&self) -> Option<Local<'_, 'a, M>> {
        self.local_on(self.world().shared.machine.pin_now())
    }

    fn local_on<'l>(&'l self, pin: M::Pin<'l>) -> Option<Local<'l, 'a, M>> {
        Some(Local { allocator: self, fast: FastPath::of(self.world(), pin.cpu())?, pin })
    }
}

impl<'a, M: Machine> Local<'_, 'a, M> {
    /// The CPU record that the caller stays on.
    ///
    /// That is the CPU's number, in a task. In another context the records of each context before it are added
    /// (`Config::contexts`).
    pub fn cpu(&self) -> CpuId {
        self.pin.cpu()
    }

    pub(crate) fn fast_path(&self) -> &FastPath<'a, M> {
        &self.fast
    }

    /// Allocates as [`Allocator::alloc`] does.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    #[inline(always)]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        if let Some(route) = self.allocator.route_of(request)?
            && let Some(pfn) = self.fast.alloc(self.allocator.machine(), route)
        {
            return Ok(self.allocator.announced(pfn, request));
        }
        self.alloc_cached_or_slow(request)
    }

    /// Allocates as [`Allocator::alloc_pages`] does, for a request of only these flags and this order.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    #[inline(always)]
    pub fn alloc_pages(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        match self.alloc_pages_at_once(gfp, order)? {
            Some(pfn) => Ok(pfn),
            None => self.alloc_pages_missed(gfp, order),
        }
    }

    /// Allocates a single frame as [`Allocator::alloc_pages_at_once`] does.
    ///
    /// # Errors
    /// As [`Allocator::alloc_pages_at_once`].
    #[inline(always)]
    pub fn alloc_pages_at_once(&self, gfp: Gfp, order: Order) -> Result<Option<Pfn>, AllocError> {
        if order != Order(0) {
            return Ok(None);
        }
        self.allocator.may_fail(&Request::page(gfp))?;
        let served = self.fast.alloc_asked(self.allocator.machine(), gfp);
        Ok(served.map(|pfn| self.allocator.announced_asked(pfn, gfp)))
    }

    #[inline(never)]
    fn alloc_pages_missed(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        let request = Request { order, ..Request::page(gfp) };
        if order == Order(0) { self.alloc_cached_or_slow(&request) } else { self.alloc(&request) }
    }

    #[inline(never)]
    fn alloc_cached_or_slow(&self, request: &Request) -> Result<Pfn, AllocError> {
        if let Some(pfn) = self.allocator.alloc_of_another_run(&self.fast, request) {
            return Ok(pfn);
        }
        let request = &self.request(request);
        self.allocator.served_or_slow(request, self.allocator.world().alloc_pinned(self.cx(), request))
    }

    /// Returns a request as this caller may make it: with preemption off it must not wait.
    pub(super) fn request(&self, request: &Request) -> Request {
        let gfp = if M::SLEEPS_PINNED { request.gfp } else { request.gfp & !__GFP_DIRECT_RECLAIM };
        Request { gfp, ..*request }
    }

    fn cx(&self) -> CallCx<'_, 'a, M> {
        let shared = &self.allocator.world().shared;
        CallCx { shared, cpu: self.pin.cpu(), node: self.pin.node(), own: self.fast.own(), waits: true }
    }

    /// Frees as [`Allocator::free`] does.
    ///
    /// # Errors
    /// As [`Allocator::free`].
    #[inline(always)]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        // From here on only the frame's distance is needed, in the register that the frame came in.
        let distance = pfn.0.wrapping_sub(self.fast.base());
        let machine = self.allocator.machine();
        match self.fast.free(machine, distance, order) {
            Some(()) => Ok(()),
            None => Local::free_cached_or_slow(distance, self, order),
        }
    }

    /// Frees a block by the first stage of [`Local::free`]; false if that cannot free it.
    ///
    /// Nothing has changed then, and `free` frees it or names the error.
    #[inline(always)]
    pub fn free_at_once(&self, pfn: Pfn, order: Order) -> bool {
        self.fast.free_at(self.allocator.machine(), pfn, order).is_some()
    }

    /// Frees a block that does not go where the last one went, or whose ring has no room.
    // With this order of arguments, the fewest registers move.
    #[inline(never)]
    fn free_cached_or_slow(distance: u64, local: &Self, order: Order) -> Result<(), FreeError> {
        let pfn = Pfn(local.fast.base().wrapping_add(distance));
        let world = local.allocator.world();
        world.shared.machine.step(Step::Lookup);
        if local.fast.free_elsewhere(world, pfn, order).is_some() || world.free_cached(local.cx(), pfn, order) {
            return Ok(());
        }
        local.allocator.free_slow(pfn, order)
    }
}
