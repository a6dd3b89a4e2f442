//! A CPU's own words, in system registers: its number, the preemption counter, and what kind of code it runs.
//!
//! | register | belongs to | holds |
//! |---|---|---|
//! | `TPIDR_EL1` | the CPU | its number |
//! | `TPIDR_EL0` | the running thread | in 16 bits how many pins and handlers keep it here; above them what runs |
//!
//! A thread may move to another CPU between any two instructions, and there is no instruction that adds to a word of
//! this CPU. So the counter is the thread's: an interrupt saves `TPIDR_EL0` in the frame, and a switch takes it along.
//! The thread that reads 0, moves, and then writes 1 has counted right. A handler restores what it found.
//!
//! Rejected: a counter in memory that `TPIDR_EL1` leads to. Between the read of the address and the addition the
//! thread may move, and would count on the CPU that it left. Linux has its counter in the thread's memory instead.

use core::arch::asm;
use core::cell::UnsafeCell;

use crate::cpu::{MAX_CPUS, Running};

const STACK_BYTES: usize = 32 << 10;
/// Bits of the preemption counter.
const PINS: u64 = 0xffff;
const RUNNING_SHIFT: u32 = 16;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: used by the interrupts of one CPU alone.
unsafe impl Sync for Stack {}

static STACKS: [Stack; MAX_CPUS] = [const { Stack(UnsafeCell::new([0; STACK_BYTES])) }; MAX_CPUS];

/// Makes the calling CPU the CPU of that number: its words, interrupt stack and vectors.
///
/// Context: once for each CPU, first of all, with interrupts and FIQs off.
pub(super) fn enter(number: usize) {
    let stack = STACKS[number].0.get() as usize + STACK_BYTES;
    // SAFETY: no other CPU has this stack. It becomes that of exceptions, and the one in use stays in use. The two
    // words are used by this file and the stubs alone.
    unsafe {
        asm!(
            "msr tpidr_el1, {number}",
            "msr tpidr_el0, xzr",
            "msr spsel, #1",
            "mov sp, {stack}",
            "msr spsel, #0",
            "adrp {vectors}, vectors",
            "add {vectors}, {vectors}, :lo12:vectors",
            "msr vbar_el1, {vectors}",
            "isb",
            number = in(reg) number,
            stack = in(reg) stack,
            vectors = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Returns the number of this CPU, which the next instruction may change unless the caller is pinned.
#[inline(always)]
pub(crate) fn number() -> usize {
    let number;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, tpidr_el1", out(reg) number, options(nomem, nostack, preserves_flags)) };
    number
}

/// Returns the affinity of this CPU, by which PSCI and the device tree name it.
pub(crate) fn own_name() -> u64 {
    let affinity: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) affinity, options(nomem, nostack, preserves_flags)) };
    affinity & 0xff_00ff_ffff
}

/// Reads the thread's word.
#[inline(always)]
fn word() -> u64 {
    let word;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

/// Turns preemption off. Nests.
#[inline(always)]
pub(crate) fn pin() {
    // SAFETY: the word is this file's. The missing `nomem` keeps accesses to memory after it.
    unsafe {
        asm!("mrs {word}, tpidr_el0", "add {word}, {word}, #1", "msr tpidr_el0, {word}", word = out(reg) _,
            options(nostack, preserves_flags));
    }
}

/// Ends a pin, without a switch.
#[inline(always)]
pub(crate) fn end_pin() {
    // SAFETY: as in `pin`.
    unsafe {
        asm!("mrs {word}, tpidr_el0", "sub {word}, {word}, #1", "msr tpidr_el0, {word}", word = out(reg) _,
            options(nostack, preserves_flags));
    }
}

/// Returns whether no pin and no handler keeps the thread on its CPU.
pub(crate) fn is_preemptible() -> bool {
    word() & PINS == 0
}

/// Returns what this CPU runs; for its caller that is always the same, wherever a thread moves.
#[inline(always)]
pub(crate) fn running() -> Running {
    Running::of((word() >> RUNNING_SHIFT) as u32)
}

/// Sets what this CPU runs; returns what it ran. Context: a handler.
pub(crate) fn set_running(kind: Running) -> Running {
    let before = running();
    let word = word() & PINS | (kind as u64) << RUNNING_SHIFT;
    // SAFETY: as in `pin`. An interrupt of this handler restores what it found.
    unsafe { asm!("msr tpidr_el0, {}", in(reg) word, options(nostack, preserves_flags)) };
    before
}
