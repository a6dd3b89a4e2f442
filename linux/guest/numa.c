/*
 * numa: programs say on which node their memory is to lie, and the kernel keeps to it and counts it.
 *
 * Idea: the kernel is asked for the node of every page (`move_pages` without a target). The counters of each node
 * (`numastat`) are compared with the number of pages that were touched.
 *
 *   bind        from a CPU of each node, memory of each node: numa_hit, and local_node or other_node
 *   huge        the same with huge pages: their place only, since a counter counts blocks
 *   prefer      more memory than a node has: the rest lies on another; numa_miss there, numa_foreign on the first
 *   interleave  pages in turn from all nodes: numa_hit and interleave_hit of each
 *   migrate     all pages of the process to another node, and half of them back: every word is as it was
 *
 *   idle        CPUs that keep pages of other nodes' memory give them back within some seconds
 *
 * The rest of the guest allocates too, so a counter may show ALLOWED pages more than were touched. It may show a few
 * less where a preset lets CPUs keep counts (KEPT). At the end each node has its free memory again.
 *
 * Cost: some seconds for 512 MiB. Rejected: libnuma, which the guest would have to carry.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "guest.h"

#define PAGE 4096ul
#define PAGES 4096l
#define NODES 8
#define ALLOWED 1024
#define KEPT 512
#define FAR 64
#define FAR_SECONDS 20
enum { DEFAULT, PREFERRED, BIND, INTERLEAVE };

static const char *const names[] = { "numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node" };
enum { HIT, MISS, FOREIGN, INTERLEAVED, LOCAL, OTHER, ITEMS };

struct counts { long of[NODES][ITEMS]; };

static int nodes;
static int counts_numa = 1;

static struct counts read_counts(void)
{
	struct counts counts;
	char path[64];

	for (int node = 0; node < nodes; node++)
		for (int item = 0; item < ITEMS; item++) {
			snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/numastat", node);
			counts.of[node][item] = counter(path, names[item]);
		}
	return counts;
}

/* Compares what a counter has grown by with the pages that were to be counted. */
static void expect(const char *what, const struct counts *before, int node, int item, long pages)
{
	struct counts now = read_counts();
	long grown = now.of[node][item] - before->of[node][item];

	if (counts_numa && (grown < pages - KEPT || grown > pages + ALLOWED))
		failed("numa: %s: %s of node %d grew by %ld, not by about %ld", what, names[item], node, grown, pages);
}

/* The CPUs of a node. */
static cpu_set_t cpus_of(int node)
{
	cpu_set_t set;
	char path[64], list[64] = "";
	int first, last, found;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
	file = fopen(path, "r");
	if (!file || !fgets(list, sizeof(list), file))
		list[0] = 0;
	if (file)
		fclose(file);
	CPU_ZERO(&set);
	found = sscanf(list, "%d-%d", &first, &last);
	for (int cpu = first; found > 0 && cpu <= (found == 1 ? first : last); cpu++)
		CPU_SET(cpu, &set);
	return set;
}

static void run_on(int node)
{
	cpu_set_t set = cpus_of(node);

	if (!CPU_COUNT(&set) || sched_setaffinity(0, sizeof(set), &set))
		failed("numa: node %d has no CPU to run on", node);
}

/* The pages that CPUs keep of other nodes' memory. */
static long far_pages(void)
{
	cpu_set_t near;
	char line[128];
	long pages = 0, here;
	int node, cpu = 0;
	FILE *file = fopen("/proc/zoneinfo", "r");

	CPU_ZERO(&near);
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Node %d,", &node) == 1)
			near = cpus_of(node);
		sscanf(line, " cpu: %d", &cpu);
		if (sscanf(line, " count: %ld", &here) == 1 && !CPU_ISSET(cpu, &near))
			pages += here;
	}
	if (file)
		fclose(file);
	return pages;
}

