# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The zoo's models: as many weights as the literature says, and small ones with the outputs that ONNX Runtime computes, on
# one device and with operators alternating over two; with drawn weights as with written ones.
#
#   python3 test/endtoend/zoo.py [MODEL...]

import os
import sys
import tempfile

import numpy
import onnx
from onnx import numpy_helper

import peer
from cleave_process import DONE, Result, cleave, report

# Weights of the models at their default sizes, or those said, without running statistics, and who says so.
COUNTS = {
    "alexnet": (60965224, "Krizhevsky 2012 (two groups)"),
    "vgg16": (138357544, "torchvision vgg16"),
    "resnet50": (25557032, "torchvision resnet50"),
    "wide-resnet": (68883240, "torchvision wide_resnet50_2"),
    "unet": (31030658, "Ronneberger 2015: 31,030,593 for one class, 65 more for the second"),
    "lstm": (6500000 + 2 * (4 * 650 * 1300 + 8 * 650) + 6510000, "Zaremba 2014, medium; two biases a gate"),
    "gpt": (124439808, "GPT-2 small"),
    "llama": (8030261248, "Llama 3 8B"),
    "mixtral": (46702792704, "Mixtral 8x7B"),
    "mixtral of Qwen3": (30532122624, "Qwen3-30B-A3B", {
        "layers": 48, "hidden": 2048, "heads": 32, "kv-heads": 4, "head-size": 128, "query-norm": 1, "ffn": 768,
        "experts": 128, "top": 8, "vocabulary": 151936}),
    # Without the 40 million biases of its experts, and 0.4 million of attention: 116.8 billion with them.
    "mixtral of GPT-OSS": (116789048640, "gpt-oss-120b, 116.83 billion with biases", {
        "layers": 36, "hidden": 2880, "heads": 64, "kv-heads": 8, "head-size": 64, "window": 128, "ffn": 2880,
        "experts": 128, "top": 4, "vocabulary": 201088}),
    # Each router's 256 biases against imbalance are left out.
    "deepseek": (671026404352, "DeepSeek-V3, 671 billion"),
    "bert": (109482240, "bert-base-uncased with pooler"),
}

# Sizes small enough to write weights and compute quickly.
SMALL = {
    "vgg16": {"image-size": 32, "classes": 10, "batch": 2},
    "resnet50": {"image-size": 64, "classes": 10, "batch": 2},
    "wide-resnet": {"image-size": 64, "classes": 10},
    "unet": {"image-size": 32, "features": 8, "batch": 2},
    "lstm": {"layers": 2, "hidden": 24, "sequence": 7, "batch": 3, "vocabulary": 50},
    "gpt": {"layers": 2, "hidden": 32, "heads": 4, "sequence": 10, "batch": 2, "vocabulary": 50},
    "gpt untied": {"layers": 1, "hidden": 32, "heads": 4, "sequence": 10, "vocabulary": 50, "tied": 0},
    "gpt dropout": {"layers": 1, "hidden": 32, "heads": 4, "sequence": 10, "vocabulary": 50, "dropout": 1},
    "gpt alibi": {"layers": 1, "hidden": 36, "heads": 6, "sequence": 10, "vocabulary": 50, "alibi": 1},
    "llama": {"layers": 2, "hidden": 32, "heads": 4, "kv-heads": 2, "ffn": 48, "sequence": 10, "batch": 2,
              "vocabulary": 50},
    "llama heads of a size": {"layers": 1, "hidden": 30, "heads": 4, "kv-heads": 2, "head-size": 10, "query-norm": 1,
                              "ffn": 48, "sequence": 10, "batch": 2, "vocabulary": 50},
    "llama windows": {"layers": 3, "hidden": 32, "heads": 4, "kv-heads": 2, "window": 3, "ffn": 48, "sequence": 10,
                      "vocabulary": 50},
    "mixtral": {"layers": 2, "hidden": 32, "heads": 4, "kv-heads": 2, "ffn": 48, "sequence": 10, "batch": 2,
                "vocabulary": 50, "experts": 5},
    "deepseek": {"layers": 3, "hidden": 32, "heads": 4, "query-rank": 12, "kv-rank": 8, "head-size": 6, "rotary-size": 4,
                 "dense-layers": 1, "ffn": 48, "experts": 5, "top": 2, "expert-ffn": 16, "sequence": 10, "batch": 2,
                 "vocabulary": 50},
    "bert": {"layers": 2, "hidden": 32, "heads": 4, "sequence": 10, "batch": 2, "vocabulary": 50},
    "moe": {"layers": 2, "hidden": 32, "heads": 4, "sequence": 10, "batch": 2, "vocabulary": 50, "experts": 4},
    "moe top 2": {"layers": 1, "hidden": 32, "heads": 4, "sequence": 10, "vocabulary": 50, "experts": 4, "top": 2},
}


