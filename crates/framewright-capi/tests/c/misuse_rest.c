/* Misuses of ranges, local handles, options, buffers and signals. */
#include "misuse.h"

#include <pthread.h>
#include <signal.h>

#define A w->arena

/* Ranges. */

static int range(struct world *w, size_t bytes, size_t alignment)
{
    void *start = w;
    int code = fw_alloc_range(A, FW_USER, bytes, alignment, &start);
    CHECK(start == w);
    return code;
}

static int range_zero(struct world *w) { return range(w, 0, PAGE); }
static int range_overflow(struct world *w) { return range(w, SIZE_MAX, PAGE); }
static int range_overflow_by_sign(struct world *w) { return range(w, (size_t)1 << 63, PAGE); }
static int range_larger_than_arena(struct world *w) { return range(w, 17 * MIB, PAGE); }
static int range_alignment_0(struct world *w) { return range(w, PAGE, 0); }
static int range_alignment_3(struct world *w) { return range(w, PAGE, 3); }
static int range_alignment_odd(struct world *w) { return range(w, PAGE, PAGE + 1); }
static int range_alignment_above_largest(struct world *w) { return range(w, PAGE, (size_t)1 << 40); }
static int range_alignment_above_arena(struct world *w) { return range(w, PAGE, 32 * MIB); }
static int range_alignment_largest_bit(struct world *w) { return range(w, PAGE, (size_t)1 << 63); }
static int range_into_null(struct world *w) { return fw_alloc_range(A, FW_USER, PAGE, PAGE, NULL); }

static int free_range_at(struct world *w, ptrdiff_t distance, size_t bytes)
{
    void *start;
    OK(fw_alloc_range(A, FW_USER, 5 * PAGE, PAGE, &start));
    memset(start, 3, 5 * PAGE);
    int code = fw_free_range(A, (char *)start + distance, bytes);
    CHECK(((char *)start)[5 * PAGE - 1] == 3);
    OK(fw_free_range(A, start, 5 * PAGE));
    return code;
}

static int free_range_zero(struct world *w) { return free_range_at(w, 0, 0); }
static int free_range_overflow(struct world *w) { return free_range_at(w, 0, SIZE_MAX - 1); }
static int free_range_misaligned(struct world *w) { return free_range_at(w, 24, PAGE); }
static int free_range_too_long(struct world *w) { return free_range_at(w, 0, 6 * PAGE); }
static int free_range_past_end(struct world *w) { return free_range_at(w, 0, 64 * MIB); }
static int free_range_null(struct world *w) { return fw_free_range(A, NULL, PAGE); }
static int free_range_foreign(struct world *w) { return fw_free_range(A, (void *)((uintptr_t)w & ~(uintptr_t)4095), PAGE); }

static int free_range_twice(struct world *w)
{
    void *start;
    OK(fw_alloc_range(A, FW_USER, 7 * PAGE, PAGE, &start));
    OK(fw_free_range(A, start, 7 * PAGE));
    return fw_free_range(A, start, 7 * PAGE);
}

static int free_range_part_twice(struct world *w)
{
    char *start = block_of(A, 3);
    OK(fw_free_range(A, start + PAGE, PAGE));
    int code = fw_free_range(A, start, 8 * PAGE);
    OK(fw_free_range(A, start, PAGE));
    OK(fw_free_range(A, start + 2 * PAGE, 6 * PAGE));
    return code;
}

/* Splitting, finding, discarding, and orders of sizes. */

static int split(struct world *w, ptrdiff_t distance, unsigned from, unsigned to)
{
    char *block = block_of(A, 2);
    int code = fw_split(A, block + distance, from, to);
    OK(fw_free(A, block, 2));
    return code;
}

static int split_larger(struct world *w) { return split(w, 0, 2, 3); }
static int split_wrong_order(struct world *w) { return split(w, 0, 1, 0); }
static int split_inside(struct world *w) { return split(w, PAGE, 0, 0); }
static int split_null(struct world *w) { return fw_split(A, NULL, 2, 0); }

static int find(struct world *w, const void *address)
{
    void *block = w;
    unsigned order = 77;
    int code = fw_find(A, address, &block, &order);
    CHECK(block == w && order == 77);
    return code;
}

