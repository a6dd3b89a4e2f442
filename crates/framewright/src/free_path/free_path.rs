//! The free path: returns blocks to their zone.
//!
//! A caller that frees blocks collects them in a [`FreeBatch`] and passes it to [`free_batch`]. The mechanisms choose
//! one of four free paths for it. Before any lock is taken, the descriptors of the blocks and of their buddies are
//! prefetched, unless `prefetch=off`. Where the mechanisms say so, the blocks are also merged with each other.
//!
//! A block's head changes under the lock, through a function of the caller: [`unlist`], or the free of a block that no
//! per-CPU list keeps. So a holder of all zone locks ([`crate::Frozen`]) finds each block in some place.

use crate::buddy::buddy::Place;
use crate::frame::head::Head;
use crate::free_path::concurrent_free::ConcurrentFree;
use crate::free_path::free_batch::{Block, FreeBatch};
use crate::free_path::remote_free::free_to_owners;
use crate::policy::mechanisms::{FreePath, PreMerge, Prefetch};
use crate::seam::event::Event;
use crate::seam::machine::{Machine, Step};
use crate::shared::{CallCx, Shared};
use crate::types::units::{Frame, Order};
use crate::zone::release_owned::{free_to_owner, has_owner};
use crate::zone::zone::Zone;

/// Moves a block of a per-CPU list or a depot into a batch.
///
/// The batch must have room. A damaged block stays out of the lists, and `validate` finds it.
pub(crate) fn collect<M: Machine>(shared: &Shared<'_, M>, batch: &mut FreeBatch, frame: Frame, order: Order) {
    shared.machine.step(Step::DrainBlock);
    if shared.frames.head(frame) == Head::pcp(order) {
        batch.push(frame, order);
    }
}

/// Clears the heads inside a block that left a per-CPU list or depot; returns true.
///
/// The block may be made of several blocks of such lists.
pub(crate) fn unlist<M: Machine>(shared: &Shared<'_, M>, block: Block) -> bool {
    let frames = &shared.frames;
    let mut at = block.frame();
    while at < block.frame().add(block.order().frames()) {
        let order = frames.head(at).order();
        frames.set_head(at, Head::NONE);
        if shared.machine.traces() {
            let migratetype = frames.pageblock(at).migratetype();
            shared.machine.event(&Event::PcpuDrain { pfn: frames.pfn(at), order, migratetype });
        }
        at = at.add(order.frames());
    }
    true
}

/// Frees all blocks of a collected batch to their zone and empties the batch.
pub(crate) fn free_batch<M: Machine>(cx: CallCx<'_, '_, M>, zone: &Zone<M>, batch: &mut FreeBatch) {
    let shared = cx.shared;
    if shared.mechanisms().pre_merge == PreMerge::Batch {
        let pageblock_order = shared.frames.geometry.pageblock_order;
        // Up to a pageblock, both halves have one type.
        batch.merge(pageblock_order, |_| true, || shared.machine.step(Step::PreMerge));
    }
    free_to_owners(cx, zone, batch, &|block| unlist(shared, block));
    if !batch.is_empty() {
        free_blocks(cx, zone, batch, &|block| unlist(shared, block));
    }
    batch.clear();
}

/// Frees one block to its zone.
///
/// `release` is called under the lock and clears the block's head. If it returns false, the block stays.
pub(crate) fn free_one<M: Machine>(
    cx: CallCx<'_, '_, M>,
    zone: &Zone<M>,
    block: Block,
    release: &impl Fn(Block) -> bool,
) {
    if cx.shared.mechanisms().free_path == FreePath::MergeUnderLock
        || has_owner(cx.shared, block.frame(), block.order())
    {
        let guard = zone.lock(cx);
        if release(block) && !free_to_owner(&guard.buddy(), block.frame(), block.order()) {
            guard.free(block.frame(), block.order(), Place::Warm);
        }
        return;
    }
    let mut batch = FreeBatch::new();
    batch.push(block.frame(), block.order());
    free_blocks(cx, zone, &mut batch, release);
}

fn free_blocks<M: Machine>(
    cx: CallCx<'_, '_, M>,
    zone: &Zone<M>,
    batch: &mut FreeBatch,
    release: &impl Fn(Block) -> bool,
) {
    let shared = cx.shared;
    let asked = if shared.mechanisms().prefetch == Prefetch::Off { &[] } else { batch.blocks() };
    for block in asked {
        let (frame, order) = (block.frame(), block.order());
        // The descriptors that merging looks at, and the one that decides where the result goes.
        for near in [frame, frame.buddy(order), frame.align_down(order.up()).buddy(order.up())] {
            shared.frames.ask_for(&shared.machine, near);
        }
    }
    match shared.mechanisms().free_path {
        FreePath::RangeLocks | FreePath::Splice => free_concurrent(cx, zone, batch, release),
        FreePath::MergeUnderLock | FreePath::NoMerge => free_exclusive(cx, zone, batch, release),
    }
}

fn free_exclusive<M: Machine>(
    cx: CallCx<'_, '_, M>,
    zone: &Zone<M>,
    batch: &FreeBatch,
    release: &impl Fn(Block) -> bool,
) {
    let guard = zone.lock_ends(cx);
    let skips = cx.shared.mechanisms().free_path == FreePath::NoMerge && !zone.clusters.is_disabled();
    if !skips {
        zone.clusters.settle();
    }
    for &block in batch.blocks() {
        if !release(block) {
            continue;
        }
        match block.order().0 {
            0 if skips => guard.free_unmerged(block.frame(), block.order()),
            _ => guard.free(block.frame(), block.order(), Place::Warm),
        }
    }
}

fn free_concurrent<M: Machine>(
    cx: CallCx<'_, '_, M>,
    zone: &Zone<M>,
    batch: &mut FreeBatch,
    release: &impl Fn(Block) -> bool,
) {
    let mut parts = FreeBatch::new();
    let mut refused = FreeBatch::new();
    {
        let reader = zone.read(cx);
        // Under the lock: no exclusive holder changes the type of a pageblock meanwhile.
        batch.keep(|block| {
            // Its pageblocks were given different types while it was in use: it is freed in parts.
            let frames = &cx.shared.frames;
            let is_whole =
                block.order() <= frames.geometry.pageblock_order || frames.is_of_one_type(block.frame(), block.order());
            is_whole || !parts.push(block.frame(), block.order())
        });
        batch.keep(release);
        let mut giver = ConcurrentFree::new(&reader);
        match cx.shared.mechanisms().free_path {
            FreePath::RangeLocks => giver.free_ranged(batch, &mut refused),
            _ => giver.free_spliced(batch, &mut refused),
        }
    }
    if !parts.is_empty() {
        free_exclusive(cx, zone, &parts, release);
    }
    if !refused.is_empty() {
        free_exclusive(cx, zone, &refused, &|_| true);
    }
}
