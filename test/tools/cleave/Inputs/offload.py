#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""offload.py KEPT SLOW SIMULATED: of plans that keep activations on the device and in its host's memory, over a way of
1 MB/s. The device then has no more than the state and a few tensors. Every byte takes the way there and the way back, of
which one hides beside the other at the most."""

import json
import sys

kept, slow, simulated = (json.load(open(path)) for path in sys.argv[1:])


def stage(plan):
    return plan["stages"][0]["memory_bytes"]


state = stage(kept)["parameters"] + stage(kept)["gradients"] + stage(kept)["optimizer"]
arena = {name: plan["devices"][0]["arena_bytes"] for name, plan in (("kept", kept), ("slow", slow))}
moved = stage(slow)["host"]
# What attention reads may stay.
assert stage(kept)["host"] == 0 and stage(slow)["activations"] < 0.3 * stage(kept)["activations"], (stage(kept), stage(slow))
assert moved > 0.5 * stage(kept)["activations"], (moved, stage(kept))
assert arena["kept"] - arena["slow"] > 0.5 * moved, (arena, moved)
assert arena["slow"] < state + 0.5 * moved, (arena, state, moved)
seconds = simulated["predicted_step_seconds"]
assert moved / 1e6 < seconds < 2.2 * moved / 1e6, (moved, seconds)
