//! Per-CPU lists: what an allocation hits first.
//!
//! Each CPU keeps, for each zone, a few free blocks of the small orders (0-3, and the pageblock order for huge pages), by order
//! and mobility, in *rings* (`ring.rs`). Taking pops the block freed last, while it is warm in the cache; giving pushes.
//! Neither touches a link, a lock or an atomic read-modify-write, only the ring and the block's head byte.
//!
//! An empty ring takes a magazine from the zone's depot, if there is one (`depot.rs`), or is refilled by `batch` frames under
//! the zone lock. A full one puts half of itself into the depot. Without a depot, a batch goes back to the zone when
//! all rings together reach `high`: from the cold ends, ring by ring in turn.
//!
//! # Whose turn it is
//!
//! A CPU's rings are its own. Whoever else needs them (a drain, a CPU that goes offline) pays for both sides:
//!
//! | owner, on every operation | other side, rarely |
//! |---|---|
//! | `busy = 1` | `claim = 1` (CAS: one at a time) |
//! | light fence (compiler only) | heavy fence (every CPU passes a full fence) |
//! | `claim` set? then `busy = 0` and go to the zone | wait while `busy` |
//! | … use the rings … | … use the rings … |
//! | `busy = 0` (release) | `claim = 0` (release) |
//!
//! One of the two must see the other's flag: the classic store-load pattern, with both fences on the right side. An owner
//! that finds itself busy already (an interrupt came in between) goes to the zone as well, and never waits.
//!
//! At the *front* (`front.rs`), where nearly all operations end, the owner does none of that: it moves the top of one ring
//! inside of that ring's window (`ring.rs`). A claimer who has waited for `busy` closes all windows and passes another heavy
//! fence; from then on it may take from the bottoms. Only an owner who looked at `claim` opens windows, so they stay closed.

use crate::buddy::Place;
use crate::depot::{self, Depots};
use crate::event::Event;
use crate::fallback::{Mode, Want};
use crate::frame::Head;
use crate::ground::{Cpu, Cx, Ground};
use crate::lock::Rank;
use crate::machine::{Busy, Fault, Machine, Ordering, Patience, Step, Word};
use crate::pfn::{CpuId, Frame, MigrateType, Order};
use crate::ring::{RINGS, Ring, RingId, SMALL_ORDERS};
use crate::vmstat::{ZoneEvent, ZoneEvents};
use crate::watermark::PcpSize;
use crate::zone::{Zone, ZoneGuard};

/// How often a drain looks at a busy owner before it gives up. An owner's section is short unless its thread is stopped.
const DRAIN_TRIES: u32 = 1 << 20;
/// How many other claimers a claimer lets pass.
const CLAIM_ROUNDS: u32 = 16;
/// Ring entries in a cache line: each CPU's rings of a zone start on one of their own, and the first line stays unused.
pub(crate) const SLOTS_IN_LINE: u32 = 16;

/// Ring entries that one CPU needs for a zone, besides those of magazines.
pub(crate) fn slots(size: PcpSize, depot: bool, pageblock_order: Order) -> u64 {
    let own = RingId::all(pageblock_order).filter(|id| !depot || id.huge().is_some());
    let slots: u64 = own.map(|id| u64::from(id.capacity(room(size, depot)))).sum();
    slots.next_multiple_of(u64::from(SLOTS_IN_LINE))
}

/// Frames that a ring has room for: all of `high` and a batch more. Next to a depot that is the rings of huge pages alone, which
/// have room for as few as there must be.
fn room(size: PcpSize, depot: bool) -> u32 {
    if depot { 0 } else { size.high.saturating_add(size.batch) }
}

