/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Framewright as page allocator: what mm/ asks of mm/framewright.c.
 *
 * Everything is off unless the command line says framewright=PRESET, and then costs a branch that is patched at boot.
 * The edits that call these functions are in Framewright's linux/edits.toml; mm/internal.h includes this file at its end.
 */
#ifndef _LINUX_FRAMEWRIGHT_H
#define _LINUX_FRAMEWRIGHT_H

#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/page-flags.h>

/* Which relies on the others. */
#include <linux/compaction.h>

struct alloc_context;
struct seq_file;

DECLARE_STATIC_KEY_FALSE(framewright_key);
#define framewright_on() static_branch_unlikely(&framewright_key)

/* Before memory is freed for the first time; memblock still works. */
void __init framewright_boot(void);

/* ALLOC_NOFRAGMENT where mobilities are mixed only when nothing else is left, 0 elsewhere. */
DECLARE_STATIC_KEY_FALSE(framewright_apart_key);
#define framewright_apart() (static_branch_unlikely(&framewright_apart_key) ? ALLOC_NOFRAGMENT : 0)
/* Nothing else is left: gives the flag up, and returns whether that was done. */
bool framewright_mixes(unsigned int order, gfp_t gfp_mask, unsigned int *alloc_flags);
/* Free pages that a movable request may not have yet: in blocks of other mobilities, smaller than a pageblock. */
unsigned long framewright_mixed(struct zone *zone);

/* A block of a zone, or NULL. Watermarks are the caller's. */
struct page *framewright_alloc(struct zone *preferred, struct zone *zone, unsigned int order,
			       unsigned int alloc_flags, int migratetype);
/* Free a block, or a part of one, that is prepared for it. */
void framewright_free(struct page *page, unsigned int order);
void framewright_free_list(struct list_head *list);
/* Make single pages of an allocated block. */
void framewright_split(struct page *page, unsigned int order);

/* What the watermarks ask, and what may raise a zone above them. */
bool framewright_has_block(struct zone *zone, unsigned int order, unsigned int alloc_flags);
bool framewright_gather(struct zone *zone, unsigned int order, unsigned int alloc_flags);
bool framewright_unreserve(const struct alloc_context *ac, bool force);
void framewright_drain(void);
void framewright_drain_cpu(unsigned int cpu);

/* Compaction, isolation, and pages taken by their place. */
bool framewright_compacted(struct zone *zone, unsigned int order, int migratetype);
bool framewright_take(struct page *page, unsigned int order);
bool framewright_take_page(struct page *page);
int framewright_isolate(struct page *page);
void framewright_unisolate(struct page *page);
void framewright_set_type(struct page *page, int migratetype);

struct compact_control;
bool framewright_compacts(const struct compact_control *cc);
enum compact_result framewright_compact(struct compact_control *cc);
/* mm/page_alloc.c: takes back the preparation of a page that was not used. */
bool framewright_unprepare(struct page *page);

/* CPUs, counters and files. */
void framewright_cpu_dead(unsigned int cpu);
void framewright_cpu_online(unsigned int cpu);
bool framewright_needs_refresh(unsigned int cpu);
void framewright_refresh(void);
void framewright_count_blocks(struct zone *zone);
struct per_cpu_pages *framewright_pageset(struct zone *zone, unsigned int cpu);
void framewright_count_numa(struct zone *zone);
unsigned long framewright_blocks(struct zone *zone, unsigned int order, int migratetype);

/* What a file shows of a CPU's lists. */
static inline struct per_cpu_pages *framewright_pcp(struct zone *zone, unsigned int cpu)
{
	return framewright_on() ? framewright_pageset(zone, cpu) : per_cpu_ptr(zone->per_cpu_pageset, cpu);
}

/* mm/page_alloc.c: raises a zone's marks after mobilities were mixed. */
bool framewright_boost(struct zone *zone);

#define FRAMEWRIGHT_NOT_FREE (~0u)
unsigned int framewright_free_order(const struct page *page);

/* Whether a page is the first of a free block, whoever keeps it. */
static inline bool framewright_page_buddy(const struct page *page)
{
	/* Linux's own takes a constant page in newer versions only. */
	return framewright_on() ? framewright_free_order(page) != FRAMEWRIGHT_NOT_FREE : PageBuddy((struct page *)page);
}

#endif /* _LINUX_FRAMEWRIGHT_H */

/* At the end of mm/internal.h: what its readers mean by a free block. */
#if defined(__MM_INTERNAL_H) && !defined(FRAMEWRIGHT_BUDDIES)
#define FRAMEWRIGHT_BUDDIES

/* Without a zone DMA32, Linux never sets it, and makes it 0. */
#ifndef CONFIG_ZONE_DMA32
#undef ALLOC_NOFRAGMENT
#define ALLOC_NOFRAGMENT 0x100
#endif

static inline unsigned int framewright_buddy_order(const struct page *page)
{
	unsigned int order;

	if (!framewright_on())
		return buddy_order((struct page *)page);
	order = framewright_free_order(page);
	return order == FRAMEWRIGHT_NOT_FREE ? 0 : order;
}

/* Read once, as the order of a page that may be taken meanwhile. */
static inline unsigned long framewright_buddy_order_unsafe(const struct page *page)
{
	return framewright_on() ? framewright_buddy_order(page) : READ_ONCE(page_private(page));
}

#define PageBuddy(page) framewright_page_buddy(page)
#define buddy_order(page) framewright_buddy_order(page)
#undef buddy_order_unsafe
#define buddy_order_unsafe(page) framewright_buddy_order_unsafe(page)

#endif
