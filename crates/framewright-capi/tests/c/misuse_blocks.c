/* Misuses of handles, blocks, arrays, ranges and local handles. */
#include "misuse.h"

#include <pthread.h>

#define A w->arena

/* Handles of arenas. */

static int alloc_with(void *arena)
{
    void *block = NULL;
    int code = fw_alloc(arena, FW_USER, 0, &block);
    CHECK(block == NULL);
    return code;
}

static int arena_null(struct world *w) { (void)w; return alloc_with(NULL); }
static int arena_on_stack(struct world *w) { return alloc_with(w); }
static int arena_middle(struct world *w) { return alloc_with((char *)A + 8); }
static int arena_misaligned(struct world *w) { return alloc_with((char *)A + 1); }
static int arena_unused_record(struct world *w) { return alloc_with((char *)A + 64); }
static int arena_far(struct world *w) { (void)w; return alloc_with((void *)~(uintptr_t)63); }

static int arena_on_heap(struct world *w)
{
    (void)w;
    void *heap = calloc(1, 64);
    int code = alloc_with(heap);
    free(heap);
    return code;
}

static int arena_is_block(struct world *w)
{
    void *block = block_of(A, 0);
    int code = alloc_with(block);
    OK(fw_free(A, block, 0));
    return code;
}

static int arena_is_local(struct world *w)
{
    fw_local *local;
    OK(fw_local_open(A, &local));
    int code = alloc_with(local);
    OK(fw_local_close(local));
    return code;
}

static fw_arena *destroyed(struct world *w)
{
    fw_arena *arena = A;
    OK(fw_arena_destroy(arena, 0));
    A = NULL;
    return arena;
}

static int alloc_after_destroy(struct world *w) { return alloc_with(destroyed(w)); }
static int destroy_twice(struct world *w) { return fw_arena_destroy(destroyed(w), 0); }
static int destroy_null(struct world *w) { (void)w; return fw_arena_destroy(NULL, 0); }
static int drain_after_destroy(struct world *w) { return fw_arena_drain(destroyed(w), NULL); }

static int free_after_destroy(struct world *w)
{
    void *block = block_of(A, 0);
    OK(fw_free(A, block, 0));
    return fw_free(destroyed(w), block, 0);
}

static int destroy_with(struct world *w, uint32_t flags)
{
    void *block = block_of(A, 3);
    memset(block, 7, PAGE << 3);
    int code = fw_arena_destroy(A, flags);
    CHECK(((char *)block)[PAGE] == 7);
    OK(fw_free(A, block, 3));
    return code;
}

static int destroy_with_block(struct world *w) { return destroy_with(w, 0); }
static int destroy_unknown_flag(struct world *w) { return destroy_with(w, 0x80); }

static int destroy_with_local(struct world *w)
{
    fw_local *local;
    OK(fw_local_open(A, &local));
    int code = fw_arena_destroy(A, FW_DESTROY_BLOCKS);
    OK(fw_local_close(local));
    return code;
}

/* Requests. */

static int refused(struct world *w, uint32_t flags, unsigned order)
{
    void *block = w;
    int code = fw_alloc(A, flags, order, &block);
    CHECK(block == w);
    return code;
}

static int alloc_into_null(struct world *w) { return fw_alloc(A, FW_USER, 0, NULL); }
static int alloc_large_into_null(struct world *w) { return fw_alloc(A, FW_USER, 4, NULL); }
static int alloc_order_above_largest(struct world *w) { return refused(w, FW_USER, stats_of(A).max_order + 1); }
static int alloc_order_256(struct world *w) { return refused(w, FW_USER, 256); }
static int alloc_order_max(struct world *w) { return refused(w, FW_USER, ~0u); }
static int alloc_unknown_flag(struct world *w) { return refused(w, FW_USER | 0x80000000u, 0); }
static int alloc_contradiction(struct world *w) { return refused(w, FW_MOVABLE | FW_RECLAIMABLE, 0); }

static int alloc_into_misaligned(struct world *w)
{
    void *places[2];
    return fw_alloc(A, FW_USER, 0, (void **)(void *)((char *)places + 4));
}

