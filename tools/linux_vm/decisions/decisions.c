// SPDX-License-Identifier: GPL-2.0
/*
 * Makes Linux take decisions on requests for pages, and logs each with the kernel's own report.
 *
 * The module holds nearly all memory in single pages. For each case it frees some of them, so that each zone has a
 * random number of free pages, often close to the mark that decides, in blocks up to a random order. Kinds of request:
 *   failure   with a warning: the kernel reports by itself. A request that is served is made again with less memory.
 *   success   without a warning, after SysRq-m: so the report is of the state before the request.
 *
 * Lines that begin with "decision N" delimit the cases. Everything happens while the module is loaded, and all memory
 * is free again when that returns.
 *
 * The kernel prints one report in ten seconds. A kprobe lets each one through. The function that drains the CPUs' lists
 * is not exported: a kprobe finds its address.
 */
#include <linux/gfp.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sysrq.h>
#include <linux/vmalloc.h>

/* Of all random choices; the number of the first case; and how many cases of each kind. */
static unsigned long seed = 1;
static int first = 1, failures, successes;
module_param(seed, ulong, 0);
module_param(first, int, 0);
module_param(failures, int, 0);
module_param(successes, int, 0);

#define LARGEST (MAX_ORDER - 1)
/* How often a request is made, each time with less memory, until it fails; and how many requests are tried. */
#define TRIES 30
#define REQUESTS 10

/*
 * The masks that are asked with. A request with a mask in which the OOM killer could run gets __GFP_NORETRY, unless the
 * state surely serves it.
 */
static const gfp_t masks[] = {
	GFP_ATOMIC,
	GFP_NOWAIT,
	GFP_KERNEL,
	GFP_KERNEL | __GFP_NORETRY,
	GFP_KERNEL | __GFP_RETRY_MAYFAIL,
	GFP_HIGHUSER_MOVABLE,
	GFP_HIGHUSER_MOVABLE | __GFP_NORETRY,
	GFP_HIGHUSER_MOVABLE | __GFP_WRITE | __GFP_RETRY_MAYFAIL,
	GFP_ATOMIC | __GFP_DMA,
	GFP_NOWAIT | __GFP_DMA,
	GFP_KERNEL | __GFP_DMA,
	GFP_ATOMIC | __GFP_DMA32,
	GFP_NOWAIT | __GFP_DMA32,
	GFP_KERNEL | __GFP_DMA32,
	GFP_ATOMIC | __GFP_NOMEMALLOC,
	GFP_ATOMIC | __GFP_NOMEMALLOC | __GFP_COMP,
	GFP_ATOMIC | __GFP_DMA32 | __GFP_NOMEMALLOC,
	GFP_NOWAIT | __GFP_NOMEMALLOC,
	GFP_KERNEL | __GFP_NOMEMALLOC | __GFP_NORETRY,
	GFP_NOWAIT | __GFP_HIGH,
	GFP_KERNEL | __GFP_HIGH | __GFP_NORETRY,
	GFP_KERNEL | __GFP_HIGH | __GFP_RETRY_MAYFAIL | __GFP_DMA32,
	GFP_NOWAIT | __GFP_HIGH | __GFP_NOMEMALLOC,
	GFP_ATOMIC | __GFP_THISNODE,
	GFP_NOWAIT | __GFP_THISNODE,
	GFP_KERNEL | __GFP_THISNODE,
	GFP_KERNEL | __GFP_THISNODE | __GFP_NORETRY,
	GFP_ATOMIC | __GFP_MEMALLOC,
	GFP_ATOMIC | __GFP_RECLAIMABLE,
	GFP_NOIO | __GFP_NORETRY,
	GFP_NOFS | __GFP_NORETRY | __GFP_COMP,
	GFP_TRANSHUGE_LIGHT,
	GFP_TRANSHUGE,
	__GFP_HIGH,
	0,
};

struct request {
	unsigned int order;
	gfp_t gfp;
	int node;
};

static struct zone *zones[MAX_NUMNODES * MAX_NR_ZONES];
static int zone_count;
/* A bit for each page frame: whether it is one of the pages held. */
static unsigned long *held;
static unsigned long frames;
static void (*drain)(struct zone *zone);

