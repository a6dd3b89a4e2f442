//! A fair lock that many may hold at once who do not disturb each other.
//!
//! *Readers* share it, a *writer* has it alone. What readers may change at the same time is for whoever takes it so to say: it
//! is a lock against writers.
//!
//! One word counts the readers and says whether a writer has the lock or waits for it. A reader counts itself first
//! and looks then; if no writer is there, it is in. Otherwise it takes itself off again and goes to the *waiting room*, a
//! [`QueuedLock`], as does a writer that does not find the lock free. Whoever holds the waiting room is next: a reader counts
//! itself and waits for the writer to go; a writer says that it waits, which turns newcomers away, and waits for all to go.
//! So both sorts are served in the order in which they came to the room, and neither starves: behind a waiting writer no reader
//! gets in, and behind readers in the room no writer does. The shape is that of Linux's queued reader/writer lock.

use crate::machine::{Machine, Ordering, Patience, Word};
use crate::queued::{Asker, Nodes, QueuedLock};

/// A writer holds the lock.
const WRITER: u32 = 1;
/// A writer waits for readers to go.
const WANTED: u32 = 2;
/// One reader. The CPUs are numbered in 16 bits, so that the count does not run over.
const READER: u32 = 4;

/// See the module's description.
///
/// Invariants:
/// - R1 `readers` = [`READER`] × (readers that hold the lock, or are looking whether they do) + [`WANTED`] + [`WRITER`]
/// - R2 with [`WRITER`] set no reader holds the lock
/// - R3 who set [`WANTED`] holds the waiting room
pub(crate) struct ReadWriteLock<M: Machine> {
    readers: M::U32,
    /// Where one waits.
    pub(crate) room: QueuedLock<M>,
}

impl<M: Machine> Default for ReadWriteLock<M> {
    fn default() -> Self {
        ReadWriteLock { readers: Word::new(0), room: QueuedLock::default() }
    }
}

impl<M: Machine> ReadWriteLock<M> {
    /// Its words by name, without those of the room.
    pub(crate) fn words(&self) -> [(&'static str, &M::U32); 1] {
        [("readers", &self.readers)]
    }

    /// Takes the lock alone.
    pub(crate) fn take<N: Nodes<M> + ?Sized>(&self, asker: &Asker<'_, N>) {
        // ORDER: Acquire. Sees what readers and writers did; partners: the Releases in `ReadWriteLock::release` and
        // `ReadWriteLock::release_shared`. Model: lock_rw_writers.
        if self.readers.cas(0, WRITER, Ordering::Acquire).is_err() {
            self.wait(asker);
        }
    }

    /// Gives up what [`ReadWriteLock::take`] took.
    pub(crate) fn release(&self) {
        // ORDER: Release. Publishes what the writer did; partners: whoever takes the lock, either way.
        // Model: lock_rw_writers, lock_rw_both.
        self.readers.add(WRITER.wrapping_neg(), Ordering::Release);
    }

    /// Takes the lock together with others who take it so.
    pub(crate) fn take_shared<N: Nodes<M> + ?Sized>(&self, asker: &Asker<'_, N>) {
        // ORDER: Acquire. Sees what writers did; partner: the Release in `ReadWriteLock::release`. Model: lock_rw_both.
        if self.readers.add(READER, Ordering::Acquire) & (WRITER | WANTED) != 0 {
            self.wait_shared(asker);
        }
    }

    /// Gives up what [`ReadWriteLock::take_shared`] took.
    pub(crate) fn release_shared(&self) {
        // ORDER: Release. Publishes what the reader did; partner: a writer's exchange in `ReadWriteLock::take` or
        // `ReadWriteLock::wait`. Model: lock_rw_both.
        self.readers.add(READER.wrapping_neg(), Ordering::Release);
    }

    /// [`ReadWriteLock::release`] in a copy of the lock that nobody waits for: who did is not there.
    pub(crate) fn release_copied(&self) {
        self.room.release_copied();
        self.readers.store(0, Ordering::Release);
    }

    #[cold]
    fn wait<N: Nodes<M> + ?Sized>(&self, asker: &Asker<'_, N>) {
        self.room.take(asker);
        self.readers.add(WANTED, Ordering::Relaxed);
        loop {
            let _ = self.readers.wait_while(Patience::Turn, |readers| readers != WANTED);
            // ORDER: Acquire, as in `ReadWriteLock::take`. Model: lock_rw_both.
            if self.readers.cas(WANTED, WRITER, Ordering::Acquire).is_ok() {
                break;
            }
        }
        self.room.release();
    }

    #[cold]
    fn wait_shared<N: Nodes<M> + ?Sized>(&self, asker: &Asker<'_, N>) {
        self.release_shared();
        self.room.take(asker);
        // No writer waits now: it would have the room.
        self.readers.add(READER, Ordering::Relaxed);
        // ORDER: the wait acquires what the writer did; partner: the Release in `ReadWriteLock::release`.
        // Model: lock_rw_both.
        let _ = self.readers.wait_while(Patience::Turn, |readers| readers & WRITER != 0);
        self.room.release();
    }
}
