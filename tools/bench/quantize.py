#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Quantizes an ONNX model to 8 bits in the forms that the common tools write, so that their speed and results can be
# compared:
#
#   python3 tools/bench/quantize.py model.onnx quantized.onnx --form qdq
#
#   qdq       static: QuantizeLinear and DequantizeLinear around convolutions, products, pools and additions. Weights are
#             int8 with a scale a result channel, biases int32 with the scale of the product.
#   operators static: QLinearConv and QLinearMatMul; everything else in float32
#   dynamic   MatMulInteger of what DynamicQuantizeLinear gives, with int8 weights; convolutions in float32
#
# Ranges of activations are those of random inputs, which PyTorch's functions run through the model (see
# onnx_in_torch.py). Batch normalization behind a convolution is folded first. Inputs that are integers are drawn below
# --integers, truth values are true. --weight-bits 7 is what the tools call a reduced range: sums of products of two
# numbers fit in 16 bits then, which processors without VNNI add them in. For speed and for agreement between implementations, not for accuracy: calibrate on data for that.

import argparse

import numpy
import onnx
import torch
from onnx import helper, numpy_helper
from onnx.numpy_helper import from_array

import onnx_in_torch

QUANTIZED = {"Conv", "MatMul", "Gemm"}
# Their results have the scale of their input; they stand between quantized tensors without a conversion of their own.
SAME_SCALE = {"MaxPool", "Reshape", "Flatten", "Transpose", "Relu"}
ALSO = {"Add", "GlobalAveragePool", "AveragePool"}


def attributes_of(node):
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


