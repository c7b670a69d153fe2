#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Makes the models that docs/performance.md measures besides the four classic ones, in two folders for
# `cleave bench --suite`:
#
#   python3 tools/bench/suite_models.py FOLDER
#
#   FOLDER/reals      torchvision's models, with random weights, and an encoder of the zoo
#   FOLDER/integers   some of them with integers of 8 bits, in the forms that tools write (quantize.py)
#
# Needs Debian's python3-torchvision. $CLEAVE_BIN names the programs' folder (build/bin).

import os
import subprocess
import sys

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(REPOSITORY, "test", "endtoend"))

import export_torch_models  # noqa: E402
import quantize  # noqa: E402

CLEAVE = os.path.join(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")), "cleave")
NAMES = ["convnext_tiny", "densenet121", "efficientnet_b0", "inception_v3", "mobilenet_v2", "mobilenet_v3_large",
         "shufflenet_v2_x1_0", "squeezenet1_1", "swin_t", "vgg19", "vit_b_16"]
ZOO = {"resnet50": [], "encoder": ["--layers", "6", "--hidden", "512", "--heads", "8", "--sequence", "128"]}
KINDS = {"resnet50": "resnet50", "encoder": "bert"}
FORMS = {"resnet50": ["qdq", "operators"], "mobilenet_v2": ["qdq"], "encoder": ["qdq", "operators", "dynamic"]}


def main():
    folder = sys.argv[1]
    reals, integers = os.path.join(folder, "reals"), os.path.join(folder, "integers")
    for path in (reals, integers):
        os.makedirs(path, exist_ok=True)
    for name in NAMES:
        export_torch_models.export(name, os.path.join(reals, name))
    for name, numbers in ZOO.items():
        os.makedirs(os.path.join(reals, name), exist_ok=True)
        subprocess.run([CLEAVE, "zoo", KINDS[name], *numbers, "--weights", "-o", os.path.join(reals, name, "model.onnx")],
                       check=True)
    for name, forms in FORMS.items():
        for form in forms:
            quantize.quantize(os.path.join(reals, name, "model.onnx"), os.path.join(integers, f"{name}-{form}.onnx"), form)
            if form == "qdq":
                quantize.quantize(os.path.join(reals, name, "model.onnx"),
                                  os.path.join(integers, f"{name}-{form}-int8.onnx"), form, activations="int8")


if __name__ == "__main__":
    main()
