//! Frees blocks to a zone on several CPUs at once.
//!
//! CPUs that free hold the zone lock in its shared mode; every other holder holds it exclusively. So only this file's
//! steps run here: blocks merge with free buddies and are put on lists.
//!
//! # Ownership of a block
//!
//! A freeing CPU takes a free block only to merge with it. A free block of some order has one buddy, so two freeing
//! CPUs never want the same block. The exchange of the block's state is there to prove it.
//!
//! - Taking a block: its state changes before the block leaves its list.
//! - Freeing a block: its state says "free" only after the block is on a list. This is *list before flag*: a CPU that
//!   finds the flag finds the links.
//!
//! # Two halves freed at once
//!
//! Two CPUs that free the two halves of a block may each look before the other's state says "free". Then both halves
//! stay unmerged.
//!
//! | free path | what happens then |
//! |---|---|
//! | [`ConcurrentFree::free_ranged`] | cannot happen: all blocks inside one largest block share a range lock |
//! | [`ConcurrentFree::free_spliced`] | the halves stay; every block is marked as unmerged (`deferred_merge.rs`) |
//!
//! The index of a range lock counts frames from a multiple of the largest block's size, not from the start of the zone.
//! Otherwise two halves could have two locks.
//!
//! Blocks that a damaged list refuses are left to the caller.

use crate::buddy::free_list::{Chain, ConcurrentLists};
use crate::free_path::free_batch::{Block, FreeBatch};
use crate::seam::machine::{LockEvent, LockKind, LockName, Machine, Ordering, Patience, Step, Word};
use crate::shared::CallCx;
use crate::stat::tally::Tally;
use crate::sync::zone_lock::LockMode;
use crate::types::counts::{BlockCount, FrameCount};
use crate::types::migratetype::ListId;
use crate::types::units::Frame;
use crate::zone::zone_guard::ZoneReader;

/// Frees blocks on one CPU under the zone lock's shared mode.
///
/// Its counts reach the zone when it is dropped.
pub(crate) struct ConcurrentFree<'r, 'g, 'a, M: Machine> {
    reader: &'r ZoneReader<'g, 'a, M>,
    lists: ConcurrentLists<'g, 'a, M>,
    tally: Tally,
}

impl<M: Machine> Drop for ConcurrentFree<'_, '_, '_, M> {
    fn drop(&mut self) {
        let cx = self.reader.cx;
        self.reader.zone.account(cx.shared, cx.cpu, &self.tally, LockMode::Shared);
    }
}

impl<'r, 'g, 'a, M: Machine> ConcurrentFree<'r, 'g, 'a, M> {
    pub(crate) fn new(reader: &'r ZoneReader<'g, 'a, M>) -> Self {
        let (shared, lists) = (reader.cx.shared, &reader.zone.lists);
        let lists = ConcurrentLists { lists, frames: &shared.frames, machine: &shared.machine };
        ConcurrentFree { reader, lists, tally: Tally::default() }
    }

    fn cx(&self) -> CallCx<'g, 'a, M> {
        self.reader.cx
    }

    fn step(&self, step: Step) {
        self.lists.machine.step(step);
    }

    /// Merges each block and puts it on its list, under the lock of its range.
    ///
    /// Blocks that no list accepted are added to `rest`.
    pub(crate) fn free_ranged(&mut self, batch: &FreeBatch, rest: &mut FreeBatch) {
        for &block in batch.blocks() {
            let shift = self.lists.frames.geometry.max_order.0;
            let Some(lock) = self.cx().shared.range_locks.get(block.frame().index() >> shift) else { continue };
            self.lock(LockKind::Range, LockEvent::Wanted);
            // ORDER: Acquire. Sees the states and lists as the last holder left them; partner: the Release below.
            // Model: zone_ranged.
            while lock.cas(0, 1, Ordering::Acquire).is_err() {
                let _ = lock.wait_while(Patience::Turn, |held| held != 0);
            }
            self.lock(LockKind::Range, LockEvent::Taken);
            let merged = self.merge(block);
            if !self.put(&[merged], false) {
                rest.push(merged.frame(), merged.order());
            }
            // ORDER: Release. Partner: the Acquire above. Model: zone_ranged.
            lock.store(0, Ordering::Release);
            self.lock(LockKind::Range, LockEvent::Released);
        }
    }

