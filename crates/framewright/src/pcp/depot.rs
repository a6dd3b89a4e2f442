//! The depot: free blocks between the per-CPU lists and the zone, not merged.
//!
//! A CPU whose list overflows would have to merge half of it into the zone's free lists, and one whose list is empty would
//! have to split blocks anew: both touch descriptors all over memory, under the one lock of the zone. The depot
//! takes what overflows as it is, and hands it to whoever runs empty.
//!
//! The entries of a CPU's ring are those of a *magazine*, 256 of them or fewer, and each ring has a spare one besides. What
//! changes hands is the magazine, not its entries: a ring that is full and whose spare is full gives that away for an empty one,
//! a ring that is empty and whose spare is empty gets a full one for it (Bonwick and Adams, USENIX 2001). So a page that one
//! CPU allocates and another frees costs a small part of a lock, and frames that come and go never meet the buddy
//! system at all.
//!
//! Each zone's depot is cut into *shards*, one for each CPU up to [`SHARDS`]; a CPU gives to its own and takes from its own, and
//! only when that has none from another's. A shard has a lock of its own, a fixed number of magazines, and a stack of full
//! ones for each kind of list. When no empty one is left, what overflows goes to the zone as it would without.
//!
//! Merging is late, not lost: a request that the zone cannot serve empties the zone's depot first, and so does whoever
//! drains. What lies here counts as per-CPU pages.

use crate::pcp::ring::{Ring, RingId, SMALL_RINGS};
use crate::policy::pcp_size::PcpSize;
use crate::seam::field::{Words, tell};
use crate::seam::machine::{Busy, LockName, Machine, Ordering, Patience, Step, Word};
use crate::shared::CallCx;
use crate::sync::rank::Rank;
use crate::sync::ticket_lock::{Ticket, TicketLock};
use crate::types::migratetype::MigrateType;
use crate::types::units::{CpuId, Frame, ZoneIdx};
use crate::zone::zone::Zone;

/// Most entries of a magazine.
const MAGAZINE: u32 = 256;
/// Most frames that a CPU's share of a large zone is taken to be for its lists' `high`: four huge pages of 2 MiB in pages of 4 KiB.
const HIGH: u64 = 1 << 11;
/// Most shards that a zone's depot is cut into.
const SHARDS: usize = 64;
/// How often who waits for a drain looks at it before it gives up. A drain empties a magazine at a time, unless its thread is
/// stopped.
const DRAIN_TRIES: u32 = 1 << 20;

/// Shards of each zone on a machine of so many CPUs.
pub(crate) const fn shards(cpus: usize) -> usize {
    if cpus < SHARDS { cpus } else { SHARDS }
}

/// Frames that a magazine of a zone holds at most: half of what its lists' `high` allows, since a ring has two, but no more than a
/// four-thousandth of the zone, or than 64 in a small one.
#[inline]
pub(crate) fn frames_of(size: PcpSize, managed: u64) -> u32 {
    (size.high / 2).min(usual_frames(size, managed)).max(1)
}

/// Frames that a magazine has where `high` allows it.
fn usual_frames(size: PcpSize, managed: u64) -> u32 {
    let share = (managed >> 12).min(u64::from(MAGAZINE)) as u32;
    (size.high.saturating_add(size.batch) / 2).clamp(2, 64).max(share)
}

/// What `high` is next to a depot if nobody says otherwise, where Linux's formula gives `size`: room for two full magazines, and for as much
/// more as a CPU's share of an eighth of the zone allows, up to [`HIGH`].
#[inline]
pub(crate) fn high_of(size: PcpSize, managed: u64, cpus: u64) -> PcpSize {
    let share = (managed / 8).checked_div(cpus).unwrap_or(0).min(HIGH) as u32;
    PcpSize { high: size.high.max(usual_frames(size, managed).saturating_mul(2)).max(share), ..size }
}

/// Magazines of `frames` frames that each of `shards` shards has when together they shall hold `stored` single frames, and
/// each CPU's rings have two apiece.
pub(crate) fn magazines(stored: u64, frames: u32, shards: usize, cpus: usize) -> u64 {
    let each = u64::from(frames).saturating_mul(shards as u64);
    let cpus_each = cpus.div_ceil(shards.max(1)) as u64;
    let stored = stored.checked_div(each).unwrap_or(0);
    stored.saturating_add(cpus_each.saturating_mul(2 * SMALL_RINGS as u64))
}