static int exhausted(struct world *w, uint32_t flags)
{
    void *blocks[4096];
    size_t count = 0;
    OK(fw_alloc_bulk(A, FW_USER, 0, 4096, blocks, &count));
    CHECK(count == 4096);
    int code = refused(w, flags, 0);
    OK(fw_free_bulk(A, 0, count, blocks, NULL, NULL));
    return code;
}

static int alloc_beyond_memory(struct world *w) { return exhausted(w, FW_USER); }
static int alloc_beyond_memory_at_once(struct world *w) { return exhausted(w, FW_NOWAIT); }

static int alloc_fragmented(struct world *w)
{
    void *blocks[4096];
    size_t count = 0;
    OK(fw_alloc_bulk(A, FW_USER, 0, 4096, blocks, &count));
    for (size_t i = 0; i < count; i += 2)
        OK(fw_free(A, blocks[i], 0));
    int code = refused(w, FW_USER, 2);
    for (size_t i = 1; i < count; i += 2)
        OK(fw_free(A, blocks[i], 0));
    return code;
}

static int on_node(struct world *w, unsigned node)
{
    void *block = w;
    int code = fw_alloc_on(A, node, FW_USER, 0, &block);
    CHECK(block == w);
    return code;
}

static int alloc_on_missing_node(struct world *w) { return on_node(w, 1); }
static int alloc_on_node_256(struct world *w) { return on_node(w, 256); }

/* Frees. Each gets a block of order 2, which is freed rightly afterwards. */

static int free_at(struct world *w, ptrdiff_t distance, unsigned order)
{
    char *block = block_of(A, 2);
    memset(block, 5, PAGE << 2);
    int code = fw_free(A, block + distance, order);
    CHECK(block[0] == 5 && block[4 * PAGE - 1] == 5);
    OK(fw_free(A, block, 2));
    return code;
}

static int free_null(struct world *w) { return fw_free(A, NULL, 0); }
static int free_null_large(struct world *w) { return fw_free(A, NULL, 5); }
static int free_order_too_large(struct world *w) { return free_at(w, 0, 3); }
static int free_order_too_small(struct world *w) { return free_at(w, 0, 1); }
static int free_order_0(struct world *w) { return free_at(w, 0, 0); }
static int free_order_above_largest(struct world *w) { return free_at(w, 0, 30); }
static int free_order_256(struct world *w) { return free_at(w, 0, 256); }
static int free_inner_page(struct world *w) { return free_at(w, PAGE, 0); }
static int free_inner_block(struct world *w) { return free_at(w, 2 * PAGE, 1); }
static int free_inner_byte(struct world *w) { return free_at(w, 1, 0); }
static int free_inner_word(struct world *w) { return free_at(w, 16, 2); }
static int free_last_byte(struct world *w) { return free_at(w, 4 * PAGE - 1, 0); }
static int free_misaligned_for_order(struct world *w) { return free_at(w, PAGE, 2); }

static int free_order_too_large_for_place(struct world *w)
{
    char *pair = block_of(A, 1);
    OK(fw_split(A, pair, 1, 0));
    int code = fw_free(A, pair + PAGE, 1);
    OK(fw_free(A, pair, 0));
    OK(fw_free(A, pair + PAGE, 0));
    return code;
}

static int free_on_stack(struct world *w) { return fw_free(A, w, 0); }
static int free_code(struct world *w) { return fw_free(A, (void *)(uintptr_t)free_null, 0); }
static int free_last_address(struct world *w) { return fw_free(A, (void *)UINTPTR_MAX, 0); }
static int free_arena(struct world *w) { return fw_free(A, A, 0); }

static int free_on_heap(struct world *w)
{
    void *heap = malloc(PAGE);
    int code = fw_free(A, heap, 0);
    free(heap);
    return code;
}

static int free_to_other_arena(struct world *w)
{
    fw_arena *other = arena_of(16 * MIB, 0);
    void *block = block_of(other, 0);
    int code = fw_free(A, block, 0);
    OK(fw_free(other, block, 0));
    validate(other);
    OK(fw_arena_destroy(other, 0));
    return code;
}

