# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Replicas in processes of their own (mpirun). `same`: a run on several processes has the bits of the same run in one,
# whatever the replica is, and records and checkpoints go from one to the other. `lost`: processes that are killed, or asked
# to end. `hosts`: the same over TCP, between two hosts. `refused`: what is not to be had, by name.

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cleave_process import REJECTED, UNSUPPORTED, USAGE, Checks, Result, cleave, mpirun, mpirun_command, program, signal_rank, skip
from replicas import WAYS, Folder, compile_plan, differing, hosts_machine, random_model
from train_lenet import run

import numpy

LOST = 7

def lenet(path):
    run([], "zoo", "lenet", "--batch", "32", "-o", path("lenet.onnx"))
    return path("lenet.onnx")


MOMENTUM = ["--optimizer", "momentum", "--learning-rate", "0.05"]
FOUR = ["--machine", "host:4x1", "--strategy", "single", *MOMENTUM]


def same(path):
    seed = int(os.environ.get("CLEAVE_SEED", random.randrange(1 << 32)))
    chance, checks = random.Random(seed), Checks()
    print(f"seed {seed}")

    def train(plan, name, *arguments, ranks=1):
        words = ["train", plan, *arguments, "--export", path(name + ".npz"), "--json", path(name + ".json")]
        return cleave(*words) if ranks == 1 else mpirun(ranks, *words)

    def equal(result, one, other, text):
        found = result.code == 0 and differing(path(one + ".npz"), path(other + ".npz"))
        checks.add(result.code == 0 and not found, f"{text}: {found or 'equal'}", result)

    # A replica of one device, and ones that are divided, in any number of processes.
    for number in range(3):
        model, data = random_model(path, chance)
        for way, (devices, own, whole) in WAYS.items():
            if way == "pipeline" and model.startswith("gpt"):
                continue
            options = ["--machine", f"host:{devices}x1", "--batch", "16", *MOMENTUM]
            plan = compile_plan(path("m.onnx"), path("a.plan"), *options, *own, "--sync", "ssp:0", "--replicas", "2")
            result = train(plan, "a", *data, "--epochs", "2", ranks=2)
            plan = compile_plan(path("m.onnx"), path("s.plan"), *options, *whole, "--zero", "0")
            train(plan, "s", *data, "--epochs", "2")
            equal(result, "a", "s", f"{number} {model}, {way}: two processes and the synchronous plan")
    lenet(path)
    data = path.data(320)
    for sync in ("ssp:0", "ssp:2", "ssp:inf", "local:3", "local:2,dtype=int8"):
        plan = compile_plan(path("lenet.onnx"), path("a.plan"), *FOUR, "--sync", sync)
        both = [*data, "--epochs", "2", "--eval", *data[1:2], "--eval", *data[3:4]]
        train(plan, "a", *both, "--record", path("record"))
        for ranks in (2, 4):
            result = train(plan, "b", *both, "--replay", path("record"), ranks=ranks)
            equal(result, "a", "b", f"{sync}: a record of one process in {ranks}")
            result = train(plan, "c", *both, "--record", path("again"), "--try-replica", "3:slow=3", ranks=ranks)
            answer = json.load(open(path("c.json"), encoding="utf-8"))
            bound = sync.removeprefix("ssp:")
            checks.add(not bound.isdigit() or len(answer["steps_ahead"]) - 1 <= int(bound), f"{sync}: ahead within it",
                       result)
            checks.add([device["name"] for device in answer["devices"]] == [f"cpu{device}" for device in range(4)] and
                       all(device["allocated_bytes"] > 0 for device in answer["devices"]), "memory of all devices", result)
            result = train(plan, "d", *both, "--replay", path("again"))
            equal(result, "c", "d", f"{sync}: a record of {ranks} processes in one")
        # A checkpoint is everybody's: parts of the run in one process, in two, and in four.
        if sync in ("ssp:0", "local:3", "local:2,dtype=int8"):
            kept = [*data, "--seed", "2", "--checkpoint-every", "4"]
            train(plan, "whole", *kept, "--epochs", "2", "--checkpoint", path("c-" + sync))
            folder = ["--checkpoint", path("d-" + sync), "--resume"]
            train(plan, "part", *kept, "--steps", "8", *folder, ranks=2)
            train(plan, "part", *kept, "--steps", "12", *folder)
            result = train(plan, "part", *kept, "--epochs", "2", *folder, ranks=4)
            equal(result, "whole", "part", f"{sync} goes on from checkpoints")
    # Plans for several hosts are plans like others.
    with open(path("hosts.yaml"), "w", encoding="utf-8") as file:
        file.write(hosts_machine(2))
    for replicas, way in (("4", ["--strategy", "single"]), ("2", ["--strategy", "tensor", "--degrees", "model=2"])):
        plan = compile_plan(path("lenet.onnx"), path("h.plan"), "--machine", path("hosts.yaml"), *way, *MOMENTUM, "--sync",
                            "ssp:0", "--replicas", replicas)
        train(plan, "a", *data, "--epochs", "1")
        equal(train(plan, "b", *data, "--epochs", "1", ranks=2), "a", "b", f"{replicas} replicas on two hosts")
        equal(train(plan, "b", *data, "--epochs", "1", "--devices-of-rank", "0-1", "--devices-of-rank", "2,3", ranks=2),
              "a", "b", f"{replicas} replicas, devices named")
    checks.report()