/// An array of blocks of one kind of list, or of none. Its entries lie with all others; here is which of them are used.
pub struct Magazine<M: Machine> {
    /// The next on its stack, + 1.
    next: M::U32,
    bottom: M::U32,
    top: M::U32,
}

impl<M: Machine> Default for Magazine<M> {
    fn default() -> Self {
        Magazine { next: Word::new(0), bottom: Word::new(0), top: Word::new(0) }
    }
}

impl<M: Machine> Magazine<M> {
    fn used(&self) -> (u32, u32) {
        (self.bottom.load(Ordering::Relaxed), self.top.load(Ordering::Relaxed))
    }

    fn set_used(&self, (bottom, top): (u32, u32)) {
        self.bottom.store(bottom, Ordering::Relaxed);
        self.top.store(top, Ordering::Relaxed);
    }

    fn len(&self) -> u32 {
        let (bottom, top) = self.used();
        top.wrapping_sub(bottom)
    }
}

/// One part of a zone's depot.
///
/// Invariants, with the lock free:
/// - D1 each block of a full magazine has a head that says "per-CPU", with the order of its stack
/// - D2 `frames` is the number of frames in the magazines on the full stacks
// Aligned so that no two shards share a pair of cache lines.
#[repr(align(128))]
pub struct Shard<M: Machine> {
    lock: TicketLock<M>,
    frames: M::U32,
    /// Top of the stack of empty magazines, + 1, and how many magazines were ever used.
    empty: M::U32,
    fresh: M::U32,
    /// Top of the stack of full magazines of each kind of list, + 1.
    full: [M::U32; SMALL_RINGS],
    /// Magazines that are being emptied for the zone: on no stack meanwhile.
    away: M::U32,
    // Fixed at boot: what its lock is called, and which magazines are its own.
    name: LockName,
    first: u32,
    count: u32,
}

impl<M: Machine> Default for Shard<M> {
    fn default() -> Self {
        Shard {
            lock: TicketLock::default(),
            frames: Word::new(0),
            empty: Word::new(0),
            fresh: Word::new(0),
            full: core::array::from_fn(|_| Word::new(0)),
            away: Word::new(0),
            name: LockName::depot(ZoneIdx::NONE, 0),
            first: 0,
            count: 0,
        }
    }
}

impl<M: Machine> Shard<M> {
    /// Gives the shard its magazines; before the first use. It is the one with number `shard` of its zone.
    pub(crate) fn place(&mut self, (zone, shard): (ZoneIdx, u16), (first, count): (u32, u32)) {
        self.name = LockName::depot(zone, shard);
        self.first = first;
        self.count = count;
    }

    /// Takes the shard's lock without a guard, until [`Shard::release_held`], at a moment when no magazine of it is being emptied.
    ///
    /// # Errors
    /// [`Busy`] when there was none; the lock is free.
    pub(crate) fn hold(&self, machine: &M) -> Result<(), Busy> {
        let _ = self.lock.take(machine, self.name);
        // Written under the lock, so this is certain; what the wait sees is not, and need not be.
        if self.away.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.release_held(machine, false);
        let _ = self.away.wait_while(Patience::Tries(DRAIN_TRIES), |away| away != 0);
        Err(Busy)
    }

    /// Gives up what [`Shard::hold`] took; in a copy, for all who wait.
    pub(crate) fn release_held(&self, machine: &M, copied: bool) {
        if copied { self.lock.release_copied() } else { self.lock.release_held(machine, self.name) }
    }

