#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Repeats, after all tests have run, what those that failed said last: where a log is cut, its end is left.
#
#   tools/failed_tests.py BUILD    the folder in which ctest ran

import os
import re
import sys

MOST_TESTS, MOST_LINES, MOST_CHARACTERS = 6, 12, 400


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: tools/failed_tests.py BUILD")
    folder = os.path.join(sys.argv[1], "Testing", "Temporary")
    try:
        with open(os.path.join(folder, "LastTestsFailed.log"), encoding="utf-8") as file:
            failed = [line.strip().partition(":")[2] for line in file if line.strip()]
        with open(os.path.join(folder, "LastTest.log"), encoding="utf-8", errors="replace") as file:
            log = file.read()
    except OSError:
        return
    for name in failed[:MOST_TESTS]:
        found = re.search(rf"^\d+/\d+ Testing: {re.escape(name)}\n.*?^Output:\n-+\n(.*?)^<end of output>", log, re.M | re.S)
        lines = found[1].strip().splitlines()[-MOST_LINES:] if found else ["(nothing)"]
        print(f"{name} said last:")
        print("\n".join("  " + line[:MOST_CHARACTERS] for line in lines))


if __name__ == "__main__":
    main()
