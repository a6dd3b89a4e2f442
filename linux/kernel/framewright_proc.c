// SPDX-License-Identifier: GPL-2.0
/*
 * Framewright as page allocator: /proc/framewright.
 *
 * It shows the state. "validate", "drain" and "bench ORDER BATCH LOOPS [CPUS]" can be written to it; the next read begins
 * with what came of that, or why it was refused.
 */
#define pr_fmt(fmt) "framewright: " fmt

#include <linux/init.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/stop_machine.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "internal.h"
#include "framewright_internal.h"

static DEFINE_MUTEX(fw_lock);
static char fw_result[320];
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

static int fw_check(void)
{
	bool sound = true;
	int error = 0;

	strscpy(fw_why, "off", sizeof(fw_why));
	if (framewright_on()) {
		fw_stop_compaction();
		error = stop_machine(fw_validate, &sound, NULL);
		fw_start_compaction();
	}
	if (error)
		snprintf(fw_result, sizeof(fw_result), "refused: a range is isolated");
	else
		snprintf(fw_result, sizeof(fw_result), "validate %s: %s", sound ? "sound" : "VIOLATED", fw_why);
	if (!sound)
		pr_err("BUG: %s\n", fw_why);
	return error;
}

static int fw_command(int words, char **word)
{
	if (words == 1 && !strcmp(word[0], "validate"))
		return fw_check();
	if (words == 1 && !strcmp(word[0], "drain")) {
		drain_all_pages(NULL);
		snprintf(fw_result, sizeof(fw_result), "drained");
		return 0;
	}
	if (words && !strcmp(word[0], "bench"))
		return fw_bench(words - 1, word + 1, fw_result, sizeof(fw_result));
	snprintf(fw_result, sizeof(fw_result), "refused: commands are validate, drain, bench ORDER BATCH LOOPS [CPUS]");
	return -EINVAL;
}

static ssize_t fw_write(struct file *file, const char __user *text, size_t size, loff_t *place)
{
	char command[64] = "";
	char **word;
	int words, error;

	if (size >= sizeof(command))
		return -EINVAL;
	if (copy_from_user(command, text, size))
		return -EFAULT;
	word = argv_split(GFP_KERNEL, command, &words);
	if (!word)
		return -ENOMEM;
	mutex_lock(&fw_lock);
	error = fw_command(words, word);
	mutex_unlock(&fw_lock);
	argv_free(word);
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
