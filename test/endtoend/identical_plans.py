# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Two compilations of the same model, for the same machine, write the same bytes: plan and weights.

import filecmp
import os
import tempfile

from cleave_process import Result, cleave, report


def compile_twice(model, folder, flags):
    """The first result that is not a success, or one that names the file that differs, or None."""
    plans = [os.path.join(folder, f"{number}", "model.plan") for number in (1, 2)]
    for plan in plans:
        os.makedirs(os.path.dirname(plan), exist_ok=True)
        result = cleave("compile", model, *flags, "-o", plan)
        if result.code != 0:
            return result
    for suffix in ("", ".weights"):
        first, second = plans[0] + suffix, plans[1] + suffix
        if os.path.exists(first) != os.path.exists(second):
            return Result(0, "", f"expected both compilations to write model.plan{suffix}, one did")
        if os.path.exists(first) and not filecmp.cmp(first, second, shallow=False):
            return Result(0, "", f"expected model.plan{suffix} to be the same twice, got different bytes")
    return None


def main():
    failures, passed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("lenet", "inception"):
            model = os.path.join(folder, f"{name}.onnx")
            result = cleave("zoo", name, "--weights", "-o", model)
            if result.code != 0:
                report([(f"zoo {name}", result)], passed)
            # Threads compile the kernels: alternating over two devices gives them the most to do out of order.
            for flags in (["--machine", "host:1x1"], ["--machine", "host:2x1", "--strategy", "alternate"]):
                different = compile_twice(model, folder, flags)
                if different:
                    failures.append((f"{name} {' '.join(flags)}", different))
                else:
                    passed += 1
    report(failures, passed)


if __name__ == "__main__":
    main()
