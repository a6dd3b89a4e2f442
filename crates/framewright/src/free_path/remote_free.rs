//! Frees return to the owner.
//!
//! A block that leaves a per-CPU list is given to the CPU that owns its pageblock, if one does, whichever CPU's list it was: by
//! setting its bits (`owned_pageblock.rs`). Whoever sets the last one has a whole pageblock, merged without a lock, and takes it to the zone;
//! but an owner keeps one, so that a CPU whose needs come and go does not go to the zone each time.

use crate::free_path::free_batch::{Block, FreeBatch};
use crate::seam::machine::{Machine, Step};
use crate::shared::CallCx;
use crate::types::units::{CpuId, Frame};
use crate::zone::release_owned::{each_word, has_owner, is_completed_by, release_owned};
use crate::zone::zone::Zone;

/// Gives the blocks of a batch whose pageblocks have owners to these; the others stay. `release` makes a block's head say nothing.
pub(crate) fn free_to_owners<M: Machine>(
    cx: CallCx<'_, '_, M>,
    zone: &Zone<M>,
    batch: &mut FreeBatch,
    release: &impl Fn(Block) -> bool,
) {
    if cx.shared.frames.owned.owners.is_empty() {
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

/// Whether the running CPU owns a whole pageblock and no other that is whole: then it keeps it for the next refill.
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

/// Gives frames that are the caller's, those of `mask` in the word that tells of the frames from `start` on, to the owner of
/// their pageblock; or if it has none any more, or becomes whole and is not needed, to the zone.
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
            // Somebody else may have seen to it since, and another CPU have claimed it.
            if frames.owned.owner(start).is_none() || frames.owned.is_whole(start) {
                release_owned(&guard.buddy(), start, u32::MAX);
            }
        }
    }
}
