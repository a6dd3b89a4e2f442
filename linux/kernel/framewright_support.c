// SPDX-License-Identifier: GPL-2.0
/*
 * Framewright as page allocator: what the part in Rust asks of Linux.
 *
 * Preemption, interrupts, the number and context of the CPU, a fence on all other CPUs, counts and tracepoints. Each
 * function does what its name says, on which linux/glue/src/kernel.rs relies.
 */
#define pr_fmt(fmt) "framewright: " fmt

#include <linux/bug.h>
#include <linux/mm.h>
#include <linux/page-isolation.h>
#include <linux/pageblock-flags.h>
#include <linux/sched/clock.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/vmstat.h>
#include <trace/events/kmem.h>

#include "internal.h"
#include "framewright_internal.h"

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

void fw_linux_pin(void)
{
	preempt_disable();
}

void fw_linux_unpin(void)
{
	preempt_enable();
}

unsigned long fw_linux_irq_save(void)
{
	unsigned long flags;

	local_irq_save(flags);
	return flags;
}

void fw_linux_irq_restore(unsigned long flags)
{
	local_irq_restore(flags);
}

unsigned long fw_linux_cpu(void)
{
	return raw_smp_processor_id();
}

u32 fw_linux_context(void)
{
	if (in_task())
		return 0;
	if (in_nmi())
		return 3;
	return in_hardirq() ? 2 : 1;
}

unsigned long fw_linux_record(unsigned long cpus)
{
	return fw_record(cpus);
}

static void fw_fence(void *unused)
{
	smp_mb();
}

void fw_linux_fence_others(void)
{
	if (!READ_ONCE(fw_stopped))
		smp_call_function(fw_fence, NULL, 1);
}

bool fw_linux_may_fence_others(void)
{
	return in_task() && !irqs_disabled();
}

void fw_linux_relax(void)
{
	cpu_relax();
}

u64 fw_linux_now(void)
{
	return local_clock();
}

/* The zone lock of the part in Rust is held, and interrupts are off. */
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

bool fw_linux_traces(void)
{
	return trace_mm_page_alloc_extfrag_enabled() || trace_mm_page_alloc_zone_locked_enabled() ||
	       trace_mm_page_pcpu_drain_enabled();
}

void fw_linux_trace_extfrag(u64 pfn, u32 orders, u32 types, bool owned)
{
	trace_mm_page_alloc_extfrag(pfn_to_page(pfn), orders & 0xff, orders >> 8, linux_type(types & 0xff),
				    linux_type(types >> 8));
}

void fw_linux_trace_locked(u64 pfn, u32 order, u32 migratetype, bool refill)
{
	trace_mm_page_alloc_zone_locked(pfn_to_page(pfn), order, linux_type(migratetype), refill);
}

void fw_linux_trace_drain(u64 pfn, u32 order, u32 migratetype)
{
	trace_mm_page_pcpu_drain(pfn_to_page(pfn), order, linux_type(migratetype));
}

void fw_linux_print(struct seq_file *file, const char *text, size_t length)
{
	seq_write(file, text, length);
}

void fw_linux_bug(const char *file, size_t length, u32 line)
{
	panic("framewright: a bug in %.*s, line %u\n", (int)length, file, line);
}
