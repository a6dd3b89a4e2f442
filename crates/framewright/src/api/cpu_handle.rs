//! A CPU's fast path that the caller keeps.

use crate::api::allocator::Allocator;
use crate::api::fast_path::FastPath;
use crate::seam::machine::{Machine, PerCpu, Pinned};
use crate::types::error::{AllocError, FreeError};
use crate::types::request::{Gfp, Request};
use crate::types::units::{CpuId, Order, Pfn};

/// One CPU of an allocator, not pinned.
///
/// A [`crate::Local`] is pinned as long as it lives, so it can be neither stored nor held for long. A `CpuHandle` is
/// not pinned: each call pins, and compares the CPU with the handle's. If it is that CPU, the call takes the fast path
/// without looking anything up. If not, it is a plain call, so a handle on the wrong CPU is slow and not wrong.
///
/// It is for callers that know a good place for it: a kernel's record of a CPU, a thread of a pool with a CPU of its
/// own. A handle costs four cache lines, and a call one comparison more than one of a [`crate::Local`], and the pin.
///
/// Where the machine keeps the fast path of each CPU itself ([`crate::machine::PerCpu`]), a plain call is as fast, and
/// a handle's calls are plain calls.
///
/// It may be sent to another thread, but not shared: it remembers the place of its last calls.
pub struct CpuHandle<'h, 'a, M: Machine> {
    allocator: &'h Allocator<'a, M>,
    fast: FastPath<'a, M>,
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Returns a handle for calls that are made on `cpu`; `None` for a CPU that does not exist.
    pub fn cpu_handle(&self, cpu: CpuId) -> Option<CpuHandle<'_, 'a, M>> {
        Some(CpuHandle { allocator: self, fast: FastPath::of(self.world(), cpu)? })
    }
}

impl<'a, M: Machine> CpuHandle<'_, 'a, M> {
    /// The CPU that the handle is for.
    pub fn cpu(&self) -> CpuId {
        self.fast.cpu()
    }

    /// Calls `operation` with the fast path, pinned; `None` on another CPU as well.
    #[inline(always)]
    fn here<T>(&self, operation: impl FnOnce(&FastPath<'a, M>) -> Option<T>) -> Option<T> {
        let pin = self.allocator.machine().pin_now();
        if pin.cpu() == self.fast.cpu() { operation(&self.fast) } else { None }
    }

    /// Allocates as [`Allocator::alloc`] does.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    #[inline(always)]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        if <M::PerCpu<FastPath<'a, M>>>::IS_KEPT {
            return self.allocator.alloc(request);
        }
        if let Some(route) = self.allocator.route_of(request)?
            && let Some(pfn) = self.here(|fast| fast.alloc(self.allocator.machine(), route))
        {
            return Ok(self.allocator.announced(pfn, request));
        }
        self.alloc_missed(request)
    }

    /// Allocates as [`Allocator::alloc_pages`] does.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    #[inline(always)]
    pub fn alloc_pages(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        if <M::PerCpu<FastPath<'a, M>>>::IS_KEPT {
            return self.allocator.alloc_pages(gfp, order);
        }
        if order == Order(0) {
            self.allocator.may_fail(&Request::page(gfp))?;
            if let Some(pfn) = self.here(|fast| fast.alloc_asked(self.allocator.machine(), gfp)) {
                return Ok(self.allocator.announced_asked(pfn, gfp));
            }
        }
        self.alloc_pages_missed(gfp, order)
    }

    #[inline(never)]
    fn alloc_pages_missed(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        let request = Request { order, ..Request::page(gfp) };
        if order == Order(0) { self.alloc_missed(&request) } else { self.alloc(&request) }
    }

    #[inline(never)]
    fn alloc_missed(&self, request: &Request) -> Result<Pfn, AllocError> {
        match self.here(|fast| self.allocator.alloc_of_another_run(fast, request)) {
            Some(pfn) => Ok(pfn),
            None => self.allocator.alloc_cached_or_slow(request),
        }
    }

    /// Frees as [`Allocator::free`] does.
    ///
    /// # Errors
    /// As [`Allocator::free`].
    #[inline(always)]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if <M::PerCpu<FastPath<'a, M>>>::IS_KEPT {
            return self.allocator.free(pfn, order);
        }
        match self.here(|fast| fast.free_at(self.allocator.machine(), pfn, order)) {
            Some(()) => Ok(()),
            None => self.free_missed(pfn, order),
        }
    }

    /// Frees as [`Allocator::free_pages`] does.
    ///
    /// # Errors
    /// As [`Allocator::free`].
    #[inline(always)]
    pub fn free_pages(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if <M::PerCpu<FastPath<'a, M>>>::IS_KEPT {
            return self.allocator.free_pages(pfn, order);
        }
        if order == Order(0) && self.here(|fast| fast.free_at(self.allocator.machine(), pfn, Order(0))).is_some() {
            return Ok(());
        }
        self.free_pages_missed(pfn, order)
    }

    #[inline(never)]
    fn free_pages_missed(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if order == Order(0) { self.free_missed(pfn, order) } else { self.free(pfn, order) }
    }

    #[inline(never)]
    fn free_missed(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        match self.here(|fast| fast.free_elsewhere(self.allocator.world(), pfn, order)) {
            Some(()) => Ok(()),
            None => Allocator::free_cached_or_slow(pfn, self.allocator, order),
        }
    }
}
