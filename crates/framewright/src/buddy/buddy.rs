//! The buddy algorithm.
//!
//! Free memory is kept as blocks of `1 << order` frames, each aligned to its size. A block's *buddy* is the neighbour that
//! makes a block of the next order with it: its number differs in bit `order` alone. Taking a block splits a larger one
//! in halves until it fits, upper halves going back; freeing one merges it with its buddy while that is free too.
//! Both cost at most `max_order` steps, each of one or two cache lines.
//!
//! Blocks are kept apart by the migratetype of their pageblock (but see `fallback.rs` for `hygiene=loose`). Below the pageblock
//! order buddies share a pageblock, so merging never mixes types. Above, two types merge only if both are ones that requests ask
//! for; the buddy's pageblocks then take the type of the block being freed, so that later halves land on the right lists.
//!
//! A merged block goes to the front of its list, to be reused while warm, unless the block that it would merge with next
//! is partly free already: then it goes to the back, to give the rest the time to come back.
//!
//! [`Buddy`] exists only while the zone's lock is held: `crate::zone::zone::ZoneGuard` makes it.

use crate::buddy::free_list::{End, FreeLists};
use crate::frame::cluster::{CutRun, Heap};
use crate::frame::frame::{Corrupt, Frames};
use crate::frame::state::State;
use crate::policy::mechanisms::Prefetch;
use crate::seam::machine::{Machine, Ordering, Step, Word};
use crate::shared::Shared;
use crate::stat::tally::{ListCount, Tally};
use crate::stat::zone_stat::ZoneCounters;
use crate::types::migratetype::MigrateType;
use crate::types::units::{CpuId, Frame, Order};

/// Where a freed block goes on its list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// By the rule at the head of this file.
    Warm,
    /// To the back: memory that nobody has used yet.
    Last,
}

/// What is left of a block of order `order` at `head` when the block `keep` inside of it is cut out: the half without it, then
/// the half of the other half, and so on.
#[derive(Clone, Copy)]
struct Halves {
    head: Frame,
    order: Order,
    keep: (Frame, Order),
}

impl Iterator for Halves {
    type Item = (Frame, Order);

    fn next(&mut self) -> Option<(Frame, Order)> {
        let (kept, to) = self.keep;
        if self.order <= to {
            return None;
        }
        self.order = self.order.down();
        let upper = self.head.add(self.order.frames());
        let (rest, next) = if kept >= upper { (self.head, upper) } else { (upper, self.head) };
        self.head = next;
        Some((rest, self.order))
    }
}

/// A zone's free lists while its lock is held.
#[derive(Clone, Copy)]
pub(crate) struct Buddy<'g, 'a, M: Machine> {
    pub(crate) shared: &'g Shared<'a, M>,
    pub(crate) lists: &'g FreeLists<M>,
    pub(crate) count: &'g ListCount<M>,
    pub(crate) stat: &'g ZoneCounters<M>,
    /// What was changed since the lock was taken.
    pub(crate) tally: &'g Tally,
    pub(crate) clusters: &'g Heap<M>,
    /// Who holds the lock; noted in what it takes.
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

    /// Whether the list has a block.
    pub(crate) fn has(&self, order: Order, migratetype: MigrateType) -> bool {
        self.lists.len_racy(order, migratetype) != 0
    }

    /// Takes the smallest sufficient block of a type and splits it down to `order`.
    pub(crate) fn alloc_smallest(&self, order: Order, migratetype: MigrateType) -> Result<Option<Frame>, Corrupt> {
        self.alloc_smallest_of(order, self.max_order(), migratetype)
    }

