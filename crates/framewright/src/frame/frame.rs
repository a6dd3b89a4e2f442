//! Frame descriptors: the state of each frame, in three dense arrays.
//!
//! The arrays are indexed by [`Frame`] and need 17 bytes in all. They are apart so that each path touches only the
//! array that it needs:
//!
//! | array | bytes | content | written by |
//! |---|---|---|---|
//! | head | 1 | order of the allocated or per-CPU block that starts here | its owner; partial frees |
//! | state | 8 | kind, order and list of the *free* block that starts here | holders of the zone lock |
//! | link | 8 | neighbours on a free list | holders of the zone lock |
//!
//! The owner of a block writes its head by plain stores. A partial free writes heads under the zone lock. A state also
//! marks offline and quarantined blocks. It is written by a CAS where the zone lock is shared.
//!
//! **A memory of zeros is a hole**: no head, no state, no link. Zeroed arrays need no initialisation. Booting touches
//! only descriptors of block heads, and on a large machine almost none (`section_init.rs`).
//!
//! At any quiescent moment each frame with memory lies in exactly one block. The block's *first* frame describes it;
//! the others (tails) are zero in `head` and `Out` in `state`. A block is therefore split or merged without visiting
//! its tails. The block of a frame is found by looking at the at most 19 frames where it could start.
//!
//! The fast path reads and writes only the head byte. This is not atomic against a second CPU that frees the block at
//! the same instant. It is the one wrong free that is not caught (a swap there would double the path's cost).
//!
//! Frames are numbered by *sections* of the largest block's size. Sections without memory have no descriptors; `map.rs`
//! translates.

use crate::frame::head::Head;
use crate::frame::map::Map;
use crate::frame::owned_pageblock::OwnedPageblocks;
use crate::frame::pageblock::Pageblock;
use crate::frame::state::{Kind, State};
use crate::seam::compiled::Compiled;
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

/// Error: a descriptor holds an impossible value; names the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Corrupt(pub(crate) Frame);

/// The block or hole that contains a frame.
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
    /// A withheld block.
    Offline(Frame, Order),
    /// A quarantined block.
    Quarantined(Frame, Order),
}

impl Part {
    /// Returns the first frame after the part, seen from `frame`.
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
    /// The answer to [`Frames::is_lazy`], where it is not known at compile time.
    pub(crate) lazy: bool,
    /// The answer to [`Frames::is_dirty`], where it is not known at compile time.
    pub(crate) dirty: bool,
}

