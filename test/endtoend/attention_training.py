# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The gradient of attention over long sequences: kernels make the scores once more, by blocks. Gradients must be those of
# PyTorch in float64, on one device and divided over two, with microbatches and repeated forward passes, and the plan's
# memory must not hold the scores.
#
#   attention_training.py [CASE ...]              all cases, or these
#   attention_training.py models FOLDER           writes networks of long sequences, to be measured
#   attention_training.py torch TOKENS THREADS    what PyTorch takes for attention of that length, without and with gradient

import json
import os
import statistics
import sys
import tempfile
import time

import numpy

from cleave_process import Checks, Result, cleave, skip

try:
    import onnx
    import torch
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    skip(f"no module {missing.name}; install python3-{missing.name}")

TOLERANCE = 1e-4  # Of a parameter's largest gradient.
UNITS, CLASSES = 24, 5

ONE = ["--machine", "host:1x1", "--strategy", "single"]
PLANS = {"one device": [*ONE, "--microbatches", "1"],
         "by batch": ["--machine", "host:2x1", "--strategy", "data", "--microbatches", "1"],
         "by heads": ["--machine", "host:2x1", "--strategy", "tensor", "--microbatches", "1"],
         "microbatches, forward repeated": [*ONE, "--microbatches", "2", "--recompute", "full"],
         "scores repeated": [*ONE, "--microbatches", "1", "--recompute", "selective"]}

# Less memory than the scores of all heads, or of two, and their gradient.
SMALL = """
device_kinds:
  core: { driver: cpu, memory: 64 MiB, peak: { f32: 100 GFLOP/s }, bandwidth: 20 GB/s }
hosts: [ { devices: [ { kind: core, count: 1 } ] } ]
"""


