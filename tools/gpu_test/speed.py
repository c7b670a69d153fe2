# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Steps of plans beside PyTorch's, in turns.

import json
import os
import time

from agreement import diagnose, what_failed
from processes import NoTime
from results import FAILED, PASSED, SKIPPED, VARIANTS, lacks_memory, median

ROUNDS = 3
# Seconds: since PyTorch's processes were started until they are ready, and at least from now; for those that have to be
# started again; for all rounds but the first; for one answer of PyTorch; for a program of ours, which also draws a hundred
# million weights and tries algorithms.
WARM_UP, LEAST_WARM_UP, AGAIN, ALL_ROUNDS, ONE, OURS = 240, 60, 45, 130, 30, 75


def work_of(case):
    """What its entry computes, as PyTorch's side calls it."""
    return "train" if case["entry"] == "train" else "inference"


class Speed:
    """Measures on what a Run has built and started."""

    def __init__(self, run):
        self.run = run
        self.found = {}

    def measure(self, workloads):
        """A round of all workloads, then the next, until the time is over. Each row is known after its first round, and
        better after the next. The cases of ours that found too little memory are returned."""
        self.make_ready()
        until, reserved = time.monotonic() + ALL_ROUNDS, 20 + self.run.reserved("speed")
        for turn in range(ROUNDS):
            for case in workloads:
                if self.run.left() > reserved and (turn == 0 or time.monotonic() < until):
                    self.attempt(case, self.measure_round)
                elif turn == 0:
                    self.attempt(case, self.leave_out)
        return [case for case in workloads if not self.of(case)["ours"] and
                any(map(lacks_memory, self.of(case)["errors"]))]

    def measure_alone(self, workloads):
        """Ours once more, when the others' memory is free."""
        for case in workloads:
            self.of(case)["errors"] = ["while PyTorch held memory: " + error for error in self.of(case)["errors"][:1]]
            for _ in range(ROUNDS):
                self.attempt(case, self.measure_ours)

    def diagnose(self, workloads):
        """What failed, in the driver's other ways."""
        for case in workloads:
            found = self.of(case)
            if self.run.left() < self.run.reserved("speed"):
                break
            if not found["ours"] and found["errors"] and not found["errors"][-1].startswith("no time"):
                said = diagnose(found["errors"][-1], lambda environment, case=case: self.try_ours(case, environment))
                found["errors"].append(said.strip("; "))
                self.add(case)

    def of(self, case):
        return self.found.setdefault(case["name"], {"ours": [], **{variant: [] for variant in VARIANTS}, "errors": []})

    def make_ready(self):
        """Waits for PyTorch's processes. One that is still busy would disturb: it begins again with what it has ready."""
        until = max(self.run.peers_began + WARM_UP, time.monotonic() + LEAST_WARM_UP)
        until = min(until, self.latest())
        late = [peer for peer in self.run.peers.values() if not peer.wait_until_ready(until)]
        late = [peer for peer in late if peer.begin_again()]
        until = min(time.monotonic() + AGAIN, self.latest())
        for peer in late:
            if not peer.wait_until_ready(until):
                peer.stop()

    def latest(self):
        """When rounds have to begin."""
        return time.monotonic() + self.run.left() - ALL_ROUNDS - self.run.reserved("speed")

    def attempt(self, case, measuring):
        """A row of what is known by now, whatever happens."""
        try:
            measuring(case)
        except NoTime as reason:
            self.of(case)["errors"].append(str(reason))
        except Exception as error:
            self.of(case)["errors"].append(f"gpu-test itself: {type(error).__name__}: {error}")
        self.add(case)

    def leave_out(self, case):
        raise NoTime

    def measure_round(self, case):
        self.measure_ours(case)
        found, work = self.of(case), work_of(case)
        peer = self.run.peers.get((case["model"], case["precision"]))
        if not peer:
            return
        found["errors"] += [f"PyTorch, {variant}: {error}" for (its, variant), error in peer.errors.items()
                            if its in (None, work)]
        for variant in VARIANTS if peer.ready else ():
            if (work, variant) not in peer.warm:
                continue
            answer = peer.measure(work, variant, max(5, self.steps_of(found) // 2), max(1, min(ONE, self.run.left())))
            if answer.get("ms") is not None:
                found[variant].append(answer)
            else:
                found["errors"].append(f"PyTorch, {variant}: {answer.get('error')}")

    @staticmethod
    def steps_of(found):
        return 20 if not found["ours"] else max(10, min(100, int(1500 / max(found["ours"][0], 1e-3))))

    def run_ours(self, case, steps, environment):
        report = os.path.join(self.run.work, "speed.json")
        return report, *self.run.cleave_run(os.path.join(self.run.folder, case["plan"]), *self.run.entry(case), "--repeat",
                                            steps, "--json", report, limit=OURS, environment=environment)

    def measure_ours(self, case):
        found = self.of(case)
        report, code, output = self.run_ours(case, self.steps_of(found), {})
        if code != 0:
            found["errors"].append(what_failed(code, output))
            return
        with open(report, encoding="utf-8") as file:
            found["ours"].append(float(json.load(file)["latency_ms"]["median"]))

    def try_ours(self, case, environment):
        _, code, output = self.run_ours(case, 3, environment)
        return (PASSED, "") if code == 0 else (FAILED, what_failed(code, output))

    def add(self, case):
        found = self.of(case)
        row = {key: {name: median([answer[name] for answer in found[key]]) for name in ("ms", "ms_with_copies")}
               for key in VARIANTS if found[key]}
        ours, rate = median(found["ours"]), self.run.rates.get(case["precision"] + "_flops_per_second")
        if ours is not None:
            row["ours_ms"] = ours
            if rate and case.get("flops"):
                row["share_of_rate"] = case["flops"] / (ours / 1e3) / rate
        if case.get("predicted_seconds"):
            row["predicted_ms"] = 1e3 * case["predicted_seconds"]
        errors = list(dict.fromkeys(error for error in found["errors"] if error))
        skipped = ours is None and errors and all(error.startswith("no time") for error in errors)
        self.run.results.add("speed", case["name"], PASSED if ours is not None else SKIPPED if skipped else FAILED,
                             "; ".join(errors), rounds=len(found["ours"]), all=found, **row)
