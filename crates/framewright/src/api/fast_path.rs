//! The front: what nearly all calls are, and all that they are.
//!
//! A request without a policy, for a block of an order that CPUs keep, is served by the top of one ring if that has a block.
//! A free of such a block puts it on top of one. [`World::alloc_fast`] and [`World::free_fast`] do that and nothing else:
//! about thirty instructions each, no call, no lock, no atomic read-modify-write, no fence, and four lines of memory (the
//! CPU's record, the ring, its entries, the block's head byte; a free reads the pageblock's word too). Whatever is
//! not so goes the long way, which begins anew and does everything: nothing was changed here.
//!
//! What a request needs to know of itself for that is its [`Route`]. Where the request is a constant, the compiler works it out.
//!
//! Mechanisms that ask something of every request (a watermark, a poisoned page) leave the front closed: a CPU's record
//! then names no zone for it ([`crate::Cpu`]). So do those that let an interrupt come to the lists of the CPU that it met
//! (`pcp-protection`): nothing comes in between here because interrupts have lists of their own.

use crate::frame::head::Head;
use crate::pcp::ring::{Ring, RingId, Slots};
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::shared::{CallCx, Cpu};
use crate::types::migratetype::MigrateType;
use crate::types::request::{
    __GFP_DMA, __GFP_DMA32, __GFP_MOVABLE, __GFP_RECLAIMABLE, __GFP_THISNODE, Gfp, Policy, Request,
};
use crate::types::units::{CpuId, Frame, Order, Pfn, ZoneKind};
use crate::zonelist::world::World;

/// Where a request that asks for nothing special looks for a block.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) ring: RingId,
    /// The highest kind of zone that it may use.
    pub(crate) highest: ZoneKind,
    /// What the block's head says once it is served.
    pub(crate) head: Head,
}

/// Flags that cannot be together.
pub(crate) const fn are_contradictory(gfp: Gfp) -> bool {
    gfp.contains(Gfp(__GFP_MOVABLE.0 | __GFP_RECLAIMABLE.0)) || gfp.contains(Gfp(__GFP_DMA.0 | __GFP_DMA32.0))
}

impl Route {
    /// The route of a request; none if it has to go the long way.
    #[inline(always)]
    pub(crate) const fn of(request: &Request, pageblock_order: Order) -> Option<Route> {
        let Request { gfp, order, .. } = *request;
        let is_special = !matches!(request.policy, Policy::Local) || request.below.is_some();
        if is_special || gfp.contains(__GFP_THISNODE) || are_contradictory(gfp) {
            return None;
        }
        let migratetype = gfp.migratetype();
        let Some(ring) = RingId::of(order, migratetype, pageblock_order) else { return None };
        let head = Head::allocated(order, matches!(migratetype, MigrateType::Movable));
        Some(Route { ring, highest: gfp.highest_zone(), head })
    }
}

/// Takes the block on top of a ring of the running CPU, if there is one and its head says what it should. `heads` gives heads, and
/// the descriptor from which on they are: when it is called, few registers are in use. Returns the block's distance from there; as an
/// error, if it has no such head among these.
#[inline(always)]
pub(crate) fn pop_top<'h, M: Machine>(
    machine: &M,
    ring: &Ring<M>,
    slots: Slots<'_, M>,
    heads: impl FnOnce() -> (&'h [M::U8], u32),
    (expected, head): (Head, Head),
) -> Option<Result<u32, u32>>
where
    M::U8: 'h,
{
    machine.step(Step::Alloc);
    let frame = ring.pop_front(machine, slots)?;
    let (heads, first) = heads();
    let distance = frame.0.wrapping_sub(first);
    match heads.get(distance as usize) {
        Some(word) if word.load(Ordering::Relaxed) == expected.0 => {
            word.store(head.0, Ordering::Relaxed);
            ring.count_taken();
            Some(Ok(distance))
        }
        _ => Some(Err(distance)),
    }
}

/// An entry that was taken off a ring is no block of the ring's order: it must not be handed out. `validate` finds it missing.
#[cold]
pub(crate) fn drop_damaged<M: Machine>(ring: &Ring<M>) {
    ring.count_moved(u64::MAX);
}

