//! Litmus tests: how this machine, or its emulation, reorders accesses to memory.
//!
//! | test | thread 0 | thread 1 | counted |
//! |---|---|---|---|
//! | store buffering | stores x, loads y | stores y, loads x | both load the old value: each load passed a store |
//! | message passing | stores x, then y | loads y, then x | the new y and the old x: stores or loads changed places |
//!
//! The heavy fence of a drain rules the first one out, so a kernel whose fence reaches nobody can be found only where
//! it happens. It is tried without and with a full fence, and with the words of [`Ordering::SeqCst`] (on AArch64 `stlr`
//! and `ldar`), which Framewright does not use. The second one is what its releases and acquires rule out.
//! Run with that plant alone (`plant.rs`).

use core::hint::spin_loop;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering, compiler_fence, fence};

use crate::arch::nanoseconds;
use crate::serial::println;
use crate::threads::{self, MAX_THREADS};
use crate::{cpu, pages};

/// Most rounds of store buffering.
const ROUNDS: u64 = 20_000;
/// Nanoseconds after which no further round begins: where the host is busy, two CPUs seldom meet.
const MOST_TIME: u64 = 1_000_000_000;
/// Messages follow each other without a meeting, so there are more.
const MESSAGES: u64 = 2_000_000;

/// What two threads do.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Test {
    Buffering,
    BufferingSeqCst,
    BufferingFenced,
    Messages,
}

/// A word in a cache line of its own.
#[repr(align(128))]
struct Line(AtomicU64);

static STORED: [Line; 2] = [const { Line(AtomicU64::new(0)) }; 2];
static LOADED: [Line; 2] = [const { Line(AtomicU64::new(0)) }; 2];
static ARRIVED: Line = Line(AtomicU64::new(0));
static SEEN: Line = Line(AtomicU64::new(0));
/// Number of the last round, which is lowered when the time is over.
static LAST: Line = Line(AtomicU64::new(0));
static TEST: AtomicU8 = AtomicU8::new(0);

/// Waits until both threads have come here.
fn meet(meetings: &mut u64) {
    *meetings += 2;
    ARRIVED.0.fetch_add(1, Ordering::SeqCst);
    while ARRIVED.0.load(Ordering::SeqCst) < *meetings {
        spin_loop();
    }
}

/// One of the two threads of store buffering, by the lowest bit of its number.
///
/// `order` is that of the accesses, and `between` separates them.
#[inline(always)]
fn buffer(number: usize, order: [Ordering; 2], between: fn(Ordering)) {
    let (own, other) = (number & 1, 1 - (number & 1));
    let end = nanoseconds() + MOST_TIME;
    let (mut meetings, mut round) = (0, 0);
    while round < LAST.0.load(Ordering::Relaxed) {
        round += 1;
        STORED[own].0.store(0, Ordering::Relaxed);
        meet(&mut meetings);
        STORED[own].0.store(1, order[0]);
        between(Ordering::SeqCst);
        LOADED[own].0.store(STORED[other].0.load(order[1]), Ordering::Relaxed);
        if own == 0 && nanoseconds() > end {
            LAST.0.store(round, Ordering::Relaxed);
        }
        meet(&mut meetings);
        if own == 0 && LOADED.iter().all(|line| line.0.load(Ordering::Relaxed) == 0) {
            SEEN.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// One of the two threads of message passing: the first writes numbers, the other compares them until the last came.
fn pass_messages(number: usize) {
    let [x, y] = &STORED;
    if number & 1 == 0 {
        for message in 1..=MESSAGES {
            x.0.store(message, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            y.0.store(message, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
        }
        return;
    }
    let mut last = 0;
    while last < MESSAGES {
        last = y.0.load(Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if x.0.load(Ordering::Relaxed) < last {
            SEEN.0.fetch_add(1, Ordering::Relaxed);
        }
        compiler_fence(Ordering::SeqCst);
    }
}

extern "C" fn side(number: usize) -> ! {
    const RELAXED: [Ordering; 2] = [Ordering::Relaxed; 2];
    match TEST.load(Ordering::SeqCst) {
        test if test == Test::Buffering as u8 => buffer(number, RELAXED, compiler_fence),
        test if test == Test::BufferingSeqCst as u8 => buffer(number, [Ordering::SeqCst; 2], compiler_fence),
        test if test == Test::BufferingFenced as u8 => buffer(number, RELAXED, fence),
        _ => pass_messages(number),
    }
    threads::end(number)
}

/// Runs a test in the threads `first` and the next one; prints how often the outcome was seen.
fn count(name: &str, test: Test, first: usize, most: u64) {
    for line in [&STORED[0], &STORED[1], &ARRIVED, &SEEN] {
        line.0.store(0, Ordering::SeqCst);
    }
    LAST.0.store(most, Ordering::SeqCst);
    TEST.store(test as u8, Ordering::SeqCst);
    let pair = first..first + 2;
    // A thread that ran before the other is started would keep this one from starting it.
    cpu::pin();
    pair.clone().for_each(|number| threads::start(number, side, pages::stack()));
    cpu::unpin();
    while !pair.clone().all(threads::has_ended) {
        spin_loop();
    }
    println!("litmus: {name}: {} of {}", SEEN.0.load(Ordering::SeqCst), LAST.0.load(Ordering::SeqCst));
}

/// Runs the tests and prints what was seen.
///
/// Context: the first CPU's idle thread, at least two CPUs.
pub(crate) fn run() {
    count("store buffering", Test::Buffering, MAX_THREADS - 8, ROUNDS);
    count("store buffering, words of SeqCst", Test::BufferingSeqCst, MAX_THREADS - 6, ROUNDS);
    count("store buffering, a full fence", Test::BufferingFenced, MAX_THREADS - 4, ROUNDS);
    count("message passing", Test::Messages, MAX_THREADS - 2, MESSAGES);
}
