/* What the functions do when they are used rightly. */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_filled(const void *block, size_t bytes, unsigned char value)
{
    const unsigned char *byte = block;
    for (size_t i = 0; i < bytes; i++)
        if (byte[i] != value)
            return 0;
    return 1;
}

static void destroy(fw_arena *arena)
{
    validate(arena);
    CHECK(stats_of(arena).allocated == 0);
    OK(fw_arena_destroy(arena, 0));
}

static void errors_have_names(void)
{
    CHECK(strcmp(fw_strerror(FW_OK), "success") == 0);
    CHECK(strcmp(fw_strerrorname(FW_E_ALREADY_FREE), "FW_E_ALREADY_FREE") == 0);
    CHECK(strcmp(fw_strerror(FW_E_ALREADY_FREE), "the block is free already") == 0);
    CHECK(strlen(fw_strerror(12345)) > 0 && strcmp(fw_strerrorname(12345), "FW_E_?") == 0);
    CHECK(fw_version() == FW_VERSION);
}

static void blocks_of_all_orders(void)
{
    fw_arena *arena = arena_of(64 * MIB, 0);
    unsigned largest = stats_of(arena).max_order;
    CHECK(largest == 14);
    for (unsigned order = 0; order <= largest; order++) {
        char *block = block_of(arena, order);
        size_t bytes = (size_t)PAGE << order;
        CHECK((uintptr_t)block % bytes == 0);
        memset(block, (int)order + 1, bytes);
        CHECK(stats_of(arena).allocated == (uint64_t)1 << order);
        void *head = NULL;
        unsigned found = 99, needed = 99;
        OK(fw_find(arena, block + bytes - 1, &head, &found));
        CHECK(head == block && found == order);
        OK(fw_find(arena, block, NULL, NULL));
        OK(fw_arena_order(arena, bytes, &needed));
        CHECK(needed == order);
        OK(fw_arena_order(arena, bytes - 1, &needed));
        CHECK(needed == order);
        OK(fw_free(arena, block, order));
    }
    destroy(arena);
}

static void zeroed_blocks_are_zero(void)
{
    fw_arena *arena = arena_of(16 * MIB, 0);
    void *all, *blocks[64];
    size_t count;
    OK(fw_alloc(arena, FW_USER, 12, &all));
    memset(all, 0xaa, 16 * MIB);
    OK(fw_free(arena, all, 12));
    for (unsigned order = 0; order < 11; order++) {
        OK(fw_alloc(arena, FW_USER | FW_ZERO, order, &all));
        CHECK(is_filled(all, (size_t)PAGE << order, 0));
        memset(all, 0xbb, (size_t)PAGE << order);
        OK(fw_free(arena, all, order));
    }
    OK(fw_alloc_bulk(arena, FW_USER | FW_ZERO, 0, 64, blocks, &count));
    CHECK(count == 64);
    for (size_t i = 0; i < count; i++)
        CHECK(is_filled(blocks[i], PAGE, 0));
    OK(fw_free_bulk(arena, 0, count, blocks, &count, NULL));
    CHECK(count == 64);
    OK(fw_alloc_range(arena, FW_USER | FW_ZERO, 300 * PAGE, 1, &all));
    CHECK(is_filled(all, 300 * PAGE, 0));
    OK(fw_free_range(arena, all, 300 * PAGE));
    destroy(arena);
}

static int by_address(const void *a, const void *b)
{
    const char *const *first = a, *const *second = b;
    return *first < *second ? -1 : *first > *second;
}

static void bulk_blocks_are_apart(void)
{
    fw_arena *arena = arena_of(16 * MIB, 0);
    void *blocks[1000];
    size_t count = 0, freed = 0;
    for (unsigned order = 0; order < 3; order++) {
        OK(fw_alloc_bulk(arena, FW_USER, order, 1000, blocks, &count));
        CHECK(count == (order == 2 ? count : 1000) && count > 900);
        qsort(blocks, count, sizeof *blocks, by_address);
        for (size_t i = 1; i < count; i++)
            CHECK((char *)blocks[i] - (char *)blocks[i - 1] >= (ptrdiff_t)((size_t)PAGE << order));
        OK(fw_free_bulk(arena, order, count, blocks, &freed, NULL));
        CHECK(freed == count);
    }
    OK(fw_alloc_bulk(arena, FW_USER, 0, 0, NULL, &count));
    CHECK(count == 0);
    OK(fw_free_bulk(arena, 0, 0, NULL, NULL, NULL));
    destroy(arena);
}

