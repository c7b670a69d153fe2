#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""offload_chosen.py WITHOUT WITH: of plans for a machine without and with a host's memory, the second one is faster by
what moves there, within the memory of the host, and as near to the bound as is said."""

import json
import sys

without, with_host = (json.load(open(path)) for path in sys.argv[1:])
ways = {name: plan["stages"][0]["recompute"] for name, plan in (("without", without), ("with", with_host))}
assert "offload" not in ways["without"] and ("full" in ways["without"] or "selective" in ways["without"]), ways
assert "offload" in ways["with"], ways
assert with_host["predicted_step_seconds"] < 0.99 * without["predicted_step_seconds"], (without, with_host)
memory = with_host["stages"][0]["memory_bytes"]
assert 0 < memory["host"] <= 64 * 2**30 and memory["total"] <= 14 * 2**30, memory
assert 0 <= with_host["gap"] < 0.2, with_host["gap"]
