//! Pageblock usage: frames of a stretch of memory by use, to decide whether it is worth claiming or emptying.

use crate::frame::frame::Part;
use crate::seam::machine::{Machine, Step};
use crate::shared::Shared;
use crate::types::counts::FrameCount;
use crate::types::units::FrameRange;

/// Number of frames by use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PageblockUsage {
    pub(crate) free: FrameCount,
    /// Allocated frames that their owner can move.
    pub(crate) movable: FrameCount,
    /// Frames on per-CPU lists, in depots, or moving between two places.
    pub(crate) cached: FrameCount,
    /// All other frames with memory.
    pub(crate) other: FrameCount,
}

impl PageblockUsage {
    /// Counts the frames of a range, block by block.
    ///
    /// Exact if the zone lock is held and no CPU frees without it.
    pub(crate) fn of<M: Machine>(shared: &Shared<'_, M>, range: FrameRange) -> PageblockUsage {
        let frames = &shared.frames;
        let mut census = PageblockUsage::default();
        let mut at = range.start;
        while at < range.end {
            shared.machine.step(Step::Census);
            let part = frames.block_at(at);
            let next = part.map_or(at.add(1), |part| part.end(at)).min(range.end);
            let counter = match part {
                Some(Part::Free(..)) => Some(&mut census.free),
                Some(Part::Allocated(..)) if frames.head(at).is_movable() => Some(&mut census.movable),
                Some(Part::Pcp(..)) => Some(&mut census.cached),
                Some(_) => Some(&mut census.other),
                None => None,
            };
            if let Some(counter) = counter {
                *counter = counter.plus(FrameRange { start: at, end: next }.frames());
            }
            at = next;
        }
        census
    }

    /// Returns the frames that are in use and can be moved or drained.
    pub(crate) fn used(self) -> FrameCount {
        self.movable.plus(self.cached)
    }

    /// Returns the frames with memory.
    pub(crate) fn memory(self) -> FrameCount {
        self.free.plus(self.movable).plus(self.cached).plus(self.other)
    }
}