static void ranges_are_freed_in_parts(void)
{
    fw_arena *arena = arena_of(64 * MIB, 0);
    char *start;
    void *out;
    OK(fw_alloc_range(arena, FW_USER, 3 * PAGE - 7, PAGE, &out));
    CHECK(stats_of(arena).allocated == 3);
    OK(fw_free_range(arena, out, 3 * PAGE));
    OK(fw_alloc_range(arena, FW_USER, PAGE, 2 * MIB, &out));
    CHECK((uintptr_t)out % (2 * MIB) == 0 && stats_of(arena).allocated == 1);
    OK(fw_free(arena, out, 0));
    /* Larger than the largest block would be, if it were one block: 33 MiB of 64. */
    OK(fw_alloc_range(arena, FW_USER, 33 * MIB, 8 * MIB, &out));
    start = out;
    CHECK((uintptr_t)start % (8 * MIB) == 0);
    memset(start, 1, 33 * MIB);
    OK(fw_free_range(arena, start + 5 * PAGE, 10 * MIB));
    OK(fw_free_range(arena, start, 5 * PAGE));
    OK(fw_free_range(arena, start + 10 * MIB + 5 * PAGE, 23 * MIB - 5 * PAGE));
    start = block_of(arena, 4);
    OK(fw_split(arena, start, 4, 1));
    for (int i = 0; i < 8; i++)
        OK(fw_free(arena, start + 2 * PAGE * i, 1));
    destroy(arena);
}

/* The largest block is 1 MiB, and the alignment is larger. */
static void ranges_are_aligned_above_the_largest_block(void)
{
    fw_options options = options_of(64 * MIB, 0);
    options.max_order = 8;
    fw_arena *arena;
    OK(fw_arena_create(&options, &arena));
    for (size_t alignment = 2 * MIB; alignment <= 16 * MIB; alignment *= 2) {
        void *starts[2];
        for (int i = 0; i < 2; i++) {
            OK(fw_alloc_range(arena, FW_USER, 5 * PAGE, alignment, &starts[i]));
            CHECK((uintptr_t)starts[i] % alignment == 0);
            memset(starts[i], 3, 5 * PAGE);
        }
        CHECK(starts[0] != starts[1] && stats_of(arena).allocated == 10);
        validate(arena);
        for (int i = 0; i < 2; i++)
            OK(fw_free_range(arena, starts[i], 5 * PAGE));
    }
    destroy(arena);
}

/* The memory begins at a page, and not at a multiple of the largest block. Pages before and after a range stay owned. */
static void ranges_are_aligned_in_memory_that_is_not(void)
{
    static _Alignas(2 << 20) char memory[(8 << 20) + 4096];
    fw_options options = options_of(8 * MIB, FW_OPTION_NO_BACKGROUND);
    fw_arena *arena;
    options.memory = memory + PAGE;
    options.max_order = 9;
    OK(fw_arena_create(&options, &arena));
    for (size_t alignment = PAGE; alignment <= 4 * MIB; alignment *= 2) {
        void *pages[64], *start;
        for (int i = 0; i < 64; i++)
            pages[i] = block_of(arena, 0);
        OK(fw_alloc_range(arena, FW_USER, 5 * PAGE, alignment, &start));
        CHECK((uintptr_t)start % alignment == 0 && stats_of(arena).allocated == 69);
        validate(arena);
        OK(fw_free_range(arena, start, 5 * PAGE));
        for (int i = 0; i < 64; i++)
            OK(fw_free(arena, pages[i], 0));
    }
    destroy(arena);
}

static void parts_are_discarded(void)
{
    fw_arena *arena = arena_of(64 * MIB, 0);
    void *out;
    OK(fw_alloc_range(arena, FW_USER, 100 * PAGE, PAGE, &out));
    char *start = out;
    memset(start, 8, 100 * PAGE);
    /* It begins and ends inside of blocks, and has whole ones between. */
    OK(fw_discard_range(arena, start + 3 * PAGE, 94 * PAGE - 1));
    CHECK(is_filled(start, 3 * PAGE, 8) && is_filled(start + 97 * PAGE, 3 * PAGE, 8));
    CHECK(is_filled(start + 3 * PAGE, 94 * PAGE, 0));
    OK(fw_free_range(arena, start, 100 * PAGE));
    destroy(arena);
}

