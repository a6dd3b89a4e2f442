//! Threads that stay on their CPUs, and a barrier at which they wait awake.
//!
//! A thread that sleeps lets its core go to sleep too, and some cores lose their caches then. So threads spin until the
//! others are there.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::thread::CpuSet;

use super::host::HostError;
use crate::crew;

/// Looks at a word before a waiting thread lets others run: those of a machine with fewer CPUs than threads.
const LOOKS: u32 = 4096;

/// Where threads wait for each other, again and again.
pub(super) struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    phase: AtomicUsize,
    /// Whether a thread ended early, so that nobody waits for it.
    is_broken: AtomicBool,
}

/// Breaks the barrier unless the thread came to the end of its job.
struct Ending<'b> {
    barrier: &'b Barrier,
    is_done: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.barrier.is_broken.store(true, Ordering::Release);
        }
    }
}

impl Barrier {
    fn of(threads: usize) -> Barrier {
        let (arrived, phase) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Barrier { threads, arrived, phase, is_broken: AtomicBool::new(false) }
    }

    /// Returns when all threads are here, or one of them has failed.
    pub(super) fn wait(&self) {
        let phase = self.phase.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.phase.store(phase + 1, Ordering::Release);
            return;
        }
        spin_while(|| self.phase.load(Ordering::Acquire) == phase && !self.is_broken.load(Ordering::Acquire));
    }
}

/// Spins while a condition holds, and lets others run now and then.
pub(super) fn spin_while(holds: impl Fn() -> bool) {
    let mut looks = 0_u32;
    while holds() {
        looks = looks.wrapping_add(1);
        if looks.is_multiple_of(LOOKS) { thread::yield_now() } else { std::hint::spin_loop() }
    }
}

/// Runs a job on each CPU at once, each in a thread that stays there; returns their results in order.
///
/// # Errors
/// A thread cannot be kept on its CPU, or a job failed.
pub(super) fn on_each<T: Send>(
    cpus: &[usize],
    job: impl Fn(usize, &Barrier) -> Result<T, HostError> + Sync,
) -> Result<Vec<T>, HostError> {
    // All are tried first, so that the error names the CPU.
    for &cpu in cpus {
        thread::scope(|scope| scope.spawn(|| pin(cpu)).join().unwrap_or(Ok(())))?;
    }
    let barrier = Barrier::of(cpus.len());
    thread::scope(|scope| {
        let (job, barrier) = (&job, &barrier);
        let start = |(number, &cpu): (usize, &usize)| {
            scope.spawn(move || {
                let mut ending = Ending { barrier, is_done: false };
                pin(cpu)?;
                let result = job(number, barrier);
                ending.is_done = result.is_ok();
                result
            })
        };
        let threads: Vec<_> = cpus.iter().enumerate().map(start).collect();
        let gone = HostError::Pin { cpu: 0, what: "its thread ended".to_owned() };
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(gone.clone()))).collect()
    })
}

fn pin(cpu: usize) -> Result<(), HostError> {
    let fail = |what: String| HostError::Pin { cpu, what };
    if cpu >= CpuSet::MAX_CPU {
        return Err(fail(format!("only {} CPUs can be named", CpuSet::MAX_CPU)));
    }
    crew::pin(cpu).map_err(|error| fail(error.to_string()))
}
