/*
 * framewright: a page allocator for programs, the allocator of an operating system in a process.
 *
 *     fw_options options = {0};
 *     options.size = sizeof options;
 *     options.bytes = 64 << 20;
 *     fw_arena *arena;
 *     void *page;
 *     int error = fw_arena_create(&options, &arena);
 *     if (!error) error = fw_alloc(arena, FW_USER, 0, &page);
 *     if (error) fprintf(stderr, "%s\n", fw_strerror(error));
 *
 * Errors: a function returns 0, or one of the negative FW_E_ numbers, and then it has changed nothing. Results come
 * through pointers. Functions about text and files return a length or a descriptor instead of 0.
 * Units: an order is the binary logarithm of a number of pages; all else is in bytes or pages, as the name says.
 * Threads: any thread may call any function at any time, except where it is said.
 * Signals: a handler calls nothing but fw_strerror and its like, unless fw_on_signal has set it.
 *
 * Made by cbindgen from crates/framewright-capi. Change that, and run its tests with UPDATE_HEADER=1.
 */

#ifndef FRAMEWRIGHT_H
#define FRAMEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

/**
 * How the arena was built, which wishes the system refused, and what a hardened arena found.
 */
#define FW_TEXT_REPORT 4

/**
 * Private memory of the process: zeroed pages that take memory from their first touch on. A fork copies it.
 */
#define FW_BACKING_PRIVATE 0

/**
 * A sealed memfd, mapped shared, which other processes can map: `fw_arena_memfd`.
 */
#define FW_BACKING_MEMFD 1

/**
 * Huge pages of 2 MiB out of the kernel's pool, set aside when the arena is created.
 */
#define FW_BACKING_HUGE_2M 2

/**
 * Huge pages of 1 GiB out of the kernel's pool, set aside when the arena is created.
 */
#define FW_BACKING_HUGE_1G 3

/**
 * Transparent huge pages as the system is set up.
 */
#define FW_TRANSPARENT_SYSTEM 0

/**
 * Transparent huge pages where they fit.
 */
#define FW_TRANSPARENT_ALWAYS 1

/**
 * No transparent huge pages.
 */
#define FW_TRANSPARENT_NEVER 2

/**
 * The node's memory lies anywhere; the node is a label.
 */
#define FW_PLACE_ANYWHERE 0

/**
 * The node's memory lies on the first node of the mask, as long as that has memory.
 */
#define FW_PLACE_PREFER 1

/**
 * The node's memory lies on the nodes of the mask only.
 */
#define FW_PLACE_BIND 2

/**
 * The node's memory lies page by page on the nodes of the mask in turn.
 */
#define FW_PLACE_INTERLEAVE 3

/**
 * Fills freed memory with a pattern and checks it before it is used again; refuses two frees in the same instant.
 */
#define FW_OPTION_HARDENED 0x1

/**
 * Lets handlers that `fw_on_signal` set allocate and free.
 */
#define FW_OPTION_INTERRUPTS 0x2

/**
 * Makes every page when the arena is created, so that a lack of memory is an error then.
 */
#define FW_OPTION_POPULATE 0x4

/**
 * Makes a placement, advice or CPU mode that the system refuses an error.
 */
#define FW_OPTION_STRICT 0x8

/**
 * Lets threads use the allocator's CPU of the processor they run on, for any number of threads.
 *
 * About as many local handles can be open at once as there are processors; `fw_local_open` refuses more.
 */
#define FW_OPTION_PER_CPU 0x10

/**
 * Starts no thread for background work.
 */
#define FW_OPTION_NO_BACKGROUND 0x20

/**
 * Starts two threads for each node that reclaim and compact when memory is short.
 */
#define FW_OPTION_BACKGROUND_RECLAIM 0x40

/**
 * `fw_arena_destroy` frees the blocks that are still allocated.
 */
#define FW_DESTROY_BLOCKS 0x1

/**
 * Version of the header: `major << 16 | minor << 8 | patch`.
 */
#define FW_VERSION 0x100

/**
 * Free blocks by order, as `/proc/buddyinfo`.
 */
#define FW_TEXT_BUDDYINFO 0

/**
 * Watermarks, sizes and the lists of CPUs, as `/proc/zoneinfo`.
 */
#define FW_TEXT_ZONEINFO 1

/**
 * Counters, as `/proc/vmstat`.
 */
#define FW_TEXT_VMSTAT 2

/**
 * Free blocks by order and mobility, as `/proc/pagetypeinfo`.
 */
#define FW_TEXT_PAGETYPEINFO 3

/**
 * Ordinary memory of a process; may wait and reclaim.
 */
#define FW_USER 0x100cc0

/**
 * Like `FW_USER`, without regard to the caller's memory policy.
 */
#define FW_KERNEL 0xcc0

/**
 * May not wait; uses no reserves.
 */
#define FW_NOWAIT 0x800

/**
 * May not wait; may use a part of the reserves.
 */
#define FW_ATOMIC 0xa20

/**
 * Like `FW_USER`, grouped with other short-lived or movable blocks, so that large blocks stay whole elsewhere.
 *
 * The block itself does not move, unless a kernel has the hook `migrate`.
 */
