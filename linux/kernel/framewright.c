// SPDX-License-Identifier: GPL-2.0
/*
 * Framewright as page allocator: between mm/ and the part in Rust.
 *
 * Linux keeps zonelists, watermarks, reclaim and the preparation of pages. Here a zone becomes a number, a page its frame
 * number, and alloc_flags the bits of linux/glue. The other files are named in framewright_internal.h.
 *
 * Nothing here is called unless the command line has framewright=PRESET[,SWITCH=CHOICE...].
 */
#define pr_fmt(fmt) "framewright: " fmt

#include <linux/bug.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/pageblock-flags.h>
#include <linux/vmstat.h>
#include <trace/events/kmem.h>

#include "internal.h"
#include "framewright_internal.h"

DEFINE_STATIC_KEY_FALSE(framewright_key);
DEFINE_STATIC_KEY_FALSE(framewright_apart_key);
DEFINE_STATIC_KEY_FALSE(fw_listed_key);

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

const s8 fw_kinds[MAX_NR_ZONES] = {
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

/* Who may use the reserve is said by several flags, which versions name differently. */
#ifdef ALLOC_NON_BLOCK
#define FW_RESERVE_FIRST ALLOC_HIGHATOMIC
#define FW_RESERVE_LAST (ALLOC_OOM | ALLOC_NON_BLOCK)
#else
#define FW_RESERVE_FIRST ALLOC_HARDER
#define FW_RESERVE_LAST (ALLOC_OOM | ALLOC_HARDER)
#endif

u32 fw_rights(unsigned int order, unsigned int alloc_flags)
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

/* A request for several pages that may fail, fails rather. */
bool framewright_mixes(unsigned int order, gfp_t gfp_mask, unsigned int *alloc_flags)
{
	bool is_optional = order && (gfp_mask & (__GFP_NORETRY | __GFP_NOFAIL)) == __GFP_NORETRY;

	if (is_optional || !(*alloc_flags & framewright_apart()))
		return false;
	*alloc_flags &= ~ALLOC_NOFRAGMENT;
	return true;
}

unsigned long framewright_mixed(struct zone *zone)
{
	unsigned long frames = 0;
	unsigned int order;

	for (order = 0; order < pageblock_order; order++) {
		frames += framewright_blocks(zone, order, MIGRATE_UNMOVABLE) << order;
		frames += framewright_blocks(zone, order, MIGRATE_RECLAIMABLE) << order;
	}
	return frames;
}

static noinline struct page *fw_alloc(struct zone *preferred, struct zone *zone, unsigned int order,
				      unsigned int alloc_flags, int migratetype)
{
	u64 pfn = fw_linux_alloc(fw_zone(zone), fw_zone(preferred), order,
				 fw_rights(order, alloc_flags) | fw_type(migratetype));

	if (unlikely(pfn == FW_NONE))
		return NULL;
	if (unlikely(pfn & FW_BOOSTS)) {
		pfn &= ~FW_BOOSTS;
		if (framewright_boost(zone) && (alloc_flags & ALLOC_KSWAPD))
			set_bit(ZONE_BOOSTED_WATERMARK, &zone->flags);
	}
	return pfn_to_page(pfn);
}

/* Whether a request may take from the CPU's list without a further look: see fw_linux_alloc_at. */
static bool fw_is_ordinary(struct zone *preferred, struct zone *zone, unsigned int order,
			   unsigned int alloc_flags, int migratetype)
{
	if (unlikely(order && (alloc_flags & FW_RESERVE_FIRST)))
		return false;
#ifdef CONFIG_CMA
	if (migratetype == MIGRATE_MOVABLE && unlikely(!(alloc_flags & ALLOC_CMA)))
		return false;
#endif
	return likely(zone == preferred) || zone_to_nid(zone) == zone_to_nid(preferred);
}

struct page *framewright_alloc(struct zone *preferred, struct zone *zone, unsigned int order,
			       unsigned int alloc_flags, int migratetype)
{
	/* The types of requests have the same numbers. */
	BUILD_BUG_ON((int)MIGRATE_UNMOVABLE != FW_UNMOVABLE || (int)MIGRATE_MOVABLE != FW_MOVABLE ||
		     (int)MIGRATE_RECLAIMABLE != FW_RECLAIMABLE || (int)MIGRATE_PCPTYPES != FW_RECLAIMABLE + 1);

	if (static_branch_likely(&fw_listed_key) && likely(fw_is_ordinary(preferred, zone, order, alloc_flags, migratetype))) {
		u64 pfn;

		preempt_disable();
		pfn = fw_linux_alloc_at(fw_record(nr_cpu_ids), fw_zone(zone), order, migratetype);
		preempt_enable();
		if (likely(pfn != FW_NONE))
			return pfn_to_page(pfn);
	}
	return fw_alloc(preferred, zone, order, alloc_flags, migratetype);
}

static noinline void fw_free(unsigned long pfn, unsigned int order)
{
	if (unlikely(!fw_linux_free(pfn, order)))
		WARN_ONCE(1, "framewright: bad free of pfn %lx, order %u\n", pfn, order);
}

void framewright_free(struct page *page, unsigned int order)
{
	bool freed = false;

	preempt_disable();
	if (static_branch_likely(&fw_listed_key))
		freed = fw_linux_free_at(fw_record(nr_cpu_ids), page_to_pfn(page), order);
	__count_vm_events(PGFREE, 1 << order);
	preempt_enable();
	if (unlikely(!freed))
		fw_free(page_to_pfn(page), order);
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
