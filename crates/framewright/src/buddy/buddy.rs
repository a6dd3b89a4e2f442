//! Buddy algorithm: splits free blocks for requests and merges them when they are freed.
//!
//! Free memory is kept as blocks of `1 << order` frames, each aligned to its size. A block's *buddy* is the neighbour
//! with which it forms a block of the next order: their numbers differ only in bit `order`. An allocation splits a
//! larger block in halves until it fits, and puts the upper halves on their lists. A free merges the block with its
//! buddy while that is free too.
//!
//! Both cost at most `max_order` steps, each of one or two cache lines.
//!
//! Blocks are kept apart by the migratetype of their pageblock (`fallback.rs` has the exception for `hygiene=loose`).
//! Below the pageblock order buddies share a pageblock, so merging never mixes types. Above it, two types merge only if
//! requests ask for both. The buddy's pageblocks then take the type of the block being freed, so that later halves are
//! put on the right lists.
//!
//! A merged block is put at the front of its list, to be reused while it is in the cache. It is put at the back if the
//! block that it would merge with next is partly free already. The rest of that block then has time to become free.
//!
//! [`Buddy`] exists only while the zone's lock is held: `crate::zone::zone_guard::ZoneGuard` creates it.

use crate::buddy::free_list::{End, FreeLists};
use crate::frame::cluster::{CutRun, Heap, Inserted};
use crate::frame::frame::{Corrupt, Frames};
use crate::frame::state::State;
use crate::policy::mechanisms::Prefetch;
use crate::seam::compiled::Compiled;
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::shared::Shared;
use crate::stat::tally::{ListCount, Tally};
use crate::stat::zone_stat::ZoneCounters;
use crate::types::counts::{BlockCount, FrameCount};
use crate::types::migratetype::{ListId, MigrateType};
use crate::types::units::{CpuId, Frame, Order};

/// Position of a freed block on its list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Front or back, by the rule in the description of this module.
    Warm,
    /// Back: memory that was not used yet.
    Last,
}

/// Iterator over the rest of a block that is cut around a smaller one.
///
/// The block of order `order` at `head` contains the block of order `kept_order` at `kept`. The iterator yields the
/// half without that block, then that half of the other half, and so on.
#[derive(Clone, Copy)]
pub(crate) struct Halves {
    pub(crate) head: Frame,
    pub(crate) order: Order,
    pub(crate) kept: Frame,
    pub(crate) kept_order: Order,
}

impl Halves {
    /// Returns the rest of a block whose first frames are kept, as a block of order `kept_order`.
    pub(crate) const fn after_first(head: Frame, order: Order, kept_order: Order) -> Halves {
        Halves { head, order, kept: head, kept_order }
    }
}

impl Iterator for Halves {
    type Item = (Frame, Order);

    fn next(&mut self) -> Option<(Frame, Order)> {
        if self.order <= self.kept_order {
            return None;
        }
        self.order = self.order.down();
        let upper = self.head.add(self.order.frames());
        let (rest, next) = if self.kept >= upper { (self.head, upper) } else { (upper, self.head) };
        self.head = next;
        Some((rest, self.order))
    }
}

/// Free lists of a zone while its lock is held.
#[derive(Clone, Copy)]
pub(crate) struct Buddy<'g, 'a, M: Machine> {
    pub(crate) shared: &'g Shared<'a, M>,
    pub(crate) lists: &'g FreeLists<M>,
    pub(crate) count: &'g ListCount<M>,
    pub(crate) stat: &'g ZoneCounters<M>,
    /// Changes since the lock was taken.
    pub(crate) tally: &'g Tally,
    pub(crate) clusters: &'g Heap<M>,
    /// CPU that holds the lock; recorded in the blocks that it takes.
    pub(crate) cpu: CpuId,
}

impl<'g, 'a, M: Machine> Buddy<'g, 'a, M> {
    pub(crate) fn frames(&self) -> &'g Frames<'a, M> {
        &self.shared.frames
    }

    pub(crate) fn step(&self, step: Step) {
        self.shared.machine.step(step);
    }

    pub(crate) fn max_order(&self) -> Order {
        self.frames().geometry.max_order
    }

