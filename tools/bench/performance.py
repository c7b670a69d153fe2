#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Measures what docs/performance.md says, and writes that page. Run it on an idle machine.
#
#   python3 tools/bench/performance.py [--write] [--rounds N]
#
# Prints the page; --write puts it into docs/performance.md. $CLEAVE_BIN names the programs' folder (build/bin),
# $CLEAVE_SHARED the folder with models/ (../shared).

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLEAVE = os.path.join(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")), "cleave")
MODELS = os.path.join(os.environ.get("CLEAVE_SHARED", os.path.join(REPOSITORY, "..", "shared")), "models")
NAMES = ["bvlc_alexnet", "squeezenet", "inception_v1", "resnet50"]


def cleave(*arguments):
    """Runs `cleave ARGUMENTS`; returns the seconds it took."""
    begin = time.monotonic()
    subprocess.run([CLEAVE, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def report(folder, *arguments):
    """Runs `cleave ARGUMENTS --json FILE`; returns what it reported."""
    path = os.path.join(folder, "report.json")
    cleave(*arguments, "--json", path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def against_peer(folder, rounds):
    models = [os.path.join(MODELS, name, "model.onnx") for name in NAMES]
    result = report(folder, "bench", *models, "--against", "onnxruntime", "--threads", "1,2", "--rounds", rounds)
    rows = [f"| model | threads | Cleave ms | ONNX Runtime {result['peer_version']} ms | ratio |",
            "|---|---:|---:|---:|---:|"]
    rows += [f"| {row['model']} | {row['threads']} | {row['ours_ms']:.2f} | {row['peer_ms']:.2f} | {row['ratio']:.2f} |"
             for row in result["results"]]
    return "\n".join(rows)


def compile_and_start(folder, rounds):
    model, plan = os.path.join(MODELS, "resnet50", "model.onnx"), os.path.join(folder, "resnet50.plan")
    compile_seconds, start_seconds = [], []
    for _ in range(rounds):
        compile_seconds.append(cleave("compile", model, "--machine", "host:1", "-o", plan))
        path, begin = os.path.join(folder, "start.json"), time.monotonic()
        cleave("run", plan, "--json", path)
        seconds = time.monotonic() - begin
        with open(path, encoding="utf-8") as file:
            start_seconds.append(seconds - json.load(file)["latency_ms"]["median"] / 1e3)
    return statistics.median(compile_seconds), statistics.median(start_seconds)


def busy(trace):
    """The part of the steps' time in which each device's compute queue ran a kernel."""
    with open(trace, encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"]
                  if event["ph"] == "X" and event["args"]["phase"] == "body"]
    span = max(event["ts"] + event["dur"] for event in events) - min(event["ts"] for event in events)
    devices = sorted({event["pid"] for event in events})
    return [sum(event["dur"] for event in events if event["pid"] == device and event["cat"] == "call") / span
            for device in devices]


def two_devices(folder, rounds):
    model, trace = os.path.join(folder, "inception.onnx"), os.path.join(folder, "trace.json")
    cleave("zoo", "inception", "-o", model)
    examples = os.path.join(REPOSITORY, "examples")
    setups = {
        "one device": (["--machine", "host:1x1", "--strategy", "single"], 1),
        "branches on two": (["--machine", "host:2x1", "--place", f"{examples}/inception-branches.place.yaml"], 1),
        "pipeline of two, 4 in flight": (["--machine", "host:2x1", "--place",
                                          f"{examples}/inception-pipeline.place.yaml"], 4),
    }
    measured = {name: [] for name in setups}
    for _ in range(rounds):  # interleaved, so that a slow minute of the machine hits all of them
        for name, (flags, in_flight) in setups.items():
            result = report(folder, "run", model, *flags, "--repeat", 30, "--in-flight", in_flight)
            measured[name].append((result["latency_ms"]["median"], result["steps_per_second"]))
    rows = ["| Inception, batch 1 | ms a step | steps/s | against one device | kernels run |",
            "|---|---:|---:|---:|---|"]
    base = None
    for name, (flags, in_flight) in setups.items():
        cleave("run", model, *flags, "--repeat", 30, "--in-flight", in_flight, "--trace", trace)
        latency, rate = (statistics.median(column) for column in zip(*measured[name]))
        base = base or rate
        rows.append(f"| {name} | {latency:.2f} | {rate:.1f} | {rate / base:.2f} | " +
                    ", ".join(f"{part:.0%}" for part in busy(trace)) + " of the time |")
    return "\n".join(rows)


def at_once(folder, model, cores, repeat):
    """Runs a model on one device in as many processes as there are cores, each on a core of its own, at the same time;
    returns each one's milliseconds a step."""
    paths = [os.path.join(folder, f"core{core}.json") for core in cores]
    runs = [subprocess.Popen(["taskset", "-c", str(core), CLEAVE, "run", model, "--machine", "host:1x1", "--strategy",
                              "single", "--repeat", str(repeat), "--json", path],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for core, path in zip(cores, paths)]
    if any(run.wait() for run in runs):
        raise RuntimeError(f"cleave run {model} failed")
    milliseconds = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            milliseconds.append(json.load(file)["latency_ms"]["median"])
    return milliseconds


def split_by_data(folder, rounds):
    whole, half = os.path.join(folder, "vgg8.onnx"), os.path.join(folder, "vgg4.onnx")
    cleave("zoo", "vgg16", "--batch", 8, "-o", whole)
    cleave("zoo", "vgg16", "--batch", 4, "-o", half)
    cores = sorted(os.sched_getaffinity(0))[:2]
    split, ceiling = [], []
    for _ in range(rounds):
        result = report(folder, "run", whole, "--machine", "host:2x1", "--strategy", "data", "--degrees", "data=2",
                        "--repeat", 5)
        split.append(8e3 / result["latency_ms"]["median"])
        ceiling.append(sum(4e3 / milliseconds for milliseconds in at_once(folder, half, cores, 5)))
    ratio = statistics.median(ours / limit for ours, limit in zip(split, ceiling))
    return statistics.median(split), statistics.median(ceiling), ratio


def page(folder, rounds):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    peer = against_peer(folder, rounds)
    compile_seconds, start_seconds = compile_and_start(folder, rounds)
    split, ceiling, ratio = split_by_data(folder, rounds)
    return f"""# Performance

Measured on {len(os.sched_getaffinity(0))} cores of {cpu}, medians of {rounds} rounds, by

```
python3 tools/bench/performance.py --write
```

## Against ONNX Runtime

One device, batch 1, float32. Ours and ONNX Runtime take turns, each round in a process of its own that
ends before the other begins, because ONNX Runtime's threads spin. Alone:
`cleave bench MODEL --against onnxruntime --threads 1,2`.

{peer}

## From a file to the first step

ResNet-50, one device: `cleave compile` takes {compile_seconds:.2f} s from ONNX file to plan. `cleave run PLAN`
begins its first step {start_seconds:.2f} s after it is called: the plan is read and verified, weights are mapped,
loaded and brought into the kernels' layouts.

## Two devices

Devices of one core each, `examples/inception-branches.place.yaml` and
`examples/inception-pipeline.place.yaml`. The last column is the part of the time in which each
device's compute queue runs a kernel, from a trace (`cleave run … --trace FILE`).

{two_devices(folder, rounds)}

## Split by data

VGG-16, batch 8, `--strategy data --degrees data=2` over two devices of one core each: {split:.2f} images/s. The
ceiling, two independent processes of one core and batch 4 at the same time, is {ceiling:.2f} images/s together; the
split reaches {ratio:.0%} of it.
"""


def main():
    parser = argparse.ArgumentParser(description="measures and writes docs/performance.md")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = page(folder, options.rounds)
    print(text)
    if options.write:
        with open(os.path.join(REPOSITORY, "docs", "performance.md"), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
