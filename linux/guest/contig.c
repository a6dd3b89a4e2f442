/*
 * contig SECONDS: contiguous memory is taken from places where movable pages lie, which have to go elsewhere.
 *
 * Idea: the kernel has an area for contiguous memory (`cma=64M`), which programs may use while nobody takes it. Its
 * debugging files take and give back any number of pages. So ranges of random sizes come and go for SECONDS. The
 * workload runs stress beside, which wants more than all memory and checks each word: a page that was not moved, or that
 * was given to two, is found there. Compaction of all memory is asked for now and then. Afterwards, with `after` instead
 * of SECONDS, when nothing else runs, a guest of less than 3 GiB does this:
 *
 *   fill      a program takes nearly all memory, so most of the area too, and gives back every third piece
 *   whole     the area is taken whole, and every word of the program is as it was
 *   back      the area is given back, and as much of it is free as before; nr_free_cma and CmaFree agree
 *
 * A larger guest has a zone without memory of the kernel. There a page of 1 GiB is made of memory in use, written, read
 * and given back.
 *
 * Cost: SECONDS. Rejected: a module that allocates, which the kernels cannot load.
 */
#include <dirent.h>
#include <sys/mman.h>
#include "guest.h"

#define PAGE 4096ul
#define PIECE 65536ul
#define STEP 64
#define TRIES 20
#define GIGANTIC "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"

static char area[320];

static void find_area(void)
{
	DIR *areas = opendir("/sys/kernel/debug/cma");
	struct dirent *entry;

	while (areas && (entry = readdir(areas)))
		if (entry->d_name[0] != '.')
			snprintf(area, sizeof(area), "/sys/kernel/debug/cma/%s", entry->d_name);
	if (areas)
		closedir(areas);
	if (!area[0])
		failed("contig: this kernel has no area for contiguous memory (cma=64M)");
}

static long of_area(const char *name)
{
	char path[400];

	snprintf(path, sizeof(path), "%s/%s", area, name);
	return number_in(path);
}

static int ask(const char *what, long pages)
{
	char path[400];

	snprintf(path, sizeof(path), "%s/%s", area, what);
	return tell(path, "%ld", pages);
}

/* Takes pages of the area; moved pages may be busy for a moment. */
static int take(long pages, int tries)
{
	while (ask("alloc", pages)) {
		if (!--tries)
			return 0;
		usleep(100000);
	}
	return 1;
}

static void give_all(void)
{
	int error = ask("free", of_area("used"));

	if (error || of_area("used"))
		failed("contig: %ld pages of the area stay in use: %s", of_area("used"), strerror(error));
}

static void ranges(double length)
{
	double until = seconds() + length;
	uint64_t state = getpid();
	long count = of_area("count"), taken = 0, pages = 0, refused = 0;

	while (seconds() < until) {
		long some = 1 + draw(&state, 1ul << draw(&state, 13));

		if (of_area("used") + some > count || !draw(&state, 8)) {
			give_all();
			continue;
		}
		if (ask("alloc", some)) {
			refused++;
		} else {
			taken++;
			pages += some;
		}
		if (!draw(&state, 16))
			tell("/proc/sys/vm/compact_memory", "1");
	}
	give_all();
	if (taken < 10)
		failed("contig: %ld ranges were taken, %ld were refused", taken, refused);
	result("contig_ranges", taken, "ranges");
	result("contig_pages", pages, "pages");
	result("contig_refused", refused, "ranges");
}

static uint64_t *fill(size_t size)
{
	uint64_t *words = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (words == MAP_FAILED)
		failed("contig: mmap of %zu bytes", size);
	/* Page tables first, so that they do not lie in a zone that is used when the first one is full. */
	for (size_t at = 0; at < size / 8; at += (2 << 20) / 8)
		words[at] = 1;
	for (size_t at = 0; at < size / 8; at += STEP)
		words[at] = pattern(size, at);
	return words;
}

