# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Steps and inference in bfloat16 around weights in float32 (`--dtype bf16`), against PyTorch: gradients of LeNet and of a
# small gpt, on one device and divided; the curve of the loss; updates that bfloat16 could not hold; memory, and the search's
# account of it.
#
#   python3 test/endtoend/bfloat16.py lenet|gpt|curve|master|memory|account|inference
#
# How far a result may be off. Rounding to bfloat16's 8 bits changes a number by at most U = 2^-9 of it, the half of
# 2^-8, the distance of one from its neighbour. What is computed by n operators in a row, each rounding its result and
# none magnifying what it reads, is off by about n * U of the largest numbers it is made of, if all err the same way. So
# n counts the roundings on the longest way from a weight to the loss and back to its gradient. PyTorch's own autocast
# rounds about as often; ours may not be off by more than twice what that is, or n * U, whichever is less, and a floor of
# 2 * U where PyTorch happens to be nearly exact.

import json
import os
import sys
import tempfile

from cleave_process import DONE, UNSUPPORTED, Checks, Result, cleave, report, skip, worst_of

try:
    import numpy
    import onnx
    import onnx.numpy_helper
    import torch
except ImportError as missing:
    skip(f"no module {missing.name}; install python3-{missing.name}")

from gradients import MODELS, RATE, Example, Plan
from onnx_in_torch import TorchModel, cross_entropy
from train_lenet import generated, random_order, torch_model

U = 2.0 ** -9

# Roundings of LeNet: the image or the last layer's result, weight, product, bias, rectifier and pooling in each of four
# layers, forward and backward. Of gpt with two layers: embeddings and position; in each layer two normalizations with
# scale and bias, six products with their biases, softmax and its scaling and mask, GELU, two sums; and the last
# normalization and product.
ROUNDINGS = {"lenet": 2 * 4 * 6, "gpt": 2 * (3 + 2 * (2 * 3 + 6 * 3 + 3 + 1 + 2) + 5)}

ONE = ["--strategy", "single"]
PLANS = [
    Plan("single", 1, ONE, None),
    Plan("single-microbatches", 1, [*ONE, "--microbatches", "2"], None),
    Plan("data-2", 2, ["--strategy", "data", "--degrees", "data=2"], None),
    Plan("tensor-2", 2, ["--strategy", "tensor", "--degrees", "model=2"], None),
    Plan("pipeline-2", 2, ["--strategy", "pipeline", "--degrees", "pipeline=2", "--microbatches", "2"], None),
    Plan("zero-2", 2, ["--strategy", "data", "--degrees", "data=2", "--zero", "2", "--microbatches", "2"], None),
]


