# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Gradients of whole models against PyTorch's autograd: one step of plain gradient descent, on one device and divided
# over several by batch, inside operators, by layers and mixed, also where sizes do not divide. PyTorch computes in
# float64, so that what differs is the rounding of our float32.
#
#   python3 test/endtoend/gradients.py [--plan NAME,...] [MODEL...]

import argparse
import collections
import os
import sys
import tempfile

from cleave_process import DONE, Result, cleave, report, skip, worst_of

try:
    import numpy
    import onnx
    import torch
except ImportError as missing:
    skip(f"no module {missing.name}; install python3-{missing.name}")

from onnx_in_torch import TorchModel, cross_entropy

# The largest error of a parameter's gradient, in parts of the largest gradient. A parameter whose gradient is zero but
# for rounding (a bias in front of a normalization) is measured against a hundredth of the model's largest one.
TOLERANCE, SMALLEST = 1e-4, 1e-2

# Rectifiers and max pools choose; where inputs come nearer to a jump than float32 rounds, it may choose otherwise than
# float64, and both gradients are right. Of so many random inputs we take those that stay farthest away.
CANDIDATES = 24

# A power of two, so that scaling by it rounds nothing, and large, so that little is lost in `weight - RATE * gradient`.
RATE = 1024

# `sizes` are the zoo's options, `classes` the dimension of the output that the labels choose from, `samples` the
# dimension of the inputs that counts them.
Model = collections.namedtuple("Model", "sizes classes samples")

MODELS = {
    "lenet": Model(["--batch", "96"], 1, 0),
    "resnet50": Model(["--batch", "4", "--image-size", "32", "--classes", "7"], 1, 0),
    "inception": Model(["--batch", "4", "--image-size", "32", "--classes", "11"], 1, 0),
    "unet": Model(["--batch", "4", "--image-size", "32", "--features", "6"], 1, 0),
    "lstm": Model(["--batch", "4", "--layers", "2", "--hidden", "20", "--sequence", "5", "--vocabulary", "53"], 2, 1),
    "gpt": Model(["--batch", "4", "--layers", "2", "--hidden", "60", "--heads", "6", "--sequence", "11", "--vocabulary",
                  "101"], 2, 0),
    "bert": Model(["--batch", "4", "--layers", "2", "--hidden", "48", "--heads", "4", "--sequence", "13", "--vocabulary",
                   "97"], 2, 0),
    "moe": Model(["--batch", "4", "--layers", "2", "--hidden", "32", "--heads", "4", "--sequence", "9", "--vocabulary",
                  "61", "--experts", "5"], 2, 0),
    "llama": Model(["--batch", "4", "--layers", "2", "--hidden", "48", "--heads", "6", "--kv-heads", "2", "--ffn", "40",
                    "--sequence", "9", "--vocabulary", "61"], 2, 0),
    "mixtral": Model(["--batch", "4", "--layers", "2", "--hidden", "32", "--heads", "4", "--kv-heads", "2", "--ffn",
                      "24", "--sequence", "9", "--vocabulary", "61", "--experts", "5"], 2, 0),
}

# What follows the name is how the step is divided; a batch that is given replaces the model's. `models`: those that have
# what is divided; None: all.
Plan = collections.namedtuple("Plan", "name devices flags batch models", defaults=[None])


def degrees(text, strategy="tensor", microbatches=1):
    return ["--strategy", strategy, "--degrees", text, "--microbatches", str(microbatches)]


PLANS = [
    Plan("single", 1, ["--strategy", "single"], None),
    Plan("single-microbatches", 1, ["--strategy", "single", "--microbatches", "2"], None),
    Plan("data-2", 2, degrees("data=2", "data"), None),
    Plan("data-2-uneven", 2, degrees("data=2", "data"), 5),
    Plan("data-4", 4, degrees("data=4", "data"), None),
    Plan("tensor-2", 2, degrees("model=2"), None),
    Plan("tensor-3", 3, degrees("model=3"), None),
    Plan("tensor-4", 4, degrees("model=4"), None),
    Plan("pipeline-2", 2, degrees("pipeline=2", "pipeline", 2), None),
    Plan("pipeline-4", 4, degrees("pipeline=4", "pipeline", 2), None),
    Plan("mixed-data-tensor", 4, degrees("data=2,model=2"), None),
    Plan("mixed-data-pipeline", 4, degrees("data=2,pipeline=2", "pipeline", 2), None),
    # The batch, positions and weights, which do not divide.
    Plan("three-axes", 8, ["--strategy", "auto", "--degrees", "data=2,sequence=2,model=2"], None,
         ["gpt", "llama", "mixtral"]),
    # Keys and values go around, and their gradients with them.
    Plan("ring", 3, ["--strategy", "auto", "--degrees", "sequence=3", "--microbatches", "1", "--keys", "ring"], None,
         ["llama", "mixtral"]),
    # Tokens are brought to their experts' devices and back; none is without a place.
    Plan("dispatched", 3, ["--strategy", "auto", "--degrees", "expert=3", "--expert-capacity", "5"], None, ["mixtral"]),
    Plan("dispatched-microbatches", 4, ["--strategy", "auto", "--degrees", "data=2,expert=2", "--expert-capacity", "5",
                                        "--microbatches", "2"], None, ["mixtral"]),
]


