//! A caller that stays on one CPU.
//!
//! Each call of [`crate::Allocator`] finds out which CPU it runs on and pins itself to it. Who makes many calls in a row, or owns a
//! CPU for good (a thread that holds a slot, a kernel with preemption off), finds it once: [`Local`] is the pin and all that
//! the front needs, looked up. Its calls are the fastest there are, and mean the same.
//!
//! A free must find the ring that a block's pageblock belongs to. Worked out from the pageblock's word, the ring's address would
//! come at the end of a chain of loads, and the next allocation, which reads that ring, would wait for it. So a `Local` remembers
//! the last word and where it led: the comparison is predicted, and the address is known before the word is.

use core::cell::Cell;

use crate::allocator::Allocator;
use crate::error::{AllocError, FreeError};
use crate::frame::Head;
use crate::front::{Route, give_top, take_top};
use crate::ground::{Cpu, Cx};
use crate::machine::{Machine, Ordering, Pinned, Step, Word};
use crate::pageblock::Pageblock;
use crate::pcp::Pcp;
use crate::pfn::{CpuId, Frame, Order, Pfn, ZoneIdx, ZoneKind};
use crate::request::{__GFP_DIRECT_RECLAIM, Request};
use crate::ring::{Arrays, Ring, SMALL_ORDERS};

/// One CPU of an allocator, pinned. Where a pin turns preemption off ([`Machine::SLEEPS_PINNED`]), its requests never wait for
/// memory, and it is not to be held for long.
pub struct Local<'l, 'a, M: Machine> {
    allocator: &'l Allocator<'a, M>,
    own: &'l Cpu<M>,
    /// By the highest kind that a request may use; one without blocks where there is none.
    front: [&'a Pcp<M>; ZoneKind::COUNT],
    /// With the heads of the frames from `base` on, up to the first section without memory.
    arrays: Arrays<'a, M>,
    base: u64,
    pageblocks: &'a [M::U32],
    pageblock_order: Order,
    /// The pageblock's word of the last free.
    last: Cell<u32>,
    /// The rings that blocks of such a pageblock go to.
    home: Cell<&'a [Ring<M>; SMALL_ORDERS]>,
    pin: M::Pin<'l>,
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// A caller that stays on the CPU it runs on now; none if the machine names a CPU that does not exist.
    pub fn local(&self) -> Option<Local<'_, 'a, M>> {
        let world = self.world();
        let pin = world.ground.machine.pin();
        let own = world.ground.cpus.get(pin.cpu().index())?;
        let frames = &world.ground.frames;
        let pcp = |zone: ZoneIdx| world.pcps.record(pin.cpu(), zone.index());
        let mut front = [pcp(ZoneIdx(0))?; ZoneKind::COUNT];
        for ((entry, kind), zone) in front.iter_mut().zip(ZoneKind::ALL).zip(own.front) {
            // Where nothing is at the front, this CPU's lists of a zone that are empty or have their windows closed.
            *entry = pcp(zone).or(pcp(ZoneIdx::of(own.node, kind))).unwrap_or(entry);
        }
        // Any will do: nothing in a hole is allocated.
        let (last, home) = (Cell::new(Pageblock::HOLE.0), Cell::new(pcp(ZoneIdx(0))?.rings_of(0)?));
        let heads = frames.heads.get(..usize::try_from(frames.run).ok()?)?;
        Some(Local {
            allocator: self,
            own,
            front,
            arrays: Arrays { slots: world.pcps.slots, heads },
            base: frames.base,
            pageblocks: frames.pageblocks,
            pageblock_order: frames.geometry.pageblock_order,
            last,
            home,
            pin,
        })
    }
}

impl<'a, M: Machine> Local<'_, 'a, M> {
    /// The CPU.
    pub fn cpu(&self) -> CpuId {
        self.pin.cpu()
    }