#define FW_MOVABLE 0x100cca

/**
 * Clears the block.
 */
#define FW_ZERO 0x100

/**
 * Groups the block with others that the program gives back when memory is short.
 */
#define FW_RECLAIMABLE 0x10

/**
 * Gives up early.
 */
#define FW_NORETRY 0x10000

/**
 * Tries hard, and fails in the end.
 */
#define FW_RETRY_MAYFAIL 0x4000

/**
 * May use all reserves: the caller is about to free memory.
 */
#define FW_MEMALLOC 0x20000

/**
 * Uses no reserves.
 */
#define FW_NOMEMALLOC 0x80000

/**
 * Only memory of the node that the call names.
 */
#define FW_THISNODE 0x200000

/**
 * Success.
 */
#define FW_OK 0

/**
 * A pointer argument is NULL that must not be.
 */
#define FW_E_NULL -1

/**
 * A pointer argument is not aligned for its type.
 */
#define FW_E_UNALIGNED -2

/**
 * The handle is no arena of this process: NULL, destroyed, or a pointer to something else.
 */
#define FW_E_ARENA -3

/**
 * The handle is no open local handle: NULL, closed, or a pointer to something else.
 */
#define FW_E_LOCAL -4

/**
 * The local handle belongs to another thread.
 */
#define FW_E_THREAD -5

/**
 * The `size` field of a structure is 0, too small, or that of a newer version whose fields are in use.
 */
#define FW_E_STRUCT -6

/**
 * A field of the options has a value without a meaning.
 */
#define FW_E_OPTION -7

/**
 * The text names no preset, switch or choice of mechanisms.
 */
#define FW_E_MECHANISMS -8

/**
 * A number of bytes or pages is 0.
 */
#define FW_E_ZERO_SIZE -9

/**
 * A size is larger than addresses can tell apart.
 */
#define FW_E_OVERFLOW -10

/**
 * An alignment is no power of two.
 */
#define FW_E_ALIGNMENT -11

/**
 * The arena still has allocated blocks or open local handles; `fw_stats` says which.
 */
#define FW_E_IN_USE -12

/**
 * The process has as many arenas or local handles as there can be.
 */
#define FW_E_HANDLES -13

/**
 * An invariant of the allocator is violated: its memory was damaged.
 */
#define FW_E_DAMAGED -14

/**
 * The library met a bug of its own, and the call was given up.
 */
#define FW_E_INTERNAL -15

/**
 * The library is newer than this interface, and the error has no number yet.
 */
#define FW_E_OTHER -16

/**
 * The order is above the largest.
 */
#define FW_E_ORDER -20

/**
 * There is no such node.
 */
#define FW_E_NODE -21

/**
 * The flags contradict each other, or are unknown.
 */
#define FW_E_FLAGS -22

/**
 * The range has no pages.
 */
#define FW_E_RANGE -23

/**
 * No block of this order can start at this page, or the address lies inside a page.
 */
#define FW_E_MISALIGNED -24

/**
 * The page is not memory of this allocator.
 */
#define FW_E_FOREIGN -25

/**
 * The range reaches into another zone.
 */
#define FW_E_ZONE -26

/**
 * The page is offline.
 */
#define FW_E_OFFLINE -27

/**
 * The page was quarantined, because it was written to after its free or its descriptor was damaged.
 */
#define FW_E_QUARANTINED -28

/**
 * Pageblocks cannot have this type.
 */
#define FW_E_TYPE -29

/**
 * The library was compiled without this feature.
 */
#define FW_E_LEFT_OUT -30

/**
 * A page of the range is in use and cannot be moved.
 */
#define FW_E_BUSY -31

/**
 * Another call empties or takes the same memory. Trying again may help.
 */
#define FW_E_CONTENDED -32

/**
 * A zone is locked, and the caller must not wait.
 */
#define FW_E_LOCKED -33

/**
 * No per-CPU list holds blocks of this order.
 */
#define FW_E_NOT_KEPT -34

/**
 * The call may wait, and was made in an interrupt or a signal handler.
 */
#define FW_E_IN_INTERRUPT -35

/**
 * Out of memory: too few pages are free, besides those kept from the request (watermarks).
 */
#define FW_E_NO_MEMORY -36

/**
 * Out of memory: enough pages are free, but no block is large enough.
 */
#define FW_E_FRAGMENTED -37

/**
 * No zone satisfies the request's flags.
 */
#define FW_E_NO_ZONE -38

/**
 * Out of memory for a request that must not wait.
 */
#define FW_E_WOULD_WAIT -39

/**
 * A test injected the failure.
 */
#define FW_E_FAULT -40

/**
 * The caller gets no CPU of the allocator: others keep them, or it is in a fork's child or an NMI.
 */
#define FW_E_NO_CPU -41

/**
 * The block was allocated with another order.
 */
#define FW_E_WRONG_ORDER -42

/**
 * The page lies inside a block that starts elsewhere.
 */
#define FW_E_NOT_HEAD -43

/**
 * The block is free already.
 */
#define FW_E_ALREADY_FREE -44

/**
 * Too many threads free blocks of one zone at once. Trying again may help.
 */
#define FW_E_FREES -45

