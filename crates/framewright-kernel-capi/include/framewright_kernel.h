/*
 * framewright_kernel: a page allocator for kernels, with the semantics of Linux's.
 *
 *     static const fw_region map[] = {FW_USABLE(0x100, 0x40000, 0)};
 *     static const uint8_t nodes[] = {0};
 *     static const fw_range image[] = {{0x100, 0x900}};
 *     fw_kernel_options options = {.size = sizeof options, .regions = map, .region_count = 1,
 *                                  .cpu_nodes = nodes, .cpu_count = 1, .reserved = image, .reserved_count = 1};
 *     int error = fw_kernel_boot_within(&options, 0, 0x40000, frames_to_virt);
 *     int64_t frame = fw_kernel_alloc(FW_KERNEL, 0);
 *     if (frame < 0) print(fw_strerror((int)frame));
 *
 * Errors: a function returns 0 or its result, which is not negative; or one of the negative FW_E_ numbers, and then it
 * has changed nothing. The numbers are those of framewright.h, the interface of programs.
 * Units: a frame is an address divided by the page size; an order is the binary logarithm of a number of frames.
 * Hooks: functions that begin with fw_hook_ are the kernel's. None of them calls the allocator.
 * Context: which contexts may call was chosen when the library was built (README.md). No managed memory is touched.
 *
 * Made by cbindgen from crates/framewright-kernel-capi. Change that, and run its tests with UPDATE_HEADER=1.
 */

#ifndef FRAMEWRIGHT_KERNEL_H
#define FRAMEWRIGHT_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/** Initialises a `fw_region`: memory that the allocator manages, from frame `start` to below frame `end`. */
#define FW_USABLE(start, end, node) {(start), (end), (node), 1, 1}

/** Initialises a `fw_region`: memory that is there and withheld, until `fw_kernel_online`. */
#define FW_RESERVED(start, end, node) {(start), (end), (node), 0, 1}

/** Initialises a `fw_region`: address space where `fw_kernel_add` may add memory. */
#define FW_POSSIBLE(start, end, node) {(start), (end), (node), 0, 0}

/**
 * Memory is put on the free lists at boot up to 4 GiB, else when it is used.
 */
#define FW_SECTIONS_BY_SIZE 0

/**
 * All memory is put on the free lists at boot.
 */
#define FW_SECTIONS_AT_BOOT 1

/**
 * Memory is put on the free lists when it is first used, or by `fw_kernel_init_section`.
 */
#define FW_SECTIONS_WHEN_USED 2

/**
 * All memory is zero, that of the descriptors included. Boot writes less then.
 */
#define FW_BOOT_ZEROED 0x1

/**
 * Memory that the most limited devices reach: zone DMA.
 */
#define FW_DMA 0x1

/**
 * Memory that 32-bit devices reach: zone DMA32 or below.
 */
#define FW_DMA32 0x4

/**
 * A task, also while it holds interrupts off.
 */
#define FW_CONTEXT_TASK 0

/**
 * A soft interrupt: it interrupts tasks only.
 */
#define FW_CONTEXT_SOFTIRQ 1

/**
 * An interrupt that hit a task or a soft interrupt.
 */
#define FW_CONTEXT_INTERRUPT 2

/**
 * Any other: an NMI, an interrupt of an interrupt, code that does not know its CPU yet.
 */
#define FW_CONTEXT_OTHER 3

/**
 * The task of a node that reclaims memory: it sleeps as this, and calls `fw_kernel_balance` when it wakes.
 */
#define FW_WAITER_KSWAPD 0

/**
 * The task of a node that compacts memory: it sleeps as this, and calls `fw_kernel_compact` when it wakes.
 */
#define FW_WAITER_KCOMPACTD 1

/**
 * Requests that wait for free memory of a node. The allocator sleeps as these.
 */
#define FW_WAITER_ALLOCATION 2

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
 * State and counters of the allocator, in frames and calls.
 *
 * The figures of a busy allocator are those of no single moment.
 */