def autocast_gradients(example, classes):
    """What PyTorch's autocast makes of the example in float32, by parameter."""
    model = TorchModel(example.path, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = next(iter(model.run(example.inputs).values()))
    cross_entropy(scores.float(), torch.from_numpy(example.labels), classes).backward()
    return {name: parameter.grad.numpy() for name, parameter in model.parameters.items() if parameter.grad is not None}


def distance(found, exact):
    """The norm of the difference over that of what is exact, over all parameters."""
    difference = sum(float(((found[name] - value) ** 2).sum()) for name, value in exact.items())
    return (difference / sum(float((value ** 2).sum()) for value in exact.values())) ** 0.5


def compile_step(model, plan, file, *flags, dtype="bf16"):
    return cleave("compile", model, "--machine", f"host:{plan.devices}x1", "--train", "--loss", *flags, "--dtype", dtype,
                  *plan.flags, "-o", file, "--json", file + ".json")


def peak(file):
    with open(file + ".json", encoding="utf-8") as text:
        return max(json.load(text)["predicted_peak_bytes"])


# Of a tensor whose gradient is small beside the largest, rounding of what comes from the others is most: it is measured
# against this part of the largest norm of a tensor.
SMALLEST_NORM = 1e-2


def distances(found, exact):
    """By tensor, the norm of the difference over that of what is exact."""
    norms = {name: float((value ** 2).sum()) ** 0.5 for name, value in exact.items()}
    least = SMALLEST_NORM * max(norms.values())
    return {name: float(((found[name] - value) ** 2).sum()) ** 0.5 / max(norms[name], least)
            for name, value in exact.items()}


def gradients(name):
    """One step of every plan against float64: all tensors together, and each by itself, no more than twice as far off as
    PyTorch's autocast is on the same data."""
    checks, classes = Checks(), MODELS[name].classes
    with tempfile.TemporaryDirectory() as folder:
        example = Example(folder, name, None)
        autocast = autocast_gradients(example, classes)
        theirs, by_tensor = distance(autocast, example.gradients), distances(autocast, example.gradients)
        # On other data than ours it would be about the square root of 2.
        checks.add(theirs < 0.2, f"{name}: autocast is off by {theirs:.2e}, of the same gradients", Result(DONE, "", ""))
        accepted = min(ROUNDINGS[name] * U, max(2 * theirs, 2 * U))
        for plan in PLANS:
            result, after = example.step(plan._replace(flags=[*plan.flags, "--dtype", "bf16"]), classes)
            if after is None:
                checks.failures.append((f"{name} {plan.name}", result))
                continue
            ours = {key: (example.weights[key].astype(numpy.float64) - after[key]) / RATE for key in example.gradients}
            off = distance(ours, example.gradients)
            # An error of rounding there must be, or nothing was computed in bfloat16.
            checks.add(U / 64 < off <= accepted, f"{name} {plan.name}: off by {off:.2e}, accepted {accepted:.2e}", result)
            shares = {key: error / max(2 * by_tensor[key], 2 * theirs, 2 * U)
                      for key, error in distances(ours, example.gradients).items()}
            worst = worst_of(shares)
            checks.add(shares[worst] <= 1, f"{name} {plan.name}: {worst} at {shares[worst]:.0%} of what is accepted", result)
    checks.report()


def lenet_data(folder):
    """The zoo's LeNet with weights so large that it learns from the first step on, and images."""
    images, labels = generated(256, 1)
    for name, array in (("x", images), ("l", labels)):
        numpy.save(os.path.join(folder, name + ".npy"), array)
    model = os.path.join(folder, "lenet.onnx")
    made = cleave("zoo", "lenet", "--batch", "32", "--weights", "-o", model)
    if made.code != DONE:
        sys.exit(made.errors)
    graph = onnx.load(model)
    for tensor in graph.graph.initializer:
        if tensor.name.endswith("weight"):
            tensor.CopyFrom(onnx.numpy_helper.from_array(8 * onnx.numpy_helper.to_array(tensor), tensor.name))
    onnx.save(graph, model)
    return model, images, labels


def train(folder, plan, *flags):
    """The losses of all steps, and the weights."""
    facts, after = os.path.join(folder, "facts.json"), os.path.join(folder, "after.npz")
    result = cleave("train", plan, "--data", f"@0={folder}/x.npy", "--data", f"labels={folder}/l.npy", "--seed", "3",
                    *flags, "--json", facts, "--json-steps", "--export", after)
    if result.code != DONE:
        report([("train", result)], 0)
    with open(facts, encoding="utf-8") as text:
        losses = numpy.array([step["loss"] for step in json.load(text).get("steps", [])])
    return losses, dict(numpy.load(after))


def train_in_torch(weights, images, labels, rate, epochs, narrow):
    """The same steps in PyTorch, with or without autocast."""
    parameters, forward = torch_model(weights)
    x = torch.tensor(images[:, None].astype(numpy.float32) / 255)
    y = torch.tensor(labels.astype(numpy.int64))
    losses = []
    for epoch in range(epochs):
        order = random_order(len(y), 3, epoch)
        for begin in range(0, len(order) - 31, 32):
            which = order[begin:begin + 32]
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrow):
                scores = forward(x[which])
            loss = torch.nn.functional.cross_entropy(scores.float(), y[which])
            loss.backward()
            losses.append(loss.item())
            with torch.no_grad():
                for parameter in parameters.values():
                    parameter -= rate * parameter.grad
                    parameter.grad = None
    return numpy.array(losses), {name: value.detach().numpy() for name, value in parameters.items()}


