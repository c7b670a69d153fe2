# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What training steps keep in memory that compute activations again, or move them to the host's: plans take about what the search expects, far less
# than those that keep everything, whatever the schedule; and they learn the same. Under limits between the two, segments
# of one stage differ in what they compute again.

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


SHARES = (0.25, 0.5, 0.75)  # Of what keeping everything takes more than computing all of it again.


def compiled(model, plan, flags):
    """The bytes of the fullest device of a plan, and what the search expected of its stages."""
    made = cleave("compile", model, "--train", "--loss", "cross-entropy", "--optimizer", "sgd", "--strategy", "auto",
                  "--zero", "0", *flags, "-o", plan)
    if made.code != DONE:
        return made, None, []
    explained = cleave("explain", plan, "--json", plan + ".json")
    with open(plan + ".json", encoding="utf-8") as file:
        facts = json.load(file)
    return explained, max(device["arena_bytes"] for device in facts["devices"]), facts["stages"]


def losses(plan, folder):
    trained = cleave("train", plan, *[argument for name in ("tokens", "labels") for argument in
                                      ("--data", f"{name}={folder}/tokens.npy")],
                     "--steps", "3", "--json-steps", "--json", plan + ".run.json")
    if trained.code != DONE:
        sys.exit(trained.errors)
    with open(plan + ".run.json", encoding="utf-8") as file:
        return numpy.array([step["loss"] for step in json.load(file)["steps"]])


def bytes_expected(stages):
    return max(stage["memory_bytes"]["total"] for stage in stages)


def seconds_expected(stages):
    return sum(stage["forward_seconds"] + stage["backward_input_seconds"] + stage["backward_weight_seconds"]
               for stage in stages)


def check_limits(model, folder, expected, learnt):
    """Limits between computing all again and keeping all, each filled by a mixture; `expected`: stages of these."""
    failures, mixed = [], 0
    least, most = bytes_expected(expected["full"]), bytes_expected(expected["none"])
    before = seconds_expected(expected["full"])
    for share in SHARES:
        limit = int(least + share * (most - least))
        plan = os.path.join(folder, f"limit-{share}.plan")
        result, size, stages = compiled(model, plan, [*ONE, "--memory", f"{limit} B"])
        if size is None:
            sys.exit(f"{share}: {result.errors}")
        text, seconds, losses_now = stages[0]["recompute"], seconds_expected(stages), losses(plan, folder)
        print(f"{share}: {size / 2**20:.1f} MiB of {limit / 2**20:.1f}, {text}")
        mixed += "," in text
        if size > limit or bytes_expected(stages) > limit:
            failures.append((f"{share}: {size} bytes, limit {limit}", result))
        if abs(losses_now - learnt).max() > 1e-5:
            failures.append((f"{share}: losses {losses_now}, not {learnt}", result))
        # More memory saves time.
        if not seconds_expected(expected["none"]) < seconds < before:
            failures.append((f"{share}: {seconds} s, with less memory {before} s", result))
        before = seconds
    if mixed != len(SHARES):
        failures.append((f"{mixed} of {len(SHARES)} plans have segments that differ", result))
    return failures, 3 * len(SHARES) + 1


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
            bytes_of, learnt, expected = {}, {}, {}
            for kept in ("none", "selective", "full", "offload"):
                plan = os.path.join(folder, f"{name}-{kept}.plan".replace(" ", "-"))
                result, bytes_of[kept], expected[kept] = compiled(model, plan, [*flags, "--recompute", kept])
                if bytes_of[kept] is None:
                    sys.exit(f"{name}, {kept}: {result.errors}")
                learnt[kept] = losses(plan, folder)
                size = bytes_expected(expected[kept])
                print(f"{name}, {kept}: {bytes_of[kept] / 2**20:.1f} MiB, expected {size / 2**20:.1f}")
                checks += 2
                # Plans share memory that the search counts twice, as that of gradients and activations.
                if not 0.6 * size < bytes_of[kept] < 1.05 * size:
                    failures.append((f"{name}, {kept}: {bytes_of[kept]} bytes, expected {size}", result))
                if abs(learnt[kept] - learnt["none"]).max() > 1e-5:
                    failures.append((f"{name}, {kept}: losses {learnt[kept]}, not {learnt['none']}", result))
            checks += 1
            if not (max(bytes_of["full"], bytes_of["offload"]) < 0.6 * bytes_of["none"] and
                    bytes_of["selective"] < 0.9 * bytes_of["none"]):
                failures.append((f"{name}: {bytes_of}", result))
            if name == "one device":
                more, number = check_limits(model, folder, expected, learnt["none"])
                failures += more
                checks += number
    report(failures, checks)


main()