typedef struct fw_kernel_stats {
    /**
     * Size of this structure in bytes, as the kernel knows it; set it before the call.
     */
    size_t size;
    /**
     * Frames of memory, whoever has them.
     */
    uint64_t present;
    /**
     * Frames that the allocator may allocate: all but those withheld.
     */
    uint64_t managed;
    /**
     * Frames free in a zone.
     */
    uint64_t free;
    /**
     * Frames allocated.
     */
    uint64_t allocated;
    /**
     * Frames that are neither: kept by CPUs for the next requests, or in quarantine.
     */
    uint64_t cached;
    /**
     * Frames ever allocated.
     */
    uint64_t total_allocated;
    /**
     * Frames ever freed.
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
     * Blocks quarantined because they were written to after their free, with the mechanism `hardened`.
     */
    uint64_t written_after_free;
    /**
     * Free lists rebuilt because a descriptor was damaged.
     */
    uint64_t repairs;
    /**
     * Times that the task of a node that reclaims was woken.
     */
    uint64_t kswapd_wakes;
    /**
     * Order of the largest block.
     */
    uint32_t max_order;
    /**
     * Nodes.
     */
    uint32_t nodes;
    /**
     * Sets of lists: CPUs times the contexts that have lists.
     */
    uint32_t sets;
    /**
     * Binary logarithm of the page size in bytes.
     */
    uint32_t page_shift;
} fw_kernel_stats;

/**
 * A range of memory on one node. FW_USABLE, FW_RESERVED and FW_POSSIBLE initialise one.
 */
typedef struct fw_region {
    /**
     * Its first frame.
     */
    uint64_t start;
    /**
     * The first frame after it.
     */
    uint64_t end;
    /**
     * Its node.
     */
    uint8_t node;
    /**
     * 1 if the allocator may allocate from it. 0 withholds it until `fw_kernel_online`.
     */
    uint8_t usable;
    /**
     * 1 if the memory is there at boot. 0 for address space where `fw_kernel_add` may add memory.
     */
    uint8_t present;
} fw_region;

/**
 * A range of frames.
 */
typedef struct fw_range {
    /**
     * Its first frame.
     */
    uint64_t start;
    /**
     * The first frame after it.
     */
    uint64_t end;
} fw_range;

/**
 * What reclaim is asked for.
 */
typedef struct fw_need {
    /**
     * Number of frames wanted. More is welcome if it needs no extra work; less counts as progress.
     */
    uint64_t frames;
    /**
     * Node that the request prefers.
     */
    uint32_t node;
    /**
     * Order of the request; 0 if frames anywhere suffice.
     */
    uint32_t order;
    /**
     * Flags of the request.
     */
    uint32_t flags;
    /**
     * Rounds already made by this request, or by this run of background reclaim.
     */
    uint32_t attempt;
    /**
     * Exponent of the search: look at 1 / 2^`priority` of what could be freed. It begins at 12 and falls.
     */
    uint32_t priority;
    /**
     * 1 to free only memory that need not be written out.
     */
    uint32_t gentle;
} fw_need;

/**
 * Functions of the kernel. Set `size`, and leave NULL what the kernel has not.
 *
 * No function but `reclaim` and `migrate` may call the allocator. Blocks are named by their first frame.
 */