static int find_null(struct world *w) { return find(w, NULL); }
static int find_foreign(struct world *w) { return find(w, w); }

static void *freed(struct world *w, unsigned order)
{
    void *block = block_of(A, order);
    OK(fw_free(A, block, order));
    return block;
}

static int find_free(struct world *w) { return find(w, (char *)freed(w, 1) + 5); }
static int discard_free(struct world *w) { return fw_discard(A, freed(w, 0), 0); }
static int discard_null(struct world *w) { return fw_discard(A, NULL, 0); }
static int discard_order_256(struct world *w) { return fw_discard(A, freed(w, 0), 256); }

static int discard_wrong_order(struct world *w)
{
    char *block = block_of(A, 1);
    block[PAGE] = 4;
    int code = fw_discard(A, block, 2);
    CHECK(block[PAGE] == 4);
    OK(fw_free(A, block, 1));
    return code;
}

/* Discards a range at a block of order 2 whose contents must stay. */
static int discard_range_at(struct world *w, ptrdiff_t distance, size_t bytes)
{
    char *block = block_of(A, 2);
    memset(block, 6, 4 * PAGE);
    int code = fw_discard_range(A, block + distance, bytes);
    for (size_t i = 0; i < 4 * PAGE; i++)
        CHECK(block[i] == 6);
    OK(fw_free(A, block, 2));
    return code;
}

static int discard_range_zero(struct world *w) { return discard_range_at(w, 0, 0); }
static int discard_range_overflow(struct world *w) { return discard_range_at(w, 0, SIZE_MAX); }
static int discard_range_misaligned(struct world *w) { return discard_range_at(w, 8, PAGE); }
static int discard_range_too_long(struct world *w) { return discard_range_at(w, 0, 5 * PAGE); }
static int discard_range_past_end(struct world *w) { return discard_range_at(w, 0, 64 * MIB); }
static int discard_range_before_start(struct world *w) { return discard_range_at(w, -64 * (ptrdiff_t)MIB, 65 * MIB); }
static int discard_range_null(struct world *w) { return fw_discard_range(A, NULL, PAGE); }
static int discard_range_free(struct world *w) { return fw_discard_range(A, freed(w, 1), PAGE); }
static int discard_range_no_arena(struct world *w) { return fw_discard_range(NULL, w, PAGE); }

static int discard_range_part_free(struct world *w)
{
    char *block = block_of(A, 2);
    memset(block, 6, 4 * PAGE);
    OK(fw_free_range(A, block + 2 * PAGE, PAGE));
    int code = fw_discard_range(A, block, 4 * PAGE);
    CHECK(block[0] == 6 && block[4 * PAGE - 1] == 6);
    OK(fw_free_range(A, block, 2 * PAGE));
    OK(fw_free_range(A, block + 3 * PAGE, PAGE));
    return code;
}

static int order_of_size(struct world *w, size_t bytes)
{
    unsigned order = 77;
    int code = fw_arena_order(A, bytes, &order);
    CHECK(order == 77);
    return code;
}

static int order_of_0(struct world *w) { return order_of_size(w, 0); }
static int order_of_too_much(struct world *w) { return order_of_size(w, 16 * MIB + 1); }
static int order_of_overflow(struct world *w) { return order_of_size(w, SIZE_MAX); }
static int order_into_null(struct world *w) { return fw_arena_order(A, 1, NULL); }

/* Local handles. */

struct call {
    fw_arena *arena;
    fw_local *local;
    void *block;
    int code;
};

static void *alloc_there(void *argument)
{
    struct call *call = argument;
    call->code = fw_local_alloc(call->local, FW_USER, 0, &call->block);
    return NULL;
}

static void *free_there(void *argument)
{
    struct call *call = argument;
    call->code = fw_local_free(call->local, call->block, 0);
    return NULL;
}

static void *close_there(void *argument)
{
    struct call *call = argument;
    call->code = fw_local_close(call->local);
    return NULL;
}

static void *open_there(void *argument)
{
    struct call *call = argument;
    call->code = fw_local_open(call->arena, &call->local);
    OK(fw_local_alloc(call->local, FW_USER, 0, &call->block));
    OK(fw_local_free(call->local, call->block, 0));
    return NULL;
}

