# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Batch normalization, dropout and convolutions by channel in training: steps of small networks against PyTorch's, on one
# device and divided over two, of models exported with the batch and with one sample, and masks that do not depend on the
# division.

import json
import os
import sys
import tempfile

from cleave_process import DONE, cleave, skip

try:
    import numpy
    import onnx
    import torch
    from onnx import numpy_helper
except ImportError as missing:
    skip(f"no module {missing.name}; install python3-{missing.name}")

BATCH, STEPS, RATE = 12, 6, 0.1

# Statistics of the whole batch, which they are of where not each of several devices has an equal part, do not depend on the
# division; the order in which samples are drawn does not matter.
PLANS = {"one device": ["--machine", "host:1x1", "--strategy", "single"],
         "by batch": ["--machine", "host:2x1", "--strategy", "data", "--degrees", "data=2", "--batch-norm",
                     "synchronized"],
         "by batch in shares": ["--machine", "host:2x1", "--strategy", "data", "--degrees", "data=2:1"],
         "by layers in parts": ["--machine", "host:2x1", "--strategy", "tensor", "--degrees", "model=2"]}


def plain(ratio):
    return [torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.Dropout(ratio),
            torch.nn.Flatten(), torch.nn.Linear(6 * 25, 4)]


# As in MobileNets: channels by themselves, numbers of them that fill vectors and that do not, and in two groups.
def mobile(_):
    return [torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.Hardswish(),
            torch.nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), torch.nn.BatchNorm2d(16), torch.nn.ReLU(),
            torch.nn.Conv2d(16, 24, 1), torch.nn.Conv2d(24, 24, 5, padding=2, groups=24), torch.nn.ReLU(),
            torch.nn.Conv2d(24, 32, 3, padding=1, groups=2), torch.nn.ReLU(), torch.nn.Flatten(),
            torch.nn.Linear(32 * 25, 4)]


class Attention(torch.nn.Module):
    """Attention over pixels, exported as one of sequences before samples, whose shapes have the product of samples and
    heads; `learned`: with a token of its own in front of each sample's, as vision transformers have it."""

    def __init__(self, learned):
        super().__init__()
        self.embedding = torch.nn.Linear(3, 8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.token = torch.nn.Parameter(torch.randn(1, 1, 8)) if learned else None

    def forward(self, x):
        tokens = self.embedding(x.flatten(2).transpose(1, 2))
        if self.token is not None:
            tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), tokens], 1)
        return self.attention(tokens, tokens, tokens, need_weights=False)[0][:, 0]


def attention(_):
    return [Attention(False), torch.nn.Linear(8, 4)]


def vision(_):
    return [Attention(True), torch.nn.Linear(8, 4)]


class Pairs(torch.nn.Module):
    """A product of matrices for each sample, which for a single one is a product of two."""

    def forward(self, x):
        pixels = x.flatten(2)
        return (pixels @ pixels.transpose(1, 2)).tanh().flatten(1)


def pairs(_):
    return [torch.nn.Conv2d(3, 6, 1), Pairs(), torch.nn.Linear(36, 4)]


class Reductions(torch.nn.Module):
    """Along the channels, which libraries lay in blocks, and along all else, with and without the dimension; and what is
    reduced repeated beside what is not."""

    def forward(self, x):
        centred = x - x.mean((2, 3), keepdim=True)
        scaled = centred * x.amax(1, keepdim=True) / (1 + (centred * centred).mean(0, keepdim=True))
        rows = scaled.sum(2) * torch.ones(5, device=x.device)
        spread = (x - x.mean((0, 2, 3), keepdim=True)).pow(2).mean((0, 2, 3)).expand(x.shape[0], 16)
        return torch.cat([scaled.sum(1).flatten(1), rows.flatten(1), spread, x.mean((2, 3))], 1)


def reductions(_):
    return [torch.nn.Conv2d(3, 16, 3, padding=1), Reductions(), torch.nn.Linear(25 + 80 + 16 + 16, 4)]


class Constants(torch.nn.Module):
    """Zeros in a shape that is computed, and a table too large to be written into a plan's kernels: no weights."""

    def __init__(self):
        super().__init__()
        self.table = torch.randn(3, 8192)

    def forward(self, x):
        means = x.mean((2, 3))
        products = torch.where(means > 0, means, torch.zeros_like(means)) @ self.table
        return products.reshape(-1, 4, 2048).sum(2) / 50


def constants(_):
    return [torch.nn.Conv2d(3, 3, 1), Constants(), torch.nn.Linear(4, 4)]


def network(layers, ratio):
    torch.manual_seed(5)
    return torch.nn.Sequential(*layers(ratio))


def torch_steps(model, x, labels):
    """The loss of each step, and what the network holds after the last."""
    steps = torch.optim.SGD(model.parameters(), RATE)
    losses = []
    for _ in range(STEPS):
        steps.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return losses, {name: value.detach().numpy() for name, value in model.state_dict().items() if value.dim() > 0}


def cleave_steps(folder, path, flags):
    """The same by a plan that is compiled with these flags, behind how the last process ended."""
    plan, after, facts = (os.path.join(folder, name) for name in ("step.plan", "after.npz", "facts.json"))
    result = cleave("compile", path, "--train", "--loss", "cross-entropy", "--optimizer", "sgd", "--learning-rate",
                    str(RATE), *flags, "-o", plan)
    if result.code == DONE:
        result = cleave("train", plan, "--data", f"x={folder}/x.npy", "--data", f"labels={folder}/labels.npy", "--steps",
                        str(STEPS), "--epochs", str(STEPS), "--export", after, "--json", facts, "--json-steps")
    if result.code != DONE:
        return result, None, None
    with open(facts, encoding="utf-8") as file:
        losses = [step["loss"] for step in json.load(file)["steps"]]
    with numpy.load(after) as arrays:
        return result, losses, {name: arrays[name] for name in arrays.files}