static void memory_goes_back_to_the_system(void)
{
    fw_arena *arena = arena_of(64 * MIB, 0);
    uint64_t number = 0;
    char *block = block_of(arena, 10);
    memset(block, 9, 4 * MIB);
    OK(fw_discard(arena, block, 10));
    CHECK(is_filled(block, 4 * MIB, 0));
    OK(fw_free(arena, block, 10));
    OK(fw_arena_drain(arena, &number));
    OK(fw_arena_trim(arena, 0, &number));
    CHECK(number == 64 * MIB);
    OK(fw_arena_trim(arena, 14, NULL));
    destroy(arena);
}

static void an_arena_grows_and_shrinks(void)
{
    fw_options options = options_of(4 * MIB, 0);
    options.limit_bytes = 16 * MIB;
    fw_arena *arena;
    uint64_t number = 0;
    OK(fw_arena_create(&options, &arena));
    OK(fw_arena_grow(arena, 3 * MIB, &number));
    CHECK(number == 4 * MIB && stats_of(arena).bytes == 8 * MIB);
    void *blocks[8];
    for (int i = 0; i < 8; i++)
        memset(blocks[i] = block_of(arena, 9), i, 2 * MIB);
    CHECK(stats_of(arena).bytes == 16 * MIB && stats_of(arena).cached == 0);
    OK(fw_arena_shrink(arena, 16 * MIB, &number));
    CHECK(number == 0);
    for (int i = 0; i < 8; i++)
        OK(fw_free(arena, blocks[i], 9));
    OK(fw_arena_shrink(arena, 16 * MIB, &number));
    CHECK(number == 14 * MIB);
    fw_stats stats = stats_of(arena);
    CHECK(stats.bytes == 2 * MIB && stats.present == 512 && stats.cached == 0);
    destroy(arena);
}

/* The alignment may be larger than the arena is when it is created. */
static void ranges_grow_an_arena(void)
{
    fw_options options = options_of(4 * MIB, 0);
    options.limit_bytes = 64 * MIB;
    fw_arena *arena;
    void *start;
    OK(fw_arena_create(&options, &arena));
    OK(fw_alloc_range(arena, FW_USER, 5 * MIB, 16 * MIB, &start));
    CHECK((uintptr_t)start % (16 * MIB) == 0 && stats_of(arena).allocated == 5 * MIB / PAGE);
    memset(start, 1, 5 * MIB);
    OK(fw_free_range(arena, start, 5 * MIB));
    destroy(arena);
}

static void texts_are_cut_to_fit(void)
{
    fw_arena *arena = arena_of(16 * MIB, 0);
    for (unsigned text = FW_TEXT_BUDDYINFO; text <= FW_TEXT_REPORT; text++) {
        char whole[20000], part[10] = "unchanged";
        int length = fw_arena_text(arena, text, NULL, 0);
        CHECK(length > 20);
        CHECK(fw_arena_text(arena, text, part, 0) == length && strcmp(part, "unchanged") == 0);
        CHECK(fw_arena_text(arena, text, whole, sizeof whole) == length);
        CHECK(strlen(whole) == (size_t)length);
        CHECK(fw_arena_text(arena, text, part, sizeof part) == length);
        CHECK(strlen(part) == sizeof part - 1 && strncmp(part, whole, sizeof part - 1) == 0);
        CHECK(fw_arena_text(arena, text, part, 1) == length && part[0] == 0);
    }
    destroy(arena);
}

