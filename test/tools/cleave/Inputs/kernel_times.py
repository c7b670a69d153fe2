# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Whether each call of a simulation's trace takes one of the times of a file of kernel times.

import json
import sys

times = set()
with open(sys.argv[1], encoding="utf-8") as file:
    for line in file:
        words = line.split()
        if words[0] == "kernel":
            times.add(round(1e6 * float(words[2]), 2))
with open(sys.argv[2], encoding="utf-8") as file:
    calls = [event for event in json.load(file)["traceEvents"] if event.get("cat") == "call"]
assert len(calls) > 3, calls
for call in calls:
    near = min(abs(call["dur"] - time) for time in times)
    assert near <= 0.02, (call, sorted(times))
