# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A short `tools/gpu-test prepare`: the folder holds everything that a machine with GPUs needs, and plans for them.
#
#   python3 test/tools/gpu_test/prepare.py

import argparse
import json
import os
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.path.abspath(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")))
CLEAVE = os.path.join(BIN, "cleave")
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "gpu_test"))

import run as gpu_run  # noqa: E402


def check(fine, text):
    print(("passed " if fine else "FAILED ") + text, flush=True)
    if not fine:
        sys.exit(1)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=500)


def prepare(tool, folder, machine):
    """Prepares a few cases; the list of them."""
    done = run(tool, "prepare", "--quick", "--machine", machine, folder)
    check(done.returncode == 0, f"prepare --quick --machine {machine}: {done.stderr.strip()}")
    with open(os.path.join(folder, "cases.json"), encoding="utf-8") as file:
        prepared = json.load(file)
    check({case["purpose"] for case in prepared["cases"]} == {"outputs", "training"} and not prepared["failures"],
          f"{len(prepared['cases'])} cases")
    return prepared["cases"]


def check_plans(folder, cases):
    for case in cases:
        files = [case["plan"], *case.get("expects", {}).values(), *case.get("data", {}).values(),
                 *([case["parameters"]] if "parameters" in case else [])]
        check(all(os.path.getsize(os.path.join(folder, name)) for name in files), f"{case['name']}: files")
        plan = os.path.join(folder, case["plan"])
        check(run(CLEAVE, "verify", plan).returncode == 0, f"{case['name']}: verified")
        explained = json.loads(run(CLEAVE, "explain", plan, "--format", "json").stdout)
        drivers = [device["driver"] for device in explained["devices"]]
        check(drivers == ["cuda"] * case["devices"], f"{case['name']}: on {drivers}")
        check(case["predicted_seconds"] > 0, f"{case['name']}: predicted {case['predicted_seconds']} s")


def compared(folder, output, cases):
    """The rows of what `run` compares and measures, with programs that are built already."""
    build = output + "-build"
    os.makedirs(build)
    os.symlink(BIN, os.path.join(build, "bin"))
    runner = gpu_run.Run(folder, output, argparse.Namespace(build=build, seconds=250, program=None))
    runner.cases = cases
    runner.agreement()
    runner.speed()
    return {row["name"]: row for row in runner.results.rows}


def check_comparisons(tool, work):
    """Plans for this host stand in for those for GPUs: they agree, and what is wrong is found."""
    folder = os.path.join(work, "host")
    cases = prepare(tool, folder, "host")
    speed = {"name": "speed", "purpose": "speed", "plan": cases[0]["plan"], "model": "mlp", "entry": "", "precision": "f32",
             "devices": 1, "flops": 1e6}
    rows = compared(folder, os.path.join(work, "right"), [*cases, speed])
    check(all(row["status"] == "passed" for row in rows.values()) and len(rows) == len(cases) + 1,
          "on the CPU all agree: " + "; ".join(f"{row['name']} {row['detail']}" for row in rows.values()))
    check(rows["speed"]["ours_ms"] > 0 and rows["speed"]["rounds"] == 3, f"speed: {rows['speed']['ours_ms']} ms")
    training = next(case for case in cases if case["purpose"] == "training" and case["devices"] == 2)
    outputs = next(case for case in cases if case["purpose"] == "outputs")
    first = next(iter(training["parameter_tolerances"]))
    wrong = [{**training, "name": "loss", "losses": [training["losses"][0] * 1.001, *training["losses"][1:]]},
             {**training, "name": "parameters", "parameter_tolerances": {first: 1e-30}},
             {**training, "name": "steps", "losses": training["losses"][1:]},
             {**outputs, "name": "other", "expects": {"@0": training["data"]["labels"]}},
             {**outputs, "name": "no plan", "plan": "none.plan"}]
    rows = compared(folder, os.path.join(work, "wrong"), wrong)
    check({name for name, row in rows.items() if row["status"] == "failed"} == {case["name"] for case in wrong},
          "what is wrong is found: " + "; ".join(f"{row['name']}: {row['detail']}" for row in rows.values()))


def main():
    tool = os.path.join(REPOSITORY, "tools", "gpu-test")
    with tempfile.TemporaryDirectory() as work:
        check_comparisons(tool, work)
        folder = os.path.join(work, "prepared")
        check_plans(folder, prepare(tool, folder, "cuda:h100"))
        # What was prepared is replaced; what somebody else put there is not.
        check(run(tool, "prepare", "--quick", "--only", "mlp", folder).returncode == 0, "prepare again")
        other = os.path.join(work, "other")
        os.mkdir(other)
        with open(os.path.join(other, "mine"), "w", encoding="utf-8") as file:
            file.write("kept")
        refused = run(tool, "prepare", "--quick", other)
        check(refused.returncode == 2 and "expected an empty folder" in refused.stderr and
              os.path.exists(os.path.join(other, "mine")), "another folder is left alone")


if __name__ == "__main__":
    main()
