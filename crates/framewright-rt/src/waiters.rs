//! Threads that sleep until memory comes, or until it is short.
//!
//! A word for each waiter counts its wake-ups. A thread sleeps as long as the word has the value that it read before.
//! So a wake-up between the read and the sleep is not lost. Waking is an addition and a system call, and a signal
//! handler may do it. On Linux the sleep is a futex; elsewhere it is naps of a millisecond.
//!
//! A thread that finds a wake-up also sees what was written before it, such as a note that the thread shall end.
//!
//! The waiters are generic over the word, so that the models of `framewright-models` run this code on loom's words.

use std::fmt;
use std::time::{Duration, Instant};

use framewright::NodeId;
use framewright::machine::{Ordering, Waiter, Word};

/// Kinds of waiters.
const KINDS: usize = 3;

/// A word at which threads sleep.
pub(crate) trait Sleep: Word<u32> {
    /// Sleeps while the word has the value `seen`, at most for `limit`. It may wake up early.
    fn sleep_while(&self, seen: u32, limit: Duration);
    /// Wakes all threads that sleep here.
    fn wake_all(&self);
}

/// How often each waiter was woken.
pub(crate) struct Waiters<W>(Box<[W]>);

impl<W: Sleep> Default for Waiters<W> {
    fn default() -> Waiters<W> {
        Waiters((0..KINDS * NodeId::LIMIT).map(|_| W::new(0)).collect())
    }
}

impl<W: Sleep> fmt::Debug for Waiters<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let woken: u64 = self.0.iter().map(|word| u64::from(word.load(Ordering::Relaxed))).sum();
        f.debug_tuple("Waiters").field(&woken).finish()
    }
}

impl<W: Sleep> Waiters<W> {
    fn word(&self, waiter: Waiter) -> &W {
        let (kind, node) = match waiter {
            Waiter::Kswapd(node) => (0, node),
            Waiter::Kcompactd(node) => (1, node),
            Waiter::Allocation(node) => (2, node),
        };
        &self.0[kind * NodeId::LIMIT + node.index() % NodeId::LIMIT]
    }

    /// How often a waiter was woken; goes round at 2^32.
    pub(crate) fn wakes(&self, waiter: Waiter) -> u32 {
        // ORDER: Acquire. As in `wait`: a caller that looks for what it waits for sees what came before the wake-up.
        self.word(waiter).load(Ordering::Acquire)
    }

    /// Sleeps until a waiter was woken more than `seen` times, at most for `limit`.
    ///
    /// Returns that count.
    pub(crate) fn wait(&self, waiter: Waiter, seen: u32, limit: Duration) -> u32 {
        let (word, start) = (self.word(waiter), Instant::now());
        loop {
            // ORDER: Acquire. Sees what was written before the wake-up; partner: the Release in `wake`.
            let now = word.load(Ordering::Acquire);
            let left = limit.saturating_sub(start.elapsed());
            if now != seen || left.is_zero() {
                return now;
            }
            word.sleep_while(seen, left);
        }
    }

    /// Wakes a waiter.
    pub(crate) fn wake(&self, waiter: Waiter) {
        let word = self.word(waiter);
        // ORDER: Release. Publishes what the waiter shall see; partner: the Acquire in `wait`.
        word.add(1, Ordering::Release);
        word.wake_all();
    }
}
