# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Quantized models in the forms that tools write: on one device and divided over several, what they compute must be ONNX
# Runtime's but for steps of a number that roundings decide, far less than what quantizing itself has changed. Weights
# have seven bits: with eight, ONNX Runtime's own sums saturate on processors without VNNI.
#
#   python3 test/endtoend/quantized.py

import os
import tempfile

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import peer
from cleave_process import DONE, Checks, cleave, skip

try:
    import quantize
except ImportError as missing:
    skip(str(missing))

# How far from ONNX Runtime, in parts of how far that is from the model before it was quantized.
SHARE = 0.25

DIVIDED = {"one device": ["--machine", "host:1x1", "--strategy", "single"],
           "data": ["--machine", "host:2x1", "--strategy", "data"],
           "tensor": ["--machine", "host:2x1", "--strategy", "tensor", "--degrees", "model=2"],
           "alternate": ["--machine", "host:2x1", "--strategy", "alternate"]}


class Writer:
    def __init__(self, shape):
        self.random, self.nodes, self.weights, self.shape = numpy.random.default_rng(7), [], {}, shape

    def op(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, *shape, spread=None):
        name = f"weight{len(self.weights)}"
        spread = spread or 1 / numpy.sqrt(numpy.prod(shape[1:]))
        self.weights[name] = (self.random.standard_normal(shape) * spread).astype(numpy.float32)
        return name

    def convolution(self, x, filters, channels, window, groups=1, stride=1):
        pad = window // 2
        return self.op("Conv", x, self.weight(filters, channels // groups, window, window),
                       self.weight(filters, spread=0.1), group=groups, pads=[pad] * 4, strides=[stride] * 2)

    def save(self, path, output, shape):
        graph = helper.make_graph(self.nodes, "quantized",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
                                  [numpy_helper.from_array(value, name) for name, value in self.weights.items()])
        onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)]), path)


def write_image(path):
    """Windows with padding beside zero points that are not zero, depthwise, grouped and plain convolutions, a sum of two
    branches, pools, a dense layer; sizes that fill no vector."""
    w = Writer([2, 3, 17, 15])
    x = w.op("Relu", w.convolution("x", 18, 3, 3, stride=2))
    x = w.op("Relu", w.convolution(x, 18, 18, 3, groups=18))
    x = w.convolution(x, 20, 18, 1)  # Negative numbers, which the next windows surround with padding.
    x = w.op("Add", x, w.convolution(x, 20, 20, 3))
    x = w.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = w.op("Clip", w.convolution(x, 28, 20, 3, groups=4), "low", "high")
    w.weights["low"], w.weights["high"] = numpy.float32(0), numpy.float32(1)
    x = w.op("Flatten", w.op("GlobalAveragePool", x))
    w.save(path, w.op("Gemm", x, w.weight(11, 28), w.weight(11, spread=0.1), transB=1), [2, 11])


def write_encoder(path):
    made = cleave("zoo", "bert", "--batch", "2", "--layers", "1", "--hidden", "48", "--heads", "4", "--sequence", "13",
                  "--vocabulary", "97", "--weights", "-o", path)
    assert made.code == DONE, made.errors


FORMS = [("image", "qdq", {}), ("image", "qdq", {"activations": "int8"}), ("image", "qdq", {"per_channel": 0}),
         ("image", "operators", {}), ("image", "operators", {"activations": "int8"}), ("encoder", "qdq", {}),
         ("encoder", "operators", {}), ("encoder", "dynamic", {}), ("encoder", "dynamic", {"per_channel": 0})]


def inputs_of(model):
    random = numpy.random.default_rng(11)
    arrays = []
    for port in model.graph.input:
        shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
        kind = port.type.tensor_type.elem_type
        arrays.append(random.standard_normal(shape).astype(numpy.float32) if kind == TensorProto.FLOAT
                      else numpy.ones(shape, bool) if kind == TensorProto.BOOL
                      else random.integers(0, 2, shape).astype(helper.tensor_dtype_to_np_dtype(kind)
                                                               if hasattr(helper, "tensor_dtype_to_np_dtype")
                                                               else onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[kind]))
    return arrays


def root_mean_square(array):
    return float(numpy.sqrt(numpy.mean(numpy.square(array.astype(numpy.float64)))))


def check(checks, folder, reals, subject, form, options):
    model = os.path.join(folder, f"{subject}-{form}-{len(os.listdir(folder))}.onnx")
    quantize.quantize(os.path.join(folder, f"{subject}.onnx"), model, form, weight_bits=7, **options)
    graph = onnx.load(model).graph
    arrays = inputs_of(onnx.load(model))
    inputs = peer.write_inputs(arrays, folder)
    peers = os.path.join(folder, "peer")
    peer.run_peer(model, inputs, peers)
    wanted = numpy.load(os.path.join(peers, "0.npy"))
    if subject not in reals:
        peer.run_peer(os.path.join(folder, f"{subject}.onnx"), inputs, peers)
        reals[subject] = numpy.load(os.path.join(peers, "0.npy"))
    quantized = root_mean_square(wanted - reals[subject])
    flags = [flag for position, path in enumerate(inputs) for flag in ("--input", f"@{position}={path}")]
    for way, machine in DIVIDED.items():
        result = cleave("run", model, *machine, *flags, "--output", f"@0={folder}/ours.npy")
        text = f"{subject} {form} {options or ''} {way}"
        if result.code != DONE:
            checks.add(False, text, result)
            continue
        apart = root_mean_square(numpy.load(f"{folder}/ours.npy") - wanted)
        checks.add(apart <= SHARE * quantized, f"{text}: {apart:.2g} from ONNX Runtime, which is {quantized:.2g} from "
                   f"\"{graph.output[0].name}\" before", result)


def main():
    checks, reals = Checks(), {}
    with tempfile.TemporaryDirectory() as folder:
        write_image(os.path.join(folder, "image.onnx"))
        write_encoder(os.path.join(folder, "encoder.onnx"))
        for subject, form, options in FORMS:
            check(checks, folder, reals, subject, form, options)
    checks.report()


if __name__ == "__main__":
    main()
