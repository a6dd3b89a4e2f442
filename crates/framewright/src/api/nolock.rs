//! Calls that may be made from anywhere: an NMI, an interrupt of an interrupt, a signal that met a signal; in the middle of any other call of
//! the same CPU, between any two of its accesses.
//!
//! Such a call waits for nobody, as whom it would wait for may be whom it interrupted. What that was in the middle of, nobody knows, so it
//! touches nothing that a CPU changes plainly:
//!
//! | what | instead |
//! |---|---|
//! | the CPU's number ([`crate::Machine::pin`] might wait) | the node that is near ([`crate::Machine::near`]), a hint |
//! | its lists | the zone, and only if its lock is free: a try (`zone_guard.rs::Zone::try_lock`) |
//! | its record of the locks that it holds | none: who tries cannot be in a ring of those who wait |
//! | what it keeps of counters, and its events | words that all CPUs share, by additions that cannot be torn |
//! | its lists, as whoever claims them | if neither their owner nor a claimer is at them, and this is a place for a heavy fence ([`crate::Machine::may_fence`]) |
//! | reclaim, repairs of others' lists | `Locked`, or out of memory |
//!
//! A block whose zone's lock is taken is not allocated: [`AllocError::Locked`] says that trying again may help, which "no memory" does not. A
//! free always succeeds: the block goes on the zone's list of deferred frees (`deferred_free.rs`).
//!
//! Only blocks of orders that per-CPU lists keep are served, as in Linux (`alloc_pages_nolock`): the larger ones cost more under the lock
//! than whoever was interrupted should wait. Frees are of any order. The min mark is what must stay free.

use crate::api::allocator::Allocator;
use crate::buddy::fallback::{Mode, Want};
use crate::frame::frame::Part;
use crate::frame::head::Head;
use crate::pcp::ring::RingId;
use crate::policy::mechanisms::{Hardened, Nofragment};
use crate::policy::watermark::{Mark, Rights};
use crate::reclaim::slowpath::FEW_ROUNDS;
use crate::seam::event::Event;
use crate::seam::machine::{Fault, Machine, Step};
use crate::shared::Shared;
use crate::stat::vmstat::{GlobalEvent, ZoneEvent};
use crate::types::error::{AllocError, FreeError, Why};
use crate::types::migratetype::MigrateType;
use crate::types::request::Request;
use crate::types::units::{Frame, Order, Pfn};
use crate::zone::zone::Zone;
use crate::zone::zone_guard::ZoneGuard;
use crate::zonelist::plan::{Plan, first_rights, is_optional, slow_rights};
use crate::zonelist::world::World;

/// Blocks looked at, and put aside, for one to which nobody wrote since it was freed, where the mechanisms say `hardened`.
const INTACT_TRIES: u32 = 4;
/// Looks at the zones' locks of a caller that must not wait for its CPU: longer than a section under one lasts, unless its holder is stopped.
const LOOKS: u32 = 1 << 20;
/// Tries of such a caller that find the zones unlocked and nothing for a page in them, while something may be on its way there: longer than an
/// operation on a per-CPU list lasts, unless whoever is at it is stopped.
const PAGE_ROUNDS: u32 = 1 << 14;

impl<M: Machine> Allocator<'_, M> {
    /// Allocates a block from any context. Waits for nobody and reclaims nothing: flags that ask for that are ignored. What CPUs have cached
    /// is taken only if the zones have nothing else. An interleaved request takes no turn: the first of its nodes is preferred.
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
        let plan = self.world().plan_from(self.machine().near(), 0, request);
        let rights = Rights { mark: Mark::Min, nofragment: false, unboosted: true, ..first_rights(&plan) };
        match self.world().alloc_from_zones_nolock(&plan, rights) {
            Ok(frame) => {
                let pfn = self.world().shared.frames.pfn(frame);
                self.announce(pfn, request);
                Ok(pfn)
            }
            Err(Some(why)) => self.failed(request, why),
            Err(None) => Err(AllocError::Locked),
        }
    }

    /// Allocates for a caller that must not wait and whose CPU another holds: from a zone whose lock is free at one of a few looks.
    /// Blocks of any order, and what the request's flags let it have of the reserves. Mobilities are kept apart as long as that works.
    #[cold]
    pub(crate) fn alloc_without_cpu(&self, request: &Request) -> Result<Pfn, AllocError> {
        let world = self.world();
        let plan = world.plan_from(self.machine().near(), 0, request);
        let enforced = world.shared.mechanisms.nofragment == Nofragment::Enforced;
        let mut rights = Rights { nofragment: enforced, unboosted: true, ..slow_rights(&plan, false) };
        let mut rounds = if plan.order.0 == 0 { PAGE_ROUNDS } else { FEW_ROUNDS };
        for _ in 0..LOOKS {
            let before = world.cached_for(&plan, rights);
            match world.alloc_from_zones_nolock(&plan, rights) {
                Ok(frame) => {
                    let pfn = world.shared.frames.pfn(frame);
                    self.announce(pfn, request);
                    return Ok(pfn);
                }
                Err(Some(_)) if rights.nofragment && !is_optional(&plan) => rights.nofragment = false,
                Err(Some(why)) => {
                    rounds = rounds.saturating_sub(1);
                    if rounds == 0 || world.cached_for(&plan, rights).helped_nothing_since(before) {
                        return self.failed(request, if why == Why::Watermark { Why::WouldWait } else { why });
                    }
                    self.machine().relax();
                }
                Err(None) => self.machine().relax(),
            }
        }
        self.failed(request, Why::WouldWait)
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
            let frames = &world.shared.frames;
            let zone = world.zone_of(frame).filter(|_| frames.claim_head(frame, order));
            let zone = zone.ok_or(FreeError::AlreadyFree(pfn))?;
            self.trace(|| Event::PageFree { pfn, order });
            world.free_to_zone_nolock(zone, frame, order).ok_or(FreeError::Busy(pfn))
        });
        freed.inspect_err(|error| {
            if !matches!(error, FreeError::Busy(_)) {
                world.shared.events.count(GlobalEvent::BadFree);
            }
        })
    }
}

