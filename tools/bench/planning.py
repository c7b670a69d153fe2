#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Measures how long plans are searched for, and writes that into docs/planning-figures.md. Run it on an idle machine.
#
#   python3 tools/bench/planning.py [--write] [--rounds N] [--check]
#
# Prints the section "Search time"; --write puts it into the page, --check fails where a limit is missed. $CLEAVE_BIN
# names the programs' folder (build/bin).

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import tempfile
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLEAVE = os.path.join(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")), "cleave")
PAGE = os.path.join(REPOSITORY, "docs", "planning-figures.md")
TITLE = "## Search time"

GPT3 = {"layers": 96, "hidden": 12288, "heads": 96, "sequence": 2048, "vocabulary": 51200}
GPT39B = {"layers": 48, "hidden": 8192, "heads": 64, "sequence": 1024, "vocabulary": 51200}

# What is planned: a name, the model, the machine, the samples of a step, and the most seconds that it may take.
MODELS = [
    ("GPT-3, 1,024 A100", GPT3, "a100-80g:8x128", 1536, 10),
    ("GPT 39 B, 64 V100", GPT39B, "v100-16g:8x8", 1024, 5),
]
LAYERS = [24, 48, 96, 192, 384]
HOSTS = [8, 32, 128, 512]


def run(*arguments):
    """Runs `cleave ARGUMENTS`; returns the seconds and the processor's seconds that it took."""
    begin, before = time.monotonic(), os.times()
    subprocess.run([CLEAVE, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - begin, processor


def write_gpt(folder, shape):
    path = os.path.join(folder, "gpt-" + "-".join(map(str, shape.values())) + ".onnx")
    if not os.path.exists(path):
        flags = [text for name, value in shape.items() for text in (f"--{name}", value)]
        run("zoo", "gpt", *flags, "--batch", 2, "-o", path)
    return path


def plan(folder, shape, machine, batch, rounds):
    """Medians of the whole command's seconds and processor seconds, and what the command reported last."""
    model, report, output = (write_gpt(folder, shape), os.path.join(folder, "report.json"),
                             os.path.join(folder, "model.plan"))
    times = [run("compile", model, "--machine", machine, "--strategy", "auto", "--train", "--dtype", "f16", "--batch",
                 batch, "-o", output, "--json", report) for _ in range(rounds)]
    with open(report, encoding="utf-8") as file:
        result = json.load(file)
    seconds, processor = (statistics.median(column) for column in zip(*times))
    return {"seconds": seconds, "processor": processor, **result}


def models_table(folder, rounds):
    rows = ["| model and machine | from file to plan s | search s | limit s | stages | predicted step s | gap |",
            "|---|---:|---:|---:|---:|---:|---:|"]
    missed = []
    for name, shape, machine, batch, limit in MODELS:
        result = plan(folder, shape, machine, batch, rounds)
        rows.append(f"| {name} | {result['seconds']:.1f} | {result['search_seconds']:.1f} | {limit} | "
                    f"{len(result['stages'])} | {result['predicted_step_seconds']:.2f} | {result['gap']:.1%} |")
        if result["seconds"] > limit:
            missed.append(f"{name}: {result['seconds']:.1f} s, limit {limit} s")
    return rows, missed


def growth_table(folder, rounds):
    """Processor seconds of the whole command, relative to the first row, beside what they may grow by."""
    rows = ["| layers | devices | processor s | times the first | may grow by |", "|---:|---:|---:|---:|---:|"]
    missed = []
    for column in ([(layers, 8) for layers in LAYERS], [(LAYERS[2], hosts) for hosts in HOSTS]):
        first = None
        for layers, hosts in column:
            shape = {**GPT3, "layers": layers}
            seconds = plan(folder, shape, f"a100-80g:8x{hosts}", 1536, rounds)["processor"]
            size = hosts * math.log(layers)
            first = first or (seconds, size)
            grown, allowed = seconds / first[0], size / first[1]
            rows.append(f"| {layers} | {8 * hosts} | {seconds:.2f} | {grown:.2f} | {allowed:.2f} |")
            if grown > allowed:
                missed.append(f"{layers} layers, {8 * hosts} devices: {grown:.2f} times, may be {allowed:.2f}")
    return rows, missed


def simulate_large(folder):
    """Seconds to simulate a plan for 16,384 devices."""
    model, output = write_gpt(folder, {**GPT3, "layers": 24}), os.path.join(folder, "large.plan")
    run("compile", model, "--machine", "a100-80g:8x2048", "--strategy", "auto", "--train", "--dtype", "f16", "--batch",
        16384, "-o", output)
    return run("simulate", output)[0]


def section(folder, rounds):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    models, missed = models_table(folder, rounds)
    growth, missed_growth = growth_table(folder, rounds)
    simulated = simulate_large(folder)
    if simulated > 10:
        missed.append(f"simulation of 16,384 devices: {simulated:.1f} s, limit 10 s")
    lines = [TITLE, "",
             f"Measured on {len(os.sched_getaffinity(0))} cores of {cpu}, medians of {rounds} rounds, by",
             "", "```", "python3 tools/bench/planning.py --write", "```", "", *models, "",
             "Time may grow no faster than the devices times the logarithm of the number of equal layers (GPT of",
             "GPT-3's width, A100s in hosts of 8):", "", *growth, "",
             f"A plan for 16,384 devices is simulated in {simulated:.1f} s (`cleave simulate PLAN`).", "",
             "Peers: Alpa takes 2,393 s for GPT 39 B on 64 devices, 805 s of it for profiling; autoparallel 52 s for one",
             "configuration of Llama 8 B (32 layers) on 64 devices."]
    return "\n".join(lines) + "\n", missed + missed_growth


def replace_section(text, new):
    """The page with its section of that title replaced, or added at the end."""
    pattern = re.compile(re.escape(TITLE) + r"\n.*?(?=\n## |\Z)", re.DOTALL)
    if pattern.search(text):
        return pattern.sub(lambda _: new.rstrip("\n") + "\n", text)
    return text.rstrip("\n") + "\n\n" + new


def main():
    parser = argparse.ArgumentParser(description="Measures how long plans are searched for.")
    parser.add_argument("--write", action="store_true", help="put the section into docs/planning-figures.md")
    parser.add_argument("--check", action="store_true", help="fail where a limit is missed")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, missed = section(folder, arguments.rounds)
    print(text)
    if arguments.write:
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(replace_section(page, text))
    for line in missed:
        print("missed: " + line)
    if arguments.check and missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