/**
 * A system call failed; `errno` has its reason.
 */
#define FW_E_OS -50

/**
 * The arena has no memory.
 */
#define FW_E_EMPTY -51

/**
 * A size is no multiple of the page, huge page or pageblock.
 */
#define FW_E_BAD_SIZE -52

/**
 * The nodes together are larger than addresses can tell apart.
 */
#define FW_E_TOO_LARGE -53

/**
 * The page is no power of two from the kernel's page to 1 GiB.
 */
#define FW_E_BAD_PAGE -54

/**
 * The first frame is no multiple of the largest block.
 */
#define FW_E_FIRST_FRAME -55

/**
 * The memory handed in does not begin at a multiple of the page.
 */
#define FW_E_MEMORY_START -56

/**
 * The memory handed in is not as large as the nodes.
 */
#define FW_E_MEMORY_SIZE -57

/**
 * The option is about mapping memory, and memory was handed in.
 */
#define FW_E_NOT_OURS -58

/**
 * The kernel's pool has too few free huge pages.
 */
#define FW_E_HUGE_POOL -59

/**
 * The kernel has no huge pages of this size.
 */
#define FW_E_NO_HUGE_PAGES -60

/**
 * The memory could not be placed on its nodes, and the options are strict.
 */
#define FW_E_PLACEMENT -61

/**
 * CPUs cannot follow the processors, and the options are strict.
 */
#define FW_E_PER_CPU -62

/**
 * No thread could be started for background work.
 */
#define FW_E_NO_THREAD -63

/**
 * Memory of this kind does not support the call.
 */
#define FW_E_UNSUPPORTED -64

/**
 * Page size and orders do not fit together.
 */
#define FW_E_GEOMETRY -65

/**
 * The map has no usable memory.
 */
#define FW_E_NO_USABLE -66

/**
 * The number of CPUs is out of range.
 */
#define FW_E_CPUS -67

/**
 * A region of the map is empty, out of order or overlapping.
 */
#define FW_E_REGION -68

/**
 * The table of distances has the wrong size.
 */
#define FW_E_DISTANCES -69

/**
 * The arena has more pages than descriptors can name.
 */
#define FW_E_FRAMES -70

/**
 * The CPUs' lists have more entries than numbers can name.
 */
#define FW_E_SLOTS -71

/**
 * There are too many counters.
 */
#define FW_E_COUNTERS -72

/**
 * The mechanisms contradict each other.
 */
#define FW_E_CONFLICT -73

/**
 * The library was compiled for other mechanisms.
 */
#define FW_E_COMPILED -74

/**
 * The protection of per-CPU lists does not fit the handling of interrupts.
 */
#define FW_E_INTERRUPTS -75

/**
 * The memory for descriptors is too small.
 */
#define FW_E_DESCRIPTORS -76

/**
 * The arena was created without `limit_bytes`.
 */
#define FW_E_FIXED_SIZE -77

/**
 * A node is larger at first than `limit_bytes`.
 */
#define FW_E_ABOVE_LIMIT -78

/**
 * The arena is as large as its limit.
 */
#define FW_E_AT_LIMIT -79

/**
 * The kernel's allocator is not booted.
 */
#define FW_E_NOT_BOOTED -80

/**
 * The kernel's allocator was booted before, or is being booted.
 */
#define FW_E_BOOTED -81

/**
 * No usable, free memory is large enough for the descriptors.
 */
#define FW_E_NO_PLACE -82

/**
 * The boot options lack the function that this needs.
 */
#define FW_E_HOOK -83

/**
 * There is no such CPU.
 */
#define FW_E_NO_SUCH_CPU -84

/**
 * There are more reserved ranges than the call has room for.
 */
#define FW_E_MANY_RESERVED -85

/**
 * A reserved range ends before it starts, or lies above all memory.
 */
#define FW_E_RESERVED -86

/**
 * The descriptors lie in usable memory that the boot options do not reserve, or above all memory.
 */
#define FW_E_UNRESERVED -87

/**
 * An arena: memory with an allocator over it.
 *
 * Any thread may use it. It lives from `fw_arena_create` to `fw_arena_destroy`.
 */
typedef struct fw_arena fw_arena;

/**
 * An arena as seen by one thread that makes many calls in a row.
 *
 * It lives from `fw_local_open` to `fw_local_close`, or until its thread exits.
 */
typedef struct fw_local fw_local;

/**
 * State and counters of an arena. Pages are counted, except where the name says bytes.
 *
 * The figures of a busy arena are those of no single moment.
 */
