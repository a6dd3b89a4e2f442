// SPDX-License-Identifier: GPL-2.0
/*
 * Writes to new memory until the OOM killer ends it. "eat KIND [NODE]":
 *
 *   anon     anonymous pages
 *   shared   pages of shared memory
 *   tables   one page in each 2 MiB, so that page tables take as much memory as pages
 *   locked   anonymous pages, locked by mlock
 *   forked   anonymous pages, of two processes
 *   pipes2   pipes of 1 MiB, whose rings of buffers are requests of order 2
 *   pipes3   pipes of 2 MiB: order 3
 *
 * With NODE, only memory of this node may be used.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STEP (2UL << 20)

/* As many pipes as can be. */
static int pipes(int size)
{
	const struct rlimit limit = { 1 << 20, 1 << 20 };
	int ends[2];

	if (setrlimit(RLIMIT_NOFILE, &limit))
		return 1;
	while (!pipe(ends) && fcntl(ends[0], F_SETPIPE_SZ, size) >= 0)
		;
	return 1;
}

int main(int count, char **words)
{
	const char *kind = count > 1 ? words[1] : "anon";
	int flags = MAP_ANONYMOUS | (strcmp(kind, "shared") ? MAP_PRIVATE : MAP_SHARED);
	/* The guest's decoys can be killed as well, but this process goes first. */
	FILE *score = fopen("/proc/self/oom_score_adj", "w");

	if (!score || fputs("1000", score) < 0 || fclose(score))
		return 1;
	if (count > 2) {
		unsigned long nodes = 1UL << atoi(words[2]);

		if (syscall(SYS_set_mempolicy, MPOL_BIND, &nodes, 8 * sizeof(nodes)))
			return 1;
	}
	if (!strcmp(kind, "forked"))
		fork();
	if (!strncmp(kind, "pipes", 5))
		return pipes(1 << (18 + kind[5] - '0'));
	for (;;) {
		char *at = mmap(NULL, STEP, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, -1, 0);

		if (at == MAP_FAILED)
			return 1;
		if (!strcmp(kind, "locked") && mlock(at, STEP))
			return 1;
		if (!strcmp(kind, "tables")) {
			madvise(at, STEP, MADV_NOHUGEPAGE);
			*at = 1;
		} else {
			memset(at, 1, STEP);
		}
	}
}
