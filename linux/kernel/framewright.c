// SPDX-License-Identifier: GPL-2.0
/*
 * Framewright as page allocator: between mm/ and the part in Rust.
 *
 * Linux keeps zonelists, watermarks, reclaim and the preparation of pages. Here a zone becomes a number, a page its frame
 * number, and alloc_flags the bits of linux/glue. The second half of the file is what the part in Rust asks of Linux:
 * preemption, interrupts, the number and context of the CPU, a fence on all other CPUs, counts and tracepoints.
 *
 * Nothing here is called unless the command line has framewright=PRESET[,SWITCH=CHOICE...].
 */
#define pr_fmt(fmt) "framewright: " fmt

#include <linux/bug.h>
#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/memblock.h>
#include <linux/page-isolation.h>
#include <linux/pageblock-flags.h>
#include <linux/proc_fs.h>
#include <linux/sched/clock.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/stop_machine.h>
#include <linux/timex.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <linux/vmstat.h>
#include <trace/events/kmem.h>

#include "internal.h"

/* The largest order, inclusively: its name has changed its meaning. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define FW_MAX_ORDER MAX_PAGE_ORDER
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#define FW_MAX_ORDER MAX_ORDER
#else
#define FW_MAX_ORDER (MAX_ORDER - 1)
#endif

/* What a watermark leaves out for the high-atomic reserve. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#define FW_HIGHATOMIC_COUNT nr_free_highatomic
#else
#define FW_HIGHATOMIC_COUNT nr_reserved_highatomic
#endif

/* Types, kinds of zones and flags of a request, as linux/glue numbers them. */
enum { FW_UNMOVABLE, FW_MOVABLE, FW_RECLAIMABLE, FW_HIGHATOMIC, FW_CMA, FW_ISOLATE };
enum { FW_ZONE_DMA, FW_ZONE_DMA32, FW_ZONE_NORMAL, FW_ZONE_MOVABLE, FW_ZONES };
#define FW_MAY_HIGHATOMIC 8
#define FW_MAY_CMA 0x10
#define FW_NOFRAGMENT 0x20
#define FW_KSWAPD 0x40

#define FW_BOOSTS (1ULL << 62)
#define FW_NONE (~0ULL)

#define FW_REGIONS 512

struct fw_range {
	u64 start, end;
};

struct fw_region {
	struct fw_range range;
	u8 node;
	bool usable, present;
};

struct fw_linux_boot {
	const char *options;
	size_t options_length;
	const struct fw_region *regions;
	size_t regions_count;
	const struct fw_range *allocated;
	const struct fw_range *movable;
	size_t movable_count;
	const u8 *cpus;
	size_t cpus_count;
	u64 dma_end, dma32_end;
	u32 max_order, pageblock, page_shift;
	char *why;
	size_t why_size;
};

struct fw_linux_lists {
	u32 count, high, batch;
};

/* linux/glue */
size_t fw_linux_bytes(const struct fw_linux_boot *boot);
bool fw_linux_boot(const struct fw_linux_boot *boot, void *block, size_t bytes, u64 own);
u64 fw_linux_alloc(u32 zone, u32 preferred, u32 order, u32 flags);
bool fw_linux_free(u64 pfn, u32 order);
bool fw_linux_split(u64 pfn, u32 order);
bool fw_linux_has_block(u32 zone, u32 order, u32 flags);
u64 fw_linux_free_blocks(u32 zone, u32 order, u32 migratetype);
u64 fw_linux_gather(u32 zone, u32 order, u32 flags);
u64 fw_linux_drain(void);
bool fw_linux_unreserve(u32 zone, u32 order, u32 flags);
u32 fw_linux_free_order(u64 pfn);
bool fw_linux_take(u64 pfn, u32 order);
bool fw_linux_isolate(u64 pfn);
void fw_linux_unisolate(u64 pfn);
bool fw_linux_set_type(u64 pfn, u32 migratetype);
void fw_linux_cpu_dead(u32 cpu);
void fw_linux_cpu_online(u32 cpu);
void fw_linux_drain_cpu(u32 cpu);
bool fw_linux_needs_refresh(u32 cpu);
void fw_linux_refresh(u32 cpu);
void fw_linux_show(struct seq_file *file);
bool fw_linux_validate(char *why, size_t size);
struct fw_linux_lists fw_linux_lists(u32 zone, u32 cpu);
void fw_linux_numa(u32 zone, u64 counters[6]);

