#!/usr/bin/env python3
"""Makes a real Linux decide on hundreds of requests for pages, under emulation, and keeps the kernel's own reports.

Boots Debian's cloud kernel in QEMU (software emulation, no KVM). A module, decisions/decisions.c, takes nearly all
memory and makes requests in random states. Then programs (decisions/eat.c) take memory until the OOM killer runs.

Each case becomes a file of OUT: the lines of the kernel's log, as dmesg prints them. OUT/decisions.csv has a row for
each. With --framewright, `framewright why` reads each file, and its verdicts are compared with the kernel's decisions.
Nothing is installed: packages are downloaded with apt and unpacked below the work folder. docs/lab/linux-vm.md says
more.
"""
import argparse, collections, csv, json, os, re, shutil, subprocess, sys, tarfile, time
from pathlib import Path

import machine
from machine import fail, run

HERE = Path(__file__).resolve().parent
INSIDE = HERE / "decisions"
PACKAGES = ["qemu-system-x86", "busybox-static"]
# The kernel's own, by the release of its package and by its series.
HEADERS = ["linux-headers-{release}", "linux-headers-{common}-common", "linux-kbuild-{series}"]
MODULES = ["virtio_pci", "virtio_blk"]
NEEDED = {"apt-get": "apt", "apt-cache": "apt", "dpkg-deb": "dpkg", "gcc": "gcc and libc6-dev", "gcc-12": "gcc-12",
          "make": "make"}
COLUMNS = ["number", "kind", "order", "gfp", "outcome", "zone", "node", "asked_node", "verdict"]
# A case logs about 5 KiB. The kernel's log takes four times its size of memory, for a record of each line.
CASE_KIB = 10
CASES_MAX = 1600
# After this the machine is given up. 500 cases take two minutes on two cores.
MACHINE_SECONDS = 3600
MARKER = re.compile(r"^\[ *[\d.]+\] decision (\d+) (begins|ends) (.*)$")
REQUEST = re.compile(r"(\w+) order:(\d+), mode:0x[0-9a-f]+\(([^)]*)\), node:(\d+)$")
FAILED = re.compile(r"page allocation failure: order:(\d+), mode:0x[0-9a-f]+\(([^)]*)\)")
OOM = re.compile(r"invoked oom-killer: gfp_mask=0x[0-9a-f]+\(([^)]*)\), order=(-?\d+)")


# --- The machine -----------------------------------------------------------------------------------------------------

def build_module(work, release):
    """Compiles the kernel module against the headers that were fetched. Returns the object."""
    headers, folder = work / f"root/usr/src/linux-headers-{release}", work / "module"
    makefile = headers / "Makefile"
    # The package expects to be installed.
    text = makefile.read_text()
    makefile.write_text(re.sub(r"include \S*/(linux-headers-\S+)", rf"include {headers.parent}/\1", text))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ["decisions.c", "Makefile"]:
        shutil.copy(INSIDE / name, folder)
    run("make", "-C", headers, f"M={folder}", "modules")
    return folder / "decisions.ko"


def build(work, release):
    """Makes work/initrd: busybox, the modules, and our program."""
    tree = machine.start_tree(work)
    machine.add_modules(work, release, MODULES, tree)
    shutil.copy(build_module(work, release), tree / "modules")
    shutil.copy(INSIDE / "init.sh", tree / "init")
    (tree / "init").chmod(0o755)
    run("gcc", "-O2", "-Wall", "-Werror", "-static", "-o", tree / "bin/eat", INSIDE / "eat.c")
    machine.pack(work, tree)


def boot(work, release, asked):
    """Boots the machine once and returns its log."""
    results, log = work / "results.tar", work / "console"
    cases = asked.failures + asked.successes + asked.ooms
    log_kib = max(1024, 1 << (cases * CASE_KIB).bit_length())
    with open(results, "wb") as file:
        file.truncate(log_kib << 12)
    parameters = f"loglevel=1 log_buf_len={log_kib}K printk.devkmsg=on numa_balancing=disable seed={asked.seed} "
    parameters += f"failures={asked.failures} successes={asked.successes} ooms={asked.ooms} nodes={asked.nodes}"
    command = machine.command(work, release, asked.memory, asked.cpus, [results], parameters, asked.nodes)
    machine.boot(work, command, log, MACHINE_SECONDS, "the machine")
    if "guest: failed" in log.read_text(errors="replace"):
        fail(f"a program inside the machine failed:\n{log.read_text(errors='replace')[-2000:]}")
    with tarfile.open(results) as tar:
        text = tar.extractfile("./dmesg").read().decode(errors="replace")
    results.unlink()
    return text


# --- Its log ---------------------------------------------------------------------------------------------------------

def split(text):
    """The cases of a log, each a row for decisions.csv and its lines.

    A request of the kind failure that was served has no report, and the module made it again with less memory.
    """
    cases, lines, asked = [], None, None
    for line in text.splitlines():
        marker = MARKER.match(line)
        if marker and marker[2] == "begins":
            lines, asked = [], marker[3]
        if lines is not None:
            lines.append(line)
        if marker and marker[2] == "ends":
            if lines is not None and not (asked.startswith("failure") and marker[3].startswith("served")):
                cases.append((row(int(marker[1]), asked, marker[3], lines), lines))
            lines = None
    return cases


