// SPDX-License-Identifier: GPL-2.0
/*
 * Framewright as page allocator: compaction. The part in Rust says what moves where, and Linux moves it.
 *
 * Where the switch `compaction` is not off, a zone that Linux wants to compact for an order is compacted by the part in
 * Rust. For each page that is to move it names a free one, its place. Linux isolates the page and migrates it there, and
 * then frees it as any other.
 *
 * Runs that have no order (/proc/sys/vm/compact_memory) and callers that may not wait for file systems stay with Linux's
 * own compaction. Only single pages move, as in Linux 6.1.
 */
#include <linux/migrate.h>
#include <linux/mm_inline.h>
#include <linux/rwsem.h>
#include <linux/sched/signal.h>
#include <linux/swap.h>
#include <linux/version.h>
#include <linux/vmstat.h>

#include "internal.h"
#include "framewright_internal.h"

#ifdef CONFIG_COMPACTION

/* Held for reading while pageblocks may be isolated; for writing by the check of all invariants. */
static DECLARE_RWSEM(fw_compaction);

void fw_stop_compaction(void)
{
	down_write(&fw_compaction);
}

void fw_start_compaction(void)
{
	up_write(&fw_compaction);
}

bool framewright_compacts(const struct compact_control *cc)
{
	return cc->order >= 0 && (cc->gfp_mask & __GFP_FS) && fw_linux_compacts();
}

enum compact_result framewright_compact(struct compact_control *cc)
{
	struct zone *zone = cc->zone;
	unsigned long mark = wmark_pages(zone, cc->alloc_flags & ALLOC_WMARK_MASK);
	/* Without the boost, which asks for compaction. */
	unsigned long keep = zone->_watermark[WMARK_MIN];

	if (zone_watermark_ok(zone, cc->order, mark, cc->highest_zoneidx, cc->alloc_flags))
		return COMPACT_SUCCESS;
	if (framewright_apart())
		keep += framewright_mixed(zone);
	if (zone_page_state(zone, NR_FREE_PAGES) <= keep + pageblock_nr_pages || !down_read_trylock(&fw_compaction))
		return COMPACT_SKIPPED;
	/* Pages that wait for their list cannot be isolated. */
	lru_add_drain();
	count_vm_events(COMPACTMIGRATE_SCANNED,
			fw_linux_compact(fw_zone(zone), cc->order, fw_rights(cc->order, cc->alloc_flags), keep,
					 cc->mode != MIGRATE_ASYNC));
	up_read(&fw_compaction);
	return framewright_compacted(zone, cc->order, cc->migratetype) ? COMPACT_SUCCESS : COMPACT_COMPLETE;
}

/* Where a page moves to. */
struct fw_place {
	struct page *page;
	/* Whether Linux has it. */
	bool taken;
};

/* Linux's page and folio of one page are one address. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
#define FW_TARGET struct folio
#else
#define FW_TARGET struct page
#endif

static FW_TARGET *fw_get_place(FW_TARGET *from, unsigned long private)
{
	struct fw_place *place = (struct fw_place *)private;

	/* Linux tries again, and could not give it back. */
	if (place->taken)
		return NULL;
	place->taken = true;
	post_alloc_hook(place->page, 0, __GFP_MOVABLE);
	/* Newer versions leave that to the caller. */
	if (!page_count(place->page))
		set_page_refcounted(place->page);
	return (FW_TARGET *)place->page;
}

/* Somebody who has only looked may still hold the page: then it stays Linux's, and the last one frees it. */
static void fw_put_place(FW_TARGET *to, unsigned long private)
{
	struct fw_place *place = (struct fw_place *)private;

	if (put_page_testzero(place->page) && framewright_unprepare(place->page))
		place->taken = false;
}

static bool fw_isolate_lru(struct folio *folio)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	return folio_isolate_lru(folio);
#else
	return !folio_isolate_lru(folio);
#endif
}

/* Whether `to` is Linux's now: the page moved, or its place could not be given back. */
bool fw_linux_migrate(u64 from, u64 to)
{
	struct fw_place place = { .page = pfn_to_page(to) };
	struct page *page = pfn_to_page(from);
	bool is_background = current == page_pgdat(page)->kcompactd;
	enum migrate_mode mode = is_background ? MIGRATE_SYNC_LIGHT : MIGRATE_ASYNC;
	struct folio *folio;
	bool isolated;
	LIST_HEAD(list);

	cond_resched();
	if (fatal_signal_pending(current) || !get_page_unless_zero(page))
		return false;
	folio = page_folio(page);
	isolated = !PageCompound(page) && PageLRU(page) && fw_isolate_lru(folio);
	put_page(page);
	if (!isolated)
		return false;
	list_add(&folio->lru, &list);
	mod_node_page_state(page_pgdat(page), NR_ISOLATED_ANON + folio_is_file_lru(folio), 1);
	if (migrate_pages(&list, fw_get_place, fw_put_place, (unsigned long)&place, mode, MR_COMPACTION, NULL))
		putback_movable_pages(&list);
	return place.taken;
}

#else

void fw_stop_compaction(void)
{
}

void fw_start_compaction(void)
{
}

bool fw_linux_migrate(u64 from, u64 to)
{
	return false;
}

#endif

bool fw_linux_migrates(void)
{
	return IS_ENABLED(CONFIG_COMPACTION);
}
