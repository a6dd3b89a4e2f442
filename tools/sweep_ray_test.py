#!/usr/bin/env python3
"""Checks of sweep_ray.py that need no Ray: what it reads, what it refuses, and how it runs a cell.

    tools/sweep_ray_test.py PROGRAM

PROGRAM is the framewright command. tests/command/sweep.rs runs this where there is a Python; tools/sweep_check.sh is the check with Ray.
"""

import errno
import fcntl
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import sweep_ray  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else sys.exit(__doc__)
PLAN = "sweep plan --machine generic:1x2x1 --workload bulk -m baseline --cpus 1,2 --seeds 1 --seconds 0.0005 --warm-up 0.0001 -o"


class Driver(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.plan = os.path.join(self.folder, "plan.jsonl")
        subprocess.run([PROGRAM, *PLAN.split(), self.plan], check=True, stdout=subprocess.DEVNULL)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def refused(self, part, do, *arguments):
        with self.assertRaises(sweep_ray.Wrong) as wrong:
            do(*arguments)
        self.assertIn(part, str(wrong.exception))

    def test_plans(self):
        head, rows = sweep_ray.read_plan(self.plan)
        self.assertEqual((head["cells"], [row["index"] for row in rows], rows[1]["cell"]["cpus"]), (2, [0, 1], 2))
        self.assertTrue(head["command"].startswith("framewright sweep plan"))
        self.refused("cannot read", sweep_ray.read_plan, os.path.join(self.folder, "none"))
        first, second, third = self.read(self.plan).splitlines()
        for line, lines in [
            (1, ""),
            (1, "Dear diary"),
            (1, "[1]"),
            (1, '{"schema": 1}'),
            (1, '{"schema": "framewright-sweep-plan/1"}'),
            (1, first.replace('"cells":2', '"cells":null')),
            (2, first + "\n[1]"),
            (2, first + "\n" + second.replace('"hash"', '"rash"')),
            (3, first + "\n" + second + "\n" + third.replace('"cell"', '"sell"')),
        ]:
            path = self.write("wrong.jsonl", lines)
            self.refused(f"{path}:{line}: is no line of a plan", sweep_ray.read_plan, path)
        self.refused("1 of its 2 cells", sweep_ray.read_plan, self.write("wrong.jsonl", first + "\n" + second))

    def test_program(self):
        sweep_ray.check_program(PROGRAM, self.plan)
        other = self.write("other.jsonl", self.read(self.plan).replace('"version":"', '"version":"other ', 1))
        self.refused("was planned by version", sweep_ray.check_program, PROGRAM, other)
        self.refused("cannot run", sweep_ray.check_program, self.plan, self.plan)

    def test_results(self):
        path = os.path.join(self.folder, "results.jsonl")
        subprocess.run([PROGRAM, "sweep", "run", self.plan, "--index", "1", "-o", path], check=True, stdout=subprocess.DEVNULL)
        results = sweep_ray.Results(path)
        _, rows = sweep_ray.read_plan(self.plan)
        self.assertEqual([row["hash"] in results.done for row in rows], [False, True])
        self.refused("another process", sweep_ray.Results, path)
        failed = sweep_ray.failure("1", rows[0], "an error", "again")
        results.append(failed)
        os.close(results.file)
        again = sweep_ray.Results(path)
        self.assertNotIn(rows[0]["hash"], again.done)
        os.close(again.file)
        whole = os.path.getsize(path)
        with open(path, "a", encoding="utf-8") as file:
            file.write(failed[:40])
        with mock.patch("sys.stderr"):
            os.close(sweep_ray.Results(path).file)
        self.assertEqual(os.path.getsize(path), whole)
        texts = ["[1]", "1", '{"schema": 1}', '{"schema": "framewright-sweep-result/1", "result": {}}']
        for number, text in enumerate(texts):
            wrong = self.write(f"wrong-{number}.jsonl", "\n" + text + "\n")
            self.refused(f"{wrong}:2: is no result of a sweep", sweep_ray.Results, wrong)
        self.refused("does not begin as a result", sweep_ray.Results, self.write("wrong.txt", "Dear diary"))
        with mock.patch.object(fcntl, "flock", side_effect=OSError(errno.ENOLCK, "No locks available")):
            self.refused("cannot be locked (No locks available)", sweep_ray.Results, path)

    def test_cells(self):
        contents = []
        for path in [PROGRAM, self.plan]:
            with open(path, "rb") as file:
                content = file.read()
            contents.append((content, len(content)))
        ray = types.SimpleNamespace(get=lambda content: content)
        old, young = [os.path.join(self.folder, f"framewright-sweep-{os.getuid()}-{name}") for name in ["old", "young"]]
        os.mkdir(old)
        os.mkdir(young)
        os.utime(old, (0, time.time() - 2 * sweep_ray.OLD))
        with mock.patch.dict(sys.modules, ray=ray), mock.patch.object(tempfile, "tempdir", self.folder):
            line, error = sweep_ray.run_cell(contents, "digest", 1)
            self.assertIsNone(error)
            self.assertIsNotNone(sweep_ray.result_hash(line))
            self.assertEqual([os.path.exists(old), os.path.exists(young)], [False, True])
            # A plan that did not get there whole is fetched again.
            plan = os.path.join(self.folder, f"framewright-sweep-{os.getuid()}-digest", "plan.jsonl")
            os.truncate(plan, 100)
            self.assertIsNone(sweep_ray.run_cell(contents, "digest", 0)[1])
            self.assertEqual(os.path.getsize(plan), contents[1][1])
            line, error = sweep_ray.run_cell(contents, "digest", 7)
            self.assertIsNone(line)
            self.assertIn("status 2: error: ", error)


if __name__ == "__main__":
    unittest.main()
