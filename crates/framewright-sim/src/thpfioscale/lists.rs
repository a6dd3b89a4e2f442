//! Frames as the rest of a kernel knows them: what each is used for, and the LRU lists of the page cache.
//!
//! Linux's lists of file pages: a node has an inactive and an active one; pages come to the head of the first, are
//! taken from its tail, and go to the second when they are used again. Anonymous memory is on none here: there is no
//! swap.

use super::chain::{Chain, Linked, Links, NIL};

/// What a frame is used for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Use {
    /// Nothing that is known here: it is free, on its way, or the head of something that cannot move.
    #[default]
    Other,
    /// A page of a file.
    File { file: u32, index: u8 },
    /// Anonymous memory of a process: where the process has it.
    Anon { slot: u32 },
    /// The first frame of a process's huge page.
    Huge,
}

/// The page was used since it was last looked at.
pub(super) const REFERENCED: u8 = 1;
/// It is on the active list.
pub(super) const ACTIVE: u8 = 2;
/// It has to be written.
pub(super) const DIRTY: u8 = 4;
/// It is being written.
pub(super) const WRITEBACK: u8 = 8;
/// It is being read.
pub(super) const LOCKED: u8 = 16;
/// It is to be freed as soon as it was written (`PageReclaim`).
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

/// See the module's description.
pub(super) struct Lists {
    /// First frame number.
    first: u64,
    /// First frame, from `first` on, of the second node and so on.
    nodes: Vec<u32>,
    pages: Vec<Page>,
    /// Of each node: inactive, active.
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

    /// Pages on a node's inactive list, and on its active one.
    pub(super) fn sizes(&self, node: usize) -> [u64; 2] {
        self.lists[node].map(|list| list.len)
    }

    /// Pages on all lists.
    pub(super) fn listed(&self) -> u64 {
        self.lists.iter().flatten().map(|list| list.len).sum()
    }

    /// The page that a list would give next.
    pub(super) fn last(&self, node: usize, active: bool) -> Option<u32> {
        let tail = self.lists[node][usize::from(active)].tail;
        (tail != NIL).then_some(tail)
    }

    /// The list that a page is on, or is to be, by its flags; and all pages.
    fn list_of(&mut self, frame: u32) -> (&mut Chain, &mut [Page]) {
        let (node, active) = (self.node(frame), self.has(frame, ACTIVE));
        (&mut self.lists[node][usize::from(active)], &mut self.pages)
    }

    /// Puts a page at the head of the list that its flags say.
    pub(super) fn push(&mut self, frame: u32) {
        let (list, pages) = self.list_of(frame);
        list.push_first(pages, frame);
    }

    /// Takes a page off its list.
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

    /// Moves a page to the tail of its list: it is the next to go.
    pub(super) fn rotate(&mut self, frame: u32) {
        let (list, pages) = self.list_of(frame);
        list.remove(pages, frame);
        list.push_last(pages, frame);
    }

    /// A page is used: the first time that is noted, the second time it becomes active.
    pub(super) fn mark_accessed(&mut self, frame: u32) {
        if !self.has(frame, REFERENCED) {
            self.set(frame, REFERENCED);
        } else if !self.has(frame, ACTIVE) {
            self.move_to(frame, true);
            self.clear(frame, REFERENCED);
        }
    }

    /// Takes a page off its list and forgets it.
    pub(super) fn forget(&mut self, frame: u32) {
        self.remove(frame);
        self.pages[frame as usize] = UNUSED;
    }

    /// What is known of one frame is true of another from now on.
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
