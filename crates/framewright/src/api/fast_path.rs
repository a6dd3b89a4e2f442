//! The fast path: the hit of a per-CPU list, which is nearly every call.
//!
//! A request without a policy, for an order that per-CPU lists keep, takes the block on top of one ring. A free of such
//! a block puts it on top of one. [`World::alloc_fast`] and [`World::free_fast`] do that and nothing else. Each costs
//! about thirty instructions and four lines of memory: the CPU's record, the ring, its entries, the block's head byte.
//! (A free reads the pageblock's word as well.) There is no call, no lock, no atomic read-modify-write and no fence. A
//! request that the fast path cannot serve goes to the next stage (`alloc_free.rs`); nothing was changed here.
//!
//! A [`Route`] is what the fast path has to know of a request. Where the request is a constant, the compiler computes
//! it.
//!
//! Some mechanisms ask something of every request: a watermark, a check of the page's contents. They leave the fast
//! path off, and a CPU's record then names no zone for it ([`crate::Cpu`]). The fast path is also off where
//! `pcp-protection` lets an interrupt use the lists of the CPU that it interrupted: the fast path has no protection of
//! its own, and relies on interrupts having lists of their own.

use crate::frame::head::Head;
use crate::pcp::pcp_guard::PcpGuard;
use crate::pcp::ring::{Ring, RingId, Slots};
use crate::seam::compiled::Compiled;
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::shared::{CallCx, Cpu};
use crate::types::migratetype::MigrateType;
use crate::types::request::{
    __GFP_DMA, __GFP_DMA32, __GFP_MOVABLE, __GFP_RECLAIMABLE, __GFP_THISNODE, Gfp, Policy, Request,
};
use crate::types::units::{CpuId, Frame, Order, Pfn, ZoneKind};
use crate::zonelist::alloc_flags::first_alloc_flags;
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

/// Where a request without special wishes looks for a block.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) ring: RingId,
    /// The highest kind of zone that the request may use.
    pub(crate) highest: ZoneKind,
    /// The head of the block once it is allocated.
    pub(crate) head: Head,
}

/// Whether the flags contradict each other.
pub(crate) const fn are_contradictory(gfp: Gfp) -> bool {
    gfp.contains(Gfp(__GFP_MOVABLE.0 | __GFP_RECLAIMABLE.0)) || gfp.contains(Gfp(__GFP_DMA.0 | __GFP_DMA32.0))
}

impl Route {
    /// The route of a request; `None` if only the slow path can serve it.
    #[inline(always)]
    pub(crate) fn of<M: Machine>(request: &Request, pageblock_order: Order) -> Option<Route> {
        let Request { gfp, order, .. } = *request;
        let is_special = !matches!(request.policy, Policy::Local) || request.below.is_some();
        if is_special || gfp.contains(__GFP_THISNODE) || are_contradictory(gfp) {
            return None;
        }
        let migratetype = M::mobility_of(gfp);
        let Some(ring) = RingId::of(order, migratetype, pageblock_order) else { return None };
        let head = Head::allocated(order, matches!(migratetype, MigrateType::Movable));
        Some(Route { ring, highest: gfp.highest_zone(), head })
    }

    /// The heads of the block before and after its allocation.
    #[inline(always)]
    pub(crate) const fn heads(self) -> HeadChange {
        HeadChange { listed: Head::pcp(self.ring.order), allocated: self.head }
    }
}

/// The head that a block on a ring must have, and the head that it gets when it is allocated.
#[derive(Clone, Copy)]
pub(crate) struct HeadChange {
    pub(crate) listed: Head,
    pub(crate) allocated: Head,
}

/// A block that is freed to a ring: its frame, its head's word, and the head that it gets.
pub(crate) struct FreedBlock<'w, M: Machine> {
    pub(crate) frame: Frame,
    pub(crate) word: &'w M::U8,
    pub(crate) listed: Head,
}

/// Pops the block on top of a ring of the running CPU, if there is one and its head is the expected one.
///
/// Returns the block's distance from the first descriptor that `heads` gives, or as an error the distance of a block
/// whose head is not among these. `heads` is called late, when few registers are in use.
#[inline(always)]
pub(crate) fn pop_top<'h, M: Machine>(
    machine: &M,
    ring: &Ring<M>,
    slots: Slots<'_, M>,
    heads: impl FnOnce() -> (&'h [M::U8], u32),
    change: HeadChange,
) -> Option<Result<u32, u32>>
where
    M::U8: 'h,
{
    machine.step(Step::Alloc);
    let frame = ring.pop_front(machine, slots)?;
    let (heads, first) = heads();
    let distance = frame.0.wrapping_sub(first);
    match heads.get(distance as usize) {
        Some(word) if word.load(Ordering::Relaxed) == change.listed.0 => {
            word.store(change.allocated.0, Ordering::Relaxed);
            ring.count_taken();
            Some(Ok(distance))
        }
        _ => Some(Err(distance)),
    }
}

