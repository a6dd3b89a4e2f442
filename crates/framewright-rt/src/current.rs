//! The CPU that the running thread leases, in an interrupt and out of one.
//!
//! Each call reads it, so it is a constant-initialised thread-local without destructor ([`crate::cpus::lease`]). An
//! interrupt of the thread has another CPU: the value is exchanged for that one while the interrupt lasts
//! ([`crate::interrupts`]).
//!
//! On x86-64 Linux it is defined in assembly, because a library cannot choose the model of its thread-locals otherwise.
//! The default model is for libraries that are loaded at run time. It compiles to a function call, for which the fast
//! path would save registers. *Initial-exec* is an addition to the thread pointer. It needs room in the memory that
//! each thread has for thread-locals from its start: 48 bytes, also where a program loads this code later.
//!
//! # Why the unsafe code is right
//!
//! The symbol is large and aligned enough for a `Current`, which is asserted, and zeros are one. Each thread has its
//! own copy, which lives as long as the thread. No other thread gets its address, and references to it stay inside of
//! the function [`current`]. A handler of the thread exchanges the value as a whole, so the code that it interrupts
//! finds it as it was. The pointers in it are followed by [`crate::cpus`] alone, which noted them.
#![allow(
    unsafe_code,
    reason = "a thread-local of a chosen model is a symbol of assembly; each block says why it is sound"
)]

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
    /// Values of the CPUs of a machine, and the address of one CPU's value; 0 and no address if not looked up yet.
    ///
    /// Raw pointers, because a check for null would be made at each call.
    values: u64,
    value: *const (),
    /// If that CPU is a processor's: how to take it, which is the business of [`crate::cpus`].
    taking: Taking,
}

/// The area that a thread shares with the kernel, and the slot of a processor; no addresses if there is none.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Taking {
    pub(crate) area: *const (),
    pub(crate) slot: *const (),
}

impl Taking {
    const NOTHING: Taking = Taking { area: ptr::null(), slot: ptr::null() };
}

impl Current {
    /// No machine: numbers of machines and values are never 0.
    const NOTHING: Current = Current::at(0, Place { cpu: CpuId(0), node: NodeId(0) });

    const fn at(machine: u64, place: Place) -> Current {
        Current { machine, place, values: 0, value: ptr::null(), taking: Taking::NOTHING }
    }
}

thread_local! {
    /// Value of the thread's `Current` at the beginning of an interrupt of the thread.
    static APART: Cell<Current> = const { Cell::new(Current::NOTHING) };
    /// How often the thread forgot its CPU.
    static FORGOTTEN: Cell<u32> = const { Cell::new(0) };
}

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux", not(miri)))]
mod by_symbol {
    use std::arch::{asm, global_asm};
    use std::cell::Cell;
    use std::mem::offset_of;

    use super::Current;

    const _: () = assert!(size_of::<Current>() <= 48 && align_of::<Current>() <= 8);

    // Zeros are `Current::NOTHING`.
    global_asm!(
        ".pushsection .tbss.framewright_rt_current, \"awT\", @nobits",
        ".globl framewright_rt_current",
        ".hidden framewright_rt_current",
        ".type framewright_rt_current, @object",
        ".size framewright_rt_current, 48",
        ".p2align 3",
        "framewright_rt_current:",
        ".zero 48",
        ".popsection",
    );

    /// The machine that the thread used last.
    #[inline(always)]
    pub(super) fn current<T>(operation: impl FnOnce(&Cell<Current>) -> T) -> T {
        let current: *const Cell<Current>;
        // SAFETY: reads a word that holds its own address and one that the loader has written, both by the ABI. Their
        // sum is the address of the symbol's copy for this thread.
        unsafe {
            asm!("mov {current}, fs:0", "add {current}, qword ptr [rip + framewright_rt_current@GOTTPOFF]",
                current = out(reg) current, options(pure, nomem, nostack));
        }
        // SAFETY: the copy lives as long as the thread, is large enough, and zeros are a value. Only this thread uses
        // it, and no reference leaves the operation.
        operation(unsafe { &*current })
    }

