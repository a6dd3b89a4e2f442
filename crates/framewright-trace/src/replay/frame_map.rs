//! Maps the kernel's frames to ours: for each frame of the kernel, the frame of ours that holds its object.
//!
//! The map is kept in both directions, because our allocator may move an object too.

use std::collections::HashSet;

use framewright::units::{Order, Pfn, PfnRange};

use super::frame_span::{Span, runs};

/// The place of the object that a frame of the kernel holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Location(u32);

impl Location {
    /// The kernel's frame is free.
    pub(super) const FREE: Location = Location(0);
    /// Nowhere: its request was not made here, or failed here. Its free is dropped.
    pub(super) const NOWHERE: Location = Location(1);
    /// The object moved to another of the kernel's frames; the free of this one is dropped.
    pub(super) const LEFT: Location = Location(2);
    const FIRST: u32 = 3;

    pub(super) fn at(index: usize) -> Location {
        Location(index as u32 + Location::FIRST)
    }

    pub(super) fn is_vacant(self) -> bool {
        matches!(self, Location::FREE | Location::LEFT)
    }

    pub(super) fn index(self) -> Option<usize> {
        self.0.checked_sub(Location::FIRST).map(|index| index as usize)
    }
}

/// Marks a frame of ours without an object of the kernel.
const NO_FRAME: u32 = u32::MAX;

/// The map. Frames are indices into the span.
pub(super) struct FrameMap {
    span: Span,
    /// Order of a huge page.
    pageblock_order: Order,
    frame_map: Vec<Location>,
    /// For each frame of ours, the kernel's frame whose object it holds.
    theirs_at: Vec<u32>,
    /// Huge pages that our allocator served for faults.
    pub(super) held: HashSet<Pfn>,
    /// Frames that our allocator moved.
    pub(super) moved: u64,
}

impl FrameMap {
    pub(super) fn new(span: Span, pageblock_order: Order) -> FrameMap {
        let (frame_map, theirs_at) = (vec![Location::FREE; span.len()], vec![NO_FRAME; span.len()]);
        FrameMap { span, pageblock_order, frame_map, theirs_at, held: HashSet::new(), moved: 0 }
    }

    pub(super) fn get(&self, theirs: usize) -> Location {
        self.frame_map[theirs]
    }

    /// Sets the place of a kernel frame's object, and returns the old one.
    pub(super) fn set(&mut self, theirs: usize, location: Location) -> Location {
        let old = std::mem::replace(&mut self.frame_map[theirs], location);
        if let Some(ours) = old.index()
            && self.theirs_at[ours] == theirs as u32
        {
            self.theirs_at[ours] = NO_FRAME;
        }
        if let Some(ours) = location.index() {
            self.theirs_at[ours] = theirs as u32;
        }
        old
    }

    /// Our allocator moves a block.
    pub(super) fn relocate(&mut self, from: Pfn, to: Pfn, order: Order) {
        let pairs = self.span.block(from, order).zip(self.span.block(to, order));
        for (from, to) in pairs {
            let theirs = self.theirs_at[from];
            if theirs != NO_FRAME {
                self.set(theirs as usize, Location::at(to));
            }
        }
        if order == self.pageblock_order && self.held.remove(&from) {
            self.held.insert(to);
        }
        self.moved += order.frames();
    }

    /// Runs of frames of our huge page that hold no object of the kernel.
    pub(super) fn without_objects(&self, ours: Pfn) -> Vec<PfnRange> {
        let empty = self.span.block(ours, self.pageblock_order).filter(|&index| self.theirs_at[index] == NO_FRAME);
        runs(empty.map(|index| self.span.pfn(index))).collect()
    }

    /// Makes the objects in our huge page be nowhere.
    pub(super) fn drop_objects(&mut self, ours: Pfn) {
        for index in self.span.block(ours, self.pageblock_order) {
            let theirs = self.theirs_at[index];
            if theirs != NO_FRAME {
                self.set(theirs as usize, Location::NOWHERE);
            }
        }
    }

    /// A block of ours, or part of one, is freed.
    pub(super) fn forget(&mut self, ours: PfnRange) {
        self.held.remove(&ours.start.align_down(self.pageblock_order));
    }
}