def export(folder, layers, ratio, samples=BATCH, opset=14, symbolic=False):
    """The network as an ONNX file that is to be trained, exported with so many samples or a symbolic batch, and its
    data."""
    path = os.path.join(folder, f"{layers.__name__}-{ratio}-{samples}-{opset}-{symbolic}.onnx")
    random = numpy.random.default_rng(3)
    x = random.standard_normal((BATCH, 3, 5, 5)).astype(numpy.float32)
    labels = random.integers(0, 4, BATCH)
    numpy.save(os.path.join(folder, "x.npy"), x)
    numpy.save(os.path.join(folder, "labels.npy"), labels)
    # Without folding, which would join the normalization with the convolution.
    torch.onnx.export(network(layers, ratio), torch.from_numpy(x[:samples]), path, input_names=["x"], opset_version=opset,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      dynamic_axes={"x": {0: "samples"}} if symbolic else None)
    return path, torch.from_numpy(x), torch.from_numpy(labels)


def exported_values(path):
    """Parameters and statistics as the file has them: exporting in training mode takes a step of the statistics."""
    return {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy())
            for tensor in onnx.load(path).graph.initializer}


def compare_with_torch(folder):
    # What is no weight of the model stays as it is.
    for name, problem in compare_network(folder, constants, BATCH, 14, symbolic=True):
        yield f"constants, {name}", problem
    # Before operator set 14 batch normalization in training is one with five results.
    for layers, samples, opset in ((plain, BATCH, 14), (mobile, BATCH, 14), (mobile, 1, 14), (reductions, BATCH, 14), (plain, BATCH, 12)):
        for name, problem in compare_network(folder, layers, samples, opset):
            yield f"{layers.__name__}, exported with {samples} in operator set {opset}, {name}", problem


def compare_microbatches(folder):
    """Steps of one sample at a time, of models that were exported with more: each loss is that of the whole batch."""
    plans = {"one device": ["--machine", "host:1x1", "--strategy", "single"],
             "a pipeline": ["--machine", "host:2x1", "--strategy", "pipeline"]}
    for layers, symbolic in ((attention, False), (attention, True), (vision, True), (pairs, False), (pairs, True)):
        for parts in (2, BATCH):
            plans_of = {f"{name} in {parts} microbatches": [*flags, "--microbatches", str(parts)]
                        for name, flags in plans.items()}
            for name, problem in compare_network(folder, layers, BATCH, 14, symbolic, plans_of):
                yield f"{layers.__name__}, {'symbolic, ' if symbolic else ''}{name}", problem


def compare_network(folder, layers, samples, opset, symbolic=False, plans=None):
    path, x, labels = export(folder, layers, 0.0, samples, opset, symbolic)
    model = network(layers, 0.0)
    model.load_state_dict(exported_values(path), strict=False)
    losses, values = torch_steps(model, x, labels)
    for name, flags in (plans or PLANS).items():
        result, got, after = cleave_steps(folder, path, [*flags, "--batch", str(BATCH)])
        if result.code != DONE:
            yield name, result.errors
            continue
        worst = max(abs(a - b) for a, b in zip(got, losses))
        missing = [key for key in values if key not in after]
        wrong = [key for key in values if key in after and not numpy.allclose(after[key], values[key], 1e-4, 1e-5)]
        fine = len(got) == STEPS and worst < 1e-4 and not wrong and not missing
        yield name, "" if fine else f"losses {got} instead of {losses}, wrong {wrong}, missing {missing}"


def compare_masks(folder):
    path, _, _ = export(folder, plain, 0.5)
    runs = {name: cleave_steps(folder, path, [*flags, "--seed", "1"])
            for name, flags in PLANS.items()}
    # Masks that are computed again, and those of later microbatches, are those of the first forward pass.
    parts = ["--seed", "1", "--microbatches", "3", "--recompute"]
    for name, flags in PLANS.items():
        for kept in ("none", "selective", "full", "offload"):
            runs[f"{name}, 3 microbatches, recompute {kept}"] = cleave_steps(folder, path, [*flags, *parts, kept])
    runs["another seed"] = cleave_steps(folder, path, [*PLANS["one device"], "--seed", "2"])
    runs["without dropout"] = cleave_steps(folder, path, [*PLANS["one device"], "--no-dropout"])
    for name, (result, losses, _) in runs.items():
        if result.code != DONE:
            yield f"dropout {name}", result.errors
            return
        like = "one device, 3 microbatches, recompute none" if "microbatches" in name else "one device"
        same = numpy.allclose(losses, runs[like][1], 1e-4)
        fine = same == (name not in ("another seed", "without dropout"))
        yield f"dropout {name}", "" if fine else f"losses {losses}, those of {like} are {runs[like][1]}"


def main():
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for compare in (compare_with_torch, compare_masks, compare_microbatches):
            for name, problem in compare(folder):
                print(f"{name}: {problem or 'equal'}")
                failed |= bool(problem)
    return 1 if failed else 0


sys.exit(main())
