# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#   linear-layer-seconds.py WIDE FREE CAST
#
# Reports of two layers of 512 units on 64 samples, on a device of 1 TFLOP/s in bf16, 2 in f8, 1 TB/s and 1 us a launch: in
# bf16, in f8 where rounding is free, and where it moves 6 bytes of an element of the input and 5 of the gradient.

import json
import math
import sys

wide, free, cast = (json.load(open(path, encoding="utf-8"))["stages"][0] for path in sys.argv[1:])
FLOPS, ELEMENTS = 2 * 64 * 512 * 512, 64 * 512


def backward(stage):
    return stage["backward_input_seconds"] + stage["backward_weight_seconds"]


def expect(got, expected):
    assert math.isclose(got, expected, rel_tol=1e-6), (got, expected)


expect(wide["forward_seconds"] - free["forward_seconds"], FLOPS / 1e12 - FLOPS / 2e12)
expect(backward(wide) - backward(free), FLOPS / 1e12 - FLOPS / 2e12)
expect(cast["forward_seconds"] - free["forward_seconds"], 1e-6 + 6 * ELEMENTS / 1e12)
expect(backward(cast) - backward(free), 1e-6 + 5 * ELEMENTS / 1e12)