    pub(crate) fn pageblock_order(&self) -> Order {
        self.frames().geometry.pageblock_order
    }

    /// Returns whether the list has a block.
    pub(crate) fn has(&self, order: Order, migratetype: MigrateType) -> bool {
        !self.lists.len_racy(order, migratetype).is_zero()
    }

    /// Takes the smallest sufficient block of a type and splits it down to `order`.
    pub(crate) fn alloc_smallest(&self, order: Order, migratetype: MigrateType) -> Result<Option<Frame>, Corrupt> {
        self.alloc_smallest_of(order, self.max_order(), migratetype)
    }

    /// Like [`Self::alloc_smallest`], from blocks up to order `most`.
    pub(crate) fn alloc_smallest_of(
        &self,
        order: Order,
        most: Order,
        migratetype: MigrateType,
    ) -> Result<Option<Frame>, Corrupt> {
        self.step(Step::TakeSmallest);
        let migratetype = M::one_type(migratetype);
        for larger in order.up_to(most) {
            self.step(Step::TakeList);
            if let Some(frame) = self.lists.first(larger, migratetype) {
                return self.alloc(frame, larger, order, migratetype).map(Some);
            }
        }
        Ok(None)
    }

    /// Takes the free block of order `from` at `frame` and splits it down to `to`.
    pub(crate) fn alloc(&self, frame: Frame, from: Order, to: Order, mt: MigrateType) -> Result<Frame, Corrupt> {
        self.remove(frame, from, mt)?;
        if from != to {
            self.carve(Halves::after_first(frame, from, to), mt);
        }
        Ok(frame)
    }

    /// Removes a free block from its list; no block starts at its head afterwards.
    pub(crate) fn remove(&self, frame: Frame, order: Order, migratetype: MigrateType) -> Result<(), Corrupt> {
        self.unlink(frame, order, migratetype)?;
        self.tally.uncount(migratetype, FrameCount::of_block(order));
        Ok(())
    }

    /// Inserts a block into a list. No other block may start at its head.
    pub(crate) fn insert(&self, frame: Frame, order: Order, migratetype: MigrateType, end: End) -> Result<(), Corrupt> {
        self.link(frame, order, migratetype, end)?;
        self.tally.count(migratetype, FrameCount::of_block(order));
        Ok(())
    }

    /// Removes a free block from its list. Its frames still count as free.
    fn unlink(&self, frame: Frame, order: Order, migratetype: MigrateType) -> Result<(), Corrupt> {
        self.step(Step::ListDel);
        let word = self.frames().states.get(frame.index()).ok_or(Corrupt(frame))?;
        // A read followed by a write would fetch the line twice.
        self.shared.machine.prefetch(word);
        let state = State(word.load(Ordering::Relaxed));
        if !state.is_free_of(order, migratetype) {
            return Err(Corrupt(frame));
        }
        let taken = state.taken(self.cpu);
        let is_skipped = M::MAY_SKIP && state.is_skipped();
        self.remove_at(frame, ListId { order, migratetype }, is_skipped)?;
        if is_skipped {
            self.tally.uncount_skipped(BlockCount::ONE);
        }
        // A plain store: states are changed by the exclusive holder of the lock, or by CPUs that share it.
        word.store(taken.0, Ordering::Relaxed);
        Ok(())
    }

    /// Inserts a block into a list. Its frames do not count as free yet.
    fn link(&self, frame: Frame, order: Order, migratetype: MigrateType, end: End) -> Result<(), Corrupt> {
        self.link_as(frame, ListId { order, migratetype }, end, |state| state)
    }

    /// Like [`Self::link`], and applies `mark` to the state.
    pub(super) fn link_as(
        &self,
        frame: Frame,
        list: ListId,
        end: End,
        mark: impl Fn(State) -> State,
    ) -> Result<(), Corrupt> {
        self.step(Step::ListAdd);
        let word = self.frames().states.get(frame.index()).ok_or(Corrupt(frame))?;
        self.shared.machine.prefetch(word);
        let state = State(word.load(Ordering::Relaxed));
        let free = state.free(list.order, list.migratetype).filter(|_| self.frames().head(frame).is_none());
        let free = mark(free.ok_or(Corrupt(frame))?);
        self.put_on(frame, list, end, free.is_skipped())?;
        word.store(free.0, Ordering::Relaxed);
        Ok(())
    }