class Ranks:
    """A run of several processes."""

    def __init__(self, path, ranks, *arguments, options=(), before=()):
        self.mark = path.folder
        self.process = subprocess.Popen([*before, *mpirun_command(ranks, program(), *arguments, options=options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "CLEAVE_TEST_RUN": self.mark})

    def kill(self, rank, which):
        return signal_rank(self.mark, rank, which)

    def end(self, seconds=60):
        try:
            output, errors = self.process.communicate(timeout=seconds)
            return Result(self.process.returncode, output, errors)
        except subprocess.TimeoutExpired:
            self.process.terminate()  # mpirun ends its processes, and with them what they write
        try:
            output, errors = self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, errors = "", ""
        return Result(None, output, f"{errors}no end within {seconds} s")


def steps_of(folder):
    return sorted(int(name[5:]) for name in os.listdir(folder) if name.startswith("step-")) if os.path.isdir(folder) else []


def await_steps(folder, seconds=60):
    """Waits for a checkpoint."""
    deadline = time.monotonic() + seconds
    while not steps_of(folder) and time.monotonic() < deadline:
        time.sleep(0.01)


def lost(path):
    checks, data = Checks(), path.data(320)
    plan = compile_plan(lenet(path), path("a.plan"), *FOUR, "--sync", "ssp:2")
    train = ["train", plan, *data]
    result = mpirun(4, *train, "--epochs", "3", "--try-replica", "2:fail=14", "--checkpoint", path("f"))
    checks.add(result.code == 1 and "replica 2 (cpu2) on rank 2 fails in its step 14" in result.errors and
               result.errors.count("error:") == 1, "a replica that fails elsewhere is named once", result)
    # One that is killed, where all end then: every checkpoint that is there is whole, and the run goes on.
    for rank in (0, 3):
        folder = path(f"k{rank}")
        ranks = Ranks(path, 4, *train, "--epochs", "100000", "--checkpoint", folder)
        await_steps(folder)
        killed = ranks.kill(rank, signal.SIGKILL)
        result = ranks.end()
        checks.add(killed and result.code not in (0, None) and f"rank {rank} is lost" in result.errors,
                   f"rank {rank} is named", result)
        at = steps_of(folder)[-1]
        result = mpirun(4, *train, "--steps", str(at + 10), "--checkpoint", folder, "--resume", "--json", path("r.json"))
        answer = json.load(open(path("r.json"), encoding="utf-8")) if result.code == 0 else {}
        checks.add(answer.get("resumed_from") == at, f"and training goes on from step {at}", result)
    # Where the others go on they do its batches: the run has all its steps, and says who is missing.
    for options, ranks in (([], 4), (["--enable-recovery"], 2)):
        folder = path(f"g{ranks}")
        group = Ranks(path, ranks, *train, "--epochs", "60", "--checkpoint", folder, "--lost-replica", "go-on", "--json",
                      path("g.json"), "--record", path("g.record"), "--export", path("g.npz"), options=options)
        await_steps(folder)
        killed = group.kill(1, signal.SIGKILL)
        result = group.end()
        answer = json.load(open(path("g.json"), encoding="utf-8"))
        # Open MPI's mpirun says by its code that a process has not ended as MPI wants it, unless it is told not to care.
        checks.add(killed and (result.code == 0 or not options) and answer["steps_done"] == 600 and
                   steps_of(folder)[-1] == 600, f"the others go on without rank 1 of {ranks}", result)
        checks.add(all(f"notice: replica {replica} (cpu{replica}) on rank 1 is gone: rank 1 is lost: signal 9" in result.errors
                       for replica in ([1] if ranks == 4 else [2, 3])), "and say who is missing", result)
        # All of that is in the record.
        result = cleave(*train, "--epochs", "60", "--replay", path("g.record"), "--export", path("h.npz"))
        checks.add(result.code == 0 and not differing(path("g.npz"), path("h.npz")), "which is repeated", result)
        result = mpirun(ranks, *train, "--epochs", "61", "--checkpoint", folder, "--resume")
        checks.add(result.code == 0, "and a new run goes on with all", result)
    # What a lost one kept for itself, as dropout's counters, stays in checkpoints as it was last. A process that is stopped is
    # as good as gone.
    run([], "zoo", "gpt", "--batch", "32", "--layers", "1", "--hidden", "32", "--heads", "2", "--sequence", "8", "--vocabulary",
        "20", "--dropout", "1", "-o", path("gpt.onnx"))
    numbers = numpy.random.default_rng(1)
    for name in ("gx.npy", "gl.npy"):
        numpy.save(path(name), numbers.integers(0, 20, (320, 8)))
    text = ["--data", f"@0={path('gx.npy')}", "--data", f"labels={path('gl.npy')}"]
    plan = compile_plan(path("gpt.onnx"), path("g.plan"), *FOUR, "--sync", "ssp:2")
    folder = path("gpt")
    ranks = Ranks(path, 4, "train", plan, *text, "--steps", "600", "--checkpoint", folder, "--lost-replica", "go-on",
                  "--rank-timeout", "2", options=["--enable-recovery"])
    await_steps(folder)
    stopped = ranks.kill(2, signal.SIGSTOP)
    result = ranks.end()
    checks.add(stopped and result.code == 0 and "replica 2 (cpu2) on rank 2 is gone: rank 2 has been stopped" in result.errors,
               "the others go on without a process that is stopped", result)
    with open(os.path.join(folder, "step-600", "manifest"), encoding="utf-8") as file:
        kept = [line.split()[-1] for line in file if " replica" in line]
    own = {replica: [name.partition("/")[2] for name in kept if name.startswith(f"replica{replica}/")] for replica in range(4)}
    checks.add(len(own[2]) > 0 and all(names == own[2] for names in own.values()), "whose own state is kept", result)
    result = mpirun(2, "train", plan, *text, "--steps", "610", "--checkpoint", folder, "--resume")
    checks.add(result.code == 0, "and goes on", result)
    plan = path("a.plan")
    # A signal to any of the processes ends all between steps, with a checkpoint.
    for rank in (0, 2):
        folder = path(f"s{rank}")
        ranks = Ranks(path, 4, *train, "--epochs", "100000", "--checkpoint", folder)
        await_steps(folder)
        signalled = ranks.kill(rank, signal.SIGTERM)
        result = ranks.end()
        checks.add(signalled and result.code == 128 + signal.SIGTERM and "SIGTERM has ended training after step" in result.errors
                   and f"step-{steps_of(folder)[-1]}" in result.errors, f"SIGTERM to rank {rank} ends all", result)
    checks.report()


class TwoHosts:
    """The hosts alpha and beta: network namespaces with a cable between them, while the context lasts."""

    def __init__(self, path):
        self.names = {host: f"cleave-{os.getpid()}-{host}" for host in ("alpha", "beta")}
        self.ssh = path("ssh")

    def __enter__(self):
        ends = {host: f"c{os.getpid()}{host[0]}" for host in self.names}
        made = self.ip("link", "add", ends["alpha"], "type", "veth", "peer", "name", ends["beta"])
        for number, (host, name) in enumerate(self.names.items(), 1):
            made = made and self.ip("netns", "add", name) and self.ip("link", "set", ends[host], "netns", name) and \
                self.ip("-n", name, "addr", "add", f"10.99.0.{number}/24", "dev", ends[host]) and \
                self.ip("-n", name, "link", "set", "lo", "up") and self.ip("-n", name, "link", "set", ends[host], "up")
            os.makedirs(f"/etc/netns/{name}", exist_ok=True)
            with open(f"/etc/netns/{name}/hosts", "w", encoding="utf-8") as file:
                file.write("127.0.0.1 localhost\n10.99.0.1 alpha\n10.99.0.2 beta\n")
        with open(self.ssh, "w", encoding="utf-8") as file:
            file.write(f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift
exec ip netns exec cleave-{os.getpid()}-$host unshare --uts sh -c "hostname $host; $*"
""")
        os.chmod(self.ssh, 0o700)
        return self if made else skip("network namespaces cannot be made here")

    def __exit__(self, *_):
        for name in self.names.values():
            self.ip("netns", "del", name)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)

    @staticmethod
    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, check=False).returncode == 0

    def before(self):
        """What starts mpirun on alpha."""
        return ["ip", "netns", "exec", self.names["alpha"], "unshare", "--uts", "sh", "-c",
                'hostname alpha; exec "$0" "$@"']

    def options(self):
        return ["--host", "alpha:2,beta:2", "--mca", "plm_rsh_agent", self.ssh]


def hosts(path):
    if os.geteuid() != 0 or not shutil.which("ip"):
        skip("network namespaces cannot be made here")
    checks, data = Checks(), path.data(320)
    with open(path("hosts.yaml"), "w", encoding="utf-8") as file:
        file.write(hosts_machine(2))
    options = ["--machine", path("hosts.yaml"), "--strategy", "single", *MOMENTUM]
    with TwoHosts(path) as two:
        for sync in ("ssp:0", "ssp:2", "local:3", "local:3,overlap=2"):
            plan = compile_plan(lenet(path), path("h.plan"), *options, "--sync", sync)
            train = ["train", plan, *data, "--epochs", "2"]
            result = mpirun(4, *train, "--record", path("record"), "--export", path("a.npz"), options=two.options(),
                            before=two.before())
            checks.add(result.code == 0, f"{sync} on two hosts", result)
            result = cleave(*train, "--replay", path("record"), "--export", path("b.npz"))
            checks.add(result.code == 0 and not differing(path("a.npz"), path("b.npz")), "has the bits of one process", result)
        plan = compile_plan(path("lenet.onnx"), path("h.plan"), *options, "--sync", "ssp:2")
        folder = path("g")
        group = Ranks(path, 4, "train", plan, *data, "--steps", "600", "--checkpoint", folder, "--lost-replica", "go-on",
                      options=two.options(), before=two.before())
        await_steps(folder)
        killed = group.kill(3, signal.SIGKILL)
        result = group.end(120)
        checks.add(killed and steps_of(folder)[-1] == 600 and
                   'on rank 3 is gone: rank 3 on host "beta" is lost: signal 9' in result.errors,
                   "the others go on without a rank of the other host", result)
    checks.report()


def refused(path):
    checks, data = Checks(), path.data(64)
    lenet(path)
    options = ["--machine", "host:4x1", *MOMENTUM, "--strategy", "tensor", "--degrees", "model=2", "--replicas", "2"]
    plan = compile_plan(path("lenet.onnx"), path("t.plan"), *options, "--sync", "ssp:0")
    train = ["train", plan, *data, "--epochs", "1"]
    lists = lambda *texts: [word for text in texts for word in ("--devices-of-rank", text)]
    for ranks, arguments, code, text in (
            (3, [], UNSUPPORTED, "at most as many processes, since a replica runs in one, got 3"),
            (2, lists("0,2", "1,3"), UNSUPPORTED, 'devices of a replica in one process, got "cpu1" of replica 0 in rank 1'),
            (2, lists("2-3", "0-1"), UNSUPPORTED, "replica 0, beside which the parameters are kept, in rank 0, got rank 1"),
            (2, lists("0-1"), USAGE, "a list for each of the 2 processes"),
            (2, ["--trace", path("t.json")], UNSUPPORTED, "--trace does not go with"),
            (2, ["--lost-replica", "go-on"], USAGE, "--lost-replica go-on expects"),
            (2, ["--replay", path("missing")], 1, "cannot be read"),
            (2, ["--replay", path("l.npy")], REJECTED, "line 1"),
            (2, ["--record", path("none/record")], 1, "--record expects a file in a folder that exists"),
            (2, ["--try-replica", "2:slow=2"], USAGE, "--try-replica expects")):
        result = mpirun(ranks, *train, *arguments)
        # mpirun's code is that of one of the processes, which all have the same one.
        checks.add(result.code == code and text in result.errors and result.errors.count("error:") == 1,
                   f"refused with {ranks}: {' '.join(arguments)}", result)
    checks.report()


def main():
    if not shutil.which("mpirun"):
        skip("there is no mpirun")
    with tempfile.TemporaryDirectory() as folder:
        {"same": same, "lost": lost, "hosts": hosts, "refused": refused}[sys.argv[1]](Folder(folder))


if __name__ == "__main__":
    main()
