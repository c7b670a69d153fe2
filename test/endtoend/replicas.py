# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Replicas that do not wait for each other (compile --sync). `together`: with a bound of 0 they train as the synchronous
# plan does, bit by bit, for random models, optimizers and ways to divide a replica. `torch`: versions, and local steps
# with an outer optimizer, as PyTorch computes them from the run's record. `replay COUNT`: random runs with stragglers,
# repeated from their records bit by bit, in one process and in several. `kept`: checkpoints, a replica that fails, a signal, and what is refused.
# `killed`: runs that are killed again and again go on from whole checkpoints, and their records are repeated.

import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cleave_process import USAGE, Checks, cleave, mpirun, program, report
from train_lenet import generated, random_order, run, torch_model

import numpy


def hosts_machine(devices, bandwidth="1 Gb/s", latency="1 ms", hosts=2):
    """A machine file of equal hosts, whose devices are cores, and a network between them."""
    return f"""name: hosts
device_kinds:
  core: {{ driver: cpu, cores: 1, memory: 4 GiB, bandwidth: 20 GB/s, peak: {{ f32: 80 GFLOP/s }} }}
hosts:
  - {{ count: {hosts}, devices: [ {{ kind: core, count: {devices} }} ] }}
network: {{ bandwidth: {bandwidth}, latency: {latency} }}
"""


def compile_plan(model, plan, *options):
    run([], "compile", model, "--train", "--loss", "cross-entropy", *options, "-o", plan)
    return plan


def differing(one, two):
    """Parameters that differ in some bit."""
    one, two = numpy.load(one), numpy.load(two)
    assert sorted(one.files) == sorted(two.files)
    return [name for name in one.files if one[name].tobytes() != two[name].tobytes()]


class Folder:
    def __init__(self, folder):
        self.folder = folder

    def __call__(self, name):
        return os.path.join(self.folder, name)

    def data(self, count):
        """Images for LeNet."""
        images, labels = generated(count, 1)
        numpy.save(self("x.npy"), images)
        numpy.save(self("l.npy"), labels)
        return ["--data", f"@0={self('x.npy')}", "--data", f"labels={self('l.npy')}"]


def random_model(path, chance):
    """A model of the zoo, and data for it; what it is."""
    batch = 16
    kind = chance.choice(["mlp", "mlp", "lenet", "lenet", "gpt"])
    numbers = numpy.random.default_rng(chance.randrange(1 << 30))
    count = batch * 4
    if kind == "mlp":
        sizes = {"layers": chance.randint(2, 4), "inputs": chance.choice([12, 31]), "hidden": chance.choice([24, 40]),
                 "classes": 10}
        x = numbers.standard_normal((count, sizes["inputs"])).astype(numpy.float32)
    elif kind == "lenet":
        sizes, x = {}, generated(count, 1)[0]
    else:
        sizes = {"layers": 2, "hidden": 32, "heads": 2, "sequence": 8, "vocabulary": 20}
        x = numbers.integers(0, 20, (count, 8))
    labels = numbers.integers(0, 10, (count, 8) if kind == "gpt" else count)
    run([], "zoo", kind, "--batch", str(batch), *(f"--{name}={value}" for name, value in sizes.items()), "-o",
        path("m.onnx"))
    numpy.save(path("x.npy"), x)
    numpy.save(path("l.npy"), labels)
    return f"{kind} {sizes}", ["--data", f"@0={path('x.npy')}", "--data", f"labels={path('l.npy')}"]


# How a replica is divided: the options of the replica, and those of a synchronous plan in which two of them are its
# parts.
WAYS = {
    "single": (2, ["--strategy", "single"], ["--strategy", "data"]),
    "microbatches": (2, ["--strategy", "single", "--microbatches", "2", "--recompute", "full"],
                     ["--strategy", "data", "--microbatches", "2", "--recompute", "full"]),
    "tensor": (4, ["--strategy", "tensor", "--degrees", "model=2"], ["--strategy", "tensor", "--degrees", "data=2,model=2"]),
    "pipeline": (4, ["--strategy", "auto", "--degrees", "data=1,model=1,pipeline=2", "--microbatches", "2"],
                 ["--strategy", "auto", "--degrees", "data=2,model=1,pipeline=2", "--microbatches", "2"]),
}