    /// Removes a block from its list, and a page from its cluster.
    pub(super) fn remove_at(&self, frame: Frame, list: ListId, skipped: bool) -> Result<(), Corrupt> {
        let before = if self.has_clusters(list.order) { self.lists.prev(self.frames(), frame) } else { None };
        self.lists.remove(self.frames(), frame, list, |frame| self.frames().ask_for(&self.shared.machine, frame))?;
        if self.has_clusters(list.order) {
            self.clusters.leave(&self.shared.clusters, frame, before, skipped);
        }
        Ok(())
    }

    /// Inserts a block into a list, and a page into a cluster.
    pub(super) fn put_on(&self, frame: Frame, list: ListId, end: End, skipped: bool) -> Result<(), Corrupt> {
        self.lists.insert(self.frames(), frame, list, end)?;
        if self.has_clusters(list.order) {
            let back = end == End::Back;
            let beside = if back { FreeLists::prev } else { FreeLists::next };
            let neighbour = beside(self.lists, self.frames(), frame);
            self.clusters.join(&self.shared.clusters, frame, neighbour, Inserted { back, skipped });
        }
        Ok(())
    }

    fn has_clusters(&self, order: Order) -> bool {
        order.0 == 0 && self.clusters.exists()
    }

    /// Cuts off the cluster at the front of a list of pages; returns its run.
    ///
    /// `None` if it has more than `most` pages.
    ///
    /// Its pages no longer count as free, but their states still say so. The caller must call [`Heap::end_cut`] after
    /// it has changed the states.
    pub(crate) fn cut(&self, migratetype: MigrateType, most: BlockCount) -> Result<Option<CutRun>, Corrupt> {
        let first = self.lists.first(Order(0), migratetype).filter(|_| self.clusters.exists());
        let run = first.and_then(|first| self.clusters.dissolve(&self.shared.clusters, first, most));
        if let Some(run) = run {
            self.step(Step::ListDel);
            self.lists.cut(self.frames(), ListId { order: Order(0), migratetype }, &run)?;
            self.tally.uncount(migratetype, run.count.frames(Order(0)));
            self.tally.uncount_skipped(run.skipped);
            self.clusters.begin_cut();
        }
        Ok(run)
    }

    /// Frees a block: merges it with its buddies and puts the result on a list.
    ///
    /// The list is that of its pageblock's type.
    ///
    /// If damage is found on the way, no block is lost: the block merged so far is put on a list, or quarantined.
    pub(crate) fn free(&self, frame: Frame, order: Order, place: Place) {
        if M::FEATURES.mobility && order > self.pageblock_order() && !self.frames().is_of_one_type(frame, order) {
            // Its pageblocks were given different types while it was in use.
            let half = order.down();
            self.free(frame, half, place);
            return self.free(frame.add(half.frames()), half, place);
        }
        self.step(Step::Give);
        let migratetype = M::one_type(self.frames().pageblock(frame).migratetype());
        let (merged, merged_order) = self.merge(frame, order, migratetype);
        let last = place == Place::Last || self.will_merge_soon(merged, merged_order);
        if self.put(merged, merged_order, migratetype, if last { End::Back } else { End::Front }) {
            self.tally.count(migratetype, FrameCount::of_block(order));
        } else {
            // The free buddies that it merged with are lost with it.
            let lost = FrameCount::of_block(merged_order).minus(FrameCount::of_block(order));
            self.tally.uncount(migratetype, lost);
        }
    }

    /// Frees a block without checking its buddy, and marks it.
    ///
    /// [`Buddy::merge_skipped`] merges it later.
    pub(crate) fn free_unmerged(&self, frame: Frame, order: Order) {
        self.step(Step::GiveUnmerged);
        let migratetype = self.frames().pageblock(frame).migratetype();
        if self.link_as(frame, ListId { order, migratetype }, End::Front, State::skipped).is_ok() {
            self.tally.count_skipped(BlockCount::ONE);
            self.tally.count(migratetype, FrameCount::of_block(order));
        } else {
            self.quarantine(frame, order);
        }
    }

