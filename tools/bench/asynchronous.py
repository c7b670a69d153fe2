#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What replicas that do not wait for each other give and cost (docs/asynchronous.md): LeNet on Fashion-MNIST with four
# replicas, one of which takes twice as long, for several bounds on how far one may be ahead; and a GPT on a text with
# local steps.
#
#   tools/bench/asynchronous.py [--data FOLDER] [--epochs N] [--bounds 0,1,3,10,inf] [--text FILE] [--steps N] [--write]
#   tools/bench/asynchronous.py --data FOLDER --rounds N [--bounds 0,3,inf]
#
# With --rounds predictions alone are compared with N runs of 200 steps each, with and without the straggler, all in turn,
# and it says how much of the cores other programs took meanwhile.
# Predictions are those after `cleave probe`, which comes first, and `cleave profile` of each plan.
# FOLDER has the four files of Fashion-MNIST, as .gz; FILE is a text, whose bytes are the tokens. --write puts what was
# measured into the docs.

import argparse
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLEAVE = os.environ.get("CLEAVE", os.path.join(REPOSITORY, "build", "bin", "cleave"))
REPLICAS, SLOW, BATCH, WANTED = 4, 2, 256, 0.80


def run(*arguments):
    done = subprocess.run([CLEAVE, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def measure(folder, data, bound, epochs):
    path = lambda name: os.path.join(folder, name)
    run("zoo", "lenet", "--batch", str(BATCH), "-o", path("lenet.onnx"))
    run("compile", path("lenet.onnx"), "--machine", f"host:{REPLICAS}x1", "--strategy", "single", "--train", "--loss",
        "cross-entropy", "--optimizer", "sgd", "--learning-rate", "0.2", "--sync", f"ssp:{bound}", "-o", path("plan"))
    file = lambda name: os.path.join(data, name + ".gz")
    run("train", path("plan"), "--data", f"@0={file('train-images-idx3-ubyte')}", "--data",
        f"labels={file('train-labels-idx1-ubyte')}", "--eval", f"@0={file('t10k-images-idx3-ubyte')}", "--eval",
        f"labels={file('t10k-labels-idx1-ubyte')}", "--seed", "3", "--epochs", str(epochs), "--try-replica",
        f"{REPLICAS - 1}:slow={SLOW}", "--json", path("json"))
    with open(path("json"), encoding="utf-8") as text:
        answer = json.load(text)
    run("profile", path("plan"))
    simulated = run("simulate", path("plan"), "--slow-replica", f"{REPLICAS - 1}:{SLOW}")
    predicted = float(re.search(r"replicas.*?predicted: ([0-9.]+) ms", simulated, re.S)[1])
    return answer, predicted


def busy_seconds():
    """Of all cores, since the system's start."""
    with open("/proc/stat", encoding="utf-8") as text:
        user, nice, system, _, _, irq, softirq, *_ = map(int, text.readline().split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def predictions(data, bounds, rounds):
    """Steps of several runs beside what is predicted, a row for each bound with and without a straggler."""
    file = lambda name: os.path.join(data, name + ".gz")
    slow = f"{REPLICAS - 1}:slow={SLOW}"
    cases = [(bound, straggles) for bound in bounds for straggles in (True, False)]
    measured, others = {case: [] for case in cases}, {case: [] for case in cases}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        run("zoo", "lenet", "--batch", str(BATCH), "-o", path("lenet.onnx"))
        for bound in bounds:
            run("compile", path("lenet.onnx"), "--machine", f"host:{REPLICAS}x1", "--strategy", "single", "--train", "--loss",
                "cross-entropy", "--optimizer", "sgd", "--learning-rate", "0.2", "--sync", f"ssp:{bound}", "-o", path(bound))
            run("profile", path(bound))
        for bound, straggles in cases * rounds:
            before, children = busy_seconds(), os.times()
            run("train", path(bound), "--data", f"@0={file('train-images-idx3-ubyte')}", "--data",
                f"labels={file('train-labels-idx1-ubyte')}", "--steps", "200", "--json", path("json"),
                *(["--try-replica", slow] if straggles else []))
            after = os.times()
            own = after.children_user + after.children_system - children.children_user - children.children_system
            available = (after.elapsed - children.elapsed) * len(os.sched_getaffinity(0))
            others[bound, straggles].append((busy_seconds() - before - own) / available)
            with open(path("json"), encoding="utf-8") as text:
                epochs = json.load(text)["epochs"]
            measured[bound, straggles].append(sum(epoch["seconds"] for epoch in epochs) / 200 * 1e3)
        for bound, straggles in cases:
            simulated = run("simulate", path(bound), *(["--slow-replica", f"{REPLICAS - 1}:{SLOW}"] if straggles else []))
            predicted = float(re.search(r"replicas.*?predicted: ([0-9.]+) ms", simulated, re.S)[1])
            times = measured[bound, straggles]
            median = statistics.median(times)
            rows.append([bound, "twice as slow" if straggles else "none", f"{median:.1f} ({min(times):.1f} to {max(times):.1f})",
                         f"{predicted:.1f}", f"{100 * (predicted / median - 1):+.0f} %",
                         f"{100 * statistics.median(others[bound, straggles]):.0f} %"])
    heads = ["bound", "straggler", "ms a step", "predicted", "", "cores that others took"]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows]) + "\n"


def spread(counts):
    """"0 to 3, mostly 2" of a distribution."""
    seen = [number for number, count in enumerate(counts) if count]
    return f"{seen[0]} to {seen[-1]}, {sum(n * c for n, c in enumerate(counts)) / sum(counts):.1f} on average"


def plot(curves):
    """Accuracy over seconds as SVG; a curve is a name and points."""
    width, height, left, bottom = 640, 360, 50, 40
    last = max(point[0] for _, points in curves for point in points)
    low, high = 0.5, 0.95
    x = lambda seconds: left + seconds / last * (width - left - 20)
    y = lambda accuracy: height - bottom - (max(low, accuracy) - low) / (high - low) * (height - bottom - 20)
    colors = ["#1b6ca8", "#d1495b", "#2e8b57", "#8d6a9f", "#b8860b", "#444"]
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']
    for percent in range(50, 96, 10):
        at = y(percent / 100)
        lines.append(f'<line x1="{left}" x2="{width - 20}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{percent} %</text>')
    lines.append(f'<text x="{width - 20}" y="{height - 10}" text-anchor="end">seconds of training, up to {last:.0f}</text>')
    for (name, points), color in zip(curves, colors):
        path = " ".join(f"{x(seconds):.1f},{y(accuracy):.1f}" for seconds, accuracy in points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        number = len([line for line in lines if "polyline" in line])
        lines.append(f'<text x="{width - 90}" y="{height - bottom - 14 * (len(curves) - number) - 8}" fill="{color}">{name}</text>')
    return "\n".join(lines + ["</svg>", ""])


def local_steps(text, steps):
    """A GPT of bytes, four replicas: losses by step and bytes exchanged, for the synchronous plan and several H."""
    rows, first, most = [], None, None
    at = [steps // 8, steps // 4, steps // 2, steps]
    for name, inner, how in (("synchronous", "sgd", ["--strategy", "data"]),
                             ("local:1, averaged", "sgd", ["--sync", "local:1,outer-rate=1,outer-momentum=0"]),
                             ("synchronous", "adamw", ["--strategy", "data"]),
                             *((f"local:{h}", "adamw", ["--sync", f"local:{h}"]) for h in (1, 8, 64)),
                             ("local:8, overlap 4", "adamw", ["--sync", "local:8,overlap=4"]),
                             ("local:64, overlap 8", "adamw", ["--sync", "local:64,overlap=8"]),
                             ("local:64, overlap 63", "adamw", ["--sync", "local:64,overlap=63"]),
                             ("local:64, bf16", "adamw", ["--sync", "local:64,dtype=bf16"]),
                             ("local:64, int8", "adamw", ["--sync", "local:64,dtype=int8"])):
        with tempfile.TemporaryDirectory() as folder:
            path = lambda file: os.path.join(folder, file)
            shutil.copy(text, path("text.txt"))
            run("zoo", "gpt", "--layers", "2", "--hidden", "64", "--heads", "4", "--sequence", "32", "--vocabulary", "256",
                "--batch", "16", "-o", path("gpt.onnx"))
            strategy = [] if "--strategy" in how else ["--strategy", "single"]
            run("compile", path("gpt.onnx"), "--machine", f"host:{REPLICAS}x1", "--train", "--loss", "cross-entropy",
                "--optimizer", inner, "--learning-rate", "0.1" if inner == "sgd" else "0.002", *how, *strategy, "-o",
                path("plan"))
            run("train", path("plan"), "--data", f"tokens={path('text.txt')}", "--data",
                f"labels={path('text.txt')}:next", "--steps", str(steps), "--json", path("json"), "--json-steps")
            with open(path("json"), encoding="utf-8") as file:
                answer = json.load(file)
        losses = [step["loss"] for step in answer["steps"]]
        mean = lambda step: sum(losses[max(0, step - 16):step]) / min(step, 16)
        exchanged = answer.get("exchanged_bytes")
        difference = ""
        if inner == "sgd":
            first = first or losses
            difference = "" if losses is first else f"{max(abs(a - b) for a, b in zip(first, losses)):.1e}"
        if exchanged:
            most = most or exchanged
            exchanged = [f"{exchanged / 2 ** 20:.1f} MiB", f"{most / exchanged:.1f} ×"]
        rows.append([name, inner, *(f"{mean(step):.3f}" for step in at), *(exchanged or ["", ""]), difference])
        print(rows[-1], flush=True)
    heads = ["", "inner optimizer", *(f"step {step}" for step in at), "exchanged", "fewer", "largest difference of a loss"]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows]) + "\n"


def put(mark, table):
    """Writes between the two marks of the page."""
    page = os.path.join(REPOSITORY, "docs", "asynchronous.md")
    with open(page, encoding="utf-8") as text:
        parts = re.split(f"(<!-- {mark} -->\n)", text.read())
    parts[2] = "\n" + table + "\n"
    with open(page, "w", encoding="utf-8") as text:
        text.write("".join(parts))


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as text:
        cpu = re.search(r"model name\s*: (.*)", text.read())[1]
    return f"Measured on {datetime.date.today()}, {cpu}, {len(os.sched_getaffinity(0))} cores.\n\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--bounds", default="0,1,3,10,inf")
    parser.add_argument("--text")
    parser.add_argument("--steps", type=int, default=512)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.text:
        table = machine() + local_steps(options.text, options.steps)
        print(table)
        if options.write:
            put("local", table)
    if not options.data:
        return
    if options.rounds:
        print(machine() + predictions(options.data, options.bounds.split(","), options.rounds))
        return
    rows, curves = [], []
    for bound in options.bounds.split(","):
        with tempfile.TemporaryDirectory() as folder:
            answer, predicted = measure(folder, options.data, bound, options.epochs)
        seconds, reached, points = 0, None, []
        for epoch in answer["epochs"]:
            seconds += epoch["seconds"]
            points.append((seconds, epoch["eval_accuracy"]))
            if reached is None and epoch["eval_accuracy"] >= WANTED:
                reached = f"{seconds:.1f} s, epoch {epoch['epoch']}"
        steps = sum(epoch["steps"] for epoch in answer["epochs"])
        measured = seconds / steps * 1e3
        rows.append([bound, reached or "not reached", f"{100 * points[-1][1]:.2f} %", f"{measured:.2f}", f"{predicted:.2f}",
                     f"{100 * (predicted / measured - 1):+.0f} %", spread(answer["steps_ahead"]),
                     spread(answer["versions_between"])])
        curves.append((f"ssp:{bound}", points))
        print(rows[-1], flush=True)
    heads = ["bound", f"to {100 * WANTED:.0f} %", f"after {options.epochs} epochs", "ms a step", "predicted", "", "steps ahead",
             "versions between"]
    table = "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows]) + "\n"
    table = machine() + table
    print(table)
    if options.write:
        put("bounds", table)
        with open(os.path.join(REPOSITORY, "docs", "images", "asynchronous.svg"), "w", encoding="utf-8") as text:
            text.write(plot(curves))


if __name__ == "__main__":
    main()
