//! What the frames of a stretch of memory are used for: whether a pageblock is worth claiming, or worth emptying.

use crate::frame::frame::Part;
use crate::seam::machine::{Machine, Step};
use crate::shared::Shared;
use crate::types::units::Frame;

/// Frames by use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageblockUsage {
    pub(crate) free: u64,
    /// Allocated, and their owner can move them.
    pub(crate) movable: u64,
    /// On per-CPU lists, in depots, or on the way from one place to another.
    pub(crate) cached: u64,
    /// Everything else that is memory.
    pub(crate) other: u64,
}

impl PageblockUsage {
    /// Counts the frames from `start` to `end`, block by block. Exact if the zone lock is held and nobody frees without it.
    pub(crate) fn of<M: Machine>(shared: &Shared<'_, M>, (start, end): (Frame, Frame)) -> PageblockUsage {
        let frames = &shared.frames;
        let mut census = PageblockUsage::default();
        let mut at = start;
        while at < end {
            shared.machine.step(Step::Census);
            let part = frames.block_at(at);
            let next = part.map_or(at.add(1), |part| part.end(at)).min(end);
            let counter = match part {
                Some(Part::Free(..)) => Some(&mut census.free),
                Some(Part::Allocated(..)) if frames.head(at).is_movable() => Some(&mut census.movable),
                Some(Part::Pcp(..)) => Some(&mut census.cached),
                Some(_) => Some(&mut census.other),
                None => None,
            };
            if let Some(counter) = counter {
                *counter = counter.wrapping_add(u64::from(next.0.wrapping_sub(at.0)));
            }
            at = next;
        }
        census
    }

    /// Frames that are in the way of whoever wants all of them, and may go.
    pub(crate) fn used(self) -> u64 {
        self.movable.saturating_add(self.cached)
    }

    /// Frames that are memory.
    pub(crate) fn memory(self) -> u64 {
        self.free.saturating_add(self.movable).saturating_add(self.cached).saturating_add(self.other)
    }
}
