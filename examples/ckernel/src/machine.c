/* The machine: serial console, exit, interrupt table, timer; and C's memory functions. */
#include "kernel.h"

static void out(uint16_t port, uint8_t value) { __asm__ volatile("outb %0, %1" : : "a"(value), "Nd"(port) : "memory"); }

static uint8_t in(uint16_t port)
{
    uint8_t value;
    __asm__ volatile("inb %1, %0" : "=a"(value) : "Nd"(port));
    return value;
}

void print(const char *text)
{
    for (; *text; text++) {
        while (!(in(0x3f8 + 5) & 0x20)) {}
        out(0x3f8, (uint8_t)*text);
    }
}

void print_number(uint64_t number, unsigned base)
{
    char digits[24], *first = digits + sizeof digits - 1;
    *first = 0;
    do *--first = "0123456789abcdef"[number % base];
    while (number /= base);
    print(first);
}

/* Ends the machine: QEMU exits with twice the number and 1. */
_Noreturn void end(enum outcome outcome)
{
    out(0xf4, (uint8_t)outcome);
    for (;;) __asm__ volatile("cli; hlt");
}

_Noreturn void die(const char *what, int error)
{
    print("kernel: wrong: ");
    print(what);
    if (error) {
        print(": ");
        print(fw_strerrorname(error));
        print(", ");
        print(fw_strerror(error));
    }
    print("\n");
    end(WRONG);
}

/* Needed by code that is not optimised; never called here. */
void fw_hook_panic(const char *file, size_t length, uint32_t line)
{
    (void)file, (void)length;
    print("line ");
    print_number(line, 10);
    die(" of the library", 0);
}

/* Interrupts: each on the stack of IST 1. */

extern uint64_t boot_gdt[];
extern char interrupt_stubs[];
static uint64_t table[0x30][2];
static char interrupt_stack[0x4000] __attribute__((aligned(16)));
/* The task state: only its field IST 1 is used. */
static struct {
    uint32_t reserved, stacks[8], ist1_low, ist1_high, rest[14], io_map;
} __attribute__((packed)) task_state;

volatile uint64_t ticks;

void interrupt(uint64_t vector, uint64_t error, uint64_t instruction)
{
    if (vector == 0x20) {
        ticks++;
        timer_interrupt();
        out(0x20, 0x20);
    } else if (vector == 2) {
        non_maskable_interrupt();
    } else {
        print("fault ");
        print_number(vector, 10);
        print(", error 0x");
        print_number(error, 16);
        print(", at 0x");
        print_number(instruction, 16);
        print("\n");
        die("a fault", 0);
    }
}

void start_timer(unsigned hertz)
{
    uint64_t stack = (uint64_t)(interrupt_stack + sizeof interrupt_stack), state = (uint64_t)&task_state;
    task_state.ist1_low = (uint32_t)stack;
    task_state.ist1_high = (uint32_t)(stack >> 32);
    boot_gdt[3] = (sizeof task_state - 1) | (state & 0xffffff) << 16 | (uint64_t)0x89 << 40 | (state >> 24 & 0xff) << 56;
    boot_gdt[4] = state >> 32;
    for (unsigned vector = 0; vector < 0x30; vector++) {
        uint64_t stub = (uint64_t)interrupt_stubs + vector * 16;
        /* Present, an interrupt gate on IST 1: interrupts are off in the handler. */
        table[vector][0] = (stub & 0xffff) | 0x08 << 16 | (uint64_t)1 << 32 | (uint64_t)0x8e << 40 | (stub >> 16 & 0xffff) << 48;
        table[vector][1] = stub >> 32;
    }
    struct {
        uint16_t limit;
        uint64_t base;
    } __attribute__((packed)) pointer = {sizeof table - 1, (uint64_t)table};
    __asm__ volatile("lidt %0; ltr %w1" : : "m"(pointer), "r"(0x18));
    /* Both interrupt controllers: vectors from 0x20 and 0x28 on, and of all lines the timer's alone. */
    out(0x20, 0x11), out(0x21, 0x20), out(0x21, 4), out(0x21, 1), out(0x21, 0xfe);
    out(0xa0, 0x11), out(0xa1, 0x28), out(0xa1, 2), out(0xa1, 1), out(0xa1, 0xff);
    uint16_t divisor = (uint16_t)(1193182u / hertz);
    out(0x43, 0x34), out(0x40, (uint8_t)divisor), out(0x40, (uint8_t)(divisor >> 8));
    __asm__ volatile("sti");
}

/* What compilers call for copies and comparisons, where no library has it. */

void *memcpy(void *to, const void *from, size_t length)
{
    void *start = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
    return start;
}

void *memset(void *to, int byte, size_t length)
{
    void *start = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(length) : "a"(byte) : "memory");
    return start;
}

void *memmove(void *to, const void *from, size_t length)
{
    if ((uintptr_t)to - (uintptr_t)from >= length) return memcpy(to, from, length);
    volatile char *end = (char *)to + length;
    const volatile char *source = (const char *)from + length;
    while (length-- != 0) *--end = *--source;
    return to;
}

int memcmp(const void *left, const void *right, size_t length)
{
    const volatile unsigned char *a = left, *b = right;
    for (; length-- != 0; a++, b++)
        if (*a != *b) return *a - *b;
    return 0;
}

int bcmp(const void *left, const void *right, size_t length) { return memcmp(left, right, length); }

size_t strlen(const char *text)
{
    const volatile char *end = text;
    while (*end) end++;
    return (size_t)(end - text);
}
