# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Outputs, losses and parameters of plans beside the expected ones; and what becomes of a plan that fails when the driver
# works in other ways.

import concurrent.futures
import json
import math
import os
import time

import tensors
from processes import NoTime, ended
from results import FAILED, PASSED, SKIPPED, lacks_memory, last

# Ways of the driver that tell kinds of errors apart: whether each command is waited for, and whether steps are replayed.
WAYS = ({"CLEAVE_CUDA_SYNC": "1"}, {"CLEAVE_CUDA_GRAPHS": "0"})
# Of how many plans: what makes many fail shows in a few.
DIAGNOSED = 8


class Agreement:
    def __init__(self, run):
        self.run = run

    def compare_all(self, cases, limit):
        """Adds a row for each case as soon as it is known; the cases that found too little memory, for another time."""
        self.until = time.monotonic() + limit
        # Several at a time: what a program loads takes longer than what it computes, and nothing is measured here.
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            rows = list(pool.map(self.add, cases))
        failed = [case for case, (status, detail) in zip(cases, rows) if status == FAILED and not lacks_memory(detail)]
        for case in failed[:DIAGNOSED]:
            _, detail = rows[cases.index(case)]
            said = diagnose(detail, lambda environment, case=case: self.attempt(case, environment))
            self.run.results.add(case["purpose"], case["name"], FAILED, detail + said)
        return [case for case, (status, detail) in zip(cases, rows) if status == FAILED and lacks_memory(detail)]

    def add(self, case):
        try:
            status, detail = self.attempt(case)
        except NoTime as reason:
            status, detail = SKIPPED, str(reason)
        self.run.results.add(case["purpose"], case["name"], status, detail)
        return status, detail

    def attempt(self, case, environment=None):
        """The status and detail of a case; what is foreseen by nobody is a failure like others."""
        if time.monotonic() > self.until:
            raise NoTime
        try:
            compare = self.compare_training if case["purpose"] == "training" else self.compare_outputs
            return compare(case, environment or {})
        except NoTime:
            raise
        except Exception as error:
            return FAILED, f"gpu-test itself: {type(error).__name__}: {error}"

    def files(self, flag, bindings):
        return [word for port, name in bindings.items()
                for word in (flag, f"{port}={os.path.join(self.run.folder, name)}")]

    def compare_outputs(self, case, environment):
        # The second step and those after it are replayed, so that one step would not be enough.
        code, output = self.run.cleave_run(os.path.join(self.run.folder, case["plan"]), "--repeat", 3,
                                           *self.files("--input", case.get("inputs", {})),
                                           *self.files("--expect", case["expects"]), "--rtol", case["rtol"], "--atol",
                                           case["atol"], limit=self.run.limit("plan"), environment=environment)
        return (PASSED, last(output)) if code == 0 else (FAILED, what_failed(code, output))

    def compare_training(self, case, environment):
        name = "-".join([case["name"], *environment])
        report, export = (os.path.join(self.run.work, name + suffix) for suffix in (".json", ".npz"))
        code, output = self.run.cleave_run("train", os.path.join(self.run.folder, case["plan"]),
                                           *self.files("--data", case["data"]), "--steps", case["steps"], "--epochs", 100,
                                           "--seed", 1, "--export", export, "--json", report, "--json-steps",
                                           limit=self.run.limit("plan"), environment=environment)
        if code != 0:
            return FAILED, what_failed(code, output)
        with open(report, encoding="utf-8") as file:
            losses = [step["loss"] for step in json.load(file)["steps"]]
        wanted = case["losses"]
        expected = tensors.read_npz(os.path.join(self.run.folder, case["parameters"]))
        found = tensors.read_npz(export)
        if len(losses) != len(wanted) or not set(expected) <= set(found):
            return FAILED, f"expected {len(wanted)} losses and {len(expected)} parameters, got {len(losses)} and {len(found)}"
        tolerances = {name: tolerance for name, tolerance in case["parameter_tolerances"].items() if name in expected}
        return compare_steps(losses, wanted, case["loss_tolerance"], found, expected, tolerances)


def what_failed(code, output):
    """A program that was ended by a signal has hardly said so."""
    return f"{ended(code)}: {last(output)}" if code is not None and code < 0 else last(output) or ended(code)


def diagnose(failure, again):
    """For the row of a plan that failed so: what `again` gives with each of WAYS."""
    said = ""
    for environment in WAYS:
        name = " ".join(f"{key}={value}" for key, value in environment.items())
        try:
            status, detail = again(environment)
        except NoTime:
            break
        said += f"; with {name}: " + (status if status != FAILED else "the same" if detail == failure else
                                      f"{status}, {detail}")
    return said


def compare_steps(losses, wanted, loss_tolerance, found, expected, tolerances):
    """Whether losses and parameters are near enough to the expected ones, and how near. JSON has no NaN: a loss that is no
    number comes as none."""
    error = max((distance(a, b) for a, b in zip(losses, wanted)), default=math.inf)
    worst, tensor = max((tensors.difference(found[name], expected[name]) / tolerances[name], name)
                        for name in tolerances)
    fine = error <= loss_tolerance and worst <= 1
    return (PASSED if fine else FAILED), (f"losses to {error:.1e} of {loss_tolerance:.1e}, parameters to {worst:.2f} of "
                                          f"what rounding may change ({tensor})")


def distance(found, wanted):
    """Of two numbers, in parts of the wanted one; infinite where one is none."""
    if found is None or wanted is None or not math.isfinite(found):
        return math.inf
    return abs(found - wanted) / max(abs(wanted), 1e-30)