/// One CPU's lists of one zone.
///
/// Invariants, while neither owner nor claimer is at it:
/// - P1 each entry of a ring is a block whose head says "per-CPU" with the ring's order
/// - P2 `count` is the number of frames in all rings; no ring has more entries than room
// Aligned so that no two CPUs write to the same pair of cache lines.
#[repr(align(128))]
pub struct Pcp<M: Machine> {
    busy: M::U32,
    claim: M::U32,
    /// Frames in all rings; kept only without a depot.
    count: M::U32,
    /// Ring that the next drain begins with.
    turn: M::U32,
    // Fixed at boot: whether there is a depot, and a front; and how many frames a magazine takes at most.
    depot: bool,
    front: bool,
    frames: u32,
    size: PcpSize,
    small: [[Ring<M>; SMALL_ORDERS]; MigrateType::PCP_COUNT],
    huge: [Ring<M>; 2],
    /// What the rings do not count themselves.
    pub(crate) events: ZoneEvents<M>,
}

impl<M: Machine> Default for Pcp<M> {
    fn default() -> Self {
        Pcp {
            busy: Word::new(0),
            claim: Word::new(0),
            count: Word::new(0),
            turn: Word::new(0),
            depot: false,
            front: false,
            frames: 0,
            size: PcpSize::default(),
            small: core::array::from_fn(|_| core::array::from_fn(|_| Ring::default())),
            huge: [Ring::default(), Ring::default()],
            events: ZoneEvents::default(),
        }
    }
}

impl<M: Machine> Pcp<M> {
    /// Lays the rings out from slot `start` on; returns the slot behind them. With a depot they get their entries from there.
    pub(crate) fn place(
        &mut self,
        size: PcpSize,
        (depot, front): (bool, bool),
        (managed, pageblock_order): (u64, Order),
        start: u32,
    ) -> u32 {
        (self.size, self.depot, self.front) = (size, depot, front);
        self.frames = depot::frames_of(size, managed);
        let mut next = start;
        for (id, ring) in self.rings(pageblock_order).filter(|(id, _)| !depot || id.huge().is_some()) {
            let end = next.saturating_add(id.capacity(room(size, depot)));
            ring.place((next, end), (next, next));
            next = end;
        }
        self.open();
        next.next_multiple_of(SLOTS_IN_LINE)
    }

    /// Entries of a magazine that blocks of this order use.
    fn limit(&self, order: Order) -> u32 {
        (self.frames >> order.0.min(31)).max(2)
    }

    /// The ring of an order and type.
    #[inline(always)]
    pub(crate) fn ring(&self, id: RingId) -> Option<&Ring<M>> {
        match id.huge() {
            Some(huge) => self.huge.get(huge),
            None => self.small.get(id.lists())?.get(id.order.index()),
        }
    }

    /// The rings of the small orders for the type of lists with this number.
    #[inline(always)]
    pub(crate) fn rings_of(&self, lists: usize) -> Option<&[Ring<M>; SMALL_ORDERS]> {
        self.small.get(lists)
    }

    fn rings(&self, pageblock_order: Order) -> impl Iterator<Item = (RingId, &Ring<M>)> {
        RingId::all(pageblock_order).filter_map(|id| Some((id, self.ring(id)?)))
    }

    fn every_ring(&self) -> impl Iterator<Item = &Ring<M>> {
        self.small.iter().flatten().chain(&self.huge)
    }

    /// Frames in all rings, at this moment.
    pub(crate) fn count_racy(&self, pageblock_order: Order) -> u32 {
        if self.depot {
            self.rings(pageblock_order).map(|(id, ring)| ring.total() << id.order.0.min(31)).fold(0, u32::wrapping_add)
        } else {
            self.count.load(Ordering::Relaxed)
        }
    }

    pub(crate) fn size(&self) -> PcpSize {
        self.size
    }

    /// How often something happened on this CPU in this zone, at this moment.
    pub(crate) fn event_racy(&self, event: ZoneEvent, pageblock_order: Order) -> u64 {
        let traffic = || self.rings(pageblock_order).map(|(id, ring)| (id.order.0, ring.traffic_racy()));
        let by_ring = match event {
            ZoneEvent::Allocs => traffic().map(|(_, (taken, _))| taken).fold(0, u64::wrapping_add),
            ZoneEvent::AllocFrames => traffic().map(|(order, (taken, _))| taken << order).fold(0, u64::wrapping_add),
            ZoneEvent::FreeFrames => traffic().map(|(order, (_, given))| given << order).fold(0, u64::wrapping_add),
            _ => 0,
        };
        self.events.get(event).wrapping_add(by_ring)
    }

