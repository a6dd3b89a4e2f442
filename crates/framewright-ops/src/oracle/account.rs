//! The oracle's account: the blocks of each handle, and the right answers to frees.
//!
//! It knows the owner of each frame and the blocks of each handle, and judges every answer from that alone. It does not
//! predict *which* block a request gets, only that the block was free and has no other owner. It predicts frees
//! exactly, including the error of a wrong one. `verdict.rs` judges where a block may lie, and which requests may fail.
//!
//! Kept by the oracle, compared with the allocator's census after every operation: frames held = allocated, frames
//! withheld = offline, all others = free + on per-CPU lists.

use std::collections::{BTreeMap, BTreeSet};

use framewright::machine::Machine;
use framewright::{Allocator, FrameCounts, FrameState, FreeError, Order, Pfn, PfnRange};

use crate::language::{Handle, Place, Shape, Wrong};
use crate::oracle::memory::{Memory, Use};

/// The blocks of a handle.
#[derive(Clone, Debug, Default)]
struct Holding {
    /// First frame that it got.
    first: Pfn,
    /// First frames of the blocks that it still holds.
    heads: BTreeSet<Pfn>,
}

/// The owners of all frames.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    memory: Memory,
    handles: BTreeMap<Handle, Holding>,
    held: u64,
    withheld: u64,
}

impl Oracle {
    /// Makes the account of a machine after boot.
    pub fn new(shape: &Shape) -> Oracle {
        let memory = Memory::new(shape);
        let withheld = memory.all().filter(|(_, known)| matches!(known.used, Use::Withheld { .. })).count() as u64;
        Oracle { memory, handles: BTreeMap::new(), held: 0, withheld }
    }

    /// Returns the record of frames.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns whether a handle holds any block.
    pub fn is_held(&self, handle: Handle) -> bool {
        self.handles.get(&handle).is_some_and(|holding| !holding.heads.is_empty())
    }

    /// Returns every handle that holds a block.
    pub fn held(&self) -> Vec<Handle> {
        let held = self.handles.iter().filter(|(_, holding)| !holding.heads.is_empty());
        held.map(|(handle, _)| *handle).collect()
    }

    /// Returns the blocks of a handle, ascending.
    pub fn blocks(&self, handle: Handle) -> Vec<(Pfn, Order)> {
        let heads = self.handles.get(&handle).into_iter().flat_map(|holding| holding.heads.iter().copied());
        heads.filter_map(|head| Some((head, self.block_at(head)?.1))).collect()
    }

    /// Returns the lowest contiguous frames of a handle.
    pub(crate) fn lowest_run(&self, handle: Handle) -> PfnRange {
        let mut run: Option<PfnRange> = None;
        for (pfn, order) in self.blocks(handle) {
            let block = PfnRange::block(pfn, order);
            match &mut run {
                None => run = Some(block),
                Some(run) if run.end == block.start => run.end = block.end,
                Some(_) => break,
            }
        }
        run.unwrap_or_default()
    }

    /// Returns the held block that a frame is part of.
    pub fn block_at(&self, pfn: Pfn) -> Option<(Pfn, Order, bool, Handle)> {
        match self.memory.known(pfn)?.used {
            Use::Held { head, order, movable, owner } => Some((head, order, movable, owner)),
            _ => None,
        }
    }

    /// Returns the frame of a place; `None` if the handle never got a block.
    pub fn resolve(&self, place: Place) -> Option<Pfn> {
        match place {
            Place::At(pfn) => Some(pfn),
            Place::In(handle, skip) => Some(self.handles.get(&handle)?.first.add(skip)),
        }
    }

    /// Notes that `owner` got a block.
    ///
    /// # Errors
    /// The block is misaligned, too large, not free, or not memory of one zone.
    pub fn hold(&mut self, owner: Handle, (head, order): (Pfn, Order), movable: bool) -> Result<(), Wrong> {
        let block = PfnRange::block(head, order);
        if order > self.memory.max_order() || !head.is_aligned(order) {
            return Err(format!("{head} does not begin a block of order {order}"));
        }
        if let Some((pfn, used)) = self.memory.first_used(block) {
            return Err(format!("the block {block} was given out, but frame {pfn} in it is not free: {used:?}"));
        }
        if self.memory.zone_of(block).is_none() {
            return Err(format!("the block {block} reaches from one zone into another"));
        }
        self.memory.set(block, Use::Held { head, order, movable, owner });
        self.held += order.frames();
        let holding = self.handles.entry(owner).or_default();
        if holding.heads.is_empty() {
            holding.first = head;
        }
        holding.heads.insert(head);
        Ok(())
    }