typedef struct fw_stats {
    /**
     * Size of this structure in bytes, as the program knows it; set it before the call.
     */
    size_t size;
    /**
     * Managed memory in bytes.
     */
    uint64_t bytes;
    /**
     * Size of a page in bytes.
     */
    uint64_t page_bytes;
    /**
     * Address space of the descriptors in bytes; only touched parts take memory.
     */
    uint64_t descriptor_bytes;
    /**
     * Pages that the arena has.
     */
    uint64_t present;
    /**
     * Pages free in a zone.
     */
    uint64_t free;
    /**
     * Pages allocated; 0 if more were freed, by frees of one block in the same instant.
     */
    uint64_t allocated;
    /**
     * Pages that are neither: kept by CPUs for the next requests, or in quarantine.
     */
    uint64_t cached;
    /**
     * Pages ever allocated.
     */
    uint64_t total_allocated;
    /**
     * Pages ever freed.
     */
    uint64_t total_freed;
    /**
     * Requests that failed.
     */
    uint64_t failed;
    /**
     * Frees that were refused.
     */
    uint64_t bad_frees;
    /**
     * Blocks quarantined because they were written to after their free. Only hardened arenas check.
     */
    uint64_t written_after_free;
    /**
     * Free lists rebuilt because a descriptor was damaged.
     */
    uint64_t repairs;
    /**
     * Open local handles.
     */
    uint64_t locals;
    /**
     * Order of the largest block.
     */
    uint32_t max_order;
    /**
     * Nodes.
     */
    uint32_t nodes;
    /**
     * CPUs of the allocator.
     */
    uint32_t cpus;
    /**
     * 1 if CPUs follow the processors, 0 if threads lease them.
     */
    uint32_t per_cpu;
    /**
     * Address of the arena's first page.
     */
    void *start;
} fw_stats;

/**
 * One node of an arena.
 */
typedef struct fw_node {
    /**
     * Size in bytes. With several nodes a multiple of the pageblock, 2 MiB.
     */
    uint64_t bytes;
    /**
     * The machine's nodes that `placement` is about: bit n is node n.
     */
    uint64_t mask;
    /**
     * `FW_PLACE_ANYWHERE` or another `FW_PLACE_` constant.
     */
    uint32_t placement;
    /**
     * Must be 0.
     */
    uint32_t reserved;
} fw_node;

/**
 * The description of an arena. Set `size` and `bytes`, and leave 0 what is to be as usual.
 *
 * `fw_options_init` prepares it. The library keeps no pointer of it but `memory`.
 */
typedef struct fw_options {
    /**
     * Size of this structure in bytes, as the program knows it: `sizeof(fw_options)`.
     */
    size_t size;
    /**
     * Size of the arena in bytes, on one node; a multiple of the page. With `nodes`: 0, or the size of `memory`.
     */
    uint64_t bytes;
    /**
     * The arena's nodes; NULL for one node anywhere.
     */
    const struct fw_node *nodes;
    /**
     * Number of entries in `nodes`: at most 64.
     */
    size_t node_count;
    /**
     * Mechanisms by preset and switches: "default", "baseline", "default,hardened=zero". NULL for the default.
     */
    const char *mechanisms;
    /**
     * Memory of `bytes` bytes that the arena uses instead of mapping some; NULL to map it.
     *
     * It begins at a multiple of the page, stays mapped until the arena is destroyed, and is used by nothing else.
     * Blocks lie at multiples of their size as far as its start does.
     */
    void *memory;
    /**
     * Where `fw_arena_create` writes why it failed, in words; NULL for nowhere.
     */
    char *message;
    /**
     * Size of `message` in bytes. The text is cut to fit and ends with NUL.
     */
    size_t message_size;
    /**
     * Size of a page in bytes: a power of two from the kernel's page to 1 GiB. By default the kernel's page.
     */
    uint64_t page_bytes;
    /**
     * Bytes at the end of each node for movable requests only (`FW_MOVABLE`), as zone Movable. By default none.
     */
    uint64_t movable_bytes;
    /**
     * Bytes kept from ordinary requests (`min_free_kbytes`). By default none.
     */
    uint64_t min_free_bytes;
    /**
     * Order of the largest block. By default the largest up to 1 GiB that fits into the largest node.
     */
    uint32_t max_order;
    /**
     * `FW_BACKING_PRIVATE` or another `FW_BACKING_` constant.
     */
    uint32_t backing;
    /**
     * `FW_TRANSPARENT_SYSTEM` or another `FW_TRANSPARENT_` constant.
     */
    uint32_t transparent;
    /**
     * Any of the `FW_OPTION_` constants, joined by `|`.
     */
    uint32_t flags;
    /**
     * CPUs to lease to threads: one more than the threads that use the arena.
     *
     * Threads that find none share one, at some 200 ns a pair of calls; 1 means that all share. All but one can be
     * kept by local handles. By default one more than twice the processors.
     */
    uint32_t cpus;
    /**
     * Interval of background work in milliseconds. By default 1,000.
     */
    uint32_t background_ms;
    /**
     * Pages that a CPU keeps at most. By default a sixteenth of each node, shared among CPUs. Needs `list_batch`.
     */
    uint32_t list_high;
    /**
     * Pages that a CPU's list gets or gives at a time. Needs `list_high`.
     */
    uint32_t list_batch;
    /**
     * Bytes that each node may grow to: `fw_arena_grow`. By default the arena's size is fixed.
     *
     * With a limit, sizes are multiples of the largest block, which is 2 MiB by default.
     */
    uint64_t limit_bytes;
} fw_options;

/**
 * A function that is called for a signal, with the signal's number and the value that came with it.
 *
 * It does what POSIX allows in a handler, and calls arenas with FW_OPTION_INTERRUPTS.
 */
