/*
 * framewright_mimalloc: a mimalloc heap whose memory is a range of a Framewright arena.
 *
 *     fw_mimalloc own;
 *     int error = fw_mimalloc_create(&own, arena, 128 << 20, -1);
 *     mi_heap_t *heap = fw_mimalloc_heap(&own);
 *     void *object = mi_heap_malloc(heap, 100);
 *
 * mimalloc takes memory in large pieces, once, and cuts its segments from them. fw_mimalloc_create allocates a range of
 * whole segments, discards its contents, and hands it over as memory of zeros (`mi_manage_os_memory_ex`). The range is
 * *exclusive*: only heaps made for it use it, and these use nothing else. It is not *committed*: mimalloc then gives the
 * memory of unused segments back to the system, by `madvise`, and the range stays.
 *
 * | limit                          | why                                                                            |
 * |--------------------------------|--------------------------------------------------------------------------------|
 * | at least FW_MIMALLOC_SEGMENT   | smaller ranges are refused by mimalloc                                         |
 * | the range is never freed       | mimalloc has no call that takes an arena back: keep the Framewright arena      |
 * | a heap is for the thread that  | a rule of mimalloc. Other threads may free its objects, and make heaps of      |
 * | made it                        | their own                                                                      |
 *
 * Needs mimalloc 2. Include this file in any C file. It is no part of libframewright, which needs no mimalloc.
 */
#ifndef FRAMEWRIGHT_MIMALLOC_H
#define FRAMEWRIGHT_MIMALLOC_H

#include <framewright.h>
#include <mimalloc.h>
#include <stdbool.h>

/* Unit of size and alignment of a range: twice a segment of mimalloc 2.0.9, which refuses less than one. */
#define FW_MIMALLOC_SEGMENT ((size_t)64 << 20)

/* A range of a Framewright arena that mimalloc manages. */
typedef struct fw_mimalloc {
    void *start;
    size_t bytes;
    mi_arena_id_t arena;
} fw_mimalloc;

/* Returns a new heap of the calling thread, or NULL. */
static inline mi_heap_t *fw_mimalloc_heap(const fw_mimalloc *own)
{
    return mi_heap_new_in_arena(own->arena);
}

/*
 * Hands `bytes` bytes, rounded up to whole segments, over to mimalloc. `node` is the machine's node that the memory lies
 * on, or -1.
 *
 * Returns 0; FW_E_OTHER if mimalloc refuses; or an error of fw_alloc_range. Nothing has changed after an error.
 */
static inline int fw_mimalloc_create(fw_mimalloc *own, fw_arena *arena, size_t bytes, int node)
{
    own->bytes = (bytes + FW_MIMALLOC_SEGMENT - 1) & ~(FW_MIMALLOC_SEGMENT - 1);
    int error = fw_alloc_range(arena, FW_USER, own->bytes, FW_MIMALLOC_SEGMENT, &own->start);
    if (error != FW_OK)
        return error;
    /* Memory that cannot be discarded may hold anything, and stays as it is. */
    bool is_zero = fw_discard_range(arena, own->start, own->bytes) == FW_OK;
    bool is_fixed = !is_zero;
    if (mi_manage_os_memory_ex(own->start, own->bytes, is_fixed, is_fixed, is_zero, node, true, &own->arena))
        return FW_OK;
    (void)fw_free_range(arena, own->start, own->bytes);
    return FW_E_OTHER;
}

#endif
