//! The owner of movable pages, and the questions that it is asked.

use framewright::{Order, Pfn};

/// A page that was not used for long, and is to be evicted.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    /// The key that it was allocated with.
    pub key: u64,
    /// Its contents, lost afterwards.
    pub contents: &'a [u8],
    /// Nothing is to be written out for it: if it cannot simply be forgotten, it stays.
    pub gentle: bool,
}

/// A page that is to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moving {
    /// The key that it was allocated with.
    pub key: u64,
    /// Binary logarithm of its size in frames.
    pub order: Order,
    /// Its first frame.
    pub from: Pfn,
    /// Its first frame after the move.
    pub to: Pfn,
}

/// Decides whether its pages may be evicted or moved.
///
/// A closure that answers the first allows all moves.
///
/// Context: the page is locked, inside some thread's allocation or on a background thread, on several threads at once.
/// The owner may take time, allocate and free, and drop handles, also this page's. It must not read or write movable
/// pages, nor wait for a thread that may. Its own requests must carry `__GFP_MEMALLOC` or ask for no reclaim.
///
/// An owner that panics has said no: the page stays. The panic ends there and is counted
/// ([`crate::Arena::callback_panics`]).
pub trait PageOwner: Send + Sync {
    /// Whether a page may go. After "yes" its handle finds nothing.
    fn leaves(&self, page: &Leaving<'_>) -> bool;

    /// Whether a page may move now.
    ///
    /// It will have moved when it is next looked at.
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

/// Counts of an arena's movable pages so far.
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
