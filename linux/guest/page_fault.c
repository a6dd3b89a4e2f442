/*
 * page_fault [-g GROUP] SECONDS [TASKS...]: rate of page faults, for each number of processes.
 *
 * Idea: the pattern of will-it-scale's page_fault1. Each process maps 128 MiB of anonymous memory, writes to every
 * page, unmaps all, and begins again; it counts the pages. Process i stays on the i-th CPU that there is. The map is
 * smaller where memory is too small for all processes. The parent lets them warm up for a fifth of the time and then
 * reads the counters twice. Without TASKS they are 1, 2, 4, ... up to the number of CPUs.
 *
 * With -g process i enters the control group GROUP/i, which is made for it. A group has LRU lists of its own, so no
 * process waits for the lock of another's lists.
 *
 * Cost: SECONDS for each number of processes. Rejected: a run of fixed length, which needs another length on each host.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "guest.h"

#define MAP (128ul << 20)
#define LINE 64
#define MOST_CPUS 8192

static const char *group;
static cpu_set_t *cpus;
static size_t cpus_size;

/* Keeps this process on the CPU with this index among those that it may use. */
static void stay_on(long index)
{
	cpu_set_t *one = CPU_ALLOC(MOST_CPUS);

	CPU_ZERO_S(cpus_size, one);
	for (int cpu = 0; cpu < MOST_CPUS; cpu++) {
		if (!CPU_ISSET_S(cpu, cpus_size, cpus) || index--)
			continue;
		CPU_SET_S(cpu, cpus_size, one);
		if (sched_setaffinity(0, cpus_size, one))
			failed("page_fault: no pin to CPU %d: %s", cpu, strerror(errno));
	}
	CPU_FREE(one);
}

static void enter_group(long task)
{
	char path[256];
	int error;

	snprintf(path, sizeof(path), "%s/%ld", group, task);
	if (mkdir(path, 0755) && errno != EEXIST)
		failed("page_fault: %s: %s", path, strerror(errno));
	snprintf(path, sizeof(path), "%s/%ld/cgroup.procs", group, task);
	error = tell(path, "0");
	if (error)
		failed("page_fault: %s: %s", path, strerror(error));
}

static void leave_group(long task)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%ld", group, task);
	rmdir(path);
}

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
		if (!children[task]) {
			/* No process outlives a parent that fails or is killed. */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			stay_on(task);
			if (group)
				enter_group(task);
			fault_forever(&counts[task * LINE / 8], size, sysconf(_SC_PAGESIZE));
		}
	}
	usleep(length * 0.2e6);
	from = seconds();
	before = sum(counts, tasks);
	usleep(length * 0.8e6);
	to = seconds();
	after = sum(counts, tasks);
	for (long task = 0; task < tasks; task++) {
		if (!counts[task * LINE / 8])
			failed("page_fault: task %ld of %ld has not run", task, tasks);
		kill(children[task], SIGKILL);
	}
	for (long task = 0; task < tasks; task++)
		waitpid(children[task], NULL, 0);
	for (long task = 0; group && task < tasks; task++)
		leave_group(task);
	return (after - before) / (to - from);
}

static void report(long tasks, double length, size_t size, volatile uint64_t *counts)
{
	char name[64];

	snprintf(name, sizeof(name), "page_fault_%ld", tasks);
	result(name, measure(tasks, length, size, counts), "faults/s");
}

int main(int number, char **arguments)
{
	double length = 5;
	long most, tasks;
	size_t size = MAP;
	uint64_t *counts;

	if (number > 2 && !strcmp(arguments[1], "-g")) {
		group = arguments[2];
		number -= 2;
		arguments += 2;
	}
	if (number > 1)
		length = atof(arguments[1]);
	cpus = CPU_ALLOC(MOST_CPUS);
	cpus_size = CPU_ALLOC_SIZE(MOST_CPUS);
	if (sched_getaffinity(0, cpus_size, cpus))
		failed("page_fault: sched_getaffinity");
	most = CPU_COUNT_S(cpus_size, cpus);
	counts = mmap(NULL, most * LINE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counts == MAP_FAILED)
		failed("page_fault: mmap");
	while (size * most / 1024 > (size_t)meminfo("MemFree") / 2)
		size /= 2;
	for (int index = 2; index < number; index++) {
		tasks = atol(arguments[index]);
		if (tasks < 1 || tasks > most)
			failed("page_fault: %s tasks on %ld CPUs", arguments[index], most);
		report(tasks, length, size, counts);
	}
	for (tasks = 1; number < 3 && tasks; tasks = tasks == most ? 0 : tasks * 2 < most ? tasks * 2 : most)
		report(tasks, length, size, counts);
	return 0;
}
