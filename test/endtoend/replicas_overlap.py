# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Local steps that hide the exchange of parameters (compile --sync local:H,overlap=K). `torch`: losses and parameters are
# those of the rule, written out here with PyTorch's gradients, wherever epochs and checkpoints cut the steps. `same`: a run
# has the same bits from its record, in several processes, and from a checkpoint. `slow`: a replica that fails in the midst of
# an exchange ends the run, and a link that is slow costs less.

import json
import re
import shutil
import sys
import tempfile

from cleave_process import USAGE, Checks, cleave, mpirun
from replicas import Folder, compile_plan, differing, gradient, hosts_machine
from train_lenet import random_order, run

import numpy

REPLICAS, EACH, RATE = 3, 4, 0.1
OPTIONS = ["--machine", "host:3x1", "--strategy", "single", "--optimizer", "momentum", "--learning-rate", str(RATE)]


class Rule:
    """Replicas of local gradient descent with momentum 0.9, and the keeper's Nesterov's momentum on the mean of moves."""

    def __init__(self, first, local, overlap, rate, momentum, eight_bits):
        self.local, self.overlap, self.rate, self.momentum, self.eight_bits = local, overlap, rate, momentum, eight_bits
        zeros = lambda: {name: numpy.zeros_like(value) for name, value in first.items()}
        self.version, self.outer = dict(first), zeros()
        self.own = [dict(first) for _ in range(REPLICAS)]
        self.base = [dict(first) for _ in range(REPLICAS)]  # the version that it has seen last
        self.gave = [None] * REPLICAS                       # where it was when it gave
        self.velocity, self.errors = [zeros() for _ in range(REPLICAS)], [zeros() for _ in range(REPLICAS)]
        self.since, self.behind = 0, False
        self.least = {name: numpy.inf for name in first}

    def step(self, gradients):
        for own, velocity, given in zip(self.own, self.velocity, gradients):
            for name in own:
                velocity[name] = 0.9 * velocity[name] + given[name]
                own[name] = own[name] - RATE * velocity[name]
        self.since += 1
        if self.behind and self.since == self.overlap:
            self.merge()
        if self.since == self.local:
            self.exchange()
            self.behind = True

    def merge(self):
        for replica in range(REPLICAS):
            self.own[replica] = {name: self.version[name] + (value - self.gave[replica][name])
                                 for name, value in self.own[replica].items()}
            self.base[replica] = dict(self.version)
        self.behind = False

    def exchange(self):
        for name in self.version:
            moves = [base[name] - own[name] for base, own in zip(self.base, self.own)]
            if self.eight_bits:
                whole = [move + error[name] for move, error in zip(moves, self.errors)]
                scales = [numpy.max(numpy.abs(move)) / 127 for move in whole]
                moves = [numpy.rint(move / scale) * scale for move, scale in zip(whole, scales)]
                for error, move, sent in zip(self.errors, whole, moves):
                    error[name] = move - sent
            mean = sum(moves) / REPLICAS
            self.least[name] = min([self.least[name],
                                    *(float(numpy.max(numpy.abs(move))) * self.rate / REPLICAS for move in moves)])
            self.outer[name] = self.momentum * self.outer[name] + mean
            self.version[name] = self.version[name] - self.rate * (mean + self.momentum * self.outer[name])
        self.gave = [dict(own) for own in self.own]
        self.since = 0

    def read(self):
        """Somebody reads the parameters: all that was computed is in the version, with which all go on."""
        if self.since != 0:
            if self.behind:
                self.merge()
            self.exchange()
        self.own, self.base = ([dict(self.version) for _ in range(REPLICAS)] for _ in range(2))
        self.behind = False


