# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The operators that ONNX Runtime's optimizer and exporters of language models write (domain com.microsoft), one a
# model: outputs must be those of ONNX Runtime, or, where its CPU provider lacks a kernel, of the definition in NumPy.
#
#   python3 test/endtoend/contributed_operators.py [PATTERN...]

import math

import numpy

from operators import GENERATOR, floats, main, make_case

BATCH, LENGTH, HEADS, SIZE = 2, 5, 4, 8
WIDTH = HEADS * SIZE


def case(name, inputs, attributes=None, outputs=1, weights=(), expected=None):
    """The operator is the first word of the name."""
    made = make_case(name, name.split()[0], inputs, attributes or {}, outputs, weights=weights, domain="com.microsoft")
    return made._replace(expected=expected)


def integers(low, high, *shape, dtype=numpy.int32):
    return GENERATOR.integers(low, high, shape).astype(dtype)


def gelu(x):
    return (x * 0.5 * (1 + numpy.vectorize(math.erf)(x / math.sqrt(2)))).astype(numpy.float32)


def activation_cases():
    """Biases along the last dimension of any rank; halves that are gates."""
    x, bias = floats(2, 3, 7, low=-3, high=3), floats(7)
    yield case("Gelu", [x])
    yield case("BiasGelu", [x, bias])
    yield case("FastGelu", [x])
    yield case("FastGelu bias", [x[0], bias], weights=(1,))
    yield case("QuickGelu", [x])
    yield case("QuickGelu alpha", [x], {"alpha": 0.7})
    image, skip, wide = floats(2, 3, 8), floats(2, 3, 8), floats(8)
    yield case("BiasAdd", [image, wide, skip], expected=[image + wide + skip])
    left, right = numpy.split(image + wide, 2, axis=2)
    yield case("BiasSplitGelu", [image, wide], expected=[left * gelu(right)])


def product_cases():
    """Transposed, stacked, broadcast and scaled products, and what is fused behind them."""
    for what, lhs, rhs, attributes in (
            ("plain", (3, 4), (4, 5), {}), ("vector", (4,), (2, 4, 5), {}), ("right vector", (2, 3, 4), (4,), {}),
            ("alpha", (3, 4), (4, 5), {"alpha": 0.3}), ("transA", (4, 3), (4, 5), {"transA": 1}),
            ("transB", (2, 3, 4), (5, 4), {"transB": 1}), ("transA stack", (2, 4, 3), (4, 5), {"transA": 1}),
            ("both", (2, 4, 3), (2, 5, 4), {"transA": 1, "transB": 1, "alpha": -2.0}),
            ("broadcast", (2, 1, 3, 4), (3, 5, 4), {"transB": 1}), ("one right", (2, 3, 3, 4), (1, 4, 5), {}),
            ("transBatchA", (3, 2, 4), (2, 4, 5), {"transBatchA": 1}),
            ("transBatchB", (2, 3, 4), (4, 2, 5), {"transBatchB": 1}),
            ("transBatch deep", (3, 2, 6, 4), (5, 2, 6, 4), {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
            ("transBatchA transA", (4, 2, 3), (2, 4, 5), {"transBatchA": 1, "transA": 1})):
        yield case(f"FusedMatMul {what}", [floats(*lhs), floats(*rhs)], attributes)
    a, b, c = floats(3, 4), floats(4, 5), floats(5)
    for what, attributes in (("Relu", {"activation": "Relu", "alpha": 0.5, "beta": 2.0}),
                             ("LeakyRelu", {"activation": "LeakyRelu", "activation_alpha": 0.3}),
                             ("HardSigmoid", {"activation": "HardSigmoid", "activation_alpha": 0.3,
                                              "activation_beta": 0.4})):
        yield case(f"FusedGemm {what}", [a, b, c], attributes)
    yield case("FusedGemm transposed", [a.T.copy(), b.T.copy()], {"activation": "Tanh", "transA": 1, "transB": 1})
    image, filters, bias = floats(2, 3, 7, 6), floats(4, 3, 3, 3), floats(4)
    padded = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    for what, attributes in (("Relu", {"activation": "Relu"}), ("Tanh", {"activation": "Tanh", "strides": [2, 1]}),
                             ("LeakyRelu", {"activation": "LeakyRelu", "activation_params": [0.2]}),
                             ("Clip", {"activation": "Clip", "activation_params": [-0.5, 0.25]}),
                             ("HardSigmoid", {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]})):
        yield case(f"FusedConv {what}", [image, filters, bias], {**padded, **attributes}, weights=(1, 2))
    yield case("FusedConv sum", [image, filters, bias, floats(2, 4, 7, 6)], {**padded, "activation": "Relu"},
               weights=(1, 2))
    for metric in ("euclidean", "sqeuclidean"):
        yield case(f"CDist {metric}", [floats(7, 3), floats(5, 3)], {"metric": metric})
    yield case("Trilu", [floats(2, 5, 5)], {"upper": 0})


def normalization_cases():
    """Skip connections that broadcast, biases and results that are left out or not, groups of channels."""
    x, skip, scale, shift, bias = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)
    kind = "SkipLayerNormalization"
    yield case(kind, [x, skip, scale, shift, bias])
    yield case(f"{kind} no shift", [x, skip, scale], {"epsilon": 1e-3})
    yield case(f"{kind} one skip", [x, skip[:1], scale, shift, None])
    yield case(f"{kind} matrix skip", [x, skip[0], scale, shift])
    yield case(f"{kind} sum", [x, skip, scale, shift, bias], outputs=(0, 3))
    kind = "SkipSimplifiedLayerNormalization"
    yield case(kind, [x, skip, scale])
    yield case(f"{kind} rows", [x[0], skip[0], scale, bias], {"epsilon": 1e-3})
    yield case(f"{kind} sum", [x, skip, scale, bias], outputs=(0, 3))
    for rank, axis in ((2, -1), (3, -1), (3, 1)):
        shape = (3, 8) if rank == 2 else (2, 3, 8)
        yield make_case(f"SimplifiedLayerNormalization {rank} {axis}", "SimplifiedLayerNormalization",
                        [floats(*shape), floats(*shape[axis:])], {"axis": axis, "epsilon": 1e-3}, 1, opset=17)
    yield make_case("LayerNormalization before 17", "LayerNormalization", [x, scale, shift], {}, 1, opset=13)
    yield from embedding_cases()
    yield from group_cases()