    /// Frames in the shard, at this moment.
    pub(crate) fn frames_racy(&self) -> u32 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Frames in the shard and in its magazines that are being emptied, at this moment, or more.
    pub(crate) fn cached_racy(&self) -> u64 {
        let away = u64::from(self.away.load(Ordering::Relaxed)).saturating_mul(u64::from(MAGAZINE));
        u64::from(self.frames_racy()).saturating_add(away)
    }

    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        for (name, word) in self.lock.words() {
            tell(visit, format_args!("lock.{name}"), word);
        }
        tell(visit, format_args!("frames"), &self.frames);
        tell(visit, format_args!("empty"), &self.empty);
        tell(visit, format_args!("fresh"), &self.fresh);
        for (ring, word) in small_rings().zip(&self.full) {
            let migratetype = MigrateType::from_index(ring.lists()).unwrap_or_default();
            tell(visit, format_args!("full[{migratetype}] order {}", ring.order), word);
        }
        tell(visit, format_args!("away"), &self.away);
    }

    /// Its magazines: the first, and how many.
    pub(crate) fn own_magazines(&self) -> (u32, u32) {
        (self.first, self.count)
    }

    fn has_empty(&self) -> bool {
        self.empty.load(Ordering::Relaxed) != 0 || self.fresh.load(Ordering::Relaxed) < self.count
    }

    fn has(&self, ring: RingId) -> bool {
        self.full.get(ring.index).is_some_and(|top| top.load(Ordering::Relaxed) != 0)
    }

    // What follows is for whoever holds the lock.

    fn pop<'a>(&self, stack: &M::U32, magazines: &'a [Magazine<M>]) -> Option<(u32, &'a Magazine<M>)> {
        let index = stack.load(Ordering::Relaxed).checked_sub(1)?;
        let magazine = magazines.get(index as usize)?;
        stack.store(magazine.next.load(Ordering::Relaxed), Ordering::Relaxed);
        Some((index, magazine))
    }

    fn push(&self, stack: &M::U32, magazines: &[Magazine<M>], index: u32) {
        if let Some(magazine) = magazines.get(index as usize) {
            magazine.next.store(stack.load(Ordering::Relaxed), Ordering::Relaxed);
            stack.store(index.wrapping_add(1), Ordering::Relaxed);
        }
    }

    fn pop_full<'a>(&self, magazines: &'a [Magazine<M>], ring: RingId) -> Option<(u32, &'a Magazine<M>)> {
        let taken = self.pop(self.full.get(ring.index)?, magazines)?;
        self.count(ring, taken.1, u32::wrapping_sub);
        Some(taken)
    }

    fn count(&self, ring: RingId, magazine: &Magazine<M>, change: impl Fn(u32, u32) -> u32) {
        let frames = magazine.len() << ring.order.0.min(31);
        let now = self.frames.load(Ordering::Relaxed);
        self.frames.store(change(now, frames), Ordering::Relaxed);
    }
}

/// All depots: `each` shards of each zone, the magazines of all of them, and their entries.
pub(crate) struct Depots<'a, M: Machine> {
    pub(crate) shards: &'a [Shard<M>],
    pub(crate) magazines: &'a [Magazine<M>],
    /// Shards of each zone; 0 if there is no depot.
    pub(crate) each: usize,
    /// The first magazine's entries are those from here on, and each has so many.
    pub(crate) base: u32,
    pub(crate) entries: u32,
    pub(crate) slots: &'a [M::U32],
}

