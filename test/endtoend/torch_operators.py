# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Operators that ONNX's backend tests do not cover, or only at small sizes, against PyTorch's functions: models of one
# node, random inputs, one device.
#
#   python3 test/endtoend/torch_operators.py [--only PATTERN]

import argparse
import collections
import fnmatch
import itertools
import os
import sys
import tempfile

from cleave_process import DONE, cleave, parallel, program, skip

try:
    import numpy
    import onnx
    import torch
    import torchvision
    from onnx import helper, numpy_helper
    from torch.nn import functional
except ImportError as missing:
    skip(f"no module {missing.name}; install python3-{missing.name}")

ELEMENTS = {torch.float32: onnx.TensorProto.FLOAT, torch.int32: onnx.TensorProto.INT32,
            torch.int64: onnx.TensorProto.INT64}
# PyTorch's names and ONNX's.
MODES = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}
TOLERANCE = ["--rtol", "1e-4", "--atol", "1e-5"]

# A node: its operator and version, its attributes, its inputs (those in `known` are part of the model), and what its
# outputs must be.
Case = collections.namedtuple("Case", "name kind version attributes inputs known expected")


def case(name, kind, version, inputs, expected, known=(), **attributes):
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    return Case(name, kind, version, attributes, inputs, set(known), expected)


def integers(*values):
    return torch.tensor(values, dtype=torch.int64)


def resize_cases():
    """Antialiasing, which PyTorch has for images of four dimensions. It treats borders as if what is outside did not
    exist, which is ONNX's exclude_outside."""
    x = torch.randn(2, 3, 24, 37)
    for mode, size in itertools.product(["bilinear", "bicubic"], [(7, 11), (12, 37), (31, 50)]):
        expected = functional.interpolate(x, size=size, mode=mode, antialias=True)
        yield case(f"resize-antialias-{mode}-{size}", "Resize", 18, [x, None, None, integers(2, 3, *size)], expected,
                   known=[3], mode=MODES[mode], antialias=1, exclude_outside=1,
                   **({"cubic_coeff_a": -0.5} if mode == "bicubic" else {}))
    for mode, align in itertools.product(["bilinear", "bicubic"], [False, True]):
        expected = functional.interpolate(x, size=(31, 50), mode=mode, align_corners=align)
        yield case(f"resize-{mode}-{align}", "Resize", 13, [x, None, None, integers(2, 3, 31, 50)], expected, known=[3],
                   mode=MODES[mode],
                   coordinate_transformation_mode="align_corners" if align else "half_pixel")


def sampling_cases():
    choices = itertools.product([(5, 6), (4, 5, 6)], ["bilinear", "nearest", "bicubic"],
                                ["zeros", "border", "reflection"], [False, True])
    for shape, mode, padding, align in choices:
        if len(shape) == 3 and mode == "bicubic":
            continue
        x, grid = torch.randn(2, 3, *shape), 1.5 * torch.randn(2, *[size + 1 for size in shape], len(shape))
        expected = functional.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)
        yield case(f"grid-sample-{len(shape)}d-{mode}-{padding}-{align}", "GridSample", 20, [x, grid], expected,
                   mode=MODES[mode], padding_mode=padding, align_corners=int(align))
    for shape, align in itertools.product([(2, 3, 5, 6), (2, 3, 4, 5, 6)], [False, True]):
        theta = torch.randn(2, len(shape) - 2, len(shape) - 1)
        yield case(f"affine-grid-{len(shape) - 2}d-{align}", "AffineGrid", 20, [theta, integers(*shape)],
                   functional.affine_grid(theta, list(shape), align_corners=align), known=[1], align_corners=int(align))


