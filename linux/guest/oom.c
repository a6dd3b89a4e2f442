/*
 * oom: one process takes all memory and is killed; the guest goes on.
 *
 * Idea: the child asks to be the first to be killed, and writes to page after page until the kernel kills it. The
 * parent then takes and checks an eighth of memory. Anything but death by SIGKILL is a failure.
 *
 * Cost: one pass over all memory. Rejected: filling memory through tmpfs, which no kill would free.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "guest.h"

static void take_all(void)
{
	const size_t step = 1 << 20;
	int score = open("/proc/self/oom_score_adj", O_WRONLY);

	if (score < 0 || write(score, "1000", 4) != 4)
		failed("oom: cannot ask to be killed first");
	for (;;) {
		char *memory = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			failed("oom: mmap said no before memory ran out");
		memset(memory, 1, step);
	}
}

int main(void)
{
	long total = meminfo("MemTotal"), before = free_memory();
	uint64_t words = total / 8 * 1024 / 8;
	uint64_t *memory;
	double from = seconds();
	int status;
	pid_t child = fork();

	if (child < 0)
		failed("oom: fork");
	if (!child)
		take_all();
	waitpid(child, &status, 0);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		failed("oom: the process was not killed; status %x", status);
	result("oom_seconds", seconds() - from, "s");
	memory = mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		failed("oom: mmap after the kill");
	for (uint64_t at = 0; at < words; at++)
		memory[at] = pattern(1, at);
	for (uint64_t at = 0; at < words; at++)
		if (memory[at] != pattern(1, at))
			failed("oom: word %lu is not what was written", (unsigned long)at);
	munmap(memory, words * 8);
	/* The kernel frees some of a killed process's memory later. */
	sleep(1);
	result("oom_free_before", before, "KiB");
	result("oom_free_after", free_memory(), "KiB");
	return 0;
}
