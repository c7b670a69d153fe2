# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What this machine's processor can run, as the compiler of C finds it. /proc/cpuinfo may say less: virtual machines
# hide flags whose instructions work.

import subprocess

# What each level of x86-64 adds, from the oldest, by the macros of a compiler that compiles for it.
LEVELS = {
    "x86-64-v2": {"__SSSE3__", "__SSE4_1__", "__SSE4_2__", "__POPCNT__"},
    "x86-64-v3": {"__AVX2__", "__BMI__", "__BMI2__", "__F16C__", "__FMA__", "__LZCNT__", "__MOVBE__"},
    "x86-64-v4": {"__AVX512F__", "__AVX512BW__", "__AVX512CD__", "__AVX512DQ__", "__AVX512VL__"},
}


def host_macros():
    """Names of the macros that are defined for code for this processor."""
    done = subprocess.run(["c++", "-march=native", "-dM", "-E", "-x", "c", "/dev/null"], check=True,
                          capture_output=True, text=True)
    return {line.split()[1] for line in done.stdout.splitlines()}