def region_cases():
    x, corner, extent = torch.randn(3, 5, 20, 31), 40 * torch.rand(7, 2) - 5, 30 * torch.rand(7, 2)
    images = torch.randint(0, 3, (7,))
    rois = torch.cat([corner, corner + extent], 1)
    for aligned in (False, True):
        expected = torchvision.ops.roi_align(x, torch.cat([images.reshape(-1, 1).float(), rois], 1), (4, 6), 0.5, 3,
                                             aligned)
        yield case(f"roi-align-{aligned}", "RoiAlign", 16, [x, rois, images], expected, output_height=4, output_width=6,
                   sampling_ratio=3, spatial_scale=0.5,
                   coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel")


def pooling_cases():
    x = torch.randn(2, 3, 11, 13)
    for window, stride, pad, dilation in [(3, 2, 1, 1), (2, 2, 0, 1), (3, 1, 1, 2)]:
        values, positions = functional.max_pool2d(x, window, stride, pad, dilation, return_indices=True)
        # PyTorch counts within each image, ONNX through all of them.
        images = torch.arange(6).reshape(2, 3, 1, 1) * 11 * 13
        yield case(f"max-pool-positions-{window}-{stride}-{pad}-{dilation}", "MaxPool", 12, [x],
                   [values, positions + images], kernel_shape=[window] * 2, strides=[stride] * 2, pads=[pad] * 4,
                   dilations=[dilation] * 2)
    for power in (1, 2, 3):
        yield case(f"lp-pool-{power}", "LpPool", 11, [x], functional.lp_pool2d(x.abs(), power, 3, 2), p=power,
                   kernel_shape=[3, 3], strides=[2, 2])
    columns = torch.randn(2, 3 * 6, 4 * 13)
    expected = functional.fold(columns, (8, 11), (2, 3), dilation=(2, 1), padding=(1, 2), stride=(2, 1))
    yield case("col2im", "Col2Im", 18, [columns, integers(8, 11), integers(2, 3)], expected, known=[1, 2],
               dilations=[2, 1], pads=[1, 2, 1, 2], strides=[2, 1])


def scattered_maximum(x, at, y):
    """The largest of what is there and what is put there, along dimension 1."""
    result = x.numpy().copy()
    first, _, last = numpy.indices(at.shape)
    numpy.maximum.at(result, (first, at.numpy(), last), y.numpy())
    return torch.from_numpy(result)


def indexing_cases():
    """At sizes where a quadratic method would be noticed."""
    x = torch.randn(4, 50000)
    values, positions = torch.topk(x, 100)
    yield case("top-k", "TopK", 11, [x, integers(100)], [values, positions], known=[1])
    x = torch.randint(0, 50, (2000, 3), dtype=torch.int32)
    order = torch.sort(x, dim=0, stable=True)
    yield case("sort", "TopK", 11, [x, integers(2000)], [order.values, order.indices], known=[1], axis=0, largest=0)
    yield case("cumulative-sum", "CumSum", 14, [x, integers(0)[0]], torch.cumsum(x, 0, dtype=torch.int32), known=[1])
    table, rows, updates = torch.randn(30000, 64), torch.randint(0, 30000, (4096,)), torch.randn(4096, 64)
    rows[:2000] = rows[2000:4000] % 7
    yield case("scatter-rows", "ScatterND", 16, [table, rows.reshape(-1, 1), updates],
               table.index_add(0, rows, updates), reduction="add")
    x, at = torch.randn(40, 50, 60), torch.randint(0, 50, (40, 70, 60))
    y = torch.randn(40, 70, 60)
    yield case("gather-elements", "GatherElements", 13, [x, at], torch.gather(x, 1, at), axis=1)
    yield case("scatter-elements", "ScatterElements", 18, [x, at, y],
               scattered_maximum(x, at, y), axis=1, reduction="max")


def loss_cases():
    x, target = torch.randn(64, 1000), torch.randint(0, 1000, (64,))
    weight = torch.rand(1000)
    target[5] = -100
    for reduction in ("none", "sum", "mean"):
        yield case(f"cross-entropy-{reduction}", "SoftmaxCrossEntropyLoss", 13, [x, target, weight],
                   functional.cross_entropy(x, target, weight, reduction=reduction), reduction=reduction,
                   ignore_index=-100)


def info(name, tensor):
    """A value of the model."""
    return helper.make_tensor_value_info(name, ELEMENTS[tensor.dtype], list(tensor.shape))


def run(item, folder):
    """What went wrong; nothing if all outputs agree."""
    names = [f"x{i}" if tensor is not None else "" for i, tensor in enumerate(item.inputs)]
    outputs = [f"y{i}" for i in range(len(item.expected))]
    node = helper.make_node(item.kind, names, outputs, name="node", **item.attributes)
    present = [(i, tensor) for i, tensor in enumerate(item.inputs) if tensor is not None]
    graph = helper.make_graph([node], "one", [info(names[i], tensor) for i, tensor in present if i not in item.known],
                              [info(name, tensor) for name, tensor in zip(outputs, item.expected)],
                              [numpy_helper.from_array(tensor.numpy(), names[i]) for i, tensor in present
                               if i in item.known])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", item.version)])
    model.ir_version = 8
    path = os.path.join(folder, item.name.replace(" ", ""))
    onnx.save(model, path + ".onnx")
    flags = []
    for i, tensor in present:
        if i not in item.known:
            numpy.save(f"{path}.{names[i]}.npy", tensor.numpy())
            flags += ["--input", f"{names[i]}={path}.{names[i]}.npy"]
    for name, tensor in zip(outputs, item.expected):
        numpy.save(f"{path}.{name}.npy", tensor.numpy())
        flags += ["--expect", f"{name}={path}.{name}.npy"]
    result = cleave("run", path + ".onnx", "--machine", "host:1x1", *flags, *TOLERANCE, timeout=120)
    return "" if result.code == DONE else f"{item.name}: exit code {result.code}: {result.errors} {result.output}"


def main():
    parser = argparse.ArgumentParser(description="single operators against PyTorch")
    parser.add_argument("--only", default="*", help="shell pattern of names")
    options = parser.parse_args()
    program()
    torch.manual_seed(7)
    families = [resize_cases, sampling_cases, region_cases, pooling_cases, indexing_cases, loss_cases]
    cases = [item for family in families for item in family() if fnmatch.fnmatch(item.name, options.only)]
    with tempfile.TemporaryDirectory() as folder:
        problems = list(filter(None, parallel(lambda item: run(item, folder), cases)))
    print("\n".join(problems))
    print(f"{len(cases) - len(problems)} of {len(cases)} operators agree with PyTorch")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