typedef void (*fw_signal_handler)(int signal, size_t value);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Allocates a block of 2^`order` pages and stores its address in `*block`.
 *
 * The block's address is a multiple of its size: the address of a part, less its low bits, is that of the block. In
 * memory that was handed in this is so as far as that memory's start is a multiple. The block's contents are those of
 * its last use, unless `flags` has FW_ZERO.
 *
 * @param flags  FW_USER or another request, joined with further FW_ flags by `|`.
 * @param order  Binary logarithm of the number of pages.
 * @return 0; or an error, and then `*block` is unchanged: FW_E_NO_MEMORY, FW_E_FRAGMENTED, FW_E_WOULD_WAIT,
 *         FW_E_NO_ZONE, FW_E_ORDER, FW_E_FLAGS, FW_E_ARENA, FW_E_NULL, FW_E_UNALIGNED, FW_E_NO_CPU,
 *         FW_E_IN_INTERRUPT.
 *
 * Threads: any. Ownership: the caller owns the block until it frees it, from any thread.
 *
 * Promised by the caller: `block` is NULL, or a pointer can be written there.
 */
int fw_alloc(struct fw_arena *arena, uint32_t flags, unsigned int order, void **block);

/**
 * Allocates as `fw_alloc` does, from a node of the arena if possible; with FW_THISNODE from no other.
 *
 * @param node  Number of a node of the arena, counted from 0.
 * @return As `fw_alloc`; FW_E_NODE if there is no such node.
 *
 * Threads: any.
 *
 * Promised by the caller: As `fw_alloc`.
 */
int fw_alloc_on(struct fw_arena *arena, unsigned int node, uint32_t flags, unsigned int order, void **block);

/**
 * Frees a block that was allocated with this order.
 *
 * @return 0; or an error, and then nothing has changed: FW_E_ALREADY_FREE, FW_E_WRONG_ORDER, FW_E_NOT_HEAD,
 *         FW_E_MISALIGNED, FW_E_FOREIGN, FW_E_OFFLINE, FW_E_ORDER, FW_E_NULL, FW_E_ARENA, FW_E_QUARANTINED,
 *         FW_E_NO_CPU, FW_E_FREES.
 *
 * FW_E_WRONG_ORDER names a block that begins here; `fw_find` tells its order.
 *
 * Threads: any. Two threads that free one block in the same instant may both succeed, unless the arena is hardened.
 *
 * Promised by the caller: The caller owns the block, if it is allocated.
 */
int fw_free(struct fw_arena *arena, void *block, unsigned int order);

/**
 * Allocates up to `count` blocks of 2^`order` pages and stores their addresses in `blocks`.
 *
 * Cheaper than one by one. Stops when memory is short.
 *
 * @param blocks     Array of `count` entries; those after `*allocated` are unchanged. May be NULL if `count` is 0.
 * @param allocated  Where the number of blocks is stored.
 * @return 0 if at least one block was allocated or `count` is 0; or an error as of `fw_alloc`, and then `*allocated`
 *         is 0. FW_E_OVERFLOW if the array is larger than addresses can tell apart.
 *
 * Threads: any.
 *
 * Promised by the caller: `count` pointers can be written to `blocks`, and a number to `allocated`.
 */
int fw_alloc_bulk(struct fw_arena *arena,
                  uint32_t flags,
                  unsigned int order,
                  size_t count,
                  void **blocks,
                  size_t *allocated);

/**
 * Frees `count` blocks that were allocated with this order. Each is freed or refused on its own.
 *
 * @param blocks   Array of `count` addresses. May be NULL if `count` is 0.
 * @param freed    Where the number of freed blocks is stored; NULL for nowhere.
 * @param refused  Where the index of the first block that was refused is stored, if there is one; NULL for nowhere.
 * @return 0 if all were freed; else the error of the first that was refused, as of `fw_free`. The other blocks are
 *         freed nevertheless. FW_E_OVERFLOW if the array is larger than addresses can tell apart.
 *
 * Threads: any.
 *
 * Promised by the caller: `blocks` holds `count` pointers, and a number can be written to `freed` and to `refused`. The caller owns the
 * blocks.
 */
int fw_free_bulk(struct fw_arena *arena,
                 unsigned int order,
                 size_t count,
                 void *const *blocks,
                 size_t *freed,
                 size_t *refused);

/**
 * Allocates `bytes` bytes that lie side by side, at a multiple of `alignment`, and stores their address in `*start`.
 *
 * The size is rounded up to whole pages, not to a power of two. Free the range by `fw_free_range`, whole or in parts.
 *
 * @param alignment  A power of two in bytes, up to the arena's limit. It may be larger than `bytes`; less than a page
 *                   means a page. Above the largest block, or above what the start of memory that was handed in is a
 *                   multiple of, it needs as much more free memory as it is larger.
 * @return 0; or an error as of `fw_alloc`; FW_E_ZERO_SIZE, FW_E_ALIGNMENT, FW_E_OVERFLOW; FW_E_IN_INTERRUPT in a
 *         handler.
 *
 * Threads: any. Ownership: as of `fw_alloc`.
 *
 * Promised by the caller: A pointer can be written to `start`.
 */
int fw_alloc_range(struct fw_arena *arena, uint32_t flags, size_t bytes, size_t alignment, void **start);

