//! The mark of a free block that was reported: how it is set, and how marked blocks make room for others.
//!
//! The mark is a bit of the state word, which every other change of a free block clears (`state.rs`).

use crate::buddy::buddy::{Buddy, Place};
use crate::buddy::free_list::End;
use crate::frame::frame::Corrupt;
use crate::frame::state::State;
use crate::seam::compiled::Compiled;
use crate::seam::machine::{Machine, Step};
use crate::types::counts::FrameCount;
use crate::types::migratetype::ListId;
use crate::types::units::{Frame, Order};

impl<M: Machine> Buddy<'_, '_, M> {
    /// Frees a block whose memory was reported, with the mark unless it merges.
    pub(crate) fn free_reported(&self, frame: Frame, order: Order) {
        if M::FEATURES.mobility && order > self.pageblock_order() && !self.frames().is_of_one_type(frame, order) {
            return self.free(frame, order, Place::Last);
        }
        self.step(Step::Give);
        let migratetype = M::one_type(self.frames().pageblock(frame).migratetype());
        if self.has_mergeable_buddy(frame, order, migratetype) {
            return self.free(frame, order, Place::Last);
        }
        if self.link_as(frame, ListId { order, migratetype }, End::Back, State::reported).is_ok() {
            self.tally.count(migratetype, FrameCount::of_block(order));
        } else {
            self.quarantine(frame, order);
        }
    }

    /// Moves a free block to the back of its list.
    pub(crate) fn move_to_back(&self, frame: Frame, list: ListId) -> Result<(), Corrupt> {
        let skipped = self.frames().state(frame).is_skipped();
        self.remove_at(frame, list, skipped)?;
        self.put_on(frame, list, End::Back, skipped)
    }
}
