# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Mixtures of experts as ONNX Runtime's exporters write them (MoE, QMoE), one a model: outputs must be those of a loop
# over tokens in NumPy, and, where its CPU provider has the variant, those of ONNX Runtime. With a capacity, tokens that
# come when an expert's places are taken must get nothing from it, and no others.
#
#   python3 test/endtoend/mixtures.py [PATTERN...]

import math

import numpy

from contributed_operators import case, pack
from operators import GENERATOR, floats, main

TOKENS, HIDDEN, WIDTH, EXPERTS = 7, 32, 48, 5
SWIGLU = {"activation_type": "swiglu", "swiglu_fusion": 1}


def weights(*shape):
    """Small enough for results of about one."""
    return floats(*shape, low=-0.25, high=0.25)


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + numpy.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def activate(attributes, inner, linear):
    """What stands between an expert's layers."""
    kind = attributes.get("activation_type", "relu")
    if kind == "swiglu":
        fusion = attributes.get("swiglu_fusion", 0)
        gate, linear = ((inner[0::2], inner[1::2]) if fusion == 1 else numpy.split(inner, 2) if fusion == 2
                        else (inner, linear))
        limit = attributes.get("swiglu_limit", math.inf)
        gate, linear = numpy.minimum(gate, limit), numpy.clip(linear, -limit, limit)
        return gate * sigmoid(attributes.get("activation_alpha", 1.0) * gate) * (
            linear + attributes.get("activation_beta", 0.0))
    value = {"relu": lambda x: numpy.maximum(x, 0), "gelu": gelu, "silu": lambda x: x * sigmoid(x),
             "identity": lambda x: x}[kind](inner)
    return value if linear is None else value * linear


def expected(x, scores, layers, attributes, among_chosen=False, places=math.inf):
    """The mixture by a loop over tokens. `layers` are pairs of weights and biases; the third may be absent. `places`:
    how many choices of a sample's tokens an expert takes."""
    flat = x.reshape(-1, x.shape[-1]).astype(numpy.float64)
    result = numpy.zeros_like(flat)

    def apply(layer, expert, row):
        matrices, bias = layer
        return matrices[expert] @ row + (0 if bias is None else bias[expert])

    samples = x.shape[0] if x.ndim == 3 else 1
    taken = numpy.zeros((samples, scores.shape[1]), dtype=int)
    for token, row in enumerate(flat):
        sample = token * samples // len(flat)
        shares = numpy.exp(scores[token].astype(numpy.float64) - scores[token].max())
        shares /= shares.sum()
        chosen = numpy.argsort(-scores[token], kind="stable")[:attributes.get("k", 1)]
        if among_chosen or attributes.get("normalize_routing_weights", 0):
            shares = shares / shares[chosen].sum()
        for expert in chosen:
            taken[sample, expert] += 1
            if taken[sample, expert] > places:
                continue
            linear = apply(layers[2], expert, row) if len(layers) > 2 else None
            inner = activate(attributes, apply(layers[0], expert, row), linear)
            result[token] += shares[expert] * apply(layers[1], expert, inner)
    return [result.reshape(x.shape).astype(numpy.float32)]


