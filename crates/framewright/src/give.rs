//! How blocks go back to their zone: the free path.
//!
//! Whoever gives blocks back puts them into a [`Batch`]; [`give_batch`] takes it from there, by the way that the mechanisms choose.
//! Before any lock is taken, the descriptors of the blocks and their buddies are asked for, and the blocks are merged with each
//! other where that is chosen.

use crate::batch::Batch;
use crate::buddy::Place;
use crate::event::Event;
use crate::frame::Head;
use crate::ground::{Cx, Ground};
use crate::machine::{Machine, Step};
use crate::mechanisms::{FreePath, PreMerge};
use crate::pfn::{Frame, Order};
use crate::together::Giver;
use crate::zone::Zone;

/// Takes a block of a per-CPU list or a depot into a batch. False if there is no room.
pub(crate) fn collect<M: Machine>(ground: &Ground<'_, M>, batch: &mut Batch, frame: Frame, order: Order) -> bool {
    batch.room() != 0 && (!unlist(ground, frame, order) || batch.push(frame, order))
}

/// A block of a per-CPU list or a depot is on none any more: its head says nothing. False if it was damaged; such a block stays out
/// of the lists, and `validate` finds it.
pub(crate) fn unlist<M: Machine>(ground: &Ground<'_, M>, frame: Frame, order: Order) -> bool {
    ground.machine.step(Step::DrainBlock);
    let frames = &ground.frames;
    if frames.head(frame) != Head::pcp(order) {
        return false;
    }
    frames.set_head(frame, Head::NONE);
    if ground.machine.traces() {
        let migratetype = frames.pageblock(frame).migratetype();
        ground.machine.event(&Event::PcpuDrain { pfn: frames.pfn(frame), order, migratetype });
    }
    true
}

/// Gives all blocks of a batch back to their zone, and empties it.
pub(crate) fn give_batch<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, batch: &mut Batch) {
    let ground = cx.ground;
    if ground.mechanisms.pre_merge == PreMerge::Batch {
        let pageblock_order = ground.frames.geometry.pageblock_order;
        // Up to a pageblock, halves are of one type.
        batch.merge(pageblock_order, |_| true, || ground.machine.step(Step::PreMerge));
    }
    for block in batch.blocks() {
        let (frame, order) = (block.frame(), block.order());
        // What merging looks at, and the block that says where the result goes.
        for near in [frame, frame.buddy(order), frame.align_down(order.up()).buddy(order.up())] {
            ground.frames.ask_for(&ground.machine, near);
        }
    }
    match ground.mechanisms.free_path {
        FreePath::RangeLocks | FreePath::Splice => give_together(cx, zone, batch),
        FreePath::MergeUnderLock | FreePath::NoMerge => give_alone(cx, zone, batch),
    }
    batch.clear();
}

fn give_alone<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, batch: &Batch) {
    let guard = zone.lock_ends(cx);
    let skips = cx.ground.mechanisms.free_path == FreePath::NoMerge && !zone.clusters.is_disabled();
    if !skips {
        zone.clusters.settle();
    }
    for block in batch.blocks() {
        match block.order().0 {
            0 if skips => guard.give_unmerged(block.frame(), block.order()),
            _ => guard.give(block.frame(), block.order(), Place::Warm),
        }
    }
}

fn give_together<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, batch: &mut Batch) {
    let reader = zone.read(cx);
    let mut rest = Batch::new();
    // Under the lock: nobody who holds it alone gives a pageblock another type meanwhile.
    batch.keep(|block| {
        // Its pageblocks were given types of their own while it was in use: it goes back in parts.
        let frames = &cx.ground.frames;
        let is_whole =
            block.order() <= frames.geometry.pageblock_order || frames.is_of_one_type(block.frame(), block.order());
        is_whole || !rest.push(block.frame(), block.order())
    });
    let mut giver = Giver::new(&reader);
    match cx.ground.mechanisms.free_path {
        FreePath::RangeLocks => giver.give_ranged(batch, &mut rest),
        _ => giver.give_spliced(batch, &mut rest),
    }
    drop(giver);
    drop(reader);
    if !rest.is_empty() {
        give_alone(cx, zone, &rest);
    }
}

/// Gives one block back to its zone.
pub(crate) fn give_one<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, frame: Frame, order: Order) {
    if cx.ground.mechanisms.free_path == FreePath::MergeUnderLock {
        return zone.lock(cx).give(frame, order, Place::Warm);
    }
    let mut batch = Batch::new();
    batch.push(frame, order);
    give_batch(cx, zone, &mut batch);
}