def row(number, asked, ended, lines):
    request, served = REQUEST.search(asked), re.match(r"served zone (\S+) node (\d+)", ended)
    case = dict.fromkeys(COLUMNS, "")
    case.update(number=number, kind=asked.split()[0], outcome="served" if served else "failed")
    if request:
        case.update(order=int(request[2]), gfp=request[3], asked_node=int(request[4]))
    elif report := next(filter(None, map(OOM.search, lines)), None):
        case.update(order=int(report[2]), gfp=report[1])
    if served:
        case.update(zone=served[1], node=int(served[2]))
    return case


def check(cases, asked):
    """Says what the log lacks: each case must be there, with one report."""
    numbers = [case["number"] for case, _ in cases]
    missing = sorted(set(range(1, asked.failures + asked.successes + asked.ooms + 1)) - set(numbers))
    if missing:
        print(f"{len(missing)} cases are missing: {missing}")
    for case, lines in cases:
        reports = sum("Mem-Info:" in line for line in lines)
        wanted = {"failure": FAILED, "success": re.compile("sysrq: Show Memory"), "oom": OOM}[case["kind"]]
        headers = sum(bool(wanted.search(line)) for line in lines)
        # Two processes of one case may be killed.
        if reports != headers or headers != 1 and not (case["kind"] == "oom" and headers):
            print(f"decision {case['number']} ({case['kind']}) has {reports} reports of {headers} requests")


def write(cases, out):
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("[0-9]*.txt"):
        old.unlink()
    for case, lines in cases:
        file_of(case, out).write_text("\n".join(lines) + "\n")
    with open(out / "decisions.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(case for case, _ in cases)


def file_of(case, out):
    return out / f"{case['number']:03}.txt"


# --- The comparison --------------------------------------------------------------------------------------------------

def verdict(framewright, kernel, case, out):
    """What `framewright why` says about a case: failed, served, or an error."""
    command = [framewright, "why", "--format", "json", "--kernel", kernel, file_of(case, out)]
    if case["kind"] == "success":
        # SysRq-m reports memory and no request.
        command += ["--order", case["order"], "--gfp", case["gfp"] or "none"]
        if "__GFP_THISNODE" in case["gfp"]:
            command += ["--node", case["asked_node"]]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        outcome = json.loads(done.stdout)["reports"][0]["verdict"]["outcome"]
    except (ValueError, LookupError, TypeError):
        return "error"
    return {"fails": "failed", "succeeds": "served"}.get(outcome, outcome)


def compare(framewright, kernel, cases, out):
    counts = collections.Counter()
    for case, _ in cases:
        case["verdict"] = verdict(framewright, kernel, case, out)
        counts[case["kind"], case["outcome"], case["verdict"]] += 1
    for (kind, outcome, said), count in sorted(counts.items()):
        print(f"{kind:8} {outcome:7} verdict {said:8} {count:5}{'' if outcome == said else '  differs'}")
    wrong = [str(case["number"]) for case, _ in cases if case["outcome"] != case["verdict"]]
    print(f"{len(cases) - len(wrong)} of {len(cases)} verdicts are the kernel's decision", end="")
    print(f"; not {', '.join(wrong)}" if wrong else "")


# --- The whole -------------------------------------------------------------------------------------------------------

def arguments():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "framewright/decisions"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (1)")
    parser.add_argument("--failures", type=int, default=240, help="requests that shall fail (240)")
    parser.add_argument("--successes", type=int, default=480, help="requests in any state (480)")
    parser.add_argument("--ooms", type=int, default=16, help="programs that eat all memory (16)")
    parser.add_argument("--memory", type=int, default=512, help="MiB of the machine (512)")
    parser.add_argument("--cpus", type=int, default=1, help="CPUs of the machine (1)")
    parser.add_argument("--nodes", type=int, default=1, help="its NUMA nodes, which share memory and CPUs (1)")
    parser.add_argument("--release", default="6.1", help="the kernel's series, as in Debian's package names (6.1)")
    parser.add_argument("--out", type=Path, default=Path("decisions"), help="folder for what is kept (decisions)")
    parser.add_argument("--work", type=Path, default=cache, help=f"folder for packages, 1 GiB ({cache})")
    parser.add_argument("--framewright", type=Path, help="the command to compare with")
    asked = parser.parse_args()
    if min(asked.seed, asked.failures, asked.successes, asked.ooms) < 0 or min(asked.cpus, asked.nodes) < 1:
        fail("--cpus and --nodes must be at least 1, and numbers of cases at least 0")
    if asked.failures + asked.successes + asked.ooms > CASES_MAX:
        fail(f"there may be at most {CASES_MAX} cases: the kernel keeps its log in memory")
    if asked.memory < 256 or asked.memory % 4 or asked.memory % asked.nodes:
        fail("--memory must be a multiple of 4 and of --nodes, and at least 256")
    return asked


def main():
    asked = arguments()
    work = machine.begin(NEEDED, asked.work)
    package = machine.fetch(work, asked.release, PACKAGES, HEADERS)
    release = package.removeprefix("linux-image-")
    build(work, release)
    began = time.monotonic()
    cases = split(boot(work, release, asked))
    kernel = machine.version(work, package)
    print(f"Linux {release} (Debian {kernel}): {time.monotonic() - began:.0f} s", flush=True)
    check(cases, asked)
    write(cases, asked.out)
    for (kind, outcome), count in sorted(collections.Counter((c["kind"], c["outcome"]) for c, _ in cases).items()):
        print(f"{kind:8} {outcome:7} {count:5}")
    if asked.framewright:
        compare(asked.framewright.resolve(), kernel, cases, asked.out)
        write(cases, asked.out)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        fail("stopped")