def count_weights(path):
    """Elements of the weights that a model without weights describes."""
    graph = onnx.load(path).graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    total = 0
    for node in graph.node:
        if node.output[0].endswith((".mean", ".variance")):
            continue
        if node.op_type == "RandomNormal":
            total += int(numpy.prod(next(a.ints for a in node.attribute if a.name == "shape")))
        elif node.op_type == "ConstantOfShape":
            total += int(numpy.prod(shapes[node.input[0]]))
    return total


def published_slopes(heads):
    """Slopes of linear biases, as Press et al. (2022) have them for numbers of heads of any kind."""
    even = 2 ** int(numpy.floor(numpy.log2(heads)))
    slopes = [2.0 ** (-8.0 * (head + 1) / even) for head in range(even)]
    return slopes + ([] if even == heads else published_slopes(2 * even)[::2][:heads - even])


def value_of(path, name):
    """The value of the model that follows from constants alone, by a few kinds of nodes."""
    graph = onnx.load(path).graph
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    makers = {out: node for node in graph.node for out in node.output}
    for node in graph.node:
        if node.op_type == "Constant":
            values[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    kinds = {"Range": numpy.arange,
             "Reshape": lambda array, shape: array.reshape([size or array.shape[i] for i, size in enumerate(shape)]),
             "Mul": numpy.multiply, "Add": numpy.add, "Exp": numpy.exp,
             "Concat": lambda *parts: numpy.concatenate(parts, 0)}

    def compute(value):
        if value not in values:
            values[value] = kinds[makers[value].op_type](*[compute(operand) for operand in makers[value].input])
        return values[value]

    return compute(name)


def make_inputs(model, sizes):
    """An array for every input: words below the vocabulary, images of any number."""
    generator, arrays = numpy.random.default_rng(7), []
    for value in model.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            arrays.append(generator.standard_normal(shape).astype(numpy.float32))
        elif value.type.tensor_type.elem_type == onnx.TensorProto.BOOL:
            arrays.append(generator.integers(0, 2, shape).astype(bool))
        else:
            arrays.append(generator.integers(0, sizes["vocabulary"] if value.name == "tokens" else 2, shape))
    return arrays


def main():
    failures, passed = [], 0

    def note(subject, result):
        nonlocal passed
        passed += result.code == DONE
        if result.code != DONE:
            failures.append((subject, result))

    wanted = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        for name, (count, source, *sizes) in COUNTS.items():
            if wanted and name.split()[0] not in wanted:
                continue
            numbers = [f"--{key}={value}" for key, value in sizes[0].items()] if sizes else []
            note(f"{name}, file", cleave("zoo", name.split()[0], *numbers, "-o", path))
            found = count_weights(path)
            text = f"expected {count} weights ({source}), got {found}"
            note(f"{name}, number of weights", Result(DONE if found == count else 1, "", text))
        for heads in (4, 6, 8, 112):
            if wanted and "gpt" not in wanted:
                continue
            note(f"gpt, {heads} heads, file", cleave("zoo", "gpt", f"--heads={heads}", f"--hidden={heads}", "--layers=1",
                                                     "--vocabulary=5", "--sequence=3", "--alibi=1", "-o", path))
            error = numpy.abs(value_of(path, "alibi/bias")[:, 0, 1] - published_slopes(heads)).max()
            note(f"gpt, {heads} heads, slopes", Result(DONE if error < 1e-6 else 1, "", f"off by {error}"))
        for name, sizes in SMALL.items():
            if wanted and name.split()[0] not in wanted:
                continue
            numbers = [f"--{key}={value}" for key, value in sizes.items()]
            drawn = os.path.join(folder, "drawn.onnx")
            note(f"{name}, file", cleave("zoo", name.split()[0], *numbers, "--weights", "-o", path))
            note(f"{name}, file without weights", cleave("zoo", name.split()[0], *numbers, "-o", drawn))
            model = onnx.load(path)
            inputs = peer.write_inputs(make_inputs(model, sizes), folder)
            peer.run_peer(path, inputs, folder)
            outputs = range(len(model.graph.output))
            for run in peer.RUNS:
                for what, file in (("written", path), ("drawn", drawn)):
                    note(f"{name} on {run}, {what} weights", peer.compare(file, inputs, folder, outputs, run))
    report(failures, passed)


if __name__ == "__main__":
    main()
