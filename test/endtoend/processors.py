# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Plans for other processors than this machine's: what they say that they need, which layouts and routines libraries choose
# for them, that they compute the same where they run, and that they are refused by name where they do not.
#
#   python3 test/endtoend/processors.py

import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from cleave_process import DONE, INFEASIBLE, Checks, cleave, program
from host_processor import LEVELS, host_macros

# Of each level of x86-64 a feature that it adds, by LLVM's name.
FEATURES = {"x86-64-v2": "sse4.2", "x86-64-v3": "avx2", "x86-64-v4": "avx512f"}
# What names of oneDNN's routines and blocks of layouts are only found with the instructions of a level.
ONLY_WITH = {"x86-64-v3": ["avx2"], "x86-64-v4": ["avx512", "16b"]}
# Of processors with instructions that few machines have, and the macros that stand for them.
RARE = {"sapphirerapids": ({"__AMX_TILE__"}, "amx-tile"), "znver4": ({"__AVX512BF16__"}, "avx512bf16")}


def compiled(checks, folder, model, level):
    """The plan of a model for a processor, and what `explain` says of it."""
    plan = os.path.join(folder, f"{level}.plan")
    result = cleave("compile", model, "--machine", "host:2x1", "--strategy", "data", "--cpu", level, "-o", plan,
                    alone=True)
    checks.add(result.code == DONE, f"{level}: compiles", result)
    return plan, json.loads(cleave("explain", plan, "--format", "json").output)


def check_level(checks, folder, model, expected, level, is_here):
    feature = FEATURES[level]
    plan, explained = compiled(checks, folder, model, level)
    processor = explained["processor"]
    text = json.dumps(explained)
    checks.add(processor["name"] == level and feature in processor["features"], f"{level}: the plan says so",
               cleave("explain", plan))
    names = list(LEVELS)
    for other in names[names.index(level) + 1:]:
        checks.add(FEATURES[other] not in processor["features"], f"{level}: needs nothing of {other}",
                   cleave("explain", plan))
        for word in ONLY_WITH[other]:
            checks.add(word not in text, f'{level}: no routine or layout with "{word}"', cleave("explain", plan))
    # Libraries are limited once a process.
    result = cleave("run", plan, "--expect", f"@0={expected}", "--rtol", "1e-3", "--atol", "1e-5", alone=True)
    if is_here:
        checks.add(result.code == DONE, f"{level}: computes the same", result)
        if level in ONLY_WITH:
            checks.add(any(word in text for word in ONLY_WITH[level]), f"{level}: uses what it has", result)
    else:
        checks.add(result.code == INFEASIBLE and feature in result.errors and level in result.errors,
                   f"{level}: refused here, by name", result)


def main():
    program()
    here, checks = host_macros(), Checks()
    with tempfile.TemporaryDirectory() as folder:
        model, expected = os.path.join(folder, "model.onnx"), os.path.join(folder, "expected.npy")
        cleave("zoo", "resnet50", "--weights", "--batch", "2", "--image-size", "32", "--classes", "10", "-o", model)
        # Plain loops, by the oldest instructions.
        result = cleave("run", model, "--machine", "host:1x1", "--reference", "--cpu", "x86-64", "--output",
                        f"@0={expected}", alone=True)
        checks.add(result.code == DONE, "plain loops for x86-64 run", result)
        needed = set()
        for level, more in LEVELS.items():
            needed |= more
            check_level(checks, folder, model, expected, level, needed <= here)
        for name, (more, feature) in RARE.items():
            if more <= here:
                continue
            plan, _ = compiled(checks, folder, model, name)
            result = cleave("run", plan)
            checks.add(result.code == INFEASIBLE and feature in result.errors and name in result.errors,
                       f"{name}: refused here, by name", result)
    checks.report()


if __name__ == "__main__":
    main()
