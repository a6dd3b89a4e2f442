//! Migration: moves a block in use to another place.
//!
//! The core finds a movable block and a free block to move it to, its *place*. Only the owner knows what the block
//! contains, and what refers to it. So the machine's callback copies the contents, makes the place its own, and frees
//! the old block as it frees any other ([`Machine::migrate`]). Both blocks are allocated all the time, so nothing
//! changes for other callers until that free.
//!
//! | the callback | the place | the old block |
//! |---|---|---|
//! | moved it | belongs to the owner | was freed by the callback |
//! | failed, or panicked | is freed by the core | stays in use |
//! | says "moved", but freed nothing | belongs to the owner | is found still in use by the core |
//!
//! No protocol with the owner's frees is needed. Between the look and the callback, the owner may free the block, and
//! another owner may allocate it. Then the callback does not know the block, or knows it as another's, and may move it
//! or not.
//!
//! Rejected: the core frees the block when the callback returns. A wrong callback, or a free on another CPU at that
//! moment, would then free a block twice, and the core could not notice it.

use core::cell::Cell;

use crate::buddy::buddy::Buddy;
use crate::buddy::fallback::{Mode, Want};
use crate::frame::frame::{Corrupt, Part};
use crate::frame::head::Head;
use crate::seam::event::Event;
use crate::seam::machine::{Machine, Step};
use crate::stat::vmstat::GlobalEvent;
use crate::types::migratetype::MigrateType;
use crate::types::request::{__GFP_MOVABLE, GFP_NOWAIT, Gfp};
use crate::types::units::{Frame, FrameRange, Order, Pfn, ZoneKind};
use crate::zone::zone::Zone;
use crate::zone::zone_guard::ZoneGuard;
use crate::zonelist::world::World;

/// The flags that tracepoints show for a place: no request waits for one.
const GFP_PLACE: Gfp = Gfp(GFP_NOWAIT.0 | __GFP_MOVABLE.0);

/// Why a block was not moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MigrateError {
    /// There is no place for it.
    NoPlace,
    /// Its owner cannot move it now.
    Busy,
}

impl<'a, M: Machine> World<'a, M> {
    /// Moves the allocated, movable block at `frame` to the place that `place` finds.
    ///
    /// Returns `Ok` also if the block no longer exists.
    pub(crate) fn migrate(
        &self,
        frame: Frame,
        order: Order,
        place: impl FnOnce(Order) -> Option<Frame>,
    ) -> Result<(), MigrateError> {
        let frames = &self.shared.frames;
        if !self.shared.machine.migrates() {
            return Err(MigrateError::Busy);
        }
        let to = place(order).ok_or(MigrateError::NoPlace)?;
        let place = UnusedPlace { world: self, frame: to, order };
        let (from, events) = (frames.pfn(frame), &self.shared.events);
        self.announce_place(frames.pfn(to), order);
        if self.shared.machine.migrate(from, frames.pfn(to), order).is_ok() {
            // The callback has made it its own.
            core::mem::forget(place);
            events.add(GlobalEvent::MigrateSuccess, order.frames());
            return Ok(());
        }
        drop(place);
        events.add(GlobalEvent::MigrateFail, order.frames());
        let is_there = matches!(frames.part_of(frame), Part::Allocated(head, now) if (head, now) == (frame, order));
        if is_there { Err(MigrateError::Busy) } else { Ok(()) }
    }

    /// Allocates a place in the block's zone, or else in another, nearest first.
    ///
    /// The other zones are those that an ordinary movable request may use. If no list for movable blocks has a place,
    /// the lists of other mobilities are used.
    pub(crate) fn place_anywhere(&self, home: &Zone<M>, order: Order) -> Option<Frame> {
        let highest = home.kind().max(ZoneKind::Normal);
        let zones = || self.zones_from(home.node()).filter(|zone| zone.kind() <= highest);
        let others = zones().filter(|zone| zone.idx != home.idx);
        zones().filter(|zone| zone.idx == home.idx).chain(others).find_map(|zone| {
            self.alloc_place(zone, order, |guard| {
                let migratetype = MigrateType::Movable;
                let want = Want { order, migratetype, cma: true, least: Order(0), wakes: false };
                guard.alloc(&want, &mut Mode::Normal, false)
            })
        })
    }

