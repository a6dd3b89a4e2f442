//! What is on a zone's lists, in numbers.
//!
//! Numbers of free frames are read by every request that asks for a watermark, on any CPU, so writing them takes their line from all of
//! these (`zone_stat.rs`). Who changes the lists keeps account for himself ([`Tally`]) and adds up once, right before he gives the
//! zone lock up.

use core::cell::Cell;

use crate::seam::field::{Words, tell};
use crate::seam::machine::{Machine, Ordering, Word};
use crate::sync::zone_lock::LockMode;
use crate::types::migratetype::MigrateType;

/// Counts of a zone's lists that no watermark asks for.
///
/// Invariant B4, with the lock free: `isolated` is the sum of the blocks on the isolated lists, in frames; `quarantined` is the frames
/// put aside. `skipped` is the number of free blocks whose state says so. `owned` is the number of pageblocks that CPUs own.
pub(crate) struct ListCount<M: Machine> {
    pub(crate) isolated: M::U64,
    pub(crate) quarantined: M::U64,
    /// Free *blocks* marked as not looked at for merging.
    pub(crate) skipped: M::U64,
    /// Pageblocks that CPUs own; changed by who holds the zone lock alone.
    pub(crate) owned: M::U64,
}

impl<M: Machine> Default for ListCount<M> {
    fn default() -> Self {
        let zero = || Word::new(0);
        ListCount { isolated: zero(), quarantined: zero(), skipped: zero(), owned: zero() }
    }
}

impl<M: Machine> ListCount<M> {
    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        tell(visit, format_args!("count.isolated"), &self.isolated);
        tell(visit, format_args!("count.quarantined"), &self.quarantined);
        tell(visit, format_args!("count.skipped"), &self.skipped);
        tell(visit, format_args!("count.owned"), &self.owned);
    }

    /// Forgets what is on the lists.
    #[inline]
    pub(crate) fn reset(&self) {
        for word in [&self.isolated, &self.skipped] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Adds what one CPU changed, who holds the zone lock in this mode.
    pub(crate) fn add(&self, tally: &Tally, mode: LockMode) {
        add(&self.isolated, tally.isolated.take(), mode);
        add(&self.quarantined, tally.quarantined.take(), mode);
        add(&self.skipped, tally.skipped.take(), mode);
        add(&self.owned, tally.owned.take(), mode);
    }
}

/// Adds to a word that is changed under the zone lock, held in this mode; nothing if there is nothing to add.
pub(crate) fn add(word: &impl Word<u64>, change: u64, mode: LockMode) {
    match mode {
        _ if change == 0 => {}
        LockMode::Alone => word.store(word.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed),
        LockMode::Shared => {
            word.add(change, Ordering::Relaxed);
        }
    }
}

/// What one CPU has changed and not added up yet. Negative numbers in two's complement.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) free: Cell<u64>,
    pub(crate) cma: Cell<u64>,
    highatomic: Cell<u64>,
    isolated: Cell<u64>,
    quarantined: Cell<u64>,
    skipped: Cell<u64>,
    owned: Cell<u64>,
}

fn bump(cell: &Cell<u64>, change: u64) {
    cell.set(cell.get().wrapping_add(change));
}

impl Tally {
    /// What was changed of the numbers of free frames, CMA's and the high-atomic reserve's; they are 0 afterwards.
    #[inline]
    pub(crate) fn free_change(&self) -> [u64; 3] {
        [&self.free, &self.cma, &self.highatomic].map(Cell::take)
    }

    /// So many frames more are free, on lists of this type.
    pub(crate) fn count(&self, migratetype: MigrateType, frames: u64) {
        match migratetype {
            MigrateType::Isolate => return bump(&self.isolated, frames),
            MigrateType::Cma => bump(&self.cma, frames),
            MigrateType::HighAtomic => bump(&self.highatomic, frames),
            _ => {}
        }
        bump(&self.free, frames);
    }

    /// So many blocks more are marked as not looked at for merging.
    pub(crate) fn count_skipped(&self, blocks: u64) {
        bump(&self.skipped, blocks);
    }

    /// So many pageblocks more are owned by CPUs.
    pub(crate) fn count_owned(&self, pageblocks: u64) {
        bump(&self.owned, pageblocks);
    }

    /// So many frames more are put aside.
    pub(crate) fn count_quarantined(&self, frames: u64) {
        bump(&self.quarantined, frames);
    }

    /// Forgets what was changed on the lists.
    #[inline]
    pub(crate) fn reset(&self) {
        for cell in [&self.free, &self.cma, &self.highatomic, &self.isolated, &self.skipped] {
            cell.set(0);
        }
    }
}
