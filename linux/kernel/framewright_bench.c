// SPDX-License-Identifier: GPL-2.0
/*
 * Framewright as page allocator: loops in the kernel that time allocations and frees apart.
 *
 * A loop allocates BATCH blocks through all of Linux's path, and frees them. Threads on CPUS CPUs do that at once. This is
 * what page_bench02 (batch 1, any order), page_bench03 (batch 1, all CPUs) and mmtests' pagealloc (order 0, any batch)
 * measure.
 *
 * The clocks are read before, between and after the two halves of a loop. What a reading takes is known from readings
 * without anything between them, and taken off. The first loop fills the lists and is not counted.
 *
 * Cost: three readings in each loop. Rejected: one reading for all loops, which cannot tell allocations from frees.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/timex.h>
#include <linux/vmalloc.h>

#include "internal.h"
#include "framewright_internal.h"

/* User-Mode Linux says 0, though programs of the host may read its counter. */
#ifdef CONFIG_UML_X86
#define fw_cycles() __builtin_ia32_rdtsc()
#else
#define fw_cycles() get_cycles()
#endif

#define FW_MOST_BATCH 65536
#define FW_READINGS 256

struct fw_clock {
	u64 ns, cycles;
};

enum { FW_ALLOC, FW_FREE, FW_HALVES };

struct fw_bench {
	unsigned int order, batch, cpus;
	unsigned long loops;
	struct fw_clock reading;
	atomic_t waiting, running;
	struct completion done;
};

/* One CPU's part. */
struct fw_bencher {
	struct fw_bench *bench;
	struct task_struct *task;
	struct page **pages;
	struct fw_clock taken[FW_HALVES];
	unsigned long failed;
};

static struct fw_clock fw_read(void)
{
	struct fw_clock now;

	now.ns = ktime_get_ns();
	now.cycles = fw_cycles();
	return now;
}

/* The least of many: no interrupt came between. */
static struct fw_clock fw_reading(void)
{
	struct fw_clock least = { ~0ULL, ~0ULL }, before = fw_read();
	int i;

	for (i = 0; i < FW_READINGS; i++) {
		struct fw_clock now = fw_read();

		least.ns = min(least.ns, now.ns - before.ns);
		least.cycles = min(least.cycles, now.cycles - before.cycles);
		before = now;
	}
	return least;
}

static void fw_add(struct fw_clock *sum, struct fw_clock from, struct fw_clock to, struct fw_clock reading)
{
	sum->ns += to.ns - from.ns - min(to.ns - from.ns, reading.ns);
	sum->cycles += to.cycles - from.cycles - min(to.cycles - from.cycles, reading.cycles);
}

static int fw_bench_loops(void *data)
{
	struct fw_bencher *self = data;
	struct fw_bench *bench = self->bench;
	unsigned long loop;
	unsigned int i;

	/* All begin together. */
	atomic_dec(&bench->waiting);
	while (atomic_read(&bench->waiting)) {
		cpu_relax();
		cond_resched();
	}
	for (loop = 0; loop <= bench->loops; loop++) {
		struct fw_clock start, between, end;

		start = fw_read();
		for (i = 0; i < bench->batch; i++)
			self->pages[i] = alloc_pages(GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY, bench->order);
		between = fw_read();
		for (i = 0; i < bench->batch; i++) {
			if (likely(self->pages[i]))
				__free_pages(self->pages[i], bench->order);
			else
				self->failed++;
		}
		end = fw_read();
		if (loop) {
			fw_add(&self->taken[FW_ALLOC], start, between, bench->reading);
			fw_add(&self->taken[FW_FREE], between, end, bench->reading);
		}
		cond_resched();
	}
	if (atomic_dec_and_test(&bench->running))
		complete(&bench->done);
	return 0;
}

/* Makes a thread for each CPU, none of which runs yet. */
static int fw_bench_threads(struct fw_bench *bench, struct fw_bencher *benchers, struct page **pages)
{
	unsigned int made = 0, cpu;

	for_each_online_cpu(cpu) {
		struct fw_bencher *self = &benchers[made];

		if (made == bench->cpus)
			break;
		self->bench = bench;
		self->pages = pages + (size_t)made * bench->batch;
		self->task = kthread_create(fw_bench_loops, self, "fw_bench/%u", cpu);
		if (IS_ERR(self->task))
			break;
		kthread_bind(self->task, cpu);
		made++;
	}
	if (made == bench->cpus)
		return 0;
	while (made--)
		kthread_stop(benchers[made].task);
	return -ENOMEM;
}

