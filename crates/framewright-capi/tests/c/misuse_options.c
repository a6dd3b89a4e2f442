/* Misuses of the options: no arena is created, and the reason is told in words. */
#include "misuse.h"

/* Options with one thing wrong. */
struct wrong {
    fw_options options;
    fw_node nodes[65];
    char message[160];
};

static struct wrong given;

static fw_options *wrong_options(void)
{
    memset(&given, 0, sizeof given);
    given.options = options_of(16 * MIB, FW_OPTION_NO_BACKGROUND);
    given.options.message = given.message;
    given.options.message_size = sizeof given.message;
    return &given.options;
}

static int create(const fw_options *options)
{
    fw_arena *arena = (fw_arena *)&given;
    int code = fw_arena_create(options, &arena);
    CHECK(arena == (fw_arena *)&given);
    return code;
}

/* A case that sets fields of the options `o`, and then creates; it must get words. */
#define WITH(name, ...)                         \
    static int name(struct world *w)            \
    {                                           \
        (void)w;                                \
        fw_options *o = wrong_options();        \
        __VA_ARGS__;                            \
        int code = create(o);                   \
        CHECK(given.message[0] != 0);           \
        return code;                            \
    }

/* A case that gets no words, because the options cannot be trusted. */
#define DISTRUSTED(name, ...)                   \
    static int name(struct world *w)            \
    {                                           \
        (void)w;                                \
        fw_options *o = wrong_options();        \
        __VA_ARGS__;                            \
        int code = create(o);                   \
        CHECK(given.message[0] == 0);           \
        return code;                            \
    }

DISTRUSTED(options_null, o = NULL)
DISTRUSTED(options_misaligned, o = (fw_options *)(void *)((char *)o + 4))
DISTRUSTED(size_0, o->size = 0)
DISTRUSTED(size_too_small, o->size = sizeof *o - 1)
DISTRUSTED(size_huge, o->size = (size_t)1 << 40)
DISTRUSTED(size_of_newer_version_in_use, o->size = sizeof *o + 24; given.nodes[0].mask = 1)
DISTRUSTED(message_null, o->message = NULL)
DISTRUSTED(message_overflow, o->message_size = SIZE_MAX)

WITH(bytes_0, o->bytes = 0)
WITH(bytes_odd, o->bytes = 16 * MIB + 1)
WITH(bytes_half_a_page, o->bytes = PAGE / 2)
WITH(bytes_too_large, o->bytes = UINT64_MAX - PAGE + 1)
WITH(bytes_more_than_addresses, o->bytes = (uint64_t)1 << 62)
WITH(flags_unknown, o->flags |= 0x80000000u)
WITH(backing_unknown, o->backing = 9)
WITH(transparent_unknown, o->transparent = 3)
WITH(page_3000, o->page_bytes = 3000)
WITH(page_1, o->page_bytes = 1)
WITH(page_2_gib, o->page_bytes = (uint64_t)1 << 31)
WITH(max_order_64, o->max_order = 64)
WITH(max_order_256, o->max_order = 256)
WITH(limit_below_size, o->limit_bytes = 8 * MIB)
WITH(limit_odd, o->limit_bytes = 33 * MIB)
WITH(limit_of_huge_pages, o->limit_bytes = 32 * MIB; o->backing = FW_BACKING_HUGE_2M)
WITH(cpus_too_many, o->cpus = 70000)
WITH(cpus_too_many_with_interrupts, o->cpus = 40000; o->flags |= FW_OPTION_INTERRUPTS)
WITH(mechanisms_unknown, o->mechanisms = "no-such-preset")
WITH(mechanisms_unknown_switch, o->mechanisms = "default,colour=blue")
WITH(mechanisms_unknown_choice, o->mechanisms = "default,hardened=maybe")
WITH(mechanisms_no_text, o->mechanisms = "\xff\xfe")
WITH(mechanisms_in_conflict, o->mechanisms = "default,watermark-boost=100000,zone-lock=rw,free-path=splice,depot=off,compaction=off,proactiveness=20")
WITH(list_high_alone, o->list_high = 100)
WITH(list_batch_alone, o->list_batch = 100)
WITH(background_and_none, o->background_ms = 5)
WITH(movable_odd, o->movable_bytes = 5)
WITH(huge_pages_of_odd_size, o->backing = FW_BACKING_HUGE_2M; o->bytes = 3 * MIB)