DEFINE_STATIC_KEY_FALSE(framewright_key);

static u32 fw_type(int migratetype)
{
	switch (migratetype) {
	case MIGRATE_MOVABLE:
		return FW_MOVABLE;
	case MIGRATE_RECLAIMABLE:
		return FW_RECLAIMABLE;
	case MIGRATE_HIGHATOMIC:
		return FW_HIGHATOMIC;
#ifdef CONFIG_CMA
	case MIGRATE_CMA:
		return FW_CMA;
#endif
#ifdef CONFIG_MEMORY_ISOLATION
	case MIGRATE_ISOLATE:
		return FW_ISOLATE;
#endif
	default:
		return FW_UNMOVABLE;
	}
}

static int linux_type(u32 migratetype)
{
	switch (migratetype) {
	case FW_MOVABLE:
		return MIGRATE_MOVABLE;
	case FW_RECLAIMABLE:
		return MIGRATE_RECLAIMABLE;
	case FW_HIGHATOMIC:
		return MIGRATE_HIGHATOMIC;
#ifdef CONFIG_CMA
	case FW_CMA:
		return MIGRATE_CMA;
#endif
#ifdef CONFIG_MEMORY_ISOLATION
	case FW_ISOLATE:
		return MIGRATE_ISOLATE;
#endif
	default:
		return MIGRATE_UNMOVABLE;
	}
}

/* Kinds that this kernel was not configured for have no index. */
static const s8 fw_kinds[MAX_NR_ZONES] = {
	[0 ... MAX_NR_ZONES - 1] = -1,
#ifdef CONFIG_ZONE_DMA
	[ZONE_DMA] = FW_ZONE_DMA,
#endif
#ifdef CONFIG_ZONE_DMA32
	[ZONE_DMA32] = FW_ZONE_DMA32,
#endif
	[ZONE_NORMAL] = FW_ZONE_NORMAL,
	[ZONE_MOVABLE] = FW_ZONE_MOVABLE,
};

static u32 fw_zone(struct zone *zone)
{
	return zone_to_nid(zone) * FW_ZONES + fw_kinds[zone_idx(zone)];
}

/* The zone of each number. */
static struct zone *fw_numbered[MAX_NUMNODES * FW_ZONES] __ro_after_init;

/* Who may use the reserve is said by several flags, which versions name differently. */
#ifdef ALLOC_NON_BLOCK
#define FW_RESERVE_FIRST ALLOC_HIGHATOMIC
#define FW_RESERVE_LAST (ALLOC_OOM | ALLOC_NON_BLOCK)
#else
#define FW_RESERVE_FIRST ALLOC_HARDER
#define FW_RESERVE_LAST (ALLOC_OOM | ALLOC_HARDER)
#endif

static u32 fw_rights(unsigned int order, unsigned int alloc_flags)
{
	u32 flags = 0;

	if (unlikely(alloc_flags & (order ? FW_RESERVE_FIRST : FW_RESERVE_LAST)))
		flags |= FW_MAY_HIGHATOMIC;
#ifdef CONFIG_CMA
	if (alloc_flags & ALLOC_CMA)
		flags |= FW_MAY_CMA;
#else
	flags |= FW_MAY_CMA;
#endif
	if (alloc_flags & ALLOC_NOFRAGMENT)
		flags |= FW_NOFRAGMENT;
	if (alloc_flags & ALLOC_KSWAPD)
		flags |= FW_KSWAPD;
	return flags;
}

