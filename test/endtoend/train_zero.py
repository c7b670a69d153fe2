# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What a training step needs of memory on two devices that share a batch. `zero`: plans with ZeRO 0 to 3 against the
# formulas of the paper (Rajbhandari et al. 2020, section 5), and their losses against each other. `buckets`: gradients
# that share messages need hardly more memory than those that do not, and give the same losses, bit by bit.

import json
import math
import os
import sys
import tempfile

from cleave_process import DONE, Result, report
from train_lenet import run

import numpy

DEVICES, STEPS = 2, 4


def wrong(text):
    return text, Result(DONE, "", "")


def compile_plan(folder, name, model, *options):
    """The largest of the devices' peaks, in bytes."""
    path = os.path.join(folder, name)
    run([], "compile", model, "--machine", f"host:{DEVICES}x1", "--strategy", "auto", "--degrees", f"data={DEVICES}",
        "--train", "--loss", "cross-entropy", *options, "-o", path, "--json", path + ".json")
    with open(path + ".json", encoding="utf-8") as file:
        return max(json.load(file)["predicted_peak_bytes"])


def losses_of(folder, name, data):
    path = os.path.join(folder, name)
    run([], "train", path, *data, "--steps", str(STEPS), "--json-steps", "--json", path + ".run.json")
    with open(path + ".run.json", encoding="utf-8") as file:
        return [step["loss"] for step in json.load(file)["steps"]]


# Layers that are much larger than what they compute. Of two microbatches, so that gradients are kept.
LAYERS, WIDTH, BATCH, MICROBATCHES = 24, 512, 8, 2


def zero(folder, failures):
    model = os.path.join(folder, "mlp.onnx")
    run([], "zoo", "mlp", "--layers", str(LAYERS), "--inputs", str(WIDTH), "--hidden", str(WIDTH), "--classes",
        str(WIDTH), "--batch", str(BATCH // MICROBATCHES), "-o", model)
    data = numpy.random.default_rng(0)
    numpy.save(os.path.join(folder, "x.npy"), data.standard_normal((BATCH, WIDTH), numpy.float32))
    numpy.save(os.path.join(folder, "labels.npy"), data.integers(0, WIDTH, BATCH))
    files = ["--data", f"input={folder}/x.npy", "--data", f"labels={folder}/labels.npy"]
    weight = 4 * WIDTH * WIDTH
    parameters = LAYERS * (weight + 4 * WIDTH)
    # Parameters, momentum and gradients, each whole or cut.
    formulas = [3 * parameters, 2.5 * parameters, 2 * parameters, 1.5 * parameters]
    losses, peaks = [], []
    for stage, formula in enumerate(formulas):
        peaks.append(compile_plan(folder, f"zero{stage}", model, "--optimizer", "momentum", "--learning-rate", "0.01",
                                  "--zero", str(stage), "--batch", str(BATCH), "--microbatches", str(MICROBATCHES)))
        losses.append(losses_of(folder, f"zero{stage}", files))
        print(f"ZeRO {stage}: {peaks[-1] / 2**20:.1f} MiB, parameters, momentum and gradients {formula / 2**20:.1f} MiB")
        # Besides: two weights at a time on their way from or to other devices, whole and in parts, and what is computed
        # of one; activations.
        most = formula + 5 * weight + 3 * LAYERS * 4 * WIDTH * BATCH
        # The gradients that come first in a microbatch are taken off before the last of the next one are there.
        if not formula - 2 * weight <= peaks[-1] <= most:
            failures.append(wrong(f"ZeRO {stage} takes {peaks[-1]} bytes, expected {formula:.0f} to {most}"))
    for stage in range(1, len(peaks)):
        if peaks[stage - 1] - peaks[stage] < 0.5 * (formulas[stage - 1] - formulas[stage]):
            failures.append(wrong(f"ZeRO {stage} takes {peaks[stage]} bytes, ZeRO {stage - 1} takes {peaks[stage - 1]}"))
        for first, other in zip(losses[0], losses[stage]):
            if not math.isclose(first, other, rel_tol=1e-5):
                failures.append(wrong(f"losses of ZeRO 0 {losses[0]}, of ZeRO {stage} {losses[stage]}"))
                break
    if not losses[0][-1] < losses[0][0]:
        failures.append(wrong(f"losses {losses[0]} do not fall"))


def buckets(folder, failures):
    model = os.path.join(folder, "gpt.onnx")
    batch, sequence, vocabulary, hidden = 4, 32, 1000, 256
    run([], "zoo", "gpt", "--layers", "4", "--hidden", str(hidden), "--heads", "4", "--sequence", str(sequence),
        "--vocabulary", str(vocabulary), "--batch", str(batch), "-o", model)
    tokens = numpy.random.default_rng(0).integers(0, vocabulary, (batch, sequence))
    numpy.save(os.path.join(folder, "tokens.npy"), tokens)
    files = [argument for name in ("tokens", "labels") for argument in ("--data", f"{name}={folder}/tokens.npy")]
    for optimizer in ("sgd", "adam"):
        for stage in range(4):
            options = ["--optimizer", optimizer, "--zero", str(stage)]
            together = compile_plan(folder, "together", model, *options)
            alone = compile_plan(folder, "alone", model, *options, "--no-combine")
            # A bucket is full with what is added to it last: here the widest layer's weights.
            if together > alone + 2 * 2 * 4 * 4 * hidden * hidden:
                failures.append(wrong(f"{optimizer}, ZeRO {stage}: {together} bytes in buckets, {alone} without"))
            losses = [losses_of(folder, name, files) for name in ("together", "alone")]
            if losses[0] != losses[1]:
                failures.append(wrong(f"{optimizer}, ZeRO {stage}: losses {losses[0]} in buckets, {losses[1]} without"))


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        # Buckets as large as the guess at this machine has them, whatever was measured.
        os.environ["CLEAVE_CACHE"] = os.path.join(folder, "cache")
        {"zero": zero, "buckets": buckets}[sys.argv[1]](folder, failures)
    report(failures, 1)


main()
