/*
 * The first instructions, from 32 bits to 64, and the stubs of interrupts.
 *
 * QEMU reads the ELF note (PVH, the boot protocol of Xen's guests) and enters boot_start in 32-bit mode with paging off;
 * ebx holds the address of the start information. The first 512 GiB are mapped at their own addresses, in pages of 1 GiB.
 */
    .section .note.pvh, "a", @note
    .balign 4
    .long 4, 8, 18                  /* lengths of name and value; XEN_ELFNOTE_PHYS32_ENTRY */
    .asciz "Xen"
    .quad boot_start

    .section .boot, "awx"
    .code32
    .global boot_start
boot_start:
    cli
    cld
    lgdt boot_gdt_pointer
    movl %ebx, %edi
    movl $boot_stack_end, %esp
    movl %cr4, %eax
    orl $0x620, %eax                /* physical address extension, SSE and its exceptions */
    movl %eax, %cr4
    movl $boot_pml4, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx          /* EFER: long mode */
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    andl $0x9ffffffb, %eax          /* caches on, no emulation of the floating-point unit */
    orl $0x80000003, %eax           /* paging, monitor coprocessor, protection */
    movl %eax, %cr0
    ljmp $0x08, $boot_64
    .code64
boot_64:
    movw $0x10, %ax
    movw %ax, %ss
    movw %ax, %ds
    movw %ax, %es
    movl %edi, %edi                 /* clears the upper halves */
    movl %esp, %esp
    xorl %ebp, %ebp
    call kernel_main
    ud2

    .balign 16
    .global boot_gdt
boot_gdt:                           /* nothing; code of 64 bits; data; the task state, which kernel.c completes */
    .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff, 0, 0
boot_gdt_pointer:
    .word 5 * 8 - 1
    .long boot_gdt
    .balign 4096
boot_pml4:
    .quad boot_pdpt + 3             /* present, writable */
    .fill 511, 8, 0
boot_pdpt:
    .set boot_gib, 0
    .rept 512
    .quad boot_gib * 0x40000000 + 0x83
    .set boot_gib, boot_gib + 1
    .endr

    .section .bss.boot_stack, "aw", @nobits
    .balign 16
    .skip 0x8000
boot_stack_end:

/*
 * A stub for each vector, 16 bytes apart. All interrupts run on a stack of their own (IST 1): code for the host's target
 * uses 128 bytes below the stack pointer.
 */
    .text
    .balign 16
    .global interrupt_stubs
interrupt_stubs:
    .set vector, 0
    .rept 0x30
    .balign 16
    .if ((0x60227d00 >> vector) & 1) == 0 || vector >= 32
    pushq $0                        /* where the processor pushes no error code */
    .endif
    pushq $vector
    jmp interrupt_common
    .set vector, vector + 1
    .endr

interrupt_common:
    pushq %rax; pushq %rcx; pushq %rdx; pushq %rsi; pushq %rdi; pushq %r8; pushq %r9; pushq %r10; pushq %r11; pushq %rbp
    movq %rsp, %rbp
    movq 80(%rsp), %rdi             /* vector, error, address of the instruction */
    movq 88(%rsp), %rsi
    movq 96(%rsp), %rdx
    subq $512, %rsp
    andq $-16, %rsp
    fxsave64 (%rsp)
    cld
    call interrupt
    fxrstor64 (%rsp)
    movq %rbp, %rsp
    popq %rbp; popq %r11; popq %r10; popq %r9; popq %r8; popq %rdi; popq %rsi; popq %rdx; popq %rcx; popq %rax
    addq $16, %rsp
    iretq

    .section .note.GNU-stack, "", @progbits
