//! Rings: the arrays of frame numbers that per-CPU lists are made of.
//!
//! A ring is a stack with two ends. Its owner pushes and pops at the top, where what was freed last is still warm; what goes
//! elsewhere is taken from the bottom, and what comes from elsewhere is put there or on top. The owner's side is made to
//! cost as little as there is: two loads and a comparison, a store to the array and one to `top`. Going round at the end of
//! the array, which needs more, happens outside of the *window* in which the owner moves.
//!
//! A ring also counts the blocks that its owner took and gave: the first in the line that an operation writes anyway, the
//! second not at all, because it follows from the first, the entries, and what came and went on the other ways.

use core::fmt;

use crate::seam::field::{Words, tell};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, Order};

/// Orders 0 to 3 have per-CPU lists (above, a request costs more than a list saves), and the pageblock order.
pub(crate) const SMALL_ORDERS: usize = 4;
/// Rings of the small orders, by order and then by type.
pub(crate) const SMALL_RINGS: usize = SMALL_ORDERS * MigrateType::PCP_COUNT;
/// Rings of small orders, then two for huge pages: movable and not.
pub(crate) const RINGS: usize = SMALL_RINGS + 2;

/// One of a CPU's lists: an order, and a mobility that requests can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RingId {
    pub(crate) index: usize,
    pub(crate) order: Order,
}

impl RingId {
    /// The ring for blocks of an order and type; none if such blocks are not kept per CPU.
    #[inline]
    pub(crate) const fn of(order: Order, migratetype: MigrateType, pageblock_order: Order) -> Option<RingId> {
        match migratetype.pcp_index() {
            Some(lists) => RingId::with_lists(order, lists, pageblock_order),
            None => None,
        }
    }

    /// The same, by the type's number among those of lists (see `MigrateType::pcp_index`).
    #[inline(always)]
    pub(crate) const fn with_lists(order: Order, lists: usize, pageblock_order: Order) -> Option<RingId> {
        if order.0 == pageblock_order.0 && order.index() >= SMALL_ORDERS {
            let movable = (lists == MigrateType::Movable.index()) as usize;
            return Some(RingId { index: SMALL_RINGS + movable, order });
        }
        if order.index() < SMALL_ORDERS && lists < MigrateType::PCP_COUNT {
            Some(RingId { index: order.index() * MigrateType::PCP_COUNT + lists, order })
        } else {
            None
        }
    }

    /// Which of the rings for huge pages it is, if it is one.
    #[inline(always)]
    pub(crate) const fn huge(self) -> Option<usize> {
        self.index.checked_sub(SMALL_RINGS)
    }

    /// Number of the type of lists, of a ring of a small order.
    #[inline(always)]
    pub(crate) const fn lists(self) -> usize {
        self.index % MigrateType::PCP_COUNT
    }

    /// Like [`RingId::lists`], without a division: for the front. Of a ring for huge pages, no such number.
    #[inline(always)]
    pub(crate) const fn small_lists(self) -> usize {
        self.index.wrapping_sub(self.order.index().wrapping_mul(MigrateType::PCP_COUNT))
    }

    /// Every ring that a geometry has.
    pub(crate) fn all(pageblock_order: Order) -> impl Iterator<Item = RingId> {
        (0..RINGS).filter_map(move |index| RingId::nth(index, pageblock_order))
    }

    /// The ring with this index; none beyond the last, and where a geometry keeps no huge pages per CPU.
    #[inline]
    pub(crate) fn nth(index: usize, pageblock_order: Order) -> Option<RingId> {
        let huge = (SMALL_RINGS..RINGS).contains(&index) && pageblock_order.index() >= SMALL_ORDERS;
        if huge { Some(RingId { index, order: pageblock_order }) } else { RingId::small_nth(index) }
    }

    /// The ring with this index, of a small order.
    pub(crate) const fn small_nth(index: usize) -> Option<RingId> {
        let order = Order((index / MigrateType::PCP_COUNT) as u8);
        if index < SMALL_RINGS { Some(RingId { index, order }) } else { None }
    }

