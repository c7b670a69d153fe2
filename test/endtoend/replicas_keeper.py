# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Where the parameters of replicas are kept (compile --keeper): on the first replica's devices, on devices of their own, or in
# shards on all. `together`: with a bound of 0 all train as the synchronous plan does, bit by bit, for random models, optimizers
# and ways to divide a replica. `same`: a run has the same bits wherever parameters are kept, from records and checkpoints of
# others, in several processes. `refused`: what is not to be had, by name, and what a plan says of its shards.

import json
import os
import random
import re
import shutil
import sys
import tempfile

from cleave_process import UNSUPPORTED, USAGE, Checks, cleave, mpirun
from replicas import WAYS, Folder, compile_plan, differing, hosts_machine, random_model
from train_lenet import run

import numpy

MOMENTUM = ["--optimizer", "momentum", "--learning-rate", "0.05"]


def own(devices, count):
    """The options of a plan with devices for replicas, and others for the keeper."""
    names = ",".join(f"cpu{devices + index}" for index in range(count))
    return ["--machine", f"host:{devices + count}x1", "--keeper", f"devices={names}"]


def together(path):
    seed = int(os.environ.get("CLEAVE_SEED", random.randrange(1 << 32)))
    chance, checks = random.Random(seed), Checks()
    print(f"seed {seed}")
    for number in range(6):
        model, data = random_model(path, chance)
        optimizer = chance.choice(["sgd", "momentum", "nesterov", "rmsprop", "adam", "adamw"])
        options = ["--batch", "16", "--optimizer", optimizer, "--learning-rate", "0.02"]
        for way, (devices, replica, whole) in WAYS.items():
            if way == "pipeline" and model.startswith("gpt"):
                continue
            # A norm of parts of a parameter is another sum than that of the whole, which a shard has.
            clip = ["--clip-norm", "0.05"] if way in ("single", "microbatches") and chance.random() < 0.5 else []
            plan = compile_plan(path("m.onnx"), path("s.plan"), "--machine", f"host:{devices}x1", *options, *clip, *whole,
                                "--zero", "0")
            run([], "train", plan, *data, "--epochs", "2", "--export", path("s.npz"))
            for keeper in (own(devices, 1), own(devices, 3), ["--machine", f"host:{devices}x1", "--keeper", "all"]):
                plan = compile_plan(path("m.onnx"), path("a.plan"), *keeper, *options, *clip, *replica, "--sync", "ssp:0",
                                    "--replicas", "2")
                result = run([], "train", plan, *data, "--epochs", "2", "--export", path("a.npz"))
                other = differing(path("a.npz"), path("s.npz"))
                # A norm that is added up on several devices may be rounded otherwise; adaptive optimizers make much of that
                # where a gradient is next to zero, as all of a bias of keys are: softmax takes what shifts all scores away.
                if clip and other and keeper != own(devices, 1):
                    one, two = numpy.load(path("a.npz")), numpy.load(path("s.npz"))
                    other = [name for name in other if not name.endswith("attention/key.bias") and
                             numpy.quantile(numpy.abs(one[name] - two[name]), 0.98) > 1e-4]
                checks.add(not other, f"{number} {model}, {' '.join(options + clip)}, {way}, {' '.join(keeper)}: "
                           f"{other or 'equal'}", result)
    checks.report()


