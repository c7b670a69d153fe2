# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Operators that are imported by decomposition, one a model, in variants that ONNX's own tests leave out: outputs must be
# those of ONNX Runtime, or of NumPy where its function is the definition.
#
#   python3 test/endtoend/operators.py [PATTERN...]

import collections
import fnmatch
import sys
import tempfile

import numpy
import onnx
from onnx import helper

import peer
from cleave_process import DONE, UNSUPPORTED, cleave, parallel, report

# `expected` are outputs that NumPy computes; None: ONNX Runtime is asked. `refused`: the model is not supported, and the
# message says this. `flags`: options of the run.
Case = collections.namedtuple("Case", "name model inputs outputs expected refused flags", defaults=[None, None, ()])
GENERATOR = numpy.random.default_rng(11)


def floats(*shape, low=-1.0, high=1.0):
    return GENERATOR.uniform(low, high, shape).astype(numpy.float32)


def make_case(name, kind, inputs, attributes, outputs, opset=20, weights=(), domain=""):
    """A model of one node. `inputs` are arrays, None where one is absent; those at positions in `weights` are
    initializers; `outputs` how many there are, or the positions of those that are wanted."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    wanted = range(outputs) if isinstance(outputs, int) else outputs
    results = [f"y{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
    node = helper.make_node(kind, names, results, name="node", domain=domain, **attributes)
    given = [(n, a) for i, (n, a) in enumerate(zip(names, inputs)) if n and i not in weights]
    fixed = [onnx.numpy_helper.from_array(inputs[i], names[i]) for i in weights if i < len(names) and names[i]]
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(n, onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[a.dtype], a.shape) for n, a in given],
        [helper.make_empty_tensor_value_info(f"y{i}") for i in wanted], fixed)
    sets = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=sets, ir_version=9)
    return Case(name, model, [a for _, a in given], len(wanted))


def recurrent_cases():
    """LSTM, GRU and RNN with everything that they can be told."""
    steps, batch, inputs, hidden = 5, 3, 4, 6
    lengths = numpy.array([5, 2, 3], dtype=numpy.int32)
    activations = {"LSTM": ["HardSigmoid", "Softsign", "Elu"], "GRU": ["HardSigmoid", "ScaledTanh"], "RNN": ["Affine"]}
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for direction in ("forward", "reverse", "bidirectional"):
            count = 2 if direction == "bidirectional" else 1
            own = {"direction": direction, "hidden_size": hidden}
            x = floats(steps, batch, inputs)
            w, r = floats(count, gates * hidden, inputs), floats(count, gates * hidden, hidden)
            b = floats(count, 2 * gates * hidden)
            state = [floats(count, batch, hidden) for _ in range(2 if kind == "LSTM" else 1)]
            peepholes = [floats(count, 3 * hidden)] if kind == "LSTM" else []
            outputs = 3 if kind == "LSTM" else 2
            everything = [x, w, r, b, lengths, *state, *peepholes]

            def case(what, arrays, attributes=None):
                return make_case(f"{kind} {direction} {what}", kind, arrays, {**own, **(attributes or {})}, outputs,
                                 weights=(1, 2, 3))

            yield case("bare", [x, w, r])
            yield case("biases", [x, w, r, b])
            yield case("lengths", [x, w, r, b, lengths])
            yield make_case(f"{kind} {direction} known lengths", kind, everything, own, outputs, weights=(1, 2, 3, 4))
            yield case("everything", everything)
            yield case("clip", everything, {"clip": 0.3})
            yield case("activations", everything, {
                "activations": activations[kind] * count,
                "activation_alpha": [0.3, 1.2][: 1 if kind == "RNN" else 2] * count,
                "activation_beta": [0.4, 0.7][: 1 if kind != "GRU" else 2] * count})
            if kind == "GRU":
                yield case("linear before reset", everything, {"linear_before_reset": 1})
                yield case("linear before reset, no biases", [x, w, r, None, None, *state], {"linear_before_reset": 1})
            if kind == "LSTM":
                yield case("coupled gates", [x, w, r, b, None, *state], {"input_forget": 1})
                yield case("no state, peepholes", [x, w, r, b, None, None, None, *peepholes])


def einsum_cases():
    """Products, sums, diagonals, ellipses, broadcasting, more than two operands."""
    for equation, shapes in (
            ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("ij,jk->ki", [(2, 3), (3, 4)]),
            ("bij,bkj->bik", [(2, 3, 4), (2, 5, 4)]), ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("ij->j", [(2, 3)]),
            ("ii->i", [(4, 4)]), ("ii", [(4, 4)]), ("bii->bi", [(2, 3, 3)]), ("iij->ij", [(3, 3, 2)]),
            ("i,j->ij", [(3,), (4,)]), ("i,i->", [(3,), (3,)]), ("ij,ij->ij", [(2, 3), (2, 3)]),
            ("ij,kl->ikjl", [(2, 3), (4, 5)]), ("ij,j->i", [(2, 3), (3,)]), ("ij,kj->k", [(2, 3), (4, 3)]),
            ("...ij,...jk->...ik", [(2, 5, 2, 3), (5, 3, 4)]), ("...i->...", [(2, 3, 4)]),
            ("b...ij->b...ji", [(2, 5, 3, 4)]), ("...ij,jk", [(2, 2, 3), (3, 4)]),
            ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
            ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]), ("ij,jk,ik->i", [(2, 3), (3, 4), (2, 4)]),
            ("abc,abd,acd->a", [(2, 3, 4), (2, 3, 5), (2, 4, 5)]), ("tec,th->ech", [(4, 2, 3), (4, 5)]),
            ("aB,Bc -> ca", [(2, 3), (3, 4)])):
        inputs = [floats(*shape) for shape in shapes]
        case = make_case(f"Einsum {equation}", "Einsum", inputs, {"equation": equation}, 1)
        yield case._replace(expected=[numpy.einsum(equation, *inputs)])


def attention_cases():
    """Attention with what ONNX Runtime has at operator set 23."""
    batch, heads, length, total, size = 2, 4, 3, 5, 8
    q, k, v = floats(batch, heads, length, size), floats(batch, heads, total, size), floats(batch, heads, total, 6)
    past = [floats(batch, heads, 2, size), floats(batch, heads, 2, 6)]
    choice = GENERATOR.integers(0, 2, (length, total)).astype(bool)
    choice[:, 0] = True
    for what, inputs, attributes, outputs in (
            ("plain", [q, k, v], {}, 1), ("causal", [q, k, v], {"is_causal": 1}, 1),
            ("mask", [q, k, v, floats(length, total)], {}, 1), ("choice", [q, k, v, choice], {}, 1),
            ("past", [q, k, v, None, *past], {}, 3), ("causal past", [q, k, v, None, *past], {"is_causal": 1}, 3),
            ("scale", [q, k, v], {"scale": 0.7}, 1), ("softcap", [q, k, v], {"softcap": 2.0}, 1),
            ("groups", [q, k[:, :2], v[:, :2]], {}, 1),
            ("flat groups", [floats(batch, length, 32), floats(batch, total, 16), floats(batch, total, 16)],
             {"q_num_heads": 4, "kv_num_heads": 2}, 1)):
        yield make_case(f"Attention {what}", "Attention", [None if a is None else numpy.ascontiguousarray(a)
                                                           for a in inputs], attributes, outputs, opset=23)


def integers(dtype, *shape, low=None, high=None):
    info = numpy.iinfo(dtype)
    low, high = info.min if low is None else low, info.max if high is None else high
    return GENERATOR.integers(low, high, shape, dtype=dtype, endpoint=True)


def unsigned_cases():
    """Arithmetic, comparisons, bits and conversions of integers without a sign, which wrap; NumPy says what they are."""
    for dtype in (numpy.uint8, numpy.uint16, numpy.uint32, numpy.uint64):
        a, b, few = integers(dtype, 3, 17), integers(dtype, 17), integers(dtype, 17, high=9)
        name = dtype.__name__
        for kind, inputs, function in (
                ("Add", [a, b], numpy.add), ("Sub", [a, b], numpy.subtract), ("Mul", [a, b], numpy.multiply),
                ("Div", [a, few + 1], numpy.floor_divide), ("Mod", [a, few + 1], numpy.mod),
                ("Max", [a, b], numpy.maximum), ("Min", [a, b], numpy.minimum), ("Less", [a, b], numpy.less),
                ("GreaterOrEqual", [a, b], numpy.greater_equal), ("Equal", [a, a[:1]], numpy.equal),
                ("BitwiseAnd", [a, b], numpy.bitwise_and), ("BitwiseOr", [a, b], numpy.bitwise_or),
                ("BitwiseXor", [a, b], numpy.bitwise_xor), ("BitwiseNot", [a], numpy.invert)):
            yield make_case(f"{kind} {name}", kind, inputs, {}, 1)._replace(expected=[function(*inputs)])
        for direction, function in (("LEFT", numpy.left_shift), ("RIGHT", numpy.right_shift)):
            few = integers(dtype, 17, high=numpy.iinfo(dtype).bits - 1)
            yield make_case(f"BitShift {direction} {name}", "BitShift", [a, few], {"direction": direction}, 1)._replace(
                expected=[function(a, few)])
        for to in (numpy.float32, numpy.float64, numpy.int8, numpy.uint8, numpy.int32, numpy.uint32, numpy.int64,
                   numpy.uint64, numpy.bool_):
            kind = onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[numpy.dtype(to)]
            yield make_case(f"Cast {name} {to.__name__}", "Cast", [a], {"to": kind}, 1)._replace(expected=[a.astype(to)])
        reals = floats(3, 17, low=0, high=255)
        yield make_case(f"Cast float32 {name}", "Cast", [reals], {"to": onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[a.dtype]},
                        1)._replace(expected=[reals.astype(dtype)])
        yield make_case(f"ReduceMax {name}", "ReduceMax", [a], {"axes": [1], "keepdims": 0}, 1, opset=13)._replace(
            expected=[a.max(axis=1)])
        largest = numpy.argsort(numpy.iinfo(dtype).max - a, axis=1, kind="stable")[:, :3]
        yield make_case(f"TopK {name}", "TopK", [a, numpy.array([3])], {}, 2, weights=(1,))._replace(
            expected=[numpy.take_along_axis(a, largest, axis=1), largest])


def packed(name, values, code):
    """A tensor of elements of 4 bits, two a byte, the first in the lower half."""
    nibbles = (values.reshape(-1).astype(numpy.int64) & 15).tolist()
    nibbles += [0] * (len(nibbles) % 2)
    data = bytes(low | high << 4 for low, high in zip(nibbles[::2], nibbles[1::2]))
    return onnx.TensorProto(name=name, data_type=code, dims=values.shape, raw_data=data)


def quantization_cases():
    """Numbers of 8 and 16 bits with scales and zero points: for all, by channel, by block; and products of them, of which
    NumPy gives the exact sums."""
    for dtype in (numpy.uint8, numpy.int8, numpy.uint16, numpy.int16):
        info, name = numpy.iinfo(dtype), dtype.__name__
        x = floats(4, 6, 5, low=-40, high=40)
        zero, zeros = integers(dtype, low=info.min // 2, high=info.max // 2), integers(dtype, 6)
        one, many = numpy.array(0.3, numpy.float32), floats(6, low=0.1, high=0.5)
        blocks, block_zeros = floats(4, 3, 5, low=0.1, high=0.5), integers(dtype, 4, 3, 5)
        for what, scale, shift, attributes in (("one", one, zero, {}), ("axis", many, zeros, {"axis": 1}),
                                               ("negative axis", many, zeros, {"axis": -2}),
                                               ("blocks", blocks, block_zeros, {"axis": 1, "block_size": 2})):
            yield make_case(f"QuantizeLinear {name} {what}", "QuantizeLinear", [x, scale, shift], attributes, 1, opset=21)
            yield make_case(f"DequantizeLinear {name} {what}", "DequantizeLinear", [integers(dtype, 4, 6, 5), scale, shift],
                            attributes, 1, opset=21)
        yield make_case(f"QuantizeLinear {name} type", "QuantizeLinear", [x, one],
                        {"output_dtype": onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[numpy.dtype(dtype)]}, 1, opset=21)
    for what, x in (("both signs", floats(3, 5, low=-2, high=7)), ("above", floats(3, 5, low=1, high=3)),
                    ("zeros", numpy.zeros((2, 3), numpy.float32))):
        expected = None if x.any() else [numpy.zeros((2, 3), numpy.uint8), numpy.float32(0), numpy.uint8(0)]
        yield make_case(f"DynamicQuantizeLinear {what}", "DynamicQuantizeLinear", [x], {}, 3)._replace(expected=expected)
    for left in (numpy.uint8, numpy.int8):
        for right in (numpy.uint8, numpy.int8):
            a, b, za, zb = integers(left, 2, 5, 7), integers(right, 7, 3), integers(left), integers(right)
            exact = (a.astype(numpy.int32) - za.astype(numpy.int32)) @ (b.astype(numpy.int32) - zb.astype(numpy.int32))
            name = f"{left.__name__} {right.__name__}"
            yield make_case(f"MatMulInteger {name}", "MatMulInteger", [a, b, za, zb], {}, 1)._replace(expected=[exact])
            scales = [numpy.array(value, numpy.float32) for value in (0.5, 0.25, 16)]
            zero = integers(left, low=10, high=100)
            ratio = exact.astype(numpy.float32) * numpy.float32(0.5 * 0.25 / 16)
            result = numpy.clip(numpy.rint(ratio) + zero.astype(numpy.float32), numpy.iinfo(left).min, numpy.iinfo(left).max)
            yield make_case(f"QLinearMatMul {name}", "QLinearMatMul", [a, scales[0], za, b, scales[1], zb, scales[2], zero],
                            {}, 1)._replace(expected=[result.astype(left)])
            # Small filters: ONNX Runtime's sums of pairs of large products saturate on some processors.
            image, filters = integers(left, 1, 4, 6, 5), integers(right, 6, 2, 3, 3, low=0, high=40)
            zeros = [integers(left, low=0, high=50), numpy.zeros((), right)]
            attributes = {"pads": [1, 0, 1, 2], "strides": [2, 1], "group": 2}
            if left is numpy.uint8:
                yield make_case(f"ConvInteger {name}", "ConvInteger", [image, filters, *zeros], attributes, 1, weights=(1, 3))
            if right is numpy.int8 or left is right:
                yield make_case(f"QLinearConv {name}", "QLinearConv",
                                [image, scales[0], zeros[0], filters, floats(6, low=0.1, high=0.4), numpy.zeros(6, right),
                                 numpy.array(31.3, numpy.float32), zero, integers(numpy.int32, 6, low=-900, high=900)],
                                attributes, 1, weights=(1, 2, 3, 4, 5, 6, 7, 8))


def packed_cases():
    """Weights of 4 bits, in blocks along a dimension that blocks do not divide, as language models have them."""
    for code, low, high in ((21, 0, 15), (22, -8, 7)):
        weights, x = GENERATOR.integers(low, high, (7, 5), endpoint=True), floats(3, 7)
        scales, zeros = floats(4, 5, low=0.1, high=1), GENERATOR.integers(low, high, (4, 5), endpoint=True)
        nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=2),
                 helper.make_node("MatMul", ["x", "d"], ["y0"])]
        graph = helper.make_graph(nodes, "packed", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
                                  [helper.make_tensor_value_info("y0", onnx.TensorProto.FLOAT, (3, 5))],
                                  [packed("w", weights, code), onnx.numpy_helper.from_array(scales, "s"),
                                   packed("z", zeros, code)])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        along = numpy.arange(7) // 2
        expected = x @ ((weights - zeros[along]) * scales[along]).astype(numpy.float32)
        yield Case(f"DequantizeLinear of 4 bits, type {code}", model, [x], 1, [expected])
        yield Case(f"DequantizeLinear of 4 bits, type {code}, by ONNX Runtime", model, [x], 1)


def refused_cases():
    """Zero points of 4 bits, which are held as 8: numbers quantized to them would saturate at the wrong bounds, wherever
    the zero point comes from."""
    zero, scale = packed("z", numpy.array(1), 22), onnx.numpy_helper.from_array(numpy.array(0.1, numpy.float32), "s")
    for what, maker, weights, reason in (
            ("initializer", None, [scale, zero], '"y" (it is not known for elements of 4 bits)'),
            ("operator", helper.make_node("Identity", ["z"], ["i"]), [scale, zero], "elements of 4 bits"),
            ("Constant", helper.make_node("Constant", [], ["i"], value=zero), [scale], "4 bits are known in initializers only")):
        nodes = [maker] if maker else []
        nodes.append(helper.make_node("QuantizeLinear", ["x", "s", "i" if maker else "z"], ["y"]))
        graph = helper.make_graph(nodes, "refused", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (4,))],
                                  [helper.make_tensor_value_info("y", onnx.TensorProto.INT8, (4,))], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        yield Case(f"QuantizeLinear to 4 bits by {what}", model, [], 1, refused=reason)


def other_cases():
    """Functions over their whole range, and transforms."""
    near, wide = numpy.geomspace(1e-30, 1.0, 40, dtype=numpy.float32), numpy.geomspace(1e-6, 88, 40, dtype=numpy.float32)
    unit = numpy.concatenate([-near[::-1], [0.0], near]).astype(numpy.float32)
    both = numpy.concatenate([-wide[::-1], [0.0], wide]).astype(numpy.float32)
    for kind, x in (("Asin", unit), ("Acos", unit), ("Atanh", unit[1:-1]), ("Atan", both), ("Sinh", both), ("Cosh", both),
                    ("Asinh", both), ("Acosh", 1 + wide), ("Tan", both)):
        yield make_case(kind, kind, [x], {}, 1)
    for attributes in ({}, {"inverse": 1}, {"onesided": 1}):
        yield make_case(f"DFT {attributes}", "DFT", [floats(2, 7, 1 if "onesided" in attributes else 2)],
                        {"axis": 1, **attributes}, 1, opset=17)
    x = floats(3, 17, low=-4, high=4)
    yield make_case("Swish", "Swish", [x], {"alpha": 1.5}, 1, opset=24)._replace(
        expected=[x / (1 + numpy.exp(-numpy.float32(1.5) * x))])
    yield make_case("Shrink", "Shrink", [x], {"lambd": 1.5, "bias": 0.5}, 1)
    length = numpy.array(9, dtype=numpy.int64)
    yield make_case("DFT padded", "DFT", [floats(2, 7, 1), length], {"axis": 1}, 1, opset=17, weights=(1,))


def boundary_cases():
    """Where operators begin and end: slices from beyond the ends, reductions over nothing, positions that are whole
    numbers in float32 alone."""
    x = floats(5, 7)
    for start, end, step in ((-9, -99, -1), (-9, -99, -3), (99, -99, -2), (-5, -6, -1), (-99, 99, 2), (7, 9, 1)):
        bounds = [numpy.array([bound]) for bound in (start, end, 0, step)]
        yield make_case(f"Slice {start}:{end}:{step}", "Slice", [x, *bounds], {}, 1, weights=(1, 2, 3, 4))
    for kind in ("Sum", "Mean", "Max", "L1", "L2", "SumSquare", "LogSumExp"):
        yield make_case(f"Reduce{kind} of nothing", f"Reduce{kind}", [x, numpy.array([], dtype=numpy.int64)],
                        {"noop_with_empty_axes": 1}, 1, weights=(1,))
    none = numpy.array([], dtype=numpy.float32)
    for coordinates, nearest in (("asymmetric", "floor"), ("asymmetric", "ceil"), ("half_pixel", "round_prefer_ceil"),
                                 ("half_pixel", "round_prefer_floor"), ("pytorch_half_pixel", "floor")):
        for scale in (1.7, 0.6, 2.3, 1.1):
            yield make_case(f"Resize {coordinates} {nearest} by {scale}", "Resize",
                            [floats(20), none, numpy.array([scale], dtype=numpy.float32)],
                            {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}, 1, opset=13,
                            weights=(1, 2))


def run(case):
    """(subject, result) of every run that did not agree; how many did."""
    failures, passed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        onnx.save(case.model, path)
        if case.refused:
            result = cleave("check", path)
            is_refused = result.code == UNSUPPORTED and case.refused in result.errors
            return ([] if is_refused else [(case.name, result)]), is_refused
        inputs = peer.write_inputs(case.inputs, folder)
        if case.expected is None:
            peer.run_peer(path, inputs, folder)
        for position, array in enumerate(case.expected or []):
            numpy.save(f"{folder}/{position}.npy", array)
        for what in peer.RUNS:
            result = peer.compare(path, inputs, folder, range(case.outputs), what, rtol="1e-4", atol="2e-6",
                                  more=case.flags)
            passed += result.code == DONE
            if result.code != DONE:
                failures.append((f"{case.name} on {what}", result))
    return failures, passed


def main(*makers):
    """Runs the cases whose names fit the command line's patterns, and ends the test."""
    cases = [case for make in makers for case in make()
             if not sys.argv[1:] or any(fnmatch.fnmatch(case.name, pattern) for pattern in sys.argv[1:])]
    results = parallel(run, cases)
    report([failure for failures, _ in results for failure in failures], sum(passed for _, passed in results))


if __name__ == "__main__":
    main(recurrent_cases, einsum_cases, attention_cases, unsigned_cases, quantization_cases, packed_cases,
         refused_cases, boundary_cases, other_cases)
