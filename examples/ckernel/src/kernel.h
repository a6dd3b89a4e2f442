/* What the files of this kernel know of each other. */
#ifndef KERNEL_H
#define KERNEL_H

#include <framewright_kernel.h>
#include <stdbool.h>

#define PAGE_SHIFT 12
#define PAGE (1u << PAGE_SHIFT)

/* The loader's structures: Xen's arch-x86/hvm/start_info.h, version 1. */
struct start_info {
    uint32_t magic, version, flags, modules;
    uint64_t module_list, command_line, acpi_root, memory_map;
    uint32_t memory_map_entries, reserved;
};

struct memory_map_entry {
    uint64_t address, size;
    uint32_t kind, reserved;
};

/* machine.c */
enum outcome { RIGHT = 0x10, WRONG = 0x11, REFUSED = 0x12 };

void print(const char *text);
void print_number(uint64_t number, unsigned base);
_Noreturn void die(const char *what, int error);
_Noreturn void end(enum outcome outcome);
void start_timer(unsigned hertz);
extern volatile uint64_t ticks;

static inline size_t irq_save(void)
{
    size_t flags;
    __asm__ volatile("pushfq; popq %0; cli" : "=r"(flags) : : "memory");
    return flags;
}

static inline void irq_restore(size_t flags)
{
    if (flags & 0x200) __asm__ volatile("sti" : : : "memory");
}

/* pages.c */
void boot_pages(const struct start_info *loaded);

/* All memory is mapped at its own address. */
static inline void *address_of(uint64_t frame) { return (void *)(frame << PAGE_SHIFT); }

/* main.c */
void timer_interrupt(void);
void non_maskable_interrupt(void);

#endif
