//! Fills an empty ring from its zone.
//!
//! | refill | under the zone lock | after the zone lock is released |
//! |---|---|---|
//! | one by one | takes every block off its list and splits larger ones | |
//! | cluster | cuts a run of up to a batch off a list of single pages | changes the run's states, page by page |
//! | blocks | takes whole blocks off their lists, smallest first, a few at most | splits them into the ring's entries |
//! | pageblocks | nothing, or takes one pageblock | its owner takes what it needs of it |
//!
//! A call that may not wait takes blocks one by one, whatever the refill is, and none if the zone's lock is not free.
//!
//! A refill by pageblocks takes one only when the pageblocks that the CPU owns have nothing left.
//!
//! Clusters, blocks and pageblocks use only runs and larger blocks of the request's own type. If they find too little,
//! the refill goes on one by one. A pageblock is claimed only while the zone has more left than its high mark. Memory
//! lent by CMA is used first where a refill one by one would use it.
//!
//! A block that is split outside the lock needs nothing but its head bytes. While it was on a list, nothing started
//! inside it but the block itself. So the states of its parts already say that they are not free.

use crate::buddy::fallback::{self, Mode, Want};
use crate::frame::cluster::CutRun;
use crate::frame::head::Head;
use crate::frame::owned_pageblock::{bits_in, choose};
use crate::free_path::remote_free::put;
use crate::pcp::pcp_guard::PcpGuard;
use crate::pcp::ring::Ring;
use crate::pcp::ring_id::RingId;
use crate::policy::mechanisms::Refill;
use crate::policy::watermark::Mark;
use crate::seam::machine::{Fault, Machine, Ordering, Step, Word};
use crate::types::counts::{BlockCount, PageblockCount};
use crate::types::units::{Frame, Order};
use crate::zone::zone_guard::ZoneGuard;

/// The batch of large zones: one less than the head bytes of a cache line.
///
/// Computed in `watermark.rs`.
const LINE_OF_HEADS: u32 = 63;
/// Frames that a refill next to a depot takes at once: four lines of head bytes.
const RUN: u32 = 4 * (LINE_OF_HEADS + 1);
/// Frames that a refill by blocks takes at once: the lock is held for a few large blocks.
const LONG_RUN: u32 = 4 * RUN;
/// Most blocks, or runs, that one refill takes off lists under the lock.
///
/// Bounds how long the lock is held.
const MOST: usize = 16;

impl<M: Machine> PcpGuard<'_, '_, M> {
    /// Takes a block; fills an empty ring from the depot or else from the zone.
    pub(crate) fn alloc(&self, id: RingId, want: &Want) -> Option<Frame> {
        self.alloc_cached(id).or_else(|| self.alloc_refilled(id, want))
    }

    /// Fills an empty ring from its zone and takes a block of it.
    ///
    /// For a caller that has found no block in the ring and the depot.
    pub(crate) fn alloc_refilled(&self, id: RingId, want: &Want) -> Option<Frame> {
        self.cx.shared.machine.step(Step::Refill);
        let ring = self.pcp.ring(id).filter(|_| !self.cx.shared.machine.fault(Fault::Refill))?;
        // A batch is counted in frames; of larger blocks at least two come at once. Next to a depot, blocks stay
        // between CPUs for long. They then come in runs, so that CPUs, and what they prefetch, rarely meet in a line of
        // head bytes. Of an owned pageblock a whole word's frames are taken at once.
        let claims = self.cx.shared.mechanisms().owns_pageblocks();
        let tuned = self.tuned_refill(id);
        let batch = match (tuned, self.pcp.size.batch) {
            (Some(refill), _) => refill.frames,
            (None, LINE_OF_HEADS..) if self.pcp.rules().has_depot => match self.cx.shared.mechanisms().refill {
                Refill::Blocks => LONG_RUN,
                _ => RUN,
            },
            (None, LINE_OF_HEADS) if claims => LINE_OF_HEADS + 1,
            (None, batch) => batch,
        };
        let batch = (batch >> id.order.0.min(31)).max(if batch > 1 { 2 } else { 1 });
        if ring.capacity() == 0 && !self.make_room(id, ring) {
            return None;
        }
        let mut batch = batch.min(ring.capacity());
        if self.pcp.rules().has_depot {
            if ring.quota() < batch {
                self.entitle(id, ring, batch.max(self.pcp.limit(id.order).saturating_mul(2)));
            }
            // At least the block that is taken next.
            batch = batch.min(ring.quota()).max(1);
        }
        ring.rewind(batch);
        let moved = match self.cx.shared.mechanisms().refill {
            _ if !self.cx.may_wait() => self.refill_in_time(id, ring, want, batch),
            Refill::Cluster if id.order.0 == 0 => self.refill_clusters(id, ring, want, batch),
            Refill::Blocks => self.refill_blocks(id, ring, want, batch),
            Refill::Pageblocks if id.huge().is_none() => self.refill_owned(id, ring, want, batch),
            _ => self.refill_one_by_one(id, ring, want, batch),
        };
        ring.count_moved(u64::from(moved));
        if let Some(refill) = tuned.filter(|_| moved != 0) {
            self.pcp.autotune.note_refilled(refill);
        }
        // Also if nothing came: the ring has changed.
        self.settle(id, ring, moved);
        self.alloc_from_ring(id)
    }