def embedding_cases():
    """Embeddings with and without segments, mask and positions of their own."""
    words, segments = integers(0, 11, BATCH, LENGTH), integers(0, 2, BATCH, LENGTH)
    tables = [floats(11, 8), floats(9, 8), floats(2, 8)]
    mask = numpy.arange(LENGTH)[None, :] < numpy.array([[LENGTH], [3]])
    norm, mask = [floats(8), floats(8)], mask.astype(numpy.int32)
    positions = integers(0, 9, BATCH, LENGTH)
    kind, fixed = "EmbedLayerNormalization", (2, 3, 4, 5, 6)
    yield case(kind, [words, segments, *tables, *norm], {}, 2, fixed)
    yield case(f"{kind} no segments", [words, None, *tables[:2], None, *norm], {}, 2, fixed)
    yield case(f"{kind} mask", [words, segments, *tables, *norm, mask], {"epsilon": 1e-3}, 2, fixed)
    yield case(f"{kind} positions", [words, segments, *tables, *norm, mask, positions], {"epsilon": 1e-3}, 3, fixed)


def group_cases():
    """Group normalization, which ONNX Runtime has on GPUs only."""
    def normalized(x, scale, shift, groups, epsilon, activation, isLast):
        x = numpy.moveaxis(x, -1, 1) if isLast else x
        apart = x.astype(numpy.float64).reshape(x.shape[0], groups, -1)
        apart = (apart - apart.mean(2, keepdims=True)) / numpy.sqrt(apart.var(2, keepdims=True) + epsilon)
        column = (slice(None), None, None)
        result = apart.reshape(x.shape) * scale[column] + shift[column]
        result = result / (1 + numpy.exp(-result)) if activation else result
        return (numpy.moveaxis(result, 1, -1) if isLast else result).astype(numpy.float32)

    scale, shift, bias = floats(6), floats(6), floats(6)
    for isLast, activation in ((1, 0), (1, 1), (0, 1)):
        x, skip = (floats(2, 3, 5, 6), floats(2, 3, 5, 6)) if isLast else (floats(2, 6, 3, 5), floats(2, 6, 3, 5))
        own = {"groups": 3, "activation": activation, "channels_last": isLast, "epsilon": 1e-3}
        rest = (3, 1e-3, activation, isLast)
        yield case(f"GroupNorm {isLast} {activation}", [x, scale, shift], own,
                   expected=[normalized(x, scale, shift, *rest)])
        whole = x + skip + (bias if isLast else bias[:, None, None])
        yield case(f"SkipGroupNorm {isLast} {activation}", [x, scale, shift, skip, bias], own, 2,
                   expected=[normalized(whole, scale, shift, *rest), whole])
        flat = x + (skip[:, 0, 0][:, None, None] if isLast else skip[:, :, 0, 0][:, :, None, None])
        yield case(f"SkipGroupNorm flat {isLast} {activation}",
                   [x, scale, shift, skip[:, 0, 0].copy() if isLast else skip[:, :, 0, 0].copy()], own,
                   expected=[normalized(flat, scale, shift, *rest)])


