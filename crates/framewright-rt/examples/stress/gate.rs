//! Brings all threads to rest between two of their operations.
//!
//! A thread that may call the allocator *is in* from before it starts until after the last destructor of its
//! thread-locals. While the gate is closed each of them waits in front of it. No thread enters meanwhile, because only
//! threads that are in start others.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
struct State {
    inside: usize,
    waiting: usize,
    closed: bool,
}

/// The gate.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    closed: AtomicBool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, patience: Option<Duration>, mut waiting: impl FnMut(&State) -> bool) -> Result<(), usize> {
        let begin = Instant::now();
        let mut state = self.lock();
        while waiting(&state) {
            if patience.is_some_and(|patience| begin.elapsed() > patience) {
                return Err(state.inside - state.waiting);
            }
            let waited = self.changed.wait_timeout(state, Duration::from_millis(100));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// One thread more.
    pub(crate) fn enter(&self) {
        self.lock().inside += 1;
    }

    /// One thread less.
    pub(crate) fn leave(&self) {
        self.lock().inside -= 1;
        self.changed.notify_all();
    }

    /// Whether threads shall wait. Cheap.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Waits, inside, until the gate is open.
    pub(crate) fn wait(&self) {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
    }

    /// Closes the gate and waits until all threads do.
    ///
    /// # Errors
    /// How many still did not after `patience`.
    pub(crate) fn close(&self, patience: Option<Duration>) -> Result<(), usize> {
        self.closed.store(true, SeqCst);
        self.lock().closed = true;
        self.wait_while(patience, |state| state.waiting < state.inside)
    }

    /// Lets the threads go on.
    pub(crate) fn open(&self) {
        self.closed.store(false, SeqCst);
        self.lock().closed = false;
        self.changed.notify_all();
    }

    /// Waits until no thread is inside.
    ///
    /// # Errors
    /// How many still were after `patience`.
    pub(crate) fn wait_empty(&self, patience: Option<Duration>) -> Result<(), usize> {
        self.wait_while(patience, |state| state.inside > 0)
    }
}