    /// Entries that the ring needs for `frames` frames: at least two refills, rounded to a power of two.
    #[inline]
    pub(crate) fn capacity(self, frames: u32) -> u32 {
        (frames >> self.order.0.min(31)).clamp(4, 1 << 25).next_power_of_two()
    }
}

/// The entries of all rings. By a reference to where they are named: read in the middle of the front, they take no register before.
pub(crate) type Slots<'s, M> = &'s &'s [<M as Machine>::U32];

/// One ring; its entries lie in an array that all rings share.
///
/// Positions are indices into that array, from `start` to `end`. While nothing has gone round, the entries are
/// those from `bottom` to `top`; `wrapped`, they are those from `bottom` to the end and from the start to `top`.
///
/// `floor` and `ceiling` are the *window* in which the owner may move `top` without a further look: pop while it is above the
/// floor, push while it is below the ceiling. They follow from the rest ([`Ring::open`]): the window ends where the array does, or where the
/// `quota` is used up. Next to a depot the quotas of all rings together are what `high` allows (`lists.rs`).
///
/// # Two ends, two sides
///
/// The owner moves `top` alone, so somebody else may take from the bottom meanwhile, as a thief does from a work-stealing
/// deque (Chase and Lev, SPAA 2005). They must agree on who gets the last entry: the thief closes the window, then looks at
/// `top`; the owner moves `top` down, then looks at the window, and puts `top` back if that is closed. Between the two
/// halves of each side stands a fence, the light one on the owner's side. A push needs none: an entry that the thief does
/// not see yet stays. All else (going round, filling, emptying to the depot) is for whoever holds the lists.
///
/// Invariant R1: `start ≤ floor ≤ top ≤ ceiling ≤ end` while the window is open; `start` is not 0, so that `top` can
/// be one too low for a moment.
// A line of its own.
#[repr(align(64))]
pub(crate) struct Ring<M: Machine> {
    top: M::U32,
    floor: M::U32,
    ceiling: M::U32,
    bottom: M::U32,
    wrapped: M::U32,
    start: M::U32,
    end: M::U32,
    /// Where the entries are those of a magazine: its number + 1; and that of the spare one, which has so many blocks.
    loaded: M::U32,
    pub(crate) spare: M::U32,
    pub(crate) spare_len: M::U32,
    /// Blocks that the ring and its spare magazine may hold without a further look, as far as they have room.
    quota: M::U32,
    /// Blocks that the owner took.
    taken: M::U64,
    /// Blocks that came from the zone or the depot less those that went there; so `given = entries + taken - moved`.
    moved: M::U64,
}

impl<M: Machine> Default for Ring<M> {
    fn default() -> Self {
        let word = || Word::new(0);
        // Not 0, so that an owner who looks for a block may have `top` one too low here as well.
        let nowhere = || Word::new(1);
        Ring {
            top: nowhere(),
            floor: Word::new(u32::MAX),
            ceiling: word(),
            bottom: nowhere(),
            wrapped: word(),
            start: nowhere(),
            end: nowhere(),
            loaded: word(),
            spare: word(),
            spare_len: word(),
            quota: Word::new(u32::MAX),
            taken: Word::new(0),
            moved: Word::new(0),
        }
    }
}