def quantized_cases():
    """Operators on quantized tensors. Scales are such that no result lies between two steps, where another order of
    roundings would take the other one."""
    def scale(value):
        return numpy.float32(value)

    def bytes_of(*shape, dtype=numpy.uint8):
        info = numpy.iinfo(dtype)
        return GENERATOR.integers(info.min, info.max + 1, shape).astype(dtype)

    a, b, image = bytes_of(2, 3, 5), bytes_of(2, 3, 5), bytes_of(2, 3, 7, 6)
    first, second, third = [scale(0.031), numpy.uint8(120)], [scale(0.0175), numpy.uint8(7)], [scale(0.0437), numpy.uint8(99)]
    weights = tuple(range(1, 9))
    yield case("QLinearAdd", [a, *first, b, *second, *third], weights=(1, 2, 4, 5, 6, 7))
    yield case("QLinearAdd broadcast", [a, *first, bytes_of(5), *second, *third], weights=(1, 2, 4, 5, 6, 7))
    signed = [scale(0.02), numpy.int8(-3)]
    yield case("QLinearAdd signed", [bytes_of(4, 9, dtype=numpy.int8), *signed, bytes_of(4, 9, dtype=numpy.int8), scale(0.05),
                                     numpy.int8(11), scale(0.0613), numpy.int8(0)], weights=(1, 2, 4, 5, 6, 7))
    yield case("QLinearMul", [a, *first, b, *second, scale(0.09), numpy.uint8(31)], weights=(1, 2, 4, 5, 6, 7))
    unary = (1, 2, 3, 4)
    yield case("QLinearSigmoid", [a, *first, scale(1 / 255), numpy.uint8(0)], weights=unary)
    yield case("QLinearLeakyRelu", [a, *first, *third], {"alpha": 0.2}, weights=unary)
    # ONNX Runtime's takes exponentials from a table, and is a step off now and then.
    probabilities = softmax((a.astype(numpy.float32) - first[1]) * first[0])
    yield case("QLinearSoftmax", [a, *first, scale(1 / 255), numpy.uint8(0)], {"axis": -1, "opset": 13}, weights=unary,
               expected=[numpy.rint(probabilities / scale(1 / 255)).astype(numpy.uint8)])
    yield case("QLinearGlobalAveragePool", [image, *first, *third], weights=unary)
    for what, attributes in (("plain", {"kernel_shape": [3, 2]}), ("padded", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1],
                                                                              "strides": [2, 2]}),
                             ("counted", {"kernel_shape": [3, 3], "pads": [1, 0, 1, 0], "count_include_pad": 1})):
        yield case(f"QLinearAveragePool {what}", [image, *first, *third], attributes, weights=unary)
    yield case("QLinearConcat", [*third, a, *first, bytes_of(2, 4, 5), *second], {"axis": 1}, weights=(0, 1, 3, 4, 6, 7))
    left, right = bytes_of(4, 9), GENERATOR.integers(-60, 61, (9, 6)).astype(numpy.int8)
    factors = GENERATOR.uniform(0.01, 0.05, 6).astype(numpy.float32)
    bias = integers(-500, 500, 6)
    yield case("QGemm", [left, *first, right, factors, numpy.zeros(6, numpy.int8), bias, scale(0.3), numpy.uint8(128)],
               weights=weights)
    yield case("QGemm reals", [left, *first, right, scale(0.02), numpy.int8(3), bias], {"alpha": 0.5}, weights=weights[:6])
    yield case("QGemm transposed", [left.T.copy(), *first, right.T.copy(), factors, numpy.zeros(6, numpy.int8), bias],
               {"transA": 1, "transB": 1}, weights=weights[:6])
    yield case("MatMulIntegerToFloat", [left, right, scale(0.03), factors, numpy.uint8(100), numpy.zeros(6, numpy.int8),
                                        floats(6)], weights=(1, 2, 3, 4, 5, 6))
    yield case("MatMulIntegerToFloat plain", [left, right, scale(0.03), scale(0.01)], weights=(1, 2, 3))
    yield case("DynamicQuantizeMatMul", [floats(2, 4, 9), right, factors, numpy.zeros(6, numpy.int8), floats(6)],
               weights=(1, 2, 3, 4))
    yield case("DynamicQuantizeMatMul plain", [floats(4, 9), right, scale(0.01)], weights=(1, 2))


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attended(q, k, v, bias=0.0):
    """Attention of values batch x sequence x heads x size, in doubles."""
    q, k, v = (numpy.moveaxis(x.astype(numpy.float64), 2, 1) for x in (q, k, v))
    weights = softmax(q @ numpy.swapaxes(k, 2, 3) / math.sqrt(q.shape[3]) + bias)
    result = numpy.moveaxis(weights @ v, 1, 2)
    return result.reshape(*result.shape[:2], -1).astype(numpy.float32)


