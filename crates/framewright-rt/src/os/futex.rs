//! Sleeping until a word changes: a futex, or naps where there is none.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use crate::waiters::Sleep;
use crate::words::NativeWord;

impl Sleep for NativeWord<AtomicU32> {
    fn sleep_while(&self, seen: u32, limit: Duration) {
        sleep_while(self.atomic(), seen, limit);
    }

    fn wake_all(&self) {
        wake_all(self.atomic());
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

// The sleepers look by themselves.
#[cfg(not(target_os = "linux"))]
fn wake_all(_: &AtomicU32) {}

#[cfg(test)]
mod tests {
    use framewright::NodeId;
    use framewright::machine::Waiter;

    use super::*;
    use crate::waiters::Waiters;

    type Woken = Waiters<NativeWord<AtomicU32>>;

    const HERE: Waiter = Waiter::Kswapd(NodeId(3));

    #[test]
    fn a_wake_before_the_sleep_is_not_lost() {
        let waiters = Woken::default();
        let seen = waiters.wakes(HERE);
        waiters.wake(Waiter::Kcompactd(NodeId(3)));
        waiters.wake(Waiter::Kswapd(NodeId(4)));
        assert_eq!(waiters.wait(HERE, seen, Duration::from_millis(1)), seen, "others were woken");
        waiters.wake(HERE);
        assert_eq!(waiters.wait(HERE, seen, Duration::from_secs(600)), seen + 1);
    }

    #[test]
    fn a_sleeper_is_woken() {
        let waiters = Woken::default();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| waiters.wait(HERE, 0, Duration::from_secs(600)));
            waiters.wake(HERE);
            assert_eq!(sleeper.join().unwrap(), 1);
        });
    }
}
