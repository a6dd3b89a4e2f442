//! The CPU that the running thread leases, in an interrupt and out of one.
//!
//! A pin reads it at each call, so it is a constant-initialised thread-local without destructor
//! ([`crate::cpus::lease`]). An interrupt of the thread has another CPU: the value is exchanged for that one while the
//! interrupt lasts ([`crate::interrupts`]).

use std::cell::Cell;
use std::ptr;

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

/// What a thread remembers of the machine that it used last.
#[derive(Clone, Copy)]
struct Current {
    /// The machine, and the thread's CPU there.
    machine: u64,
    place: Place,
    /// Values of that machine's CPUs, and the address of the CPU's own value; 0 and no address if not looked up yet.
    ///
    /// A raw pointer, because a check for null would be made at each call.
    values: u64,
    value: *const (),
}

impl Current {
    const NOTHING: Current = Current::at(0, Place::NOWHERE);

    const fn at(machine: u64, place: Place) -> Current {
        Current { machine, place, values: 0, value: ptr::null() }
    }
}

thread_local! {
    /// The machine that the thread used last.
    static CURRENT: Cell<Current> = const { Cell::new(Current::NOTHING) };
    /// Value of `CURRENT` at the beginning of an interrupt of the thread.
    static APART: Cell<Current> = const { Cell::new(Current::NOTHING) };
}

/// The thread's CPU, if `machine` is the one it used last and it has a lease there.
#[inline]
pub(crate) fn of(machine: u64) -> Option<Place> {
    let last = CURRENT.get();
    (last.machine == machine).then_some(last.place)
}

/// The address of the value of the thread's CPU, if `values` are the ones it used last.
///
/// The thread has that CPU to itself.
#[inline(always)]
pub(crate) fn value_of(values: u64) -> Option<*const ()> {
    let last = CURRENT.get();
    (last.values == values).then_some(last.value)
}

/// Notes the value of the thread's CPU of a machine, if that is the machine it used last.
pub(crate) fn note_value(machine: u64, values: u64, value: *const ()) {
    let last = CURRENT.get();
    if last.machine == machine {
        CURRENT.set(Current { values, value, ..last });
    }
}

/// A number that no other living thread has; never 0.
pub(crate) fn mark() -> usize {
    CURRENT.with(|current| ptr::from_ref(current).addr())
}

/// Notes the thread's CPU of a machine, and that of its interrupts.
///
/// Context: interrupts held off.
pub(crate) fn set(machine: u64, place: Place, apart: Option<Place>) {
    CURRENT.set(Current::at(machine, place));
    APART.set(apart.map_or(Current::NOTHING, |apart| Current::at(machine, apart)));
}

/// Notes the CPU of the interrupt that the thread is in.
pub(crate) fn set_apart(machine: u64, apart: Place) {
    CURRENT.set(Current::at(machine, apart));
}

/// Forgets the thread's CPU, so that its next pin looks for one.
///
/// Context: interrupts held off.
pub(crate) fn forget() {
    CURRENT.set(Current::NOTHING);
    APART.set(Current::NOTHING);
}

/// What the thread remembered when an interrupt of it began.
pub(crate) struct Outside(Current);

/// The thread is in an interrupt from now on. Returns where it was, for [`end_interrupt`].
pub(crate) fn begin_interrupt() -> Outside {
    Outside(CURRENT.replace(APART.get()))
}

/// Restores the CPU of the code that was interrupted, and remembers that of its interrupts.
pub(crate) fn end_interrupt(outside: Outside) {
    let inside = CURRENT.replace(outside.0);
    if inside.machine == outside.0.machine && inside.place == APART.get().place {
        APART.set(inside);
    }
}