impl<M: Machine> World<'_, M> {
    /// Takes a block whose head says "allocated", or says why not; no reason, if some zone is locked that might have had one.
    fn alloc_from_zones_nolock(&self, plan: &Plan, rights: Rights) -> Result<Frame, Option<Why>> {
        let near = self.shared.machine.near();
        let Some(preferred) = self.zonelist(plan).next() else {
            let is_split = self.split_zones(plan).next().is_some();
            return Err(Some(if is_split { Why::Fragmented } else { Why::NoZone }));
        };
        let want = self.want(plan, rights);
        let (mut why, mut is_locked) = (Why::Watermark, false);
        // The second time what is cached of each zone goes back to it first.
        let twice = [false, true].into_iter().flat_map(|is_last| self.zonelist(plan).map(move |zone| (zone, is_last)));
        for (zone, is_last) in twice {
            self.shared.machine.step(Step::ZoneTry);
            let may_serve = || self.may_serve(zone, plan, rights);
            let may_help = || is_last && self.may_help(zone, plan, rights);
            // What was deferred may make the difference.
            let helps = (!may_serve() && zone.deferred.is_empty()).then(may_help);
            if helps == Some(false) {
                continue;
            }
            let Some(guard) = zone.try_lock(&self.shared) else {
                is_locked = true;
                continue;
            };
            let taken = || may_serve().then(|| alloc_intact_nolock(&self.shared, &guard, &want, rights.highatomic));
            let mut served = taken();
            if !matches!(served, Some(Some(_))) && helps.unwrap_or_else(may_help) {
                self.drain_nolock(&guard, plan.order);
                served = taken();
            }
            match served {
                Some(Some(frame)) => {
                    self.pcps.count_shared(&self.shared, near, (zone, preferred), (plan.order, plan.turn));
                    return Ok(frame);
                }
                Some(None) => why = Why::Fragmented,
                None => {}
            }
        }
        Err(if is_locked { None } else { Some(why) })
    }

    /// Gives an allocated block back that nobody else can free: to its zone, or to its list of deferred ones. None if even that did not
    /// work; then it is allocated as before.
    fn free_to_zone_nolock(&self, zone: &Zone<M>, frame: Frame, order: Order) -> Option<()> {
        if self.shared.mechanisms.hardened != Hardened::Off {
            self.fill_freed(frame, order);
        }
        if let Some(guard) = zone.try_lock(&self.shared) {
            guard.free_claimed(frame, order);
            zone.events.add(ZoneEvent::FreeFrames, order.frames());
            return Some(());
        }
        let is_deferred = zone.deferred.push(&self.shared.frames, frame);
        if !is_deferred {
            self.shared.frames.unclaim_head(frame);
        }
        is_deferred.then_some(())
    }

    /// What a frame is part of that seemed to be part of nothing: so it is, if its zone is not locked. Else it is taken for what is on its
    /// way between two places.
    fn look_nolock(&self, frame: Frame) -> Part {
        let Some(zone) = self.zone_of(frame) else { return Part::Hole };
        match zone.try_lock(&self.shared) {
            Some(_guard) => self.shared.frames.part_of(frame),
            None => Part::Pcp(frame, Order(0)),
        }
    }
}

/// Takes a block to which nobody wrote since it was freed, from the high-atomic reserve if need and rights be, and says that it is allocated.
/// Others are put aside.
fn alloc_intact_nolock<M: Machine>(
    shared: &Shared<'_, M>,
    guard: &ZoneGuard<'_, '_, M>,
    want: &Want,
    may_use_reserve: bool,
) -> Option<Frame> {
    for _ in 0..INTACT_TRIES {
        let frame = guard.alloc(want, &mut Mode::Normal, false);
        let frame = frame.or_else(|| if may_use_reserve { guard.alloc_highatomic(want.order) } else { None })?;
        let pfn = shared.frames.pfn(frame);
        if shared.mechanisms.hardened == Hardened::Off || shared.machine.is_poisoned(pfn, want.order) {
            shared.frames.set_head(frame, Head::allocated(want.order, want.migratetype == MigrateType::Movable));
            return Some(frame);
        }
        shared.events.count(GlobalEvent::WrittenAfterFree);
        guard.buddy().quarantine(frame, want.order);
    }
    None
}