#define NODE(n, b, m, p, r) (given.nodes[n] = (fw_node){.bytes = (b), .mask = (m), .placement = (p), .reserved = (r)})

WITH(nodes_null, o->bytes = 0; o->node_count = 1)
WITH(nodes_misaligned, o->nodes = (fw_node *)(void *)((char *)given.nodes + 4); o->node_count = 1)
WITH(nodes_overflow, o->bytes = 0; o->nodes = given.nodes; o->node_count = SIZE_MAX)
WITH(nodes_too_many, o->bytes = 0; o->nodes = given.nodes; o->node_count = 65)
WITH(nodes_and_bytes, NODE(0, 16 * MIB, 0, FW_PLACE_ANYWHERE, 0); o->nodes = given.nodes; o->node_count = 1)
WITH(node_empty, NODE(0, 0, 0, 0, 0); o->bytes = 0; o->nodes = given.nodes; o->node_count = 1)
WITH(node_placement, NODE(0, 16 * MIB, 1, 4, 0); o->bytes = 0; o->nodes = given.nodes; o->node_count = 1)
WITH(node_mask_missing, NODE(0, 16 * MIB, 0, FW_PLACE_BIND, 0); o->bytes = 0; o->nodes = given.nodes; o->node_count = 1)
WITH(node_mask_unused, NODE(0, 16 * MIB, 1, FW_PLACE_ANYWHERE, 0); o->bytes = 0; o->nodes = given.nodes; o->node_count = 1)
WITH(node_reserved, NODE(0, 16 * MIB, 0, FW_PLACE_ANYWHERE, 7); o->bytes = 0; o->nodes = given.nodes; o->node_count = 1)
WITH(node_does_not_exist, NODE(0, 16 * MIB, (uint64_t)1 << 63, FW_PLACE_BIND, 0); o->bytes = 0; o->nodes = given.nodes;
     o->node_count = 1; o->flags |= FW_OPTION_STRICT)

static _Alignas(4096) char memory[4 << 20];

WITH(memory_misaligned, o->memory = memory + 8; o->bytes = 2 * MIB)
WITH(memory_overflow, o->memory = (void *)(UINTPTR_MAX & ~(uintptr_t)4095); o->bytes = 2 * MIB)
WITH(memory_and_backing, o->memory = memory; o->bytes = 4 * MIB; o->backing = FW_BACKING_MEMFD)
WITH(memory_and_populate, o->memory = memory; o->bytes = 4 * MIB; o->flags |= FW_OPTION_POPULATE)
WITH(memory_and_other_nodes, NODE(0, 2 * MIB, 0, FW_PLACE_ANYWHERE, 0); o->nodes = given.nodes; o->node_count = 1;
     o->memory = memory; o->bytes = 4 * MIB)

static int arena_null(struct world *w) { (void)w; return fw_arena_create(wrong_options(), NULL); }
static int init_null(struct world *w) { (void)w; return fw_options_init(NULL, sizeof(fw_options)); }
static int init_size_0(struct world *w) { (void)w; return fw_options_init(wrong_options(), 0); }
static int init_size_huge(struct world *w) { (void)w; return fw_options_init(wrong_options(), SIZE_MAX); }

static int trim_given_memory(struct world *w)
{
    (void)w;
    fw_options *o = wrong_options();
    fw_arena *arena;
    o->memory = memory;
    o->bytes = 4 * MIB;
    OK(fw_arena_create(o, &arena));
    int code = fw_arena_trim(arena, 9, NULL);
    OK(fw_arena_destroy(arena, 0));
    return code;
}

static int discard_range_given_memory(struct world *w)
{
    (void)w;
    fw_options *o = wrong_options();
    fw_arena *arena;
    void *start;
    o->memory = memory;
    o->bytes = 4 * MIB;
    OK(fw_arena_create(o, &arena));
    OK(fw_alloc_range(arena, FW_USER, 3 * PAGE, PAGE, &start));
    int code = fw_discard_range(arena, start, 3 * PAGE);
    OK(fw_free_range(arena, start, 3 * PAGE));
    OK(fw_arena_destroy(arena, 0));
    return code;
}

