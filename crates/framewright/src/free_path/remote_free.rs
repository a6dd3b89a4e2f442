//! Frees blocks to the CPU that owns their pageblock.
//!
//! A block that leaves a per-CPU list is freed to the owner of its pageblock, if there is one. It does not matter which
//! CPU's list the block was on. The free sets the block's bits (`owned_pageblock.rs`).
//!
//! The CPU that sets the last bit has a whole pageblock, merged without a lock, and frees it to the zone. But an owner
//! keeps one whole pageblock. So a CPU whose needs come and go does not go to the zone each time.

use crate::free_path::free_batch::{Block, FreeBatch};
use crate::seam::machine::{Machine, Step};
use crate::shared::CallCx;
use crate::types::counts::BlockCount;
use crate::types::units::{CpuId, Frame};
use crate::zone::release_owned::{each_word, has_owner, is_completed_by, release_owned};
use crate::zone::zone::Zone;

/// Frees the blocks of a batch whose pageblocks have owners to these owners.
///
/// The others stay in the batch. `release` clears a block's head.
pub(crate) fn free_to_owners<M: Machine>(
    cx: CallCx<'_, '_, M>,
    zone: &Zone<M>,
    batch: &mut FreeBatch,
    release: &impl Fn(Block) -> bool,
) {
    if cx.shared.frames.owned.owners().is_empty() {
        return;
    }
    batch.keep(|block| {
        let is_owned = has_owner(cx.shared, block.frame(), block.order());
        if is_owned && release(block) {
            each_word(cx.shared, block.frame(), block.order(), |start, mask| put(cx, zone, start, mask));
        }
        !is_owned
    });
}

/// Whether the running CPU owns this whole pageblock and no other whole one.
///
/// If so, the CPU keeps the pageblock for its next refill.
fn is_needed_here<M: Machine>(cx: CallCx<'_, '_, M>, zone: &Zone<M>, owner: CpuId, start: Frame) -> bool {
    let frames = &cx.shared.frames;
    let is_another = |other: Frame| {
        cx.shared.machine.step(Step::DepotShard);
        other != start.align_down(frames.owned.pageblock_order)
            && frames.owned.owner(other) == Some(owner)
            && frames.owned.is_whole(other)
    };
    let lists = frames.pageblock(start).lists().filter(|_| owner == cx.cpu);
    lists.is_some_and(|lists| !frames.owned.hinted(owner, zone.idx, lists).any(|(_, other)| is_another(other)))
}

/// Frees the caller's frames to the owner of their pageblock, or to the zone.
///
/// The frames are those of `mask` in the word for the frames from `start` on. They are freed to the zone if the
/// pageblock has no owner any more, or if it becomes whole and is not needed.
pub(crate) fn put<M: Machine>(cx: CallCx<'_, '_, M>, zone: &Zone<M>, start: Frame, mask: u64) {
    let frames = &cx.shared.frames;
    let is_whole = is_completed_by(cx.shared, start, mask);
    match frames.owned.owner(start) {
        Some(owner) if !is_whole || is_needed_here(cx, zone, owner, start) => {
            if let Some(lists) = frames.pageblock(start).lists() {
                frames.owned.hint(owner, zone.idx, lists, start);
            }
        }
        _ => {
            let guard = zone.lock(cx);
            // Meanwhile another CPU may have freed the pageblock, and a third one may have claimed it.
            if frames.owned.owner(start).is_none() || frames.owned.is_whole(start) {
                release_owned(&guard.buddy(), start, BlockCount::ALL);
            }
        }
    }
}
