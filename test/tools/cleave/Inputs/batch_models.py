# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models as they are exported with one sample, written to the folder that the command line names: with shapes that have
# the one in them, with samples in the second dimension in between, and with operators that mix samples.

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write(folder, name, nodes, weights, inputs, outputs):
    def values(shapes):
        return [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in shapes.items()]

    tensors = [numpy_helper.from_array(array, key) for key, array in weights.items()]
    graph = helper.make_graph(nodes, name, values(inputs), values(outputs), tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, os.path.join(folder, name + ".onnx"))


def ints(*numbers):
    return np.array(numbers, dtype=np.int64)


def main(folder):
    random = np.random.default_rng(3)

    def weight(*shape):
        return random.standard_normal(shape).astype(np.float32)

    node = helper.make_node
    # A convolution, and a reshape to [1, 32] in front of a dense layer.
    write(folder, "flat", [node("Conv", ["x", "k"], ["c"], name="conv", pads=[1, 1, 1, 1]),
                           node("Reshape", ["c", "shape"], ["r"], name="flatten"),
                           node("MatMul", ["r", "w"], ["y"], name="dense")],
          {"k": weight(2, 1, 3, 3), "shape": ints(1, 32), "w": weight(32, 3)}, {"x": [1, 1, 4, 4]}, {"y": [1, 3]})
    # Attention's heads: [1, 4, 8] to [1, 4, 2, 4] and back, by shapes with -1 at other places.
    write(folder, "heads", [node("Reshape", ["x", "split"], ["s"], name="split"),
                            node("Transpose", ["s"], ["t"], name="turn", perm=[0, 2, 1, 3]),
                            node("Softmax", ["t"], ["a"], name="soft", axis=-1),
                            node("Transpose", ["a"], ["b"], name="back", perm=[0, 2, 1, 3]),
                            node("Reshape", ["b", "join"], ["j"], name="join"),
                            node("MatMul", ["j", "w"], ["y"], name="out")],
          {"split": ints(1, -1, 2, 4), "join": ints(1, 4, 8), "w": weight(8, 8)}, {"x": [1, 4, 8]}, {"y": [1, 4, 8]})
    # Sequence first: samples are the second dimension, and part of one in between.
    write(folder, "sequence", [node("Transpose", ["x"], ["t"], name="first", perm=[1, 0, 2]),
                               node("Reshape", ["t", "rows"], ["r"], name="rows"),
                               node("MatMul", ["r", "w"], ["m"], name="dense"),
                               node("Reshape", ["m", "apart"], ["a"], name="apart"),
                               node("Transpose", ["a"], ["y"], name="last", perm=[1, 0, 2])],
          {"rows": ints(-1, 6), "apart": ints(5, 1, 6), "w": weight(6, 6)}, {"x": [1, 5, 6]}, {"y": [1, 5, 6]})
    # Sequence first, as PyTorch exports attention: samples beside the heads, and in rows in front of the features.
    write(folder, "rows", [node("Transpose", ["x"], ["t"], name="first", perm=[1, 0, 2]),
                           node("Reshape", ["t", "heads"], ["h"], name="heads"),
                           node("Transpose", ["h"], ["q"], name="turn", perm=[1, 0, 2]),
                           node("Softmax", ["q"], ["a"], name="soft", axis=-1),
                           node("Transpose", ["a"], ["b"], name="back", perm=[1, 0, 2]),
                           node("Reshape", ["b", "features"], ["r"], name="rows"),
                           node("MatMul", ["r", "w"], ["m"], name="dense"),
                           node("Reshape", ["m", "apart"], ["p"], name="apart"),
                           node("Transpose", ["p"], ["y"], name="last", perm=[1, 0, 2])],
          {"heads": ints(4, 2, 3), "features": ints(4, 6), "apart": ints(4, 1, 6), "w": weight(6, 6)},
          {"x": [1, 4, 6]}, {"y": [1, 4, 6]})
    # A class token in front of every sample's.
    write(folder, "token", [node("Concat", ["t", "x"], ["c"], name="token", axis=1),
                            node("MatMul", ["c", "w"], ["y"], name="dense")],
          {"t": weight(1, 1, 8), "w": weight(8, 8)}, {"x": [1, 4, 8]}, {"y": [1, 5, 8]})
    # A recurrent layer whose initial state is made for the samples that there are.
    write(folder, "state", [node("Transpose", ["x"], ["t"], name="first", perm=[1, 0, 2]),
                            node("Shape", ["t"], ["s"], name="shape"),
                            node("Gather", ["s", "one"], ["n"], name="samples", axis=0),
                            node("Concat", ["one", "n", "four"], ["z"], name="sizes", axis=0),
                            node("Constant", [], ["zero"], name="zero", value=helper.make_tensor(
                                "zero", TensorProto.FLOAT, [1, 1, 1], [0.0])),
                            node("Expand", ["zero", "z"], ["i"], name="initial"),
                            node("LSTM", ["t", "wi", "wr", "", "", "i", "i"], ["h", "", ""], name="lstm", hidden_size=4),
                            node("Squeeze", ["h", "one"], ["q"], name="squeeze"),
                            node("Transpose", ["q"], ["y"], name="last", perm=[1, 0, 2])],
          {"one": ints(1), "four": ints(4), "wi": weight(1, 16, 3), "wr": weight(1, 16, 4)}, {"x": [1, 5, 3]}, {"y": [1, 5, 4]})
    # Each sample is centred by the mean of all.
    write(folder, "mixing", [node("ReduceMean", ["x"], ["m"], name="mean", axes=[0], keepdims=1),
                             node("Sub", ["x", "m"], ["y"], name="centre")], {}, {"x": [1, 4]}, {"y": [1, 4]})
    write(folder, "mixed", [node("MatMul", ["x", "w"], ["d"], name="dense"),
                            node("ReduceMean", ["d"], ["m"], name="mean", axes=[0], keepdims=1),
                            node("Sub", ["d", "m"], ["y"], name="centre")], {"w": weight(4, 4)}, {"x": [8, 4]},
          {"y": [8, 4]})
    # A symbolic batch.
    write(folder, "open", [node("MatMul", ["x", "w"], ["y"], name="dense")], {"w": weight(4, 3)}, {"x": ["n", 4]},
          {"y": ["n", 3]})
    # A result for the whole batch.
    write(folder, "total", [node("ReduceSum", ["x"], ["y"], name="sum", keepdims=0)], {}, {"x": [1, 4]}, {"y": []})
    # A second input without samples.
    write(folder, "table", [node("MatMul", ["x", "t"], ["y"], name="look")], {}, {"x": [1, 4], "t": [4, 4]},
          {"y": [1, 4]})


main(sys.argv[1])