impl<'a, M: Machine> Depots<'a, M> {
    /// The shards of a zone.
    pub(crate) fn of(&self, zone: &Zone<M>) -> &'a [Shard<M>] {
        let start = zone.idx.index().saturating_mul(self.each);
        self.shards.get(start..start.saturating_add(self.each)).unwrap_or(&[])
    }

    fn own(&self, cpu: CpuId, zone: &Zone<M>) -> usize {
        cpu.index().checked_rem(self.of(zone).len()).unwrap_or(0)
    }

    /// The first entry of a magazine.
    pub(crate) fn start_of(&self, index: u32) -> u32 {
        self.base.wrapping_add(index.wrapping_mul(self.entries))
    }

    fn magazine(&self, index: u32) -> Option<&'a Magazine<M>> {
        self.magazines.get(index as usize)
    }

    /// Gives an empty ring blocks: those of its spare magazine, or of a full one from the depot. False if there are none.
    pub(crate) fn restock(
        &self,
        cx: CallCx<'_, 'a, M>,
        zone: &Zone<M>,
        id: RingId,
        ring: &Ring<M>,
        limit: u32,
    ) -> bool {
        if ring.spare_len.load(Ordering::Relaxed) != 0 {
            cx.shared.machine.step(Step::Magazine);
            self.swap(ring, limit);
            return true;
        }
        let shards = self.of(zone);
        let own = self.own(cx.cpu, zone);
        let (before, from_own) = shards.split_at_checked(own).unwrap_or((shards, &[]));
        for shard in from_own.iter().chain(before) {
            cx.shared.machine.step(Step::DepotShard);
            if !shard.has(id) {
                continue;
            }
            cx.shared.machine.step(Step::Depot);
            let guard = self.lock(cx, shard);
            let Some((full, magazine)) = guard.pop_full(id) else { continue };
            ring.count_moved(u64::from(magazine.len()));
            cx.shared.machine.step(Step::Magazine);
            if let Some(empty) = self.load(ring, full, limit) {
                // What was loaded is empty: the spare one if there is none yet, else in exchange.
                match ring.spare.load(Ordering::Relaxed) {
                    0 => ring.spare.store(empty.wrapping_add(1), Ordering::Relaxed),
                    _ => guard.push_empty(empty),
                }
            }
            return true;
        }
        false
    }

    /// Gives a ring that is used up to its end an empty magazine: its spare one, or one from the depot for it. False if there
    /// is none.
    pub(crate) fn unload(&self, cx: CallCx<'_, 'a, M>, zone: &Zone<M>, id: RingId, ring: &Ring<M>, limit: u32) -> bool {
        let spare = ring.spare.load(Ordering::Relaxed).checked_sub(1);
        if spare.is_none() || ring.spare_len.load(Ordering::Relaxed) != 0 {
            let Some(empty) = self.exchange(cx, zone, id, ring, spare) else { return false };
            ring.spare.store(empty.wrapping_add(1), Ordering::Relaxed);
            ring.spare_len.store(0, Ordering::Relaxed);
        }
        cx.shared.machine.step(Step::Magazine);
        self.swap(ring, limit);
        true
    }

    /// Gives a ring's spare magazine away, if it has blocks.
    pub(crate) fn shed(&self, cx: CallCx<'_, 'a, M>, zone: &Zone<M>, id: RingId, ring: &Ring<M>) {
        let shard = self.of(zone).get(self.own(cx.cpu, zone)).filter(|_| ring.spare_len.load(Ordering::Relaxed) != 0);
        let spare = ring.spare.load(Ordering::Relaxed).checked_sub(1);
        if let Some(((shard, index), magazine)) = shard.zip(spare).and_then(|both| Some((both, self.magazine(both.1)?)))
        {
            cx.shared.machine.step(Step::Depot);
            ring.count_moved(u64::from(magazine.len()).wrapping_neg());
            ring.spare.store(0, Ordering::Relaxed);
            ring.spare_len.store(0, Ordering::Relaxed);
            self.lock(cx, shard).push_full(id, index, magazine);
        }
    }

    /// An empty magazine, for a full one that goes to the running CPU's shard. If that has no empty one, another has.
    fn exchange(
        &self,
        cx: CallCx<'_, 'a, M>,
        zone: &Zone<M>,
        id: RingId,
        ring: &Ring<M>,
        full: Option<u32>,
    ) -> Option<u32> {
        let shards = self.of(zone);
        let own = shards.get(self.own(cx.cpu, zone))?;
        let elsewhere = || {
            let others = shards.iter().filter(|shard| {
                cx.shared.machine.step(Step::DepotShard);
                !core::ptr::eq(*shard, own) && shard.has_empty()
            });
            others.filter_map(|shard| self.lock(cx, shard).pop_empty(self)).next()
        };
        cx.shared.machine.step(Step::Depot);
        let borrowed = if own.has_empty() { None } else { elsewhere() };
        let guard = self.lock(cx, own);
        let empty = borrowed.or_else(|| guard.pop_empty(self))?;
        if let Some((full, magazine)) = full.and_then(|index| Some((index, self.magazine(index)?))) {
            ring.count_moved(u64::from(magazine.len()).wrapping_neg());
            guard.push_full(id, full, magazine);
        }
        Some(empty)
    }

    /// Exchanges a ring's loaded and spare magazines.
    fn swap(&self, ring: &Ring<M>, limit: u32) {
        let Some(spare) = ring.spare.load(Ordering::Relaxed).checked_sub(1) else { return };
        let len = ring.len();
        let loaded = self.load(ring, spare, limit);
        ring.spare.store(loaded.map_or(0, |index| index.wrapping_add(1)), Ordering::Relaxed);
        ring.spare_len.store(if loaded.is_some() { len } else { 0 }, Ordering::Relaxed);
    }

    /// Makes a magazine's entries those of the ring, of which at most `limit` are to be used; returns the magazine that was.
    fn load(&self, ring: &Ring<M>, index: u32, limit: u32) -> Option<u32> {
        let used = ring.used();
        let loaded = ring.load(Some(index));
        if let Some((loaded, magazine)) = loaded.and_then(|index| Some((index, self.magazine(index)?))) {
            let start = self.start_of(loaded);
            // Empty, it begins anew.
            magazine.set_used(if used.0 == used.1 { (start, start) } else { used });
        }
        let start = self.start_of(index);
        let used = self.magazine(index).map_or((start, start), Magazine::used);
        ring.place((start, start.wrapping_add(limit.min(self.entries)).max(used.1)), used);
        loaded
    }

    /// Takes the coldest block of a ring's spare magazine.
    pub(crate) fn pop_spare(&self, ring: &Ring<M>) -> Option<Frame> {
        let left = ring.spare_len.load(Ordering::Relaxed).checked_sub(1)?;
        let magazine = self.magazine(ring.spare.load(Ordering::Relaxed).checked_sub(1)?)?;
        let (bottom, top) = magazine.used();
        let frame = Frame(self.slots.get(bottom as usize)?.load(Ordering::Relaxed));
        ring.spare_len.store(left, Ordering::Relaxed);
        // Empty, it begins anew.
        let start = self.start_of(ring.spare.load(Ordering::Relaxed).wrapping_sub(1));
        magazine.set_used(if left == 0 { (start, start) } else { (bottom.wrapping_add(1), top) });
        Some(frame)
    }

    /// Calls `visit` with every block of a ring's spare magazine.
    pub(crate) fn each_spare(&self, ring: &Ring<M>, visit: impl FnMut(Frame)) {
        let index = ring.spare.load(Ordering::Relaxed).checked_sub(1);
        if let Some(magazine) = index.and_then(|index| self.magazine(index)) {
            self.each_of(magazine, visit);
        }
    }

    /// Calls `visit` with every block of a magazine, those first that were put in first.
    pub(crate) fn each_of(&self, magazine: &Magazine<M>, mut visit: impl FnMut(Frame)) {
        let (bottom, top) = magazine.used();
        for entry in self.slots.get(bottom as usize..top as usize).unwrap_or(&[]) {
            visit(Frame(entry.load(Ordering::Relaxed)));
        }
    }

    /// Takes some magazine of a shard, whatever its kind, and calls `visit` with it, outside of the shard's lock. False if the
    /// shard is empty. Nobody finds the magazine's blocks meanwhile, so who holds the allocator still waits ([`Shard::hold`]).
    pub(crate) fn drain(
        &self,
        cx: CallCx<'_, 'a, M>,
        shard: &Shard<M>,
        visit: impl FnOnce(&Magazine<M>, RingId),
    ) -> bool {
        cx.shared.machine.step(Step::Depot);
        let taken = {
            let guard = self.lock(cx, shard);
            let taken = small_rings().find_map(|ring| Some((guard.pop_full(ring)?, ring)));
            if taken.is_some() {
                guard.count_away(1);
            }
            taken
        };
        let Some(((index, magazine), ring)) = taken else { return false };
        // On no stack now, so it is nobody else's.
        visit(magazine, ring);
        let guard = self.lock(cx, shard);
        guard.push_empty(index);
        guard.count_away(u32::MAX);
        true
    }

    /// Takes every block out of a shard and hands it to `visit`, from any context. Nothing, if the shard is locked.
    pub(crate) fn drain_nolock(&self, shard: &Shard<M>, visit: impl Fn(Frame, RingId)) {
        let Some(ticket) = (shard.frames_racy() != 0).then(|| shard.lock.try_take()).flatten() else { return };
        for ring in small_rings() {
            while let Some((index, magazine)) = shard.pop_full(self.magazines, ring) {
                self.each_of(magazine, |frame| visit(frame, ring));
                shard.push(&shard.empty, self.magazines, index);
            }
        }
        shard.lock.give_up(&ticket);
    }

    /// Calls `visit` with every block in a zone's depot; at a quiescent point.
    pub(crate) fn each(&self, zone: &Zone<M>, mut visit: impl FnMut(Frame, RingId)) {
        for (shard, ring) in self.of(zone).iter().flat_map(|shard| small_rings().map(move |ring| (shard, ring))) {
            let mut top = shard.full.get(ring.index).map_or(0, |top| top.load(Ordering::Relaxed));
            // No more than there are, should the links be damaged.
            for _ in self.magazines {
                let Some(magazine) = top.checked_sub(1).and_then(|index| self.magazine(index)) else { break };
                self.each_of(magazine, |frame| visit(frame, ring));
                top = magazine.next.load(Ordering::Relaxed);
            }
        }
    }

    fn lock<'g>(&'g self, cx: CallCx<'g, 'a, M>, shard: &'g Shard<M>) -> ShardGuard<'g, 'a, M> {
        let irq = cx.shared.machine.irq_save();
        cx.own.held.enter(&cx.shared.machine, Rank::Depot);
        cx.shared.machine.step(Step::Lock);
        let ticket = shard.lock.take(&cx.shared.machine, shard.name);
        ShardGuard { ticket, _irq: irq, cx, shard, magazines: self.magazines }
    }
}