static char *map(long pages, int policy, unsigned long mask, int huge)
{
	/* Room for a start at a multiple of a huge page. */
	char *memory = mmap(NULL, pages * PAGE + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		failed("numa: mmap of %ld pages", pages);
	memory = (char *)(((uintptr_t)memory + (2 << 20) - 1) & ~(uintptr_t)((2 << 20) - 1));
	madvise(memory, pages * PAGE, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	if (policy != DEFAULT && syscall(SYS_mbind, memory, pages * PAGE, policy, &mask, NODES + 1, 0))
		failed("numa: mbind: %s", strerror(errno));
	return memory;
}

static void fill(char *memory, long pages)
{
	for (long page = 0; page < pages; page++)
		*(uint64_t *)(memory + page * PAGE) = pattern((uintptr_t)memory, page);
}

static void check(const char *what, const char *memory, long pages)
{
	for (long page = 0; page < pages; page++)
		if (*(const uint64_t *)(memory + page * PAGE) != pattern((uintptr_t)memory, page))
			failed("numa: %s: page %ld is not what was written", what, page);
}

/* Moves pages to a node, or, with -1, counts the pages on each node. */
static void locate(const char *what, char *memory, long pages, int target, long on[NODES])
{
	static void *places[PAGES];
	static int targets[PAGES], status[PAGES];

	memset(on, 0, NODES * sizeof(*on));
	for (long from = 0; from < pages; from += PAGES) {
		long some = pages - from < PAGES ? pages - from : PAGES;

		for (long page = 0; page < some; page++) {
			places[page] = memory + (from + page) * PAGE;
			targets[page] = target;
		}
		if (syscall(SYS_move_pages, 0, some, places, target < 0 ? NULL : targets, status, 2))
			failed("numa: %s: move_pages: %s", what, strerror(errno));
		for (long page = 0; page < some; page++) {
			if (status[page] < 0 || status[page] >= nodes)
				failed("numa: %s: page %ld has status %d", what, from + page, status[page]);
			on[status[page]]++;
		}
	}
}

static void bind(int near, int node, int huge)
{
	const char *what = huge ? "huge" : "bind";
	struct counts before;
	char *memory;
	long on[NODES];

	run_on(near);
	memory = map(PAGES, BIND, 1ul << node, huge);
	before = read_counts();
	fill(memory, PAGES);
	if (!huge) {
		expect(what, &before, node, HIT, PAGES);
		expect(what, &before, node, MISS, 0);
		expect(what, &before, node, near == node ? LOCAL : OTHER, PAGES);
		expect(what, &before, node, near == node ? OTHER : LOCAL, 0);
	}
	locate(what, memory, PAGES, -1, on);
	if (on[node] != PAGES)
		failed("numa: %s: %ld of %ld pages lie on node %d", what, on[node], PAGES, node);
	check(what, memory, PAGES);
	munmap(memory, PAGES * PAGE);
}

static long node_free(int node)
{
	char path[64], line[128];
	long kib = -1, pages = 0, here;
	int at = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/meminfo", node);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Node %*d MemFree: %ld", &kib);
	if (file)
		fclose(file);
	file = fopen("/proc/zoneinfo", "r");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "Node %d,", &at);
		if (at == node && sscanf(line, " count: %ld", &here) == 1)
			pages += here;
	}
	if (file)
		fclose(file);
	return kib + pages * 4;
}

static void prefer(int node, int other)
{
	long pages = node_free(node) / 4 + node_free(other) / 4 / 4, on[NODES];
	struct counts before;
	char *memory;

	run_on(node);
	memory = map(pages, PREFERRED, 1ul << node, 0);
	before = read_counts();
	fill(memory, pages);
	locate("prefer", memory, pages, -1, on);
	/* Page tables and reclaim come from the same nodes. */
	if (on[node] < pages / 2 || on[other] < PAGES / 4 || on[node] + on[other] != pages)
		failed("numa: prefer: of %ld pages %ld lie on node %d, %ld on node %d", pages, on[node], node, on[other], other);
	expect("prefer", &before, node, HIT, on[node]);
	expect("prefer", &before, other, MISS, on[other]);
	expect("prefer", &before, node, FOREIGN, on[other]);
	check("prefer", memory, pages);
	munmap(memory, pages * PAGE);
	result("numa_preferred", on[node], "pages");
	result("numa_fallen", on[other], "pages");
}