def real_cases():
    """Every function, one to all experts, biases or none, tokens in one dimension or two."""
    for what, attributes, third, bias, peer in (
            ("plain", {}, False, True, True), ("bare", {"k": 2}, False, False, True),
            ("gelu", {"k": 2, "activation_type": "gelu"}, False, True, True),
            ("silu normalized", {"k": 3, "activation_type": "silu", "normalize_routing_weights": 1}, False, True, True),
            ("all identity", {"k": EXPERTS, "activation_type": "identity"}, False, True, True),
            ("swiglu", {"k": 2, **SWIGLU, "activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 1.5},
             False, True, True),
            ("swiglu plain", {"k": 2, "normalize_routing_weights": 1, **SWIGLU}, False, False, True),
            ("swiglu halves", {"k": 2, **SWIGLU, "swiglu_fusion": 2}, False, True, False),
            ("swiglu apart", {"k": 2, "activation_type": "swiglu", "swiglu_limit": 0.5}, True, True, False),
            ("silu third", {"k": 2, "activation_type": "silu"}, True, True, False),
            ("relu third bare", {"k": 2}, True, False, False)):
        units = WIDTH * (2 if attributes.get("swiglu_fusion", 0) else 1)
        shapes = [(units, HIDDEN), (HIDDEN, WIDTH)] + ([(WIDTH, HIDDEN)] if third else [])
        layers = [(weights(EXPERTS, *shape), floats(EXPERTS, shape[0]) if bias else None) for shape in shapes]
        scores = floats(TOKENS * 2, EXPERTS, low=-3, high=3)
        for shape in ((TOKENS * 2, HIDDEN), (2, TOKENS, HIDDEN)):
            x = floats(*shape)
            inputs = [x, scores] + [array for layer in layers for array in layer]
            judged = case(f"MoE {what} {len(shape)}", inputs, attributes, 1, range(2, len(inputs)))
            if peer:
                yield judged
            yield judged._replace(name=f"{judged.name}, by NumPy", expected=expected(x, scores, layers, attributes))
    yield case("MoE sparse mixer", inputs, {"k": 2, "use_sparse_mixer": 1})._replace(
        refused="routing by \"use_sparse_mixer\" is not known")


def capacity_cases():
    """From one place to all; tokens in one dimension are one sample."""
    for top, capacity in ((1, 0.5), (2, 1.0), (3, 1.25), (2, 0.01), (2, EXPERTS)):
        layers = [(weights(EXPERTS, 2 * WIDTH, HIDDEN), floats(EXPERTS, 2 * WIDTH)),
                  (weights(EXPERTS, HIDDEN, WIDTH), floats(EXPERTS, HIDDEN))]
        scores = floats(TOKENS * 3, EXPERTS, low=-3, high=3)
        own = {"k": top, **SWIGLU}
        for shape in ((TOKENS * 3, HIDDEN), (3, TOKENS, HIDDEN)):
            x = floats(*shape)
            choices = top * (TOKENS if len(shape) == 3 else TOKENS * 3)
            places = min(max(math.ceil(capacity * choices / EXPERTS - 1e-9), 1), choices)
            inputs = [x, scores, *layers[0], *layers[1]]
            judged = case(f"MoE {top} of {EXPERTS}, capacity {capacity}, {len(shape)}", inputs, own, 1, range(2, 6))
            yield judged._replace(expected=expected(x, scores, layers, own, places=places),
                                  flags=("--expert-capacity", str(capacity)))


def quantize(units, columns, bits, block, zeros):
    """Packed weights, scales, packed zero points where there are any, and the reals that they mean."""
    blocks = -(-columns // block) if block else 1
    numbers = GENERATOR.integers(0, 1 << bits, (EXPERTS, units, columns))
    scales = floats(EXPERTS, units, blocks, low=0.05 / (1 << bits), high=0.5 / (1 << bits))
    middle, packed = numpy.full(scales.shape, 1 << bits - 1), None
    if zeros:
        middle = GENERATOR.integers(0, 1 << bits, scales.shape)
        packed = pack(middle, bits) if block else pack(middle[:, :, 0], bits)
    index = numpy.arange(columns) // block if block else numpy.zeros(columns, dtype=int)
    reals = (numbers - middle[:, :, index]) * scales[:, :, index].astype(numpy.float64)
    return pack(numbers, bits), scales if block else scales[:, :, 0], packed, reals


def quantized_cases():
    """Weights of 4 and 8 bits with a scale a row or a block, with zero points or without."""
    for bits, block, zeros, attributes in (
            (4, 0, False, {"activation_type": "silu"}), (8, 0, False, {"activation_type": "identity"}),
            (4, 16, False, SWIGLU), (8, 16, False, {"activation_type": "relu", "normalize_routing_weights": 1}),
            (4, 16, True, {"activation_type": "relu"}), (8, 0, True, {"activation_type": "silu"}),
            (4, 0, True, {"activation_type": "relu"})):
        units = WIDTH * (2 if attributes.get("swiglu_fusion", 0) else 1)
        own = {"k": 2, "expert_weight_bits": bits, **({"block_size": block} if block else {}), **attributes}
        first, second = quantize(units, HIDDEN, bits, block, zeros), quantize(HIDDEN, WIDTH, bits, block, zeros)
        biases = [floats(EXPERTS, units), floats(EXPERTS, HIDDEN)]
        x, scores = floats(TOKENS, HIDDEN), floats(TOKENS, EXPERTS, low=-3, high=3)
        inputs = [x, scores, first[0], first[1], biases[0], second[0], second[1], biases[1], None, None, None,
                  first[2], second[2]]
        judged = case(f"QMoE {bits} {block} {'zeros' if zeros else 'middle'}", inputs, own, 1,
                      range(2, len(inputs)))
        yield judged
        yield judged._replace(
            name=f"{judged.name}, by NumPy",
            expected=expected(x, scores, [(first[3], biases[0]), (second[3], biases[1])], own, among_chosen=True))


if __name__ == "__main__":
    main(real_cases, capacity_cases, quantized_cases)
