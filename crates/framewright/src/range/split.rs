//! Parts of allocated blocks: freeing, cutting, splitting, joining.
//!
//! Any stretch of allocated frames can be freed, whatever blocks it consists of. The blocks at its ends are cut. Their
//! remaining frames stay allocated, in the largest aligned blocks that tile them.
//!
//! Cost: a cut, a join or a split holds the zone lock, and writes one head byte for each piece (a join: for each
//! frame).

use crate::frame::bad_free::refusal;
use crate::frame::frame::{Frames, Part};
use crate::frame::head::Head;
use crate::seam::machine::{Machine, Step};
use crate::types::error::FreeError;
use crate::types::units::{Frame, Order, Pfn, PfnRange};
use crate::zonelist::world::World;

impl<M: Machine> World<'_, M> {
    /// Frees any stretch of allocated frames; changes nothing if one is not allocated.
    ///
    /// Blocks at the ends are cut. If another caller frees some of the range at the same moment, one of the two is
    /// refused the frames that the other has freed. No more is guaranteed.
    pub(crate) fn free_range(&self, range: PfnRange) -> Result<(), FreeError> {
        if range.is_empty() {
            return Err(FreeError::BadRange(range));
        }
        let mut pfn = range.start;
        while pfn < range.end {
            pfn = self.allocated_at(pfn)?.2.end;
        }
        let mut pfn = range.start;
        while pfn < range.end {
            let (frame, order, block) = self.allocated_at(pfn)?;
            if block.intersect(range) != block {
                self.cut(pfn, range)?;
                continue;
            }
            if self.pinned(|cx| self.free_slow(cx, frame, order, true)) != Some(true) {
                return Err(FreeError::AlreadyFree(pfn));
            }
            pfn = block.end;
        }
        Ok(())
    }

    /// Returns the allocated block around a frame, also while another part of it is being cut off.
    fn allocated_at(&self, pfn: Pfn) -> Result<(Frame, Order, PfnRange), FreeError> {
        self.shared.machine.step(Step::Range);
        let frames = &self.shared.frames;
        let frame = frames.frame(pfn).ok_or(FreeError::Foreign(pfn))?;
        match self.look_settled(frame) {
            Part::Allocated(head, order) => Ok((head, order, PfnRange::block(frames.pfn(head), order))),
            other => Err(refusal(pfn, other)),
        }
    }

    /// Cuts the allocated block around a frame at the ends of `range`.
    ///
    /// Every piece becomes a block of its own. Does nothing if another caller has cut it already. Two callers whose
    /// parts lie in one block cut it one after the other, under the lock.
    fn cut(&self, pfn: Pfn, range: PfnRange) -> Result<(), FreeError> {
        let frames = &self.shared.frames;
        let frame = frames.frame(pfn).ok_or(FreeError::Foreign(pfn))?;
        let zone = self.zone_of(frame).ok_or(FreeError::Foreign(pfn))?;
        let cut = self.pinned(|cx| {
            let _guard = zone.lock(cx);
            let (head, order) = match frames.part_of(frame) {
                Part::Allocated(head, order) => (head, order),
                other => return Err(refusal(pfn, other)),
            };
            let block = PfnRange::block(frames.pfn(head), order);
            let inside = block.intersect(range);
            if inside == block {
                return Ok(());
            }
            let movable = frames.head(head).is_movable();
            // A caller that frees the whole block does so without the lock. One of the two is wrong, and the slower is
            // refused.
            if !frames.claim_head(head, order) {
                return Err(FreeError::AlreadyFree(pfn));
            }
            let ends = [PfnRange { end: inside.start, ..block }, inside, PfnRange { start: inside.end, ..block }];
            // From the end: until a piece has a head of its own, it is found by the head of the block, which changes
            // last.
            for (pfn, order) in ends.into_iter().rev().flat_map(|part| part.blocks(self.max_order()).rev()) {
                self.shared.machine.step(Step::Range);
                mark(frames, pfn, order, movable);
            }
            Ok(())
        });
        cut.unwrap_or(Err(FreeError::NoCpu))
    }

    /// Joins the allocated pieces inside a block of the caller into one allocated block.
    ///
    /// Caller holds: zone lock, so that no fork copies half of the change.
    pub(crate) fn join(&self, frame: Frame, order: Order, movable: bool) {
        let frames = &self.shared.frames;
        if frames.head(frame) != Head::allocated(order, movable) {
            // The block's head first: a reader that looks at a frame whose own head is gone finds the block's head.
            frames.set_head(frame, Head::allocated(order, movable));
            let mut inner = frame.add(1);
            while inner < frame.add(order.frames()) {
                self.shared.machine.step(Step::Range);
                frames.set_head(inner, Head::NONE);
                inner = inner.add(1);
            }
        }
    }

    /// Splits the caller's block at `frame`, of order `from`, into blocks of order `to`.
    ///
    /// The zone lock is held, so that no fork copies half of the change.
    pub(crate) fn split(&self, frame: Frame, from: Order, to: Order) -> Result<(), FreeError> {
        let frames = &self.shared.frames;
        let zone = self.zone_of(frame).ok_or(FreeError::Foreign(frames.pfn(frame)))?;
        let split = self.pinned(|cx| {
            let _guard = zone.lock_ends(cx);
            let movable = frames.head(frame).is_movable();
            // From the end, as in `World::cut`.
            for (offset, order) in PfnRange::new(0, from.frames()).blocks(to).rev() {
                frames.set_head(frame.add(offset.0), Head::allocated(order, movable));
            }
        });
        split.ok_or(FreeError::NoCpu)
    }
}

/// Marks a block of the caller as one allocated block.
pub(crate) fn mark<M: Machine>(frames: &Frames<'_, M>, pfn: Pfn, order: Order, movable: bool) {
    if let Some(frame) = frames.frame(pfn) {
        frames.set_head(frame, Head::allocated(order, movable));
    }
}