impl<M: Machine> Ring<M> {
    /// Names its words; `order` comes behind each name.
    pub(crate) fn words(&self, (ring, order): (&str, &dyn fmt::Display), visit: &mut Words<'_>) {
        tell(visit, format_args!("{ring}.top{order}"), &self.top);
        tell(visit, format_args!("{ring}.floor{order}"), &self.floor);
        tell(visit, format_args!("{ring}.ceiling{order}"), &self.ceiling);
        tell(visit, format_args!("{ring}.bottom{order}"), &self.bottom);
        tell(visit, format_args!("{ring}.wrapped{order}"), &self.wrapped);
        tell(visit, format_args!("{ring}.start{order}"), &self.start);
        tell(visit, format_args!("{ring}.end{order}"), &self.end);
        tell(visit, format_args!("{ring}.loaded{order}"), &self.loaded);
        tell(visit, format_args!("{ring}.spare{order}"), &self.spare);
        tell(visit, format_args!("{ring}.spare_len{order}"), &self.spare_len);
        tell(visit, format_args!("{ring}.quota{order}"), &self.quota);
        tell(visit, format_args!("{ring}.taken{order}"), &self.taken);
        tell(visit, format_args!("{ring}.moved{order}"), &self.moved);
    }

    /// The entries that it has room for: from, to.
    pub(crate) fn room(&self) -> (u32, u32) {
        (self.start(), self.end())
    }

    /// Gives the ring the entries from `start` to `end`, of which those from `bottom` to `top` are used.
    pub(crate) fn place(&self, (start, end): (u32, u32), (bottom, top): (u32, u32)) {
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.bottom.store(bottom, Ordering::Relaxed);
        self.wrapped.store(0, Ordering::Relaxed);
        self.top.store(top, Ordering::Relaxed);
    }

