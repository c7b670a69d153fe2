# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The zoo's LeNet trained by `cleave train`. `small`: on generated images, step by step against PyTorch, on one device and
# on two, interrupted and resumed on other devices. `killed`: with momentum on two devices, killed at random moments
# ($CLEAVE_KILLS times, by default 5) and started again, against a run that nobody kills. `fashion-mnist`: sixty steps
# on the real data, on one device and on two, against PyTorch. `fashion-mnist-all`: an epoch against PyTorch, and ten on
# each, which must reach the accuracy that the textbook reaches (Dive into Deep Learning, chapter on LeNet).

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from cleave_process import REPOSITORY, Checks, cleave, program, report, skip

import numpy

SEED = 3
RATE = 0.2


def run(failures, *arguments, timeout=1500):
    """Runs a command that must succeed; ends the test where it does not."""
    result = cleave(*arguments, timeout=timeout)
    if result.code != 0:
        report([(" ".join(arguments[:2]), result)] + failures, 0)
    return result


def random_order(count, seed, epoch):
    """The order of an epoch's samples, from the definition in runtime/training/RandomOrder.h."""
    mask = (1 << 64) - 1

    def word(of, counter):
        z = (of + (counter + 1) * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    stream, counter, order = word(seed, epoch), 0, list(range(count))
    for left in range(count, 1, -1):
        while True:
            product = word(stream, counter) * left
            counter += 1
            if product & mask >= (1 << 64) % left:
                break
        other = product >> 64
        order[left - 1], order[other] = order[other], order[left - 1]
    return order


def generated(count, seed):
    """Images of ten classes, each a pattern of its own under noise, as bytes."""
    pattern = numpy.random.default_rng(0).integers(0, 256, (10, 28, 28))
    noise = numpy.random.default_rng(seed)
    labels = noise.integers(0, 10, count)
    images = 0.5 * pattern[labels] + 0.5 * noise.integers(0, 256, (count, 28, 28))
    return images.astype(numpy.uint8), labels.astype(numpy.uint8)


def torch_model(weights):
    """The zoo's LeNet with these weights; its parameters by name."""
    import torch

    parameters = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}

    def forward(x):
        f = torch.nn.functional
        p = parameters
        x = f.avg_pool2d(f.relu(f.conv2d(x, p["conv1.weight"], p["conv1.bias"])), 2)
        x = f.avg_pool2d(f.relu(f.conv2d(x, p["conv2.weight"], p["conv2.bias"])), 2).flatten(1)
        dense = lambda x, name: x @ p[name + ".weight"] + p[name + ".bias"]
        return dense(f.relu(dense(x, "fc1")), "fc2")

    return parameters, forward


def train_in_torch(weights, images, labels, test, batch, epochs, steps=None):
    """The losses of `steps` steps of each epoch or of all, the weights, and the loss and accuracy on the test data."""
    import torch

    parameters, forward = torch_model(weights)
    tensor = lambda images: torch.tensor(images[:, None].astype(numpy.float32) / 255)
    images, labels = tensor(images), torch.tensor(labels.astype(numpy.int64))
    losses = []
    for epoch in range(epochs):
        order = random_order(len(labels), SEED, epoch)
        for begin in range(0, len(order) - batch + 1, batch)[:steps]:
            which = order[begin:begin + batch]
            loss = torch.nn.functional.cross_entropy(forward(images[which]), labels[which])
            loss.backward()
            losses.append(loss.item())
            with torch.no_grad():
                for parameter in parameters.values():
                    parameter -= RATE * parameter.grad
                    parameter.grad = None
    with torch.no_grad():
        scores, wanted = forward(tensor(test[0])), torch.tensor(test[1].astype(numpy.int64))
        loss = torch.nn.functional.cross_entropy(scores, wanted).item()
        accuracy = (scores.argmax(1) == wanted).float().mean().item()
    return losses, {name: value.detach().numpy() for name, value in parameters.items()}, loss, accuracy


def compile_plans(folder, batch):
    """A plan for one device and one for two, of the same model."""
    model = os.path.join(folder, "lenet.onnx")
    run([], "zoo", "lenet", "--batch", str(batch), "-o", model)
    plans = {}
    for name, options in (("one", ["--machine", "host:1x1"]), ("two", ["--machine", "host:2x1", "--strategy", "data"])):
        plans[name] = os.path.join(folder, name + ".plan")
        run([], "compile", model, "--train", "--loss", "cross-entropy", "--optimizer", "sgd", "--learning-rate",
            str(RATE), *options, "-o", plans[name])
    return plans


