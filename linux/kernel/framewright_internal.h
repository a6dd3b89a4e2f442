/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Framewright as page allocator: what its files in mm/ share, and both sides of the border to the part in Rust.
 *
 *   framewright.c          what mm/ asks: requests, zones, pageblocks, CPUs, counters
 *   framewright_boot.c     from memblock's map to the allocator
 *   framewright_compact.c  compaction, which Linux carries out
 *   framewright_proc.c     /proc/framewright
 *   framewright_bench.c    its loops
 *   framewright_support.c  what the part in Rust asks of Linux
 *
 * A zone is a number to Rust, a page its frame number, and alloc_flags are the bits of linux/glue.
 */
#ifndef _MM_FRAMEWRIGHT_INTERNAL_H
#define _MM_FRAMEWRIGHT_INTERNAL_H

#include <linux/framewright.h>
#include <linux/mmzone.h>
#include <linux/preempt.h>
#include <linux/smp.h>
#include <linux/version.h>

struct seq_file;

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

/* What linux/glue has. */
size_t fw_linux_bytes(const struct fw_linux_boot *boot);
bool fw_linux_boot(const struct fw_linux_boot *boot, void *block, size_t bytes, u64 own);
u64 fw_linux_alloc(u32 zone, u32 preferred, u32 order, u32 flags);
u64 fw_linux_alloc_at(u16 record, u32 zone, u32 order, u32 migratetype);
bool fw_linux_free(u64 pfn, u32 order);
bool fw_linux_free_at(u16 record, u64 pfn, u32 order);
bool fw_linux_serves_listed(void);
bool fw_linux_keeps_apart(void);
bool fw_linux_split(u64 pfn, u32 order);
bool fw_linux_has_block(u32 zone, u32 order, u32 flags);
u64 fw_linux_free_blocks(u32 zone, u32 order, u32 migratetype);
u64 fw_linux_gather(u32 zone, u32 order, u32 flags);
u64 fw_linux_drain(void);
bool fw_linux_unreserve(u32 zone, u32 order, u32 flags);
bool fw_linux_compacts(void);
u64 fw_linux_compact(u32 zone, u32 order, u32 flags, u64 keep, bool insists);
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
void fw_linux_version(char *text, size_t size);
void fw_linux_show(struct seq_file *file);
bool fw_linux_validate(char *why, size_t size);
struct fw_linux_lists fw_linux_lists(u32 zone, u32 cpu);
void fw_linux_numa(u32 zone, u64 counters[6]);

/* What linux/glue asks for. */
void fw_linux_pin(void);
void fw_linux_unpin(void);
unsigned long fw_linux_irq_save(void);
void fw_linux_irq_restore(unsigned long flags);
unsigned long fw_linux_cpu(void);
u32 fw_linux_context(void);
unsigned long fw_linux_record(unsigned long cpus);
void fw_linux_fence_others(void);
bool fw_linux_may_fence_others(void);
void fw_linux_relax(void);
u64 fw_linux_now(void);
void fw_linux_free_changed(u32 number, s64 free, s64 cma, s64 highatomic);
void fw_linux_retyped(u64 pfn, u32 migratetype);
bool fw_linux_migrates(void);
bool fw_linux_migrate(u64 from, u64 to);
bool fw_linux_traces(void);
void fw_linux_trace_extfrag(u64 pfn, u32 orders, u32 types, bool owned);
void fw_linux_trace_locked(u64 pfn, u32 order, u32 migratetype, bool refill);
void fw_linux_trace_drain(u64 pfn, u32 order, u32 migratetype);
void fw_linux_print(struct seq_file *file, const char *text, size_t length);
void fw_linux_bug(const char *file, size_t length, u32 line);

/* Kinds that this kernel was not configured for have no index. */
extern const s8 fw_kinds[MAX_NR_ZONES];

/* The zone of each number. */
extern struct zone *fw_numbered[MAX_NUMNODES * FW_ZONES];

/* fw_linux_alloc_at and fw_linux_free_at are worth a call. */
DECLARE_STATIC_KEY_FALSE(fw_listed_key);

/* Runs the loops that the words ask for, and writes what they took, or why not. */
int fw_bench(int words, char **word, char *result, size_t size);

/* The command line's value, bytes of the allocator's descriptors, and the version of the part in Rust. */
extern char fw_options[256];
extern size_t fw_descriptors;
const char *fw_version(void);

/* All other CPUs are stopped, and answer no interrupt; they passed a fence before. */
extern bool fw_stopped;

/* Between these calls no pageblock is isolated for compaction. */
void fw_stop_compaction(void);
void fw_start_compaction(void);

/* The rights that Linux's flags of a request give. */
u32 fw_rights(unsigned int order, unsigned int alloc_flags);

static inline u32 fw_zone(struct zone *zone)
{
	return zone_to_nid(zone) * FW_ZONES + fw_kinds[zone_idx(zone)];
}

/* The running context's lists: tasks, soft interrupts, hard interrupts, each for `cpus` CPUs; ~0 for an NMI. */
static inline unsigned long fw_record(unsigned long cpus)
{
	unsigned long cpu = smp_processor_id();

	if (likely(in_task()))
		return cpu;
	if (in_nmi())
		return ~0UL;
	return cpu + (in_hardirq() ? 2 * cpus : cpus);
}

#endif /* _MM_FRAMEWRIGHT_INTERNAL_H */
