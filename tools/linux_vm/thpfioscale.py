#!/usr/bin/env python3
"""Runs the workload thpfioscale on a real Linux, under emulation, and counts what the page allocator did.

Boots Debian's cloud kernel in QEMU (software emulation, no KVM) with 1 GiB of memory, a quarter of it below 4 GiB so
that the zones DMA, DMA32 and Normal exist. Inside, guest.sh writes 1.5 times the memory as files of 64 KiB on XFS,
reads them at random for as long as that took, and then faults.c faults huge pages while the reading goes on. Each round
is a boot of its own.

Prints a table, and writes a JSON file: for each round the events of the tracepoint kmem:mm_page_alloc_extfrag, the
faults, and the differences of /proc/vmstat, for the whole round and for each of its phases. Nothing is installed:
packages are downloaded with apt and unpacked below the work folder. docs/lab/linux-vm.md says more.
"""
import argparse, json, os, re, shutil, tarfile, time
from pathlib import Path

import machine
from machine import fail, run

HERE = Path(__file__).resolve().parent
PACKAGES = ["qemu-system-x86", "busybox-static", "fio", "xfsprogs"]
MODULES = ["virtio_pci", "virtio_blk", "xfs"]
NEEDED = {"apt-get": "apt", "apt-cache": "apt", "dpkg-deb": "dpkg", "gcc": "gcc and libc6-dev"}
CONFIGS = ["madvhugepage", "default"]
PHASES = [("write", "boot", "written"), ("read", "written", "warm"), ("fault", "warm", "faulted")]
TYPES = {0: "unmovable", 1: "movable", 2: "reclaimable", 3: "highatomic"}
PAGEBLOCK_ORDER = 9
# Which lines of /proc/vmstat are kept.
COUNTERS = re.compile(r"compact_|pgmigrate_|pgscan_|pgsteal_|thp_(fault|collapse|split)|allocstall|pgfault$|pageoutrun|"
                      r"kswapd_|slabs_scanned|workingset_(refault|activate)_file|oom_kill|pgalloc_|pgpg(in|out)$")
# After this a round is given up. One takes three to six minutes on two cores.
ROUND_SECONDS = 3600


# --- What the machine is made of -------------------------------------------------------------------------------------

def build(work, release):
    """Makes work/initrd: busybox, fio, mkfs.xfs, their libraries, the modules, and our two programs."""
    root, tree = work / "root", machine.start_tree(work)
    for program in ["usr/bin/fio", "sbin/mkfs.xfs"]:
        shutil.copy(root / program, tree / "bin")
        for library in re.findall(r"=> (\S+) \(", run(*machine.loader(root), "--list", root / program)):
            name = "lib64" if "ld-linux" in library else "lib"
            shutil.copy(library, tree / name)
    machine.add_modules(work, release, MODULES, tree)
    shutil.copy(HERE / "guest.sh", tree / "init")
    shutil.copy(HERE / "workload.sh", tree)
    (tree / "init").chmod(0o755)
    run("gcc", "-O2", "-Wall", "-Werror", "-static", "-o", tree / "bin/faults", HERE / "faults.c")
    machine.pack(work, tree)


# --- A round ---------------------------------------------------------------------------------------------------------

def boot(work, release, config, seed, asked):
    """Boots the machine once and returns the folder with what it handed over."""
    folder = work / "rounds" / f"{config}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    disk, results, log = folder / "disk", folder / "results.tar", folder / "console"
    for path, mib in [(disk, asked.memory * 3), (results, 32)]:
        with open(path, "wb") as file:
            file.truncate(mib << 20)
    parameters = f"config={config} seed={seed} memory={asked.memory}"
    command = machine.command(work, release, asked.memory, asked.cpus, [disk, results], parameters)
    try:
        machine.boot(work, command, log, ROUND_SECONDS, f"the round {config}, seed {seed},")
    finally:
        disk.unlink()
    with tarfile.open(results) as tar:
        # A guest that went wrong writes nothing outside of the folder, and no device.
        tar.extractall(folder, filter="data")
    results.unlink()
    return folder


def counters(folder, name):
    """/proc/vmstat of a snapshot."""
    lines = (folder / name / "vmstat").read_text().splitlines()
    return {key: int(value) for key, value in map(str.split, lines)}


def events(folder, name):
    """The events up to a snapshot: by (type asked for, type and order of the block taken), and by order asked for."""
    blocks, asked = {}, {}
    for line in (folder / name / "extfrag").read_text().splitlines():
        found = {key: int(value) for key, value in re.findall(r"(\w+):\s*(\d+)", line)}
        if "fallback_order" in found:
            at = found["alloc_migratetype"], found["fallback_migratetype"], found["fallback_order"]
            blocks[at] = found["hitcount"]
        elif "alloc_order" in found:
            asked[found["alloc_order"]] = asked.get(found["alloc_order"], 0) + found["hitcount"]
    return blocks, asked


def since(after, before):
    differences = {key: value - before.get(key, 0) for key, value in after.items()}
    return {key: value for key, value in differences.items() if value}


def add_up(counts, key):
    sums = {}
    for at, count in sorted(counts.items()):
        sums[str(key(at))] = sums.get(str(key(at)), 0) + count
    return sums


