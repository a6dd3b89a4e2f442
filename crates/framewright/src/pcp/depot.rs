//! The depot: free blocks between the per-CPU lists and the zone, not merged.
//!
//! Without a depot, a CPU whose list overflows merges half of it into the zone's free lists. A CPU whose list is empty
//! splits blocks again. Both touch descriptors all over memory, under the one lock of the zone. The depot accepts the
//! overflow as it is, and supplies CPUs whose lists are empty.
//!
//! # Magazines
//!
//! The entries of a CPU's ring are those of a *magazine*, 256 of them or fewer. Each ring also has a spare magazine.
//! CPUs exchange magazines, not entries (Bonwick and Adams, USENIX 2001):
//!
//! | ring and its spare | exchange |
//! |---|---|
//! | both full | the full spare for an empty magazine |
//! | both empty | the empty spare for a full magazine |
//!
//! So a page that one CPU allocates and another frees costs a small part of a lock. Frames that come and go never meet
//! the buddy system at all.
//!
//! # Shards
//!
//! Each zone's depot is divided into *shards*, one for each CPU up to [`SHARDS`]. A CPU frees to its own shard and
//! allocates from its own; it turns to another shard only when its own has no magazine. A shard has its own lock, a
//! fixed number of magazines, and a stack of full ones for each kind of list. When no empty one is left, the overflow
//! goes to the zone, as it would without a depot.
//!
//! Merging is late, not lost: a request that the zone cannot serve empties the zone's depot first, and so does a drain.
//! Blocks in the depot count as per-CPU pages.

use crate::pcp::ring::{Ring, RingId, SMALL_RINGS, SlotRange};
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
/// Most frames that a CPU's share of a large zone adds to its lists' `high`.
///
/// Four huge pages of 2 MiB in pages of 4 KiB.
const HIGH: u64 = 1 << 11;
/// Most shards of a zone's depot.
const SHARDS: usize = 64;
/// Number of polls before a waiter for a drain gives up.
///
/// A drain empties one magazine at a time, so it is short unless its thread is stopped.
const DRAIN_TRIES: u32 = 1 << 20;

/// Returns the shards of each zone on a machine with `cpus` CPUs.
pub(crate) const fn shards(cpus: usize) -> usize {
    if cpus < SHARDS { cpus } else { SHARDS }
}

/// Returns the most frames that a magazine of a zone holds.
///
/// This is half of what its lists' `high` allows, since a ring has two magazines. It is no more than a four-thousandth
/// of the zone, or than 64 in a small zone.
#[inline]
pub(crate) fn frames_of(size: PcpSize, managed: u64) -> u32 {
    (size.high / 2).min(usual_frames(size, managed)).max(1)
}

/// Returns the frames that a magazine has where `high` allows it.
fn usual_frames(size: PcpSize, managed: u64) -> u32 {
    let share = (managed >> 12).min(u64::from(MAGAZINE)) as u32;
    (size.high.saturating_add(size.batch) / 2).clamp(2, 64).max(share)
}

/// Returns the default `high` next to a depot, where Linux's formula gives `size`.
///
/// It is the largest of `size.high`, two full magazines, and a CPU's share of an eighth of the zone. The share counts
/// up to [`HIGH`].
#[inline]
pub(crate) fn high_of(size: PcpSize, managed: u64, cpus: u64) -> PcpSize {
    let share = (managed / 8).checked_div(cpus).unwrap_or(0).min(HIGH) as u32;
    PcpSize { high: size.high.max(usual_frames(size, managed).saturating_mul(2)).max(share), ..size }
}

/// Returns the magazines that each of `shards` shards has, of `frames` frames each.
///
/// Together they shall hold `stored` single frames, and two magazines for each ring of each CPU.
pub(crate) fn magazines(stored: u64, frames: u32, shards: usize, cpus: usize) -> u64 {
    let each = u64::from(frames).saturating_mul(shards as u64);
    let cpus_each = cpus.div_ceil(shards.max(1)) as u64;
    let stored = stored.checked_div(each).unwrap_or(0);
    stored.saturating_add(cpus_each.saturating_mul(2 * SMALL_RINGS as u64))
}

