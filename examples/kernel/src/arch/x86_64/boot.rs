//! The first instructions of every CPU: from 32 bits, or from real mode, to 64 bits.
//!
//! QEMU reads the ELF note (PVH, the boot protocol of Xen's guests) and enters `boot_start` in 32-bit mode with
//! paging off; `ebx` holds the address of the start information (`pvh.rs`). The other CPUs wake up in real mode, in a
//! copy of the trampoline below 1 MiB (`wake.rs`), and join at `boot_long`.
//!
//! | address space | |
//! |---|---|
//! | 0 to 512 GiB | identical to physical memory, in pages of 1 GiB; one table of each of the two levels |
//!
//! The tables are data, so no code builds them. Device registers lie in the same pages as memory: on real hardware the
//! MTRRs make them uncached, under emulation there is no cache. A kernel with user space would map itself high up.

use core::arch::global_asm;

/// Real-mode address of the trampoline's copy: a page that neither firmware nor the boot protocol uses.
pub(super) const TRAMPOLINE: usize = 0x8000;

global_asm!(
    // A note's name, type 18 (XEN_ELFNOTE_PHYS32_ENTRY), and the address to enter.
    ".section .note.pvh, \"a\", @note",
    ".balign 4",
    ".long 4, 8, 18",
    ".asciz \"Xen\"",
    ".quad boot_start",
    //
    ".section .boot, \"awx\"",
    ".code32",
    ".global boot_start",
    "boot_start:",
    "cli",
    "cld",
    "lgdt [boot_gdt_pointer]",
    "mov edi, ebx",
    "mov esp, offset boot_stack_end",
    "jmp boot_long",
    //
    // Real mode; `cs` is TRAMPOLINE / 16.
    ".code16",
    ".global trampoline, trampoline_end",
    "trampoline:",
    "cli",
    "mov ax, cs",
    "mov ds, ax",
    ".byte 0x66, 0x0f, 0x01, 0x16", // lgdt, with an operand of 32 bits
    ".word trampoline_gdt_pointer - trampoline",
    "mov eax, cr0",
    "or eax, 1",
    "mov cr0, eax",
    ".byte 0x66, 0xea", // a far jump to 32 bits
    ".long boot_other",
    ".word 0x18",
    "trampoline_gdt_pointer:",
    ".word 4 * 8 - 1",
    ".long boot_gdt",
    "trampoline_end:",
    //
    ".code32",
    "boot_other:",
    "mov ax, 0x10",
    "mov ds, ax",
    "mov ss, ax",
    "xor edi, edi",
    "mov esp, [boot_other_stack]",
    //
    // edi: start information, or 0 for a CPU that is not the first; esp: its stack.
    "boot_long:",
    "mov eax, cr4",
    "or eax, 0x620", // physical address extension, SSE and its exceptions
    "mov cr4, eax",
    "mov eax, offset boot_pml4",
    "mov cr3, eax",
    "mov ecx, 0xc0000080", // EFER: long mode
    "rdmsr",
    "or eax, 0x100",
    "wrmsr",
    "mov eax, cr0",
    "and eax, 0x9ffffffb",  // caches on, no emulation of the floating-point unit
    "or eax, 0x80000003", // paging, monitor coprocessor, protection
    "mov cr0, eax",
    "push 0x08",
    "mov eax, offset boot_64",
    "push eax",
    "retf",
    ".code64",
    "boot_64:",
    "mov ax, 0x10",
    "mov ss, ax",
    "mov ds, ax",
    "mov es, ax",
    "mov edi, edi", // clears the upper halves
    "mov esp, esp",
    "xor ebp, ebp",
    "test edi, edi",
    "jz 2f",
    "call {first}",
    "2: call {other}",
    "ud2",
    //
    ".balign 16",
    "boot_gdt:", // nothing; code of 64 bits; data; code of 32 bits
    ".quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff, 0x00cf9a000000ffff",
    "boot_gdt_pointer:",
    ".word 4 * 8 - 1",
    ".long boot_gdt",
    ".balign 8",
    ".global boot_other_stack",
    "boot_other_stack: .quad 0",
    ".balign 4096",
    "boot_pml4:",
    ".quad boot_pdpt + 3", // present, writable
    ".fill 511, 8, 0",
    "boot_pdpt:",
    ".set boot_gib, 0",
    ".rept 512",
    ".quad boot_gib * 0x40000000 + 0x83", // present, writable, a page of 1 GiB
    ".set boot_gib, boot_gib + 1",
    ".endr",
    ".section .bss.boot_stack, \"aw\", @nobits",
    ".balign 16",
    ".skip 0x8000",
    "boot_stack_end:",
    ".text",
    first = sym crate::first_cpu,
    other = sym crate::smp::other_cpu,
);
