//! A litmus test: whether this machine, or its emulation, lets a load pass an earlier store.
//!
//! Two threads store to a word each and then load the other's. If both loads return the old value, each load passed the
//! store before it. That is what the heavy fence of a drain rules out, so a kernel whose fence reaches nobody can be
//! found only where this happens. Run with that plant alone (`plant.rs`).

use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, compiler_fence, fence};

use crate::serial::println;
use crate::threads::{self, MAX_THREADS};
use crate::{cpu, pages};

const ROUNDS: u64 = 20_000;

/// A word in a cache line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

static STORED: [Line; 2] = [const { Line(AtomicU64::new(0)) }; 2];
static LOADED: [Line; 2] = [const { Line(AtomicU64::new(0)) }; 2];
static ARRIVED: Line = Line(AtomicU64::new(0));
static PASSED: Line = Line(AtomicU64::new(0));
static FENCED: AtomicBool = AtomicBool::new(false);

/// Waits until both threads have come here.
fn meet(meetings: &mut u64) {
    *meetings += 2;
    ARRIVED.0.fetch_add(1, Ordering::SeqCst);
    while ARRIVED.0.load(Ordering::SeqCst) < *meetings {
        spin_loop();
    }
}

/// One of the two threads, by the lowest bit of its number.
extern "C" fn side(number: usize) -> ! {
    let (own, other) = (number & 1, 1 - (number & 1));
    let is_fenced = FENCED.load(Ordering::SeqCst);
    let mut meetings = 0;
    for _ in 0..ROUNDS {
        STORED[own].0.store(0, Ordering::Relaxed);
        meet(&mut meetings);
        STORED[own].0.store(1, Ordering::Relaxed);
        if is_fenced {
            fence(Ordering::SeqCst)
        } else {
            compiler_fence(Ordering::SeqCst)
        }
        LOADED[own].0.store(STORED[other].0.load(Ordering::Relaxed), Ordering::Relaxed);
        meet(&mut meetings);
        if own == 0 && LOADED.iter().all(|line| line.0.load(Ordering::Relaxed) == 0) {
            PASSED.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    threads::end(number)
}

/// Runs the test without a fence between store and load, and with one, and prints what was seen.
///
/// Context: the first CPU's idle thread, at least two CPUs.
pub(crate) fn run() {
    let [without, with] = [(MAX_THREADS - 4, false), (MAX_THREADS - 2, true)].map(|(first, is_fenced)| {
        ARRIVED.0.store(0, Ordering::SeqCst);
        PASSED.0.store(0, Ordering::SeqCst);
        FENCED.store(is_fenced, Ordering::SeqCst);
        let pair = first..first + 2;
        // A thread that ran before the other is started would keep this one from starting it.
        cpu::pin();
        pair.clone().for_each(|number| threads::start(number, side, pages::stack()));
        cpu::unpin();
        while !pair.clone().all(threads::has_ended) {
            spin_loop();
        }
        PASSED.0.load(Ordering::SeqCst)
    });
    println!("litmus: both loads passed the stores in {without} of {ROUNDS} rounds, with a fence in {with}");
}
