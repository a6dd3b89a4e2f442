//! What was given back unmerged is merged: when a larger block is wanted and not to be had, or when somebody drains.
//!
//! A free path that leaves merging out (`no-merge`, or several CPUs that free at once) marks what it puts on the lists. A merge is
//! late then, not lost: [`World::merge_skipped`] goes through the zone, pageblock by pageblock, from where the last search
//! stopped, and merges every block that bears a mark. After one round each block that was marked when it began has been met: nothing
//! depends on where blocks lie, as it does for the scanner of compaction, which may end before it comes to them.
//!
//! The lock is held for a few dozen frames at a time, and not at all where no block is marked.
//!
//! Of requests that lack a larger block one at a time does this, and if it finds none the next ones are deferred (`backoff.rs`), so that
//! for 64 requests at most one round is made. Whoever drains, or empties a range, makes a round of his own whatever others do. So what stays
//! mergeable is found by the next 64 requests, or by one drain.

use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::types::units::Frame;
use crate::zone::zone::Zone;
use crate::zonelist::world::World;

/// Frames that are looked at under one lock.
const STRETCH: u32 = 64;

impl<M: Machine> World<'_, M> {
    /// Merges what was left unmerged in a zone, until `enough` or all was looked at once.
    pub(crate) fn merge_skipped(&self, zone: &Zone<M>, enough: impl Fn() -> bool) {
        let is_done = || zone.count.skipped.load(Ordering::Relaxed) == 0 || enough();
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
            // A moment's view: who is marked behind us comes in the next round.
            if (at.0..stop.0).any(|frame| is_marked(Frame(frame))) {
                self.pinned(|cx| zone.lock(cx).merge_skipped(at, stop));
            }
            at = stop;
        }
    }
}