/// Puts a block, whose head the caller has checked, on top of a ring of the running CPU. False if there is no room.
#[inline(always)]
pub(crate) fn push_top<M: Machine>(
    machine: &M,
    ring: &Ring<M>,
    slots: Slots<'_, M>,
    (frame, word, head): (Frame, &M::U8, Head),
) -> bool {
    machine.step(Step::Free);
    ring.push_front(slots, frame, || word.store(head.0, Ordering::Relaxed))
}

impl<'a, M: Machine> World<'a, M> {
    /// Serves a request from the running CPU's lists; none if that takes more. The block's head says "allocated".
    #[inline(always)]
    pub(crate) fn alloc_fast(&self, cpu: CpuId, own: &Cpu<M>, route: Route) -> Option<Frame> {
        let zone = own.fast_zones.get(route.highest.index())?;
        let pcp = self.pcps.record(cpu, zone.index())?;
        let heads = (Head::pcp(route.ring.order), route.head);
        self.alloc_from_ring(pcp.ring(route.ring)?, heads)
    }

    /// `take_top`, with the heads of all memory.
    #[inline(always)]
    pub(crate) fn alloc_from_ring(&self, ring: &Ring<M>, heads: (Head, Head)) -> Option<Frame> {
        let all = || (self.shared.frames.heads, 0);
        match pop_top(&self.shared.machine, ring, &self.pcps.slots, all, heads)? {
            Ok(index) => Some(Frame(index)),
            Err(_) => {
                drop_damaged(ring);
                None
            }
        }
    }

    /// Serves a request whose ring is empty from what lies right behind it: its spare magazine, or one of the depot.
    #[inline]
    pub(crate) fn alloc_cached(&self, cx: CallCx<'_, 'a, M>, request: &Request) -> Option<Pfn> {
        self.shared.machine.step(Step::Behind);
        let frames = &self.shared.frames;
        let route = Route::of(request, frames.geometry.pageblock_order)?;
        let zone = self.zone(*cx.own.fast_zones.get(route.highest.index())?)?;
        let pcp = self.pcps.enter(cx, zone)?;
        let frame = pcp.alloc_cached(route.ring)?;
        // While the lists are held, so that nobody finds the block in no place.
        frames.set_head(frame, route.head);
        Some(frames.pfn(frame))
    }

    /// Puts an allocated block whose ring is full there, with an empty magazine loaded. False if it is none, or that takes more.
    #[inline]
    pub(crate) fn free_cached(&self, cx: CallCx<'_, 'a, M>, pfn: Pfn, order: Order) -> bool {
        self.shared.machine.step(Step::Behind);
        let frames = &self.shared.frames;
        let allocated = |&frame: &Frame| frames.head(frame).is_allocated_of(order);
        let Some(frame) = frames.frame(pfn).filter(allocated).filter(|_| cx.own.plain) else { return false };
        let pageblock = frames.pageblock(frame);
        let ring = RingId::of(order, pageblock.migratetype(), frames.geometry.pageblock_order);
        let Some((zone, ring)) = pageblock.zone().and_then(|idx| self.zone(idx)).zip(ring) else { return false };
        match self.pcps.enter(cx, zone) {
            Some(pcp) if !self.shared.machine.traces() => {
                pcp.free(ring, frame);
                true
            }
            _ => false,
        }
    }

    /// Puts an allocated block on the running CPU's lists; false if it is none, or that takes more.
    #[inline(always)]
    pub(crate) fn free_fast(&self, cpu: CpuId, own: &Cpu<M>, pfn: Pfn, order: Order) -> bool {
        self.try_free_fast(cpu, own, pfn, order).is_some()
    }

    #[inline(always)]
    fn try_free_fast(&self, cpu: CpuId, own: &Cpu<M>, pfn: Pfn, order: Order) -> Option<()> {
        let frames = &self.shared.frames;
        // Where no memory is, no head.
        let index = frames.map.index(pfn)?;
        let word = frames.heads.get(usize::try_from(index).ok()?)?;
        let frame = Frame(index as u32);
        let is_ours = Head(word.load(Ordering::Relaxed)).is_allocated_of(order);
        if !is_ours || !own.plain || self.shared.machine.traces() {
            return None;
        }
        let pageblock = frames.pageblock(frame);
        let ring = RingId::with_lists(order, pageblock.lists()?, frames.geometry.pageblock_order)?;
        let pcp = self.pcps.record(cpu, pageblock.zone_index())?;
        let block = (frame, word, Head::pcp(order));
        push_top(&self.shared.machine, pcp.ring(ring)?, &self.pcps.slots, block).then_some(())
    }
}