def small(folder):
    batch, epochs = 32, 2
    images, labels = generated(200, 1)
    test = generated(75, 2)
    for name, array in (("x", images), ("l", labels), ("tx", test[0]), ("tl", test[1])):
        numpy.save(os.path.join(folder, name + ".npy"), array)
    path = lambda name: os.path.join(folder, name)
    plans = compile_plans(folder, batch)
    data = ["--data", f"@0={path('x.npy')}", "--data", f"labels={path('l.npy')}", "--seed", str(SEED)]
    test_data = ["--eval", f"@0={path('tx.npy')}", "--eval", f"labels={path('tl.npy')}"]
    run([], "train", plans["one"], "--epochs", "0", "--export", path("first.npz"), *test_data)
    first = dict(numpy.load(path("first.npz")))
    losses, weights, loss, accuracy = train_in_torch(first, images, labels, test, batch, epochs)
    checks = Checks()

    results = {}
    for name, plan in plans.items():
        run([], "train", plan, *data, *test_data, "--epochs", str(epochs), "--json", path("r.json"), "--json-steps",
            "--export", path(name + ".npz"))
        with open(path("r.json"), encoding="utf-8") as file:
            result = results[name] = json.load(file)
        checks.close(f"{name}: losses", [step["loss"] for step in result["steps"]], losses, 1e-4)
        checks.close(f"{name}: evaluation", result["epochs"][-1]["eval_loss"], loss, 1e-4)
        checks.close(f"{name}: accuracy", result["epochs"][-1]["eval_accuracy"], accuracy, 1e-6)
        trained = numpy.load(path(name + ".npz"))
        for parameter, value in weights.items():
            checks.close(f"{name}: {parameter}", trained[parameter], value, 1e-4)
    # In parts: on the same plan bit by bit, and from one device to two to rounding.
    parts = []
    for steps in ("5", "12"):
        run([], "train", plans["one"], *data, "--epochs", str(epochs), "--steps", steps, "--checkpoint", path("c"),
            "--resume", "--json", path("r.json"), "--json-steps", "--export", path("parts.npz"))
        with open(path("r.json"), encoding="utf-8") as file:
            parts += [step["loss"] for step in json.load(file)["steps"]]
    checks.close("resumed: losses", parts, [step["loss"] for step in results["one"]["steps"]], 0)
    whole, resumed = numpy.load(path("one.npz")), numpy.load(path("parts.npz"))
    for parameter in weights:
        checks.close(f"resumed: {parameter}", resumed[parameter], whole[parameter], 0)
    run([], "train", plans["one"], *data, "--steps", "5", "--checkpoint", path("d"))
    run([], "train", plans["two"], *data, "--steps", "12", "--checkpoint", path("d"), "--resume", "--export",
        path("moved.npz"))
    for parameter in weights:
        checks.close(f"moved: {parameter}", numpy.load(path("moved.npz"))[parameter], weights[parameter], 1e-4)
    # The same plan where there is no compiler.
    done = subprocess.run([program("cleave-run"), "train", plans["two"], *data, "--epochs", str(epochs), "--export",
                           path("again.npz")], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        checks.failures.append(("cleave-run train", cleave("--version")))
        print(done.stderr)
    else:
        for parameter in weights:
            checks.close(f"cleave-run: {parameter}", numpy.load(path("again.npz"))[parameter],
                         numpy.load(path("two.npz"))[parameter], 0)
    checks.report()


def killed(folder):
    kills, path = int(os.environ.get("CLEAVE_KILLS", "5")), lambda name: os.path.join(folder, name)
    images, labels = generated(640, 1)
    numpy.save(path("x.npy"), images)
    numpy.save(path("l.npy"), labels)
    run([], "zoo", "lenet", "--batch", "32", "-o", path("lenet.onnx"))
    run([], "compile", path("lenet.onnx"), "--machine", "host:2x1", "--strategy", "data", "--train", "--loss",
        "cross-entropy", "--optimizer", "momentum", "--learning-rate", "0.02", "-o", path("plan"))
    train = ["train", path("plan"), "--data", f"@0={path('x.npy')}", "--data", f"labels={path('l.npy')}", "--epochs", "4"]
    begin = time.monotonic()
    run([], *train, "--export", path("whole.npz"))
    seconds = time.monotonic() - begin
    seed = random.randrange(1 << 32)
    moments, done, rounds = random.Random(seed), 0, 0
    while done < kills:
        shutil.rmtree(path("c"), ignore_errors=True)
        rounds += 1
        while True:
            process = subprocess.Popen([program(), *train, "--checkpoint", path("c"), "--checkpoint-every", "3", "--resume",
                                        "--export", path("parts.npz")], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True)
            try:
                # Long enough for some steps: a run that never gets to its first checkpoint begins anew for ever.
                process.communicate(timeout=None if done == kills else seconds * moments.uniform(0.1, 0.9))
                if process.returncode != 0:
                    report([(f"killed {done} times, seed {seed}", cleave(*train[:2]))], done)
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                done += 1
        whole, parts = numpy.load(path("whole.npz")), numpy.load(path("parts.npz"))
        if any((whole[name] != parts[name]).any() for name in whole.files):
            report([(f"other weights after {done} kills, seed {seed}", cleave("--version"))], done)
    print(f"killed {done} times in {rounds} runs of 80 steps, {seconds:.2f} s each")
    report([], rounds)


def images_of(path):
    """The images or labels of a gzipped IDX file, as bytes."""
    with gzip.open(path, "rb") as file:
        content = file.read()
    ranks = content[3]
    shape = numpy.frombuffer(content, ">u4", ranks, 4)
    return numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * ranks).reshape(shape)