typedef struct fw_kernel_hooks {
    /**
     * Size of this structure in bytes, as the kernel knows it: `sizeof(fw_kernel_hooks)`.
     */
    size_t size;
    /**
     * Fills a block of 2^`order` frames with zeros, for FW_ZERO. Without it such requests are refused.
     *
     * Context: that of the request.
     */
    void (*zero)(uint64_t frame, uint32_t order);
    /**
     * Fills a freed block with a pattern, for the mechanism `hardened`, which needs this and `is_poisoned`.
     *
     * Context: that of the free.
     */
    void (*poison)(uint64_t frame, uint32_t order);
    /**
     * Returns 1 if each frame of a block holds only that pattern, or only zeros; else 0.
     */
    int (*is_poisoned)(uint64_t frame, uint32_t order);
    /**
     * Returns nanoseconds since any start. Waits of requests need it.
     *
     * Context: any but an NMI.
     */
    uint64_t (*now)(void);
    /**
     * Sleeps as `waiter` of `node`, until `wake` for both or until `deadline` on the clock of `now`.
     *
     * May return early. Context: a task, not pinned, interrupts as the caller of the allocator has them.
     */
    void (*sleep)(uint32_t waiter, uint32_t node, uint64_t deadline);
    /**
     * Wakes the tasks that sleep as `waiter` of `node`.
     *
     * Context: any but an NMI, pinned or not; no lock of the allocator is held.
     */
    void (*wake)(uint32_t waiter, uint32_t node);
    /**
     * Frees memory through the allocator's own calls; returns the number of frames.
     *
     * Its own requests have FW_MEMALLOC, or are FW_NOWAIT. Context: a task, not pinned, no lock held.
     */
    uint64_t (*reclaim)(const struct fw_need *need);
    /**
     * Moves an allocated, movable block from `from` to `to` and frees `from`; returns 0.
     *
     * If the block cannot move now it returns -1, and `to` belongs to the allocator again. Context: as of `reclaim`.
     */
    int (*migrate)(uint64_t from, uint64_t to, uint32_t order);
} fw_kernel_hooks;

/**
 * The memory and the CPUs of a kernel. Set `size`, `regions`, `cpu_nodes`, and leave 0 what is to be as usual.
 *
 * The allocator keeps no pointer of it but the functions of `hooks`. Numbers of frames are addresses divided by the
 * page size.
 */
typedef struct fw_kernel_options {
    /**
     * Size of this structure in bytes, as the kernel knows it: `sizeof(fw_kernel_options)`.
     */
    size_t size;
    /**
     * The memory map: ascending, not overlapping.
     */
    const struct fw_region *regions;
    /**
     * Number of entries in `regions`.
     */
    size_t region_count;
    /**
     * The node of each CPU.
     */
    const uint8_t *cpu_nodes;
    /**
     * Number of CPUs.
     */
    size_t cpu_count;
    /**
     * Frames in use at boot: the kernel's image, the descriptors. In any order; they may overlap.
     */
    const struct fw_range *reserved;
    /**
     * Number of entries in `reserved`.
     */
    size_t reserved_count;
    /**
     * Memory for movable requests only (FW_MOVABLE), as zone Movable.
     */
    const struct fw_range *movable;
    /**
     * Number of entries in `movable`.
     */
    size_t movable_count;
    /**
     * Whole pageblocks that are kept for ranges, and lent to movable requests.
     */
    const struct fw_range *cma;
    /**
     * Number of entries in `cma`.
     */
    size_t cma_count;
    /**
     * Distances between nodes, row by row. NULL if all other nodes are equally far.
     */
    const uint8_t *distances;
    /**
     * Number of entries in `distances`: nodes times nodes.
     */
    size_t distance_count;
    /**
     * Mechanisms by preset and switches: "default", "baseline", "default,hardened=zero". NULL for the default.
     */
    const char *mechanisms;
    /**
     * Functions that the allocator seldom calls; NULL for none.
     */
    const struct fw_kernel_hooks *hooks;
    /**
     * First frame above zone DMA. By default that at 16 MiB; 1 for no such zone.
     */
    uint64_t dma_end;
    /**
     * First frame above zone DMA32. By default that at 4 GiB; 1 for no such zone.
     */
    uint64_t dma32_end;
    /**
     * KiB kept from ordinary requests. By default what Linux computes.
     */
    uint64_t min_free_kbytes;
    /**
     * Gap between watermarks in ten-thousandths of the zone. By default 10.
     */
    uint32_t watermark_scale_factor;
    /**
     * Binary logarithm of the page size in bytes. By default 12.
     */
    uint32_t page_shift;
    /**
     * Order of the largest block, at most 18. By default 10.
     */
    uint32_t max_order;
    /**
     * Order of a pageblock. By default 9, or `max_order` if that is smaller.
     */
    uint32_t pageblock_order;
    /**
     * `FW_SECTIONS_BY_SIZE` or another FW_SECTIONS_ constant.
     */
    uint32_t sections;
    /**
     * Any of the FW_BOOT_ constants, joined by `|`.
     */
    uint32_t flags;
} fw_kernel_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Allocates a block of 2^`order` frames; returns its first.
 *
 * The frame's number is a multiple of 2^`order`. The contents are those of the last use, unless `flags` has FW_ZERO.
 *
 * @param flags  FW_KERNEL or another request, joined with further FW_ flags by `|`.
 * @return The frame; or an error: FW_E_NO_MEMORY, FW_E_FRAGMENTED, FW_E_WOULD_WAIT, FW_E_NO_ZONE, FW_E_ORDER,
 *         FW_E_FLAGS, FW_E_HOOK, FW_E_NO_CPU, FW_E_NOT_BOOTED.
 *
 * Context: each that the library is built for; only a task may wait, so others use FW_ATOMIC or FW_NOWAIT.
 */
