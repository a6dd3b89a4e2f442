/*
 * A buffer pool: extents of 2 MiB and pages of 4 KiB out of one arena with two nodes, filled and drained by threads.
 *
 *     make && ./buffer_pool
 *
 * A loader of each node allocates extents one by one and pages in bulk. Other threads check and free them: memory may be
 * freed anywhere. The end prints what the arena says of it.
 */
#include <framewright.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 2
#define NODE_BYTES (64u << 20)
#define EXTENTS 24
#define EXTENT_ORDER 9
#define PAGES 3000

/* What a node's loader has loaded. Each buffer begins with its number. */
struct share {
    fw_arena *arena;
    unsigned node;
    void *extents[EXTENTS];
    void *pages[PAGES];
};

static void check(int code, const char *what)
{
    if (code != FW_OK) {
        fprintf(stderr, "%s: %s (%s)\n", what, fw_strerror(code), fw_strerrorname(code));
        exit(1);
    }
}

static void *load(void *argument)
{
    struct share *share = argument;
    size_t count = 0;
    for (size_t i = 0; i < EXTENTS; i++) {
        /* From this node or not at all. */
        check(fw_alloc_on(share->arena, share->node, FW_USER | FW_THISNODE, EXTENT_ORDER, &share->extents[i]), "extent");
        memcpy(share->extents[i], &i, sizeof i);
    }
    check(fw_alloc_bulk(share->arena, FW_USER, 0, PAGES, share->pages, &count), "pages");
    if (count != PAGES)
        check(FW_E_NO_MEMORY, "pages");
    for (size_t i = 0; i < PAGES; i++)
        memcpy(share->pages[i], &i, sizeof i);
    return NULL;
}

static void *drain(void *argument)
{
    struct share *share = argument;
    for (size_t i = 0; i < EXTENTS; i++) {
        if (memcmp(share->extents[i], &i, sizeof i) != 0)
            abort();
        check(fw_free(share->arena, share->extents[i], EXTENT_ORDER), "extent");
    }
    for (size_t i = 0; i < PAGES; i++)
        if (memcmp(share->pages[i], &i, sizeof i) != 0)
            abort();
    check(fw_free_bulk(share->arena, 0, PAGES, share->pages, NULL, NULL), "pages");
    return NULL;
}

static void on_threads(void *(*work)(void *), struct share *shares)
{
    pthread_t threads[NODES];
    for (int i = 0; i < NODES; i++)
        if (pthread_create(&threads[i], NULL, work, &shares[i]) != 0)
            abort();
    for (int i = 0; i < NODES; i++)
        pthread_join(threads[i], NULL);
}

static void print(fw_arena *arena, const char *title)
{
    char text[4096];
    int length = fw_arena_text(arena, FW_TEXT_BUDDYINFO, text, sizeof text);
    if (length < 0)
        check(length, "buddyinfo");
    printf("%s\n%s\n", title, text);
}

int main(void)
{
    static struct share shares[NODES];
    fw_node nodes[NODES] = {{.bytes = NODE_BYTES}, {.bytes = NODE_BYTES}};
    char reason[200];
    fw_arena *arena;
    fw_options options;
    check(fw_options_init(&options, sizeof options), "options");
    options.nodes = nodes;
    options.node_count = NODES;
    options.transparent = FW_TRANSPARENT_ALWAYS;
    options.message = reason;
    options.message_size = sizeof reason;
    if (fw_arena_create(&options, &arena) != FW_OK) {
        fprintf(stderr, "no arena: %s\n", reason);
        return 1;
    }
    for (unsigned i = 0; i < NODES; i++)
        shares[i].arena = arena, shares[i].node = i;

    print(arena, "before");
    on_threads(load, shares);
    print(arena, "at the peak");
    on_threads(drain, shares);
    check(fw_arena_drain(arena, NULL), "drain");
    print(arena, "after");

    fw_stats stats = {.size = sizeof stats};
    uint64_t trimmed;
    check(fw_arena_stats(arena, &stats), "stats");
    printf("pages allocated %llu, freed %llu, failed requests %llu, refused frees %llu\n",
           (unsigned long long)stats.total_allocated, (unsigned long long)stats.total_freed,
           (unsigned long long)stats.failed, (unsigned long long)stats.bad_frees);
    check(fw_arena_trim(arena, 9, &trimmed), "trim");
    printf("given back to the system: %llu MiB\n", (unsigned long long)trimmed >> 20);
    check(fw_arena_destroy(arena, 0), "destroy");
    return 0;
}