/// Counts an entry that is no block of the ring's order as gone.
///
/// It must not be handed out; `validate` finds it missing.
#[cold]
pub(crate) fn drop_damaged<M: Machine>(ring: &Ring<M>) {
    ring.count_moved(u64::MAX);
}

/// Pushes a block on top of a ring of the running CPU; false if there is no room. The caller has checked the block's
/// head.
#[inline(always)]
pub(crate) fn push_top<M: Machine>(machine: &M, ring: &Ring<M>, slots: Slots<'_, M>, block: FreedBlock<'_, M>) -> bool {
    machine.step(Step::Free);
    ring.push_front(slots, block.frame, || block.word.store(block.listed.0, Ordering::Relaxed))
}

impl<'a, M: Machine> World<'a, M> {
    /// Serves a request from the running CPU's list; `None` if the list is empty. The block's head says "allocated".
    #[inline(always)]
    pub(crate) fn alloc_fast(&self, cpu: CpuId, own: &Cpu<M>, route: Route) -> Option<Frame> {
        let zone = own.fast_zone(route.highest)?;
        let pcp = self.pcps.record(cpu, zone.index())?;
        self.alloc_from_ring(pcp.ring(route.ring)?, route.heads())
    }

    /// Pops a block as [`pop_top`] does, with the heads of all memory.
    #[inline(always)]
    pub(crate) fn alloc_from_ring(&self, ring: &Ring<M>, heads: HeadChange) -> Option<Frame> {
        let all = || (self.shared.frames.heads, 0);
        match pop_top(&self.shared.machine, ring, &self.pcps.slots, all, heads)? {
            Ok(index) => Some(Frame(index)),
            Err(_) => {
                drop_damaged(ring);
                None
            }
        }
    }

    /// Serves a request that missed the fast path, in one visit to the CPU's lists and then zone after zone.
    ///
    /// # Errors
    /// The plan of a request that found nothing above the low marks. `None` if the request was not tried, because it
    /// has no route here or the lists are in use.
    #[inline]
    pub(crate) fn alloc_pinned(&self, cx: CallCx<'_, 'a, M>, request: &Request) -> Result<Frame, Option<Plan>> {
        if !M::MAY_BE_FAST {
            return Err(None);
        }
        let searched = match self.alloc_cached(cx, request) {
            Ok(frame) => return Ok(frame),
            // A caller with a `Local` may have interrupted a section that holds the zone lock.
            Err(_) if self.shared.machine.is_in_section() => return Err(None),
            Err(searched) => searched.ok_or(None)?,
        };
        self.shared.machine.step(Step::AllocLong);
        let plan = self.plan(cx, request);
        self.walk(cx, searched.zone, Some(searched), &plan, first_alloc_flags(&plan)).map_err(|_| Some(plan))
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
        let Some(frame) = pcp.alloc_cached(route.ring) else { return Err(Some(pcp)) };
        // While the lists are held, so that the block is part of something at every moment.
        frames.set_head(frame, route.head);
        Ok(frame)
    }

    /// Frees a block whose ring is full, after an empty magazine was loaded. False if it is no allocated block, or
    /// needs the slow path.
    #[inline]
    pub(crate) fn free_cached(&self, cx: CallCx<'_, 'a, M>, pfn: Pfn, order: Order) -> bool {
        if !M::MAY_BE_FAST {
            return false;
        }
        self.shared.machine.step(Step::Behind);
        let frames = &self.shared.frames;
        let allocated = |&frame: &Frame| frames.head(frame).is_allocated_of(order);
        let Some(frame) = frames.frame(pfn).filter(allocated).filter(|_| cx.own.has_fast_path()) else { return false };
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
        if !is_ours || !own.has_fast_path() || self.shared.machine.traces() {
            return None;
        }
        let pageblock = frames.pageblock(frame);
        let ring = RingId::with_lists(order, pageblock.lists()?, frames.geometry.pageblock_order)?;
        let pcp = self.pcps.record(cpu, pageblock.zone_index())?;
        let block = FreedBlock { frame, word, listed: Head::pcp(order) };
        push_top(&self.shared.machine, pcp.ring(ring)?, &self.pcps.slots, block).then_some(())
    }
}
