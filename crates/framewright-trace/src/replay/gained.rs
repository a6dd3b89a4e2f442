//! Huge pages that our allocator served and the kernel did not: *gained* ones.
//!
//! The kernel's task took base pages instead, one after the other. Each of these stands for a page of the gained huge
//! page, so it is not allocated again: it takes a *seat* there.
//!
//! ```text
//! kernel's base pages     0x4711   0x0815   0x1234            (allocated one by one)
//!                            |        |        |
//! our huge page        [ seat 0 | seat 1 | seat 2 | unused ... ]
//! ```
//!
//! A base page takes the next seat of its task's newest gained huge page that has one. A seat is used once. When the
//! last base page has left, the huge page is given back. When memory is short, one can be split: its unused pages are
//! freed, and the base pages with a seat go on as pages of their own.
//!
//! A seat never makes room: for at most 512 pages that the kernel has in use, all 512 are in use here. So a base page
//! that takes a seat by mistake makes our memory no emptier than the kernel's.
//!
//! Rejected: seats for base pages of other threads, which the trace does not attribute to a process. They are allocated
//! in addition.

use std::collections::{BTreeMap, HashMap};

use framewright::units::{Order, Pfn};

/// The number of a gained huge page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct GainedId(u64);

/// A gained huge page.
struct Gained {
    block: Pfn,
    task: u32,
    /// Seats that were taken, the first ones.
    taken: u64,
    /// Seats with a base page that is still in use.
    live: u64,
}

/// The effect of a base page that is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// It had no seat.
    NoSeat,
    /// Others still have seats.
    Others,
    /// It was the last one of the huge page that starts here.
    Last(Pfn),
}

/// All gained huge pages in use.
pub(super) struct GainedPages {
    order: Order,
    next: u64,
    pages: BTreeMap<GainedId, Gained>,
    by_block: HashMap<Pfn, GainedId>,
    /// Those with seats left, the newest last.
    by_task: HashMap<u32, Vec<GainedId>>,
}

impl GainedPages {
    pub(super) fn new(order: Order) -> GainedPages {
        let (by_block, by_task) = (HashMap::new(), HashMap::new());
        GainedPages { order, next: 0, pages: BTreeMap::new(), by_block, by_task }
    }

    /// Adds the huge page at `block`, which a task gained.
    pub(super) fn gain(&mut self, task: u32, block: Pfn) -> GainedId {
        let id = GainedId(self.next);
        self.next += 1;
        self.pages.insert(id, Gained { block, task, taken: 0, live: 0 });
        self.by_block.insert(block, id);
        self.by_task.entry(task).or_default().push(id);
        id
    }

    /// First frame of a gained huge page; none if it was given back or split.
    pub(super) fn block(&self, id: GainedId) -> Option<Pfn> {
        self.pages.get(&id).map(|gained| gained.block)
    }

    /// Takes a seat for a base page of a task, and returns our frame; none if no seat is left.
    pub(super) fn seat(&mut self, task: u32) -> Option<Pfn> {
        let id = *self.by_task.get(&task)?.last()?;
        let seats = self.order.frames();
        let gained = self.pages.get_mut(&id)?;
        let frame = gained.block.add(gained.taken);
        gained.taken += 1;
        gained.live += 1;
        if gained.taken == seats {
            self.seats_end(task, id);
        }
        Some(frame)
    }

    /// Whether our frame is part of a gained huge page.
    pub(super) fn has(&self, ours: Pfn) -> bool {
        !self.by_block.is_empty() && self.by_block.contains_key(&ours.align_down(self.order))
    }

    /// The base page in our frame was freed.
    pub(super) fn leave(&mut self, ours: Pfn) -> Left {
        if self.by_block.is_empty() {
            return Left::NoSeat;
        }
        let id = self.by_block.get(&ours.align_down(self.order)).copied();
        let Some((id, gained)) = id.and_then(|id| Some((id, self.pages.get_mut(&id)?))) else { return Left::NoSeat };
        gained.live = gained.live.saturating_sub(1);
        if gained.live != 0 {
            return Left::Others;
        }
        self.remove(id).map_or(Left::NoSeat, Left::Last)
    }

