# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How lit runs the tests below this folder. lit.site.cfg.py, in the build folder, says where things are.

import os
import shutil
import subprocess
import sys

import lit.formats

sys.path.insert(0, os.path.dirname(__file__))
from host_processor import LEVELS, host_macros

config.name = "cleave"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test", ".onnxtxt"]
config.excludes = ["Inputs", "lit.cfg.py", "lit.site.cfg.py"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.cleave_build, "test")

# The project's programs and FileCheck by their plain names.
config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.cleave_build, "bin"), config.llvm_tools, config.environment.get("PATH", "")]
)
# As programs that compute set it themselves, by starting a second time.
config.environment["GOMP_SPINCOUNT"] = "10000"
# As tools/test says.
config.environment["OPENBLAS_NUM_THREADS"] = "1"

# Diagnostics and dumps without colour.
config.environment["NO_COLOR"] = "1"
# Tables are as wide as their lines elsewhere, and as a page here.
config.environment["COLUMNS"] = "100"

# Faults that tools/mutate plants are chosen by these; lit hands on no variable by itself.
for variable in ("CLEAVE_FAULT", "CLEAVE_FAULTS_REACHED"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

# What a probe has measured on this machine does not change what tests see.
config.environment["CLEAVE_CACHE"] = os.path.join(config.cleave_build, "test", "no-cache")
# As test/CMakeLists.txt has it for tests that ctest starts.
config.environment["CLEAVE_KERNEL_CACHE"] = os.path.join(config.cleave_build, "test", "kernels")

# Programs that this build has: `REQUIRES: cleave-run` in tests of those that may be missing.
programs = os.path.join(config.cleave_build, "bin")
if os.path.isdir(programs):
    for program in sorted(os.listdir(programs)):
        config.available_features.add(program)

# PyTorch, for the Python that `cleave bench --against torch` takes: `REQUIRES: torch`.
python = os.environ.get("CLEAVE_PYTHON") or ("/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3")
if subprocess.run([python, "-c", "import onnx, torch"], capture_output=True, check=False).returncode == 0:
    config.available_features.add("torch")
# Models that tests make: `REQUIRES: onnx`, and `%python` runs what makes them.
config.substitutions.append(("%python", python))
if subprocess.run([python, "-c", "import numpy, onnx"], capture_output=True, check=False).returncode == 0:
    config.available_features.add("onnx")

if len(os.sched_getaffinity(0)) > 1:
    config.available_features.add("two-cores")

# What starts several processes: `REQUIRES: mpirun`.
if shutil.which("mpirun"):
    config.available_features.add("mpirun")

# What this machine's processor can run, by the levels of x86-64: `%if x86-64-v4 %{ … %}`.
macros = host_macros()
for level, needed in LEVELS.items():
    if needed <= macros:
        config.available_features.add(level)

# Models and reference outputs that lie beside the repository: `REQUIRES: shared`, `%shared`.
shared = os.environ.get("CLEAVE_SHARED") or os.path.join(config.cleave_source, "..", "shared")
if os.path.isdir(os.path.join(shared, "models")):
    config.available_features.add("shared")
config.substitutions.append(("%shared", os.path.realpath(shared)))
