//! An arena's allocator with its memory, and the background work inside it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framewright::tags::{Stamp, Tags};
use framewright::{Allocator, FreeError, Order, Pfn, PfnRange};

use super::memory::ArenaMemory;
use super::metadata::Metadata;
use super::owners::OwnerTable;
use super::sizing::Sizing;
use super::state::ArenaState;
use super::workers::Workers;
use crate::contents::Lent;
use crate::ledger::entries::Ledger;
use crate::movable::{FreesBlocks, Pool};
use crate::native::Native;
use crate::owner::Owner;
use crate::words::NativeWord;

/// Tries of a free that finds its zone's list of deferred frees busy.
const FREE_TRIES: u32 = 1_000;
/// Time between looks of a caller that waits for background work to end.
const NAP: Duration = Duration::from_micros(100);

/// The part that outlives the arena while a fork or background work uses it.
pub(crate) struct Inner {
    // In this order: the allocator uses the descriptors until it is dropped.
    pub(super) state: ArenaState,
    pub(super) _metadata: Metadata,
    pub(super) owners: OwnerTable,
    /// What is held, for a recovery after a kill.
    pub(super) ledger: Option<Arc<Ledger>>,
    /// Dropped before the memory, whose addresses may then be others'.
    pub(super) _lent: Lent,
    pub(super) memory: ArenaMemory,
    pub(super) pool: Arc<Pool>,
    /// Number of blocks that could not be freed.
    pub(super) refused: AtomicU64,
    /// Held by background work while it changes anything, and by a caller that needs it to rest.
    pub(super) quiet: Mutex<()>,
    /// Threads of background reclaim that are at work.
    ///
    /// They begin with `quiet` held, but do not hold it while they call other code.
    pub(super) at_work: Workers<NativeWord<AtomicUsize>>,
    pub(super) sizing: Sizing,
}