/// An array of blocks of one kind of list, or an empty one.
///
/// The entries lie in the array of all entries; the magazine records which of them are used.
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
    fn used(&self) -> SlotRange {
        SlotRange { start: self.bottom.load(Ordering::Relaxed), end: self.top.load(Ordering::Relaxed) }
    }

    fn set_used(&self, used: SlotRange) {
        self.bottom.store(used.start, Ordering::Relaxed);
        self.top.store(used.end, Ordering::Relaxed);
    }

    fn len(&self) -> u32 {
        let used = self.used();
        used.end.wrapping_sub(used.start)
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
    /// Top of the stack of empty magazines, + 1, and number of magazines ever used.
    empty: M::U32,
    fresh: M::U32,
    /// Top of the stack of full magazines of each kind of list, + 1.
    full: [M::U32; SMALL_RINGS],
    /// Magazines that are being emptied for the zone; they are on no stack meanwhile.
    away: M::U32,
    // Fixed at boot: the name of its lock, and which magazines belong to it.
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
    /// Sets the shard's lock name and its magazines: `count` from number `first` on.
    ///
    /// Context: before the first use.
    pub(crate) fn place(&mut self, name: LockName, first: u32, count: u32) {
        self.name = name;
        self.first = first;
        self.count = count;
    }

    /// Takes the shard's lock without a guard, when none of its magazines is being emptied.
    ///
    /// The lock is held until [`Shard::release_held`].
    ///
    /// # Errors
    /// [`Busy`] when a magazine was being emptied; the lock is free.
    pub(crate) fn hold(&self, machine: &M) -> Result<(), Busy> {
        let _ = self.lock.take(machine, self.name);
        // Written under the lock, so this load is exact. The loads of the wait are not, and need not be.
        if self.away.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.release_held(machine, false);
        let _ = self.away.wait_while(Patience::Tries(DRAIN_TRIES), |away| away != 0);
        Err(Busy)
    }

    /// Releases the lock that [`Shard::hold`] took; in a copy, on behalf of all waiters.
    pub(crate) fn release_held(&self, machine: &M, copied: bool) {
        if copied { self.lock.release_copied() } else { self.lock.release_held(machine, self.name) }
    }

    /// Returns the frames in the shard, at this moment.
    pub(crate) fn frames_racy(&self) -> u32 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Returns an upper bound of the frames in the shard, at this moment.
    ///
    /// It includes the magazines that are being emptied.
    pub(crate) fn cached_racy(&self) -> u64 {
        let away = u64::from(self.away.load(Ordering::Relaxed)).saturating_mul(u64::from(MAGAZINE));
        u64::from(self.frames_racy()).saturating_add(away)
    }

    /// Reports its words by name.
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

    /// Returns its magazines: the first, and how many.
    pub(crate) fn own_magazines(&self) -> (u32, u32) {
        (self.first, self.count)
    }

    fn has_empty(&self) -> bool {
        self.empty.load(Ordering::Relaxed) != 0 || self.fresh.load(Ordering::Relaxed) < self.count
    }

    fn has(&self, ring: RingId) -> bool {
        self.full.get(ring.index).is_some_and(|top| top.load(Ordering::Relaxed) != 0)
    }

    // The methods below require the lock.

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

/// All depots: `each` shards of each zone, all magazines, and their entries.
pub(crate) struct Depots<'a, M: Machine> {
    pub(crate) shards: &'a [Shard<M>],
    pub(crate) magazines: &'a [Magazine<M>],
    /// Shards of each zone; 0 if there is no depot.
    pub(crate) each: usize,
    /// First entry of the first magazine, and the number of entries of each magazine.
    pub(crate) base: u32,
    pub(crate) entries: u32,
    pub(crate) slots: &'a [M::U32],
}