static void interleave(void)
{
	struct counts before;
	char *memory = map(PAGES, INTERLEAVE, (1ul << nodes) - 1, 0);
	long on[NODES], share = PAGES / nodes;

	before = read_counts();
	fill(memory, PAGES);
	locate("interleave", memory, PAGES, -1, on);
	for (int node = 0; node < nodes; node++) {
		if (on[node] < share - 1 || on[node] > share + 1)
			failed("numa: interleave: %ld of %ld pages lie on node %d", on[node], PAGES, node);
		expect("interleave", &before, node, HIT, share);
		/* Linux's own policies count this one, under each allocator. */
		expect("interleave", &before, node, INTERLEAVED, share);
	}
	check("interleave", memory, PAGES);
	munmap(memory, PAGES * PAGE);
}

static void migrate(int from, int to)
{
	unsigned long old = 1ul << from, new = 1ul << to;
	char *memory;
	long on[NODES];

	run_on(from);
	memory = map(PAGES, DEFAULT, 0, 0);
	fill(memory, PAGES);
	if (syscall(SYS_migrate_pages, 0, NODES + 1, &old, &new) < 0)
		failed("numa: migrate_pages: %s", strerror(errno));
	locate("migrate", memory, PAGES, -1, on);
	if (on[to] != PAGES)
		failed("numa: migrate: %ld of %ld pages lie on node %d", on[to], PAGES, to);
	check("migrate", memory, PAGES);
	locate("migrate", memory, PAGES / 2, from, on);
	locate("migrate", memory, PAGES, -1, on);
	if (on[from] != PAGES / 2 || on[to] != PAGES / 2)
		failed("numa: migrate back: %ld pages lie on node %d, %ld on node %d", on[from], from, on[to], to);
	check("migrate back", memory, PAGES);
	munmap(memory, PAGES * PAGE);
}

int main(void)
{
	long before[NODES], after;
	char name[64];

	while (nodes < NODES) {
		snprintf(name, sizeof(name), "/sys/devices/system/node/node%d", nodes);
		if (access(name, F_OK))
			break;
		nodes++;
	}
	if (nodes < 2)
		failed("numa: one node only; the workload needs --nodes 2");
	if (is_framewright() && !system("grep -q numa-stat=off /proc/framewright"))
		counts_numa = 0;
	for (int node = 0; node < nodes; node++)
		before[node] = node_free(node);
	for (int near = 0; near < nodes; near++)
		for (int node = 0; node < nodes; node++) {
			bind(near, node, 0);
			bind(near, node, 1);
		}
	prefer(0, 1);
	interleave();
	migrate(0, 1);
	migrate(1, 0);
	result("numa_migrated", counter("/proc/vmstat", "pgmigrate_success"), "pages");
	result("numa_far", far_pages(), "pages");
	for (int time = 0; time < FAR_SECONDS && far_pages() > FAR; time++)
		sleep(1);
	result("numa_far_idle", far_pages(), "pages");
	/* Linux's own lists keep them until the CPU counts something. */
	if (is_framewright() && far_pages() > FAR)
		failed("numa: idle CPUs still keep %ld pages of other nodes' memory", far_pages());
	for (int node = 0; node < nodes; node++) {
		after = node_free(node);
		snprintf(name, sizeof(name), "numa_free_before_%d", node);
		result(name, before[node], "KiB");
		snprintf(name, sizeof(name), "numa_free_after_%d", node);
		result(name, after, "KiB");
		if (before[node] - after > 8192)
			failed("numa: node %d has lost %ld KiB", node, before[node] - after);
	}
	return 0;
}
