/* What the C tests share: a check that names its place, and an arena as most of them use it. */
#ifndef CHECK_H
#define CHECK_H

#include <framewright.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define MIB ((size_t)1 << 20)

/* Ends the program if a condition does not hold. */
#define CHECK(condition)                                                                                \
    do {                                                                                                \
        if (!(condition)) {                                                                             \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);               \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

/* Ends the program if a call does not return 0. */
#define OK(call)                                                                                        \
    do {                                                                                                \
        int code_ = (call);                                                                             \
        if (code_ != FW_OK) {                                                                           \
            fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, fw_strerrorname(code_),  \
                    fw_strerror(code_));                                                                \
            exit(1);                                                                                    \
        }                                                                                               \
    } while (0)

static inline fw_options options_of(size_t bytes, uint32_t flags)
{
    fw_options options;
    OK(fw_options_init(&options, sizeof options));
    options.bytes = bytes;
    options.flags = flags;
    return options;
}

static inline fw_arena *arena_of(size_t bytes, uint32_t flags)
{
    fw_options options = options_of(bytes, flags);
    fw_arena *arena = NULL;
    OK(fw_arena_create(&options, &arena));
    return arena;
}

static inline fw_stats stats_of(fw_arena *arena)
{
    fw_stats stats = {0};
    stats.size = sizeof stats;
    OK(fw_arena_stats(arena, &stats));
    return stats;
}

static inline void *block_of(fw_arena *arena, unsigned order)
{
    void *block = NULL;
    OK(fw_alloc(arena, FW_USER, order, &block));
    return block;
}

/* Checks every invariant of an arena. */
static inline void validate(fw_arena *arena)
{
    char why[200];
    if (fw_arena_validate(arena, why, sizeof why) != FW_OK) {
        fprintf(stderr, "%s\n", why);
        exit(1);
    }
}

#endif