def torch_checks(path):
    import torch

    checks, epochs, count = Checks(), 4, 62  # five steps an epoch, so that epochs end anywhere in a cycle
    data, steps = path.data(count), count // (REPLICAS * EACH)
    x = torch.tensor(numpy.load(path("x.npy"))[:, None].astype(numpy.float32) / 255)
    labels = torch.tensor(numpy.load(path("l.npy")).astype(numpy.int64))
    run([], "zoo", "lenet", "--batch", str(REPLICAS * EACH), "-o", path("lenet.onnx"))
    for text, local, overlap, rate, momentum in (
            ("local:4,overlap=1", 4, 1, 0.7, 0.9), ("local:4,overlap=2", 4, 2, 0.7, 0.9),
            ("local:4,overlap=3,outer-rate=1,outer-momentum=0", 4, 3, 1, 0),
            ("local:2,overlap=1,outer-rate=0.5,outer-momentum=0.5", 2, 1, 0.5, 0.5),
            ("local:3,overlap=2,dtype=int8", 3, 2, 0.7, 0.9)):
        plan = compile_plan(path("lenet.onnx"), path("a.plan"), *OPTIONS, "--sync", text)
        run([], "train", plan, *data, "--epochs", "0", "--eval", *data[1:2], "--eval", *data[3:4], "--export", path("first.npz"))
        for every in (0, 3):
            kept = ["--checkpoint", path("c-" + text), "--checkpoint-every", str(every)] if every else []
            run([], "train", plan, *data, "--epochs", str(epochs), "--seed", "5", *kept, "--export", path("a.npz"), "--json",
                path("a.json"), "--json-steps")
            rule, losses = Rule(dict(numpy.load(path("first.npz"))), local, overlap, rate, momentum, "int8" in text), []
            for epoch in range(epochs):
                order = random_order(count, 5, epoch)
                for step in range(steps):
                    found = []
                    for replica in range(REPLICAS):
                        batch = step * REPLICAS + replica
                        which = order[batch * EACH:(batch + 1) * EACH]
                        found.append(gradient(rule.own[replica], x[which], labels[which]))
                    losses.append(sum(loss for loss, _ in found) / REPLICAS)
                    rule.step([gradients for _, gradients in found])
                    if every and (epoch * steps + step + 1) % every == 0:
                        rule.read()
            rule.read()
            subject = f"{text}{f', read every {every} steps' if every else ''}"
            with open(path("a.json"), encoding="utf-8") as file:
                seen = [step["loss"] for step in json.load(file)["steps"]]
            checks.add(len(seen) == len(losses), f"{subject}: {len(losses)} steps", cleave("--version"))
            checks.close(f"{subject}: largest difference of a loss",
                         max(abs(one - other) for one, other in zip(seen, losses)), 0, 2e-3 if "int8" in text else 2e-4)
            for name, value in numpy.load(path("a.npz")).items():
                # A rectifier whose input is zero but for rounding may be on here and off there.
                error = float(numpy.quantile(numpy.abs(value - rule.version[name]), 0.98))
                checks.close(f"{subject}: {name}, but for one element in fifty", error, 0, 0.03 * rule.least[name])
    checks.report()