static void on_thread(void *(*run)(void *), struct call *call)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, call) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static int on_wrong_thread(struct world *w, void *(*run)(void *))
{
    struct call call = {A, NULL, NULL, 0};
    void *block;
    OK(fw_local_open(A, &call.local));
    OK(fw_local_alloc(call.local, FW_USER, 0, &block));
    call.block = block;
    on_thread(run, &call);
    CHECK(call.block == block);
    OK(fw_local_free(call.local, block, 0));
    OK(fw_local_close(call.local));
    return call.code;
}

static int local_alloc_on_wrong_thread(struct world *w) { return on_wrong_thread(w, alloc_there); }
static int local_free_on_wrong_thread(struct world *w) { return on_wrong_thread(w, free_there); }
static int local_close_on_wrong_thread(struct world *w) { return on_wrong_thread(w, close_there); }

static int local_of_ended_thread(struct world *w)
{
    struct call call = {A, NULL, NULL, 0};
    on_thread(open_there, &call);
    OK(call.code);
    /* Another thread may have the ended one's place. */
    on_thread(alloc_there, &call);
    CHECK(call.code == FW_E_LOCAL);
    return fw_local_close(call.local);
}

static fw_local *closed(struct world *w)
{
    fw_local *local;
    OK(fw_local_open(A, &local));
    OK(fw_local_close(local));
    return local;
}

static int local_alloc(struct world *w, void *local, unsigned order)
{
    void *block = w;
    int code = fw_local_alloc(local, FW_USER, order, &block);
    CHECK(block == w);
    return code;
}

static int local_after_close(struct world *w) { return local_alloc(w, closed(w), 0); }
static int local_large_after_close(struct world *w) { return local_alloc(w, closed(w), 3); }
static int local_free_after_close(struct world *w) { return fw_local_free(closed(w), freed(w, 0), 0); }
static int local_bulk_after_close(struct world *w)
{
    void *blocks[2] = {w, w};
    size_t count = 9;
    int code = fw_local_alloc_bulk(closed(w), FW_USER, 0, 2, blocks, &count);
    CHECK(count == 0 && blocks[0] == w);
    size_t freed = 9, refused = 9;
    CHECK(fw_local_free_bulk(closed(w), 0, 2, blocks, &freed, &refused) == code && freed == 0 && refused == 9);
    return code;
}
static int local_bulk_free_twice(struct world *w)
{
    fw_local *local;
    void *blocks[3];
    size_t count, freed, refused = 9;
    OK(fw_local_open(A, &local));
    OK(fw_local_alloc_bulk(local, FW_USER, 0, 2, blocks, &count));
    blocks[2] = blocks[1];
    int code = fw_local_free_bulk(local, 0, 3, blocks, &freed, &refused);
    CHECK(freed == 2 && refused == 2);
    OK(fw_local_close(local));
    return code;
}
static int local_close_twice(struct world *w) { return fw_local_close(closed(w)); }
static int local_close_null(struct world *w) { (void)w; return fw_local_close(NULL); }
static int local_null(struct world *w) { return local_alloc(w, NULL, 0); }
static int local_on_stack(struct world *w) { return local_alloc(w, w, 0); }
static int local_is_arena(struct world *w) { return local_alloc(w, A, 0); }
static int local_open_null(struct world *w) { return fw_local_open(A, NULL); }

static int local_open_after_destroy(struct world *w)
{
    fw_arena *arena = A;
    fw_local *local;
    OK(fw_arena_destroy(A, 0));
    A = NULL;
    return fw_local_open(arena, &local);
}

/* Calls of an open local handle, by what they are about. */
static int by_local(struct world *w, int which)
{
    fw_local *local;
    void *block = NULL;
    int code = 0;
    OK(fw_local_open(A, &local));
    switch (which) {
    case 0: code = fw_local_alloc(local, FW_USER, 0, NULL); break;
    case 1: code = fw_local_alloc(local, FW_USER, 300, &block); break;
    case 2: code = fw_local_alloc(local, ~0u, 0, &block); break;
    case 3: code = fw_local_free(local, NULL, 0); break;
    case 4: code = fw_local_free(local, w, 0); break;
    case 5:
        OK(fw_local_alloc(local, FW_USER, 0, &block));
        OK(fw_local_free(local, block, 0));
        code = fw_local_free(local, block, 0);
        break;
    case 6:
        OK(fw_local_alloc(local, FW_USER, 2, &block));
        code = fw_local_free(local, (char *)block + PAGE, 0);
        OK(fw_local_free(local, block, 2));
        break;
    }
    OK(fw_local_close(local));
    return code;
}

