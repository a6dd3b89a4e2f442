//! The fast path: the hit of a per-CPU list, which is nearly every call.
//!
//! A request without a policy, for an order that per-CPU lists keep, takes the block on top of one ring. A free of such
//! a block puts it on top of one. [`World::alloc_fast`] and [`World::free_fast`] do that and nothing else. Each costs
//! about thirty instructions and four lines of memory: the CPU's record, the ring, its entries, the block's head byte.
//! (A free reads the pageblock's word as well.) There is no call, no lock, no atomic read-modify-write and no fence. A
//! request that the fast path cannot serve goes to the next stage (`alloc_free.rs`); nothing was changed here.
//!
//! A [`Route`] is what the fast path has to know of a request.
//!
//! A [`FastPath`] is what it has to know of a CPU, looked up once. For plain calls the machine keeps one for each CPU
//! ([`crate::machine::PerCpu`]). A `Local` and a `CpuHandle` have their own. Where a machine keeps none, plain calls
//! look everything up by the CPU's number ([`World::alloc_fast`]).
//!
//! A free must find the ring that a block's pageblock belongs to. Computed from the pageblock's word, the ring's
//! address would come at the end of a chain of loads, and the next allocation, which reads that ring, would wait for
//! it. So a [`FastPath`] remembers the last word and the rings that it led to. The comparison is predicted, so the
//! address is known before the word is.
//!
//! Some mechanisms ask something of every request: a watermark, a check of the page's contents. They leave the fast
//! path off, and a CPU's record then names no zone for it ([`crate::Cpu`]). The fast path is also off where
//! `pcp-protection` lets an interrupt use the lists of the CPU that it interrupted: the fast path has no protection of
//! its own, and relies on interrupts having lists of their own.

use core::cell::Cell;

use crate::api::route::{HeadChange, Route};
use crate::api::seen::{Seen, note};
use crate::frame::frame::Frames;
use crate::frame::head::Head;
use crate::frame::pageblock::Pageblock;
use crate::pcp::pcp::Pcp;
use crate::pcp::pcp_guard::PcpGuard;
use crate::pcp::ring::{Ring, Slots};
use crate::pcp::ring_id::{RingId, SMALL_ORDERS};
use crate::seam::compiled::Compiled;
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::shared::{CallCx, Cpu};
use crate::types::request::{__GFP_ZERO, Gfp, Request};
use crate::types::units::{CpuId, Frame, Order, Pfn, ZoneIdx, ZoneKind};
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

/// Pops the block on top of a ring of the running CPU, if there is one and its head is the expected one.
///
/// `heads` returns the head bytes of a run of memory and its first descriptor. Returns the block's distance from that
/// descriptor. `heads` and `change` are called late, when few registers are in use.
#[inline(always)]
fn pop_top<'h, M: Machine>(
    machine: &M,
    ring: &Ring<M>,
    slots: Slots<'_, M>,
    heads: impl FnOnce() -> (&'h [M::U8], u32),
    change: impl Fn() -> HeadChange,
) -> Option<u32>
where
    M::U8: 'h,
{
    machine.step(Step::Alloc);
    let (distance, word) = ring.pop_front(machine, slots, |frame| {
        let (heads, first) = heads();
        let distance = frame.0.wrapping_sub(first);
        let word = heads.get(distance as usize)?;
        (word.load(Ordering::Relaxed) == change().listed.0).then_some((distance, word))
    })?;
    word.store(change().allocated.0, Ordering::Relaxed);
    ring.count_taken(1);
    Some(distance)
}

/// Pushes a block on top of a ring of the running CPU; `None` if there is no room.
///
/// The block is its head's word and next value, and its frame. The caller has checked the present value.
#[inline(always)]
fn push_top<M: Machine>(
    machine: &M,
    ring: &Ring<M>,
    slots: Slots<'_, M>,
    (word, listed): (&M::U8, Head),
    frame: impl FnOnce() -> Frame,
) -> Option<()> {
    machine.step(Step::Free);
    ring.push_front(slots, frame, || word.store(listed.0, Ordering::Relaxed)).then_some(())
}

