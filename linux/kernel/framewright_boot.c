// SPDX-License-Identifier: GPL-2.0
/*
 * Framewright as page allocator: boot, from memblock's map of memory.
 *
 * All memory is allocated to Framewright then; Linux frees it range by range afterwards. Whatever it cannot serve leaves
 * Linux's own allocator in charge, with a line that says why.
 */
#define pr_fmt(fmt) "framewright: " fmt

#include <linux/init.h>
#include <linux/memblock.h>
#include <linux/smp.h>

#include "internal.h"
#include "framewright_internal.h"

#define FW_REGIONS 512

struct zone *fw_numbered[MAX_NUMNODES * FW_ZONES] __ro_after_init;

char fw_options[256] __ro_after_init;
size_t fw_descriptors __ro_after_init;

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
static char fw_why[256] __initdata;

const char *fw_version(void)
{
	static char version[16];

	fw_linux_version(version, sizeof(version));
	return version;
}

void __init framewright_boot(void)
{
	struct fw_linux_boot boot = {
		.options = fw_options, .options_length = strlen(fw_options),
		.regions = fw_regions, .allocated = fw_allocated, .movable = fw_movable,
		.cpus = fw_cpus, .cpus_count = nr_cpu_ids,
		.max_order = FW_MAX_ORDER, .pageblock = pageblock_order, .page_shift = PAGE_SHIFT,
		.why = fw_why, .why_size = sizeof(fw_why),
	};
	unsigned long start, end, frames = 0;
	struct zone *zone;
	void *block = NULL;
	size_t bytes;
	int i, node;

	if (!boot.options_length)
		return;
	for_each_mem_pfn_range(i, MAX_NUMNODES, &start, &end, &node) {
		if (boot.regions_count == FW_REGIONS) {
			pr_err("off: more than %d regions of memory\n", FW_REGIONS);
			return;
		}
		if (node > U8_MAX) {
			pr_err("off: memory of node %d\n", node);
			return;
		}
		frames += end - start;
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
	if (fw_linux_serves_listed())
		static_branch_enable(&fw_listed_key);
	if (fw_linux_keeps_apart())
		static_branch_enable(&framewright_apart_key);
	fw_descriptors = bytes;
	pr_info("%s, version %s: %u CPUs, %u nodes, %lu pages, %zu KiB of descriptors (%zu bytes a page)\n", fw_options,
		fw_version(), nr_cpu_ids, num_online_nodes(), frames, bytes >> 10, bytes / frames);
}
