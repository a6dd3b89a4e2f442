//! A batch: blocks on their way from a CPU's lists, or from a depot, back to their zone.
//!
//! Blocks are collected before the zone lock is taken. No other CPU can touch them meanwhile: their heads say nothing
//! any more, and they are on no list. So all work that needs only these blocks is done here, outside the lock. Blocks
//! of a batch that are buddies of each other are merged ([`FreeBatch::merge`]). Patch 9 of the zone lock series calls
//! this pre-merging.
//!
//! The cost is O(n log n). The blocks are sorted by frame, so a block's lower buddy was made from the blocks directly
//! before it. One stack of finished blocks is therefore all that a merge looks at.

use crate::types::units::{Frame, Order};

/// Most blocks in a batch: those that are freed to a zone under one lock.
pub(crate) const BATCH: usize = 64;

/// A block: its first frame and its order, in one word that sorts by frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block(u64);

impl Block {
    const ORDER_BITS: u32 = 8;

    pub(crate) const fn new(frame: Frame, order: Order) -> Block {
        Block((frame.0 as u64) << Block::ORDER_BITS | order.0 as u64)
    }

    pub(crate) const fn frame(self) -> Frame {
        Frame((self.0 >> Block::ORDER_BITS) as u32)
    }

    pub(crate) const fn order(self) -> Order {
        Order(self.0 as u8)
    }

    /// Returns the merged block if `lower` is this block's lower buddy.
    fn with(self, lower: Block) -> Option<Block> {
        let is_buddy = lower.order() == self.order() && self.frame().buddy(self.order()) == lower.frame();
        (is_buddy && lower.frame() < self.frame()).then(|| Block::new(lower.frame(), self.order().up()))
    }
}

/// Blocks of one zone that are about to be freed to it.
///
/// The blocks do not overlap.
pub(crate) struct FreeBatch {
    blocks: [Block; BATCH],
    len: usize,
    /// Frames that were put in.
    frames: u32,
}