/**
 * Frees `bytes` bytes from `start` on, whatever blocks or ranges they are parts of.
 *
 * Blocks at the ends are cut: their other pages stay allocated, as the largest aligned blocks that tile them.
 *
 * @param start  Address of a page.
 * @param bytes  Rounded up to whole pages.
 * @return 0; or an error as of `fw_free`, and then nothing was freed; FW_E_ZERO_SIZE, FW_E_OVERFLOW.
 *
 * Threads: any.
 *
 * Promised by the caller: The caller owns the pages, as far as they are allocated.
 */
int fw_free_range(struct fw_arena *arena, void *start, size_t bytes);

/**
 * Makes blocks of order `to` out of an allocated block of order `from`. Each is then freed on its own.
 *
 * @return 0; FW_E_ORDER if `to` is larger than `from`; or an error as of `fw_free`.
 *
 * Threads: any. Ownership: the caller owns the parts.
 *
 * Promised by the caller: The caller owns the block, if it is allocated.
 */
int fw_split(struct fw_arena *arena, void *block, unsigned int from, unsigned int to);

/**
 * Finds the allocated block that an address lies in.
 *
 * @param block  Where the block's address is stored; NULL for nowhere.
 * @param order  Where the block's order is stored; NULL for nowhere.
 * @return 0; or an error: FW_E_NULL, FW_E_FOREIGN, FW_E_ALREADY_FREE, FW_E_OFFLINE, FW_E_QUARANTINED,
 *         FW_E_UNALIGNED, FW_E_ARENA.
 *
 * Threads: any. The answer is about this moment, unless the caller owns the block.
 *
 * Promised by the caller: A pointer can be written to `block` and a number to `order`, or they are NULL.
 */
int fw_find(struct fw_arena *arena, const void *address, void **block, unsigned int *order);

/**
 * Opens a local handle of an arena for the calling thread, and stores it in `*local`.
 *
 * Its calls cost about a tenth less than the plain ones, which the thread may still make. The thread keeps one of the
 * arena's CPUs until it closes the handle. It is closed when the thread exits, at the latest.
 *
 * With `cpus` of n, n - 1 handles can be open at once. A thread that has allocated, freed or validated has its CPU
 * until it exits, also without a handle. So set `cpus` to the number of such threads, plus one. Only with `cpus` of 1
 * do other threads wait while a handle is open, and none may grow or shrink the arena then.
 *
 * @return 0; or an error: FW_E_ARENA, FW_E_NULL, FW_E_UNALIGNED; FW_E_HANDLES if the process has 4,096 open ones;
 *         FW_E_NO_CPU if no CPU is free to be kept, or in a fork's child that cannot use the arena. It does not wait
 *         for other threads; the plain calls work nevertheless.
 *
 * Threads: the local handle is for this thread alone, and not for its signal handlers. A fork's child has only those
 * of the thread that forked.
 *
 * Promised by the caller: `local` points to a pointer.
 */
int fw_local_open(struct fw_arena *arena, struct fw_local **local);

/**
 * Closes a local handle. Blocks that were allocated through it stay allocated.
 *
 * @return 0; FW_E_LOCAL if it is not open; FW_E_THREAD if another thread opened it.
 *
 * Threads: the one that opened the local handle.
 *
 * Promised by the caller: No signal handler of this thread is using it.
 */
int fw_local_close(struct fw_local *local);

/**
 * Allocates as `fw_alloc` does, through a local handle.
 *
 * @return As `fw_alloc`; FW_E_LOCAL, FW_E_THREAD.
 *
 * Threads: the one that opened the local handle.
 *
 * Promised by the caller: `block` points to a pointer.
 */
int fw_local_alloc(struct fw_local *local, uint32_t flags, unsigned int order, void **block);

/**
 * Frees as `fw_free` does, through a local handle.
 *
 * @return As `fw_free`; FW_E_LOCAL, FW_E_THREAD.
 *
 * Threads: the one that opened the local handle.
 *
 * Promised by the caller: As `fw_free`.
 */
int fw_local_free(struct fw_local *local, void *block, unsigned int order);

/**
 * Allocates as `fw_alloc_bulk` does, through a local handle.
 *
 * @return As `fw_alloc_bulk`; FW_E_LOCAL, FW_E_THREAD.
 *
 * Threads: the one that opened the local handle.
 *
 * Promised by the caller: As `fw_alloc_bulk`.
 */
int fw_local_alloc_bulk(struct fw_local *local,
                        uint32_t flags,
                        unsigned int order,
                        size_t count,
                        void **blocks,
                        size_t *allocated);

/**
 * Frees as `fw_free_bulk` does, through a local handle.
 *
 * @return As `fw_free_bulk`; FW_E_LOCAL, FW_E_THREAD.
 *
 * Threads: the one that opened the local handle.
 *
 * Promised by the caller: As `fw_free_bulk`.
 */
int fw_local_free_bulk(struct fw_local *local,
                       unsigned int order,
                       size_t count,
                       void *const *blocks,
                       size_t *freed,
                       size_t *refused);

