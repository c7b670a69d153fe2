# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Plans for other processors than this machine's: what they say that they need, which layouts and routines libraries choose
# for them, that they compute the same where they run, and that they are refused by name where they do not.
#
#   python3 test/endtoend/processors.py

import json
import os
import tempfile

from cleave_process import DONE, INFEASIBLE, Checks, cleave, program

# From the oldest. What each adds, by the flags of /proc/cpuinfo, and a feature of it by LLVM's name.
LEVELS = {"x86-64-v2": ({"ssse3", "sse4_1", "sse4_2", "popcnt", "cx16"}, "sse4.2"),
          "x86-64-v3": ({"avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}, "avx2"),
          "x86-64-v4": ({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}, "avx512f")}
# What names of oneDNN's routines and blocks of layouts are only found with the instructions of a level.
ONLY_WITH = {"x86-64-v3": ["avx2"], "x86-64-v4": ["avx512", "16b"]}
# Of processors with instructions that few machines have, and the flags that stand for them.
RARE = {"sapphirerapids": ({"amx_tile"}, "amx-tile"), "znver4": ({"avx512_bf16"}, "avx512bf16")}


def flags():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        return set(next((line.split(":")[1] for line in file if line.startswith("flags")), "").split())


def compiled(checks, folder, model, level):
    """The plan of a model for a processor, and what `explain` says of it."""
    plan = os.path.join(folder, f"{level}.plan")
    result = cleave("compile", model, "--machine", "host:2x1", "--strategy", "data", "--cpu", level, "-o", plan)
    checks.add(result.code == DONE, f"{level}: compiles", result)
    return plan, json.loads(cleave("explain", plan, "--format", "json").output)


def check_level(checks, folder, model, expected, level, here):
    needed, feature = LEVELS[level]
    plan, explained = compiled(checks, folder, model, level)
    processor = explained["processor"]
    text = json.dumps(explained)
    checks.add(processor["name"] == level and feature in processor["features"], f"{level}: the plan says so",
               cleave("explain", plan))
    names = list(LEVELS)
    for other in names[names.index(level) + 1:]:
        checks.add(LEVELS[other][1] not in processor["features"], f"{level}: needs nothing of {other}",
                   cleave("explain", plan))
        for word in ONLY_WITH[other]:
            checks.add(word not in text, f'{level}: no routine or layout with "{word}"', cleave("explain", plan))
    result = cleave("run", plan, "--expect", f"@0={expected}", "--rtol", "1e-3", "--atol", "1e-5")
    if needed <= here:
        checks.add(result.code == DONE, f"{level}: computes the same", result)
        if level in ONLY_WITH:
            checks.add(any(word in text for word in ONLY_WITH[level]), f"{level}: uses what it has", result)
    else:
        checks.add(result.code == INFEASIBLE and feature in result.errors and level in result.errors,
                   f"{level}: refused here, by name", result)


def main():
    program()
    here, checks = flags(), Checks()
    with tempfile.TemporaryDirectory() as folder:
        model, expected = os.path.join(folder, "model.onnx"), os.path.join(folder, "expected.npy")
        cleave("zoo", "resnet50", "--weights", "--batch", "2", "--image-size", "32", "--classes", "10", "-o", model)
        # Plain loops, by the oldest instructions.
        result = cleave("run", model, "--machine", "host:1x1", "--reference", "--cpu", "x86-64", "--output",
                        f"@0={expected}")
        checks.add(result.code == DONE, "plain loops for x86-64 run", result)
        needed = set()
        for level, (more, _) in LEVELS.items():
            needed |= more
            check_level(checks, folder, model, expected, level, here)
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
