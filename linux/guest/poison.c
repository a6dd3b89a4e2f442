/*
 * poison ROUNDS: frames fail, and no program gets them until they are mended.
 *
 * Idea: the kernel can be told that a frame has failed (`madvise`, and files of debugfs). Each round lets some fail, of
 * each kind, and compares what the kernel then says of the frame (`/proc/kpageflags`) and of all (HardwareCorrupted).
 *
 *   soft   a frame in use is to be replaced: the program reads what it wrote, from another frame
 *   hard   a frame in use fails: the program that reads it gets SIGBUS, and reads all other pages
 *   huge   soft and hard within a huge page, which is split for that
 *   tlb    soft on a page of hugetlb: all of its frames but the failed one come back
 *   free   a free frame fails: it is taken out of the middle of its free block
 *   freed  frames that were just given back fail: they are on lists of a CPU, and found there
 *
 * Then a program takes nearly all memory, in small and in huge pages, and asks for the frame of each page: none has
 * failed. At last all frames are mended. They are then free or in use again, and free memory is back.
 *
 * A page may be busy for a moment, so the kernel may refuse; three of four must work.
 *
 * Cost: some seconds a round for 512 MiB. Rejected: QEMU's injection of machine checks, after which nothing is mended.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include "guest.h"

#define PAGE 4096ul
#define HUGE (2ul << 20)
#define PAGES 64
#define SOME 16
#define MOST 4096
#define FREE_FRAMES 200
#define FLAG_BUDDY (1ul << 10)
#define FLAG_FAILED (1ul << 19)
#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE 101
#endif

static uint64_t failed_frames[MOST];
static int failures;
static uint64_t state = 1;
static int pagemap, kpageflags;
static int listed;

static uint64_t word_of(int file, uint64_t index)
{
	uint64_t word = 0;

	if (pread(file, &word, 8, index * 8) != 8)
		return 0;
	return word;
}

/* The frame of a page that has been written. A page that is being moved has none for a moment. */
static uint64_t frame_of(const void *place)
{
	for (int tries = 0; tries < 100; tries++) {
		uint64_t word = word_of(pagemap, (uintptr_t)place / PAGE);

		if (word >> 63)
			return word & ((1ul << 55) - 1);
		usleep(10000);
	}
	failed("poison: the page at %p is not in memory", place);
}

static int has_failed(uint64_t frame)
{
	return (word_of(kpageflags, frame) & FLAG_FAILED) != 0;
}

static void note(const char *kind, uint64_t frame)
{
	if (!has_failed(frame))
		failed("poison: %s: frame %lx has not failed; its flags are %lx", kind, (unsigned long)frame,
		       (unsigned long)word_of(kpageflags, frame));
	if (failures < MOST)
		failed_frames[failures++] = frame;
}

