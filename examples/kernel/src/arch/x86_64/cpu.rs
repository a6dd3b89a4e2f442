//! A CPU's own words, which `%gs` leads to: its number, the preemption counter, and what kind of code it runs.
//!
//! | word | read and written by | meaning |
//! |---|---|---|
//! | `number` | any, pinned if it must stay true | 0 for the first CPU |
//! | `preemption_off` | the CPU, by one instruction each | how many pins and handlers keep the thread here |
//! | `running` | the CPU's handlers; any | thread, interrupt or NMI |
//!
//! A thread may move to another CPU between any two instructions. What must be true of *one* CPU is therefore one
//! instruction with a `%gs` operand. An address of the area that is read first and used later would be another CPU's.
//!
//! Interrupts run on stacks of their own (the TSS's interrupt stack table). Code for the host's target keeps data below
//! its stack pointer, in the red zone, and an interrupt on the same stack would overwrite it.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use super::instructions::write_msr;
use crate::cpu::{MAX_CPUS, Running};

/// Code segment of the kernel.
pub(super) const CODE: u64 = 0x08;
/// Data segment of the kernel.
pub(super) const DATA: u64 = 0x10;
const TASK_STATE: u16 = 0x18;

const GS_BASE: u32 = 0xc000_0101;
const STACK_BYTES: usize = 32 << 10;

/// Interrupt stacks, by their number in the TSS.
#[derive(Clone, Copy)]
pub(super) enum Stack {
    /// Interrupts of devices, other CPUs and the CPU itself; they are off while a handler runs.
    Interrupt = 1,
    /// NMIs, which come inside interrupts too.
    Nmi = 2,
    /// Faults, which end the machine.
    Fault = 3,
}

/// What a CPU keeps.
#[repr(C, align(128))]
pub(super) struct Area {
    number: AtomicU32,
    preemption_off: AtomicU32,
    running: AtomicU32,
    /// APIC number, by which other CPUs reach it.
    pub(super) apic: AtomicU8,
    tables: UnsafeCell<Tables>,
}

/// Descriptors and the TSS; the processor alone uses them once they are loaded.
#[repr(C)]
struct Tables {
    gdt: [u64; 5],
    task_state: [u32; 26],
}

#[repr(C, align(16))]
struct Stacks(UnsafeCell<[[u8; STACK_BYTES]; 3]>);

// SAFETY: the tables and stacks are written by `enter`, before their CPU runs anything else, and then by the processor.
unsafe impl Sync for Area {}
// SAFETY: as above.
unsafe impl Sync for Stacks {}

static AREAS: [Area; MAX_CPUS] = [const {
    Area {
        number: AtomicU32::new(0),
        preemption_off: AtomicU32::new(0),
        running: AtomicU32::new(Running::Thread as u32),
        apic: AtomicU8::new(0),
        tables: UnsafeCell::new(Tables { gdt: [0; 5], task_state: [0; 26] }),
    }
}; MAX_CPUS];
static STACKS: [Stacks; MAX_CPUS] = [const { Stacks(UnsafeCell::new([[0; STACK_BYTES]; 3])) }; MAX_CPUS];

/// Makes the calling CPU the CPU of that number: its `%gs`, descriptors and interrupt stacks.
///
/// Context: once for each CPU, first of all, with interrupts off.
pub(super) fn enter(number: usize) {
    let area = &AREAS[number];
    area.number.store(number as u32, Ordering::Relaxed);
    // SAFETY: no other CPU has this number, and this one has not loaded the tables yet.
    let tables = unsafe { &mut *area.tables.get() };
    for stack in [Stack::Interrupt, Stack::Nmi, Stack::Fault] {
        let end = STACKS[number].0.get() as u64 + (stack as usize * STACK_BYTES) as u64;
        // The table of interrupt stacks begins at byte 36, with entry 1.
        let at = 9 + 2 * (stack as usize - 1);
        tables.task_state[at] = end as u32;
        tables.task_state[at + 1] = (end >> 32) as u32;
    }
    let (base, limit) = (&raw const tables.task_state as u64, size_of_val(&tables.task_state) as u64 - 1);
    let available = 0x89 << 40;
    let low = limit | (base & 0xff_ffff) << 16 | available | (base >> 24 & 0xff) << 56;
    tables.gdt = [0, 0x00af_9a00_0000_ffff, 0x00cf_9200_0000_ffff, low, base >> 32];
    let pointer = TablePointer { limit: size_of_val(&tables.gdt) as u16 - 1, base: &raw const tables.gdt as u64 };
    // SAFETY: the descriptors of code and data are those that the CPU booted with; the tables are static. `%gs` is
    // used by this file alone.
    unsafe {
        asm!("lgdt [{}]", "ltr {:x}", in(reg) &raw const pointer, in(reg) TASK_STATE, options(readonly, nostack));
        write_msr(GS_BASE, &raw const *area as u64);
    }
}

/// Operand of `lgdt` and `lidt`.
#[repr(C, packed)]
pub(super) struct TablePointer {
    pub(super) limit: u16,
    pub(super) base: u64,
}

/// Returns the area of a CPU.
pub(super) fn area(cpu: usize) -> &'static Area {
    &AREAS[cpu]
}

/// Reads a word of this CPU's area by one instruction.
#[inline(always)]
fn own<const OFFSET: usize>() -> u32 {
    let value;
    // SAFETY: `%gs` leads to an area, and each word that this file reads is inside.
    unsafe {
        asm!("mov {:e}, gs:[{}]", out(reg) value, const OFFSET, options(nostack, preserves_flags, readonly));
    }
    value
}

/// Returns the number of this CPU, which the next instruction may change unless the caller is pinned.
#[inline(always)]
pub(crate) fn number() -> usize {
    own::<{ offset_of!(Area, number) }>() as usize
}

/// Turns preemption off. Nests.
#[inline(always)]
pub(crate) fn pin() {
    // SAFETY: as in `own`. The missing `nomem` keeps accesses after it.
    unsafe { asm!("inc dword ptr gs:[{}]", const offset_of!(Area, preemption_off), options(nostack)) };
}

/// Ends a pin, without a switch.
#[inline(always)]
pub(crate) fn end_pin() {
    // SAFETY: as in `pin`.
    unsafe { asm!("dec dword ptr gs:[{}]", const offset_of!(Area, preemption_off), options(nostack)) };
}

/// Returns whether no pin and no handler keeps the thread on its CPU.
pub(crate) fn is_preemptible() -> bool {
    own::<{ offset_of!(Area, preemption_off) }>() == 0
}

/// Returns what this CPU runs; for its caller that is always the same, wherever a thread moves.
#[inline(always)]
pub(crate) fn running() -> Running {
    Running::of(own::<{ offset_of!(Area, running) }>())
}

/// Sets what this CPU runs; returns what it ran. Context: a handler.
pub(crate) fn set_running(kind: Running) -> Running {
    Running::of(AREAS[number()].running.swap(kind as u32, Ordering::Relaxed))
}
