//! What is known of each frame.
//!
//! Three dense arrays, indexed by [`Frame`], 17 bytes in all, apart so that each path touches only what it needs:
//!
//! | array | bytes | says | written by |
//! |---|---|---|---|
//! | head | 1 | whether an allocated or per-CPU block starts here, and its order | whoever owns the block, plainly; under the zone lock who frees a part of it |
//! | state | 8 | whether a *free* block starts here (order, list), or the block is offline or in quarantine | under the zone lock; by a CAS where it is shared |
//! | link | 8 | neighbours on a free list | under the zone lock |
//!
//! **A memory of zeros is a hole**: no head, no state, no link. The arrays need no initialisation, and booting touches only
//! descriptors of block heads.
//!
//! At any quiescent moment each frame that is memory lies in exactly one block, and the block's *first* frame says all about
//! it; the others (tails) are zero in `head` and `Out` in `state`. So a block is split or merged without visiting
//! its tails, and a frame's block is found by looking at the at most 19 frames where it could start.
//!
//! The fast path reads and writes the head byte alone. That is not atomic against a second CPU that frees the same
//! block in the same instant: the one wrong free that is not caught (a swap there would double the path's cost).
//!
//! Frames are numbered by *sections* of the largest block's size, of which those without memory have no descriptors: `map.rs`
//! translates.

use crate::frame::map::Map;
use crate::frame::owned_pageblock::Estates;
use crate::frame::pageblock::Pageblock;
use crate::seam::machine::{Machine, Ordering, Word};
use crate::sync::smp_list::Link;
use crate::types::units::{CpuId, Frame, MigrateType, Order, Pfn, PfnRange};

/// Sizes fixed at boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Binary logarithm of the page size in bytes.
    pub page_shift: u8,
    /// Order of the largest block.
    pub max_order: Order,
    /// Order of a pageblock, the unit of grouping by mobility.
    pub pageblock_order: Order,
}

/// A block that is neither allocated nor on a per-CPU list: see the module's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State(pub(crate) u64);

/// What a [`State`] says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// No free block starts here.
    Out,
    /// A free block starts here, and it is on its list.
    Free,
    /// A block that is withheld: reserved at boot, or taken offline.
    Offline,
    /// A block that was put aside because its descriptors were damaged.
    Quarantined,
}

// Bits: 0-1 kind, 2-6 order, 7-9 migratetype, 10-14 check, 15 merge skipped, 16-31 owner, 32-63 generation.
//
// Each bit of kind, order and type is in exactly one bit of the check, so that any single flipped bit of these shows. A word
// that does not check says "quarantined": nobody takes it for a free block. A flipped bit 15 costs a look or a merge.
impl State {
    const ORDER: u32 = 2;
    const TYPE: u32 = 7;
    const CHECK: u32 = 10;
    const SKIPPED: u64 = 1 << 15;
    const OWNER: u32 = 16;
    const GENERATION: u32 = 32;
    const LOW: u64 = 0xffff;

    const fn check(kind: u64, order: u64, migratetype: u64) -> u64 {
        order ^ migratetype ^ kind << 3
    }

    const fn is_sound(self) -> bool {
        let (kind, order, migratetype) = (self.0 & 3, self.0 >> State::ORDER & 0x1f, self.0 >> State::TYPE & 7);
        self.0 >> State::CHECK & 0x1f == State::check(kind, order, migratetype)
    }

    pub(crate) const fn kind(self) -> Kind {
        match self.0 & 3 {
            _ if !self.is_sound() => Kind::Quarantined,
            0 => Kind::Out,
            1 => Kind::Free,
            2 => Kind::Offline,
            _ => Kind::Quarantined,
        }
    }

    /// The block's order; 0 where the word does not check.
    pub(crate) const fn order(self) -> Order {
        if self.is_sound() { Order((self.0 >> State::ORDER) as u8 & 0x1f) } else { Order(0) }
    }

    pub(crate) const fn migratetype(self) -> MigrateType {
        match MigrateType::from_index((self.0 >> State::TYPE) as usize & 7) {
            Some(migratetype) => migratetype,
            None => MigrateType::Isolate,
        }
    }

    /// Whether a free block of just this order and type starts here.
    pub(crate) const fn is_free_of(self, order: Order, migratetype: MigrateType) -> bool {
        self.0 & State::LOW & !State::SKIPPED == State(0).with(1, order, migratetype).0
    }

    /// Whether a free block of just this order starts here, of whatever type. Only asked for a hint: the check is not looked at.
    pub(crate) const fn is_free_as_large(self, order: Order) -> bool {
        self.0 & 0x7f == 1 | (order.0 as u64) << State::ORDER
    }

