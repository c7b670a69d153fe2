# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs ONNX models with PyTorch's functions, as a peer of benchmarks, and so that its autograd differentiates them: the
# floating-point initializers are leaves. The operators are those of the zoo's models and their like; another one is a function in OPERATORS.

import math

import onnx
import torch
from onnx import helper, numpy_helper
from torch.nn import functional

# Element types of casts; floating-point ones become the precision that the model runs in.
INTEGERS = {onnx.TensorProto.INT64: torch.int64, onnx.TensorProto.INT32: torch.int32, onnx.TensorProto.BOOL: torch.bool}


def integers(tensor):
    """The values of an integer tensor as a list."""
    return [int(value) for value in tensor.reshape(-1)]


def padded(x, attributes, rank, value):
    """`x` with the padding of a window written out, as PyTorch's own is the same on both sides: (padded, rest)."""
    if attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        raise NotImplementedError("automatic padding")
    pads = attributes.get("pads", [0] * (2 * rank))
    sides = [side for dim in reversed(range(rank)) for side in (pads[dim], pads[rank + dim])]
    return functional.pad(x, sides, value=value) if any(sides) else x


def convolution(attributes, x, weight, bias=None):
    rank = x.dim() - 2
    function = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[rank]
    return function(padded(x, attributes, rank, 0.0), weight, bias, attributes.get("strides", [1] * rank), 0,
                    attributes.get("dilations", [1] * rank), attributes.get("group", 1))


def transposed_convolution(attributes, x, weight, bias=None):
    rank = x.dim() - 2
    pads = attributes.get("pads", [0] * (2 * rank))
    if pads[:rank] != pads[rank:]:
        raise NotImplementedError("a transposed convolution whose paddings differ")
    function = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}[rank]
    return function(x, weight, bias, attributes.get("strides", [1] * rank), pads[:rank],
                    attributes.get("output_padding", [0] * rank), attributes.get("group", 1),
                    attributes.get("dilations", [1] * rank))


def largest_of_window(attributes, x):
    rank = x.dim() - 2
    function = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}[rank]
    return function(padded(x, attributes, rank, -math.inf), attributes["kernel_shape"],
                    attributes.get("strides", [1] * rank), 0, attributes.get("dilations", [1] * rank),
                    bool(attributes.get("ceil_mode", 0)))


def average_of_window(attributes, x):
    rank = x.dim() - 2
    pads, size = attributes.get("pads", [0] * (2 * rank)), attributes["kernel_shape"]
    function = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}[rank]
    strides, ceil = attributes.get("strides", [1] * rank), bool(attributes.get("ceil_mode", 0))
    counts_padding = bool(attributes.get("count_include_pad", 0))
    if pads[:rank] == pads[rank:]:
        return function(x, size, strides, pads[:rank], ceil, counts_padding)
    if ceil:
        raise NotImplementedError("an average pool whose paddings differ, with ceil_mode")
    sums = function(padded(x, attributes, rank, 0.0), size, strides)
    return sums if counts_padding else sums / function(padded(torch.ones_like(x), attributes, rank, 0.0), size, strides)


def batch_normalization(attributes, x, scale, shift, mean, variance):
    return functional.batch_norm(x, mean.detach(), variance.detach(), scale, shift, training=False,
                                 eps=attributes.get("epsilon", 1e-5))


def layer_normalization(attributes, x, scale, shift=None):
    axis = attributes.get("axis", -1)
    return functional.layer_norm(x, x.shape[axis % x.dim():], scale, shift, attributes.get("epsilon", 1e-5))


def local_response(attributes, x):
    return functional.local_response_norm(x, attributes["size"], attributes.get("alpha", 1e-4),
                                          attributes.get("beta", 0.75), attributes.get("bias", 1.0))


def general_product(attributes, a, b, c=None):
    a = a.t() if attributes.get("transA", 0) else a
    b = b.t() if attributes.get("transB", 0) else b
    result = attributes.get("alpha", 1.0) * (a @ b)
    return result if c is None else result + attributes.get("beta", 1.0) * c


def gather(attributes, x, indices):
    axis = attributes.get("axis", 0) % x.dim()
    indices = torch.where(indices < 0, indices + x.shape[axis], indices)
    taken = torch.index_select(x, axis, indices.reshape(-1))
    return taken.reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1:])


def reshape(attributes, x, shape):
    sizes = [x.shape[dim] if size == 0 and not attributes.get("allowzero", 0) else size
             for dim, size in enumerate(integers(shape))]
    return x.reshape(sizes)