    /// The owner comes to its lists. None when they are in use, by a drain or by what this call interrupted.
    #[inline(always)]
    pub(crate) fn enter<'g>(&'g self, machine: &'g M, own: &'g Cpu<M>) -> Option<Turn<'g, M>> {
        let irq = machine.irq_save();
        if self.busy.load(Ordering::Relaxed) != 0 || machine.fault(Fault::PcpBusy) {
            return None;
        }
        self.busy.store(1, Ordering::Relaxed);
        // ORDER: light fence. `busy` is out before `claim` is looked at; partner: the heavy fence in `claim`.
        // Model: pcp_free.
        machine.light_fence();
        // ORDER: Acquire. Sees the rings as the last claimer left them; partner: the Release in `Turn::drop`.
        // Model: pcp_alloc.
        if self.claim.load(Ordering::Acquire) != 0 {
            // ORDER: Release. Who waits for `busy` to be 0 may meet this 0 alone, so it publishes earlier turns as well;
            // partner: the wait in `claim`. Model: pcp_away_struck.
            self.busy.store(0, Ordering::Release);
            return None;
        }
        own.held.enter(Rank::Pcp);
        Some(Turn { _irq: irq, own, flag: &self.busy })
    }

    /// Shuts the owner out of its lists and waits until it has left them.
    fn claim<'g>(&'g self, machine: &'g M, own: &'g Cpu<M>) -> Result<Turn<'g, M>, Busy> {
        // ORDER: Acquire. Sees what the last claimer did; partner: the Release in `Turn::drop`.
        // Covered: the heavy fence below acquires it too. Model: pcp_crowd.
        let mut claimed = self.claim.cas(0, 1, Ordering::Acquire);
        for _ in 0..CLAIM_ROUNDS {
            if claimed.is_ok() {
                break;
            }
            // ORDER: as above, for the wait and for the exchange. Covered: by the heavy fence. Model: pcp_crowd.
            self.claim.wait_while(Patience::Tries(DRAIN_TRIES), |claim| claim != 0)?;
            claimed = self.claim.cas(0, 1, Ordering::Acquire);
        }
        claimed.map_err(|_| Busy)?;
        if let Err(busy) = self.shut(machine) {
            // ORDER: Release. Passes on what the last claimer did; partner: the Acquires of `claim`. Covered: the heavy
            // fence above publishes it too. Model: pcp_crowd.
            self.claim.store(0, Ordering::Release);
            return Err(busy);
        }
        let irq = machine.irq_save();
        own.held.enter(Rank::Pcp);
        Ok(Turn { _irq: irq, own, flag: &self.claim })
    }

    /// Waits for the owner to leave, and closes its front. Interrupts stay on until the wait is over: a heavy fence may be an
    /// interrupt to every CPU, and one that comes in here finds the claim and goes to the zone.
    fn shut(&self, machine: &M) -> Result<(), Busy> {
        // ORDER: heavy fence. `claim` is out before `busy` is looked at; partner: the light fence in `enter`.
        // Model: pcp_free.
        machine.heavy_fence();
        // ORDER: the wait acquires what the owner did; partner: the Release of `busy` in `Turn::drop` and `enter`.
        // Model: pcp_free.
        self.busy.wait_while(Patience::Tries(DRAIN_TRIES), |busy| busy != 0)?;
        if self.front {
            self.every_ring().for_each(Ring::close);
            // ORDER: heavy fence. The closed windows are out before the tops are looked at; partner: the light fence in
            // `Ring::pop_front`. Model: pcp_front.
            machine.heavy_fence();
        }
        Ok(())
    }

    /// Opens the windows of all rings.
    fn open(&self) {
        if self.front {
            self.every_ring().for_each(Ring::open);
        }
    }
}

