# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Whole models with their operators split over meshes, by placement file and by strategy: outputs must be those of one
# device, to 1e-4 of the largest of them. Each plan runs in one process, and, where mpirun is there, again in one process
# a device and in two processes that share the devices.
#
#   python3 test/endtoend/split_models.py [NAME...]

import collections
import os
import shutil
import sys
import tempfile

import numpy

from cleave_process import DONE, REPOSITORY, cleave, mpirun, report

# `name` is a model of the zoo, `sizes` its options, `how` the flags by which it is placed (a placement file is one of
# examples/), `devices` how many share it, `more` further flags, of the reference, too.
Case = collections.namedtuple("Case", "name sizes how devices more", defaults=[[]])

ALEXNET = ["--batch", "5"]
VGG = ["--batch", "2", "--image-size", "64"]
GPT = ["--batch", "3", "--layers", "2", "--hidden", "60", "--heads", "6", "--sequence", "11", "--vocabulary", "101"]
BERT = ["--batch", "2", "--layers", "2", "--hidden", "48", "--heads", "4", "--sequence", "13", "--vocabulary", "97"]
MOE = ["--batch", "2", "--layers", "2", "--hidden", "32", "--heads", "4", "--sequence", "9", "--vocabulary", "61",
       "--experts", "5"]
LLAMA = ["--batch", "3", "--layers", "2", "--hidden", "48", "--heads", "6", "--kv-heads", "2", "--ffn", "40", "--sequence",
         "11", "--vocabulary", "61"]
# Of lengths that devices divide.
LONGER_GPT, LONGER_LLAMA = (["12" if size == "11" else size for size in sizes] for sizes in (GPT, LLAMA))
MIXTRAL = ["--batch", "3", "--layers", "2", "--hidden", "32", "--heads", "4", "--kv-heads", "2", "--ffn", "24",
           "--sequence", "9", "--vocabulary", "61", "--experts", "5"]
LSTM = ["--batch", "3", "--layers", "2", "--hidden", "20", "--sequence", "5", "--vocabulary", "53"]
RESNET = ["--batch", "3", "--image-size", "64"]
UNET = ["--batch", "2", "--image-size", "32", "--features", "6"]

CASES = [
    # The classic splits, written as placement files.
    Case("alexnet", ALEXNET, "alexnet-krizhevsky.place.yaml", 2),
    Case("alexnet", ALEXNET, "alexnet-krizhevsky.place.yaml", 4),
    Case("vgg16", VGG, "vgg16-dense.place.yaml", 2),
    Case("vgg16", VGG, "vgg16-dense.place.yaml", 4),
    Case("gpt", GPT, "gpt-megatron.place.yaml", 2),
    Case("gpt", GPT, "gpt-megatron.place.yaml", 4),
    # Found by strategy; batches and heads that do not divide.
    Case("gpt", GPT, ["--strategy", "tensor", "--degrees", "model=2"], 2),
    Case("gpt", GPT, ["--strategy", "tensor", "--degrees", "data=2,model=2"], 4),
    Case("bert", BERT, ["--strategy", "tensor", "--degrees", "model=3"], 3),
    Case("bert", BERT, ["--strategy", "data", "--degrees", "data=2"], 2),
    Case("moe", MOE, ["--strategy", "tensor", "--degrees", "model=2"], 2),
    Case("lstm", LSTM, ["--strategy", "data", "--degrees", "data=2"], 2),
    Case("lstm", LSTM, ["--strategy", "tensor", "--degrees", "model=3"], 3),
    Case("resnet50", RESNET, ["--strategy", "data", "--degrees", "data=2"], 2),
    Case("resnet50", RESNET, ["--strategy", "tensor", "--degrees", "model=2"], 2),
    Case("unet", UNET, ["--strategy", "data", "--degrees", "data=3"], 3),
    Case("unet", UNET, ["--strategy", "tensor", "--degrees", "model=2"], 2),
    # Spatial: rows of the images on different devices.
    Case("unet", UNET, {"*": "{ height: x }"}, 2),
    Case("resnet50", RESNET, {"*conv*": "{ height: x }"}, 3),
    Case("llama", LLAMA, ["--degrees", "data=2,sequence=2,model=2"], 8),
    Case("llama", LLAMA, ["--degrees", "sequence=4"], 4),
    # Keys and values go around.
    Case("llama", LONGER_LLAMA, ["--degrees", "sequence=4", "--keys", "ring"], 4),
    Case("gpt", LONGER_GPT, ["--degrees", "sequence=2", "--keys", "ring"], 2),
    # Mixtures of experts by expert, attention by sequence.
    Case("moe", MOE, {"*moe/fc*": "{ batch: x }"}, 3),
    # The same where tokens go to their own experts only, and where they are brought there and back.
    Case("mixtral", MIXTRAL, ["--strategy", "tensor", "--degrees", "model=2"], 2),
    Case("mixtral", MIXTRAL, ["--strategy", "data", "--degrees", "data=2"], 2),
    Case("mixtral", MIXTRAL, {"*moe": "{ expert: x }"}, 3),
    Case("mixtral", MIXTRAL, {"*moe": "{ batch: x }"}, 3, ["--expert-capacity", "5"]),
    Case("mixtral", MIXTRAL, {"*/query": "{ batch: x }", "*moe": "{ batch: x }"}, 3, ["--expert-capacity", "1.25"]),
    Case("gpt", GPT, {"*": "{ m: x }"}, 2),
]