/* The first address of the arena: that of a block of all its memory. */
static char *start_of(struct world *w)
{
    OK(fw_arena_drain(A, NULL));
    char *start = block_of(A, stats_of(A).max_order);
    OK(fw_free(A, start, stats_of(A).max_order));
    OK(fw_arena_drain(A, NULL));
    return start;
}

static int free_before_start(struct world *w) { return fw_free(A, start_of(w) - PAGE, 0); }
static int free_past_end(struct world *w) { return fw_free(A, start_of(w) + 16 * MIB, 0); }
static int free_never_allocated(struct world *w) { return fw_free(A, start_of(w) + 5 * PAGE, 0); }

static int twice(struct world *w, unsigned order)
{
    void *block = block_of(A, order);
    OK(fw_free(A, block, order));
    return fw_free(A, block, order);
}

static int double_free(struct world *w) { return twice(w, 0); }
static int double_free_small(struct world *w) { return twice(w, 3); }
static int double_free_huge(struct world *w) { return twice(w, 9); }
static int double_free_largest(struct world *w) { return twice(w, stats_of(A).max_order); }

static int double_free_after_drain(struct world *w)
{
    void *block = block_of(A, 0);
    OK(fw_free(A, block, 0));
    OK(fw_arena_drain(A, NULL));
    return fw_free(A, block, 0);
}

static int double_free_after_others(struct world *w)
{
    void *blocks[200];
    for (int i = 0; i < 200; i++)
        blocks[i] = block_of(A, 0);
    for (int i = 0; i < 200; i++)
        OK(fw_free(A, blocks[i], 0));
    return fw_free(A, blocks[7], 0);
}

static int double_free_hardened(struct world *w)
{
    (void)w;
    struct world hardened = {arena_of(16 * MIB, FW_OPTION_HARDENED)};
    int code = twice(&hardened, 0);
    validate(hardened.arena);
    OK(fw_arena_destroy(hardened.arena, 0));
    return code;
}

static int free_whole_after_split(struct world *w)
{
    char *block = block_of(A, 2);
    OK(fw_split(A, block, 2, 0));
    int code = fw_free(A, block, 2);
    OK(fw_free_range(A, block, 4 * PAGE));
    return code;
}

/* Blocks in bulk. */

static int bulk_into_null(struct world *w)
{
    size_t count = 9;
    int code = fw_alloc_bulk(A, FW_USER, 0, 4, NULL, &count);
    CHECK(count == 0);
    return code;
}

static int bulk_count_null(struct world *w)
{
    void *blocks[4];
    return fw_alloc_bulk(A, FW_USER, 0, 4, blocks, NULL);
}

static int bulk_into_misaligned(struct world *w)
{
    void *blocks[4];
    size_t count;
    return fw_alloc_bulk(A, FW_USER, 0, 3, (void **)(void *)((char *)blocks + 1), &count);
}

static int bulk_of(struct world *w, uint32_t flags, unsigned order, size_t number)
{
    void *blocks[4] = {w, w, w, w};
    size_t count = 9;
    int code = fw_alloc_bulk(A, flags, order, number, blocks, &count);
    CHECK(count == 0 && blocks[0] == w && blocks[3] == w);
    return code;
}

static int bulk_overflow(struct world *w) { return bulk_of(w, FW_USER, 0, SIZE_MAX); }
static int bulk_overflow_by_sign(struct world *w) { return bulk_of(w, FW_USER, 0, SIZE_MAX / sizeof(void *)); }
static int bulk_order(struct world *w) { return bulk_of(w, FW_USER, 40, 4); }
static int bulk_flags(struct world *w) { return bulk_of(w, ~0u, 0, 4); }

