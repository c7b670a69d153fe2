# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Rows of results: kept as JSON after each, and printed as one table or as Markdown.

import json
import os
import statistics
import sys

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Results:
    """What was found so far, in a folder."""

    def __init__(self, folder):
        self.folder, self.rows, self.machine = folder, [], {}
        os.makedirs(folder, exist_ok=True)

    def add(self, part, name, status, detail="", **numbers):
        self.rows.append({"part": part, "name": name, "status": status, "detail": detail, **numbers})
        print(f"gpu-test: {part}: {name}: {status}{': ' + detail if detail else ''}", file=sys.stderr, flush=True)
        self.save()

    def save(self):
        """A reader never sees half a file."""
        for name, text in (("results.json", json.dumps({"version": 1, "machine": self.machine, "rows": self.rows},
                                                       indent=1)), ("results.md", self.markdown())):
            path = os.path.join(self.folder, name)
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(path + ".new", path)

    def count(self, status):
        return sum(row["status"] == status for row in self.rows)

    def summary(self):
        return f"{self.count(PASSED)} passed, {self.count(FAILED)} failed, {self.count(SKIPPED)} skipped"

    #===-- tables -------------------------------------------------------------------------------------------------===#

    def checks(self):
        return [[row["part"], row["name"], row["status"], row["detail"]] for row in self.rows
                if "ours_ms" not in row and "measured_ms" not in row]

    def steps(self):
        """A line a plan, for predictions."""
        return [[row["name"], str(row["devices"]), milliseconds(row["measured_ms"]),
                 f"{sum(row['allocated_bytes']) / 2**20:.1f}"] for row in self.rows if "measured_ms" in row]

    def speeds(self):
        """A line a workload. Ratios are the peer's time by ours: above 1 ours is faster."""
        lines = []
        for row in self.rows:
            if "ours_ms" not in row:
                continue
            eager, compiled = row.get("eager") or {}, row.get("compiled") or {}
            lines.append([row["name"], milliseconds(row["ours_ms"]), milliseconds(eager.get("ms_with_copies")),
                          milliseconds(compiled.get("ms_with_copies")), milliseconds(compiled.get("ms")),
                          ratio(eager.get("ms_with_copies"), row["ours_ms"]),
                          ratio(compiled.get("ms_with_copies"), row["ours_ms"]), percent(row.get("share_of_rate")),
                          milliseconds(row.get("predicted_ms")), str(row.get("rounds", ""))])
        return lines

    SPEED_TITLES = ["step", "ours ms", "eager ms", "compiled ms", "compiled, no copies", "eager / ours",
                    "compiled / ours", "of rate", "predicted ms", "rounds"]
    STEP_TITLES = ["plan", "devices", "step ms", "MiB"]

    def text(self):
        about = "\n".join(f"{key}: {value}" for key, value in self.machine.items())
        parts = [about, aligned(["part", "what", "result", "detail"], self.checks())]
        if self.speeds():
            parts.append(aligned(self.SPEED_TITLES, self.speeds()))
        if self.steps():
            parts.append(aligned(self.STEP_TITLES, self.steps()))
        return "\n\n".join([*parts, self.summary()])

    def markdown(self):
        about = "; ".join(f"{key} {value}" for key, value in self.machine.items())
        parts = [about, markdown(["part", "what", "result", "detail"], self.checks())]
        if self.speeds():
            parts.append(markdown(self.SPEED_TITLES, self.speeds()))
        if self.steps():
            parts.append(markdown(self.STEP_TITLES, self.steps()))
        return "\n\n".join([*parts, self.summary()]) + "\n"


def milliseconds(value):
    return "-" if value is None else f"{value:.3f}"


def percent(value):
    return "-" if value is None else f"{100 * value:.0f} %"


def ratio(theirs, ours):
    return "-" if theirs is None or not ours else f"{theirs / ours:.2f}"


def median(values):
    return statistics.median(values) if values else None


def aligned(titles, lines):
    widths = [max(len(line[i]) for line in [titles, *lines]) for i in range(len(titles))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                     for line in [titles, *lines])


def markdown(titles, lines):
    rows = [titles, ["---"] * len(titles), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def last(output):
    """What a program said last, in a line of a table: its errors if it has some."""
    lines = [line.strip() for line in output.strip().splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return " ".join((errors[-2:] or lines[-1:]))[:300]