static void structures_may_grow(void)
{
    struct {
        fw_options options;
        char newer[24];
    } given;
    struct {
        fw_stats stats;
        uint64_t newer;
    } stats;
    fw_arena *arena;
    OK(fw_options_init(&given.options, sizeof given));
    CHECK(given.options.size == sizeof given && is_filled(given.newer, sizeof given.newer, 0));
    given.options.bytes = 8 * MIB;
    OK(fw_arena_create(&given.options, &arena));
    memset(&stats, 0x55, sizeof stats);
    stats.stats.size = sizeof stats;
    OK(fw_arena_stats(arena, &stats.stats));
    CHECK(fw_find(arena, stats.stats.start, NULL, NULL) == FW_E_ALREADY_FREE);
    CHECK(fw_find(arena, (char *)stats.stats.start - 1, NULL, NULL) == FW_E_FOREIGN);
    CHECK(stats.newer == 0 && stats.stats.size == sizeof stats && stats.stats.bytes == 8 * MIB);
    destroy(arena);
}

static void nodes_serve_their_requests(void)
{
    fw_node nodes[2] = {{.bytes = 8 * MIB}, {.bytes = 16 * MIB}};
    char message[100];
    fw_options options = options_of(0, FW_OPTION_NO_BACKGROUND);
    fw_arena *arena;
    void *first, *second, *none = NULL;
    options.nodes = nodes;
    options.message = message;
    options.message_size = sizeof message;
    CHECK(fw_arena_create(&options, &arena) == FW_E_EMPTY && strncmp(message, "node_count is 0: ", 17) == 0);
    options.node_count = 2;
    OK(fw_arena_create(&options, &arena));
    CHECK(stats_of(arena).nodes == 2);
    OK(fw_alloc_on(arena, 0, FW_USER | FW_THISNODE, 11, &first));
    OK(fw_alloc_on(arena, 1, FW_USER | FW_THISNODE, 11, &second));
    CHECK((char *)second >= (char *)first + 8 * MIB);
    CHECK(fw_alloc_on(arena, 0, FW_USER | FW_THISNODE, 0, &none) == FW_E_NO_MEMORY && none == NULL);
    OK(fw_alloc_on(arena, 0, FW_USER, 0, &none));
    OK(fw_free(arena, none, 0));
    OK(fw_free(arena, first, 11));
    OK(fw_free(arena, second, 11));
    destroy(arena);
}

static void memory_may_be_handed_in(void)
{
    static _Alignas(4096) char memory[4 << 20];
    fw_options options = options_of(sizeof memory, FW_OPTION_NO_BACKGROUND);
    fw_arena *arena;
    options.memory = memory;
    OK(fw_arena_create(&options, &arena));
    char *block = block_of(arena, 9);
    CHECK(block >= memory && block + 2 * MIB <= memory + sizeof memory);
    OK(fw_free(arena, block, 9));
    destroy(arena);
    memset(memory, 1, sizeof memory);
}

static void a_memfd_is_shared(void)
{
    fw_options options = options_of(8 * MIB, 0);
    fw_arena *arena;
    char text[6] = "";
    options.backing = FW_BACKING_MEMFD;
    OK(fw_arena_create(&options, &arena));
    int file = fw_arena_memfd(arena);
    CHECK(file > 2);
    char *start = block_of(arena, 11);
    memcpy(start + 3 * MIB, "hello", 6);
    CHECK(pread(file, text, 6, 3 * MIB) == 6 && strcmp(text, "hello") == 0);
    OK(fw_free(arena, start, 11));
    destroy(arena);
}

static void writes_after_a_free_are_found(void)
{
    fw_arena *arena = arena_of(4 * MIB, FW_OPTION_HARDENED);
    char text[2000];
    void *blocks[1024];
    size_t count;
    char *block = block_of(arena, 0);
    OK(fw_free(arena, block, 0));
    block[100] = 1;
    OK(fw_alloc_bulk(arena, FW_USER, 0, 1024, blocks, &count));
    CHECK(count == 1023);
    for (size_t i = 0; i < count; i++)
        CHECK(blocks[i] != block);
    CHECK(stats_of(arena).written_after_free == 1);
    CHECK(fw_arena_text(arena, FW_TEXT_REPORT, text, sizeof text) < (int)sizeof text);
    CHECK(strstr(text, "\nhardened: ") != NULL && strstr(text, "written to after their free: 1\n") != NULL);
    CHECK(fw_free(arena, block, 0) == FW_E_QUARANTINED);
    CHECK(fw_find(arena, block, NULL, NULL) == FW_E_QUARANTINED);
    OK(fw_free_bulk(arena, 0, count, blocks, NULL, NULL));
    destroy(arena);
}