impl Inner {
    #[inline(always)]
    pub(crate) const fn allocator(&self) -> &Allocator<'static, Native> {
        self.state.allocator()
    }

    /// Frees a block that has no owner any more.
    // Out of line: the compiler inlines the drop of a block into its caller only if it is short.
    #[inline(never)]
    pub(crate) fn free(&self, pfn: Pfn, order: Order) {
        // Both compiled here, and not by one more call: this is one place for all blocks.
        let pages = self.allocator();
        let free = || if order == Order(0) { pages.free(pfn, Order(0)) } else { pages.free(pfn, order) };
        let frames = PfnRange::block(pfn, order);
        let freed = if self.ledger.is_some() {
            self.release(frames, || pages.free(pfn, order))
        } else {
            self.disown(frames, free)
        };
        self.settle_free(freed, pfn, order);
    }

    /// Frees a range that has no owner any more; counts a refusal.
    pub(super) fn free_range(&self, range: PfnRange) {
        if self.release(range, || self.allocator().free_range(range)).is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a free that was refused, because its caller is gone.
    ///
    /// A free that found no CPU, as in a signal handler, is done without one: the block is not at fault, and must not
    /// be lost.
    #[inline(always)]
    pub(super) fn settle_free(&self, freed: Result<(), FreeError>, pfn: Pfn, order: Order) {
        if let Err(error) = freed {
            self.free_without_cpu(error, pfn, order);
        }
    }

    #[cold]
    fn free_without_cpu(&self, mut error: FreeError, pfn: Pfn, order: Order) {
        let mut tries = 0;
        // In a fork's child that must not use the arena the block is the parent's.
        let may_retry = |error| matches!(error, FreeError::NoCpu | FreeError::Busy(_)) && !self.refuses();
        while tries < FREE_TRIES && may_retry(error) {
            match self.release(PfnRange::block(pfn, order), || self.allocator().free_nolock(pfn, order)) {
                Ok(()) => return,
                Err(again) => error = again,
            }
            tries += 1;
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

impl FreesBlocks for Inner {
    fn free_block(&self, pfn: Pfn, order: Order) {
        self.free(pfn, order);
    }

    fn may_move(&self) -> bool {
        self.ledger.as_ref().is_none_or(|ledger| ledger.may_move())
    }

    fn moved(&self, from: Pfn, to: Pfn, order: Order) {
        if let Some(ledger) = &self.ledger {
            ledger.relocate(from, to);
        }
        if let Some(stamp) = self.stamp_of(from) {
            self.stamp(PfnRange::block(to, order), stamp);
        }
    }
}

/// Owners of blocks, if the arena keeps them.
impl Inner {
    #[inline(always)]
    pub(super) fn tags(&self) -> Option<Tags<'_, 'static, Native>> {
        self.owners.tags(self.allocator())
    }

    /// Records a block that was just allocated, before its caller gets it.
    #[inline(always)]
    pub(super) fn record(&self, frames: PfnRange, owner: Option<Owner>) {
        if let Some(ledger) = &self.ledger {
            ledger.enter(frames);
        }
        self.own_range(frames, owner);
    }

    /// Names the owner of an allocated block, unless it is none.
    #[inline(always)]
    pub(super) fn own(&self, pfn: Pfn, order: Order, owner: Option<Owner>) {
        self.own_range(PfnRange::block(pfn, order), owner);
    }

    /// As [`Inner::own`], for a range.
    #[inline(always)]
    pub(super) fn own_range(&self, range: PfnRange, owner: Option<Owner>) {
        // Not by `Option::zip`, which the compiler calls where nothing is kept.
        if let Some(tags) = self.tags()
            && let Some(owner) = owner
        {
            self.stamp(range, tags.stamp(owner.tag()));
        }
    }

    /// Frees a block or range by `free`, and forgets its owner unless that is refused.
    #[inline(always)]
    pub(super) fn disown(
        &self,
        frames: PfnRange,
        free: impl FnOnce() -> Result<(), FreeError>,
    ) -> Result<(), FreeError> {
        match self.tags() {
            None => free(),
            Some(tags) => tags.free(frames, free),
        }
    }

    /// Like [`Inner::disown`], and takes it out of the ledger if the arena keeps one.
    ///
    /// A caller on a hot path asks for a ledger itself: there the compiler inlines one `free`.
    #[inline(never)]
    pub(super) fn release(
        &self,
        frames: PfnRange,
        free: impl FnOnce() -> Result<(), FreeError>,
    ) -> Result<(), FreeError> {
        // In a fork's child that must not use the arena the block is the parent's.
        let ledger = self.ledger.as_ref().filter(|_| !self.refuses());
        let left = ledger.and_then(|ledger| ledger.leave(frames));
        let freed = self.disown(frames, free);
        if let (Some(ledger), Some(entry), Err(_)) = (ledger, left, &freed) {
            ledger.enter_again(frames, entry);
        }
        freed
    }

    pub(super) fn refuses(&self) -> bool {
        self.allocator().machine().refuses()
    }

    pub(super) fn stamp_of(&self, pfn: Pfn) -> Option<Stamp> {
        self.tags()?.of(pfn)
    }

    /// Records when and by whom blocks were allocated. What is not allocated any more needs no record.
    pub(super) fn stamp(&self, range: PfnRange, stamp: Stamp) {
        let _ = self.tags().map(|tags| tags.record(range, stamp));
    }
}

impl Inner {
    pub(super) fn quiet(&self) -> MutexGuard<'_, ()> {
        self.quiet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn at_work(&self) -> AtWork<'_> {
        let _quiet = self.quiet();
        self.at_work.begin();
        AtWork(self)
    }

    /// Awaits that no background work is under way; none begins as long as the guard lives.
    pub(super) fn rest(&self) -> MutexGuard<'_, ()> {
        let quiet = self.quiet();
        while !self.at_work.is_none() {
            std::thread::sleep(NAP);
        }
        quiet
    }
}

/// A thread at work, which [`Inner::rest`] waits for.
pub(super) struct AtWork<'a>(&'a Inner);

impl AtWork<'_> {
    pub(super) fn inner(&self) -> &Inner {
        self.0
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.at_work.end();
    }
}