class Quantizer:
    def __init__(self, model, options):
        self.model, self.options = model, options
        self.graph = model.graph
        self.weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in self.graph.initializer}
        self.nodes, self.done = [], {}
        # The range of each activation, and of which another one has the scale.
        self.ranges, self.sources = {}, {}

    def gather_weights(self):
        """Makes weights of constants, and of what is a weight under another name."""
        kept = []
        for node in self.graph.node:
            if node.op_type == "Constant" and "value" in attributes_of(node):
                self.weights[node.output[0]] = numpy_helper.to_array(attributes_of(node)["value"])
            elif node.op_type == "Identity" and node.input[0] in self.weights:
                self.weights[node.output[0]] = self.weights[node.input[0]]
            else:
                kept.append(node)
        del self.graph.node[:]
        self.graph.node.extend(kept)

    def fold_batch_normalization(self):
        readers = {}
        for node in self.graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        outputs, gone = {port.name for port in self.graph.output}, set()
        for node in self.graph.node:
            if node.op_type != "Conv" or node.output[0] in outputs:
                continue
            behind = readers[node.output[0]]
            if len(behind) != 1 or behind[0].op_type != "BatchNormalization":
                continue
            scale, shift, mean, variance = (self.weights[name].astype(numpy.float64) for name in behind[0].input[1:5])
            factor = scale / numpy.sqrt(variance + attributes_of(behind[0]).get("epsilon", 1e-5))
            weight = self.weights[node.input[1]]
            bias = self.weights[node.input[2]] if len(node.input) > 2 else 0
            folded = weight * factor.reshape([-1] + [1] * (weight.ndim - 1))
            name = node.output[0] + "_folded"
            self.weights[name] = folded.astype(numpy.float32)
            self.weights[name + "_bias"] = ((bias - mean) * factor + shift).astype(numpy.float32)
            node.input[:] = [node.input[0], name, name + "_bias"]
            node.output[0] = behind[0].output[0]
            gone.add(id(behind[0]))
        kept = [node for node in self.graph.node if id(node) not in gone]
        del self.graph.node[:]
        self.graph.node.extend(kept)
        self.write_weights()

    def write_weights(self):
        used = {name for node in self.graph.node for name in node.input}
        del self.graph.initializer[:]
        self.graph.initializer.extend(from_array(value, name) for name, value in self.weights.items() if name in used)
        kept = [port for port in self.graph.input if port.name not in self.weights]
        del self.graph.input[:]
        self.graph.input.extend(kept)

    def calibrate(self, path):
        """The range of every activation over random inputs, zero included."""
        model = onnx_in_torch.TorchModel(path, precision=torch.float32, learns=False)
        values = dict(model.known)
        generator = numpy.random.default_rng(1)
        for port in model.inputs:
            shape = [max(dim.dim_value, 1) for dim in port.type.tensor_type.shape.dim]
            if port.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
                values[port.name] = torch.from_numpy(generator.standard_normal(shape).astype(numpy.float32))
            elif port.type.tensor_type.elem_type == onnx.TensorProto.BOOL:
                values[port.name] = torch.ones(shape, dtype=torch.bool)
            else:
                values[port.name] = torch.from_numpy(generator.integers(0, self.options.integers, shape))
        for node in model.nodes:
            results = model.compute(node, [values[name] if name else None for name in node.input])
            for name, result in zip(node.output, results if isinstance(results, tuple) else (results,)):
                values[name] = result
        for name, value in values.items():
            if value.is_floating_point() and name not in self.weights and value.numel():
                self.ranges[name] = (min(value.min().item(), 0.0), max(value.max().item(), 0.0))

    def constant(self, name, array):
        if name not in self.weights:
            self.weights[name] = numpy.asarray(array)
        return name

    def parameters(self, tensor):
        """Names of the scale and zero point of an activation."""
        tensor = self.sources.get(tensor, tensor)
        low, high = self.ranges[tensor]
        if self.options.activations == "int8":
            scale, zero, kind = max(-low, high) / 127 or 1.0, 0, numpy.int8
        else:
            scale, kind = (high - low) / 255 or 1.0, numpy.uint8
            zero = int(round(-low / scale))
        return (self.constant(tensor + "_scale", numpy.float32(scale)), self.constant(tensor + "_zero", kind(zero)))

    def add(self, operator, inputs, output, **attributes):
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def quantized(self, tensor):
        """An activation as integers."""
        if tensor + "_q" not in self.done:
            self.done[tensor + "_q"] = self.add("QuantizeLinear", [tensor, *self.parameters(tensor)], tensor + "_q")
        return tensor + "_q"

    def through(self, tensor):
        """An activation that has been integers, as reals."""
        if tensor + "_dq" not in self.done:
            self.done[tensor + "_dq"] = self.add("DequantizeLinear",
                                                 [self.quantized(tensor), *self.parameters(tensor)], tensor + "_dq")
        return tensor + "_dq"

    def weight(self, name, axis):
        """A weight as int8 with a scale for each index of `axis`: names of integers, scale, zero point."""
        value = self.weights[name]
        if axis is None:
            largest = numpy.abs(value).max()
        else:
            largest = numpy.abs(value).max(axis=tuple(dim for dim in range(value.ndim) if dim != axis))
        most = 2 ** (self.options.weight_bits - 1) - 1
        scale = numpy.where(largest == 0, 1, largest / most).astype(numpy.float32)
        shape = [1] * value.ndim
        if axis is not None:
            shape[axis] = -1
        self.constant(name + "_q", numpy.clip(numpy.rint(value / scale.reshape(shape)), -most, most).astype(numpy.int8))
        self.constant(name + "_scale", scale)
        self.constant(name + "_zero", numpy.zeros_like(scale, dtype=numpy.int8))
        return name + "_q", name + "_scale", name + "_zero"

    def bias(self, name, activation, weight):
        """A bias as int32 in units of the product of the scales: names of integers and of the scale."""
        scale = self.weights[self.parameters(activation)[0]] * self.weights[weight + "_scale"]
        self.constant(name + "_q", numpy.rint(self.weights[name] / scale).astype(numpy.int32))
        self.constant(name + "_scale", scale.astype(numpy.float32))
        return name + "_q", name + "_scale"

    def weight_axis(self, node):
        value = self.weights[node.input[1]]
        if not self.options.per_channel:
            return None
        if node.op_type == "Conv" or attributes_of(node).get("transB", 0):
            return 0
        return value.ndim - 1

    def qdq(self, node):
        if node.op_type not in QUANTIZED | SAME_SCALE | ALSO:
            return self.nodes.append(node)
        inputs = list(node.input)
        for index, name in enumerate(inputs):
            if name in self.ranges:
                inputs[index] = self.through(name)
        if node.op_type in QUANTIZED and node.input[1] in self.weights:
            axis = self.weight_axis(node)
            integers, scale, zero = self.weight(node.input[1], axis)
            inputs[1] = self.add("DequantizeLinear", [integers, scale, zero], node.output[0] + "_weight",
                                 **({} if axis is None else {"axis": axis}))
            if len(inputs) > 2:
                integers, scale = self.bias(node.input[2], node.input[0], node.input[1])
                inputs[2] = self.add("DequantizeLinear", [integers, scale], node.output[0] + "_bias",
                                     **({} if axis is None else {"axis": 0}))
        if node.op_type in SAME_SCALE - {"Relu"}:
            self.sources[node.output[0]] = self.sources.get(node.input[0], node.input[0])
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = inputs
        self.nodes.append(copy)

    def operators(self, node):
        weighted = node.op_type in ("Conv", "MatMul") and node.input[1] in self.weights and node.input[0] in self.ranges
        if not weighted:
            return self.nodes.append(node)
        source = [self.quantized(node.input[0]), *self.parameters(node.input[0])]
        weight = list(self.weight(node.input[1], self.weight_axis(node)))
        result = node.output[0]
        if node.op_type == "Conv":
            bias = [self.bias(node.input[2], node.input[0], node.input[1])[0]] if len(node.input) > 2 else []
            self.nodes.append(helper.make_node("QLinearConv", source + weight + [*self.parameters(result)] + bias,
                                               [result + "_q"], name=result + "_q", **attributes_of(node)))
        else:
            self.nodes.append(helper.make_node("QLinearMatMul", source + weight + [*self.parameters(result)],
                                               [result + "_q"], name=result + "_q"))
        self.done[result + "_q"] = result + "_q"
        self.add("DequantizeLinear", [result + "_q", *self.parameters(result)], result)

    def dynamic(self, node):
        if node.op_type != "MatMul" or node.input[1] not in self.weights:
            return self.nodes.append(node)
        name, result = node.input[0], node.output[0]
        if name not in self.done:
            self.done[name] = name
            self.nodes.append(helper.make_node("DynamicQuantizeLinear", [name],
                                               [name + "_q", name + "_scale", name + "_zero"], name=name + "_q"))
        integers, scale, zero = self.weight(node.input[1], self.weight_axis(node))
        self.add("MatMulInteger", [name + "_q", integers, name + "_zero", zero], result + "_sum")
        self.add("Cast", [result + "_sum"], result + "_real", to=onnx.TensorProto.FLOAT)
        self.add("Mul", [name + "_scale", scale], result + "_factor")
        self.add("Mul", [result + "_real", result + "_factor"], result)

    def remove_rectifiers(self):
        """Where integers begin at zero, saturation does what a rectifier does, with a limit or without: the tools leave
        it out."""
        readers = {}
        for node in self.graph.node:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        by_output = {node.output[0]: node for node in self.graph.node}
        gone = set()
        for node in self.graph.node:
            before = by_output.get(node.input[0]) if node.input else None
            if node.op_type in ("Relu", "Clip") and before is not None and before.op_type in QUANTIZED | {"Add"} and \
                    len(readers[before.output[0]]) == 1 and self.options.activations == "uint8":
                before.output[0] = node.output[0]
                gone.add(id(node))
        kept = [node for node in self.graph.node if id(node) not in gone]
        del self.graph.node[:]
        self.graph.node.extend(kept)

    def run(self, source, target):
        self.gather_weights()
        self.fold_batch_normalization()
        onnx.save(self.model, target)
        self.calibrate(target)
        if self.options.form == "qdq":
            self.remove_rectifiers()
        convert = {"qdq": self.qdq, "operators": self.operators, "dynamic": self.dynamic}[self.options.form]
        outputs = {port.name for port in self.graph.output}
        for node in self.graph.node:
            convert(node)
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)
        self.write_weights()
        del self.graph.value_info[:]
        assert outputs <= {name for node in self.graph.node for name in node.output}
        self.model.ir_version = min(self.model.ir_version, onnx.IR_VERSION)
        onnx.save(self.model, target)


def quantize(source, target, form="qdq", activations="uint8", per_channel=1, weight_bits=8, integers=2):
    """Writes the model `source`, quantized, as `target`; options as on the command line."""
    model = onnx.load(source)
    if max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")) < 13:
        model = onnx.version_converter.convert_version(model, 13)
    options = argparse.Namespace(form=form, activations=activations, per_channel=per_channel, weight_bits=weight_bits,
                                 integers=integers)
    Quantizer(model, options).run(source, target)


def main():
    parser = argparse.ArgumentParser(description="quantizes an ONNX model to 8 bits")
    parser.add_argument("model")
    parser.add_argument("output")
    parser.add_argument("--form", choices=("qdq", "operators", "dynamic"), default="qdq")
    parser.add_argument("--activations", choices=("uint8", "int8"), default="uint8")
    parser.add_argument("--per-channel", type=int, choices=(0, 1), default=1)
    parser.add_argument("--weight-bits", type=int, choices=(7, 8), default=8)
    parser.add_argument("--integers", type=int, default=2, help="inputs that are integers are below it")
    options = parser.parse_args()
    quantize(options.model, options.output, options.form, options.activations, options.per_channel, options.weight_bits,
             options.integers)


if __name__ == "__main__":
    main()
