#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The long tier: everything, in parts that stand for themselves. What a part found is kept in build/long/PART.json, so a
# run that was cut goes on where it stopped, on this commit, and the table says of each part when and where it ran.
#
#   tools/long_tier.py                 every part, in order
#   tools/long_tier.py asan fuzz       these parts
#   tools/long_tier.py --resume        those that have not passed at this commit
#   tools/long_tier.py --list          what the parts are
#   tools/long_tier.py --table FILE    writes the table of what the parts found, and runs nothing; a part that has not run
#                                      in this folder keeps the line that FILE has of it
#
# Expects the programs of `tools/setup --long`, and build/ as tools/test makes it. Ends with 1 if a part fails.

import argparse
import dataclasses
import json
import os
import platform
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, "build/long")
JOBS = str(os.cpu_count())
CLANG = ["-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_CXX_COMPILER=clang++-22"]
# LLVM and MLIR are not instrumented: docs/testing.md says why each stands here.
ASAN = {"ASAN_OPTIONS": "detect_leaks=0:detect_container_overflow=0:allow_user_poisoning=0:"
                        "allocator_may_return_null=1"}


def configure(folder, *options, source="."):
    return ["cmake", "-S", source, "-B", folder, "-G", "Ninja", *options]


def build(folder, *targets):
    return ["ninja", "-C", folder, "-j", JOBS, *targets]


def test(folder, *options):
    return ["ctest", "--test-dir", folder, "--output-on-failure", "-j", JOBS, *options]


@dataclasses.dataclass
class Part:
    what: str
    commands: list
    environment: dict = dataclasses.field(default_factory=dict)


