// Faults memory in huge steps and says of each fault whether a huge page came, and how long it took.
//
// Runs inside of the emulated machine (see guest.sh). Maps MIB of anonymous memory at a boundary of 2 MiB and touches
// the first half of it, 2 MiB after 2 MiB: writes the first byte, asks with mincore whether a page far behind it came
// along (then the fault brought a huge page), and writes the rest. The time is of all three, in microseconds: with base
// pages it holds 512 faults. Prints a line "huge MICROSECONDS" or "base MICROSECONDS" for each step, then "done", and
// keeps the memory until it is killed, so that the machine can be looked at meanwhile.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { STEP = 2 << 20, PROBE = 64 * 4096 };

// Since some moment in the past.
static double microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

int main(int count, char **words) {
    long mib = count > 1 ? atol(words[1]) : 0;
    if (mib < 4 || count > 3 || (count == 3 && strcmp(words[2], "madvise"))) {
        fprintf(stderr, "usage: faults MIB [madvise], with MIB at least 4\n");
        return 2;
    }
    size_t bytes = (size_t)mib << 20, steps = bytes / STEP / 2;
    char *mapped = mmap(NULL, bytes + STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) fail("mmap");
    char *start = (char *)(((uintptr_t)mapped + STEP - 1) & ~(uintptr_t)(STEP - 1));
    if (count == 3 && madvise(start, bytes, MADV_HUGEPAGE)) fail("madvise");

    // Times are kept in memory touched beforehand: printing would allocate between the faults.
    double *took = malloc(steps * sizeof *took);
    char *huge = malloc(steps);
    if (!took || !huge) fail("malloc");
    memset(took, 1, steps * sizeof *took);
    memset(huge, 1, steps);
    for (size_t i = 0; i < steps; i++) {
        char *step = start + i * STEP;
        unsigned char resident;
        double began = microseconds();
        *step = 1;
        if (mincore(step + PROBE, 4096, &resident)) fail("mincore");
        memset(step, 1, STEP);
        took[i] = microseconds() - began;
        huge[i] = resident & 1;
    }
    for (size_t i = 0; i < steps; i++) printf("%s %.1f\n", huge[i] ? "huge" : "base", took[i]);
    puts("done");
    fflush(stdout);
    pause();
    return 0;
}