struct page *framewright_alloc(struct zone *preferred, struct zone *zone, unsigned int order,
			       unsigned int alloc_flags, int migratetype)
{
	u32 from = fw_zone(zone), wished = likely(zone == preferred) ? from : fw_zone(preferred);
	u64 pfn = fw_linux_alloc(from, wished, order, fw_rights(order, alloc_flags) | fw_type(migratetype));

	if (unlikely(pfn == FW_NONE))
		return NULL;
	if (unlikely(pfn & FW_BOOSTS)) {
		pfn &= ~FW_BOOSTS;
		if (framewright_boost(zone) && (alloc_flags & ALLOC_KSWAPD))
			set_bit(ZONE_BOOSTED_WATERMARK, &zone->flags);
	}
	return pfn_to_page(pfn);
}

void framewright_free(struct page *page, unsigned int order)
{
	if (unlikely(!fw_linux_free(page_to_pfn(page), order)))
		WARN_ONCE(1, "framewright: bad free of pfn %lx, order %u\n", page_to_pfn(page), order);
	count_vm_events(PGFREE, 1 << order);
}

void framewright_free_list(struct list_head *list)
{
	struct page *page, *next;

	list_for_each_entry_safe(page, next, list, lru) {
		list_del(&page->lru);
		trace_mm_page_free_batched(page);
		framewright_free(page, 0);
	}
}

/* A part that is freed is cut off in any case: this only makes it cheap. */
void framewright_split(struct page *page, unsigned int order)
{
	fw_linux_split(page_to_pfn(page), order);
}

bool framewright_has_block(struct zone *zone, unsigned int order, unsigned int alloc_flags)
{
	return fw_linux_has_block(fw_zone(zone), order, fw_rights(order, alloc_flags));
}

bool framewright_gather(struct zone *zone, unsigned int order, unsigned int alloc_flags)
{
	return fw_linux_gather(fw_zone(zone), order, fw_rights(order, alloc_flags)) != 0;
}

/* One pageblock stays while memory is not really short. */
bool framewright_unreserve(const struct alloc_context *ac, bool force)
{
	struct zoneref *z;
	struct zone *zone;

	for_each_zone_zonelist_nodemask(zone, z, ac->zonelist, ac->highest_zoneidx, ac->nodemask) {
		if (!force && READ_ONCE(zone->FW_HIGHATOMIC_COUNT) <= pageblock_nr_pages)
			continue;
		if (fw_linux_unreserve(fw_zone(zone), 0, fw_type(ac->migratetype)))
			return true;
	}
	return false;
}

void framewright_drain(void)
{
	fw_linux_drain();
}

void framewright_drain_cpu(unsigned int cpu)
{
	fw_linux_drain_cpu(cpu);
}

unsigned long framewright_blocks(struct zone *zone, unsigned int order, int migratetype)
{
	return fw_linux_free_blocks(fw_zone(zone), order, fw_type(migratetype));
}

/* A request of this type would find a block, or may claim one of another type. */
bool framewright_compacted(struct zone *zone, unsigned int order, int migratetype)
{
	unsigned int each;
	int type;

	for (each = order; each <= FW_MAX_ORDER; each++) {
		bool may_claim = migratetype != MIGRATE_MOVABLE || each >= pageblock_order / 2;

		for (type = 0; type < MIGRATE_PCPTYPES; type++) {
			if ((type == migratetype || may_claim) && framewright_blocks(zone, each, type))
				return true;
		}
#ifdef CONFIG_CMA
		if (migratetype == MIGRATE_MOVABLE && framewright_blocks(zone, each, MIGRATE_CMA))
			return true;
#endif
	}
	return false;
}

unsigned int framewright_free_order(const struct page *page)
{
	return fw_linux_free_order(page_to_pfn(page));
}

/* For compaction: keeps the zone above its mark, unless the block is of an isolated pageblock. */
bool framewright_take(struct page *page, unsigned int order)
{
	struct zone *zone = page_zone(page);
	unsigned long i;

	if (!is_migrate_isolate_page(page)) {
		/* Without the boost, which asks for compaction. */
		unsigned long mark = zone->_watermark[WMARK_MIN] + (1UL << order);

		if (!zone_watermark_ok(zone, 0, mark, 0, ALLOC_CMA))
			return false;
	}
	if (!fw_linux_take(page_to_pfn(page), order))
		return false;
	/* Most of a pageblock is about to hold movable pages. */
	for (i = 0; order + 1 >= pageblock_order && i < 1UL << order; i += pageblock_nr_pages) {
		if (migratetype_is_mergeable(get_pageblock_migratetype(page + i)))
			framewright_set_type(page + i, MIGRATE_MOVABLE);
	}
	return true;
}

