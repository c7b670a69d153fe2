#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares the tests that ctest has skipped with test/skipped.txt, which says for each pattern what a machine lacks where
# tests of that name may be skipped. A test that is skipped for no reason given there is a failure, unless
# CLEAVE_ALLOW_SKIPS=1.
#
#   tools/skipped_tests.py LOG    the output of ctest

import fnmatch
import os
import re
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def processor_flags():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        return set(next((line.split(":")[1] for line in file if line.startswith("flags")), "").split())


# What test/skipped.txt may name, and whether this machine has it.
CONDITIONS = {
    "gpu": lambda: os.path.exists("/dev/nvidiactl"),
    "cuda-toolkit": lambda: shutil.which("nvcc") is not None or os.path.exists("/usr/local/cuda/bin/nvcc"),
    "shared": lambda: os.path.isdir(os.path.join(os.environ.get("CLEAVE_SHARED", os.path.join(ROOT, "../shared")),
                                                 "models")),
    "avx512": lambda: "avx512f" in processor_flags(),
    "two-cores": lambda: len(os.sched_getaffinity(0)) >= 2,
    "network-namespaces": lambda: os.geteuid() == 0 and shutil.which("ip") is not None,
    "short-turns": lambda: tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) >= (6, 12),
    "always": lambda: False,
}


def allowed_patterns(path):
    """Patterns of tests that may be skipped on this machine."""
    patterns = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or words[1] not in CONDITIONS:
                sys.exit(f"{path}:{number}: expected a pattern of names and one of {', '.join(CONDITIONS)}")
            if not CONDITIONS[words[1]]():
                patterns.append(words[0])
    return patterns


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: tools/skipped_tests.py LOG")
    with open(sys.argv[1], encoding="utf-8", errors="replace") as file:
        # "  12/1706 Test  #34: name  # GetParam() = value ......***Skipped   0.01 sec"
        skipped = sorted(set(re.findall(r"Test +#\d+: (\S+).*\*\*\*Skipped", file.read())))
    patterns = allowed_patterns(os.path.join(ROOT, "test", "skipped.txt"))
    unexpected = [name for name in skipped if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    if not unexpected:
        return
    print(f"{len(unexpected)} of {len(skipped)} skipped tests expected to run, by test/skipped.txt:")
    print("\n".join(f"  {name}" for name in unexpected))
    if os.environ.get("CLEAVE_ALLOW_SKIPS") != "1":
        print("install what they need (tools/setup --tests), or set CLEAVE_ALLOW_SKIPS=1")
        sys.exit(1)


if __name__ == "__main__":
    main()
