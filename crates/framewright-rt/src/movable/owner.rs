//! Whose movable pages are, and what their owner is asked.

use framewright::{Order, Pfn};

/// A page that nobody used for long, and that is to go.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// What it was allocated with.
    pub key: u64,
    /// What is in it; lost afterwards.
    pub contents: &'a [u8],
    /// Nothing is to be written out for it: if it cannot simply be forgotten, it stays.
    pub gentle: bool,
}

/// A page that is to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moving {
    /// What it was allocated with.
    pub key: u64,
    /// Binary logarithm of its size in frames.
    pub order: Order,
    /// Its first frame.
    pub from: Pfn,
    /// What that will be.
    pub to: Pfn,
}

/// Whose pages they are. A closure that says whether a page may leave is one, and lets all move.
///
/// Called with the page locked, in the middle of somebody's allocation or on a background thread, on several threads at once. It may take its
/// time, allocate and free, and drop handles, this page's too. It must not look into movable pages, nor wait for somebody who may.
/// What it allocates must carry `__GFP_MEMALLOC` or ask for no reclaim.
///
/// One that panics has said no: the page stays. The panic ends there and is counted ([`crate::Arena::callback_panics`]).
pub trait PageOwner: Send + Sync {
    /// Whether a page may go. After "yes" its handle finds nothing.
    fn leaves(&self, page: &Leaving<'_>) -> bool;

    /// Whether a page may move now. It will have moved when it is next looked at.
    fn moves(&self, page: &Moving) -> bool {
        let _ = page;
        true
    }
}

impl<F: Fn(&Leaving<'_>) -> bool + Send + Sync> PageOwner for F {
    fn leaves(&self, page: &Leaving<'_>) -> bool {
        self(page)
    }
}

/// What became of an arena's movable pages so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MovableReport {
    /// Frames of those there are.
    pub frames: u64,
    /// Pages that were moved, whatever their size.
    pub moved: u64,
    /// Pages that could not be moved when they were asked to: they were in use, or their owner refused.
    pub stayed: u64,
    /// Pages that left.
    pub left: u64,
}
