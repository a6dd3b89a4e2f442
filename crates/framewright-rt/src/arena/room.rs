//! The room that an arena may grow into, held by one change at a time.
//!
//! A change holds the room from its first look at the sections to its end, hooks included. So two changes never choose
//! the same section, and a fork finds none half done. Requests and frees go on meanwhile.
//!
//! A hook of the holder that asks for a change is refused: it would wait for itself. A fork waits for the holder, and
//! later changes wait for the fork. But it does not wait for ever, because a hook may wait for something that the fork
//! holds. The child then refuses.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::hooks::Hooks;
use super::sections::Sections;
use crate::current;
use crate::error::ArenaError;

/// Time between looks of a thread that waits for a fork, or of a fork.
const NAP: Duration = Duration::from_micros(500);
/// Looks of a fork at the room: half a second.
const FORK_TRIES: u32 = 1_000;

/// The sections of an arena, and what a change of them needs.
#[derive(Debug)]
pub(super) struct Room {
    sections: Mutex<Sections>,
    /// Mark of the thread that holds the sections; 0 for none.
    holder: AtomicUsize,
    /// Forks that wait for the sections: a hint, to let them go first. The lock orders all else.
    forks: AtomicUsize,
    /// Bytes of a section.
    pub(super) section: u64,
    /// Bytes of all sections.
    pub(super) limit: u64,
    /// Bytes that are present.
    pub(super) present: AtomicU64,
    /// How often the arena has grown.
    pub(super) growths: AtomicU64,
    pub(super) hooks: Hooks,
    /// Whether pages are made when memory comes.
    pub(super) populates: bool,
}

impl Room {
    pub(super) fn new(sections: Sections, section: u64, (present, limit): (u64, u64), hooks: Hooks) -> Room {
        Room {
            sections: Mutex::new(sections),
            holder: AtomicUsize::new(0),
            forks: AtomicUsize::new(0),
            section,
            limit,
            present: AtomicU64::new(present),
            growths: AtomicU64::new(0),
            hooks,
            populates: false,
        }
    }

    /// Holds the sections.
    ///
    /// # Errors
    /// This thread holds them already: a hook asks.
    pub(super) fn hold(&self) -> Result<HeldRoom<'_>, ArenaError> {
        if self.holder.load(Relaxed) == current::mark() {
            return Err(ArenaError::InHook);
        }
        while self.forks.load(Relaxed) != 0 {
            std::thread::sleep(NAP);
        }
        Ok(self.held(self.sections.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Holds the sections for a fork; `None` if the change under way does not end in time.
    pub(super) fn hold_for_fork(&self) -> Option<HeldRoom<'_>> {
        let attempt = |tried| {
            if tried != 0 {
                std::thread::sleep(NAP);
            }
            match self.sections.try_lock() {
                Ok(sections) => Some(sections),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            }
        };
        self.forks.fetch_add(1, Relaxed);
        let is_own = self.holder.load(Relaxed) == current::mark();
        let sections = (0..if is_own { 0 } else { FORK_TRIES }).find_map(attempt);
        self.forks.fetch_sub(1, Relaxed);
        Some(self.held(sections?))
    }

    fn held<'a>(&'a self, sections: MutexGuard<'a, Sections>) -> HeldRoom<'a> {
        self.holder.store(current::mark(), Relaxed);
        HeldRoom { room: self, sections }
    }

    pub(super) fn present(&self) -> u64 {
        self.present.load(Relaxed)
    }
}

/// The room of one change.
#[derive(Debug)]
pub(super) struct HeldRoom<'a> {
    room: &'a Room,
    pub(super) sections: MutexGuard<'a, Sections>,
}

impl Drop for HeldRoom<'_> {
    fn drop(&mut self) {
        self.room.holder.store(0, Relaxed);
    }
}
