//! One shard of a zone's depot: its lock, its magazines, and the stacks that they are on.
//!
//! `depot.rs` says what magazines and shards are for. Here is the record, and what is done to it under its lock.

use core::fmt;

use crate::pcp::depot_size::MAGAZINE;
use crate::pcp::ring::SlotRange;
use crate::pcp::ring_id::{RingId, SMALL_RINGS};
use crate::seam::field::record;
use crate::seam::machine::{Busy, LockName, Machine, Ordering, Patience, Word};
use crate::sync::ticket_lock::TicketLock;
use crate::types::counts::FrameCount;
use crate::types::migratetype::MigrateType;
use crate::types::units::ZoneIdx;

/// Number of polls before a waiter for a drain gives up.
///
/// A drain empties one magazine at a time, so it is short unless its thread is stopped.
const DRAIN_TRIES: u32 = 1 << 20;

record! {
    /// An array of blocks of one kind of list, or an empty one.
    ///
    /// The entries lie in the array of all entries; the magazine records which of them are used.
    pub struct Magazine<M: Machine> {
        /// The next on its stack, + 1.
        pub(super) word next: M::U32,
        word bottom: M::U32,
        word top: M::U32,
    }
}

impl<M: Machine> Magazine<M> {
    pub(super) fn used(&self) -> SlotRange {
        SlotRange { start: self.bottom.load(Ordering::Relaxed), end: self.top.load(Ordering::Relaxed) }
    }

    pub(super) fn set_used(&self, used: SlotRange) {
        self.bottom.store(used.start, Ordering::Relaxed);
        self.top.store(used.end, Ordering::Relaxed);
    }

    pub(super) fn len(&self) -> u32 {
        let used = self.used();
        used.end.wrapping_sub(used.start)
    }
}

record! {
    /// One part of a zone's depot.
    ///
    /// Invariants, with the lock free:
    /// - D1 each block of a full magazine has a head that says "per-CPU", with the order of its stack
    /// - D2 `frames` is the number of frames in the magazines on the full stacks
    // Aligned so that no two shards share a pair of cache lines.
    #[repr(align(128))]
    pub struct Shard<M: Machine> {
        pub(super) record lock: TicketLock<M>,
        word frames: M::U32,
        /// Top of the stack of empty magazines, + 1, and number of magazines ever used.
        pub(super) word empty: M::U32,
        pub(super) word fresh: M::U32,
        /// Top of the stack of full magazines of each kind of list, + 1.
        pub(super) word("full{list}"; list in small_rings().map(ListName)) full: [M::U32; SMALL_RINGS],
        /// Magazines that are being emptied for the zone; they are on no stack meanwhile.
        pub(super) word away: M::U32,
        // The name of its lock, and which magazines belong to it.
        pub(super) fixed name: LockName = LockName::depot(ZoneIdx::NONE, 0),
        pub(super) fixed first: u32,
        pub(super) fixed count: u32,
    }
}

/// Displays the kind of a list of small blocks: `[Movable] order 2`.
struct ListName(RingId);

impl fmt::Display for ListName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let migratetype = MigrateType::from_index(self.0.lists()).unwrap_or_default();
        write!(f, "[{migratetype}] order {}", self.0.order)
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
    pub(crate) fn cached_racy(&self) -> FrameCount {
        let away = u64::from(self.away.load(Ordering::Relaxed)).saturating_mul(u64::from(MAGAZINE));
        FrameCount(u64::from(self.frames_racy()).saturating_add(away))
    }

    /// Returns its magazines: the first, and how many.
    pub(crate) fn own_magazines(&self) -> (u32, u32) {
        (self.first, self.count)
    }

    pub(super) fn has_empty(&self) -> bool {
        self.empty.load(Ordering::Relaxed) != 0 || self.fresh.load(Ordering::Relaxed) < self.count
    }

    pub(super) fn has(&self, ring: RingId) -> bool {
        self.full.get(ring.index).is_some_and(|top| top.load(Ordering::Relaxed) != 0)
    }

    // The methods below require the lock.

    pub(super) fn pop<'a>(&self, stack: &M::U32, magazines: &'a [Magazine<M>]) -> Option<(u32, &'a Magazine<M>)> {
        let index = stack.load(Ordering::Relaxed).checked_sub(1)?;
        let magazine = magazines.get(index as usize)?;
        stack.store(magazine.next.load(Ordering::Relaxed), Ordering::Relaxed);
        Some((index, magazine))
    }

    pub(super) fn push(&self, stack: &M::U32, magazines: &[Magazine<M>], index: u32) {
        if let Some(magazine) = magazines.get(index as usize) {
            magazine.next.store(stack.load(Ordering::Relaxed), Ordering::Relaxed);
            stack.store(index.wrapping_add(1), Ordering::Relaxed);
        }
    }

    pub(super) fn pop_full<'a>(
        &self,
        machine: &M,
        magazines: &'a [Magazine<M>],
        ring: RingId,
    ) -> Option<(u32, &'a Magazine<M>)> {
        let taken = self.pop(self.full.get(ring.index)?, magazines)?;
        self.count(machine, (frames_of(ring, taken.1) as i32).wrapping_neg());
        Some(taken)
    }

    pub(super) fn push_full(&self, machine: &M, magazines: &[Magazine<M>], ring: RingId, index: u32) {
        if let Some((stack, magazine)) = self.full.get(ring.index).zip(magazines.get(index as usize)) {
            self.push(stack, magazines, index);
            self.count(machine, frames_of(ring, magazine) as i32);
        }
    }

    fn count(&self, machine: &M, change: i32) {
        let now = self.frames.load(Ordering::Relaxed);
        self.frames.store(now.wrapping_add_signed(change), Ordering::Relaxed);
        machine.stored_changed(self.name.zone_index(), change.into());
    }
}

pub(super) fn small_rings() -> impl Iterator<Item = RingId> {
    (0..SMALL_RINGS).filter_map(RingId::small_nth)
}

/// Returns the frames of the blocks in a magazine of this list.
fn frames_of<M: Machine>(ring: RingId, magazine: &Magazine<M>) -> u32 {
    magazine.len() << ring.order.0.min(31)
}