static int local_alloc_into_null(struct world *w) { return by_local(w, 0); }
static int local_alloc_order(struct world *w) { return by_local(w, 1); }
static int local_alloc_flags(struct world *w) { return by_local(w, 2); }
static int local_free_null(struct world *w) { return by_local(w, 3); }
static int local_free_on_stack(struct world *w) { return by_local(w, 4); }
static int local_double_free(struct world *w) { return by_local(w, 5); }
static int local_free_inner_page(struct world *w) { return by_local(w, 6); }

/* Buffers, structures, files, signals. */

static int stats_null(struct world *w) { return fw_arena_stats(A, NULL); }

static int stats_size(struct world *w, size_t size)
{
    fw_stats stats;
    memset(&stats, 0x55, sizeof stats);
    stats.size = size;
    int code = fw_arena_stats(A, &stats);
    CHECK(stats.size == size && stats.bytes == 0x5555555555555555);
    return code;
}

static int stats_size_0(struct world *w) { return stats_size(w, 0); }
static int stats_size_small(struct world *w) { return stats_size(w, offsetof(fw_stats, per_cpu)); }
static int stats_size_huge(struct world *w) { return stats_size(w, SIZE_MAX); }
static int text_into_null(struct world *w) { return fw_arena_text(A, FW_TEXT_BUDDYINFO, NULL, 10); }
static int text_unknown(struct world *w) { return fw_arena_text(A, 77, NULL, 0); }
static int validate_into_null(struct world *w) { return fw_arena_validate(A, NULL, 1); }

static int text_overflow(struct world *w)
{
    char buffer[1] = {'x'};
    int code = fw_arena_text(A, FW_TEXT_VMSTAT, buffer, SIZE_MAX);
    CHECK(buffer[0] == 'x');
    return code;
}

static int memfd_of_private(struct world *w) { return fw_arena_memfd(A); }
static int export_null(struct world *w) { return fw_arena_export(A, NULL); }
static int export_nowhere(struct world *w) { return fw_arena_export(A, "/no/such/folder/socket"); }
static int trim_misaligned(struct world *w) { return fw_arena_trim(A, 9, (uint64_t *)(void *)((char *)w + 1)); }

static int grow_fixed(struct world *w) { return fw_arena_grow(A, 2 * MIB, NULL); }
static int shrink_fixed(struct world *w) { return fw_arena_shrink(A, 2 * MIB, NULL); }
static int grow_misaligned(struct world *w) { return fw_arena_grow(A, 1, (uint64_t *)(void *)((char *)w + 1)); }
static int shrink_misaligned(struct world *w) { return fw_arena_shrink(A, 1, (uint64_t *)(void *)((char *)w + 1)); }
static int grow_null(struct world *w) { (void)w; return fw_arena_grow(NULL, 1, NULL); }
static int shrink_null(struct world *w) { (void)w; return fw_arena_shrink(NULL, 1, NULL); }

static int grow_above_limit(struct world *w)
{
    uint64_t came = 7;
    fw_options options = options_of(4 * MIB, 0);
    options.limit_bytes = 8 * MIB;
    OK(fw_arena_destroy(A, 0));
    OK(fw_arena_create(&options, &A));
    OK(fw_arena_grow(A, UINT64_MAX, &came));
    CHECK(came == 4 * MIB);
    int code = fw_arena_grow(A, 1, &came);
    CHECK(came == 4 * MIB);
    return code;
}