int64_t fw_kernel_alloc(uint32_t flags, unsigned int order);

/**
 * Allocates as `fw_kernel_alloc` does, from a node if possible; with FW_THISNODE from no other.
 *
 * @return As `fw_kernel_alloc`; FW_E_NODE if there is no such node; FW_E_LEFT_OUT in a library with `minimal`.
 *
 * Context: as of `fw_kernel_alloc`.
 */
int64_t fw_kernel_alloc_on(unsigned int node, uint32_t flags, unsigned int order);

/**
 * Allocates as `fw_kernel_alloc` does, all frames below a limit, such as that of a device's addresses.
 *
 * @param limit  First frame that the block must not reach.
 * @return As `fw_kernel_alloc`; FW_E_LEFT_OUT in a library with `minimal`.
 *
 * Context: as of `fw_kernel_alloc`.
 */
int64_t fw_kernel_alloc_below(uint64_t limit, uint32_t flags, unsigned int order);

/**
 * Frees a block that was allocated with this order.
 *
 * @return 0; or an error, and then nothing has changed: FW_E_ALREADY_FREE, FW_E_WRONG_ORDER, FW_E_NOT_HEAD,
 *         FW_E_MISALIGNED, FW_E_FOREIGN, FW_E_ORDER, FW_E_OFFLINE, FW_E_QUARANTINED, FW_E_NO_CPU, FW_E_NOT_BOOTED.
 *
 * Context: each that the library is built for. Two CPUs that free one block in the same instant may both succeed,
 * unless the mechanism `hardened` is on.
 */
int fw_kernel_free(uint64_t frame, unsigned int order);

/**
 * Allocates up to `wanted` blocks of 2^`order` frames and stores their first frames in `frames`.
 *
 * Cheaper than one by one. Stops when memory is short.
 *
 * @param frames  Array of `wanted` entries; those after the last block are unchanged. May be NULL if `wanted` is 0.
 * @return The number of blocks, which is less than `wanted` when memory is short; or an error if there is not even
 *         one: as of `fw_kernel_alloc`, FW_E_NULL, FW_E_UNALIGNED, FW_E_OVERFLOW.
 *
 * Context: as of `fw_kernel_alloc`.
 *
 * Promised by the caller: `wanted` numbers can be written to `frames`.
 */
int64_t fw_kernel_alloc_bulk(uint32_t flags, unsigned int order, size_t wanted, uint64_t *frames);

/**
 * Frees `given` blocks that were allocated with this order. Each is freed or refused on its own.
 *
 * @param frames   Array of `given` first frames. May be NULL if `given` is 0.
 * @param freed    Where the number of freed blocks is stored; NULL for nowhere.
 * @param refused  Where the index of the first block that was refused is stored, if there is one; NULL for nowhere.
 * @return 0 if all were freed; else the error of the first that was refused, as of `fw_kernel_free`. The others are
 *         freed nevertheless. FW_E_NULL, FW_E_UNALIGNED and FW_E_OVERFLOW are about the pointers: nothing was freed.
 *
 * Context: as of `fw_kernel_free`.
 *
 * Promised by the caller: `frames` holds `given` numbers, and a number can be written to `freed` and to `refused`.
 */