def squeeze(attributes, x, axes=None):
    for axis in sorted((axis % x.dim() for axis in integers(axes)), reverse=True) if axes is not None else []:
        x = x.squeeze(axis)
    return x.squeeze() if axes is None else x


def unsqueeze(attributes, x, axes):
    rank = x.dim() + axes.numel()
    for axis in sorted(axis % rank for axis in integers(axes)):
        x = x.unsqueeze(axis)
    return x


def reduction(function):
    def reduce(attributes, x, axes=None):
        dims = integers(axes) if axes is not None else attributes.get("axes", list(range(x.dim())))
        return function(x, dim=dims, keepdim=bool(attributes.get("keepdims", 1)))
    return reduce


def largest_index(attributes, x):
    return torch.argmax(x, attributes.get("axis", 0), bool(attributes.get("keepdims", 1)))


def lstm(attributes, x, weight, recurrence, bias=None, lengths=None, hidden=None, cell=None, peepholes=None):
    """One direction after the other; the gates stand in ONNX's order: input, output, forget, cell."""
    if lengths is not None or peepholes is not None or attributes.get("layout", 0) or "activations" in attributes:
        raise NotImplementedError("an LSTM with lengths, peepholes, another layout or other activations")
    steps, batch, units = x.shape[0], x.shape[1], attributes["hidden_size"]
    reverse = {b"forward": [False], b"reverse": [True], b"bidirectional": [False, True]}
    outputs, last_hidden, last_cell = [], [], []
    for index, backward in enumerate(reverse[attributes.get("direction", b"forward")]):
        h = hidden[index] if hidden is not None else x.new_zeros(batch, units)
        c = cell[index] if cell is not None else x.new_zeros(batch, units)
        offset = bias[index][:4 * units] + bias[index][4 * units:] if bias is not None else 0
        made = [None] * steps
        for step in reversed(range(steps)) if backward else range(steps):
            gates = x[step] @ weight[index].t() + h @ recurrence[index].t() + offset
            i, o, f, candidate = gates.split(units, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(candidate)
            h = torch.sigmoid(o) * torch.tanh(c)
            made[step] = h
        outputs.append(torch.stack(made))
        last_hidden.append(h)
        last_cell.append(c)
    return torch.stack(outputs, dim=1), torch.stack(last_hidden), torch.stack(last_cell)


def dropout(attributes, x, ratio=None, training=None):
    if training is not None and bool(training):
        raise NotImplementedError("dropout in training mode")
    return x


def slices(attributes, x, starts, ends, axes=None, steps=None):
    starts, ends = integers(starts), integers(ends)
    axes = list(range(len(starts))) if axes is None else integers(axes)
    if steps is not None and any(step < 1 for step in integers(steps)):
        raise NotImplementedError("Slice that goes backwards")
    for position, (start, end, axis) in enumerate(zip(starts, ends, axes)):
        place = [slice(None)] * x.dim()
        place[axis] = slice(start, end, None if steps is None else integers(steps)[position])
        x = x[tuple(place)]
    return x


def split(attributes, x, sizes=None):
    axis = attributes.get("axis", 0)
    count = attributes.get("num_outputs", 2)
    return tuple(torch.split(x, integers(sizes) if sizes is not None else -(-x.shape[axis] // count), axis))


def mixture(attributes, x, scores, first, first_bias, second, second_bias=None):
    """The mixture of experts of com.microsoft, as far as the zoo writes it: gates and what they multiply take turns in
    the first layer. A product for each token and expert that it chooses."""
    if attributes.get("activation_type") != b"swiglu" or attributes.get("swiglu_fusion") != 1 or first_bias is not None:
        raise NotImplementedError("a mixture of experts of another kind")
    shares = torch.softmax(scores, -1)
    shares, chosen = shares.topk(attributes.get("k", 1), dim=-1)
    if attributes.get("normalize_routing_weights", 0):
        shares = shares / shares.sum(-1, keepdim=True)
    tokens = x.reshape(-1, x.shape[-1])
    inner = torch.einsum("th,tkuh->tku", tokens, first[chosen])
    gate, other = inner[..., 0::2], inner[..., 1::2]
    results = torch.einsum("tku,tkhu->tkh", gate * torch.sigmoid(gate) * other, second[chosen])
    if second_bias is not None:
        results = results + second_bias[chosen]
    return (results * shares.unsqueeze(-1)).sum(1).reshape(x.shape)


def flat_softmax(function):
    """Before opset 13: over all dimensions from the axis on together."""
    def apply(attributes, x):
        axis = attributes.get("axis", 1) % x.dim()
        return function(x.flatten(axis), axis).reshape(x.shape) if axis < x.dim() else x
    return apply


# From an ONNX operator to a function of its attributes and inputs; None for an input that is left out.
OPERATORS = {
    "Add": lambda attributes, a, b: a + b,
    "ArgMax": largest_index,
    "AveragePool": average_of_window,
    "BatchNormalization": batch_normalization,
    "Clip": lambda attributes, x, low=None, high=None: x if low is None and high is None else torch.clamp(x, low, high),
    "Concat": lambda attributes, *parts: torch.cat(parts, attributes["axis"]),
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "Cos": lambda attributes, x: torch.cos(x),
    "Div": lambda attributes, a, b: a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc"),
    "Dropout": dropout,
    "Equal": lambda attributes, a, b: a == b,
    "Erf": lambda attributes, x: torch.erf(x),
    "Exp": lambda attributes, x: torch.exp(x),
    "Expand": lambda attributes, x, shape: x.expand(torch.broadcast_shapes(x.shape, integers(shape))),
    "Flatten": lambda attributes, x: x.reshape(math.prod(x.shape[:attributes.get("axis", 1)]), -1),
    "Gather": gather,
    "Gelu": lambda attributes, x: functional.gelu(x, approximate=attributes.get("approximate", b"none").decode()),
    "Gemm": general_product,
    "GlobalAveragePool": lambda attributes, x: x.mean(dim=tuple(range(2, x.dim())), keepdim=True),
    "Identity": lambda attributes, x: x,
    "LRN": local_response,
    "LSTM": lstm,
    "LayerNormalization": layer_normalization,
    "LessOrEqual": lambda attributes, a, b: a <= b,
    "LeakyRelu": lambda attributes, x: functional.leaky_relu(x, attributes.get("alpha", 0.01)),
    "LogSoftmax": lambda attributes, x: torch.log_softmax(x, attributes.get("axis", -1)),
    "MatMul": lambda attributes, a, b: a @ b,
    "MaxPool": largest_of_window,
    "MoE": mixture,
    "Mul": lambda attributes, a, b: a * b,
    "Neg": lambda attributes, x: -x,
    "Pow": lambda attributes, a, b: torch.pow(a, b),
    "Range": lambda attributes, start, limit, delta: torch.arange(start.item(), limit.item(), delta.item()),
    "ReduceMean": reduction(torch.mean),
    "ReduceSum": reduction(torch.sum),
    "Relu": lambda attributes, x: torch.relu(x),
    "Reshape": reshape,
    "Sigmoid": lambda attributes, x: torch.sigmoid(x),
    "Sin": lambda attributes, x: torch.sin(x),
    "Slice": slices,
    "Softmax": lambda attributes, x: torch.softmax(x, attributes.get("axis", -1)),
    "Split": split,
    "Sqrt": lambda attributes, x: torch.sqrt(x),
    "Squeeze": squeeze,
    "Sub": lambda attributes, a, b: a - b,
    "Sum": lambda attributes, *parts: sum(parts[1:], parts[0]),
    "Tanh": lambda attributes, x: torch.tanh(x),
    "Tile": lambda attributes, x, repeats: x.repeat(integers(repeats)),
    "Transpose": lambda attributes, x: x.permute(attributes.get("perm", list(reversed(range(x.dim()))))),
    "Unsqueeze": unsqueeze,
    "Where": lambda attributes, condition, a, b: torch.where(condition, a, b),
}

# Those that meant something else before opset 13.
OLD_OPERATORS = {"LogSoftmax": flat_softmax(torch.log_softmax), "Softmax": flat_softmax(torch.softmax)}


def rectifier_margin(attributes, x):
    """By how much the input of a rectifier that is nearest to 0 misses it."""
    return x.abs().min().item()


def window_margin(attributes, x):
    """By how much a window's largest element exceeds the next one, where that is least. Windows of equal zeros do not
    count: behind a rectifier, what they send back is stopped there."""
    rank = x.dim() - 2
    if rank != 2 or any(dilation != 1 for dilation in attributes.get("dilations", [])):
        raise NotImplementedError("the margin of windows other than of two dimensions")
    size, strides = attributes["kernel_shape"], attributes.get("strides", [1] * rank)
    x = padded(x, attributes, rank, -math.inf)
    if attributes.get("ceil_mode", 0):
        over = [(size[dim] - x.shape[dim + 2]) % strides[dim] for dim in range(rank)]
        x = functional.pad(x, [0, over[1], 0, over[0]], value=-math.inf)
    windows = x.unfold(2, size[0], strides[0]).unfold(3, size[1], strides[1]).flatten(4)
    largest = windows.topk(2, dim=4).values
    apart = largest[..., 0] - largest[..., 1]
    return apart[(apart > 0) | (largest[..., 0] != 0)].min().item()


def choice_margin(attributes, scores):
    """By how much the last expert that is chosen exceeds the first that is not, where that is least."""
    best = scores.topk(min(attributes.get("k", 1) + 1, scores.shape[-1]), dim=-1).values
    return (best[..., -2] - best[..., -1]).min().item()


# Operators whose gradient jumps where inputs change little: by how much the inputs are away from the nearest jump, and
# which input that is.
MARGINS = {"Relu": (rectifier_margin, 0), "MaxPool": (window_margin, 0), "MoE": (choice_margin, 1)}


class TorchModel:
    """An ONNX file (opset 10 to 20) whose initializers of floating-point type are `parameters`, leaves by name unless
    it is not to learn, in the given precision."""

    def __init__(self, path, precision=torch.float64, learns=True):
        model = onnx.load(path)
        self.graph = model.graph
        opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
        self.operators = {**OPERATORS, **(OLD_OPERATORS if opset < 13 else {})}
        self.precision = precision
        self.known, self.parameters, self.visit = {}, {}, None
        for initializer in model.graph.initializer:
            value = self.tensor(numpy_helper.to_array(initializer))
            self.known[initializer.name] = value
            if value.is_floating_point():
                self.parameters[initializer.name] = value.requires_grad_(True) if learns else value
        # Parameters that a model draws instead of having them are drawn once.
        drawn = [node for node in self.graph.node if node.op_type == "RandomNormal"]
        for node in drawn:
            attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
            value = torch.randn(attributes["shape"], dtype=precision)
            self.known[node.output[0]] = value * attributes.get("scale", 1.0) + attributes.get("mean", 0.0)
        self.nodes = [node for node in self.graph.node if node.op_type != "RandomNormal"]
        self.inputs = [port for port in model.graph.input if port.name not in self.known]
        self.outputs = [port.name for port in model.graph.output]

    def tensor(self, array):
        value = torch.from_numpy(array.copy())
        return value.to(self.precision) if value.is_floating_point() else value

    def run(self, inputs):
        """The outputs by name, of arrays by name."""
        return self.run_tensors({name: self.tensor(array) for name, array in inputs.items()})

    def run_tensors(self, inputs):
        """The same of tensors."""
        values = {**self.known, **inputs}
        for node in self.nodes:
            arguments = [values[name] if name else None for name in node.input]
            results = self.compute(node, arguments)
            for name, result in zip(node.output, results if isinstance(results, tuple) else (results,)):
                values[name] = result
        return {name: values[name] for name in self.outputs}

    def margin(self, inputs):
        """How far from jumps of the gradient the model runs: the least of all operators' margins, each in parts of its
        largest input. What computes in a lower precision, with errors below it, has the same gradient."""
        margins = [math.inf]

        def visit(node, attributes, arguments):
            if node.op_type in MARGINS:
                margin, position = MARGINS[node.op_type]
                margins.append(margin(attributes, arguments[position]) /
                               max(arguments[position].abs().max().item(), 1e-30))
        self.visit = visit
        with torch.no_grad():
            self.run(inputs)
        self.visit = None
        return min(margins)

    def compute(self, node, arguments):
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        if self.visit:
            self.visit(node, attributes, arguments)
        if node.op_type == "Constant":
            return self.tensor(numpy_helper.to_array(attributes["value"]))
        if node.op_type == "ConstantOfShape":
            value = numpy_helper.to_array(attributes["value"]) if "value" in attributes else None
            filled = torch.zeros(1, dtype=self.precision) if value is None else self.tensor(value)
            return filled.expand(integers(arguments[0]))
        if node.op_type == "Cast":
            return arguments[0].to(INTEGERS.get(attributes["to"], self.precision))
        if node.op_type == "Shape":
            return torch.tensor(arguments[0].shape, dtype=torch.int64)
        if node.op_type not in self.operators:
            raise NotImplementedError(f"operator {node.op_type}")
        return self.operators[node.op_type](attributes, *arguments)


def cross_entropy(scores, labels, classes):
    """The mean over all labels of softmax cross-entropy along dimension `classes`; a negative label adds nothing."""
    summed = functional.cross_entropy(scores.movedim(classes, 1) if scores.dim() > 2 else scores,
                                      torch.where(labels < 0, torch.full_like(labels, -100), labels), reduction="sum")
    return summed / labels.numel()
