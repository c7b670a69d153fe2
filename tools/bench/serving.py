#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Measures what docs/serving.md says of load, and writes it there with a plot: throughput and latency by the number of clients,
# beside ONNX Runtime behind the thinnest Node server and beside what steps of the best batch give without a server;
# latency at 70 % of the most, and what is answered in time at three times of it. Run it on an idle machine. --overload:
# the last of these alone; --apart: with the server on as many cores as its devices have, and the load on the others;
# --instances: of several instances of the plan.
#
#   python3 tools/bench/serving.py [--write] [--seconds N] [--only NAME] [--clients N,N,...]
#                                  [--overload [--apart] [--instances N]]
#
# $CLEAVE_BIN names the programs' folder (build/bin), $CLEAVE_SHARED the folder with models/ (../shared).

import argparse
import contextlib
import datetime
import json
import math
import os
import re
import subprocess
import tempfile

import serving_plot

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin"))
SHARED = os.environ.get("CLEAVE_SHARED", os.path.join(REPOSITORY, "..", "shared"))
BATCHES = [1, 2, 4, 8, 16, 32]
DELAY = 5


def cleave(*arguments, name="cleave", cores=None):
    return subprocess.run([os.path.join(BIN, name), *map(str, arguments)], check=True, capture_output=True, text=True,
                          preexec_fn=on(cores)).stdout


def on(cores):
    """What restricts a process to cores, if any are named."""
    return (lambda: os.sched_setaffinity(0, cores)) if cores else None


def models(folder):
    """Names and files: dense layers, 4,096 wide, whose weights one sample reads as well as many; two of convolutions; and an
    encoder of 6 layers, 512 wide, over 128 tokens."""
    mlp = os.path.join(folder, "mlp.onnx")
    cleave("zoo", "mlp", "--layers", 4, "--inputs", 2048, "--hidden", 4096, "--weights", "-o", mlp)
    yield "mlp", mlp
    encoder = os.path.join(folder, "encoder.onnx")
    cleave("zoo", "bert", "--layers", 6, "--hidden", 512, "--heads", 8, "--sequence", 128, "--weights", "-o", encoder)
    yield "encoder", encoder
    for name in ("resnet50", "squeezenet"):
        file = os.path.join(SHARED, "models", name, "model.onnx")
        if os.path.exists(file):
            yield name, file
        else:
            print(f"{name} is left out: there is no {file}", flush=True)


