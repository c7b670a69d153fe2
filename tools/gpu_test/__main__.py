# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The command line of tools/gpu-test.

import argparse
import sys

import predict
import prepare
import run


def parts(text):
    """Names by commas, in any order."""
    names = text.split(",")
    for name in names:
        if name not in run.PARTS:
            raise argparse.ArgumentTypeError(f"expected some of {','.join(run.PARTS)}, got {name!r}")
    return names


def main():
    parser = argparse.ArgumentParser(
        prog="tools/gpu-test", description="Tests the runtime on GPUs with plans that were compiled elsewhere.",
        epilog="On the compiler's machine: tools/gpu-test prepare FOLDER. On the machine with GPUs, in a copy of the "
        "repository: tools/gpu-test run FOLDER. Then, with the results, where the compiler is: tools/gpu-test predict "
        "FOLDER.")
    commands = parser.add_subparsers(dest="command")
    preparing = commands.add_parser("prepare", help="compile plans for GPUs, and compute what they must give")
    preparing.add_argument("folder")
    preparing.add_argument("--machine", default="cuda:h100", help="the devices, without their number")
    preparing.add_argument("--quick", action="store_true", help="a few small plans")
    preparing.add_argument("--only", action="append", default=[], metavar="TEXT", help="cases with this in their names")
    running = commands.add_parser("run", help="build the runtime, run everything within 8 minutes, print a table")
    running.add_argument("folder")
    running.add_argument("-o", "--output", help="where results.json, results.md, machine.yaml and logs.tgz go; default: "
                         "FOLDER/results")
    running.add_argument("--parts", type=parts, default=list(run.PARTS), metavar="PART,...",
                         help=f"only these, what other runs with this --build have found is kept: {','.join(run.PARTS)}")
    running.add_argument("--build", default="build-gpu", help="where the runtime is built")
    running.add_argument("--program", metavar="FILE",
                         help="compare what this cleave-run gives, and nothing else: no build, no measurements")
    running.add_argument("-j", "--jobs", help="how many processes build it")
    running.add_argument("--seconds", type=float, default=470, help="when all of it ends (default: %(default)s)")
    running.add_argument("--no-peers", action="store_true", help="measure without PyTorch")
    running.add_argument("--carried-only", action="store_true",
                         help="build from the headers in the folder even where the system has its own, to test them")
    predicting = commands.add_parser("predict", help="compare what run has measured with what the simulator predicts")
    predicting.add_argument("folder", help="that of prepare")
    predicting.add_argument("-o", "--output", help="the results of run; default: FOLDER/results")
    options = parser.parse_args()
    if not options.command:
        parser.print_help()
        return 0
    if options.command == "prepare":
        return prepare.prepare(options.folder, options.machine, options.quick, options.only)
    if options.command == "predict":
        return predict.predict(options.folder, options.output)
    return run.run(options)


if __name__ == "__main__":
    sys.exit(main())
