# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Attention over long sequences: kernels compute it by blocks of keys. Results must be those of NumPy in float64, the
# memory of the plan must not hold the scores, and a machine that has no room for these must be planned for.
#
#   python3 test/endtoend/attention.py                 all of that
#   python3 test/endtoend/attention.py models FOLDER   writes the models, as NAME.onnx

import json
import os
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from cleave_process import Checks, Result, cleave, program

TOLERANCE = 1e-5  # Of results about 1, against float64.
LEAST = 32 << 20  # Bytes of scores of a device from which on kernels go by blocks.


class Case:
    """An attention: batch, heads (groups of them share keys), queries, keys, size of each and of values. `seen` says of
    the positions of queries and keys which pairs the model's own mask leaves; `hidden` stands for the others, or is added
    to them."""

    def __init__(self, name, form, batch=1, heads=8, groups=None, queries=1024, keys=None, size=64, value_size=None,
                 mask=None, causal=False, cap=0.0, rows=None, seen=None, hidden=-numpy.inf, adds=False):
        self.name, self.form, self.batch, self.heads, self.groups = name, form, batch, heads, groups or heads
        self.queries, self.keys, self.size, self.value_size = queries, keys or queries, size, value_size or size
        self.mask, self.causal, self.cap = mask, causal, cap
        self.seen, self.hidden, self.adds = None, hidden, adds
        if seen:
            self.seen = seen(numpy.arange(self.queries)[:, None], numpy.arange(self.keys)[None, :])
        self.rows = rows or self.queries  # The number of the result's rows that are compared.
        random = numpy.random.default_rng(len(name))

        def draw(*shape):
            return random.standard_normal(shape).astype(numpy.float32)

        self.inputs = {"q": 2 * draw(batch, heads, self.queries, size), "k": draw(batch, self.groups, self.keys, size),
                       "v": draw(batch, self.groups, self.keys, self.value_size)}
        if mask == "padding":  # Each sample has keys of its own length; the second has none.
            lengths = [self.keys // 3, 0][:batch]
            self.inputs["mask"] = numpy.where(numpy.arange(self.keys) < numpy.array(lengths)[:, None, None, None], 0,
                                              -numpy.inf).astype(numpy.float32)
        elif mask == "bias":  # One for each head and pair, as positions give; some pairs see nothing of each other.
            self.inputs["mask"] = draw(1, heads, self.queries, self.keys)
            self.inputs["mask"][random.random(self.inputs["mask"].shape) < 0.1] = -numpy.inf

    def scores_bytes(self):
        return 4 * self.batch * self.heads * self.queries * self.keys

    def port_bytes(self):
        return sum(array.nbytes for array in self.inputs.values()) + 4 * self.batch * self.heads * self.queries * self.value_size

    def write(self, path):
        nodes, weights = [], [numpy_helper.from_array(numpy.float32(1 / numpy.sqrt(self.size)), "scale")]
        result = [self.batch, self.heads, self.queries, self.value_size]

        def apply(kind, *inputs, **attributes):
            name = f"{kind.lower()}{len(nodes)}"
            nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
            return name

        def reshape(value, shape):
            weights.append(numpy_helper.from_array(numpy.array(shape, dtype=numpy.int64), f"shape{len(nodes)}"))
            return apply("Reshape", value, weights[-1].name)

        if self.form == "operator":
            attributes = {"is_causal": 1} if self.causal else {}
            if self.cap:
                attributes["softcap"] = self.cap
            output = apply("Attention", "q", "k", "v", **attributes)
        elif self.form == "written out":
            scores = apply("MatMul", apply("Mul", "q", "scale"), apply("Transpose", "k", perm=[0, 1, 3, 2]))
            if self.mask:
                scores = apply("Add", scores, "mask")
            if self.adds:
                table = numpy.where(self.seen, 0, self.hidden).astype(numpy.float32)[None, None]
                weights.append(numpy_helper.from_array(table, "table"))
                scores = apply("Add", scores, "table")
            elif self.seen is not None:
                weights.append(numpy_helper.from_array(self.seen, "table"))
                weights.append(numpy_helper.from_array(numpy.float32(self.hidden), "hidden"))
                scores = apply("Where", "table", scores, "hidden")
            output = apply("MatMul", apply("Softmax", scores, axis=-1), "v")
        else:  # "in one batch": products over batch and heads as one dimension, the mask over two.
            joined = self.batch * self.heads
            q, k, v = (reshape(value, [joined, -1, size]) for value, size in
                       (("q", self.size), ("k", self.size), ("v", self.value_size)))
            scores = apply("Mul", apply("MatMul", q, apply("Transpose", k, perm=[0, 2, 1])), "scale")
            scores = reshape(scores, [self.batch, self.heads, self.queries, self.keys])
            if self.mask:
                scores = apply("Add", scores, "mask")
            weights_ = apply("Softmax", reshape(scores, [joined, self.queries, self.keys]), axis=-1)
            output = reshape(apply("MatMul", weights_, v), result)
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in self.inputs.items()]
        graph = helper.make_graph(nodes, "attention", ports,
                                  [helper.make_tensor_value_info(output, TensorProto.FLOAT, result)], weights)
        onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 23)]), path)
        return output

    def expected(self):
        """Of the compared rows, in float64."""
        rows = slice(0, self.queries, self.queries // self.rows)
        q = self.inputs["q"].astype(numpy.float64)[:, :, rows]
        k, v = (numpy.repeat(self.inputs[name], self.heads // self.groups, axis=1).astype(numpy.float64) for name in "kv")
        scores = q @ k.swapaxes(-1, -2) / numpy.sqrt(self.size)
        if self.cap:
            scores = self.cap * numpy.tanh(scores / self.cap)
        if self.mask:
            mask = self.inputs["mask"].astype(numpy.float64)
            scores = scores + (mask[:, :, rows] if mask.shape[2] > 1 else mask)
        if self.adds:
            scores = scores + numpy.where(self.seen, 0, self.hidden)[rows]
        elif self.seen is not None:
            scores = numpy.where(self.seen[rows], scores, self.hidden)
        if self.causal:
            scores[..., numpy.arange(self.keys) > numpy.arange(self.queries)[rows, None]] = -numpy.inf
        with numpy.errstate(invalid="ignore"):  # A row without keys has no result.
            powers = numpy.exp(scores - scores.max(-1, keepdims=True))
            return rows, (powers / powers.sum(-1, keepdims=True)) @ v


CASES = [
    Case("blocks that divide", "written out", heads=16),
    Case("padded keys, queries and values", "written out", heads=2, queries=2051, keys=2337, size=40, value_size=20),
    Case("samples of unlike length, one without keys", "written out", batch=2, mask="padding"),
    Case("bias of each pair", "written out", heads=3, queries=2000, keys=1500, mask="bias"),
    Case("few keys", "written out", heads=4, queries=16384, keys=130, mask="bias", rows=512),
    Case("one batch", "in one batch", batch=2, heads=9, queries=999, mask="padding"),
    Case("causal", "operator", heads=4, queries=2100, causal=True),
    Case("causal, shared keys", "operator", heads=6, groups=2, queries=1800, causal=True),
    Case("capped", "operator", heads=4, queries=1500, cap=3.0),
    Case("more keys than queries, causal", "operator", queries=700, keys=2100, causal=True),
    Case("fewer keys than queries, causal", "operator", queries=2100, keys=700, causal=True),
    Case("window", "written out", heads=4, queries=2300, seen=lambda q, k: (q >= k) & (q - k < 300)),
    Case("window on both sides", "written out", heads=4, queries=2300, seen=lambda q, k: abs(q - k) < 300, hidden=-3e38),
    Case("causal by numbers that are added", "written out", heads=4, queries=2100, seen=lambda q, k: q >= k, hidden=-1e9,
         adds=True),
    Case("after others", "written out", queries=900, keys=1700, seen=lambda q, k: q + 800 >= k),
    Case("texts side by side", "written out", heads=4, queries=2100, seen=lambda q, k: q // 700 == k // 700),
    # The first queries have no keys: with infinite numbers no result, with finite ones the mean of all values.
    Case("far back", "written out", heads=4, queries=2100, seen=lambda q, k: q - k >= 900),
    Case("far back, finite", "written out", heads=4, queries=2100, seen=lambda q, k: q - k >= 900, hidden=-1e30),
]
LONG = Case("16,384 tokens", "written out", heads=2, queries=16384, rows=128)

# Two devices with less memory than the scores of one head.
SMALL = """
device_kinds:
  core: { driver: cpu, memory: 256 MiB, peak: { f32: 100 GFLOP/s }, bandwidth: 20 GB/s }
hosts: [ { devices: [ { kind: core, count: 2 } ], links: [ { between: devices, bandwidth: 10 GB/s, latency: 1 us } ] } ]
"""


def check(checks, folder, case, machine, subject):
    model, plan = os.path.join(folder, "attention.onnx"), os.path.join(folder, "attention.plan")
    output = case.write(model)
    subject = f"{case.name}, {subject}"
    result = cleave("compile", model, "--machine", machine, "-o", plan)
    if result.code != 0:
        return checks.add(False, subject, result)
    explained = cleave("explain", plan, "--format", "json")
    devices = json.loads(explained.output)["devices"]
    arena = sum(device["arena_bytes"] for device in devices)
    words = []
    for name, array in case.inputs.items():
        path = os.path.join(folder, f"{name}.npy")
        numpy.save(path, array)
        words += ["--input", f"{name}={path}"]
    found = os.path.join(folder, "found.npy")
    result = cleave("run", plan, *words, "--output", f"{output}={found}")
    if result.code != 0:
        return checks.add(False, subject, result)
    rows, wanted = case.expected()
    found = numpy.load(found)[:, :, rows]
    same = numpy.array_equal(numpy.isnan(found), numpy.isnan(wanted))
    error = float(numpy.max(numpy.abs(found - wanted)[~numpy.isnan(wanted)], initial=0.0)) if same else float("nan")
    checks.add(error <= TOLERANCE, f"{subject}: largest error {error:.2g}", result)
    # Keys, and what is padded, are there a second time. Where a device's scores are few, they are in memory.
    if case.scores_bytes() / len(devices) >= LEAST:
        checks.add(arena <= 2.5 * case.port_bytes(),
                   f"{subject}: {arena / 2**20:.1f} MiB for {case.port_bytes() / 2**20:.1f} of inputs and outputs, "
                   f"{case.scores_bytes() / 2**20:.1f} of scores", explained)
    return arena


def check_small_stacks(checks, folder, case):
    """People limit the stacks of threads; half a mebibyte must do."""
    model, plan = os.path.join(folder, "attention.onnx"), os.path.join(folder, "attention.plan")
    case.write(model)
    result = cleave("compile", model, "--machine", "host:1x2", "-o", plan)
    if result.code == 0:
        done = subprocess.run(["sh", "-c", 'ulimit -s 512; exec "$0" run "$1"', program(), plan], text=True,
                              capture_output=True, env={**os.environ, "OMP_STACKSIZE": "512k"})
        result = Result(done.returncode, done.stdout, done.stderr)
    checks.add(result.code == 0, f"{case.name}, stacks of 512 KiB", result)


def check_hidden_blocks(checks, folder):
    """What a mask hides from all of a few queries is not computed: they have results whatever is there."""
    case = Case("numbers that are none behind 1,700", "operator", heads=4, queries=2100, causal=True)
    model, plan = os.path.join(folder, "attention.onnx"), os.path.join(folder, "attention.plan")
    output = case.write(model)
    result = cleave("compile", model, "--machine", "host:1x1", "-o", plan)
    rows, wanted = case.expected()
    words = []
    for name in "qkv":
        array = case.inputs[name]
        if name != "q":
            array[:, :, 1700:] = numpy.nan
        path = os.path.join(folder, f"{name}.npy")
        numpy.save(path, array)
        words += ["--input", f"{name}={path}"]
    found = os.path.join(folder, "found.npy")
    if result.code == 0:
        result = cleave("run", plan, *words, "--output", f"{output}={found}")
    if result.code != 0:
        return checks.add(False, case.name, result)
    found = numpy.load(found)
    # Blocks are of 512 keys at most, and what is computed together of 64 queries.
    error = numpy.max(numpy.abs(found - wanted)[:, :, :1700 - 512 - 64])
    checks.add(error <= TOLERANCE, f"{case.name}: largest error {error:.2g} in front of them", result)
    checks.add(bool(numpy.isnan(found[:, :, 1700:]).all()), f"{case.name}: none behind", result)


def write_models(folder):
    os.makedirs(folder, exist_ok=True)
    eight = [Case(f"{tokens} tokens of 8 heads", "written out", queries=tokens) for tokens in (4096, 16384)]
    for case in [*CASES, LONG, *eight]:
        case.write(os.path.join(folder, case.name.replace(",", "").replace(" ", "-") + ".onnx"))


def main():
    if sys.argv[1:2] == ["models"]:
        return write_models(sys.argv[2])
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            check(checks, folder, case, "host:1x1", "one device")
            check(checks, folder, case, "host:2x1", "two devices")
        arena = check(checks, folder, LONG, "host:1x1", "one device")
        check_small_stacks(checks, folder, CASES[0])
        check_hidden_blocks(checks, folder)
        checks.add(arena is not None and arena <= 1.2 * LONG.port_bytes(),
                   f"{LONG.name}: at most 1.2 times the memory of inputs and outputs", cleave("--version"))
        machine = os.path.join(folder, "small.yaml")
        with open(machine, "w") as file:
            file.write(SMALL)
        check(checks, folder, LONG, machine, "devices without room for scores")
    checks.report()


if __name__ == "__main__":
    main()
