#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares `cleave load` with wrk and hey, whichever are there (tools/setup --tests installs both): the same requests,
# each client waiting for its answers, to one server of LeNet, in turns. With --write the table goes to docs/serving.md.
#
#   python3 tools/bench/load_generators.py [--write] [--seconds N] [--rounds N] [--clients N,N,...]
#
# $CLEAVE_BIN names the programs' folder (build/bin).

import argparse
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile

import serving

UNITS = {"us": 1e-3, "ms": 1, "s": 1e3}


def request_of(folder):
    """A request for one sample of LeNet by the binary extension: the body's file, and the header that belongs to it."""
    raw = bytes(4 * 28 * 28)
    head = json.dumps({"inputs": [{"name": "input", "shape": [1, 1, 28, 28], "datatype": "FP32",
                                   "parameters": {"binary_data_size": len(raw)}}],
                       "parameters": {"binary_data_output": True}}).encode()
    with open(os.path.join(folder, "body"), "wb") as file:
        file.write(head + raw)
    return os.path.join(folder, "body"), ("Inference-Header-Content-Length", str(len(head)))


def by_cleave(url, clients, seconds, _folder):
    found = serving.load(url, "lenet", seconds, clients=clients)
    return found["answers_per_second"], found["latency_ms"]["p50"], found["latency_ms"]["p99"]


def by_wrk(url, clients, seconds, folder):
    body, (name, value) = request_of(folder)
    script = os.path.join(folder, "post.lua")
    with open(script, "w", encoding="utf-8") as file:
        file.write(f'wrk.method = "POST"\nwrk.body = io.open("{body}", "rb"):read("*a")\nwrk.headers["{name}"] = "{value}"\n')
    text = subprocess.run(["wrk", "-t", "1", "-c", str(clients), "-d", f"{seconds}s", "-s", script, "--latency",
                           url + "/v2/models/lenet/infer"], check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in text, text
    latency = {percent: float(number) * UNITS[unit] for percent, number, unit in
               re.findall(r"^\s+(\d+)%\s+([\d.]+)(us|ms|s)$", text, re.M)}
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]), latency["50"], latency["99"]


def by_hey(url, clients, seconds, folder):
    body, (name, value) = request_of(folder)
    text = subprocess.run(["hey", "-z", f"{seconds}s", "-c", str(clients), "-m", "POST", "-D", body, "-T",
                           "application/octet-stream", "-H", f"{name}: {value}", url + "/v2/models/lenet/infer"],
                          check=True, capture_output=True, text=True).stdout
    assert re.findall(r"^\s+\[(\d+)\]", text, re.M) == ["200"], text
    latency = {percent: float(number) * 1e3 for percent, number in re.findall(r"^\s+(\d+)%+ in ([\d.]+) secs", text, re.M)}
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]), latency["50"], latency["99"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", default="1,16,64")
    options = parser.parse_args()
    generators = [("cleave load", by_cleave)] + [(name, run) for name, run in (("wrk", by_wrk), ("hey", by_hey))
                                                 if shutil.which(name)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model, plan = os.path.join(folder, "lenet.onnx"), os.path.join(folder, "lenet.plan")
        serving.cleave("zoo", "lenet", "--weights", "-o", model)
        serving.cleave("compile", model, "--machine", "host:1x1", "--max-batch", 32, "-o", plan)
        with serving.serving([os.path.join(serving.BIN, "cleave-run"), "serve", plan, "--http", 0]) as url:
            for clients in map(int, options.clients.split(",")):
                found = {name: [] for name, _ in generators}
                for _ in range(options.rounds):
                    for name, run in generators:
                        found[name].append(run(url, clients, options.seconds, folder))
                for name, _ in generators:
                    rate, p50, p99 = (statistics.median(column) for column in zip(*found[name]))
                    rows.append([str(clients), name, f"{rate:.0f}", f"{p50:.3f}", f"{p99:.3f}"])
                    print(rows[-1], flush=True)
    text = (f"Measured on {datetime.date.today()}, {serving.processor()}, medians of {options.rounds} turns of "
            f"{options.seconds} s each.\n\n" +
            serving.table(["clients", "generator", "answers a second", "p50 ms", "p99 ms"], rows))
    if options.write:
        serving.put(text, "generators")


if __name__ == "__main__":
    main()