    /// Merges a free block with its buddies, if it is marked as unmerged.
    pub(crate) fn merge_skipped(&self, frame: Frame) -> Result<(), Corrupt> {
        let state = self.frames().state(frame);
        let Some((order, migratetype)) = state.as_free().filter(|_| state.is_skipped()) else { return Ok(()) };
        self.unlink(frame, order, migratetype)?;
        let (merged, merged_order) = self.merge(frame, order, migratetype);
        if !self.put(merged, merged_order, migratetype, End::Front) {
            self.tally.uncount(migratetype, FrameCount::of_block(merged_order));
        }
        Ok(())
    }

    /// Removes the free buddies of a block from their lists; returns the merged block.
    ///
    /// The block itself is on no list.
    fn merge(&self, mut frame: Frame, mut order: Order, migratetype: MigrateType) -> (Frame, Order) {
        while order < self.max_order() {
            self.step(Step::Merge);
            let buddy = frame.buddy(order);
            let Some(found) = self.frames().mergeable(frame, buddy, order, migratetype) else { break };
            if self.unlink(buddy, order, found).is_err() {
                break;
            }
            if M::FEATURES.mobility && found != migratetype {
                self.frames().retag(&self.shared.machine, buddy, order, migratetype);
            }
            frame = Frame(frame.0.min(buddy.0));
            order = order.up();
        }
        (frame, order)
    }

    /// Returns whether a block would merge if it were freed now.
    pub(super) fn has_mergeable_buddy(&self, frame: Frame, order: Order, migratetype: MigrateType) -> bool {
        order < self.max_order() && self.frames().mergeable(frame, frame.buddy(order), order, migratetype).is_some()
    }

    /// Inserts a block into a list; if that fails, quarantines it and returns false.
    ///
    /// No other block may start at its head.
    pub(crate) fn put(&self, frame: Frame, order: Order, migratetype: MigrateType, end: End) -> bool {
        let done = self.link(frame, order, migratetype, end).is_ok();
        if !done {
            self.quarantine(frame, order);
        }
        done
    }

    /// Quarantines a block for good.
    ///
    /// It is on no list, and no other state describes its frames.
    pub(crate) fn quarantine(&self, frame: Frame, order: Order) {
        if self.frames().change(frame, |state| Some(state.quarantine(order))).is_ok() {
            self.tally.count_quarantined(FrameCount::of_block(order));
        }
    }

    /// Returns whether a free block of this order can start here.
    ///
    /// It must be aligned, and no other block may start inside. Reads every frame.
    pub(crate) fn could_be_free(&self, frame: Frame, order: Order) -> bool {
        order <= self.max_order()
            && frame.align_down(order) == frame
            && self.frames().head(frame).is_none()
            && (1..order.frames()).all(|offset| self.frames().block_at(frame.add(offset)).is_none())
    }

    /// Returns whether the buddy of the next larger block is free.
    ///
    /// If so, this block merges twice once its own buddy is free.
    fn will_merge_soon(&self, frame: Frame, order: Order) -> bool {
        if order.up() >= self.max_order() {
            return false;
        }
        let uncle = frame.align_down(order.up()).buddy(order.up());
        self.frames().state(uncle).is_free_as_large(order.up())
    }

    /// Sets the type of a pageblock and moves its free blocks to its lists.
    ///
    /// The pageblock is that of `frame`.
    ///
    /// A free block larger than the pageblock is split first.
    pub(crate) fn retype_pageblock(&self, frame: Frame, migratetype: MigrateType) -> Result<(), Corrupt> {
        let order = self.pageblock_order();
        let start = frame.align_down(order);
        self.isolate_from_larger(start, order)?;
        self.relist(start, migratetype)?;
        self.frames().set_type(&self.shared.machine, start, migratetype);
        if self.frames().state(start).as_free() == Some((order, migratetype)) {
            self.join_alike(start, order, migratetype)?;
        }
        Ok(())
    }

