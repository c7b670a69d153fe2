# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Writes models whose one initializer is a mask of 300 by 300: PREFIX.KIND.onnx.

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE = 300


def write(path, mask, operator):
    """The mask on scores, by an addition or a choice."""
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [2, SIZE, SIZE])
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, [2, SIZE, SIZE])
    low = numpy_helper.from_array(np.array(-np.inf, np.float32), "low")
    inputs = {"Add": ["scores", "mask"], "seen": ["mask", "scores", "low"], "hidden": ["mask", "low", "scores"]}[operator]
    node = helper.make_node("Add" if operator == "Add" else "Where", inputs, ["result"])
    graph = helper.make_graph([node], "masks", [scores], [result], [numpy_helper.from_array(mask, "mask"), low])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


seen = np.tril(np.ones((SIZE, SIZE), bool))
prefix = sys.argv[1]
write(f"{prefix}.seen.onnx", seen, "seen")
write(f"{prefix}.hidden.onnx", ~seen[np.newaxis], "hidden")
write(f"{prefix}.added.onnx", np.where(seen, 0, np.finfo(np.float32).min).astype(np.float32)[np.newaxis], "Add")
other = seen.copy()
other[3, 4] = True
write(f"{prefix}.other.onnx", other, "seen")
distance = np.arange(SIZE)[:, None] - np.arange(SIZE)
write(f"{prefix}.window.onnx", (distance < 0) | (distance >= 30), "hidden")
write(f"{prefix}.bias.onnx", np.where(seen, distance / 8, -np.inf).astype(np.float32), "Add")
