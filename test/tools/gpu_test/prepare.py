# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A short `tools/gpu-test prepare`: the folder holds everything that a machine with GPUs needs, and plans for them.
#
#   python3 test/tools/gpu_test/prepare.py

import json
import os
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
CLEAVE = os.path.join(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")), "cleave")


def check(fine, text):
    print(("passed " if fine else "FAILED ") + text, flush=True)
    if not fine:
        sys.exit(1)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def main():
    tool = os.path.join(REPOSITORY, "tools", "gpu-test")
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "prepared")
        done = run(tool, "prepare", "--quick", folder)
        check(done.returncode == 0, f"prepare --quick: {done.stderr.strip()}")
        with open(os.path.join(folder, "cases.json"), encoding="utf-8") as file:
            prepared = json.load(file)
        check({case["purpose"] for case in prepared["cases"]} == {"outputs", "training"} and not prepared["failures"],
              f"{len(prepared['cases'])} cases")
        for case in prepared["cases"]:
            files = [case["plan"], *case.get("expects", {}).values(), *case.get("data", {}).values(),
                     *([case["parameters"]] if "parameters" in case else [])]
            missing = [name for name in files if not os.path.getsize(os.path.join(folder, name))]
            check(not missing, f"{case['name']}: files")
            plan = os.path.join(folder, case["plan"])
            check(run(CLEAVE, "verify", plan).returncode == 0, f"{case['name']}: verified")
            explained = json.loads(run(CLEAVE, "explain", plan, "--format", "json").stdout)
            drivers = [device["driver"] for device in explained["devices"]]
            check(drivers == ["cuda"] * case["devices"], f"{case['name']}: on {drivers}")
            check(case.get("predicted_seconds", 0) > 0, f"{case['name']}: predicted {case.get('predicted_seconds')} s")
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
