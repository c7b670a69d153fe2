# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Pipelines that go on from step to step with weights of one step before (--schedule 2bw and pipedream). `numpy`: a
# perceptron on two, three and four devices against a direct simulation in NumPy, with derivatives by hand, under three
# optimizers: W(t+1) = W(t) - update(gradient of f at W(t-1) on batch t) for 2bw; for pipedream the gradient of
# microbatch m is of W(t-1) on stage i of p where m < p - 1 - i, else of W(t). The same in parts that checkpoints divide,
# and going on under another schedule. `torch`: 2bw with batch normalization in PyTorch, and masks of dropout.
# `fashion-mnist`: the zoo's LeNet on two devices, whose accuracy after ten epochs must be within 1 % of that of
# synchronous steps.

import itertools
import json
import os
import sys
import tempfile

from cleave_process import REPOSITORY, UNSUPPORTED, USAGE, Checks, cleave, report, skip
from train_lenet import random_order

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED, RATE, BATCH, SAMPLES, EPOCHS = 5, 0.05, 12, 90, 2
SIZES = (10, 16, 14, 12, 6)


def run(*arguments, timeout=1500):
    """Runs a command that must succeed; ends the test where it does not."""
    result = cleave(*arguments, timeout=timeout)
    if result.code != 0:
        report([(" ".join(arguments[:2]), result)], 0)
    return result


