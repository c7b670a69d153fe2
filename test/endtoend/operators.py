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
from cleave_process import DONE, parallel, report

# `expected` are outputs that NumPy computes; None: ONNX Runtime is asked.
Case = collections.namedtuple("Case", "name model inputs outputs expected", defaults=[None])
GENERATOR = numpy.random.default_rng(11)


def floats(*shape, low=-1.0, high=1.0):
    return GENERATOR.uniform(low, high, shape).astype(numpy.float32)


def make_case(name, kind, inputs, attributes, outputs, opset=20, weights=(), domain=""):
    """A model of one node. `inputs` are arrays, None where one is absent; those at positions in `weights` are
    initializers; `outputs` how many there are."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(inputs)]
    node = helper.make_node(kind, names, [f"y{i}" for i in range(outputs)], name="node", domain=domain, **attributes)
    given = [(n, a) for i, (n, a) in enumerate(zip(names, inputs)) if n and i not in weights]
    fixed = [onnx.numpy_helper.from_array(inputs[i], names[i]) for i in weights if i < len(names) and names[i]]
    graph = helper.make_graph(
        [node], name,
        [helper.make_tensor_value_info(n, onnx.mapping.NP_TYPE_TO_TENSOR_TYPE[a.dtype], a.shape) for n, a in given],
        [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return Case(name, model, [a for _, a in given], outputs)


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
    length = numpy.array(9, dtype=numpy.int64)
    yield make_case("DFT padded", "DFT", [floats(2, 7, 1), length], {"axis": 1}, 1, opset=17, weights=(1,))


def run(case):
    """(subject, result) of every run that did not agree; how many did."""
    failures, passed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        onnx.save(case.model, path)
        inputs = peer.write_inputs(case.inputs, folder)
        if case.expected is None:
            peer.run_peer(path, inputs, folder)
        for position, array in enumerate(case.expected or []):
            numpy.save(f"{folder}/{position}.npy", array)
        for what in peer.RUNS:
            result = peer.compare(path, inputs, folder, range(case.outputs), what, rtol="1e-4", atol="2e-6")
            passed += result.code == DONE
            if result.code != DONE:
                failures.append((f"{case.name} on {what}", result))
    return failures, passed


def main():
    cases = [case for make in (recurrent_cases, einsum_cases, attention_cases, other_cases) for case in make()
             if not sys.argv[1:] or any(fnmatch.fnmatch(case.name, pattern) for pattern in sys.argv[1:])]
    results = parallel(run, cases)
    report([failure for failures, _ in results for failure in failures], sum(passed for _, passed in results))


if __name__ == "__main__":
    main()