/// What the fast path of one CPU needs, looked up once.
///
/// It is used only by the holder of that CPU, and therefore not safe to share.
// Aligned so that no two CPUs write to one pair of cache lines.
#[repr(align(128))]
pub(crate) struct FastPath<'a, M: Machine> {
    own: &'a Cpu<M>,
    cpu: CpuId,
    /// The lists by the highest kind of zone that a request may use; lists of a zone without memory where there is no
    /// zone.
    lists: [&'a Pcp<M>; ZoneKind::COUNT],
    /// The rings' entries. Empty without a fast path: interrupts then use the same lists, so the rings are not touched
    /// here.
    slots: &'a [M::U32],
    /// The run of memory that the last allocated block came from.
    pub(super) taking: Cell<Seen<'a, M>>,
    /// The run of memory that the last freed block went to.
    pub(super) giving: Cell<Seen<'a, M>>,
    /// The last request for one frame that reached the slower stage, unless the frame must be zeroed.
    ///
    /// At first that of no flags.
    asked: Cell<Asked<'a, M>>,
    pageblock_order: Order,
    /// Pageblocks of one frame, in units of 2^-32.
    per_frame: u64,
    /// The pageblock's word of the last free.
    last: Cell<u32>,
    /// The rings for blocks of such a pageblock, and the one for such a pageblock as a whole.
    home: Cell<&'a [Ring<M>; SMALL_ORDERS]>,
    huge: Cell<&'a Ring<M>>,
}

/// Flags that no request may have: they contradict each other.
const NEVER: Gfp = Gfp(u32::MAX);

/// A request for one frame without special wishes: where it looks, and the frame's head once it is allocated.
struct Asked<'a, M: Machine> {
    gfp: Gfp,
    allocated: Head,
    ring: &'a Ring<M>,
}

// Not derived: that would ask for `M: Copy`.
impl<M: Machine> Clone for Asked<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Machine> Copy for Asked<'_, M> {}

impl<'a, M: Machine> FastPath<'a, M> {
    /// Looks up what the fast path of a CPU needs; `None` for a CPU that does not exist.
    pub(crate) fn of(world: &World<'a, M>, cpu: CpuId) -> Option<Self> {
        let (frames, pcps) = (&world.shared.frames, &world.pcps);
        let own = world.shared.cpus.get(cpu.index())?;
        let pcp = |zone: ZoneIdx| pcps.record(cpu, zone.index());
        let first = pcp(ZoneIdx(0))?;
        let mut lists = [first; ZoneKind::COUNT];
        for ((entry, kind), zone) in lists.iter_mut().zip(ZoneKind::ALL).zip(own.fast_zones) {
            *entry = pcp(zone).or_else(|| pcp(ZoneIdx::of(own.node, kind))).unwrap_or(entry);
        }
        let (gfp, pageblock_order) = (Gfp(0), frames.geometry.pageblock_order);
        let route = Route::of::<M>(&Request::page(gfp), pageblock_order)?;
        let ring = lists.get(route.highest.index())?.ring(route.ring())?;
        Some(FastPath {
            own,
            cpu,
            lists,
            slots: if own.has_fast_path() { pcps.slots } else { &[] },
            taking: Cell::new(Seen::NOTHING),
            giving: Cell::new(Seen::NOTHING),
            asked: Cell::new(Asked { gfp, allocated: route.head, ring }),
            pageblock_order,
            per_frame: (1 << u32::BITS) >> pageblock_order.0,
            last: Cell::new(Pageblock::HOLE.0),
            // Any rings will do at first: nothing in a hole is allocated.
            home: Cell::new(first.rings_of(0)?),
            huge: Cell::new(first.huge_of(0)),
        })
    }