def fused_attention_cases():
    """Attention with projections in front, with every mask that ONNX Runtime has on CPU, past and biases."""
    x, weights, bias = floats(BATCH, LENGTH, 7), floats(7, 3 * WIDTH), floats(3 * WIDTH)
    past, scores = floats(2, BATCH, HEADS, 3, SIZE), floats(BATCH, 1, LENGTH, LENGTH)
    ends = numpy.array([4, 5], dtype=numpy.int32)
    bounds = numpy.array([4, 5, 1, 2], dtype=numpy.int32)
    rows, cells = integers(0, 2, BATCH, LENGTH), integers(0, 2, BATCH, LENGTH, LENGTH)
    rows[:, 1], cells[:, :, 0] = 1, 1
    with_past = integers(0, 2, BATCH, LENGTH + 3)
    with_past[:, 0] = 1
    own = {"num_heads": HEADS}
    for what, inputs, attributes, outputs in (
            ("bias", [x, weights, bias], {}, 1),
            ("ends", [x, weights, bias, ends], {}, 1), ("bounds", [x, weights, bias, bounds], {}, 1),
            ("rows", [x, weights, bias, rows], {}, 1), ("cells", [x, weights, bias, cells], {}, 1),
            ("filter", [x, weights, bias, rows], {"mask_filter_value": -3.0}, 1),
            ("causal", [x, weights, bias], {"unidirectional": 1}, 1),
            ("causal rows", [x, weights, bias, rows], {"unidirectional": 1}, 1),
            ("scale", [x, weights, bias], {"scale": 0.7}, 1),
            ("widths", [x, floats(7, 2 * WIDTH + 8), floats(2 * WIDTH + 8)],
             {"qkv_hidden_sizes": [WIDTH, WIDTH, 8]}, 1),
            ("past", [x, weights, bias, None, past], {}, 2),
            ("causal past", [x, weights, bias, with_past, past], {"unidirectional": 1}, 2),
            ("scores", [x, weights, bias, None, None, scores], {}, 1)):
        yield case(f"Attention {what}", inputs, {**own, **attributes}, outputs, weights=(1, 2))
    parts = (x @ weights).reshape(BATCH, LENGTH, 3, HEADS, SIZE)
    yield case("Attention bare", [x, weights], own, expected=[attended(*(parts[:, :, i] for i in range(3)))])


