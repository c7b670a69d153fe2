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


def against_peer(folder, rounds, peer, title):
    """A table of our times beside those of `peer`, whose `title` it shows."""
    models = [os.path.join(MODELS, name, "model.onnx") for name in NAMES]
    result = report(folder, "bench", *models, "--against", peer, "--threads", "1,2", "--rounds", rounds)
    ways = any("peer_variant" in row for row in result["results"])
    rows = [f"| model | threads | Cleave ms | {title} {result['peer_version']} ms | ratio |" +
            " fastest with |" * ways, "|---|---:|---:|---:|---:|" + "---|" * ways]
    rows += [f"| {row['model']} | {row['threads']} | {row['ours_ms']:.2f} | {row['peer_ms']:.2f} | {row['ratio']:.2f} |" +
             f" {row.get('peer_variant')} |" * ways for row in result["results"]]
    return "\n".join(rows)


def suite(folder, models, rounds):
    """What `cleave bench --suite` says of the models of suite_models.py in one of its folders."""
    path = os.path.join(folder, "suite.md")
    cleave("bench", "--suite", models, "--against", "onnxruntime", "--threads", "1,2", "--rounds", rounds, "--repeat", 10,
           "--write", path)
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n\n", 1)[1].strip()


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


def thousand_devices(folder):
    """Seconds and MiB that it takes to distribute a GPT of 96 layers over 1,024 simulated devices, and the plan's MiB."""
    model, plan = os.path.join(folder, "gpt96.onnx"), os.path.join(folder, "gpt96.plan")
    cleave("zoo", "gpt", "--layers", 96, "--hidden", 12288, "--heads", 96, "--sequence", 2048, "--batch", 128, "-o", model)
    begin = time.monotonic()
    pid = os.spawnv(os.P_NOWAIT, CLEAVE, [CLEAVE, "compile", model, "--machine", "null:1024", "--strategy", "tensor",
                                          "--degrees", "data=128,model=8", "-o", plan])
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise RuntimeError("cleave compile of the 96-layer GPT failed")
    return time.monotonic() - begin, usage.ru_maxrss / 1024, os.path.getsize(plan) / 2**20


def all_reduce(folder, rounds):
    """An all-reduce of 64 MiB: between two devices of one process, against the time that both cores need to read and
    write twice as much; and between two processes, against MPI_Allreduce. Medians of the rounds' ratios, and seconds."""
    path = os.path.join(folder, "collectives.json")
    flags = ["--collectives", "--sizes", "64MiB", "--operations", "all_reduce", "--json", path]
    runner = os.path.join(os.path.dirname(CLEAVE), "cleave-run")
    commands = {"ceiling_seconds": [CLEAVE, "bench", *flags],
                "mpi_seconds": ["mpirun", "--allow-run-as-root", "-n", "2", runner, *flags]}
    medians = []
    for peer, command in commands.items():
        results = []
        for _ in range(rounds):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(path, encoding="utf-8") as file:
                results.append(json.load(file)["collectives"][0])
        medians.append((statistics.median(result["seconds"] for result in results),
                        statistics.median(result["seconds"] / result[peer] for result in results)))
    return medians


def page(folder, rounds):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    onnxruntime = against_peer(folder, rounds, "onnxruntime", "ONNX Runtime")
    torch = against_peer(folder, rounds, "torch", "PyTorch")
    made = os.path.join(folder, "models")
    subprocess.run(["/usr/bin/python3", os.path.join(REPOSITORY, "tools/bench/suite_models.py"), made], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    reals, integers = (suite(folder, os.path.join(made, part), rounds) for part in ("reals", "integers"))
    compile_seconds, start_seconds = compile_and_start(folder, rounds)
    split, ceiling, ratio = split_by_data(folder, rounds)
    (local_seconds, local_ratio), (mpi_seconds, mpi_ratio) = all_reduce(folder, rounds)
    gpt_seconds, gpt_memory, gpt_plan = thousand_devices(folder)
    return f"""# Performance

Measured on {len(os.sched_getaffinity(0))} cores of {cpu}, medians of {rounds} rounds, by

```
python3 tools/bench/performance.py --write
```

## Against ONNX Runtime and PyTorch

One device, batch 1, float32. Rounds of the two take turns. Ours is prepared once and waits while the peer runs; the
peer starts anew for each round, through ONNX Runtime's package for Node, and ends before ours goes on, because its
threads spin. Both are warmed up before the clock starts. Alone:
`cleave bench MODEL --against onnxruntime --threads 1,2`, and `--against torch`.

{onnxruntime}

PyTorch (Debian's, on CPU) runs the same graph in four ways in each round, and the fastest counts: as it is or traced,
frozen and optimized by `torch.jit`, with tensors as they are or with channels last. Its OpenBLAS is told the processor.

{torch}

## More models, and integers

`tools/bench/suite_models.py` makes models of torchvision and of the zoo, with random weights, and some of them with
integers of 8 bits in the forms that tools write: `qdq` with uint8 or int8 activations, `operators` (QLinear…) and
`dynamic`. `cleave bench --suite` measures both folders: the least and the most round in brackets, each round in a process of
its own on both sides, in turns. `(one number)` is a model that computes next to nothing: what a call costs, on the peer's
side through its binding for Node. A processor with AVX2 and without AVX-512 has [a page of its own](results/suite-avx2.md).

{reals}

{integers}

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

## Collectives

An all-reduce of 64 MiB between two devices of one process takes {local_seconds * 1e3:.1f} ms, {local_ratio:.2f} times as long as
both cores together need to read 128 MiB and write 128 MiB. Between two processes it takes
{mpi_seconds * 1e3:.1f} ms, {mpi_ratio:.2f} times as long as Open MPI's own `MPI_Allreduce`. Both peers are measured in the
same run: `cleave bench --collectives`, `mpirun -n 2 cleave-run --collectives`.

## Many devices

A GPT of 96 layers, 12,288 hidden units and batch 128 over 1,024 simulated devices (`--machine
null:1024 --strategy tensor --degrees data=128,model=8`): {gpt_seconds:.1f} s and {gpt_memory:.0f} MiB from ONNX file to a plan of
{gpt_plan:.1f} MiB, which holds each program once.
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
