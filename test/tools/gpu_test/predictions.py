# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Predicted beside measured steps: what tools/gpu-test run keeps of plans, here by cleave-run on a simulated CUDA, and what
# tools/gpu-test predict makes of it. Times of a simulation mean nothing, so that they are replaced; memory is the
# driver's own.
#
#   python3 test/tools/gpu_test/predictions.py

import argparse
import json
import os
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "gpu_test"))

import predict  # noqa: E402
import run  # noqa: E402

CASES = ("mlp", "train-gpt-data")
MACHINE = """name: probed
device_kinds:
  h100:
    driver: cuda
    chip: sm_90
    memory: 79000 MiB
    bandwidth: 3 TB/s
    peak: { f32: 50 TFLOP/s }
    launch: 2 us
hosts:
  - devices: [ { kind: h100, count: 1 } ]
"""


def check(fine, text):
    print(("passed " if fine else "FAILED ") + text, flush=True)
    return fine


# The definitions, on numbers whose answers are known: tau by counting pairs, errors with their sign.
def check_figures():
    def row(predicted, measured, bytes_more=0):
        return {"predicted_ms": predicted, "measured_ms": measured, "predicted_bytes": 5,
                "allocated_bytes": 5 + bytes_more}

    # Of three pairs one is in another order.
    found = predict.summary_of([row(1, 2), row(3, 3), row(2, 4), row(None, 9)])
    fine = check(abs(found["kendall_tau"] - 1 / 3) < 1e-12, f"tau {found['kendall_tau']}")
    fine &= check(found["median_error"] == 0.5 and found["memory_exact"] and (found["plans"], found["timed"]) == (4, 3),
                  f"summary {found}")
    fine &= check(not predict.summary_of([row(1, 1, 8)])["memory_exact"], "memory that differs is told")
    found = predict.line_of({**row(3, 4, 8), "by_kernels_ms": 5, "name": "n", "devices": 1})
    fine &= check(found[5:] == ["-25.0 %", "+25.0 %", "0.0 MiB", "+8 B"], f"a line of the table: {found}")
    return fine & check(predict.gpus_of(MACHINE) == 1 and predict.gpus_of(predict.with_gpus(MACHINE, 4)) == 4,
                        "the number of GPUs")


def measure(folder, output, program):
    """As tools/gpu-test run does it."""
    options = argparse.Namespace(build=output, program=program, seconds=600)
    measuring = run.Run(folder, output, options)
    with open(os.path.join(folder, "cases.json"), encoding="utf-8") as file:
        measuring.cases = json.load(file)["cases"]
    measuring.steps()
    measuring.kernels()
    measuring.results.pack()
    return measuring.results


def check_plans(programs, work):
    folder, output = os.path.join(work, "plans"), os.path.join(work, "results")
    tool = os.path.join(REPOSITORY, "tools", "gpu-test")
    subprocess.run([tool, "prepare", folder, *(word for case in CASES for word in ("--only", case))], check=True)
    with open(os.path.join(folder, "cases.json"), encoding="utf-8") as file:
        cases = {case["name"]: case for case in json.load(file)["cases"] if case["name"] in CASES}
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
        json.dump({"version": 1, "cases": list(cases.values()), "failures": []}, file)
    found = measure(folder, output, os.path.join(programs, "cleave-run-simulated"))
    if not check(sorted(row["name"] for row in found.rows if "measured_ms" in row) == sorted(CASES),
                 f"measured: {found.rows}"):
        return False
    fine = check(all(f"| {case} | {cases[case]['devices']} |" in found.markdown() for case in CASES), "their table")
    with open(os.path.join(output, "machine.yaml"), "w", encoding="utf-8") as file:
        file.write(MACHINE)
    for row in found.rows:
        if row["part"] == "steps":
            row["measured_ms"] = 8.0
    found.save()
    code = predict.predict(folder, output)
    with open(os.path.join(output, "predictions.json"), encoding="utf-8") as file:
        report = json.load(file)
    rows = {row["name"]: row for row in report["predictions"]}
    fine &= check(code == 0 and set(rows) == set(CASES), f"predicted: exit code {code}, {sorted(rows)}")
    # Two devices on one GPU share it.
    fine &= check(rows["train-gpt-data"]["predicted_ms"] is None and report["timed"] == 1, "logical devices")
    fine &= check(report["memory_exact"] and rows["mlp"]["allocated_bytes"] > 4096, "memory as the driver allocates it")
    # 4 MB at 3 TB/s and a hundred million operations at 50 TFLOP/s, and a few launches: tens of microseconds.
    fine &= check(0.001 < rows["mlp"]["predicted_ms"] < 0.5, f"the mlp's {rows['mlp']['predicted_ms']} ms")
    # On a simulated GPU kernels take what they take this processor.
    fine &= check(rows["mlp"]["by_kernels_ms"] > rows["mlp"]["predicted_ms"] and report["median_error_by_kernels"] > 0,
                  f"by kernels {rows['mlp']['by_kernels_ms']} ms")
    wanted = abs(rows["mlp"]["predicted_ms"] / 8 - 1)
    return fine & check(abs(report["median_error"] - wanted) < 1e-9, "its error")


def main():
    programs = os.environ.setdefault("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin"))
    fine = check_figures()
    if not all(os.path.exists(os.path.join(programs, name)) for name in ("cleave", "cleave-run-simulated")):
        print("without plans: there is no compiler, or no cleave-run-simulated, which needs a build with CLEAVE_CUDA")
        return 77 if fine else 1
    with tempfile.TemporaryDirectory() as work:
        return 0 if fine & check_plans(programs, work) else 1


if __name__ == "__main__":
    sys.exit(main())
