//! A movable page, as its arena knows it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use framewright::{Order, Pfn};

use super::lru::{Standing, Stands};

/// A page, as the arena knows it.
pub(crate) struct Page {
    pub(crate) key: u64,
    pub(crate) order: Order,
    /// Where it is; none when it is gone.
    pub(super) place: RwLock<Option<Pfn>>,
    /// Its handle is gone.
    pub(super) abandoned: AtomicBool,
    pub(super) standing: Standing,
}

impl Page {
    /// Locks where it is, for a reader. It was used now.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Option<Pfn>> {
        self.standing.touch();
        self.place.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks where it is, for a writer. It was used now.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Option<Pfn>> {
        self.standing.touch();
        self.place.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that its handle is gone.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Relaxed);
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

impl Stands for Page {
    fn standing(&self) -> &Standing {
        &self.standing
    }

    fn frames(&self) -> u64 {
        self.order.frames()
    }
}
