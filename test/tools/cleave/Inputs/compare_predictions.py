# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares the steps of simulations as JSON: compare_predictions.py FILE [OTHER FACTOR]... expects that OTHER's step takes
# FACTOR times as long as FILE's, but for rounding, and as many bytes.
import json
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


first = read(sys.argv[1])
for path, factor in zip(sys.argv[2::2], sys.argv[3::2]):
    other = read(path)
    wanted = first["predicted_step_seconds"] * float(factor)
    got = other["predicted_step_seconds"]
    if abs(got - wanted) > 1e-9 * wanted:
        sys.exit(f"{path} expects a step of {wanted} s, got {got} s")
    if [b for b in other["predicted_peak_bytes"] if b] != [b for b in first["predicted_peak_bytes"] if b]:
        sys.exit(f"{path} expects {first['predicted_peak_bytes']}, got {other['predicted_peak_bytes']}")