def together(path):
    seed = int(os.environ.get("CLEAVE_SEED", random.randrange(1 << 32)))
    chance, checks = random.Random(seed), Checks()
    print(f"seed {seed}")
    for number in range(10):
        model, data = random_model(path, chance)
        optimizer = chance.choice(["sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw"])
        options = ["--batch", "16", "--optimizer", optimizer, "--learning-rate", "0.02"]
        if chance.random() < 0.3:
            options += ["--clip-norm", "0.05"]
        for way, (devices, own, whole) in WAYS.items():
            # Rows of an embedding's gradient are joined by how many a step has, so that they are added in another order.
            if way == "pipeline" and model.startswith("gpt"):
                continue
            machine = ["--machine", f"host:{devices}x1"]
            plan = compile_plan(path("m.onnx"), path("a.plan"), *machine, *options, *own, "--sync", "ssp:0", "--replicas", "2")
            run([], "train", plan, *data, "--epochs", "2", "--export", path("a.npz"))
            plan = compile_plan(path("m.onnx"), path("s.plan"), *machine, *options, *whole, "--zero", "0")
            result = run([], "train", plan, *data, "--epochs", "2", "--export", path("s.npz"))
            other = differing(path("a.npz"), path("s.npz"))
            checks.add(not other, f"{number} {model}, {' '.join(options)}, {way}: {other or 'equal'}", result)
    checks.report()


def steps_of(record):
    """The rounds of a record: lists of ("begin", replica, batch, version) and ("apply", replica)."""
    rounds = []
    with open(record, encoding="utf-8") as file:
        next(file)
        for line in file:
            what, *numbers = line.split()
            numbers = list(map(int, numbers))
            if what == "round":
                rounds.append((numbers, []))
            else:
                rounds[-1][1].append((what, *numbers))
    return rounds


def gradient(weights, x, labels):
    """The loss and its gradient by name."""
    import torch

    parameters, forward = torch_model(weights)
    loss = torch.nn.functional.cross_entropy(forward(x), labels)
    loss.backward()
    return loss.item(), {name: value.grad.numpy() for name, value in parameters.items()}


def check_weights(checks, subject, file, wanted, least):
    """Trained parameters are those of PyTorch to within 3 % of the least that a gift moved each. A gradient that is lost, or
    of another version, moves nearly all elements. Where a rectifier's input is zero but for rounding, it may be on here and
    off there: that moves one unit's, which are less than one in fifty."""
    for name, value in numpy.load(file).items():
        error = float(numpy.quantile(numpy.abs(value - wanted[name]), 0.98))
        checks.close(f"{subject}: {name}, but for one element in fifty", error, 0, 0.03 * least[name])


