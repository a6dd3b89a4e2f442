//! Rings: the arrays of frame numbers that per-CPU lists are made of.
//!
//! A ring is a stack with two ends:
//!
//! | end | used by | for |
//! |---|---|---|
//! | top | the owner | pushes and pops, where the block freed last is still warm |
//! | bottom | transfers | blocks that leave for elsewhere, and blocks that come from elsewhere (or on top) |
//!
//! The owner's side costs as little as possible: two loads and a comparison, a store to the array and one to `top`.
//! Wrapping around at the end of the array costs more, and happens outside the *window* in which the owner moves.
//!
//! A ring also counts the blocks that its owner took and gave. The number taken is in the cache line that an operation
//! writes anyway. The number given is not stored: it follows from the number taken, the entries, and the blocks that
//! came and went in other ways.

use crate::frame::head::Head;
use crate::pcp::stride::fill;
use crate::seam::field::record;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::units::Frame;

/// The entries of all rings.
///
/// A reference to the place where the slice is named: the fast path reads it late, so that it occupies no register
/// before.
pub(crate) type Slots<'s, M> = &'s &'s [<M as Machine>::U32];

/// Ring entries from `start` up to, not including, `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotRange {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl SlotRange {
    pub(crate) const fn empty_at(at: u32) -> SlotRange {
        SlotRange { start: at, end: at }
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

record! {
    /// One ring; its entries lie in an array that all rings share.
    ///
    /// Positions are indices into that array, from `start` to `end`. While nothing has wrapped around, the entries are
    /// those from `bottom` to `top`. In a `wrapped` ring they are those from `bottom` to the end and from the start to
    /// `top`.
    ///
    /// `floor` and `ceiling` are the *window* in which the owner may move `top` without a further check. The owner pops
    /// while `top` is above the floor, and pushes while it is below the ceiling. Both follow from the other words
    /// ([`Ring::open`]): the window ends where the array does, or where the `quota` is used up. Next to a depot, the
    /// quotas of all rings together are what `high` allows (`quota.rs`).
    ///
    /// # Owner and thief
    ///
    /// Only the owner moves `top`. So another CPU may take from the bottom meanwhile, as a thief does from a
    /// work-stealing deque (Chase and Lev, SPAA 2005). Owner and thief must agree on which of them gets the last entry:
    ///
    /// | | owner | thief |
    /// |---|---|---|
    /// | 1 | moves `top` down | closes the window |
    /// | 2 | light fence | heavy fence |
    /// | 3 | reads the window; puts `top` back if it is closed | reads `top` |
    ///
    /// A push needs no fence: an entry that the thief does not see yet stays. All other work (wrapping around, filling,
    /// emptying to the depot) requires that the lists are held.
    ///
    /// Invariant R1: `start ≤ floor ≤ top ≤ ceiling ≤ end` while the window is open; `start` is not 0, so that `top`
    /// can be one too low for a moment.
    // A cache line of its own.
    #[repr(align(64))]
    pub(crate) struct Ring<M: Machine> {
        // Not 0: an owner that looks for a block may have `top` one too low in an empty ring as well.
        word top: M::U32 = NOWHERE,
        word floor: M::U32 = u32::MAX,
        word ceiling: M::U32,
        word bottom: M::U32 = NOWHERE,
        word wrapped: M::U32,
        word start: M::U32 = NOWHERE,
        word end: M::U32 = NOWHERE,
        /// Loaded magazine + 1, spare magazine + 1, and the spare one's number of blocks.
        ///
        /// 0 where the entries belong to no magazine, or where there is no spare one.
        word loaded: M::U32,
        pub(crate) word spare: M::U32,
        pub(crate) word spare_len: M::U32,
        /// Blocks that the ring and its spare magazine may hold without a further check.
        ///
        /// Their room may be less.
        word quota: M::U32 = u32::MAX,
        /// Blocks that the owner took.
        word taken: M::U64,
        /// Blocks that came from the zone or the depot less those that went there.
        ///
        /// So `given = entries + taken - moved`.
        word moved: M::U64,
    }
}

/// Position in a ring without room.
const NOWHERE: u32 = 1;

impl<M: Machine> Ring<M> {
    /// Returns the entries that it has room for.
    pub(crate) fn room(&self) -> SlotRange {
        SlotRange { start: self.start(), end: self.end() }
    }

    /// Assigns the entries of `room` to the ring, of which those of `used` hold blocks.
    pub(crate) fn place(&self, room: SlotRange, used: SlotRange) {
        self.start.store(room.start, Ordering::Relaxed);
        self.end.store(room.end, Ordering::Relaxed);
        self.bottom.store(used.start, Ordering::Relaxed);
        self.wrapped.store(0, Ordering::Relaxed);
        self.top.store(used.end, Ordering::Relaxed);
    }

    /// Returns the entries that hold blocks, if none of them has wrapped around.
    pub(crate) fn used(&self) -> SlotRange {
        SlotRange { start: self.bottom.load(Ordering::Relaxed), end: self.top.load(Ordering::Relaxed) }
    }

    fn start(&self) -> u32 {
        self.start.load(Ordering::Relaxed)
    }

    fn end(&self) -> u32 {
        self.end.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.end().wrapping_sub(self.start())
    }

    /// Replaces the number of the loaded magazine and returns the old one.
    pub(crate) fn load(&self, magazine: Option<u32>) -> Option<u32> {
        let loaded = self.loaded.load(Ordering::Relaxed).checked_sub(1);
        self.loaded.store(magazine.map_or(0, |index| index.wrapping_add(1)), Ordering::Relaxed);
        loaded
    }

    /// Returns the number of blocks in the ring and its spare magazine.
    pub(crate) fn total(&self) -> u32 {
        self.len().wrapping_add(self.spare_len.load(Ordering::Relaxed))
    }

    /// Sets how many blocks the ring and its spare magazine may hold.
    ///
    /// Blocks that they hold already stay.
    pub(crate) fn set_quota(&self, blocks: u32) {
        self.quota.store(blocks.max(self.total()), Ordering::Relaxed);
    }

    /// Returns the number of blocks that the ring and its spare magazine may hold.
    pub(crate) fn quota(&self) -> u32 {
        self.quota.load(Ordering::Relaxed)
    }

    /// Whether the ring may hold another block.
    pub(crate) fn is_within_quota(&self) -> bool {
        self.total() < self.quota()
    }

    /// Returns how many blocks the ring and its spare magazine hold or may hold.
    ///
    /// They may fill up to the quota without a further check.
    pub(crate) fn entitled(&self) -> u32 {
        self.quota().max(self.total())
    }

    /// Whether the entries are used up to the end of the array.
    pub(crate) fn is_at_end(&self) -> bool {
        self.top.load(Ordering::Relaxed) == self.end()
    }

    fn is_wrapped(&self) -> bool {
        self.wrapped.load(Ordering::Relaxed) != 0
    }

    /// Returns the number of entries in the ring.
    pub(crate) fn len(&self) -> u32 {
        // ORDER: Acquire. A thief sees the entries and heads below `top`; partner: the Release in `push_front`.
        // Model: front_free.
        let top = self.top.load(Ordering::Acquire);
        let bottom = self.bottom.load(Ordering::Relaxed);
        if self.is_wrapped() {
            self.end().wrapping_sub(bottom).wrapping_add(top.saturating_sub(self.start()))
        } else {
            top.saturating_sub(bottom)
        }
    }

    /// Whether there is no room for another entry.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.capacity()
    }

    /// Whether the ring, and the array, have room for its number of entries.
    pub(crate) fn fits(&self, slots: &[M::U32]) -> bool {
        let len = self.len();
        len <= self.capacity() && len as usize <= slots.len()
    }

    /// Returns the numbers of blocks that the owner took and gave, at this moment.
    pub(crate) fn traffic_racy(&self) -> (u64, u64) {
        let taken = self.taken.load(Ordering::Relaxed);
        let entries = u64::from(self.total()).wrapping_add(taken);
        (taken, entries.wrapping_sub(self.moved.load(Ordering::Relaxed)))
    }

    /// Opens the window as wide as possible.
    pub(crate) fn open(&self) {
        let bottom = self.bottom.load(Ordering::Relaxed);
        let (floor, ceiling) = if self.is_wrapped() { (self.start(), bottom) } else { (bottom, self.end()) };
        let left = self.quota().saturating_sub(self.total());
        let ceiling = ceiling.min(self.top.load(Ordering::Relaxed).saturating_add(left));
        // ORDER: Release. Publishes the entries and counters to an owner that finds the window open; partner: the
        // Acquires of both in `pop_front` and `push_front`. Model: none can; see docs/memory-ordering.md.
        self.floor.store(floor, Ordering::Release);
        self.ceiling.store(ceiling, Ordering::Release);
    }

    /// Closes the window.
    pub(crate) fn close(&self) {
        self.floor.store(u32::MAX, Ordering::Relaxed);
        self.ceiling.store(0, Ordering::Relaxed);
    }

    /// Takes the entry at the top for the owner, if the window permits it and `accept` does.
    ///
    /// `accept` is called before any write, and may be called with an old entry of an empty ring. A ring that is left
    /// as it was serves the next caller.
    #[inline(always)]
    pub(crate) fn pop_front<T>(
        &self,
        machine: &M,
        slots: Slots<'_, M>,
        accept: impl FnOnce(Frame) -> Option<T>,
    ) -> Option<T> {
        let top = self.top.load(Ordering::Relaxed);
        let next = top.wrapping_sub(1);
        let entry = slots.get(next as usize)?.load(Ordering::Relaxed);
        let accepted = accept(Frame(entry))?;
        self.top.store(next, Ordering::Relaxed);
        // ORDER: light fence. `top` is out before the window is read; partner: the heavy fence in `Pcp::close`.
        // Model: front_alloc.
        machine.front_fence();
        // ORDER: Acquire. Sees the ring as the last claimer left it; partner: the Release in `open`.
        // Model: none, as there.
        if top > self.floor.load(Ordering::Acquire) {
            return Some(accepted);
        }
        self.top.store(top, Ordering::Relaxed);
        None
    }

    /// Returns the entry at the top, at this moment; an old one if the ring is empty.
    pub(crate) fn top_racy(&self, slots: &[M::U32]) -> Option<Frame> {
        let next = self.top.load(Ordering::Relaxed).wrapping_sub(1);
        slots.get(next as usize).map(|entry| Frame(entry.load(Ordering::Relaxed)))
    }

    /// Pushes an entry for the owner, if the window permits it.
    ///
    /// `prepare` is called before any other CPU sees the entry. Returns false if the window is closed or ends here.
    #[inline(always)]
    pub(crate) fn push_front(
        &self,
        slots: Slots<'_, M>,
        entry: impl FnOnce() -> Frame,
        prepare: impl FnOnce(),
    ) -> bool {
        let top = self.top.load(Ordering::Relaxed);
        // ORDER: Acquire, as in `pop_front`.
        if top >= self.ceiling.load(Ordering::Acquire) {
            return false;
        }
        let Some(slot) = slots.get(top as usize) else { return false };
        slot.store(entry().0, Ordering::Relaxed);
        prepare();
        // ORDER: Release. Publishes the entry, the block's head and what its owner did with it; partner: the Acquire in
        // `len`. Model: front_free.
        self.top.store(top.wrapping_add(1), Ordering::Release);
        true
    }

    /// Takes up to `most` entries at the top for the owner, as far as the window permits it.
    ///
    /// Returns them, the top last.
    /// The blocks are the caller's from here on. The owner's next push writes over the entries.
    #[inline]
    pub(crate) fn pop_front_all<'s>(&self, machine: &M, slots: &'s [M::U32], most: usize) -> &'s [M::U32] {
        let top = self.top.load(Ordering::Relaxed);
        let there = top.saturating_sub(self.floor.load(Ordering::Relaxed));
        let next = top.saturating_sub(there.min(most.min(u32::MAX as usize) as u32));
        let Some(entries) = slots.get(next as usize..top as usize).filter(|entries| !entries.is_empty()) else {
            return &[];
        };
        self.top.store(next, Ordering::Relaxed);
        // ORDER: light fence, and Acquire below, as in `pop_front`. Model: front_alloc_bulk.
        machine.front_fence();
        if next >= self.floor.load(Ordering::Acquire) {
            return entries;
        }
        self.top.store(top, Ordering::Relaxed);
        &[]
    }

    /// Pushes an entry for each item for the owner, as far as the window permits it; returns how many.
    ///
    /// `entry` is called once for each item until it returns `None`. It returns the frame and its head's word, which
    /// gets the value `listed`. No other CPU sees an entry before all are there.
    #[inline(always)]
    pub(crate) fn push_front_all<'h, T>(
        &self,
        slots: &[M::U32],
        items: &[T],
        listed: Head,
        mut entry: impl FnMut(&T) -> Option<(Frame, &'h M::U8)>,
    ) -> usize
    where
        M::U8: 'h,
    {
        let top = self.top.load(Ordering::Relaxed);
        // ORDER: Acquire, as in `pop_front`.
        let ceiling = self.ceiling.load(Ordering::Acquire);
        let room = slots.get(top as usize..ceiling as usize).unwrap_or_default();
        let pushed = fill(room, items, |slot, item| {
            let (frame, head) = entry(item)?;
            // The entry first: a copy of the process finds the block by it (`fork.rs`).
            slot.store(frame.0, Ordering::Relaxed);
            head.store(listed.0, Ordering::Relaxed);
            Some(())
        });
        // ORDER: Release, as in `push_front`. Model: front_free_bulk.
        self.top.store(top.wrapping_add(pushed as u32), Ordering::Release);
        pushed
    }

    /// Counts blocks that the owner took.
    #[inline(always)]
    pub(crate) fn count_taken(&self, blocks: u64) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(blocks), Ordering::Relaxed);
    }

    /// Counts blocks that came in other ways than from the owner.
    ///
    /// For blocks that went, `change` is negated.
    pub(crate) fn count_moved(&self, change: u64) {
        self.moved.store(self.moved.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
    }

    // The methods below require that the lists are held. They leave the window as it is; an owner opens it again
    // afterwards.

    /// Takes the entry at the top.
    pub(crate) fn pop(&self, slots: &[M::U32]) -> Option<Frame> {
        if self.len() == 0 {
            return None;
        }
        if self.top.load(Ordering::Relaxed) == self.start() {
            self.top.store(self.end(), Ordering::Relaxed);
            self.wrapped.store(0, Ordering::Relaxed);
        }
        let top = self.top.load(Ordering::Relaxed).wrapping_sub(1);
        let frame = Frame(slots.get(top as usize)?.load(Ordering::Relaxed));
        self.top.store(top, Ordering::Relaxed);
        Some(frame)
    }

    /// Puts an entry on top; does nothing if there is no room.
    pub(crate) fn push(&self, slots: &[M::U32], frame: Frame) {
        if self.is_full() {
            return;
        }
        if self.top.load(Ordering::Relaxed) == self.end() {
            self.top.store(self.start(), Ordering::Relaxed);
            self.wrapped.store(1, Ordering::Relaxed);
        }
        let top = self.top.load(Ordering::Relaxed);
        if let Some(slot) = slots.get(top as usize) {
            slot.store(frame.0, Ordering::Relaxed);
            self.top.store(top.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Moves a bottom that has reached the end of the array to the start.
    fn settle_bottom(&self) {
        if self.bottom.load(Ordering::Relaxed) == self.end() && self.is_wrapped() {
            self.bottom.store(self.start(), Ordering::Relaxed);
            self.wrapped.store(0, Ordering::Relaxed);
        }
    }

    /// Takes the entry at the bottom.
    pub(crate) fn pop_bottom(&self, slots: &[M::U32]) -> Option<Frame> {
        if self.len() == 0 {
            return None;
        }
        self.settle_bottom();
        let bottom = self.bottom.load(Ordering::Relaxed);
        let frame = Frame(slots.get(bottom as usize)?.load(Ordering::Relaxed));
        self.bottom.store(bottom.wrapping_add(1), Ordering::Relaxed);
        Some(frame)
    }

    /// Makes room for `entries` entries under the bottom of an empty ring.
    pub(crate) fn rewind(&self, entries: u32) {
        let at = self.start().wrapping_add(entries.min(self.capacity()));
        self.place(self.room(), SlotRange::empty_at(at));
    }

    /// Puts an entry under all others; does nothing if there is no room.
    ///
    /// So a refill is used up in the order in which it was taken.
    pub(crate) fn push_bottom(&self, slots: &[M::U32], frame: Frame) {
        if self.is_full() {
            return;
        }
        if self.bottom.load(Ordering::Relaxed) == self.start() {
            self.bottom.store(self.end(), Ordering::Relaxed);
            self.wrapped.store(1, Ordering::Relaxed);
        }
        let bottom = self.bottom.load(Ordering::Relaxed).wrapping_sub(1);
        if let Some(slot) = slots.get(bottom as usize) {
            slot.store(frame.0, Ordering::Relaxed);
            self.bottom.store(bottom, Ordering::Relaxed);
        }
    }

    /// Restores `top` in a copy in which the owner does not exist.
    ///
    /// The owner may have moved `top` below all entries, to find that there is none for it.
    pub(crate) fn mend_top(&self) {
        let used = self.used();
        self.top.store(used.end.max(if self.is_wrapped() { self.start() } else { used.start }), Ordering::Relaxed);
    }

    /// Counts the blocks that the owner had taken and not counted yet.
    ///
    /// For a copy in which the owner does not exist. Counts them where they show: more blocks were taken than ever
    /// came. (Elsewhere as many taken and given are missing, for good.)
    pub(crate) fn mend_taken(&self) {
        let (_, given) = self.traffic_racy();
        if given > u64::MAX / 2 {
            self.count_taken(given.wrapping_neg());
        }
    }

    /// Adds the entry just above the top; returns false if there is no room.
    pub(crate) fn raise(&self) -> bool {
        let has_room = !self.is_full() && !self.is_at_end();
        if has_room {
            self.top.store(self.top.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        has_room
    }

    /// Calls `visit` with every entry, from the bottom up.
    ///
    /// Ends after as many as the array has, whatever a damaged ring claims ([`Ring::fits`]).
    pub(crate) fn each(&self, slots: &[M::U32], mut visit: impl FnMut(Frame)) {
        let mut at = self.bottom.load(Ordering::Relaxed);
        for _ in 0..slots.len().min(self.len() as usize) {
            if at == self.end() {
                at = self.start();
            }
            if let Some(slot) = slots.get(at as usize) {
                visit(Frame(slot.load(Ordering::Relaxed)));
            }
            at = at.wrapping_add(1);
        }
    }
}
