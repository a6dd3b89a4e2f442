//! Calls that may be made from any context: an NMI, an interrupt of an interrupt, a signal handler that interrupted
//! another.
//!
//! Such a call may come between any two accesses of another call of the same CPU. It never waits: waiting could
//! deadlock, because the code that it waits for may be the code that it interrupted. It cannot know what that code was
//! doing, so it touches nothing that a CPU changes by plain stores:
//!
//! | not used | used instead |
//! |---|---|
//! | the CPU's number ([`crate::Machine::pin`] might wait) | the nearest node ([`crate::Machine::near`]), a hint |
//! | the CPU's lists | the zone, if its lock is free: one try (`zone_guard.rs::Zone::try_lock`) |
//! | the CPU's record of held locks | nothing: a call that only tries cannot be part of a deadlock |
//! | the CPU's counters and events | words that all CPUs share, changed by atomic additions |
//! | a claim that may wait | a claim that succeeds at once, where [`crate::Machine::may_fence`] allows it |
//! | reclaim, repair of lists | an error: `Locked`, or out of memory |
//!
//! If the zone's lock is taken, the allocation fails with [`AllocError::Locked`]: trying again may help, which "no
//! memory" does not say. A free always succeeds: the block goes on the zone's list of deferred frees
//! (`deferred_free.rs`).
//!
//! Only orders that per-CPU lists keep are served, as in Linux (`alloc_pages_nolock`): a larger block costs more time
//! under the lock than the interrupted code should wait. Frees may have any order. The min mark is respected.

use crate::api::allocator::Allocator;
use crate::buddy::fallback::{Mode, Want};
use crate::frame::frame::Part;
use crate::frame::head::Head;
use crate::pcp::ring_id::RingId;
use crate::policy::watermark::{AllocFlags, Mark};
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
use crate::zonelist::alloc_flags::{first_alloc_flags, keeps_reserve};
use crate::zonelist::numa_stat::ServedFrom;
use crate::zonelist::plan::Plan;
use crate::zonelist::world::World;

/// Blocks that are checked for one that was not written to after its free, where the mechanisms say `hardened`.
const INTACT_TRIES: u32 = 4;

