//! Per-CPU lists: what an allocation hits first.
//!
//! Each CPU keeps, for each zone, a few free blocks of the small orders (0-3, and the pageblock order for huge pages), by order
//! and mobility, in *rings*: plain arrays of frame numbers. Taking pops the block freed last, while it is warm in the
//! cache; giving pushes. Neither touches a link, a lock or an atomic read-modify-write, only the ring and the block's
//! head byte. An empty ring is refilled by `batch` frames under the zone lock; when all rings together reach `high`,
//! a batch goes back, from the cold ends, ring by ring in turn.
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

use crate::buddy::Place;
use crate::event::Event;
use crate::fallback::{Mode, Want};
use crate::frame::Head;
use crate::ground::Cx;
use crate::lock::Rank;
use crate::machine::{Busy, Fault, Machine, Ordering, Patience, Step, Word};
use crate::pfn::{CpuId, Frame, MigrateType, Order};
use crate::vmstat::ZoneEvents;
use crate::watermark::PcpSize;
use crate::zone::{Zone, ZoneGuard};

/// Orders 0 to 3 have per-CPU lists (above, a request costs more than a list saves), and the pageblock order.
const SMALL_ORDERS: usize = 4;
/// Rings of small orders, then two for huge pages: movable and not.
const RINGS: usize = SMALL_ORDERS * MigrateType::PCP_COUNT + 2;
/// How often a drain looks at a busy owner before it gives up. An owner's section is short unless its thread is stopped.
const DRAIN_TRIES: u32 = 1 << 20;
/// How many other claimers a claimer lets pass.
const CLAIM_ROUNDS: u32 = 16;
/// Ring entries in a cache line: each CPU's rings of a zone start on one of their own.
const SLOTS_IN_LINE: usize = 16;

/// One of a CPU's lists: an order, and a mobility that requests can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RingId {
    index: usize,
    pub(crate) order: Order,
}

impl RingId {
    /// The ring for blocks of an order and type; none if such blocks are not kept per CPU.
    pub(crate) fn of(order: Order, migratetype: MigrateType, pageblock_order: Order) -> Option<RingId> {
        let small = order.index() < SMALL_ORDERS;
        let index = match migratetype {
            MigrateType::Isolate => return None,
            // What lies in a reserve serves movable requests while it is cached.
            MigrateType::HighAtomic | MigrateType::Cma => MigrateType::Movable.index(),
            other => other.index(),
        };
        if small {
            Some(RingId { index: order.index() * MigrateType::PCP_COUNT + index, order })
        } else if order == pageblock_order {
            let movable = usize::from(index == MigrateType::Movable.index());
            Some(RingId { index: SMALL_ORDERS * MigrateType::PCP_COUNT + movable, order })
        } else {
            None
        }
    }

    /// Every ring that a geometry has.
    pub(crate) fn all(pageblock_order: Order) -> impl Iterator<Item = RingId> {
        let small = (0..RINGS - 2).map(|index| RingId { index, order: Order((index / MigrateType::PCP_COUNT) as u8) });
        let huge = (RINGS - 2..RINGS).map(move |index| RingId { index, order: pageblock_order });
        small.chain(huge.filter(move |_| pageblock_order.index() >= SMALL_ORDERS))
    }

    /// Entries that the ring needs: all of `high` and a batch more, at least two refills, rounded to a power of two.
    pub(crate) fn capacity(self, size: PcpSize) -> u32 {
        let frames = size.high.saturating_add(size.batch);
        (frames >> self.order.0.min(31)).clamp(4, 1 << 25).next_power_of_two()
    }
}

/// Ring entries that one CPU needs for a zone.
pub(crate) fn slots(size: PcpSize, pageblock_order: Order) -> u64 {
    let slots: u64 = RingId::all(pageblock_order).map(|ring| u64::from(ring.capacity(size))).sum();
    slots.next_multiple_of(SLOTS_IN_LINE as u64)
}

/// One array of frame numbers. `bottom` is the cold end; entries wrap at the capacity.
struct Ring<M: Machine> {
    bottom: M::U32,
    len: M::U32,
    /// First slot and capacity, fixed at boot.
    start: usize,
    capacity: u32,
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
    count: M::U32,
    /// Ring that the next drain begins with.
    turn: M::U32,
    rings: [Ring<M>; RINGS],
    pub(crate) events: ZoneEvents<M>,
    size: PcpSize,
}

impl<M: Machine> Default for Pcp<M> {
    fn default() -> Self {
        Pcp {
            busy: Word::new(0),
            claim: Word::new(0),
            count: Word::new(0),
            turn: Word::new(0),
            rings: core::array::from_fn(|_| Ring { bottom: Word::new(0), len: Word::new(0), start: 0, capacity: 0 }),
            events: ZoneEvents::default(),
            size: PcpSize::default(),
        }
    }
}

