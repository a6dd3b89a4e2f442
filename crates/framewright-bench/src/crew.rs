//! Threads to measure on.
//!
//! A [`Crew`] is a set of threads that live as long as the contenders of a workload, each pinned to a CPU of its own as
//! far as there are that many, so that what an allocator keeps per thread is kept from round to round. Work is handed
//! to them as closures; a [`Gate`] starts all of them at one instant.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::Scope;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

type Task<'env> = Box<dyn FnOnce() + Send + 'env>;

/// Threads that do what they are told, for as long as a scope lasts.
pub struct Crew<'env> {
    jobs: Vec<mpsc::Sender<Task<'env>>>,
}

impl<'env> Crew<'env> {
    /// `threads` threads, pinned to `cpus` in turn.
    pub(crate) fn new<'scope>(scope: &'scope Scope<'scope, 'env>, threads: usize, cpus: &[usize]) -> Crew<'env>
    where
        'env: 'scope,
    {
        let jobs = (0..threads).map(|thread| {
            let (sender, receiver) = mpsc::channel::<Task<'env>>();
            let cpu = cpus.get(thread % cpus.len().max(1)).copied();
            scope.spawn(move || {
                if let Some(cpu) = cpu {
                    // Where pinning is forbidden the numbers are noisier; the report says so.
                    let _ = pin(cpu);
                }
                receiver.into_iter().for_each(|job| job());
            });
            sender
        });
        Crew { jobs: jobs.collect() }
    }

    /// Runs one job on each of the first `threads` threads, all at once; their results in order.
    pub(crate) fn each<T, F>(&self, threads: usize, mut job: impl FnMut(usize, Arc<Gate>) -> F) -> Vec<T>
    where
        T: Send + 'env,
        F: FnOnce() -> T + Send + 'env,
    {
        let gate = Arc::new(Gate { missing: AtomicUsize::new(threads) });
        let results: Vec<_> = self
            .jobs
            .iter()
            .take(threads)
            .enumerate()
            .map(|(thread, jobs)| {
                let (sender, receiver) = mpsc::sync_channel(1);
                let job = job(thread, Arc::clone(&gate));
                let sent = jobs.send(Box::new(move || {
                    let _ = sender.send(job());
                }));
                assert!(sent.is_ok(), "a thread of the crew has gone");
                receiver
            })
            .collect();
        results.iter().map(|receiver| receiver.recv().expect("a thread of the crew panicked")).collect()
    }
}

/// Where threads wait for each other.
pub(crate) struct Gate {
    missing: AtomicUsize,
}

impl Gate {
    /// Returns when every thread of the job is here. Spins: waking up would take longer than some measurements.
    pub(crate) fn wait(&self) {
        self.missing.fetch_sub(1, Ordering::AcqRel);
        let mut looks = 0_u32;
        while self.missing.load(Ordering::Acquire) != 0 {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(256) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// The CPUs that this process may run on.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return vec![0] };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Keeps the calling thread on a CPU.
pub(crate) fn pin(cpu: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// Whether threads may be pinned at all.
pub(crate) fn can_pin() -> bool {
    sched_getaffinity(None).and_then(|set| sched_setaffinity(None, &set)).is_ok()
}