/* Frees an array of 100 blocks, one of which was replaced; all others must be freed, and the index be told. */
static int bulk_free(struct world *w, void *replacement, unsigned order, size_t expected)
{
    void *blocks[100], *replaced;
    size_t count = 0, freed = 0, refused = 1000;
    OK(fw_alloc_bulk(A, FW_USER, 0, 100, blocks, &count));
    CHECK(count == 100);
    replaced = blocks[50];
    blocks[50] = replacement == A ? blocks[49] : replacement == w ? (char *)replaced + 8 : replacement;
    int code = fw_free_bulk(A, order, count, blocks, &freed, &refused);
    CHECK(freed == expected && refused == (freed ? 50 : 0));
    if (freed == 99)
        OK(fw_free(A, replaced, 0));
    else
        for (int i = 0; i < 100; i++)
            OK(fw_free(A, i == 50 ? replaced : blocks[i], 0));
    return code;
}

static int bulk_free_duplicate(struct world *w) { return bulk_free(w, A, 0, 99); }
static int bulk_free_with_null(struct world *w) { return bulk_free(w, NULL, 0, 99); }
static int bulk_free_with_foreign(struct world *w) { return bulk_free(w, stdout, 0, 99); }
static int bulk_free_with_misaligned(struct world *w) { return bulk_free(w, w, 0, 99); }
static int bulk_free_order_256(struct world *w) { return bulk_free(w, NULL, 256, 0); }
static int bulk_free_null(struct world *w)
{
    size_t freed = 9;
    int code = fw_free_bulk(A, 0, 3, NULL, &freed, NULL);
    CHECK(freed == 0);
    return code;
}

/* What is counted is told also where nothing could be tried. */
static int bulk_of_no_arena(struct world *w)
{
    void *blocks[2] = {w, w};
    size_t allocated = 9, freed = 9;
    int code = fw_alloc_bulk((fw_arena *)w, FW_USER, 0, 2, blocks, &allocated);
    CHECK(allocated == 0 && blocks[0] == w);
    CHECK(fw_free_bulk((fw_arena *)w, 0, 2, blocks, &freed, NULL) == code && freed == 0);
    return code;
}

static int bulk_free_wrong_order(struct world *w)
{
    void *block = block_of(A, 1);
    int code = fw_free_bulk(A, 0, 1, &block, NULL, NULL);
    OK(fw_free(A, block, 1));
    return code;
}

static int bulk_free_overflow(struct world *w)
{
    void *block = NULL;
    return fw_free_bulk(A, 0, SIZE_MAX / 2, &block, NULL, NULL);
}

static int bulk_freed_misaligned(struct world *w)
{
    size_t places[2];
    return fw_free_bulk(A, 0, 0, NULL, (size_t *)(void *)((char *)places + 3), NULL);
}