@contextlib.contextmanager
def serving(command, cores=None):
    """The URL of a server that runs for the block."""
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               preexec_fn=on(cores))
    try:
        for line in process.stdout:
            if found := re.match(r"serving at (http://\S+)", line):
                yield found[1]
                break
        else:
            raise SystemExit(f"{command}: ended before it served")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def load(url, model, seconds, cores=None, **flags):
    """What `cleave load` reports."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "load.json")
        words = [word for name, value in flags.items() for word in ("--" + name, value)]
        cleave("load", url, "--model", model, "--seconds", seconds, "--json", report, *words, name="cleave-run",
               cores=cores)
        with open(report, encoding="utf-8") as file:
            return json.load(file)


def ceiling(file, machine, folder, cores=None):
    """Samples a second of the best batch without a server, its size, and the seconds that it and the largest take."""
    report, best = os.path.join(folder, "run.json"), (0, 0, 0)
    for batch in BATCHES:
        cleave("run", file, "--machine", machine, "--batch", batch, "--warmup", 2, "--duration", 3, "--json", report,
               cores=cores)
        with open(report, encoding="utf-8") as text:
            seconds = json.load(text)["latency_ms"]["median"] * 1e-3
        best = max(best, (batch / seconds, batch, seconds))
    return *best, seconds


def overload(name, file, machine, options, folder):
    """Prints how much of the most is answered in time at three times of it."""
    own = others = None
    if options.apart:
        present = sorted(os.sched_getaffinity(0))
        needed = cores_of(machine) * options.instances
        own, others = present[:needed], present[needed:]
        if not others:
            print(f"{name} {machine}: --apart expects more cores than the devices have", flush=True)
            return
    plan = os.path.join(folder, "model.plan")
    cleave("compile", file, "--machine", machine, "--batches", ",".join(map(str, BATCHES)), "-o", plan)
    most, _, step, _ = ceiling(file, machine, folder, own)
    most *= options.instances
    limit = DELAY + 3 * step * 1e3
    command = [os.path.join(BIN, "cleave-run"), "serve", "model=" + plan, "--http", 0, "--max-delay", DELAY,
               "--instances", options.instances]
    with serving(command, own) as url:
        best = max(load(url, "model", options.seconds, others, clients=clients)["answers_per_second"]
                   for clients in options.clients)
        crowd = load(url, "model", options.seconds * 3, others, clients=1024, rate=3 * best, deadline=limit)
    goodput = crowd["goodput_per_second"]
    print(f"{name} {machine}: {most:.1f} without a server, at most {best:.1f}, share {best / most:.2f}, limit {limit:.1f} ms, "
          f"in time at 300 % {goodput:.1f}, share {goodput / best:.2f}", flush=True)


def cores_of(machine):
    """The cores that devices of "host:DxC" take together."""
    return math.prod(map(int, machine.split(":")[1].split("x")))


def left(report, machine):
    """The share of its cores that a load on the same cores leaves to the devices, if the server needed none of them."""
    free = len(os.sched_getaffinity(0)) - report["processor_seconds"] / report["seconds"]
    return min(1, free / cores_of(machine))


def measure(name, file, machine, options, folder):
    """A row for each number of clients, and one of the loads at a rate."""
    plan = os.path.join(folder, "model.plan")
    cleave("compile", file, "--machine", machine, "--batches", ",".join(map(str, BATCHES)), "-o", plan)
    most, batch, step, longest = ceiling(file, machine, folder)
    rows, best = [], 0
    with serving([os.path.join(BIN, "cleave-run"), "serve", "model=" + plan, "--http", 0, "--max-delay", DELAY]) as url:
        ours = {clients: load(url, "model", options.seconds, clients=clients) for clients in options.clients}
        fastest = max(ours.values(), key=lambda answer: answer["answers_per_second"])
        best = fastest["answers_per_second"]
        calm = load(url, "model", options.seconds * 3, clients=256, rate=0.7 * best)
        limit = DELAY + 3 * step * 1e3
        crowd = load(url, "model", options.seconds * 3, clients=1024, rate=3 * best, deadline=limit)
    peers = {}
    cores = cores_of(machine)
    # The peer gets as many cores, inside of operators or by requests, whichever is faster.
    for threads, runs in sorted({(cores, 1), (1, cores)}):
        with serving(["node", os.path.join(REPOSITORY, "tools/bench/onnxruntime_server.mjs"), file, 0, threads, runs]) as url:
            for clients in options.clients:
                found = load(url, "model", options.seconds, clients=clients)
                peers[clients] = max(peers.get(clients, found), found, key=lambda answer: answer["answers_per_second"])
    for clients in options.clients:
        own, peer = ours[clients], peers[clients]
        rows.append([name, machine, str(clients), f"{own['answers_per_second']:.1f}", f"{own['latency_ms']['p50']:.1f}",
                     f"{own['latency_ms']['p99']:.1f}", f"{peer['answers_per_second']:.1f}",
                     f"{peer['latency_ms']['p50']:.1f}", f"{peer['latency_ms']['p99']:.1f}",
                     f"{own['answers_per_second'] / peer['answers_per_second']:.2f}"])
        print(rows[-1], flush=True)
    p99, allowed = calm["latency_ms"]["p99"], DELAY + 1.3 * longest * 1e3
    goodput = crowd["goodput_per_second"]
    rates = [name, machine, f"{most:.1f} ({batch})", f"{best:.1f}", f"{best / most:.2f}",
             f"{left(fastest, machine):.2f}", f"{p99:.1f}", f"{allowed:.1f}", f"{goodput:.1f}", f"{goodput / best:.2f}",
             f"{left(crowd, machine):.2f}"]
    print(rates, flush=True)
    return rows, rates


def table(heads, rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *rows]) + "\n"


def put(text, mark="load"):
    """Writes between the two marks of the page."""
    page = os.path.join(REPOSITORY, "docs", "serving.md")
    with open(page, encoding="utf-8") as file:
        parts = re.split(f"(<!-- {mark} -->\n)", file.read())
    parts[2] = "\n" + text + "\n"
    with open(page, "w", encoding="utf-8") as file:
        file.write("".join(parts))


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as text:
        cpu = re.search(r"model name\s*: (.*)", text.read())[1]
    return f"{cpu}, {len(os.sched_getaffinity(0))} cores"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only")
    parser.add_argument("--machines", default="host:1x1,host:2x1")
    parser.add_argument("--clients", default="1,16,64,256")
    parser.add_argument("--overload", action="store_true")
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("--instances", type=int, default=1)
    options = parser.parse_args()
    options.clients = [int(number) for number in options.clients.split(",")]
    rows, rates = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, file in models(folder):
            if options.only in (None, name):
                for machine in options.machines.split(","):
                    if options.overload:
                        overload(name, file, machine, options, folder)
                        continue
                    more, rate = measure(name, file, machine, options, folder)
                    rows += more
                    rates.append(rate)
    if options.overload:
        return
    text = f"Measured on {datetime.date.today()}, {processor()}.\n\n"
    text += table(["model", "machine", "clients", "answers a second", "p50 ms", "p99 ms", "peer's", "p50 ms", "p99 ms", "ratio"],
                  rows)
    text += "\n" + table(["model", "machine", "without a server (batch)", "at most", "share", "load leaves", "p99 at 70 %",
                          "limit", "in time at 300 %", "share", "load leaves"], rates)
    print(text)
    if options.write:
        put(text)
        serving_plot.main()


if __name__ == "__main__":
    main()
