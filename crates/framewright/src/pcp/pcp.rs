//! Per-CPU lists: the first place that an allocation tries.
//!
//! Each CPU keeps a few free blocks of each zone in *rings* (`ring.rs`), by order and mobility. The orders are the
//! small ones (0-3) and the pageblock order, for huge pages. An allocation pops the block freed last, while it is warm
//! in the cache; a free pushes. Neither touches a link, a lock or an atomic read-modify-write, only the ring and the
//! block's head byte.
//!
//! `lists.rs` describes how rings are filled and emptied at their other ends. This file decides which party may use
//! them.
//!
//! # Ownership
//!
//! A CPU's rings belong to that CPU, their *owner*. Another party that needs them, a *claimer*, pays for both sides.
//! Claimers are drains and CPUs that go offline.
//!
//! | owner, on every operation | claimer, rarely |
//! |---|---|
//! | `busy = 1` | `claim = 1` (CAS: one at a time) |
//! | light fence (compiler only) | heavy fence (every CPU passes a full fence) |
//! | `claim` set? then `busy = 0` and go to the zone | wait while `busy` |
//! | … use the rings … | … use the rings … |
//! | `busy = 0` (release) | `claim = 0` (release) |
//!
//! One of the two must see the other's flag. This is the classic store-load pattern, with a fence between store and
//! load on each side. An owner that finds `busy` set already was interrupted in between; it goes to the zone as well,
//! and never waits.
//!
//! # Interrupts
//!
//! Whether an interrupt can come in between is a mechanism:
//!
//! | `pcp-protection` | interrupts |
//! |---|---|
//! | `interrupts-off` | are held off all the while |
//! | `preemption-off` | may come, but do not use the lists |
//! | `trylock` | may come and try; if the lists are in use, they go to the zone |
//! | `own-lists` | have lists of their own: to the core they are other CPUs |
//!
//! In all four, an interrupt's work has ended before its CPU goes on. So a flag that was 0 a moment ago is still 0. No
//! exchange is needed, although `trylock` uses one.
//!
//! # Fast path
//!
//! Nearly all operations end in the fast path (`fast_path.rs`). There the owner does none of the above: it moves the
//! top of one ring inside that ring's window (`ring.rs`). A claimer that has waited for `busy` closes all windows and
//! executes another heavy fence. From then on it may take from the bottoms. Only an owner that has checked `claim`
//! opens windows, so they stay closed.

use crate::frame::frame::Frames;
use crate::pcp::autotune::Autotune;
use crate::pcp::expire::Expiry;
use crate::pcp::ring::{Ring, SlotRange};
use crate::pcp::ring_id::{RingId, SMALL_ORDERS};
use crate::policy::mechanisms::PcpProtection;
use crate::policy::pcp_size::PcpSize;
use crate::policy::rules::ListRules;
use crate::seam::compiled::Compiled;
use crate::seam::field::record;
use crate::seam::machine::{Busy, Fault, Machine, Ordering, Patience, Word};
use crate::shared::Cpu;
use crate::stat::vmstat::{ZoneEvent, ZoneEvents};
use crate::sync::rank::Rank;
use crate::types::migratetype::MigrateType;
use crate::types::units::{Frame, Order};

/// Number of polls of a busy owner before a drain gives up.
///
/// An owner's section is short unless its thread is stopped.
const DRAIN_TRIES: u32 = 1 << 20;
/// Most other claimers that a claimer waits for.
const CLAIM_ROUNDS: u32 = 16;
/// Number of polls by a claimer that may not wait.
///
/// It polls a busy owner, or another claimer. Their sections last as long as a section under a lock.
const TRY_LOOKS: u32 = 1 << 12;
/// Ring entries in a cache line.
///
/// Each CPU's rings of a zone start on a cache line of their own; the first line stays unused.
pub(crate) const SLOTS_IN_LINE: u32 = 16;

/// Freed blocks of a CPU that wait before their reuse, where the mechanisms say `hardened`.
const WAITING: u32 = 64;

/// The plan of a CPU's lists of a zone; all CPUs have equal plans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PcpPlan {
    pub(crate) size: PcpSize,
    /// Frames that `high` may grow to; 0 if the size is fixed.
    pub(crate) most: u32,
    /// Frames of a magazine.
    pub(crate) magazine: u32,
    pub(crate) pageblock_order: Order,
    pub(crate) rules: ListRules,
    /// Whether freed blocks wait before their reuse.
    pub(crate) is_hardened: bool,
}

