# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The zoo's LSTM as a language model, in buckets of sequence lengths that share one set of weights. `torch`: every step
# against PyTorch on the same padded batches, on one device, on two by layers with microbatches, and on two by batch;
# interrupted and resumed. `learns`: two devices by layers learn a generated text as PyTorch does in as many steps, to
# within a fifth of the perplexity of the process that wrote it.

import json
import math
import os
import random
import sys
import tempfile

from cleave_process import Checks, report, skip
from train_lenet import SEED, random_order, run

try:
    import numpy
    import onnx
    import torch
except ImportError as missing:
    skip(f"no module {missing.name}; install python3-{missing.name}")

from onnx_in_torch import TorchModel

BUCKETS, BATCH, RATE, EPOCHS = [4, 8, 16], 4, 0.5, 2
IGNORED = -1

# Layers on devices: the first group is on device 0.
GROUPS = {"front": ["steps", "embedding*", "lstm1*"], "back": ["lstm2*", "decoder*", "samples*", "output"]}


def write_groups(path):
    groups = ", ".join(f"{name}: {json.dumps(patterns)}" for name, patterns in GROUPS.items())
    devices = ", ".join(f"{name}: {device}" for device, name in enumerate(GROUPS))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"groups: {{ {groups} }}\ndevices: {{ {devices} }}\n")


def lines_of(count, seed):
    """Lines of 1 to 40 letters, some of them empty."""
    source = random.Random(seed)
    return ["".join(source.choice("abcdefgh ") for _ in range(source.choice([0, 1, 2, 5, 7, 12, 15, 16, 40])))
            for _ in range(count)]


def word_of(seed, counter):
    """A word of SplitMix64, as runtime/Generator.h defines it."""
    mask = (1 << 64) - 1
    z = (seed + (counter + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def sequences_of(lines, vocabulary):
    """By bucket, the pairs of tokens and labels, as runtime/training/SequenceData.h defines them."""
    end, buckets = vocabulary.index("<eos>"), [[] for _ in BUCKETS]
    for line in lines:
        if not line:
            continue
        tokens = [end] + [vocabulary.index(letter) for letter in line] + [end]
        for begin in range(0, len(tokens) - 1, BUCKETS[-1]):
            length = min(BUCKETS[-1], len(tokens) - 1 - begin)
            bucket = next(index for index, size in enumerate(BUCKETS) if size >= length)
            buckets[bucket].append((tokens[begin:begin + length], tokens[begin + 1:begin + length + 1]))
    return buckets


def batches_of(buckets, epoch):
    """The padded batches of an epoch in their order; of all, unshuffled, where there is no epoch."""
    made = []
    for index, sequences in enumerate(buckets):
        order = range(len(sequences)) if epoch is None else random_order(len(sequences), word_of(SEED, index), epoch)
        for begin in range(0, len(sequences), BATCH):
            chosen = [sequences[which] for which in order[begin:begin + BATCH]]
            tokens = numpy.zeros((BATCH, BUCKETS[index]), numpy.int64)
            labels = numpy.full((BATCH, BUCKETS[index]), IGNORED)
            for row, (own, following) in enumerate(chosen):
                tokens[row, :len(own)], labels[row, :len(own)] = own, following
            made.append((tokens, labels))
    return made if epoch is None else [made[batch] for batch in random_order(len(made), SEED, epoch)]


def loss_of(model, tokens, labels):
    scores = model.run({"tokens": tokens})["output"].flatten(0, 1)
    return scores, torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels.flatten()), ignore_index=IGNORED)