impl<M: Machine> Frames<'_, M> {
    /// Returns the descriptor index of a frame number; `None` outside every section.
    // Out of line, for size: the fast path does not call it.
    #[inline(never)]
    pub(crate) fn frame(&self, pfn: Pfn) -> Option<Frame> {
        self.map.frame(pfn)
    }

    /// Returns the frame number of a descriptor index; `u64::MAX` if no descriptor has it.
    #[inline(always)]
    pub(crate) fn pfn(&self, frame: Frame) -> Pfn {
        self.map.pfn(frame)
    }

    pub(crate) fn state(&self, frame: Frame) -> State {
        if self.is_dirty() && self.pageblock(frame).is_uninit() {
            return State(0);
        }
        self.states.get(frame.index()).map_or(State(0), |word| State(word.load(Ordering::Relaxed)))
    }

    /// Prefetches the descriptor of a frame for writing.
    pub(crate) fn ask_for(&self, machine: &M, frame: Frame) {
        if let Some(word) = self.states.get(frame.index()) {
            machine.prefetch(word);
        }
    }

    /// Changes a state word by a transition.
    ///
    /// Fails if the transition does not apply to its value.
    pub(crate) fn change(&self, frame: Frame, transition: impl Fn(State) -> Option<State>) -> Result<(), Corrupt> {
        let word = self.states.get(frame.index()).ok_or(Corrupt(frame))?;
        let now = State(word.load(Ordering::Relaxed));
        let next = transition(now).ok_or(Corrupt(frame))?;
        // Relaxed: the zone lock orders changes of lists. The CAS catches changes by code that does not hold the lock.
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

    /// Undoes [`Frames::claim_head`].
    pub(crate) fn unclaim_head(&self, frame: Frame) {
        self.set_head(frame, Head(self.head(frame).0 & !Head::PCP));
    }

    /// Marks an allocated block as being freed; returns whether this call did it.
    ///
    /// The exchange is atomic: of two frees at the same instant, one succeeds.
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

    /// Writes the word of the pageblock that contains `frame`.
    ///
    /// Caller holds: the zone lock.
    pub(crate) fn set_pageblock(&self, frame: Frame, pageblock: Pageblock) {
        let index = frame.index() >> self.geometry.pageblock_order.0;
        if let Some(word) = self.pageblocks.get(index) {
            word.store(pageblock.0, Ordering::Relaxed);
        }
    }

    /// Returns whether sections are initialised when they are first used.
    #[inline(always)]
    pub(crate) fn is_lazy(&self) -> bool {
        M::FEATURES.section_init && self.lazy
    }

    /// Returns whether the states and links of uninitialised sections have arbitrary values.
    #[inline(always)]
    pub(crate) fn is_dirty(&self) -> bool {
        M::FEATURES.section_init && self.dirty
    }

    /// Returns whether a frame lies in an uninitialised section.
    pub(crate) fn is_uninit(&self, frame: Frame) -> bool {
        self.is_lazy() && self.pageblock(frame).is_uninit()
    }

    /// Returns whether a frame lies where memory may be added, but none is yet.
    pub(crate) fn is_absent(&self, frame: Frame) -> bool {
        self.is_lazy() && self.pageblock(frame).is_absent()
    }

    /// Returns the pageblocks of a section, by their first frames.
    pub(crate) fn pageblocks_in(&self, section: Frame) -> impl Iterator<Item = Frame> + use<M> {
        let blocks = PfnRange::new(0, self.geometry.max_order.frames()).blocks(self.geometry.pageblock_order);
        blocks.map(move |(offset, _)| section.add(offset.0))
    }

    /// Marks the pageblocks of a section as uninitialised, or as initialised.
    ///
    /// Caller holds: the zone lock.
    pub(crate) fn mark_uninit(&self, section: Frame, uninit: bool) {
        for at in self.pageblocks_in(section) {
            self.set_pageblock(at, self.pageblock(at).with_uninit(uninit));
        }
    }

    /// Zeroes the states and links of a section.
    ///
    /// Caller holds: the zone lock.
    pub(crate) fn clear_section(&self, section: Frame) {
        let range = section.index()..section.add(self.geometry.max_order.frames()).index();
        for word in self.states.get(range.clone()).unwrap_or_default() {
            word.store(0, Ordering::Relaxed);
        }
        for link in self.links.get(range).unwrap_or_default() {
            link.next.store(0, Ordering::Relaxed);
            link.prev.store(0, Ordering::Relaxed);
        }
    }

    /// Returns whether all pageblocks of a block have one type.
    pub(crate) fn is_of_one_type(&self, frame: Frame, order: Order) -> bool {
        let migratetype = self.pageblock(frame).migratetype();
        let mut rest = PfnRange::new(0, order.frames()).blocks(self.geometry.pageblock_order);
        rest.all(|(offset, _)| self.pageblock(frame.add(offset.0)).migratetype() == migratetype)
    }

    /// Sets the type of every pageblock that a block covers or lies in.
    ///
    /// Caller holds: the block, unless the pageblock already has the type.
    pub(crate) fn retag(&self, machine: &M, frame: Frame, order: Order, migratetype: MigrateType) {
        for (offset, _) in PfnRange::new(0, order.frames()).blocks(self.geometry.pageblock_order) {
            self.set_type(machine, frame.add(offset.0), migratetype);
        }
    }

    /// Sets the type of the pageblock around a frame, and reports it.
    pub(crate) fn set_type(&self, machine: &M, frame: Frame, migratetype: MigrateType) {
        let word = self.pageblock(frame);
        self.set_pageblock(frame, word.with(migratetype));
        machine.retyped(self.pfn(frame.align_down(self.geometry.pageblock_order)), migratetype);
    }

    /// Returns the type of the free block `buddy`, if the two may merge.
    ///
    /// The block at `frame` has this `order` and `migratetype`.
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
        let found = M::one_type(state.as_free()?.1);
        if order < self.geometry.pageblock_order {
            // Both lie in one pageblock, so the list does not matter.
            return Some(found);
        }
        let same_zone = self.pageblock(frame).same_zone(self.pageblock(buddy));
        let same_kind = found == migratetype || (found.is_mergeable() && migratetype.is_mergeable());
        (same_zone && (same_kind || !M::FEATURES.mobility)).then_some(found)
    }

    /// Returns the block or hole that contains `frame`.
    ///
    /// The result is racy unless the zone lock is held: a block may be split or merged in the meantime.
    pub(crate) fn part_of(&self, frame: Frame) -> Part {
        Order(0)
            .up_to(self.geometry.max_order)
            .map(|order| frame.align_down(order))
            .find_map(|start| self.block_at(start).filter(|part| frame < part.end(start)))
            // An owned pageblock is all memory: a frame in no block of it is moving between two per-CPU places.
            .unwrap_or(if self.owned.owner(frame).is_some() { Part::Pcp(frame, Order(0)) } else { Part::Hole })
    }

    /// Returns the block that starts at `frame`.
    pub(crate) fn block_at(&self, frame: Frame) -> Option<Part> {
        if self.is_uninit(frame) {
            // An uninitialised section is a free block of the largest order.
            let order = self.geometry.max_order;
            let starts = frame.align_down(order) == frame && !self.is_absent(frame);
            return starts.then_some(Part::Free(frame, order));
        }
        let head = self.head(frame);
        if head.is_going() {
            // Its owner has freed it: it is moving to some list.
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
