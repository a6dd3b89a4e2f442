//! Threads that sleep until memory comes, or until it is short.
//!
//! A word for each waiter counts its wake-ups. A thread sleeps as long as the word has the value that it read before.
//! So a wake-up between the read and the sleep is not lost. Waking is an addition and a system call, and a signal
//! handler may do it. On Linux the sleep is a futex; elsewhere it is naps of a millisecond.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use framewright::NodeId;
use framewright::machine::Waiter;

/// Kinds of waiters.
const KINDS: usize = 3;

/// How often each waiter was woken.
pub(crate) struct Waiters(Box<[AtomicU32]>);

impl Default for Waiters {
    fn default() -> Self {
        Waiters((0..KINDS * NodeId::LIMIT).map(|_| AtomicU32::new(0)).collect())
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let woken: u64 = self.0.iter().map(|word| u64::from(word.load(Relaxed))).sum();
        f.debug_tuple("Waiters").field(&woken).finish()
    }
}

impl Waiters {
    fn word(&self, waiter: Waiter) -> &AtomicU32 {
        let (kind, node) = match waiter {
            Waiter::Kswapd(node) => (0, node),
            Waiter::Kcompactd(node) => (1, node),
            Waiter::Allocation(node) => (2, node),
        };
        &self.0[kind * NodeId::LIMIT + node.index() % NodeId::LIMIT]
    }

    /// How often a waiter was woken; goes round at 2^32.
    pub(crate) fn wakes(&self, waiter: Waiter) -> u32 {
        self.word(waiter).load(SeqCst)
    }

    /// Sleeps until a waiter was woken more than `seen` times, at most for `limit`.
    ///
    /// Returns that count.
    pub(crate) fn wait(&self, waiter: Waiter, seen: u32, limit: Duration) -> u32 {
        let (word, start) = (self.word(waiter), Instant::now());
        loop {
            let now = word.load(SeqCst);
            let left = limit.saturating_sub(start.elapsed());
            if now != seen || left.is_zero() {
                return now;
            }
            sleep_while(word, seen, left);
        }
    }

    pub(crate) fn wake(&self, waiter: Waiter) {
        let word = self.word(waiter);
        word.fetch_add(1, SeqCst);
        wake_all(word);
    }
}

#[cfg(target_os = "linux")]
fn sleep_while(word: &AtomicU32, seen: u32, limit: Duration) {
    use rustix::thread::futex;
    let limit = futex::Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos().into() };
    // Whatever ended it, a signal included, the caller looks again.
    let _ = futex::wait(word, futex::Flags::PRIVATE, seen, Some(&limit));
}

#[cfg(target_os = "linux")]
fn wake_all(word: &AtomicU32) {
    use rustix::thread::futex;
    let _ = futex::wake(word, futex::Flags::PRIVATE, i32::MAX as u32);
}

#[cfg(not(target_os = "linux"))]
fn sleep_while(_: &AtomicU32, _: u32, limit: Duration) {
    std::thread::sleep(limit.min(Duration::from_millis(1)));
}

#[cfg(not(target_os = "linux"))]
fn wake_all(_: &AtomicU32) {}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Waiter = Waiter::Kswapd(NodeId(3));

    #[test]
    fn a_wake_before_the_sleep_is_not_lost() {
        let waiters = Waiters::default();
        let seen = waiters.wakes(HERE);
        waiters.wake(Waiter::Kcompactd(NodeId(3)));
        waiters.wake(Waiter::Kswapd(NodeId(4)));
        assert_eq!(waiters.wait(HERE, seen, Duration::from_millis(1)), seen, "others were woken");
        waiters.wake(HERE);
        assert_eq!(waiters.wait(HERE, seen, Duration::from_secs(600)), seen + 1);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let waiters = Waiters::default();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| waiters.wait(HERE, 0, Duration::from_secs(600)));
            waiters.wake(HERE);
            assert_eq!(sleeper.join().unwrap(), 1);
        });
    }
}
