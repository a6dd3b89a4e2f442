//! Many blocks in one call.
//!
//! A bulk request finds its CPU and its list once for many blocks. With the fast path on, it takes a part of a ring as
//! a whole, and goes on with the magazines that follow (`fast_bulk.rs`). With the fast path off, it enters the list
//! once and is served as a single request would be. What remains is served one by one. A bulk free finds its CPU once,
//! and looks up a list only when a block's pageblock has another zone or type than the last one's: blocks may be mixed
//! at will.
//!
//! There are three forms, because callers keep blocks in three ways:
//!
//! | the caller has | call |
//! |---|---|
//! | an array to fill | [`Allocator::alloc_bulk`] |
//! | an array with holes, such as a ring of buffers of which some were consumed | [`Allocator::alloc_missing`] |
//! | any list of its own | [`Allocator::alloc_each`], [`Allocator::free_each`] |
//!
//! The last two take a closure and an iterator, which are called with nothing held; 64 frame numbers on the stack are
//! the buffer. The core has no memory for a list. Linux links blocks through their descriptors; that would touch a
//! descriptor for each block, which per-CPU lists avoid.
//!
//! Each block is one request or one free: it is counted, traced and refused on its own.

use core::cell::Cell;

use crate::api::allocator::Allocator;
use crate::api::fast_path::FastPath;
use crate::api::local::Local;
use crate::api::route::Route;
use crate::api::seen::Seen;
use crate::pcp::ring_id::RingId;
use crate::policy::watermark::AllocFlags;
use crate::seam::machine::{Fault, Machine, PerCpu, Step};
use crate::shared::CallCx;
use crate::types::error::{AllocError, FreeError};
use crate::types::request::{Policy, Request};
use crate::types::units::{Order, Pfn};
use crate::zonelist::alloc_flags::first_alloc_flags;
use crate::zonelist::numa_stat::ServedFrom;

/// Blocks that one visit of a per-CPU list serves at most; the CPU is pinned for that long.
const BULK: usize = 64;

/// What [`Allocator::free_bulk`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BulkFree {
    /// Blocks freed.
    pub freed: usize,
    /// Blocks refused; they are unchanged.
    pub refused: usize,
    /// The first block that was refused, by its position among those given, and the reason.
    pub first: Option<(usize, FreeError)>,
}

impl BulkFree {
    /// Adds what became of the blocks after these.
    pub fn add(&mut self, more: BulkFree) {
        let done = self.done();
        self.first = self.first.or(more.first.map(|(at, error)| (done.saturating_add(at), error)));
        self.freed = self.freed.saturating_add(more.freed);
        self.refused = self.refused.saturating_add(more.refused);
    }

    fn note(&mut self, freed: Result<(), FreeError>) {
        match freed {
            Ok(()) => self.freed = self.freed.saturating_add(1),
            Err(error) => {
                self.first = self.first.or(Some((self.done(), error)));
                self.refused = self.refused.saturating_add(1);
            }
        }
    }

    /// Returns the number of blocks so far, which is the position of the next.
    fn done(&self) -> usize {
        self.freed.saturating_add(self.refused)
    }
}

impl<'a, M: Machine> Allocator<'a, M> {
    /// Allocates blocks into `out`, first entry first, until it is full or memory is short; returns how many.
    ///
    /// The entries after these are unchanged. One visit of a per-CPU list serves many blocks.
    ///
    /// # Errors
    /// As [`Allocator::alloc`], if not even one block was allocated.
    #[inline]
    pub fn alloc_bulk(&self, request: &Request, out: &mut [Pfn]) -> Result<usize, AllocError> {
        let route = Route::of::<M>(request, self.geometry().pageblock_order);
        // A request with a route makes sense.
        let makes_sense = route.is_some() || self.check(request).is_ok();
        let may_visit = makes_sense && self.may_visit(request) && !self.machine().fault(Fault::Alloc);
        let done = match route {
            Some(route) if may_visit && !self.announces(request) => self.alloc_tops(route, out),
            _ => 0,
        };
        if done != 0 && done == out.len() { Ok(done) } else { self.alloc_bulk_rest(request, out, done, may_visit) }
    }

