//! Calls that may be made from anywhere: an NMI, an interrupt of an interrupt, a signal that met a signal; in the middle of any other call of
//! the same CPU, between any two of its accesses.
//!
//! Such a call waits for nobody, as whom it would wait for may be whom it interrupted. What that was in the middle of, nobody knows, so it
//! touches nothing that a CPU changes plainly:
//!
//! | what | instead |
//! |---|---|
//! | the CPU's number ([`crate::Machine::pin`] might wait) | the node that is near ([`crate::Machine::near`]), a hint |
//! | its lists | the zone, and only if its lock is free: a try (`zone.rs::Zone::try_lock`) |
//! | its record of the locks that it holds | none: who tries cannot be in a ring of those who wait |
//! | what it keeps of counters, and its events | words that all CPUs share, by additions that cannot be torn |
//! | reclaim, drains, repairs of others' lists | `Locked`, or out of memory |
//!
//! A block whose zone's lock is taken is not allocated: [`AllocError::Locked`] says that trying again may help, which "no memory" does not. A
//! free always succeeds: the block goes on the zone's list of deferred frees (`deferred.rs`).
//!
//! Only blocks of orders that per-CPU lists keep are served, as in Linux (`alloc_pages_nolock`): the larger ones cost more under the lock
//! than whoever was interrupted should wait. Frees are of any order. The min mark is what must stay free.

use crate::allocator::Allocator;
use crate::error::{AllocError, FreeError, Why};
use crate::event::Event;
use crate::fallback::{Mode, Want};
use crate::frame::{Head, Part};
use crate::ground::Ground;
use crate::machine::{Fault, Machine, Step};
use crate::mechanisms::Hardened;
use crate::node::{World, first_rights};
use crate::pfn::{Frame, MigrateType, Order, Pfn};
use crate::request::Request;
use crate::ring::RingId;
use crate::vmstat::{GlobalEvent, ZoneEvent};
use crate::watermark::{Mark, Rights};
use crate::zone::{Zone, ZoneGuard};

/// Blocks looked at, and put aside, for one to which nobody wrote since it was freed, where the mechanisms say `hardened`.
const INTACT_TRIES: u32 = 4;

impl<M: Machine> Allocator<'_, M> {
    /// Allocates a block from any context. Waits for nobody, reclaims nothing, and takes nothing from CPUs' lists: flags that ask for
    /// more are ignored. An interleaved request takes no turn: the first of its nodes is preferred.
    ///
    /// # Errors
    /// [`AllocError::Locked`] if a zone that might have served it was locked; [`AllocError::NotKept`] for an order that no per-CPU
    /// list keeps; otherwise as [`Allocator::alloc`].
    pub fn alloc_nolock(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.check(request)?;
        if RingId::of(request.order, request.gfp.migratetype(), self.geometry().pageblock_order).is_none() {
            return Err(AllocError::NotKept(request.order));
        }
        if self.machine().fault(Fault::Alloc) {
            return self.failed(request, Why::Fault);
        }
        match self.world().take_nolock(request) {
            Ok(frame) => {
                let pfn = self.world().ground.frames.pfn(frame);
                self.announce(pfn, request);
                Ok(pfn)
            }
            Err(Some(why)) => self.failed(request, why),
            Err(None) => Err(AllocError::Locked),
        }
    }

    /// Frees a block from any context. If its zone is locked, it goes back as soon as somebody holds that lock; until then it is neither
    /// free nor allocated, and cannot be freed again.
    ///
    /// # Errors
    /// As [`Allocator::free`]; and [`FreeError::Busy`] when so many CPUs freed blocks of that zone in the same instant that this one did not
    /// get its turn: then nothing has changed.
    pub fn free_nolock(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let world = self.world();
        let frame = self.freeable(pfn, order, |frame| world.look_nolock(frame));
        let freed = frame.and_then(|frame| {
            let frames = &world.ground.frames;
            let zone = world.zone_of(frame).filter(|_| frames.claim_head(frame, order));
            let zone = zone.ok_or(FreeError::AlreadyFree(pfn))?;
            self.trace(|| Event::PageFree { pfn, order });
            world.give_nolock(zone, frame, order).ok_or(FreeError::Busy(pfn))
        });
        freed.inspect_err(|error| {
            if !matches!(error, FreeError::Busy(_)) {
                world.ground.events.count(GlobalEvent::BadFree);
            }
        })
    }
}

