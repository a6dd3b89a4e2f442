//! Frames as the kernel knows them: their uses, and the LRU lists of the page cache.
//!
//! A node has an inactive and an active list of file pages, as in Linux. Pages come to the head of the inactive list,
//! are reclaimed from its tail, and go to the active list when they are used again. Anonymous memory is on no list,
//! because there is no swap.

use super::chain::{Chain, Linked, Links, NIL};

/// Use of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Use {
    /// Unknown: it is free, in transit, or part of something that cannot move.
    #[default]
    Other,
    /// A page of a file.
    File { file: u32, index: u8 },
    /// Anonymous memory of a process, by its slot.
    Anon { slot: u32 },
    /// The first frame of a process's huge page.
    Huge,
}

/// The page was used since it was last scanned.
pub(super) const REFERENCED: u8 = 1;
/// The page is on the active list.
pub(super) const ACTIVE: u8 = 2;
/// The page is dirty.
pub(super) const DIRTY: u8 = 4;
/// The page is under writeback.
pub(super) const WRITEBACK: u8 = 8;
/// The page is being read.
pub(super) const LOCKED: u8 = 16;
/// The page is to be freed as soon as it is written (`PageReclaim`).
pub(super) const RECLAIM: u8 = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) used: Use,
    pub(super) flags: u8,
    links: Links,
}

const UNUSED: Page = Page { used: Use::Other, flags: 0, links: Links::NONE };

impl Linked for Page {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// All frames, and the LRU lists.
pub(super) struct Lists {
    /// First frame number.
    first: u64,
    /// First frames of the nodes from the second on, counted from `first`.
    nodes: Vec<u32>,
    pages: Vec<Page>,
    /// The inactive and the active list of each node.
    lists: Vec<[Chain; 2]>,
}

impl Lists {
    pub(super) fn new(first: u64, ends: &[u64]) -> Lists {
        let frames = ends.last().map_or(0, |end| end - first) as usize;
        let nodes = ends[..ends.len() - 1].iter().map(|end| (end - first) as u32).collect();
        Lists { first, nodes, pages: vec![UNUSED; frames], lists: vec![[Chain::EMPTY; 2]; ends.len()] }
    }

    pub(super) fn frame(&self, pfn: u64) -> u32 {
        (pfn - self.first) as u32
    }

    pub(super) fn pfn(&self, frame: u32) -> u64 {
        self.first + u64::from(frame)
    }

    pub(super) fn node(&self, frame: u32) -> usize {
        self.nodes.partition_point(|&begin| begin <= frame)
    }

    pub(super) fn page(&self, frame: u32) -> Page {
        self.pages[frame as usize]
    }

    pub(super) fn set_use(&mut self, frame: u32, used: Use) {
        self.pages[frame as usize].used = used;
    }

    pub(super) fn set(&mut self, frame: u32, flags: u8) {
        self.pages[frame as usize].flags |= flags;
    }

    pub(super) fn clear(&mut self, frame: u32, flags: u8) {
        self.pages[frame as usize].flags &= !flags;
    }

    pub(super) fn has(&self, frame: u32, flags: u8) -> bool {
        self.pages[frame as usize].flags & flags != 0
    }

    /// Returns the lengths of a node's inactive and active lists.
    pub(super) fn sizes(&self, node: usize) -> [u64; 2] {
        self.lists[node].map(|list| list.len)
    }

    /// Returns the number of pages on all lists.
    pub(super) fn listed(&self) -> u64 {
        self.lists.iter().flatten().map(|list| list.len).sum()
    }

    /// Returns the page at a list's tail.
    pub(super) fn last(&self, node: usize, active: bool) -> Option<u32> {
        let tail = self.lists[node][usize::from(active)].tail;
        (tail != NIL).then_some(tail)
    }

    /// Returns the list that a page's flags name, and all pages.
    fn list_of(&mut self, frame: u32) -> (&mut Chain, &mut [Page]) {
        let (node, active) = (self.node(frame), self.has(frame, ACTIVE));
        (&mut self.lists[node][usize::from(active)], &mut self.pages)
    }

    /// Puts a page at the head of the list that its flags name.
    pub(super) fn push(&mut self, frame: u32) {
        let (list, pages) = self.list_of(frame);
        list.push_first(pages, frame);
    }

    /// Removes a page from its list.
    pub(super) fn remove(&mut self, frame: u32) {
        let (list, pages) = self.list_of(frame);
        list.remove(pages, frame);
    }

    /// Moves a page to the head of a list.
    pub(super) fn move_to(&mut self, frame: u32, active: bool) {
        self.remove(frame);
        self.clear(frame, ACTIVE);
        self.set(frame, if active { ACTIVE } else { 0 });
        self.push(frame);
    }

    /// Moves a page to the tail of its list, so that it is scanned next.
    pub(super) fn rotate(&mut self, frame: u32) {
        let (list, pages) = self.list_of(frame);
        list.remove(pages, frame);
        list.push_last(pages, frame);
    }

    /// Notes a use of a page; at the second it becomes active.
    pub(super) fn mark_accessed(&mut self, frame: u32) {
        if !self.has(frame, REFERENCED) {
            self.set(frame, REFERENCED);
        } else if !self.has(frame, ACTIVE) {
            self.move_to(frame, true);
            self.clear(frame, REFERENCED);
        }
    }

    /// Removes a page from its list and from the records.
    pub(super) fn forget(&mut self, frame: u32) {
        self.remove(frame);
        self.pages[frame as usize] = UNUSED;
    }

    /// Moves the record of one frame to another.
    pub(super) fn transfer(&mut self, from: u32, to: u32) {
        let Page { used, flags, .. } = self.pages[from as usize];
        let is_listed = matches!(used, Use::File { .. });
        if is_listed {
            self.remove(from);
        }
        self.pages[from as usize] = UNUSED;
        (self.pages[to as usize].used, self.pages[to as usize].flags) = (used, flags);
        if is_listed {
            self.push(to);
        }
    }
}
