#!/usr/bin/env python3
"""Runs the cells of a sweep as tasks of a Ray cluster.

    framewright sweep plan ... -o plan.jsonl
    ray start --head                                  # here
    ray start --address=HEAD:6379                     # on each other host
    tools/sweep_ray.py plan.jsonl --program target/release/framewright
    framewright sweep merge plan.results-ray.jsonl --plan plan.jsonl

A task is `framewright sweep run PLAN --index I -o -` with one CPU. The plan and the program travel with the tasks: a node gets
each once, and needs neither a shared file system nor a toolchain, only the same system (a program that does not run there
is a failure of its cells). Results come back to this process, which alone appends to the file, so the file is as that of
`framewright sweep run`: what is in it is not run again, and two writers exclude each other. A task whose node dies is run again
elsewhere; it is a failure when that happened --retries times.

Ends with 0 if every cell of the plan has a result, with 1 if some failed, and with 2 if it could not run.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

KIND = "framewright-sweep-result/"
SCHEMA = KIND + "1"
# Seconds until what a sweep left on a node is removed by the next.
OLD = 7 * 24 * 3600


class Wrong(Exception):
    """Something that the user has to know."""


def read_plan(path):
    """The cells of a plan. That they are what their hashes say is for the program to find out."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().rstrip("\n").split("\n")
    except (OSError, ValueError) as error:
        raise Wrong(f"cannot read {path}: {error}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            if number == 1:
                if not row["schema"].startswith("framewright-sweep-plan/"):
                    raise ValueError(f"is {row['schema']!r}")
                head = {"cells": int(row["cells"]), "command": str(row["command"]), "version": str(row["version"])}
            else:
                rows.append({"index": int(row["index"]), "hash": str(row["hash"]), "cell": dict(row["cell"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            why = f"has no {error}" if isinstance(error, KeyError) else str(error)
            raise Wrong(f"{path}:{number}: is no line of a plan of `framewright sweep plan`: {why}") from error
    if len(rows) != head["cells"]:
        raise Wrong(f"{path} has {len(rows)} of its {head['cells']} cells; plan it again: {head['command']} --force")
    return head, rows


def result_hash(line):
    """The hash of a result's cell, if the line is a result and no failure."""
    result = json.loads(line)
    if result["schema"] != SCHEMA:
        raise ValueError(f"is {result['schema']!r}, and {SCHEMA!r} is what this program reads")
    return str(result["hash"]) if "result" in result else None


class Results:
    """The file of results, which this process alone has."""

    def __init__(self, path):
        self.path = path
        try:
            self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise Wrong(f"cannot write {path}: {error.strerror}") from error
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Wrong(f"{path} is being written by another process: wait until it is done, or name another file with -o") from error
        except OSError as error:
            raise Wrong(f"{path} cannot be locked ({error.strerror}): name a file on a local file system with -o") from error
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            raise Wrong(f"cannot read {path}: {error.strerror}") from error
        whole = content.rfind(b"\n") + 1
        start, tail = f'{{"schema":"{KIND}'.encode(), content[whole:]
        if not start.startswith(tail) and not tail.startswith(start):
            raise Wrong(f"{path}: its last line has no end, and does not begin as a result of a sweep")
        self.done = set()
        for number, line in enumerate(content[:whole].split(b"\n"), 1):
            try:
                self.done.add(result_hash(line) if line else None)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                why = f"has no {error}" if isinstance(error, KeyError) else str(error)
                raise Wrong(f"{path}:{number}: is no result of a sweep: {why}") from error
        if tail:
            print(f"{path}: dropped {len(content) - whole} bytes of a line that was not written to its end", file=sys.stderr)
            os.ftruncate(self.file, whole)

    def append(self, line):
        """Appends a line in one piece, or leaves the file as it was."""
        before = os.fstat(self.file).st_size
        data = line.encode()
        try:
            while data:
                data = data[os.write(self.file, data):]
        except OSError as error:
            os.ftruncate(self.file, before)
            raise Wrong(f"cannot write {self.path}: {error.strerror}") from error


def place(contents, digest):
    """The program and the plan as files of this node, fetched by the first task that needs them. Each content is a reference and
    its size: of a file that is there with another one, some was lost on the way."""
    base = f"framewright-sweep-{os.getuid()}-"
    folder = os.path.join(tempfile.gettempdir(), base + digest)
    made = not os.path.isdir(folder)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.path.islink(folder) or os.lstat(folder).st_uid != os.getuid():
        raise PermissionError(f"{folder} is somebody else's")
    if made:
        remove_old(folder, base)
    paths = []
    for name, (content, size), mode in zip(("framewright", "plan.jsonl"), contents, (0o700, 0o600)):
        path = os.path.join(folder, name)
        if not os.path.exists(path) or os.path.getsize(path) != size:
            import ray

            part = f"{path}.{os.getpid()}"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)  # of a process of that number that was killed
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(ray.get(content))
            os.rename(part, path)
        paths.append(path)
    os.utime(folder)
    return paths


def remove_old(folder, base):
    """Removes what sweeps of ours left on this node that ran nothing for a week."""
    for name in os.listdir(os.path.dirname(folder)):
        other = os.path.join(os.path.dirname(folder), name)
        try:
            known = os.lstat(other)
            if name.startswith(base) and known.st_uid == os.getuid() and known.st_mtime < time.time() - OLD:
                shutil.rmtree(other, ignore_errors=True)
        except OSError:
            pass  # Somebody else removed it.


def ran(command):
    """A command's status, output and errors."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace", check=False)
    return done.returncode, done.stdout, done.stderr.strip()


def run_cell(contents, digest, index):
    """Runs a cell on the node that this is. Its line, or why there is none."""
    try:
        framewright, plan = place(contents, digest)
        status, out, error = ran([framewright, "sweep", "run", plan, "--index", str(index), "--jobs", "1", "-o", "-"])
    except OSError as wrong:
        return None, f"{os.uname().nodename}: {wrong}"
    # Not splitlines(): texts in JSON may hold other characters that end a line for it.
    line, end, rest = out.partition("\n")
    # A cell that failed is a line too, and status 1.
    if status in (0, 1) and end and not rest and line.startswith(f'{{"schema":"{SCHEMA}","index":{index},'):
        return line + end, None
    return None, f"{os.uname().nodename}: status {status}: {error or out.strip()}"


def check_program(program, plan):
    """Makes sure that the program runs here and takes the plan: what it refuses here, it refuses in every task."""
    try:
        # This reads all of the plan, and runs nothing.
        status, _, error = ran([program, "sweep", "merge", os.devnull, "--plan", plan, "--format", "json"])
    except OSError as wrong:
        raise Wrong(f"cannot run {program}: {wrong.strerror}") from wrong
    # Status 1 says that cells have no result yet.
    if status not in (0, 1):
        raise Wrong(error.replace("error: ", "", 1) or f"{program} ended with status {status}")


def failure(version, row, error, again):
    """The line of a cell that no node could run."""
    line = {"schema": SCHEMA, "index": row["index"], "hash": row["hash"], "version": version, "cell": row["cell"]}
    line["failure"] = {"error": error, "again": again}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"


def drive(ray, options, head, left, results):
    """Runs cells on the cluster and appends what comes of them. How many failed."""
    try:
        with open(options.program, "rb") as file:
            program = file.read()
        with open(options.plan, "rb") as file:
            plan = file.read()
    except OSError as error:
        raise Wrong(f"cannot read {error.filename}: {error.strerror}") from error
    digest = hashlib.sha256(program + plan).hexdigest()[:16]
    # In a list, they are references: a task fetches them only where it needs them.
    contents = [(ray.put(content), len(content)) for content in (program, plan)]
    task = ray.remote(num_cpus=1, max_retries=options.retries)(run_cell)
    rows = iter(left)
    running, failed, done = {}, 0, 0

    def start():
        # No more than the cluster is busy with: what is not started costs nothing to stop.
        most = 4 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while len(running) < most:
            row = next(rows, None)
            if row is None:
                return
            running[task.remote(contents, digest, row["index"])] = row

    start()
    while running:
        ready, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
        for reference in ready:
            row = running.pop(reference)
            try:
                line, error = ray.get(reference)
            except ray.exceptions.RayTaskError as wrong:
                cause = getattr(wrong, "cause", wrong)
                line, error = None, f"the task failed: {type(cause).__name__}: {cause}"
            except ray.exceptions.RayError as lost:
                line, error = None, f"lost with its node, {options.retries} times tried again: {type(lost).__name__}"
            if line is None:
                again = f"framewright sweep run {shlex.quote(options.plan)} --index {row['index']} -o -"
                line = failure(head["version"], row, error, again)
            if "result" not in json.loads(line):
                failed += 1
                print(f"cell {row['index']} failed: {json.loads(line)['failure']['error']}", file=sys.stderr)
            results.append(line)
            done += 1
        if ready and (sys.stderr.isatty() or options.progress):
            nodes = sum(node["Alive"] for node in ray.nodes())
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{done} of {len(left)} cells, {nodes} nodes", end=end, file=sys.stderr, flush=True)
        start()
    return failed


def arguments():
    parser = argparse.ArgumentParser(
        description="Run the cells of a sweep as tasks of a Ray cluster.",
        epilog="Start the cluster with `ray start --head`, and `ray start --address=HEAD:6379` on each other host. See docs/sweep.md.",
    )
    parser.add_argument("plan", metavar="PLAN", help="what `framewright sweep plan` wrote")
    parser.add_argument("-o", "--out", metavar="RESULTS", help="file to append to [default: PLAN.results-ray.jsonl]")
    parser.add_argument("--program", required=True, metavar="PATH", help="the framewright program, as built for the nodes")
    parser.add_argument("--address", default="auto", help="the cluster's head [default: auto, the one that runs here]")
    parser.add_argument("--retries", type=int, default=8, metavar="N", help="times that a task is run again when its node dies [default: 8]")
    parser.add_argument("--progress", action="store_true", help="say what is done also where there is no terminal")
    options = parser.parse_args()
    if options.out is None:
        base = options.plan[: -len(".jsonl")] if options.plan.endswith(".jsonl") else options.plan
        options.out = f"{base}.results-ray.jsonl"
    return options


def main():
    options = arguments()
    try:
        head, rows = read_plan(options.plan)
        if not os.access(options.program, os.X_OK) or os.path.isdir(options.program):
            raise Wrong(f"{options.program} is no program; build it: cargo build --release")
        check_program(os.path.abspath(options.program), options.plan)
        try:
            import ray  # Only here, so that --help and what is wrong with files need no Ray.
        except ImportError as error:
            raise Wrong("Ray is not installed: pip install -r tools/sweep_ray_requirements.txt") from error
        results = Results(options.out)
        left = [row for row in rows if row["hash"] not in results.done]
        before = len(rows) - len(left)
        failed = 0
        if left:
            try:
                ray.init(address=options.address, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, RuntimeError) as error:
                raise Wrong(f"there is no cluster at {options.address}: start one with `ray start --head` ({error})") from error
            failed = drive(ray, options, head, left, results)
        text = f"{len(left)} cells run" + (f", {before} were done before" if before else "")
        print(text + (f", {failed} failed" if failed else "") + f": {options.out}")
        return 1 if failed else 0
    except Wrong as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command again goes on from there", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
