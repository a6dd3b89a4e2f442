//! The first instructions of every CPU: at EL1, from no translation to caches and an identical map.
//!
//! QEMU enters an ELF image at its entry with nothing in the registers, and has put the device tree at the begin of
//! memory (`device_tree.rs`). The other CPUs come from PSCI to `boot_other`, with the end of their stack in `x0`.
//!
//! | address space | | |
//! |---|---|---|
//! | 0 to 1 GiB | devices | identical to physical memory, in blocks of 1 GiB: |
//! | 1 to 512 GiB | normal memory, cacheable, inner shareable | one table, of level 1 |
//!
//! Exclusive loads and stores, and so all atomic words, need such memory: the architecture does not promise them for
//! memory as it is with translation off. The table is data, so no code builds it, and no CPU reads with its caches off
//! what another one wrote.
//!
//! Threads use `SP_EL0`, interrupts `SP_EL1`: so each CPU has its own interrupt stack, and no stub has to switch.

use core::arch::global_asm;

/// Where QEMU puts the device tree: the begin of memory.
const TREE: u64 = 0x4000_0000;

/// Memory types by index: 0 is normal memory, written back; 1 is device memory.
const MAIR: u64 = 0x04ff;
/// Addresses of 39 bits, pages of 4 KiB, walks that use the caches, no upper half, physical addresses of 40 bits.
const TCR: u64 = 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23 | 2 << 32;
/// The bits that are always 1, translation, and caches of data and instructions.
const SCTLR: u64 = 0x30d0_0800 | 1 | 1 << 2 | 1 << 12;
/// A block that was accessed, inner shareable, of memory type 0.
const NORMAL: u64 = 0x701;
/// A block that was accessed, of memory type 1, never executed.
const DEVICE: u64 = 0x405 | 3 << 53;

global_asm!(
    ".section .boot, \"awx\"",
    ".global boot_start, boot_other",
    "boot_start:",
    "ldr x0, ={tree}",
    "ldr x1, =boot_stack_end",
    "ldr x2, ={first}",
    "b 1f",
    "boot_other:",
    "mov x1, x0",
    "ldr x2, ={other}",
    //
    // x0: argument of the function at x2; x1: the stack's end.
    "1:",
    "ldr x3, ={mair}",
    "msr mair_el1, x3",
    "ldr x3, ={tcr}",
    "msr tcr_el1, x3",
    "ldr x3, =boot_table",
    "msr ttbr0_el1, x3",
    "isb",
    "tlbi vmalle1",
    "dsb nsh",
    "isb",
    "ldr x3, ={sctlr}",
    "msr sctlr_el1, x3",
    "mov x3, #3 << 20", // floating-point and vector registers do not trap
    "msr cpacr_el1, x3",
    "isb",
    "msr spsel, #0",
    "mov sp, x1",
    "mov x29, xzr",
    "mov x30, xzr",
    "br x2",
    ".ltorg",
    ".balign 4096",
    "boot_table:",
    ".quad {device}",
    ".set boot_gib, 1",
    ".rept 511",
    ".quad boot_gib * 0x40000000 + {normal}",
    ".set boot_gib, boot_gib + 1",
    ".endr",
    ".section .bss.boot_stack, \"aw\", @nobits",
    ".balign 16",
    ".skip 0x8000",
    "boot_stack_end:",
    ".text",
    tree = const TREE,
    mair = const MAIR,
    tcr = const TCR,
    sctlr = const SCTLR,
    normal = const NORMAL,
    device = const DEVICE,
    first = sym crate::first_cpu,
    other = sym crate::smp::other_cpu,
);