    /// The CPU's record.
    pub(crate) fn own(&self) -> &'a Cpu<M> {
        self.own
    }

    /// Whether a route's requests take from `zone` on this CPU.
    #[inline(always)]
    pub(super) fn is_route_in(&self, route: Route, zone: ZoneIdx) -> bool {
        self.own.fast_zone(route.highest) == Some(zone)
    }

    /// The CPU whose lists these are.
    #[inline(always)]
    pub(crate) fn cpu(&self) -> CpuId {
        self.cpu
    }

    pub(super) fn slots(&self) -> &'a [M::U32] {
        self.slots
    }

    pub(super) fn pageblock_order(&self) -> Order {
        self.pageblock_order
    }

    /// Returns the pageblock of the frame at a distance from the begin of a run.
    ///
    /// A multiplication: the number of bits of a shift has to be in one certain register, which the caller may need.
    #[inline(always)]
    fn pageblock_of(&self, distance: usize) -> usize {
        ((distance as u64).wrapping_mul(self.per_frame) >> u32::BITS) as usize
    }

    /// The ring for blocks of the pageblock of the last free.
    #[inline(always)]
    pub(super) fn ring_of_last(&self, order: Order) -> Option<&'a Ring<M>> {
        match self.home.get().get(order.index()) {
            Some(ring) => Some(ring),
            None if order == self.pageblock_order => Some(self.huge.get()),
            None => None,
        }
    }

    #[inline(always)]
    pub(super) fn ring(&self, route: Route) -> Option<&'a Ring<M>> {
        if !M::MAY_BE_FAST {
            return None;
        }
        self.lists.get(route.highest.index())?.ring(route.ring())
    }

    /// Serves a request from the CPU's list; `None` if the list is empty, or its top is of another run than the last
    /// block.
    #[inline(always)]
    pub(crate) fn alloc(&self, machine: &M, route: Route) -> Option<Pfn> {
        self.alloc_from(machine, self.ring(route)?, || route.heads())
    }

    #[inline(always)]
    fn alloc_from(&self, machine: &M, ring: &Ring<M>, change: impl Fn() -> HeadChange) -> Option<Pfn> {
        let seen = || (self.taking.get().heads, self.taking.get().first);
        let distance = pop_top(machine, ring, &self.slots, seen, change)?;
        Some(Pfn(self.taking.get().base.wrapping_add(distance.into())))
    }

    /// Like [`FastPath::alloc`], for one frame with flags known only at run time; `None` also if the last ones differ.
    ///
    /// It costs a comparison instead of a computation.
    #[inline(always)]
    pub(crate) fn alloc_asked(&self, machine: &M, gfp: Gfp) -> Option<Pfn> {
        if gfp != self.asked.get().gfp {
            return None;
        }
        let heads = || HeadChange { listed: Head::pcp(Order(0)), allocated: self.asked.get().allocated };
        self.alloc_from(machine, self.asked.get().ring, heads)
    }

    /// Serves a request from the CPU's list, of whatever run its top is.
    pub(crate) fn alloc_of_another_run(&self, machine: &M, frames: &Frames<'a, M>, request: &Request) -> Option<Pfn> {
        if !self.own.has_fast_path() {
            return None;
        }
        let route = Route::of::<M>(request, self.pageblock_order)?;
        let ring = self.ring(route)?;
        let Request { gfp, order, .. } = *request;
        // A block that must be zeroed costs more than this saves.
        if order == Order(0) && !gfp.contains(__GFP_ZERO) {
            let new = Asked { gfp, allocated: route.head, ring };
            note(machine, &self.asked, [Asked { gfp: NEVER, ..self.asked.get() }, Asked { gfp: NEVER, ..new }, new]);
        }
        self.alloc_turned(machine, frames, route)
    }

    /// Remembers the run of the list's top, and takes the top.
    pub(super) fn alloc_turned(&self, machine: &M, frames: &Frames<'a, M>, route: Route) -> Option<Pfn> {
        let top = self.ring(route)?.top_racy(self.slots)?;
        self.taking.get().turn_to(machine, frames, top, &self.taking);
        self.alloc(machine, route)
    }

    /// The begin of the run that the last freed block went to.
    #[inline(always)]
    pub(crate) fn base(&self) -> u64 {
        self.giving.get().base
    }

    /// Frees the block at a distance from [`FastPath::base`] to the CPU's list.
    ///
    /// `None` if it is no allocated block, does not go where the last one went, or needs another stage.
    #[inline(always)]
    pub(crate) fn free(&self, machine: &M, distance: u64, order: Order) -> Option<()> {
        let ring = self.ring_of_last(order)?;
        let index = if M::MAY_BE_FAST { usize::try_from(distance).ok()? } else { return None };
        let word = self.giving.get().heads.get(index)?;
        if !Head(word.load(Ordering::Relaxed)).is_allocated_of_small(order) || machine.traces_calls() {
            return None;
        }
        let pageblock = self.giving.get().pageblocks.get(self.pageblock_of(index))?;
        if pageblock.load(Ordering::Relaxed) != self.last.get() {
            return None;
        }
        let frame = || Frame(self.giving.get().first.wrapping_add(index as u32));
        push_top(machine, ring, &self.slots, (word, Head::pcp_of_small(order)), frame)
    }

    /// Like [`FastPath::free`], for a caller that does not keep the distance.
    #[inline(always)]
    pub(crate) fn free_at(&self, machine: &M, pfn: Pfn, order: Order) -> Option<()> {
        self.free(machine, pfn.0.wrapping_sub(self.base()), order)
    }

    /// Frees a block that does not go where the last one went.
    pub(crate) fn free_elsewhere(&self, world: &World<'a, M>, pfn: Pfn, order: Order) -> Option<()> {
        self.free(&world.shared.machine, self.find(world, pfn)?, order)
    }

    /// Finds and remembers a frame's run, and the rings for blocks of its pageblock.
    ///
    /// Returns the frame's distance from the run's begin; `None` without a fast path, or where there is no memory.
    #[inline]
    pub(super) fn find(&self, world: &World<'a, M>, pfn: Pfn) -> Option<u64> {
        if !self.own.has_fast_path() {
            return None;
        }
        let machine = &world.shared.machine;
        let mut seen = self.giving.get();
        if pfn.0.wrapping_sub(seen.base) >= seen.heads.len() as u64 {
            seen = Seen::of(&world.shared.frames, world.shared.frames.map.run_of(pfn)?)?;
            note(machine, &self.giving, Seen::steps(self.giving.get(), seen));
        }
        let distance = pfn.0.wrapping_sub(seen.base);
        let word = seen.pageblocks.get(usize::try_from(distance).ok()? >> self.pageblock_order.0)?;
        let pageblock = Pageblock(word.load(Ordering::Relaxed));
        if pageblock.0 != self.last.get() {
            let (pcp, lists) = (world.pcps.record(self.cpu, pageblock.zone_index())?, pageblock.lists()?);
            let home = pcp.rings_of(lists)?;
            note(machine, &self.last, [Pageblock::HOLE.0]);
            note(machine, &self.home, [home]);
            note(machine, &self.huge, [pcp.huge_of(lists)]);
            note(machine, &self.last, [pageblock.0]);
        }
        Some(distance)
    }
}

