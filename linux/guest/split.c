/*
 * split SECONDS: blocks that are taken whole and come back page by page, and pages that are taken many at once.
 *
 * Idea: three kinds of use, again and again for SECONDS, each with its own check.
 *
 *   huge   huge pages are split through debugfs (`split_huge_pages`); single pages of each are given back in random
 *          order, and the others stay as they were; vmstat has counted each split
 *   table  a table of a million files takes 8 MiB of `vmalloc`, which are blocks of 2 MiB that are split
 *   bulk   an area for swap of some hundred MiB needs a table of `vmalloc` of less than 2 MiB, whose pages come in one
 *          request; then programs take more than all memory, a part of which is written to that area
 *
 * `vmallocinfo` says how many pages a table has. Free memory comes back.
 *
 * Cost: SECONDS, and a disk for the area, on which mkswap was run. Rejected: a module that splits, which the kernels cannot load.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include "guest.h"

#define PAGE 4096ul
#define HUGE (2ul << 20)
#define PAGES 8
#define FILES 1000000

static uint64_t state = 1;
static long split_pages, bulk_pages, swapped;

static char *map(size_t size)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		failed("split: mmap of %zu bytes: %s", size, strerror(errno));
	return memory;
}

static void fill(char *memory, size_t size)
{
	for (size_t at = 0; at < size; at += 8)
		*(uint64_t *)(memory + at) = pattern(size, at);
}

static void check(const char *what, const char *memory, size_t from, size_t to, size_t size)
{
	for (size_t at = from; at < to; at += 8)
		if (*(const uint64_t *)(memory + at) != pattern(size, at))
			failed("split: %s: word %zu is not what was written", what, at / 8);
}

static void huge(void)
{
	size_t size = PAGES * HUGE, order[PAGES * HUGE / PAGE];
	char *room = map(size + HUGE), *memory = (char *)(((uintptr_t)room + HUGE - 1) & ~(HUGE - 1));
	long before = counter("/proc/vmstat", "thp_fault_alloc"), split = counter("/proc/vmstat", "thp_split_page"), got;
	int error;

	madvise(memory, size, MADV_HUGEPAGE);
	fill(memory, size);
	got = counter("/proc/vmstat", "thp_fault_alloc") - before;
	error = tell("/sys/kernel/debug/split_huge_pages", "%d,0x%lx,0x%lx", getpid(), (unsigned long)memory,
		     (unsigned long)memory + size);
	split = counter("/proc/vmstat", "thp_split_page") - split;
	if (error || split < got)
		failed("split: of %ld huge pages %ld were split: %s", got, split, strerror(error));
	for (size_t at = 0; at < size / PAGE; at++)
		order[at] = at;
	for (size_t at = size / PAGE - 1; at; at--) {
		size_t other = draw(&state, at + 1), here = order[at];

		order[at] = order[other];
		order[other] = here;
	}
	/* Three of four pages go one by one. */
	for (size_t at = 0; at < size / PAGE * 3 / 4; at++)
		munmap(memory + order[at] * PAGE, PAGE);
	for (size_t at = size / PAGE * 3 / 4; at < size / PAGE; at++)
		check("huge", memory, order[at] * PAGE, order[at] * PAGE + PAGE, size);
	munmap(room, size + HUGE);
	split_pages += split;
}

/* The largest number of pages that a function has in one area of vmalloc. */
static long vmalloc_pages(const char *function)
{
	char line[512], *place;
	long most = 0, pages;
	FILE *file = fopen("/proc/vmallocinfo", "r");

	while (file && fgets(line, sizeof(line), file)) {
		place = strstr(line, function) ? strstr(line, "pages=") : NULL;
		if (place && sscanf(place, "pages=%ld", &pages) == 1 && pages > most)
			most = pages;
	}
	if (file)
		fclose(file);
	return most;
}

static void table(void)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		failed("split: fork");
	if (!child) {
		struct rlimit limit = { FILES + 1, FILES + 1 };
		long pages;

		if (setrlimit(RLIMIT_NOFILE, &limit) || dup2(1, FILES) != FILES || write(FILES, "", 0))
			failed("split: no table of %d files: %s", FILES, strerror(errno));
		pages = vmalloc_pages("alloc_fdtable");
		if (pages < FILES * 8 / (long)PAGE)
			failed("split: the table of files has %ld pages", pages);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		failed("split: the program with the table of files ended with status %x", status);
}

static void swap(const char *disk)
{
	size_t size = (meminfo("MemTotal") / 3 * 1024ul) / PAGE * PAGE;
	long written = counter("/proc/vmstat", "pswpout");
	pid_t children[4];
	int status;

	if (swapon(disk, 0))
		failed("split: swapon %s: %s", disk, strerror(errno));
	bulk_pages = vmalloc_pages("swapon");
	if (bulk_pages < 16)
		failed("split: the table of the area for swap has %ld pages", bulk_pages);
	for (int at = 0; at < 4; at++) {
		children[at] = fork();
		if (!children[at]) {
			char *memory = map(size);

			madvise(memory, size, at % 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
			fill(memory, size);
			check("swap", memory, 0, size, size);
			_exit(0);
		}
	}
	for (int at = 0; at < 4; at++)
		if (children[at] < 0 || waitpid(children[at], &status, 0) != children[at] || status)
			failed("split: a program that needs swap ended with status %x", status);
	if (swapoff(disk))
		failed("split: swapoff: %s", strerror(errno));
	if (counter("/proc/vmstat", "pswpout") == written)
		failed("split: no page was written to the area for swap");
	swapped += counter("/proc/vmstat", "pswpout") - written;
}

/* The free memory in KiB once nothing is cached. */
static long settle(void)
{
	tell("/proc/sys/vm/drop_caches", "3");
	sleep(1);
	return free_memory();
}

int main(int number, char **arguments)
{
	const char *disk = number > 2 ? arguments[2] : "/dev/vda";
	double until = seconds() + (number > 1 ? atof(arguments[1]) : 20);
	long before = settle(), after, rounds = 0;

	do {
		for (int at = 0; at < 8; at++) {
			huge();
			table();
		}
		swap(disk);
		rounds++;
	} while (seconds() < until);
	validate();
	result("split_rounds", rounds, "rounds");
	result("split_huge_pages", split_pages, "pages");
	result("split_bulk", bulk_pages, "pages");
	result("split_swapped", swapped, "pages");
	after = settle();
	result("split_free_before", before, "KiB");
	result("split_free_after", after, "KiB");
	if (before - after > 8192 + meminfo("MemTotal") / 50)
		failed("split: %ld KiB of memory are lost", before - after);
	return 0;
}
