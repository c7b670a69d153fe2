# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The runtime's own tests on the GPU: each suite to its end, whatever single tests do to their process, and some of it
# again under compute-sanitizer.

import json
import os
import re
import time

from processes import NoTime, ended
from results import FAILED, PASSED, SKIPPED, last

# Programs of tests, and which of theirs: conformance of the cuda driver, then of all others; and the cuda driver's own.
SUITES = {"cleave-runtime-test": ("*onformance*/cuda", "*onformance*-*/cuda*"), "cleave-cuda-test": ("-*simulated*",)}
# Seconds of one suite with all its repetitions, and of one process of it.
SUITE, PROCESS = 120, 60
# How often a suite is begun again.
REPETITIONS = 4


def count_by_driver(report):
    """Of GoogleTest's JSON, by the driver that a test's parameter names: how many passed and were skipped, and which
    failed."""
    found = {}
    for suite in report.get("testsuites", []):
        for test in suite.get("testsuite", []):
            # Other parameters than drivers are numbers.
            driver = test["name"].split("/")[1] if "/" in test["name"] else "others"
            driver = "others" if driver.isdigit() else driver
            counts = found.setdefault(driver, {"passed": 0, "skipped": 0, "failed": []})
            if test.get("failures"):
                counts["failed"].append(f"{suite['name']}.{test['name']}")
            else:
                counts["skipped" if test.get("result") == "SKIPPED" else "passed"] += 1
    return found


def unfinished(output):
    """The test that ran when its process ended, and what was printed since it began; no test where none ran."""
    running, said = None, []
    for line in output.splitlines():
        begun = re.match(r"\[ RUN      \] (\S+)", line)
        if begun:
            running, said = begun[1], []
        elif running and re.match(r"\[( +OK|  FAILED |  SKIPPED) \] " + re.escape(running), line):
            running = None
        else:
            said.append(line)
    return running, "\n".join(said)


class Suite:
    """Some tests of a program, in no more than `seconds`."""

    def __init__(self, run, name, tests, seconds):
        self.run, self.name, self.tests, self.until = run, name, tests, time.monotonic() + seconds
        self.program = os.path.join(run.build, "bin", name)
        self.log = ""

    def process(self, tests):
        """Exit code, output, and the report of a process that runs these tests; no report where it did not end by
        itself."""
        report = os.path.join(self.run.results.work, f"{self.name}.json")
        if os.path.exists(report):
            os.remove(report)
        limit = min(PROCESS, self.until - time.monotonic())
        if limit <= 1:
            raise NoTime
        code, output = self.run.command(self.program, f"--gtest_filter={tests}", f"--gtest_output=json:{report}",
                                        limit=limit)
        if code is None and limit < PROCESS:
            raise NoTime(f"no time left: cut after {limit:.0f} s")
        self.log += output
        self.run.results.log(f"{self.name}{SUITES[self.name].index(self.tests) or ''}.log", self.log)
        if code is None or code < 0 or not os.path.exists(report):
            return code, output, None
        with open(report, encoding="utf-8") as file:
            return code, output, count_by_driver(json.load(file))

    def measure(self):
        """Counts by driver, and what a process did not survive: pairs of a test and how it ended."""
        tests, killers = self.tests, []
        for repetition in range(REPETITIONS):
            try:
                code, output, counts = self.process(tests)
            except NoTime:
                if repetition == 0:
                    raise
                killers.append(("those behind it", "no time left to begin again"))
                break
            if counts is not None:
                if not counts or code != 0 and not any(found["failed"] for found in counts.values()):
                    killers.append(("all of it", f"{ended(code)}, and no test has failed" if counts else "no test ran"))
                return self.separate(counts), killers
            killer, said = unfinished(output)
            killers.append((killer or "outside of any test", last(said) if code is None else f"{ended(code)}: {last(said)}"))
            if killer is None:
                break
            tests += f"{':' if '-' in tests else '-'}{killer}"
        return {}, killers

    def separate(self, counts):
        """An error of CUDA may stay in its process and fail every test behind: those run again without the first that
        failed, as long as that mends some."""
        for driver, found in counts.items():
            rest, culprits, mended = found["failed"], [], []
            while len(rest) > 1:
                try:
                    again = self.process(":".join(rest[1:]))[2]
                except NoTime:
                    break
                still = again and again.get(driver, {}).get("failed", [])
                if again is None or len(still) == len(rest) - 1:
                    break
                culprits.append(rest[0])
                mended += [test for test in rest[1:] if test not in still]
                rest = still
            found["failed"] = culprits + rest
            found["passed"] += len(mended)
            found["mended"] = len(mended)
        return counts


def conformance(run):
    """The suites on each driver. What runs on a simulated CUDA says nothing new where there is a real one."""
    present = [name for name in SUITES if os.path.exists(os.path.join(run.build, "bin", name))]
    wanted = [(turn, name, tests) for name in present for turn, tests in enumerate(SUITES[name])]
    # What needs the GPU comes first.
    for _, name, tests in sorted(wanted):
        try:
            seconds = min(SUITE, max(20, run.left() - run.reserved("conformance")))
            counts, killers = Suite(run, name, tests, seconds).measure()
        except NoTime as reason:
            run.results.add("conformance", f"{name} {tests}", SKIPPED, str(reason))
            continue
        for test, how in killers:
            run.results.add("conformance", f"{name}, {test}", FAILED, how)
        for driver, found in sorted(counts.items()):
            failed, skipped, passed = len(found["failed"]), found["skipped"], found["passed"]
            detail = f"{passed} passed, {failed} failed, {skipped} skipped"
            detail += f", {found['mended']} passed only without the first that failed" if found.get("mended") else ""
            run.results.add("conformance", f"{name}, {driver}", FAILED if failed else PASSED if passed else SKIPPED,
                            detail + "".join(f"; {test}" for test in found["failed"][:3]), driver=driver, passed=passed,
                            failed=failed, skipped=skipped, failures=found["failed"])
    if not present:
        run.results.add("conformance", "suites", SKIPPED, "they were not built")


def sanitizer(run, tool, limit):
    """What compute-sanitizer says of a plan on two logical devices, which copy and reduce between each other, of the
    driver's own tests, and of the conformance suite: each in its share of the time that is left, but `limit` seconds at
    least."""
    if not tool:
        run.results.add("sanitizer", "all", SKIPPED, "no compute-sanitizer")
        return
    plans = sorted((case for case in run.cases if case["devices"] == 2),
                   key=lambda case: os.path.getsize(os.path.join(run.folder, case["plan"])))
    commands = [(f"{case['name']}, 3 steps",
                 [run.program(), os.path.join(run.folder, case["plan"]), *run.entry(case), "--repeat", 3])
                for case in plans[:1]]
    for name in ("cleave-cuda-test", "cleave-runtime-test"):
        program = os.path.join(run.build, "bin", name)
        if os.path.exists(program):
            commands.append((name, [program, "--gtest_filter=*/cuda"]))
    for done, (name, words) in enumerate(commands):
        share = max(limit, run.left() / (len(commands) - done))
        try:
            code, output = run.command(tool, "--tool", "memcheck", "--error-exitcode", "9", *words, limit=share)
        except NoTime as reason:
            run.results.add("sanitizer", name, SKIPPED, str(reason))
            continue
        run.results.log(f"sanitizer-{name.split(',')[0]}.log", output)
        found = [line for line in output.splitlines() if "ERROR SUMMARY" in line]
        detail = found[-1].strip("= ") if found else last(output)
        run.results.add("sanitizer", name, PASSED if code == 0 and found else FAILED,
                        detail if code == 0 else f"{ended(code)}: {detail}")