impl PcpPlan {
    /// Returns the ring entries that one CPU needs, besides those of magazines.
    pub(crate) fn slots(&self) -> u64 {
        let own = RingId::all(self.pageblock_order).filter(|id| !self.rules.has_depot || id.huge().is_some());
        let slots: u64 = own.map(|id| u64::from(id.capacity(self.room()))).sum();
        let waiting = if self.is_hardened { u64::from(WAITING) } else { 0 };
        slots.saturating_add(waiting).next_multiple_of(u64::from(SLOTS_IN_LINE))
    }

    /// Returns the frames that a ring has room for.
    ///
    /// Without a depot: `high`, or the `most` that it may grow to, and a batch more. With a depot, only rings of huge
    /// pages have entries of their own, as few as possible.
    fn room(&self) -> u32 {
        if self.rules.has_depot { 0 } else { self.size.high.max(self.most).saturating_add(self.size.batch) }
    }
}

/// How a claimer treats an owner, or another claimer, that holds the lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// It waits until the other has left, unless that takes very long.
    Wait,
    /// It polls for as long as an operation lasts, then gives up.
    ///
    /// In an interrupt it polls once: the holder may be the code that it interrupted.
    Try,
}

impl Claim {
    /// Returns the number of polls of the holder.
    fn tries<M: Machine>(self, machine: &M) -> u32 {
        match self {
            _ if machine.in_interrupt() => 1,
            Claim::Try => TRY_LOOKS,
            Claim::Wait => DRAIN_TRIES,
        }
    }
}

record! {
    /// One CPU's lists of one zone.
    ///
    /// Invariants, while neither owner nor claimer holds it:
    /// - P1 each entry of a ring is a block whose head says "per-CPU" with the ring's order
    /// - P2 `count` is the number of frames in all rings; no ring has more entries than room
    /// - P3 next to a depot, the rings and the waiting blocks are at most `size.high` frames, or one block that waits
    // Aligned so that no two CPUs write to the same pair of cache lines.
    #[repr(align(128))]
    pub struct Pcp<M: Machine> {
        word busy: M::U32,
        word claim: M::U32,
        /// Frames in all rings; kept only without a depot.
        pub(crate) word count: M::U32,
        /// Ring that the next drain begins with.
        pub(crate) word turn: M::U32,
        fixed rules: ListRules,
        /// Frames that a magazine holds at most.
        fixed frames: u32,
        pub(crate) fixed size: PcpSize,
        pub(crate) record("tuning.{}") autotune: Autotune<M>,
        record("ring[{migratetype}].{} order {order}"; migratetype in MigrateType::ALL; order in 0..)
            small: [[Ring<M>; SMALL_ORDERS]; MigrateType::PCP_COUNT],
        record("ring[{mobility}].{} huge"; mobility in ["not movable", "Movable"]) huge: [Ring<M>; 2],
        /// Freed blocks of any order that wait, and their number of frames.
        pub(crate) record waiting: Ring<M>,
        pub(crate) word waiting_frames: M::U32,
        /// How long the lists of another node's zone have been idle.
        pub(crate) record("idle{}") expiry: Expiry<M>,
        /// Events that the rings do not count themselves, while the lists are held.
        pub(crate) record events: ZoneEvents<M>,
        /// Events of the CPU in the zone without its lists.
        ///
        /// An interrupt counts here as well. So these are counted with interrupts off: under the zone lock, or for the
        /// count alone.
        pub(crate) record aside: ZoneEvents<M>,
        /// The part of these counts that the zone took over while the CPU was offline.
        pub(crate) record folded: ZoneEvents<M>,
    }
}

impl<M: Machine> Pcp<M> {
    /// Returns the rules of the lists.
    #[inline(always)]
    pub(crate) fn rules(&self) -> ListRules {
        M::MECHANISMS.map_or(self.rules, |fixed| fixed.list_rules(self.rules.has_fast_path))
    }

    /// Lays the rings out from slot `start` on; returns the first slot after them.
    ///
    /// With a depot, the rings of small orders get their entries from there.
    pub(crate) fn place(&mut self, plan: &PcpPlan, start: u32) -> u32 {
        (self.size, self.rules) = (plan.size, plan.rules);
        self.autotune.begin(plan.size, plan.most);
        self.frames = plan.magazine;
        let mut next = start;
        for (id, ring) in
            self.rings(plan.pageblock_order).filter(|(id, _)| !plan.rules.has_depot || id.huge().is_some())
        {
            let end = next.saturating_add(id.capacity(plan.room()));
            ring.place(SlotRange { start: next, end }, SlotRange::empty_at(next));
            next = end;
        }
        if plan.rules.has_depot {
            self.every_ring().for_each(|ring| ring.set_quota(0));
        }
        if plan.is_hardened {
            let end = next.saturating_add(WAITING);
            self.waiting.place(SlotRange { start: next, end }, SlotRange::empty_at(next));
            next = end;
        }
        self.open();
        next.next_multiple_of(SLOTS_IN_LINE)
    }