def curve():
    """The loss falls as it does in float32, on one device and on two."""
    rate, epochs, checks, start, exact, theirs = 0.2, 10, Checks(), None, None, None
    with tempfile.TemporaryDirectory() as folder:
        model, images, labels = lenet_data(folder)
        plan = os.path.join(folder, "step.plan")
        for division in (PLANS[0], PLANS[2], PLANS[4]):
            made = compile_step(model, division, plan, "cross-entropy", "--optimizer", "sgd", "--learning-rate", str(rate))
            if made.code != DONE:
                checks.failures.append((division.name, made))
                continue
            first = train(folder, plan, "--epochs", "0")[1]
            # PyTorch's curves are the same for all plans, which begin with the same weights.
            if not start or any((start[name] != value).any() for name, value in first.items()):
                start = first
                exact, _ = train_in_torch(first, images, labels, rate, epochs, narrow=False)
                theirs, _ = train_in_torch(first, images, labels, rate, epochs, narrow=True)
            ours, _ = train(folder, plan, "--epochs", str(epochs))
            off, astray = abs(ours - exact).max(), abs(theirs - exact).max()
            # Roundings of a step move all later ones.
            accepted = min(ROUNDINGS["lenet"] * U * exact[0], max(4 * astray, 2 * U * exact[0]))
            text = (f"{division.name}: {len(ours)} steps, loss from {ours[0]:.3f} to {ours[-1]:.3f} (float32 {exact[-1]:.3f}), "
                    f"off by {off:.3f}, autocast by {astray:.3f}, accepted {accepted:.3f}")
            fine = len(ours) == len(exact) and off <= accepted and exact[-1] < 0.9 * exact[0]
            checks.add(fine, text, made)
    checks.report()


def narrowed(values):
    return torch.from_numpy(values).to(torch.bfloat16).float().numpy()


def master():
    """Updates that are too small for a weight in bfloat16 add up."""
    rate, epochs, failures = 1e-3, 4, []
    with tempfile.TemporaryDirectory() as folder:
        model, images, labels = lenet_data(folder)
        plan = os.path.join(folder, "step.plan")
        made = compile_step(model, PLANS[0], plan, "cross-entropy", "--optimizer", "sgd", "--learning-rate", str(rate))
        if made.code != DONE:
            report([("compile", made)], 0)
        first = train(folder, plan, "--epochs", "0")[1]
        one, ours = train(folder, plan, "--steps", "1")[1], train(folder, plan, "--epochs", str(epochs))[1]
        _, exact = train_in_torch(first, images, labels, rate, epochs, narrow=False)
        weights = [name for name in exact if name.endswith("weight")]
        # A weight in bfloat16 would stay where it is: the first step, rounded, is no step.
        lost = numpy.concatenate([(narrowed(narrowed(first[name]) + one[name] - first[name]) == narrowed(first[name]))
                                  .ravel() for name in weights]).mean()
        off = distance({name: ours[name] - first[name] for name in weights},
                       {name: exact[name] - first[name] for name in weights})
        accepted = ROUNDINGS["lenet"] * U
        text = f"{lost:.2%} of the weights would not move in bfloat16; their way is off by {off:.2e}, accepted {accepted:.2e}"
        print(text)
        if lost < 0.99 or off > accepted:
            failures.append((text, made))
    report(failures, 1)


def memory():
    """Plans of steps whose activations are most of what is kept need less of it, on the fullest device; on one device about
    half of what is no parameter, gradient or moment of Adam, which stay float32, nor a rounded copy of a parameter."""
    checks = Checks()
    models = {"lenet": (["--batch", "256"], "cross-entropy"),
              "gpt": (["--batch", "16", "--layers", "4", "--hidden", "128", "--heads", "4", "--sequence", "64",
                       "--vocabulary", "512"], "cross-entropy,classes=2")}
    with tempfile.TemporaryDirectory() as folder:
        path, file = os.path.join(folder, "model.onnx"), os.path.join(folder, "step.plan")
        for name, (sizes, loss) in models.items():
            made = cleave("zoo", name, *sizes, "--weights", "-o", path)
            if made.code == DONE:
                weights = (onnx.numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer)
                state = 4 * sum(array.nbytes for array in weights if array.dtype == numpy.float32) / 1e6
            for plan in PLANS if made.code == DONE else []:
                needed = {}
                for dtype in ("bf16", "f32"):
                    made = compile_step(path, plan, file, loss, "--optimizer", "adam", dtype=dtype)
                    needed[dtype] = peak(file) / 1e6 if made.code == DONE else float("nan")
                text = f"{name} {plan.name}: {needed['bf16']:.3g} MB instead of {needed['f32']:.3g}"
                fine = needed["bf16"] < needed["f32"]
                if plan.name == "single":
                    # Indices, masks and statistics of normalizations stay as they are, and packing costs a little.
                    kept = (needed["bf16"] - state * (1 + 1 / 8)) / (needed["f32"] - state)
                    fine, text = fine and kept <= 0.7, f"{text}, {kept:.2f} of the activations"
                checks.add(fine, text, made)
            if made.code != DONE:
                checks.failures.append((name, made))
    checks.report()