int fw_kernel_free_bulk(unsigned int order, size_t given, const uint64_t *frames, size_t *freed, size_t *refused);

/**
 * Allocates a block from any context, an NMI included; never waits.
 *
 * Takes it from a zone whose lock is free at this moment. Flags that ask for reclaim are ignored.
 *
 * @param order  One that the lists of CPUs keep: 0 to 3, and that of a pageblock.
 * @return As `fw_kernel_alloc`; FW_E_LOCKED if a zone that might have served it was locked; FW_E_NOT_KEPT for another
 *         order.
 *
 * Context: any.
 */
int64_t fw_kernel_alloc_nolock(uint32_t flags, unsigned int order);

/**
 * Frees a block from any context, an NMI included; never waits.
 *
 * If the zone is locked, the next holder of its lock frees the block.
 *
 * @return As `fw_kernel_free`; FW_E_FREES if too many other CPUs do so at once, and then nothing has changed.
 *
 * Context: any.
 */
int fw_kernel_free_nolock(uint64_t frame, unsigned int order);

/**
 * Allocates `frames` frames side by side, the first a multiple of 2^`align`; returns the first.
 *
 * The number is not rounded up to a power of two. Free the range by `fw_kernel_free_range`, whole or in parts.
 *
 * @param align  Binary logarithm, at most 51.
 * @return The frame; or an error as of `fw_kernel_alloc`; FW_E_ZERO_SIZE; FW_E_IN_INTERRUPT for a range that is larger
 *         than the largest block, in an interrupt.
 *
 * Context: as of `fw_kernel_alloc`.
 */
int64_t fw_kernel_alloc_range(uint32_t flags, uint64_t frames, unsigned int align);

/**
 * Allocates exactly the `frames` frames from `start` on, of any number and alignment, within one zone.
 *
 * Movable blocks in the way are moved, if `flags` lets the caller wait. Free the range by `fw_kernel_free_range`.
 *
 * @return 0; or an error, and then nothing is allocated: FW_E_BUSY, FW_E_CONTENDED, FW_E_FOREIGN, FW_E_ZONE,
 *         FW_E_OFFLINE, FW_E_QUARANTINED, FW_E_ZERO_SIZE, FW_E_OVERFLOW, FW_E_FLAGS, FW_E_HOOK, FW_E_IN_INTERRUPT,
 *         FW_E_LEFT_OUT, FW_E_NOT_BOOTED.
 *
 * Context: a task.
 */
int fw_kernel_take_range(uint64_t start, uint64_t frames, uint32_t flags);

/**
 * Frees `frames` frames from `start` on, whatever blocks or ranges they are parts of.
 *
 * Blocks at the ends are cut: their other frames stay allocated, as the largest aligned blocks that tile them.
 *
 * @return 0; or an error as of `fw_kernel_free`, and then nothing was freed; FW_E_ZERO_SIZE, FW_E_OVERFLOW. If another
 *         CPU frees a part of the range meanwhile, frames before that part may be freed all the same.
 *
 * Context: as of `fw_kernel_free`.
 */
int fw_kernel_free_range(uint64_t start, uint64_t frames);

/**
 * Makes blocks of order `to` out of an allocated block of order `from`. Each is then freed on its own.
 *
 * @return 0; FW_E_ORDER if `to` is larger than `from`; or an error as of `fw_kernel_free`.
 *
 * Context: as of `fw_kernel_free`.
 */
int fw_kernel_split(uint64_t frame, unsigned int from, unsigned int to);

