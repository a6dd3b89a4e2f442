//! A movable page, as its arena knows it: its key, its lock, and its contents while that is locked.
//!
//! # Why the unsafe code is right
//!
//! A page that has a place owns the block there, in the memory that it was made with ([`super::pool`]). The place is in
//! the lock: whoever takes the block away, or moves the contents, has the lock alone. So a [`Locked`] page stays where
//! it is. Under a shared lock every holder reads, and a holder that writes has the lock alone. The lock is released
//! when the `Locked` goes, and no slice of it outlives that.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst, fence};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use framewright::{Order, Pfn};

use super::lru::{Standing, Stands};
use super::note::{Abandoned, Fenced};
use crate::contents::Memory;
use crate::view::{Piece, Reads, Writes};
use crate::words::NativeWord;

/// A page, as the arena knows it.
pub(crate) struct Page {
    pub(crate) key: u64,
    pub(crate) order: Order,
    /// What it lies in; none before the arena is complete.
    pub(super) memory: Option<Memory>,
    /// Where it is; none when it is gone.
    pub(super) place: RwLock<Option<Pfn>>,
    /// Its handle is gone.
    pub(super) abandoned: Abandoned<NativeWord<AtomicU8>>,
    pub(super) standing: Standing,
}

/// A page's contents, as long as the lock of their place is held.
#[derive(Debug)]
pub(crate) struct Locked<G> {
    /// No reference: none must be left when the lock is let go.
    block: NonNull<[u8]>,
    guard: G,
}

impl<G> Locked<G> {
    /// The lock, when the contents are of no more interest.
    pub(super) fn into_guard(self) -> G {
        self.guard
    }
}

// SAFETY: the block is the page's, which is locked for reading, so no code writes to it.
unsafe impl Reads for Locked<RwLockReadGuard<'_, Option<Pfn>>> {
    fn place(&self) -> Piece {
        (self.block.cast(), 0, self.block.len())
    }
}

// SAFETY: the block is the page's, which is locked.
unsafe impl Reads for Locked<RwLockWriteGuard<'_, Option<Pfn>>> {
    fn place(&self) -> Piece {
        (self.block.cast(), 0, self.block.len())
    }
}

// SAFETY: as above, for this one alone.
unsafe impl Writes for Locked<RwLockWriteGuard<'_, Option<Pfn>>> {}

impl Page {
    /// Locks it for a reader; none if it is gone. It was used now.
    pub(crate) fn read(&self) -> Option<Locked<RwLockReadGuard<'_, Option<Pfn>>>> {
        self.standing.touch();
        self.contents(self.place.read().unwrap_or_else(PoisonError::into_inner)).ok()
    }

    /// Locks it for a writer; none if it is gone. It was used now.
    pub(crate) fn write(&self) -> Option<Locked<RwLockWriteGuard<'_, Option<Pfn>>>> {
        self.standing.touch();
        self.contents(self.place.write().unwrap_or_else(PoisonError::into_inner)).ok()
    }

    /// The contents of a page that the caller has locked, or the lock if it is gone.
    ///
    /// The guard is that of this page.
    pub(super) fn contents<G: Deref<Target = Option<Pfn>>>(&self, guard: G) -> Result<Locked<G>, G> {
        let block = guard.and_then(|pfn| self.memory.as_ref()?.block(pfn, self.order));
        match block {
            Some(block) => Ok(Locked { block, guard }),
            None => Err(guard),
        }
    }

    /// Notes that its handle is gone.
    pub(crate) fn abandon(&self) {
        self.abandoned.note();
    }

    /// Locks it alone, unless another thread has it locked.
    pub(super) fn try_lock(&self) -> Option<RwLockWriteGuard<'_, Option<Pfn>>> {
        match self.place.try_write() {
            Ok(place) => Some(place),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Fenced for NativeWord<AtomicU8> {
    fn fence(&self) {
        fence(SeqCst);
    }
}

impl Stands for Page {
    fn standing(&self) -> &Standing {
        &self.standing
    }

    fn frames(&self) -> u64 {
        self.order.frames()
    }
}
