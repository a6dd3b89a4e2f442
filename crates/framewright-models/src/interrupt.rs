//! The pair of fences, in the two forms that the models use.
//!
//! The light fence of the seam is nothing but an order to the compiler. The heavy one makes every running CPU pass a full
//! fence: `membarrier`, or an interrupt to all others. loom knows no fence that acts on another thread, so:
//!
//! - [`Fences::Promoted`]: both are full fences. Wherever in its program order a CPU meets the heavy side's interrupt, either its
//!   earlier store is visible to the heavy side, or its later load sees the heavy side's store; two full fences allow the same
//!   outcomes. Cheap, and it shows that both fences are needed. But a full fence in the place of the light one also publishes
//!   and acquires, which the light one does not, and so it hides a missing release behind it.
//! - [`Fences::Interrupt`]: the light fence does nothing. The heavy one asks all other threads that still run to pass a full fence and
//!   sleeps until they have. A thread passes it before its next operation on a shared word, so it strikes anywhere; one that
//!   had not yet begun, sleeps for a lock, or waits for an interrupt of its own is struck there.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread::Thread;

use crate::running::{running_cpu, switching};
use crate::word::CPUS;

/// See the module's description.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fences {
    /// Full fences on both sides.
    #[default]
    Promoted,
    /// Nothing on one side, an interrupt to all others on the other.
    Interrupt,
}

#[derive(Default)]
struct State {
    fences: Cell<Fences>,
    /// CPUs that run, a bit each.
    running: Cell<u8>,
    /// For each CPU, an atomic that its operations read and a heavy fence writes: for loom's search they do not commute.
    clocks: RefCell<Vec<Rc<AtomicU32>>>,
    /// For each CPU, who asked it to pass a fence.
    asked: [Cell<u8>; CPUS],
    /// The thread of each CPU that sleeps.
    sleepers: RefCell<[Option<Thread>; CPUS]>,
}

thread_local! {
    static STATE: State = State::default();
}

/// The threads of an execution begin, on the CPUs named.
pub(crate) fn together(fences: Fences, cpus: impl Iterator<Item = u16>) {
    STATE.with(|state| {
        *state.clocks.borrow_mut() = match fences {
            Fences::Promoted => Vec::new(),
            Fences::Interrupt => (0..CPUS).map(|_| Rc::new(AtomicU32::new(0))).collect(),
        };
        state.fences.set(fences);
        state.running.set(cpus.fold(0, |running, cpu| running | 1 << cpu));
        state.asked.iter().for_each(|asked| asked.set(0));
        *state.sleepers.borrow_mut() = [const { None }; CPUS];
    });
}

/// Sleeps until [`wake`] for this CPU.
pub(crate) fn sleep() {
    let thread = loom::thread::current();
    STATE.with(|state| state.sleepers.borrow_mut()[usize::from(running_cpu())] = Some(thread));
    switching(loom::thread::park);
}

/// Wakes a CPU's thread if it sleeps. That orders memory as a release and an acquire would.
pub(crate) fn wake(cpu: u16) {
    if let Some(thread) = STATE.with(|state| state.sleepers.borrow_mut()[usize::from(cpu)].take()) {
        thread.unpark();
    }
}

/// To be called before an operation on a shared word: an interrupt may strike here.
pub(crate) fn may_strike() {
    if let Some(clock) = clock(running_cpu()) {
        switching(|| clock.load(Ordering::Relaxed));
        take();
    }
}

fn clock(cpu: u16) -> Option<Rc<AtomicU32>> {
    STATE.with(|state| state.clocks.borrow().get(usize::from(cpu)).cloned())
}

/// Passes the fence that others asked this CPU for, if they did.
fn take() {
    STATE.with(|state| {
        let by = state.asked[usize::from(running_cpu())].replace(0);
        if by != 0 {
            fence(Ordering::SeqCst);
            (0..CPUS as u16).filter(|cpu| by & 1 << cpu != 0).for_each(wake);
        }
    });
}

/// The running thread's part is over. An idle CPU is interrupted like any other: what it did is there for who asks later.
pub(crate) fn finish() {
    if STATE.with(|state| state.fences.get()) == Fences::Promoted {
        return;
    }
    // Others may look at what this thread did last before its fence publishes that.
    may_strike();
    fence(Ordering::SeqCst);
    STATE.with(|state| state.running.set(state.running.get() & !(1 << running_cpu())));
}

/// The light side.
pub(crate) fn light() {
    if STATE.with(|state| state.fences.get()) == Fences::Promoted {
        fence(Ordering::SeqCst);
    }
}

/// The heavy side.
pub(crate) fn heavy() {
    fence(Ordering::SeqCst);
    if STATE.with(|state| state.fences.get()) == Fences::Promoted {
        return;
    }
    let own = 1 << running_cpu();
    let others: Vec<u16> = (0..CPUS as u16).filter(|&cpu| cpu != running_cpu()).collect();
    for &cpu in &others {
        if let Some(clock) = clock(cpu) {
            switching(|| clock.swap(0, Ordering::Relaxed));
        }
        if STATE.with(|state| state.running.get()) & 1 << cpu != 0 {
            STATE.with(|state| state.asked[usize::from(cpu)].set(state.asked[usize::from(cpu)].get() | own));
            wake(cpu);
        }
    }
    while others.iter().any(|&cpu| STATE.with(|state| state.asked[usize::from(cpu)].get()) & own != 0) {
        take();
        sleep();
    }
    fence(Ordering::SeqCst);
}
