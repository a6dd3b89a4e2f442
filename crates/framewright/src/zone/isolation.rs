//! Isolation: the free blocks of a pageblock are kept from all requests while a range is taken there.

use crate::seam::machine::Machine;
use crate::types::migratetype::MigrateType;
use crate::types::units::Frame;
use crate::zone::zone_guard::ZoneGuard;

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Keeps a pageblock isolated for one range more. `alone`: only if no other does. Returns whether it is.
    pub(crate) fn isolate(&self, frame: Frame, alone: bool) -> bool {
        let frames = &self.shared.frames;
        let is_isolated = frames.pageblock(frame).migratetype() == MigrateType::Isolate;
        if (is_isolated && alone) || frames.pageblock(frame).held().is_none() {
            return false;
        }
        let done = is_isolated || self.set_type(frame, MigrateType::Isolate);
        if done && let Some(held) = frames.pageblock(frame).held() {
            frames.set_pageblock(frame, held);
        }
        done
    }

    /// Keeps a pageblock isolated for one range less; after the last it gets its type back.
    pub(crate) fn unisolate(&self, frame: Frame) {
        let frames = &self.shared.frames;
        frames.set_pageblock(frame, frames.pageblock(frame).released());
        let pageblock = frames.pageblock(frame);
        if pageblock.holders() == 0 && pageblock.migratetype() == MigrateType::Isolate {
            self.set_type(frame, pageblock.restored());
        }
    }

    /// Gives a pageblock that ranges kept isolated its type back, though nobody will say that they are done.
    pub(crate) fn abandon(&self, frame: Frame) {
        let frames = &self.shared.frames;
        frames.set_pageblock(frame, frames.pageblock(frame).abandoned());
        self.unisolate(frame);
    }
}