/**
 * Finds the allocated block that a frame lies in.
 *
 * @param head   Where the block's first frame is stored; NULL for nowhere.
 * @param order  Where the block's order is stored; NULL for nowhere.
 * @return 0; or an error: FW_E_FOREIGN, FW_E_ALREADY_FREE, FW_E_OFFLINE, FW_E_QUARANTINED, FW_E_UNALIGNED,
 *         FW_E_NOT_BOOTED.
 *
 * Context: any. The answer is about this moment, unless the caller owns the block. While another CPU frees other parts
 * of a range, the owner of a part may be told FW_E_ALREADY_FREE; asked again, it finds the part.
 *
 * Promised by the caller: Numbers can be written to `head` and `order`, or they are NULL.
 */
int fw_kernel_find(uint64_t frame, uint64_t *head, unsigned int *order);

/**
 * Frees memory that was withheld since boot, or by `fw_kernel_offline`: an initial RAM disk, for example.
 *
 * @return The number of frames that are free now and were not; FW_E_ZERO_SIZE, FW_E_OVERFLOW, FW_E_NOT_BOOTED.
 *
 * Context: a task. Never frees the descriptors: the caller names frames that nothing uses.
 */
int64_t fw_kernel_online(uint64_t start, uint64_t frames);

/**
 * Withholds memory until `fw_kernel_online`; movable blocks are moved away.
 *
 * @return 0; or an error as of `fw_kernel_take_range`.
 *
 * Context: a task.
 */
int fw_kernel_offline(uint64_t start, uint64_t frames);

/**
 * Adds memory that was not there at boot, in whole largest blocks, where a region with `present` 0 says it may come.
 *
 * @return The number of frames; or an error, and then none was added: FW_E_FOREIGN, FW_E_RANGE, FW_E_BUSY,
 *         FW_E_ZERO_SIZE, FW_E_OVERFLOW, FW_E_LEFT_OUT, FW_E_NOT_BOOTED.
 *
 * Context: a task; one caller at a time for a range.
 */
int64_t fw_kernel_add(uint64_t start, uint64_t frames);

/**
 * Gives all frames that CPUs keep for their next requests back to the zones.
 *
 * @return The number of frames; FW_E_NOT_BOOTED.
 *
 * Context: a task. In an interrupt lists of other contexts stay as they are.
 */
int64_t fw_kernel_drain(void);

/**
 * Gives the frames that one CPU keeps back to the zones.
 *
 * @return The number of frames; FW_E_NO_SUCH_CPU, FW_E_NOT_BOOTED.
 *
 * Context: as of `fw_kernel_drain`; any CPU may do it for another.
 */
int64_t fw_kernel_drain_cpu(unsigned int cpu);

/**
 * Takes a CPU offline: drains its lists and folds its counters.
 *
 * @return The number of frames drained; FW_E_NO_SUCH_CPU, FW_E_NOT_BOOTED.
 *
 * Context: a task of another CPU, while that one runs no more.
 */
int64_t fw_kernel_cpu_offline(unsigned int cpu);

/**
 * Tells that a CPU that was taken offline runs again.
 *
 * @return 0; FW_E_NO_SUCH_CPU, FW_E_NOT_BOOTED.
 *
 * Context: any.
 */
int fw_kernel_cpu_online(unsigned int cpu);

/**
 * Folds what a CPU has counted, and frees what its lists have long kept of other nodes.
 *
 * @return The number of frames freed; FW_E_NO_SUCH_CPU, FW_E_NOT_BOOTED.
 *
 * Context: a task, about once a second for each CPU; any CPU may do it for another.
 */
int64_t fw_kernel_refresh(unsigned int cpu);

/**
 * Reclaims memory of a node, by the hook `reclaim`, until there is enough: one run of kswapd.
 *
 * @return The number of frames freed; FW_E_NODE, FW_E_NOT_BOOTED.
 *
 * Context: a task, not pinned: that which sleeps as FW_WAITER_KSWAPD of the node, each time it wakes, or any other.
 */
int64_t fw_kernel_balance(unsigned int node);

/**
 * Compacts memory of a node, by the hook `migrate`, until there are large blocks: one run of kcompactd.
 *
 * @return The number of ranges that became free; FW_E_NODE, FW_E_NOT_BOOTED.
 *
 * Context: a task, not pinned: that which sleeps as FW_WAITER_KCOMPACTD of the node, each time it wakes, or any other.
 */
