//! Where the kernel's objects are on our allocator: for each of the kernel's frames the frame of ours that has what it holds, and the other
//! way round, because ours may move it too.

use std::collections::HashSet;

use framewright::pfn::{Order, Pfn, PfnRange};

use super::frame_span::Span;

/// Where the object in a frame of the kernel's is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Home(u32);

impl Home {
    /// The kernel's frame is free.
    pub(super) const FREE: Home = Home(0);
    /// Nowhere: its request was not made here, or failed here. The free is dropped.
    pub(super) const NOWHERE: Home = Home(1);
    /// The object moved away under another frame; the free of what it left behind is dropped.
    pub(super) const LEFT: Home = Home(2);
    const FIRST: u32 = 3;

    pub(super) fn at(index: usize) -> Home {
        Home(index as u32 + Home::FIRST)
    }

    pub(super) fn is_vacant(self) -> bool {
        matches!(self, Home::FREE | Home::LEFT)
    }

    pub(super) fn index(self) -> Option<usize> {
        self.0.checked_sub(Home::FIRST).map(|index| index as usize)
    }
}

/// No frame of the kernel's.
const NOBODY: u32 = u32::MAX;

/// See the module's description. Frames are indices into the span.
pub(super) struct Homes {
    span: Span,
    /// That of a huge page.
    pageblock_order: Order,
    homes: Vec<Home>,
    /// Whose object each frame of ours has.
    tenants: Vec<u32>,
    /// Our huge pages of faults.
    pub(super) held: HashSet<Pfn>,
    /// Frames that ours moved.
    pub(super) moved: u64,
}

impl Homes {
    pub(super) fn new(span: Span, pageblock_order: Order) -> Homes {
        let (homes, tenants) = (vec![Home::FREE; span.len()], vec![NOBODY; span.len()]);
        Homes { span, pageblock_order, homes, tenants, held: HashSet::new(), moved: 0 }
    }

    pub(super) fn get(&self, theirs: usize) -> Home {
        self.homes[theirs]
    }

    /// Notes where the object of a frame of the kernel's is, and returns where it was.
    pub(super) fn set(&mut self, theirs: usize, home: Home) -> Home {
        let old = std::mem::replace(&mut self.homes[theirs], home);
        if let Some(ours) = old.index()
            && self.tenants[ours] == theirs as u32
        {
            self.tenants[ours] = NOBODY;
        }
        if let Some(ours) = home.index() {
            self.tenants[ours] = theirs as u32;
        }
        old
    }

    /// Ours moves a block.
    pub(super) fn relocate(&mut self, from: Pfn, to: Pfn, order: Order) {
        let pairs = self.span.block(from, order).zip(self.span.block(to, order));
        for (from, to) in pairs {
            let theirs = self.tenants[from];
            if theirs != NOBODY {
                self.set(theirs as usize, Home::at(to));
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
