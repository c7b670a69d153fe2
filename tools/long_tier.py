#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The long tier: everything, in parts that stand for themselves. What a part found is kept in build/long/PART.json, so a
# run that was cut goes on where it stopped, on this commit, and the table says of each part when and where it ran.
#
#   tools/long_tier.py                 every part, in order
#   tools/long_tier.py asan fuzz       these parts
#   tools/long_tier.py --resume        those that have not passed at this commit
#   tools/long_tier.py asan --share 2/8  every eighth test of these parts, from the second on: what cannot run in one go
#                                      runs in shares; the table calls a part passed when all its shares have at one commit
#   tools/long_tier.py fuzz --runs N   so many runs of each fuzzer; the table says that it was cut short
#   tools/long_tier.py --list          what the parts are
#   tools/long_tier.py --table FILE    writes the table of what the parts found, and runs nothing; a part that has not run
#                                      in this folder keeps the line that FILE has of it
#
# Expects the programs of `tools/setup --long`, and build/ as tools/test makes it. Ends with 1 if a part fails.

import argparse
import dataclasses
import glob
import itertools
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
# Without optimization, sources together: a third of the time to build, and assertions hold as well.
QUICK = ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_UNITY_BUILD=ON"]
CLANG = ["-DCMAKE_C_COMPILER=clang-22", "-DCMAKE_CXX_COMPILER=clang++-22"]
# LLVM and MLIR are not instrumented: docs/testing.md says why each stands here.
ASAN = {"ASAN_OPTIONS": "detect_leaks=0:detect_container_overflow=0:allow_user_poisoning=0:"
                        "allocator_may_return_null=1"}
# OpenMP's library is not instrumented either: what it does with its own memory is no race, and Archer, which comes with
# it, says where its threads meet. A test asks for more memory than there is.
TSAN = {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1:allocator_may_return_null=1",
        "OMP_TOOL_LIBRARIES": "/usr/lib/llvm-22/lib/libarcher.so"}


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
                 [configure("build/tsan", *CLANG, *QUICK, "-DCLEAVE_SANITIZE=thread", source="runtime"),
                  build("build/tsan"), test("build/tsan")], TSAN),
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


def counts_in(log):
    """What a part's output says in numbers: ctest's summary, libFuzzer's runs, tools/mutate's last line."""
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    summaries = re.findall(r"tests passed, (\d+) tests failed out of (\d+)", text)
    faults = re.findall(r"^(\d+) of (\d+) faults caught", text, re.M)
    counts = {"tests": sum(int(total) for _, total in summaries), "failed": sum(int(failed) for failed, _ in summaries),
              "skipped": len(re.findall(r"\*\*\*Skipped", text)),
              "inputs": sum(int(number) for number in re.findall(r"Done (\d+) runs", text)),
              "faults": sum(int(drawn) for _, drawn in faults), "caught": sum(int(caught) for caught, _ in faults),
              "files built": sum(int(number) for number in re.findall(r"\[(\d+)/\1\]", text)[-1:])}
    return {key: count for key, count in counts.items() if count or (key == "failed" and summaries)}


def found_in(counts):
    said = [f"{count:,} {key}" for key, count in counts.items() if key != "files built"]
    return ", ".join(said) or (f"{counts['files built']:,} files built" if counts else "-")


def path_of(part, suffix):
    return os.path.join(RESULTS, part + suffix)


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def shares_of(part):
    """The files of a part's results, by share: (0, 1) where it ran in one go."""
    shares = {}
    for path in glob.glob(path_of(part, "*.json")):
        share = re.fullmatch(re.escape(part) + r"(?:[.](\d+)-of-(\d+))?[.]json", os.path.basename(path))
        if share:
            shares[(int(share[1]), int(share[2])) if share[1] else (1, 1)] = path
    return shares


