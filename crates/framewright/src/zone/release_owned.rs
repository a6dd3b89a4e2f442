//! Release of an owned pageblock: its free frames are returned to the zone.
//!
//! They are freed in the largest aligned blocks that there are, so that a whole pageblock is freed as one block. Frames
//! in use are freed later, like those of any pageblock without an owner. `owned_pageblock.rs` explains why any CPU may
//! do this at any time, and why no frame is lost.

use crate::buddy::buddy::{Buddy, Place};
use crate::seam::machine::{Machine, Step};
use crate::shared::Shared;
use crate::types::counts::{BlockCount, FrameCount, PageblockCount};
use crate::types::units::{Frame, Order, PfnRange};

/// Result of a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReleasedOwned {
    /// Number of frames freed to the zone.
    pub(crate) frames: FrameCount,
    /// Whether all free frames were freed.
    ///
    /// If not, the caller must continue, and may release the lock in between.
    pub(crate) done: bool,
}

/// Takes a pageblock from its owner and frees its free frames to the zone.
///
/// The pageblock need not have an owner.
///
/// It stops after `most` blocks, and those of one more word.
pub(crate) fn release_owned<M: Machine>(buddy: &Buddy<'_, '_, M>, frame: Frame, most: BlockCount) -> ReleasedOwned {
    let owned = &buddy.frames().owned;
    if owned.release(frame) {
        buddy.tally.uncount_owned(PageblockCount::ONE);
    }
    let mut run = PfnRange::default();
    let mut freed = FreedRun::default();
    for (start, word) in owned.words(frame) {
        if freed.blocks >= most {
            return ReleasedOwned { frames: freed.plus(free_run(buddy, run)).frames, done: false };
        }
        buddy.step(Step::GiveUnmerged);
        let mut bits = owned.take(word);
        let mut at = u64::from(start.0);
        while bits != 0 {
            let gap = bits.trailing_zeros();
            let length = (bits >> gap).trailing_ones();
            let from = at.wrapping_add(u64::from(gap));
            if run.end.0 != from {
                freed = freed.plus(free_run(buddy, run));
                run = PfnRange::new(from, from);
            }
            run.end = run.end.add(u64::from(length));
            at = run.end.0;
            bits = (bits >> gap).checked_shr(length).unwrap_or(0);
        }
    }
    ReleasedOwned { frames: freed.plus(free_run(buddy, run)).frames, done: true }
}

/// Frames that a release of runs freed.
#[derive(Clone, Copy, Default)]
struct FreedRun {
    blocks: BlockCount,
    frames: FrameCount,
}

impl FreedRun {
    const fn plus(self, more: FreedRun) -> FreedRun {
        FreedRun { blocks: self.blocks.plus(more.blocks), frames: self.frames.plus(more.frames) }
    }
}

/// Frees a run of frames; returns what was freed.
///
/// The run is given by the frames' indices.
fn free_run<M: Machine>(buddy: &Buddy<'_, '_, M>, run: PfnRange) -> FreedRun {
    let mut blocks = BlockCount::ZERO;
    for (start, order) in run.blocks(buddy.pageblock_order()) {
        buddy.free(Frame(start.0 as u32), order, Place::Warm);
        blocks = blocks.plus(BlockCount::ONE);
    }
    FreedRun { blocks, frames: FrameCount(run.frames()) }
}

/// Returns whether a block lies in one pageblock, and that pageblock has an owner.
pub(crate) fn has_owner<M: Machine>(shared: &Shared<'_, M>, frame: Frame, order: Order) -> bool {
    let owned = &shared.frames.owned;
    owned.owner(frame).is_some() && order <= owned.pageblock_order
}

/// Frees a block to the owner of its pageblock; returns false if there is none.
///
/// The block's head is cleared.
///
/// Caller holds: the zone lock.
pub(crate) fn free_to_owner<M: Machine>(buddy: &Buddy<'_, '_, M>, frame: Frame, order: Order) -> bool {
    let is_owned = has_owner(buddy.shared, frame, order);
    if is_owned {
        each_word(buddy.shared, frame, order, |start, mask| {
            if is_completed_by(buddy.shared, start, mask) {
                release_owned(buddy, start, BlockCount::ALL);
            }
        });
    }
    is_owned
}

/// Calls `visit` for each bitmap word that a block covers.
///
/// The arguments are the word's first frame and the block's bits in the word.
pub(crate) fn each_word<M: Machine>(shared: &Shared<'_, M>, frame: Frame, order: Order, visit: impl Fn(Frame, u64)) {
    let owned = &shared.frames.owned;
    let unit = owned.unit();
    let mut at = frame;
    while at < frame.add(order.frames()) {
        visit(at.align_down(unit), owned.bits(at, order));
        at = at.align_down(unit).add(unit.frames());
    }
}

/// Sets bits; returns whether the pageblock is whole as a result.
pub(crate) fn is_completed_by<M: Machine>(shared: &Shared<'_, M>, start: Frame, mask: u64) -> bool {
    let (machine, owned) = (&shared.machine, &shared.frames.owned);
    machine.step(Step::GiveUnmerged);
    if !owned.put(start, mask) {
        return false;
    }
    if owned.unit() < owned.pageblock_order {
        // ORDER: fence. The word is published before the others are read: of two CPUs that fill the last two words, at
        // least one sees both.
        // Model: owned_words.
        machine.fence();
    }
    owned.is_whole(start)
}
