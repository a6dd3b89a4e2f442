//! A caller that stays on one CPU.
//!
//! Each call of [`crate::Allocator`] finds the CPU that it runs on and pins itself there. [`Local`] does that once for
//! many calls: it holds the pin and everything that the fast path needs, looked up. It is for a caller that makes many
//! calls in a row or owns a CPU for good: a thread that holds a slot, a kernel with preemption off. Its calls mean the
//! same as the allocator's and are the fastest there are.
//!
//! A free must find the ring that a block's pageblock belongs to. Computed from the pageblock's word, the ring's
//! address would come at the end of a chain of loads, and the next allocation, which reads that ring, would wait for
//! it. So a `Local` remembers the last word and the rings that it led to. The comparison is predicted, so the address
//! is known before the word is.

use core::cell::Cell;

use crate::api::allocator::Allocator;
use crate::api::fast_path::{FreedBlock, Route, drop_damaged, pop_top, push_top};
use crate::frame::frame::Frames;
use crate::frame::head::Head;
use crate::frame::map::Run;
use crate::frame::pageblock::Pageblock;
use crate::pcp::pcp::Pcp;
use crate::pcp::ring::{Ring, SMALL_ORDERS};
use crate::seam::machine::{Machine, Ordering, Pinned, Step, Word};
use crate::shared::{CallCx, Cpu};
use crate::types::error::{AllocError, FreeError};
use crate::types::request::{__GFP_DIRECT_RECLAIM, Request};
use crate::types::units::{CpuId, Frame, Order, Pfn, ZoneIdx, ZoneKind};

/// One CPU of an allocator, pinned.
///
/// Where a pin turns preemption off (unless [`Machine::SLEEPS_PINNED`]), its requests never wait for memory, and it
/// should not be held for long.
pub struct Local<'l, 'a, M: Machine> {
    allocator: &'l Allocator<'a, M>,
    own: &'l Cpu<M>,
    /// The lists by the highest kind of zone that a request may use; lists of a zone without memory where there is no
    /// zone.
    fast_lists: [&'a Pcp<M>; ZoneKind::COUNT],
    /// The rings' entries. Empty without a fast path: interrupts then use the same lists, so the rings are not touched
    /// here.
    slots: &'a [M::U32],
    /// The run of memory that the last allocated block came from.
    taking: Cell<Seen<'a, M>>,
    /// A block that the fast path took off a ring and that is not in this run.
    ///
    /// It is left to [`Local::alloc_cached_or_slow`], so that the fast path has no other call.
    popped: Cell<Option<Frame>>,
    giving: Cell<Seen<'a, M>>,
    pageblock_order: Order,
    /// The pageblock's word of the last free.
    last: Cell<u32>,
    /// The rings for blocks of such a pageblock.
    home: Cell<&'a [Ring<M>; SMALL_ORDERS]>,
    pin: M::Pin<'l>,
}

/// A run of memory as the fast path needs it: its begin and its descriptors.
struct Seen<'a, M: Machine> {
    base: u64,
    first: u32,
    heads: &'a [M::U8],
    pageblocks: &'a [M::U32],
}

// Not derived: that would ask for `M: Copy`.
impl<M: Machine> Clone for Seen<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Seen<'_, M> {}

impl<'a, M: Machine> Seen<'a, M> {
    /// No run.
    const NOTHING: Self = Seen { base: 0, first: 0, heads: &[], pageblocks: &[] };

