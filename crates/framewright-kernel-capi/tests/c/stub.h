/*
 * A kernel in a process: its memory is an array, its CPUs and contexts are variables, and its hooks check that they are
 * called as the header says.
 *
 *   frames    0x400      0x2400      0x2800      0x4800          0x8000    0x8400
 *             | usable   | reserved  | usable    | none          | possible |
 *   nodes     0          0           1                           1
 *
 * Frames 0x1400 to 0x17ff are CMA, and 0x4000 to 0x47ff are movable memory.
 */
#ifndef STUB_H
#define STUB_H

#include <framewright_kernel.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define FIRST 0x400u
#define END 0x8400u
#ifdef MINIMAL /* built for one CPU */
#define CPUS 1u
#else
#define CPUS 2u
#endif

/* Ends the program if a condition does not hold. */
#define CHECK(condition)                                                                                \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);               \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

/* Ends the program if a call is refused; else its result. */
#define GOT(call) got(__LINE__, #call, (call))
/* The same for a call without a result. */
#define OK(call) CHECK(GOT(call) == 0)

static inline int64_t got(int line, const char *call, int64_t result)
{
    if (result < 0) {
        fprintf(stderr, "line %d: %s: %s (%s)\n", line, call, fw_strerrorname((int)result), fw_strerror((int)result));
        exit(1);
    }
    return result;
}

static char memory[(size_t)(END - FIRST) * PAGE] __attribute__((aligned(4096)));

static void *address_of(uint64_t frame)
{
    CHECK(frame >= FIRST && frame < END);
    return memory + (frame - FIRST) * PAGE;
}

static struct {
    size_t cpu;
    uint32_t context;
    bool irqs_off;
    int pins;
    int fences;
    int zeroed, poisoned, checked, slept, woken, reclaimed, migrated;
    uint64_t clock;
} stub;

size_t fw_hook_cpu(void) { return stub.cpu; }

size_t fw_hook_irq_save(void)
{
    size_t saved = stub.irqs_off;
    stub.irqs_off = true;
    return saved;
}

void fw_hook_irq_restore(size_t saved)
{
    CHECK(stub.irqs_off && saved <= 1);
    stub.irqs_off = saved != 0;
}

void fw_hook_pin(void) { stub.pins++; }

void fw_hook_unpin(void)
{
    CHECK(stub.pins > 0);
    stub.pins--;
}

uint32_t fw_hook_context(void) { return stub.context; }

void fw_hook_fence_others(void)
{
    CHECK(stub.pins > 0 && !stub.irqs_off);
    stub.fences++;
}

int fw_hook_interrupts_on(void) { return !stub.irqs_off; }

/* Each call is over: what it turned off is on again. */
static inline void at_rest(void) { CHECK(!stub.irqs_off && stub.pins == 0); }

/* Without a lock, and not pinned: where a hook may wait. */
static inline void may_wait(void) { CHECK(!stub.irqs_off && stub.pins == 0 && stub.context == FW_CONTEXT_TASK); }

static void zero(uint64_t frame, uint32_t order)
{
    stub.zeroed++;
    memset(address_of(frame), 0, (size_t)PAGE << order);
}

static void poison(uint64_t frame, uint32_t order)
{
    stub.poisoned++;
    memset(address_of(frame), 0xaa, (size_t)PAGE << order);
}

static int is_poisoned(uint64_t frame, uint32_t order)
{
    stub.checked++;
    const unsigned char *bytes = address_of(frame);
    for (size_t i = 0; i < (size_t)PAGE << order; i++)
        if (bytes[i] != bytes[0] || (bytes[0] != 0xaa && bytes[0] != 0)) return 0;
    return 1;
}

static uint64_t now(void) { return stub.clock += 1000; }

static void sleep_until(uint32_t waiter, uint32_t node, uint64_t deadline)
{
    may_wait();
    CHECK(waiter == FW_WAITER_ALLOCATION && node < 2);
    stub.slept++;
    if (stub.clock < deadline) stub.clock = deadline;
}

static void wake(uint32_t waiter, uint32_t node)
{
    CHECK(waiter <= FW_WAITER_ALLOCATION && node < 2);
    stub.woken++;
}

/* Frames that reclaim may free, one by one. */
static uint64_t reclaimable[64];
static size_t reclaimable_count;

static uint64_t reclaim(const fw_need *need)
{
    may_wait();
    CHECK(need->frames != 0 && need->node < 2);
    stub.reclaimed++;
    uint64_t freed = 0;
    while (reclaimable_count != 0 && freed < need->frames) {
        OK(fw_kernel_free(reclaimable[--reclaimable_count], 0));
        freed++;
    }
    return freed;
}

