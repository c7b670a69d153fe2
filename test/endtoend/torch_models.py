# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models as PyTorch exports them, on one device and alternating over two: outputs must be PyTorch's. The exports are
# made once, into build/torch-models.
#
#   python3 test/endtoend/torch_models.py [MODEL...]

import importlib.util
import os
import subprocess
import sys

import numpy

from cleave_process import REPOSITORY, cleave, report, skip

MODELS = ["mobilenet_v2", "googlenet", "convnext_tiny", "vit_b_16"]


def main():
    names = sys.argv[1:] or MODELS
    folder = os.environ.get("CLEAVE_TORCH_MODELS", os.path.join(REPOSITORY, "build", "torch-models"))
    if not all(os.path.exists(os.path.join(folder, name, "model.onnx")) for name in names):
        for package in ("torch", "torchvision"):
            if importlib.util.find_spec(package) is None:
                skip(f"the Python package {package} is not installed and {folder} holds no exports")
        exporter = os.path.join(os.path.dirname(os.path.abspath(__file__)), "export_torch_models.py")
        subprocess.run([sys.executable, exporter, folder, *names], check=True)
    failures, passed = [], 0
    for name in names:
        files = os.path.join(folder, name)
        # Scores near zero are sums that cancel: what counts there is the size of what was added.
        largest = float(abs(numpy.load(os.path.join(files, "output.npy"))).max())
        for machine, strategy in (("host:1x1", "single"), ("host:2x1", "alternate")):
            result = cleave("run", os.path.join(files, "model.onnx"), "--machine", machine, "--strategy", strategy,
                            "--input", f"@0={files}/input.npy", "--expect", f"@0={files}/output.npy",
                            "--rtol", "1e-3", "--atol", str(1e-4 * min(1.0, largest)))
            if result.code == 0:
                passed += 1
                print(f"passed {name} on {machine}", flush=True)
            else:
                failures.append((f"{name} on {machine}", result))
    report(failures, passed)


if __name__ == "__main__":
    main()
