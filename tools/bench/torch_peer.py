# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Times one model with PyTorch on CPU: the peer that `cleave bench --against torch` measures against. The ONNX graph is
# run with PyTorch's functions (onnx_in_torch.py) in every way that PyTorch has, and the fastest of a trial counts: as it
# is, and traced, frozen and optimized for inference by torch.jit; with tensors as they are, and with channels last.
#
#   python3 tools/bench/torch_peer.py '{"model": "model.onnx", "threads": 1, "repeat": 20}'
#
# The request, as the only argument or on standard input, and the answer are those of onnxruntime.mjs; the answer's
# "variant" says which way it was. Exit codes: 0 done, 1 an error (also: a package is missing), 2 usage.

import json
import os
import statistics
import sys
import time

import openblas


def fail(message, code):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def best_environment(threads):
    """Must run before PyTorch is loaded."""
    os.environ.update({**openblas.settings(), **os.environ, "OMP_NUM_THREADS": str(threads)})


def read_request():
    text = sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read()
    try:
        request = json.loads(text)
        if not isinstance(request.get("model"), str):
            raise ValueError('expected "model" to be a path')
    except (AttributeError, ValueError) as error:
        fail(f"request: {error}; see the head of this file for its keys", 2)
    return {"inputs": {}, "dims": {}, "threads": 1, "repeat": 20, "warmup": 3, **request}


def make_inputs(model, files, dims):
    """Tensors in the order of the model's inputs: from files, or generated; integers are zeros."""
    import numpy
    import onnx
    types = onnx.TensorProto
    names = {types.DOUBLE: "float64", types.INT32: "int32", types.INT64: "int64", types.BOOL: "bool"}
    made, random = [], numpy.random.default_rng(1)
    for position, port in enumerate(model.inputs):
        path = files.get(port.name, files.get(f"@{position}"))
        if path:
            with open(path, "rb") as file:
                array = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))
        else:
            tensor = port.type.tensor_type
            shape = [dim.dim_value if dim.HasField("dim_value") else dims.get(dim.dim_param, 1) for dim in tensor.shape.dim]
            kind = numpy.dtype(names.get(tensor.elem_type, "float32"))
            array = (random.uniform(-1, 1, shape) if kind.kind == "f" else numpy.zeros(shape)).astype(kind)
        made.append(model.tensor(array))
    return made


def variants(model, inputs):
    """(name, function of no arguments) of every way; one that PyTorch cannot do is left out, and said."""
    import torch

    class Module(torch.nn.Module):
        def forward(self, *arguments):
            return tuple(model.run_tensors(dict(zip((port.name for port in model.inputs), arguments))).values())

    def channels_last(tensor):
        return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

    module, plain = Module().eval(), dict(model.known)
    for layout in ("contiguous", "channels_last"):
        chosen = (lambda tensor: tensor) if layout == "contiguous" else channels_last
        known, arguments = {name: chosen(value) for name, value in plain.items()}, [chosen(value) for value in inputs]
        if layout != "contiguous" and not any(value.dim() == 4 for value in [*known.values(), *arguments]):
            continue

        def eager(known=known, arguments=arguments):
            model.known = known
            return module(*arguments)

        yield layout, eager
        try:
            model.known = known
            traced = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(module, arguments,
                                                                                      check_trace=False)))
            traced(*arguments)
        except (RuntimeError, TypeError, AttributeError) as error:
            print(f"note: torch.jit, {layout}: {error}", file=sys.stderr)
            continue
        yield f"{layout}, torch.jit", lambda traced=traced, arguments=arguments: traced(*arguments)


def milliseconds(function, runs):
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        function()
        taken.append(1e3 * (time.perf_counter() - begin))
    return taken


def main():
    request = read_request()
    best_environment(request["threads"])
    try:
        import torch
        from onnx_in_torch import TorchModel
    except ImportError as error:
        fail(f"expected the Python packages torch and onnx for {sys.executable}: {error}; run tools/setup, or name another "
             "Python in $CLEAVE_PYTHON", 1)
    torch.set_num_threads(request["threads"])
    try:
        with torch.inference_mode():
            model = TorchModel(request["model"], torch.float32, learns=False)
            inputs = make_inputs(model, request["inputs"], request["dims"])
            trials = []
            for name, function in variants(model, inputs):
                function()
                trials.append((statistics.median(milliseconds(function, request["warmup"])), name, function))
            _, variant, function = min(trials, key=lambda trial: trial[0])
            latencies = milliseconds(function, request["repeat"])
    except NotImplementedError as error:
        fail(f"PyTorch's functions do not cover {error} of the model; onnx_in_torch.py lists those that they do", 1)
    ordered = sorted(latencies)
    print(json.dumps({"version": torch.__version__, "variant": variant, "median_ms": statistics.median(latencies),
                      "p10_ms": ordered[len(ordered) // 10], "p90_ms": ordered[len(ordered) * 9 // 10],
                      "runs": len(latencies), "latencies_ms": latencies}))


if __name__ == "__main__":
    main()
