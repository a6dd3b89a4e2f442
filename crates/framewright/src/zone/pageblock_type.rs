//! Type of a pageblock (Linux: `set_pageblock_migratetype`), and the count of reserved frames, which depends on it.

use crate::frame::pageblock::Pageblock;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::counts::BlockCount;
use crate::types::migratetype::MigrateType;
use crate::types::units::Frame;
use crate::zone::release_owned::release_owned;
use crate::zone::zone_guard::ZoneGuard;

impl<M: Machine> ZoneGuard<'_, '_, M> {
    /// Sets a pageblock's type and moves its free blocks to that type's lists.
    ///
    /// Returns false if descriptors were damaged beyond repair.
    pub(crate) fn set_type(&self, frame: Frame, migratetype: MigrateType) -> bool {
        if !M::FEATURES.mobility {
            return false;
        }
        self.init_section_at(frame);
        let old = self.shared.frames.pageblock(frame);
        release_owned(&self.buddy(), frame, BlockCount::ALL);
        let done = self.attempt(|buddy| buddy.retype_pageblock(frame, migratetype)).is_some();
        self.count_reserve(old, self.shared.frames.pageblock(frame));
        done
    }

    /// Updates the count of frames in the high-atomic reserve after a pageblock's word changed.
    ///
    /// An isolated pageblock that will be restored to the reserve stays counted, so that no other pageblock takes its
    /// place.
    fn count_reserve(&self, old: Pageblock, new: Pageblock) {
        let is_reserved = |pageblock: Pageblock| pageblock.restored() == MigrateType::HighAtomic;
        let frames = self.buddy().pageblock_order().frames();
        let change = match (is_reserved(old), is_reserved(new)) {
            (false, true) => frames,
            (true, false) => frames.wrapping_neg(),
            _ => return,
        };
        self.zone.highatomic_reserved.add(change, Ordering::Relaxed);
    }

    /// Sets a pageblock's type, as [`ZoneGuard::set_type`]; for an isolated one, the type to restore.
    pub(crate) fn set_type_or_restored(&self, frame: Frame, migratetype: MigrateType) -> bool {
        let frames = &self.shared.frames;
        let old = frames.pageblock(frame);
        if old.migratetype() != MigrateType::Isolate {
            return self.set_type(frame, migratetype);
        }
        let new = old.restoring(migratetype);
        frames.set_pageblock(frame, new);
        self.count_reserve(old, new);
        true
    }
}
