//! Memory for a request that finds none: objects are reclaimed early, and gained huge pages are split.
//!
//! | found | reclaimed early, the oldest first | gained huge page split, the emptiest first |
//! |---|---|---|
//! | background reclaim, which a request woke | up to what the marks ask for | no |
//! | a request that may reclaim | what it asks for | a smaller request only, if nothing is left to reclaim |
//! | a request that fails and that the kernel served | as much again, even if it may not reclaim | the same |
//!
//! The last row is for requests that must not wait. In the kernel, background reclaim made room for them in time. Here
//! it runs between two events, and so makes room before the request is answered for good.
//!
//! An object that was reclaimed early is nowhere from then on: its free is dropped. Only objects that the kernel
//! reclaimed later are reclaimed early ([`super::lifetimes`]). The two other policies are bounds.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use framewright::machine::{Machine, Need};
use framewright::request::{__GFP_THISNODE, Gfp};
use framewright::units::{NodeId, Order, Pfn, PfnRange, ZoneIdx};

use super::frame_map::{FrameMap, Location};
use super::frame_span::{Span, runs};
use super::gained::GainedPages;
use super::lifetimes::Reclaimed;
use super::observer::Pages;
use super::reclaimable::{Age, Reclaimable};
use super::recorded_machine::RecordedMachine;
use super::run_counts::ReliefCounts;

/// When objects that the kernel reclaimed later are reclaimed here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EarlyReclaim {
    /// Never; nor is a gained huge page split.
    Never,
    /// When our allocator asks for memory.
    WhenAsked,
    /// As soon as they are allocated.
    AtOnce,
}

/// The memory that can be had, on one allocator.
pub(super) struct Relief<'h> {
    pages: &'h Pages<'h>,
    frame_map: &'h RefCell<FrameMap>,
    machine: &'h RecordedMachine,
    span: Span,
    known: &'h Reclaimed,
    pub(super) policy: EarlyReclaim,
    pub(super) gained: RefCell<GainedPages>,
    objects: RefCell<Reclaimable>,
    /// When objects were reclaimed early, by the kernel's first frame, with their order.
    early: RefCell<HashMap<Pfn, (u64, Order)>>,
    /// Served allocations of the kernel so far.
    served: Cell<usize>,
    /// The order of the request that is being answered; none during background reclaim.
    pub(super) asking: Cell<Option<Order>>,
    pub(super) counts: Cell<ReliefCounts>,
}

impl<'h> Relief<'h> {
    pub(super) fn new(
        pages: &'h Pages<'h>,
        frame_map: &'h RefCell<FrameMap>,
        machine: &'h RecordedMachine,
        (span, known): (&Span, &'h Reclaimed),
        policy: EarlyReclaim,
    ) -> Relief<'h> {
        Relief {
            pages,
            frame_map,
            machine,
            span: span.clone(),
            known,
            policy,
            gained: RefCell::new(GainedPages::new(machine.pageblock_order)),
            objects: RefCell::default(),
            early: RefCell::default(),
            served: Cell::new(0),
            asking: Cell::new(None),
            counts: Cell::default(),
        }
    }

    /// The allocator.
    pub(super) fn pages(&self) -> &'h Pages<'h> {
        self.pages
    }

    /// Notes an object from before the trace, which is in the frame of that number here too.
    pub(super) fn has_initially(&self, pfn: Pfn) {
        if let Some(index) = self.span.index(pfn).filter(|&index| self.known.initial.contains(index)) {
            self.add(Age::initial(index), pfn, Order(0));
        }
    }

    /// Notes the kernel's next served allocation, whose object is in memory here or not.
    pub(super) fn was_served(&self, theirs: Pfn, order: Order) {
        let number = self.served.replace(self.served.get() + 1);
        if self.known.allocations.contains(number) {
            self.add(Age::allocation(number), theirs, order);
        }
    }

    fn add(&self, age: Age, theirs: Pfn, order: Order) {
        let location = self.span.index(theirs).and_then(|index| self.frame_map.borrow().get(index).index());
        let Some(ours) = location.map(|index| self.span.pfn(index)) else { return };
        // A base page with a seat frees nothing.
        if self.gained.borrow().has(ours) {
            return;
        }
        if self.policy == EarlyReclaim::AtOnce {
            self.reclaim_object(theirs, order);
        } else if let Some(zone) = self.zone_of(ours) {
            self.objects.borrow_mut().add(age, theirs, order, zone);
        }
    }

    /// The object in the kernel's block was freed or dropped.
    pub(super) fn forget(&self, theirs: Pfn) {
        self.objects.borrow_mut().remove(theirs);
        if let Some((time, order)) = self.early.borrow_mut().remove(&theirs) {
            let earlier = self.pages.machine().now().saturating_sub(time);
            self.count(|counts| {
                counts.freed_since += order.frames();
                counts.earlier += u128::from(earlier) * u128::from(order.frames());
            });
        }
    }

