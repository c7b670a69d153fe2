# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#   linear-layers.py BF16 FP8 A100 A100-FP8
#
# Reports of one plan: linear layers in 16 and in 8 bits, on a device that has a rate for these and on one that has none.

import json
import sys

wide, narrow, old, same = (json.load(open(path, encoding="utf-8"))["stages"][0] for path in sys.argv[1:])


def passes(stage):
    return stage["forward_seconds"] + stage["backward_input_seconds"] + stage["backward_weight_seconds"]


assert 0.5 * passes(wide) < passes(narrow) < 0.9 * passes(wide), (passes(wide), passes(narrow))
assert narrow["memory_bytes"]["activations"] < wide["memory_bytes"]["activations"], narrow
assert passes(old) == passes(same), (passes(old), passes(same))
assert old["memory_bytes"] == same["memory_bytes"], same
