//! Merges blocks that were freed unmerged: when a request lacks a larger block, or in a drain.
//!
//! A free path that omits merging (`no-merge`, or several CPUs that free at once) marks the blocks that it puts on
//! lists. A merge is then late, not lost. [`World::merge_skipped`] walks through the zone pageblock by pageblock, from
//! where the last search stopped, and merges every marked block. One round meets each block that was marked when the
//! round began. Nothing depends on where blocks lie. Compaction differs here: its scanner may end before it reaches
//! them.
//!
//! The lock is held for a few dozen frames at a time, and not at all where no block is marked.
//!
//! Among requests that lack a larger block, one at a time makes a round. If it finds none, the next requests are
//! deferred (`backoff.rs`), so there is at most one round for 64 requests. A drain, or a caller that empties a range,
//! makes a round of its own regardless of others. So blocks that stay mergeable are found by the next 64 requests, or
//! by one drain.

use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::types::units::Frame;
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// Frames that are looked at under one lock.
const STRETCH: u32 = 64;

impl<M: Machine> World<'_, M> {
    /// Merges unmerged blocks of a zone, until `enough` or one full round.
    pub(crate) fn merge_skipped(&self, zone: &Zone<M>, enough: impl Fn() -> bool) {
        let is_done = || zone.count.skipped_racy().is_zero() || enough();
        let count = self.shared.frames.pageblocks.len() as u32;
        let first = zone.merging.cursor.load(Ordering::Relaxed);
        for turn in 0..count {
            if is_done() {
                return;
            }
            let index = first.wrapping_add(turn).checked_rem(count).unwrap_or(0);
            zone.merging.cursor.store(index, Ordering::Relaxed);
            self.merge_in_pageblock(zone, Frame(index << self.shared.frames.geometry.pageblock_order.0));
        }
    }

    fn merge_in_pageblock(&self, zone: &Zone<M>, start: Frame) {
        let frames = &self.shared.frames;
        if frames.pageblock(start).zone() != Some(zone.idx) {
            return;
        }
        let end = start.add(frames.geometry.pageblock_order.frames());
        let mut at = start;
        while at < end {
            let stop = at.add(u64::from(STRETCH)).min(end);
            let is_marked = |frame: Frame| {
                self.shared.machine.step(Step::Around);
                let state = frames.state(frame);
                state.is_skipped() && state.as_free().is_some()
            };
            // A moment's view: a block marked at an earlier frame meanwhile is met in the next round.
            if (at.0..stop.0).any(|frame| is_marked(Frame(frame))) {
                self.pinned(|cx| zone.lock(cx).merge_skipped(at, stop));
            }
            at = stop;
        }
    }
}
