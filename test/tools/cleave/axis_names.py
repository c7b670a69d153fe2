# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Whether axes are named for what they cut: of the products with weights that an axis cuts, most of the work must be cut
# in the way that its name says. The arguments are what explain writes as JSON.

import collections
import json
import re
import sys

KINDS = {"out_channel": "model", "in_channel": "model", "channel": "model", "batch": "data"}
failed = False

for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        plan = json.load(file)
    work = collections.defaultdict(collections.Counter)
    for op in plan["ops"]:
        # Products with weights alone: of others no name tells what the weights have.
        if op["kind"] not in ("MatMul", "Gemm", "Conv") or not op["parameter_bytes"]:
            continue
        for part in op["split"].split(", ") if op["split"] else []:
            factor, *axes = part.split("/")
            other = "space" if op["kind"] == "Conv" else "sequence"
            for axis in axes:
                name = re.sub(r"[0-9]+$", "", axis.rsplit(" ")[0])
                work[axis.rsplit(" ")[0]][KINDS.get(factor, other)] += op["flops"]
    for axis, kinds in work.items():
        most = kinds.most_common(1)[0][0]
        if not axis.rstrip("0123456789") == most:
            print(f"{path}: axis {axis} cuts {dict(kinds)}", file=sys.stderr)
            failed = True
    print(f"{path}: {({axis: dict(kinds) for axis, kinds in work.items()})}")
    if not work:
        print(f"{path}: no product is cut", file=sys.stderr)
        failed = True
sys.exit(failed)
