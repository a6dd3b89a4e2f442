//! A thread that is stopped anywhere, by a signal handler that does not return; requests that must not wait go on.
//!
//! `SIGSTOP` stops all threads of a process. For the others it is the same if the handler of a signal stops one.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use framewright::request::{__GFP_NOWARN, GFP_ATOMIC, GFP_KERNEL, GFP_NOWAIT};
use framewright::{AllocError, Request};
use framewright_rt::{Arena, CpuMode, Pages};

/// What the handler does, and did.
static STATE: AtomicU32 = AtomicU32::new(RUNS);
const RUNS: u32 = 0;
const STOPS: u32 = 1;
const STOPPED: u32 = 2;
const OVER: u32 = 3;

/// Size of the arena.
const BYTES: u64 = 16 << 20;
/// Requests that must have met a lock whose holder is stopped.
const WANTED: u32 = 2;
/// Stops after which they should have met it.
const MOST_STOPS: u32 = 100_000;
/// Time after which a request waits, rather than looks.
const PATIENCE: Duration = Duration::from_secs(120);

extern "C" fn stop(_: i32) {
    if STATE.compare_exchange(STOPS, STOPPED, SeqCst, SeqCst).is_ok() {
        while STATE.load(SeqCst) == STOPPED {
            std::hint::spin_loop();
        }
    }
}

/// Takes and frees blocks until the test is over, and drains, so that it often holds the zone's lock.
fn work(arena: &Arena) {
    while STATE.load(SeqCst) != OVER {
        let pages: Vec<Pages<'_>> = [0, 0, 0, 1, 3, 9, 5]
            .iter()
            .filter_map(|&order| arena.alloc(&Request::new(GFP_KERNEL | __GFP_NOWARN, order)).ok())
            .collect();
        drop(pages);
        arena.drain();
    }
}

/// Makes requests while the thread with that number is stopped, over and over; returns how many had to give up.
fn stop_and_try(arena: &Arena, thread: libc::pthread_t) -> u32 {
    let requests = [GFP_NOWAIT, GFP_ATOMIC].map(|gfp| [0, 2].map(|order| Request::new(gfp | __GFP_NOWARN, order)));
    let mut refused = 0;
    for _ in 0..MOST_STOPS {
        STATE.store(STOPS, SeqCst);
        // SAFETY: the thread runs until the test is over.
        assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGXCPU) }, 0);
        while STATE.load(SeqCst) != STOPPED {
            std::thread::yield_now();
        }
        let tried = requests.as_flattened().iter().map(|request| arena.alloc(request));
        let tried: Vec<Result<Pages<'_>, AllocError>> = tried.collect();
        STATE.store(RUNS, SeqCst);
        refused += tried.iter().filter(|tried| matches!(tried, Err(AllocError::NoMemory { .. }))).count() as u32;
        if refused >= WANTED {
            break;
        }
    }
    refused
}

#[test]
fn requests_that_must_not_wait_go_on_while_a_thread_is_stopped() {
    // SAFETY: an action of zeros is one without flags and with an empty mask; the handler only touches an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stop as extern "C" fn(i32) as usize;
        assert_eq!(libc::sigaction(libc::SIGXCPU, &raw const action, std::ptr::null_mut()), 0);
    }
    for mode in [CpuMode::Lease, CpuMode::PerCpu] {
        let Ok(arena) = Arena::builder().size(BYTES).cpu_mode(mode).without_background().build() else { continue };
        let arena = &arena;
        STATE.store(RUNS, SeqCst);
        let refused = std::thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            scope.spawn(move || {
                // SAFETY: always answers.
                tell.send(unsafe { libc::pthread_self() }).unwrap();
                work(arena);
            });
            let thread = told.recv().unwrap();
            let (tell, told) = mpsc::channel();
            scope.spawn(move || tell.send(stop_and_try(arena, thread)).unwrap());
            let refused = told.recv_timeout(PATIENCE);
            // Whoever waits may go on, and the test says so.
            STATE.store(OVER, SeqCst);
            refused
        });
        let refused = refused.expect("a request that must not wait waits for a thread that is stopped");
        assert!(refused >= WANTED, "{mode:?}: {refused} requests met a lock");
        arena.drain();
        assert_eq!(arena.validate().unwrap().free, BYTES >> 12, "{mode:?}");
    }
}
