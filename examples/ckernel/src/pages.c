/*
 * The page allocator: this kernel's hooks, and its boot. A kernel that embeds Framewright writes this file.
 *
 * The library is built for one CPU (feature one-cpu), and for calls that hold interrupts off, which is the default.
 */
#include "kernel.h"

/* The hooks that the linker binds. */

size_t fw_hook_cpu(void) { return 0; }
size_t fw_hook_irq_save(void) { return irq_save(); }
void fw_hook_irq_restore(size_t saved) { irq_restore(saved); }

/* A hook that is a pointer: for FW_ZERO. */
static void zero(uint64_t frame, uint32_t order)
{
    uint64_t *word = address_of(frame);
    for (size_t left = ((size_t)PAGE << order) / sizeof *word; left != 0; left--) *word++ = 0;
}

#define MAX_REGIONS 32

extern char kernel_start[], kernel_end[];

static uint64_t frame_of(const void *address) { return (uint64_t)address >> PAGE_SHIFT; }

/* Copies the usable memory of the loader's map, in whole frames and ascending order; returns the number of regions. */
static size_t regions_of(const struct start_info *loaded, fw_region *regions)
{
    const struct memory_map_entry *entries = (const void *)loaded->memory_map;
    size_t count = 0;
    for (uint32_t i = 0; i < loaded->memory_map_entries && count < MAX_REGIONS; i++) {
        if (entries[i].kind != 1) continue;
        uint64_t start = (entries[i].address + PAGE - 1) >> PAGE_SHIFT;
        uint64_t end = (entries[i].address + entries[i].size) >> PAGE_SHIFT;
        if (start >= end) continue;
        size_t at = count++;
        for (; at != 0 && regions[at - 1].start > start; at--) regions[at] = regions[at - 1];
        regions[at] = (fw_region)FW_USABLE(start, end, 0);
    }
    return count;
}

/* Where the descriptors lie. */
static void *mapped(uint64_t start, uint64_t frames)
{
    print("descriptors: ");
    print_number(frames, 10);
    print(" frames from 0x");
    print_number(start, 16);
    print(" on\n");
    return address_of(start);
}

void boot_pages(const struct start_info *loaded)
{
    static fw_region regions[MAX_REGIONS];
    static const uint8_t nodes[] = {0};
    static const fw_kernel_hooks hooks = {.size = sizeof hooks, .zero = zero};
    /* Firmware and the start information below 1 MiB, and this kernel. The allocator reserves its descriptors itself. */
    const fw_range reserved[] = {{0, 0x100}, {frame_of(kernel_start), frame_of(kernel_end + PAGE - 1)}};
    fw_kernel_options options = {
        .size = sizeof options,
        .regions = regions,
        .region_count = regions_of(loaded, regions),
        .cpu_nodes = nodes,
        .cpu_count = 1,
        .reserved = reserved,
        .reserved_count = 2,
        .hooks = &hooks,
    };
    /* The first 512 GiB are mapped. */
    int error = fw_kernel_boot_within(&options, 0, 1u << 27, mapped);
    if (error) die("fw_kernel_boot_within", error);
}