impl<'a, M: Machine> World<'a, M> {
    /// Serves a request from the running CPU's list; `None` if the list is empty. The block's head says "allocated".
    #[inline(always)]
    pub(crate) fn alloc_fast(&self, cpu: CpuId, own: &Cpu<M>, route: Route) -> Option<Frame> {
        let zone = own.fast_zone(route.highest)?;
        let pcp = self.pcps.record(cpu, zone.index())?;
        // With the heads of all memory.
        let heads = || (self.shared.frames.heads, 0);
        pop_top(&self.shared.machine, pcp.ring(route.ring())?, &self.pcps.slots, heads, || route.heads()).map(Frame)
    }

    /// Serves a request that missed the fast path, in one visit to the CPU's lists and then zone after zone.
    ///
    /// # Errors
    /// The plan of a request that found nothing above the low marks. `None` if the request was not tried, because it
    /// has no route here or the lists are in use.
    #[inline]
    pub(crate) fn alloc_pinned(&self, cx: CallCx<'_, 'a, M>, request: &Request) -> Result<Frame, Option<Plan>> {
        if let Some(frame) = self.alloc_marked(cx, request) {
            return Ok(frame);
        }
        if !M::MAY_BE_FAST {
            return Err(None);
        }
        let cx = cx.for_request(request.gfp);
        let searched = match self.alloc_cached(cx, request) {
            Ok(frame) => return Ok(frame),
            // A caller with a `Local` may have interrupted a section that holds the zone lock.
            Err(_) if self.shared.machine.is_in_section() => return Err(None),
            Err(searched) => searched.ok_or(None)?,
        };
        self.shared.machine.step(Step::AllocLong);
        let plan = self.plan(cx, request);
        self.alloc_searched(cx, searched, &plan).ok_or(Some(plan))
    }