/**
 * Stores the arena's state and counters in `*stats`.
 *
 * @param stats  Its `size` says how many bytes are written; fields that the library does not know become 0.
 * @return 0; FW_E_ARENA, FW_E_NULL, FW_E_UNALIGNED, FW_E_STRUCT.
 *
 * Threads: any.
 *
 * Promised by the caller: As many bytes as `size` says can be written to `stats`.
 */
int fw_arena_stats(struct fw_arena *arena, struct fw_stats *stats);

/**
 * Writes one of the arena's reports to a buffer, as `snprintf` does.
 *
 * @param text    FW_TEXT_BUDDYINFO or another FW_TEXT_ constant.
 * @param buffer  Gets at most `size` bytes, NUL included. May be NULL if `size` is 0.
 * @return The length of the whole text without NUL, also if it was cut; or FW_E_ARENA, FW_E_NULL, FW_E_OPTION,
 *         FW_E_OVERFLOW.
 *
 * Threads: any.
 *
 * Promised by the caller: `size` bytes can be written to `buffer`.
 */
int fw_arena_text(struct fw_arena *arena, unsigned int text, char *buffer, size_t size);

/**
 * Checks every invariant of the arena.
 *
 * @param why   Gets the first invariant that is violated, in words; at most `size` bytes, NUL included. May be NULL if
 *              `size` is 0.
 * @return 0; FW_E_DAMAGED; FW_E_ARENA, FW_E_NULL, FW_E_OVERFLOW.
 *
 * Threads: no other call of the arena is in progress. It takes time in proportion to the arena's size.
 *
 * Promised by the caller: `size` bytes can be written to `why`.
 */
int fw_arena_validate(struct fw_arena *arena, char *why, size_t size);

/**
 * Returns the library's version, in the form of FW_VERSION.
 *
 * Threads: any.
 */
uint32_t fw_version(void);

/**
 * Returns what an error number means: a text that is never freed, also for a number that is no error.
 *
 * Threads: any, also in signal handlers.
 */
const char *fw_strerror(int error);

/**
 * Returns the name of an error number, such as "FW_E_NULL": a text that is never freed.
 *
 * Threads: any, also in signal handlers.
 */
const char *fw_strerrorname(int error);

/**
 * Prepares options that ask for the default everywhere.
 *
 * @param size  `sizeof(fw_options)`.
 * @return 0; FW_E_NULL, FW_E_UNALIGNED; FW_E_STRUCT if the size cannot be that of the structure.
 *
 * Threads: any.
 *
 * Promised by the caller: `size` bytes can be written to `options`.
 */
int fw_options_init(struct fw_options *options, size_t size);

/**
 * Creates an arena and stores its handle in `*arena`.
 *
 * @param options  See `fw_options`. The library keeps nothing of it but `memory`.
 * @return 0; or an error, and then `*arena` is unchanged and nothing stays mapped. `options->message` gets the reason
 *         in words. FW_E_STRUCT, FW_E_OPTION, FW_E_MECHANISMS, FW_E_NODE, FW_E_NULL, FW_E_UNALIGNED, FW_E_OVERFLOW,
 *         FW_E_HANDLES if the process has 1,024 arenas, and those from FW_E_OS on. Other calls return of these only
 *         FW_E_OS and FW_E_UNSUPPORTED.
 *
 * Threads: any. Ownership: the caller destroys the arena by `fw_arena_destroy`.
 *
 * Promised by the caller: The options can be read, with what they point to, and `message` written. A pointer can be written to `arena`.
 */
int fw_arena_create(const struct fw_options *options, struct fw_arena **arena);

/**
 * Destroys an arena and unmaps its memory, unless the program handed that in.
 *
 * @param flags  0, or FW_DESTROY_BLOCKS to free the blocks that are still allocated.
 * @return 0; FW_E_IN_USE if blocks are allocated and the flag is not set, or if local handles are open: nothing has
 *         changed then, and `allocated` and `locals` of `fw_stats` say which; FW_E_ARENA if it was destroyed before;
 *         FW_E_FLAGS.
 *
 * Threads: no other thread uses the arena during the call or after it.
 *
 * Promised by the caller: No other call uses the arena. With FW_DESTROY_BLOCKS, no block of it is used any more.
 */
int fw_arena_destroy(struct fw_arena *arena, uint32_t flags);

/**
 * Finds the smallest order whose blocks hold `bytes` bytes.
 *
 * @return 0; FW_E_ORDER if the arena's largest block is smaller; FW_E_ZERO_SIZE, FW_E_OVERFLOW, FW_E_ARENA, FW_E_NULL,
 *         FW_E_UNALIGNED.
 *
 * Threads: any.
 *
 * Promised by the caller: A number can be written to `order`.
 */
int fw_arena_order(struct fw_arena *arena, size_t bytes, unsigned int *order);

/**
 * Drains the lists of all CPUs to the zones.
 *
 * @param pages  Where the number of drained pages is stored; NULL for nowhere.
 * @return 0; FW_E_ARENA, FW_E_UNALIGNED.
 *
 * Threads: any.
 *
 * Promised by the caller: A number can be written to `pages`, or it is NULL.
 */
int fw_arena_drain(struct fw_arena *arena, uint64_t *pages);

