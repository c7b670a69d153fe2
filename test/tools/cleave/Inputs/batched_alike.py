# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Whether each sample of a batch gets what the model gives it by itself: MODEL.plan's entries against runs of MODEL.onnx.

import os
import subprocess
import sys

import numpy as np
import onnx


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


def main(models):
    random = np.random.default_rng(7)
    for model in models:
        value = onnx.load(model + ".onnx").graph.input[0]
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        assert shape[0] == 1
        samples = random.standard_normal([4, *shape[1:]]).astype(np.float32)
        source, target = model + ".in.npy", model + ".out.npy"
        alone = []
        for sample in samples:
            np.save(source, sample[np.newaxis])
            run("cleave", "run", model + ".onnx", "--machine", "host:1x1", "--input", f"@0={source}", "--output", f"@0={target}")
            alone.append(np.load(target))
        for count in (1, 2, 4):
            np.save(source, samples[:count])
            run("cleave-run", model + ".plan", "--entry", f"batch/{count}", "--input", f"@0={source}", "--output", f"@0={target}")
            together = np.load(target)
            expected = np.concatenate(alone[:count])
            assert together.shape == expected.shape, (model, count, together.shape, expected.shape)
            assert np.allclose(together, expected, rtol=1e-4, atol=1e-5), (model, count)
        os.remove(source)


main(sys.argv[1:])