impl<M: Machine> Allocator<'_, M> {
    /// Allocates a block from any context; never waits, and ignores flags that ask for reclaim.
    ///
    /// Frames that CPUs have cached are taken only if the zones have nothing else. An interleaved request takes no
    /// turn: it prefers the first of its nodes.
    ///
    /// # Errors
    /// [`AllocError::Locked`] if a zone that might have served it was locked; [`AllocError::NotKept`] for an order that
    /// no per-CPU list keeps; otherwise as [`Allocator::alloc`].
    pub fn alloc_nolock(&self, request: &Request) -> Result<Pfn, AllocError> {
        self.check(request)?;
        if RingId::of(request.order, request.gfp.migratetype(), self.geometry().pageblock_order).is_none() {
            return Err(AllocError::NotKept(request.order));
        }
        if self.machine().fault(Fault::Alloc) {
            return Err(self.failed(request, Why::Fault));
        }
        let plan = self.world().plan_from(self.machine().near(), 0, request);
        let alloc_flags =
            AllocFlags { mark: Mark::Min, nofragment: false, unboosted: true, ..first_alloc_flags(&plan) };
        match self.world().alloc_from_zones_nolock(&plan, alloc_flags) {
            Ok(frame) => {
                let pfn = self.world().shared.frames.pfn(frame);
                self.announce(pfn, request);
                Ok(pfn)
            }
            Err(Some(why)) => Err(self.failed(request, why)),
            Err(None) => Err(AllocError::Locked),
        }
    }

    /// Frees a block from any context.
    ///
    /// If its zone is locked, the block is deferred: the next holder of the lock frees it. Until then it is neither
    /// free nor allocated, and cannot be freed again.
    ///
    /// # Errors
    /// As [`Allocator::free`]. [`FreeError::Busy`] if other CPUs free blocks of that zone all the time and this
    /// call gets no turn; then nothing has changed.
    pub fn free_nolock(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let world = self.world();
        let frame = self.world().shared.frames.freeable(pfn, order, |frame| world.look_nolock(frame));
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
    /// Takes a block from the zones of a plan; its head says "allocated".
    ///
    /// The error has no reason if a zone that might have served the request is locked.
    pub(super) fn alloc_from_zones_nolock(&self, plan: &Plan, alloc_flags: AllocFlags) -> Result<Frame, Option<Why>> {
        let near = self.shared.machine.near();
        let Some(preferred) = self.zonelist(plan).next() else {
            let is_split = self.split_zones(plan).next().is_some();
            return Err(Some(if is_split { Why::Fragmented } else { Why::NoZone }));
        };
        let want = self.want(plan, alloc_flags);
        let (mut why, mut is_locked) = (Why::Watermark, false);
        // The second time, the frames that are cached of each zone are freed to it first.
        let twice = [false, true].into_iter().flat_map(|is_last| self.zonelist(plan).map(move |zone| (zone, is_last)));
        for (zone, is_last) in twice {
            self.shared.machine.step(Step::ZoneTry);
            let may_serve = || self.may_serve(zone, plan, alloc_flags);
            let may_help = || is_last && self.may_help(zone, plan, alloc_flags);
            // Deferred frees may make the difference.
            let helps = (!may_serve() && zone.deferred.is_empty()).then(may_help);
            if helps == Some(false) {
                continue;
            }
            let Some(guard) = zone.try_lock(&self.shared) else {
                is_locked = true;
                continue;
            };
            let reserve = Reserve::of(plan, alloc_flags);
            let taken = || may_serve().then(|| alloc_intact_nolock(&self.shared, &guard, &want, reserve));
            let mut served = taken();
            if !matches!(served, Some(Some(_))) && helps.unwrap_or_else(may_help) {
                self.drain_nolock(&guard, plan.order);
                served = taken();
            }
            match served {
                Some(Some(frame)) => {
                    self.pcps.count_shared(&self.shared, near, ServedFrom { zone, preferred }, plan.order, plan.turn);
                    return Ok(frame);
                }
                Some(None) => why = Why::Fragmented,
                None => {}
            }
        }
        let has_enough = |zone| self.has_enough(zone, plan, alloc_flags);
        if why == Why::Watermark && self.zonelist(plan).any(has_enough) {
            why = Why::Fragmented;
        }
        Err(if is_locked { None } else { Some(why) })
    }

    /// Frees a block that no other caller can free, to its zone or to the zone's list of deferred frees.
    ///
    /// `None` if both fail; the block is then allocated as before.
    fn free_to_zone_nolock(&self, zone: &Zone<M>, frame: Frame, order: Order) -> Option<()> {
        if self.shared.mechanisms().is_hardened() {
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

    /// Looks again at a frame that seemed to be part of nothing.
    ///
    /// If its zone is not locked, the answer is certain. Otherwise the frame is taken for one on its way between two
    /// places.
    fn look_nolock(&self, frame: Frame) -> Part {
        let Some(zone) = self.zone_of(frame) else { return Part::Hole };
        match zone.try_lock(&self.shared) {
            Some(_guard) => self.shared.frames.part_of(frame),
            None => Part::Pcp(frame, Order(0)),
        }
    }
}

/// How a request uses the high-atomic reserve of a zone.
#[derive(Clone, Copy)]
enum Reserve {
    Never,
    /// If the zone has no other block.
    Last,
    /// Before other blocks; it is added to otherwise.
    First,
}

impl Reserve {
    fn of(plan: &Plan, alloc_flags: AllocFlags) -> Reserve {
        match alloc_flags.highatomic {
            true if keeps_reserve(plan, alloc_flags) => Reserve::First,
            true => Reserve::Last,
            false => Reserve::Never,
        }
    }
}

/// Takes a block that was not written to after its free, and marks it as allocated; blocks that were written to go into
/// quarantine.
fn alloc_intact_nolock<M: Machine>(
    shared: &Shared<'_, M>,
    guard: &ZoneGuard<'_, '_, M>,
    want: &Want,
    reserve: Reserve,
) -> Option<Frame> {
    for _ in 0..INTACT_TRIES {
        let frame = alloc_any_nolock(guard, want, reserve)?;
        if is_intact_nolock(shared, guard, frame, want.order) {
            shared.frames.set_head(frame, Head::allocated(want.order, want.migratetype == MigrateType::Movable));
            return Some(frame);
        }
    }
    None
}

fn alloc_any_nolock<M: Machine>(guard: &ZoneGuard<'_, '_, M>, want: &Want, reserve: Reserve) -> Option<Frame> {
    let reserved = || guard.alloc_highatomic(want.order);
    if matches!(reserve, Reserve::First)
        && let Some(frame) = reserved()
    {
        return Some(frame);
    }
    match (guard.alloc(want, &mut Mode::Normal, false), reserve) {
        (Some(frame), Reserve::First) => {
            guard.reserve_highatomic(frame, want.order);
            Some(frame)
        }
        (None, Reserve::Last) => reserved(),
        (frame, _) => frame,
    }
}

/// Whether a block was not written to after its free; otherwise it goes into quarantine.
///
/// The block is on no list.
fn is_intact_nolock<M: Machine>(
    shared: &Shared<'_, M>,
    guard: &ZoneGuard<'_, '_, M>,
    frame: Frame,
    order: Order,
) -> bool {
    let pfn = shared.frames.pfn(frame);
    let is_intact = !shared.mechanisms().is_hardened() || shared.machine.is_poisoned(pfn, order);
    if !is_intact {
        shared.events.count(GlobalEvent::WrittenAfterFree);
        guard.buddy().quarantine(frame, order);
    }
    is_intact
}