    /// Returns its permanent entries, from the first to the last; `None` if it has none.
    pub(crate) fn own_slots(&self) -> Option<SlotRange> {
        let small = self.small.iter().flatten().filter(|_| !self.rules().has_depot);
        let rooms = small.chain(&self.huge).chain([&self.waiting]).map(Ring::room).filter(|room| !room.is_empty());
        rooms.reduce(|all, room| SlotRange { start: all.start.min(room.start), end: all.end.max(room.end) })
    }

    /// Returns the entries of a magazine that blocks of this order use.
    pub(crate) fn limit(&self, order: Order) -> u32 {
        (self.frames >> order.0.min(31)).max(2)
    }

    /// Returns the ring of an order and type.
    #[inline(always)]
    pub(crate) fn ring(&self, id: RingId) -> Option<&Ring<M>> {
        match id.huge() {
            Some(huge) => self.huge.get(huge),
            None => self.small.get(id.small_lists())?.get(id.order.index()),
        }
    }

    /// Returns the rings of the small orders for the type of lists with this number.
    #[inline(always)]
    pub(crate) fn rings_of(&self, lists: usize) -> Option<&[Ring<M>; SMALL_ORDERS]> {
        self.small.get(lists)
    }

    /// Returns the ring of huge pages for the type of lists with this number.
    #[inline(always)]
    pub(crate) fn huge_of(&self, lists: usize) -> &Ring<M> {
        let [other, movable] = &self.huge;
        if lists == MigrateType::Movable.index() { movable } else { other }
    }

    pub(crate) fn rings(&self, pageblock_order: Order) -> impl Iterator<Item = (RingId, &Ring<M>)> {
        RingId::all(pageblock_order).filter_map(|id| Some((id, self.ring(id)?)))
    }

    pub(crate) fn every_ring(&self) -> impl Iterator<Item = &Ring<M>> {
        self.small.iter().flatten().chain(&self.huge)
    }

    /// Returns the frames on the lists, at this moment.
    pub(crate) fn count_racy(&self, pageblock_order: Order) -> u32 {
        let waiting = self.waiting_frames.load(Ordering::Relaxed);
        let cached = if self.rules().has_depot {
            self.rings(pageblock_order).map(|(id, ring)| ring.total() << id.order.0.min(31)).fold(0, u32::wrapping_add)
        } else {
            self.count.load(Ordering::Relaxed)
        };
        cached.wrapping_add(waiting)
    }

    /// Returns the frames on the lists and a traffic number, at this moment.
    ///
    /// The number stays the same if and only if nothing goes through the lists. Looks at each ring once.
    pub(crate) fn look_racy(&self, pageblock_order: Order) -> (u64, u64) {
        let mut frames = u64::from(self.waiting_frames.load(Ordering::Relaxed));
        let mut traffic = self.events.get(ZoneEvent::Allocs).wrapping_add(self.events.get(ZoneEvent::FreeFrames));
        for (id, ring) in self.rings(pageblock_order) {
            let (taken, given) = ring.traffic_racy();
            frames = frames.wrapping_add(u64::from(ring.total()) << id.order.0.min(31));
            traffic = traffic.wrapping_add(taken).wrapping_add(given);
        }
        (frames, traffic)
    }

    /// Adds the frames of a block that starts to wait.
    ///
    /// For a block that stops waiting, `frames` is negated.
    pub(crate) fn count_waiting(&self, frames: u32) {
        let count = self.waiting_frames.load(Ordering::Relaxed);
        self.waiting_frames.store(count.wrapping_add(frames), Ordering::Relaxed);
    }

    /// Takes the block that has waited longest; returns it and its order.
    pub(crate) fn pop_waiting(&self, slots: &[M::U32], frames: &Frames<'_, M>) -> Option<(Frame, Order)> {
        let frame = if M::MAY_WAIT { self.waiting.pop_bottom(slots)? } else { return None };
        let order = frames.head(frame).order();
        self.count_waiting((order.frames() as u32).wrapping_neg());
        Some((frame, order))
    }

