/*
 * stress SECONDS DIRECTORY: works memory hard and checks everything that it wrote.
 *
 * Idea: processes of six kinds run at once until the time is over. Each writes a pattern to every word that it takes
 * and compares it before it gives the memory back. Two processes that are given the same frame thus notice it.
 *
 *   kind    what it takes                                             share of memory
 *   anon    maps of random size, checked and unmapped in random order  1/6
 *   huge    the same in pieces of 4 MiB, advised to use huge pages     1/6
 *   forker  a map that child and parent both change (copy on write)    1/16
 *   tmpfs   files in /ram                                              1/8
 *   cache   files in DIRECTORY, on a disk: page cache over memory      3/2 in sum
 *   names   many small files and directories: memory of the kernel     -
 *
 * Afterwards nothing is left: the files are removed and the caches dropped. The free memory before and after is a
 * result; a loss of more than a fiftieth of memory and 8 MiB is a failure.
 *
 * Cost: SECONDS, all CPUs and a disk of three times the memory. Rejected: stress-ng, a large program that the guest
 * would have to carry, and whose checks of memory are few.
 */
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "guest.h"

#define PIECES 64

static double until;
static const char *directory;
static size_t memory_size; /* bytes */
static uint64_t state;

static uint64_t chance(uint64_t below)
{
	return draw(&state, below);
}

static void fill(uint64_t *words, size_t size, uint64_t tag)
{
	for (size_t at = 0; at < size / 8; at++)
		words[at] = pattern(tag, at);
}

static void check(const char *kind, const uint64_t *words, size_t size, uint64_t tag)
{
	for (size_t at = 0; at < size / 8; at++)
		if (words[at] != pattern(tag, at))
			failed("stress: %s: word %zu at %p is %lx, not %lx", kind, at, (void *)&words[at],
			       (unsigned long)words[at], (unsigned long)pattern(tag, at));
}

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		failed("stress: mmap of %zu bytes: %s", size, strerror(errno));
	return memory;
}

/* anon and huge: maps come and go in random order; a map is checked before it goes. */
static uint64_t maps(const char *kind, size_t share, size_t unit, int huge)
{
	struct { uint64_t *words; size_t size; uint64_t tag; } pieces[PIECES] = { 0 };
	size_t largest = share / PIECES / unit * 2, taken = 0;
	uint64_t rounds = 0;

	if (!largest)
		largest = 1;
	while (seconds() < until) {
		typeof(pieces[0]) *piece = &pieces[chance(PIECES)];

		rounds++;
		if (piece->words) {
			check(kind, piece->words, piece->size, piece->tag);
			munmap(piece->words, piece->size);
			taken -= piece->size;
			piece->words = NULL;
			continue;
		}
		piece->size = (1 + chance(largest)) * unit;
		if (taken + piece->size > share)
			continue;
		piece->words = map(piece->size);
		if (huge)
			madvise(piece->words, piece->size, MADV_HUGEPAGE);
		piece->tag = ((uint64_t)getpid() << 32) + rounds;
		fill(piece->words, piece->size, piece->tag);
		taken += piece->size;
	}
	for (int at = 0; at < PIECES; at++)
		if (pieces[at].words)
			check(kind, pieces[at].words, pieces[at].size, pieces[at].tag);
	return rounds;
}

static uint64_t anon(void)
{
	return maps("anon", memory_size / 6, 4096, 0);
}

static uint64_t huge(void)
{
	return maps("huge", memory_size / 6, 4 << 20, 1);
}

static uint64_t forker(void)
{
	size_t size = memory_size / 32 / 4096 * 4096;
	uint64_t rounds = 0, *words = map(size);

	while (seconds() < until) {
		uint64_t tag = ((uint64_t)getpid() << 32) + ++rounds;
		int status;
		pid_t child;

		fill(words, size, tag);
		child = fork();
		if (child < 0)
			failed("stress: fork: %s", strerror(errno));
		if (!child) {
			check("forker, child", words, size, tag);
			fill(words, size / 2, ~tag);
			check("forker, child", words, size / 2, ~tag);
			_exit(0);
		}
		check("forker", words, size, tag);
		if (waitpid(child, &status, 0) != child || status)
			failed("stress: the child of forker ended with status %x", status);
		check("forker", words, size, tag);
	}
	return rounds;
}

