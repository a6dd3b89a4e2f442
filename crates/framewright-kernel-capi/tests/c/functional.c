/* Every call does what the header says. */
#include "stub.h"

static uint64_t alloc(uint32_t flags, unsigned order)
{
    uint64_t frame = (uint64_t)GOT(fw_kernel_alloc(flags, order));
    CHECK(frame >= FIRST && frame < END && frame % (1u << order) == 0);
    at_rest();
    return frame;
}

static void blocks(void)
{
    uint64_t page = alloc(FW_KERNEL, 0), huge = alloc(FW_KERNEL, 9), head;
    unsigned order;
    OK(fw_kernel_find(huge + 17, &head, &order));
    CHECK(head == huge && order == 9);
    OK(fw_kernel_find(page, NULL, NULL));
    memset(address_of(page), 7, PAGE);
    OK(fw_kernel_free(page, 0));
    OK(fw_kernel_split(huge, 9, 8));
    OK(fw_kernel_free(huge + 256, 8));
    OK(fw_kernel_free(huge, 8));
    page = alloc(FW_KERNEL | FW_ZERO, 0);
    CHECK(*(char *)address_of(page) == 0 && stub.zeroed == 1);
    OK(fw_kernel_free(page, 0));

    uint64_t other = (uint64_t)GOT(fw_kernel_alloc_on(1, FW_KERNEL | FW_THISNODE, 3));
    CHECK(other >= 0x2800);
    OK(fw_kernel_free(other, 3));
    uint64_t low = (uint64_t)GOT(fw_kernel_alloc_below(0x1000, FW_KERNEL, 4));
    CHECK(low + 16 <= 0x1000);
    OK(fw_kernel_free(low, 4));
    low = alloc(FW_KERNEL | FW_DMA, 0);
    CHECK(low < 0x1000);
    OK(fw_kernel_free(low, 0));
    uint64_t movable = alloc(FW_MOVABLE, 0);
    OK(fw_kernel_free(movable, 0));
    at_rest();
}

static void bulk(void)
{
    uint64_t frames[100];
    size_t freed = 7;
    CHECK(GOT(fw_kernel_alloc_bulk(FW_KERNEL, 0, 100, frames)) == 100);
    CHECK(stats().allocated == 100);
    OK(fw_kernel_free_bulk(0, 100, frames, &freed, NULL));
    CHECK(freed == 100);
    CHECK(GOT(fw_kernel_alloc_bulk(FW_KERNEL, 0, 0, NULL)) == 0);
    OK(fw_kernel_free_bulk(0, 0, NULL, NULL, NULL));
    at_rest();
}

static void ranges(void)
{
    uint64_t range = (uint64_t)GOT(fw_kernel_alloc_range(FW_KERNEL, 100, 4));
    CHECK(range % 16 == 0 && stats().allocated == 100);
    OK(fw_kernel_free_range(range + 10, 80));
    OK(fw_kernel_free_range(range, 10));
    OK(fw_kernel_free_range(range + 90, 10));

    /* A movable block in CMA memory gives way to a range there. */
    OK(fw_kernel_take_range(0x1400, 0x400, FW_KERNEL));
    OK(fw_kernel_free_range(0x1400, 0x400));
    OK(fw_kernel_take_range(0x4000, 1, FW_MOVABLE));
    movable_block = 0x4000;
    strcpy(address_of(movable_block), "moves");
    OK(fw_kernel_take_range(0x4000, 0x200, FW_MOVABLE));
    CHECK(stub.migrated == 1 && movable_block != 0x4000 && strcmp(address_of(movable_block), "moves") == 0);
    OK(fw_kernel_free(movable_block, 0));
    OK(fw_kernel_free_range(0x4000, 0x200));
    CHECK(stats().allocated == 0);
    at_rest();
}

static void any_context(void)
{
    for (uint32_t context = FW_CONTEXT_TASK; context <= FW_CONTEXT_OTHER; context++) {
        stub.context = context;
        stub.irqs_off = true;
        uint64_t frame = (uint64_t)GOT(fw_kernel_alloc_nolock(FW_ATOMIC, 0));
        OK(fw_kernel_free_nolock(frame, 0));
        CHECK(stub.irqs_off && stub.pins == 0);
        stub.irqs_off = false;
    }
    stub.context = FW_CONTEXT_INTERRUPT;
    uint64_t frame = alloc(FW_ATOMIC, 0);
    OK(fw_kernel_free(frame, 0));
    stub.context = FW_CONTEXT_TASK;
}

static void upkeep(void)
{
    uint64_t frame = alloc(FW_KERNEL, 0);
    OK(fw_kernel_free(frame, 0));
    CHECK(stats().cached != 0);
    CHECK(GOT(fw_kernel_drain()) != 0);
    CHECK(stats().cached == 0);
    stub.cpu = 1;
    frame = alloc(FW_KERNEL, 0);
    OK(fw_kernel_free(frame, 0));
    stub.cpu = 0;
    CHECK(GOT(fw_kernel_drain_cpu(0)) == 0);
    CHECK(GOT(fw_kernel_drain_cpu(1)) != 0);
    GOT(fw_kernel_cpu_offline(1));
    OK(fw_kernel_cpu_online(1));
    GOT(fw_kernel_refresh(0));
    GOT(fw_kernel_balance(0));
    GOT(fw_kernel_compact(1));
    CHECK(GOT(fw_kernel_init_section(0)) == 0);
    at_rest();
}

