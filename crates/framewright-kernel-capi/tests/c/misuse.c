/*
 * Misuses: each is one wrong call, which must be refused with its own error, and change nothing.
 *
 * Before boot every call is refused. Then come options that are wrong, for each of the three calls that take some.
 * After boot the allocator must be as before each wrong call: every invariant holds, and as much is allocated.
 */
#include "stub.h"

static int wrong, planted;
static bool booted;

static void refused(const char *call, int expected, int64_t result)
{
    printf("misuse %s: %s\n", call, fw_strerrorname((int)result));
    if (result != expected || planted) {
        fprintf(stderr, "%s: %s, expected %s\n", call, fw_strerrorname((int)result), fw_strerrorname(expected));
        wrong = 1;
        planted = 0;
    }
    at_rest();
    if (booted) validate();
}

#define REFUSED(expected, call) refused(#call, (expected), (call))

static uint64_t frames[8];
static char buffer[64];

static void unbooted(void)
{
    fw_kernel_stats stats = {.size = sizeof stats};
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_alloc(FW_KERNEL, 0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_alloc(FW_KERNEL, 5));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_alloc(FW_KERNEL | FW_ZERO, 0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_alloc_on(0, FW_KERNEL, 0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_alloc_below(0x1000, FW_KERNEL | FW_ZERO, 0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_free(0x500, 0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_free(0x500, 3));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_alloc_bulk(FW_KERNEL, 0, 8, frames));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_free_bulk(0, 8, frames, NULL, NULL));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_alloc_nolock(FW_ATOMIC, 0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_free_nolock(0x500, 0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_alloc_range(FW_KERNEL, 5, 0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_take_range(0x500, 5, FW_KERNEL));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_free_range(0x500, 5));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_split(0x500, 1, 0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_find(0x500, NULL, NULL));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_online(0x500, 1));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_offline(0x500, 1));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_add(0x8000, 0x400));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_drain());
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_drain_cpu(0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_cpu_offline(0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_cpu_online(0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_refresh(0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_balance(0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_compact(0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_init_section(0));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_get_stats(&stats));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_text(FW_TEXT_BUDDYINFO, buffer, sizeof buffer));
    REFUSED(FW_E_NOT_BOOTED, fw_kernel_validate(buffer, sizeof buffer));
}

/* Wrong options, in all three calls that take them; place looks at fields and not at what they mean together. */
static void refused_options(const char *name, int expected, bool by_place, const fw_kernel_options *options)
{
    refused(name, expected, fw_kernel_bytes(options));
    if (by_place) refused(name, expected, fw_kernel_place(options, PAGE, FIRST, END));
    refused(name, expected, fw_kernel_boot(options, UINT64_MAX, address_of(0x500), 4u << 20));
}

/* Changes one thing of right options, `o`. */
#define FIELD(expected, change)                               \
    do {                                                      \
        fw_kernel_options given = options_of(NULL), *o = &given; \
        change;                                               \
        refused_options(#change, (expected), true, o);        \
    } while (0)
/* The same, for what only the core notices. */
#define MEANING(expected, change)                             \
    do {                                                      \
        fw_kernel_options given = options_of(NULL), *o = &given; \
        change;                                               \
        refused_options(#change, (expected), false, o);       \
    } while (0)
#define MAP(...) do { static const fw_region map[] = {__VA_ARGS__}; o->regions = map; o->region_count = sizeof map / sizeof *map; } while (0)

static void odd_structures(void)
{
    struct {
        fw_kernel_options options;
        uint64_t newer[2];
    } larger = {.options = options_of(NULL), .newer = {0, 1}};
    larger.options.size = sizeof larger;
    refused_options("a newer structure with a value in a field that is not known", FW_E_STRUCT, true, &larger.options);
    static fw_kernel_hooks hooks;
    hooks = HOOKS;
    FIELD(FW_E_NULL, o = NULL);
    FIELD(FW_E_UNALIGNED, o = (fw_kernel_options *)(void *)((char *)o + 4));
    FIELD(FW_E_STRUCT, o->size = 0);
    FIELD(FW_E_STRUCT, o->size = sizeof *o - 8);
    FIELD(FW_E_STRUCT, o->size = SIZE_MAX);
    FIELD(FW_E_UNALIGNED, o->hooks = (const fw_kernel_hooks *)(const void *)((const char *)&HOOKS + 1));
    FIELD(FW_E_STRUCT, hooks.size = 0; o->hooks = &hooks);
    FIELD(FW_E_STRUCT, hooks.size = sizeof hooks - 8; o->hooks = &hooks);
}

static void odd_fields(void)
{
    static const fw_region overlapping[] = {FW_USABLE(0x400, 0x2400, 0), FW_USABLE(0x2000, 0x2800, 0)};
    static const uint8_t far_node[] = {64};
    static const fw_range backwards[] = {{0x600, 0x500}};
    FIELD(FW_E_NULL, o->regions = NULL);
    FIELD(FW_E_UNALIGNED, o->regions = (const fw_region *)(const void *)((const char *)REGIONS + 4));
    FIELD(FW_E_OVERFLOW, o->region_count = SIZE_MAX / 2);
    FIELD(FW_E_OPTION, MAP({0x400, 0x2400, 0, 2, 2}));
    FIELD(FW_E_OPTION, MAP({0x400, 0x2400, 0, 1, 0}));
    FIELD(FW_E_OPTION, MAP({0x400, 0x2400, 0, 0, 255}));
    FIELD(FW_E_NULL, o->cpu_nodes = NULL);
    FIELD(FW_E_NULL, o->reserved = NULL);
    FIELD(FW_E_UNALIGNED, o->reserved = (const fw_range *)(const void *)((const char *)reserved + 1));
    FIELD(FW_E_NULL, o->movable = NULL; o->movable_count = 1);
    FIELD(FW_E_OVERFLOW, o->movable_count = SIZE_MAX);
    FIELD(FW_E_NULL, o->cma = NULL; o->cma_count = 1);
    FIELD(FW_E_NULL, o->distances = NULL; o->distance_count = 4);
#ifdef MINIMAL
    FIELD(FW_E_COMPILED, o->mechanisms = "default");
#else
    FIELD(FW_E_MECHANISMS, o->mechanisms = "no-such-preset");
    FIELD(FW_E_MECHANISMS, o->mechanisms = "default,depot=maybe");
    FIELD(FW_E_MECHANISMS, o->mechanisms = "\xff\xfe");
    FIELD(FW_E_HOOK, o->mechanisms = "default,hardened=poison"; o->hooks = NULL);
    MEANING(FW_E_CONFLICT, o->mechanisms = "default,watermark-boost=100000,zone-lock=rw,free-path=splice,depot=off,compaction=off,proactiveness=20");
    MEANING(FW_E_DISTANCES, o->distance_count = 3);
    MEANING(FW_E_NODE, MAP(FW_USABLE(0x400, 0x2400, 64)));
    MEANING(FW_E_NODE, o->cpu_nodes = far_node; o->cpu_count = 1);
#endif
    FIELD(FW_E_OPTION, o->page_shift = 256);
    FIELD(FW_E_OPTION, o->max_order = 1000);
    FIELD(FW_E_OPTION, o->pageblock_order = UINT32_MAX);
    FIELD(FW_E_OPTION, o->sections = 3);
    FIELD(FW_E_OPTION, o->flags = 2);
    MEANING(FW_E_GEOMETRY, o->max_order = 19);
    MEANING(FW_E_GEOMETRY, o->page_shift = 200);
    MEANING(FW_E_GEOMETRY, o->max_order = 8; o->pageblock_order = 9);
    MEANING(FW_E_CPUS, o->cpu_count = 0);
    MEANING(FW_E_NO_USABLE, o->region_count = o->reserved_count = 0);
    MEANING(FW_E_RESERVED, o->region_count = 0);
    MEANING(FW_E_NO_USABLE, MAP(FW_RESERVED(0x400, 0x2400, 0)));
    MEANING(FW_E_REGION, MAP(FW_USABLE(0x2400, 0x400, 0)));
    MEANING(FW_E_REGION, o->regions = overlapping; o->region_count = 2);
    MEANING(FW_E_RESERVED, o->reserved = backwards; o->reserved_count = 1);
    MEANING(FW_E_FRAMES, MAP(FW_USABLE(0x400, (uint64_t)1 << 40, 0)));
    (void)far_node;
}

static void places_and_blocks(void)
{
    fw_kernel_options o = options_of(NULL);
    REFUSED(FW_E_NO_PLACE, fw_kernel_place(&o, (size_t)1 << 40, FIRST, END));
    REFUSED(FW_E_NO_PLACE, fw_kernel_place(&o, PAGE, 0x100000, 0x200000));
    REFUSED(FW_E_NO_PLACE, fw_kernel_place(&o, PAGE, END, FIRST));
    REFUSED(FW_E_NO_PLACE, fw_kernel_place(&o, PAGE, 0x2400, 0x2800));
    REFUSED(FW_E_NULL, fw_kernel_boot(&o, UINT64_MAX, NULL, 4u << 20));
    REFUSED(FW_E_OVERFLOW, fw_kernel_boot(&o, UINT64_MAX, memory, SIZE_MAX));
    REFUSED(FW_E_OVERFLOW, fw_kernel_boot(&o, UINT64_MAX, (void *)~(uintptr_t)63, 4u << 20));
    REFUSED(FW_E_DESCRIPTORS, fw_kernel_boot(&o, UINT64_MAX, memory, 0));
    REFUSED(FW_E_DESCRIPTORS, fw_kernel_boot(&o, UINT64_MAX, memory, PAGE));
    REFUSED(FW_E_DESCRIPTORS, fw_kernel_boot(&o, UINT64_MAX, memory, (size_t)GOT(fw_kernel_bytes(&o)) - 129));
    REFUSED(FW_E_UNRESERVED, fw_kernel_boot(&o, 0x500, address_of(0x500), 4u << 20));
    REFUSED(FW_E_UNRESERVED, fw_kernel_boot(&o, (uint64_t)0x500 << 12, address_of(0x500), 4u << 20));
    REFUSED(FW_E_UNRESERVED, fw_kernel_boot(&o, FIRST, address_of(0x500), 4u << 20));
    stub.cpu = CPUS;
    REFUSED(FW_E_NO_CPU, fw_kernel_boot(&o, UINT64_MAX, address_of(0x500), 4u << 20));
    stub.cpu = 0;
}

static void *nowhere(uint64_t start, uint64_t frames)
{
    (void)start, (void)frames;
    return NULL;
}

static void *far_up(uint64_t start, uint64_t frames)
{
    (void)start, (void)frames;
    return (void *)~(uintptr_t)63;
}

static void boots_in_one_call(void)
{
    static fw_range many[32];
    fw_kernel_options o = options_of(NULL);
    REFUSED(FW_E_NULL, fw_kernel_boot_within(NULL, FIRST, END, mapped));
    REFUSED(FW_E_NULL, fw_kernel_boot_within(&o, FIRST, END, NULL));
    REFUSED(FW_E_NULL, fw_kernel_boot_within(&o, FIRST, END, nowhere));
    REFUSED(FW_E_OVERFLOW, fw_kernel_boot_within(&o, FIRST, END, far_up));
    REFUSED(FW_E_NO_PLACE, fw_kernel_boot_within(&o, 0x100000, 0x200000, mapped));
    REFUSED(FW_E_MANY_RESERVED, (o.reserved = many, o.reserved_count = 32, fw_kernel_boot_within(&o, FIRST, END, mapped)));
    REFUSED(FW_E_NO_USABLE, (o.region_count = 0, fw_kernel_boot_within(&o, FIRST, END, mapped)));
#ifdef MINIMAL
    static const uint8_t two[2];
    o = options_of(NULL);
    REFUSED(FW_E_CPUS, (o.cpu_nodes = two, o.cpu_count = 2, fw_kernel_boot_within(&o, FIRST, END, mapped)));
#endif
}

static void requests(void)
{
    uint64_t *odd = (uint64_t *)(void *)((char *)frames + 4);
    REFUSED(FW_E_ORDER, fw_kernel_alloc(FW_KERNEL, 11));
    REFUSED(FW_E_ORDER, fw_kernel_alloc(FW_KERNEL, 256));
    REFUSED(FW_E_ORDER, fw_kernel_alloc(FW_KERNEL, ~0u));
    REFUSED(FW_E_FLAGS, fw_kernel_alloc(FW_KERNEL | 0x80000000u, 0));
    REFUSED(FW_E_FLAGS, fw_kernel_alloc(FW_MOVABLE | FW_RECLAIMABLE, 0));
    REFUSED(FW_E_FLAGS, fw_kernel_alloc(FW_DMA | FW_DMA32, 0));
    REFUSED(FW_E_NODE, fw_kernel_alloc_on(64, FW_KERNEL, 0));
    REFUSED(FW_E_NODE, fw_kernel_alloc_on(~0u, FW_KERNEL, 0));
#ifndef MINIMAL
    REFUSED(FW_E_NODE, fw_kernel_alloc_on(2, FW_KERNEL, 0));
    REFUSED(FW_E_ORDER, fw_kernel_alloc_on(0, FW_KERNEL, 11));
    REFUSED(FW_E_NO_ZONE, fw_kernel_alloc_below(0x400, FW_NOWAIT, 0));
    REFUSED(FW_E_FLAGS, fw_kernel_alloc_below(0x1000, 0x1000000, 0));
#else
    REFUSED(FW_E_LEFT_OUT, fw_kernel_alloc_on(0, FW_KERNEL, 0));
    REFUSED(FW_E_LEFT_OUT, fw_kernel_alloc_below(0x1000, FW_KERNEL, 0));
#endif
    REFUSED(FW_E_NULL, fw_kernel_alloc_bulk(FW_KERNEL, 0, 8, NULL));
    REFUSED(FW_E_UNALIGNED, fw_kernel_alloc_bulk(FW_KERNEL, 0, 8, odd));
    REFUSED(FW_E_OVERFLOW, fw_kernel_alloc_bulk(FW_KERNEL, 0, SIZE_MAX / 4, frames));
    REFUSED(FW_E_FLAGS, fw_kernel_alloc_bulk(0x2000000, 0, 8, frames));
    REFUSED(FW_E_ORDER, fw_kernel_alloc_bulk(FW_KERNEL, 12, 8, frames));
    REFUSED(FW_E_NOT_KEPT, fw_kernel_alloc_nolock(FW_ATOMIC, 7));
    REFUSED(FW_E_ORDER, fw_kernel_alloc_nolock(FW_ATOMIC, 30));
    REFUSED(FW_E_FLAGS, fw_kernel_alloc_nolock(0x4000000, 0));
    REFUSED(FW_E_ZERO_SIZE, fw_kernel_alloc_range(FW_KERNEL, 0, 0));
    REFUSED(FW_E_ORDER, fw_kernel_alloc_range(FW_KERNEL, 1, 52));
    REFUSED(FW_E_FLAGS, fw_kernel_alloc_range(0x8000000, 1, 0));
    CHECK(stats().allocated == 0);
}

static void frees(void)
{
    uint64_t page = (uint64_t)GOT(fw_kernel_alloc(FW_KERNEL, 0)), block = (uint64_t)GOT(fw_kernel_alloc(FW_KERNEL, 3));
    uint64_t *odd = (uint64_t *)(void *)((char *)frames + 4), bad = stats().bad_frees;
    size_t freed = 7, at = 7;
    REFUSED(FW_E_FOREIGN, fw_kernel_free(0, 0));
    REFUSED(FW_E_FOREIGN, fw_kernel_free(0x6000, 0));
    REFUSED(FW_E_FOREIGN, fw_kernel_free(UINT64_MAX, 0));
    REFUSED(FW_E_FOREIGN, fw_kernel_free((uint64_t)1 << 63, 0));
    REFUSED(FW_E_WRONG_ORDER, fw_kernel_free(block, 0));
    REFUSED(FW_E_WRONG_ORDER, fw_kernel_free(block, 2));
    REFUSED(FW_E_NOT_HEAD, fw_kernel_free(block + 1, 0));
    REFUSED(FW_E_NOT_HEAD, fw_kernel_free(block + 4, 2));
    REFUSED(FW_E_MISALIGNED, fw_kernel_free(block + 1, 3));
    REFUSED(FW_E_ORDER, fw_kernel_free(block, 11));
    REFUSED(FW_E_ORDER, fw_kernel_free(block, ~0u));
    REFUSED(FW_E_OFFLINE, fw_kernel_free(0x2400, 0));
    REFUSED(FW_E_OFFLINE, fw_kernel_free(0x400, 0));
    REFUSED(FW_E_NOT_HEAD, fw_kernel_free_nolock(block + 1, 0));
    REFUSED(FW_E_FOREIGN, fw_kernel_free_nolock(0x6000, 0));
    REFUSED(FW_E_NULL, fw_kernel_free_bulk(0, 8, NULL, NULL, NULL));
    REFUSED(FW_E_UNALIGNED, fw_kernel_free_bulk(0, 4, odd, NULL, NULL));
    REFUSED(FW_E_UNALIGNED, fw_kernel_free_bulk(0, 1, frames, (size_t *)(void *)((char *)&freed + 1), NULL));
    REFUSED(FW_E_UNALIGNED, fw_kernel_free_bulk(0, 1, frames, NULL, (size_t *)(void *)((char *)&freed + 1)));
    REFUSED(FW_E_OVERFLOW, fw_kernel_free_bulk(0, SIZE_MAX, frames, NULL, NULL));
    REFUSED(FW_E_ZERO_SIZE, fw_kernel_free_range(block, 0));
    REFUSED(FW_E_OVERFLOW, fw_kernel_free_range(block, UINT64_MAX));
    REFUSED(FW_E_ALREADY_FREE, fw_kernel_free_range(0x600, 8));
    REFUSED(FW_E_FOREIGN, fw_kernel_free_range(0x6000, 8));
    REFUSED(FW_E_ORDER, fw_kernel_split(block, 3, 4));
    REFUSED(FW_E_WRONG_ORDER, fw_kernel_split(block, 2, 0));
    REFUSED(FW_E_NOT_HEAD, fw_kernel_split(block + 2, 1, 0));
    CHECK(stats().allocated == 9 && stats().bad_frees > bad && freed == 7);
    OK(fw_kernel_free(page, 0));
    OK(fw_kernel_free(block, 3));
    REFUSED(FW_E_ALREADY_FREE, fw_kernel_free(page, 0));
    REFUSED(FW_E_ALREADY_FREE, fw_kernel_free(block, 3));
    REFUSED(FW_E_ALREADY_FREE, fw_kernel_free_nolock(page, 0));
    REFUSED(FW_E_ALREADY_FREE, fw_kernel_split(block, 3, 0));
    GOT(fw_kernel_drain());
    REFUSED(FW_E_ALREADY_FREE, fw_kernel_free(page, 0));
    frames[0] = (uint64_t)GOT(fw_kernel_alloc(FW_KERNEL, 0));
    frames[1] = frames[0];
    frames[2] = 0x6000;
    frames[3] = (uint64_t)GOT(fw_kernel_alloc(FW_KERNEL, 0));
    REFUSED(FW_E_ALREADY_FREE, fw_kernel_free_bulk(0, 4, frames, &freed, &at));
    CHECK(freed == 2 && at == 1 && stats().allocated == 0);
}

static void the_rest(void)
{
    fw_kernel_stats stats = {.size = sizeof stats};
    uint64_t head = 7;
    unsigned order = 7;
    REFUSED(FW_E_FOREIGN, fw_kernel_find(0, &head, &order));
    REFUSED(FW_E_FOREIGN, fw_kernel_find(UINT64_MAX, &head, &order));
    REFUSED(FW_E_ALREADY_FREE, fw_kernel_find(0x1000, &head, &order));
    REFUSED(FW_E_OFFLINE, fw_kernel_find(0x2400, &head, &order));
    REFUSED(FW_E_UNALIGNED, fw_kernel_find(0x1000, (uint64_t *)(void *)((char *)&head + 1), NULL));
    CHECK(head == 7 && order == 7);
    REFUSED(FW_E_ZERO_SIZE, fw_kernel_take_range(0x1000, 0, FW_KERNEL));
    REFUSED(FW_E_OVERFLOW, fw_kernel_take_range(0x1000, UINT64_MAX, FW_KERNEL));
    REFUSED(FW_E_FLAGS, fw_kernel_take_range(0x1000, 1, 0x10000000));
    REFUSED(FW_E_ZERO_SIZE, fw_kernel_online(0x2400, 0));
    REFUSED(FW_E_OVERFLOW, fw_kernel_online(2, UINT64_MAX));
    REFUSED(FW_E_ZERO_SIZE, fw_kernel_offline(0x1000, 0));
    REFUSED(FW_E_OVERFLOW, fw_kernel_offline(2, UINT64_MAX));
    REFUSED(FW_E_ZERO_SIZE, fw_kernel_add(0x8000, 0));
    REFUSED(FW_E_OVERFLOW, fw_kernel_add(2, UINT64_MAX));
#ifndef MINIMAL
    uint64_t page = (uint64_t)GOT(fw_kernel_alloc(FW_KERNEL, 0));
    REFUSED(FW_E_BUSY, fw_kernel_take_range(page, 1, FW_NOWAIT));
    REFUSED(FW_E_BUSY, fw_kernel_offline(page, 1));
    OK(fw_kernel_free(page, 0));
    REFUSED(FW_E_FOREIGN, fw_kernel_take_range(0x6000, 1, FW_KERNEL));
    REFUSED(FW_E_OFFLINE, fw_kernel_take_range(0x2400, 1, FW_KERNEL));
    REFUSED(FW_E_ZONE, fw_kernel_take_range(0xfff, 2, FW_KERNEL));
    REFUSED(FW_E_FOREIGN, fw_kernel_offline(0x6000, 1));
    REFUSED(FW_E_RANGE, fw_kernel_add(0x8001, 0x3ff));
    REFUSED(FW_E_FOREIGN, fw_kernel_add(0x10000, 0x400));
    REFUSED(FW_E_FOREIGN, fw_kernel_add(0x1000, 0x400));
    REFUSED(FW_E_NO_MEMORY, fw_kernel_alloc_range(FW_KERNEL, (uint64_t)1 << 40, 0));
#else
    REFUSED(FW_E_LEFT_OUT, fw_kernel_take_range(0x1000, 1, FW_KERNEL));
    REFUSED(FW_E_LEFT_OUT, fw_kernel_offline(0x1000, 1));
#endif
    REFUSED(FW_E_NO_SUCH_CPU, fw_kernel_drain_cpu(CPUS));
    REFUSED(FW_E_NO_SUCH_CPU, fw_kernel_drain_cpu(~0u));
    REFUSED(FW_E_NO_SUCH_CPU, fw_kernel_cpu_offline(CPUS));
    REFUSED(FW_E_NO_SUCH_CPU, fw_kernel_cpu_online(70000));
    REFUSED(FW_E_NO_SUCH_CPU, fw_kernel_refresh(CPUS));
    REFUSED(FW_E_NODE, fw_kernel_balance(9));
    REFUSED(FW_E_NODE, fw_kernel_compact(~0u));
    REFUSED(FW_E_NODE, fw_kernel_init_section(256));
    REFUSED(FW_E_NULL, fw_kernel_get_stats(NULL));
    REFUSED(FW_E_UNALIGNED, fw_kernel_get_stats((fw_kernel_stats *)(void *)((char *)&stats + 1)));
    REFUSED(FW_E_STRUCT, (stats.size = 0, fw_kernel_get_stats(&stats)));
    REFUSED(FW_E_STRUCT, (stats.size = sizeof stats - 8, fw_kernel_get_stats(&stats)));
    REFUSED(FW_E_STRUCT, (stats.size = SIZE_MAX, fw_kernel_get_stats(&stats)));
    REFUSED(FW_E_OPTION, fw_kernel_text(99, buffer, sizeof buffer));
    REFUSED(FW_E_NULL, fw_kernel_text(FW_TEXT_BUDDYINFO, NULL, 5));
    REFUSED(FW_E_OVERFLOW, fw_kernel_text(FW_TEXT_BUDDYINFO, buffer, SIZE_MAX));
    REFUSED(FW_E_NULL, fw_kernel_validate(NULL, 5));
    REFUSED(FW_E_OVERFLOW, fw_kernel_validate(buffer, SIZE_MAX));
}

/* A CPU that the options do not name, and contexts that have no lists. */
static void contexts(void)
{
    /* No check of every invariant there: it is for tasks on CPUs. */
    booted = false;
    stub.cpu = CPUS;
    REFUSED(FW_E_NO_CPU, fw_kernel_alloc(FW_KERNEL, 0));
    stub.cpu = 0;
    uint64_t page = (uint64_t)GOT(fw_kernel_alloc(FW_KERNEL, 0));
    stub.cpu = SIZE_MAX;
    REFUSED(FW_E_NO_CPU, fw_kernel_free(page, 0));
    stub.cpu = 0;
    OK(fw_kernel_free(page, 0));
#ifdef APART
    stub.context = FW_CONTEXT_OTHER;
    REFUSED(FW_E_NO_CPU, fw_kernel_alloc(FW_ATOMIC, 0));
    stub.context = FW_CONTEXT_INTERRUPT;
    REFUSED(FW_E_IN_INTERRUPT, fw_kernel_take_range(0x1000, 1, FW_KERNEL));
    REFUSED(FW_E_IN_INTERRUPT, fw_kernel_offline(0x1000, 1));
    REFUSED(FW_E_IN_INTERRUPT, fw_kernel_alloc_range(FW_ATOMIC, 0x401, 0));
    stub.context = FW_CONTEXT_TASK;
#endif
    booted = true;
    validate();
}

/* What a kernel without a function cannot ask for. */
static void without_hooks(void)
{
    boot(NULL, NULL);
    booted = true;
    REFUSED(FW_E_HOOK, fw_kernel_alloc(FW_KERNEL | FW_ZERO, 0));
    REFUSED(FW_E_HOOK, fw_kernel_alloc(FW_KERNEL | FW_ZERO, 4));
    REFUSED(FW_E_HOOK, fw_kernel_alloc_on(0, FW_KERNEL | FW_ZERO, 0));
    REFUSED(FW_E_HOOK, fw_kernel_alloc_below(0x2000, FW_KERNEL | FW_ZERO, 0));
    REFUSED(FW_E_HOOK, fw_kernel_alloc_bulk(FW_KERNEL | FW_ZERO, 0, 8, frames));
    REFUSED(FW_E_HOOK, fw_kernel_alloc_nolock(FW_ATOMIC | FW_ZERO, 0));
    REFUSED(FW_E_HOOK, fw_kernel_alloc_range(FW_KERNEL | FW_ZERO, 3, 0));
    REFUSED(FW_E_HOOK, fw_kernel_take_range(0x1000, 3, FW_KERNEL | FW_ZERO));
    GOT(fw_kernel_balance(0));
    GOT(fw_kernel_compact(0));
    OK(fw_kernel_free((uint64_t)GOT(fw_kernel_alloc(FW_KERNEL, 0)), 0));
}

int main(int argc, char **argv)
{
    (void)argv;
    planted = getenv("PLANT_A_FAILURE") != NULL;
    if (argc > 1) {
        without_hooks();
        return wrong;
    }
    unbooted();
    odd_structures();
    odd_fields();
    places_and_blocks();
    boots_in_one_call();
    fw_kernel_options options = boot(NULL, &HOOKS);
    booted = true;
    REFUSED(FW_E_BOOTED, fw_kernel_boot(&options, reserved[1].start, address_of(reserved[1].start), (size_t)GOT(fw_kernel_bytes(&options))));
    REFUSED(FW_E_BOOTED, fw_kernel_boot_within(&options, FIRST, END, mapped));
    requests();
    frees();
    the_rest();
    contexts();
    CHECK(stats().allocated == 0);
    OK(fw_kernel_free((uint64_t)GOT(fw_kernel_alloc(FW_KERNEL, 0)), 0));
    return wrong;
}
