/*
 * A suite of misuses: each is a case that makes one wrong call and returns what that returned.
 *
 * A case gets an arena of 16 MiB with nothing allocated, and frees what it allocates. Afterwards the arena must be as
 * before: every invariant holds, nothing is allocated, and it can be destroyed. A case that destroys the arena sets
 * the pointer to NULL.
 *
 * hardened_malloc's tests are the measure: double frees, interior and foreign pointers, wrong sizes, writes after a free.
 */
#ifndef MISUSE_H
#define MISUSE_H

#include "check.h"

struct world {
    fw_arena *arena;
};

struct misuse {
    const char *name;
    int (*run)(struct world *w);
    int expected;
};

static inline int run_misuses(const struct misuse *misuses, size_t count)
{
    int wrong = 0;
    /* With this set, the first case is expected to be another error: the suite must fail. */
    int planted = getenv("PLANT_A_FAILURE") != NULL;
    for (size_t i = 0; i < count; i++) {
        struct world w = {arena_of(16 * MIB, 0)};
        int got = misuses[i].run(&w);
        if (w.arena != NULL) {
            validate(w.arena);
            CHECK(stats_of(w.arena).allocated == 0);
            /* It still works. */
            OK(fw_free(w.arena, block_of(w.arena, 0), 0));
            OK(fw_arena_destroy(w.arena, 0));
        }
        printf("misuse %s: %s\n", misuses[i].name, fw_strerrorname(got));
        if (got != misuses[i].expected || (planted && i == 0)) {
            fprintf(stderr, "%s: expected %s\n", misuses[i].name, fw_strerrorname(misuses[i].expected));
            wrong++;
        }
    }
    return wrong != 0;
}

#endif
