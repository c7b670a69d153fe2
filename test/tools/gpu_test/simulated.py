# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Whole plans for GPUs where there are none: compiled as for an H100, run by cleave-run on a simulated CUDA, with kernels
# in PTX by an interpreter that checks their accesses and library kernels by simulated libraries, and compared with what
# the CPU driver computes. Inference and training, on 1, 2 and 4 logical devices, divided in every way.
#
#   python3 test/tools/gpu_test/simulated.py          # what takes seconds
#   python3 test/tools/gpu_test/simulated.py --all    # everything that tools/gpu-test compares

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "gpu_test"))

import cases  # noqa: E402

# A few of everything that tools/gpu-test runs: an interpreter is no GPU.
CASES = ("mlp", "moe", "bert", "resnet50-small", "shared-squeezenet", "gpt-tensor2", "train-gpt", "train-lenet-one",
         "train-lenet-data", "train-lenet-pipeline4", "train-lstm-data4", "train-lstm-pipeline4")
# Those with convolutions, which run once more without cuDNN's routines: by engines of its backend and as products.
CONVOLUTIONS = ("resnet50-small", "shared-squeezenet", "train-lenet-one", "train-lenet-data")
# Those that several processes run as well, with NCCL's calls by MPI.
SEVERAL = ("train-gpt-data", "train-gpt-mixed4", "train-gpt-pipeline4")


def check(fine, text):
    print(("passed " if fine else "FAILED ") + text, flush=True)
    return fine


def on_processes(program, count, *words, gpus=None, **environment):
    """The exit code and what was said of a run under mpirun, with a GPU for each process unless said otherwise."""
    done = subprocess.run(["mpirun", "-q", "--allow-run-as-root", "--oversubscribe", "-n", str(count), program, *words],
                          env={**os.environ, "CLEAVE_SIMULATED_GPUS": str(gpus or count), **environment},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stderr


def train_of(folder, case):
    data = [word for port, file in case["data"].items() for word in ("--data", f"{port}={os.path.join(folder, file)}")]
    return ["train", os.path.join(folder, case["plan"]), *data, "--steps", str(case["steps"]), "--epochs", "100", "--seed",
            "1"]


def run_processes(program, folder, work):
    """Several processes, one for each device: the same losses as without; and how they end when they cannot go on."""
    if not shutil.which("mpirun"):
        print("without several processes: there is no mpirun")
        return True
    with open(os.path.join(folder, "cases.json"), encoding="utf-8") as file:
        prepared = {case["name"]: case for case in json.load(file)["cases"]}
    fine, report = True, os.path.join(work, "report.json")
    for name in SEVERAL:
        case = prepared[name]
        code, said = on_processes(program, case["devices"], *train_of(folder, case), "--json", report, "--json-steps")
        if not check(code == 0, f"{name} on {case['devices']} processes: exit code {code} {said[-300:]}"):
            return False
        with open(report, encoding="utf-8") as file:
            losses = [step["loss"] for step in json.load(file)["steps"]]
        error = max(abs(a - b) / abs(b) for a, b in zip(losses, case["losses"]))
        fine &= check(len(losses) == case["steps"] and error <= case["loss_tolerance"],
                      f"{name} on {case['devices']} processes: losses to {error:.1e} of {case['loss_tolerance']:.1e}")
    # Before the first step.
    data = prepared["train-gpt-data"]
    code, said = on_processes(program, 2, os.path.join(folder, data["plan"]), "--entry", "train", gpus=1)
    fine &= check(code == 3 and "NCCL expects a GPU for each rank, got one for ranks 0 and 1" in said,
                  f"two ranks on one GPU: exit code {code}, {said.strip()}")
    # In the middle of it: the guards do not know what kind of devices their processes have.
    code, said = on_processes(program, 2, *train_of(folder, data), CLEAVE_FAULT="1:call:1:kill")
    return fine & check(code == 7 and "error: rank 1 is lost: signal 9" in said, f"a rank that dies: {code}, {said.strip()}")


def compare(programs, program, folder, build, names, **environment):
    """The exit code of tools/gpu-test for these cases, whose plans go to the folder."""
    tool = os.path.join(REPOSITORY, "tools", "gpu-test")
    only = [word for case in names for word in ("--only", case)]
    subprocess.run([tool, "prepare", folder, *only], check=True, env={**os.environ, "CLEAVE_BIN": programs})
    return subprocess.run([tool, "run", folder, "--program", program, "--build", build, "--seconds", "5000"],
                          env={**os.environ, **environment}).returncode


def main():
    parser = argparse.ArgumentParser(description="Compares whole plans on simulated GPUs with the CPU driver.")
    parser.add_argument("--all", action="store_true", help="every case, not only those that take seconds")
    compared = CASES
    if parser.parse_args().all:
        compared = [case.name for case in cases.all_cases() if case.purpose != "speed"]
    programs = os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin"))
    program = os.path.join(programs, "cleave-run-simulated")
    if not os.path.exists(program):
        print("skipped: there is no cleave-run-simulated, which needs a build with CLEAVE_CUDA")
        return 77
    with tempfile.TemporaryDirectory() as work:
        folder, build = os.path.join(work, "plans"), os.path.join(work, "build")
        os.mkdir(build)
        code = compare(programs, program, folder, build, compared)
        if code == 0:
            others = os.path.join(work, "convolutions")
            os.mkdir(others)
            code = compare(programs, program, os.path.join(others, "plans"), others, CONVOLUTIONS,
                           CLEAVE_SIMULATED_ROUTINES="0")
        return code if code != 0 or run_processes(program, folder, work) else 1


if __name__ == "__main__":
    sys.exit(main())
