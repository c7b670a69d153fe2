# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import argparse
import concurrent.futures
import json
import os
import re
import signal
import sys
import threading

import report
import tree
import units

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Hangs are faults that are seen. A test under another's load may take some times what it took alone.
SLOWER, BESIDE = 6, 20
# The share of faults that the tests must see.
LEAST_CAUGHT = 0.95


def parse():
    parser = argparse.ArgumentParser(prog="tools/mutate", description="would the tests see a fault?")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    parser.add_argument("--count", type=int, default=140, help="faults that are drawn (default 140)")
    parser.add_argument("--resume", action="store_true", help="go on where the last run stopped")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers, and tests, that run at a time")
    parser.add_argument("--only", metavar="REGEX", default="",
                        help="tests whose names match: '^lit|:' for lit and GoogleTest, before the rest with --resume")
    parser.add_argument("--within", metavar="SECONDS", type=float, default=float("inf"),
                        help="tests that take no longer without a fault, before the rest with --resume")
    parser.add_argument("--write", metavar="FILE", help="write the table of the last run, and run nothing")
    return parser.parse_args()


def read(path):
    """A file's text, or none where there is no file."""
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


class Record:
    """What is known so far, on disk after every step."""

    def __init__(self, path, resume):
        self.path, self.lock = path, threading.Lock()
        self.content = {"measured": {}, "caught": {}, "survived": {}}
        if resume and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.content = json.load(file)

    def note(self, part, key, value):
        with self.lock:
            self.content[part][key] = value
            self.save()

    def save(self):
        with open(self.path + ".part", "w", encoding="utf-8") as file:
            json.dump(self.content, file)
        os.replace(self.path + ".part", self.path)

    def forget_changed(self, versions):
        """Forgets what was found by units that are gone, or whose tests are not what they were."""
        measured = self.content["measured"]
        changed = {name for name in measured if measured[name]["version"] != versions.get(name)}
        for name in changed:
            del measured[name]
        self.content["caught"] = {fault: entry for fault, entry in self.content["caught"].items()
                                  if entry["unit"] not in changed}
        self.content["survived"] = {fault: [name for name in names if name not in changed]
                                    for fault, names in self.content["survived"].items()}
        self.save()
        return len(changed)


def hunt(fault, candidates, record):
    """Runs the units that reach a fault until one fails: those named after the fault's area first, then the quick."""
    measured = record.content["measured"]
    ordered = sorted(candidates, key=lambda unit: (fault.area not in unit.name, measured[unit.name]["seconds"]))
    tried = set(record.content["survived"].get(str(fault.number), []))
    for unit in ordered:
        if unit.name in tried:
            continue
        status, seconds = units.run(unit, SLOWER * measured[unit.name]["seconds"] + BESIDE, fault=fault.number)
        if status != 0:
            record.note("caught", str(fault.number), {"unit": unit.name, "status": status, "seconds": seconds})
            return
        tried.add(unit.name)
    record.note("survived", str(fault.number), sorted(tried))


def end(number, frame):
    units.stop()
    os._exit(128 + number)


def finished(pool, work, items):
    return concurrent.futures.as_completed([pool.submit(work, item) for item in items])


def main():
    options = parse()
    folder = os.path.join(ROOT, "build/mutate")
    # The build lies in the tree as build/ does in the project: what ccache knows from there need not be compiled again.
    source, build = os.path.join(folder, "source"), os.path.join(folder, "source/build")
    drawn, results, built = (os.path.join(folder, name) for name in ("faults.json", "results.json", "built"))
    os.makedirs(folder, exist_ok=True)
    if options.write:
        content = Record(results, True).content
        measured = content["measured"]
        missing = [unit.name for unit in units.read_units(build)
                   if measured.get(unit.name, {}).get("version") != units.version(unit, source, build)]
        sources, tests = read(built), tree.commit_of(ROOT)
        commit = sources if sources == tests else f"{sources}, with the tests of {tests}"
        report.write(options.write, ROOT, commit, tree.load(drawn), content, missing)
        return
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    os.environ.setdefault("CLEAVE_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
    # Other sources want another draw, other tests do not.
    goes_on = options.resume and os.path.exists(drawn)
    if goes_on and read(built):
        changed = tree.changed_since(ROOT, read(built))
        if changed:
            print(f"mutate: {changed[0]} has changed since {read(built)}: draws anew", file=sys.stderr)
            goes_on = False
    if not goes_on:
        tree.save(tree.draw(ROOT, os.path.join(ROOT, "build"), options.seed, options.count), drawn)
        if os.path.exists(built):
            os.remove(built)
    faults = tree.build_tree(ROOT, source, build, tree.load(drawn), options.jobs)
    tree.save(faults, drawn)
    if not read(built):
        with open(built, "w", encoding="utf-8") as file:
            file.write(tree.commit_of(ROOT))
    record = Record(results, goes_on)
    every = units.read_units(build)
    versions = {unit.name: units.version(unit, source, build) for unit in every}
    if forgotten := record.forget_changed(versions):
        print(f"mutate: {forgotten} units have changed and run again", file=sys.stderr)
    every = [unit for unit in every if re.search(options.only, unit.name)]
    print(f"mutate: {len(faults)} faults, {len(every)} units of tests", file=sys.stderr, flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        def measure(unit):
            if unit.name not in record.content["measured"]:
                record.note("measured", unit.name, {**units.measure(unit, folder), "version": versions[unit.name]})
        # Results are read so that what went wrong is known.
        for index, job in enumerate(finished(pool, measure, every)):
            job.result()
            print(f"\rmutate: {index + 1} of {len(every)} units without a fault", end="", file=sys.stderr, flush=True)
        measured = record.content["measured"]
        # 77: skipped. What fails without a fault shows nothing.
        failing = [unit.name for unit in every if measured[unit.name]["status"] not in (0, 77)]
        for name in failing:
            print(f"\nmutate: {name} fails without a fault and is left out", file=sys.stderr)
        usable = [unit for unit in every
                  if measured[unit.name]["status"] == 0 and measured[unit.name]["seconds"] <= options.within]

        def look(fault):
            if str(fault.number) not in record.content["caught"]:
                hunt(fault, [u for u in usable if fault.number in measured[u.name]["reached"]], record)
        # Those that nothing should see come last.
        equivalent = report.read_equivalent(ROOT)
        faults.sort(key=lambda fault: report.key(fault) in equivalent)
        for index, job in enumerate(finished(pool, look, faults)):
            job.result()
            print(f"\rmutate: {index + 1} of {len(faults)} faults, {len(record.content['caught'])} caught", end="",
                  file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if report.show(faults, record.content, report.read_equivalent(ROOT)) < LEAST_CAUGHT:
        sys.exit(1)


main()