def make_inputs(model, random):
    """Random values of the model's inputs: numbers, tokens of its vocabulary, masks that show most."""
    vocabulary = min([parameter.shape[0] for name, parameter in model.parameters.items() if "embedding" in name] or [2])
    inputs = {}
    for port in model.inputs:
        shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
        kind = port.type.tensor_type.elem_type
        if kind == onnx.TensorProto.FLOAT:
            inputs[port.name] = random.standard_normal(shape).astype(numpy.float32)
        elif kind == onnx.TensorProto.BOOL:
            inputs[port.name] = random.random(shape) < 0.8
        else:
            inputs[port.name] = random.integers(0, vocabulary, shape)
    return inputs


def torch_step(model, inputs, labels, classes):
    """Loss and gradients by parameter, in PyTorch. A parameter on which the loss does not depend has none."""
    scores = next(iter(model.run(inputs).values()))
    # The loss of a model that ends in softmax is that of what goes in: the same as that of its logarithm.
    if scores.min() >= 0 and torch.allclose(scores.sum(classes), torch.ones((), dtype=scores.dtype)):
        scores = scores.log()
    loss = cross_entropy(scores, torch.from_numpy(labels), classes)
    loss.backward()
    gradients = {name: parameter.grad.numpy() for name, parameter in model.parameters.items()
                 if parameter.grad is not None}
    return loss.item(), gradients


class Example:
    """A model with weights, inputs and labels, and what PyTorch makes of them."""

    def __init__(self, folder, name, batch):
        entry = MODELS[name]
        sizes = list(entry.sizes)
        if batch:
            sizes[sizes.index("--batch") + 1] = str(batch)
        self.folder = os.path.join(folder, f"{name}-{batch}")
        os.mkdir(self.folder)
        self.path = os.path.join(self.folder, "model.onnx")
        made = cleave("zoo", name, *sizes, "--weights", "-o", self.path)
        if made.code != DONE:
            raise RuntimeError(made.errors)
        model = TorchModel(self.path)
        random = numpy.random.default_rng(7)
        inputs = max((make_inputs(model, random) for _ in range(CANDIDATES)), key=model.margin)
        shape = list(model.run(inputs)[model.outputs[0]].shape)
        classes = shape.pop(entry.classes)
        labels = random.integers(0, classes, shape)
        self.inputs, self.labels = inputs, labels
        self.weights = {key: value.detach().numpy() for key, value in model.parameters.items()}
        self.loss, self.gradients = torch_step(model, inputs, labels, entry.classes)
        self.data = []
        for port, array in [*inputs.items(), ("labels", labels)]:
            path = os.path.join(self.folder, f"{port}.npy")
            numpy.save(path, array)
            self.data += ["--data", f"{port}={path}"]

    def step(self, plan, classes):
        """The process that compiled and the one that trained a step, and the weights after it."""
        file, after = os.path.join(self.folder, "step.plan"), os.path.join(self.folder, "after.npz")
        result = cleave("compile", self.path, "--machine", f"host:{plan.devices}x1", "--train", "--loss",
                        f"cross-entropy,classes={classes}", "--optimizer", "sgd", "--learning-rate", str(RATE),
                        "--batch-norm", "running", "--no-dropout",
                        *plan.flags, "-o", file)
        if result.code == DONE:
            result = cleave("train", file, *self.data, "--steps", "1", "--export", after)
        if result.code != DONE:
            return result, None
        with numpy.load(after) as arrays:
            return result, {name: arrays[name] for name in arrays.files}

    def errors(self, after):
        """By parameter, the largest error of its gradient in parts of the largest one."""
        largest = {name: abs(gradient).max() for name, gradient in self.gradients.items()}
        scale = max(largest.values())
        errors = {}
        for name, expected in self.gradients.items():
            if name not in after:
                errors[name] = float("inf") if largest[name] > 0 else 0.0
                continue
            ours = (self.weights[name] - after[name].astype(numpy.float64)) / RATE
            errors[name] = abs(ours - expected).max() / max(largest[name], SMALLEST * scale)
        return errors


def main():
    parser = argparse.ArgumentParser(description="compares gradients with PyTorch's")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="which of " + ", ".join(MODELS))
    parser.add_argument("--plan", metavar="NAME,...", help="ways of dividing the step")
    parser.add_argument("--all", action="store_true", help="all ways of dividing the step, which is the default")
    options = parser.parse_args()
    wanted = options.plan.split(",") if options.plan else [plan.name for plan in PLANS]
    if unknown := set(wanted) - {plan.name for plan in PLANS}:
        sys.exit(f"expected plans of {', '.join(plan.name for plan in PLANS)}, got {', '.join(sorted(unknown))}")
    if unknown := set(options.models) - set(MODELS):
        sys.exit(f"expected models of {', '.join(MODELS)}, got {', '.join(sorted(unknown))}")
    failures, passed, examples = [], 0, {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models or MODELS:
            for plan in PLANS:
                if plan.name not in wanted or (plan.models and name not in plan.models):
                    continue
                key = (name, plan.batch)
                if key not in examples:
                    examples[key] = Example(folder, *key)
                subject = f"{name} {plan.name}"
                result, after = examples[key].step(plan, MODELS[name].classes)
                if after is None:
                    failures.append((subject, result))
                    print(f"FAILED {subject}: exit code {result.code}", flush=True)
                    continue
                errors = examples[key].errors(after)
                worst = worst_of(errors)
                text = f"{subject}: {len(errors)} gradients, largest error {errors[worst]:.1e} ({worst})"
                if errors[worst] <= TOLERANCE:
                    passed += 1
                    print(f"passed {text}", flush=True)
                else:
                    failures.append((subject, Result(DONE, text, "")))
                    print(f"FAILED {text}", flush=True)
    report(failures, passed)


if __name__ == "__main__":
    main()