def train_epoch(model, optimizer, training, epoch):
    """The losses of the steps."""
    losses = []
    for tokens, labels in batches_of(training, epoch):
        _, loss = loss_of(model, tokens, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def evaluate(model, test):
    """Loss and accuracy, each label counted once."""
    summed = correct = count = 0
    with torch.no_grad():
        for tokens, labels in batches_of(test, None):
            scores, loss = loss_of(model, tokens, labels)
            wanted = labels.flatten()
            known = int((wanted >= 0).sum())
            summed, count = summed + loss.item() * known, count + known
            correct += int((scores.argmax(1).numpy() == wanted).sum())
    return summed / count, correct / count


def train_in_torch(model_file, training, test):
    """The losses of all steps, the weights, and the loss and accuracy on the test text."""
    model, losses = TorchModel(model_file), []
    optimizer = torch.optim.SGD(model.parameters.values(), lr=RATE)
    for epoch in range(EPOCHS):
        losses += train_epoch(model, optimizer, training, epoch)
    return losses, {name: value.detach().numpy() for name, value in model.parameters.items()}, *evaluate(model, test)


def compile_plan(path, name, options):
    plan = path(name + ".plan")
    run([], "compile", path("lstm.onnx"), "--train", "--loss", "cross-entropy", "--buckets",
        "sequence=" + ",".join(map(str, BUCKETS)), *options, "-o", plan)
    return plan


def write_model(path, vocabulary, *options):
    run([], "zoo", "lstm", "--batch", str(BATCH), "--layers", "2", "--vocabulary", str(len(vocabulary)), "--symbolic",
        "sequence", *options, "-o", path("lstm.onnx"))


def against_torch(folder):
    path = lambda name: os.path.join(folder, name)
    training, test = lines_of(70, 1), lines_of(25, 2)
    for name, lines in (("train", training), ("test", test)):
        with open(path(name + ".txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    run([], "vocabulary", path("train.txt"), "--tokens", "characters", "-o", path("vocabulary"))
    with open(path("vocabulary"), encoding="utf-8") as file:
        vocabulary = file.read().split("\n")[:-1]
    write_model(path, vocabulary, "--hidden", "12", "--weights")
    write_groups(path("place.yaml"))
    sequences, tested = sequences_of(training, vocabulary), sequences_of(test, vocabulary)
    losses, weights, loss, accuracy = train_in_torch(path("lstm.onnx"), sequences, tested)
    checks = Checks()

    plain = ["--optimizer", "sgd", "--learning-rate", str(RATE)]
    layers = ["--machine", "host:2x1", "--place", path("place.yaml")]
    plans = {"one": ["--machine", "host:1x1", "--strategy", "single"],
             "one-microbatches": ["--machine", "host:1x1", "--strategy", "single", "--microbatches", "2"],
             "layers": layers,
             "layers-microbatches": [*layers, "--microbatches", "4"],
             "data": ["--machine", "host:2x1", "--strategy", "data"],
             "data-microbatches": ["--machine", "host:2x1", "--strategy", "data", "--microbatches", "2"],
             "search": ["--machine", "host:2x1", "--strategy", "auto"]}
    data = ["--data", f"tokens={path('train.txt')}", "--vocabulary", path("vocabulary"), "--tokens", "characters",
            "--seed", str(SEED)]
    test_data = ["--eval", f"tokens={path('test.txt')}"]
    counts = [len(bucket) for bucket in sequences]
    steps = [math.ceil(count / BATCH) for count in counts]
    tokens = sum(len(own) for bucket in sequences for own, _ in bucket)
    positions = sum(number * BATCH * size for number, size in zip(steps, BUCKETS))
    results = {}
    for name, options in plans.items():
        plan = compile_plan(path, name, [*options, *plain])
        run([], "train", plan, *data, *test_data, "--epochs", str(EPOCHS), "--json", path("r.json"), "--json-steps",
            "--export", path(name + ".npz"))
        with open(path("r.json"), encoding="utf-8") as file:
            result = results[name] = json.load(file)
        checks.close(f"{name}: number of steps", len(result["steps"]), len(losses), 0)
        checks.close(f"{name}: losses", [step["loss"] for step in result["steps"]], losses, 1e-5)
        last = result["epochs"][-1]
        checks.close(f"{name}: evaluation", last["eval_loss"], loss, 1e-5)
        checks.close(f"{name}: perplexity", last["eval_perplexity"], math.exp(loss), 1e-4)
        checks.close(f"{name}: accuracy", last["eval_accuracy"], accuracy, 1e-9)
        checks.close(f"{name}: sequences", [bucket["sequences"] for bucket in result["buckets"]], counts, 0)
        checks.close(f"{name}: padding", result["padding"], 1 - tokens / positions, 1e-12)
        checks.close(f"{name}: empty lines", result["empty_lines"], sum(not line for line in training), 0)
        for device in result["devices"]:
            checks.close(f"{name}: bytes of {device['name']}", device["allocated_bytes"], device["planned_bytes"], 0)
        trained = numpy.load(path(name + ".npz"))
        for parameter, value in weights.items():
            checks.close(f"{name}: {parameter}", trained[parameter], value, 1e-4)
    # In parts, across the lengths of an epoch and of two: on the same plan bit by bit, on another one to rounding.
    for name in ("one", "layers-microbatches"):
        parts = []
        for stop in (3, sum(steps) - 1, sum(steps) + 2, 2 * sum(steps)):
            run([], "train", path(name + ".plan"), *data, "--epochs", str(EPOCHS), "--steps", str(stop), "--checkpoint",
                path(name), "--resume", "--json", path("r.json"), "--json-steps", "--export", path("parts.npz"))
            with open(path("r.json"), encoding="utf-8") as file:
                parts += [step["loss"] for step in json.load(file)["steps"]]
        checks.close(f"{name} resumed: losses", parts, [step["loss"] for step in results[name]["steps"]], 0)
        for parameter in weights:
            checks.close(f"{name} resumed: {parameter}", numpy.load(path("parts.npz"))[parameter],
                         numpy.load(path(name + ".npz"))[parameter], 0)
    run([], "train", path("one.plan"), *data, "--steps", "5", "--checkpoint", path("moved"))
    run([], "train", path("layers.plan"), *data, "--epochs", str(EPOCHS), "--checkpoint", path("moved"), "--resume",
        "--export", path("moved.npz"))
    for parameter in weights:
        checks.close(f"moved: {parameter}", numpy.load(path("moved.npz"))[parameter], weights[parameter], 1e-4)
    checks.report()


def learns(folder):
    path = lambda name: os.path.join(folder, name)
    words = ["w" + chr(ord("a") + index) for index in range(12)]

    def write_text(name, seed, count):
        """Each word is followed by the next one of the list or the one after that."""
        source, text = random.Random(seed), []
        for _ in range(count):
            word, line = source.randrange(len(words)), []
            for _ in range(source.randint(3, 15)):
                line.append(words[word])
                word = (word + source.randint(1, 2)) % len(words)
            text.append(line)
        with open(path(name), "w", encoding="utf-8") as file:
            file.writelines(" ".join(line) + "\n" for line in text)
        return text

    training, test = write_text("train.txt", 1, 400), write_text("test.txt", 2, 100)
    run([], "vocabulary", path("train.txt"), "-o", path("vocabulary"))
    with open(path("vocabulary"), encoding="utf-8") as file:
        vocabulary = file.read().split("\n")[:-1]
    write_model(path, vocabulary, "--hidden", "24", "--weights")
    write_groups(path("place.yaml"))
    plan = compile_plan(path, "layers", ["--machine", "host:2x1", "--place", path("place.yaml"), "--microbatches", "2",
                                         "--optimizer", "adam", "--learning-rate", "0.01"])
    result = run([], "train", plan, "--data", f"tokens={path('train.txt')}", "--eval", f"tokens={path('test.txt')}",
                 "--vocabulary", path("vocabulary"), "--seed", str(SEED), "--epochs", "4", "--json", path("r.json"))
    print(result.output)
    with open(path("r.json"), encoding="utf-8") as file:
        epochs = json.load(file)["epochs"]
    # PyTorch's Adam from the same weights on the same batches. Adam magnifies rounding: where each of PyTorch's gradients
    # was off by up to 2e-7 of its tensor's largest, its own losses moved by up to 2e-3.
    model = TorchModel(path("lstm.onnx"))
    optimizer, checks = torch.optim.Adam(model.parameters.values(), lr=0.01), Checks()
    sequences, tested = sequences_of(training, vocabulary), sequences_of(test, vocabulary)
    for number, epoch in enumerate(epochs):
        losses = train_epoch(model, optimizer, sequences, number)
        loss, accuracy = evaluate(model, tested)
        print(f"PyTorch, epoch {number + 1}: loss {sum(losses) / len(losses):.4f}; evaluation loss {loss:.4f}, accuracy "
              f"{100 * accuracy:.2f} %")
        checks.close(f"evaluation loss of epoch {number + 1}", epoch["eval_loss"], loss, 2e-3)
    # What the process that wrote the text gives it: a first word of 12, two choices for each word that follows, one of 13
    # lengths. No model does better but by luck, and one that knows only which words follow which does not reach the 13.
    tokens = sum(len(line) + 1 for line in test)
    best = sum(math.log(12) + (len(line) - 1) * math.log(2) + math.log(13) for line in test) / tokens
    reached = epochs[-1]["eval_perplexity"]
    checks.add(math.exp(best) < reached < 1.2 * math.exp(best),
               f"perplexity {reached:.3f}; the process that wrote the text gives it {math.exp(best):.3f}", result)
    checks.report()


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"torch": against_torch, "learns": learns}[sys.argv[1]](folder)


if __name__ == "__main__":
    main()
