//! Where the kernel's objects are on our allocator: for each of the kernel's frames the frame of ours that has what it holds, and the other
//! way round, because ours may move it too.

use std::collections::HashSet;

use framewright::pfn::{Order, Pfn, PfnRange};

use super::frame_span::Span;

/// Where the object in a frame of the kernel's is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Location(u32);

impl Location {
    /// The kernel's frame is free.
    pub(super) const FREE: Location = Location(0);
    /// Nowhere: its request was not made here, or failed here. The free is dropped.
    pub(super) const NOWHERE: Location = Location(1);
    /// The object moved away under another frame; the free of what it left behind is dropped.
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

/// No frame of the kernel's.
const NO_FRAME: u32 = u32::MAX;

/// See the module's description. Frames are indices into the span.
pub(super) struct FrameMap {
    span: Span,
    /// That of a huge page.
    pageblock_order: Order,
    frame_map: Vec<Location>,
    /// Whose object each frame of ours has.
    theirs_at: Vec<u32>,
    /// Our huge pages of faults.
    pub(super) held: HashSet<Pfn>,
    /// Frames that ours moved.
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

    /// Notes where the object of a frame of the kernel's is, and returns where it was.
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

    /// Ours moves a block.
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

    /// A block of ours, or part of one, is given back.
    pub(super) fn forget(&mut self, ours: PfnRange) {
        self.held.remove(&ours.start.align_down(self.pageblock_order));
    }
}