    /// Whether a request may be served by visits of a per-CPU list.
    fn may_visit(&self, request: &Request) -> bool {
        let is_simple = request.below.is_none() && !matches!(request.policy, Policy::Interleave(_));
        is_simple && !self.mechanisms().is_hardened()
    }

    /// Fills `out` from the top of the ring that the machine's value of the CPU names; returns how many blocks.
    #[inline(never)]
    fn alloc_tops(&self, route: Route, out: &mut [Pfn]) -> usize {
        let world = self.world();
        let mut done = 0_usize;
        for visit in out.chunks_mut(BULK) {
            let (wanted, visit) = (visit.len(), Cell::new(visit));
            let serve = |fast: &FastPath<'a, M>| {
                Some(fast.alloc_all(&world.shared.machine, &world.shared.frames, route, visit.take()))
            };
            let served = self.fast.with_any(serve).unwrap_or(0);
            done = done.saturating_add(served);
            if served < wanted {
                break;
            }
        }
        done
    }

    /// Fills the entries from `done` on, of which there may be none: by visits of a per-CPU list, and then one by one.
    #[inline(never)]
    fn alloc_bulk_rest(
        &self,
        request: &Request,
        out: &mut [Pfn],
        mut done: usize,
        may_visit: bool,
    ) -> Result<usize, AllocError> {
        self.check(request)?;
        if may_visit {
            done = done.saturating_add(self.alloc_bulk_here(request, out.get_mut(done..).unwrap_or_default()));
        }
        while let Some(entry) = out.get_mut(done) {
            match self.alloc(request) {
                Ok(pfn) => *entry = pfn,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            done = done.saturating_add(1);
        }
        Ok(done)
    }

    /// Allocates up to `count` blocks and passes each to `sink`; returns how many.
    ///
    /// It is for a caller that links blocks through words of its own. `sink` is called with nothing held, so it may
    /// call the allocator.
    ///
    /// # Errors
    /// As [`Allocator::alloc`], if not even one block was allocated.
    pub fn alloc_each(&self, request: &Request, count: usize, mut sink: impl FnMut(Pfn)) -> Result<usize, AllocError> {
        let mut visit = [Pfn(0); BULK];
        let mut done = 0_usize;
        while done < count {
            let wanted = visit.get_mut(..count.saturating_sub(done).min(BULK)).unwrap_or_default();
            let served = match self.alloc_bulk(request, wanted) {
                Ok(served) => served,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            };
            wanted.iter().take(served).for_each(|&pfn| sink(pfn));
            done = done.saturating_add(served);
            if served < wanted.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Allocates blocks into the empty entries until none is left or memory is short; returns how many entries are
    /// filled now.
    ///
    /// Entries that were filled before are counted too. It is for rings of buffers of which some were consumed.
    ///
    /// # Errors
    /// As [`Allocator::alloc`], if there was an empty entry and not even one could be filled.
    pub fn alloc_missing(&self, request: &Request, entries: &mut [Option<Pfn>]) -> Result<usize, AllocError> {
        let missing = entries.iter().filter(|entry| entry.is_none()).count();
        let filled = entries.len().saturating_sub(missing);
        let mut empty = entries.iter_mut().filter(|entry| entry.is_none());
        let served = self.alloc_each(request, missing, |pfn| {
            if let Some(entry) = empty.next() {
                *entry = Some(pfn);
            }
        })?;
        Ok(filled.saturating_add(served))
    }

    /// Allocates the part of a bulk request that the first zone's per-CPU list serves; returns how many blocks.
    fn alloc_bulk_here(&self, request: &Request, out: &mut [Pfn]) -> usize {
        let mut done = 0_usize;
        for visit in out.chunks_mut(BULK) {
            let served = self.world().pinned_now(|cx| self.visit(cx, request, visit)).unwrap_or(0);
            if self.announces(request) {
                visit.iter().take(served).for_each(|&pfn| self.announce(pfn, request));
            }
            done = done.saturating_add(served);
            if served < visit.len() {
                break;
            }
        }
        done
    }

    /// Fills `out` from the CPU's lists and its zone; returns how many blocks.
    // Out of line, so that the loop of the fast path keeps its registers.
    #[inline(never)]
    fn visit(&self, cx: CallCx<'_, 'a, M>, request: &Request, out: &mut [Pfn]) -> usize {
        let cx = cx.for_request(request.gfp);
        let served = self.visit_fast(cx, request, out);
        let rest = out.get_mut(served..).unwrap_or_default();
        served.saturating_add(if rest.is_empty() { 0 } else { self.visit_cached(cx, request, rest) })
    }

    /// Fills `out` from the top of one ring and from the magazines that follow; returns how many blocks.
    ///
    /// The ring is looked up once, and each part of it is taken as a whole.
    fn visit_fast(&self, cx: CallCx<'_, 'a, M>, request: &Request, out: &mut [Pfn]) -> usize {
        let world = self.world();
        let (machine, frames) = (&world.shared.machine, &world.shared.frames);
        let Some(route) = Route::of::<M>(request, self.geometry().pageblock_order) else { return 0 };
        let pcp = cx.own.fast_zone(route.highest).and_then(|zone| world.pcps.record(cx.cpu, zone.index()));
        let Some(ring) = pcp.and_then(|pcp| pcp.ring(route.ring())) else { return 0 };
        machine.step(Step::Route);
        let seen = Cell::new(Seen::NOTHING);
        let mut done = 0_usize;
        loop {
            let rest = out.get_mut(done..).unwrap_or_default();
            let served = ring.alloc_all(machine, frames, world.pcps.slots, &seen, route.heads(), rest);
            done = done.saturating_add(served);
            // The next magazine, and its top.
            let Some(entry) = out.get_mut(done) else { return done };
            let Ok(frame) = world.alloc_cached(cx, request) else { return done };
            *entry = frames.pfn(frame);
            done = done.saturating_add(1);
        }
    }

    /// Fills `out` from the first zone's per-CPU list; returns how many blocks.
    // Out of line, so that the loop of the fast path keeps its registers.
    #[inline(never)]
    fn visit_cached(&self, cx: CallCx<'_, 'a, M>, request: &Request, out: &mut [Pfn]) -> usize {
        let world = self.world();
        world.shared.machine.step(Step::Bulk);
        let plan = world.plan(cx, request);
        let alloc_flags = first_alloc_flags(&plan);
        let Some(zone) = world.zonelist(&plan).next() else { return 0 };
        let Some(ring) = RingId::of(plan.order, plan.migratetype, self.geometry().pageblock_order) else { return 0 };
        let Some(pcp) = world.pcps.enter(cx, zone) else { return 0 };
        let alloc_flags = AllocFlags { nofragment: world.may_avoid_mixing(zone), ..alloc_flags };
        let mut done = 0_usize;
        let cached_first = !world.shared.mechanisms().marks_bind_cached();
        for entry in out.iter_mut() {
            world.shared.machine.step(Step::BulkBlock);
            let cached = if cached_first { pcp.alloc_cached(ring) } else { None };
            let from_zone = || {
                let want = world.may_serve(zone, &plan, alloc_flags).then(|| world.want(&plan, alloc_flags))?;
                if cached_first { pcp.alloc_refilled(ring, &want) } else { pcp.alloc(ring, &want) }
            };
            let Some(frame) = cached.or_else(from_zone) else { break };
            world.hand_out(cx, frame, ServedFrom { zone, preferred: zone }, &plan, pcp.counted());
            *entry = world.shared.frames.pfn(frame);
            done = done.saturating_add(1);
        }
        drop(pcp);
        world.wake_boosted(zone);
        done
    }

    /// Frees blocks of one order. Each is freed or refused on its own.
    pub fn free_bulk(&self, blocks: &[Pfn], order: Order) -> BulkFree {
        let mut result = BulkFree::default();
        for visit in blocks.chunks(BULK) {
            match self.free_visit(visit, order) {
                Some(freed) if freed == visit.len() => result.freed = result.freed.saturating_add(freed),
                freed => self.free_rest(visit, freed, order, &mut result),
            }
        }
        result
    }

    /// Frees the blocks of a visit that the CPU's lists did not accept at once.
    #[inline(never)]
    fn free_rest(&self, visit: &[Pfn], mut freed: Option<usize>, order: Order, result: &mut BulkFree) {
        let mut rest = visit;
        while let Some(count) = freed {
            result.freed = result.freed.saturating_add(count);
            rest = rest.get(count..).unwrap_or_default();
            // The block after them fills a ring, goes elsewhere, or is no allocated block.
            let Some((&next, after)) = rest.split_first() else { return };
            result.note(self.free(next, order));
            rest = after;
            freed = self.free_visit(rest, order);
        }
        rest.iter().for_each(|&pfn| result.note(self.free(pfn, order)));
    }

    /// Frees the first blocks, as far as the CPU's lists accept them; returns how many.
    ///
    /// `None` if there is none, or no CPU with a fast path.
    fn free_visit(&self, blocks: &[Pfn], order: Order) -> Option<usize> {
        let world = self.world();
        let free_all = |fast: &FastPath<'a, M>| {
            if blocks.is_empty() || !fast.own().has_fast_path() {
                return None;
            }
            world.shared.machine.step(Step::Lookup);
            Some(fast.free_all(world, blocks, order))
        };
        if <M::PerCpu<FastPath<'a, M>>>::IS_KEPT {
            return self.fast.with_any(free_all);
        }
        self.local_now().and_then(|local| free_all(local.fast_path()))
    }

    /// Frees blocks of any orders, types and zones; each is freed or refused on its own.
    ///
    /// The iterator is called with nothing held, and up to 64 blocks ahead of the frees: links that lie in the blocks
    /// themselves are read in time.
    pub fn free_each(&self, blocks: impl IntoIterator<Item = (Pfn, Order)>) -> BulkFree {
        let mut blocks = blocks.into_iter();
        let mut result = BulkFree::default();
        let mut next = blocks.next();
        while let Some((first, order)) = next {
            // Blocks in a row of one order.
            let mut visit = [first; BULK];
            let mut count = 0_usize;
            while let Some((pfn, other)) = next
                && other == order
                && let Some(slot) = visit.get_mut(count)
            {
                *slot = pfn;
                count = count.saturating_add(1);
                next = blocks.next();
            }
            result.add(self.free_bulk(visit.get(..count).unwrap_or_default(), order));
        }
        result
    }
}

impl<M: Machine> Local<'_, '_, M> {
    /// Allocates as [`Allocator::alloc_bulk`] does.
    ///
    /// # Errors
    /// As [`Allocator::alloc_bulk`].
    pub fn alloc_bulk(&self, request: &Request, out: &mut [Pfn]) -> Result<usize, AllocError> {
        self.allocator.alloc_bulk(&self.request(request), out)
    }

    /// Frees as [`Allocator::free_bulk`] does.
    pub fn free_bulk(&self, blocks: &[Pfn], order: Order) -> BulkFree {
        self.allocator.free_bulk(blocks, order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_blocks_keep_their_place_among_all() {
        let refused = |at, pfn| BulkFree { freed: 2, refused: 1, first: Some((at, FreeError::AlreadyFree(Pfn(pfn)))) };
        let mut sum = BulkFree { freed: 3, ..BulkFree::default() };
        sum.add(refused(1, 7));
        sum.add(refused(0, 8));
        assert_eq!(sum, BulkFree { freed: 7, refused: 2, first: Some((4, FreeError::AlreadyFree(Pfn(7)))) });
    }
}