class Case:
    """A network of one attention: heads (groups of them share keys), queries, keys (of another input where they differ in
    number), size of each and of values, what is done with scores."""

    def __init__(self, name, batch=2, heads=2, groups=None, queries=2048, keys=None, size=64, value_size=None, causal=False,
                 cap=0.0, mask=None, plans=("one device",), operator=False):
        self.name, self.batch, self.heads, self.groups, self.queries = name, batch, heads, groups or heads, queries
        self.keys, self.size, self.value_size = keys or queries, size, value_size or size
        self.causal, self.cap, self.mask, self.plans, self.operator = causal, cap, mask, plans, operator
        random = numpy.random.default_rng(len(name))

        def draw(scale, *shape):
            return (scale * random.standard_normal(shape)).astype(numpy.float32)

        self.inputs = {"x": draw(1, batch, queries, UNITS)}
        if keys:
            self.inputs["y"] = draw(1, batch, keys, UNITS)
        if mask == "padding":
            lengths = numpy.linspace(self.keys // 3, self.keys, batch).astype(int)
            self.inputs["mask"] = numpy.where(numpy.arange(self.keys) < lengths[:, None, None, None], 0,
                                              -1e30).astype(numpy.float32)
        elif mask == "pairs":
            self.inputs["mask"] = draw(1, batch, 1, self.queries, self.keys)
        self.labels = random.integers(0, CLASSES, batch)
        self.weights = {"query": draw(0.3, UNITS, heads * size), "key": draw(0.3, UNITS, self.groups * size),
                        "value": draw(1, UNITS, self.groups * self.value_size),
                        "head": draw(4, heads * self.value_size, CLASSES)}

    def scores_bytes(self):
        return 4 * self.batch * self.heads * self.queries * self.keys

    def write(self, path):
        nodes = []

        def constant(array, kind):  # No initializer: those of floats are trained.
            return apply("Constant", value=numpy_helper.from_array(numpy.array(array, dtype=kind)))

        def apply(kind, *inputs, **attributes):
            nodes.append(helper.make_node(kind, list(inputs), [f"{kind.lower()}{len(nodes)}"], **attributes))
            return nodes[-1].output[0]

        def heads(source, weight, count, length, size):
            flat = apply("MatMul", source, weight)
            split = apply("Reshape", flat, constant([0, length, count, size], numpy.int64))
            return apply("Transpose", split, perm=[0, 2, 1, 3])

        other = "y" if "y" in self.inputs else "x"
        q = heads("x", "query", self.heads, self.queries, self.size)
        k = heads(other, "key", self.groups, self.keys, self.size)
        v = heads(other, "value", self.groups, self.keys, self.value_size)
        if self.operator:
            attributes = {"softcap": self.cap} if self.cap else {}
            context = apply("Attention", q, k, v, is_causal=int(self.causal), **attributes)
        else:
            scores = apply("MatMul", q, apply("Transpose", k, perm=[0, 1, 3, 2]))
            scores = apply("Mul", scores, constant(1 / numpy.sqrt(self.size), numpy.float32))
            if self.mask:
                scores = apply("Add", scores, "mask")
            context = apply("MatMul", apply("Softmax", scores, axis=-1), v)
        joined = apply("Reshape", apply("Transpose", context, perm=[0, 2, 1, 3]),
                       constant([0, self.queries, self.heads * self.value_size], numpy.int64))
        mean = apply("ReduceMean", joined, constant([1], numpy.int64), keepdims=0)
        output = apply("MatMul", mean, "head")
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in self.inputs.items()]
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(nodes, "attention", ports,
                                  [helper.make_tensor_value_info(output, TensorProto.FLOAT, [self.batch, CLASSES])],
                                  weights)
        onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 23)]), path)

    def expected(self):
        """The gradients of the parameters, in float64."""
        inputs = {name: torch.from_numpy(array.astype(numpy.float64)) for name, array in self.inputs.items()}
        weights = {name: torch.from_numpy(array.astype(numpy.float64)).requires_grad_() for name, array in self.weights.items()}

        def heads(source, weight, count, length, size):
            return (source @ weight).reshape(self.batch, length, count, size).transpose(1, 2)

        other = inputs.get("y", inputs["x"])
        q = heads(inputs["x"], weights["query"], self.heads, self.queries, self.size)
        k = heads(other, weights["key"], self.groups, self.keys, self.size)
        v = heads(other, weights["value"], self.groups, self.keys, self.value_size)
        k, v = (torch.repeat_interleave(each, self.heads // self.groups, dim=1) for each in (k, v))
        scores = q @ k.transpose(-1, -2) / numpy.sqrt(self.size)
        if self.cap:
            scores = self.cap * torch.tanh(scores / self.cap)
        if self.mask:
            scores = scores + inputs["mask"]
        if self.causal:
            hidden = torch.ones(self.queries, self.keys).triu(1).bool()
            scores = scores.masked_fill(hidden, -numpy.inf)
        context = torch.softmax(scores, -1) @ v
        logits = context.transpose(1, 2).reshape(self.batch, self.queries, -1).mean(1) @ weights["head"]
        torch.nn.functional.cross_entropy(logits, torch.from_numpy(self.labels)).backward()
        return {name: weight.grad.numpy() for name, weight in weights.items()}


CASES = [
    Case("blocks that divide", batch=4, plans=tuple(PLANS)),
    Case("padded keys, queries and values", heads=4, queries=1603, size=40, value_size=20, plans=("one device", "by heads")),
    Case("more keys than queries", queries=700, keys=4200, value_size=32),
    Case("samples of unlike length", heads=3, mask="padding", plans=("one device", "by batch")),
    Case("a number for each pair", mask="pairs"),
    Case("causal, shared keys", heads=6, groups=2, queries=1500, causal=True, operator=True, plans=tuple(PLANS)),
    Case("capped", cap=3.0, operator=True),
    Case("fewer keys than queries, causal", queries=2100, keys=1500, causal=True, operator=True),
    Case("more keys than queries, causal", queries=1500, keys=2100, causal=True, operator=True),
]


def check(checks, folder, case, name, flags=None):
    model, plan, after = (os.path.join(folder, file) for file in ("model.onnx", "model.plan", "after.npz"))
    case.write(model)
    subject = f"{case.name}, {name}"
    result = cleave("compile", model, "--train", "--loss", "cross-entropy", "--optimizer", "sgd", "--learning-rate", "1",
                    *(flags or PLANS[name]), "-o", plan)
    if result.code != 0:
        return checks.add(False, subject, result)
    if case.causal:
        kernels = cleave("compile", model, "--train", "--loss", "cross-entropy", "--optimizer", "sgd", *(flags or PLANS[name]),
                         "--emit-ir=codegen", "-o", "-")
        found = sum("plan.native_kernel" in line and "dfg.band" in line for line in kernels.output.splitlines())
        checks.add(found >= 3, f"{subject}: {found} kernels leave out what is hidden", Result(0, "", kernels.errors))
    explained = cleave("explain", plan, "--format", "json")
    arena = sum(device["arena_bytes"] for device in json.loads(explained.output)["devices"])
    # What is given for each pair is in memory as well.
    least = case.scores_bytes() + (case.scores_bytes() // case.heads if case.mask == "pairs" else 0)
    checks.add(arena < least, f"{subject}: {arena / 2**20:.1f} MiB, {case.scores_bytes() / 2**20:.1f} of scores", explained)
    words = []
    for port, array in {**case.inputs, "labels": case.labels}.items():
        path = os.path.join(folder, f"{port}.npy")
        numpy.save(path, array)
        words += ["--data", f"{port}={path}"]
    result = cleave("train", plan, *words, "--epochs", "1", "--export", after)
    if result.code != 0:
        return checks.add(False, subject, result)
    with numpy.load(after) as arrays:
        for weight, wanted in case.expected().items():
            error = numpy.max(numpy.abs(case.weights[weight] - arrays[weight] - wanted)) / numpy.max(numpy.abs(wanted))
            checks.add(error <= TOLERANCE, f"{subject}: gradient of {weight}, largest error {error:.2g} of the largest", result)


def write_models(folder):
    os.makedirs(folder, exist_ok=True)
    for tokens in (4096, 16384):
        Case("long", heads=4, queries=tokens).write(os.path.join(folder, f"training-{tokens}.onnx"))


def time_torch(tokens, threads, rounds=3):
    """Attention of 8 heads of 64 alone; from 8,192 tokens on head by head, as its scores would not fit together."""
    torch.set_num_threads(threads)
    q, k, v = (torch.randn(8, tokens, 64) for _ in range(3))
    together = 8 if tokens < 8192 else 1

    def step(learns):
        for first in range(0, 8, together):
            parts = [each[first:first + together].requires_grad_(learns) for each in (q, k, v)]
            result = torch.softmax(parts[0] / 8 @ parts[1].transpose(-1, -2), -1) @ parts[2]
            if learns:
                result.sum().backward()

    for learns in (False, True):
        step(learns)
        seconds = []
        for _ in range(rounds):
            begin = time.monotonic()
            step(learns)
            seconds.append(time.monotonic() - begin)
        print(f"PyTorch {torch.__version__}, {tokens} tokens, {threads} threads, {'with' if learns else 'without'} gradient: "
              f"{1e3 * statistics.median(seconds):.0f} ms", flush=True)


def main():
    if sys.argv[1:2] == ["models"]:
        return write_models(sys.argv[2])
    if sys.argv[1:2] == ["torch"]:
        return time_torch(int(sys.argv[2]), int(sys.argv[3]))
    checks = Checks()
    chosen = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            for name in case.plans:
                if not chosen or case.name in chosen:
                    check(checks, folder, case, name)
        # The search counts what the kernels need: it need not divide the batch, nor repeat the forward pass.
        machine = os.path.join(folder, "small.yaml")
        with open(machine, "w", encoding="utf-8") as file:
            file.write(SMALL)
        check(checks, folder, CASES[0], "a device without room for scores", ["--machine", machine, "--microbatches", "1",
                                                                             "--recompute", "none"])
    checks.report()


if __name__ == "__main__":
    main()