def what_happened(folder, before, after):
    """Events and counters between two snapshots. An event fragments if its block is smaller than a pageblock."""
    (blocks, asked), (blocks_before, asked_before) = events(folder, after), events(folder, before)
    blocks = since(blocks, blocks_before)
    fragmenting = {at: count for at, count in blocks.items() if at[2] < PAGEBLOCK_ORDER}
    by_type = {TYPES[number]: 0 for number in range(3)}
    by_type.update(add_up(fragmenting, lambda at: TYPES[at[0]]))
    vmstat = since(counters(folder, after), counters(folder, before))
    return {
        "events": sum(blocks.values()),
        "fragmenting": sum(fragmenting.values()),
        # Of the fragmenting ones, by what was asked for; then of all, by order.
        "by_type": by_type,
        "by_order": add_up(blocks, lambda at: at[2]),
        "by_asked_order": add_up(since(asked, asked_before), lambda order: order),
        "taken_from": add_up(fragmenting, lambda at: f"{TYPES[at[0]]} from {TYPES[at[1]]}"),
        "vmstat": {key: value for key, value in vmstat.items() if COUNTERS.match(key)},
    }


def seconds(folder, name):
    return float((folder / name / "uptime").read_text().split()[0])


def reads(folder, name):
    """How often the processes of fio have read; each time 4 KiB, but for a few reads at their start."""
    return sum(int(line.split()[1]) for line in (folder / name / "reads").read_text().splitlines())


def mean(values):
    return round(sum(values) / len(values), 1) if values else None


def measure(folder, config, seed):
    faults = {"huge": [], "base": []}
    for line in (folder / "faults").read_text().splitlines():
        kind, _, took = line.partition(" ")
        if took:
            faults[kind].append(float(took))
    both = faults["huge"] + faults["base"]
    boosts = [int(pages) for pages in re.findall(r"boost\s+(\d+)", (folder / "samples").read_text())]
    spent = {name: round(seconds(folder, after) - seconds(folder, before), 1) for name, before, after in PHASES}
    return {
        "config": config,
        "seed": seed,
        **what_happened(folder, "boot", "faulted"),
        "huge": len(faults["huge"]),
        "base": len(faults["base"]),
        "huge_percent": round(100 * len(faults["huge"]) / len(both), 2),
        "fault_base_us": mean(faults["base"]),
        "fault_huge_us": mean(faults["huge"]),
        "fault_both_us": mean(both),
        "writer_seconds": spent["write"],
        "reads_per_second": {
            "read": round(reads(folder, "warm") / spent["read"], 1),
            "fault": round((reads(folder, "faulted") - reads(folder, "warm")) / spent["fault"], 1),
        },
        # Of one zone, in pages, as seen every two seconds.
        "boost_pages_max": max(boosts, default=0),
        "phases": {
            name: {"seconds": spent[name], **what_happened(folder, before, after)} for name, before, after in PHASES
        },
    }


# --- The whole -------------------------------------------------------------------------------------------------------

COLUMNS = {"config": "config", "seed": "seed", "events": "events", "fragmenting": "fragmenting", "huge": "huge",
           "base": "base", "huge %": "huge_percent", "huge us": "fault_huge_us", "base us": "fault_base_us",
           "writing s": "writer_seconds"}


def show(rows):
    cells = [list(COLUMNS)] + [["-" if row[key] is None else str(row[key]) for key in COLUMNS.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for first, *others in cells:
        print("  ".join([first.ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(others, widths[1:])]))


def arguments():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "framewright/linux_vm"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each configuration (3)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first round; later ones count up (1)")
    parser.add_argument("--config", choices=CONFIGS, help="only this one: with madvise(MADV_HUGEPAGE), or without")
    parser.add_argument("--memory", type=int, default=1024, help="MiB of the machine (1024)")
    parser.add_argument("--cpus", type=int, default=4, help="CPUs of the machine (4)")
    parser.add_argument("--release", default="6.1", help="the kernel's series, as in Debian's package names (6.1)")
    parser.add_argument("--out", type=Path, default=Path("thpfioscale.json"), help="the JSON file (thpfioscale.json)")
    parser.add_argument("--work", type=Path, default=cache, help=f"folder for packages and rounds, 3 GiB ({cache})")
    parser.add_argument("--keep", action="store_true", help="keep what each round handed over, in WORK/rounds")
    asked = parser.parse_args()
    if asked.rounds < 1 or asked.cpus < 1:
        fail("--rounds and --cpus must be at least 1")
    if asked.memory < 512 or asked.memory % 4:
        fail("--memory must be a multiple of 4 and at least 512: the initramfs needs the space below 4 GiB, a quarter")
    return asked


def main():
    asked = arguments()
    work = machine.begin(NEEDED, asked.work)
    package = machine.fetch(work, asked.release, PACKAGES)
    release = package.removeprefix("linux-image-")
    build(work, release)
    version = machine.version(work, package)
    report = {"kernel": f"{release} (Debian {version})", "memory_mib": asked.memory, "cpus": asked.cpus, "rounds": []}
    try:
        # The configurations take turns, so that a change of this machine's load falls on both.
        for seed in range(asked.seed, asked.seed + asked.rounds):
            for config in [asked.config] if asked.config else CONFIGS:
                began = time.monotonic()
                folder = boot(work, release, config, seed, asked)
                report["rounds"].append(measure(folder, config, seed))
                asked.out.write_text(json.dumps(report, indent=1) + "\n")
                print(f"{config}, seed {seed}: {time.monotonic() - began:.0f} s", flush=True)
                if not asked.keep:
                    shutil.rmtree(folder)
    except KeyboardInterrupt:
        fail(f"stopped; the rounds that had ended are in {asked.out}" if report["rounds"] else "stopped")
    finally:
        if not asked.keep:
            shutil.rmtree(work / "rounds", ignore_errors=True)
    show(report["rounds"])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        fail("stopped")