    fn of(frames: &Frames<'a, M>, run: Run) -> Option<Seen<'a, M>> {
        let (first, order) = (run.first as usize, frames.geometry.pageblock_order.0);
        let heads = frames.heads.get(first..)?.get(..run.frames as usize)?;
        let pageblocks = frames.pageblocks.get(first >> order..)?.get(..heads.len() >> order)?;
        Some(Seen { base: run.pfn.0, first: run.first, heads, pageblocks })
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// A caller that stays on the CPU it runs on now; `None` if the machine names a CPU that does not exist.
    pub fn local(&self) -> Option<Local<'_, 'a, M>> {
        self.local_on(self.world().shared.machine.pin())
    }

    /// Like [`Allocator::local`]; also `None` if the caller would have to wait for a CPU's holder.
    pub(crate) fn local_now(&self) -> Option<Local<'_, 'a, M>> {
        self.local_on(self.world().shared.machine.pin_now())
    }

    fn local_on<'l>(&'l self, pin: M::Pin<'l>) -> Option<Local<'l, 'a, M>> {
        let world = self.world();
        let own = world.shared.cpus.get(pin.cpu().index())?;
        let frames = &world.shared.frames;
        let pcp = |zone: ZoneIdx| world.pcps.record(pin.cpu(), zone.index());
        let mut front = [pcp(ZoneIdx(0))?; ZoneKind::COUNT];
        for ((entry, kind), zone) in front.iter_mut().zip(ZoneKind::ALL).zip(own.fast_zones) {
            *entry = pcp(zone).or_else(|| pcp(ZoneIdx::of(own.node, kind))).unwrap_or(entry);
        }
        // Any rings will do: nothing in a hole is allocated.
        let (last, home) = (Cell::new(Pageblock::HOLE.0), Cell::new(pcp(ZoneIdx(0))?.rings_of(0)?));
        Some(Local {
            allocator: self,
            own,
            fast_lists: front,
            slots: if own.has_fast_path() { world.pcps.slots } else { &[] },
            taking: Cell::new(Seen::NOTHING),
            popped: Cell::new(None),
            giving: Cell::new(Seen::NOTHING),
            pageblock_order: frames.geometry.pageblock_order,
            last,
            home,
            pin,
        })
    }
}

impl<'a, M: Machine> Local<'_, 'a, M> {
    /// The CPU that the caller stays on.
    pub fn cpu(&self) -> CpuId {
        self.pin.cpu()
    }

    /// Whether the fast path is on.
    pub(crate) fn has_fast_path(&self) -> bool {
        self.own.has_fast_path()
    }

    /// Allocates as [`Allocator::alloc`] does.
    ///
    /// # Errors
    /// As [`Allocator::alloc`].
    #[inline(always)]
    pub fn alloc(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.allocator.alloc_by(request, |route| self.alloc_fast(route), || self.alloc_cached_or_slow(request))
    }

    #[inline(never)]
    fn alloc_cached_or_slow(&self, request: &Request) -> Result<Pfn, AllocError> {
        if let Some(frame) = self.alloc_of_another_run(request) {
            return Ok(self.allocator.served(request, frame));
        }
        // With preemption off the request must not wait.
        let gfp = if M::SLEEPS_PINNED { request.gfp } else { request.gfp & !__GFP_DIRECT_RECLAIM };
        let request = &Request { gfp, ..*request };
        self.allocator.served_or_slow(request, self.allocator.world().alloc_pinned(self.cx(), request))
    }

    #[inline(always)]
    fn alloc_fast(&self, route: Route) -> Option<Pfn> {
        let ring = self.fast_lists.get(route.highest.index())?.ring(route.ring)?;
        let seen = || (self.taking.get().heads, self.taking.get().first);
        match pop_top(self.allocator.machine(), ring, &self.slots, seen, route.heads())? {
            Ok(distance) => Some(Pfn(self.taking.get().base.wrapping_add(distance.into()))),
            Err(distance) => {
                self.popped.set(Some(Frame(distance.wrapping_add(self.taking.get().first))));
                None
            }
        }
    }