int64_t fw_kernel_compact(unsigned int node);

/**
 * Puts one section of memory on the free lists that boot left out (`sections` of the options).
 *
 * @return 1; 0 if none is left; FW_E_NODE, FW_E_NOT_BOOTED.
 *
 * Context: as of `fw_kernel_alloc`; takes a zone lock once.
 */
int fw_kernel_init_section(unsigned int node);

/**
 * Stores the allocator's state and counters in `*stats`.
 *
 * @param stats  Its `size` says how many bytes are written; fields that the library does not know become 0.
 * @return 0; FW_E_NULL, FW_E_UNALIGNED, FW_E_STRUCT, FW_E_NOT_BOOTED.
 *
 * Context: any but an NMI.
 *
 * Promised by the caller: As many bytes as `size` says can be written to `stats`.
 */
int fw_kernel_get_stats(struct fw_kernel_stats *stats);

/**
 * Writes one of the allocator's reports to a buffer, as `snprintf` does.
 *
 * @param text    FW_TEXT_BUDDYINFO or another FW_TEXT_ constant.
 * @param buffer  Gets at most `size` bytes, NUL included. May be NULL if `size` is 0.
 * @return The length of the whole text without NUL, also if it was cut; or FW_E_NULL, FW_E_OPTION, FW_E_OVERFLOW,
 *         FW_E_NOT_BOOTED.
 *
 * Context: any but an NMI. The zone lock is held while the blocks of a zone are counted.
 *
 * Promised by the caller: `size` bytes can be written to `buffer`.
 */
int fw_kernel_text(unsigned int text, char *buffer, size_t size);

/**
 * Checks every invariant of the allocator.
 *
 * @param why  Gets the first invariant that is violated, in words; at most `size` bytes, NUL included. May be NULL if
 *             `size` is 0.
 * @return 0; FW_E_DAMAGED; FW_E_NULL, FW_E_OVERFLOW, FW_E_NOT_BOOTED.
 *
 * Context: a task, while no other call is in progress. It takes time in proportion to memory.
 *
 * Promised by the caller: `size` bytes can be written to `why`.
 */
int fw_kernel_validate(char *why, size_t size);

/**
 * Returns the library's version, in the form of FW_VERSION.
 *
 * Context: any.
 */
uint32_t fw_version(void);

/**
 * Returns what an error number means: a text that is never freed, also for a number that is no error.
 *
 * Context: any.
 */
const char *fw_strerror(int error);

/**
 * Returns the name of an error number, such as "FW_E_NULL": a text that is never freed.
 *
 * Context: any.
 */
const char *fw_strerrorname(int error);

/**
 * Returns the bytes that the allocator's descriptors need.
 *
 * About 23 bytes a frame of 1 GiB, and 17 from 64 GiB on. `reserved` does not change it.
 *
 * @return The bytes; or an error: FW_E_STRUCT, FW_E_OPTION, FW_E_MECHANISMS, FW_E_HOOK, FW_E_NODE, FW_E_NULL,
 *         FW_E_UNALIGNED, FW_E_OVERFLOW, FW_E_RESERVED, and those from FW_E_GEOMETRY to FW_E_DESCRIPTORS.
 *
 * Context: any.
 *
 * Promised by the caller: The options can be read, with what they point to.
 */
int64_t fw_kernel_bytes(const struct fw_kernel_options *options);

/**
 * Returns the first frame of the highest place for `bytes` bytes in memory that is usable and not reserved.
 *
 * @param first  First frame that the kernel has mapped, or may map.
 * @param end    First frame after these.
 * @return The frame; FW_E_NO_PLACE; or an error as of `fw_kernel_bytes` about a field.
 *
 * Context: any. The kernel maps the place, and reserves it: whole frames, `bytes` rounded up.
 *
 * Promised by the caller: As `fw_kernel_bytes`.
 */
int64_t fw_kernel_place(const struct fw_kernel_options *options, size_t bytes, uint64_t first, uint64_t end);

