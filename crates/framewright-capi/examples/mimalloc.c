/*
 * Threads that allocate and free through mimalloc, whose memory is a range of a Framewright arena.
 *
 *     make -C crates/framewright-capi/examples mimalloc && ./mimalloc
 *
 * Every object lies in the range and is filled with a pattern that is checked when it is freed. Then one heap fills
 * 64 MiB and frees them, and the memory that the range takes of the system is printed: mimalloc gives it back by itself.
 */
/* For mincore. */
#define _DEFAULT_SOURCE
#include <framewright.h>
#include <framewright_mimalloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_BYTES ((size_t)512 << 20)
#define RANGE_BYTES ((size_t)256 << 20)
#define PAGE 4096
#define THREADS 3
#define OBJECTS 400
#define ROUNDS 20000

static fw_arena *arena;
static fw_mimalloc own;

static void need(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "mimalloc: %s\n", what);
        exit(1);
    }
}

/* Returns how much of the range is resident, in MiB. */
static size_t resident(void)
{
    static unsigned char pages[RANGE_BYTES / PAGE];
    size_t count = 0;
    need(mincore(own.start, own.bytes, pages) == 0, "mincore fails");
    for (size_t i = 0; i < own.bytes / PAGE; i++)
        count += pages[i] & 1;
    return count * PAGE >> 20;
}

static void print_buddyinfo(const char *when)
{
    char text[1024];
    need(fw_arena_text(arena, FW_TEXT_BUDDYINFO, text, sizeof text) > 0, "no buddyinfo");
    printf("%s: %zu MiB of the range resident\n%s", when, resident(), text);
}

struct object {
    unsigned char *start;
    size_t bytes;
};

static void release(struct object *object, unsigned char pattern)
{
    if (object->start == NULL)
        return;
    for (size_t i = 0; i < object->bytes; i += 511)
        need(object->start[i] == pattern, "an object was overwritten");
    need(object->start[object->bytes - 1] == pattern, "an object's end was overwritten");
    mi_free(object->start);
    object->start = NULL;
}

/* Sizes from 16 bytes to 512 KiB, all from a heap of this thread. */
static void *work(void *argument)
{
    unsigned char pattern = (unsigned char)(uintptr_t)argument;
    uint32_t random = 2463534242u + pattern;
    static __thread struct object objects[OBJECTS];
    mi_heap_t *heap = fw_mimalloc_heap(&own);
    need(heap != NULL, "there is no heap");
    for (int round = 0; round < ROUNDS; round++) {
        random ^= random << 13, random ^= random >> 17, random ^= random << 5;
        struct object *object = &objects[random % OBJECTS];
        release(object, pattern);
        object->bytes = ((size_t)16 << (random >> 28)) + (random >> 8) % 1000;
        object->start = mi_heap_malloc(heap, object->bytes);
        need(object->start != NULL, "the range has no memory");
        need(fw_find(arena, object->start, NULL, NULL) == FW_OK, "an object lies outside of the arena");
        memset(object->start, pattern, object->bytes);
    }
    /* A mistake that the check must find. */
    if (pattern == 1 && getenv("PLANT_A_FAILURE") != NULL)
        for (size_t i = 0; i < OBJECTS; i++)
            if (objects[i].start != NULL)
                objects[i].start[0] = 0;
    for (size_t i = 0; i < OBJECTS; i++)
        release(&objects[i], pattern);
    mi_heap_delete(heap);
    mi_collect(true);
    return NULL;
}

static void fill_and_free(void)
{
    static struct object objects[1024];
    mi_heap_t *heap = fw_mimalloc_heap(&own);
    need(heap != NULL, "there is no heap");
    for (size_t i = 0; i < 1024; i++) {
        objects[i] = (struct object){mi_heap_malloc(heap, 64 << 10), 64 << 10};
        need(objects[i].start != NULL, "the range has no memory");
        memset(objects[i].start, 9, objects[i].bytes);
    }
    size_t filled = resident();
    print_buddyinfo("with 64 MiB of objects");
    for (size_t i = 0; i < 1024; i++)
        release(&objects[i], 9);
    mi_heap_delete(heap);
    mi_collect(true);
    print_buddyinfo("without them");
    need(filled >= 64 && resident() < filled / 4, "mimalloc keeps the memory");
}

int main(void)
{
    fw_options options = {.size = sizeof options, .bytes = ARENA_BYTES};
    pthread_t threads[THREADS];
    char why[200] = "";
    int error = fw_arena_create(&options, &arena);
    need(error == FW_OK, fw_strerror(error));
    error = fw_mimalloc_create(&own, arena, RANGE_BYTES, -1);
    need(error == FW_OK, fw_strerror(error));
    print_buddyinfo("at first");
    for (uintptr_t i = 0; i < THREADS; i++)
        need(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    for (int i = 0; i < THREADS; i++)
        need(pthread_join(threads[i], NULL) == 0, "no end of a thread");
    print_buddyinfo("after the threads");
    fill_and_free();
    need(fw_arena_validate(arena, why, sizeof why) == FW_OK, why);
    printf("mimalloc: all objects were as they were left\n");
    return 0;
}
