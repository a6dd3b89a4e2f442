//! The CPU that the running thread leases, in an interrupt and out of one.
//!
//! A pin reads it at each call, so it is a constant-initialised thread-local without destructor
//! ([`crate::cpus::lease`]). An interrupt of the thread has another CPU: the value is exchanged for that one while the
//! interrupt lasts ([`crate::interrupts`]).

use std::cell::Cell;

use framewright::units::{CpuId, NodeId};

/// A CPU of the allocator and the memory node nearest to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) cpu: CpuId,
    pub(crate) node: NodeId,
}

impl Place {
    /// No CPU: the allocator refuses to work here.
    pub(crate) const NOWHERE: Place = Place { cpu: CpuId(u16::MAX), node: NodeId(0) };
    /// No CPU without waiting for another's holder.
    ///
    /// No slot is called so: numbers of nodes are below 64.
    pub(crate) const BUSY: Place = Place { cpu: CpuId(u16::MAX), node: NodeId(u8::MAX) };
}

thread_local! {
    /// The machine that the thread used last, and its CPU there.
    static CURRENT: Cell<(u64, Place)> = const { Cell::new((0, Place::NOWHERE)) };
    /// Value of `CURRENT` at the beginning of an interrupt of the thread.
    static APART: Cell<(u64, Place)> = const { Cell::new((0, Place::NOWHERE)) };
}

/// The thread's CPU, if `machine` is the one it used last and it has a lease there.
#[inline]
pub(crate) fn of(machine: u64) -> Option<Place> {
    let (last, place) = CURRENT.get();
    (last == machine).then_some(place)
}

/// A number that no other living thread has; never 0.
pub(crate) fn mark() -> usize {
    CURRENT.with(|current| std::ptr::from_ref(current).addr())
}

/// Notes the thread's CPU of a machine, and that of its interrupts.
///
/// Context: interrupts held off.
pub(crate) fn set(machine: u64, place: Place, apart: Option<Place>) {
    CURRENT.set((machine, place));
    APART.set(apart.map_or((0, Place::NOWHERE), |apart| (machine, apart)));
}

/// Notes the CPU of the interrupt that the thread is in.
pub(crate) fn set_apart(machine: u64, apart: Place) {
    CURRENT.set((machine, apart));
}

/// Forgets the thread's CPU, so that its next pin looks for one.
///
/// Context: interrupts held off.
pub(crate) fn forget() {
    CURRENT.set((0, Place::NOWHERE));
    APART.set((0, Place::NOWHERE));
}

/// The thread is in an interrupt from now on. Returns where it was, for [`end_interrupt`].
pub(crate) fn begin_interrupt() -> (u64, Place) {
    CURRENT.replace(APART.get())
}

/// Restores the CPU of the code that was interrupted.
pub(crate) fn end_interrupt(outside: (u64, Place)) {
    CURRENT.set(outside);
}
