# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compilations of the same model, for the same machine, write the same bytes, plan and weights: without the cache of
# kernels, with an empty one, with one that has all kernels, with one whose files are damaged, and where it cannot be
# written.

import filecmp
import os
import tempfile

from cleave_process import Checks, Result, cleave, report


def compile_model(model, plan, flags, cache):
    """One compilation with the cache of kernels at `cache`; ends the test where it fails."""
    os.makedirs(os.path.dirname(plan), exist_ok=True)
    os.environ["CLEAVE_KERNEL_CACHE"] = cache
    result = cleave("compile", model, *flags, "-o", plan, alone=True)
    if result.code != 0:
        report([(f"compile {os.path.basename(model)} {' '.join(flags)}, kernels in {cache}", result)], 0)
    return result


def difference(first, second):
    """What the files of two plans do not share, or None."""
    for suffix in ("", ".weights"):
        if os.path.exists(first + suffix) != os.path.exists(second + suffix):
            return f"one of them has no file model.plan{suffix}"
        if os.path.exists(first + suffix) and not filecmp.cmp(first + suffix, second + suffix, shallow=False):
            return f"model.plan{suffix} has other bytes"
    return None


def kernels(cache):
    return sorted(os.path.join(cache, name) for name in os.listdir(cache) if name.startswith("llvmcache-"))


def damage(cache):
    """Every file of kernels cut or changed in one byte, by turns."""
    for index, name in enumerate(kernels(cache)):
        size = os.path.getsize(name)
        with open(name, "r+b") as file:
            if index % 2:
                file.truncate(size - 1)
            else:
                file.seek(size // 2)
                byte = file.read(1)[0]
                file.seek(size // 2)
                file.write(bytes([byte ^ 1]))


def check_model(checks, model, folder, flags):
    subject = f"{os.path.basename(model)} {' '.join(flags)}"
    cache = os.path.join(folder, "kernels")
    no_folder = os.path.join(folder, "file")
    with open(no_folder, "w", encoding="utf-8"):
        pass
    plan = lambda name: os.path.join(folder, name, "model.plan")
    compile_model(model, plan("without"), flags, "off")
    # Which files there are: kernels that are compiled again have new ones.
    files = lambda: {os.path.basename(path): os.stat(path).st_ino for path in kernels(cache)}
    kept = {}
    for name, where in (("empty", cache), ("whole", cache), ("damaged", cache), ("not a folder", no_folder)):
        if name == "damaged":
            damage(cache)
        result = compile_model(model, plan(name), flags, where)
        different = difference(plan("without"), plan(name))
        checks.add(not different, f"{subject}: cache {name}: {different or 'the same plan'}", result)
        if name == "empty":
            kept = files()
            checks.add(kept, f"{subject}: {len(kept)} kernels are kept", result)
        elif name == "whole":
            checks.add(files() == kept, f"{subject}: none of them is compiled again", result)
        elif name == "damaged":
            checks.add(files().keys() == kept.keys() and not files().items() & kept.items(),
                       f"{subject}: all of them are compiled again", result)
    others = set(os.listdir(cache)) - kept.keys() - {"llvmcache.timestamp"}
    checks.add(not others, f"{subject}: nothing else is left in the cache: {sorted(others)[:3]}", result)


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("lenet", "inception"):
            model = os.path.join(folder, f"{name}.onnx")
            result = cleave("zoo", name, "--weights", "-o", model)
            if result.code != 0:
                report([(f"zoo {name}", result)], checks.passed)
            # Threads compile the kernels: alternating over two devices gives them the most to do out of order.
            for flags in (["--machine", "host:1x1"], ["--machine", "host:2x1", "--strategy", "alternate"]):
                with tempfile.TemporaryDirectory() as case:
                    check_model(checks, model, case, flags)
    checks.report()


if __name__ == "__main__":
    main()
