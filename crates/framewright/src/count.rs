//! How much is free in a zone.
//!
//! The counts are read by every request that asks for a watermark, on any CPU, so writing them takes their line from all of these. Who
//! changes the lists keeps account for himself ([`Tally`]) and adds up once, right before he gives the zone lock up.

use core::cell::Cell;

use crate::field::{Words, tell};
use crate::machine::{Machine, Ordering, Word};
use crate::pfn::MigrateType;

/// Numbers of free frames.
///
/// Invariant B4: with the lock free, `free` is the sum of the blocks on all lists but those of isolated ones, `cma` and
/// `highatomic` the parts of it on the lists of these types, `isolated` the sum on the isolated lists. `quarantined` is the frames
/// put aside. `skipped` is the number of free blocks whose state says so. `owned` is the number of pageblocks that CPUs own.
pub(crate) struct FreeCount<M: Machine> {
    pub(crate) free: M::U64,
    pub(crate) cma: M::U64,
    pub(crate) highatomic: M::U64,
    pub(crate) isolated: M::U64,
    pub(crate) quarantined: M::U64,
    /// Free *blocks* marked as not looked at for merging.
    pub(crate) skipped: M::U64,
    /// Pageblocks that CPUs own; changed by who holds the zone lock alone.
    pub(crate) owned: M::U64,
}

impl<M: Machine> Default for FreeCount<M> {
    fn default() -> Self {
        let zero = || Word::new(0);
        FreeCount {
            free: zero(),
            cma: zero(),
            highatomic: zero(),
            isolated: zero(),
            quarantined: zero(),
            skipped: zero(),
            owned: zero(),
        }
    }
}

impl<M: Machine> FreeCount<M> {
    /// Names its words.
    pub(crate) fn words(&self, visit: &mut Words<'_>) {
        tell(visit, format_args!("count.free"), &self.free);
        tell(visit, format_args!("count.cma"), &self.cma);
        tell(visit, format_args!("count.highatomic"), &self.highatomic);
        tell(visit, format_args!("count.isolated"), &self.isolated);
        tell(visit, format_args!("count.quarantined"), &self.quarantined);
        tell(visit, format_args!("count.skipped"), &self.skipped);
        tell(visit, format_args!("count.owned"), &self.owned);
    }

    /// Forgets what is on the lists.
    pub(crate) fn reset(&self) {
        for word in [&self.free, &self.cma, &self.highatomic, &self.isolated, &self.skipped] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Adds what one CPU changed, who holds the zone lock alone.
    pub(crate) fn add_alone(&self, tally: &Tally) {
        for (word, change) in self.changes(tally) {
            word.store(word.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
        }
    }

    /// The same for one of several who hold it together.
    pub(crate) fn add_together(&self, tally: &Tally) {
        for (word, change) in self.changes(tally) {
            word.add(change, Ordering::Relaxed);
        }
    }

    fn changes(&self, tally: &Tally) -> impl Iterator<Item = (&M::U64, u64)> {
        let all = [
            (&self.free, tally.free.take()),
            (&self.cma, tally.cma.take()),
            (&self.highatomic, tally.highatomic.take()),
            (&self.isolated, tally.isolated.take()),
            (&self.quarantined, tally.quarantined.take()),
            (&self.skipped, tally.skipped.take()),
            (&self.owned, tally.owned.take()),
        ];
        all.into_iter().filter(|&(_, change)| change != 0)
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
    pub(crate) fn reset(&self) {
        for cell in [&self.free, &self.cma, &self.highatomic, &self.isolated, &self.skipped] {
            cell.set(0);
        }
    }
}
