# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Steps of plans beside PyTorch's, in turns.

import json
import os
import time

from results import FAILED, PASSED, last, median

ROUNDS = 3
# Seconds: until PyTorch's processes are ready, for all rounds, for one program or answer.
WARM_UP, ALL_ROUNDS, ONE = 60, 130, 30


def work_of(case):
    """What its entry computes, as PyTorch's side calls it."""
    return "train" if case["entry"] == "train" else "inference"


class Speed:
    """Measures on what a Run has built and started."""

    def __init__(self, run):
        self.run = run

    def measure(self, workloads):
        """A round of all workloads, then the next, until the time is over; the first one is complete."""
        limit = time.monotonic() + WARM_UP
        for peer in self.run.peers.values():
            peer.wait_until_ready(lambda: min(limit - time.monotonic(), self.run.left()))
        found = {case["name"]: {"ours": [], "eager": [], "compiled": [], "errors": []} for case in workloads}
        until = time.monotonic() + ALL_ROUNDS
        for turn in range(ROUNDS):
            for case in workloads:
                if self.run.left() > 20 and (turn == 0 or time.monotonic() < until):
                    self.measure_round(case, found[case["name"]])
        for case in workloads:
            self.add(case, found[case["name"]])

    def measure_round(self, case, found):
        report = os.path.join(self.run.build, "speed.json")
        steps = 20 if not found["ours"] else max(10, min(100, int(1500 / found["ours"][0])))
        flags = ["--entry", case["entry"]] if case["entry"] else []
        code, output = self.run.cleave_run(os.path.join(self.run.folder, case["plan"]), *flags, "--repeat", steps,
                                           "--json", report, limit=ONE)
        if code == 0:
            with open(report, encoding="utf-8") as file:
                found["ours"].append(json.load(file)["latency_ms"]["median"])
        else:
            found["errors"].append(last(output))
        peer, work = self.run.peers.get((case["model"], case["precision"])), work_of(case)
        for variant in (peer.ready or {}).get("variants", []) if peer else []:
            answer = peer.measure(work, variant, max(5, steps // 2), min(ONE, self.run.left()))
            if "ms" in answer:
                found[variant].append(answer)
            else:
                found["errors"].append(f"PyTorch, {variant}: {answer.get('error')}")

    def add(self, case, found):
        row = {key: {name: median([answer[name] for answer in found[key]]) for name in ("ms", "ms_with_copies")}
               for key in ("eager", "compiled") if found[key]}
        ours, rate = median(found["ours"]), self.run.rates.get(case["precision"] + "_flops_per_second")
        if ours is not None:
            row["ours_ms"] = ours
            if rate and case.get("flops"):
                row["share_of_rate"] = case["flops"] / (ours / 1e3) / rate
        if case.get("predicted_seconds"):
            row["predicted_ms"] = 1e3 * case["predicted_seconds"]
        self.run.results.add("speed", case["name"], PASSED if ours is not None else FAILED,
                             "; ".join(dict.fromkeys(found["errors"])), rounds=len(found["ours"]), all=found, **row)