/* Gives back every third piece: room for what has to move, everywhere. */
static void thin(uint64_t *words, size_t size)
{
	for (size_t at = 2 * PIECE; at + PIECE <= size; at += 3 * PIECE)
		madvise((char *)words + at, PIECE, MADV_DONTNEED);
}

static void check(const char *what, const uint64_t *words, size_t size, int is_thin)
{
	for (size_t at = 0; at < size / 8; at += STEP) {
		if (is_thin && at * 8 / PIECE % 3 == 2 && at * 8 / PIECE * PIECE + PIECE <= size)
			continue;
		if (words[at] != pattern(size, at))
			failed("contig: %s: word %zu is not what was written", what, at);
	}
}

/* Lets nothing be kept: no cache of files, and no pages on lists of CPUs. A kernel without the edits keeps the latter. */
static void drain(void)
{
	tell("/proc/sys/vm/drop_caches", "3");
	tell("/proc/framewright", "drain");
}

static void whole(void)
{
	long count = of_area("count"), before, filled;
	uint64_t *words;
	size_t size;

	drain();
	before = meminfo("CmaFree");
	size = nearly_all();
	words = fill(size);
	filled = meminfo("CmaFree");
	if (before - filled < count / 2)
		failed("contig: of %ld KiB of the area %ld KiB are free: programs get no memory of it", before, filled);
	thin(words, size);
	result("contig_in_use", count * 4 - meminfo("CmaFree"), "KiB");
	if (!take(count, TRIES))
		failed("contig: the area is not to be had whole; %ld KiB of it are free", meminfo("CmaFree"));
	if (meminfo("CmaFree") > 64)
		failed("contig: the area is taken, and %ld KiB of it are free", meminfo("CmaFree"));
	check("whole", words, size, 1);
	munmap(words, size);
	give_all();
	drain();
	result("contig_cma_before", before, "KiB");
	result("contig_cma_after", meminfo("CmaFree"), "KiB");
	if (before - meminfo("CmaFree") > 4096)
		failed("contig: %ld KiB of the area were free, and %ld KiB are", before, meminfo("CmaFree"));
	if (labs(counter("/proc/vmstat", "nr_free_cma") * 4 - meminfo("CmaFree")) > 1024)
		failed("contig: nr_free_cma is %ld pages, CmaFree %ld KiB", counter("/proc/vmstat", "nr_free_cma"), meminfo("CmaFree"));
}

static void gigantic(void)
{
	size_t size = 1 << 30, room = 64 << 20, used = meminfo("MemFree") / 3 / 4 * PAGE;
	uint64_t *first = fill(room), *words, *page;
	int tries = TRIES;

	words = fill(used);
	/* For what the kernel needs itself, in the zone that it prefers. */
	munmap(first, room);
	while (tell(GIGANTIC, "1") || number_in(GIGANTIC) != 1)
		if (!--tries)
			failed("contig: there is no page of 1 GiB, with %ld KiB free", meminfo("MemFree"));
	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 30 << 26, -1, 0);
	if (page == MAP_FAILED)
		failed("contig: mmap of a page of 1 GiB: %s", strerror(errno));
	for (size_t at = 0; at < size / 8; at += 512)
		page[at] = pattern(size, at);
	check("gigantic", words, used, 0);
	for (size_t at = 0; at < size / 8; at += 512)
		if (page[at] != pattern(size, at))
			failed("contig: gigantic: word %zu is not what was written", at);
	munmap(page, size);
	munmap(words, used);
	if (tell(GIGANTIC, "0") || number_in(GIGANTIC))
		failed("contig: the page of 1 GiB stays");
	result("contig_gigantic", TRIES - tries + 1, "tries");
}

int main(int number, char **arguments)
{
	find_area();
	if (number > 1 && strcmp(arguments[1], "after")) {
		ranges(atof(arguments[1]));
		return 0;
	}
	if (meminfo("MemTotal") < 3300 << 10)
		whole();
	else
		gigantic();
	validate();
	return 0;
}