/**
 * Boots the allocator with its descriptors in the highest place that has room for them, and reserves it.
 *
 * @param first  First frame that the kernel has mapped, or may map.
 * @param end    First frame after these.
 * @param map    Returns the address of `frames` frames from `start` on, which become the allocator's. Called once.
 * @return 0; or an error as of `fw_kernel_boot`; FW_E_NO_PLACE; FW_E_MANY_RESERVED for more than 31 reserved ranges;
 *         FW_E_NULL also if `map` is NULL or returns it.
 *
 * Context: as of `fw_kernel_boot`.
 *
 * Promised by the caller: As `fw_kernel_boot`, for the memory that `map` returns.
 */
int fw_kernel_boot_within(const struct fw_kernel_options *options,
                          uint64_t first,
                          uint64_t end,
                          void *(*map)(uint64_t start, uint64_t frames));

/**
 * Boots the allocator with its descriptors in `block`. All usable memory that is not reserved is free then.
 *
 * @param options  As given to `fw_kernel_bytes`, with the block's own frames reserved too, unless no memory is usable
 *                 there.
 * @param own      The block's first frame, as `fw_kernel_place` says; UINT64_MAX if it lies in no frame.
 * @param block    Memory of any alignment and contents; the allocator's for good.
 * @param bytes    As `fw_kernel_bytes` says, or more.
 * @return 0; or an error, and then nothing has changed but the contents of `block`: FW_E_BOOTED, FW_E_DESCRIPTORS,
 *         FW_E_UNRESERVED, and those of `fw_kernel_bytes`.
 *
 * Context: one CPU, whose hooks work. Others may follow.
 *
 * Promised by the caller: The options can be read, with what they point to. The hooks do what the header says, now and later. `bytes` bytes
 * can be written to `block`, and nothing else uses them.
 */
int fw_kernel_boot(const struct fw_kernel_options *options, uint64_t own, void *block, size_t bytes);

/**
 * Returns the number of the running CPU, below the number of CPUs in the options.
 *
 * No other CPU has that number. Called pinned; or not, and then for a hint.
 */
extern size_t fw_hook_cpu(void);

/**
 * Turns interrupts of this CPU off, and returns what `fw_hook_irq_restore` needs. Nests.
 *
 * Called in every context, an NMI included.
 */
extern size_t fw_hook_irq_save(void);

/**
 * Restores the state before the `fw_hook_irq_save` that returned `saved`.
 */
extern void fw_hook_irq_restore(size_t saved);

/**
 * Turns preemption off. Nests. Needed with the features `tasks`, `interrupts` and `softirqs`.
 *
 * From here to `fw_hook_unpin` the caller stays on its CPU, and no other task runs there.
 */
extern void fw_hook_pin(void);

/**
 * Ends one `fw_hook_pin`; may reschedule at the last one.
 */
extern void fw_hook_unpin(void);

/**
 * Returns `FW_CONTEXT_TASK` or another FW_CONTEXT_ constant. Needed with `interrupts` and `softirqs`.
 *
 * Each context that may have interrupted one of its kind is FW_CONTEXT_OTHER. Called pinned or not.
 */
extern uint32_t fw_hook_context(void);

/**
 * Makes every other CPU pass a full fence; returns when all have passed one. Needed with `fence-interrupts`.
 *
 * Context: pinned, interrupts as the allocator's caller has them. Several CPUs may be here at once, so a CPU that
 * waits must still answer the others: interrupts stay on.
 */
extern void fw_hook_fence_others(void);

/**
 * Returns 1 if interrupts of this CPU are on, else 0. Needed with `fence-interrupts`.
 */
extern int fw_hook_interrupts_on(void);

/**
 * Tells where the library met a bug of its own; should not return.
 *
 * @param file    Text of `length` bytes, without NUL.
 *
 * A release build has no such place, and does not need this function.
 */
extern void fw_hook_panic(const char *file, size_t length, uint32_t line);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FRAMEWRIGHT_KERNEL_H */