static char *map(size_t size, int flags, int advice)
{
	/* Room for a start at a multiple of a huge page, which pages of hugetlb have anyway. */
	size_t room = flags & MAP_HUGETLB ? 0 : HUGE;
	char *memory = mmap(NULL, size + room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (memory == MAP_FAILED)
		failed("poison: mmap of %zu bytes: %s", size, strerror(errno));
	memory = (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
	if (advice)
		madvise(memory, size, advice);
	for (size_t at = 0; at < size; at += PAGE)
		*(uint64_t *)(memory + at) = pattern(size, at);
	return memory;
}

static sigjmp_buf after_fault;

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(after_fault, 1);
}

/* Whether a page can be read; it must be as written then. */
static int is_readable(const char *kind, const char *memory, size_t size, size_t at)
{
	if (sigsetjmp(after_fault, 1))
		return 0;
	if (*(volatile const uint64_t *)(memory + at) != pattern(size, at))
		failed("poison: %s: page %zu is not what was written", kind, at / PAGE);
	return 1;
}

/* Lets pages fail of a map that has pages of this size; the others stay as they were. */
static void in_use(const char *kind, size_t size, size_t step, int flags, int advice, int is_hard)
{
	char *memory = map(size, flags, advice);
	char is_bad[size / PAGE];
	int asked = 0, done = 0;

	memset(is_bad, 0, sizeof(is_bad));
	for (size_t from = 0; from < size; from += step) {
		size_t at = from + draw(&state, step / PAGE) * PAGE;
		uint64_t frame = frame_of(memory + at);

		asked++;
		if (madvise(memory + at, PAGE, is_hard ? MADV_HWPOISON : MADV_SOFT_OFFLINE))
			continue;
		done++;
		note(kind, frame);
		is_bad[at / PAGE] = is_hard;
		if (!is_hard && frame_of(memory + at) == frame)
			failed("poison: %s: page %zu is still in frame %lx", kind, at / PAGE, (unsigned long)frame);
	}
	for (size_t at = 0; at < size; at += PAGE)
		if (is_readable(kind, memory, size, at) == is_bad[at / PAGE])
			failed("poison: %s: page %zu can%s be read", kind, at / PAGE, is_bad[at / PAGE] ? "" : "not");
	if (done < asked * 3 / 4)
		failed("poison: %s: %d of %d frames failed", kind, done, asked);
	munmap(memory, size);
}

static void hugetlb(void)
{
	const char *number = "/proc/sys/vm/nr_hugepages";
	size_t size = 4 * HUGE;

	/* Twice as many as are mapped, so that there is where to move. */
	if (tell(number, "10") || number_in(number) < 10)
		failed("poison: there are %ld pages of hugetlb, not 10", number_in(number));
	in_use("tlb", size, HUGE, MAP_HUGETLB, 0, 0);
	tell(number, "0");
	if (number_in(number))
		failed("poison: %ld pages of hugetlb stay", number_in(number));
}

static void free_frames(void)
{
	uint64_t frames = 0, word;
	int asked = 0, done = 0;

	while (pread(kpageflags, &word, 8, frames * 8) == 8)
		frames += 4096;
	while (asked < FREE_FRAMES) {
		uint64_t frame = draw(&state, frames);

		if (!(word_of(kpageflags, frame) & FLAG_BUDDY) || has_failed(frame))
			continue;
		asked++;
		if (tell("/sys/kernel/debug/hwpoison/corrupt-pfn", "%lu", (unsigned long)frame))
			continue;
		/* The frame may have been taken into use before; the kernel ignores some kinds of use. */
		if (!has_failed(frame))
			continue;
		done++;
		note("free", frame);
	}
	if (done < asked * 3 / 4)
		failed("poison: free: %d of %d frames failed", done, asked);
}

static void freed_frames(void)
{
	size_t size = 4 * PAGES * PAGE;
	char *memory = map(size, 0, MADV_NOHUGEPAGE);
	uint64_t frames[PAGES];
	int found = 0, number = 0;

	for (int at = 0; at < PAGES; at++)
		frames[at] = frame_of(memory + (PAGES + at) * PAGE);
	munmap(memory, size);
	/* Neither free to the zone nor of any use: on a list. */
	for (int at = 0; at < PAGES; at++)
		if (!word_of(kpageflags, frames[at]))
			frames[number++] = frames[at];
	for (int at = 0; at < number; at++) {
		found += !tell("/sys/kernel/debug/hwpoison/corrupt-pfn", "%lu", (unsigned long)frames[at]);
		note("freed", frames[at]);
	}
	listed += number;
	if (found < number * 3 / 4)
		failed("poison: freed: %d of %d frames were found", found, number);
}

/* Takes nearly all memory; returns how many of its frames have failed, or were mended. */
static long take_all(const char *kind, int advice, const uint64_t *frames, int number)
{
	size_t size = nearly_all();
	char *memory = map(size, 0, advice);
	static uint64_t words[HUGE / PAGE];
	uint64_t top = 1;
	unsigned char *is_one;
	long found = 0;

	for (int at = 0; at < number; at++)
		if (frames[at] >= top)
			top = frames[at] + 1;
	is_one = calloc(top, 1);
	for (int at = 0; at < number; at++)
		is_one[frames[at]] = 1;
	for (size_t at = 0; at < size; at += HUGE) {
		if (pread(pagemap, words, sizeof(words), (uintptr_t)(memory + at) / PAGE * 8) != sizeof(words))
			failed("poison: %s: pagemap", kind);
		for (size_t page = 0; page < HUGE / PAGE; page++) {
			uint64_t frame = words[page] & ((1ul << 55) - 1);

			if (!(words[page] >> 63))
				frame = frame_of(memory + at + page * PAGE);
			found += frame < top && is_one[frame];
			if (has_failed(frame))
				failed("poison: %s: a program got frame %lx, which has failed", kind, (unsigned long)frame);
			if (*(uint64_t *)(memory + at + page * PAGE) != pattern(size, at + page * PAGE))
				failed("poison: %s: a page is not what was written", kind);
		}
	}
	free(is_one);
	munmap(memory, size);
	return found;
}

/* Mends all frames; returns their number. */
static int mend(uint64_t *mended)
{
	int done = 0;

	for (int at = 0; at < failures; at++) {
		uint64_t frame = failed_frames[at];
		int error = tell("/sys/kernel/debug/hwpoison/unpoison-pfn", "%lu", (unsigned long)frame);

		if (error || has_failed(frame))
			failed("poison: frame %lx is not mended: %s; its flags are %lx", (unsigned long)frame, strerror(error),
			       (unsigned long)word_of(kpageflags, frame));
		mended[done++] = frame;
	}
	return done;
}

static void compare_corrupted(const char *when)
{
	if (meminfo("HardwareCorrupted") != failures * 4l)
		failed("poison: %s: HardwareCorrupted is %ld KiB with %d frames", when, meminfo("HardwareCorrupted"), failures);
}

int main(int number, char **arguments)
{
	int rounds = number > 1 ? atoi(arguments[1]) : 3, mended_frames = 0;
	static uint64_t mended[MOST];
	long before, after, all = 0, again = 0;

	pagemap = open("/proc/self/pagemap", O_RDONLY);
	kpageflags = open("/proc/kpageflags", O_RDONLY);
	if (pagemap < 0 || kpageflags < 0 || access("/sys/kernel/debug/hwpoison/corrupt-pfn", W_OK))
		failed("poison: this kernel does not take failures (CONFIG_HWPOISON_INJECT)");
	signal(SIGBUS, on_fault);
	compare_corrupted("at first");
	before = free_memory();
	for (int round = 0; round < rounds; round++) {
		in_use("soft", PAGES * PAGE, PAGE * 4, 0, MADV_NOHUGEPAGE, 0);
		in_use("hard", PAGES * PAGE, PAGE * 4, 0, MADV_NOHUGEPAGE, 1);
		in_use("huge, soft", SOME * HUGE, HUGE, 0, MADV_HUGEPAGE, 0);
		in_use("huge, hard", SOME * HUGE, HUGE, 0, MADV_HUGEPAGE, 1);
		hugetlb();
		compare_corrupted("in use");
		free_frames();
		freed_frames();
		compare_corrupted("free");
		validate();
		take_all("small", MADV_NOHUGEPAGE, failed_frames, failures);
		take_all("large", MADV_HUGEPAGE, failed_frames, failures);
		validate();
		all += failures;
		mended_frames = mend(mended);
		failures = 0;
		compare_corrupted("mended");
		again += take_all("mended", MADV_NOHUGEPAGE, mended, mended_frames);
		validate();
	}
	if (!listed)
		failed("poison: no frame was on a list");
	if (again < all / 2)
		failed("poison: of %ld mended frames %ld were given out again", all, again);
	result("poison_failed", all, "frames");
	result("poison_from_lists", listed, "frames");
	result("poison_used_again", again, "frames");
	sleep(1);
	after = free_memory();
	result("poison_free_before", before, "KiB");
	result("poison_free_after", after, "KiB");
	if (before - after > 8192)
		failed("poison: %ld KiB of memory are lost", before - after);
	return 0;
}