static const struct misuse MISUSES[] = {
#define MISUSE(name, expected) {#name, name, expected}
    MISUSE(arena_null, FW_E_ARENA),
    MISUSE(arena_on_stack, FW_E_ARENA),
    MISUSE(arena_middle, FW_E_ARENA),
    MISUSE(arena_misaligned, FW_E_ARENA),
    MISUSE(arena_unused_record, FW_E_ARENA),
    MISUSE(arena_far, FW_E_ARENA),
    MISUSE(arena_on_heap, FW_E_ARENA),
    MISUSE(arena_is_block, FW_E_ARENA),
    MISUSE(arena_is_local, FW_E_ARENA),
    MISUSE(alloc_after_destroy, FW_E_ARENA),
    MISUSE(free_after_destroy, FW_E_ARENA),
    MISUSE(drain_after_destroy, FW_E_ARENA),
    MISUSE(destroy_twice, FW_E_ARENA),
    MISUSE(destroy_null, FW_E_ARENA),
    MISUSE(destroy_with_block, FW_E_IN_USE),
    MISUSE(destroy_with_local, FW_E_IN_USE),
    MISUSE(destroy_unknown_flag, FW_E_FLAGS),
    MISUSE(alloc_into_null, FW_E_NULL),
    MISUSE(alloc_large_into_null, FW_E_NULL),
    MISUSE(alloc_into_misaligned, FW_E_UNALIGNED),
    MISUSE(alloc_order_above_largest, FW_E_ORDER),
    MISUSE(alloc_order_256, FW_E_ORDER),
    MISUSE(alloc_order_max, FW_E_ORDER),
    MISUSE(alloc_unknown_flag, FW_E_FLAGS),
    MISUSE(alloc_contradiction, FW_E_FLAGS),
    MISUSE(alloc_beyond_memory, FW_E_NO_MEMORY),
    MISUSE(alloc_beyond_memory_at_once, FW_E_WOULD_WAIT),
    MISUSE(alloc_fragmented, FW_E_FRAGMENTED),
    MISUSE(alloc_on_missing_node, FW_E_NODE),
    MISUSE(alloc_on_node_256, FW_E_NODE),
    MISUSE(free_null, FW_E_NULL),
    MISUSE(free_null_large, FW_E_NULL),
    MISUSE(free_order_too_large, FW_E_WRONG_ORDER),
    MISUSE(free_order_too_large_for_place, FW_E_WRONG_ORDER),
    MISUSE(free_order_too_small, FW_E_WRONG_ORDER),
    MISUSE(free_order_0, FW_E_WRONG_ORDER),
    MISUSE(free_order_above_largest, FW_E_ORDER),
    MISUSE(free_order_256, FW_E_ORDER),
    MISUSE(free_inner_page, FW_E_NOT_HEAD),
    MISUSE(free_inner_block, FW_E_NOT_HEAD),
    MISUSE(free_inner_byte, FW_E_MISALIGNED),
    MISUSE(free_inner_word, FW_E_MISALIGNED),
    MISUSE(free_last_byte, FW_E_MISALIGNED),
    MISUSE(free_misaligned_for_order, FW_E_MISALIGNED),
    MISUSE(free_on_stack, FW_E_FOREIGN),
    MISUSE(free_on_heap, FW_E_FOREIGN),
    MISUSE(free_code, FW_E_FOREIGN),
    MISUSE(free_last_address, FW_E_FOREIGN),
    MISUSE(free_arena, FW_E_FOREIGN),
    MISUSE(free_to_other_arena, FW_E_FOREIGN),
    MISUSE(free_before_start, FW_E_FOREIGN),
    MISUSE(free_past_end, FW_E_FOREIGN),
    MISUSE(free_never_allocated, FW_E_ALREADY_FREE),
    MISUSE(double_free, FW_E_ALREADY_FREE),
    MISUSE(double_free_small, FW_E_ALREADY_FREE),
    MISUSE(double_free_huge, FW_E_ALREADY_FREE),
    MISUSE(double_free_largest, FW_E_ALREADY_FREE),
    MISUSE(double_free_after_drain, FW_E_ALREADY_FREE),
    MISUSE(double_free_after_others, FW_E_ALREADY_FREE),
    MISUSE(double_free_hardened, FW_E_ALREADY_FREE),
    MISUSE(free_whole_after_split, FW_E_WRONG_ORDER),
    MISUSE(bulk_into_null, FW_E_NULL),
    MISUSE(bulk_count_null, FW_E_NULL),
    MISUSE(bulk_into_misaligned, FW_E_UNALIGNED),
    MISUSE(bulk_overflow, FW_E_OVERFLOW),
    MISUSE(bulk_overflow_by_sign, FW_E_OVERFLOW),
    MISUSE(bulk_order, FW_E_ORDER),
    MISUSE(bulk_flags, FW_E_FLAGS),
    MISUSE(bulk_free_duplicate, FW_E_ALREADY_FREE),
    MISUSE(bulk_free_with_null, FW_E_NULL),
    MISUSE(bulk_free_with_foreign, FW_E_FOREIGN),
    MISUSE(bulk_free_with_misaligned, FW_E_MISALIGNED),
    MISUSE(bulk_free_order_256, FW_E_ORDER),
    MISUSE(bulk_of_no_arena, FW_E_ARENA),
    MISUSE(bulk_free_null, FW_E_NULL),
    MISUSE(bulk_free_wrong_order, FW_E_WRONG_ORDER),
    MISUSE(bulk_free_overflow, FW_E_OVERFLOW),
    MISUSE(bulk_freed_misaligned, FW_E_UNALIGNED),
};

int main(void)
{
    return run_misuses(MISUSES, sizeof MISUSES / sizeof *MISUSES);
}
