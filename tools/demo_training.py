# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The demo's second part: trains LeNet for two epochs on two devices, on Fashion-MNIST where a folder holds its four
# files, else on images that it makes. Shows who computes what, the losses as a curve, and what a step took beside what
# was predicted.
#
# python3 tools/demo_training.py CLEAVE WORK [FASHION-MNIST-FOLDER]

import json
import os
import subprocess
import sys

from generate_images import generate_images

BATCH, EPOCHS, SAMPLES, COLUMNS, ROWS = 256, 2, 51200, 72, 12
FILES = {
    "input": ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte"),
    "labels": ("train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"),
}


def files_in(folder):
    """By input: the files to train and to evaluate with, None for those that the folder lacks."""
    return {
        name: [next((path for path in (os.path.join(folder, file + suffix) for suffix in ("", ".gz"))
                     if os.path.exists(path)), None) for file in files]
        for name, files in FILES.items()
    }


def find_data(work, folder):
    if folder:
        found = files_in(folder)
        if all(None not in files for files in found.values()):
            return found
        print(f"{folder} lacks files of Fashion-MNIST; making images instead")
    generated = os.path.join(work, "images")
    generate_images(generated, SAMPLES)
    return files_in(generated)


def draw(losses):
    """The losses as a curve of characters, each column the mean of some steps."""
    width = min(COLUMNS, len(losses))
    means = []
    for column in range(width):
        part = losses[column * len(losses) // width:(column + 1) * len(losses) // width]
        means.append(sum(part) / len(part))
    top, bottom = max(means), min(means)
    for row in range(ROWS):
        level = top - (top - bottom) * row / (ROWS - 1)
        half = (top - bottom) / (ROWS - 1) / 2
        print(f"{level:7.3f} |" + "".join("*" if abs(mean - level) <= half else " " for mean in means))
    print(f"   loss +{'-' * width} {len(losses)} steps")


def main():
    cleave, work = sys.argv[1:3]
    data = find_data(work, sys.argv[3] if len(sys.argv) > 3 else None)
    model, plan, report = (os.path.join(work, file) for file in ("lenet.onnx", "lenet.plan", "lenet.json"))
    run = lambda *arguments: subprocess.run([cleave, *arguments], check=True)
    run("zoo", "lenet", "--batch", str(BATCH), "-o", model)
    run("compile", model, "--machine", "host:2", "--strategy", "data", "--train", "--loss", "cross-entropy", "--optimizer",
        "sgd", "--learning-rate", "0.2", "-o", plan)
    run("explain", plan)
    run("profile", plan)
    subprocess.run([cleave, "simulate", plan, "--json", report], check=True, stdout=subprocess.DEVNULL)
    with open(report) as file:
        predicted = json.load(file)["predicted_step_seconds"]
    files = [f"--{option}={name}={paths[part]}" for part, option in enumerate(("data", "eval"))
             for name, paths in data.items()]
    run("train", plan, "--epochs", str(EPOCHS), *files, "--json", report, "--json-steps")
    with open(report) as file:
        trained = json.load(file)
    draw([step["loss"] for step in trained["steps"]])
    epoch = trained["epochs"][-1]
    measured = epoch["seconds"] / epoch["steps"]
    print(f"a step: predicted {predicted * 1e3:.2f} ms, measured {measured * 1e3:.2f} ms "
          f"({BATCH / measured:.0f} samples/s); test accuracy {epoch['eval_accuracy'] * 100:.1f} %")


if __name__ == "__main__":
    main()
