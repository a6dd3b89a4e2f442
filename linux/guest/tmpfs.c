/*
 * tmpfs FILE SECONDS: rate of writing, reading and removing a file in memory.
 *
 * Idea: a file of a quarter of free memory is written in pieces of 1 MiB, read, checked in one word of each piece, and
 * removed, again and again for SECONDS. Each step has its own rate.
 *
 * Cost: SECONDS. Rejected: `dd`, which prints a time in hundredths of a second.
 */
#include "guest.h"

#define PIECE (1 << 20)

static uint64_t buffer[PIECE / 8];

int main(int number, char **arguments)
{
	const char *path = number > 1 ? arguments[1] : "/ram/file";
	double length = number > 2 ? atof(arguments[2]) : 5;
	long pieces = meminfo("MemFree") / 4 / 1024, rounds = 0;
	double writing = 0, reading = 0, removing = 0, began = seconds(), from;

	if (pieces > 256)
		pieces = 256;
	while (!rounds || seconds() - began < length) {
		int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

		from = seconds();
		for (long piece = 0; piece < pieces; piece++) {
			buffer[piece] = pattern(rounds, piece);
			if (write(file, buffer, PIECE) != PIECE)
				failed("tmpfs: write");
		}
		writing += seconds() - from;
		lseek(file, 0, SEEK_SET);
		from = seconds();
		for (long piece = 0; piece < pieces; piece++)
			if (read(file, buffer, PIECE) != PIECE || buffer[piece] != pattern(rounds, piece))
				failed("tmpfs: piece %ld is not what was written", piece);
		reading += seconds() - from;
		close(file);
		from = seconds();
		unlink(path);
		removing += seconds() - from;
		rounds++;
	}
	result("tmpfs_write", pieces * rounds / writing, "MiB/s");
	result("tmpfs_read", pieces * rounds / reading, "MiB/s");
	result("tmpfs_remove", pieces * rounds / removing, "MiB/s");
	return 0;
}