static void *use_local(void *argument)
{
    fw_arena *arena = argument;
    fw_local *outer, *inner;
    void *first, *second, *large;
    OK(fw_local_open(arena, &outer));
    OK(fw_local_open(arena, &inner));
    for (int i = 0; i < 1000; i++) {
        OK(fw_local_alloc(outer, i % 2 ? FW_USER : FW_MOVABLE | FW_ZERO, 0, &first));
        OK(fw_local_alloc(inner, FW_USER, 0, &second));
        OK(fw_local_alloc(inner, FW_USER, 2, &large));
        CHECK(first != second && (i % 2 || is_filled(first, PAGE, 0)));
        memset(first, 1, PAGE);
        memset(large, 1, 4 * PAGE);
        OK(fw_local_free(inner, first, 0));
        OK(fw_free(arena, second, 0));
        OK(fw_local_free(outer, large, 2));
    }
    void *blocks[200];
    size_t count = 0, freed = 0;
    OK(fw_local_alloc_bulk(inner, FW_USER | FW_ZERO, 0, 200, blocks, &count));
    CHECK(count == 200 && is_filled(blocks[0], PAGE, 0) && is_filled(blocks[199], PAGE, 0));
    OK(fw_local_free_bulk(outer, 0, count, blocks, &freed, NULL));
    CHECK(freed == 200);
    OK(fw_local_close(inner));
    /* The other one is closed when the thread ends. */
    return NULL;
}

static void locals_belong_to_threads(void)
{
    fw_options options = options_of(64 * MIB, 0);
    fw_arena *arena;
    pthread_t threads[3];
    options.cpus = 5;
    OK(fw_arena_create(&options, &arena));
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, use_local, arena) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(stats_of(arena).locals == 0);
    destroy(arena);
}

static fw_arena *shared;
static pthread_barrier_t together;
static int open_locals;

/* More threads than CPUs keep a local handle, and all allocate meanwhile. */
static void *keep_local(void *argument)
{
    fw_local *local;
    void *block;
    int code = fw_local_open(shared, &local);
    CHECK(code == FW_OK || code == FW_E_NO_CPU);
    __atomic_fetch_add(&open_locals, code == FW_OK, __ATOMIC_SEQ_CST);
    pthread_barrier_wait(&together);
    OK(code == FW_OK ? fw_local_alloc(local, FW_USER, 0, &block) : fw_alloc(shared, FW_USER, 0, &block));
    OK(fw_free(shared, block, 0));
    pthread_barrier_wait(&together);
    return argument;
}

static void locals_leave_a_cpu_to_other_threads(uint32_t flags, uint32_t cpus, int fewest, int most)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    fw_options options = options_of(64 * MIB, flags | FW_OPTION_NO_BACKGROUND);
    options.cpus = cpus;
    OK(fw_arena_create(&options, &shared));
    open_locals = 0;
    CHECK(pthread_barrier_init(&together, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, keep_local, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(open_locals >= fewest && open_locals <= most);
    CHECK(stats_of(shared).locals == 0);
    destroy(shared);
}

static void *stress(void *argument)
{
    unsigned long state = (unsigned long)(uintptr_t)argument;
    void *held[64] = {0};
    for (int i = 0; i < 20000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        unsigned place = (state >> 33) % 64, order = place % 8 == 0 ? 3 : 0;
        if (held[place] == NULL) {
            held[place] = block_of(shared, order);
            *(void ***)held[place] = &held[place];
        } else {
            CHECK(*(void ***)held[place] == &held[place]);
            OK(fw_free(shared, held[place], order));
            held[place] = NULL;
        }
    }
    for (unsigned place = 0; place < 64; place++)
        if (held[place] != NULL)
            OK(fw_free(shared, held[place], place % 8 == 0 ? 3 : 0));
    return NULL;
}

static void threads_share_an_arena(uint32_t flags)
{
    pthread_t threads[4];
    shared = arena_of(64 * MIB, flags);
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, stress, (void *)(i + 1)) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    destroy(shared);
}

static volatile sig_atomic_t handled;

static void handler(int number, size_t value)
{
    void *block = NULL;
    if (number == SIGUSR1 && value == 77 && fw_alloc(shared, FW_ATOMIC, 0, &block) == FW_OK && fw_free(shared, block, 0) == FW_OK)
        handled++;
}