    /// The order and type, if a free block starts here.
    #[inline]
    pub(crate) fn as_free(self) -> Option<(Order, MigrateType)> {
        (self.kind() == Kind::Free).then(|| (self.order(), self.migratetype()))
    }

    pub(crate) const fn generation(self) -> u32 {
        (self.0 >> State::GENERATION) as u32
    }

    const fn with(self, kind: u64, order: Order, migratetype: MigrateType) -> State {
        let (order, migratetype) = (order.0 as u64 & 0x1f, migratetype as u64);
        let check = State::check(kind, order, migratetype);
        let low = kind | order << State::ORDER | migratetype << State::TYPE | check << State::CHECK;
        State(self.0 & !State::LOW | low)
    }

    /// Out → free.
    pub(crate) fn free(self, order: Order, migratetype: MigrateType) -> Option<State> {
        let is_out = self.0 & State::LOW & !State::SKIPPED == 0;
        is_out.then(|| self.with(1, order, migratetype))
    }

    /// Free → out, with a new generation and the CPU that took it.
    #[inline]
    pub(crate) fn take(self, order: Order, cpu: CpuId) -> Option<State> {
        let (actual, _) = self.as_free()?;
        (actual == order).then_some(self.taken(cpu))
    }

    /// The same of a block that is known to be free.
    pub(crate) const fn taken(self, cpu: CpuId) -> State {
        let generation = (self.generation().wrapping_add(1) as u64) << State::GENERATION;
        State(generation | (cpu.0 as u64) << State::OWNER)
    }

    /// Free → free on another list.
    pub(crate) fn retype(self, migratetype: MigrateType) -> Option<State> {
        let (order, _) = self.as_free()?;
        Some(State(self.with(1, order, migratetype).0 | self.0 & State::SKIPPED))
    }

    /// The same free block, marked: nobody looked whether it could merge with its buddy.
    pub(crate) const fn skipped(self) -> State {
        State(self.0 | State::SKIPPED)
    }

    /// Whether it is so marked.
    pub(crate) const fn is_skipped(self) -> bool {
        self.0 & State::SKIPPED != 0
    }

    /// Out → offline.
    pub(crate) fn retire(self, order: Order) -> Option<State> {
        (self.kind() == Kind::Out).then(|| self.with(2, order, MigrateType::Unmovable))
    }

    /// Anything → quarantined: what it said before is not believed.
    pub(crate) const fn quarantine(self, order: Order) -> State {
        self.with(3, order, MigrateType::Unmovable)
    }

    /// Offline → out.
    pub(crate) fn revive(self) -> Option<State> {
        (self.kind() == Kind::Offline).then_some(State(self.0 & !State::LOW))
    }
}

/// A block that is allocated or on a per-CPU list: see the module's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head(pub(crate) u8);

// Bits: 0-4 order, 5 allocated, 6 movable, 7 on a per-CPU list; 5 and 7: allocated, and somebody is freeing it.
impl Head {
    pub(crate) const NONE: Head = Head(0);
    const ORDER: u8 = 0x1f;
    const ALLOCATED: u8 = 0x20;
    const MOVABLE: u8 = 0x40;
    const PCP: u8 = 0x80;

    pub(crate) const fn allocated(order: Order, movable: bool) -> Head {
        Head(order.0 & Head::ORDER | Head::ALLOCATED | if movable { Head::MOVABLE } else { 0 })
    }

    pub(crate) const fn pcp(order: Order) -> Head {
        Head(order.0 & Head::ORDER | Head::PCP)
    }

    pub(crate) const fn order(self) -> Order {
        Order(self.0 & Head::ORDER)
    }

    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn is_allocated(self) -> bool {
        self.0 & Head::ALLOCATED != 0
    }

    /// Whether it says that an allocated block of exactly this order starts here; never for an order that no head can have.
    pub(crate) const fn is_allocated_of(self, order: Order) -> bool {
        order.0 <= Head::ORDER && self.0 & !Head::MOVABLE == Head::allocated(order, false).0
    }

    pub(crate) const fn is_movable(self) -> bool {
        self.0 & !Head::ORDER == Head::ALLOCATED | Head::MOVABLE
    }

    /// Whether the block is being freed, and nobody else can.
    pub(crate) const fn is_going(self) -> bool {
        self.0 & (Head::PCP | Head::ALLOCATED) == Head::PCP | Head::ALLOCATED
    }

    pub(crate) const fn is_pcp(self) -> bool {
        self.0 & (Head::PCP | Head::ALLOCATED) == Head::PCP
    }
}

/// A descriptor holds what it cannot hold. Names the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Corrupt(pub(crate) Frame);

/// What a frame is part of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// No memory.
    Hole,
    /// A block on a free list.
    Free(Frame, Order),
    /// A block on a per-CPU list, or being freed.
    Pcp(Frame, Order),
    /// An allocated block.
    Allocated(Frame, Order),
    /// A block that is withheld.
    Offline(Frame, Order),
    /// A block that was put aside.
    Quarantined(Frame, Order),
}