impl<M: Machine> World<'_, M> {
    /// Takes a block whose head says "allocated", or says why not; no reason, if some zone is locked that might have had one.
    fn take_nolock(&self, request: &Request) -> Result<Frame, Option<Why>> {
        let near = self.ground.machine.near();
        let plan = self.plan_from(near, 0, request);
        let rights = Rights { mark: Mark::Min, nofragment: false, unboosted: true, ..first_rights(&plan) };
        let Some(preferred) = self.zonelist(&plan).next() else {
            let is_split = self.split_zones(&plan).next().is_some();
            return Err(Some(if is_split { Why::Fragmented } else { Why::NoZone }));
        };
        let want = self.want(&plan, rights);
        let (mut why, mut is_locked) = (Why::Watermark, false);
        for zone in self.zonelist(&plan) {
            self.ground.machine.step(Step::ZoneTry);
            let may_serve = || self.may_serve(zone, &plan, rights);
            // What was deferred may make the difference.
            if !may_serve() && zone.deferred.is_empty() {
                continue;
            }
            let Some(guard) = zone.try_lock(&self.ground) else {
                is_locked = true;
                continue;
            };
            if may_serve() {
                if let Some(frame) = take_intact(&self.ground, &guard, &want) {
                    self.pcps.count_shared(&self.ground, near, (zone, preferred), (plan.order, plan.interleaved));
                    return Ok(frame);
                }
                why = Why::Fragmented;
            }
        }
        Err(if is_locked { None } else { Some(why) })
    }

    /// Gives an allocated block back that nobody else can free: to its zone, or to its list of deferred ones. None if even that did not
    /// work; then it is allocated as before.
    fn give_nolock(&self, zone: &Zone<M>, frame: Frame, order: Order) -> Option<()> {
        if self.ground.mechanisms.hardened != Hardened::Off {
            self.fill_freed(frame, order);
        }
        if let Some(guard) = zone.try_lock(&self.ground) {
            guard.give_claimed(frame, order);
            zone.events.add(ZoneEvent::FreeFrames, order.frames());
            return Some(());
        }
        let is_deferred = zone.deferred.push(&self.ground.frames, frame);
        if !is_deferred {
            self.ground.frames.unclaim_head(frame);
        }
        is_deferred.then_some(())
    }

    /// What a frame is part of that seemed to be part of nothing: so it is, if its zone is not locked. Else it is taken for what is on its
    /// way between two places.
    fn look_nolock(&self, frame: Frame) -> Part {
        let Some(zone) = self.zone_of(frame) else { return Part::Hole };
        match zone.try_lock(&self.ground) {
            Some(_guard) => self.ground.frames.part_of(frame),
            None => Part::Pcp(frame, Order(0)),
        }
    }
}

/// Takes a block to which nobody wrote since it was freed, and says that it is allocated. Others are put aside.
fn take_intact<M: Machine>(ground: &Ground<'_, M>, guard: &ZoneGuard<'_, '_, M>, want: &Want) -> Option<Frame> {
    for _ in 0..INTACT_TRIES {
        let frame = guard.take(want, &mut Mode::Normal, false)?;
        let pfn = ground.frames.pfn(frame);
        if ground.mechanisms.hardened == Hardened::Off || ground.machine.is_poisoned(pfn, want.order) {
            ground.frames.set_head(frame, Head::allocated(want.order, want.migratetype == MigrateType::Movable));
            return Some(frame);
        }
        ground.events.count(GlobalEvent::WrittenAfterFree);
        guard.buddy().quarantine(frame, want.order);
    }
    None
}