    /// The entries in use, if nothing has gone round: from, to.
    pub(crate) fn used(&self) -> (u32, u32) {
        (self.bottom.load(Ordering::Relaxed), self.top.load(Ordering::Relaxed))
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

    /// The loaded magazine; and another one from now on.
    pub(crate) fn load(&self, magazine: Option<u32>) -> Option<u32> {
        let loaded = self.loaded.load(Ordering::Relaxed).checked_sub(1);
        self.loaded.store(magazine.map_or(0, |index| index.wrapping_add(1)), Ordering::Relaxed);
        loaded
    }

    /// Blocks in the ring and its spare magazine.
    pub(crate) fn total(&self) -> u32 {
        self.len().wrapping_add(self.spare_len.load(Ordering::Relaxed))
    }

    /// Sets how many blocks the ring and its spare magazine may hold. What they hold already stays.
    pub(crate) fn set_quota(&self, blocks: u32) {
        self.quota.store(blocks.max(self.total()), Ordering::Relaxed);
    }

    /// Blocks that the ring and its spare magazine may hold.
    pub(crate) fn quota(&self) -> u32 {
        self.quota.load(Ordering::Relaxed)
    }

    /// Whether the ring may hold another block.
    pub(crate) fn is_within_quota(&self) -> bool {
        self.total() < self.quota()
    }

    /// Blocks that the ring and its spare magazine hold, or may hold without a further look.
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

    /// Entries in the ring.
    pub(crate) fn len(&self) -> u32 {
        // ORDER: Acquire. A thief sees the entries and heads below it; partner: the Release in `push_front`.
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

    /// Whether the ring has room for what it says it has.
    pub(crate) fn fits(&self) -> bool {
        self.len() <= self.capacity()
    }

    /// Blocks that the owner took from the ring, and blocks that it gave, at this moment.
    pub(crate) fn traffic_racy(&self) -> (u64, u64) {
        let taken = self.taken.load(Ordering::Relaxed);
        let entries = u64::from(self.total()).wrapping_add(taken);
        (taken, entries.wrapping_sub(self.moved.load(Ordering::Relaxed)))
    }

    /// Opens the window as wide as it may be.
    pub(crate) fn open(&self) {
        let bottom = self.bottom.load(Ordering::Relaxed);
        let (floor, ceiling) = if self.is_wrapped() { (self.start(), bottom) } else { (bottom, self.end()) };
        let left = self.quota().saturating_sub(self.total());
        let ceiling = ceiling.min(self.top.load(Ordering::Relaxed).saturating_add(left));
        // ORDER: Release. Publishes the entries and counters to an owner who finds the window open; partner: the Acquires
        // of both in `pop_front` and `push_front`. Model: none can; see docs/memory-ordering.md.
        self.floor.store(floor, Ordering::Release);
        self.ceiling.store(ceiling, Ordering::Release);
    }

    /// Closes the window.
    pub(crate) fn close(&self) {
        self.floor.store(u32::MAX, Ordering::Relaxed);
        self.ceiling.store(0, Ordering::Relaxed);
    }

    /// The owner takes the entry at the top, if the window lets it.
    #[inline(always)]
    pub(crate) fn pop_front(&self, machine: &M, slots: Slots<'_, M>) -> Option<Frame> {
        let top = self.top.load(Ordering::Relaxed);
        let next = top.wrapping_sub(1);
        // Before anything is written: a caller without entries leaves the ring as it is.
        let slot = slots.get(next as usize)?;
        self.top.store(next, Ordering::Relaxed);
        // ORDER: light fence. `top` is out before the window is looked at; partner: the heavy fence in `Pcp::close`.
        // Model: front_alloc.
        machine.front_fence();
        // ORDER: Acquire. Sees the ring as the last claimer left it; partner: the Release in `open`. Model: none, as there.
        if top > self.floor.load(Ordering::Acquire) {
            return Some(Frame(slot.load(Ordering::Relaxed)));
        }
        self.top.store(top, Ordering::Relaxed);
        None
    }

    /// The owner puts an entry on top, if the window lets it; `prepare` is called before anybody sees it.
    #[inline(always)]
    pub(crate) fn push_front(&self, slots: Slots<'_, M>, frame: Frame, prepare: impl FnOnce()) -> bool {
        let top = self.top.load(Ordering::Relaxed);
        // ORDER: Acquire, as in `pop_front`.
        if top >= self.ceiling.load(Ordering::Acquire) {
            return false;
        }
        let Some(slot) = slots.get(top as usize) else { return false };
        slot.store(frame.0, Ordering::Relaxed);
        prepare();
        // ORDER: Release. Publishes the entry, the block's head and what its owner did with it; partner: the Acquire in `len`.
        // Model: front_free.
        self.top.store(top.wrapping_add(1), Ordering::Release);
        true
    }

    /// Counts a block that the owner took.
    #[inline(always)]
    pub(crate) fn count_taken(&self) {
        self.taken.store(self.taken.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts blocks that came on other ways than from the owner; those that went as a negative number.
    pub(crate) fn count_moved(&self, change: u64) {
        self.moved.store(self.moved.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
    }

    // What follows is for whoever holds the lists. It leaves the window as it is: an owner opens it anew afterwards.

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

    /// Puts an entry on top; nothing if there is no room.
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

    /// Brings a bottom that has reached the end of the array back to the start.
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
        self.place((self.start(), self.end()), (at, at));
    }

    /// Puts an entry under all others, so that a refill is used up in the order it was taken; nothing if there is no room.
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

    /// For a copy in which the owner is not there: where he had moved the top below all entries, to see that there is none for
    /// him, brings it back.
    pub(crate) fn mend_top(&self) {
        let (bottom, top) = self.used();
        self.top.store(top.max(if self.is_wrapped() { self.start() } else { bottom }), Ordering::Relaxed);
    }

    /// In such a copy, counts a block that the owner had taken and not counted yet where that shows: more were taken than ever
    /// came. (Elsewhere one taken and one given are missing, for good.)
    pub(crate) fn mend_taken(&self) {
        let (_, given) = self.traffic_racy();
        if given > u64::MAX / 2 {
            self.count_taken();
        }
    }

    /// Takes the entry just above the top in; false if there is no room.
    pub(crate) fn raise(&self) -> bool {
        let has_room = !self.is_full() && !self.is_at_end();
        if has_room {
            self.top.store(self.top.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        has_room
    }

    /// Calls `visit` with every entry, from the bottom up.
    pub(crate) fn each(&self, slots: &[M::U32], mut visit: impl FnMut(Frame)) {
        let mut at = self.bottom.load(Ordering::Relaxed);
        for _ in 0..self.len() {
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