    /// Stops following a gained huge page, and returns its first frame.
    pub(super) fn remove(&mut self, id: GainedId) -> Option<Pfn> {
        let Gained { block, task, .. } = self.pages.remove(&id)?;
        self.by_block.remove(&block);
        self.seats_end(task, id);
        Some(block)
    }

    /// Our allocator moved a block.
    pub(super) fn relocate(&mut self, from: Pfn, to: Pfn) {
        let Some(id) = self.by_block.remove(&from) else { return };
        self.by_block.insert(to, id);
        if let Some(gained) = self.pages.get_mut(&id) {
            gained.block = to;
        }
    }

    /// The gained huge page with the most unused pages, among those at blocks that `may` allows; of equals, the oldest.
    pub(super) fn emptiest(&self, mut may: impl FnMut(Pfn) -> bool) -> Option<GainedId> {
        let unused = |gained: &Gained| self.order.frames().saturating_sub(gained.live);
        let pages = self.pages.iter().filter(|(_, gained)| unused(gained) != 0 && may(gained.block));
        pages.min_by_key(|&(&id, gained)| (gained.live, id)).map(|(&id, _)| id)
    }

    /// Frames of gained huge pages that no base page uses.
    pub(super) fn unused(&self) -> u64 {
        self.pages.values().map(|gained| self.order.frames().saturating_sub(gained.live)).sum()
    }

    fn seats_end(&mut self, task: u32, id: GainedId) {
        if let Some(ids) = self.by_task.get_mut(&task) {
            ids.retain(|&other| other != id);
            if ids.is_empty() {
                self.by_task.remove(&task);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_those_of_the_newest_page_and_are_used_once() {
        let mut gained = GainedPages::new(Order(1));
        assert_eq!((gained.seat(7), gained.leave(Pfn(8))), (None, Left::NoSeat));
        let old = gained.gain(7, Pfn(8));
        let new = gained.gain(7, Pfn(16));
        assert_eq!((gained.seat(8), gained.seat(7), gained.seat(7)), (None, Some(Pfn(16)), Some(Pfn(17))));
        // A seat that was left is not taken again; the older page has the next one.
        assert_eq!((gained.leave(Pfn(17)), gained.seat(7)), (Left::Others, Some(Pfn(8))));
        assert_eq!((gained.leave(Pfn(16)), gained.block(new)), (Left::Last(Pfn(16)), None));
        // The page moves, and the last one to leave gives it back.
        gained.relocate(Pfn(8), Pfn(32));
        assert_eq!((gained.block(old), gained.has(Pfn(33)), gained.has(Pfn(8))), (Some(Pfn(32)), true, false));
        assert_eq!((gained.leave(Pfn(32)), gained.seat(7)), (Left::Last(Pfn(32)), None));
    }

    #[test]
    fn the_emptiest_is_split_first() {
        let mut gained = GainedPages::new(Order(2));
        let ids = [8, 16, 24, 32].map(|block| gained.gain(block, Pfn(u64::from(block))));
        // In use: 4, 2, 1 and 1 of 4 pages.
        for (task, count) in [(8, 4), (16, 2), (24, 1), (32, 1)] {
            (0..count).for_each(|_| assert!(gained.seat(task).is_some()));
        }
        assert_eq!(gained.unused(), 2 + 3 + 3);
        assert_eq!(gained.emptiest(|_| true), Some(ids[2]));
        assert_eq!(gained.emptiest(|block| block != Pfn(24)), Some(ids[3]));
        assert_eq!(gained.emptiest(|block| block < Pfn(24)), Some(ids[1]));
        assert_eq!(gained.emptiest(|block| block < Pfn(16)), None);
        assert_eq!((gained.remove(ids[2]), gained.emptiest(|_| true)), (Some(Pfn(24)), Some(ids[3])));
    }
}
