# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Plans for GPUs that compute in bfloat16 or round products to TF32, on a simulated CUDA, beside the CPU driver in exact
# float32: outputs of inference, and what a few steps of training change. Which libraries compute the products, too.
#
#   python3 test/tools/gpu_test/formats.py [MODEL...]
#
# How far a result may be off: rounding changes a number by at most U of it, and n roundings in a row by about n * U of the
# largest numbers, if all err the same way. The same arithmetic on the CPU driver says how far rounding really leads; ours
# may be off by twice that, or by n * U, whichever is less, and by two roundings where the CPU happens to be exact. Float32
# has no TF32 on a CPU; its operands have a quarter of bfloat16's error (of 11 bits the rest may be cut off).

import collections
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
BIN = os.path.abspath(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")))
UNITS = {"bf16": 2.0**-8, "tf32": 2.0**-10}
FLAGS = {"bf16": ["--dtype", "bf16"], "tf32": ["--tf32"]}
STEPS = 3

# Small, since an interpreter is no GPU. `products` and `roundings`: how many lie one behind the other on the way to the
# output; every layer rounds its weight, product, bias and activation to bfloat16, a product both operands to TF32.
# `data`: inputs with shapes without the batch and bounds; `kernels`: routines that must be the libraries' in training.
Model = collections.namedtuple("Model", "sizes products roundings data optimizer kernels")
TOKENS = {"tokens": ((6,), 31), "labels": ((6,), 31)}
MODELS = {
    "mlp": Model({"batch": 4, "inputs": 24, "hidden": 16, "classes": 10}, 3, 3 * 4,
                 {"input": ((24,), 0), "labels": ((), 10)}, ["momentum", "0.5"], {"matmul"}),
    "lenet": Model({"batch": 2}, 4, 4 * 6, {"input": ((1, 28, 28), 0), "labels": ((), 10)}, ["momentum", "0.5"],
                   {"matmul", "convolution", "deconvolution", "convolution_weights"}),
    "gpt": Model({"batch": 2, "layers": 2, "hidden": 32, "heads": 2, "sequence": 6, "vocabulary": 31}, 6 * 2 + 1,
                 3 + 2 * (2 * 3 + 6 * 3 + 3 + 1 + 2) + 5, TOKENS, ["momentum", "0.3"], {"matmul"}),
    "lstm": Model({"batch": 2, "layers": 2, "hidden": 16, "sequence": 6, "vocabulary": 31}, 2 * 6 + 1,
                  6 * 2 * 8 + 3, TOKENS, ["sgd", "0.5"], {"matmul"}),
}


def run(program, *words, limit=900):
    done = subprocess.run([os.path.join(BIN, program), *map(str, words)], capture_output=True, text=True, timeout=limit,
                          stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"FAILED {program} {' '.join(map(str, words))}: {done.returncode} {done.stderr[-800:]}")
    return done.stdout


def check(fine, text):
    print(("passed " if fine else "FAILED ") + text, flush=True)
    return fine


class Case:
    """A model in a folder, with its data, and plans of it by machine and arithmetic."""

    def __init__(self, name, folder):
        self.name, self.model, self.folder = name, MODELS[name], folder
        self.file = self.path("model.onnx")
        run("cleave", "zoo", name, *(f"--{key}={value}" for key, value in self.model.sizes.items()), "-o", self.file)
        random, self.data = numpy.random.default_rng(5), {}
        samples = self.model.sizes["batch"] * STEPS
        for port, (shape, below) in self.model.data.items():
            shape, self.data[port] = (samples, *shape), self.path(port + ".npy")
            numpy.save(self.data[port], random.integers(0, below, shape) if below else
                       random.standard_normal(shape).astype(numpy.float32))

    def path(self, name):
        return os.path.join(self.folder, f"{self.name}-{name}")

    def compile(self, machine, training, *flags):
        optimizer, rate = self.model.optimizer
        step = ["--train", "--loss", "cross-entropy", "--optimizer", optimizer, "--learning-rate", rate]
        plan = self.path("plan")
        run("cleave", "compile", self.file, "--machine", machine, "--strategy", "single", *(step if training else []), *flags,
            "-o", plan)
        return plan

    def output(self, program, machine, *flags):
        """Of one step of inference, on the numbers that the runtime fills inputs with."""
        plan, out = self.compile(machine, False, *flags), self.path("out.npy")
        run(program, plan, "--output", f"@0={out}")
        return {"output": numpy.load(out).astype(numpy.float64)}

    def change(self, program, machine, *flags):
        """What some steps change of every parameter."""
        plan, parameters = self.compile(machine, True, *flags), []
        data = [word for port, file in self.data.items() for word in ("--data", f"{port}={file}")]
        for length in (["--epochs", 0], ["--steps", STEPS]):
            run(program, "train", plan, *data, "--seed", 1, *length, "--export", self.path("out.npz"))
            with numpy.load(self.path("out.npz")) as values:
                parameters.append({name: values[name].astype(numpy.float64) for name in values})
        before, after = parameters
        return {name: after[name] - value for name, value in before.items()}

    def kernels(self, *flags):
        """The routines of libraries in a step of training on a GPU, and kernels of ours that multiply."""
        optimizer, rate = self.model.optimizer
        module = run("cleave", "compile", self.file, "--machine", "cuda:h100:1", "--strategy", "single", "--train", "--loss",
                     "cross-entropy", "--optimizer", optimizer, "--learning-rate", rate, *flags, "--emit-ir=codegen", "-o",
                     "-")
        ours = re.findall(r" = dfg\.(?:dot_general|conv\w*) ", module[module.index("plan.native_kernel"):])
        return set(re.findall(r'plan\.library_kernel @\S+ "\w+" "([\w.]+)"', module)), len(ours)


def distance(found, exact):
    """The norm of the difference over that of what is exact, over all tensors."""
    off = sum(((found[name] - value)**2).sum() for name, value in exact.items())
    return (off / sum((value**2).sum() for value in exact.values()))**0.5


def compare(case, what, precision, roundings):
    measure, unit = getattr(case, what), UNITS[precision]
    exact = measure("cleave-run", "host:1x1")
    theirs = distance(measure("cleave-run", "host:1x1", *FLAGS["bf16"]), exact) * unit / UNITS["bf16"]
    ours = distance(measure("cleave-run-simulated", "cuda:h100:1", *FLAGS[precision]), exact)
    accepted = min(roundings * unit, max(2 * theirs, 2 * unit))
    # Some rounding there must be, or nothing was computed in that arithmetic.
    return check(unit / 2**10 < ours <= accepted,
                 f"{case.name}, {what}, {precision}: off by {ours:.1e}, accepted {accepted:.1e}")


def check_kernels(case, precision):
    routines, ours = case.kernels(*FLAGS[precision])
    return check(case.model.kernels <= routines and ours == 0,
                 f"{case.name}, {precision}: {', '.join(sorted(routines))} of libraries, {ours} products of ours")


def main():
    if not os.path.exists(os.path.join(BIN, "cleave-run-simulated")):
        print("skipped: there is no cleave-run-simulated, which needs a build with CLEAVE_CUDA")
        return 77
    fine = True
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or MODELS:
            case = Case(name, folder)
            for precision in FLAGS:
                # Forward, and there and back for every step.
                depth = {"bf16": case.model.roundings, "tf32": 2 * case.model.products}[precision]
                fine &= check_kernels(case, precision)
                fine &= compare(case, "output", precision, depth)
                fine &= compare(case, "change", precision, 2 * STEPS * depth)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