PARTS = {
    "tests": Part("the tests of every change", [test("build", "-LE", "long")]),
    "long": Part("tests with the label long", [test("build", "-L", "long")]),
    "x86-64-v3": Part("operators, splits and whole models for AVX2",
                      [test("build", "-LE", "long", "-R", "endtoend|property")],
                      {"CLEAVE_CPU": "x86-64-v3", "ONEDNN_MAX_CPU_ISA": "AVX2"}),
    "x86-64-v2": Part("operators, splits and whole models for SSE4.2",
                      [test("build", "-LE", "long", "-R", "endtoend|property")],
                      {"CLEAVE_CPU": "x86-64-v2", "ONEDNN_MAX_CPU_ISA": "SSE41"}),
    "asan": Part("the suite with AddressSanitizer and UndefinedBehaviorSanitizer",
                 [configure("build/asan", *CLANG, "-DCLEAVE_SANITIZE=address,undefined", "-DCLEAVE_UNITY=ON"),
                  build("build/asan"), test("build/asan", "-LE", "long|lint")], ASAN),
    "tsan": Part("the runtime with ThreadSanitizer",
                 [configure("build/tsan", *CLANG, "-DCLEAVE_SANITIZE=thread", source="runtime"),
                  build("build/tsan"), test("build/tsan")]),
    "gcc": Part("every source by itself with gcc, warnings being errors",
                [configure("build/gcc", "-DCLEAVE_UNITY=OFF", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"),
                 build("build/gcc")]),
    "clang": Part("every source by itself with clang, warnings being errors",
                  [configure("build/clang", *CLANG, "-DCLEAVE_UNITY=OFF", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"),
                   build("build/clang")]),
    "tidy": Part("clang-tidy on every source", [["tools/lint", "tidy", "--seconds", "0"]]),
    "fuzz": Part("a million runs of each fuzzer",
                 [configure("build/fuzz", *CLANG, "-DCLEAVE_SANITIZE=address,undefined", "-DCLEAVE_FUZZ=ON",
                            "-DCLEAVE_UNITY=ON", "-DCLEAVE_TESTS=ON"),
                  build("build/fuzz", "plan-fuzz", "model-fuzz", "yaml-fuzz", "data-fuzz",
                        "checkpoint-fuzz", "tensor-fuzz"),
                  test("build/fuzz", "-R", "^fuzz[.].*[.]long$")], ASAN),
    "faults": Part("faults in the sources, against the tests of every change", [["tools/mutate", "--resume"]]),
}


def commit():
    return subprocess.run(["git", "describe", "--always", "--dirty", "--exclude", "*"], cwd=ROOT, check=True,
                          capture_output=True, text=True).stdout.strip()


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")),
                    platform.machine())


def found_in(log):
    """What a part's output says in numbers: ctest's summary, libFuzzer's runs, tools/mutate's last line."""
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    found = []
    for failed, total in re.findall(r"tests passed, (\d+) tests failed out of (\d+)", text):
        found.append(f"{total} tests, {failed} failed")
    skipped = len(re.findall(r"\*\*\*Skipped", text))
    if skipped:
        found.append(f"{skipped} skipped")
    runs = [int(number) for number in re.findall(r"Done (\d+) runs", text)]
    if runs:
        found.append(f"{sum(runs):,} inputs")
    found += re.findall(r"^\d+ of \d+ faults caught.*$", text, re.M)
    found += [f"{number} files built" for number in re.findall(r"\[(\d+)/\1\]", text)[-1:] if not found]
    return "; ".join(found) or "-"


def path_of(part, suffix):
    return os.path.join(RESULTS, part + suffix)


def read(part):
    if not os.path.exists(path_of(part, ".json")):
        return None
    with open(path_of(part, ".json"), encoding="utf-8") as file:
        return json.load(file)


def run(name):
    part, start, status = PARTS[name], time.monotonic(), 0
    print(f"long tier: {name}: {part.what}", file=sys.stderr, flush=True)
    with open(path_of(name, ".log"), "w", encoding="utf-8") as log:
        for command in part.commands:
            status = subprocess.run(command, cwd=ROOT, env={**os.environ, **part.environment}, stdout=log,
                                    stderr=subprocess.STDOUT).returncode
            if status:
                break
    result = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "processor": processor(),
              "cores": len(os.sched_getaffinity(0)), "status": status, "minutes": (time.monotonic() - start) / 60,
              "found": found_in(path_of(name, ".log"))}
    with open(path_of(name, ".json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    ends = "passed" if status == 0 else f"failed, see {os.path.relpath(path_of(name, '.log'), ROOT)}"
    print(f"long tier: {name}: {ends} after {result['minutes']:.0f} min: {result['found']}", file=sys.stderr, flush=True)
    return status == 0


def rows_of(path):
    """The lines of a table that was written before, by part."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return {line.split("|")[1].strip(): line.rstrip("\n") for line in file if line.startswith("| ")}


def write_table(path):
    """Parts that did not run here keep what the table said of them: each line has its commit, machine and date."""
    before = rows_of(path)
    lines = ["# The long tier", "", "Written by `tools/long_tier.py --table docs/results/long-tier.md`; what the parts are:",
             "[testing](../testing.md#the-long-tier).", "",
             "| part | what runs | result | found | minutes | commit | on | date |", "|---|---|---|---|---:|---|---|---|"]
    for name, part in PARTS.items():
        result = read(name)
        if not result:
            lines.append(before.get(name, f"| {name} | {part.what} | not run | | | | | |"))
            continue
        lines.append(f"| {name} | {part.what} | {'passed' if result['status'] == 0 else 'failed'} | {result['found']} | "
                     f"{result['minutes']:.0f} | {result['commit']} | {result['processor']}, {result['cores']} cores | "
                     f"{result['date']} |")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(prog="tools/long_tier.py", description="runs the long tier in parts")
    parser.add_argument("parts", nargs="*", metavar="PART", help="these parts only")
    parser.add_argument("--resume", action="store_true", help="leave out what has passed at this commit")
    parser.add_argument("--list", action="store_true", help="say what the parts are")
    parser.add_argument("--table", metavar="FILE", help="write the table of results")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]}; the parts are {', '.join(PARTS)}")
    if options.list:
        for name, part in PARTS.items():
            print(f"{name:10} {part.what}")
        return 0
    if options.table:
        write_table(options.table)
        return 0
    os.makedirs(RESULTS, exist_ok=True)
    passed = True
    for name in options.parts or PARTS:
        result = read(name)
        if options.resume and result and result["status"] == 0 and result["commit"] == commit():
            print(f"long tier: {name}: passed at this commit", file=sys.stderr)
            continue
        passed = run(name) and passed
    return 0 if passed else 1


sys.exit(main())