/// Proof that one CPU's lists of a zone are held, by their owner or by a claimer.
pub(crate) struct Turn<'g, M: Machine> {
    _irq: M::Irq<'g>,
    own: &'g Cpu<M>,
    /// The word that says so: `busy` or `claim`.
    flag: &'g M::U32,
}

impl<M: Machine> Drop for Turn<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        self.own.held.leave(Rank::Pcp);
        // ORDER: Release. Publishes the rings; partner: the Acquire of the other side in `enter` or `claim`.
        // Model: pcp_free, pcp_alloc.
        self.flag.store(0, Ordering::Release);
    }
}

/// All per-CPU lists: one record per CPU and zone, the entries of all rings, and what lies behind them.
pub(crate) struct Pcps<'a, M: Machine> {
    pub(crate) records: &'a [Pcp<M>],
    pub(crate) slots: &'a [M::U32],
    pub(crate) depots: Depots<'a, M>,
    pub(crate) zones: usize,
}

impl<'a, M: Machine> Pcps<'a, M> {
    /// A CPU's lists of the zone with this index.
    #[inline(always)]
    pub(crate) fn record(&self, cpu: CpuId, zone: usize) -> Option<&'a Pcp<M>> {
        if zone < self.zones { self.records.get(cpu.index().wrapping_mul(self.zones).wrapping_add(zone)) } else { None }
    }

    /// Enters the lists of the running CPU. None when they are in use, by a drain or by what this call interrupted: the
    /// caller goes to the zone instead.
    #[inline]
    pub(crate) fn enter<'g>(&'g self, cx: Cx<'g, 'a, M>, zone: &'g Zone<M>) -> Option<PcpGuard<'g, 'a, M>> {
        let pcp = self.record(cx.cpu, zone.idx.index())?;
        let turn = pcp.enter(&cx.ground.machine, cx.own)?;
        Some(PcpGuard { _turn: turn, pcp, cx, zone, pcps: self, is_owner: true })
    }

    /// Enters the lists of any CPU, shutting its owner out.
    ///
    /// # Errors
    /// [`Busy`] when another claimer or the owner did not leave in time; nothing was changed.
    pub(crate) fn claim<'g>(
        &'g self,
        cx: Cx<'g, 'a, M>,
        cpu: CpuId,
        zone: &'g Zone<M>,
    ) -> Result<PcpGuard<'g, 'a, M>, Busy> {
        let pcp = self.record(cpu, zone.idx.index()).ok_or(Busy)?;
        let turn = pcp.claim(&cx.ground.machine, cx.own)?;
        Ok(PcpGuard { _turn: turn, pcp, cx, zone, pcps: self, is_owner: false })
    }
}

/// One CPU's lists of a zone, held, and what they are filled from and emptied into.
pub(crate) struct PcpGuard<'g, 'a, M: Machine> {
    // Dropped after `PcpGuard::drop` has opened the windows.
    _turn: Turn<'g, M>,
    pcp: &'a Pcp<M>,
    cx: Cx<'g, 'a, M>,
    zone: &'g Zone<M>,
    pcps: &'g Pcps<'a, M>,
    is_owner: bool,
}

impl<M: Machine> Drop for PcpGuard<'_, '_, M> {
    fn drop(&mut self) {
        if !self.is_owner {
            self.pcp.open();
        }
    }
}

