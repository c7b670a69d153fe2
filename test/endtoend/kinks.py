# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Gradients where a function has a kink, and where several elements are the largest: there is no derivative, and what is
# taken for one is a convention, PyTorch's. Models of one operator on a parameter that is set to these places are trained
# for a step of plain gradient descent, whose difference is the gradient.

import os
import sys
import tempfile

from cleave_process import DONE, Result, cleave, parallel, report, skip

try:
    import numpy
    import onnx
    import torch
    from onnx import helper, numpy_helper
    from torch.nn import functional
except ImportError as missing:
    skip(f"no module {missing.name}; install python3-{missing.name}")

# The operator's name in ONNX, its attributes, constants behind the parameter, the same in PyTorch, and the parameter.
LINE = [-4, -3, -2, -1, -0.0, 0, 1, 2, 3, 4, 6, 7]
TIES = [[1, 3, 3, 2], [3, 0, 3, 3], [2, 2, 2, 2], [0, -1, -1, 0]]
POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
OVERLAP = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}

CASES = {
    "relu": ("Relu", {}, [], functional.relu, LINE),
    "abs": ("Abs", {}, [], torch.abs, LINE),
    "leaky relu": ("LeakyRelu", {"alpha": 0.25}, [], lambda x: functional.leaky_relu(x, 0.25), LINE),
    "elu": ("Elu", {"alpha": 0.5}, [], lambda x: functional.elu(x, 0.5), LINE),
    "prelu": ("PRelu", {}, [0.25], lambda x: functional.prelu(x, torch.tensor([0.25])), LINE),
    "clip at its bounds": ("Clip", {}, [-2.0, 3.0], lambda x: torch.clamp(x, -2, 3), LINE),
    "relu6": ("Clip", {}, [0.0, 6.0], functional.relu6, [-1, 1, 3, 5.5, 7]),
    "hard sigmoid": ("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}, [], functional.hardsigmoid, [-4, -2, 0, 2, 4]),
    "max of two": ("Max", {}, [[1.0] * 12], lambda x: torch.maximum(x, torch.ones(1, 12)), LINE),
    "min of two": ("Min", {}, [[1.0] * 12], lambda x: torch.minimum(x, torch.ones(1, 12)), LINE),
    "max of all": ("ReduceMax", {"axes": [1], "keepdims": 0}, [], lambda x: torch.amax(x, 1), [3, 1, 3, 3, 2]),
    "min of all": ("ReduceMin", {"axes": [1], "keepdims": 0}, [], lambda x: torch.amin(x, 1), [3, 1, 1, 3, 2]),
    "max pool": ("MaxPool", POOL, [], lambda x: functional.max_pool2d(x, 2), [[TIES]]),
    "max pool that overlaps": ("MaxPool", OVERLAP, [], lambda x: functional.max_pool2d(x, 3, 1, 1), [[TIES]]),
    "product with zeros": ("ReduceProd", {"axes": [1], "keepdims": 0}, [], lambda x: torch.prod(x, 1), [2, 0, 3, 1]),
    "product with two zeros": ("ReduceProd", {"axes": [1], "keepdims": 0}, [], lambda x: torch.prod(x, 1), [2, 0, 0, 1]),
}


def values_of(entry):
    """The parameter: a line as one sample."""
    values = numpy.array(entry[4], numpy.float32)
    return values[None] if values.ndim == 1 else values.reshape((1, 1) + values.shape[-2:])


def expected(entry):
    """The gradient of the mean of the result, in PyTorch."""
    parameter = torch.tensor(values_of(entry), requires_grad=True)
    entry[3](parameter).mean().backward()
    return parameter.grad.numpy()


def export(path, entry):
    """y = operator(w + x), of which x is zero."""
    kind, attributes, constants, _, _ = entry
    values = values_of(entry)
    parameters = [numpy_helper.from_array(values, "w")]
    nodes = [helper.make_node("Add", ["w", "x"], ["t"], name="sum")]
    names = []
    for index, constant in enumerate(constants):
        names.append(f"c{index}")
        shaped = numpy.array(constant, numpy.float32)
        nodes.append(helper.make_node("Constant", [], [names[-1]], value=numpy_helper.from_array(
            shaped[None] if shaped.ndim else shaped)))
    nodes.append(helper.make_node(kind, ["t", *names], ["y"], name="operator", **attributes))
    shape = list(expected_shape(entry))
    graph = helper.make_graph(nodes, "kink",
                              [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, values.shape)],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)], parameters)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def expected_shape(entry):
    with torch.no_grad():
        return entry[3](torch.tensor(values_of(entry))).shape


def found(folder, name):
    """How the last process ended, and the gradient."""
    entry, base = CASES[name], os.path.join(folder, name.replace(" ", "-"))
    export(base + ".onnx", entry)
    numpy.save(base + ".npy", numpy.zeros_like(values_of(entry)))
    result = cleave("compile", base + ".onnx", "--machine", "host:1x1", "--strategy", "single", "--train", "--loss", "y",
                    "--optimizer", "sgd", "--learning-rate", "1024", "-o", base + ".plan")
    if result.code == DONE:
        result = cleave("train", base + ".plan", "--data", f"x={base}.npy", "--steps", "1", "--export", base + ".npz")
    if result.code != DONE:
        return result, None
    with numpy.load(base + ".npz") as arrays:
        return result, (values_of(entry) - arrays["w"].astype(numpy.float64)) / 1024


def main():
    failures, passed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (result, gradient) in zip(CASES, parallel(lambda name: found(folder, name), CASES)):
            wanted = expected(CASES[name])
            if gradient is not None and abs(gradient - wanted).max() <= 1e-6:
                passed += 1
                continue
            text = f"{name}: got {None if gradient is None else gradient.tolist()}, PyTorch has {wanted.tolist()}"
            failures.append((text, result if gradient is None else Result(DONE, text, "")))
    report(failures, passed)


if __name__ == "__main__":
    main()
