# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What `tools/gpu-test run` does, on a machine without GPUs: the runtime is built in a fresh folder from what the prepared
# folder carries, its conformance suite passes on the drivers that are there, and a plan for GPUs is a failed row that
# says why, not the end.
#
#   python3 test/tools/gpu_test/standalone.py [FOLDER]      # FOLDER: keep the built runtime there for the next time

import json
import os
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "gpu_test"))

import carry  # noqa: E402


def check(fine, text):
    print(("passed " if fine else "FAILED ") + text, flush=True)
    if not fine:
        sys.exit(1)


def has_gpu():
    return shutil.which("nvidia-smi") and subprocess.run(["nvidia-smi", "-L"], capture_output=True).stdout.strip()


def prepare(folder):
    """A prepared folder without the compiler: nothing but what is carried, and one plan that is none."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    carry.fill(os.path.join(folder, "carried"), print)
    with open(os.path.join(folder, "broken.plan"), "wb") as file:
        file.write(b"no plan")
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
        json.dump({"version": 1, "failures": [], "cases": [
            {"name": "broken", "purpose": "outputs", "plan": "broken.plan", "devices": 1, "entry": "", "model": "none",
             "expects": {"@0": "broken.plan"}, "rtol": 0, "atol": 0}]}, file)


def main():
    if not os.path.exists("/usr/local/cuda/include/cuda_runtime_api.h"):
        print("skipped: no CUDA toolkit")
        sys.exit(77)
    if has_gpu():
        print("skipped: this machine has a GPU; tools/gpu-test run tests more")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as work:
        work = os.path.abspath(sys.argv[1]) if sys.argv[1:] else work
        folder, build = os.path.join(work, "prepared"), os.path.join(work, "build")
        prepare(folder)
        done = subprocess.run([os.path.join(REPOSITORY, "tools", "gpu-test"), "run", folder, "--build", build,
                               "--carried-only", "--no-peers", "-j", "2", "--seconds", "1700"], text=True,
                              capture_output=True, timeout=1750)
        print(done.stdout)
        with open(os.path.join(folder, "results", "results.json"), encoding="utf-8") as file:
            rows = {(row["part"], row["name"]): row for row in json.load(file)["rows"]}
        built = rows[("build", "runtime alone")]
        if built["status"] != "passed":
            with open(os.path.join(build, "gpu-test", "logs", "build.log"), encoding="utf-8") as file:
                print(file.read()[-4000:])
        check(built["status"] == "passed", "the runtime is built from what is carried")
        check(rows[("build", "suites")]["status"] == "passed", "and so are the suites")
        suites = {row["driver"]: row for row in rows.values() if row["part"] == "conformance" and "runtime" in row["name"]}
        for driver in ("cpu_local", "null_simulated"):
            row = suites[driver]
            check(row["status"] == "passed" and row["passed"] >= 10, f"conformance, {driver}: {row['detail']}")
        check(suites["cuda"]["status"] == "skipped", f"conformance, cuda: {suites['cuda']['detail']}")
        broken = rows[("outputs", "broken")]
        check(broken["status"] == "failed" and "broken.plan" in broken["detail"], f"broken plan: {broken['detail']}")
        check(done.returncode == 1, "the exit code says that something failed")


if __name__ == "__main__":
    main()
