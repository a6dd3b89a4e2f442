/*
 * framewright_jemalloc: a jemalloc arena whose memory is a Framewright arena's.
 *
 *     static fw_jemalloc own;
 *     int error = fw_jemalloc_create(&own, arena);
 *     void *object = mallocx(100, MALLOCX_ARENA(own.index) | MALLOCX_TCACHE_NONE);
 *
 * jemalloc asks its extent hooks for extents: whole pages, at an alignment. Each hook is a call of framewright.h:
 *
 * | hook                   | call             |                                                                     |
 * |------------------------|------------------|---------------------------------------------------------------------|
 * | alloc                  | fw_alloc_range   | any number of pages. NULL for an extent at a place: an object that  |
 * |                        |                  | grows is then copied                                                |
 * | dalloc                 | none, or         | jemalloc keeps the extent and joins it with its neighbours; with    |
 * |                        | fw_free_range    | `gives_back` the Framewright arena gets it, for its other users     |
 * | destroy                | fw_free_range    | extents that were kept, when the jemalloc arena ends                |
 * | decommit, purge_forced | fw_discard_range | the system gets the memory. Refused for huge pages of a pool and    |
 * |                        |                  | for memory that was handed in: jemalloc then keeps the contents     |
 * | commit                 | none             | the memory is always accessible, and zero after a decommit          |
 * | purge_lazy             | not there        | jemalloc then goes on to dalloc, or to decommit                     |
 * | split, merge           | none             | fw_free_range frees any part of what was allocated                  |
 *
 * Kept extents fragment the arena less: examples/jemalloc.c fills 256 MiB either way and says what each had to refuse.
 * jemalloc asks for ever more than it needs. fw_jemalloc_create limits that to 2 MiB (`retain_grow_limit`).
 *
 * Rejected: an own copy of the pages' state for split and merge, because the allocator has it.
 *
 * Needs jemalloc 5. Include this file in one C file. It is no part of libframewright, which needs no jemalloc.
 */
#ifndef FRAMEWRIGHT_JEMALLOC_H
#define FRAMEWRIGHT_JEMALLOC_H

#include <errno.h>
#include <framewright.h>
#include <jemalloc/jemalloc.h>
#include <stdio.h>

/* Most that jemalloc asks for beyond its need: a huge page. */
#define FW_JEMALLOC_GROW ((size_t)2 << 20)

/* A jemalloc arena and the Framewright arena that it takes memory from. It stays as long as the process. */
typedef struct fw_jemalloc {
    /* First, so that a pointer to the hooks is one to this structure. */
    extent_hooks_t hooks;
    fw_arena *arena;
    /* Number of the jemalloc arena. */
    unsigned index;
    /* Flags of the requests: FW_USER. A program may change them before it allocates. */
    uint32_t flags;
    /* Whether extents that jemalloc has purged go back to the Framewright arena. A program may change it at any time. */
    bool gives_back;
} fw_jemalloc;

static inline fw_jemalloc *fw_jemalloc_of(extent_hooks_t *hooks)
{
    return (fw_jemalloc *)(void *)hooks;
}

static void *fw_jemalloc_alloc(extent_hooks_t *hooks, void *place, size_t size, size_t alignment, bool *zero, bool *commit,
                               unsigned index)
{
    void *extent = NULL;
    uint32_t flags = fw_jemalloc_of(hooks)->flags | (*zero ? FW_ZERO : 0);
    (void)index;
    if (place != NULL || fw_alloc_range(fw_jemalloc_of(hooks)->arena, flags, size, alignment, &extent) != FW_OK)
        return NULL;
    *commit = true;
    return extent;
}

static void fw_jemalloc_destroy(extent_hooks_t *hooks, void *extent, size_t size, bool committed, unsigned index)
{
    (void)committed, (void)index;
    (void)fw_free_range(fw_jemalloc_of(hooks)->arena, extent, size);
}

/* Returns, as the hooks below do, whether it did nothing. */
static bool fw_jemalloc_dalloc(extent_hooks_t *hooks, void *extent, size_t size, bool committed, unsigned index)
{
    (void)committed, (void)index;
    return !fw_jemalloc_of(hooks)->gives_back || fw_free_range(fw_jemalloc_of(hooks)->arena, extent, size) != FW_OK;
}

static bool fw_jemalloc_commit(extent_hooks_t *hooks, void *extent, size_t size, size_t offset, size_t length, unsigned index)
{
    (void)hooks, (void)extent, (void)size, (void)offset, (void)length, (void)index;
    return false;
}

static bool fw_jemalloc_discard(extent_hooks_t *hooks, void *extent, size_t size, size_t offset, size_t length, unsigned index)
{
    (void)size, (void)index;
    return fw_discard_range(fw_jemalloc_of(hooks)->arena, (char *)extent + offset, length) != FW_OK;
}

static bool fw_jemalloc_split(extent_hooks_t *hooks, void *extent, size_t size, size_t first, size_t second, bool committed,
                              unsigned index)
{
    (void)hooks, (void)extent, (void)size, (void)first, (void)second, (void)committed, (void)index;
    return false;
}

static bool fw_jemalloc_merge(extent_hooks_t *hooks, void *first, size_t size, void *second, size_t second_size,
                              bool committed, unsigned index)
{
    (void)hooks, (void)first, (void)size, (void)second, (void)second_size, (void)committed, (void)index;
    return false;
}

/* Ends a jemalloc arena, whose objects are not used any more: its memory goes back to the Framewright arena. */
static inline int fw_jemalloc_end(fw_jemalloc *own)
{
    char name[64];
    /* Its own records are given to `dalloc`, and not kept for `destroy`. */
    own->gives_back = true;
    (void)snprintf(name, sizeof name, "arena.%u.destroy", own->index);
    return mallctl(name, NULL, NULL, NULL, 0);
}

/* Creates a jemalloc arena over a Framewright arena. Returns 0, or an error of errno.h as mallctl does. */
static inline int fw_jemalloc_create(fw_jemalloc *own, fw_arena *arena)
{
    extent_hooks_t *hooks = &own->hooks;
    size_t size = sizeof own->index, grow = FW_JEMALLOC_GROW;
    char name[64];
    own->hooks = (extent_hooks_t){
        .alloc = fw_jemalloc_alloc,
        .dalloc = fw_jemalloc_dalloc,
        .destroy = fw_jemalloc_destroy,
        .commit = fw_jemalloc_commit,
        .decommit = fw_jemalloc_discard,
        .purge_lazy = NULL,
        .purge_forced = fw_jemalloc_discard,
        .split = fw_jemalloc_split,
        .merge = fw_jemalloc_merge,
    };
    own->arena = arena;
    own->flags = FW_USER;
    own->gives_back = false;
    int error = mallctl("arenas.create", &own->index, &size, &hooks, sizeof hooks);
    if (error != 0)
        return error;
    (void)snprintf(name, sizeof name, "arena.%u.retain_grow_limit", own->index);
    error = mallctl(name, NULL, NULL, &grow, sizeof grow);
    /* With `retain:false` jemalloc keeps nothing, and there is no limit to set. */
    if (error == 0 || error == ENOENT)
        return 0;
    (void)fw_jemalloc_end(own);
    return error;
}

#endif
