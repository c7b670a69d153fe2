# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Settings of OpenBLAS, which serves the matrix products of Debian's PyTorch.


def settings():
    """Environment variables that must be set before the library is loaded. Debian's release does not know newer
    processors and takes them for ones without AVX-512; told wrongly of it, the process would be killed."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line.split(":")[1].split() for line in file if line.startswith("flags")), [])
    needed = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
    return {"OPENBLAS_CORETYPE": "SKYLAKEX"} if needed <= set(flags) else {}