impl FreeBatch {
    pub(crate) const fn new() -> FreeBatch {
        FreeBatch { blocks: [Block(0); BATCH], len: 0, frames: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of blocks for which there is room.
    pub(crate) const fn room(&self) -> usize {
        BATCH.saturating_sub(self.len)
    }

    /// Returns the number of frames in the batch.
    pub(crate) const fn frames(&self) -> u32 {
        self.frames
    }

    /// Adds a block; returns false if there is no room.
    pub(crate) fn push(&mut self, frame: Frame, order: Order) -> bool {
        let Some(slot) = self.blocks.get_mut(self.len) else { return false };
        *slot = Block::new(frame, order);
        self.len = self.len.wrapping_add(1);
        self.frames = self.frames.wrapping_add(order.frames() as u32);
        true
    }

    /// Removes all blocks.
    pub(crate) const fn clear(&mut self) {
        (self.len, self.frames) = (0, 0);
    }

    /// Returns the blocks, in the order in which they were added unless they were merged.
    pub(crate) fn blocks(&self) -> &[Block] {
        self.blocks.get(..self.len).unwrap_or(&[])
    }

    /// Removes the blocks for which `keep` returns false.
    pub(crate) fn keep(&mut self, mut keep: impl FnMut(Block) -> bool) {
        let mut kept = 0_usize;
        for index in 0..self.len {
            if self.blocks.get(index).is_some_and(|&block| keep(block)) {
                exchange(&mut self.blocks, kept, index);
                kept = kept.wrapping_add(1);
            }
        }
        self.len = kept;
    }

    /// Replaces each block by the result of `with`.
    pub(crate) fn replace(&mut self, mut with: impl FnMut(Block) -> Block) {
        for slot in self.blocks.get_mut(..self.len).unwrap_or(&mut []) {
            *slot = with(*slot);
        }
    }

    /// Groups the blocks by kind and calls `each` with the blocks of each kind.
    pub(crate) fn each_group<K: PartialEq>(&mut self, kind: impl Fn(Block) -> K, mut each: impl FnMut(&[Block])) {
        let mut sorted = 0_usize;
        while let Some(&first) = self.blocks().get(sorted) {
            let mut at = sorted;
            for index in sorted..self.len {
                if self.blocks.get(index).is_some_and(|&block| kind(block) == kind(first)) {
                    exchange(&mut self.blocks, at, index);
                    at = at.wrapping_add(1);
                }
            }
            // At least one: the first.
            at = at.max(sorted.wrapping_add(1));
            self.blocks.get(sorted..at).into_iter().for_each(&mut each);
            sorted = at;
        }
    }

    /// Merges the batch's blocks with each other, up to the order `largest`.
    ///
    /// `may` decides whether the two halves of a block may merge. `step` is called once for each block looked at.
    /// Leaves the blocks sorted by frame.
    pub(crate) fn merge(&mut self, largest: Order, may: impl Fn(Block) -> bool, step: impl Fn()) {
        sort(self.blocks.get_mut(..self.len).unwrap_or(&mut []), &step);
        let mut finished = 0_usize;
        for index in 0..self.len {
            let Some(&next) = self.blocks.get(index) else { break };
            let mut block = next;
            step();
            while let Some(below) = finished.checked_sub(1)
                && let Some(merged) = self.blocks.get(below).and_then(|&lower| block.with(lower))
                && merged.order() <= largest
                && may(block)
            {
                (block, finished) = (merged, below);
            }
            if let Some(slot) = self.blocks.get_mut(finished) {
                *slot = block;
            }
            finished = finished.wrapping_add(1);
        }
        self.len = finished;
    }
}

/// Sorts by frame.
///
/// Heapsort: it needs no memory and has no bad case.
fn sort(blocks: &mut [Block], step: &impl Fn()) {
    let len = blocks.len();
    for root in (0..len / 2).rev() {
        sift(blocks, root, len, step);
    }
    for end in (1..len).rev() {
        exchange(blocks, 0, end);
        sift(blocks, 0, end, step);
    }
}

/// Moves the block at `root` down to its place in the heap.
///
/// The heap is the first `end` blocks.
fn sift(blocks: &mut [Block], root: usize, end: usize, step: &impl Fn()) {
    let key = |blocks: &[Block], index: usize| blocks.get(index).filter(|_| index < end).map(|block| block.0);
    let mut at = root;
    loop {
        step();
        let left = at.wrapping_mul(2).wrapping_add(1);
        let child = if key(blocks, left.wrapping_add(1)) > key(blocks, left) { left.wrapping_add(1) } else { left };
        if key(blocks, child) <= key(blocks, at) {
            return;
        }
        exchange(blocks, at, child);
        at = child;
    }
}

fn exchange(blocks: &mut [Block], one: usize, other: usize) {
    if let (Some(&first), Some(&second)) = (blocks.get(one), blocks.get(other)) {
        if let Some(slot) = blocks.get_mut(one) {
            *slot = second;
        }
        if let Some(slot) = blocks.get_mut(other) {
            *slot = first;
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    fn batch(blocks: &[(u32, u8)]) -> FreeBatch {
        let mut batch = FreeBatch::new();
        for &(frame, order) in blocks {
            assert!(batch.push(Frame(frame), Order(order)));
        }
        batch
    }

    fn merged(blocks: &[(u32, u8)], largest: u8) -> Vec<(u32, u8)> {
        let mut batch = batch(blocks);
        batch.merge(Order(largest), |_| true, || ());
        batch.blocks().iter().map(|block| (block.frame().0, block.order().0)).collect()
    }

    #[test]
    fn buddies_of_a_batch_merge_whatever_their_order() {
        assert_eq!(merged(&[], 10), []);
        assert_eq!(merged(&[(5, 0)], 10), [(5, 0)]);
        assert_eq!(merged(&[(5, 0), (4, 0)], 10), [(4, 1)]);
        assert_eq!(merged(&[(5, 0), (6, 0)], 10), [(5, 0), (6, 0)], "neighbours, but no buddies");
        assert_eq!(merged(&[(7, 0), (4, 1), (6, 0), (0, 2)], 10), [(0, 3)]);
        assert_eq!(merged(&[(7, 0), (4, 1), (6, 0), (0, 2)], 2), [(0, 2), (4, 2)], "no further than the largest order");
        assert_eq!(merged(&[(8, 3), (0, 2)], 10), [(0, 2), (8, 3)]);
    }

    #[test]
    fn a_full_batch_becomes_one_block_from_any_order() {
        let mut frames: Vec<(u32, u8)> = (64..128).map(|frame| (frame, 0)).collect();
        for step in [1, 5, 27, 63] {
            frames.sort_by_key(|&(frame, _)| frame * step % 64);
            assert_eq!(merged(&frames, 10), [(64, 6)], "step {step}");
        }
        let mut full = batch(&frames);
        assert!((full.room() == 0) && !full.push(Frame(1), Order(0)), "no room");
        assert_eq!(full.frames(), 64);
        full.clear();
        assert!(full.is_empty() && full.blocks().is_empty());
    }

    #[test]
    fn who_may_not_merge_does_not() {
        let mut batch = batch(&[(0, 0), (1, 0), (2, 0), (3, 0)]);
        batch.merge(Order(10), |block| block.order().0 == 0, || ());
        assert_eq!(batch.blocks(), [Block::new(Frame(0), Order(1)), Block::new(Frame(2), Order(1))]);
    }
}