    /// Serves a request whose ring is empty from its spare magazine, or from a magazine of the depot.
    ///
    /// # Errors
    /// The lists, still held, if they and the depot have no block; `None` if they were not entered.
    #[inline]
    pub(crate) fn alloc_cached<'g>(
        &'g self,
        cx: CallCx<'g, 'a, M>,
        request: &Request,
    ) -> Result<Frame, Option<PcpGuard<'g, 'a, M>>> {
        self.shared.machine.step(Step::Behind);
        let frames = &self.shared.frames;
        let route = Route::of::<M>(request, frames.geometry.pageblock_order).ok_or(None)?;
        let zone = cx.own.fast_zone(route.highest).and_then(|zone| self.zone(zone)).ok_or(None)?;
        let pcp = self.pcps.enter(cx, zone).ok_or(None)?;
        let Some(frame) = pcp.alloc_cached(route.ring()) else { return Err(Some(pcp)) };
        // While the lists are held, so that the block is part of something at every moment.
        frames.set_head(frame, route.head);
        Ok(frame)
    }

    /// Frees a block in one visit to the CPU's lists. False if it is not allocated, or needs the slow path.
    #[inline]
    pub(crate) fn free_cached(&self, cx: CallCx<'_, 'a, M>, pfn: Pfn, order: Order) -> bool {
        if !M::MAY_BE_FAST && !M::MAY_TAKE_MARKED || self.shared.mechanisms().is_hardened() {
            return false;
        }
        self.shared.machine.step(Step::Behind);
        let frames = &self.shared.frames;
        let allocated = |&frame: &Frame| frames.head(frame).is_allocated_of(order);
        let Some(frame) = frames.frame(pfn).filter(allocated) else { return false };
        let pageblock = frames.pageblock(frame);
        let ring = RingId::of(order, pageblock.migratetype(), frames.geometry.pageblock_order);
        let Some((zone, ring)) = pageblock.zone().and_then(|idx| self.zone(idx)).zip(ring) else { return false };
        match self.pcps.enter(cx, zone) {
            Some(pcp) if !self.shared.machine.traces_calls() => {
                pcp.free(ring, frame);
                true
            }
            _ => false,
        }
    }

    /// Frees a block to the running CPU's list. False if it is no allocated block, or needs another stage.
    #[inline(always)]
    pub(crate) fn free_fast(&self, cpu: CpuId, own: &Cpu<M>, pfn: Pfn, order: Order) -> bool {
        self.try_free_fast(cpu, own, pfn, order).is_some()
    }

    #[inline(always)]
    fn try_free_fast(&self, cpu: CpuId, own: &Cpu<M>, pfn: Pfn, order: Order) -> Option<()> {
        let frames = &self.shared.frames;
        // A frame without memory has no head.
        let index = frames.map.index(pfn)?;
        let word = frames.heads.get(usize::try_from(index).ok()?)?;
        let frame = Frame(index as u32);
        let is_ours = Head(word.load(Ordering::Relaxed)).is_allocated_of(order);
        if !is_ours || !own.has_fast_path() || self.shared.machine.traces_calls() {
            return None;
        }
        let pageblock = frames.pageblock(frame);
        let ring = RingId::with_lists(order, pageblock.lists()?, frames.geometry.pageblock_order)?;
        let pcp = self.pcps.record(cpu, pageblock.zone_index())?;
        push_top(&self.shared.machine, pcp.ring(ring)?, &self.pcps.slots, (word, Head::pcp(order)), || frame)
    }
}
