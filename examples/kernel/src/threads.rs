//! Threads: preemptive, and free to move to any CPU.
//!
//! | thread | |
//! |---|---|
//! | numbers below [`MAX_CPUS`] | the idle thread of each CPU: the code that it booted with; never in the queue |
//! | the others | one queue for all CPUs; each turn may be on another CPU |
//!
//! A switch exchanges the frame of an interrupt ([`Frame`]): the timer's, if no pin holds preemption off, or that of
//! the interrupt by which a thread gives way. A timer interrupt inside a pin notes that a switch is wanted, and the end
//! of the pin does it (`cpu::unpin`).
//!
//! Rejected: a queue for each CPU, which would be faster and let threads move less often. They are here to move.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::arch::{Frame, give_way, wait_for_interrupt};
use crate::cpu::{self, MAX_CPUS};
use crate::lock::Lock;

/// Most threads, idle ones included.
pub(crate) const MAX_THREADS: usize = 64;
/// The CPU of a thread that has not run yet.
const NOWHERE: usize = usize::MAX;

struct Saved(UnsafeCell<Frame>);

// SAFETY: a thread's frame is used by the CPU that runs it or has just taken it off the queue, and the queue's lock
// orders one such CPU after the other.
unsafe impl Sync for Saved {}

static SAVED: [Saved; MAX_THREADS] = [const { Saved(UnsafeCell::new(Frame::EMPTY)) }; MAX_THREADS];
static HAS_ENDED: [AtomicBool; MAX_THREADS] = [const { AtomicBool::new(false) }; MAX_THREADS];
static QUEUE: Lock<Queue> = Lock::new(Queue {
    ready: [0; MAX_THREADS],
    first: 0,
    length: 0,
    running: [0, 1, 2, 3, 4, 5, 6, 7],
    last_cpu: [NOWHERE; MAX_THREADS],
});
static MIGRATIONS: AtomicU64 = AtomicU64::new(0);

/// Threads that are ready, in the order of their turns.
struct Queue {
    ready: [usize; MAX_THREADS],
    first: usize,
    length: usize,
    /// The thread that each CPU runs, its idle thread at first.
    running: [usize; MAX_CPUS],
    last_cpu: [usize; MAX_THREADS],
}

impl Queue {
    fn add(&mut self, thread: usize) {
        self.ready[(self.first + self.length) % MAX_THREADS] = thread;
        self.length += 1;
    }

    fn take(&mut self) -> Option<usize> {
        self.length = self.length.checked_sub(1)?;
        let thread = self.ready[self.first];
        self.first = (self.first + 1) % MAX_THREADS;
        Some(thread)
    }
}

/// Makes thread `number` call `entry(number)` on a stack that ends at `stack`; it ends by [`end`].
///
/// Context: `number` is not used yet, from [`MAX_CPUS`] on and below [`MAX_THREADS`].
pub(crate) fn start(number: usize, entry: extern "C" fn(usize) -> !, stack: u64) {
    let mut queue = QUEUE.lock();
    // SAFETY: the thread is in no queue yet, and runs nowhere.
    unsafe { *SAVED[number].0.get() = Frame::calling(entry, number, stack) };
    queue.add(number);
}

/// Ends the thread `number`, which is the caller.
pub(crate) fn end(number: usize) -> ! {
    // A thread that finds this one ended also finds what it did.
    HAS_ENDED[number].store(true, Ordering::Release);
    loop {
        give_way();
    }
}

/// Returns whether a thread has ended, or is about to give its CPU away for good.
pub(crate) fn has_ended(number: usize) -> bool {
    HAS_ENDED[number].load(Ordering::Acquire)
}

/// Returns the number of turns of a thread on another CPU than its last.
pub(crate) fn migrations() -> u64 {
    MIGRATIONS.load(Ordering::Relaxed)
}

/// What a CPU runs when nothing is ready.
pub(crate) fn idle() -> ! {
    loop {
        wait_for_interrupt();
    }
}

/// Switches threads at the end of a timer interrupt, now or when preemption is on again.
pub(crate) fn preempt(frame: &mut Frame) {
    if cpu::is_preemptible() { switch(frame) } else { cpu::want_switch(true) }
}

/// Exchanges the interrupted thread, whose registers `frame` has, for the next that is ready.
///
/// Context: a handler that interrupted a thread, on its interrupt stack.
pub(crate) fn switch(frame: &mut Frame) {
    cpu::want_switch(false);
    let own = cpu::number();
    let mut queue = QUEUE.lock();
    let old = queue.running[own];
    let new = match queue.take() {
        Some(new) => new,
        None if has_ended(old) => own,
        None => return,
    };
    // SAFETY: the old thread runs here and the new one was taken off the queue, so both frames are this CPU's while it
    // holds the queue's lock. They differ.
    unsafe {
        *SAVED[old].0.get() = *frame;
        *frame = *SAVED[new].0.get();
    }
    if old >= MAX_CPUS && !has_ended(old) {
        queue.add(old);
    }
    if ![own, NOWHERE].contains(&queue.last_cpu[new]) {
        MIGRATIONS.fetch_add(1, Ordering::Relaxed);
    }
    queue.last_cpu[new] = own;
    queue.running[own] = new;
}