impl<M: Machine> Pcp<M> {
    /// Lays the rings out from slot `start` on; returns the slot behind them.
    pub(crate) fn place(&mut self, size: PcpSize, pageblock_order: Order, start: usize) -> usize {
        self.size = size;
        let mut next = start;
        for id in RingId::all(pageblock_order) {
            if let Some(ring) = self.rings.get_mut(id.index) {
                ring.start = next;
                ring.capacity = id.capacity(size);
                next = next.saturating_add(ring.capacity as usize);
            }
        }
        next.next_multiple_of(SLOTS_IN_LINE)
    }

    /// Frames in all rings, at this moment.
    pub(crate) fn count_racy(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn size(&self) -> PcpSize {
        self.size
    }
}

/// All per-CPU lists: one record per CPU and zone, and the slots of all rings.
pub(crate) struct Pcps<'a, M: Machine> {
    pub(crate) records: &'a [Pcp<M>],
    pub(crate) slots: &'a [M::U32],
    pub(crate) zones: usize,
}

impl<'a, M: Machine> Pcps<'a, M> {
    pub(crate) fn record(&self, cpu: CpuId, zone: &Zone<M>) -> Option<&'a Pcp<M>> {
        let index = cpu.index().checked_mul(self.zones)?.checked_add(zone.idx.index())?;
        self.records.get(index)
    }

    /// Enters the lists of the running CPU. None when they are in use, by a drain or by what this call interrupted: the
    /// caller goes to the zone instead.
    #[inline]
    pub(crate) fn enter<'g>(&self, cx: Cx<'g, 'a, M>, zone: &'g Zone<M>) -> Option<PcpGuard<'g, 'a, M>> {
        let machine = &cx.ground.machine;
        let pcp = self.record(cx.cpu, zone)?;
        let irq = machine.irq_save();
        if pcp.busy.load(Ordering::Relaxed) != 0 || machine.fault(Fault::PcpBusy) {
            return None;
        }
        pcp.busy.store(1, Ordering::Relaxed);
        // ORDER: light fence. `busy` is out before `claim` is looked at; partner: the heavy fence in `claim`.
        // Model: pcp_free.
        machine.light_fence();
        // ORDER: Acquire. Sees the rings as the last claimer left them; partner: the Release in `PcpGuard::drop`.
        // Model: pcp_alloc.
        if pcp.claim.load(Ordering::Acquire) != 0 {
            // ORDER: Release. Who waits for `busy` to be 0 may meet this 0 alone, so it publishes earlier turns as well;
            // partner: the wait in `claim`. Model: pcp_away_struck.
            pcp.busy.store(0, Ordering::Release);
            return None;
        }
        cx.own.held.enter(Rank::Pcp);
        Some(PcpGuard { _irq: irq, cx, zone, pcp, slots: self.slots, flag: &pcp.busy })
    }

    /// Enters the lists of any CPU, shutting its owner out.
    ///
    /// # Errors
    /// [`Busy`] when another claimer or the owner did not leave in time; nothing was changed.
    pub(crate) fn claim<'g>(
        &self,
        cx: Cx<'g, 'a, M>,
        cpu: CpuId,
        zone: &'g Zone<M>,
    ) -> Result<PcpGuard<'g, 'a, M>, Busy> {
        let machine = &cx.ground.machine;
        let pcp = self.record(cpu, zone).ok_or(Busy)?;
        // ORDER: Acquire. Sees what the last claimer did; partner: the Release in `PcpGuard::drop`.
        // Covered: the heavy fence below acquires it too. Model: pcp_crowd.
        let mut claimed = pcp.claim.cas(0, 1, Ordering::Acquire);
        for _ in 0..CLAIM_ROUNDS {
            if claimed.is_ok() {
                break;
            }
            // ORDER: as above, for the wait and for the exchange. Covered: by the heavy fence. Model: pcp_crowd.
            pcp.claim.wait_while(Patience::Tries(DRAIN_TRIES), |claim| claim != 0)?;
            claimed = pcp.claim.cas(0, 1, Ordering::Acquire);
        }
        claimed.map_err(|_| Busy)?;
        // Interrupts stay on until the wait is over: a heavy fence may be an interrupt to every CPU, and one that comes in
        // here finds the claim and goes to the zone.
        // ORDER: heavy fence. `claim` is out before `busy` is looked at; partner: the light fence in `enter`.
        // Model: pcp_free.
        machine.heavy_fence();
        // ORDER: the wait acquires what the owner did; partner: the Release of `busy` in `PcpGuard::drop` and `enter`.
        // Model: pcp_free.
        if let Err(busy) = pcp.busy.wait_while(Patience::Tries(DRAIN_TRIES), |busy| busy != 0) {
            // ORDER: Release. Passes on what the last claimer did; partner: the Acquires of `claim`. Covered: the heavy
            // fence above publishes it too. Model: pcp_crowd.
            pcp.claim.store(0, Ordering::Release);
            return Err(busy);
        }
        let irq = machine.irq_save();
        cx.own.held.enter(Rank::Pcp);
        Ok(PcpGuard { _irq: irq, cx, zone, pcp, slots: self.slots, flag: &pcp.claim })
    }
}