def read(part):
    """What a part found. Of shares, those of the last one's commit and number together."""
    shares = {share: load(path) for share, path in shares_of(part).items()}
    if not shares:
        return None
    (_, number), last = max(shares.items(), key=lambda item: item[1]["end"])
    same = [result for (_, of), result in shares.items() if of == number and result["commit"] == last["commit"]]
    counts = {}
    for key, count in itertools.chain.from_iterable(result["counts"].items() for result in same):
        counts[key] = counts.get(key, 0) + count
    cuts = [f"{len(same)} of {number} shares"] if len(same) < number else []
    return {**last, "status": max(abs(result["status"]) for result in same), "counts": counts,
            "minutes": sum(result["minutes"] for result in same), "cut": "; ".join(filter(None, [last["cut"], *cuts]))}


def extra_of(command, share, runs):
    """The options by which a command does a share of its tests, or so many runs of fuzzers."""
    if share and command[0] == "ctest":
        return ["-I", f"{share[0]},,{share[1]}"]
    if runs and "-DCLEAVE_FUZZ=ON" in command:
        return [f"-DCLEAVE_FUZZ_RUNS={runs}"]
    return []


def run(name, share=None, runs=None):
    part, start, status = PARTS[name], time.monotonic(), 0
    kept = f"{name}.{share[0]}-of-{share[1]}" if share else name
    print(f"long tier: {kept}: {part.what}", file=sys.stderr, flush=True)
    # What ran in one go takes the place of shares, and they of it.
    for (_, number), path in shares_of(name).items():
        if number != (share[1] if share else 1):
            os.remove(path)
    commands = [[*command, *extra_of(command, share, runs)] for command in part.commands]
    with open(path_of(kept, ".log"), "w", encoding="utf-8") as log:
        for command in commands:
            status = subprocess.run(command, cwd=ROOT, env={**os.environ, **part.environment}, stdout=log,
                                    stderr=subprocess.STDOUT).returncode
            if status:
                break
    result = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "end": time.time(), "processor": processor(),
              "cores": len(os.sched_getaffinity(0)), "status": status, "minutes": (time.monotonic() - start) / 60,
              "counts": counts_in(path_of(kept, ".log")), "cut": f"{runs:,} runs of each" if runs else ""}
    with open(path_of(kept, ".json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    ends = "passed" if status == 0 else f"failed, see {os.path.relpath(path_of(kept, '.log'), ROOT)}"
    print(f"long tier: {kept}: {ends} after {result['minutes']:.0f} min: {found_in(result['counts'])}", file=sys.stderr,
          flush=True)
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
        ends = "failed" if result["status"] else "cut short" if result["cut"] else "passed"
        lines.append(f"| {name} | {part.what} | {ends}{': ' * bool(result['cut'])}{result['cut']} | "
                     f"{found_in(result['counts'])} | "
                     f"{result['minutes']:.0f} | {result['commit']} | {result['processor']}, {result['cores']} cores | "
                     f"{result['date']} |")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(prog="tools/long_tier.py", description="runs the long tier in parts")
    parser.add_argument("parts", nargs="*", metavar="PART", help="these parts only")
    parser.add_argument("--resume", action="store_true", help="leave out what has passed at this commit")
    parser.add_argument("--share", metavar="K/N", help="every N-th test of the parts, from the K-th on")
    parser.add_argument("--runs", metavar="N", type=int, help="so many runs of each fuzzer")
    parser.add_argument("--list", action="store_true", help="say what the parts are")
    parser.add_argument("--table", metavar="FILE", help="write the table of results")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]}; the parts are {', '.join(PARTS)}")
    share = re.fullmatch(r"(\d+)/(\d+)", options.share or "1/1")
    if not share or not 1 <= int(share[1]) <= int(share[2]):
        parser.error(f"expected a share as 2/8, got {options.share}")
    share = (int(share[1]), int(share[2])) if options.share else None
    unshared = [name for name in options.parts or PARTS if share and PARTS[name].commands[-1][0] != "ctest"]
    if unshared:
        parser.error(f"--share expects parts that run tests, got {unshared[0]}")
    if options.runs is not None and (options.runs < 1 or options.parts != ["fuzz"]):
        parser.error("--runs expects the part fuzz alone, and a number above zero")
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
        if options.resume and result and not (result["status"] or result["cut"]) and result["commit"] == commit():
            print(f"long tier: {name}: passed at this commit", file=sys.stderr)
            continue
        passed = run(name, share, options.runs) and passed
    return 0 if passed else 1


sys.exit(main())
