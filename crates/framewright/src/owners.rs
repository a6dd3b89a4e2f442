//! Frees return to the owner.
//!
//! A block that leaves a per-CPU list is given to the CPU that owns its pageblock, if one does, whichever CPU's list it was: by
//! setting its bits (`estate.rs`). Whoever sets the last one has a whole pageblock, merged without a lock, and takes it to the zone;
//! but an owner keeps one, so that a CPU whose needs come and go does not go to the zone each time.

use crate::batch::{Batch, Block};
use crate::disown::disown;
use crate::ground::Cx;
use crate::machine::{Machine, Step};
use crate::pfn::{CpuId, Frame};
use crate::zone::{Zone, ZoneGuard};

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
        let is_owned = has_owner(cx, block);
        if is_owned && release(block) {
            each_word(cx, block, |start, mask| put(cx, zone, start, mask));
        }
        !is_owned
    });
}

/// Whether a block is of one pageblock, which has an owner.
pub(crate) fn has_owner<M: Machine>(cx: Cx<'_, '_, M>, block: Block) -> bool {
    let estates = &cx.ground.frames.estates;
    estates.owner(block.frame()).is_some() && block.order() <= estates.pageblock_order
}

/// The same for one block whose head says nothing any more, with the zone lock held. False if its pageblock has no owner.
pub(crate) fn keep_home<M: Machine>(cx: Cx<'_, '_, M>, guard: &ZoneGuard<'_, '_, M>, block: Block) -> bool {
    let is_owned = has_owner(cx, block);
    if is_owned {
        each_word(cx, block, |start, mask| {
            if is_completed_by(cx, start, mask) {
                disown(&guard.buddy(), start, u32::MAX);
            }
        });
    }
    is_owned
}

/// Calls `visit` with each word's part of a block: the first frame that the word tells of, and the block's bits in it.
fn each_word<M: Machine>(cx: Cx<'_, '_, M>, block: Block, visit: impl Fn(Frame, u64)) {
    let estates = &cx.ground.frames.estates;
    let unit = estates.unit();
    let mut at = block.frame();
    while at < block.frame().add(block.order().frames()) {
        visit(at.align_down(unit), estates.bits(at, block.order()));
        at = at.align_down(unit).add(unit.frames());
    }
}

/// Sets bits; returns whether the pageblock is whole by that.
fn is_completed_by<M: Machine>(cx: Cx<'_, '_, M>, start: Frame, mask: u64) -> bool {
    let (machine, estates) = (&cx.ground.machine, &cx.ground.frames.estates);
    machine.step(Step::GiveUnmerged);
    if !estates.put(start, mask) {
        return false;
    }
    if estates.unit() < estates.pageblock_order {
        // ORDER: fence. The word is out before the others are looked at: of two who fill the last two words, one at least sees both.
        // Model: owned_words.
        machine.fence();
    }
    estates.is_whole(start)
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
    let is_whole = is_completed_by(cx, start, mask);
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