static void handlers_allocate(void)
{
    shared = arena_of(16 * MIB, FW_OPTION_INTERRUPTS);
    OK(fw_on_signal(SIGUSR1, handler));
    for (int i = 0; i < 100; i++) {
        void *block = block_of(shared, 0);
        CHECK(sigqueue(getpid(), SIGUSR1, (union sigval){.sival_ptr = (void *)77}) == 0);
        OK(fw_free(shared, block, 0));
        /* The system may deliver it late. */
        while (handled == i)
            usleep(10);
    }
    CHECK(handled == 100);
    OK(fw_on_signal(SIGUSR1, NULL));
    destroy(shared);
}

static void a_child_has_its_own_copy(void)
{
    fw_arena *arena = arena_of(16 * MIB, 0);
    char *block = block_of(arena, 0);
    block[0] = 1;
    pid_t child = fork();
    if (child == 0) {
        block[0] = 2;
        OK(fw_free(arena, block, 0));
        OK(fw_free(arena, block_of(arena, 5), 5));
        _exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(block[0] == 1);
    OK(fw_free(arena, block, 0));
    destroy(arena);
}

static void blocks_may_go_with_the_arena(void)
{
    fw_arena *arena = arena_of(16 * MIB, 0);
    block_of(arena, 5);
    CHECK(fw_arena_destroy(arena, 0) == FW_E_IN_USE);
    OK(fw_arena_destroy(arena, FW_DESTROY_BLOCKS));
    CHECK(fw_arena_destroy(arena, 0) == FW_E_ARENA);
}

static void handles_are_limited(void)
{
    static fw_local *locals[4097];
    fw_arena *arena = arena_of(16 * MIB, 0);
    size_t count = 0;
    while (count < 4097 && fw_local_open(arena, &locals[count]) == FW_OK)
        count++;
    CHECK(count >= 4090 && count <= 4096 && fw_local_open(arena, &locals[count]) == FW_E_HANDLES);
    while (count > 0)
        OK(fw_local_close(locals[--count]));
    destroy(arena);
}

static void a_state_is_exported(void)
{
    fw_arena *arena = arena_of(16 * MIB, 0);
    OK(fw_arena_export(arena, "arena.sock"));
    CHECK(access("arena.sock", F_OK) == 0);
    errno = 0;
    CHECK(fw_arena_export(arena, "arena.sock") == FW_E_OS && errno == EADDRINUSE);
    CHECK(fw_arena_export(arena, "no-such-folder/arena.sock") == FW_E_OS && errno == ENOENT);
    CHECK(fw_on_signal(SIGKILL, handler) == FW_E_OS && errno == EINVAL);
    destroy(arena);
    CHECK(access("arena.sock", F_OK) != 0);
}

int main(void)
{
    errors_have_names();
    blocks_of_all_orders();
    zeroed_blocks_are_zero();
    bulk_blocks_are_apart();
    ranges_are_freed_in_parts();
    ranges_are_aligned_above_the_largest_block();
    ranges_are_aligned_in_memory_that_is_not();
    parts_are_discarded();
    memory_goes_back_to_the_system();
    an_arena_grows_and_shrinks();
    ranges_grow_an_arena();
    texts_are_cut_to_fit();
    structures_may_grow();
    nodes_serve_their_requests();
    memory_may_be_handed_in();
    a_memfd_is_shared();
    writes_after_a_free_are_found();
    locals_belong_to_threads();
    locals_leave_a_cpu_to_other_threads(0, 4, 3, 3);
    locals_leave_a_cpu_to_other_threads(0, 9, 8, 8);
    locals_leave_a_cpu_to_other_threads(FW_OPTION_PER_CPU, 4, 1, 8);
    threads_share_an_arena(0);
    threads_share_an_arena(FW_OPTION_HARDENED);
    threads_share_an_arena(FW_OPTION_PER_CPU | FW_OPTION_NO_BACKGROUND);
    handlers_allocate();
    a_child_has_its_own_copy();
    blocks_may_go_with_the_arena();
    handles_are_limited();
    a_state_is_exported();
    puts("functional: all right");
    return 0;
}
