//! Isolation: keeps the free blocks of a pageblock from all requests while a range in it is taken.

use crate::seam::machine::Machine;
use crate::types::migratetype::MigrateType;
use crate::types::units::Frame;
use crate::zone::zone_guard::ZoneGuard;

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Isolates a pageblock for one more range; returns whether it is isolated.
    ///
    /// With `alone`, fails if another range keeps it isolated.
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

    /// Ends the isolation of a pageblock for one range.
    ///
    /// After the last range its type is restored.
    pub(crate) fn unisolate(&self, frame: Frame) {
        let frames = &self.shared.frames;
        frames.set_pageblock(frame, frames.pageblock(frame).released());
        let pageblock = frames.pageblock(frame);
        if pageblock.holders() == 0 && pageblock.migratetype() == MigrateType::Isolate {
            self.set_type(frame, pageblock.restored());
        }
    }

    /// Ends the isolation of a pageblock for all ranges.
    ///
    /// Their callers will not do so themselves.
    pub(crate) fn abandon(&self, frame: Frame) {
        let frames = &self.shared.frames;
        frames.set_pageblock(frame, frames.pageblock(frame).abandoned());
        self.unisolate(frame);
    }
}
