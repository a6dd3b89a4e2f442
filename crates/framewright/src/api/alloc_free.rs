//! Allocating and freeing one block: the plain calls.
//!
//! A call goes through three stages, each out of line of the one before. The next begins where the one before gave up, having changed
//! nothing:
//!
//! | stage | allocation | free | what it needs |
//! |---|---|---|---|
//! | fast path | `World::alloc_fast` | `World::free_fast` | a block, or room, on the running CPU's list |
//! | cached | `World::alloc_cached` | `World::free_cached` | the list's spare magazine, or one of the zone's depot |
//! | slow | `World::alloc_slow` | `World::free_slow` | everything else: other zones, the zone lock, reclaim |

use crate::api::allocator::Allocator;
use crate::api::fast_path::Route;
use crate::seam::event::Event;
use crate::seam::machine::{Fault, Machine, Pinned, Step};
use crate::stat::vmstat::GlobalEvent;
use crate::types::error::{AllocError, FreeError, Why};
use crate::types::request::Request;
use crate::types::units::{Order, Pfn};

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates a block of `1 << request.order` frames; returns its first.
    ///
    /// # Errors
    /// The request makes no sense, or there is no memory for it.
    #[inline]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.alloc_by(request, |route| self.alloc_fast(route), || self.alloc_cached_or_slow(request))
    }

    /// Allocates at the front, or else elsewhere. One call out of line, whose result is the caller's: nothing is kept for it where
    /// it is not made.
    #[inline(always)]
    pub(crate) fn alloc_by(
        &self,
        request: &Request,
        front: impl FnOnce(Route) -> Option<Pfn>,
        elsewhere: impl FnOnce() -> Result<Pfn, AllocError>,
    ) -> Result<Pfn, AllocError> {
        if self.machine().fault(Fault::Alloc) {
            return self.failed(request, Why::Fault);
        }
        match Route::of(request, self.geometry().pageblock_order).and_then(front) {
            Some(pfn) => {
                self.announce(pfn, request);
                Ok(pfn)
            }
            None => elsewhere(),
        }
    }

    #[inline(never)]
    fn alloc_cached_or_slow(&self, request: &Request) -> Result<Pfn, AllocError> {
        match self.world.pinned_now(|cx| self.world.alloc_cached(cx, request)).flatten() {
            Some(pfn) => {
                self.announce(pfn, request);
                Ok(pfn)
            }
            None => self.alloc_slow(request),
        }
    }

    #[inline(always)]
    pub(crate) fn alloc_fast(&self, route: Route) -> Option<Pfn> {
        let world = &self.world;
        world.shared.machine.step(Step::Route);
        let pin = world.shared.machine.pin_now();
        let own = world.shared.cpus.get(pin.cpu().index())?;
        world.alloc_fast(pin.cpu(), own, route).map(|frame| world.shared.frames.pfn(frame))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn alloc_slow(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.machine().step(Step::AllocLong);
        self.check(request)?;
        if self.machine().is_in_section() {
            return Err(AllocError::InInterrupt);
        }
        let Ok(_held) = self.hold_cpu(request.gfp) else { return self.alloc_without_cpu(request) };
        self.alloc_slow_or(request, |_| None)
    }

    /// Allocates the long way, or else asks `otherwise` with the reason why not. Announces only what is not `otherwise`'s.
    pub(crate) fn alloc_slow_or(
        &self,
        request: &Request,
        otherwise: impl FnOnce(Why) -> Option<Pfn>,
    ) -> Result<Pfn, AllocError> {
        self.check(request)?;
        match self.world.alloc_slow(request) {
            Ok(frame) => {
                let pfn = self.world.shared.frames.pfn(frame);
                self.announce(pfn, request);
                Ok(pfn)
            }
            Err(why) => otherwise(why).map_or_else(|| self.failed(request, why), Ok),
        }
    }

    /// Frees a block that was allocated with this order.
    ///
    /// # Errors
    /// The frame does not begin such a block; the error names what it is. Two CPUs that free the same block in the
    /// same instant are the one wrong free that may go unnoticed, unless the mechanisms say `hardened`.
    #[inline]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        if self.free_fast(pfn, order) { Ok(()) } else { self.free_cached_or_slow(pfn, order) }
    }

    #[inline(always)]
    fn free_fast(&self, pfn: Pfn, order: Order) -> bool {
        let world = &self.world;
        world.shared.machine.step(Step::Lookup);
        let pin = world.shared.machine.pin_now();
        let own = world.shared.cpus.get(pin.cpu().index());
        own.is_some_and(|own| world.free_fast(pin.cpu(), own, pfn, order))
    }

    #[inline(never)]
    fn free_cached_or_slow(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
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
            // Of a CPU that is not there, the machine is to blame.
            if !matches!(error, FreeError::NoCpu) {
                self.world.shared.events.count(GlobalEvent::BadFree);
            }
        })
    }

    fn free_checked(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let frame = self.freeable(pfn, order, |frame| self.world.look_locked(frame))?;
        self.trace(|| Event::PageFree { pfn, order });
        match self.world.pinned(|cx| self.world.free_slow(cx, frame, order, false)) {
            Some(true) => Ok(()),
            Some(false) => Err(FreeError::AlreadyFree(pfn)),
            None => Err(FreeError::NoCpu),
        }
    }
}