    /// Allocates the block that the fast path took off a ring and that is of another run than the last.
    fn alloc_of_another_run(&self, request: &Request) -> Option<Frame> {
        let frame = self.popped.take()?;
        let frames = &self.allocator.world().shared.frames;
        let route = Route::of::<M>(request, frames.geometry.pageblock_order)?;
        let ring = self.fast_lists.get(route.highest.index())?.ring(route.ring)?;
        let heads = route.heads();
        let run = frames.map.run_at(frame);
        if frames.head(frame) != heads.listed || run.is_none() {
            drop_damaged(ring);
            return None;
        }
        frames.set_head(frame, heads.allocated);
        ring.count_taken();
        if let Some(seen) = run.and_then(|run| Seen::of(frames, run)) {
            self.taking.set(seen);
        }
        Some(frame)
    }

    fn cx(&self) -> CallCx<'_, 'a, M> {
        let shared = &self.allocator.world().shared;
        CallCx { shared, cpu: self.pin.cpu(), node: self.pin.node(), own: self.own }
    }

    /// Frees as [`Allocator::free`] does.
    ///
    /// # Errors
    /// As [`Allocator::free`].
    #[inline(always)]
    pub fn free(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        // From here on only the frame's index is needed, in the register that the frame came in.
        let index = pfn.0.wrapping_sub(self.giving.get().base);
        let at_front = order.index() < SMALL_ORDERS && self.free_fast(index, order).is_some();
        if at_front { Ok(()) } else { Local::free_cached_or_slow(index, self, order) }
    }

    #[inline(always)]
    fn free_fast(&self, index: u64, order: Order) -> Option<()> {
        let index = usize::try_from(index).ok()?;
        let word = self.giving.get().heads.get(index)?;
        if !Head(word.load(Ordering::Relaxed)).is_allocated_of(order) || self.allocator.machine().traces() {
            return None;
        }
        let pageblock = self.giving.get().pageblocks.get(index >> self.pageblock_order.0)?;
        if pageblock.load(Ordering::Relaxed) != self.last.get() {
            return None;
        }
        let ring = self.home.get().get(order.index())?;
        let frame = Frame(self.giving.get().first.wrapping_add(index as u32));
        let block = FreedBlock { frame, word, listed: Head::pcp(order) };
        push_top(self.allocator.machine(), ring, &self.slots, block).then_some(())
    }

    /// Frees a block that does not go where the last one went, or whose ring has no room.
    // With this order of arguments, the fewest registers move.
    #[inline(never)]
    fn free_cached_or_slow(index: u64, local: &Self, order: Order) -> Result<(), FreeError> {
        let pfn = Pfn(local.giving.get().base.wrapping_add(index));
        let world = local.allocator.world();
        world.shared.machine.step(Step::Lookup);
        let at_front = if order.index() < SMALL_ORDERS {
            local.find(pfn).and_then(|index| local.free_fast(index, order)).is_some()
        } else {
            world.free_fast(local.pin.cpu(), local.own, pfn, order)
        };
        if at_front || world.free_cached(local.cx(), pfn, order) {
            return Ok(());
        }
        local.allocator.free_slow(pfn, order)
    }

    /// Finds and remembers a frame's run, and the rings for blocks of its pageblock.
    ///
    /// Returns the frame's index in the run; `None` without a fast path, or where there is no memory.
    fn find(&self, pfn: Pfn) -> Option<u64> {
        let world = self.allocator.world();
        if !self.own.has_fast_path() {
            return None;
        }
        let mut seen = self.giving.get();
        if pfn.0.wrapping_sub(seen.base) >= seen.heads.len() as u64 {
            seen = Seen::of(&world.shared.frames, world.shared.frames.map.run_of(pfn)?)?;
            self.giving.set(seen);
        }
        let index = pfn.0.wrapping_sub(seen.base);
        let word = seen.pageblocks.get(usize::try_from(index).ok()? >> self.pageblock_order.0)?;
        let pageblock = Pageblock(word.load(Ordering::Relaxed));
        if pageblock.0 != self.last.get() {
            let pcp = world.pcps.record(self.pin.cpu(), pageblock.zone_index())?;
            self.home.set(pcp.rings_of(pageblock.lists()?)?);
            self.last.set(pageblock.0);
        }
        Some(index)
    }
}
