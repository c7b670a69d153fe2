# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Unequal shares: models cut by the batch, by columns and by heads in proportions that do not divide, forward and
# training steps, against plain loops on one device (verify --numeric).

import os
import tempfile

from cleave_process import cleave, report

MODELS = {
    "mlp": ["--batch", "7"],
    "lenet": ["--batch", "6"],
    "gpt": ["--layers", "2", "--hidden", "48", "--heads", "6", "--sequence", "16", "--vocabulary", "200", "--batch", "6",
            "--dropout", "1"],
    "lstm": ["--sequence", "8", "--hidden", "32", "--batch", "6"],
    "resnet50": ["--batch", "3", "--image-size", "32"],
}
WAYS = {
    "data=2:1": "host:2x1",
    "data=3:3:1": "host:3x1",
    "data=2:1,model=2": "host:4x1",
    "model=2:1": "host:2x1",
}


def cases():
    """By name: a model and options."""
    for name in MODELS:
        for degrees, machine in WAYS.items():
            # A batch of 3 at 3 : 3 : 1, and residual networks by columns, take long and show nothing more.
            if name == "resnet50" and degrees != "data=2:1":
                continue
            strategy = "tensor" if degrees.startswith("model") else "data"
            yield name, ["--machine", machine, "--strategy", strategy, "--degrees", degrees]
    for name, step in (("mlp", ["--optimizer", "adam", "--zero", "1"]), ("lenet", ["--microbatches", "2"]),
                       ("gpt", ["--microbatches", "2", "--clip-norm", "1"]), ("lstm", [])):
        for degrees, machine in list(WAYS.items())[:3]:
            batch = {"mlp": 7, "lenet": 12, "gpt": 12, "lstm": 6}[name]
            yield name, ["--machine", machine, "--strategy", "data", "--degrees", degrees, "--train", "--loss",
                         "cross-entropy", "--batch", str(batch), *step]


def main():
    failures, passed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, options in MODELS.items():
            result = cleave("zoo", name, *options, "-o", os.path.join(folder, f"{name}.onnx"))
            if result.code != 0:
                report([(f"zoo {name}", result)], passed)
        for name, options in cases():
            result = cleave("verify", os.path.join(folder, f"{name}.onnx"), *options, "--numeric")
            if result.code != 0:
                failures.append((f"{name} {' '.join(options)}", result))
            else:
                passed += 1
    report(failures, passed)


if __name__ == "__main__":
    main()
