/*
 * page_fault SECONDS: rate of page faults, for 1, 2, 4, ... processes up to the number of CPUs.
 *
 * Idea: the pattern of will-it-scale's page_fault1. Each process maps 128 MiB of anonymous memory, writes to every
 * page, unmaps all, and begins again; it counts the pages. The map is smaller where memory is too small for all
 * processes. The parent lets them warm up for a fifth of the time and then reads the counters twice.
 *
 * Cost: SECONDS for each number of processes. Rejected: a run of fixed length, which needs another length on each host.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "guest.h"

#define MAP (128ul << 20)
#define LINE 64

static void fault_forever(volatile uint64_t *count, size_t size, size_t page)
{
	for (;;) {
		char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			failed("page_fault: mmap");
		madvise(memory, size, MADV_NOHUGEPAGE);
		for (size_t at = 0; at < size; at += page) {
			memory[at] = 1;
			++*count;
		}
		munmap(memory, size);
	}
}

static uint64_t sum(volatile uint64_t *counts, long tasks)
{
	uint64_t all = 0;

	for (long task = 0; task < tasks; task++)
		all += counts[task * LINE / 8];
	return all;
}

static double measure(long tasks, double length, size_t size, volatile uint64_t *counts)
{
	pid_t children[tasks];
	uint64_t before, after;
	double from, to;

	memset((void *)counts, 0, tasks * LINE);
	for (long task = 0; task < tasks; task++) {
		children[task] = fork();
		if (children[task] < 0)
			failed("page_fault: fork");
		if (!children[task])
			fault_forever(&counts[task * LINE / 8], size, sysconf(_SC_PAGESIZE));
	}
	usleep(length * 0.2e6);
	from = seconds();
	before = sum(counts, tasks);
	usleep(length * 0.8e6);
	to = seconds();
	after = sum(counts, tasks);
	for (long task = 0; task < tasks; task++)
		kill(children[task], SIGKILL);
	for (long task = 0; task < tasks; task++)
		waitpid(children[task], NULL, 0);
	return (after - before) / (to - from);
}

int main(int number, char **arguments)
{
	double length = number > 1 ? atof(arguments[1]) : 5;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t size = MAP;
	uint64_t *counts = mmap(NULL, cpus * LINE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (counts == MAP_FAILED)
		failed("page_fault: mmap");
	while (size * cpus / 1024 > (size_t)meminfo("MemFree") / 2)
		size /= 2;
	for (long tasks = 1; tasks; tasks = tasks == cpus ? 0 : tasks * 2 < cpus ? tasks * 2 : cpus) {
		char name[64];

		snprintf(name, sizeof(name), "page_fault_%ld", tasks);
		result(name, measure(tasks, length, size, counts), "faults/s");
	}
	return 0;
}