def same(path):
    checks, ranks = Checks(), 4
    run([], "zoo", "lenet", "--batch", "32", "-o", path("lenet.onnx"))
    data = path.data(320)
    single = ["--strategy", "single", *MOMENTUM]
    keepers = {"first": ["--machine", "host:4x1"], "own": own(4, 2), "all": ["--machine", "host:4x1", "--keeper", "all"]}
    for sync in ("ssp:0", "ssp:2", "local:3", "local:3,overlap=2,dtype=int8"):
        plans = {name: compile_plan(path("lenet.onnx"), path(name + ".plan"), *where, *single, "--sync", sync)
                 for name, where in keepers.items()}

        def train(name, file, *arguments, processes=1, plans=plans):
            words = ["train", plans[name], *data, "--seed", "2", *arguments, "--export", path(file + ".npz"), "--json",
                     path(file + ".json")]
            return mpirun(processes, *words) if processes > 1 else cleave(*words)

        def equal(result, text, sync=sync):
            found = result.code == 0 and differing(path("a.npz"), path("b.npz"))
            checks.add(result.code == 0 and not found, f"{sync}: {text}: {found or 'equal'}", result)

        evaluates = ["--eval", data[1], "--eval", data[3], "--epochs", "2"]
        train("first", "a", *evaluates, "--record", path("record"))
        for name in ("own", "all"):
            equal(train(name, "b", *evaluates, "--replay", path("record"), "--try-replica", "1:slow=3"), f"{name} from a record")
            losses = [[epoch["eval_loss"] for epoch in json.load(open(path(file + ".json"), encoding="utf-8"))["epochs"]]
                      for file in "ab"]
            checks.close(f"{sync}: {name}: losses of evaluations", max(abs(one - other) for one, other in zip(*losses)), 0, 1e-7)
        memory = json.load(open(path("b.json"), encoding="utf-8"))["devices"]
        checks.add(len(memory) == 4, f"{sync}: memory of all devices", cleave("--version"))
        if shutil.which("mpirun"):
            for processes in (2, ranks):
                equal(train("own", "b", *evaluates, "--replay", path("record"), processes=processes), f"in {processes} processes")
            lists = [word for text in ("0,4-5", "1-3") for word in ("--devices-of-rank", text)]
            equal(train("own", "b", *evaluates, "--replay", path("record"), *lists, processes=2), "devices named")
            memory = json.load(open(path("b.json"), encoding="utf-8"))["devices"]
            checks.add([device["name"] for device in memory] == [f"cpu{index}" for index in range(6)] and
                       all(device["allocated_bytes"] > 0 for device in memory), f"{sync}: memory of all processes",
                       cleave("--version"))
        if sync == "ssp:2":
            continue
        # Parameters are the same in checkpoints, wherever they were kept.
        kept = ["--checkpoint-every", "4", "--checkpoint"]
        train("first", "a", "--epochs", "2", *kept, path("w-" + sync))
        train("first", "b", "--steps", "8", *kept, path("c-" + sync))
        train("own", "b", "--steps", "12", *kept, path("c-" + sync), "--resume")
        train("all", "b", "--steps", "16", *kept, path("c-" + sync), "--resume")
        equal(train("own", "b", "--epochs", "2", *kept, path("c-" + sync), "--resume"), "goes on from checkpoints of others")
    checks.report()