static int free_shrunk(struct world *w)
{
    fw_options options = options_of(4 * MIB, 0);
    options.limit_bytes = 8 * MIB;
    OK(fw_arena_destroy(A, 0));
    OK(fw_arena_create(&options, &A));
    char *lower = block_of(A, 9), *upper = block_of(A, 9);
    OK(fw_free(A, lower, 9));
    OK(fw_free(A, upper, 9));
    OK(fw_arena_shrink(A, 2 * MIB, NULL));
    return fw_free(A, lower > upper ? lower : upper, 9);
}

/* An arena of 4 MiB whose second half never came, with the address of that. */
static char *absent_of(struct world *w)
{
    fw_options options = options_of(2 * MIB, 0);
    options.limit_bytes = 4 * MIB;
    OK(fw_arena_destroy(A, 0));
    OK(fw_arena_create(&options, &A));
    char *lower = block_of(A, 9);
    OK(fw_free(A, lower, 9));
    return lower + 2 * MIB;
}
static int free_absent(struct world *w) { return fw_free(A, absent_of(w), 0); }
static int free_absent_misaligned(struct world *w) { return fw_free(A, absent_of(w) + 1, 0); }
static int find_absent(struct world *w) { return fw_find(A, absent_of(w), NULL, NULL); }

static void handler(int signal, size_t value) { (void)signal, (void)value; }
static int signal_of_fault(struct world *w) { (void)w; return fw_on_signal(SIGSEGV, handler); }
static int signal_negative(struct world *w) { (void)w; return fw_on_signal(-1, handler); }
static int signal_unknown(struct world *w) { (void)w; return fw_on_signal(1000, handler); }
static int signal_kill(struct world *w) { (void)w; return fw_on_signal(SIGKILL, handler); }

