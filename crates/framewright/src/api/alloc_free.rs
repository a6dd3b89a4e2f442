//! Allocating and freeing one block: the plain calls.
//!
//! A call has three stages. Each stage is out of line of the one before, and begins only after that one gave up without
//! changing anything:
//!
//! | stage | allocation | free | what it needs |
//! |---|---|---|---|
//! | fast path | `World::alloc_fast` | `World::free_fast` | a block, or room, on the running CPU's list |
//! | pinned | `World::alloc_pinned` | `World::free_cached` | a magazine; for an allocation, or a zone above its mark |
//! | slow | `Allocator::alloc_slow` | `Allocator::free_slow` | everything else, such as reclaim |
//!
//! The pinned stage of an allocation searches the CPU's lists and the depot once. It passes its plan to the slow stage,
//! which tries the rungs of `slowpath.rs`. A request that the pinned stage cannot take is planned by the slow stage.

use crate::api::allocator::Allocator;
use crate::api::fast_path::{FastPath, Route};
use crate::seam::event::Event;
use crate::seam::machine::{Fault, Machine, PerCpu, Pinned, Step};
use crate::stat::vmstat::GlobalEvent;
use crate::types::error::{AllocError, FreeError, Why};
use crate::types::request::Request;
use crate::types::units::{Frame, Order, Pfn};
use crate::zonelist::plan::Plan;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates a block of `1 << request.order` frames; returns its first.
    ///
    /// # Errors
    /// The request makes no sense, or there is no memory for it.
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.alloc_by(request, |route| self.alloc_fast(route), |route| self.alloc_missed(request, route))
    }

    /// Allocates by the fast path, or by `elsewhere` if that has no block.
    ///
    /// `elsewhere` is one call out of line whose result is the caller's: registers are saved for it only where it is
    /// made.
    #[inline(always)]
    pub(crate) fn alloc_by(
        &self,
        request: &Request,
        front: impl FnOnce(Route) -> Option<Pfn>,
        elsewhere: impl FnOnce(Option<Route>) -> Result<Pfn, AllocError>,
    ) -> Result<Pfn, AllocError> {
        if self.machine().fault(Fault::Alloc) {
            return self.failed(request, Why::Fault);
        }
        let route = Route::of::<M>(request, self.geometry().pageblock_order);
        if let Some(route) = route
            && let Some(pfn) = front(route)
        {
            self.announce(pfn, request);
            return Ok(pfn);
        }
        elsewhere(route)
    }

    /// Allocates as [`Allocator::alloc`] does, for a request that is known only at run time.
    ///
    /// `alloc` computes the list of a request, which costs nothing if the request is a constant. This call compares the
    /// request with the last one of the CPU, so it is for callers that mostly repeat a request.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    #[inline]
    pub fn alloc_varying(&self, request: &Request) -> Result<Pfn, AllocError> {
        let front = || self.fast.with(|fast| fast.alloc_asked(self.machine(), request));
        self.alloc_asked_by(request, front, || self.alloc_cached_or_slow(request))
    }

    /// Like [`Allocator::alloc_by`], for a request that is known only at run time.
    #[inline(always)]
    pub(crate) fn alloc_asked_by(
        &self,
        request: &Request,
        front: impl FnOnce() -> Option<Pfn>,
        elsewhere: impl FnOnce() -> Result<Pfn, AllocError>,
    ) -> Result<Pfn, AllocError> {
        if self.machine().fault(Fault::Alloc) {
            return self.failed(request, Why::Fault);
        }
        // The fast path serves no such request that must be zeroed.
        match front() {
            Some(pfn) => {
                self.trace(|| Event::page_alloc(pfn, request));
                Ok(pfn)
            }
            None => elsewhere(),
        }
    }

    /// Takes the CPU for the fast path, where the machine asks for that, before the request goes on.
    #[inline(never)]
    fn alloc_missed(&self, request: &Request, route: Option<Route>) -> Result<Pfn, AllocError> {
        match route.and_then(|route| self.fast.with_taken(|fast| fast.alloc(self.machine(), route))) {
            Some(pfn) => {
                self.announce(pfn, request);
                Ok(pfn)
            }
            None => self.alloc_cached_or_slow(request),
        }
    }

    #[inline(never)]
    pub(crate) fn alloc_cached_or_slow(&self, request: &Request) -> Result<Pfn, AllocError> {
        if let Some(pfn) = self.fast.with_any(|fast| self.alloc_of_another_run(fast, request)) {
            return Ok(pfn);
        }
        let tried = self.world.pinned_now(|cx| self.world.alloc_pinned(cx, request));
        self.served_or_slow(request, tried.unwrap_or(Err(None)))
    }

    /// Returns the block that the pinned stage found, or goes on with its plan.
    #[inline(always)]
    pub(crate) fn served_or_slow(
        &self,
        request: &Request,
        tried: Result<Frame, Option<Plan>>,
    ) -> Result<Pfn, AllocError> {
        match tried {
            Ok(frame) => Ok(self.served(request, frame)),
            Err(tried) => self.alloc_slow(request, tried),
        }
    }

    /// Announces the block of a request; returns its first frame's number.
    #[inline(always)]
    pub(crate) fn served(&self, request: &Request, frame: Frame) -> Pfn {
        let pfn = self.world.shared.frames.pfn(frame);
        self.announce(pfn, request);
        pfn
    }

    #[inline(always)]
    pub(crate) fn alloc_fast(&self, route: Route) -> Option<Pfn> {
        let world = &self.world;
        world.shared.machine.step(Step::Route);
        if <M::PerCpu<FastPath<'a, M>>>::IS_KEPT {
            return self.fast.with(|fast| fast.alloc(&world.shared.machine, route));
        }
        let pin = world.shared.machine.pin_now();
        let own = world.shared.cpus.get(pin.cpu().index())?;
        world.alloc_fast(pin.cpu(), own, route).map(|frame| world.shared.frames.pfn(frame))
    }

    /// Serves a request from a list whose top is of another run of memory than the last block of the CPU.
    pub(crate) fn alloc_of_another_run(&self, fast: &FastPath<'a, M>, request: &Request) -> Option<Pfn> {
        let pfn = fast.alloc_of_another_run(self.machine(), &self.world.shared.frames, request)?;
        self.announce(pfn, request);
        Some(pfn)
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&self, request: &Request, tried: Option<Plan>) -> Result<Pfn, AllocError> {
        if tried.is_none() {
            self.machine().step(Step::AllocLong);
            self.check(request)?;
        }
        if self.machine().is_in_section() {
            return Err(AllocError::InInterrupt);
        }
        let Ok(_held) = self.hold_cpu(request.gfp) else { return self.alloc_without_cpu(request) };
        let served = match tried {
            Some(plan) => self.world.slowpath(&plan),
            None => self.world.alloc_slow(request),
        };
        served.map_or_else(|why| self.failed(request, why), |frame| Ok(self.served(request, frame)))
    }

    /// Frees a block that was allocated with this order.
    ///
    /// # Errors
    /// The frame does not begin such a block; the error names what it is. One wrong free may go unnoticed: two CPUs
    /// that free the same block in the same instant. With `hardened` it is noticed too.
    #[inline]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.free_fast(pfn, order) { Ok(()) } else { self.free_missed(pfn, order) }
    }

    #[inline(always)]
    fn free_fast(&self, pfn: Pfn, order: Order) -> bool {
        let world = &self.world;
        world.shared.machine.step(Step::Lookup);
        if <M::PerCpu<FastPath<'a, M>>>::IS_KEPT {
            return self.fast.with(|fast| fast.free_at(&world.shared.machine, pfn, order)).is_some();
        }
        let pin = world.shared.machine.pin_now();
        let own = world.shared.cpus.get(pin.cpu().index());
        own.is_some_and(|own| world.free_fast(pin.cpu(), own, pfn, order))
    }

    /// Takes the CPU for the fast path, where the machine asks for that, before the free goes on.
    #[inline(never)]
    fn free_missed(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        match self.fast.with_taken(|fast| fast.free_at(self.machine(), pfn, order)) {
            Some(()) => Ok(()),
            None => self.free_cached_or_slow(pfn, order),
        }
    }

    #[inline(never)]
    pub(crate) fn free_cached_or_slow(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.fast.with_any(|fast| fast.free_elsewhere(&self.world, pfn, order)).is_some() {
            return Ok(());
        }
        match self.world.pinned_now(|cx| self.world.free_cached(cx, pfn, order)) {
            Some(true) => Ok(()),
            _ => self.free_slow(pfn, order),
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn free_slow(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        self.machine().step(Step::FreeLong);
        let Ok(_held) = self.world.hold_now() else { return self.free_nolock(pfn, order) };
        self.free_checked(pfn, order).inspect_err(|error| {
            // A CPU that does not exist is the machine's fault, not a bad free.
            if !matches!(error, FreeError::NoCpu) {
                self.world.shared.events.count(GlobalEvent::BadFree);
            }
        })
    }

    fn free_checked(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let frame = self.world.shared.frames.freeable(pfn, order, |frame| self.world.look_locked(frame))?;
        self.trace(|| Event::PageFree { pfn, order });
        match self.world.pinned(|cx| self.world.free_slow(cx, frame, order, false)) {
            Some(true) => Ok(()),
            Some(false) => Err(FreeError::AlreadyFree(pfn)),
            None => Err(FreeError::NoCpu),
        }
    }
}
