# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ONNX Runtime as the end-to-end tests' peer: inputs as files, and the outputs that it computes from them.

import json
import os
import subprocess
import sys

from onnx import numpy_helper

from cleave_process import REPOSITORY, cleave, skip

# Both ways to run a model: on one device, and with every value crossing between two.
RUNS = {"one device": ["--machine", "host:1x1", "--strategy", "single"],
        "two devices": ["--machine", "host:2x1", "--strategy", "alternate"]}


def write_inputs(arrays, folder):
    """Writes arrays in the order of the model's inputs; gives their paths."""
    paths = []
    for position, array in enumerate(arrays):
        paths.append(os.path.join(folder, f"input_{position}.pb"))
        with open(paths[-1], "wb") as file:
            file.write(numpy_helper.from_array(array).SerializeToString())
    return paths


def run_peer(model, inputs, folder, optimized=None):
    """ONNX Runtime's outputs as files 0.npy, 1.npy, ... in `folder`, and the model as its optimizer leaves it as
    `optimized`. Ends the test where there is no ONNX Runtime."""
    files = {f"@{position}": path for position, path in enumerate(inputs)}
    request = {"model": model, "inputs": files, "repeat": 1, "warmup": 0, "output_dir": folder, "optimized": optimized}
    done = subprocess.run(["node", os.path.join(REPOSITORY, "tools/bench/onnxruntime.mjs"), json.dumps(request)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        if "found none; run tools/setup" in done.stderr:
            skip("no onnxruntime-node; run tools/setup --tests")
        sys.exit(f"{model}: ONNX Runtime failed: {done.stderr}")


def compare(model, inputs, folder, outputs, run, rtol="1e-4", atol="1e-5", more=()):
    """What `cleave run` says to the outputs that `run_peer` left in `folder`, those of the positions in `outputs`.
    `more` are further options."""
    flags = [*more]
    for position, path in enumerate(inputs):
        flags += ["--input", f"@{position}={path}"]
    for position in outputs:
        flags += ["--expect", f"@{position}={folder}/{position}.npy"]
    return cleave("run", model, *RUNS[run], *flags, "--rtol", rtol, "--atol", atol)