static const struct misuse MISUSES[] = {
#define MISUSE(name, expected) {#name, name, expected}
    MISUSE(range_zero, FW_E_ZERO_SIZE),
    MISUSE(range_overflow, FW_E_OVERFLOW),
    MISUSE(range_overflow_by_sign, FW_E_OVERFLOW),
    MISUSE(range_larger_than_arena, FW_E_NO_MEMORY),
    MISUSE(range_alignment_0, FW_E_ALIGNMENT),
    MISUSE(range_alignment_3, FW_E_ALIGNMENT),
    MISUSE(range_alignment_odd, FW_E_ALIGNMENT),
    MISUSE(range_alignment_above_largest, FW_E_ALIGNMENT),
    MISUSE(range_alignment_above_arena, FW_E_ALIGNMENT),
    MISUSE(range_alignment_largest_bit, FW_E_ALIGNMENT),
    MISUSE(range_into_null, FW_E_NULL),
    MISUSE(free_range_zero, FW_E_ZERO_SIZE),
    MISUSE(free_range_overflow, FW_E_OVERFLOW),
    MISUSE(free_range_misaligned, FW_E_MISALIGNED),
    MISUSE(free_range_too_long, FW_E_ALREADY_FREE),
    MISUSE(free_range_past_end, FW_E_ALREADY_FREE),
    MISUSE(free_range_null, FW_E_NULL),
    MISUSE(free_range_foreign, FW_E_FOREIGN),
    MISUSE(free_range_twice, FW_E_ALREADY_FREE),
    MISUSE(free_range_part_twice, FW_E_ALREADY_FREE),
    MISUSE(split_larger, FW_E_ORDER),
    MISUSE(split_wrong_order, FW_E_WRONG_ORDER),
    MISUSE(split_inside, FW_E_NOT_HEAD),
    MISUSE(split_null, FW_E_NULL),
    MISUSE(find_null, FW_E_NULL),
    MISUSE(find_foreign, FW_E_FOREIGN),
    MISUSE(find_free, FW_E_ALREADY_FREE),
    MISUSE(discard_free, FW_E_ALREADY_FREE),
    MISUSE(discard_null, FW_E_NULL),
    MISUSE(discard_order_256, FW_E_ORDER),
    MISUSE(discard_wrong_order, FW_E_WRONG_ORDER),
    MISUSE(discard_range_zero, FW_E_ZERO_SIZE),
    MISUSE(discard_range_overflow, FW_E_OVERFLOW),
    MISUSE(discard_range_misaligned, FW_E_MISALIGNED),
    MISUSE(discard_range_too_long, FW_E_ALREADY_FREE),
    MISUSE(discard_range_past_end, FW_E_ALREADY_FREE),
    MISUSE(discard_range_before_start, FW_E_FOREIGN),
    MISUSE(discard_range_null, FW_E_NULL),
    MISUSE(discard_range_free, FW_E_ALREADY_FREE),
    MISUSE(discard_range_no_arena, FW_E_ARENA),
    MISUSE(discard_range_part_free, FW_E_ALREADY_FREE),
    MISUSE(order_of_0, FW_E_ZERO_SIZE),
    MISUSE(order_of_too_much, FW_E_ORDER),
    MISUSE(order_of_overflow, FW_E_OVERFLOW),
    MISUSE(order_into_null, FW_E_NULL),
    MISUSE(local_alloc_on_wrong_thread, FW_E_THREAD),
    MISUSE(local_free_on_wrong_thread, FW_E_THREAD),
    MISUSE(local_close_on_wrong_thread, FW_E_THREAD),
    MISUSE(local_of_ended_thread, FW_E_LOCAL),
    MISUSE(local_after_close, FW_E_LOCAL),
    MISUSE(local_large_after_close, FW_E_LOCAL),
    MISUSE(local_free_after_close, FW_E_LOCAL),
    MISUSE(local_bulk_after_close, FW_E_LOCAL),
    MISUSE(local_bulk_free_twice, FW_E_ALREADY_FREE),
    MISUSE(local_close_twice, FW_E_LOCAL),
    MISUSE(local_close_null, FW_E_LOCAL),
    MISUSE(local_null, FW_E_LOCAL),
    MISUSE(local_on_stack, FW_E_LOCAL),
    MISUSE(local_is_arena, FW_E_LOCAL),
    MISUSE(local_open_null, FW_E_NULL),
    MISUSE(local_open_after_destroy, FW_E_ARENA),
    MISUSE(local_alloc_into_null, FW_E_NULL),
    MISUSE(local_alloc_order, FW_E_ORDER),
    MISUSE(local_alloc_flags, FW_E_FLAGS),
    MISUSE(local_free_null, FW_E_NULL),
    MISUSE(local_free_on_stack, FW_E_FOREIGN),
    MISUSE(local_double_free, FW_E_ALREADY_FREE),
    MISUSE(local_free_inner_page, FW_E_NOT_HEAD),
    MISUSE(stats_null, FW_E_NULL),
    MISUSE(stats_size_0, FW_E_STRUCT),
    MISUSE(stats_size_small, FW_E_STRUCT),
    MISUSE(stats_size_huge, FW_E_STRUCT),
    MISUSE(text_into_null, FW_E_NULL),
    MISUSE(text_unknown, FW_E_OPTION),
    MISUSE(text_overflow, FW_E_OVERFLOW),
    MISUSE(validate_into_null, FW_E_NULL),
    MISUSE(memfd_of_private, FW_E_UNSUPPORTED),
    MISUSE(export_null, FW_E_NULL),
    MISUSE(export_nowhere, FW_E_OS),
    MISUSE(trim_misaligned, FW_E_UNALIGNED),
    MISUSE(grow_fixed, FW_E_FIXED_SIZE),
    MISUSE(shrink_fixed, FW_E_FIXED_SIZE),
    MISUSE(grow_misaligned, FW_E_UNALIGNED),
    MISUSE(shrink_misaligned, FW_E_UNALIGNED),
    MISUSE(grow_null, FW_E_ARENA),
    MISUSE(shrink_null, FW_E_ARENA),
    MISUSE(grow_above_limit, FW_E_AT_LIMIT),
    MISUSE(free_shrunk, FW_E_OFFLINE),
    MISUSE(free_absent, FW_E_FOREIGN),
    MISUSE(free_absent_misaligned, FW_E_MISALIGNED),
    MISUSE(find_absent, FW_E_FOREIGN),
    MISUSE(signal_of_fault, FW_E_OPTION),
    MISUSE(signal_negative, FW_E_OPTION),
    MISUSE(signal_unknown, FW_E_OPTION),
    MISUSE(signal_kill, FW_E_OS),
};

int main(void)
{
    return run_misuses(MISUSES, sizeof MISUSES / sizeof *MISUSES);
}
