//! How blocks go back to their zone: the free path.
//!
//! Whoever gives blocks back puts them into a [`Batch`]; [`give_batch`] takes it from there, by the way that the mechanisms choose.
//! Before any lock is taken, the descriptors of the blocks and their buddies are asked for, and the blocks are merged with each
//! other where that is chosen.
//!
//! What a block's head says is changed under the lock, by who calls ([`unlist`], or the free of a block that no per-CPU list
//! keeps). So whoever holds all zone locks ([`crate::Frozen`]) finds each block in some place.

use crate::buddy::buddy::Place;
use crate::frame::head::Head;
use crate::free_path::concurrent_free::Giver;
use crate::free_path::free_batch::{Batch, Block};
use crate::free_path::remote_free::send_home;
use crate::policy::mechanisms::{FreePath, PreMerge};
use crate::seam::event::Event;
use crate::seam::machine::{Machine, Step};
use crate::shared::{Cx, Ground};
use crate::types::units::{Frame, Order};
use crate::zone::release_owned::{give_home, has_owner};
use crate::zone::zone::Zone;

/// Takes a block of a per-CPU list or a depot into a batch, in which there must be room. A damaged one stays out of the lists, and
/// `validate` finds it.
pub(crate) fn collect<M: Machine>(ground: &Ground<'_, M>, batch: &mut Batch, frame: Frame, order: Order) {
    ground.machine.step(Step::DrainBlock);
    if ground.frames.head(frame) == Head::pcp(order) {
        batch.push(frame, order);
    }
}

/// The blocks of per-CPU lists or depots that a block is made of are on none any more: their heads say nothing.
pub(crate) fn unlist<M: Machine>(ground: &Ground<'_, M>, block: Block) -> bool {
    let frames = &ground.frames;
    let mut at = block.frame();
    while at < block.frame().add(block.order().frames()) {
        let order = frames.head(at).order();
        frames.set_head(at, Head::NONE);
        if ground.machine.traces() {
            let migratetype = frames.pageblock(at).migratetype();
            ground.machine.event(&Event::PcpuDrain { pfn: frames.pfn(at), order, migratetype });
        }
        at = at.add(order.frames());
    }
    true
}

/// Gives all blocks of a batch, which were collected, back to their zone, and empties it.
pub(crate) fn give_batch<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, batch: &mut Batch) {
    let ground = cx.ground;
    if ground.mechanisms.pre_merge == PreMerge::Batch {
        let pageblock_order = ground.frames.geometry.pageblock_order;
        // Up to a pageblock, halves are of one type.
        batch.merge(pageblock_order, |_| true, || ground.machine.step(Step::PreMerge));
    }
    send_home(cx, zone, batch, &|block| unlist(ground, block));
    if !batch.is_empty() {
        give(cx, zone, batch, &|block| unlist(ground, block));
    }
    batch.clear();
}

/// Gives one block back to its zone. Under the lock `release` makes its head say nothing, or returns false: then it stays.
pub(crate) fn give_one<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, block: Block, release: &impl Fn(Block) -> bool) {
    if cx.ground.mechanisms.free_path == FreePath::MergeUnderLock || has_owner(cx.ground, block.frame(), block.order())
    {
        let guard = zone.lock(cx);
        if release(block) && !give_home(&guard.buddy(), block.frame(), block.order()) {
            guard.give(block.frame(), block.order(), Place::Warm);
        }
        return;
    }
    let mut batch = Batch::new();
    batch.push(block.frame(), block.order());
    give(cx, zone, &mut batch, release);
}

fn give<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, batch: &mut Batch, release: &impl Fn(Block) -> bool) {
    let ground = cx.ground;
    for block in batch.blocks() {
        let (frame, order) = (block.frame(), block.order());
        // What merging looks at, and the block that says where the result goes.
        for near in [frame, frame.buddy(order), frame.align_down(order.up()).buddy(order.up())] {
            ground.frames.ask_for(&ground.machine, near);
        }
    }
    match ground.mechanisms.free_path {
        FreePath::RangeLocks | FreePath::Splice => give_together(cx, zone, batch, release),
        FreePath::MergeUnderLock | FreePath::NoMerge => give_alone(cx, zone, batch, release),
    }
}

fn give_alone<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, batch: &Batch, release: &impl Fn(Block) -> bool) {
    let guard = zone.lock_ends(cx);
    let skips = cx.ground.mechanisms.free_path == FreePath::NoMerge && !zone.clusters.is_disabled();
    if !skips {
        zone.clusters.settle();
    }
    for &block in batch.blocks() {
        if !release(block) {
            continue;
        }
        match block.order().0 {
            0 if skips => guard.give_unmerged(block.frame(), block.order()),
            _ => guard.give(block.frame(), block.order(), Place::Warm),
        }
    }
}

fn give_together<M: Machine>(cx: Cx<'_, '_, M>, zone: &Zone<M>, batch: &mut Batch, release: &impl Fn(Block) -> bool) {
    let mut parts = Batch::new();
    let mut refused = Batch::new();
    {
        let reader = zone.read(cx);
        // Under the lock: nobody who holds it alone gives a pageblock another type meanwhile.
        batch.keep(|block| {
            // Its pageblocks were given types of their own while it was in use: it goes back in parts.
            let frames = &cx.ground.frames;
            let is_whole =
                block.order() <= frames.geometry.pageblock_order || frames.is_of_one_type(block.frame(), block.order());
            is_whole || !parts.push(block.frame(), block.order())
        });
        batch.keep(release);
        let mut giver = Giver::new(&reader);
        match cx.ground.mechanisms.free_path {
            FreePath::RangeLocks => giver.give_ranged(batch, &mut refused),
            _ => giver.give_spliced(batch, &mut refused),
        }
    }
    if !parts.is_empty() {
        give_alone(cx, zone, &parts, release);
    }
    if !refused.is_empty() {
        give_alone(cx, zone, &refused, &|_| true);
    }
}
