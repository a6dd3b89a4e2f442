//! Bad frees: a free of what is not allocated, or of another order, is refused with its reason.
//!
//! One byte decides: the head byte of an allocated block says its order. So a double free is found wherever a free
//! reads that byte: in [`Frames::freeable`] and in the fast path. Two CPUs that free one block in the same instant may
//! both read it; [`Frames::claim_head`] lets only one of them pass, where a free uses it.

use crate::frame::frame::{Frames, Part};
use crate::seam::machine::Machine;
use crate::types::error::FreeError;
use crate::types::units::{Frame, Order, Pfn};

impl<M: Machine> Frames<'_, M> {
    /// Returns the descriptor of the allocated block of `order` at `pfn`, or why there is no such block.
    ///
    /// `look` looks a second time at a frame that seems to be part of nothing.
    pub(crate) fn freeable(
        &self,
        pfn: Pfn,
        order: Order,
        look: impl FnOnce(Frame) -> Part,
    ) -> Result<Frame, FreeError> {
        let Some(frame) = self.frame(pfn) else { return Err(FreeError::Foreign(pfn)) };
        if self.head(frame).is_allocated_of(order) && order <= self.geometry.max_order {
            return Ok(frame);
        }
        Err(self.refuse(pfn, frame, order, look))
    }

    #[cold]
    fn refuse(&self, pfn: Pfn, frame: Frame, order: Order, look: impl FnOnce(Frame) -> Part) -> FreeError {
        let max = self.geometry.max_order;
        if order > max {
            return FreeError::BadOrder { order, max };
        }
        if !pfn.is_aligned(order) {
            return FreeError::Misaligned(pfn, order);
        }
        if self.head(frame).is_going() {
            return FreeError::AlreadyFree(pfn);
        }
        let part = match self.part_of(frame) {
            // A frame that goes offline or comes online is part of nothing for a moment, but never while its zone is
            // locked.
            Part::Hole => look(frame),
            part => part,
        };
        match part {
            Part::Allocated(head, actual) if head == frame => FreeError::WrongOrder { pfn, actual },
            Part::Allocated(head, _) => FreeError::NotHead { pfn, head: self.pfn(head) },
            other => refusal(pfn, other),
        }
    }
}

/// Returns why a frame that is in no allocated block cannot be freed.
pub(crate) fn refusal(pfn: Pfn, part: Part) -> FreeError {
    match part {
        Part::Hole | Part::Allocated(..) => FreeError::Foreign(pfn),
        Part::Free(..) | Part::Pcp(..) => FreeError::AlreadyFree(pfn),
        Part::Offline(..) => FreeError::Offline(pfn),
        Part::Quarantined(..) => FreeError::Quarantined(pfn),
    }
}
