#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What other processes on the machine cost (docs/rationale/waiting-awake.md): a device of two cores beside none, one, two
# and four processes that compute without end, on two processors, training and inference.
#
#   tools/bench/neighbours.py [--rounds 5] [--seconds 2.5] [--before CLEAVE] [--model NAME=FILE ...]
#
# All cases are measured in each round, one after the other, and medians are shown. The share of the most loaded core
# that a thread of ours may expect is a half beside one and two, and a third beside four. --before is another build, to
# compare with; "alone, long waits" is libgomp's own setting, the fastest on a machine of one's own. Let nothing else
# run.

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLEAVE = os.environ.get("CLEAVE", os.path.join(REPOSITORY, "build", "bin", "cleave"))
SHARES = {0: 1, 1: 1 / 2, 2: 1 / 2, 4: 1 / 3}  # by processes beside


def run(*arguments):
    done = subprocess.run([CLEAVE, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")


def steps_a_second(cleave, plan, busy, seconds, processors, spin_count=None):
    environment = dict(os.environ, **({"GOMP_SPINCOUNT": str(spin_count)} if spin_count else {}))
    on = ["taskset", "-c", processors]
    beside = [subprocess.Popen([*on, "sh", "-c", "while :; do :; done"]) for _ in range(busy)]
    try:
        done = subprocess.run([*on, cleave, "run", plan, "--warmup", "5", "--duration", str(seconds)],
                              capture_output=True, text=True, check=True, env=environment)
    finally:
        for process in beside:
            process.kill()
            process.wait()
    return float(re.search(r"([0-9.]+) steps/s", done.stdout)[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.5)
    parser.add_argument("--before", metavar="CLEAVE")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FILE", help="for inference")
    arguments = parser.parse_args()
    processors = sorted(os.sched_getaffinity(0))[:2]
    if len(processors) < 2:
        sys.exit("two processors are needed")
    processors = ",".join(map(str, processors))
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        run("zoo", "lenet", "--batch", "256", "-o", path("lenet.onnx"))
        plans = {"LeNet, training": (path("lenet.onnx"), "--train", "--loss", "cross-entropy"),
                 "LeNet, inference": (path("lenet.onnx"),)}
        for model in arguments.model:
            name, _, file = model.partition("=")
            plans[f"{name}, inference"] = (file,)
        for index, compiled in enumerate(plans.values()):
            run("compile", *compiled, "--machine", "host:1x2", "-o", path(f"{index}.plan"))
        builds = {"": CLEAVE, **({" before": arguments.before} if arguments.before else {})}
        rates = {}
        for _ in range(arguments.rounds):
            for index, plan in enumerate(plans):
                for build, cleave in builds.items():
                    for busy in SHARES:
                        rates.setdefault((plan, build, busy), []).append(
                            steps_a_second(cleave, path(f"{index}.plan"), busy, arguments.seconds, processors))
                rates.setdefault((plan, "", "long"), []).append(
                    steps_a_second(CLEAVE, path(f"{index}.plan"), 0, arguments.seconds, processors, 300000))
    rate = {case: statistics.median(values) for case, values in rates.items()}
    print("| steps per second | alone, long waits | alone | " +
          " | ".join(f"{busy} beside | of its share" for busy in SHARES if busy) + " |")
    print("|---|" + "---:|" * (2 * len(SHARES)))
    for plan in plans:
        for build in builds:
            long = rate[plan, "", "long"]
            cells = [f"{long:.1f}" if not build else "-", f"{rate[plan, build, 0]:.1f}"]
            for busy, share in SHARES.items():
                if busy:
                    cells += [f"{rate[plan, build, busy]:.1f}", f"{rate[plan, build, busy] / (long * share):.2f}"]
            print(f"| {plan}{build} | " + " | ".join(cells) + " |")


main()