    /// The number of the values that the thread noted last, and the address of the value.
    ///
    /// It takes three instructions.
    #[inline(always)]
    pub(crate) fn value() -> (u64, *const ()) {
        let (values, value);
        // SAFETY: reads two words of the symbol's copy for this thread, which nobody else writes.
        unsafe {
            asm!("mov {value}, qword ptr [rip + framewright_rt_current@GOTTPOFF]",
                "mov {values}, qword ptr fs:[{value} + {at_values}]", "mov {value}, qword ptr fs:[{value} + {at_value}]",
                value = out(reg) value, values = out(reg) values, at_values = const offset_of!(Current, values),
                at_value = const offset_of!(Current, value), options(pure, readonly, nostack, preserves_flags));
        }
        (values, value)
    }
}

#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux", not(miri))))]
mod by_library {
    use std::cell::Cell;

    use super::Current;

    thread_local! {
        static CURRENT: Cell<Current> = const { Cell::new(Current::NOTHING) };
    }

    /// The machine that the thread used last.
    #[inline(always)]
    pub(super) fn current<T>(operation: impl FnOnce(&Cell<Current>) -> T) -> T {
        CURRENT.with(operation)
    }

    /// The number of the values that the thread noted last, and the address of the value.
    #[inline(always)]
    pub(crate) fn value() -> (u64, *const ()) {
        let Current { values, value, .. } = current(Cell::get);
        (values, value)
    }
}

#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux", not(miri))))]
use by_library::current;
#[cfg(not(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux", not(miri))))]
pub(crate) use by_library::value;
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux", not(miri)))]
use by_symbol::current;
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux", not(miri)))]
pub(crate) use by_symbol::value;

/// How to take the CPU of the value that the thread noted last.
#[inline(always)]
pub(crate) fn taking() -> Taking {
    current(Cell::get).taking
}

/// The thread's CPU, if `machine` is the one it used last and it has a lease there.
#[inline]
pub(crate) fn of(machine: u64) -> Option<Place> {
    let last = current(Cell::get);
    (last.machine == machine).then_some(last.place)
}

/// Notes the value of the thread's CPU of a machine, if that is the machine it used last.
pub(crate) fn note_value(machine: u64, values: u64, value: *const ()) {
    let last = current(Cell::get);
    if last.machine == machine {
        current(|current| current.set(Current { values, value, ..last }));
    }
}

/// Notes a value of a processor's CPU, and how to take that CPU. The thread does not keep it.
pub(crate) fn note_processor(values: u64, value: *const (), taking: Taking) {
    current(|current| current.set(Current { values, value, taking, ..current.get() }));
}

/// Returns a number that no other living thread has; never 0.
///
/// It takes two or three instructions. A number is used again after its thread has exited.
#[inline(always)]
pub fn mark() -> usize {
    current(|current| ptr::from_ref(current).addr())
}

/// Notes the thread's CPU of a machine, and that of its interrupts.
///
/// Context: interrupts held off.
pub(crate) fn set(machine: u64, place: Place, apart: Option<Place>) {
    current(|current| current.set(Current::at(machine, place)));
    APART.set(apart.map_or(Current::NOTHING, |apart| Current::at(machine, apart)));
}

/// Notes the CPU of the interrupt that the thread is in.
pub(crate) fn set_apart(machine: u64, apart: Place) {
    current(|current| current.set(Current::at(machine, apart)));
}

/// Forgets the thread's CPU, so that its next pin looks for one.
///
/// Context: interrupts held off.
pub(crate) fn forget() {
    current(|current| current.set(Current::NOTHING));
    APART.set(Current::NOTHING);
    FORGOTTEN.set(FORGOTTEN.get().wrapping_add(1));
}

/// What the thread remembered when an interrupt of it began, and how often it had forgotten its CPU.
pub(crate) struct Outside(Current, u32);

/// The thread is in an interrupt from now on. Returns where it was, for [`end_interrupt`].
pub(crate) fn begin_interrupt() -> Outside {
    Outside(current(|current| current.replace(APART.get())), FORGOTTEN.get())
}

/// Restores the CPU of the code that was interrupted, and remembers that of its interrupts.
///
/// Where the thread forgot its CPU meanwhile, as in a fork's child, it remembers neither.
pub(crate) fn end_interrupt(outside: Outside) {
    if FORGOTTEN.get() != outside.1 {
        forget();
        return;
    }
    let inside = current(|current| current.replace(outside.0));
    if inside.machine == outside.0.machine && inside.place == APART.get().place {
        APART.set(inside);
    }
}