/* For memory failures. */
bool framewright_take_page(struct page *page)
{
	return fw_linux_take(page_to_pfn(page), 0);
}

int framewright_isolate(struct page *page)
{
	return fw_linux_isolate(page_to_pfn(page)) ? 0 : -EBUSY;
}

void framewright_unisolate(struct page *page)
{
	fw_linux_unisolate(page_to_pfn(page));
}

void framewright_set_type(struct page *page, int migratetype)
{
	if (!fw_linux_set_type(page_to_pfn(page), fw_type(migratetype)))
		pr_warn("pfn %lx has not got type %d\n", page_to_pfn(page), migratetype);
}

void framewright_cpu_dead(unsigned int cpu)
{
	fw_linux_cpu_dead(cpu);
}

void framewright_cpu_online(unsigned int cpu)
{
	fw_linux_cpu_online(cpu);
}

/* Linux refreshes a CPU only if it has counted something itself. */
bool framewright_needs_refresh(unsigned int cpu)
{
	return fw_linux_needs_refresh(cpu);
}

void framewright_refresh(void)
{
	fw_linux_refresh(raw_smp_processor_id());
}

/* For readers of nr_free: a moment's view. */
void framewright_count_blocks(struct zone *zone)
{
	unsigned int order;
	u32 type;

	for (order = 0; order <= FW_MAX_ORDER; order++) {
		unsigned long blocks = 0;

		for (type = 0; type <= FW_ISOLATE; type++)
			blocks += fw_linux_free_blocks(fw_zone(zone), order, type);
		WRITE_ONCE(zone->free_area[order].nr_free, blocks);
	}
}

/* For zoneinfo: the three contexts together. Linux's own pageset stays empty, since its drains believe its count. */
struct per_cpu_pages *framewright_pageset(struct zone *zone, unsigned int cpu)
{
	static struct per_cpu_pages shown;
	struct fw_linux_lists lists = fw_linux_lists(fw_zone(zone), cpu);

	WRITE_ONCE(shown.count, lists.count);
	WRITE_ONCE(shown.high, lists.high);
	WRITE_ONCE(shown.batch, lists.batch);
	return &shown;
}

#ifdef CONFIG_NUMA
void framewright_count_numa(struct zone *zone)
{
	u64 now[6] = { 0 };
	/* Which node was next in turn is known to Linux's policies alone. */
	static const s8 place[6] = { NUMA_HIT, NUMA_MISS, NUMA_FOREIGN, -1, NUMA_LOCAL, NUMA_OTHER };
	int i;

	fw_linux_numa(fw_zone(zone), now);
	for (i = 0; i < 6; i++) {
		long before;

		if (place[i] < 0)
			continue;
		before = atomic_long_xchg(&zone->vm_numa_event[place[i]], now[i]);

		atomic_long_add(now[i] - before, &vm_numa_event[place[i]]);
	}
}
#endif

/* Boot. */

static char fw_options[256] __initdata;

static int __init fw_set_options(char *value)
{
	strscpy(fw_options, value, sizeof(fw_options));
	return 0;
}
early_param("framewright", fw_set_options);

static struct fw_region fw_regions[FW_REGIONS] __initdata;
static struct fw_range fw_allocated[FW_REGIONS] __initdata;
static struct fw_range fw_movable[MAX_NUMNODES] __initdata;
static u8 fw_cpus[NR_CPUS] __initdata;
static char fw_why[256];

