#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""For optimizer-memory.test: makes data, and compares runs, and what a search expects with a simulation."""

import json
import os
import sys

import numpy


def load(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return json.load(file)


def make_data(folder):
    numbers = numpy.random.default_rng(0)
    for name in ("tokens", "labels"):
        numpy.save(os.path.join(folder, f"{name}.npy"), numbers.integers(0, 61, (24, 16)))


def compare(folder):
    losses = {name: [step["loss"] for step in load(folder, f"{name}.json")["steps"]]
              for name in ("device", "host", "resumed")}
    print(losses)
    assert len(losses["device"]) == 6 and losses["device"][0] != losses["device"][-1]
    assert losses["host"] == losses["device"]
    assert losses["resumed"][-3:] == losses["device"][-3:]
    peaks = {name: load(folder, f"{name}.json")["peak_bytes"] for name in ("device", "host")}
    memory = {name: load(folder, f"{name}.compiled.json")["stages"][0]["memory_bytes"] for name in ("device", "host")}
    # Adam keeps two numbers for each parameter.
    assert memory["host"]["optimizer"] == 0
    assert memory["host"]["host"] == memory["device"]["optimizer"] > 0
    assert peaks["host"] < peaks["device"] - memory["host"]["host"] / 2


def check_chosen(folder):
    report, simulated = load(folder, "large.json"), load(folder, "simulated.json")
    stage = report["stages"][0]
    memory = stage["memory_bytes"]
    assert stage["optimizer_in_host"] and memory["optimizer"] == 0
    # Two of float32 for each parameter of the model, the table that the head reads, too, among them once: a layer has four
    # matrices of attention and two that are four times as large, with their biases and two norms.
    hidden, layers = 1536, 20
    count = (50304 + 512) * hidden + layers * (12 * hidden ** 2 + 13 * hidden) + 2 * hidden
    assert abs(memory["host"] / (8 * count) - 1) < 1e-6, (memory, 8 * count)
    device = simulated["devices"][0]
    print(report["searched_step_seconds"], report["predicted_step_seconds"], memory["total"], device)
    # All of it goes one way and the other in a step, at 20 GB/s.
    assert stage["per_step_seconds"] >= memory["host"] / 20e9 * (1 - 1e-9)
    assert abs(report["searched_step_seconds"] / report["predicted_step_seconds"] - 1) < 0.1
    assert report["lower_bound_seconds"] > 0.9 * report["searched_step_seconds"]


{"data": make_data, "compare": compare, "chosen": check_chosen}[sys.argv[1]](sys.argv[2])