fn small_rings() -> impl Iterator<Item = RingId> {
    (0..SMALL_RINGS).filter_map(RingId::small_nth)
}

/// Proof that a shard's lock is held.
struct ShardGuard<'g, 'a, M: Machine> {
    ticket: Ticket,
    // Dropped after `ShardGuard::drop` has released the lock.
    _irq: M::Irq<'g>,
    cx: CallCx<'g, 'a, M>,
    shard: &'g Shard<M>,
    magazines: &'a [Magazine<M>],
}

impl<M: Machine> Drop for ShardGuard<'_, '_, M> {
    fn drop(&mut self) {
        self.cx.own.held.leave(&self.cx.shared.machine, Rank::Depot);
        self.shard.lock.release(&self.ticket, &self.cx.shared.machine, self.shard.name);
    }
}

impl<'a, M: Machine> ShardGuard<'_, 'a, M> {
    /// A magazine to fill: one that was emptied, else one that was never used, so that the memory of unused ones stays
    /// untouched.
    fn pop_empty(&self, depots: &Depots<'_, M>) -> Option<u32> {
        let index = match self.shard.pop(&self.shard.empty, self.magazines) {
            Some((index, _)) => index,
            None => {
                let fresh = self.shard.fresh.load(Ordering::Relaxed);
                if fresh >= self.shard.count {
                    return None;
                }
                self.shard.fresh.store(fresh.wrapping_add(1), Ordering::Relaxed);
                self.shard.first.wrapping_add(fresh)
            }
        };
        let start = depots.start_of(index);
        self.magazines.get(index as usize)?.set_used((start, start));
        Some(index)
    }

    fn push_empty(&self, index: u32) {
        self.shard.push(&self.shard.empty, self.magazines, index);
    }

    fn pop_full(&self, ring: RingId) -> Option<(u32, &'a Magazine<M>)> {
        self.shard.pop_full(self.magazines, ring)
    }

    fn push_full(&self, ring: RingId, index: u32, magazine: &Magazine<M>) {
        if let Some(stack) = self.shard.full.get(ring.index) {
            self.shard.push(stack, self.magazines, index);
            self.shard.count(ring, magazine, u32::wrapping_add);
        }
    }

    /// So many magazines more are being emptied (or fewer: a negative number).
    fn count_away(&self, change: u32) {
        let away = &self.shard.away;
        away.store(away.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
    }
}