def fashion_mnist(folder, whole):
    data_folder = os.path.join(os.environ.get("CLEAVE_SHARED", os.path.join(REPOSITORY, "..", "shared")), "data",
                               "fashion-mnist")
    path = lambda name: os.path.join(data_folder, name + ".gz")
    training = [path("train-images-idx3-ubyte"), path("train-labels-idx1-ubyte")]
    test = [path("t10k-images-idx3-ubyte"), path("t10k-labels-idx1-ubyte")]
    if not os.path.exists(training[0]):
        skip(f"no Fashion-MNIST in {data_folder}")
    batch, steps = 256, None if whole else 60
    plans = compile_plans(folder, batch)
    test_data = ["--eval", f"@0={test[0]}", "--eval", f"labels={test[1]}"]
    arguments = ["--data", f"@0={training[0]}", "--data", f"labels={training[1]}", *test_data, "--seed", str(SEED),
                 "--json-steps"]
    file = lambda name: os.path.join(folder, name)
    run([], "train", plans["one"], "--epochs", "0", "--export", file("first.npz"), *test_data)
    first = dict(numpy.load(file("first.npz")))
    losses, weights, loss, accuracy = train_in_torch(first, *map(images_of, training), [images_of(part) for part in test],
                                                     batch, 1, steps)
    checks = Checks()
    for name, plan in plans.items():
        done = run([], "train", plan, *arguments, *(["--epochs", "1"] if whole else ["--steps", str(steps)]), "--json",
            file("result.json"), "--export", file("trained.npz"))
        with open(file("result.json"), encoding="utf-8") as text:
            result = json.load(text)
        checks.close(f"{name}: losses", [step["loss"] for step in result["steps"]], losses, 1e-4)
        # The loss moves little at first: the parameters show whether all steps were taken, each as it should be. On
        # average, as a rectifier's input may be zero but for rounding, on here and off there.
        for parameter, value in numpy.load(file("trained.npz")).items():
            moved = numpy.abs(weights[parameter] - first[parameter]).mean()
            error = numpy.abs(value - weights[parameter]).mean() / moved
            checks.add(error <= 0.01, f"{name}: {parameter} moves as in PyTorch, within {error:.2g}", done)
        if whole:
            checks.close(f"{name}: evaluation", result["epochs"][0]["eval_loss"], loss, 1e-3)
            checks.close(f"{name}: accuracy", result["epochs"][0]["eval_accuracy"], accuracy, 1e-3)
            done = run([], "train", plan, *arguments, "--epochs", "10", "--json", file("result.json"))
            with open(file("result.json"), encoding="utf-8") as text:
                reached = json.load(text)["epochs"][-1]["eval_accuracy"]
            checks.add(reached >= 0.84, f"{name}: reaches an accuracy of 0.84: {reached}", done)
    checks.report()


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"small": small, "killed": killed, "fashion-mnist": lambda folder: fashion_mnist(folder, False),
         "fashion-mnist-all": lambda folder: fashion_mnist(folder, True)}[sys.argv[1]](folder)


if __name__ == "__main__":
    main()
