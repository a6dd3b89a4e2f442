//! Frees return to the owner.
//!
//! A block that leaves a per-CPU list is given to the CPU that owns its pageblock, if one does, whichever CPU's list it was: by
//! setting its bits (`owned_pageblock.rs`). Whoever sets the last one has a whole pageblock, merged without a lock, and takes it to the zone;
//! but an owner keeps one, so that a CPU whose needs come and go does not go to the zone each time.

use crate::free_path::free_batch::{Batch, Block};
use crate::seam::machine::{Machine, Step};
use crate::shared::Cx;
use crate::types::units::{CpuId, Frame};
use crate::zone::release_owned::{disown, each_word, has_owner, is_completed_by};
use crate::zone::zone::Zone;

/// Gives the blocks of a batch whose pageblocks have owners to these; the others stay. `release` makes a block's head say nothing.
pub(crate) fn send_home<M: Machine>(
    cx: Cx<'_, '_, M>,
    zone: &Zone<M>,
    batch: &mut Batch,
    release: &impl Fn(Block) -> bool,
) {
    if cx.ground.frames.estates.owners.is_empty() {
        return;
    }
    batch.keep(|block| {
        let is_owned = has_owner(cx.ground, block.frame(), block.order());
        if is_owned && release(block) {
            each_word(cx.ground, block.frame(), block.order(), |start, mask| put(cx, zone, start, mask));
        }
        !is_owned
    });
}

/// Whether the running CPU owns a whole pageblock and no other that is whole: then it keeps it for the next refill.
fn is_needed_here<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, owner: CpuId, start: Frame) -> bool {
    let frames = &cx.ground.frames;
    let is_another = |other: Frame| {
        cx.ground.machine.step(Step::DepotShard);
        other != start.align_down(frames.estates.pageblock_order)
            && frames.estates.owner(other) == Some(owner)
            && frames.estates.is_whole(other)
    };
    let lists = frames.pageblock(start).lists().filter(|_| owner == cx.cpu);
    lists.is_some_and(|lists| !frames.estates.announced(owner, zone.idx, lists).any(|(_, other)| is_another(other)))
}

/// Gives frames that are the caller's, those of `mask` in the word that tells of the frames from `start` on, to the owner of
/// their pageblock; or if it has none any more, or becomes whole and is not needed, to the zone.
pub(crate) fn put<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, start: Frame, mask: u64) {
    let frames = &cx.ground.frames;
    let is_whole = is_completed_by(cx.ground, start, mask);
    match frames.estates.owner(start) {
        Some(owner) if !is_whole || is_needed_here(cx, zone, owner, start) => {
            if let Some(lists) = frames.pageblock(start).lists() {
                frames.estates.announce(owner, zone.idx, lists, start);
            }
        }
        _ => {
            let guard = zone.lock(cx);
            // Somebody else may have seen to it since, and another CPU have claimed it.
            if frames.estates.owner(start).is_none() || frames.estates.is_whole(start) {
                disown(&guard.buddy(), start, u32::MAX);
            }
        }
    }
}
