# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `explain` predicts (JSON, first) is what `simulate` says (JSON, second): the step, the memory of every device, and
where one device computes all of it, one operator after the other, their times. Or that a difference of plans
(first) begins at the step and memory of a plan (second)."""

import json
import math
import sys


def expect_equal(what, got, expected):
    if not math.isclose(got, expected, rel_tol=1e-9):
        raise SystemExit(f"{what}: expects {expected}, got {got}")


def check_difference(difference, explained):
    totals = {total["name"]: total for total in difference["totals"]}
    expect_equal("seconds", totals["seconds"]["first"], explained["predicted_step_seconds"])
    expected = {op["name"]: op.get("predicted_seconds", -1) for op in explained["ops"]}
    for op in difference["op_seconds"]:
        expect_equal(op["name"], op.get("first", -1), expected[op["name"]])


def check_prediction(explained, simulated):
    expect_equal("machine", explained["predicted_machine"] == simulated["machine"], True)
    expect_equal("step", explained["predicted_step_seconds"], simulated["predicted_step_seconds"])
    if explained["predicted_peak_bytes"] != simulated["predicted_peak_bytes"]:
        raise SystemExit(f"peaks: expects {simulated['predicted_peak_bytes']}, got {explained['predicted_peak_bytes']}")
    times = [op for op in explained["ops"] if "predicted_seconds" in op]
    if not any(op["predicted_seconds"] > 0 for op in times):
        raise SystemExit("expects operators with times, got none")
    for op in times:
        if not 0 <= op["communication_seconds"] <= op["predicted_seconds"]:
            raise SystemExit(f"{op['name']}: expects communication to be a part of its time")
    if len(simulated["devices"]) == 1 and simulated["devices"][0]["alike"] == 1:
        calls = {item["node"]: item["seconds"] for item in simulated["critical_path"] if item["what"] == "call"}
        for op in times:
            expect_equal(op["name"], op["predicted_seconds"], calls.get(op["name"], 0))
        expect_equal("operators", sum(op["predicted_seconds"] for op in times), sum(calls.values()))


def main():
    documents = []
    for name in sys.argv[1:3]:
        with open(name, encoding="utf-8") as file:
            documents.append(json.load(file))
    (check_difference if "equal" in documents[0] else check_prediction)(*documents)


if __name__ == "__main__":
    main()
