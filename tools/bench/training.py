#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Measures training against PyTorch and against the ceilings of two devices, and writes the tables of docs/training.md.
# Run it on an idle machine.
#
#   python3 tools/bench/training.py [--write] [--rounds N] [--only peer|models|data|pipeline|utilisation|steady]
#
# Prints the tables; --write puts them into docs/training.md, between its marks. $CLEAVE_BIN names the programs' folder
# (build/bin), $CLEAVE_SHARED the folder with data/fashion-mnist (../shared); without it a set of random images of the
# same size serves.

import argparse
import gzip
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

import numpy

import openblas

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLEAVE = os.path.join(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")), "cleave")
DATA = os.path.join(os.environ.get("CLEAVE_SHARED", os.path.join(REPOSITORY, "..", "shared")), "data", "fashion-mnist")
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_lenet.py")
MODEL_PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_gpu.py")
PAGE = os.path.join(REPOSITORY, "docs", "training.md")
BATCH = 256
SAMPLES = 60000


def run(*command, prefix=()):
    """Starts a command quietly; returns the process."""
    return subprocess.Popen([*prefix, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    """Waits for a process; returns what it printed."""
    output, errors = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(process.args)} failed with {process.returncode}:\n{errors[-2000:]}")
    return output


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def training_data(folder):
    """The files of images and labels: Fashion-MNIST, or random ones of its size."""
    files = [os.path.join(DATA, f"train-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
    if all(map(os.path.exists, files)):
        return files, "Fashion-MNIST"
    random = numpy.random.default_rng(1)
    arrays = [random.integers(0, 256, (SAMPLES, 28, 28), dtype=numpy.uint8),
              random.integers(0, 10, SAMPLES, dtype=numpy.uint8)]
    files = [os.path.join(folder, f"random-{name}.gz") for name in ("images", "labels")]
    for path, array in zip(files, arrays):
        header = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(header + array.tobytes())
    return files, "random images"


def first_samples(files, samples, folder):
    """The first of each IDX file's samples, as files of their own."""
    parts = []
    for path in files:
        with gzip.open(path, "rb") as file:
            magic = file.read(4)
            shape = [int.from_bytes(file.read(4), "big") for _ in range(magic[3])]
            data = file.read(samples * math.prod(shape[1:]))
        parts.append(os.path.join(folder, f"first-{samples}-{os.path.basename(path)}"))
        with gzip.open(parts[-1], "wb", compresslevel=1) as file:
            file.write(magic + b"".join(size.to_bytes(4, "big") for size in [samples, *shape[1:]]) + data)
    return parts


class Training:
    """A compiled training step and its data."""

    def __init__(self, folder, name, model, data, *flags):
        self.plan = os.path.join(folder, f"{name}.plan")
        self.report = os.path.join(folder, f"{name}.json")
        self.data = [flag for port, file in data.items() for flag in ("--data", f"{port}={file}")]
        finish(run(CLEAVE, "compile", model, "--train", *flags, "-o", self.plan))

    def start(self, epochs, copy=0, prefix=()):
        """`cleave train` of that many epochs."""
        report = f"{self.report}.{copy}"
        return run(CLEAVE, "train", self.plan, *self.data, "--epochs", epochs, "--seed", 1, "--json", report,
                   prefix=prefix), report

    def seconds(self, epochs=2):
        """Seconds of the last epoch; the ones before it warm caches up."""
        process, report = self.start(epochs)
        finish(process)
        return read(report)["epochs"][-1]["seconds"]

    def together(self, epochs=2):
        """Two independent runs at once, each on a core of its own: their seconds of the last epoch."""
        cores = sorted(os.sched_getaffinity(0))[:2]
        started = [self.start(epochs, core, ("taskset", "-c", str(core))) for core in cores]
        for process, _ in started:
            finish(process)
        return [read(report)["epochs"][-1]["seconds"] for _, report in started]


def lenet(folder):
    path = os.path.join(folder, "lenet.onnx")
    if not os.path.exists(path):
        finish(run(CLEAVE, "zoo", "lenet", "--batch", BATCH, "--weights", "-o", path))
    return path


def lenet_training(folder, name, machine, *flags, samples=SAMPLES):
    """A step in parts of 32 samples a device, whose activations stay in a core's cache."""
    files, _ = training_data(folder)
    if samples != SAMPLES:
        files = first_samples(files, samples, folder)
    return Training(folder, name, lenet(folder), dict(zip(("input", "labels"), files)), "--machine", machine, "--loss",
                    "cross-entropy", "--optimizer", "sgd", "--learning-rate", "0.2", *flags)


def peer_variants():
    """The ways in which PyTorch is given a chance: memory format, compiled by torch.jit or not, and a batch whole or in
    microbatches, as ours."""
    return [(memory, jit, microbatches) for memory in ("contiguous", "channels_last") for jit in (False, True)
            for microbatches in (1, BATCH // 32)]


def peer_seconds(folder, threads, memory, jit, microbatches):
    files, _ = training_data(folder)
    environment = {**openblas.settings(), **os.environ, "OMP_NUM_THREADS": str(threads),
                   "OPENBLAS_NUM_THREADS": str(threads)}
    done = subprocess.run(["/usr/bin/python3", PEER, *files, "--threads", str(threads), "--memory", memory, "--batch",
                           str(BATCH), "--microbatches", str(microbatches), *(["--jit"] if jit else [])], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"PyTorch's LeNet failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def against_peer(folder, rounds):
    """An epoch of LeNet on the same number of threads; ours and PyTorch's best variant take turns."""
    rows = ["| threads | Cleave s | PyTorch s | as fast | PyTorch's best variant |", "|---:|---:|---:|---:|---|"]
    about = None
    for threads in (1, 2):
        trials = {variant: peer_seconds(folder, threads, *variant) for variant in peer_variants()}
        best = min(trials, key=lambda variant: trials[variant]["seconds"])
        about = trials[best]
        training = lenet_training(folder, f"lenet{threads}", f"host:1x{threads}", "--strategy", "single",
                                  "--microbatches", BATCH // 32)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(training.seconds())
            theirs.append(peer_seconds(folder, threads, *best)["seconds"])
        ratio = statistics.median(b / a for a, b in zip(ours, theirs))
        rows.append(f"| {threads} | {statistics.median(ours):.2f} | {statistics.median(theirs):.2f} | {ratio:.2f} | "
                    f"{best[0]}{', torch.jit' if best[1] else ''}{f', {best[2]} microbatches' if best[2] > 1 else ''} |")
    _, data = training_data(folder)
    return "\n".join(rows) + f"""

One epoch of {data} ({SAMPLES // BATCH} batches of {BATCH}), the second of a process. PyTorch {about['version']}
with oneDNN and {about['blas']}, its data decoded and in memory before the clock starts; of its variants (memory
format, torch.jit, {BATCH // 32} microbatches) the one that was fastest in a trial of its own. Ours runs {BATCH // 32}
microbatches of 32."""


# The models of tools/bench/torch_gpu.py with its sizes for processors: flags of cleave zoo, flags of the step, steps.
MODELS = {
    "resnet50": (["--batch", 8], ["--optimizer", "momentum", "--learning-rate", 0.01], 5),
    "gpt": (["--batch", 8, "--layers", 6, "--hidden", 512, "--heads", 8, "--sequence", 128, "--vocabulary", 8192],
            ["--optimizer", "adam", "--learning-rate", 0.0001], 10),
    "lstm": (["--batch", 20], ["--optimizer", "sgd", "--learning-rate", 0.1], 10),
}


def model_peer(name, threads, steps, layout=None):
    """PyTorch's answer for a training step."""
    environment = {**openblas.settings(), **os.environ, "OMP_NUM_THREADS": str(threads),
                   "OPENBLAS_NUM_THREADS": str(threads)}
    done = subprocess.run(["/usr/bin/python3", MODEL_PEER, name, "--device", "cpu", "--processor", "--threads",
                           str(threads), "--steps", str(steps), "--only", "train", "--variants", "eager",
                           *(["--layout", layout] if layout else [])], capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"PyTorch's {name} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def models_against_peer(folder, rounds):
    """Training steps of three models on the same number of threads, in turns."""
    rows = ["| model | threads | Cleave ms | PyTorch ms | Cleave / PyTorch | PyTorch's layout |", "|---|---:|---:|---:|---:|---|"]
    for name, (sizes, how, steps) in MODELS.items():
        model = os.path.join(folder, f"{name}.onnx")
        finish(run(CLEAVE, "zoo", name, *sizes, "-o", model))
        for threads in (1, 2):
            plan, report = (os.path.join(folder, f"{name}.{kind}") for kind in ("plan", "json"))
            finish(run(CLEAVE, "compile", model, "--machine", f"host:1x{threads}", "--strategy", "single", "--train", "--loss",
                       "cross-entropy", *how, "-o", plan))
            layout = model_peer(name, threads, 1).get("layout")
            ours, theirs = [], []
            for _ in range(rounds):
                finish(run(f"{CLEAVE}-run", plan, "--entry", "train", "--warmup", 2, "--repeat", steps, "--json", report))
                ours.append(read(report)["latency_ms"]["median"])
                theirs.append(model_peer(name, threads, steps, layout)["ms"])
            ratio = statistics.median(a / b for a, b in zip(ours, theirs))
            rows.append(f"| {name} | {threads} | {statistics.median(ours):.0f} | {statistics.median(theirs):.0f} | {ratio:.2f} | "
                        f"{layout or '-'} |")
    return "\n".join(rows) + """

resnet50 of 8 images of 224 x 224; gpt with 6 layers of 512, 8 heads, 8,192 words, 8 texts of 128 tokens; lstm with 2
layers of 650, 10,000 words, 20 texts of 35. PyTorch is Debian's, with oneDNN and OpenBLAS; where it takes longer on two
threads than on one, one is its best."""


SCALING = ["| what | one device s | two devices s | ceiling s | reached | rounds | reached in all rounds |",
           "|---|---:|---:|---:|---:|---:|---:|"]


def scaling_row(name, rounds, alone, two):
    """One device, two devices, and two independent runs at once take turns. A round counts when the two independent
    runs took equally long, within 5 %: cores of a virtual machine are not always equally fast, and two devices that
    work together wait for the slower one. At most four times as many rounds are tried; what all of them reached stands
    beside."""
    counted, tried = [], []
    while len(counted) < rounds and len(tried) < 4 * rounds:
        one, both, independent = alone.seconds(), two.seconds(), alone.together()
        tried.append((one, both, statistics.mean(independent) / 2))
        if max(independent) <= 1.05 * min(independent):
            counted.append(tried[-1])
    number = f"{len(counted)} of {len(tried)}"
    reached_in_all = reached(tried)
    if not counted:
        return f"| {name} | - | - | - | - | {number} | {reached_in_all:.0%} |"
    one, both, ceiling = (statistics.median(column) for column in zip(*counted))
    return (f"| {name} | {one:.2f} | {both:.2f} | {ceiling:.2f} | {reached(counted):.0%} | {number} | "
            f"{reached_in_all:.0%} |")


def reached(rounds):
    """What part of the ceiling two devices reach, of rounds of seconds (one device, two devices, ceiling)."""
    return statistics.median(ceiling / both for _, both, ceiling in rounds)


def split_by_data(folder, rounds):
    """The first quarter of an epoch of LeNet, so that a round is short."""
    alone = lenet_training(folder, "alone", "host:1x1", "--strategy", "single", "--microbatches", BATCH // 32,
                           samples=SAMPLES // 4)
    two = lenet_training(folder, "two", "host:2x1", "--strategy", "data", "--degrees", "data=2", "--microbatches",
                         BATCH // 64, samples=SAMPLES // 4)
    return "\n".join([*SCALING, scaling_row("LeNet, split by data", rounds, alone, two)])


def pipeline(folder, rounds):
    """The zoo's LSTM as a language model on random text, its layers on two devices."""
    sequence, vocabulary, batch, steps = 35, 2000, 64, 8
    model = os.path.join(folder, "lstm.onnx")
    finish(run(CLEAVE, "zoo", "lstm", "--layers", 8, "--hidden", 256, "--sequence", sequence, "--vocabulary",
               vocabulary, "--batch", batch, "--weights", "-o", model))
    text = numpy.random.default_rng(1).integers(0, vocabulary, (steps * batch, sequence + 1))
    files = {}
    for port, tokens in (("tokens", text[:, :-1]), ("labels", text[:, 1:])):
        files[port] = os.path.join(folder, f"{port}.npy")
        numpy.save(files[port], numpy.ascontiguousarray(tokens))
    common = ["--loss", "cross-entropy", "--optimizer", "sgd", "--learning-rate", "0.1"]
    alone = Training(folder, "lstm-alone", model, files, "--machine", "host:1x1", "--strategy", "single", *common)
    two = Training(folder, "lstm-two", model, files, "--machine", "host:2x1", "--strategy", "pipeline", "--degrees",
                   "pipeline=2", "--microbatches", 8, *common)
    return "\n".join([*SCALING, scaling_row("LSTM of 8 layers, pipeline", rounds, alone, two)])


def utilisations_of(trace):
    """Of each of the trace's steps, but for the first three, in which the devices' work took equally long (within 5 %):
    the part of the longest span of a device, from its first kernel to its last, that devices work on average. And the same
    of all steps."""
    steps = {}
    for event in read(trace)["traceEvents"]:
        if event["ph"] == "X" and event["cat"] == "call" and event["args"]["phase"] == "body":
            steps.setdefault(event["args"]["step"], {}).setdefault(event["pid"], []).append(
                (event["ts"], event["ts"] + event["dur"]))
    shares, all_shares = [], []
    for _, devices in sorted(steps.items())[3:]:
        span = max(max(end for _, end in calls) - min(begin for begin, _ in calls) for calls in devices.values())
        work = [sum(end - begin for begin, end in calls) for calls in devices.values()]
        all_shares.append(statistics.mean(work) / span)
        if max(work) <= 1.05 * min(work):
            shares.append(all_shares[-1])
    return shares, all_shares


def utilisation(folder, rounds):
    """Two stages of eight equal dense layers, on a core each. Only steps in which they took equally long say anything of
    the schedule: cores of a virtual machine are not always equally fast."""
    width, samples, steps = 512, 64, 60
    rows = ["| schedule | microbatches | steps of equal stages | utilisation | formula | utilisation in all steps |",
            "|---|---:|---:|---:|---:|---:|"]
    for schedule in ("gpipe", "1f1b"):
        for microbatches in (2, 4, 8, 16):
            model, plan, trace = (os.path.join(folder, f"mlp.{kind}") for kind in ("onnx", "plan", "json"))
            finish(run(CLEAVE, "zoo", "mlp", "--layers", 16, "--inputs", width, "--hidden", width, "--classes", width,
                       "--batch", samples * microbatches, "--weights", "-o", model))
            finish(run(CLEAVE, "compile", model, "--train", "--loss", "cross-entropy", "--optimizer", "sgd", "--machine",
                       "host:2x1", "--strategy", "pipeline", "--degrees", "pipeline=2", "--microbatches", microbatches,
                       "--schedule", schedule, "--recompute", "none", "-o", plan))
            shares, all_shares = [], []
            for _ in range(rounds):
                finish(run(CLEAVE, "run", plan, "--repeat", steps, "--trace", trace))
                equal, every = utilisations_of(trace)
                shares += equal
                all_shares += every
            work = 3 * microbatches
            measured = f"{statistics.median(shares):.0%}" if shares else "-"
            rows.append(f"| {schedule} | {microbatches} | {len(shares)} of {len(all_shares)} | {measured} | "
                        f"{work / (work + 2):.0%} | {statistics.median(all_shares):.0%} |")
    return "\n".join(rows)


def steady(folder, rounds):
    """The same layers under 1F1B, which drains after every step, and 2BW, which does not, beside one device and two
    independent runs at once. All take turns, and the fastest round of each counts: what else a machine does only adds."""
    width, samples, steps = 512, 64, 20
    rows = ["| microbatches | one device ms a step | 1f1b | 2bw | ceiling | 1f1b reached | 2bw reached | 2bw against 1f1b | formula |",
            "|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    random = numpy.random.default_rng(1)
    for microbatches in (2, 4, 8):
        model, files, count = os.path.join(folder, "steady.onnx"), {}, steps * samples * microbatches
        finish(run(CLEAVE, "zoo", "mlp", "--layers", 16, "--inputs", width, "--hidden", width, "--classes", width,
                   "--batch", samples * microbatches, "--weights", "-o", model))
        for port, array in (("input", random.standard_normal((count, width), numpy.float32)),
                            ("labels", random.integers(0, width, count))):
            files[port] = os.path.join(folder, f"steady-{port}.npy")
            numpy.save(files[port], array)
        common = ["--loss", "cross-entropy", "--optimizer", "sgd", "--learning-rate", "0.01"]
        two = [*common, "--machine", "host:2x1", "--strategy", "pipeline", "--degrees", "pipeline=2", "--microbatches",
               microbatches, "--recompute", "none", "--schedule"]
        alone = Training(folder, "steady-one", model, files, *common, "--machine", "host:1x1", "--strategy", "single",
                         "--microbatches", microbatches)
        pipelines = [Training(folder, f"steady-{schedule}", model, files, *two, schedule) for schedule in ("1f1b", "2bw")]
        taken = [[alone.seconds(3), *(pipeline.seconds(3) for pipeline in pipelines),
                  statistics.mean(alone.together(3)) / 2] for _ in range(rounds)]
        one, drained, late, ceiling = (1000 * min(column) / steps for column in zip(*taken))
        rows.append(f"| {microbatches} | {one:.1f} | {drained:.1f} | {late:.1f} | {ceiling:.1f} | {ceiling / drained:.0%} | "
                    f"{ceiling / late:.0%} | {drained / late:.2f} | {(3 * microbatches + 2) / (3 * microbatches):.2f} |")
    return "\n".join(rows)


TABLES = {"peer": against_peer, "models": models_against_peer, "data": split_by_data, "pipeline": pipeline, "utilisation": utilisation,
          "steady": steady}


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))


def put_into_page(name, table):
    """Replaces what stands between the table's marks in docs/training.md."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    replaced, count = re.subn(re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + table + end, text,
                              flags=re.DOTALL)
    if count != 1:
        sys.exit(f"{PAGE} expects one place marked {begin.strip()}, got {count}")
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(replaced)


def main():
    parser = argparse.ArgumentParser(description="measures training and writes the tables of docs/training.md")
    parser.add_argument("--write", action="store_true", help="write docs/training.md")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=sorted(TABLES), help="one table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, measure in TABLES.items():
            if options.only not in (None, name):
                continue
            table = (measure(folder, options.rounds) + f"\n\n{'Fastest' if name == 'steady' else 'Medians'} of {options.rounds} rounds on "
                     f"{len(os.sched_getaffinity(0))} cores of {processor()}.")
            print(table, end="\n\n", flush=True)
            if options.write:
                put_into_page(name, table)


if __name__ == "__main__":
    main()
