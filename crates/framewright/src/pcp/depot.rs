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
//! Each zone's depot is divided into *shards*, one for each CPU up to 64 (`depot_size.rs`). A CPU frees to its own
//! shard and allocates from its own; it turns to another shard only when its own has no magazine. A shard has its own
//! lock, a fixed number of magazines, and a stack of full ones for each kind of list. When no empty one is left, the
//! overflow goes to the zone, as it would without a depot.
//!
//! Merging is late, not lost: a request that the zone cannot serve empties the zone's depot first, and so does a drain.
//! Blocks in the depot count as per-CPU pages.

use crate::pcp::ring::{Ring, SlotRange};
use crate::pcp::ring_id::RingId;
use crate::pcp::shard::{Magazine, Shard, small_rings};
use crate::seam::compiled::Compiled;
use crate::seam::machine::{LockEvent, Machine, Ordering, Step, Word};
use crate::shared::CallCx;
use crate::sync::rank::Rank;
use crate::sync::ticket_lock::Ticket;
use crate::types::units::{CpuId, Frame};
use crate::zone::zone::Zone;

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
        if !M::MAY_STORE {
            return &[];
        }
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
            let guard = match cx.may_wait() {
                true => self.lock(cx, shard),
                false => match self.try_lock(cx, shard) {
                    Some(guard) => guard,
                    None => continue,
                },
            };
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
            self.lock(cx, shard).push_full(id, index);
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
            guard.push_full(id, full);
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
        let left = if M::MAY_STORE { ring.spare_len.load(Ordering::Relaxed).checked_sub(1)? } else { return None };
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
    pub(crate) fn drain_nolock(&self, machine: &M, shard: &Shard<M>, visit: impl Fn(Frame, RingId)) {
        let Some(ticket) = (shard.frames_racy() != 0).then(|| shard.lock.try_take()).flatten() else { return };
        for ring in small_rings() {
            while let Some((index, magazine)) = shard.pop_full(machine, self.magazines, ring) {
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

    /// Takes a shard's lock if it is free.
    fn try_lock<'g>(&'g self, cx: CallCx<'g, 'a, M>, shard: &'g Shard<M>) -> Option<ShardGuard<'g, 'a, M>> {
        let machine = &cx.shared.machine;
        let irq = machine.irq_save();
        let ticket = shard.lock.try_take()?;
        cx.own.held.enter(machine, Rank::Depot);
        for event in [LockEvent::Wanted, LockEvent::Taken] {
            machine.lock(shard.name, event);
        }
        Some(ShardGuard { ticket, _irq: irq, cx, shard, magazines: self.magazines })
    }
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
        self.shard.pop_full(&self.cx.shared.machine, self.magazines, ring)
    }

    fn push_full(&self, ring: RingId, index: u32) {
        self.shard.push_full(&self.cx.shared.machine, self.magazines, ring, index);
    }

    /// Adds to the number of magazines that are being emptied; a negated number subtracts.
    fn count_away(&self, change: u32) {
        let away = &self.shard.away;
        away.store(away.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
    }
}