    /// Merges all blocks, then puts those of one order and type on their list together.
    ///
    /// Blocks that no list accepted are added to `rest`.
    pub(crate) fn free_spliced(&mut self, batch: &mut FreeBatch, rest: &mut FreeBatch) {
        batch.replace(|block| self.merge(block));
        let frames = self.lists.frames;
        let kind = |block: Block| (block.order(), frames.pageblock(block.frame()).migratetype());
        batch.each_group(kind, |group| {
            if !self.put(group, true) {
                for block in group {
                    rest.push(block.frame(), block.order());
                }
            }
        });
    }

    /// Merges a block with its free buddies and returns the resulting block.
    ///
    /// The buddies leave their lists.
    fn merge(&mut self, block: Block) -> Block {
        self.step(Step::Give);
        let frames = self.lists.frames;
        let migratetype = frames.pageblock(block.frame()).migratetype();
        let (mut frame, mut order) = (block.frame(), block.order());
        self.tally.count(migratetype, FrameCount::of_block(order));
        while order < frames.geometry.max_order {
            self.step(Step::Merge);
            let buddy = frame.buddy(order);
            let Some(found) = frames.mergeable(frame, buddy, order, migratetype) else { break };
            if !self.take(buddy, ListId { order, migratetype: found }) {
                break;
            }
            if found != migratetype {
                frames.retag(self.lists.machine, buddy, order, migratetype);
            }
            frame = Frame(frame.0.min(buddy.0));
            order = order.up();
        }
        Block::new(frame, order)
    }

    /// Takes a free block for this CPU, which frees the block's buddy.
    ///
    /// Returns false if the block is not free on `list` any more, or if the list is damaged.
    fn take(&mut self, frame: Frame, list: ListId) -> bool {
        self.step(Step::ListDel);
        let Some(word) = self.lists.frames.states.get(frame.index()) else { return false };
        self.lists.machine.prefetch(word);
        let state = self.lists.frames.state(frame);
        if !state.is_free_of(list.order, list.migratetype) {
            return false;
        }
        let taken = state.taken(self.cx().cpu);
        // ORDER: Acquire. Sees the links of the block, and what its last owner did; partner: the Release in `put`.
        // Model: zone_spliced.
        if word.cas(state.0, taken.0, Ordering::Acquire).is_err() {
            return false;
        }
        if self.lists.del(frame, list).is_err() {
            // ORDER: Release, as in `put`: the block is still on its list.
            word.store(state.0, Ordering::Release);
            return false;
        }
        if state.is_skipped() {
            self.tally.uncount_skipped(BlockCount::ONE);
        }
        true
    }

    /// Puts blocks of one order and type on their list, then marks each as free.
    ///
    /// Returns false if the list refuses them.
    fn put(&mut self, blocks: &[Block], skipped: bool) -> bool {
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return true };
        let frames = self.lists.frames;
        let list = ListId { order: first.order(), migratetype: frames.pageblock(first.frame()).migratetype() };
        for (before, after) in blocks.iter().zip(blocks.iter().skip(1)) {
            self.lists.chain(before.frame(), after.frame());
        }
        let count = BlockCount(blocks.len() as u64);
        self.step(Step::ListAdd);
        self.lock(LockKind::FreeList, LockEvent::Wanted);
        let put = self.lists.splice(list, Chain { first: first.frame(), last: last.frame(), count });
        self.lock(LockKind::FreeList, LockEvent::Taken);
        self.lock(LockKind::FreeList, LockEvent::Released);
        if put.is_err() {
            // The caller counts them after it has put them elsewhere.
            self.tally.uncount(list.migratetype, count.frames(list.order));
            return false;
        }
        for block in blocks {
            let Some(word) = frames.states.get(block.frame().index()) else { continue };
            let state = frames.state(block.frame());
            let Some(free) = state.free(list.order, list.migratetype) else { continue };
            let free = if skipped { free.skipped() } else { free };
            self.tally.count_skipped(BlockCount(u64::from(skipped)));
            // ORDER: Release. The block is on its list before its state says so, and what its owner did with it is
            // done; partner: the Acquire in `take`. Model: zone_spliced.
            let _ = word.cas(state.0, free.0, Ordering::Release);
        }
        true
    }

    fn lock(&self, kind: LockKind, event: LockEvent) {
        self.lists.machine.lock(LockName::of_zone(kind, self.reader.zone.idx), event);
    }
}
