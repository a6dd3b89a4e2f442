//! Fills freed memory and checks it before the next allocation, where the mechanisms say `hardened`.
//!
//! A block that was written to after it was freed is quarantined: it is never allocated again.

use crate::frame::head::Head;
use crate::seam::machine::Machine;
use crate::shared::{CallCx, Shared};
use crate::stat::vmstat::{GlobalEvent, ZoneEvent};
use crate::types::counts::FrameCount;
use crate::types::units::{Frame, Order};
use crate::zonelist::world::World;

impl<'a, M: Machine> World<'a, M> {
    /// Claims a block from the caller that frees it, and fills its memory.
    ///
    /// Returns false if the block is not allocated any more.
    pub(crate) fn claim_freed(&self, frame: Frame, order: Order) -> bool {
        let claimed = self.shared.frames.claim_head(frame, order);
        if claimed {
            self.fill_freed(frame, order);
        }
        claimed
    }

    /// Fills the memory of a block that is being freed.
    pub(crate) fn fill_freed(&self, frame: Frame, order: Order) {
        let Shared { machine, frames, .. } = &self.shared;
        if self.shared.mechanisms().zeroes_freed() {
            machine.zero(frames.pfn(frame), order);
        } else {
            machine.poison(frames.pfn(frame), order);
        }
    }

    /// Whether an allocated block was not written to since it was freed.
    ///
    /// A block that was written to is quarantined. The caller must own the block.
    pub(crate) fn is_intact(&self, cx: CallCx<'_, 'a, M>, frame: Frame, order: Order) -> bool {
        let Shared { machine, frames, .. } = &self.shared;
        let is_intact = !self.shared.mechanisms().is_hardened() || machine.is_poisoned(frames.pfn(frame), order);
        if !is_intact {
            self.quarantine(cx, frame, order);
        }
        is_intact
    }

    /// Quarantines an allocated block that the caller owns.
    pub(crate) fn quarantine(&self, cx: CallCx<'_, 'a, M>, frame: Frame, order: Order) {
        let frames = &self.shared.frames;
        let Some(zone) = self.zone_of(frame) else { return };
        self.shared.events.count(GlobalEvent::WrittenAfterFree);
        let guard = zone.lock(cx);
        frames.set_head(frame, Head::NONE);
        if frames.change(frame, |state| Some(state.quarantine(order))).is_ok() {
            guard.buddy().tally.count_quarantined(FrameCount::of_block(order));
        }
        if let Some(own) = self.pcps.record(cx.cpu, zone.idx.index()) {
            own.aside.count(ZoneEvent::FreeFrames, order.frames());
        }
    }
}