static const struct misuse MISUSES[] = {
#define MISUSE(name, expected) {#name, name, expected}
    MISUSE(options_null, FW_E_NULL),
    MISUSE(options_misaligned, FW_E_UNALIGNED),
    MISUSE(size_0, FW_E_STRUCT),
    MISUSE(size_too_small, FW_E_STRUCT),
    MISUSE(size_huge, FW_E_STRUCT),
    MISUSE(size_of_newer_version_in_use, FW_E_STRUCT),
    MISUSE(message_null, FW_E_NULL),
    MISUSE(message_overflow, FW_E_OVERFLOW),
    MISUSE(bytes_0, FW_E_EMPTY),
    MISUSE(bytes_odd, FW_E_BAD_SIZE),
    MISUSE(bytes_half_a_page, FW_E_EMPTY),
    MISUSE(bytes_too_large, FW_E_TOO_LARGE),
    MISUSE(bytes_more_than_addresses, FW_E_FRAMES),
    MISUSE(flags_unknown, FW_E_OPTION),
    MISUSE(backing_unknown, FW_E_OPTION),
    MISUSE(transparent_unknown, FW_E_OPTION),
    MISUSE(page_3000, FW_E_BAD_PAGE),
    MISUSE(page_1, FW_E_BAD_PAGE),
    MISUSE(page_2_gib, FW_E_BAD_PAGE),
    MISUSE(max_order_64, FW_E_GEOMETRY),
    MISUSE(max_order_256, FW_E_OPTION),
    MISUSE(limit_below_size, FW_E_ABOVE_LIMIT),
    MISUSE(limit_odd, FW_E_BAD_SIZE),
    MISUSE(limit_of_huge_pages, FW_E_UNSUPPORTED),
    MISUSE(cpus_too_many, FW_E_CPUS),
    MISUSE(cpus_too_many_with_interrupts, FW_E_CPUS),
    MISUSE(mechanisms_unknown, FW_E_MECHANISMS),
    MISUSE(mechanisms_unknown_switch, FW_E_MECHANISMS),
    MISUSE(mechanisms_unknown_choice, FW_E_MECHANISMS),
    MISUSE(mechanisms_no_text, FW_E_MECHANISMS),
    MISUSE(mechanisms_in_conflict, FW_E_CONFLICT),
    MISUSE(list_high_alone, FW_E_OPTION),
    MISUSE(list_batch_alone, FW_E_OPTION),
    MISUSE(background_and_none, FW_E_OPTION),
    MISUSE(movable_odd, FW_E_BAD_SIZE),
    MISUSE(huge_pages_of_odd_size, FW_E_BAD_SIZE),
    MISUSE(nodes_null, FW_E_NULL),
    MISUSE(nodes_misaligned, FW_E_UNALIGNED),
    MISUSE(nodes_overflow, FW_E_OVERFLOW),
    MISUSE(nodes_too_many, FW_E_OPTION),
    MISUSE(nodes_and_bytes, FW_E_OPTION),
    MISUSE(node_empty, FW_E_EMPTY),
    MISUSE(node_placement, FW_E_OPTION),
    MISUSE(node_mask_missing, FW_E_OPTION),
    MISUSE(node_mask_unused, FW_E_OPTION),
    MISUSE(node_reserved, FW_E_OPTION),
    MISUSE(node_does_not_exist, FW_E_PLACEMENT),
    MISUSE(memory_misaligned, FW_E_MEMORY_START),
    MISUSE(memory_overflow, FW_E_OVERFLOW),
    MISUSE(memory_and_backing, FW_E_NOT_OURS),
    MISUSE(memory_and_populate, FW_E_NOT_OURS),
    MISUSE(memory_and_other_nodes, FW_E_MEMORY_SIZE),
    MISUSE(arena_null, FW_E_NULL),
    MISUSE(init_null, FW_E_NULL),
    MISUSE(init_size_0, FW_E_STRUCT),
    MISUSE(init_size_huge, FW_E_STRUCT),
    MISUSE(trim_given_memory, FW_E_UNSUPPORTED),
    MISUSE(discard_range_given_memory, FW_E_UNSUPPORTED),
};

int main(void)
{
    return run_misuses(MISUSES, sizeof MISUSES / sizeof *MISUSES);
}
