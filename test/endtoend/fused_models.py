# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Whole models of the operators that ONNX Runtime fuses (domain com.microsoft). An encoder as tools for transformers
# leave it and a decoder as exporters of language models write it: outputs must be ONNX Runtime's on one device and
# divided over several, and the gradients of a training step PyTorch's. Standard models that ONNX Runtime's optimizer
# rewrote must give what they gave before.
#
#   python3 test/endtoend/fused_models.py [encoder|decoder|optimized]...

import math
import os
import sys
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import peer
from cleave_process import DONE, Checks, cleave, skip, worst_of

BATCH, LENGTH, HEADS, GROUPS, SIZE, WORDS, LAYERS = 2, 5, 4, 2, 16, 37, 2
WIDTH, INNER, ROOM, PAST = HEADS * SIZE, 96, 8, [3, 1]
RATE = 1024  # As in gradients.py: a power of two, and large.

DIVIDED = {"alternate": ["--machine", "host:2x1", "--strategy", "alternate"],
           "data": ["--machine", "host:2x1", "--strategy", "data"],
           "tensor": ["--machine", "host:2x1", "--strategy", "tensor", "--degrees", "model=2"],
           "uneven tensor": ["--machine", "host:3x1", "--strategy", "tensor", "--degrees", "model=3"]}


# Models of the zoo, and operators that the optimizer puts into them.
OPTIMIZED = {"lenet": (["--batch", "4"], ["FusedConv", "FusedGemm"]),
             "unet": (["--batch", "2", "--image-size", "32", "--features", "6"], ["FusedConv"]),
             "gpt": (["--batch", "2", "--layers", "2", "--hidden", "60", "--heads", "6", "--sequence", "11",
                      "--vocabulary", "101"], ["FusedMatMul", "SkipLayerNormalization"]),
             "bert": (["--batch", "2", "--layers", "2", "--hidden", "48", "--heads", "4", "--sequence", "13",
                       "--vocabulary", "97"], ["FusedGemm", "FusedMatMul", "SkipLayerNormalization"])}


class Builder:
    """A model while it is written: nodes, and weights by name."""

    def __init__(self):
        self.random, self.nodes, self.weights, self.outputs = numpy.random.default_rng(3), [], {}, []
        self.inputs, self.shapes = {}, {}

    def weight(self, name, *shape):
        scale = 1.0 / math.sqrt(shape[-2]) if len(shape) > 1 else 0.2
        self.weights[name] = (self.random.standard_normal(shape) * scale).astype(numpy.float32)
        return name

    def norm(self, name, width):
        self.weights[name] = self.random.uniform(0.5, 1.5, width).astype(numpy.float32)
        return name

    def number(self, name, array, dtype=numpy.int32):
        self.weights[name] = numpy.array(array, dtype=dtype)
        return name

    def input(self, name, array, shape=None):
        self.inputs[name], self.shapes[name] = array, shape or array.shape
        return name

    def op(self, kind, inputs, results, domain="com.microsoft", **attributes):
        results = [results] if isinstance(results, str) else results
        name = next(result for result in results if result)
        self.nodes.append(helper.make_node(kind, inputs, results, name=f"{name}.node", domain=domain, **attributes))
        return results[0]

    def save(self, path):
        ports = [helper.make_tensor_value_info(name, onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[array.dtype],
                                               self.shapes[name])
                 for name, array in self.inputs.items()]
        graph = helper.make_graph(self.nodes, "fused", ports,
                                  [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                                   for name, shape in self.outputs],
                                  [numpy_helper.from_array(array, name) for name, array in self.weights.items()])
        onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[
            helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]), path)


