# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The kernels that Cleave compiles for GPUs of the zoo's models and of the shared ones, for inference and training, through
# NVIDIA's assembler: it takes every one, for the oldest and the newest architecture, and says what they need.
#
#   python3 test/endtoend/ptx.py [MODEL...]

import os
import re
import shutil
import subprocess
import sys
import tempfile

import onnx
import onnx.parser

from cleave_process import REPOSITORY, Checks, Result, cleave, parallel, skip

# Name, sizes, and what training adds; small where kernels do not change with the size.
ZOO = {
    "mlp": ({}, ["--loss", "cross-entropy"]),
    "lenet": ({"batch": 64}, ["--loss", "cross-entropy"]),
    "resnet50": ({"image-size": 64, "batch": 4}, ["--loss", "cross-entropy"]),
    "unet": ({"image-size": 64, "features": 16, "batch": 2}, ["--loss", "mse"]),
    "lstm": ({"layers": 2, "hidden": 128, "sequence": 8, "batch": 16, "vocabulary": 1000},
             ["--loss", "cross-entropy"]),
    "gpt": ({"layers": 2, "hidden": 768, "heads": 12, "sequence": 256, "batch": 4}, ["--loss", "cross-entropy"]),
    "bert": ({"layers": 2, "hidden": 768, "heads": 12, "sequence": 128, "batch": 4}, None),
    "moe": ({"layers": 2, "hidden": 128, "heads": 4, "sequence": 64, "batch": 2, "vocabulary": 1000},
            ["--loss", "cross-entropy"]),
}
SHARED = ["bvlc_alexnet", "squeezenet", "inception_v1", "resnet50"]
# Kernels at the limits of what the assembler takes: of static shared memory, and of parameters.
LIMITS = {
    "sums of columns": (18, "float[512,128] x{0}", "t{0} = ReduceSumSquare<axes=[0],keepdims=0>(x{0})", "Sum", "[128]"),
    "transposes": (14, "float[512,512] x{0}, float[512,512] z{0}",
                   "s{0} = Transpose<perm=[1,0]>(x{0})\n  t{0} = Mul(s{0}, z{0})", "Sum", "[512,512]"),
    "wide concat": (600, "float[4,8] x{0}", "t{0} = Relu(x{0})", "Concat<axis=1>", "[4,4800]"),
    "concat of concats": (1100, "float[1,2] x{0}", "t{0} = Identity(x{0})", "Concat<axis=1>", "[1,2200]"),
}
MACHINES = {"sm_80": "cuda:a100-80g:1", "sm_90": "cuda:h100:1"}


def find_assembler():
    """ptxas of $CUDA_PATH, of /usr/local/cuda, or of the search path."""
    for folder in (os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        path = os.path.join(folder or "", "bin", "ptxas")
        if folder and os.access(path, os.X_OK):
            return path
    return shutil.which("ptxas") or skip("no ptxas; install the CUDA toolkit or set CUDA_PATH")


def ptx_of(module):
    """The PTX in the text of a module after code generation; None where it has no kernels for GPUs."""
    found = re.search(r'plan\.object @gpu .* image = "((?:[^"\\]|\\.)*)"', module)
    if not found:
        return None
    escapes = {"\\\\": "\\", '\\"': '"', "\\t": "\t", "\\n": "\n"}
    return re.sub(r'\\(?:[0-9A-F]{2}|.)',
                  lambda each: escapes.get(each[0]) or chr(int(each[0][1:], 16)), found[1])


def assemble(assembler, ptx, chip, path):
    with open(path, "w", encoding="ascii") as file:
        file.write(ptx)
    done = subprocess.run([assembler, f"-arch={chip}", "-v", "-o", os.devnull, path], capture_output=True, text=True)
    return Result(done.returncode, done.stdout, done.stderr)


def needs(report):
    """Entries, the most registers of one, and those that keep values in local memory."""
    registers = [int(number) for number in re.findall(r"Used (\d+) registers", report)]
    local = [name for name, frame in re.findall(r"Function properties for (\w+)\s+(\d+) bytes stack frame", report)
             if int(frame) > 0]
    spilled = sum(int(number) for number in re.findall(r"(\d+) bytes spill stores", report))
    return len(registers), max(registers, default=0), local, spilled


def models(wanted, folder):
    """(what, file, flags) of every compilation."""
    for name, (sizes, training) in ZOO.items():
        if wanted and name not in wanted:
            continue
        path = os.path.join(folder, f"{name}.onnx")
        made = cleave("zoo", name, *(f"--{key}={value}" for key, value in sizes.items()), "-o", path)
        if made.code:
            sys.exit(f"cleave zoo {name}: {made.errors}")
        yield f"{name}, inference", path, []
        if training:
            yield f"{name}, training", path, ["--train", *training, "--optimizer", "adam"]
    shared = os.path.join(os.environ.get("CLEAVE_SHARED", os.path.join(REPOSITORY, "..", "shared")), "models")
    for name in SHARED:
        path = os.path.join(shared, name, "model.onnx")
        if os.path.exists(path) and (not wanted or name in wanted):
            yield f"shared {name}, inference", path, []


def limits(wanted, folder):
    """(what, file, flags) of the compilations at limits."""
    for name, (count, inputs, nodes, join, shape) in LIMITS.items():
        if wanted and name not in wanted:
            continue

        def each(text, separator):
            return separator.join(text.format(i) for i in range(count))

        text = ('<ir_version: 8, opset_import: ["" : 13]>\n'
                f'm ({each(inputs, ", ")}) => (float{shape} y) {{\n  {each(nodes, chr(10))}\n'
                f'  y = {join}({each("t{0}", ", ")})\n}}\n')
        path = os.path.join(folder, f"{name}.onnx")
        onnx.save(onnx.parser.parse_model(text), path)
        yield name, path, []


def main():
    assembler, checks = find_assembler(), Checks()
    with tempfile.TemporaryDirectory() as folder:

        def check(case):
            number, (what, path, flags), (chip, machine) = case
            module = cleave("compile", path, "--machine", machine, "--strategy", "single", *flags, "--emit-ir=codegen",
                            "-o", "-", timeout=600)
            if module.code:
                return f"{what}, {chip}: compiles", module
            ptx = ptx_of(module.output)
            if ptx is None:
                return f"{what}, {chip}: has no kernels of ours", module
            result = assemble(assembler, ptx, chip, os.path.join(folder, f"{number}.ptx"))
            entries, registers, local, spilled = needs(result.errors)
            return (f"{what}, {chip}: {entries} entries, at most {registers} registers, {spilled} bytes spilled, "
                    f"in local memory: {', '.join(local) or 'nothing'}"), result

        cases = [(model, machine) for find in (models, limits) for model in find(sys.argv[1:], folder) for machine in MACHINES.items()]
        for text, result in parallel(check, [(number, *case) for number, case in enumerate(cases)]):
            checks.add(result.code == 0, text, result)
    checks.report()


if __name__ == "__main__":
    main()