def multi_head_cases():
    """Queries, keys and values that come apart or packed, keys of another length, past."""
    total = LENGTH + 2
    q, k, v = floats(BATCH, LENGTH, WIDTH), floats(BATCH, total, WIDTH), floats(BATCH, total, HEADS * 3)
    bias = floats(2 * WIDTH + HEADS * 3)
    heads = [floats(BATCH, HEADS, total, SIZE), floats(BATCH, HEADS, total, SIZE)]
    past = [floats(BATCH, HEADS, 3, SIZE), floats(BATCH, HEADS, 3, SIZE)]
    rows = integers(0, 2, BATCH, total)
    rows[:, 2] = 1
    own = {"num_heads": HEADS}
    for what, inputs, attributes, outputs in (
            ("plain", [q, k, v], {}, 1), ("bias", [q, k, v, bias], {}, 1),
            ("rows", [q, k, v, bias, rows], {}, 1), ("scale", [q, k, v], {"scale": 0.2}, 1),
            ("scores", [q, k, v, None, None, floats(1, HEADS, LENGTH, total)], {}, 1),
            ("causal", [q, k[:, :LENGTH], v[:, :LENGTH]], {"unidirectional": 1}, 1),
            ("present", [q, k, v, bias], {}, 3), ("heads", [q, *heads], {}, 1),
            ("past", [q, k, k + 1, None, None, None, *past], {}, 3),
            ("causal past", [q, q + 1, q - 1, floats(3 * WIDTH), None, None, *past], {"unidirectional": 1}, 3)):
        yield case(f"MultiHeadAttention {what}", inputs, {**own, **attributes}, outputs)
    packed, part = floats(BATCH, LENGTH, HEADS, 3, SIZE), floats(BATCH, total, HEADS, 2, SIZE)
    yield case("MultiHeadAttention packed", [packed], own,
               expected=[attended(*(packed[:, :, :, i] for i in range(3)))])
    yield case("MultiHeadAttention packed keys", [q, part], own,
               expected=[attended(q.reshape(BATCH, LENGTH, HEADS, SIZE), part[:, :, :, 0], part[:, :, :, 1])])


def rotary_tables(rows, pairs):
    angles = numpy.arange(rows)[:, None] * (0.3 ** numpy.arange(pairs))[None, :]
    return [numpy.cos(angles).astype(numpy.float32), numpy.sin(angles).astype(numpy.float32)]