def encoder():
    """BERT's layers, the first of them causal; the words' embedding is the head, too."""
    b = Builder()
    words = b.input("words", b.random.integers(0, WORDS, (BATCH, LENGTH)).astype(numpy.int32))
    mask = b.input("mask", (numpy.arange(LENGTH) < [[LENGTH], [3]]).astype(numpy.int32))
    b.weight("word", WORDS, WIDTH), b.weight("position", LENGTH, WIDTH)
    x = b.op("EmbedLayerNormalization", [words, "", "word", "position", "", b.norm("g", WIDTH), b.weight("b", WIDTH)],
             ["x", ""], epsilon=1e-5)
    for i in range(LAYERS):
        def own(name, i=i):
            return f"{i}.{name}"

        a = b.op("Attention", [x, b.weight(own("qkv"), WIDTH, 3 * WIDTH), b.weight(own("qkv.b"), 3 * WIDTH), mask],
                 own("a"), num_heads=HEADS, unidirectional=int(i == 0))
        o = b.op("FusedMatMul", [a, b.weight(own("o"), WIDTH, WIDTH)], own("ao"), transB=1)
        x = b.op("SkipLayerNormalization", [o, x, b.norm(own("g1"), WIDTH), b.weight(own("b1"), WIDTH),
                                            b.weight(own("o.b"), WIDTH)], own("n1"), epsilon=1e-5)
        h = b.op("FusedMatMul", [x, b.weight(own("up"), WIDTH, INNER)], own("h"), alpha=0.5)
        h = b.op("FastGelu", [h, b.weight(own("up.b"), INNER)], own("f"))
        o = b.op("MatMul", [h, b.weight(own("down"), INNER, WIDTH)], own("d"), domain="")
        x = b.op("SkipLayerNormalization", [o, x, b.norm(own("g2"), WIDTH), b.weight(own("b2"), WIDTH)], own("n2"),
                 epsilon=1e-5)
    b.op("FusedMatMul", [x, "word"], "scores", transB=1, alpha=0.25)
    b.outputs = [("scores", (BATCH, LENGTH, WORDS))]
    return b


def decoder(length, room, past):
    """Llama's layers on `length` new words after those in buffers of `room` places."""
    b = Builder()
    words = b.input("words", b.random.integers(0, WORDS, (BATCH, length)).astype(numpy.int32))
    b.weight("word", WORDS, WIDTH), b.norm("g", WIDTH)
    lengths = numpy.array(past, dtype=numpy.int32) + length
    if room:
        # As exporters write it: how long each sequence is follows from the mask's values, the longest from its shape.
        b.input("mask", (numpy.arange(max(lengths)) < lengths[:, None]).astype(numpy.int64), (BATCH, "total length"))
        b.number("one", [1], numpy.int64)
        b.op("ReduceSum", ["mask", "one"], "count", domain="", keepdims=0)
        b.op("Cast", [b.op("Sub", ["count", "one"], "before", domain="")], "last", domain="", to=TensorProto.INT32)
        b.op("Gather", [b.op("Shape", ["mask"], "shape", domain=""), "one"], "columns", domain="")
        b.op("Cast", ["columns"], "total", domain="", to=TensorProto.INT32)
    else:
        b.number("last", lengths - 1)
        b.number("total", max(lengths))
    last = "last"
    angles = numpy.arange(16)[:, None] * (0.4 ** numpy.arange(SIZE // 2))[None, :]
    b.number("cosines", numpy.cos(angles), numpy.float32), b.number("sines", numpy.sin(angles), numpy.float32)
    kept = max(room, max(past) + length)
    b.op("Gather", ["word", words], "x", domain="")
    x, n = "x", b.op("SimplifiedLayerNormalization", ["x", "g"], "n", domain="", epsilon=1e-5)
    for i in range(LAYERS):
        def own(name, i=i):
            return f"{i}.{name}"

        q, k, v = (b.op("MatMul", [n, b.weight(own(f"w{part}"), WIDTH, count * SIZE)], own(part), domain="")
                   for part, count in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)))
        before = [b.input(own(f"past.{part}"), b.random.standard_normal((BATCH, GROUPS, room, SIZE)).astype(
            numpy.float32)) for part in "kv"] if room else ["", ""]
        presents = [own("present.k"), own("present.v")]
        a = b.op("GroupQueryAttention", [q, k, v, *before, last, "total", "cosines", "sines"], [own("a"), *presents],
                 num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1)
        o = b.op("MatMul", [a, b.weight(own("wo"), WIDTH, WIDTH)], own("o"), domain="")
        n = b.op("SkipSimplifiedLayerNormalization", [x, o, b.norm(own("g1"), WIDTH)], [own("n1"), "", "", own("s1")],
                 epsilon=1e-5)
        gate = b.op("QuickGelu", [b.op("MatMul", [n, b.weight(own("gate"), WIDTH, INNER)], own("t"), domain="")],
                    own("r"), alpha=1.0)
        up = b.op("MatMul", [n, b.weight(own("up"), WIDTH, INNER)], own("u"), domain="")
        down = b.op("MatMul", [b.op("Mul", [gate, up], own("m"), domain=""), b.weight(own("down"), INNER, WIDTH)],
                    own("d"), domain="")
        n = b.op("SkipSimplifiedLayerNormalization", [own("s1"), down, b.norm(own("g2"), WIDTH)],
                 [own("n2"), "", "", own("s2")], epsilon=1e-5)
        x = own("s2")
        b.outputs += [(name, (BATCH, GROUPS, kept, SIZE)) for name in presents]
    b.op("MatMul", [n, b.weight("head", WIDTH, WORDS)], "scores", domain="")
    b.outputs.insert(0, ("scores", (BATCH, length, WORDS)))
    return b


