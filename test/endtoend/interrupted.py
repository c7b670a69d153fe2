# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A training that is killed, interrupted, left without room for its files, or given names that cannot be written, at
# random moments, and goes on each time: it never has less than its last whole checkpoint, leaves nothing that cannot be
# read, and ends with the weights of an undisturbed run, bit by bit. The number of moments is the argument.

import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

from cleave_process import Checks, Result, cleave, program, report

import numpy

STEPS = 6000
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def fnv(data):
    """64-bit FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def last_step():
    """The step of the last checkpoint while a run makes and removes them, in a list; none: no checkpoint."""
    names = os.listdir("c") if os.path.isdir("c") else []
    return sorted(int(name[len("step-"):]) for name in names if name.startswith("step-"))[-1:]


def whole_steps():
    """The steps of the checkpoints, each of which must be whole by the format's own words; names that are none."""
    steps, others = [], []
    for name in os.listdir("c") if os.path.isdir("c") else []:
        if not name.startswith("step-"):
            others.append(name)
            continue
        with open(os.path.join("c", name, "manifest"), "rb") as file:
            manifest = file.read()
        with open(os.path.join("c", name, "tensors"), "rb") as file:
            tensors = file.read()
        before, _, last = manifest.rstrip(b"\n").rpartition(b"\n")
        lines = {line.split(b" ")[0]: line.split(b" ")[1:] for line in before.splitlines()}
        size, checksum = lines[b"tensors"]
        assert int(last.split(b" ")[1], 16) == fnv(before + b"\n"), f"{name}: manifest"
        assert int(size) == len(tensors) and int(checksum, 16) == fnv(tensors), f"{name}: tensors"
        assert int(lines[b"steps"][0]) == int(name[len("step-"):]), f"{name}: steps"
        steps.append(int(name[len("step-"):]))
    return sorted(steps), others


class Training:
    """A run that goes on from its checkpoints."""

    def __init__(self, *flags):
        words = [program(), "train", "train.plan", "--data", "input=x.npy", "--data", "labels=l.npy", "--epochs",
                 "1000000", "--steps", str(STEPS)]
        self.process = subprocess.Popen([*words, *(flags or KEEPING)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        text=True)

    def wait(self, timeout=120):
        _, errors = self.process.communicate(timeout=timeout)
        return Result(self.process.returncode, "", errors)


KEEPING = ["--checkpoint", "c", "--checkpoint-every", "25", "--resume", "--export", "w.npz"]


def disturb(kind, choose, checks, last):
    """Runs until a random moment; what must hold of the way in which it ends."""
    if kind == "name":
        flags = choose.choice((["--checkpoint", "c", "--resume", "--export", "none/w.npz"],
                               ["--checkpoint", "x.npy", "--export", "w.npz"],
                               ["--checkpoint", "c", "--resume", "--export", "w.onnxx"]))
        result = Training(*flags).wait()
        checks.add(result.code in (1, 2) and flags[-1] in result.errors or "x.npy" in result.errors, f"refused: {flags}",
                   result)
        return True
    training = Training()
    # Until it has begun: a signal before that finds nothing to keep.
    until = time.monotonic() + 60
    while last_step() == last and training.process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    time.sleep(choose.uniform(0, 0.15))
    if training.process.poll() is not None:
        checks.add(training.process.returncode == 0, "it has trained to the end", training.wait())
        return False
    if kind == "kill":
        training.process.kill()
        training.wait()
        return True
    if kind == "room":
        size = choose.randrange(0, 3000)
        try:
            resource.prlimit(training.process.pid, resource.RLIMIT_FSIZE, (size, size))
        except ProcessLookupError:
            pass
        result = training.wait()
        if result.code == 0:
            return False
        checks.add(result.code == 1 and "error:" in result.errors, f"no room beyond {size} bytes is an error", result)
        return True
    stop = choose.choice(STOPS)
    training.process.send_signal(stop)
    result = training.wait()
    if result.code == 0:
        return False
    checks.add(abs(result.code) in (stop, 128 + stop), f"{stop.name} ends with {result.code}", result)
    steps = whole_steps()[0]
    checks.add(f"after step {steps[-1]}" in result.errors, f"and a checkpoint of its last step, {steps[-1]}", result)
    return True


def main():
    moments, seed = int(sys.argv[1]), random.randrange(1 << 32)
    choose, checks = random.Random(seed), Checks()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        numbers = numpy.random.default_rng(1)
        numpy.save("x.npy", numbers.normal(size=(320, 8)).astype(numpy.float32))
        numpy.save("l.npy", numbers.integers(0, 4, 320))
        for words in (["zoo", "mlp", "--layers", "2", "--inputs", "8", "--hidden", "16", "--classes", "4", "--batch", "32",
                       "-o", "mlp.onnx"],
                      ["compile", "mlp.onnx", "--machine", "host:1x1", "--train", "--loss", "cross-entropy", "--optimizer",
                       "momentum", "--learning-rate", "0.001", "-o", "train.plan"]):
            result = cleave(*words)
            if result.code != 0:
                report([(" ".join(words), result)], 0)
        result = Training("--export", "whole.npz").wait()
        if result.code != 0:
            report([("train", result)], 0)
        whole, rounds, kinds = numpy.load("whole.npz"), 0, {}
        last, left_by_kill = [], False
        for _ in range(moments):
            kind = choose.choice(("kill", "kill", "stop", "stop", "room", "name"))
            kinds[kind] = kinds.get(kind, 0) + 1
            is_over = not disturb(kind, choose, checks, last)
            steps, others = whole_steps()
            # What a killed run was writing stays until the next one, and so does what it had not removed yet.
            left_by_kill = kind == "kill" or (kind == "name" and left_by_kill)
            checks.add(steps[-1:] >= last and len(steps) <= 2 + left_by_kill, f"{kind}: from checkpoint {last} to {steps}",
                       result)
            checks.add(not others or left_by_kill, f"{kind}: nothing else is there: {others}", result)
            if os.path.exists("w.npz"):
                exported = numpy.load("w.npz")
                checks.add(sorted(exported.files) == sorted(whole.files) and
                           all(numpy.isfinite(exported[name]).all() for name in exported.files), "the export is whole",
                           result)
            last = steps[-1:]
            if is_over or steps[-1:] == [STEPS]:
                rounds += 1
                compare(whole, checks)
                subprocess.run(["rm", "-rf", "c", "w.npz"], check=True)
                last = []
        Training().wait()
        compare(whole, checks)
        os.chdir("/")
    print(f"seed {seed}: {moments} moments, {kinds}, {rounds + 1} trainings to their ends")
    checks.report()


def compare(whole, checks):
    """The weights at the end of a training are those of an undisturbed one."""
    result = Training().wait()
    parts = numpy.load("w.npz")
    checks.add(result.code == 0 and all((whole[name] == parts[name]).all() for name in whole.files),
               "the weights of an undisturbed run", result)


if __name__ == "__main__":
    main()