def torch_checks(path):
    """Three replicas of four samples each."""
    import torch

    checks, replicas, each, epochs, rate = Checks(), 3, 4, 2, 0.1
    data = path.data(50)
    x = torch.tensor(numpy.load(path("x.npy"))[:, None].astype(numpy.float32) / 255)
    labels = torch.tensor(numpy.load(path("l.npy")).astype(numpy.int64))
    run([], "zoo", "lenet", "--batch", "12", "-o", path("lenet.onnx"))
    options = ["--machine", "host:3x1", "--strategy", "single", "--optimizer", "sgd", "--learning-rate", str(rate)]
    for sync in ("ssp:1", "ssp:inf"):
        plan = compile_plan(path("lenet.onnx"), path("a.plan"), *options, "--sync", sync)
        run([], "train", plan, *data, "--epochs", "0", "--eval", *data[1:2], "--eval", *data[3:4], "--export", path("first.npz"))
        run([], "train", plan, *data, "--epochs", str(epochs), "--seed", "5", "--try-replica", "1:slow=3", "--record",
            path("record"), "--export", path("a.npz"))
        weights, seen = dict(numpy.load(path("first.npz"))), set()
        least = {name: numpy.inf for name in weights}  # what a gift moves a parameter by at least
        for (epoch, sample, batches), events in steps_of(path("record")):
            order, versions, working = random_order(len(labels), 5, epoch)[sample:], [weights], {}
            for what, replica, *rest in events:
                if what == "begin":
                    batch, version = rest
                    seen.add((epoch, batch))
                    which = order[batch * each:(batch + 1) * each]
                    _, gradients = gradient(versions[version], x[which], labels[which])
                    working[replica] = gradients
                else:
                    gifts = working.pop(replica)
                    for name, gift in gifts.items():
                        least[name] = min(least[name], rate / replicas * float(numpy.max(numpy.abs(gift))))
                    versions.append({name: value - rate * gifts[name] / replicas for name, value in versions[-1].items()})
            weights = versions[-1]
        checks.add(len(seen) == epochs * (len(labels) // (replicas * each)) * replicas, f"{sync}: every batch once",
                   cleave("--version"))
        check_weights(checks, sync, path("a.npz"), weights, least)
    # Local steps with momentum, and Nesterov's on their mean (DiLoCo). Eight steps in two epochs: an epoch's end is an
    # exchange only where somebody reads the parameters there, the run's end is one.
    for text, local, outer, momentum in (("local:3", 3, 0.7, 0.9), ("local:1,outer-rate=1,outer-momentum=0", 1, 1, 0),
                                         ("local:2,outer-rate=0.5,outer-momentum=0.8", 2, 0.5, 0.8),
                                         ("local:2,dtype=int8", 2, 0.7, 0.9)):
        plan = compile_plan(path("lenet.onnx"), path("l.plan"), *options[:-4], "--optimizer", "momentum",
                            "--learning-rate", str(rate), "--sync", text)
        steps = len(labels) // (replicas * each)
        for reads in (False, True):
            kept = ["--checkpoint", path("c-" + text)] if reads else []
            run([], "train", plan, *data, "--epochs", str(epochs), "--seed", "5", "--export", path("l.npz"), "--json",
                path("l.json"), *kept)
            weights = dict(numpy.load(path("first.npz")))
            least = {name: numpy.inf for name in weights}
            velocity = [{name: numpy.zeros_like(value) for name, value in weights.items()} for _ in range(replicas)]
            outer_velocity = {name: numpy.zeros_like(value) for name, value in weights.items()}
            errors = [{name: numpy.zeros_like(value) for name, value in weights.items()} for _ in range(replicas)]
            own, since, exchanges = [dict(weights) for _ in range(replicas)], 0, 0
            for epoch, step in itertools.product(range(epochs), range(steps)):
                order = random_order(len(labels), 5, epoch)
                for replica in range(replicas):
                    batch = step * replicas + replica
                    which = order[batch * each:(batch + 1) * each]
                    _, gradients = gradient(own[replica], x[which], labels[which])
                    for name in weights:
                        velocity[replica][name] = 0.9 * velocity[replica][name] + gradients[name]
                        own[replica][name] = own[replica][name] - rate * velocity[replica][name]
                since, isLast = since + 1, step == steps - 1 and (reads or epoch == epochs - 1)
                if since != local and not isLast:
                    continue
                for name in weights:
                    least[name] = min([least[name], *(float(numpy.max(numpy.abs(weights[name] - one[name]))) * outer / replicas
                                                      for one in own)])
                    moved = [weights[name] - one[name] for one in own]
                    if "int8" in text:
                        # What rounding takes away is added to the next move.
                        whole = [move + error[name] for move, error in zip(moved, errors)]
                        scales = [numpy.max(numpy.abs(move)) / 127 for move in whole]
                        moved = [numpy.rint(move / scale) * scale for move, scale in zip(whole, scales)]
                        for error, move, sent in zip(errors, whole, moved):
                            error[name] = move - sent
                    mean = sum(moved) / replicas
                    outer_velocity[name] = momentum * outer_velocity[name] + mean
                    weights[name] = weights[name] - outer * (mean + momentum * outer_velocity[name])
                own, since, exchanges = [dict(weights) for _ in range(replicas)], 0, exchanges + 1
            subject = f"{text}{', with checkpoints' if reads else ''}"
            check_weights(checks, subject, path("l.npz"), weights, least)
            with open(path("l.json"), encoding="utf-8") as file:
                exchanged = json.load(file)["exchanged_bytes"]
            # Each replica takes all parameters and gives as much.
            whole = sum(value.nbytes for value in weights.values())
            wanted = exchanges * replicas * (whole + (whole // 4 + 4 * len(weights) if "int8" in text else whole))
            checks.close(f"{subject}: bytes exchanged", exchanged, wanted, 0)
    # A schedule that is given to train counts steps, as one that is compiled does, though each step makes three versions.
    scheduled = ["--learning-rate", "0.1", "--lr-schedule", "step:2:0.5"]
    asked = compile_plan(path("lenet.onnx"), path("a.plan"), *options[:-2], *scheduled, "--sync", "ssp:1")
    other = compile_plan(path("lenet.onnx"), path("o.plan"), *options[:-2], "--learning-rate", "0.7", "--sync", "ssp:1")
    run([], "train", asked, *data, "--epochs", "2", "--record", path("record"), "--export", path("a.npz"))
    last = run([], "train", other, *data, "--epochs", "2", *scheduled, "--replay", path("record"), "--export", path("o.npz"))
    checks.add(not differing(path("a.npz"), path("o.npz")), "a schedule given to train", last)
    checks.report()


def replay(path, count):
    seed = int(os.environ.get("CLEAVE_SEED", random.randrange(1 << 32)))
    chance, checks = random.Random(seed), Checks()
    print(f"seed {seed}")
    for number in range(count):
        model, data = random_model(path, chance)
        replicas, sync = chance.choice([2, 4]), chance.choice(["ssp:0", "ssp:1", "ssp:3", "ssp:10", "ssp:inf", "local:3",
                                                                "local:3,overlap=2"])
        optimizer = chance.choice(["sgd", "momentum", "adam"])
        plan = compile_plan(path("m.onnx"), path("a.plan"), "--machine", f"host:{replicas}x1", "--strategy", "single",
                            "--optimizer", optimizer, "--learning-rate", "0.05", "--sync", sync)
        # With local steps an evaluation is an exchange.
        data += chance.choice([[], ["--eval", data[1], "--eval", data[3]]])
        slow = lambda: ["--try-replica", f"{chance.randrange(replicas)}:slow={chance.choice([1.5, 2, 5])}"]

        def train(*arguments):
            """In one process or several: how many, and what came of it."""
            ranks = chance.choice([1, 2, replicas] if shutil.which("mpirun") else [1])
            words = ["train", plan, *data, "--epochs", "2", *slow(), *arguments]
            result = run([], *words) if ranks == 1 else mpirun(ranks, *words)
            if result.code != 0:
                report([(f"{number} {model}, {sync} in {ranks} processes", result)], 0)
            return ranks, result

        ranks, _ = train("--record", path("record"), "--export", path("a.npz"), "--json", path("a.json"))
        # Others are slow now.
        ranks_again, result = train("--replay", path("record"), "--export", path("b.npz"), "--record", path("again"),
                                    "--json", path("b.json"))
        other = differing(path("a.npz"), path("b.npz"))
        losses = [[epoch["loss"] for epoch in json.load(open(path(name), encoding="utf-8"))["epochs"]]
                  for name in ("a.json", "b.json")]
        fine = not other and numpy.allclose(*losses, rtol=1e-12, atol=0)
        checks.add(fine, f"{number} {model}, {replicas} replicas in {ranks} and {ranks_again} processes, {sync}, {optimizer}: "
                   f"{other or 'equal'}", result)
        bound = re.fullmatch(r"ssp:(\d+)", sync)
        ahead = json.load(open(path("a.json"), encoding="utf-8"))["steps_ahead"]
        if bound:
            checks.add(len(ahead) - 1 <= int(bound[1]), f"{number} steps ahead {ahead} within {sync}", result)
    checks.report()


def kept(path):
    checks, data = Checks(), path.data(320)
    run([], "zoo", "lenet", "--batch", "32", "-o", path("lenet.onnx"))
    options = ["--machine", "host:4x1", "--strategy", "single", "--optimizer", "momentum", "--learning-rate", "0.05"]
    # What every replica keeps for itself, and the keeper's, goes on from a checkpoint bit by bit.
    for sync in ("ssp:0", "local:2", "local:2,dtype=int8"):
        plan = compile_plan(path("lenet.onnx"), path("p.plan"), *options, "--sync", sync)
        train = ["train", plan, *data, "--seed", "2", "--checkpoint-every", "4"]
        run([], *train, "--epochs", "2", "--checkpoint", path("c-" + sync), "--export", path("whole.npz"))
        run([], *train, "--steps", "8", "--checkpoint", path("d-" + sync))
        result = run([], *train, "--epochs", "2", "--checkpoint", path("d-" + sync), "--resume", "--export",
                     path("parts.npz"))
        checks.add(not differing(path("whole.npz"), path("parts.npz")), f"{sync} goes on from a checkpoint", result)
    # What a replica keeps is not lost where there are others, more or fewer.
    for replicas, text in (("2", "more replicas"), ("8", "its own")):
        plan = compile_plan(path("lenet.onnx"), path("p.plan"), "--machine", f"host:{replicas}x1", *options[2:], "--sync",
                            "local:2")
        result = cleave("train", plan, *data, "--epochs", "3", "--checkpoint", path("c-local:2"), "--resume")
        checks.add(result.code == 1 and text in result.errors, f"{replicas} replicas do not go on from four", result)
    # A loss that is no number ends a run, and nothing is written after it.
    plan = compile_plan(path("lenet.onnx"), path("p.plan"), *options[:-4], "--optimizer", "sgd", "--learning-rate", "1e8",
                        "--sync", "ssp:2")
    result = cleave("train", plan, *data, "--epochs", "3", "--checkpoint", path("n"))
    checks.add(result.code == 1 and "finite losses" in result.errors and not any(
        name.startswith("step-") for name in os.listdir(path("n"))), "a loss that is no number ends a run", result)
    plan = compile_plan(path("lenet.onnx"), path("a.plan"), *options, "--sync", "ssp:2")
    train = ["train", plan, *data]
    # A replica that fails is named, and the last checkpoint is whole.
    result = cleave(*train, "--epochs", "3", "--try-replica", "2:fail=14", "--checkpoint", path("f"))
    checks.add(result.code == 1 and "replica 2 (cpu2)" in result.errors, "a replica that fails is named", result)
    result = run([], *train, "--epochs", "3", "--checkpoint", path("f"), "--resume", "--json", path("r.json"))
    answer = json.load(open(path("r.json"), encoding="utf-8"))
    checks.add(answer["resumed_from"] == 10 and answer["steps_done"] == 20, "and training goes on behind it", result)
    # The others do its batches.
    result = run([], *train, "--epochs", "1", "--try-replica", "2:fail=4", "--lost-replica", "go-on", "--record",
                 path("record"), "--json", path("r.json"))
    (_, events), = steps_of(path("record"))
    given = {replica: batch for what, replica, *rest in events if what == "begin" for batch in rest[:1]}
    applied, at = [], {}
    for what, replica, *rest in events:
        if what == "begin":
            at[replica] = rest[0]
        elif what == "apply":
            applied.append(at[replica])
    checks.add(sorted(applied) == list(range(40)) and given, "the others do the batches of one that is lost", result)
    checks.add("notice: replica 2 (cpu2) fails in its step 4" in result.errors and "the others go on" in result.errors,
               "which says so", result)
    run([], *train, "--epochs", "2", "--try-replica", "2:fail=4", "--lost-replica", "go-on", "--record", path("record"),
        "--export", path("a.npz"))
    result = run([], *train, "--epochs", "2", "--replay", path("record"), "--export", path("b.npz"))
    checks.add(not differing(path("a.npz"), path("b.npz")), "which is repeated", result)
    # A signal ends between steps, with a checkpoint.
    process = subprocess.Popen([program(), *train, "--epochs", "100000", "--checkpoint", path("s")],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not os.path.isdir(path("s")) or not any(name.startswith("step-") for name in os.listdir(path("s"))):
        if time.monotonic() > deadline or process.poll() is not None:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    result = run([], *train, "--epochs", "0", "--eval", *data[1:2], "--eval", *data[3:4], "--checkpoint", path("s"), "--resume")
    checks.add("SIGTERM has ended training after step" in errors, "a signal ends with a checkpoint", result)
    # What makes no sense.
    base = ["compile", path("lenet.onnx"), "--train", "--loss", "cross-entropy", "-o", path("x.plan")]
    four = ["--machine", "host:4x1"]
    for arguments, text in (
            ([*four, "--sync", "ssp:x"], "ssp expects a number of steps"),
            ([*four, "--sync", "bsp"], "expects ssp:S, ssp:inf or local:H"),
            ([*four, "--sync", "local:0"], "local expects a number of steps or auto"),
            ([*four, "--sync", "local:4,rate=1"], "knows no option"),
            ([*four, "--sync", "local:4,dtype=int4"], "expects dtype=f32, bf16 or int8"),
            ([*four, "--sync", "ssp:2", "--replicas", "3"], "divisor of the machine's 4 devices"),
            (["--machine", "host:1x1", "--sync", "ssp:2"], "at least two replicas"),
            ([*four, "--sync", "ssp:2", "--zero", "1"], "does not go with --zero"),
            ([*four, "--sync", "ssp:2", "--batch-norm", "synchronized"], "does not go with --batch-norm synchronized"),
            ([*four, "--sync", "ssp:2", "--batch", "30"], "multiple of the 4 replicas"),
            ([*four, "--replicas", "2"], "--replicas expects --sync")):
        result = cleave(*base, *arguments)
        checks.add(result.code == USAGE and text in result.errors and not os.path.exists(path("x.plan")),
                   f"refused: {' '.join(arguments)}", result)
    for arguments, code, text in (
            ([*train, "--replay", path("record"), "--seed", "1", "--epochs", "1"], 1, "--replay expects the record"),
            ([*train, "--replay", path("missing"), "--epochs", "1"], 1, "cannot be read"),
            ([*train, "--replay", path("l.npy"), "--epochs", "1"], 4, "line 1"),
            ([*train, "--try-replica", "4:slow=2"], USAGE, "--try-replica expects"),
            ([*train, "--trace", path("t.json")], 3, "--trace does not go with"),
            ([*train, "--record", path("none/record")], 1, "")):
        result = cleave(*arguments)
        checks.add(result.code in (code, USAGE) and text in result.errors, f"refused: {' '.join(arguments[6:])}", result)
    checks.report()


def kill(chance, arguments, folder):
    """Starts a run, lets it go on for a while behind its next checkpoint, and kills it. Whether it was still running."""
    before = set(os.listdir(folder)) if os.path.isdir(folder) else set()
    process = subprocess.Popen([program(), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if os.path.isdir(folder) and any(name.startswith("step-") for name in set(os.listdir(folder)) - before):
            break
        time.sleep(0.005)
    time.sleep(chance.uniform(0, 0.1))
    wasRunning = process.poll() is None
    process.kill()
    process.wait()
    return wasRunning


def killed(path):
    seed = int(os.environ.get("CLEAVE_SEED", random.randrange(1 << 32)))
    chance, checks, data = random.Random(seed), Checks(), path.data(320)
    print(f"seed {seed}")
    run([], "zoo", "lenet", "--batch", "32", "-o", path("lenet.onnx"))
    options = ["--machine", "host:4x1", "--strategy", "single", "--optimizer", "momentum", "--learning-rate", "0.05"]
    for sync in ("ssp:0", "ssp:2", "ssp:inf", "local:3", "local:3,overlap=1"):
        plan = compile_plan(path("lenet.onnx"), path("k.plan"), *options, "--sync", sync)
        train = ["train", plan, *data, "--seed", "2", "--epochs", "10", "--checkpoint-every", "4"]
        folder, slow = path("k-" + sync), ["--try-replica", "1:slow=8"]
        kills = sum(kill(chance, [*train, *slow, "--checkpoint", folder, *(["--resume"] if number else []), "--record",
                                  path("record")], folder) for number in range(3))
        result = run([], *train, "--checkpoint", folder, "--resume", "--json", path("k.json"), "--export", path("k.npz"))
        answer = json.load(open(path("k.json"), encoding="utf-8"))
        checks.add(kills >= 1 and answer["resumed_from"] % 4 == 0 and answer["resumed_from"] + answer["steps_done"] == 100,
                   f"{sync}: killed {kills} times, went on from step {answer['resumed_from']}", result)
        # Where all step together the order is the run's, however often it was killed.
        if sync == "ssp:0" or sync.startswith("local"):
            run([], *train, "--checkpoint", path("w-" + sync), "--export", path("w.npz"))
            other = differing(path("k.npz"), path("w.npz"))
            checks.add(not other, f"{sync}: the same as a run that was not killed: {other or 'equal'}", result)
    # What a killed run has written of its record is repeated.
    plan = compile_plan(path("lenet.onnx"), path("r.plan"), *options, "--sync", "ssp:3")
    train = ["train", plan, *data, "--seed", "2", "--epochs", "1000"]
    run_killed = kill(chance, [*train, "--checkpoint", path("r"), "--checkpoint-every", "4", "--record", path("first")], path("r"))
    ends = []
    for name in ("a", "b"):
        result = run([], *train, "--replay", path("first"), "--checkpoint", path("r-" + name), "--checkpoint-every", "4",
                     "--record", path("again"), "--export", path(name + ".npz"))
        ends.append([event for _, events in steps_of(path("again")) for event in events if event[0] == "apply"])
    with open(path("first"), encoding="utf-8") as file:
        applied = [line.split() for line in file.read().rpartition("\n")[0].split("\n") if line.startswith("apply")]
    checks.add(run_killed and ends[0] == ends[1] == [("apply", int(replica)) for _, replica in applied] and not differing(
        path("a.npz"), path("b.npz")), f"a killed run's record of {len(applied)} versions is repeated", result)
    checks.report()


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = Folder(folder)
        part = sys.argv[1]
        if part == "replay":
            replay(path, int(sys.argv[2]))
        {"together": together, "torch": torch_checks, "kept": kept, "killed": killed}[part](path)


if __name__ == "__main__":
    main()
