# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#   exchanges.py SHOWN HIDDEN SHOWN16 HIDDEN16
#
# Reports of one plan whose tensor group, of eight devices of a host or of sixteen of two, waits for its exchanges or
# computes meanwhile, 1.3 times as slow.

import json
import math
import sys

shown, hidden, shown16, hidden16 = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])


def exchanged(report):
    return sum(op.get("communication_seconds", 0) for op in report["ops"] if op["name"].startswith("block1/"))


assert exchanged(shown) > 0
assert math.isclose(exchanged(hidden) / exchanged(shown), 1 / 8 + 7 / 8 * 0.3, rel_tol=1e-6), \
    exchanged(hidden) / exchanged(shown)
assert exchanged(hidden16) == exchanged(shown16) > 0
assert hidden["searched_step_seconds"] < shown["searched_step_seconds"]