impl Part {
    /// First frame behind the part, seen from `frame`.
    pub(crate) fn end(self, frame: Frame) -> Frame {
        match self {
            Part::Hole => frame.add(1),
            Part::Free(head, order)
            | Part::Pcp(head, order)
            | Part::Allocated(head, order)
            | Part::Offline(head, order)
            | Part::Quarantined(head, order) => head.add(order.frames()),
        }
    }
}

/// All descriptors, and the translation of frame numbers.
pub(crate) struct Frames<'a, M: Machine> {
    pub(crate) geometry: Geometry,
    pub(crate) map: Map<'a>,
    pub(crate) states: &'a [M::U64],
    pub(crate) links: &'a [Link<M>],
    pub(crate) heads: &'a [M::U8],
    pub(crate) pageblocks: &'a [M::U32],
    pub(crate) estates: Estates<'a, M>,
}

impl<M: Machine> Frames<'_, M> {
    /// The descriptor index of a frame number; none outside of every section.
    #[inline]
    pub(crate) fn frame(&self, pfn: Pfn) -> Option<Frame> {
        self.map.frame(pfn)
    }

    /// The frame number of a descriptor index; `u64::MAX` for an index that no descriptor has.
    #[inline(always)]
    pub(crate) fn pfn(&self, frame: Frame) -> Pfn {
        self.map.pfn(frame)
    }

    pub(crate) fn state(&self, frame: Frame) -> State {
        self.states.get(frame.index()).map_or(State(0), |word| State(word.load(Ordering::Relaxed)))
    }

    /// The frame's descriptor will be written to.
    pub(crate) fn ask_for(&self, machine: &M, frame: Frame) {
        if let Some(word) = self.states.get(frame.index()) {
            machine.prefetch(word);
        }
    }

    /// Changes a state word by a transition that must apply to what it holds.
    pub(crate) fn change(&self, frame: Frame, transition: impl Fn(State) -> Option<State>) -> Result<(), Corrupt> {
        let word = self.states.get(frame.index()).ok_or(Corrupt(frame))?;
        let now = State(word.load(Ordering::Relaxed));
        let next = transition(now).ok_or(Corrupt(frame))?;
        // Relaxed: the zone lock orders list changes; the CAS is there to catch who changes it without.
        word.cas(now.0, next.0, Ordering::Relaxed).map(drop).map_err(|_| Corrupt(frame))
    }

    #[inline(always)]
    pub(crate) fn head(&self, frame: Frame) -> Head {
        self.heads.get(frame.index()).map_or(Head::NONE, |word| Head(word.load(Ordering::Relaxed)))
    }

    #[inline(always)]
    pub(crate) fn set_head(&self, frame: Frame, head: Head) {
        if let Some(word) = self.heads.get(frame.index()) {
            word.store(head.0, Ordering::Relaxed);
        }
    }

    /// Takes [`Frames::claim_head`] back.
    pub(crate) fn unclaim_head(&self, frame: Frame) {
        self.set_head(frame, Head(self.head(frame).0 & !Head::PCP));
    }

    /// Marks an allocated block as being freed, atomically: of two who try at the same instant, one succeeds.
    pub(crate) fn claim_head(&self, frame: Frame, order: Order) -> bool {
        let Some(word) = self.heads.get(frame.index()) else { return false };
        let head = Head(word.load(Ordering::Relaxed));
        head.is_allocated_of(order) && word.cas(head.0, head.0 | Head::PCP, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    pub(crate) fn pageblock(&self, frame: Frame) -> Pageblock {
        let index = frame.index() >> self.geometry.pageblock_order.0;
        self.pageblocks.get(index).map_or(Pageblock::HOLE, |word| Pageblock(word.load(Ordering::Relaxed)))
    }

    /// Rewrites the word of the pageblock around `frame`; the zone lock is held.
    pub(crate) fn set_pageblock(&self, frame: Frame, pageblock: Pageblock) {
        let index = frame.index() >> self.geometry.pageblock_order.0;
        if let Some(word) = self.pageblocks.get(index) {
            word.store(pageblock.0, Ordering::Relaxed);
        }
    }

    /// Whether all pageblocks of a block have the same type.
    pub(crate) fn is_of_one_type(&self, frame: Frame, order: Order) -> bool {
        let migratetype = self.pageblock(frame).migratetype();
        let mut rest = PfnRange::new(0, order.frames()).blocks(self.geometry.pageblock_order);
        rest.all(|(offset, _)| self.pageblock(frame.add(offset.0)).migratetype() == migratetype)
    }

    /// Sets the type of every pageblock that a block covers or lies in; it is the caller's own, or the pageblock has the type.
    pub(crate) fn retag(&self, frame: Frame, order: Order, migratetype: MigrateType) {
        for (offset, _) in PfnRange::new(0, order.frames()).blocks(self.geometry.pageblock_order) {
            let at = frame.add(offset.0);
            self.set_pageblock(at, self.pageblock(at).with(migratetype));
        }
    }

    /// The type of the free block `buddy`, if the block of `order` at `frame`, of `migratetype`, may merge with it.
    pub(crate) fn mergeable(
        &self,
        frame: Frame,
        buddy: Frame,
        order: Order,
        migratetype: MigrateType,
    ) -> Option<MigrateType> {
        let state = self.state(buddy);
        if !state.is_free_as_large(order) {
            return None;
        }
        let (_, found) = state.as_free()?;
        if order < self.geometry.pageblock_order {
            // Of the same pageblock, whatever list it is on.
            return Some(found);
        }
        let same_zone = self.pageblock(frame).same_zone(self.pageblock(buddy));
        let same_kind = found == migratetype || (found.is_mergeable() && migratetype.is_mergeable());
        (same_zone && same_kind).then_some(found)
    }

    /// What `frame` is part of. Racy unless the zone lock is held: a block may be split or merged meanwhile.
    pub(crate) fn part_of(&self, frame: Frame) -> Part {
        Order(0)
            .up_to(self.geometry.max_order)
            .map(|order| frame.align_down(order))
            .find_map(|start| self.block_at(start).filter(|part| frame < part.end(start)))
            // An owned pageblock is all memory: what is in no block of it is on its way from one per-CPU place to another.
            .unwrap_or(if self.estates.owner(frame).is_some() { Part::Pcp(frame, Order(0)) } else { Part::Hole })
    }

    /// The block that starts at `frame`.
    pub(crate) fn block_at(&self, frame: Frame) -> Option<Part> {
        let head = self.head(frame);
        if head.is_going() {
            // Its last owner has given it up: it is on its way to some list.
            return Some(Part::Pcp(frame, head.order()));
        }
        if head.is_allocated() {
            return Some(Part::Allocated(frame, head.order()));
        }
        if head.is_pcp() {
            return Some(Part::Pcp(frame, head.order()));
        }
        let state = self.state(frame);
        match state.kind() {
            Kind::Out => self.estates.has(frame).then_some(Part::Pcp(frame, Order(0))),
            Kind::Free => Some(Part::Free(frame, state.order())),
            Kind::Offline => Some(Part::Offline(frame, state.order())),
            Kind::Quarantined => Some(Part::Quarantined(frame, state.order())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_apply_only_where_they_should() {
        let out = State(7 << 32);
        let free = out.free(Order(3), MigrateType::Movable).unwrap();
        assert_eq!(free.as_free(), Some((Order(3), MigrateType::Movable)));
        assert_eq!(free.free(Order(3), MigrateType::Movable), None, "a free block is not freed again");
        assert_eq!(free.take(Order(2), CpuId(1)), None, "a block is taken whole");
        let taken = free.take(Order(3), CpuId(9)).unwrap();
        assert_eq!((taken.kind(), taken.generation()), (Kind::Out, 8));
        assert_eq!(free.retype(MigrateType::Cma).unwrap().as_free(), Some((Order(3), MigrateType::Cma)));
        let offline = out.retire(Order(5)).unwrap();
        assert_eq!((offline.kind(), offline.order()), (Kind::Offline, Order(5)));
        assert_eq!(offline.free(Order(5), MigrateType::Movable), None);
        assert_eq!(offline.revive().unwrap().kind(), Kind::Out);
        assert_eq!(State(u64::MAX).take(Order(31), CpuId(0)), None);
        let skipped = free.skipped();
        assert_eq!((skipped.as_free(), skipped.is_skipped()), (free.as_free(), true));
        assert!(skipped.retype(MigrateType::Cma).unwrap().is_skipped() && !taken.is_skipped());
        for bit in 0..15 {
            let flipped = State(free.0 ^ 1 << bit);
            assert_eq!(
                (flipped.kind(), flipped.order(), flipped.as_free()),
                (Kind::Quarantined, Order(0), None),
                "{bit}"
            );
            assert_ne!(State(out.0 ^ 1 << bit).kind(), Kind::Free, "{bit}");
        }
    }

    #[test]
    fn head_bytes_tell_blocks_apart() {
        let head = Head::allocated(Order(9), true);
        assert!(head.is_allocated() && head.is_movable() && !head.is_pcp());
        assert!(head.is_allocated_of(Order(9)) && !head.is_allocated_of(Order(8)));
        assert!(!Head::pcp(Order(9)).is_allocated_of(Order(9)));
        assert!(!Head::NONE.is_allocated_of(Order(0)) && Head::NONE.is_none());
    }
}