/* The one block that moves. */
static uint64_t movable_block;

static int migrate(uint64_t from, uint64_t to, uint32_t order)
{
    may_wait();
    if (from != movable_block) return -1;
    memcpy(address_of(to), address_of(from), (size_t)PAGE << order);
    OK(fw_kernel_free(from, order));
    movable_block = to;
    stub.migrated++;
    return 0;
}

static const fw_kernel_hooks HOOKS = {
    .size = sizeof HOOKS,
    .zero = zero,
    .poison = poison,
    .is_poisoned = is_poisoned,
    .now = now,
    .sleep = sleep_until,
    .wake = wake,
    .reclaim = reclaim,
    .migrate = migrate,
};

/* The least library has one node, and neither movable memory nor CMA, nor memory that comes later. */
#ifdef MINIMAL
static const fw_region REGIONS[] = {
    FW_USABLE(0x400, 0x2400, 0),
    FW_RESERVED(0x2400, 0x2800, 0),
    FW_USABLE(0x2800, 0x4800, 0),
};
static const uint8_t NODES[CPUS] = {0};
#define RANGES_OF_A_KIND 0
#else
static const fw_region REGIONS[] = {
    FW_USABLE(0x400, 0x2400, 0),
    FW_RESERVED(0x2400, 0x2800, 0),
    FW_USABLE(0x2800, 0x4800, 1),
    FW_POSSIBLE(0x8000, 0x8400, 1),
};
static const uint8_t NODES[CPUS] = {0, 1};
#define RANGES_OF_A_KIND 1
#endif
static const fw_range MOVABLE[] = {{0x4000, 0x4800}};
static const fw_range CMA[] = {{0x1400, 0x1800}};
static const uint8_t DISTANCES[] = {10, 20, 20, 10};
static fw_range reserved[2] = {{0x400, 0x500}, {0, 0}};

static inline fw_kernel_options options_of(const char *mechanisms)
{
    return (fw_kernel_options){
        .size = sizeof(fw_kernel_options),
        .regions = REGIONS,
        .region_count = sizeof REGIONS / sizeof *REGIONS,
        .cpu_nodes = NODES,
        .cpu_count = CPUS,
        .reserved = reserved,
        .reserved_count = 1,
        .movable = MOVABLE,
        .movable_count = RANGES_OF_A_KIND,
        .cma = CMA,
        .cma_count = RANGES_OF_A_KIND,
        .distances = DISTANCES,
        .distance_count = RANGES_OF_A_KIND * 4,
        .mechanisms = mechanisms,
        .hooks = &HOOKS,
    };
}

/* Memory for the descriptors, where the allocator finds a place. */
static void *mapped(uint64_t start, uint64_t frames)
{
    CHECK(frames != 0);
    reserved[1] = (fw_range){start, start + frames};
    return address_of(start);
}

/* Boot in one call; returns the options that it booted with. */
static inline fw_kernel_options boot_at_once(const char *mechanisms)
{
    fw_kernel_options options = options_of(mechanisms);
    OK(fw_kernel_boot_within(&options, FIRST, END, mapped));
    at_rest();
    return options;
}

/* The two steps of boot; returns the options that it booted with. */
static inline fw_kernel_options boot(const char *mechanisms, const fw_kernel_hooks *hooks)
{
    fw_kernel_options options = options_of(mechanisms);
    options.hooks = hooks;
    int64_t bytes = GOT(fw_kernel_bytes(&options));
    int64_t own = GOT(fw_kernel_place(&options, (size_t)bytes, FIRST, END));
    reserved[1] = (fw_range){(uint64_t)own, (uint64_t)own + ((uint64_t)bytes + PAGE - 1) / PAGE};
    options.reserved_count = 2;
    CHECK(fw_kernel_bytes(&options) == bytes);
    OK(fw_kernel_boot(&options, (uint64_t)own, address_of((uint64_t)own), (size_t)bytes));
    at_rest();
    return options;
}

static inline fw_kernel_stats stats(void)
{
    fw_kernel_stats stats = {.size = sizeof stats};
    OK(fw_kernel_get_stats(&stats));
    return stats;
}

/* Every invariant holds. */
static inline void validate(void)
{
    char why[200];
    int code = fw_kernel_validate(why, sizeof why);
    if (code != FW_OK) {
        fprintf(stderr, "%s: %s\n", fw_strerrorname(code), why);
        exit(1);
    }
    at_rest();
}

#endif