def flags(case, folder):
    """The flags of a case; splits that are given by pattern are written to a placement file."""
    if isinstance(case.how, list):
        return case.how
    path = os.path.join(REPOSITORY, "examples", case.how) if isinstance(case.how, str) else ""
    if isinstance(case.how, dict):
        path = os.path.join(folder, "splits.place.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("default: all\nsplits:\n")
            file.writelines(f'  "{pattern}": {split}\n' for pattern, split in case.how.items())
    return ["--place", path]


def run_case(case, folder):
    """What each way to run the case answered, by name, until one fails."""
    model, expected, plan = (os.path.join(folder, name) for name in ("model.onnx", "expected.npy", "model.plan"))
    yield "zoo", cleave("zoo", case.name, *case.sizes, "-o", model)
    yield "one device", cleave("run", model, "--machine", "host:1x1", "--strategy", "single", *case.more,
                               "--output", f"@0={expected}")
    scale = numpy.abs(numpy.load(expected)).max()
    outputs = ["--expect", f"@0={expected}", "--rtol", "0", "--atol", f"{1e-4 * scale}"]
    compiled = cleave("compile", model, "--machine", f"host:{case.devices}x1", *flags(case, folder), *case.more, "-o", plan)
    yield "compile", compiled
    if "ring" in case.how and "go around" not in compiled.errors:
        yield "ring", compiled._replace(code=None)
    yield "verify", cleave("verify", plan)
    yield "one process", cleave(plan, *outputs, name="cleave-run")
    if shutil.which("mpirun"):
        yield "a process a device", mpirun(case.devices, plan, *outputs, name="cleave-run")
        if case.devices > 2:
            yield "two processes", mpirun(2, plan, *outputs, name="cleave-run")


def main():
    if not shutil.which("mpirun"):
        print("no mpirun: plans run in one process only")
    failures, passed = [], 0
    for case in CASES:
        if sys.argv[1:] and case.name not in sys.argv[1:]:
            continue
        subject = f"{case.name} on {case.devices}, {case.how if isinstance(case.how, str) else str(case.how)}"
        with tempfile.TemporaryDirectory() as folder:
            for what, result in run_case(case, folder):
                if result.code != DONE:
                    failures.append((f"{subject}: {what}", result))
                    break
            else:
                passed += 1
                print(f"passed {subject}", flush=True)
    report(failures, passed)


if __name__ == "__main__":
    main()
