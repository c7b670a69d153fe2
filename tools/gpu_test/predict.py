# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Where the compiler is, after the results of a GPU were carried back: what the simulator predicts of each measured plan
# on the machine that was probed there, and by what its kernels took there by themselves, beside what was measured.

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from results import KERNEL_TIMES, aligned, markdown, milliseconds

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TITLES = ["plan", "devices", "predicted ms", "by kernels ms", "measured ms", "error", "by kernels", "memory", "allocated"]


class Failed(Exception):
    """What is missing, or a program answered that could not do its part."""


def read(path, maker):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        raise Failed(f"expected {path}, which {maker} writes, found none") from None


def gpus_of(machine):
    """How many GPUs the probed machine has: a file of one host with one kind of device."""
    found = re.findall(r"\bcount:\s*(\d+)", machine)
    if len(found) != 1:
        raise Failed(f"a machine file of cleave-run --probe-gpu expects one count of devices, got {len(found)}")
    return int(found[0])


def with_gpus(machine, count):
    """The machine file as if the host had so many GPUs."""
    return re.sub(r"\bcount:\s*\d+", f"count: {count}", machine)


def simulate(program, plan, machine, entry, work, kernel_times=None):
    """Seconds of a step, and bytes of each device."""
    report, file = os.path.join(work, "simulated.json"), os.path.join(work, "machine.yaml")
    with open(file, "w", encoding="utf-8") as out:
        out.write(machine)
    done = subprocess.run([program, "simulate", plan, "--machine", file, "--json", report,
                           *(["--entry", entry] if entry else []),
                           *(["--kernel-times", kernel_times] if kernel_times else [])], capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, timeout=600)
    if done.returncode:
        raise Failed(" ".join((done.stderr or done.stdout).strip().splitlines()[-2:]))
    with open(report, encoding="utf-8") as out:
        found = json.load(out)
    return found["predicted_step_seconds"], found["predicted_peak_bytes"]


def compare(case, row, machine, program, folder, work, kernel_times=None):
    """A row of the comparison. Logical devices that share a GPU take longer than GPUs of their own, which is what a
    machine file describes: their time is not compared."""
    gpus, devices = gpus_of(machine), case["devices"]
    plan, described = os.path.join(folder, case["plan"]), with_gpus(machine, max(gpus, devices))
    seconds, predicted_bytes = simulate(program, plan, described, case["entry"], work)
    by_kernels = simulate(program, plan, described, case["entry"], work, kernel_times)[0] if kernel_times else None
    fits = devices <= gpus
    return {"name": case["name"], "model": case["model"], "devices": devices,
            "predicted_ms": 1e3 * seconds if fits else None,
            "by_kernels_ms": 1e3 * by_kernels if fits and by_kernels is not None else None,
            "measured_ms": row["measured_ms"], "predicted_bytes": sum(predicted_bytes), "allocated_bytes": sum(row["allocated_bytes"])}


def error_of(row, key="predicted_ms"):
    return row[key] / row["measured_ms"] - 1


def median_error(rows, key):
    errors = [abs(error_of(row, key)) for row in rows if row.get(key) is not None]
    return statistics.median(errors) if errors else None


def kendall_tau(rows):
    """Of all pairs: how many more the prediction orders as the measurement does than the other way round, as a part of
    them; none without pairs."""
    pairs = [(a, b) for i, a in enumerate(rows) for b in rows[:i]]
    agree = [(a["predicted_ms"] < b["predicted_ms"]) == (a["measured_ms"] < b["measured_ms"]) for a, b in pairs]
    return (2 * sum(agree) - len(agree)) / len(agree) if agree else None


def summary_of(rows):
    timed = [row for row in rows if row["predicted_ms"] is not None]
    return {"plans": len(rows), "timed": len(timed),
            "median_error": median_error(timed, "predicted_ms"),
            "median_error_by_kernels": median_error(timed, "by_kernels_ms"),
            "kendall_tau": kendall_tau(timed),
            "memory_exact": all(row["predicted_bytes"] == row["allocated_bytes"] for row in rows)}


def sentence(summary):
    tau = summary["kendall_tau"]
    return (f"{summary['plans']} plans, {summary['timed']} of them with a GPU for each device: median error of time "
            f"{percent(summary['median_error'], '')}, by kernels {percent(summary['median_error_by_kernels'], '')}, "
            f"Kendall's tau {'-' if tau is None else f'{tau:.2f}'}, memory {'exact' if summary['memory_exact'] else 'not exact'}.")


def percent(value, sign="+"):
    return "-" if value is None else f"{100 * value:{sign}.1f} %"


def line_of(row):
    difference = row["allocated_bytes"] - row["predicted_bytes"]
    errors = [percent(None if row.get(key) is None else error_of(row, key)) for key in ("predicted_ms", "by_kernels_ms")]
    return [row["name"], str(row["devices"]), milliseconds(row["predicted_ms"]), milliseconds(row.get("by_kernels_ms")),
            milliseconds(row["measured_ms"]), *errors,
            f"{row['predicted_bytes'] / 2**20:.1f} MiB", "equal" if difference == 0 else f"{difference:+d} B"]


def predictions(folder, output, program):
    """The rows, and what could not be predicted."""
    cases = {case["name"]: case for case in
             json.loads(read(os.path.join(folder, "cases.json"), "tools/gpu-test prepare"))["cases"]}
    measured = json.loads(read(os.path.join(output, "results.json"), "tools/gpu-test run"))["rows"]
    machine = read(os.path.join(output, "machine.yaml"), "tools/gpu-test run")
    rows, failures, kernel_times = [], [], os.path.join(output, KERNEL_TIMES)
    timed = {row["name"] for row in measured if row["part"] == "kernels" and row["status"] == "passed"}
    with tempfile.TemporaryDirectory() as work:
        for row in measured:
            if row["part"] != "steps" or "measured_ms" not in row or row["name"] not in cases:
                continue
            try:
                rows.append(compare(cases[row["name"]], row, machine, program, folder, work,
                                    kernel_times if row["name"] in timed else None))
            except Failed as failure:
                failures.append(f"{row['name']}: {failure}")
    return rows, failures


def predict(folder, output):
    """Prints the comparison and keeps it beside the results; the exit code."""
    output = output or os.path.join(folder, "results")
    program = os.path.join(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")), "cleave")
    try:
        if not os.access(program, os.X_OK):
            raise Failed(f"expected a program at {program}, found none; build first")
        rows, failures = predictions(folder, output, program)
    except Failed as failure:
        print(f"gpu-test: error: {failure}", file=sys.stderr)
        return 1
    for failure in failures:
        print(f"gpu-test: {failure}", file=sys.stderr)
    if not rows:
        print(f"gpu-test: error: {output} expects measured steps of plans, got none", file=sys.stderr)
        return 1
    summary, lines = summary_of(rows), [line_of(row) for row in rows]
    with open(os.path.join(output, "predictions.json"), "w", encoding="utf-8") as file:
        json.dump({"version": 1, **summary, "predictions": rows}, file, indent=1)
    with open(os.path.join(output, "predictions.md"), "w", encoding="utf-8") as file:
        file.write(f"{sentence(summary)}\n\n{markdown(TITLES, lines)}\n")
    print(f"{aligned(TITLES, lines)}\n\n{sentence(summary)}")
    return 1 if failures else 0