def same(path):
    checks = Checks()
    run([], "zoo", "lenet", "--batch", "32", "-o", path("lenet.onnx"))
    data = path.data(320)
    options = ["--machine", "host:4x1", *OPTIONS[2:]]
    for sync in ("local:4,overlap=1", "local:3,overlap=2,dtype=int8", "local:7,overlap=6"):
        plan = compile_plan(path("lenet.onnx"), path("a.plan"), *options, "--sync", sync)

        def train(name, *arguments, ranks=1, plan=plan):
            words = ["train", plan, *data, "--seed", "2", *arguments, "--export", path(name + ".npz")]
            return mpirun(ranks, *words) if ranks > 1 else cleave(*words)

        def equal(result, text, sync=sync):
            found = result.code == 0 and differing(path("a.npz"), path("b.npz"))
            checks.add(result.code == 0 and not found, f"{sync}: {text}: {found or 'equal'}", result)

        train("a", "--epochs", "2", "--record", path("record"))
        equal(train("b", "--epochs", "2", "--try-replica", "2:slow=4"), "with a straggler")
        equal(train("b", "--epochs", "2", "--try-replica", "1:slow=3", "--replay", path("record")), "from its record")
        if shutil.which("mpirun"):
            for ranks in (2, 4):
                equal(train("b", "--epochs", "2", "--record", path("again"), "--try-replica", "3:slow=3", ranks=ranks),
                      f"in {ranks} processes")
                equal(train("b", "--epochs", "2", "--replay", path("again")), f"a record of {ranks} processes")
        train("a", "--epochs", "2", "--checkpoint-every", "5", "--checkpoint", path("c-" + sync))
        again = ["--checkpoint-every", "5", "--checkpoint", path("d-" + sync), "--resume"]
        train("b", "--steps", "10", *again)
        train("b", "--steps", "15", *again, ranks=2 if shutil.which("mpirun") else 1)
        equal(train("b", "--epochs", "2", *again), "from checkpoints")
        # A record of a run that was cut off.
        lines = open(path("record"), encoding="utf-8").read().split("\n")
        with open(path("cut"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines[:len(lines) * 2 // 3]))
        for name in ("a", "b"):
            result = train(name, "--epochs", "2", "--replay", path("cut"))
        equal(result, "a record that ends early")
        # Another overlap is another run.
        other = compile_plan(path("lenet.onnx"), path("o.plan"), *options, "--sync", re.sub(r"local:\d+,overlap=\d", "local:9", sync))
        result = cleave("train", other, *data, "--seed", "2", "--epochs", "2", "--replay", path("record"))
        checks.add(result.code == 1 and "--replay expects the record" in result.errors, "another record is refused", result)
    checks.report()


def slow(path):
    checks = Checks()
    run([], "zoo", "lenet", "--batch", "32", "-o", path("lenet.onnx"))
    data = path.data(320)
    plan = compile_plan(path("lenet.onnx"), path("a.plan"), "--machine", "host:4x1", *OPTIONS[2:], "--sync", "local:3,overlap=2")
    # Before an exchange (after steps 3, 6, 9), beside it, and after it has been merged (two steps later).
    for ranks in (1, 4) if shutil.which("mpirun") else (1,):
        for step in (1, 9, 10, 11, 12):
            words = ["train", plan, *data, "--epochs", "2", "--try-replica", f"2:fail={step}"]
            result = mpirun(ranks, *words) if ranks > 1 else cleave(*words)
            checks.add(result.code == 1 and f"fails in its step {step}" in result.errors and result.errors.count("error:") == 1,
                       f"a replica that fails in step {step} in {ranks} processes ends the run", result)
    with open(path("slow.yaml"), "w", encoding="utf-8") as file:
        file.write(hosts_machine(1, bandwidth="100 Mb/s", latency="20 ms"))

    def predicted(sync):
        plan = compile_plan(path("lenet.onnx"), path("s.plan"), "--machine", path("slow.yaml"), *OPTIONS[2:], "--sync", sync)
        return float(re.search(r"predicted: ([0-9.]+) ms a step of the run", run([], "simulate", plan).output)[1])

    whole, never = predicted("local:64"), predicted("local:512")
    hidden = [predicted(f"local:64,overlap={steps}") for steps in (1, 8, 63)]
    checks.add(whole > hidden[0] > hidden[1] > hidden[2], f"steps hide a slow link: {whole} ms, then {hidden}", cleave("--version"))
    checks.add(hidden[2] < 1.05 * never, f"all of it, against {never} ms with next to none", cleave("--version"))
    base = ["compile", path("lenet.onnx"), "--train", "--loss", "cross-entropy", "--machine", "host:4x1", "-o", path("x.plan")]
    for sync, text in (("local:4,overlap=4", "an overlap of fewer steps than the 4 from one exchange to the next, got 4"),
                       ("local:auto,overlap=512", "fewer steps than the 512"), ("local:4,overlap=x", "overlap"),
                       ("local:4,overlap=-1", "overlap")):
        result = cleave(*base, "--sync", sync)
        checks.add(result.code == USAGE and text in result.errors, f"refused: {sync}", result)
    result = cleave(*base, "--sync", "local:auto,overlap=3")
    chosen = re.search(r"local:auto is local:(\d+):.*with an exchange every 4 steps", result.errors)
    checks.add(result.code == 0 and chosen and int(chosen[1]) > 3, "local:auto leaves room for the overlap", result)
    checks.report()


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"torch": torch_checks, "same": same, "slow": slow}[sys.argv[1]](Folder(folder))


if __name__ == "__main__":
    main()
