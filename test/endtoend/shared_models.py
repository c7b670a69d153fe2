# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The four classic models of shared/models on one, two and three devices, placed in several ways each: outputs must be
# those that ONNX Runtime computed. One process a model and placement.
#
#   python3 test/endtoend/shared_models.py [MODEL...]

import os
import sys
import tempfile

import placements
from cleave_process import cleave, report, shared_models

MODELS = ["bvlc_alexnet", "squeezenet", "inception_v1", "resnet50"]


def cases(nodes, folder):
    """(devices, what, flags): each way to place the nodes, its placement file written to `folder`."""
    # One device: what all others are compared with in spirit; a pin to device 0 must change nothing.
    yield 1, "single", ["--strategy", "single"]
    yield 1, "alternate", ["--strategy", "alternate"]
    yield 1, "pinned", placed(placements.parts(nodes, 1), folder, "pinned1")
    for devices in (2, 3):
        # Operator by operator: every value crosses; the most transfers that a model can have.
        yield devices, "alternate", ["--strategy", "alternate"]
        # A pipeline: one crossing between neighbours.
        yield devices, "parts", placed(placements.parts(nodes, devices), folder, f"parts{devices}")
        # Parallel branches: one value read on several devices, joins that read from several.
        yield devices, "branches", placed(placements.branches(nodes, devices), folder, f"branches{devices}")
        # Anything goes: back and forth, long skips, one value used on all devices.
        yield devices, "scattered", placed(placements.scattered(nodes, devices, 7 + devices), folder, f"any{devices}")


def placed(place, folder, name):
    path = os.path.join(folder, f"{name}.place.yaml")
    placements.write(place, path)
    return ["--strategy", "place", "--place", path]


def main():
    models, failures, passed = shared_models(), [], 0
    for model in sys.argv[1:] or MODELS:
        data = os.path.join(models, model, "test_data_set_0")
        path = os.path.join(models, model, "model.onnx")
        with tempfile.TemporaryDirectory() as folder:
            for devices, what, flags in cases(placements.runtime_nodes(path), folder):
                result = cleave("run", path, "--machine", f"host:{devices}x1", *flags,
                                "--input", f"@0={data}/input_0.pb", "--expect", f"@0={data}/output_0.pb",
                                "--rtol", "1e-3", "--atol", "1e-5")
                subject = f"{model} on {devices}, {what}"
                if result.code == 0:
                    passed += 1
                    print(f"passed {subject}", flush=True)
                else:
                    failures.append((subject, result))
    report(failures, passed)


if __name__ == "__main__":
    main()
