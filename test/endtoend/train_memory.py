# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The zoo's gpt with the layers of GPT-2 small: under a limit that its parameters and their gradients alone exceed on one
# device, one device cannot train it, and two can, with plans that stay below the limit.

import json
import math
import os
import sys
import tempfile

from cleave_process import DONE, INFEASIBLE, cleave, report

import numpy

LIMIT = 1.2 * 2**30
SAMPLES, SEQUENCE, VOCABULARY = 4, 64, 50257


def compile_on(model, devices, plan):
    return cleave("compile", model, "--train", "--loss", "cross-entropy", "--optimizer", "sgd", "--machine",
                  f"host:{devices}x1", "--memory", "1.2 GiB", "-o", plan, "--json", plan + ".json")


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        model, plan = os.path.join(folder, "gpt.onnx"), os.path.join(folder, "gpt.plan")
        made = cleave("zoo", "gpt", "--layers", "12", "--hidden", "768", "--heads", "12", "--sequence", str(SEQUENCE),
                      "--vocabulary", str(VOCABULARY), "--batch", str(SAMPLES), "-o", model)
        if made.code != DONE:
            sys.exit(made.errors)
        one = compile_on(model, 1, plan)
        if one.code != INFEASIBLE or "limit of 1.20 GiB" not in one.errors:
            failures.append(("one device", one))
        two = compile_on(model, 2, plan)
        if two.code != DONE:
            report(failures + [("two devices", two)], 3)
        with open(plan + ".json", encoding="utf-8") as file:
            peaks = json.load(file)["predicted_peak_bytes"]
        if len(peaks) != 2 or max(peaks) > LIMIT:
            failures.append((f"bytes {peaks}, the limit is {LIMIT}", two))
        tokens = numpy.random.default_rng(0).integers(0, VOCABULARY, (SAMPLES, SEQUENCE))
        numpy.save(os.path.join(folder, "tokens.npy"), tokens)
        trained = cleave("train", plan, *[argument for name in ("tokens", "labels") for argument in
                                          ("--data", f"{name}={folder}/tokens.npy")],
                         "--steps", "2", "--json-steps", "--json", os.path.join(folder, "run.json"))
        if trained.code != DONE:
            report(failures + [("training", trained)], 3)
        with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
            losses = [step["loss"] for step in json.load(file)["steps"]]
        # What is learnt by heart gets likelier from the logarithm of all words on.
        if abs(losses[0] - math.log(VOCABULARY)) > 1 or losses[1] >= losses[0]:
            failures.append((f"losses {losses}", trained))
    report(failures, 3)


main()