def attend(torch, q, k, v, bias):
    """Attention of batch x length x heads x size; the heads of keys repeat."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(q.shape[3]) + bias, dim=-1)
    return (weights @ v).transpose(1, 2).flatten(2)


def causal(torch):
    return torch.full((LENGTH, LENGTH), -math.inf, dtype=torch.float64).triu(1)


def encoder_in_torch(torch, b, w):
    normal = torch.nn.functional.layer_norm
    mask = (1.0 - torch.from_numpy(b.inputs["mask"]).double())[:, None, None, :] * -10000.0
    x = w["word"][torch.from_numpy(b.inputs["words"]).long()] + w["position"]
    x = normal(x, [WIDTH], w["g"], w["b"])
    for i in range(LAYERS):
        own = {name[2:]: value for name, value in w.items() if name.startswith(f"{i}.")}
        q, k, v = ((x @ own["qkv"] + own["qkv.b"]).unflatten(2, (3, HEADS, SIZE))).unbind(2)
        a = attend(torch, q, k, v, mask + (causal(torch) if i == 0 else 0.0))
        x = normal(a @ own["o"].T + own["o.b"] + x, [WIDTH], own["g1"], own["b1"])
        h = torch.nn.functional.gelu(0.5 * (x @ own["up"]) + own["up.b"], approximate="tanh")
        x = normal(h @ own["down"] + x, [WIDTH], own["g2"], own["b2"])
    return 0.25 * (x @ w["word"].T)


def decoder_in_torch(torch, b, w):
    def normal(x, g):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g

    cosine, sine = (torch.from_numpy(b.weights[name][:LENGTH]).double()[:, None] for name in ("cosines", "sines"))

    def turned(x):
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1)

    x = w["word"][torch.from_numpy(b.inputs["words"]).long()]
    n = normal(x, w["g"])
    for i in range(LAYERS):
        own = {name[2:]: value for name, value in w.items() if name.startswith(f"{i}.")}
        q, k, v = ((n @ own[f"w{part}"]).unflatten(2, (count, SIZE))
                   for part, count in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)))
        x = x + attend(torch, turned(q), turned(k), v, causal(torch)) @ own["wo"]
        n = normal(x, own["g1"])
        x = x + (torch.nn.functional.silu(n @ own["gate"]) * (n @ own["up"])) @ own["down"]
        n = normal(x, own["g2"])
    return n @ w["head"]


def check_outputs(checks, name, builder, folder, divided):
    path = os.path.join(folder, "model.onnx")
    builder.save(path)
    inputs = peer.write_inputs(builder.inputs.values(), folder)
    peer.run_peer(path, inputs, folder)
    given = [flag for i, file in enumerate(inputs) for flag in ("--input", f"@{i}={file}")]
    expected = [flag for i in range(len(builder.outputs)) for flag in ("--expect", f"@{i}={folder}/{i}.npy")]
    for what in divided:
        how = DIVIDED.get(what, ["--machine", "host:1x1", "--strategy", "single"])
        result = cleave("run", path, *how, *given, *expected, "--rtol", "1e-4", "--atol", "1e-5")
        checks.add(result.code == DONE, f"{name}: outputs, {what}", result)


def check_optimized(checks, name, folder):
    """The model in ONNX Runtime, and what its optimizer made of it in Cleave."""
    sizes, kinds = OPTIMIZED[name]
    path, rewritten = os.path.join(folder, f"{name}.onnx"), os.path.join(folder, f"{name}.optimized.onnx")
    made = cleave("zoo", name, *sizes, "--weights", "-o", path)
    if made.code != DONE:
        checks.add(False, f"{name}: made", made)
        return
    random, arrays = numpy.random.default_rng(5), []
    for port in onnx.load(path).graph.input:
        shape, kind = [dim.dim_value for dim in port.type.tensor_type.shape.dim], port.type.tensor_type.elem_type
        arrays.append(random.standard_normal(shape).astype(numpy.float32) if kind == TensorProto.FLOAT else
                      random.integers(0, 2, shape).astype(onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[kind]))
    inputs = peer.write_inputs(arrays, folder)
    peer.run_peer(path, inputs, folder, rewritten)
    found = {node.op_type for node in onnx.load(rewritten).graph.node if node.domain == "com.microsoft"}
    checks.add(found >= set(kinds), f"{name}: optimized into {', '.join(sorted(found))}", made)
    given = [flag for i, file in enumerate(inputs) for flag in ("--input", f"@{i}={file}")]
    for what in ("one device", "tensor"):
        how = DIVIDED.get(what, ["--machine", "host:1x1", "--strategy", "single"])
        result = cleave("run", rewritten, *how, *given, "--expect", f"@0={folder}/0.npy", "--rtol", "1e-4", "--atol",
                        "1e-5")
        checks.add(result.code == DONE, f"{name}: optimized, {what}", result)


def check_gradients(checks, name, builder, in_torch, folder, trained):
    """`trained` are the parameters' names: every weight of reals that is no table."""
    try:
        import torch
    except ImportError:
        skip("no module torch; install python3-torch")
    weights = {key: torch.from_numpy(builder.weights[key]).double().requires_grad_() for key in trained}
    labels = builder.random.integers(0, WORDS, (BATCH, LENGTH))
    scores = in_torch(torch, builder, weights)
    torch.nn.functional.cross_entropy(scores.flatten(0, 1), torch.from_numpy(labels).flatten()).backward()
    data = []
    for port, array in [*builder.inputs.items(), ("labels", labels)]:
        numpy.save(os.path.join(folder, f"{port}.npy"), array)
        data += ["--data", f"{port}={folder}/{port}.npy"]
    model, plan, after = (os.path.join(folder, file) for file in ("model.onnx", "step.plan", "after.npz"))
    for what in ("single", "data", "tensor"):
        how = DIVIDED.get(what, ["--machine", "host:1x1", "--strategy", "single"])
        result = cleave("compile", model, *how, "--train", "--loss", "cross-entropy,classes=2", "--optimizer", "sgd",
                        "--learning-rate", str(RATE), "-o", plan)
        if result.code == DONE:
            result = cleave("train", plan, *data, "--steps", "1", "--export", after)
        if result.code != DONE:
            checks.add(False, f"{name}: gradients, {what}", result)
            continue
        with numpy.load(after) as arrays:
            ours = {key: (builder.weights[key].astype(numpy.float64) - arrays[key]) / RATE for key in trained}
        errors = {key: abs(ours[key] - w.grad.numpy()).max() / abs(w.grad.numpy()).max() for key, w in weights.items()}
        worst = worst_of(errors)
        checks.add(errors[worst] < 1e-4,
                   f"{name}: gradients, {what}: {len(errors)}, largest error {errors[worst]:.1e} ({worst})", result)


def main():
    checks, wanted = Checks(), sys.argv[1:] or ["encoder", "decoder", "optimized"]
    everywhere = ["one device", *DIVIDED]
    with tempfile.TemporaryDirectory() as folder:
        if "encoder" in wanted:
            model = encoder()
            check_outputs(checks, "encoder", model, folder, everywhere)
            check_gradients(checks, "encoder", model, encoder_in_torch, folder, list(model.weights))
        if "decoder" in wanted:
            check_outputs(checks, "decoder, a later step", decoder(1, ROOM, PAST), folder, everywhere)
            model = decoder(LENGTH, 0, [0] * BATCH)
            check_outputs(checks, "decoder, the first step", model, folder, everywhere)
            trained = [key for key in model.weights if key not in ("last", "total", "cosines", "sines")]
            check_gradients(checks, "decoder", model, decoder_in_torch, folder, trained)
        for name in OPTIMIZED if "optimized" in wanted else ():
            check_optimized(checks, name, folder)
    checks.report()


if __name__ == "__main__":
    main()