    fn put_under(&self, id: RingId, ring: &Ring<M>, frame: Frame) {
        self.cx.shared.machine.step(Step::RefillBlock);
        self.cx.shared.frames.set_head(frame, Head::pcp(id.order));
        ring.push_bottom(self.pcps.slots, frame);
    }

    /// Takes up to `batch` blocks one by one, if the zone's lock is free in time; returns how many.
    fn refill_in_time(&self, id: RingId, ring: &Ring<M>, want: &Want, batch: u32) -> u32 {
        let zone = self.zone.lock_in_time(self.cx.shared);
        zone.map_or(0, |zone| self.take_one_by_one(&zone, id, ring, want, batch))
    }

    /// Takes up to `batch` blocks one by one; returns how many.
    fn refill_one_by_one(&self, id: RingId, ring: &Ring<M>, want: &Want, batch: u32) -> u32 {
        self.take_one_by_one(&self.zone.lock_ends(self.cx), id, ring, want, batch)
    }

    fn take_one_by_one(&self, zone: &ZoneGuard<'_, '_, M>, id: RingId, ring: &Ring<M>, want: &Want, batch: u32) -> u32 {
        let most = BlockCount(u64::from(batch));
        let mut moved = zone.alloc_own(want, most, |frame| self.put_under(id, ring, frame)).0 as u32;
        let mut mode = Mode::Normal;
        while moved < batch
            && let Some(frame) = zone.alloc(want, &mut mode, true)
        {
            self.put_under(id, ring, frame);
            moved = moved.wrapping_add(1);
        }
        moved
    }

    /// Takes runs of together at most `batch` pages; returns how many pages.
    fn refill_clusters(&self, id: RingId, ring: &Ring<M>, want: &Want, batch: u32) -> u32 {
        // From the cut until the pages are in the ring: an interrupt that took the zone lock would wait for that, and
        // so for itself.
        let _irq = self.cx.shared.machine.irq_save();
        let zone = self.zone.lock_ends(self.cx);
        let mut runs = [None; MOST];
        let mut moved = 0_u32;
        for slot in &mut runs {
            *slot = zone.cut(want, BlockCount(u64::from(batch.saturating_sub(moved))));
            let Some(run) = slot else { break };
            moved = moved.saturating_add(run.count.0 as u32);
        }
        drop(zone);
        if moved == 0 {
            return self.refill_one_by_one(id, ring, want, batch);
        }
        let taken = runs.iter().flatten().map(|run| self.unfold(id, ring, run));
        taken.fold(0, u32::saturating_add)
    }

    /// Moves the pages of a run into the ring; returns how many.
    ///
    /// The run is on no list any more.
    fn unfold(&self, id: RingId, ring: &Ring<M>, run: &CutRun) -> u32 {
        let frames = &self.cx.shared.frames;
        let mut at = Some(run.first);
        let mut moved = 0_u32;
        while u64::from(moved) < run.count.0
            && let Some((frame, link)) = at.and_then(|frame| Some((frame, frames.links.get(frame.index())?)))
        {
            self.cx.shared.machine.step(Step::Unfold);
            // A damaged state stays out of the ring; `validate` finds it.
            let taken = frames.change(frame, |state| state.take(Order(0), self.cx.cpu)).is_ok();
            at = self.cx.shared.clusters.pass(frame, link);
            if taken {
                self.put_under(id, ring, frame);
                moved = moved.wrapping_add(1);
            }
        }
        self.zone.clusters.end_cut();
        moved
    }

