# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Rows of results: kept as JSON after each, and printed as tables or as Markdown. All of it is a few files, of which
# each is whole at any time.

import json
import os
import re
import shutil
import statistics
import sys
import tarfile
import threading

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# What each kernel takes, as cleave-run --kernel-times keeps it.
KERNEL_TIMES = "kernels.profile"
# Bytes of a log that are kept, its last ones, and characters that are printed at the end.
MOST_OF_A_LOG, MOST_PRINTED = 1 << 20, 11000


class Results:
    """What was found so far, in a folder. With `work`, which stays where the runtime is built, what earlier runs of other
    parts have found is there as well; logs lie in it, too."""

    def __init__(self, folder, work=None):
        self.folder, self.work, self.rows, self.machine, self.seconds = folder, work, [], {}, {}
        self.lock = threading.RLock()
        for made in (folder, *([os.path.join(work, "logs")] if work else [])):
            os.makedirs(made, exist_ok=True)

    def restore(self, parts):
        """Takes up what is kept, but for the rows of these parts, which are to be found anew."""
        try:
            with open(os.path.join(self.work, "results.json"), encoding="utf-8") as file:
                kept = json.load(file)
        except (OSError, ValueError):
            return
        self.rows = [row for row in kept["rows"] if row["part"] not in parts]
        self.machine, self.seconds = kept["machine"], kept.get("seconds", {})

    def forget(self):
        """Removes what runs before this one have left."""
        logs = os.path.join(self.work, "logs")
        for path in (*(os.path.join(logs, name) for name in os.listdir(logs)), os.path.join(self.work, "machine.yaml"),
                     self.kernel_times()):
            if os.path.exists(path):
                os.remove(path)

    def add(self, part, name, status, detail="", **numbers):
        """A row, in the place of that of the same part and name if there is one."""
        row = {"part": part, "name": name, "status": status, "detail": detail, **numbers}
        with self.lock:
            at = next((i for i, other in enumerate(self.rows) if (other["part"], other["name"]) == (part, name)), None)
            if at is None:
                self.rows.append(row)
            else:
                self.rows[at] = row
            print(f"gpu-test: {part}: {name}: {status}{': ' + clipped(detail, 300) if detail else ''}", file=sys.stderr,
                  flush=True)
            self.save()

    def find(self, part, name):
        return next((row for row in self.rows if (row["part"], row["name"]) == (part, name)), None)

    def save(self):
        with self.lock:
            # Other threads learn of the machine meanwhile.
            whole = json.dumps({"version": 1, "machine": dict(self.machine), "seconds": dict(self.seconds),
                                "rows": self.rows}, indent=1)
            replace(os.path.join(self.folder, "results.json"), whole)
            replace(os.path.join(self.folder, "results.md"), self.markdown())
            if self.work:
                replace(os.path.join(self.work, "results.json"), whole)

    def log(self, name, text):
        with open(self.log_path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def log_path(self, name):
        return os.path.join(self.work or self.folder, "logs", name)

    def kernel_times(self):
        return os.path.join(self.work, KERNEL_TIMES)

    def pack(self):
        """The machine file, what kernels take, and the logs beside the results, as one file."""
        logs = os.path.join(self.work, "logs")
        for name in ("machine.yaml", KERNEL_TIMES):
            if os.path.exists(os.path.join(self.work, name)):
                shutil.copyfile(os.path.join(self.work, name), os.path.join(self.folder, name))
        path = os.path.join(self.folder, "logs.tgz")
        with tarfile.open(path + ".new", "w:gz") as archive:
            for name in sorted(os.listdir(logs)):
                with open(os.path.join(logs, name), "rb") as file:
                    about = tarfile.TarInfo(name)
                    length = file.seek(0, os.SEEK_END)
                    about.size = min(length, MOST_OF_A_LOG)
                    file.seek(length - about.size)
                    archive.addfile(about, file)
        os.replace(path + ".new", path)

    def count(self, status):
        return sum(row["status"] == status for row in self.rows)

    def summary(self):
        return f"{self.count(PASSED)} passed, {self.count(FAILED)} failed, {self.count(SKIPPED)} skipped"

    #===-- tables -------------------------------------------------------------------------------------------------===#

    def about(self):
        times = [("seconds", ", ".join(f"{part} {seconds:.0f}" for part, seconds in self.seconds.items()))]
        return [*dict(self.machine).items(), *(times if self.seconds else [])]

    def checks(self, *statuses):
        return [[row["part"], row["name"], row["status"], row["detail"]] for row in self.rows
                if (row["status"] in statuses if statuses else "ours_ms" not in row and "measured_ms" not in row)]

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
            eager, compiled, graphs = (row.get(variant) or {} for variant in VARIANTS)
            copies = [found.get("ms_with_copies") for found in (eager, compiled, graphs)]
            best = min((value for value in copies if value is not None), default=None)
            lines.append([row["name"], milliseconds(row["ours_ms"]), *map(milliseconds, copies),
                          milliseconds(compiled.get("ms")), milliseconds(graphs.get("ms")),
                          ratio(copies[0], row["ours_ms"]), ratio(copies[1], row["ours_ms"]), ratio(best, row["ours_ms"]),
                          percent(row.get("share_of_rate")), milliseconds(row.get("predicted_ms")),
                          str(row.get("rounds", ""))])
        return lines

    SPEED_TITLES = ["step", "ours ms", "eager ms", "compiled ms", "graphs ms", "compiled, no copies", "graphs, no copies",
                    "eager / ours", "compiled / ours", "best / ours", "of rate", "predicted ms", "rounds"]
    SPEED_NOTE = ("Ours: from inputs in pageable memory of the host to outputs there. PyTorch's: the same from pinned "
                  "memory; without copies: with inputs and outputs on the GPU.")
    STEP_TITLES = ["plan", "devices", "step ms", "MiB"]

    def checked(self, table):
        return table(["part", "what", "result", "detail"], self.checks())

    def measured(self, table):
        parts = []
        if self.speeds():
            parts += [table(self.SPEED_TITLES, self.speeds()), self.SPEED_NOTE]
        if self.steps():
            parts.append(table(self.STEP_TITLES, self.steps()))
        return parts

    def text(self):
        """All, or, where that is more than whoever keeps the end of what is printed keeps, what failed and was measured."""
        about = "\n".join(f"{key}: {value}" for key, value in self.about())
        whole = "\n\n".join([about, self.checked(aligned), *self.measured(aligned), self.summary()])
        if len(whole) <= MOST_PRINTED:
            return whole
        rest = "\n\n".join([*self.measured(aligned), self.summary()])
        # Failures come first of what did not pass, and as many as there is room for.
        lines = [*self.grouped(FAILED), *self.grouped(SKIPPED)]
        room, fitting = MOST_PRINTED - len(about) - min(len(rest), MOST_PRINTED // 2) - 200, []
        for line in lines:
            room -= len(line) + 1
            if room < 0:
                break
            fitting.append(line)
        if len(fitting) < len(lines):
            fitting.append(f"and {len(lines) - len(fitting)} more in results.md")
        return "\n\n".join([about, "\n".join(fitting), rest[-(MOST_PRINTED // 2):]])

    def grouped(self, status):
        """A line for each reason, with all that it befell."""
        names = {}
        for part, name, _, detail in self.checks(status):
            names.setdefault((part, clipped(detail, 300)), []).append(name)
        return [f"{part}: {clipped(', '.join(found), 1500)}: {status}: {detail}" for (part, detail), found in names.items()]

    def markdown(self):
        about = "; ".join(f"{key} {value}" for key, value in self.about())
        return "\n\n".join([about, self.checked(markdown), *self.measured(markdown), self.summary()]) + "\n"


# Of PyTorch's steps, as tools/bench/torch_gpu.py calls them.
VARIANTS = ("eager", "compiled", "graphs")


def replace(path, text):
    """A reader never sees half a file."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def clipped(text, most):
    return text if len(text) <= most else text[:most - 1] + "…"


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


def lacks_memory(detail):
    """Whether what a program said is that others hold the GPU's memory."""
    return re.search(r"out of memory|expects to hold \d+ bytes|MemoryAllocation|ALLOC_FAILED", detail, re.I) is not None