/// Proof that one CPU's lists of a zone are held, by their owner or by a claimer.
pub(crate) struct PcpGuard<'g, 'a, M: Machine> {
    _irq: M::Irq<'g>,
    cx: Cx<'g, 'a, M>,
    zone: &'g Zone<M>,
    pcp: &'a Pcp<M>,
    slots: &'a [M::U32],
    /// The word that says so: `busy` or `claim`.
    flag: &'a M::U32,
}

impl<M: Machine> Drop for PcpGuard<'_, '_, M> {
    fn drop(&mut self) {
        self.cx.own.held.leave(Rank::Pcp);
        // ORDER: Release. Publishes the rings; partner: the Acquire of the other side in `enter` or `claim`.
        // Model: pcp_free, pcp_alloc.
        self.flag.store(0, Ordering::Release);
    }
}

impl<'a, M: Machine> PcpGuard<'_, 'a, M> {
    /// The counters of the running CPU, if that is whose lists these are.
    pub(crate) fn events(&self) -> &'a ZoneEvents<M> {
        &self.pcp.events
    }

    /// Takes a block, refilling the ring if it is empty.
    pub(crate) fn take(&self, id: RingId, want: &Want) -> Option<Frame> {
        let ring = self.pcp.rings.get(id.index)?;
        if ring.len.load(Ordering::Relaxed) == 0 {
            self.refill(id, ring, want);
        }
        self.take_cached(id)
    }

    /// Takes a block if the ring has one.
    #[inline]
    pub(crate) fn take_cached(&self, id: RingId) -> Option<Frame> {
        self.cx.ground.machine.step(Step::Pcp);
        let ring = self.pcp.rings.get(id.index)?;
        loop {
            let frame = self.pop(id, ring)?;
            // A damaged entry is dropped here and found by `validate`; it must not be handed out.
            if self.cx.ground.frames.head(frame) == Head::pcp(id.order) {
                return Some(frame);
            }
        }
    }

    /// Puts a block in whose head byte the caller has checked; gives a batch back when there are too many.
    pub(crate) fn give(&self, id: RingId, frame: Frame) {
        self.cx.ground.machine.step(Step::Pcp);
        let Some(ring) = self.pcp.rings.get(id.index) else { return };
        let PcpSize { batch, high } = self.pcp.size;
        if ring.len.load(Ordering::Relaxed) >= ring.capacity {
            // A drain takes from all rings in turn and may pass this one by: make room here.
            self.spill(id.index);
        }
        self.cx.ground.frames.set_head(frame, Head::pcp(id.order));
        self.push_top(id, ring, frame);
        if self.pcp.count.load(Ordering::Relaxed) >= high {
            self.drain(batch);
        }
    }

    /// Gives at least `frames` frames back to the zone, or all there are: from the cold ends, ring by ring. Returns how many.
    pub(crate) fn drain(&self, frames: u32) -> u32 {
        if self.pcp.count.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let zone = self.zone.lock(self.cx);
        let mut drained = 0_u32;
        let mut ring = self.pcp.turn.load(Ordering::Relaxed) as usize;
        let mut empty = 0;
        while drained < frames && empty < RINGS {
            ring = if ring + 1 < RINGS { ring + 1 } else { 0 };
            let Some((frame, order)) = self.pop_bottom(ring) else {
                empty += 1;
                continue;
            };
            empty = 0;
            drained = drained.saturating_add(order.frames() as u32);
            self.give_to_zone(&zone, frame, order);
        }
        self.pcp.turn.store(ring as u32, Ordering::Relaxed);
        drained
    }

    /// Gives the coldest block of a ring back to the zone.
    #[cold]
    fn spill(&self, ring: usize) {
        if let Some((frame, order)) = self.pop_bottom(ring) {
            self.give_to_zone(&self.zone.lock(self.cx), frame, order);
        }
    }

    fn give_to_zone(&self, zone: &ZoneGuard<'_, 'a, M>, frame: Frame, order: Order) {
        // A damaged entry stays out of the lists; `validate` finds it.
        if self.cx.ground.frames.head(frame) == Head::pcp(order) {
            self.cx.ground.frames.set_head(frame, Head::NONE);
            self.note_drain(frame, order);
            zone.give(frame, order, Place::Warm);
        }
    }

    /// Whether every ring has room for the entries it says it has.
    pub(crate) fn fits(&self) -> bool {
        self.pcp.rings.iter().all(|ring| ring.len.load(Ordering::Relaxed) <= ring.capacity)
    }

    /// Calls `visit` with every entry and the order it should have.
    pub(crate) fn entries(&self, mut visit: impl FnMut(Frame, Order)) {
        let pageblock_order = self.cx.ground.frames.geometry.pageblock_order;
        for id in RingId::all(pageblock_order) {
            let Some(ring) = self.pcp.rings.get(id.index) else { continue };
            for at in 0..ring.len.load(Ordering::Relaxed) {
                if let Some(slot) = self.slot(ring, at) {
                    visit(Frame(slot.load(Ordering::Relaxed)), id.order);
                }
            }
        }
    }

    /// Moves this CPU's counts to the zone; the CPU is offline.
    pub(crate) fn fold_events(&self) {
        self.pcp.events.fold_into(&self.zone.events);
    }

    fn refill(&self, id: RingId, ring: &Ring<M>, want: &Want) {
        if self.cx.ground.machine.fault(Fault::Refill) {
            return;
        }
        // A batch is counted in frames; of larger blocks at least two come at once.
        let batch = (self.pcp.size.batch >> id.order.0.min(31)).max(if self.pcp.size.batch > 1 { 2 } else { 1 });
        let zone = self.zone.lock(self.cx);
        let mut mode = Mode::Normal;
        for _ in 0..batch.min(ring.capacity) {
            let Some(frame) = zone.take(want, &mut mode, true) else { break };
            self.cx.ground.frames.set_head(frame, Head::pcp(id.order));
            self.push_bottom(id, ring, frame);
        }
    }

    fn slot(&self, ring: &Ring<M>, at: u32) -> Option<&'a M::U32> {
        let wrapped = ring.bottom.load(Ordering::Relaxed).wrapping_add(at) & ring.capacity.wrapping_sub(1);
        self.slots.get(ring.start.wrapping_add(wrapped as usize))
    }

    fn pop(&self, id: RingId, ring: &Ring<M>) -> Option<Frame> {
        let len = ring.len.load(Ordering::Relaxed).checked_sub(1)?;
        let frame = Frame(self.slot(ring, len)?.load(Ordering::Relaxed));
        self.set_len(ring, len, id.order.frames().wrapping_neg());
        Some(frame)
    }

    fn push_top(&self, id: RingId, ring: &Ring<M>, frame: Frame) {
        let len = ring.len.load(Ordering::Relaxed);
        if let Some(slot) = self.slot(ring, len) {
            slot.store(frame.0, Ordering::Relaxed);
            self.set_len(ring, len.wrapping_add(1), id.order.frames());
        }
    }

    /// Puts a block under all others, so that a refill is used up in the order it was taken.
    fn push_bottom(&self, id: RingId, ring: &Ring<M>, frame: Frame) {
        if let Some(slot) = self.slot(ring, u32::MAX) {
            slot.store(frame.0, Ordering::Relaxed);
            ring.bottom.store(ring.bottom.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
            self.set_len(ring, ring.len.load(Ordering::Relaxed).wrapping_add(1), id.order.frames());
        }
    }

    fn pop_bottom(&self, ring: usize) -> Option<(Frame, Order)> {
        let order = if ring < RINGS - 2 {
            Order((ring / MigrateType::PCP_COUNT) as u8)
        } else {
            self.cx.ground.frames.geometry.pageblock_order
        };
        let ring = self.pcp.rings.get(ring)?;
        let len = ring.len.load(Ordering::Relaxed).checked_sub(1)?;
        let frame = Frame(self.slot(ring, 0)?.load(Ordering::Relaxed));
        ring.bottom.store(ring.bottom.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.set_len(ring, len, order.frames().wrapping_neg());
        Some((frame, order))
    }

    fn set_len(&self, ring: &Ring<M>, len: u32, frames: u64) {
        ring.len.store(len, Ordering::Relaxed);
        self.pcp.count.store(self.pcp.count.load(Ordering::Relaxed).wrapping_add(frames as u32), Ordering::Relaxed);
    }

    fn note_drain(&self, frame: Frame, order: Order) {
        let (machine, frames) = (&self.cx.ground.machine, &self.cx.ground.frames);
        if machine.traces() {
            let migratetype = frames.pageblock(frame).migratetype();
            machine.event(&Event::PcpuDrain { pfn: frames.pfn(frame), order, migratetype });
        }
    }
}