    /// Takes blocks and splits them into at most `batch` entries of the ring.
    ///
    /// Of other types' lists it uses none after the first [`RUN`] frames. Returns the number of entries.
    fn refill_blocks(&self, id: RingId, ring: &Ring<M>, want: &Want, batch: u32) -> u32 {
        let zone = self.zone.lock_ends(self.cx);
        let enough = batch.saturating_sub((RUN >> id.order.0.min(31)).max(1));
        let mut blocks = [None; MOST];
        let mut mode = Mode::Normal;
        let mut left = batch;
        for slot in &mut blocks {
            if left == 0 {
                break;
            }
            let most = BlockCount(u64::from(left)).frames(id.order);
            *slot = zone.alloc_own_part(want, most, mode).or_else(|| {
                let may_fall_back = left > enough;
                let frame = may_fall_back.then(|| zone.alloc(want, &mut mode, true)).flatten()?;
                Some((frame, id.order))
            });
            let Some((_, order)) = slot else { break };
            left = left.saturating_sub(1 << order.0.saturating_sub(id.order.0).min(31));
        }
        drop(zone);
        for &(start, order) in blocks.iter().flatten() {
            for part in 0..1_u64 << order.0.saturating_sub(id.order.0).min(31) {
                self.put_under(id, ring, start.add(part << id.order.0.min(31)));
            }
        }
        batch.saturating_sub(left)
    }

    /// Takes up to `batch` free blocks of this CPU's pageblocks; returns how many.
    ///
    /// Claims more pageblocks as needed.
    fn refill_owned(&self, id: RingId, ring: &Ring<M>, want: &Want, batch: u32) -> u32 {
        let frames = &self.cx.shared.frames;
        let (cpu, zone) = (self.cx.cpu, self.zone.idx);
        let Some(lists) = want.migratetype.pcp_index() else { return self.refill_one_by_one(id, ring, want, batch) };
        let mut moved = 0_u32;
        for (hint, start) in frames.owned.hinted(cpu, zone, lists) {
            if moved >= batch {
                return moved;
            }
            self.cx.shared.machine.step(Step::DepotShard);
            let is_ours = frames.owned.owner(start) == Some(cpu);
            if is_ours && frames.pageblock(start).migratetype() == want.migratetype {
                moved = moved.wrapping_add(self.alloc_from_owned(start, id, ring, batch.wrapping_sub(moved)));
            }
            if !is_ours || frames.owned.is_used_up(start) {
                hint.store(0, Ordering::Relaxed);
                // A CPU that freed a block in between saw the hint still there, so the hint is set again.
                if is_ours && !frames.owned.is_used_up(start) {
                    frames.owned.hint(cpu, zone, lists, start);
                }
            }
        }
        while moved < batch
            && let Some(start) = self.claim(want)
        {
            let taken = self.alloc_from_owned(start, id, ring, batch.wrapping_sub(moved));
            moved = moved.wrapping_add(taken);
            frames.owned.hint(cpu, zone, lists, start);
            if taken == 0 {
                // A drain took the pageblock away right after the claim.
                break;
            }
        }
        if moved == 0 { self.refill_one_by_one(id, ring, want, batch) } else { moved }
    }

    /// Takes up to `most` free blocks in a pageblock of this CPU; returns how many.
    fn alloc_from_owned(&self, pageblock: Frame, id: RingId, ring: &Ring<M>, most: u32) -> u32 {
        let owned = &self.cx.shared.frames.owned;
        let mut taken = 0_u32;
        for (start, word) in owned.words(pageblock) {
            self.cx.shared.machine.step(Step::DepotShard);
            // A read first: the free frames may contain no block of this order.
            if taken >= most || choose(word.load(Ordering::Relaxed), id.order, 1).0 == 0 {
                continue;
            }
            let (chosen, rest) = choose(owned.take(word), id.order, most.wrapping_sub(taken));
            for bit in bits_in(chosen) {
                self.put_under(id, ring, start.add(u64::from(bit)));
                taken = taken.wrapping_add(1);
            }
            if rest != 0 {
                put(self.cx, self.zone, start, rest);
            }
        }
        taken
    }

    /// Makes this CPU the owner of a whole pageblock of the request's type.
    ///
    /// Returns its first frame.
    fn claim(&self, want: &Want) -> Option<Frame> {
        let (shared, zone) = (self.cx.shared, self.zone);
        let (order, max) = (shared.frames.geometry.pageblock_order, shared.frames.geometry.max_order);
        let needed = zone.stat.mark(Mark::High).saturating_add(order.frames());
        let mut larger = order.up_to(max);
        let is_there = zone.stat.memory_racy(&self.cx.shared.stats, zone.idx).free >= needed
            && want.order <= order
            && larger.any(|order| !zone.blocks_racy(shared, order, want.migratetype).is_zero());
        if !is_there {
            return None;
        }
        let guard = zone.lock_ends(self.cx);
        guard.init_section_for();
        shared.machine.step(Step::Take);
        let start = guard.alloc_with(|buddy| match fallback::is_cma_first(buddy, want) {
            true => Ok(None),
            false => buddy.alloc_smallest(order, want.migratetype),
        })?;
        shared.frames.owned.claim(start, self.cx.cpu);
        guard.buddy().tally.count_owned(PageblockCount::ONE);
        Some(start)
    }
}