def rotary_cases():
    """One position a sequence or one an element; halves and neighbours; heads of which a part turns."""
    flat, heads = floats(BATCH, LENGTH, WIDTH), floats(BATCH, HEADS, LENGTH, SIZE)
    start = numpy.array([3], dtype=numpy.int64)
    positions = integers(0, 12, BATCH, LENGTH, dtype=numpy.int64)
    tables, fewer = rotary_tables(12, SIZE // 2), rotary_tables(12, 2)
    partial = {"num_heads": HEADS, "rotary_embedding_dim": 4}
    for what, inputs, attributes in (
            ("flat", [flat, positions, *tables], {}), ("start", [flat, start, *tables], {}),
            ("heads", [heads, positions, *tables], {}), ("heads start", [heads, start, *tables], {"interleaved": 1}),
            ("neighbours", [flat, positions, *tables], {"interleaved": 1}),
            ("partial", [flat, positions, *fewer], partial),
            ("partial neighbours", [heads, positions, *fewer], {**partial, "interleaved": 1})):
        yield case(f"RotaryEmbedding {what}", inputs, attributes, weights=(2, 3))


def group_query_cases():
    """First steps and later ones: buffers that are full or have room, pasts of one length or several. ONNX Runtime
    turns only heads whose size is a multiple of 16."""
    groups, past, steps, size = 2, 3, 2, 32
    own = {"num_heads": HEADS, "kv_num_heads": groups}
    tables = rotary_tables(16, size // 2)

    def new(length, batch=BATCH):
        return [floats(batch, length, count * size) for count in (HEADS, groups, groups)]

    def buffers(room, batch=BATCH):
        return [floats(batch, groups, room, size), floats(batch, groups, room, size)]

    def lengths(*last):
        return [numpy.array(last, dtype=numpy.int32), numpy.array(max(last) + 1, dtype=numpy.int32)]

    def made(what, inputs, attributes=None, outputs=3, weights=(6, 7, 8)):
        return case(f"GroupQueryAttention {what}", inputs, {**own, **(attributes or {})}, outputs, weights)

    none, rotary = [None, None], {"do_rotary": 1}
    full = lengths(LENGTH - 1, LENGTH - 1)
    yield made("first", [*new(LENGTH), *none, *full])
    yield made("first rotary", [*new(LENGTH), *none, *full, *tables], rotary)
    yield made("first neighbours", [*new(LENGTH), *none, *full, *tables], {**rotary, "rotary_interleaved": 1})
    yield made("first part", [*new(LENGTH), *none, *full, *rotary_tables(16, 8)], rotary)
    packed = floats(BATCH, LENGTH, HEADS * size + 2 * groups * size)
    yield made("first packed", [packed, *none, *none, *full, *tables], rotary)
    yield made("first window", [*new(LENGTH), *none, *full], {"local_window_size": 2})
    yield made("first cap", [*new(LENGTH), *none, *full], {"softcap": 0.5, "scale": 1.5})
    yield made("first sink", [*new(LENGTH), *none, *full], {"smooth_softmax": 1})
    yield made("first sinks", [*new(LENGTH), *none, *full, *none, None, None, floats(HEADS)])
    yield made("first bias", [*new(LENGTH), *none, *full, *none, None, floats(BATCH, 1, LENGTH, LENGTH)])
    yield made("first room", [*new(LENGTH), *buffers(9), *full, *tables], rotary)
    for batch in (1, BATCH):
        last = lengths(*[past] * batch)
        for weights in ((6, 7, 8), (5, 6, 7, 8)):
            for room in (past, 8):
                yield made(f"later {batch} {room} {len(weights)}",
                           [*new(1, batch), *buffers(room, batch), *last, *tables], rotary, weights=weights)
    yield made("later several", [*new(steps, 1), *buffers(past, 1), *lengths(past + steps - 1), *tables], rotary)
    ragged = lengths(past, 1)
    yield made("ragged", [*new(1), *buffers(past), *ragged, *tables], rotary)
    yield made("ragged room", [*new(1), *buffers(8), *ragged, *tables], {**rotary, "local_window_size": 2})
    yield made("ragged known", [*new(1), *buffers(8), *ragged, *tables], rotary, weights=(5, 6, 7, 8))
    positions = numpy.array([[7], [2]], dtype=numpy.int64)
    # Normalized heads, which ONNX Runtime has on GPUs only.
    inputs, scales = new(LENGTH), [floats(size), floats(size)]
    q, k, v = (x.astype(numpy.float64).reshape(BATCH, LENGTH, -1, size) for x in inputs)
    q, k = (x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale for x, scale in zip((q, k), scales))
    k, v = (x.repeat(HEADS // groups, axis=2) for x in (k, v))
    behind = numpy.triu(numpy.full((LENGTH, LENGTH), -numpy.inf), 1)
    yield made("first normalized", [*inputs, *none, *full, *[None] * 7, *scales], None, 1)._replace(
        expected=[attended(q, k, v, behind)])
    yield made("ragged positions", [*new(1), *buffers(past), *ragged, *tables, positions], rotary)


def pack(numbers, bits):
    """Numbers along the last dimension, of so many bits, as bytes, low bits first; what is missing is zero."""
    each = 8 // bits
    missing = -numbers.shape[-1] % each
    numbers = numpy.concatenate([numbers, numpy.zeros((*numbers.shape[:-1], missing), dtype=numbers.dtype)], axis=-1)
    apart = numbers.reshape(*numbers.shape[:-1], -1, each)
    return sum(apart[..., i] << (i * bits) for i in range(each)).astype(numpy.uint8)


def block_cases():
    """Weights of a few bits, of which the last block is not full, with zero points of every kind."""
    rows, columns = 6, 75
    for bits, size, zeros in ((4, 16, None), (4, 32, "packed"), (8, 16, "packed"), (8, 64, None), (4, 16, "reals"),
                              (2, 16, "packed")):
        blocks = -(-columns // size)
        numbers = GENERATOR.integers(0, 1 << bits, (rows, blocks, size))
        scales, x, bias = floats(rows, blocks), floats(2, 3, columns), floats(rows)
        middle, packed = numpy.full((rows, blocks), float(1 << bits - 1)), None
        if zeros == "packed":
            middle = GENERATOR.integers(0, 1 << bits, (rows, blocks))
            packed = pack(middle, bits)
        if zeros == "reals":
            middle = packed = floats(rows, blocks, low=0, high=15)
        weights = (numbers - middle[:, :, None]) * scales[:, :, None].astype(numpy.float64)
        weights = weights.reshape(rows, -1)[:, :columns]
        judged = case(f"MatMulNBits {bits} {size} {zeros}", [x, pack(numbers, bits), scales, packed, None, bias],
                      {"N": rows, "K": columns, "bits": bits, "block_size": size}, 1, (1, 2, 3))
        yield judged
        yield judged._replace(name=f"{judged.name}, by NumPy", expected=[(x @ weights.T + bias).astype(numpy.float32)])


if __name__ == "__main__":
    main(activation_cases, product_cases, normalization_cases, quantized_cases, fused_attention_cases, multi_head_cases, rotary_cases,
         group_query_cases, block_cases)
