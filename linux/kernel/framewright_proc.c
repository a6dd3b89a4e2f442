// SPDX-License-Identifier: GPL-2.0
/*
 * Framewright as page allocator: /proc/framewright.
 *
 * It shows the state. "validate", "drain" and "bench ORDER BATCH LOOPS" can be written to it; the next read begins with
 * what came of that.
 */
#define pr_fmt(fmt) "framewright: " fmt

#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/stop_machine.h>
#include <linux/timex.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "internal.h"
#include "framewright_internal.h"

static DEFINE_MUTEX(fw_lock);
static char fw_result[256];
static char fw_why[256];

static int fw_show(struct seq_file *file, void *unused)
{
	mutex_lock(&fw_lock);
	if (fw_result[0])
		seq_printf(file, "%s\n", fw_result);
	seq_printf(file, "version %s\n", fw_version());
	mutex_unlock(&fw_lock);
	if (framewright_on()) {
		seq_printf(file, "options %s\ndescriptors %zu\n", fw_options, fw_descriptors);
		fw_linux_show(file);
	} else {
		seq_printf(file, "off%s\n", fw_options[0] ? ", although the command line has framewright=; see dmesg" : "");
	}
	return 0;
}

static int fw_open(struct inode *inode, struct file *file)
{
	return single_open(file, fw_show, NULL);
}

bool fw_stopped;

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
		if (framewright_on()) {
			fw_stop_compaction();
			error = stop_machine(fw_validate, &sound, NULL);
			fw_start_compaction();
		}
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