/* tmpfs and cache: files of the pattern are written, later read and checked, and removed. */
static uint64_t files(const char *kind, const char *at, int number, size_t size)
{
	static uint64_t piece[8192];
	uint64_t rounds = 0, tags[64] = { 0 };
	char path[256];

	while (seconds() < until) {
		int which = chance(number);
		int is_there = tags[which] != 0, file;

		snprintf(path, sizeof(path), "%s/%s.%d.%d", at, kind, getpid(), which);
		file = open(path, is_there ? O_RDONLY : O_RDWR | O_CREAT, 0600);
		if (file < 0)
			failed("stress: open %s: %s", path, strerror(errno));
		if (!is_there)
			tags[which] = ((uint64_t)getpid() << 32) + ++rounds;
		for (size_t done = 0; done < size; done += sizeof(piece)) {
			if (!is_there)
				fill(piece, sizeof(piece), tags[which] + done);
			if ((is_there ? read(file, piece, sizeof(piece)) : write(file, piece, sizeof(piece))) != sizeof(piece))
				failed("stress: %s: %s", path, strerror(errno));
			if (is_there)
				check(kind, piece, sizeof(piece), tags[which] + done);
		}
		close(file);
		/* Files of the cache are read several times, so that it has a use. */
		if (is_there && !chance(4)) {
			unlink(path);
			tags[which] = 0;
		}
	}
	for (int which = 0; which < number; which++) {
		snprintf(path, sizeof(path), "%s/%s.%d.%d", at, kind, getpid(), which);
		unlink(path);
	}
	return rounds;
}

static uint64_t tmpfs(void)
{
	return files("tmpfs", "/ram", 8, memory_size / 64 / 65536 * 65536);
}

static uint64_t cache(void)
{
	return files("cache", directory, 48, memory_size / 64 / 65536 * 65536);
}

static uint64_t names(void)
{
	uint64_t rounds = 0;
	char path[256];

	while (seconds() < until) {
		snprintf(path, sizeof(path), "/ram/names.%d", (int)(rounds % 16));
		mkdir(path, 0700);
		for (int pass = 0; pass < 2; pass++)
			for (int at = 0; at < 256; at++) {
				int file;

				snprintf(path, sizeof(path), "/ram/names.%d/%d", (int)(rounds % 16), at);
				if (pass) {
					unlink(path);
					continue;
				}
				file = open(path, O_WRONLY | O_CREAT, 0600);
				if (file < 0 || write(file, path, 100) != 100)
					failed("stress: %s: %s", path, strerror(errno));
				close(file);
			}
		snprintf(path, sizeof(path), "/ram/names.%d", (int)(rounds % 16));
		rmdir(path);
		rounds++;
	}
	return rounds;
}

/* The sum of the counters of /proc/vmstat whose names begin like this. */
static double counted(const char *beginning)
{
	char name[64];
	double sum = 0, value;
	FILE *file = fopen("/proc/vmstat", "r");

	while (file && fscanf(file, "%63s %lf", name, &value) == 2)
		if (!strncmp(name, beginning, strlen(beginning)))
			sum += value;
	if (file)
		fclose(file);
	return sum;
}

/* Drops the caches and returns the free memory in KiB. */
static long settle(void)
{
	for (int time = 0; time < 3; time++) {
		int file = open("/proc/sys/vm/drop_caches", O_WRONLY);

		sync();
		if (file < 0 || write(file, "3", 1) != 1)
			failed("stress: drop_caches");
		close(file);
		usleep(300000);
	}
	return free_memory();
}

int main(int number, char **arguments)
{
	static const struct { const char *name; uint64_t (*work)(void); } kinds[] = {
		{ "anon", anon }, { "huge", huge }, { "forker", forker }, { "tmpfs", tmpfs },
		{ "cache", cache }, { "cache2", cache }, { "names", names },
	};
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
	uint64_t *rounds = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t children[KINDS];
	long before, after, allowed;
	int wrong = 0;

	if (number < 3 || rounds == MAP_FAILED)
		failed("usage: stress SECONDS DIRECTORY");
	directory = arguments[2];
	memory_size = meminfo("MemTotal") * 1024ul;
	before = settle();
	until = seconds() + atof(arguments[1]);
	for (int kind = 0; kind < KINDS; kind++) {
		children[kind] = fork();
		if (children[kind] < 0)
			failed("stress: fork");
		if (!children[kind]) {
			state = getpid();
			rounds[kind] = kinds[kind].work();
			_exit(0);
		}
	}
	for (int kind = 0; kind < KINDS; kind++) {
		int status;

		waitpid(children[kind], &status, 0);
		if (status) {
			printf("failed stress: %s ended with status %x\n", kinds[kind].name, status);
			wrong = 1;
		}
	}
	for (int kind = 0; kind < KINDS; kind++) {
		char name[64];

		snprintf(name, sizeof(name), "stress_%s", kinds[kind].name);
		result(name, rounds[kind], "rounds");
	}
	/* What shows that memory was short. */
	result("stress_reclaimed", counted("pgsteal_kswapd") + counted("pgsteal_direct"), "pages");
	result("stress_migrated", counted("pgmigrate_success"), "pages");
	result("stress_huge_pages", counted("thp_fault_alloc"), "pages");
	after = settle();
	allowed = 8192 + memory_size / 1024 / 50;
	result("stress_free_before", before, "KiB");
	result("stress_free_after", after, "KiB");
	if (before - after > allowed)
		failed("stress: %ld KiB of memory are lost, %ld may be", before - after, allowed);
	return wrong;
}