/**
 * Gives the memory of free blocks back to the operating system.
 *
 * It reads as zero when it is used again. Each block costs a system call.
 *
 * @param order  Smallest order of blocks to give back; at least the pageblock's (2 MiB), whatever is asked for.
 * @param bytes  Where the size of those blocks is stored; NULL for nowhere.
 * @return 0; FW_E_UNSUPPORTED for huge pages and memory that was handed in; FW_E_OS; FW_E_ARENA, FW_E_UNALIGNED.
 *
 * Threads: any.
 *
 * Promised by the caller: A number can be written to `bytes`, or it is NULL.
 */
int fw_arena_trim(struct fw_arena *arena, unsigned int order, uint64_t *bytes);

/**
 * Grows an arena that was created with `limit_bytes`.
 *
 * A request that may reclaim and finds no memory grows the arena by itself.
 *
 * @param bytes  Bytes that shall come, rounded up to whole largest blocks.
 * @param came   Where the bytes that came are stored, perhaps fewer; NULL for nowhere. Unchanged after an error.
 * @return 0; FW_E_AT_LIMIT; FW_E_FIXED_SIZE; FW_E_OS; FW_E_NO_CPU in a fork's child, FW_E_IN_INTERRUPT; FW_E_ARENA,
 *         FW_E_UNALIGNED.
 *
 * Threads: any.
 *
 * Promised by the caller: A number can be written to `came`, or it is NULL.
 */
int fw_arena_grow(struct fw_arena *arena, uint64_t bytes, uint64_t *came);

/**
 * Shrinks an arena that was created with `limit_bytes`: whole largest blocks that are free go.
 *
 * Their memory is given back to the operating system, and faults when it is touched. Memory that was handed in stays
 * as it is. The first largest block of each node stays.
 *
 * @param bytes  Bytes that shall go, rounded up to whole largest blocks.
 * @param gone   Where the bytes that went are stored, perhaps fewer or 0; NULL for nowhere. Unchanged after an error.
 * @return 0; FW_E_FIXED_SIZE; FW_E_OS; FW_E_NO_CPU in a fork's child, FW_E_IN_INTERRUPT; FW_E_ARENA, FW_E_UNALIGNED.
 *
 * Threads: any.
 *
 * Promised by the caller: A number can be written to `gone`, or it is NULL.
 */
int fw_arena_shrink(struct fw_arena *arena, uint64_t bytes, uint64_t *gone);

/**
 * Gives the contents of an allocated block back to the operating system; it reads as zero afterwards.
 *
 * @return 0; FW_E_UNSUPPORTED as of `fw_arena_trim`; FW_E_OS; or an error as of `fw_free`.
 *
 * Threads: any. Ownership: the caller still owns the block.
 *
 * Promised by the caller: The caller owns the block, if it is allocated, and no other thread uses it meanwhile.
 */
int fw_discard(struct fw_arena *arena, void *block, unsigned int order);

/**
 * Gives the contents of `bytes` bytes from `start` on back to the operating system; they read as zero afterwards.
 *
 * They may be parts of blocks and ranges. The pages stay allocated.
 *
 * @param start  Address of a page.
 * @param bytes  Rounded up to whole pages.
 * @return 0; FW_E_UNSUPPORTED as of `fw_arena_trim`; FW_E_OS; FW_E_ZERO_SIZE, FW_E_OVERFLOW; or an error as of
 *         `fw_free` if one of the pages is not allocated, and then nothing has changed.
 *
 * Threads: any. Ownership: the caller still owns the pages.
 *
 * Promised by the caller: The caller owns the pages, as far as they are allocated, and no other thread uses them meanwhile.
 */
int fw_discard_range(struct fw_arena *arena, void *start, size_t bytes);

/**
 * Returns the file of an arena in a memfd, for another process to map.
 *
 * @return A file descriptor, which is the arena's and closed with it; or FW_E_UNSUPPORTED, FW_E_ARENA.
 *
 * Threads: any. Offsets in the file count from the arena's first page, whose address is `fw_stats.start`.
 *
 * Promised by the caller: Other processes write to no block that is used here.
 */
int fw_arena_memfd(struct fw_arena *arena);

/**
 * Exports the arena's state to other processes, through a socket at `path`, until the arena is destroyed.
 *
 * `framewright top --from PATH` shows it.
 *
 * @return 0; FW_E_OS if no socket can be made there or no thread started; FW_E_ARENA, FW_E_NULL.
 *
 * Threads: any.
 *
 * Promised by the caller: `path` is a text or NULL.
 */
int fw_arena_export(struct fw_arena *arena, const char *path);

/**
 * Sets the handler of a signal that may allocate and free; NULL restores the signal's earlier action.
 *
 * A handler set in another way must not call the library. A signal that arrives while its thread changes an arena
 * waits until that is done.
 *
 * @return 0; FW_E_OPTION for a signal that reports a fault and cannot wait (SIGSEGV), or that does not exist; FW_E_OS
 *         if the system refuses.
 *
 * Threads: any; not in a signal handler.
 *
 * Promised by the caller: The handler keeps to what its type says.
 */
int fw_on_signal(int signal, fw_signal_handler handler);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FRAMEWRIGHT_H */