void __init framewright_boot(void)
{
	struct fw_linux_boot boot = {
		.options = fw_options, .options_length = strlen(fw_options),
		.regions = fw_regions, .allocated = fw_allocated, .movable = fw_movable,
		.cpus = fw_cpus, .cpus_count = nr_cpu_ids,
		.max_order = FW_MAX_ORDER, .pageblock = pageblock_order, .page_shift = PAGE_SHIFT,
		.why = fw_why, .why_size = sizeof(fw_why),
	};
	unsigned long start, end;
	struct zone *zone;
	void *block = NULL;
	size_t bytes;
	int i, node;

	if (!boot.options_length)
		return;
	for_each_mem_pfn_range(i, MAX_NUMNODES, &start, &end, &node) {
		if (boot.regions_count == FW_REGIONS || node > U8_MAX) {
			pr_err("off: more than %d regions of memory\n", FW_REGIONS);
			return;
		}
		fw_allocated[boot.regions_count] = (struct fw_range){ start, end };
		fw_regions[boot.regions_count++] = (struct fw_region){
			.range = { start, end }, .node = node < 0 ? 0 : node, .usable = true, .present = true
		};
	}
	for_each_populated_zone(zone) {
		s8 kind = fw_kinds[zone_idx(zone)];

		if (kind < 0) {
			pr_err("off: zone %s is not supported\n", zone->name);
			return;
		}
		fw_numbered[fw_zone(zone)] = zone;
		/* A zone that ends with its node's memory may end within a pageblock, all of which is its own. */
		end = ALIGN(zone_end_pfn(zone), pageblock_nr_pages);
		if (kind == FW_ZONE_DMA)
			boot.dma_end = max_t(u64, boot.dma_end, end);
		if (kind <= FW_ZONE_DMA32)
			boot.dma32_end = max_t(u64, boot.dma32_end, end);
		if (kind == FW_ZONE_MOVABLE)
			fw_movable[boot.movable_count++] =
				(struct fw_range){ zone->zone_start_pfn, zone_end_pfn(zone) };
	}
	for_each_populated_zone(zone) {
		for (i = 0; i < boot.movable_count; i++) {
			if (zone_idx(zone) != ZONE_MOVABLE && fw_movable[i].start < zone_end_pfn(zone) &&
			    zone->zone_start_pfn < fw_movable[i].end) {
				pr_err("off: movable memory lies within zone %s\n", zone->name);
				return;
			}
		}
	}
	for (i = 0; i < nr_cpu_ids; i++) {
		node = cpu_possible(i) ? max(0, cpu_to_node(i)) : 0;
		if (node > U8_MAX) {
			pr_err("off: a CPU of node %d\n", node);
			return;
		}
		fw_cpus[i] = node;
	}
	bytes = PAGE_ALIGN(fw_linux_bytes(&boot));
	if (bytes)
		block = memblock_alloc(bytes, PAGE_SIZE);
	if (!block || !fw_linux_boot(&boot, block, bytes, PFN_DOWN(__pa(block)))) {
		pr_err("off: %s\n", bytes && !block ? "no memory for descriptors" : fw_why);
		if (block)
			memblock_free(block, bytes);
		return;
	}
	static_branch_enable(&framewright_key);
	pr_info("%s, %zu KiB of descriptors\n", fw_options, bytes >> 10);
}

/* /proc/framewright: state; "validate", "drain" and "bench ORDER BATCH LOOPS" can be written to it. */

static DEFINE_MUTEX(fw_lock);
static char fw_result[256];

static int fw_show(struct seq_file *file, void *unused)
{
	mutex_lock(&fw_lock);
	if (fw_result[0])
		seq_printf(file, "%s\n", fw_result);
	mutex_unlock(&fw_lock);
	if (framewright_on())
		fw_linux_show(file);
	else
		seq_puts(file, "off\n");
	return 0;
}

static int fw_open(struct inode *inode, struct file *file)
{
	return single_open(file, fw_show, NULL);
}

/* All other CPUs are stopped, and answer no interrupt; they passed a fence before. */
static bool fw_stopped;

/* A range is being taken: its pageblocks are isolated, which is no damage and would look so. */
static bool fw_is_isolating(void)
{
#ifdef CONFIG_MEMORY_ISOLATION
	struct zone *zone;

	for_each_populated_zone(zone) {
		if (zone->nr_isolate_pageblock)
			return true;
	}
#endif
	return false;
}