    /// Whether anything can be at the front here.
    pub(crate) fn has_front(&self) -> bool {
        self.own.plain
    }

    /// As [`Allocator::alloc`].
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    #[inline(always)]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.allocator.alloc_by(request, |route| self.take(route), || self.alloc_elsewhere(request))
    }

    #[inline(never)]
    fn alloc_elsewhere(&self, request: &Request) -> Result<Pfn, AllocError> {
        if let Some(pfn) = self.allocator.world().take_behind(self.cx(), request) {
            self.allocator.announce(pfn, request);
            return Ok(pfn);
        }
        // With preemption off nobody may wait: the request is one that does not.
        let gfp = if M::SLEEPS_PINNED { request.gfp } else { request.gfp & !__GFP_DIRECT_RECLAIM };
        self.allocator.alloc_long(&Request { gfp, ..*request })
    }

    #[inline(always)]
    fn take(&self, route: Route) -> Option<Pfn> {
        let ring = self.front.get(route.highest.index())?.ring(route.ring)?;
        let heads = (Head::pcp(route.ring.order), route.head);
        let frame = take_top(self.allocator.machine(), ring, &self.arrays, heads)?;
        Some(Pfn(self.base.wrapping_add(u64::from(frame.0))))
    }

    fn cx(&self) -> Cx<'_, 'a, M> {
        let ground = &self.allocator.world().ground;
        Cx { ground, cpu: self.pin.cpu(), node: self.pin.node(), own: self.own }
    }

    /// As [`Allocator::free`].
    ///
    /// # Errors
    /// As [`Allocator::free`].
    #[inline(always)]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        // Its index is all that is needed of the frame from here on, in the register that the frame came in.
        let index = pfn.0.wrapping_sub(self.base);
        let at_front = order.index() < SMALL_ORDERS && self.give(index, order).is_some();
        if at_front { Ok(()) } else { Local::free_elsewhere(index, self, order) }
    }

    #[inline(always)]
    fn give(&self, index: u64, order: Order) -> Option<()> {
        let index = usize::try_from(index).ok()?;
        let word = self.arrays.heads.get(index)?;
        if !Head(word.load(Ordering::Relaxed)).is_allocated_of(order) || self.allocator.machine().traces() {
            return None;
        }
        let pageblock = self.pageblocks.get(index >> self.pageblock_order.0)?;
        if pageblock.load(Ordering::Relaxed) != self.last.get() {
            return None;
        }
        let ring = self.home.get().get(order.index())?;
        let block = (Frame(index as u32), word, Head::pcp(order));
        give_top(self.allocator.machine(), ring, &self.arrays, block).then_some(())
    }

    /// Frees a block that does not go where the last one went, or cannot just now.
    // In this order of arguments those of `free` move least.
    #[inline(never)]
    fn free_elsewhere(index: u64, local: &Self, order: Order) -> Result<(), FreeError> {
        let pfn = Pfn(local.base.wrapping_add(index));
        let world = local.allocator.world();
        world.ground.machine.step(Step::Lookup);
        let pageblock = world.ground.frames.frame(pfn).map(|frame| world.ground.frames.pageblock(frame));
        let is_other = pageblock.is_some_and(|pageblock| pageblock.0 != local.last.get());
        let at_front = is_other && world.give_front(local.pin.cpu(), local.own, pfn, order);
        if !at_front && !world.give_behind(local.cx(), pfn, order) {
            return local.allocator.free_long(pfn, order);
        }
        if is_other {
            let _ = local.remember(pageblock);
        }
        Ok(())
    }

    fn remember(&self, pageblock: Option<Pageblock>) -> Option<()> {
        let pageblock = pageblock?;
        let pcp = self.allocator.world().pcps.record(self.pin.cpu(), pageblock.zone_index())?;
        self.home.set(pcp.rings_of(pageblock.lists()?)?);
        self.last.set(pageblock.0);
        Some(())
    }
}