    /// Notes that `owner` got a range, in the largest aligned blocks.
    ///
    /// # Errors
    /// As [`Oracle::hold`].
    pub fn hold_range(&mut self, owner: Handle, range: PfnRange, movable: bool) -> Result<(), Wrong> {
        range.blocks(self.memory.max_order()).try_for_each(|block| self.hold(owner, block, movable))
    }

    /// Notes that the frames of a range are free.
    ///
    /// The rest of their blocks is held in the largest aligned blocks.
    ///
    /// # Errors
    /// A frame of the range is not held.
    pub fn release(&mut self, range: PfnRange) -> Result<(), Wrong> {
        let mut pfn = range.start;
        while pfn < range.end {
            let Some((head, order, movable, owner)) = self.block_at(pfn) else {
                return Err(format!("frame {pfn} was freed, but nobody holds it"));
            };
            let block = PfnRange::block(head, order);
            let inside = block.intersect(range);
            self.memory.set(block, Use::Free);
            self.held -= order.frames();
            if let Some(holding) = self.handles.get_mut(&owner) {
                holding.heads.remove(&head);
            }
            let first = self.handles.get(&owner).map(|holding| holding.first);
            self.hold_range(owner, PfnRange { end: inside.start, ..block }, movable)?;
            self.hold_range(owner, PfnRange { start: inside.end, ..block }, movable)?;
            if let Some((holding, first)) = self.handles.get_mut(&owner).zip(first) {
                holding.first = first;
            }
            pfn = block.end;
        }
        Ok(())
    }

    /// Notes that a held block is now several of order `to`.
    ///
    /// # Errors
    /// There is no such block.
    pub fn split(&mut self, head: Pfn, to: Order) -> Result<(), Wrong> {
        let Some((_, order, movable, owner)) = self.block_at(head).filter(|block| block.0 == head) else {
            return Err(format!("block {head} was split, but there is none"));
        };
        self.memory.set(PfnRange::block(head, order), Use::Free);
        self.held -= order.frames();
        (0..order.frames() >> to.0).try_for_each(|i| self.hold(owner, (head.add(i << to.0), to), movable))
    }

    /// Notes that a block's contents moved, from a block still held to a free one.
    ///
    /// # Errors
    /// As [`Oracle::hold`] and [`Oracle::release`].
    pub fn relocate(&mut self, from: Pfn, to: Pfn) -> Result<(), Wrong> {
        let Some((_, order, movable, owner)) = self.block_at(from).filter(|block| block.0 == from) else {
            return Err(format!("block {from} moved, but there is none"));
        };
        self.hold(owner, (to, order), movable)?;
        self.release(PfnRange::block(from, order))?;
        match self.handles.get_mut(&owner) {
            Some(holding) if holding.first == from => holding.first = to,
            _ => {}
        }
        Ok(())
    }

    /// Notes that a range was taken offline.
    ///
    /// # Errors
    /// A frame of it is not free.
    pub fn withhold(&mut self, range: PfnRange) -> Result<(), Wrong> {
        if let Some((pfn, used)) = self.memory.first_used(range) {
            return Err(format!("{range} was taken offline, but frame {pfn} in it is not free: {used:?}"));
        }
        for (head, order) in range.blocks(self.memory.max_order()) {
            self.memory.set(PfnRange::block(head, order), Use::Withheld { head, order });
        }
        self.withheld += range.frames();
        Ok(())
    }

    /// Notes that the withheld blocks inside a range are free; returns their frames.
    pub fn restore(&mut self, range: PfnRange) -> u64 {
        let withheld = self.memory.frames_in(range).filter_map(|(pfn, known)| match known.used {
            Use::Withheld { head, order } if head == pfn => Some(PfnRange::block(head, order)),
            _ => None,
        });
        let blocks: Vec<PfnRange> = withheld.filter(|block| block.intersect(range) == *block).collect();
        blocks.iter().for_each(|block| self.memory.set(*block, Use::Free));
        let frames = blocks.iter().map(|block| block.frames()).sum();
        self.withheld -= frames;
        frames
    }