    /// The kernel moved an object.
    pub(super) fn moved(&self, old: Pfn, new: Pfn) {
        self.objects.borrow_mut().moved(old, new);
        let mut early = self.early.borrow_mut();
        if let Some(object) = early.remove(&old) {
            early.insert(new, object);
        }
    }

    /// Answers our allocator's question for memory; returns the frames that were freed.
    pub(super) fn answer(&self, need: &Need) -> u64 {
        // Working off a boost takes only memory that need not be written; the trace does not tell which that is.
        if self.policy == EarlyReclaim::Never || need.gentle {
            return 0;
        }
        match self.asking.get() {
            None => self.reclaim(need.frames, &|zone| zone.node() == need.node),
            Some(order) => {
                let may = zones(need.gfp, need.node);
                match self.reclaim(need.frames, &may) {
                    0 if order < self.machine.pageblock_order => self.split(&may),
                    freed => freed,
                }
            }
        }
    }

    /// Makes room for a request that failed here and that the kernel served; returns the frames that were freed.
    pub(super) fn make_room(&self, gfp: Gfp, order: Order, node: NodeId) -> u64 {
        /// Frames that reclaim frees at least, as in the kernel (`SWAP_CLUSTER_MAX`).
        const CLUSTER: u64 = 32;
        if self.policy == EarlyReclaim::Never {
            return 0;
        }
        let may = zones(gfp, node);
        let freed = match self.reclaim(CLUSTER.max(2 * order.frames()), &may) {
            0 => self.split(&may),
            freed => freed,
        };
        if freed != 0 && order != Order(0) {
            self.pages.compact(node);
        }
        freed
    }

    /// Reclaims the oldest objects until this number of frames is free.
    fn reclaim(&self, frames: u64, may: &dyn Fn(ZoneIdx) -> bool) -> u64 {
        let mut freed = 0;
        while freed < frames {
            let oldest = self.objects.borrow_mut().take_oldest(may);
            let Some((theirs, order)) = oldest else { break };
            freed += self.reclaim_object(theirs, order);
        }
        freed
    }

    fn reclaim_object(&self, theirs: Pfn, order: Order) -> u64 {
        let copy_of = |index| {
            let ours = self.frame_map.borrow().get(index).index()?;
            self.frame_map.borrow_mut().set(index, Location::NOWHERE);
            Some(self.span.pfn(ours))
        };
        let mut freed = 0;
        for piece in runs(self.span.block(theirs, order).filter_map(copy_of)) {
            freed += piece.frames();
            self.give_back(piece);
        }
        self.early.borrow_mut().insert(theirs, (self.pages.machine().now(), order));
        self.count(|counts| counts.reclaimed += freed);
        freed
    }

    /// Splits the emptiest gained huge page, and frees its unused pages.
    fn split(&self, may: &dyn Fn(ZoneIdx) -> bool) -> u64 {
        let may = |block| self.zone_of(block).is_some_and(may);
        let emptiest = self.gained.borrow().emptiest(may);
        let block = emptiest.and_then(|id| self.gained.borrow_mut().remove(id));
        let Some(block) = block else { return 0 };
        let unused = self.frame_map.borrow().without_objects(block);
        self.count(|counts| counts.split += 1);
        let freed = unused.iter().map(|range| range.frames()).sum();
        unused.into_iter().for_each(|range| self.give_back(range));
        freed
    }

    /// Frees frames of ours.
    pub(super) fn give_back(&self, range: PfnRange) {
        self.frame_map.borrow_mut().forget(range);
        if self.pages.free_range(range).is_err() {
            self.count(|counts| counts.refused += 1);
        }
    }

    /// Why a request fails that the kernel served, beyond what our allocator says: the memory that is kept.
    pub(super) fn kept(&self, frames: u64) -> Option<&'static str> {
        if self.policy == EarlyReclaim::Never && !self.objects.borrow().is_empty() {
            return Some("reclaimable memory is kept");
        }
        (self.gained.borrow().unused() >= frames).then_some("huge pages gained here are kept")
    }

    fn zone_of(&self, ours: Pfn) -> Option<ZoneIdx> {
        self.machine.memory_in(ours.align_down(self.machine.pageblock_order)).map(|(_, zone)| zone)
    }

    fn count(&self, add: impl FnOnce(&mut ReliefCounts)) {
        let mut counts = self.counts.get();
        add(&mut counts);
        self.counts.set(counts);
    }
}

/// The zones that a request with these flags may use, if it prefers `node`.
fn zones(gfp: Gfp, node: NodeId) -> impl Fn(ZoneIdx) -> bool {
    let own = gfp.contains(__GFP_THISNODE);
    move |zone| zone.kind() <= gfp.highest_zone() && (!own || zone.node() == node)
}