static void memory_that_comes_and_goes(void)
{
    uint64_t managed = stats().managed;
    CHECK(GOT(fw_kernel_online(0x2400, 0x400)) == 0x400);
    CHECK(GOT(fw_kernel_online(0x2400, 0x400)) == 0);
    CHECK(GOT(fw_kernel_add(0x8000, 0x400)) == 0x400);
    CHECK(stats().managed == managed + 0x800);
    OK(fw_kernel_offline(0x8000, 0x400));
    CHECK(GOT(fw_kernel_online(0x8000, 0x400)) == 0x400);
    at_rest();
}

/* Memory runs out; reclaim and the tasks of nodes are asked. */
static void shortage(void)
{
    static uint64_t frames[END];
    int64_t count = GOT(fw_kernel_alloc_bulk(FW_NOWAIT, 0, END, frames));
    CHECK(count > 0x3000 && stub.woken != 0);
    for (reclaimable_count = 0; reclaimable_count < 64; reclaimable_count++)
        reclaimable[reclaimable_count] = frames[--count];
    uint64_t last = alloc(FW_KERNEL, 0);
    CHECK(stub.reclaimed != 0 && reclaimable_count < 64);
    OK(fw_kernel_free(last, 0));
    while (reclaimable_count != 0) OK(fw_kernel_free(reclaimable[--reclaimable_count], 0));
    OK(fw_kernel_free_bulk(0, (size_t)count, frames, NULL, NULL));
    CHECK(stats().allocated == 0);
    at_rest();
}

static void texts(void)
{
    static char text[1 << 16], cut[8];
    const uint32_t texts[] = {FW_TEXT_BUDDYINFO, FW_TEXT_ZONEINFO, FW_TEXT_VMSTAT, FW_TEXT_PAGETYPEINFO};
    const char *begins[] = {"Node 0, zone      DMA", "Node 0, zone      DMA\n", "nr_free_pages ", "Page block order: 9\n"};
    for (unsigned i = 0; i < 4; i++) {
        int64_t length = GOT(fw_kernel_text(texts[i], text, sizeof text));
        CHECK((size_t)length == strlen(text) && strncmp(text, begins[i], strlen(begins[i])) == 0);
        CHECK(fw_kernel_text(texts[i], NULL, 0) == length);
        CHECK(fw_kernel_text(texts[i], cut, sizeof cut) == length);
        CHECK(strlen(cut) == sizeof cut - 1 && strncmp(cut, text, sizeof cut - 1) == 0);
    }
    CHECK(fw_version() == FW_VERSION);
    CHECK(strcmp(fw_strerrorname(FW_E_NOT_BOOTED), "FW_E_NOT_BOOTED") == 0);
    CHECK(strcmp(fw_strerror(FW_E_ALREADY_FREE), "the block is free already") == 0);
}

/* A structure of an older kernel gets what it knows, and one of a newer kernel zeros. */
static void versions(void)
{
    struct {
        fw_kernel_stats known;
        uint64_t newer;
    } stats = {.known.size = sizeof stats, .newer = 7};
    OK(fw_kernel_get_stats(&stats.known));
    CHECK(stats.newer == 0 && stats.known.nodes == 2 && stats.known.sets % CPUS == 0 && stats.known.max_order == 10);
}

static void hardened(void)
{
    uint64_t page = alloc(FW_KERNEL, 0);
    OK(fw_kernel_free(page, 0));
    CHECK(stub.poisoned != 0);
    GOT(fw_kernel_drain());
    *(char *)address_of(page) = 7;
    static uint64_t frames[END];
    int64_t count = GOT(fw_kernel_alloc_bulk(FW_NOWAIT, 0, END, frames));
    for (int64_t i = 0; i < count; i++) CHECK(frames[i] != page);
    OK(fw_kernel_free_bulk(0, (size_t)count, frames, NULL, NULL));
    CHECK(stats().written_after_free == 1);
    CHECK(fw_kernel_find(page, NULL, NULL) == FW_E_QUARANTINED);
}

int main(int argc, char **argv)
{
    (void)argv;
    bool is_hardened = argc > 1;
    if (is_hardened) boot_at_once("default,hardened=poison");
    else boot(NULL, &HOOKS);
    validate();
    CHECK(stats().allocated == 0 && stats().free == stats().managed);
    if (is_hardened) {
        hardened();
    } else {
        blocks();
        bulk();
        ranges();
        any_context();
        upkeep();
        memory_that_comes_and_goes();
        shortage();
        texts();
        versions();
    }
    validate();
#ifdef FENCE_INTERRUPTS
    CHECK(is_hardened || stub.fences != 0);
#endif
    puts("functional: all right");
    return 0;
}