    /// Adds memory; returns whether it may be added.
    pub fn add(&mut self, range: PfnRange) -> bool {
        self.memory.add(range)
    }

    /// Notes that a pageblock was given another type.
    pub fn retyped(&mut self, pfn: Pfn) {
        self.memory.retyped(pfn);
    }

    /// Returns the errors of which one must answer a free of `order` at `pfn`.
    ///
    /// There are none if the free is right. Where the frame is no memory, the error may name a wrong order instead.
    pub fn refusals(&self, pfn: Pfn, order: Order) -> Vec<FreeError> {
        let max = self.memory.max_order();
        let mut shape = Vec::new();
        if order > max {
            shape.push(FreeError::BadOrder { order, max });
        } else if !pfn.is_aligned(order) {
            shape.push(FreeError::Misaligned(pfn, order));
        }
        match self.memory.known(pfn).map(|known| known.used) {
            None => shape.push(FreeError::Foreign(pfn)),
            Some(_) if !shape.is_empty() => {}
            Some(Use::Free) => shape.push(FreeError::AlreadyFree(pfn)),
            Some(Use::Withheld { .. }) => shape.push(FreeError::Offline(pfn)),
            Some(Use::Held { head, .. }) if head != pfn => shape.push(FreeError::NotHead { pfn, head }),
            Some(Use::Held { order: actual, .. }) if actual != order => {
                shape.push(FreeError::WrongOrder { pfn, actual });
            }
            Some(Use::Held { .. }) => {}
        }
        shape
    }

    /// Returns the error that must answer a free of a range; `None` if all of it is held.
    pub(crate) fn range_refusal(&self, range: PfnRange) -> Option<FreeError> {
        if range.is_empty() {
            return Some(FreeError::BadRange(range));
        }
        let mut pfn = range.start;
        while pfn < range.end {
            match self.memory.known(pfn).map(|known| known.used) {
                None => return Some(FreeError::Foreign(pfn)),
                Some(Use::Free) => return Some(FreeError::AlreadyFree(pfn)),
                Some(Use::Withheld { .. }) => return Some(FreeError::Offline(pfn)),
                Some(Use::Held { .. }) => pfn = pfn.add(1),
            }
        }
        None
    }

    /// Returns the held frames.
    pub(crate) fn held_frames(&self) -> u64 {
        self.held
    }

    /// Returns the frames that are neither held nor withheld.
    pub fn free_frames(&self) -> u64 {
        self.memory.present() - self.held - self.withheld
    }

    /// Compares the census with this account.
    ///
    /// # Errors
    /// A part differs.
    pub fn compare(&self, census: &FrameCounts) -> Result<(), Wrong> {
        let free = self.free_frames();
        let rows = [
            ("present", self.memory.present(), census.present),
            ("allocated", self.held, census.allocated),
            ("offline", self.withheld, census.offline),
            ("free or on per-CPU lists", free, census.free + census.pcp),
            ("isolated", 0, census.isolated),
            ("in flight", 0, census.in_flight),
            ("quarantined", 0, census.quarantined),
        ];
        match rows.into_iter().find(|(_, ours, theirs)| ours != theirs) {
            Some((part, ours, theirs)) => Err(format!("{theirs} frames are {part}, should be {ours}")),
            None if census.is_conserved() => Ok(()),
            None => Err(format!("the census does not add up: {census:?}")),
        }
    }

    /// Compares the record of every frame with the allocator's state.
    ///
    /// # Errors
    /// A frame is not what it should be.
    pub(crate) fn compare_frames<M: Machine>(&self, pages: &Allocator<'_, M>) -> Result<(), Wrong> {
        for (pfn, known) in self.memory.all() {
            let state = pages.state_of(pfn);
            let same = match (known.used, state) {
                (Use::Free, FrameState::Free(..) | FrameState::Pcp(..)) => true,
                (Use::Held { head, order, .. }, FrameState::Allocated(at, actual)) => (head, order) == (at, actual),
                (Use::Withheld { head, order }, FrameState::Offline(at, actual)) => (head, order) == (at, actual),
                _ => false,
            };
            if !same {
                return Err(format!("frame {pfn} is {state:?}, should be {:?}", known.used));
            }
        }
        Ok(())
    }
}