impl<'a, M: Machine> PcpGuard<'_, 'a, M> {
    /// The counters of the CPU whose lists these are.
    pub(crate) fn events(&self) -> &'a ZoneEvents<M> {
        &self.pcp.events
    }

    fn order_of_huge(&self) -> Order {
        self.cx.ground.frames.geometry.pageblock_order
    }

    /// A ring gained so many blocks (or lost them: a negative number), by other ways than its owner's window.
    fn settle(&self, id: RingId, ring: &Ring<M>, blocks: u32) {
        if !self.pcp.depot {
            let count = self.pcp.count.load(Ordering::Relaxed);
            self.pcp.count.store(count.wrapping_add(blocks << id.order.0.min(31)), Ordering::Relaxed);
        } else if self.is_owner && self.pcp.front {
            ring.open();
        }
    }

    /// Takes a block, filling the ring from the depot or else from the zone if it is empty.
    pub(crate) fn take(&self, id: RingId, want: &Want) -> Option<Frame> {
        self.take_stocked(id).or_else(|| {
            self.refill(id, want);
            self.take_cached(id)
        })
    }

    /// Takes a block if the ring or the depot has one: it left the zone's free memory long ago.
    pub(crate) fn take_stocked(&self, id: RingId) -> Option<Frame> {
        self.take_cached(id).or_else(|| {
            let ring = self.pcp.ring(id).filter(|_| self.has_magazines(id))?;
            let restocked = self.pcps.depots.restock(self.cx, self.zone, id, ring, self.pcp.limit(id.order));
            self.settle(id, ring, 0);
            if restocked { self.take_cached(id) } else { None }
        })
    }

    /// Whether the ring can hold blocks: not if it has no magazine and could get none.
    pub(crate) fn has_room(&self, id: RingId) -> bool {
        self.pcp.ring(id).is_some_and(|ring| ring.capacity() != 0)
    }

    fn has_magazines(&self, id: RingId) -> bool {
        self.pcp.depot && id.huge().is_none()
    }

    /// Takes a block if the ring has one.
    fn take_cached(&self, id: RingId) -> Option<Frame> {
        self.cx.ground.machine.step(Step::Pcp);
        let ring = self.pcp.ring(id)?;
        loop {
            let frame = ring.pop(self.pcps.slots)?;
            self.settle(id, ring, u32::MAX);
            if self.cx.ground.frames.head(frame) == Head::pcp(id.order) {
                ring.count_taken();
                return Some(frame);
            }
            // A damaged entry is dropped here and found by `validate`; it must not be handed out.
            ring.count_moved(u64::MAX);
        }
    }

    /// Puts a block in whose head byte the caller has checked; gives a batch back when there are too many.
    pub(crate) fn give(&self, id: RingId, frame: Frame) {
        self.cx.ground.machine.step(Step::Pcp);
        let Some(ring) = self.pcp.ring(id) else { return };
        if !self.make_room(id, ring) {
            let zone = self.zone.lock(self.cx);
            self.cx.ground.frames.set_head(frame, Head::NONE);
            zone.give(frame, id.order, Place::Warm);
            self.pcp.events.count(ZoneEvent::FreeFrames, id.order.frames());
            return;
        }
        self.cx.ground.frames.set_head(frame, Head::pcp(id.order));
        ring.push(self.pcps.slots, frame);
        self.settle(id, ring, 1);
        if !self.pcp.depot && self.pcp.count.load(Ordering::Relaxed) >= self.pcp.size.high {
            self.drain(self.pcp.size.batch);
        }
    }

    /// Sees to it that a ring has room for another block. False if there can be none.
    fn make_room(&self, id: RingId, ring: &Ring<M>) -> bool {
        if self.has_magazines(id) {
            return !ring.is_at_end()
                || self.pcps.depots.unload(self.cx, self.zone, id, ring, self.pcp.limit(id.order));
        }
        if ring.is_full() {
            // Of huge pages the colder half goes back. Others' rings are full only when drains, which take from all in turn,
            // passed them by.
            let zone = self.zone.lock(self.cx);
            for _ in 0..if self.pcp.depot { ring.capacity() / 2 } else { 1 } {
                let Some(frame) = self.pop_bottom(id, ring) else { break };
                self.give_to_zone(&zone, frame, id.order);
            }
        }
        true
    }

    /// Gives at least `frames` frames back to the zone, or all there are: from the cold ends, ring by ring. Returns how many.
    pub(crate) fn drain(&self, frames: u32) -> u32 {
        let pageblock_order = self.order_of_huge();
        if self.pcp.count_racy(pageblock_order) == 0 {
            return 0;
        }
        let zone = self.zone.lock(self.cx);
        let mut drained = 0_u32;
        let mut at = self.pcp.turn.load(Ordering::Relaxed) as usize;
        let mut empty = 0;
        while drained < frames && empty < RINGS {
            at = if at + 1 < RINGS { at + 1 } else { 0 };
            let id = RingId::nth(at, pageblock_order);
            let Some((id, frame)) = id.and_then(|id| Some((id, self.pop_bottom(id, self.pcp.ring(id)?)?))) else {
                empty += 1;
                continue;
            };
            empty = 0;
            drained = drained.saturating_add(id.order.frames() as u32);
            self.give_to_zone(&zone, frame, id.order);
        }
        self.pcp.turn.store(at as u32, Ordering::Relaxed);
        drained
    }

    fn pop_bottom(&self, id: RingId, ring: &Ring<M>) -> Option<Frame> {
        let frame = self.pcps.depots.pop_spare(ring).or_else(|| ring.pop_bottom(self.pcps.slots))?;
        ring.count_moved(u64::MAX);
        self.settle(id, ring, u32::MAX);
        Some(frame)
    }

    fn give_to_zone(&self, zone: &ZoneGuard<'_, 'a, M>, frame: Frame, order: Order) {
        give_to_zone(self.cx.ground, zone, frame, order);
    }

    /// Whether every ring has room for the entries it says it has.
    pub(crate) fn fits(&self) -> bool {
        self.pcp.every_ring().all(Ring::fits)
    }

    /// Calls `visit` with every entry and the order it should have.
    pub(crate) fn entries(&self, mut visit: impl FnMut(Frame, Order)) {
        for (id, ring) in self.pcp.rings(self.order_of_huge()) {
            self.pcps.depots.each_spare(ring, |frame| visit(frame, id.order));
            ring.each(self.pcps.slots, |frame| visit(frame, id.order));
        }
    }

    /// Moves this CPU's counts to the zone; the CPU is offline. `foreign` says whether it is of another node.
    pub(crate) fn fold_events(&self, foreign: bool) {
        let count = |event| self.pcp.event_racy(event, self.order_of_huge());
        if foreign {
            self.zone.events.add(ZoneEvent::NumaOther, count(ZoneEvent::Allocs));
        }
        for event in ZoneEvent::ALL {
            // Not by setting to 0 what the owner counts, who may be at it: what the zone has now is taken off elsewhere.
            let count = count(event);
            self.zone.events.add(event, count);
            self.pcp.events.count(event, count.wrapping_neg());
        }
    }

    fn refill(&self, id: RingId, want: &Want) {
        let Some(ring) = self.pcp.ring(id).filter(|_| !self.cx.ground.machine.fault(Fault::Refill)) else { return };
        // A batch is counted in frames; of larger blocks at least two come at once.
        let batch = (self.pcp.size.batch >> id.order.0.min(31)).max(if self.pcp.size.batch > 1 { 2 } else { 1 });
        if ring.capacity() == 0 && !self.make_room(id, ring) {
            return;
        }
        let batch = batch.min(ring.capacity());
        ring.rewind(batch);
        let zone = self.zone.lock(self.cx);
        let mut mode = Mode::Normal;
        for _ in 0..batch {
            let Some(frame) = zone.take(want, &mut mode, true) else { break };
            self.cx.ground.frames.set_head(frame, Head::pcp(id.order));
            ring.push_bottom(self.pcps.slots, frame);
            ring.count_moved(1);
            self.settle(id, ring, 1);
        }
        // Also if nothing came: the ring is another one now.
        self.settle(id, ring, 0);
    }
}

/// Gives a block of a per-CPU list or a depot back to its zone.
pub(crate) fn give_to_zone<M: Machine>(
    ground: &Ground<'_, M>,
    zone: &ZoneGuard<'_, '_, M>,
    frame: Frame,
    order: Order,
) {
    let frames = &ground.frames;
    // A damaged entry stays out of the lists; `validate` finds it.
    if frames.head(frame) != Head::pcp(order) {
        return;
    }
    frames.set_head(frame, Head::NONE);
    if ground.machine.traces() {
        let migratetype = frames.pageblock(frame).migratetype();
        ground.machine.event(&Event::PcpuDrain { pfn: frames.pfn(frame), order, migratetype });
    }
    zone.give(frame, order, Place::Warm);
}
