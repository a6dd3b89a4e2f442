//! Frees blocks of per-CPU lists to their zone: the oldest first, in batches.
//!
//! A batch comes from the cold ends, ring by ring in turn, and is freed under one section of the zone lock
//! (`free_path.rs`).

use crate::frame::head::Head;
use crate::free_path::free_batch::{Block, FreeBatch};
use crate::free_path::free_path::{collect, free_batch, free_one, unlist};
use crate::pcp::pcp_guard::PcpGuard;
use crate::pcp::ring::Ring;
use crate::pcp::ring_id::{RINGS, RingId};
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::types::units::{Frame, Order};

impl<M: Machine> PcpGuard<'_, '_, M> {
    /// Frees at least `frames` frames to the zone, or all there are; returns their number.
    ///
    /// They come from the cold ends, ring by ring.
    pub(crate) fn drain(&self, frames: u32) -> u32 {
        self.cx.shared.machine.step(Step::Drain);
        if self.pcp.rules().has_depot {
            self.cx.shared.machine.step(Step::DrainCount);
        }
        if self.pcp.count_racy(self.order_of_huge()) == 0 {
            return 0;
        }
        let mut batch = FreeBatch::new();
        let mut drained = 0_u32;
        while drained < frames {
            self.collect_rings(&mut batch, frames.saturating_sub(drained));
            while batch.frames() < frames.saturating_sub(drained)
                && batch.room() != 0
                && let Some((frame, order)) = self.pop_waiting()
            {
                collect(self.cx.shared, &mut batch, frame, order);
            }
            if batch.is_empty() {
                break;
            }
            drained = drained.saturating_add(batch.frames());
            free_batch(self.cx, self.zone, &mut batch);
        }
        drained
    }

    /// Frees all blocks to the zone; returns the number of frames.
    ///
    /// One batch at a time, so that the zone lock is never held for long.
    pub(crate) fn drain_all(&self) -> u64 {
        let mut drained = 0_u64;
        loop {
            match self.drain(self.zone.pcp.batch.max(1)) {
                0 => return drained,
                frames => drained = drained.saturating_add(u64::from(frames)),
            }
        }
    }

    /// Moves blocks from the cold ends of the rings into a batch.
    ///
    /// Stops at `frames` frames, at a full batch, or when all rings are empty. Rings take turns. A ring that has blocks
    /// gives one for each ring passed since the last one that had any. The only ring that has blocks gives all. This is
    /// Linux's way; one block of each ring in turn would mean looking at all rings for each block. A ring that has
    /// blocks by its words and gives none is damaged, and counts as empty.
    fn collect_rings(&self, batch: &mut FreeBatch, frames: u32) {
        let pageblock_order = self.order_of_huge();
        let mut at = self.pcp.turn.load(Ordering::Relaxed) as usize;
        let mut run = 0_usize;
        let mut empty = 0;
        while batch.frames() < frames && batch.room() != 0 && empty < RINGS {
            self.cx.shared.machine.step(Step::DrainRing);
            at = if at + 1 < RINGS { at + 1 } else { 0 };
            run += 1;
            let id = RingId::nth(at, pageblock_order);
            let Some((id, ring)) = id.and_then(|id| Some((id, self.pcp.ring(id).filter(|ring| ring.total() != 0)?)))
            else {
                empty += 1;
                continue;
            };
            let most = if empty + 1 >= RINGS { usize::MAX } else { run };
            let before = batch.frames();
            for _ in 0..most.min(batch.room()) {
                let Some(frame) = self.pop_bottom(id, ring) else { break };
                collect(self.cx.shared, batch, frame, id.order);
                if batch.frames() >= frames {
                    break;
                }
            }
            run = 0;
            empty = if batch.frames() == before { empty + 1 } else { 0 };
        }
        self.pcp.turn.store(at as u32, Ordering::Relaxed);
    }

    /// Frees `frames` frames, or all, from the cold end of a ring.
    ///
    /// Returns how many, which may be more than `frames`.
    pub(crate) fn drain_cold(&self, id: RingId, ring: &Ring<M>, frames: u32) -> u32 {
        let mut given = 0_u32;
        let mut batch = FreeBatch::new();
        while given < frames
            && let Some(frame) = self.pop_bottom(id, ring)
        {
            given = given.saturating_add(self.frames_of(id, 1));
            collect(self.cx.shared, &mut batch, frame, id.order);
            if batch.room() == 0 {
                free_batch(self.cx, self.zone, &mut batch);
            }
        }
        free_batch(self.cx, self.zone, &mut batch);
        given
    }

    pub(crate) fn pop_bottom(&self, id: RingId, ring: &Ring<M>) -> Option<Frame> {
        let frame = self.pcps.pop_cold(ring)?;
        self.settle(id, ring, u32::MAX);
        Some(frame)
    }

    /// Frees a block that was on a list here to the zone.
    pub(crate) fn free_to_zone(&self, frame: Frame, order: Order) {
        // A damaged entry stays out of the lists; `validate` finds it.
        if self.cx.shared.frames.head(frame) == Head::pcp(order) {
            free_one(self.cx, self.zone, Block::new(frame, order), &|block| unlist(self.cx.shared, block));
        }
    }
}
