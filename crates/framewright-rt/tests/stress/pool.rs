//! A pool that threads keep full and evict from: no request fails there while a frame is free, on any list.
//!
//! A thread takes a permit before it asks for a page. The permit returns when the page is free again, freed by any
//! thread. There are as many permits as frames that requests may use. So the holder of a permit can count on a frame.
//! One is free during the call, on the zone's lists, in a depot or on some CPU's list. Any failure breaks the promise.
//!
//! Runs for half a second each; `FRAMEWRIGHT_STRESS_SECONDS=60` makes it longer.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use framewright::report::Source;
use framewright::request::{GFP_ATOMIC, GFP_HIGHUSER_MOVABLE, GFP_KERNEL, GFP_NOWAIT};
use framewright::{NodeId, Request, ZoneIdx, ZoneKind};
use framewright_ops::rng::Rng;
use framewright_rt::{Arena, CpuMode, LocalArena, Pages};

use crate::watchdog;

/// Pages that a thread evicts when it finds no permit.
const EVICTED: usize = 40;

fn lasts() -> Duration {
    let seconds = std::env::var("FRAMEWRIGHT_STRESS_SECONDS");
    Duration::from_secs_f64(seconds.map_or(0.5, |text| text.parse().expect("a number of seconds")))
}

struct Pool {
    arena: Arena,
    leases: bool,
    permits: AtomicU64,
    /// Pages that one thread left for another to evict.
    left: Mutex<VecDeque<Pages<'static>>>,
    served: AtomicU64,
    failed: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl Pool {
    fn permit(&self) -> bool {
        self.permits.fetch_update(SeqCst, SeqCst, |permits| permits.checked_sub(1)).is_ok()
    }

    fn evict(&self, pages: Pages<'_>, local: Option<&LocalArena<'_>>) {
        match local {
            Some(local) => local.free(pages),
            None => drop(pages),
        }
        self.permits.fetch_add(1, SeqCst);
    }
}

fn run(pool: &'static Pool, thread: u64) {
    let requests = [GFP_NOWAIT, GFP_KERNEL, GFP_ATOMIC, GFP_HIGHUSER_MOVABLE].map(Request::page);
    // Every other thread holds its CPU, if it has one to itself.
    let local = if pool.leases && thread % 2 == 1 { pool.arena.local() } else { None };
    let mut held: VecDeque<Pages<'static>> = VecDeque::new();
    let mut rng = Rng::new(thread);
    while !pool.over.load(SeqCst) {
        watchdog::beat(Some(thread as usize));
        let word = rng.draw();
        if pool.permit() {
            let request = &requests[(word % 4) as usize];
            let asked = Instant::now();
            let allocated = local.as_ref().map_or_else(|| pool.arena.alloc(request), |local| local.alloc(request));
            match allocated {
                Ok(pages) if word & 0xf00 == 0 => pool.left.lock().unwrap().push_back(pages),
                Ok(pages) => held.push_back(pages),
                Err(why) => {
                    pool.failed.lock().unwrap().push(format!("{why} after {:.1?}: {}", asked.elapsed(), request.gfp));
                    pool.permits.fetch_add(1, SeqCst);
                    continue;
                }
            }
            pool.served.fetch_add(1, SeqCst);
            continue;
        }
        let mut evicted: Vec<Pages<'static>> = Vec::new();
        for _ in 0..EVICTED {
            evicted.extend(if rng.one_in(3) { held.pop_front() } else { held.pop_back() });
        }
        if evicted.is_empty() {
            evicted.extend(pool.left.lock().unwrap().pop_front());
            std::thread::yield_now();
        }
        evicted.into_iter().for_each(|pages| pool.evict(pages, local.as_ref()));
    }
    held.into_iter().for_each(|pages| pool.evict(pages, local.as_ref()));
}

#[track_caller]
fn nothing_fails(threads: u64, bytes: u64, mode: CpuMode) {
    let arena =
        Arena::builder().size(bytes).cpu_mode(mode).cpus(threads as usize).without_background().build().unwrap();
    let zone = arena.source().zone(ZoneIdx::of(NodeId(0), ZoneKind::Normal)).unwrap();
    let permits = zone.managed - zone.min;
    let pool: &'static Pool = Box::leak(Box::new(Pool {
        arena,
        leases: mode == CpuMode::Lease,
        permits: AtomicU64::new(permits),
        left: Mutex::default(),
        served: AtomicU64::new(0),
        failed: Mutex::default(),
        over: AtomicBool::new(false),
    }));
    let began = Instant::now();
    std::thread::scope(|scope| {
        (0..threads).for_each(|thread| drop(scope.spawn(move || run(pool, thread))));
        std::thread::sleep(lasts());
        pool.over.store(true, SeqCst);
    });
    pool.left.lock().unwrap().drain(..).for_each(|pages| pool.evict(pages, None));
    let (served, failed) = (pool.served.load(SeqCst), pool.failed.lock().unwrap());
    println!("{threads} threads, {mode:?}: {served} served, {} failed in {:.1?}", failed.len(), began.elapsed());
    assert_eq!(pool.permits.load(SeqCst), permits);
    pool.arena.validate().unwrap();
    assert!(failed.is_empty(), "of {served} requests, with a frame free for each: {failed:#?}");
}

#[test]
fn two_threads_keep_32_mib_full() {
    watchdog::guarded(|| {
        nothing_fails(2, 32 << 20, CpuMode::Lease);
        nothing_fails(2, 32 << 20, CpuMode::PerCpu);
    });
}

#[test]
fn sixteen_threads_keep_64_mib_full() {
    watchdog::guarded(|| {
        nothing_fails(16, 64 << 20, CpuMode::Lease);
        nothing_fails(16, 64 << 20, CpuMode::PerCpu);
    });
}