    /// Allocates a place among the smallest free blocks of a zone's movable pageblocks.
    ///
    /// No whole free pageblock is split for it.
    pub(crate) fn place_among_small(&self, zone: &Zone<M>, order: Order) -> Option<Frame> {
        let most = self.shared.frames.geometry.pageblock_order.0.checked_sub(1).map(Order)?;
        self.alloc_place(zone, order, |guard| {
            guard.alloc_with(|buddy| buddy.alloc_smallest_of(order, most, MigrateType::Movable))
        })
    }

    /// Allocates the next place in a pageblock from `at` on.
    ///
    /// `at` moves past the place, or to the pageblock's end if there is none.
    pub(crate) fn place_in(&self, zone: &Zone<M>, order: Order, at: &mut Frame, end: Frame) -> Option<Frame> {
        let next = Cell::new(*at);
        let place = self.alloc_place(zone, order, |guard| {
            guard.alloc_with(|buddy| alloc_next(buddy, order, FrameRange { start: next.get(), end }, &next))
        });
        *at = next.get();
        place
    }

    /// Allocates a place by `take`, under the zone lock; its head then says "allocated".
    ///
    /// A place that was written to since it was freed is quarantined, and the next is tried.
    fn alloc_place(
        &self,
        zone: &Zone<M>,
        order: Order,
        take: impl Fn(&ZoneGuard<'_, 'a, M>) -> Option<Frame>,
    ) -> Option<Frame> {
        self.pinned(|cx| {
            let next = || {
                let guard = zone.lock(cx);
                let frame = take(&guard)?;
                self.shared.frames.set_head(frame, Head::allocated(order, true));
                self.count_range(cx, zone, order.frames());
                Some(frame)
            };
            core::iter::from_fn(next).find(|&frame| self.is_intact(cx, frame, order))
        })?
    }

    /// Frees a place that no block was moved to.
    fn free_place(&self, frame: Frame, order: Order) {
        let pfn = self.shared.frames.pfn(frame);
        if self.shared.machine.traces() {
            self.shared.machine.event(&Event::PageFree { pfn, order });
        }
        self.pinned(|cx| self.free_slow(cx, frame, order, true));
    }

    fn announce_place(&self, pfn: Pfn, order: Order) {
        if self.shared.machine.traces() {
            let migratetype = MigrateType::Movable;
            self.shared.machine.event(&Event::PageAlloc { pfn: Some(pfn), order, migratetype, gfp: GFP_PLACE });
        }
    }
}

/// A place that no block was moved to; the drop frees it, also where the callback's panic unwinds.
struct UnusedPlace<'w, 'a, M: Machine> {
    world: &'w World<'a, M>,
    frame: Frame,
    order: Order,
}

impl<M: Machine> Drop for UnusedPlace<'_, '_, M> {
    fn drop(&mut self) {
        self.world.free_place(self.frame, self.order);
    }
}

/// Allocates the next free block that is large enough and begins in `range`.
///
/// Writes to `next` the frame after the last one that it looked at.
fn alloc_next<M: Machine>(
    buddy: &Buddy<'_, '_, M>,
    order: Order,
    range: FrameRange,
    next: &Cell<Frame>,
) -> Result<Option<Frame>, Corrupt> {
    let mut at = range.start;
    while at < range.end {
        buddy.step(Step::Around);
        match buddy.frames().state(at).as_free() {
            Some((found, migratetype))
                if found >= order && found < buddy.pageblock_order() && is_for_movable(migratetype) =>
            {
                next.set(at.add(order.frames()));
                return buddy.alloc(at, found, order, migratetype).map(Some);
            }
            _ => at = buddy.after(at),
        }
    }
    next.set(range.end);
    Ok(None)
}

/// Returns whether a pageblock of this type may receive movable blocks.
///
/// An isolated pageblock may not: another caller is emptying it.
pub(crate) fn is_for_movable(migratetype: MigrateType) -> bool {
    matches!(migratetype, MigrateType::Movable | MigrateType::Cma)
}