/* --- Chance ------------------------------------------------------------------------------------------------------- */

static u64 chance;

/* A number below `limit`, by xorshift64*. */
static unsigned long below(unsigned long limit)
{
	chance ^= chance >> 12;
	chance ^= chance << 25;
	chance ^= chance >> 27;
	return limit ? ((chance * 0x2545f4914f6cdd1dULL) >> 33) % limit : 0;
}

/* --- The kernel's functions --------------------------------------------------------------------------------------- */

static notrace noinline int let_through(void)
{
	return 1;
}

static int redirect(struct kprobe *probe, struct pt_regs *regs)
{
	regs->ip = (unsigned long)let_through;
	return 1;
}

/* A probe that has a post-handler is not optimised to a jump, which would ignore the changed address. */
static void after(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe ratelimit = { .symbol_name = "___ratelimit", .pre_handler = redirect, .post_handler = after };

static void *address_of(const char *name)
{
	struct kprobe probe = { .symbol_name = name };

	if (register_kprobe(&probe))
		return NULL;
	unregister_kprobe(&probe);
	return probe.addr;
}

/* --- Memory held -------------------------------------------------------------------------------------------------- */

/* Takes a block from the zone, or from a lower one of its node. It may take the last one. */
static struct page *grab(struct zone *zone, unsigned int order, gfp_t mobility)
{
	gfp_t gfp = __GFP_MEMALLOC | __GFP_THISNODE | __GFP_NOWARN | mobility;

	if (zone_idx(zone) == ZONE_DMA)
		gfp |= __GFP_DMA;
	else if (zone_idx(zone) == ZONE_DMA32)
		gfp |= __GFP_DMA32;
	return __alloc_pages(gfp, order, zone_to_nid(zone), NULL);
}

static void hold(struct page *page, unsigned int order)
{
	if (order)
		split_page(page, order);
	bitmap_set(held, page_to_pfn(page), 1 << order);
}

/* Frees pages held, as one block. */
static void release(unsigned long pfn, unsigned int order)
{
	unsigned int at;

	bitmap_clear(held, pfn, 1 << order);
	for (at = 1; at < 1 << order; at++)
		set_page_count(pfn_to_page(pfn + at), 0);
	__free_pages(pfn_to_page(pfn), order);
}

static void hold_all(void)
{
	static const gfp_t mobilities[] = { 0, __GFP_MOVABLE, __GFP_RECLAIMABLE };
	gfp_t mobility = mobilities[below(ARRAY_SIZE(mobilities))];
	struct page *page;
	int at, order;

	drain(NULL);
	for (at = 0; at < zone_count; at++) {
		for (order = LARGEST; order >= 0; order--) {
			while ((page = grab(zones[at], order, mobility)))
				hold(page, order);
		}
	}
	/* Taking memory boosts the marks. kswapd, which ends boosts, seldom runs meanwhile. */
	if (below(2)) {
		for (at = 0; at < zone_count; at++)
			zones[at]->watermark_boost = 0;
	}
}

static void release_all(void)
{
	unsigned long pfn;

	for_each_set_bit(pfn, held, frames)
		release(pfn, 0);
	drain(NULL);
}

static bool all_held(unsigned long pfn, unsigned int order)
{
	unsigned long end = pfn + (1UL << order);

	return find_next_zero_bit(held, end, pfn) >= end;
}

static bool some_held(unsigned long pfn, unsigned int order)
{
	unsigned long end = pfn + (1UL << order);

	return end <= frames && find_next_bit(held, end, pfn) < end;
}

/* --- The state before a request ----------------------------------------------------------------------------------- */

static bool eligible(struct zone *zone, const struct request *request)
{
	if ((request->gfp & __GFP_THISNODE) && zone_to_nid(zone) != request->node)
		return false;
	return zone_idx(zone) <= gfp_zone(request->gfp);
}

/* About how many pages the zone must have free. It only says where interesting states are: it need not be right. */
static long mark(struct zone *zone, const struct request *request)
{
	long pages = min_wmark_pages(zone);

	if (request->gfp & __GFP_HIGH) {
		pages -= pages / 2;
		if (!(request->gfp & (__GFP_DIRECT_RECLAIM | __GFP_NOMEMALLOC)))
			pages -= pages / 4;
	}
	return pages + zone->lowmem_reserve[gfp_zone(request->gfp)];
}

/* How many pages the zone shall have free. */
static long level(struct zone *zone, const struct request *request)
{
	long at = mark(zone, request), near = (long)below(49) - 24;

	if (below(2))
		near += 1 << request->order;
	switch (below(10)) {
	case 0:
		at += low_wmark_pages(zone) - min_wmark_pages(zone) + near;
		break;
	case 1:
		at = below(at);
		break;
	case 2:
		at += below(at);
		break;
	case 3:
	case 4:
		at += below(8 * at);
		break;
	case 5:
		at = below(64);
		break;
	default:
		at += near;
	}
	return clamp(at, 0L, (long)zone_managed_pages(zone) * 3 / 4);
}

/*
 * Frees pages of the zone until it has `pages`: first a block of the order `largest`, then blocks up to `others`. None
 * merges with another: a block is freed only while a page of its buddy is held.
 */
static void shape(struct zone *zone, long pages, int largest, int others)
{
	long missing = pages - (long)zone_page_state(zone, NR_FREE_PAGES);
	long tries = 20 * missing + 5000;
	int wanted = largest;

	while (missing > 0 && tries-- > 0) {
		unsigned long pfn = zone->zone_start_pfn + below(zone->spanned_pages);
		int order = wanted;

		while (1L << order > missing)
			order--;
		pfn &= ~0UL << order;
		if (pfn < zone->zone_start_pfn || pfn + (1UL << order) > zone_end_pfn(zone))
			continue;
		if (!all_held(pfn, order) || (order < LARGEST && !some_held(pfn ^ (1UL << order), order))) {
			if (tries % 64 == 0)
				wanted = below(others + 1);
			continue;
		}
		release(pfn, order);
		missing -= 1L << order;
		wanted = below(2) ? others : below(others + 1);
	}
}

static void arrange(const struct request *request, bool to_fail)
{
	int at, order = request->order;

	hold_all();
	for (at = 0; at < zone_count; at++) {
		int largest = below(MAX_ORDER), others;

		if (to_fail && order && below(2))
			largest = below(order);
		else if (!to_fail && below(4))
			largest = order + below(MAX_ORDER - order);
		others = below(2) ? largest : below(min(order, largest) + 1);
		if (eligible(zones[at], request) || below(2))
			shape(zones[at], level(zones[at], request), largest, others);
		else
			shape(zones[at], below(zone_managed_pages(zones[at]) / 4), largest, others);
	}
	/* Single pages are free in a CPU's list first, where they do not count as free. */
	if (below(4))
		drain(NULL);
}

/* Takes one part in `parts` of what is free in the zones of the request. */
static void take_some(const struct request *request, int parts)
{
	int at;

	for (at = 0; at < zone_count; at++) {
		long pages = zone_page_state(zones[at], NR_FREE_PAGES) / parts + 1;
		struct page *page;

		if (!eligible(zones[at], request))
			continue;
		while (pages-- > 0 && (page = grab(zones[at], 0, 0)))
			hold(page, 0);
	}
}

/* Whether a zone would serve the request without reclaim. */
static bool surely_served(const struct request *request)
{
	int at, order;

	for (at = 0; at < zone_count; at++) {
		struct zone *zone = zones[at];
		long needed = high_wmark_pages(zone) + zone->lowmem_reserve[gfp_zone(request->gfp)];

		if (!eligible(zone, request) || (long)zone_page_state(zone, NR_FREE_PAGES) < needed + 256)
			continue;
		for (order = request->order; order < MAX_ORDER; order++) {
			if (zone->free_area[order].nr_free)
				return true;
		}
	}
	return false;
}

static bool may_oom(const struct request *request)
{
	return (request->gfp & __GFP_DIRECT_RECLAIM) && request->order <= PAGE_ALLOC_COSTLY_ORDER &&
	       !(request->gfp & (__GFP_NORETRY | __GFP_RETRY_MAYFAIL | __GFP_THISNODE)) &&
	       gfp_zone(request->gfp) >= ZONE_NORMAL;
}

/* --- Cases -------------------------------------------------------------------------------------------------------- */

static struct request any_request(bool to_fail)
{
	struct request request = { .gfp = masks[below(ARRAY_SIZE(masks))], .node = numa_mem_id() };

	request.order = below(2) ? below(4) : below(MAX_ORDER);
	if (below(4) == 0) {
		do {
			request.node = below(MAX_NUMNODES);
		} while (!node_state(request.node, N_MEMORY));
	}
	if (to_fail)
		request.gfp &= ~__GFP_NOWARN;
	if ((request.gfp & __GFP_NOWARN) && below(2))
		request.order = pageblock_order;
	return request;
}

static void print_request(int number, const char *what, const struct request *request)
{
	pr_info("decision %d %s order:%u, mode:%#x(%pGg), node:%d\n", number, what, request->order, request->gfp,
		&request->gfp, request->node);
}

static void print_end(int number, struct page *page)
{
	if (page)
		pr_info("decision %d ends served zone %s node %d\n", number, page_zone(page)->name, page_to_nid(page));
	else
		pr_info("decision %d ends failed\n", number);
}

/* Nothing else shall happen between the report and the request. A request that may reclaim has to let it. */
static struct page *ask(int number, const struct request *request, bool to_fail)
{
	unsigned long flags = 0;
	bool alone = !(request->gfp & __GFP_DIRECT_RECLAIM);
	struct page *page;

	if (alone)
		local_irq_save(flags);
	print_request(number, to_fail ? "begins failure" : "begins success", request);
	if (!to_fail)
		handle_sysrq('m');
	page = __alloc_pages(to_fail ? request->gfp : request->gfp | __GFP_NOWARN, request->order, request->node, NULL);
	if (page || !to_fail)
		print_end(number, page);
	if (alone)
		local_irq_restore(flags);
	return page;
}

/* Whether a request failed. One that may take from free blocks that the module cannot take may be served for ever. */
static bool failed(int number)
{
	struct request request = any_request(true);
	struct page *page;
	int try;

	if (may_oom(&request))
		request.gfp |= __GFP_NORETRY;
	arrange(&request, true);
	for (try = 0; try < TRIES; try++) {
		page = ask(number, &request, true);
		if (!page) {
			print_end(number, NULL);
			return true;
		}
		__free_pages(page, request.order);
		take_some(&request, try < TRIES / 2 ? 6 : 2);
	}
	return false;
}

static void failure(int number)
{
	int at;

	for (at = 0; at < REQUESTS && !failed(number); at++)
		;
}

static void success(int number)
{
	struct request request = any_request(false);
	struct page *page;

	arrange(&request, false);
	if (may_oom(&request) && !surely_served(&request))
		request.gfp |= __GFP_NORETRY;
	page = ask(number, &request, false);
	if (page)
		__free_pages(page, request.order);
}

static int __init decisions_init(void)
{
	int nid, at, error;

	chance = seed * 0x9e3779b97f4a7c15ULL + 1;
	for_each_online_node(nid) {
		for (at = 0; at < MAX_NR_ZONES; at++) {
			struct zone *zone = &NODE_DATA(nid)->node_zones[at];

			if (!managed_zone(zone))
				continue;
			zones[zone_count++] = zone;
			frames = max(frames, zone_end_pfn(zone));
		}
	}
	drain = address_of("drain_all_pages");
	if (!drain)
		return -ENOENT;
	held = vzalloc(BITS_TO_LONGS(frames) * sizeof(long));
	if (!held)
		return -ENOMEM;
	error = register_kprobe(&ratelimit);
	if (error) {
		vfree(held);
		return error;
	}
	for (at = 0; at < failures + successes; at++) {
		/* Kinds take turns as long as there are cases of both. */
		if ((long)at * failures / (failures + successes) != (long)(at + 1) * failures / (failures + successes))
			failure(first + at);
		else
			success(first + at);
		cond_resched();
	}
	release_all();
	unregister_kprobe(&ratelimit);
	vfree(held);
	return 0;
}

static void __exit decisions_exit(void)
{
}

module_init(decisions_init);
module_exit(decisions_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Makes Linux take decisions on requests for pages, and logs them");
