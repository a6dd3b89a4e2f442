//! The stress: threads, timer interrupts and NMIs allocate blocks, tag every page, exchange blocks, check and free.
//!
//! | context | what it does | calls |
//! |---|---|---|
//! | three threads for each CPU | blocks of orders 0 to 10; 32 pages in bulk | `Allocator::alloc`, `alloc_bulk` |
//! | one thread | contiguous ranges, also longer than the largest block | `Allocator::alloc_contig` |
//! | one thread | drains the lists of all CPUs, or of one | `Allocator::drain_all`, `drain_cpu` |
//! | timer interrupts | blocks of orders 0 to 3; short ranges; NMIs to other CPUs | `Allocator::interrupt` |
//! | NMIs | blocks of orders 0 to 3 | `Allocator::any_context` |
//!
//! A timer interrupt sets the next one, at a random time, which is later by a part of its own time. So threads run even
//! where the host is busy and locks are slow to come.
//!
//! A wrong page ends the machine at once. Otherwise, after the given time, the threads end, then the timers stop, and
//! with every CPU at rest all blocks are freed.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use framewright::CpuId;

use crate::arch::{give_way, nanoseconds, send, set_timer};
use crate::events::Message;
use crate::owner::{self, Caller, INTERRUPTS, NMIS, Way, count};
use crate::pages::{self, Pages};
use crate::{cpu, fence, smp, threads};

/// Threads that only allocate and free, for each CPU.
const THREADS_PER_CPU: usize = 3;

/// When threads end, in nanoseconds.
static END: AtomicU64 = AtomicU64::new(u64::MAX);
static TIMERS_STOP: AtomicBool = AtomicBool::new(false);
static TIMERS_STOPPED: AtomicUsize = AtomicUsize::new(0);

/// Runs `turn` in a thread until the time is over.
fn thread(number: usize, mut turn: impl FnMut(Caller, &Pages)) -> ! {
    let caller = Caller::new(number, Way::Thread);
    while nanoseconds() < END.load(Ordering::Relaxed) {
        count(&caller.owner.calls, 1);
        turn(caller, pages::get());
    }
    threads::end(number)
}

/// Allocates and frees at random.
extern "C" fn mixed(number: usize) -> ! {
    thread(number, |caller, pages| if caller.random() & 31 == 0 { caller.bulk(pages) } else { caller.step(pages) })
}

/// Allocates ranges, many of them longer than the largest block.
extern "C" fn ranges(number: usize) -> ! {
    thread(number, |caller, pages| caller.range(pages, 3000, give_way))
}

/// Drains the lists of all CPUs, or of one.
extern "C" fn drains(number: usize) -> ! {
    thread(number, |caller, pages| {
        let random = caller.random();
        if random & 3 == 0 {
            pages.drain_all();
        } else {
            pages.drain_cpu(CpuId((random >> 8) as u16 % pages.cpus() as u16));
        }
        for _ in 0..random >> 16 & 63 {
            give_way();
        }
    })
}

/// What the timer does on each CPU. Context: its handler.
pub(crate) fn tick(cpu: usize) {
    let caller = Caller::new(INTERRUPTS + cpu, Way::Interrupt);
    if TIMERS_STOP.load(Ordering::Acquire) {
        TIMERS_STOPPED.fetch_add(1, Ordering::AcqRel);
        return;
    }
    let began = nanoseconds();
    if let Some(pages) = pages::started().filter(|_| END.load(Ordering::Relaxed) != u64::MAX) {
        count(&caller.owner.calls, 1);
        for _ in 0..1 + caller.random() % 4 {
            caller.step(pages);
        }
        caller.range(pages, 40, || ());
        send_nmi(cpu, caller.random());
    }
    set_timer(32_000 + caller.random() % 960_000 + (nanoseconds() - began) / 4);
}

/// Sends an NMI to another CPU, three times out of four.
fn send_nmi(own: usize, random: u64) {
    let others = smp::count() - 1;
    if others > 0 && random & 3 != 0 {
        let other = (own + 1 + (random >> 8) as usize % others) % smp::count();
        send(other, Message::Nmi);
    }
}

/// What an NMI does. Context: its handler.
pub(crate) fn nmi(cpu: usize) {
    let caller = Caller::new(NMIS + cpu, Way::Nmi);
    count(&caller.owner.calls, 1);
    if let Some(pages) = pages::started() {
        for _ in 0..2 {
            caller.step(pages);
        }
    }
}

/// Runs the stress for some seconds; returns when every CPU is at rest and every block is free.
///
/// Context: the first CPU's idle thread.
pub(crate) fn run(seconds: u64) {
    END.store(nanoseconds() + 1_000_000_000 * seconds, Ordering::Relaxed);
    let mixed = core::iter::repeat_n(mixed as extern "C" fn(usize) -> !, THREADS_PER_CPU * smp::count());
    let mut last = cpu::MAX_CPUS;
    // An idle thread that is preempted waits until nothing else is ready: this one first starts all.
    cpu::pin();
    for kind in [drains as _, ranges as _].into_iter().chain(mixed) {
        threads::start(last, kind, pages::stack());
        last += 1;
    }
    cpu::unpin();
    while !(cpu::MAX_CPUS..last).all(threads::has_ended) {
        core::hint::spin_loop();
    }
    TIMERS_STOP.store(true, Ordering::Release);
    while TIMERS_STOPPED.load(Ordering::Acquire) < smp::count() {
        core::hint::spin_loop();
    }
    // The last NMIs may be on their way. A CPU takes them before the interrupt of a fence.
    fence::others();
    owner::free_all(pages::get());
}
