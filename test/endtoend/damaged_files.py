# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models and plans that were cut off or had bytes changed: Cleave answers with an exit code, never with a crash, a hang
# or a guess. The damage is drawn with a fixed seed.

import os
import random
import tempfile

from cleave_process import DONE, REJECTED, UNSUPPORTED, Result, cleave, parallel, report



def damaged(data, seed, cuts, flips):
    """(what, bytes, is it cut off): prefixes of the file and copies with one to four bytes changed."""
    generator = random.Random(seed)
    for length in sorted({0, 1, 7, len(data) - 1} | {generator.randrange(len(data)) for _ in range(cuts)}):
        yield f"cut to {length} bytes", data[:length], True
    for number in range(flips):
        changed = bytearray(data)
        positions = [generator.randrange(len(data)) for _ in range(generator.randint(1, 4))]
        for position in positions:
            changed[position] = generator.randrange(256)
        yield f"bytes {positions} changed (copy {number})", bytes(changed), False


def check_all(folder, kind, data, seed, cuts, flips, command, allowed, allowed_cut):
    """Runs `command(path)` on every damaged copy; returns the failures and how many were as they must be."""
    def check(item):
        number, (what, content, cut) = item
        path = os.path.join(folder, f"{seed}-{number}{kind}")
        with open(path, "wb") as file:
            file.write(content)
        result = command(path)
        os.remove(path)
        codes = allowed_cut if cut else allowed
        if result.code not in codes:
            return f"{kind} {what}: expected an exit code of {sorted(codes)}", result
        if result.code != DONE and "error" not in result.errors:
            return f"{kind} {what}: expected a message", result
        return None
    answers = parallel(check, list(enumerate(damaged(data, seed, cuts, flips))))
    return [answer for answer in answers if answer], sum(answer is None for answer in answers)


def main():
    failures, passed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        model, plan = os.path.join(folder, "mlp.onnx"), os.path.join(folder, "mlp.plan")
        # Small, so that the changes hit structure and not only weights.
        for step in (("zoo", "mlp", "--layers", "2", "--hidden", "8", "--weights", "-o", model),
                     ("compile", model, "--machine", "host:2x1", "--strategy", "alternate", "-o", plan)):
            result = cleave(*step)
            if result.code != 0:
                report([(" ".join(step[:2]), result)], passed)
        with open(model, "rb") as file:
            model_bytes = file.read()
        with open(plan, "rb") as file:
            plan_bytes = file.read()
        # A model that is cut off can be valid by chance only at a message's end, where what follows was optional.
        rounds = [
            (".onnx", model_bytes, 1, 40, 200, lambda path: cleave("check", path, timeout=20),
             {DONE, UNSUPPORTED, REJECTED}, {UNSUPPORTED, REJECTED, DONE}),
            # A plan states its own size: whatever was cut off must be missed.
            (".plan", plan_bytes, 2, 40, 200, lambda path: cleave("verify", path, timeout=20),
             {DONE, REJECTED}, {REJECTED}),
            # What loads must run, or be refused: the code in the plan is checked before it is called. A changed plan
            # may also ask for a file (1), a library (3) or a processor (5) that does not exist.
            (".plan", plan_bytes, 3, 10, 100,
             lambda path: cleave(path, timeout=20, name="cleave-run"),
             {DONE, 1, UNSUPPORTED, REJECTED, 5}, {REJECTED}),
        ]
        for kind, data, seed, cuts, flips, command, allowed, allowed_cut in rounds:
            bad, good = check_all(folder, kind, data, seed, cuts, flips, command, allowed, allowed_cut)
            failures += bad
            passed += good
        # No file, and a folder where a file is expected.
        for path in (os.path.join(folder, "absent.onnx"), folder):
            result = cleave("check", path)
            if result.code not in (1, REJECTED) or "error" not in result.errors:
                failures.append((path, Result(result.code, "", result.errors or "expected a message")))
            else:
                passed += 1
    report(failures, passed)


if __name__ == "__main__":
    main()