def refused(path):
    checks = Checks()
    run([], "zoo", "lenet", "--batch", "32", "-o", path("lenet.onnx"))
    data = path.data(64)
    with open(path("hosts.yaml"), "w", encoding="utf-8") as file:
        file.write(hosts_machine(2))
    base = ["compile", path("lenet.onnx"), "--train", "--loss", "cross-entropy", "--strategy", "single", "-o", path("x.plan")]
    six, sync, hosts = ["--machine", "host:6x1"], ["--sync", "ssp:2"], ["--machine", path("hosts.yaml")]
    for arguments, code, text in (
            ([*six, "--keeper", "all"], USAGE, "--keeper expects --sync"),
            ([*six, *sync, "--keeper", "cpu5"], USAGE, "--keeper expects first, all or devices="),
            ([*six, *sync, "--keeper", "devices=cpu9"], USAGE, "from cpu0 to cpu5, got \"cpu9\""),
            ([*six, *sync, "--keeper", "devices="], USAGE, "from cpu0 to cpu5, got \"\""),
            ([*six, *sync, "--keeper", "devices=cpu0,cpu1"], UNSUPPORTED, "expects the last 2 of the machine's 6 devices"),
            ([*six, *sync, "--keeper", "devices=cpu5,cpu4"], UNSUPPORTED, "in their order"),
            ([*six, *sync, "--keeper", "devices=cpu5", "--replicas", "3"], USAGE, "5 devices without those of --keeper, got 3"),
            ([*six, *sync, "--keeper", "devices=cpu1,cpu2,cpu3,cpu4,cpu5"], USAGE, "got 1 device that --keeper leaves to them"),
            ([*hosts, *sync, "--keeper", "devices=two-hosts"], USAGE, "names of the machine's devices"),
            ([*hosts, *sync, "--keeper", "all"], UNSUPPORTED, "of another one; take --keeper first")):
        result = cleave(*base, *arguments)
        checks.add(result.code == code and text in result.errors and not os.path.exists(path("x.plan")),
                   f"refused: {' '.join(arguments)}", result)
    plan = compile_plan(path("lenet.onnx"), path("a.plan"), "--machine", "host:4x1", "--strategy", "single", *sync, "--keeper",
                        "all")
    if shutil.which("mpirun"):
        result = mpirun(2, "train", plan, *data, "--epochs", "1")
        checks.add(result.code == UNSUPPORTED and 'device "cpu2", which keeps parameters, expects to be in rank 0' in
                   result.errors and "--keeper first" in result.errors, "shards of other processes are refused", result)
        plan = compile_plan(path("lenet.onnx"), path("b.plan"), *own(4, 2), "--strategy", "single", *sync)
        lists = [word for text in ("0-3", "4-5") for word in ("--devices-of-rank", text)]
        result = mpirun(2, "train", plan, *data, "--epochs", "1", *lists)
        checks.add(result.code == UNSUPPORTED and 'device "cpu4", which keeps parameters' in result.errors and
                   "--devices-of-rank" in result.errors, "a keeper in another process is refused", result)
    # Shards are as large as each other, as far as whole parameters go, and all that the keeper of all has.
    run([], "zoo", "mlp", "--layers", "6", "--inputs", "512", "--hidden", "512", "--classes", "512", "--batch", "8", "-o",
        path("mlp.onnx"))
    plan = compile_plan(path("mlp.onnx"), path("m.plan"), *own(2, 3), "--strategy", "single", *sync, *MOMENTUM)
    text = run([], "explain", plan).output
    shards = re.findall(r"(cpu\d) \(([0-9.]+) MiB\)", re.search(r"kept in shards on (.*)", text)[1])
    sizes = [float(size) for _, size in shards]
    # Six layers of 512 x 512 weights of four bytes, with as much momentum: two layers and 4 MiB a shard.
    checks.add([name for name, _ in shards] == ["cpu2", "cpu3", "cpu4"] and all(4 <= size < 4.1 for size in sizes),
               f"shards are balanced: {shards}", cleave("--version"))
    # They update their parameters at the same time.
    times = {}
    for count, names in ((1, "core.2"), (3, "core.2,core.3,core.4")):
        with open(path("one.yaml"), "w", encoding="utf-8") as file:
            file.write(hosts_machine(2 + count, hosts=1))
        plan = compile_plan(path("mlp.onnx"), path("m.plan"), "--machine", path("one.yaml"), "--keeper", f"devices={names}",
                            "--strategy", "single", *sync, *MOMENTUM)
        found = re.search(r"([0-9.]+) (us|ms)", run([], "explain", plan, "--entry", "apply").output)
        times[count] = float(found[1]) * (1e3 if found[2] == "ms" else 1)
    checks.add(times[3] < 0.5 * times[1], f"three shards take {times[3]} us, one takes {times[1]} us", cleave("--version"))
    checks.report()


def main():
    with tempfile.TemporaryDirectory() as folder:
        {"together": together, "same": same, "refused": refused}[sys.argv[1]](Folder(folder))


if __name__ == "__main__":
    main()