    /// Subtracts the frames of a block that left a ring.
    ///
    /// Only without a depot: the lists keep no count next to one.
    pub(crate) fn uncount(&self, id: RingId) {
        if !self.rules().has_depot {
            let count = self.count.load(Ordering::Relaxed);
            self.count.store(count.wrapping_sub(1 << id.order.0.min(31)), Ordering::Relaxed);
        }
    }

    /// Whether its zone has memory.
    pub(crate) fn is_used(&self) -> bool {
        self.size.batch != 0
    }

    /// Returns how often an event happened on this CPU in this zone, at this moment.
    pub(crate) fn event_racy(&self, event: ZoneEvent, pageblock_order: Order) -> u64 {
        self.event_ever(event, pageblock_order).wrapping_sub(self.folded.get(event))
    }

    /// Like [`Pcp::event_racy`], with what the zone has taken over.
    pub(crate) fn event_ever(&self, event: ZoneEvent, pageblock_order: Order) -> u64 {
        let traffic = || self.rings(pageblock_order).map(|(id, ring)| (id.order.0, ring.traffic_racy()));
        let by_ring = match event {
            ZoneEvent::Allocs => traffic().map(|(_, (taken, _))| taken).fold(0, u64::wrapping_add),
            ZoneEvent::AllocFrames => traffic().map(|(order, (taken, _))| taken << order).fold(0, u64::wrapping_add),
            ZoneEvent::FreeFrames => traffic().map(|(order, (_, given))| given << order).fold(0, u64::wrapping_add),
            _ => 0,
        };
        let counted = self.events.get(event).wrapping_add(self.aside.get(event));
        counted.wrapping_add(by_ring)
    }

    /// Returns the traffic through the lists so far, at this moment.
    ///
    /// This number stays the same if and only if the lists are not used.
    pub(crate) fn traffic_racy(&self, pageblock_order: Order) -> u64 {
        let event = |event| self.event_racy(event, pageblock_order);
        event(ZoneEvent::Allocs).wrapping_add(event(ZoneEvent::FreeFrames))
    }