static int fw_bench_run(struct fw_bench *bench, struct fw_bencher *benchers)
{
	struct page **pages = vmalloc(array3_size(bench->cpus, bench->batch, sizeof(*pages)));
	unsigned int i;
	int error;

	if (!pages)
		return -ENOMEM;
	error = fw_bench_threads(bench, benchers, pages);
	if (!error) {
		for (i = 0; i < bench->cpus; i++)
			wake_up_process(benchers[i].task);
		wait_for_completion(&bench->done);
	}
	vfree(pages);
	return error;
}

/* Writes NAME=VALUE for a sum of `count` times, with two decimal places; nothing for a counter that does not run. */
static int fw_put(char *to, size_t size, const char *name, u64 sum, u64 count)
{
	u64 hundredths = div64_u64(sum * 100, count);

	return sum ? scnprintf(to, size, " %s=%llu.%02llu", name, hundredths / 100, hundredths % 100) : 0;
}

static void fw_bench_show(const struct fw_bench *bench, const struct fw_bencher *benchers, char *result, size_t size)
{
	static const char *const names[FW_HALVES][2] = { { "alloc_ns", "alloc_cycles" }, { "free_ns", "free_cycles" } };
	u64 count = (u64)bench->loops * bench->batch * bench->cpus;
	struct fw_clock both = { 0 };
	unsigned int i;
	size_t at;
	int half;

	at = scnprintf(result, size, "order=%u batch=%u cpus=%u pairs=%llu", bench->order, bench->batch, bench->cpus, count);
	for (half = 0; half < FW_HALVES; half++) {
		struct fw_clock sum = { 0 };

		for (i = 0; i < bench->cpus; i++) {
			sum.ns += benchers[i].taken[half].ns;
			sum.cycles += benchers[i].taken[half].cycles;
		}
		at += fw_put(result + at, size - at, names[half][0], sum.ns, count);
		at += fw_put(result + at, size - at, names[half][1], sum.cycles, count);
		both.ns += sum.ns;
		both.cycles += sum.cycles;
	}
	at += fw_put(result + at, size - at, "ns", both.ns, count);
	fw_put(result + at, size - at, "cycles", both.cycles, count);
}

/* Reads ORDER BATCH LOOPS [CPUS]; false if they are not that. */
static bool fw_bench_read(struct fw_bench *bench, int words, char **word)
{
	bench->cpus = 1;
	if (words != 3 && words != 4)
		return false;
	if (kstrtouint(word[0], 10, &bench->order) || kstrtouint(word[1], 10, &bench->batch) ||
	    kstrtoul(word[2], 10, &bench->loops) || (words == 4 && kstrtouint(word[3], 10, &bench->cpus)))
		return false;
	return bench->order <= FW_MAX_ORDER && bench->batch && bench->batch <= FW_MOST_BATCH && bench->loops &&
	       bench->loops <= U32_MAX && bench->cpus && bench->cpus <= num_online_cpus();
}

int fw_bench(int words, char **word, char *result, size_t size)
{
	struct fw_bench bench = { .reading = fw_reading() };
	struct fw_bencher *benchers;
	unsigned long failed = 0;
	unsigned int i;
	int error;

	if (!fw_bench_read(&bench, words, word)) {
		snprintf(result, size, "refused: bench ORDER BATCH LOOPS [CPUS] takes 0 to %u, 1 to %u, 1 to %u, 1 to %u",
			 FW_MAX_ORDER, FW_MOST_BATCH, U32_MAX, num_online_cpus());
		return -EINVAL;
	}
	benchers = kcalloc(bench.cpus, sizeof(*benchers), GFP_KERNEL);
	if (!benchers)
		return -ENOMEM;
	atomic_set(&bench.waiting, bench.cpus);
	atomic_set(&bench.running, bench.cpus);
	init_completion(&bench.done);
	error = fw_bench_run(&bench, benchers);
	for (i = 0; i < bench.cpus; i++)
		failed += benchers[i].failed;
	if (failed) {
		snprintf(result, size, "refused: %lu allocations of order %u failed", failed, bench.order);
		error = -ENOMEM;
	} else if (!error) {
		fw_bench_show(&bench, benchers, result, size);
	}
	kfree(benchers);
	return error;
}
