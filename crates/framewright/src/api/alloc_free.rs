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
use crate::api::fast_ops::{Alloc, AllocAsked, FreeAt};
use crate::api::fast_path::FastPath;
use crate::api::route::Route;
use crate::seam::event::Event;
use crate::seam::machine::{Fault, Machine, PerCpu, Pinned, Step};
use crate::stat::vmstat::GlobalEvent;
use crate::types::error::{AllocError, FreeError, Why};
use crate::types::request::{Gfp, Request};
use crate::types::units::{Frame, Order, Pfn};
use crate::zonelist::plan::Plan;

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates a block of `1 << request.order` frames; returns its first.
    ///
    /// # Errors
    /// The request makes no sense, or there is no memory for it.
    #[inline(always)]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        if let Some(route) = self.route_of(request)?
            && let Some(pfn) = self.alloc_fast(route)
        {
            return Ok(self.announced(pfn, request));
        }
        self.alloc_cached_or_slow(request)
    }

    /// Returns the route of a request; `None` if only the slow path can serve it.
    ///
    /// # Errors
    /// A test makes the request fail.
    #[inline(always)]
    pub(crate) fn route_of(&self, request: &Request) -> Result<Option<Route>, AllocError> {
        self.may_fail(request)?;
        Ok(Route::of::<M>(request, self.geometry().pageblock_order))
    }

    /// Fails a request that a test makes fail.
    #[inline(always)]
    pub(crate) fn may_fail(&self, request: &Request) -> Result<(), AllocError> {
        if self.machine().fault(Fault::Alloc) { Err(self.failed(request, Why::Fault)) } else { Ok(()) }
    }

    /// Allocates as [`Allocator::alloc`] does, for a request of only these flags and this order.
    ///
    /// `alloc` computes the list of a request, which costs nothing if the request is a constant. This call is for
    /// callers that get flags and order at run time, such as an interface of C functions, and mostly ask for single
    /// frames: for those it compares the flags with the CPU's last ones, where the machine keeps a value of each CPU.
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

    /// Allocates a single frame by the first stage of [`Allocator::alloc_pages`]; `None` if that cannot serve it.
    ///
    /// Nothing has changed then, and `alloc_pages` takes the request. A C function that ends with one of the two calls
    /// saves no registers: this stage makes no call.
    ///
    /// # Errors
    /// A test makes the request fail.
    #[inline(always)]
    pub fn alloc_pages_at_once(&self, gfp: Gfp, order: Order) -> Result<Option<Pfn>, AllocError> {
        if !Self::has_asked(order) {
            return Ok(None);
        }
        self.may_fail(&Request::page(gfp))?;
        let served = self.fast.with(AllocAsked { machine: self.machine(), gfp });
        Ok(served.map(|pfn| self.announced_asked(pfn, gfp)))
    }

    #[inline(never)]
    fn alloc_pages_missed(&self, gfp: Gfp, order: Order) -> Result<Pfn, AllocError> {
        let request = Request { order, ..Request::page(gfp) };
        if Self::has_asked(order) { self.alloc_cached_or_slow(&request) } else { self.alloc(&request) }
    }

    /// Whether a CPU's fast path compares the flags of such requests with the last ones.
    #[inline(always)]
    fn has_asked(order: Order) -> bool {
        <M::PerCpu<FastPath<'a, M>>>::IS_KEPT && order == Order(0)
    }

    #[inline(never)]
    pub(crate) fn alloc_cached_or_slow(&self, request: &Request) -> Result<Pfn, AllocError> {
        if !self.world.has_marked_path()
            && let Some(pfn) = self.fast.with_any(|fast| self.alloc_of_another_run(fast, request))
        {
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
        self.announced(self.world.shared.frames.pfn(frame), request)
    }

    #[inline(always)]
    pub(crate) fn alloc_fast(&self, route: Route) -> Option<Pfn> {
        let world = &self.world;
        world.shared.machine.step(Step::Route);
        if <M::PerCpu<FastPath<'a, M>>>::IS_KEPT {
            return self.fast.with(Alloc { machine: &world.shared.machine, route });
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
        if M::SLEEPS_PINNED && !self.world.shared.may_wait(request.gfp) {
            return self.alloc_no_wait(request, tried).map(|frame| self.served(request, frame));
        }
        let served = match tried {
            Some(plan) => self.world.slowpath(&plan),
            None => self.world.alloc_slow(request),
        };
        served.map(|frame| self.served(request, frame)).map_err(|why| self.failed(request, why))
    }

    /// Frees a block that was allocated with this order.
    ///
    /// # Errors
    /// The frame does not begin such a block; the error names what it is. One wrong free may go unnoticed: two CPUs
    /// that free the same block in the same instant. With `hardened` it is noticed too.
    #[inline(always)]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.free_fast(pfn, order) { Ok(()) } else { Allocator::free_cached_or_slow(pfn, self, order) }
    }

    /// Frees as [`Allocator::free`] does, for callers that get the order at run time and mostly free single frames.
    ///
    /// # Errors
    /// As [`Allocator::free`].
    #[inline(always)]
    pub fn free_pages(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.free_pages_at_once(pfn, order) { Ok(()) } else { Allocator::free_pages_missed(pfn, self, order) }
    }

    /// Frees a single frame by the first stage of [`Allocator::free_pages`]; false if that cannot free it.
    ///
    /// Nothing has changed then, and `free_pages` frees it or names the error.
    #[inline(always)]
    pub fn free_pages_at_once(&self, pfn: Pfn, order: Order) -> bool {
        order == Order(0) && self.free_fast(pfn, Order(0))
    }

    #[inline(never)]
    fn free_pages_missed(pfn: Pfn, allocator: &Self, order: Order) -> Result<(), FreeError> {
        if order == Order(0) {
            Allocator::free_cached_or_slow(pfn, allocator, order)
        } else {
            allocator.free(pfn, order)
        }
    }

    #[inline(always)]
    pub(super) fn free_fast(&self, pfn: Pfn, order: Order) -> bool {
        let world = &self.world;
        world.shared.machine.step(Step::Lookup);
        if <M::PerCpu<FastPath<'a, M>>>::IS_KEPT {
            return self.fast.with(FreeAt { machine: &world.shared.machine, pfn, order }).is_some();
        }
        let pin = world.shared.machine.pin_now();
        let own = world.shared.cpus.get(pin.cpu().index());
        own.is_some_and(|own| world.free_fast(pin.cpu(), own, pfn, order))
    }

    // With this order of arguments, the fewest registers move.
    #[inline(never)]
    pub(crate) fn free_cached_or_slow(pfn: Pfn, allocator: &Self, order: Order) -> Result<(), FreeError> {
        let world = &allocator.world;
        if !world.has_marked_path() && allocator.fast.with_any(|fast| fast.free_elsewhere(world, pfn, order)).is_some()
        {
            return Ok(());
        }
        match world.pinned_now(|cx| world.free_cached(cx, pfn, order)) {
            Some(true) => Ok(()),
            _ => allocator.free_slow(pfn, order),
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