    /// The same from blocks up to the order `most`.
    pub(crate) fn alloc_smallest_of(
        &self,
        order: Order,
        most: Order,
        migratetype: MigrateType,
    ) -> Result<Option<Frame>, Corrupt> {
        self.step(Step::TakeSmallest);
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
            self.carve(frame, from, (frame, to), mt);
        }
        Ok(frame)
    }

    /// Takes a free block off its list; nothing starts at its head any more.
    pub(crate) fn remove(&self, frame: Frame, order: Order, migratetype: MigrateType) -> Result<(), Corrupt> {
        self.unlink(frame, order, migratetype)?;
        self.tally.count(migratetype, order.frames().wrapping_neg());
        Ok(())
    }

    /// Puts a block that starts nothing on a list.
    pub(crate) fn insert(&self, frame: Frame, order: Order, migratetype: MigrateType, end: End) -> Result<(), Corrupt> {
        self.link(frame, order, migratetype, end)?;
        self.tally.count(migratetype, order.frames());
        Ok(())
    }

    /// Takes a free block off its list. Its frames still count as free.
    fn unlink(&self, frame: Frame, order: Order, migratetype: MigrateType) -> Result<(), Corrupt> {
        self.step(Step::ListDel);
        let word = self.frames().states.get(frame.index()).ok_or(Corrupt(frame))?;
        // Looked at first and written then, its line would come twice.
        self.shared.machine.prefetch(word);
        let state = State(word.load(Ordering::Relaxed));
        if !state.is_free_of(order, migratetype) {
            return Err(Corrupt(frame));
        }
        let taken = state.taken(self.cpu);
        self.remove_at(frame, (order, migratetype), state.is_skipped())?;
        if state.is_skipped() {
            self.tally.count_skipped(1_u64.wrapping_neg());
        }
        // No exchange: states are changed by the holder of the lock alone, or by those who share it.
        word.store(taken.0, Ordering::Relaxed);
        Ok(())
    }

    /// Puts a block that starts nothing on a list. Its frames do not count as free yet.
    fn link(&self, frame: Frame, order: Order, migratetype: MigrateType, end: End) -> Result<(), Corrupt> {
        self.link_as(frame, (order, migratetype), end, |state| state)
    }

    /// The same, with a mark in its state.
    fn link_as(
        &self,
        frame: Frame,
        (order, migratetype): (Order, MigrateType),
        end: End,
        mark: impl Fn(State) -> State,
    ) -> Result<(), Corrupt> {
        self.step(Step::ListAdd);
        let word = self.frames().states.get(frame.index()).ok_or(Corrupt(frame))?;
        self.shared.machine.prefetch(word);
        let state = State(word.load(Ordering::Relaxed));
        let free = state.free(order, migratetype).filter(|_| self.frames().head(frame).is_none());
        let free = mark(free.ok_or(Corrupt(frame))?);
        self.put_on(frame, (order, migratetype), end, free.is_skipped())?;
        word.store(free.0, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a block off its list, and a page out of its cluster.
    fn remove_at(&self, frame: Frame, list: (Order, MigrateType), skipped: bool) -> Result<(), Corrupt> {
        let before = if self.has_clusters(list.0) { self.lists.prev(self.frames(), frame) } else { None };
        self.lists.remove(self.frames(), frame, list, |frame| self.frames().ask_for(&self.shared.machine, frame))?;
        if self.has_clusters(list.0) {
            self.clusters.leave(&self.shared.clusters, frame, before, skipped);
        }
        Ok(())
    }

    /// Puts a block on a list, and a page in a cluster.
    fn put_on(&self, frame: Frame, list: (Order, MigrateType), end: End, skipped: bool) -> Result<(), Corrupt> {
        self.lists.insert(self.frames(), frame, list, end)?;
        if self.has_clusters(list.0) {
            let back = end == End::Back;
            let beside = if back { FreeLists::prev } else { FreeLists::next };
            let neighbour = beside(self.lists, self.frames(), frame);
            self.clusters.join(&self.shared.clusters, frame, neighbour, (back, skipped));
        }
        Ok(())
    }

    fn has_clusters(&self, order: Order) -> bool {
        order.0 == 0 && self.clusters.exists()
    }

    /// Cuts the cluster at the front of a list of pages off, if that has one of at most `most` pages. What it was is free no more,
    /// but its states say so still: [`Heap::end_cut`] is due when they were changed.
    pub(crate) fn cut(&self, migratetype: MigrateType, most: u32) -> Result<Option<CutRun>, Corrupt> {
        let first = self.lists.first(Order(0), migratetype).filter(|_| self.clusters.exists());
        let run = first.and_then(|first| self.clusters.dissolve(&self.shared.clusters, first, most));
        if let Some(run) = run {
            self.step(Step::ListDel);
            self.lists.cut(self.frames(), (Order(0), migratetype), (run.last, run.count))?;
            self.tally.count(migratetype, u64::from(run.count).wrapping_neg());
            self.tally.count_skipped(u64::from(run.skipped).wrapping_neg());
            self.clusters.begin_cut();
        }
        Ok(run)
    }

    /// Frees a block: merges it with its buddies and puts the result on the list of its pageblock's type.
    ///
    /// On damage met half-way nothing is lost: what was merged so far goes back, or into quarantine.
    pub(crate) fn free(&self, frame: Frame, order: Order, place: Place) {
        if order > self.pageblock_order() && !self.frames().is_of_one_type(frame, order) {
            // Its pageblocks were given types of their own while it was in use.
            let half = order.down();
            self.free(frame, half, place);
            return self.free(frame.add(half.frames()), half, place);
        }
        self.step(Step::Give);
        let migratetype = self.frames().pageblock(frame).migratetype();
        let (merged, merged_order) = self.merge(frame, order, migratetype);
        let last = place == Place::Last || self.will_merge_soon(merged, merged_order);
        if self.put(merged, merged_order, migratetype, if last { End::Back } else { End::Front }) {
            self.tally.count(migratetype, order.frames());
        } else {
            // What it merged with is lost with it.
            self.tally.count(migratetype, order.frames().wrapping_sub(merged_order.frames()));
        }
    }

    /// Frees a block without a look at its buddy, and marks it: [`Buddy::merge_skipped`] does what was left out.
    pub(crate) fn free_unmerged(&self, frame: Frame, order: Order) {
        self.step(Step::GiveUnmerged);
        let migratetype = self.frames().pageblock(frame).migratetype();
        if self.link_as(frame, (order, migratetype), End::Front, State::skipped).is_ok() {
            self.tally.count_skipped(1);
            self.tally.count(migratetype, order.frames());
        } else {
            self.quarantine(frame, order);
        }
    }

    /// Merges the block at `frame` with its buddies, if it is free and marked as never looked at.
    pub(crate) fn merge_skipped(&self, frame: Frame) -> Result<(), Corrupt> {
        let state = self.frames().state(frame);
        let Some((order, migratetype)) = state.as_free().filter(|_| state.is_skipped()) else { return Ok(()) };
        self.unlink(frame, order, migratetype)?;
        let (merged, merged_order) = self.merge(frame, order, migratetype);
        if !self.put(merged, merged_order, migratetype, End::Front) {
            self.tally.count(migratetype, merged_order.frames().wrapping_neg());
        }
        Ok(())
    }

    /// Takes the buddies of a block that is on no list off theirs, as far as they are free: the block that makes.
    fn merge(&self, mut frame: Frame, mut order: Order, migratetype: MigrateType) -> (Frame, Order) {
        while order < self.max_order() {
            self.step(Step::Merge);
            let buddy = frame.buddy(order);
            let Some(found) = self.frames().mergeable(frame, buddy, order, migratetype) else { break };
            if self.unlink(buddy, order, found).is_err() {
                break;
            }
            if found != migratetype {
                self.frames().retag(buddy, order, migratetype);
            }
            frame = Frame(frame.0.min(buddy.0));
            order = order.up();
        }
        (frame, order)
    }

    /// Puts a block that starts nothing on a list; into quarantine if that is not possible: then false.
    fn put(&self, frame: Frame, order: Order, migratetype: MigrateType, end: End) -> bool {
        let done = self.link(frame, order, migratetype, end).is_ok();
        if !done {
            self.quarantine(frame, order);
        }
        done
    }

    /// Puts a block aside for good: it is on no list, and nothing is said of it but that.
    pub(crate) fn quarantine(&self, frame: Frame, order: Order) {
        if self.frames().change(frame, |state| Some(state.quarantine(order))).is_ok() {
            self.tally.count_quarantined(order.frames());
        }
    }

    /// Whether a state that says so can be true: the block is aligned, and nothing else starts in it. Looks at every frame.
    pub(crate) fn could_be_free(&self, frame: Frame, order: Order) -> bool {
        order <= self.max_order()
            && frame.align_down(order) == frame
            && self.frames().head(frame).is_none()
            && (1..order.frames()).all(|offset| self.frames().block_at(frame.add(offset)).is_none())
    }

    /// Whether the block that this one waits to merge with is all that is missing for the order after next.
    fn will_merge_soon(&self, frame: Frame, order: Order) -> bool {
        if order.up() >= self.max_order() {
            return false;
        }
        let uncle = frame.align_down(order.up()).buddy(order.up());
        self.frames().state(uncle).is_free_as_large(order.up())
    }

    /// Sets the type of the pageblock around `frame` and moves its free blocks to the lists of that type. A free block
    /// larger than the pageblock is split around it first. Returns the number of frames moved.
    pub(crate) fn retype_pageblock(&self, frame: Frame, migratetype: MigrateType) -> Result<u64, Corrupt> {
        let order = self.pageblock_order();
        let start = frame.align_down(order);
        self.isolate_from_larger(start, order)?;
        let moved = self.relist(start, migratetype)?;
        self.frames().set_pageblock(start, self.frames().pageblock(start).with(migratetype));
        if self.frames().state(start).as_free() == Some((order, migratetype)) {
            self.join_alike(start, order, migratetype)?;
        }
        Ok(moved)
    }

    /// Moves the free blocks of the pageblock that begins at `start` to the lists of a type. Returns the number of frames moved.
    pub(crate) fn relist(&self, start: Frame, migratetype: MigrateType) -> Result<u64, Corrupt> {
        let end = start.add(self.pageblock_order().frames());
        let mut moved = 0_u64;
        let mut at = start;
        while at < end {
            self.step(Step::Retype);
            at = match self.frames().state(at).as_free() {
                Some((free_order, old)) => {
                    self.move_to(at, free_order, old, migratetype)?;
                    moved = moved.wrapping_add(free_order.frames());
                    at.add(free_order.frames())
                }
                None => self.after(at),
            };
        }
        Ok(moved)
    }

    /// Merges a free block with its buddies as long as they have the same type. Those of another keep it: unlike a block
    /// that is being freed, this one has no better claim to them.
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
            self.tally.count(migratetype, order.frames().wrapping_neg());
        }
        Ok(())
    }

    /// The next frame at which something may start, behind the block at `at`.
    pub(crate) fn after(&self, at: Frame) -> Frame {
        self.frames().block_at(at).map_or(at.add(1), |part| part.end(at))
    }

    /// Moves a free block to the list of another type.
    fn move_to(&self, frame: Frame, order: Order, from: MigrateType, to: MigrateType) -> Result<(), Corrupt> {
        self.step(Step::Move);
        let skipped = self.frames().state(frame).is_skipped();
        self.remove_at(frame, (order, from), skipped)?;
        self.tally.count(from, order.frames().wrapping_neg());
        self.frames().change(frame, |state: State| state.retype(to))?;
        self.put_on(frame, (order, to), End::Front, skipped)?;
        self.tally.count(to, order.frames());
        Ok(())
    }

    /// If the block of `order` at `start` is part of a larger free block, splits that one until it is not.
    pub(crate) fn isolate_from_larger(&self, start: Frame, order: Order) -> Result<(), Corrupt> {
        let Some((head, larger, migratetype)) = self.free_around(start).filter(|&(_, larger, _)| larger > order) else {
            return Ok(());
        };
        self.remove(head, larger, migratetype)?;
        self.carve(head, larger, (start, order), migratetype);
        if self.put(start, order, migratetype, End::Front) {
            self.tally.count(migratetype, order.frames());
        }
        Ok(())
    }

    /// Gives back all of the block of order `from` at `head` (taken off the lists) but the block `keep` inside of it, to the lists of a type.
    pub(crate) fn carve(&self, head: Frame, from: Order, keep: (Frame, Order), migratetype: MigrateType) {
        let halves = Halves { head, order: from, keep };
        if self.shared.mechanisms.prefetch == Prefetch::Halves {
            halves.for_each(|(rest, _)| self.frames().ask_for(&self.shared.machine, rest));
        }
        let mut given = 0_u64;
        for (rest, order) in halves {
            self.step(Step::Split);
            if self.put(rest, order, migratetype, End::Front) {
                given = given.wrapping_add(order.frames());
            }
        }
        if given != 0 {
            self.tally.count(migratetype, given);
        }
    }

    /// The free block that `frame` is part of.
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