    /// Enters the lists as their owner.
    ///
    /// `None` when they are in use by a drain or by the code that this call interrupted.
    #[inline(always)]
    pub(crate) fn enter<'g>(&'g self, machine: &'g M, own: &'g Cpu<M>) -> Option<Turn<'g, M>> {
        let irq = match self.rules().protection {
            PcpProtection::InterruptsOff => Some(machine.irq_save()),
            PcpProtection::PreemptionOff if machine.in_interrupt() => return None,
            _ => None,
        };
        if machine.fault(Fault::PcpBusy) || !self.try_busy() {
            return None;
        }
        // ORDER: light fence. `busy` is out before `claim` is read; partner: the heavy fence in `close`.
        // Model: pcp_free.
        machine.light_fence();
        // ORDER: Acquire. Sees the rings as the last claimer left them; partner: the Release in `Turn::end`.
        // Model: pcp_alloc.
        if self.claim.load(Ordering::Acquire) != 0 {
            // ORDER: Release. A claimer that waits for `busy` to be 0 may see only this 0, so this store publishes
            // earlier turns as well; partner: the wait in `close`. Model: pcp_away_struck.
            self.busy.store(0, Ordering::Release);
            return None;
        }
        own.held.enter(machine, Rank::Pcp);
        Some(Turn { _irq: irq, machine, own, flag: &self.busy })
    }

    /// Sets `busy`; returns false if it was set already.
    #[inline(always)]
    fn try_busy(&self) -> bool {
        if self.rules().protection == PcpProtection::Trylock {
            // Model: device_trylock.
            return self.busy.cas(0, 1, Ordering::Relaxed).is_ok();
        }
        // Two instructions are enough: an interrupt between them has ended before the second, and left the lists as
        // they were. Model: device_own.
        let is_free = self.busy.load(Ordering::Relaxed) == 0;
        if is_free {
            self.busy.store(1, Ordering::Relaxed);
        }
        is_free
    }

    /// Excludes the owner from its lists, after it has left them.
    ///
    /// # Errors
    /// [`Busy`] when the owner or another claimer did not leave in time, or when this context allows no heavy fence.
    pub(crate) fn claim<'g>(&'g self, machine: &'g M, own: &'g Cpu<M>, claim: Claim) -> Result<Turn<'g, M>, Busy> {
        if (machine.in_interrupt() || claim == Claim::Try) && !machine.may_fence() {
            return Err(Busy);
        }
        self.try_seize(machine, claim.tries(machine))?;
        let irq = machine.irq_save();
        own.held.enter(machine, Rank::Pcp);
        Ok(Turn { _irq: Some(irq), machine, own, flag: &self.claim })
    }

    /// Like [`Pcp::claim`], but always waits, and returns no guard.
    ///
    /// The lists are held until [`Pcp::release_seized`].
    pub(crate) fn seize(&self, machine: &M) -> Result<(), Busy> {
        self.try_seize(machine, DRAIN_TRIES)
    }

    /// Like [`Pcp::seize`], with at most `tries` polls of each earlier holder.
    pub(crate) fn try_seize(&self, machine: &M, tries: u32) -> Result<(), Busy> {
        // ORDER: the heavy fence in `close` acquires what the last claimer did, and publishes it again if this claimer
        // gives up; partner: the Release in `Turn::end`. Model: pcp_crowd.
        let mut claimed = self.claim.cas(0, 1, Ordering::Relaxed);
        for _ in 0..CLAIM_ROUNDS {
            if claimed.is_ok() {
                break;
            }
            self.claim.wait_while(Patience::Tries(tries), |claim| claim != 0)?;
            claimed = self.claim.cas(0, 1, Ordering::Relaxed);
        }
        claimed.map_err(|_| Busy)?;
        self.close(machine, tries).inspect_err(|_| self.claim.store(0, Ordering::Relaxed))
    }

    /// Waits, as long as a claim would, until neither owner nor claimer holds the lists.
    ///
    /// The blocks that they moved are then where they left them.
    pub(crate) fn wait_for_holder(&self, machine: &M, claim: Claim) {
        for word in [&self.claim, &self.busy] {
            // ORDER: Acquire, as in `is_held_racy`. A wait that gives up sees less. Model: reach_freed_plain.
            let _ = word.wait_while(Patience::Tries(claim.tries(machine)), |held| held != 0);
        }
    }

    /// Whether the owner or a claimer holds the lists, at this moment.
    pub(crate) fn is_held_racy(&self) -> bool {
        // ORDER: Acquire of both. Sees where the last holder left what it moved; partners: the Releases in `Turn::end`
        // and at an owner's end. Model: reach_freed_plain.
        [&self.claim, &self.busy].into_iter().any(|word| word.load(Ordering::Acquire) != 0)
    }

    /// Clears `busy` in a copy of the lists, where the owner does not exist.
    ///
    /// When the lists were copied, the owner was about to enter, or to be turned away.
    pub(crate) fn forget_owner(&self) {
        self.busy.store(0, Ordering::Relaxed);
    }

    /// Lets the owner use its lists again.
    pub(crate) fn release_seized(&self) {
        self.open();
        // ORDER: Release, as in `Turn::end`. Model: pcp_free.
        self.claim.store(0, Ordering::Release);
    }

    /// Waits for the owner to leave, and closes its fast path.
    ///
    /// Interrupts stay on until the wait is over, since a heavy fence may be an interrupt to every CPU. An interrupt
    /// that arrives here finds the claim and goes to the zone.
    fn close(&self, machine: &M, tries: u32) -> Result<(), Busy> {
        // ORDER: heavy fence. `claim` is out before `busy` is read; partner: the light fence in `enter`.
        // Model: pcp_free.
        machine.heavy_fence();
        // ORDER: the wait acquires what the owner did; partner: the Release of `busy` in `Turn::end` and `enter`.
        // Model: pcp_free.
        self.busy.wait_while(Patience::Tries(tries), |busy| busy != 0)?;
        if self.rules().has_fast_path {
            self.every_ring().for_each(Ring::close);
            // ORDER: heavy fence. The closed windows are out before the tops are read; partner: the light fence in
            // `Ring::pop_front`. Model: front_alloc.
            machine.heavy_fence();
        }
        Ok(())
    }

    /// Opens the windows of all rings.
    pub(crate) fn open(&self) {
        if self.rules().has_fast_path {
            self.every_ring().for_each(Ring::open);
        }
    }
}

/// Proof that owner or claimer holds a CPU's lists of a zone, until [`Turn::end`].
pub(crate) struct Turn<'g, M: Machine> {
    _irq: Option<M::Irq<'g>>,
    machine: &'g M,
    own: &'g Cpu<M>,
    /// The word that marks the lists as held: `busy` or `claim`.
    flag: &'g M::U32,
}

impl<M: Machine> Turn<'_, M> {
    /// Ends the turn: others may use the lists.
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.own.held.leave(self.machine, Rank::Pcp);
        // ORDER: Release. Publishes the rings; partner: the Acquire of the other side in `enter` or `claim`.
        // Model: pcp_free, pcp_alloc.
        self.flag.store(0, Ordering::Release);
    }
}