def account():
    """Of a step that is nearly all parameters, the search's account is what the plan allocates: parameters and their
    gradients in float32, and copies that are rounded where libraries read them. Where the processor has no library for
    bfloat16, our kernels round as they read, and a weight's products of all microbatches and its update may be one
    kernel: such a plan keeps no gradients, and the account is no more than an upper bound of it."""
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        path, file = os.path.join(folder, "model.onnx"), os.path.join(folder, "step.plan")
        made = cleave("zoo", "mlp", "--layers", "4", "--inputs", "512", "--hidden", "512", "--classes", "512", "--batch",
                      "16", "-o", path)
        for devices, ways in ((1, "data=1"), (2, "data=2"), (2, "model=2")) if made.code == DONE else []:
            # With two microbatches gradients are kept, to be added up.
            plan = Plan(ways, devices, ["--strategy", "auto", "--degrees", ways, "--microbatches", "2", "--zero", "0",
                                        "--recompute", "none"], None)
            for optimizer, dtype in (("sgd", "f32"), ("sgd", "bf16"), ("adam", "f32"), ("adam", "bf16")):
                made = compile_step(path, plan, file, "cross-entropy", "--optimizer", optimizer, dtype=dtype)
                if made.code != DONE:
                    break
                with open(file + ".json", encoding="utf-8") as text:
                    facts = json.load(text)
                memory = facts["stages"][0]["memory_bytes"]
                counted = memory["total"]
                allocated = max(device["arena_bytes"] for device in facts["devices"])
                fused = dtype == "bf16" and "avx512bw" not in facts["processor"]["features"]
                spared = memory["gradients"] + memory["transient"] if fused else 0
                checks.add(0.95 * allocated <= counted <= 1.05 * allocated + spared,
                           f"{ways} {optimizer} {dtype}: the search counts {counted / 1e6:.3g} MB of "
                           f"{allocated / 1e6:.3g}", made)
        if made.code != DONE:
            checks.add(False, "mlp", made)
    checks.report()


def inference():
    """Outputs in bfloat16 against PyTorch in float64, on one device and two: no more than twice as far off as PyTorch's
    autocast is on the same input. And what is refused."""
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("lenet", "resnet50"):
            path, image, out = (os.path.join(folder, file) for file in (name + ".onnx", "x.npy", "y.npy"))
            made = cleave("zoo", name, *MODELS[name].sizes, "--weights", "-o", path)
            if made.code != DONE:
                checks.add(False, name, made)
                continue
            port = onnx.load(path).graph.input[0]
            shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
            inputs = {port.name: numpy.random.default_rng(1).standard_normal(shape).astype(numpy.float32)}
            numpy.save(image, inputs[port.name])
            output = lambda model: next(iter(model.run(inputs).values())).detach().double().numpy()
            exact = output(TorchModel(path))
            with torch.autocast("cpu", dtype=torch.bfloat16):
                rounded = output(TorchModel(path, torch.float32))
            off = lambda found: float(((found - exact) ** 2).sum() / (exact ** 2).sum()) ** 0.5
            theirs = off(rounded)
            for machine, strategy in (("host:1x1", "single"), ("host:2x1", "data")):
                result = cleave("run", path, "--machine", machine, "--strategy", strategy, "--dtype", "bf16", "--input",
                                f"{port.name}={image}", "--output", f"@0={out}")
                if result.code != DONE:
                    checks.add(False, f"{name} on {machine}", result)
                    continue
                ours = numpy.load(out)
                error = off(ours)
                # An error of rounding there must be, or nothing was computed in bfloat16.
                checks.add(ours.dtype == numpy.float32 and U / 64 < error <= max(2 * theirs, 2 * U),
                           f"{name} on {machine}: off by {error:.2e}, autocast by {theirs:.2e}", result)
        refused = cleave("compile", path, "--train", "--loss", "cross-entropy", "--dtype", "f16", "-o",
                         os.path.join(folder, "refused.plan"))
        checks.add(refused.code == UNSUPPORTED and "--dtype f16" in refused.errors, "f16 is refused", refused)
    checks.report()


if __name__ == "__main__":
    part = sys.argv[1]
    if part in ROUNDINGS:
        gradients(part)  # Ends the test.
    {"curve": curve, "master": master, "memory": memory, "account": account, "inference": inference}[part]()
