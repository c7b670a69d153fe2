# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#   executor.py OWN OLD NEW EAGER
#
# Reports of one plan for several executors: what is fused less and joined behind the backward pass takes longer, scores
# that are not kept save memory, and the normalizations of Megatron-LM of 2021 are whole.

import json
import sys

own, old, new, eager = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])
seconds = [report["predicted_step_seconds"] for report in (own, old, new, eager)]
assert seconds[0] < seconds[1] and seconds[2] < seconds[1] <= seconds[3], seconds
stages = [report["stages"][0] for report in (own, old, new, eager)]
activations = [stage["memory_bytes"]["activations"] for stage in stages]
assert activations[2] < activations[1], activations
assert stages[1]["memory_bytes"]["transient"] > 5e9, stages[1]
norms = [[op["split"] for op in report["ops"] if op["name"] == "block1/norm1"][0] for report in (old, new)]
assert "model" not in norms[0], norms