impl<'a, M: Machine> Depots<'a, M> {
    /// Returns the shards of a zone.
    pub(crate) fn of(&self, zone: &Zone<M>) -> &'a [Shard<M>] {
        let start = zone.idx.index().saturating_mul(self.each);
        self.shards.get(start..start.saturating_add(self.each)).unwrap_or(&[])
    }

    fn own(&self, cpu: CpuId, zone: &Zone<M>) -> usize {
        cpu.index().checked_rem(self.of(zone).len()).unwrap_or(0)
    }

    /// Returns the first entry of a magazine.
    pub(crate) fn start_of(&self, index: u32) -> u32 {
        self.base.wrapping_add(index.wrapping_mul(self.entries))
    }

    fn magazine(&self, index: u32) -> Option<&'a Magazine<M>> {
        self.magazines.get(index as usize)
    }

    /// Fills an empty ring with its spare magazine, or with one of the depot.
    ///
    /// Returns false if there are none.
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
                // The magazine that was loaded is empty. It becomes the spare one if there is none yet; else the shard
                // gets it.
                match ring.spare.load(Ordering::Relaxed) {
                    0 => ring.spare.store(empty.wrapping_add(1), Ordering::Relaxed),
                    _ => guard.push_empty(empty),
                }
            }
            return true;
        }
        false
    }

    /// Gives a ring that is used up to its end an empty magazine.
    ///
    /// This is its spare one, or one from the depot in exchange for it. Returns false if there is none.
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

    /// Moves a ring's spare magazine to the depot, if it has blocks.
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

    /// Returns an empty magazine, in exchange for a full one for the running CPU's shard.
    ///
    /// If that shard has no empty magazine, another shard supplies one.
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

    /// Makes a magazine's entries those of the ring; returns the magazine loaded before.
    ///
    /// At most `limit` of the entries are to be used.
    fn load(&self, ring: &Ring<M>, index: u32, limit: u32) -> Option<u32> {
        let used = ring.used();
        let loaded = ring.load(Some(index));
        if let Some((loaded, magazine)) = loaded.and_then(|index| Some((index, self.magazine(index)?))) {
            let start = self.start_of(loaded);
            // An empty magazine starts again at its first entry.
            magazine.set_used(if used.start == used.end { SlotRange::empty_at(start) } else { used });
        }
        let start = self.start_of(index);
        let used = self.magazine(index).map_or(SlotRange::empty_at(start), Magazine::used);
        let end = start.wrapping_add(limit.min(self.entries)).max(used.end);
        ring.place(SlotRange { start, end }, used);
        loaded
    }

    /// Takes the coldest block of a ring's spare magazine.
    pub(crate) fn pop_spare(&self, ring: &Ring<M>) -> Option<Frame> {
        let left = ring.spare_len.load(Ordering::Relaxed).checked_sub(1)?;
        let magazine = self.magazine(ring.spare.load(Ordering::Relaxed).checked_sub(1)?)?;
        let used = magazine.used();
        let frame = Frame(self.slots.get(used.start as usize)?.load(Ordering::Relaxed));
        ring.spare_len.store(left, Ordering::Relaxed);
        // An empty magazine starts again at its first entry.
        let start = self.start_of(ring.spare.load(Ordering::Relaxed).wrapping_sub(1));
        let rest = SlotRange { start: used.start.wrapping_add(1), ..used };
        magazine.set_used(if left == 0 { SlotRange::empty_at(start) } else { rest });
        Some(frame)
    }

    /// Calls `visit` with every block of a ring's spare magazine.
    pub(crate) fn each_spare(&self, ring: &Ring<M>, visit: impl FnMut(Frame)) {
        let index = ring.spare.load(Ordering::Relaxed).checked_sub(1);
        if let Some(magazine) = index.and_then(|index| self.magazine(index)) {
            self.each_of(magazine, visit);
        }
    }

    /// Calls `visit` with every block of a magazine, oldest first.
    pub(crate) fn each_of(&self, magazine: &Magazine<M>, mut visit: impl FnMut(Frame)) {
        let used = magazine.used();
        for entry in self.slots.get(used.start as usize..used.end as usize).unwrap_or(&[]) {
            visit(Frame(entry.load(Ordering::Relaxed)));
        }
    }

    /// Takes any full magazine of a shard and calls `visit` with it, unlocked.
    ///
    /// Returns false if the shard is empty. No other caller finds the magazine's blocks meanwhile, so a holder of the
    /// whole allocator waits for the end ([`Shard::hold`]).
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
        // On no stack now, so no other CPU uses it.
        visit(magazine, ring);
        let guard = self.lock(cx, shard);
        guard.push_empty(index);
        guard.count_away(u32::MAX);
        true
    }

    /// Takes every block out of a shard and passes it to `visit`, from any context.
    ///
    /// Does nothing if the shard is locked.
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

    /// Calls `visit` with every block in a zone's depot.
    ///
    /// Context: a quiescent point.
    pub(crate) fn each(&self, zone: &Zone<M>, mut visit: impl FnMut(Frame, RingId)) {
        for (shard, ring) in self.of(zone).iter().flat_map(|shard| small_rings().map(move |ring| (shard, ring))) {
            let mut top = shard.full.get(ring.index).map_or(0, |top| top.load(Ordering::Relaxed));
            // No more steps than there are magazines, in case the links are damaged.
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
    /// Returns a magazine to fill.
    ///
    /// Emptied magazines come first, then one that was never used. So the memory of unused ones stays untouched.
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
        self.magazines.get(index as usize)?.set_used(SlotRange::empty_at(start));
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

    /// Adds to the number of magazines that are being emptied; a negated number subtracts.
    fn count_away(&self, change: u32) {
        let away = &self.shard.away;
        away.store(away.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
    }
}
