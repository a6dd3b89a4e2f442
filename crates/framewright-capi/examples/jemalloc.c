/*
 * Threads that allocate and free through jemalloc, whose memory is a Framewright arena's.
 *
 *     make -C crates/framewright-capi/examples jemalloc && ./jemalloc
 *
 * It runs twice: jemalloc keeps its extents, and then it gives them back. Every object lies in the arena and is filled
 * with a pattern that is checked when it is freed. Each time the jemalloc arena ends, and then all pages are free: a
 * page that was lost, or freed twice, would show.
 */
#include <framewright.h>
#include <framewright_jemalloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)256 << 20)
#define THREADS 4
#define OBJECTS 200
#define ROUNDS 20000

static fw_arena *arena;
static fw_jemalloc own[2];
static fw_jemalloc *current;
static _Atomic unsigned refused;

static void need(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "jemalloc: %s\n", what);
        exit(1);
    }
}

/* Calls a control of the jemalloc arena. */
static void control(const char *what)
{
    char name[64];
    (void)snprintf(name, sizeof name, "arena.%u.%s", current->index, what);
    need(mallctl(name, NULL, NULL, NULL, 0) == 0, name);
}

static uint64_t allocated_pages(void)
{
    fw_stats stats = {.size = sizeof stats};
    need(fw_arena_stats(arena, &stats) == FW_OK, "no statistics");
    return stats.allocated;
}

static void print_buddyinfo(const char *when)
{
    char text[1024];
    need(fw_arena_text(arena, FW_TEXT_BUDDYINFO, text, sizeof text) > 0, "no buddyinfo");
    printf("%s: %llu pages allocated\n%s", when, (unsigned long long)allocated_pages(), text);
}

struct object {
    unsigned char *start;
    size_t bytes;
};

static void release(struct object *object, int flags, unsigned char pattern)
{
    if (object->start == NULL)
        return;
    for (size_t i = 0; i < object->bytes; i += 511)
        need(object->start[i] == pattern, "an object was overwritten");
    need(object->start[object->bytes - 1] == pattern, "an object's end was overwritten");
    dallocx(object->start, flags);
    object->start = NULL;
}

/* Sizes from 16 bytes to 512 KiB, some aligned to 64 KiB; some grow. */
static void *work(void *argument)
{
    unsigned char pattern = (unsigned char)(uintptr_t)argument;
    uint32_t random = 2463534242u + pattern;
    int flags = MALLOCX_ARENA(current->index) | MALLOCX_TCACHE_NONE;
    static __thread struct object objects[OBJECTS];
    for (int round = 0; round < ROUNDS; round++) {
        random ^= random << 13, random ^= random >> 17, random ^= random << 5;
        struct object *object = &objects[random % OBJECTS];
        release(object, flags, pattern);
        object->bytes = ((size_t)16 << (random >> 28)) + (random >> 8) % 1000;
        object->start = mallocx(object->bytes, flags | ((random & 255) == 0 ? MALLOCX_ALIGN(64 << 10) : 0));
        if (object->start == NULL) {
            refused++;
            continue;
        }
        need(fw_find(arena, object->start, NULL, NULL) == FW_OK, "an object lies outside of the arena");
        memset(object->start, pattern, object->bytes);
        if ((random & 15) == 1) {
            unsigned char *grown = rallocx(object->start, 2 * object->bytes, flags);
            if (grown == NULL) {
                refused++;
                continue;
            }
            object->start = grown;
            memset(grown + object->bytes, pattern, object->bytes);
            object->bytes *= 2;
        }
        if (round % 5000 == 4999)
            control("purge");
    }
    /* A mistake that the check must find. */
    if (pattern == 1 && getenv("PLANT_A_FAILURE") != NULL)
        for (size_t i = 0; i < OBJECTS; i++)
            if (objects[i].start != NULL)
                objects[i].start[0] = 0;
    for (size_t i = 0; i < OBJECTS; i++)
        release(&objects[i], flags, pattern);
    return NULL;
}

static void run(fw_jemalloc *jemalloc, bool gives_back)
{
    pthread_t threads[THREADS];
    char why[200] = "";
    refused = 0;
    current = jemalloc;
    need(fw_jemalloc_create(jemalloc, arena) == 0, "jemalloc has no arena");
    jemalloc->gives_back = gives_back;
    printf("\njemalloc %s its extents\n", gives_back ? "gives back" : "keeps");
    for (uintptr_t i = 0; i < THREADS; i++)
        need(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    for (int i = 0; i < THREADS; i++)
        need(pthread_join(threads[i], NULL) == 0, "no end of a thread");
    print_buddyinfo("after the threads");
    control("purge");
    need(fw_arena_drain(arena, NULL) == FW_OK, "no drain");
    print_buddyinfo("after a purge");
    need(fw_jemalloc_end(jemalloc) == 0, "the jemalloc arena does not end");
    need(fw_arena_drain(arena, NULL) == FW_OK, "no drain");
    print_buddyinfo("after the jemalloc arena's end");
    need(allocated_pages() == 0, "pages did not come back");
    need(fw_arena_validate(arena, why, sizeof why) == FW_OK, why);
    printf("refused requests: %u of %u\n", refused, THREADS * ROUNDS);
}

int main(void)
{
    fw_options options = {.size = sizeof options, .bytes = ARENA_BYTES};
    int error = fw_arena_create(&options, &arena);
    need(error == FW_OK, fw_strerror(error));
    run(&own[0], false);
    run(&own[1], true);
    error = fw_arena_destroy(arena, 0);
    need(error == FW_OK, fw_strerror(error));
    printf("\njemalloc: all pages came back\n");
    return 0;
}
