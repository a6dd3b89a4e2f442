/*
 * What the guest's programs share: how they say results, and how they end.
 *
 * Idea: a line on standard output for each result; the host reads them. Cost: none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static inline void result(const char *name, double value, const char *unit)
{
	printf("result %s %.6g %s\n", name, value, unit);
	fflush(stdout);
}

/* Says why a check failed and ends the process. */
static inline void __attribute__((noreturn, format(printf, 1, 2))) failed(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("failed ");
	vprintf(format, arguments);
	printf("\n");
	va_end(arguments);
	fflush(stdout);
	_exit(1);
}

/* A number in KiB from /proc/meminfo, such as MemFree. */
static inline long meminfo(const char *name)
{
	char line[128];
	long value = -1;
	size_t length = strlen(name);
	FILE *file = fopen("/proc/meminfo", "r");

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length) && line[length] == ':')
			value = atol(line + length + 1);
	if (file)
		fclose(file);
	return value;
}

/*
 * Free memory in KiB, with the pages that Linux keeps for each CPU (`count:` in /proc/zoneinfo). Since 6.7 these may be
 * an eighth of all, and MemFree leaves them out.
 */
static inline long free_memory(void)
{
	char line[128];
	long pages = 0, here;
	FILE *file = fopen("/proc/zoneinfo", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " count: %ld", &here) == 1)
			pages += here;
	if (file)
		fclose(file);
	return meminfo("MemFree") + pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Bytes, in huge pages, that a program can take while nothing is killed: watermarks and page tables need the rest. */
static inline size_t nearly_all(void)
{
	return (meminfo("MemFree") - meminfo("MemTotal") / 64 - 32768) / 2048 * (2ul << 20);
}

/* The content of word `index` that tag `tag` stands for: a mix that differs in every word. */
static inline uint64_t pattern(uint64_t tag, uint64_t index)
{
	uint64_t mixed = tag * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u;

	return mixed ^ (mixed >> 29);
}

/* A number below `below`; `state` is the caller's. */
static inline uint64_t draw(uint64_t *state, uint64_t below)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (*state >> 33) % below;
}

/* The number that follows a name in a file of lines NAME NUMBER, such as /proc/vmstat; -1 without such a line. */
static inline long counter(const char *path, const char *name)
{
	char found[64];
	long value = -1, here;
	FILE *file = fopen(path, "r");

	while (file && fscanf(file, "%63s %ld%*[^\n]", found, &here) == 2)
		if (!strcmp(found, name))
			value = here;
	if (file)
		fclose(file);
	return value;
}

/* The number in a file; -1 if there is none. */
static inline long number_in(const char *path)
{
	long value = -1;
	FILE *file = fopen(path, "r");

	if (!file || fscanf(file, "%ld", &value) != 1)
		value = -1;
	if (file)
		fclose(file);
	return value;
}

/* Writes a text to a file of the kernel; returns 0 or an error's number. */
static inline int __attribute__((format(printf, 2, 3))) tell(const char *path, const char *format, ...)
{
	char text[256];
	va_list arguments;
	int file = open(path, O_WRONLY), length, error = 0;

	if (file < 0)
		return errno;
	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (write(file, text, length) != length)
		error = errno;
	close(file);
	return error;
}

/* Whether the kernel runs on Framewright; a kernel without the edits does not, nor one without a preset. */
static inline int is_framewright(void)
{
	char line[256];
	int is = 0;
	FILE *file = fopen("/proc/framewright", "r");

	while (file && fgets(line, sizeof(line), file))
		is |= !strncmp(line, "mechanisms ", 11);
	if (file)
		fclose(file);
	return is;
}

/* Lets the allocator check its invariants. */
static inline void validate(void)
{
	int error = tell("/proc/framewright", "validate");

	if (error && error != ENOENT)
		failed("validate: %s", strerror(error));
}
