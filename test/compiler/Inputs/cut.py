# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# cut.py DUMP PIPELINE MODEL: cleave-opt makes a plan of a dump, by the pipeline and what comes behind it, `codegen` and
# `schedule`; and once more for each pass of the pipeline that is ours, cut behind it: what is printed there is read again,
# and the uses of every value are shuffled before each pass that follows. Expects the same bytes each time.

import filecmp
import subprocess
import sys

# Locations name the model's nodes.
PRINTED = ["--mlir-print-debuginfo", "--mlir-print-local-scope"]


def parts_of(pipeline):
    """The passes of a list with commas; those of programs each in a pass manager of its own."""
    passes, depth, start = [], 0, 0
    for place, letter in enumerate(pipeline + ","):
        depth += (letter in "({") - (letter in ")}")
        if letter == "," and depth == 0:
            passes.append(pipeline[start:place].strip())
            start = place + 1
    inner = "dist.program("
    return [part for one in passes for part in
            ([f"{inner}{name})" for name in parts_of(one[len(inner):-1])] if one.startswith(inner) else [one])]


def opt(dump, passes, *more):
    made = subprocess.run(["cleave-opt", dump, f"--pass-pipeline=builtin.module({','.join(passes)})", *more],
                          stderr=subprocess.PIPE, text=True)
    if made.returncode:
        sys.exit(f"cleave-opt {passes[-1]}: {made.stderr}")


def main():
    dump, pipeline, model = sys.argv[1:]
    told = subprocess.run(["cleave-opt", dump, f"--{pipeline}", "--dump-pass-pipeline", "-o", "/dev/null"], check=True,
                          stderr=subprocess.PIPE, text=True).stderr
    text = " ".join(told[told.index("builtin.module(") + len("builtin.module("):told.rindex(")")].split())
    passes, behind = parts_of(text), ["schedule"] if pipeline == "codegen" else ["codegen", "schedule"]
    if len(passes) < 4:
        sys.exit(f"expected the passes of {pipeline}, got {passes}")
    emit = f"compile-emit{{model={model} output=%s}}"
    opt(dump, [*passes, *behind, emit % "whole.plan"], "-o", "/dev/null")
    cuts = [count for count in range(1, len(passes) + 1) if not passes[count - 1].startswith(("dist.program(cse",
                                                                                          "dist.program(canonicalize"))]
    for count in cuts:
        opt(dump, passes[:count], *PRINTED, "-o", "cut.mlir")
        opt("cut.mlir", [*passes[count:], *behind, emit % "cut.plan"], f"--shuffle-uses={count}", "-o", "/dev/null")
        if not filecmp.cmp("whole.plan", "cut.plan", shallow=False):
            sys.exit(f"another plan if cut behind {passes[count - 1]}")
    print(f"{len(cuts)} cuts: equal")


if __name__ == "__main__":
    main()