def perceptron(path):
    """Dense layers with a hyperbolic tangent between two; the weights by name."""
    random = numpy.random.default_rng(SEED)
    weights, nodes, before = {}, [], "x"
    for layer, (rows, columns) in enumerate(zip(SIZES, SIZES[1:])):
        weights[f"w{layer}"] = random.standard_normal((rows, columns)).astype(numpy.float32) * 0.4
        weights[f"b{layer}"] = random.standard_normal(columns).astype(numpy.float32) * 0.1
        last = layer == len(SIZES) - 2
        out = "y" if last else f"s{layer}"
        nodes.append(helper.make_node("Gemm", [before, f"w{layer}", f"b{layer}"], [out], f"dense{layer}"))
        if not last:
            nodes.append(helper.make_node("Tanh", [out], [f"t{layer}"], f"tanh{layer}"))
            before = f"t{layer}"
    value = lambda name, size: helper.make_tensor_value_info(name, TensorProto.FLOAT, [BATCH, size])
    graph = helper.make_graph(nodes, "perceptron", [value("x", SIZES[0])], [value("y", SIZES[-1])],
                              [numpy_helper.from_array(array, name) for name, array in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return weights


def gradients(weights, x, target):
    """The mean of squares over all elements, and its derivatives by weight."""
    layers, given = len(SIZES) - 1, [x]
    for layer in range(layers):
        sums = given[-1] @ weights[f"w{layer}"] + weights[f"b{layer}"]
        given.append(sums if layer == layers - 1 else numpy.tanh(sums))
    difference = given[-1] - target
    result, back = {}, 2 * difference / difference.size
    for layer in reversed(range(layers)):
        if layer != layers - 1:
            back = back * (1 - given[layer + 1] ** 2)
        result[f"w{layer}"], result[f"b{layer}"] = given[layer].T @ back, back.sum(0)
        back = back @ weights[f"w{layer}"].T
    return (difference ** 2).mean(), result


def step_of(optimizer, state, name, weight, gradient, number):
    """The weight behind step `number`, from one. As PyTorch's optimizers with their defaults, and a momentum of 0.9."""
    if optimizer == "sgd":
        return weight - RATE * gradient
    if optimizer == "momentum":
        state[name] = 0.9 * state.get(name, 0) + gradient
        return weight - RATE * state[name]
    mean, square = state.get(name, (0, 0))
    mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient ** 2
    state[name] = mean, square
    return weight - RATE * (mean / (1 - 0.9 ** number)) / (numpy.sqrt(square / (1 - 0.999 ** number)) + 1e-8)


def begun_early(stages, name):
    """Of a pipeline whose stages have these layers: how many microbatches of a batch the stage of a weight begins before
    its update of the batch before."""
    stage = next(stage for stage, layers in enumerate(stages) if int(name[1:]) in layers)
    return len(stages) - 1 - stage


def simulate(weights, x, target, optimizer, schedule, stages, microbatches, pauses=()):
    """The losses of all steps and the weights after them. `pauses`: steps behind which the pipeline is drained."""
    now = {name: array.astype(numpy.float64) for name, array in weights.items()}
    losses, state = [], {}
    for epoch in range(EPOCHS):
        order, before = random_order(SAMPLES, SEED, epoch), now
        for begin in range(0, SAMPLES - BATCH + 1, BATCH):
            if len(losses) in pauses:
                before = now
            which = order[begin:begin + BATCH]
            parts = []
            for number, part in enumerate(numpy.split(numpy.array(which), microbatches)):
                isOld = lambda name: schedule == "2bw" or (schedule == "pipedream" and number < begun_early(stages, name))
                seen = {name: before[name] if isOld(name) else now[name] for name in now}
                parts.append(gradients(seen, x[part], target[part]))
            losses.append(numpy.mean([loss for loss, _ in parts]))
            gradient = {name: numpy.mean([part[name] for _, part in parts], axis=0) for name in now}
            before, now = now, {name: step_of(optimizer, state, name, array, gradient[name], len(losses))
                                for name, array in now.items()}
    return losses, now


# By name: options, and the placement file.
PLACES = {
    "two": "groups: { a: [dense0, tanh0, dense1, tanh1], b: [dense2, tanh2, dense3] }\ndevices: { a: 0, b: 1 }\n",
    "three": "groups: { a: [dense0, tanh0], b: [dense1, tanh1], c: [dense2, tanh2, dense3] }\n"
             "devices: { a: 0, b: 1, c: 2 }\n",
    "four": "groups: { a: [dense0, tanh0], b: [dense1, tanh1], c: [dense2, tanh2], d: [dense3] }\n"
            "devices: { a: 0, b: 1, c: 2, d: 3 }\n",
    "two by two": "groups: { a: [dense0, tanh0, dense1, tanh1], b: [dense2, tanh2, dense3] }\n"
                  "devices: { a: [0, 1], b: [2, 3] }\nsplits: { \"dense*\": { batch: x } }\n",
}
# By name: the layers of each stage.
STAGES = {"two": [(0, 1), (2, 3)], "three": [(0,), (1,), (2, 3)], "four": [(0,), (1,), (2,), (3,)],
          "two by two": [(0, 1), (2, 3)]}
COUNTS = {"two": 2, "three": 3, "four": 4, "two by two": 4}
CASES = [("two", 2, "sgd"), ("two", 4, "momentum"), ("two", 6, "adam"), ("three", 3, "sgd"), ("three", 6, "adam"),
         ("three", 12, "momentum"), ("four", 4, "adam"), ("four", 6, "sgd"), ("two by two", 3, "momentum"),
         ("two", 4, "adam", "--recompute", "full"), ("four", 6, "sgd", "--recompute", "selective"),
         ("two by two", 3, "adam", "--zero", "1"), ("two by two", 6, "momentum", "--zero", "2")]


def compare_with_numpy(folder):
    path = lambda name: os.path.join(folder, name)
    weights, random, checks = perceptron(path("net.onnx")), numpy.random.default_rng(1), Checks()
    x = random.standard_normal((SAMPLES, SIZES[0])).astype(numpy.float32)
    target = random.standard_normal((SAMPLES, SIZES[-1])).astype(numpy.float32)
    numpy.save(path("x.npy"), x)
    numpy.save(path("t.npy"), target)
    data = ["--data", f"x={path('x.npy')}", "--data", f"target={path('t.npy')}", "--seed", str(SEED)]

    def compiled(place, *options):
        with open(path("place.yaml"), "w", encoding="utf-8") as file:
            file.write(PLACES[place])
        return ["compile", path("net.onnx"), "--machine", f"host:{COUNTS[place]}x1", "--place", path("place.yaml"), "--train",
                "--loss", "mse", "--learning-rate", str(RATE), *options, "-o", path("net.plan")]

    def trained(*options):
        run("train", path("net.plan"), *data, "--epochs", str(EPOCHS), "--json", path("r.json"), "--json-steps", "--export",
            path("w.npz"), *options)
        with open(path("r.json"), encoding="utf-8") as file:
            return [step["loss"] for step in json.load(file)["steps"]], dict(numpy.load(path("w.npz")))

    def compare(name, found, wanted):
        checks.close(f"{name}: losses", found[0], wanted[0], 1e-4 * max(wanted[0]))
        for weight, array in wanted[1].items():
            checks.close(f"{name}: {weight}", found[1][weight], array, 1e-4 * numpy.abs(array).max())

    for place, microbatches, optimizer, *more in CASES:
        name = " ".join([f"{place}, {microbatches} microbatches, {optimizer}", *more])
        options = ["--optimizer", optimizer, "--microbatches", str(microbatches), *more]
        now, late, stashed = (simulate(weights, x, target, optimizer, schedule, STAGES[place], microbatches)
                              for schedule in ("1f1b", "2bw", "pipedream"))
        # Schedules must differ by far more than is tolerated, or nothing is tested.
        for first, second in itertools.combinations((now, late, stashed), 2):
            checks.add(max(abs(numpy.subtract(first[0], second[0]))) > 1e-3 * max(now[0]), f"{name}: the delay shows",
                       cleave("--version"))
        for schedule, wanted in (("2bw", late), ("pipedream", stashed)):
            run(*compiled(place, *options, "--schedule", schedule))
            run("verify", path("net.plan"))
            for in_flight in ("1", "3"):
                compare(f"{name}, {schedule}, {in_flight} in flight", trained("--in-flight", in_flight), wanted)
        run(*compiled(place, *options, "--schedule", "1f1b"))
        compare(f"{name}, 1f1b", trained(), now)
    simulated = lambda schedule, place, *pauses: simulate(weights, x, target, "adam", schedule, STAGES[place], 3, pauses)
    for schedule in ("2bw", "pipedream"):
        parts(checks, path, data, compiled, trained, compare, schedule, simulated)
    memory(checks, compiled, path)
    refusals(checks, compiled, path)
    checks.report()


def parts(checks, path, data, compiled, trained, compare, schedule, simulated):
    """Where a checkpoint is, the pipeline is empty: a run that goes on there is one that was not interrupted, bit by bit,
    and may go on under any schedule."""
    options = ["--optimizer", "adam", "--microbatches", "3"]
    folder = lambda name: path(f"{schedule}-{name}")
    run(*compiled("three", *options, "--schedule", schedule))
    whole = trained("--checkpoint", folder("whole"), "--checkpoint-every", "4")
    compare(f"{schedule}: checkpoints", whole, simulated(schedule, "three", 4, 8, 12))
    losses = []
    for steps in ("4", "8", "14"):
        found = trained("--checkpoint", folder("parts"), "--checkpoint-every", "4", "--resume", "--steps", steps)
        losses += found[0]
    checks.close(f"{schedule}, resumed: losses", losses, whole[0], 0)
    for name, array in whole[1].items():
        checks.close(f"{schedule}, resumed: {name}", found[1][name], array, 0)
    run("train", path("net.plan"), *data, "--steps", "4", "--checkpoint", folder("moved"))
    run(*compiled("two", *options, "--schedule", "1f1b"))
    moved = trained("--checkpoint", folder("moved"), "--resume", "--steps", "5")
    checks.close(f"{schedule}, moved: loss", moved[0], simulated(schedule, "three", 4)[0][4], 1e-4)


def memory(checks, compiled, path):
    """The last stage has no delay under pipedream, and no second version of its weights, which 2bw keeps on all."""
    peaks = {}
    for schedule in ("2bw", "pipedream"):
        run(*compiled("two", "--microbatches", "4", "--optimizer", "sgd", "--schedule", schedule))
        result = run("simulate", path("net.plan"), "--json", path("s.json"))
        with open(path("s.json"), encoding="utf-8") as file:
            peaks[schedule] = json.load(file)["predicted_peak_bytes"]
    weights = 4 * sum(rows * columns + columns for rows, columns in list(zip(SIZES, SIZES[1:]))[2:])
    saved = [old - new for old, new in zip(peaks["2bw"], peaks["pipedream"])]
    checks.add(saved[1] >= weights and saved[0] < weights, f"memory: the last stage saves {saved[1]} of {weights} bytes", result)


def refusals(checks, compiled, path):
    """What does not go together says so."""
    for place, options, text in (("three", ["--microbatches", "2"], "as many microbatches as stages, 3, or more; got 2"),
                                 ("two by two", ["--microbatches", "2", "--zero", "3"], "give --zero 0, 1 or 2")):
        result = cleave(*compiled(place, *options, "--schedule", "2bw"))
        checks.add(result.code == UNSUPPORTED and "schedule 2bw expects" in result.errors and text in result.errors,
                   f"refused: {text}", result)
    run(*compiled("two", "--microbatches", "2", "--schedule", "2bw"))
    result = cleave("verify", path("net.plan"), "--numeric")
    checks.add(result.code == USAGE and "--numeric expects steps that end before" in result.errors,
               "refused: --numeric", result)


def normalized(ratio):
    import torch

    torch.manual_seed(5)
    layers = [torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.BatchNorm2d(6), torch.nn.ReLU(), torch.nn.Dropout(ratio),
              torch.nn.Conv2d(6, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Dropout(ratio),
              torch.nn.Conv2d(8, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
              torch.nn.Linear(4 * 9, 4)]
    return torch.nn.Sequential(*layers)


def delayed_in_torch(model, batches, microbatches, rate):
    """The losses of steps, and what the network holds after them. Each microbatch has statistics of its own, and moves
    the running ones."""
    import torch

    now = {name: value.detach().clone() for name, value in model.named_parameters()}
    before, losses = now, []
    for x, labels in batches:
        with torch.no_grad():
            for name, value in model.named_parameters():
                value.copy_(before[name])
                value.grad = None
        parts = [torch.nn.functional.cross_entropy(model(some), wanted) / microbatches
                 for some, wanted in zip(x.chunk(microbatches), labels.chunk(microbatches))]
        sum(parts).backward()
        losses.append(sum(part.item() for part in parts))
        before, now = now, {name: now[name] - rate * value.grad for name, value in model.named_parameters()}
    values = {name: value.numpy() for name, value in model.named_buffers() if value.dim() > 0}
    return losses, {**values, **{name: value.numpy() for name, value in now.items()}}


def compare_with_torch(folder):
    try:
        import torch
    except ImportError:
        skip("no module torch; install python3-torch")
    path, checks, samples, batch = lambda name: os.path.join(folder, name), Checks(), 72, 12
    random = numpy.random.default_rng(3)
    x, labels = random.standard_normal((samples, 3, 5, 5)).astype(numpy.float32), random.integers(0, 4, samples)
    numpy.save(path("x.npy"), x)
    numpy.save(path("l.npy"), labels)
    order = random_order(samples, SEED, 0)
    batches = [(torch.from_numpy(x[which]), torch.from_numpy(labels[which]))
               for which in (order[begin:begin + batch] for begin in range(0, samples, batch))]

    def trained(ratio, stages, microbatches, rate, schedule):
        model = normalized(ratio)
        torch.onnx.export(model, batches[0][0], path("net.onnx"), input_names=["x"], opset_version=14,
                          training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
        # The export has moved the running statistics.
        for name, buffer in model.named_buffers():
            buffer.fill_(1 if name.endswith("running_var") else 0)
        initial = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path("net.onnx")).graph.initializer}
        numpy.savez(path("first.npz"), **{name: buffer.numpy() for name, buffer in model.named_buffers() if name in initial
                                          and buffer.dim() > 0})
        run("compile", path("net.onnx"), "--train", "--loss", "cross-entropy", "--optimizer", "sgd", "--learning-rate",
            str(rate), "--batch", str(batch), "--machine", f"host:{stages}x1", "--strategy", "pipeline", "--degrees",
            f"pipeline={stages}", "--microbatches", str(microbatches), "--schedule", schedule, "--seed", "1",
            "--recompute", "none", "-o", path("net.plan"))
        run("verify", path("net.plan"))
        run("train", path("net.plan"), "--weights", path("first.npz"), "--data", f"x={path('x.npy')}", "--data",
            f"labels={path('l.npy')}", "--seed", str(SEED), "--json", path("r.json"), "--json-steps", "--export",
            path("w.npz"))
        with open(path("r.json"), encoding="utf-8") as file:
            return [step["loss"] for step in json.load(file)["steps"]], dict(numpy.load(path("w.npz"))), model

    for stages, microbatches in ((2, 2), (2, 4), (3, 3), (3, 6)):
        name = f"{stages} stages, {microbatches} microbatches"
        losses, after, model = trained(0.0, stages, microbatches, 0.1, "2bw")
        wanted, values = delayed_in_torch(model, batches, microbatches, 0.1)
        checks.close(f"{name}: losses", losses, wanted, 1e-4 * max(wanted))
        for key, value in values.items():
            checks.close(f"{name}: {key}", after[key], value, 1e-4 * numpy.abs(value).max())
        # Where weights stay as they are, a delay shows in nothing: masks are those of synchronous steps.
        masked = [trained(0.5, stages, microbatches, 1e-30, schedule)[0] for schedule in ("2bw", "1f1b")]
        checks.close(f"{name}: masks", *masked, 1e-5 * max(masked[0]))
        checks.add(max(abs(numpy.subtract(masked[0], losses))) > 1e-2, f"{name}: masks show", cleave("--version"))
    checks.report()


def fashion_mnist(folder):
    files = os.path.join(os.environ.get("CLEAVE_SHARED", os.path.join(REPOSITORY, "..", "shared")), "data", "fashion-mnist")
    data = lambda name: os.path.join(files, name + ".gz")
    if not os.path.exists(data("train-images-idx3-ubyte")):
        skip(f"no Fashion-MNIST in {files}")
    path = lambda name: os.path.join(folder, name)
    run("zoo", "lenet", "--batch", "256", "-o", path("lenet.onnx"))
    with open(path("place.yaml"), "w", encoding="utf-8") as file:
        file.write('groups: { a: ["conv1*", "pool1*"], b: ["conv2*", "pool2*", "flatten*", "fc*"] }\n'
                   'devices: { a: 0, b: 1 }\n')
    # Seeds differ by as much as schedules do.
    accuracies, failures = {"1f1b": [], "2bw": [], "pipedream": []}, []
    for schedule, seed in itertools.product(accuracies, ("3", "4")):
        run("compile", path("lenet.onnx"), "--machine", "host:2x1", "--place", path("place.yaml"), "--train", "--loss",
            "cross-entropy", "--optimizer", "adam", "--learning-rate", "0.001", "--microbatches", "8", "--schedule", schedule,
            "-o", path("lenet.plan"))
        result = run("train", path("lenet.plan"), "--data", f"@0={data('train-images-idx3-ubyte')}", "--data",
                     f"labels={data('train-labels-idx1-ubyte')}", "--eval", f"@0={data('t10k-images-idx3-ubyte')}", "--eval",
                     f"labels={data('t10k-labels-idx1-ubyte')}", "--seed", seed, "--epochs", "10", "--json", path("r.json"))
        print(schedule, result.output, sep="\n")
        with open(path("r.json"), encoding="utf-8") as file:
            accuracies[schedule].append(json.load(file)["epochs"][-1]["eval_accuracy"])
    for schedule in ("2bw", "pipedream"):
        if numpy.mean(accuracies[schedule]) < numpy.mean(accuracies["1f1b"]) - 0.01:
            failures.append((f"{schedule}: accuracies {accuracies}, expected means within 1 %", result))
    report(failures, 1)


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"numpy": compare_with_numpy, "torch": compare_with_torch, "fashion-mnist": fashion_mnist}[sys.argv[1]](folder)


if __name__ == "__main__":
    main()
