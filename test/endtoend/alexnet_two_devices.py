# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# AlexNet as `cleave zoo` writes it, with weights: placed on two devices by the example's placement file, it must give
# what one device gives. What tools/demo shows, as a test.

import os
import tempfile

from cleave_process import REPOSITORY, cleave, report


def main():
    placement = os.path.join(REPOSITORY, "examples", "alexnet.place.yaml")
    with tempfile.TemporaryDirectory() as folder:
        model, plan, one = (os.path.join(folder, name) for name in ("alexnet.onnx", "alexnet.plan", "one.npy"))
        steps = [
            ("zoo", "alexnet", "--weights", "-o", model),
            ("run", model, "--machine", "host:1x1", "--output", f"@0={one}"),
            ("compile", model, "--machine", "host:2x1", "--place", placement, "-o", plan),
            ("verify", plan),
            # The same generated input as above: it depends on the input's name and shape alone. Tolerance: the order in
            # which sums are taken may differ between kernels of different plans.
            ("run", plan, "--expect", f"@0={one}", "--rtol", "1e-4", "--atol", "1e-6"),
        ]
        for done, step in enumerate(steps):
            result = cleave(*step)
            if result.code != 0:
                report([(" ".join(step[:2]), result)], done)
    report([], len(steps))


if __name__ == "__main__":
    main()
