//! Jobs on the host's CPUs, or on a given number of threads, with their results in order.
//!
//! Runs of the simulated machine are independent, so a curve or a sensitivity takes half the time on two CPUs. No
//! result depends on the thread that ran it.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;

/// Interval between two reports of progress.
const TICK: Duration = Duration::from_millis(100);

/// Jobs of [`run`] under way, of all callers; further jobs wait.
static UNDER_WAY: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// A job's leave to run; the next one begins when it is dropped.
struct Turn;

impl Turn {
    /// Waits until fewer jobs than `at_most` are under way.
    fn take(at_most: usize) -> Self {
        let (under_way, ended) = &UNDER_WAY;
        let under_way = under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let mut under_way = ended.wait_while(under_way, |n| *n >= at_most).unwrap_or_else(PoisonError::into_inner);
        *under_way += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (under_way, ended) = &UNDER_WAY;
        *under_way.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ended.notify_one();
    }
}

/// Calls `job` with each number below `jobs`, the largest first, since the last jobs are by custom the longest.
/// `progress` hears the number of finished jobs, repeatedly while they run. Concurrent callers share the CPUs: no more
/// jobs run than there are CPUs. A job must not call it in turn.
///
/// # Errors
/// That of the first job that failed; jobs that had not begun are left out then.
///
/// # Panics
/// With what a job panicked with.
pub fn run<T: Send, E: Send>(
    jobs: usize,
    job: impl Fn(usize) -> Result<T, E> + Sync,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<T>, E> {
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let in_turn = |number| {
        let _turn = Turn::take(cpus);
        job(number)
    };
    on(cpus, jobs, in_turn, progress)
}

/// Like [`run`], on `threads` threads, whatever else runs.
///
/// # Errors
/// As of [`run`].
///
/// # Panics
/// As of [`run`].
pub fn on<T: Send, E: Send>(
    threads: usize,
    jobs: usize,
    job: impl Fn(usize) -> Result<T, E> + Sync,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<T>, E> {
    let threads = threads.min(jobs);
    let left = AtomicUsize::new(jobs);
    let failed = AtomicBool::new(false);
    let (sender, results) = mpsc::channel();
    let mut all: Vec<Option<Result<T, E>>> = (0..jobs).map(|_| None).collect();
    thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, left, failed, job) = (sender.clone(), &left, &failed, &job);
            scope.spawn(move || {
                while !failed.load(Ordering::Relaxed) {
                    let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                    let Ok(left) = taken else { return };
                    let result = job(left - 1);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    // The receiver stays until all are done.
                    let _ = sender.send((left - 1, result));
                }
            });
        }
        drop(sender);
        let mut done = 0;
        loop {
            match results.recv_timeout(TICK) {
                Ok((number, result)) => {
                    all[number] = Some(result);
                    done += 1;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            progress(done);
        }
    });
    // With an error among them, jobs are missing; without, none.
    all.into_iter().flatten().collect()
}

/// The result of `simulate`; if it panics, as a run does that finds the allocator broken, an error with the panic's
/// words.
///
/// # Errors
/// The panic, or the error of `simulate`.
pub fn caught<T>(simulate: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    catch_unwind(AssertUnwindSafe(simulate)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(anyhow!("the run ended with: {text}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order() {
        let mut told = 0;
        let squares = run(100, |i| Ok::<_, ()>(i * i), &mut |done| told = told.max(done));
        assert_eq!(squares, Ok((0..100).map(|i| i * i).collect()));
        assert_eq!(told, 100);
    }

    #[test]
    fn an_error_ends_it() {
        let result = run(1000, |i| if i == 990 { Err(i) } else { Ok(()) }, &mut |_| {});
        assert_eq!(result, Err(990));
    }

    #[test]
    fn nothing_to_do_is_done() {
        assert_eq!(run(0, |_| Ok::<(), ()>(()), &mut |_| {}), Ok(vec![]));
    }
}
