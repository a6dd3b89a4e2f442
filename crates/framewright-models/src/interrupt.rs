//! The pair of fences, in the two forms that the models use.
//!
//! The light fence of the seam only keeps the compiler from reordering. The heavy one makes every running CPU pass a
//! full fence: `membarrier`, or an interrupt to all others. loom knows no fence that acts on another thread, so:
//!
//! - [`Fences::Promoted`]: both are full fences. Wherever the interrupt of the heavy side meets a CPU in its program
//!   order, one of two things holds: the heavy side sees the CPU's earlier store, or the CPU's later load sees the
//!   heavy side's store. Two full fences allow the same outcomes. This form is cheap and shows that both fences are
//!   needed. A full fence instead of the light one also publishes and acquires, so a missing release stays hidden.
//! - [`Fences::Interrupt`]: the light fence does nothing. The heavy one asks all other running threads to pass a full
//!   fence and sleeps until they have. A thread passes it before its next operation on a shared word, so the interrupt
//!   strikes anywhere. A thread that has not begun, sleeps for a lock, or waits for an interrupt of its own is struck
//!   there.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread::Thread;

use crate::running::{running_cpu, switching};
use crate::word::CPUS;

/// How the pair of fences is modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fences {
    /// Full fences on both sides.
    #[default]
    Promoted,
    /// The light fence does nothing, the heavy one interrupts all others.
    Interrupt,
}

#[derive(Default)]
struct State {
    fences: Cell<Fences>,
    /// CPUs that run, a bit each.
    running: Cell<u8>,
    /// For each CPU, an atomic that its operations read and a heavy fence writes, so that the two do not commute in
    /// loom's search.
    clocks: RefCell<Vec<Rc<AtomicU32>>>,
    /// For each CPU, the CPUs that asked it to pass a fence, a bit each.
    asked: [Cell<u8>; CPUS],
    /// CPUs that passed a fence and stored nothing since, a bit each.
    fenced: Cell<u8>,
    /// The thread of each CPU that sleeps.
    sleepers: RefCell<[Option<Thread>; CPUS]>,
}

thread_local! {
    static STATE: State = State::default();
}

/// Begins the threads of an execution, on these CPUs.
pub(crate) fn together(fences: Fences, cpus: impl Iterator<Item = u16>) {
    STATE.with(|state| {
        *state.clocks.borrow_mut() = match fences {
            Fences::Promoted => Vec::new(),
            Fences::Interrupt => (0..CPUS).map(|_| Rc::new(AtomicU32::new(0))).collect(),
        };
        state.fences.set(fences);
        state.running.set(cpus.fold(0, |running, cpu| running | 1 << cpu));
        state.fenced.set(0);
        state.asked.iter().for_each(|asked| asked.set(0));
        *state.sleepers.borrow_mut() = [const { None }; CPUS];
    });
}

/// Sleeps until another thread calls [`wake`] for this CPU.
pub(crate) fn sleep() {
    let thread = loom::thread::current();
    STATE.with(|state| state.sleepers.borrow_mut()[usize::from(running_cpu())] = Some(thread));
    switching(loom::thread::park);
}

/// Wakes a CPU's thread if it sleeps, which orders memory as a release and an acquire do.
pub(crate) fn wake(cpu: u16) {
    if let Some(thread) = STATE.with(|state| state.sleepers.borrow_mut()[usize::from(cpu)].take()) {
        thread.unpark();
    }
}

/// Lets the interrupt of a heavy fence strike here, before an operation on a shared word.
pub(crate) fn may_strike() {
    if let Some(clock) = clock(running_cpu()) {
        switching(|| clock.load(Ordering::Relaxed));
        take();
    }
}

fn clock(cpu: u16) -> Option<Rc<AtomicU32>> {
    STATE.with(|state| state.clocks.borrow().get(usize::from(cpu)).cloned())
}

/// Passes the fence if another CPU asked this one for it.
fn take() {
    STATE.with(|state| {
        let by = state.asked[usize::from(running_cpu())].replace(0);
        if by != 0 {
            fence(Ordering::SeqCst);
            (0..CPUS as u16).filter(|cpu| by & 1 << cpu != 0).for_each(wake);
        }
    });
}

/// Ends the running thread's part.
///
/// An idle CPU is interrupted like any other, so its stores are visible to a CPU that asks later.
pub(crate) fn finish() {
    if STATE.with(|state| state.fences.get()) == Fences::Promoted {
        return;
    }
    // Other threads may see this thread's last stores before its fence publishes them.
    may_strike();
    fence(Ordering::SeqCst);
    STATE.with(|state| state.running.set(state.running.get() & !(1 << running_cpu())));
}

/// A full fence on this thread alone.
pub(crate) fn full() {
    fence(Ordering::SeqCst);
    STATE.with(|state| state.fenced.set(state.fenced.get() | 1 << running_cpu()));
}

/// Returns whether the running thread passed [`full`] and has not called this since, which it does at every store.
pub(crate) fn take_fenced() -> bool {
    let own = 1 << running_cpu();
    STATE.with(|state| state.fenced.replace(state.fenced.get() & !own) & own != 0)
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
