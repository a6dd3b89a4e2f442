//! An arena's allocator with all that it needs to live, and who works in it unasked.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use framewright::{Allocator, FreeError, Order, Pfn};

use super::memory::ArenaMemory;
use super::metadata::Metadata;
use super::state::ArenaState;
use crate::movable::{FreesBlocks, Pool};
use crate::native::Native;

/// How often a free is tried that meets others on its zone's list of deferred frees.
const FREE_TRIES: u32 = 1_000;
/// How long who must find nothing changing waits between looks.
const NAP: Duration = Duration::from_micros(100);

/// What outlives the arena for as long as a fork or background work is busy with it.
pub(crate) struct Inner {
    // In this order: the allocator uses the descriptors until it is dropped.
    pub(super) state: ArenaState,
    pub(super) _metadata: Metadata,
    pub(super) memory: ArenaMemory,
    pub(super) pool: Arc<Pool>,
    /// Blocks whose free was refused.
    pub(super) refused: AtomicU64,
    /// Held by background work while it changes anything, and by who must find nothing changing.
    pub(super) quiet: Mutex<()>,
    /// Threads of background reclaim that are at work: they begin with `quiet` held, but do not hold it while they call others.
    pub(super) at_work: AtomicUsize,
}

impl Inner {
    #[inline(always)]
    pub(crate) const fn allocator(&self) -> &Allocator<'static, Native> {
        self.state.allocator()
    }

    /// Frees a block whose owner is gone.
    #[inline]
    pub(crate) fn free(&self, pfn: Pfn, order: Order) {
        self.settle_free(self.allocator().free(pfn, order), pfn, order);
    }

    /// Nobody is there any more to be told that a free was refused; it is counted. One that found no CPU, in a signal handler
    /// for instance, needs none: what is refused then is not the block's fault, and it must not be lost.
    #[inline]
    pub(super) fn settle_free(&self, freed: Result<(), FreeError>, pfn: Pfn, order: Order) {
        if let Err(error) = freed {
            self.free_without_cpu(error, pfn, order);
        }
    }

    #[cold]
    fn free_without_cpu(&self, mut error: FreeError, pfn: Pfn, order: Order) {
        let mut tries = 0;
        // In a fork's child that must not use the arena the block is the parent's.
        let may_retry =
            |error| matches!(error, FreeError::NoCpu | FreeError::Busy(_)) && !self.allocator().machine().refuses();
        while tries < FREE_TRIES && may_retry(error) {
            match self.allocator().free_nolock(pfn, order) {
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
}

impl Inner {
    pub(super) fn quiet(&self) -> MutexGuard<'_, ()> {
        self.quiet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn at_work(&self) -> AtWork<'_> {
        let _quiet = self.quiet();
        self.at_work.fetch_add(1, SeqCst);
        AtWork(self)
    }

    /// Awaits that no background work is under way; none begins as long as the guard lives.
    pub(super) fn rest(&self) -> MutexGuard<'_, ()> {
        let quiet = self.quiet();
        while self.at_work.load(SeqCst) != 0 {
            std::thread::sleep(NAP);
        }
        quiet
    }
}

/// Somebody who is not in the way of [`Inner::rest`] while nothing is to be done.
pub(super) struct AtWork<'a>(&'a Inner);

impl AtWork<'_> {
    pub(super) fn inner(&self) -> &Inner {
        self.0
    }
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        // In a child that was forked from here, nobody is at work.
        let _ = self.0.at_work.fetch_update(SeqCst, SeqCst, |threads| threads.checked_sub(1));
    }
}
