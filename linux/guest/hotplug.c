/*
 * hotplug SECONDS: CPUs go and come while other programs allocate; memory that is to go stays.
 *
 * Idea: random CPUs go offline and online again, one after the other, and now and then all but the first. The workload
 * runs stress beside, which checks each word and that memory comes back. This program checks what each step leaves:
 *
 *   offline  the file says so; /proc/framewright shows nothing on the lists of that CPU, in any zone
 *   online   the file says so; at the end all CPUs run
 *   memory   a block of memory is asked to go. Framewright refuses that with EOPNOTSUPP, and the block stays online;
 *            with Linux's own allocator it may go, and comes back
 *
 * Each step stops all CPUs for a moment, so there are some tens of steps a second at most.
 *
 * Cost: SECONDS. Rejected: a CPU that goes once, before or after the load: its lists are empty then.
 */
#include "guest.h"

#define CPUS 64

static int cpus;

static void set(int cpu, int online)
{
	char path[64];
	int error;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	error = tell(path, "%d", online);
	if (error)
		failed("hotplug: CPU %d does not go %s: %s", cpu, online ? "online" : "offline", strerror(error));
	if (number_in(path) != online)
		failed("hotplug: CPU %d is not %s", cpu, online ? "online" : "offline");
}

/* Frames on the lists of a CPU in all zones. */
static long cached(int cpu)
{
	char line[256];
	long sum = 0, number, task, softirq, interrupt;
	FILE *file = fopen("/proc/framewright", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " cpu %ld task %ld softirq %ld interrupt %ld", &number, &task, &softirq, &interrupt) == 4 &&
		    number == cpu)
			sum += task + softirq + interrupt;
	if (file)
		fclose(file);
	return sum;
}

static void offline(int cpu)
{
	set(cpu, 0);
	if (is_framewright() && cached(cpu))
		failed("hotplug: CPU %d is offline and has %ld frames on its lists", cpu, cached(cpu));
}

/* Whether a file of a block of memory begins so. */
static int says(int block, const char *name, const char *text)
{
	char path[64], line[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%d/%s", block, name);
	file = fopen(path, "r");
	if (file && !fgets(line, sizeof(line), file))
		line[0] = 0;
	if (file)
		fclose(file);
	return !strncmp(line, text, strlen(text));
}

static void memory_goes(void)
{
	long gone = 0, refused = 0, total = meminfo("MemTotal");
	char path[64];

	for (int block = 0; block < 256; block++) {
		int error;

		snprintf(path, sizeof(path), "/sys/devices/system/memory/memory%d/state", block);
		/* A block of two zones cannot go at all. */
		if (!says(block, "state", "online") || says(block, "valid_zones", "none"))
			continue;
		error = tell(path, "offline");
		if (is_framewright() && error != EOPNOTSUPP)
			failed("hotplug: memory %d was not refused, but: %s", block, strerror(error));
		refused += error != 0;
		gone += !error;
		if (!error && tell(path, "online"))
			failed("hotplug: memory %d does not come back", block);
		if (!says(block, "state", "online"))
			failed("hotplug: memory %d is not online", block);
	}
	if (gone + refused == 0)
		failed("hotplug: this kernel has no blocks of memory");
	if (meminfo("MemTotal") != total)
		failed("hotplug: MemTotal is %ld KiB, was %ld KiB", meminfo("MemTotal"), total);
	result("hotplug_memory_refused", refused, "blocks");
	result("hotplug_memory_gone", gone, "blocks");
}

int main(int number, char **arguments)
{
	double until = seconds() + (number > 1 ? atof(arguments[1]) : 20);
	uint64_t state = getpid();
	long steps = 0, most = 0;
	char path[64];

	for (cpus = 1; cpus < CPUS; cpus++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpus);
		if (access(path, W_OK))
			break;
	}
	if (cpus < 2)
		failed("hotplug: no CPU can go; the workload needs --arch x86_64 --cpus 4");
	while (seconds() < until) {
		int cpu = 1 + draw(&state, cpus - 1), all = !draw(&state, 8);

		for (int each = 1; each < cpus; each++)
			if (all || each == cpu) {
				if (cached(each) > most)
					most = cached(each);
				offline(each);
				steps++;
			}
		usleep(draw(&state, 50000));
		for (int each = 1; each < cpus; each++)
			if (all || each == cpu)
				set(each, 1);
		usleep(draw(&state, 200000));
		if (!draw(&state, 4))
			validate();
	}
	if (sysconf(_SC_NPROCESSORS_ONLN) != cpus)
		failed("hotplug: %ld CPUs run, not %d", sysconf(_SC_NPROCESSORS_ONLN), cpus);
	memory_goes();
	validate();
	result("hotplug_offline", steps, "CPUs");
	result("hotplug_most_cached", most, "frames");
	return 0;
}
