# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What training steps keep in memory that compute activations again: plans take about what the search expects, far less
# than those that keep everything, whatever the schedule; and they learn the same.

import json
import os
import sys
import tempfile

from cleave_process import DONE, cleave, report

import numpy

SAMPLES, SEQUENCE, VOCABULARY = 16, 128, 61
ONE = ["--machine", "host:1x1", "--microbatches", "2"]
TWO = ["--machine", "host:2x1", "--degrees", "pipeline=2", "--microbatches", "4", "--schedule"]
WAYS = {"one device": ONE, "1f1b": [*TWO, "1f1b"], "gpipe": [*TWO, "gpipe"], "zb-h1": [*TWO, "zb-h1"],
        "interleaved": [*TWO, "interleaved"]}


def compiled(model, plan, flags):
    """The bytes of the fullest device of a plan, and those that the search expected."""
    made = cleave("compile", model, "--train", "--loss", "cross-entropy", "--optimizer", "sgd", "--strategy", "auto",
                  "--zero", "0", *flags, "-o", plan)
    if made.code != DONE:
        return made, None, None
    explained = cleave("explain", plan, "--json", plan + ".json")
    with open(plan + ".json", encoding="utf-8") as file:
        facts = json.load(file)
    return (explained, max(device["arena_bytes"] for device in facts["devices"]),
            max(stage["memory_bytes"]["total"] for stage in facts["stages"]))


def losses(plan, folder):
    trained = cleave("train", plan, *[argument for name in ("tokens", "labels") for argument in
                                      ("--data", f"{name}={folder}/tokens.npy")],
                     "--steps", "3", "--json-steps", "--json", plan + ".run.json")
    if trained.code != DONE:
        sys.exit(trained.errors)
    with open(plan + ".run.json", encoding="utf-8") as file:
        return numpy.array([step["loss"] for step in json.load(file)["steps"]])


def main():
    failures, checks = [], 0
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "gpt.onnx")
        made = cleave("zoo", "gpt", "--layers", "8", "--hidden", "64", "--heads", "4", "--sequence", str(SEQUENCE),
                      "--vocabulary", str(VOCABULARY), "--batch", str(SAMPLES), "-o", model)
        if made.code != DONE:
            sys.exit(made.errors)
        tokens = numpy.random.default_rng(0).integers(0, VOCABULARY, (SAMPLES, SEQUENCE))
        numpy.save(os.path.join(folder, "tokens.npy"), tokens)
        for name, flags in WAYS.items():
            bytes_of, learnt = {}, {}
            for kept in ("none", "selective", "full"):
                plan = os.path.join(folder, f"{name}-{kept}.plan".replace(" ", "-"))
                result, bytes_of[kept], expected = compiled(model, plan, [*flags, "--recompute", kept])
                if bytes_of[kept] is None:
                    sys.exit(f"{name}, {kept}: {result.errors}")
                learnt[kept] = losses(plan, folder)
                print(f"{name}, {kept}: {bytes_of[kept] / 2**20:.1f} MiB, expected {expected / 2**20:.1f}")
                checks += 2
                # Plans share memory that the search counts twice, as that of gradients and activations.
                if not 0.6 * expected < bytes_of[kept] < 1.05 * expected:
                    failures.append((f"{name}, {kept}: {bytes_of[kept]} bytes, expected {expected}", result))
                if abs(learnt[kept] - learnt["none"]).max() > 1e-5:
                    failures.append((f"{name}, {kept}: losses {learnt[kept]}, not {learnt['none']}", result))
            checks += 1
            if not (bytes_of["full"] < 0.6 * bytes_of["none"] and bytes_of["selective"] < 0.9 * bytes_of["none"]):
                failures.append((f"{name}: {bytes_of}", result))
    report(failures, checks)


main()