    /// Moves the free blocks of a pageblock to a type's lists.
    ///
    /// `start` is the first frame of the pageblock.
    pub(crate) fn relist(&self, start: Frame, migratetype: MigrateType) -> Result<(), Corrupt> {
        let end = start.add(self.pageblock_order().frames());
        let mut at = start;
        while at < end {
            self.step(Step::Retype);
            at = match self.frames().state(at).as_free() {
                Some((free_order, old)) => {
                    self.move_to(at, free_order, old, migratetype)?;
                    at.add(free_order.frames())
                }
                None => self.after(at),
            };
        }
        Ok(())
    }

    /// Merges a free block with its buddies as long as they have its type.
    ///
    /// Buddies of another type keep it. Unlike a block that is being freed, this block has no better claim to them.
    fn join_alike(&self, frame: Frame, order: Order, migratetype: MigrateType) -> Result<(), Corrupt> {
        let alike = |frame: Frame, order: Order| {
            self.step(Step::Merge);
            let buddy = frame.buddy(order);
            let same_zone = self.frames().pageblock(frame).same_zone(self.frames().pageblock(buddy));
            order < self.max_order() && same_zone && self.frames().state(buddy).as_free() == Some((order, migratetype))
        };
        if !alike(frame, order) {
            return Ok(());
        }
        self.unlink(frame, order, migratetype)?;
        let (mut frame, mut order) = (frame, order);
        while alike(frame, order) && self.unlink(frame.buddy(order), order, migratetype).is_ok() {
            frame = frame.align_down(order.up());
            order = order.up();
        }
        if !self.put(frame, order, migratetype, End::Front) {
            self.tally.uncount(migratetype, FrameCount::of_block(order));
        }
        Ok(())
    }

    /// Returns the first frame after the block at `at`.
    pub(crate) fn after(&self, at: Frame) -> Frame {
        self.frames().block_at(at).map_or(at.add(1), |part| part.end(at))
    }

    /// Moves a free block to the list of another type.
    fn move_to(&self, frame: Frame, order: Order, from: MigrateType, to: MigrateType) -> Result<(), Corrupt> {
        self.step(Step::Move);
        let skipped = self.frames().state(frame).is_skipped();
        self.remove_at(frame, ListId { order, migratetype: from }, skipped)?;
        self.tally.uncount(from, FrameCount::of_block(order));
        self.frames().change(frame, |state: State| state.retype(to))?;
        self.put_on(frame, ListId { order, migratetype: to }, End::Front, skipped)?;
        self.tally.count(to, FrameCount::of_block(order));
        Ok(())
    }

    /// Splits a free block that is larger than the block at `start` and contains it.
    ///
    /// Afterwards the block of `order` at `start` is free by itself. Does nothing if there is no such block.
    pub(crate) fn isolate_from_larger(&self, start: Frame, order: Order) -> Result<(), Corrupt> {
        let Some((head, larger, migratetype)) = self.free_around(start).filter(|&(_, larger, _)| larger > order) else {
            return Ok(());
        };
        self.remove(head, larger, migratetype)?;
        self.carve(Halves { head, order: larger, kept: start, kept_order: order }, migratetype);
        if self.put(start, order, migratetype, End::Front) {
            self.tally.count(migratetype, FrameCount::of_block(order));
        }
        Ok(())
    }

    /// Puts all of a block except the part that is kept on a type's lists.
    ///
    /// The block is already off its list.
    pub(crate) fn carve(&self, halves: Halves, migratetype: MigrateType) {
        if self.shared.mechanisms().prefetch == Prefetch::Halves {
            halves.for_each(|(rest, _)| self.frames().ask_for(&self.shared.machine, rest));
        }
        let mut given = FrameCount::ZERO;
        for (rest, order) in halves {
            self.step(Step::Split);
            if self.put(rest, order, migratetype, End::Front) {
                given = given.plus(FrameCount::of_block(order));
            }
        }
        if !given.is_zero() {
            self.tally.count(migratetype, given);
        }
    }

    /// Returns the free block that contains `frame`.
    pub(crate) fn free_around(&self, frame: Frame) -> Option<(Frame, Order, MigrateType)> {
        Order(0).up_to(self.max_order()).find_map(|order| {
            self.step(Step::Around);
            let start = frame.align_down(order);
            let (free_order, migratetype) = self.frames().state(start).as_free()?;
            let end = start.add(free_order.frames());
            (frame < end).then_some((start, free_order, migratetype))
        })
    }
}