/* No CPU is in a call: calls hold preemption off, and a stopped CPU runs no interrupt. */
static int fw_validate(void *sound)
{
	if (fw_is_isolating())
		return -EBUSY;
	WRITE_ONCE(fw_stopped, true);
	*(bool *)sound = fw_linux_validate(fw_why, sizeof(fw_why));
	WRITE_ONCE(fw_stopped, false);
	return 0;
}

static int fw_bench(unsigned int order, unsigned int batch, unsigned long loops)
{
	struct page **pages;
	unsigned long loop, failed = 0;
	u64 ns, cycles;
	unsigned int i;

	if (order > FW_MAX_ORDER || !batch || batch > 65536 || !loops)
		return -EINVAL;
	pages = vmalloc_array(batch, sizeof(*pages));
	if (!pages)
		return -ENOMEM;
	ns = ktime_get_ns();
	cycles = get_cycles();
	for (loop = 0; loop < loops; loop++) {
		for (i = 0; i < batch; i++) {
			pages[i] = alloc_pages(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY, order);
			failed += !pages[i];
		}
		for (i = 0; i < batch; i++) {
			if (pages[i])
				__free_pages(pages[i], order);
		}
		cond_resched();
	}
	cycles = get_cycles() - cycles;
	ns = ktime_get_ns() - ns;
	vfree(pages);
	loops *= batch;
	snprintf(fw_result, sizeof(fw_result), "order=%u batch=%u pairs=%lu failed=%lu ns=%llu.%02llu cycles=%llu",
		 order, batch, loops, failed, div64_u64(ns, loops), div64_u64(ns * 100, loops) % 100,
		 div64_u64(cycles, loops));
	return 0;
}

static ssize_t fw_write(struct file *file, const char __user *text, size_t size, loff_t *place)
{
	char command[64] = "";
	unsigned int order, batch;
	unsigned long loops;
	int error = 0;

	if (size >= sizeof(command))
		return -EINVAL;
	if (copy_from_user(command, text, size))
		return -EFAULT;
	mutex_lock(&fw_lock);
	if (sysfs_streq(command, "validate")) {
		bool sound = true;

		strscpy(fw_why, "off", sizeof(fw_why));
		if (framewright_on())
			error = stop_machine(fw_validate, &sound, NULL);
		snprintf(fw_result, sizeof(fw_result), "validate %s: %s", sound ? "sound" : "VIOLATED", fw_why);
		if (!sound)
			pr_err("BUG: %s\n", fw_why);
	} else if (sysfs_streq(command, "drain")) {
		drain_all_pages(NULL);
		snprintf(fw_result, sizeof(fw_result), "drained");
	} else if (sscanf(command, "bench %u %u %lu", &order, &batch, &loops) == 3) {
		error = fw_bench(order, batch, loops);
	} else {
		error = -EINVAL;
	}
	mutex_unlock(&fw_lock);
	return error ? error : size;
}

static const struct proc_ops fw_ops = {
	.proc_open = fw_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
	.proc_write = fw_write,
};

static int __init fw_proc(void)
{
	proc_create("framewright", 0600, NULL, &fw_ops);
	return 0;
}
fs_initcall(fw_proc);

/* What the part in Rust asks of Linux. */

void fw_linux_pin(void);
void fw_linux_pin(void)
{
	preempt_disable();
}

void fw_linux_unpin(void);
void fw_linux_unpin(void)
{
	preempt_enable();
}

unsigned long fw_linux_irq_save(void);
unsigned long fw_linux_irq_save(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}

void fw_linux_irq_restore(unsigned long flags);
void fw_linux_irq_restore(unsigned long flags)
{
	local_irq_restore(flags);
}

unsigned long fw_linux_cpu(void);
unsigned long fw_linux_cpu(void)
{
	return raw_smp_processor_id();
}

u32 fw_linux_context(void);
u32 fw_linux_context(void)
{
	if (in_task())
		return 0;
	if (in_nmi())
		return 3;
	return in_hardirq() ? 2 : 1;
}

