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

use crate::frame::head::Head;
use crate::frame::map::Map;
use crate::frame::owned_pageblock::OwnedPageblocks;
use crate::frame::pageblock::Pageblock;
use crate::frame::state::{Kind, State};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::sync::smp_list::Link;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, Order, Pfn, PfnRange};

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
    pub(crate) owned: OwnedPageblocks<'a, M>,
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
            .unwrap_or(if self.owned.owner(frame).is_some() { Part::Pcp(frame, Order(0)) } else { Part::Hole })
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
            Kind::Out => self.owned.has(frame).then_some(Part::Pcp(frame, Order(0))),
            Kind::Free => Some(Part::Free(frame, state.order())),
            Kind::Offline => Some(Part::Offline(frame, state.order())),
            Kind::Quarantined => Some(Part::Quarantined(frame, state.order())),
        }
    }
}