unsigned long fw_linux_record(unsigned long cpus);
unsigned long fw_linux_record(unsigned long cpus)
{
	unsigned long cpu = smp_processor_id();

	if (likely(in_task()))
		return cpu;
	if (in_nmi())
		return ~0UL;
	/* The order of the sets: tasks, soft interrupts, hard interrupts. */
	return cpu + (in_hardirq() ? 2 * cpus : cpus);
}

static void fw_fence(void *unused)
{
	smp_mb();
}

void fw_linux_fence_others(void);
void fw_linux_fence_others(void)
{
	if (!READ_ONCE(fw_stopped))
		smp_call_function(fw_fence, NULL, 1);
}

bool fw_linux_may_fence_others(void);
bool fw_linux_may_fence_others(void)
{
	return in_task() && !irqs_disabled();
}

void fw_linux_relax(void);
void fw_linux_relax(void)
{
	cpu_relax();
}

u64 fw_linux_now(void);
u64 fw_linux_now(void)
{
	return local_clock();
}

/* The zone lock of the part in Rust is held, and interrupts are off. */
void fw_linux_free_changed(u32 number, s64 free, s64 cma, s64 highatomic);
void fw_linux_free_changed(u32 number, s64 free, s64 cma, s64 highatomic)
{
	struct zone *zone = number < ARRAY_SIZE(fw_numbered) ? fw_numbered[number] : NULL;

	if (WARN_ON_ONCE(!zone))
		return;
	if (free)
		__mod_zone_page_state(zone, NR_FREE_PAGES, free);
	if (cma)
		__mod_zone_page_state(zone, NR_FREE_CMA_PAGES, cma);
	if (highatomic)
		WRITE_ONCE(zone->FW_HIGHATOMIC_COUNT, zone->FW_HIGHATOMIC_COUNT + highatomic);
}

void fw_linux_retyped(u64 pfn, u32 migratetype);
void fw_linux_retyped(u64 pfn, u32 migratetype)
{
	struct page *page = pfn_to_page(pfn);

	/* A zone may begin within a pageblock, as the first one of x86 does. */
	if (pfn < page_zone(page)->zone_start_pfn) {
		pfn = page_zone(page)->zone_start_pfn;
		page = pfn_to_page(pfn);
	}
	set_pfnblock_flags_mask(page, linux_type(migratetype), pfn, MIGRATETYPE_MASK);
}

bool fw_linux_traces(void);
bool fw_linux_traces(void)
{
	return trace_mm_page_alloc_extfrag_enabled() || trace_mm_page_alloc_zone_locked_enabled() ||
	       trace_mm_page_pcpu_drain_enabled();
}

void fw_linux_trace_extfrag(u64 pfn, u32 orders, u32 types, bool owned);
void fw_linux_trace_extfrag(u64 pfn, u32 orders, u32 types, bool owned)
{
	trace_mm_page_alloc_extfrag(pfn_to_page(pfn), orders & 0xff, orders >> 8, linux_type(types & 0xff),
				    linux_type(types >> 8));
}

void fw_linux_trace_locked(u64 pfn, u32 order, u32 migratetype, bool refill);
void fw_linux_trace_locked(u64 pfn, u32 order, u32 migratetype, bool refill)
{
	trace_mm_page_alloc_zone_locked(pfn_to_page(pfn), order, linux_type(migratetype), refill);
}

void fw_linux_trace_drain(u64 pfn, u32 order, u32 migratetype);
void fw_linux_trace_drain(u64 pfn, u32 order, u32 migratetype)
{
	trace_mm_page_pcpu_drain(pfn_to_page(pfn), order, linux_type(migratetype));
}

void fw_linux_print(struct seq_file *file, const char *text, size_t length);
void fw_linux_print(struct seq_file *file, const char *text, size_t length)
{
	seq_write(file, text, length);
}

void fw_linux_bug(const char *file, size_t length, u32 line);
void fw_linux_bug(const char *file, size_t length, u32 line)
{
	panic("framewright: a bug in %.*s, line %u\n", (int)length, file, line);
}
