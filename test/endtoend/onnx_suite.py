# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ONNX's own backend tests (Debian's libonnx-testdata), every case on one device, and divided: with its operators
# alternating over two, and with every operator that can be split over two, three and four; all four ways with --all,
# else one of them, by turns. Counts passed, failed and unsupported by group; fails if a case fails or if fewer pass than
# onnx-suite.expected records.
#
#   python3 test/endtoend/onnx_suite.py [--all] [--only PATTERN] [--list] [--table FILE] [--record]
#
# --all            every case in every divided way; --table and --record imply it
# --only PATTERN   only cases whose "group/name" matches the shell pattern
# --list           one line a case: what it did, and why
# --table FILE     writes the counts and the reasons as Markdown: docs/onnx-suite.md
# --record         writes the counts to onnx-suite.expected

import argparse
import collections
import fnmatch
import glob
import os
import re
import sys
import textwrap

from cleave_process import DONE, UNSUPPORTED, cleave, parallel, program, skip

DATA = "/usr/share/libonnx-testdata/data"
GROUPS = ["node", "simple", "pytorch-operator", "pytorch-converted"]
EXPECTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx-suite.expected")
# The runs of every case. Tolerances are those of ONNX's own runner.
RUNS = {"one device": ["--machine", "host:1x1", "--strategy", "single"],
        "two devices": ["--machine", "host:2x1", "--strategy", "alternate"],
        **{f"{count} devices, split": ["--machine", f"host:{count}x1", "--strategy", "split"] for count in (2, 3, 4)}}
TOLERANCE = ["--rtol", "1e-3", "--atol", "1e-7"]

# Cases whose data is not what the standard asks for: ONNX 1.12 made bfloat16 by dropping bits, where the standard says
# to round to nearest, and gave CastLike's second input one element in files of a shape of twelve; its model of Adam lacks
# the epsilon that its outputs were made with.
WRONG_DATA = {"node/test_adam_multiple": "models without an attribute that their outputs need",
              "node/test_cast_FLOAT_to_BFLOAT16": "bfloat16 outputs that are cut off, not rounded",
              **{f"node/test_castlike_{kind}": "CastLike cases whose files have another shape than their model"
                 for kind in ("BFLOAT16_to_FLOAT", "BFLOAT16_to_FLOAT_expanded", "FLOAT_to_BFLOAT16",
                              "FLOAT_to_BFLOAT16_expanded")}}

Outcome = collections.namedtuple("Outcome", "case kind why")


def numbered(folder, kind):
    """The files input_0.pb, input_1.pb, ... of a data set, as (position, path)."""
    files = glob.glob(os.path.join(folder, f"{kind}_*.pb"))
    return sorted((int(re.search(r"_(\d+)\.pb$", path).group(1)), path) for path in files)


def runs_of(position, every):
    """The runs of the case at a position: on one device, and one of the divided ones by turns, or all."""
    names = list(RUNS)
    if every:
        return names
    return [names[0], names[1 + position % (len(names) - 1)]]


def run_case(case, names):
    """Passed if every data set of the case agrees in all of these runs; else the first thing that did not."""
    if case in WRONG_DATA:
        return Outcome(case, "unsupported", WRONG_DATA[case])
    folder = os.path.join(DATA, case)
    for data in sorted(glob.glob(os.path.join(folder, "test_data_set_*"))):
        files = []
        for position, path in numbered(data, "input"):
            files += ["--input", f"@{position}={path}"]
        for position, path in numbered(data, "output"):
            files += ["--expect", f"@{position}={path}"]
        for what in names:
            result = cleave("run", os.path.join(folder, "model.onnx"), *RUNS[what], *files, *TOLERANCE, timeout=120)
            lines = [line for line in result.errors.splitlines() if "error" in line] or result.errors.splitlines()
            why = lines[0].strip() if lines else ""
            if result.code == UNSUPPORTED:
                return Outcome(case, "unsupported", why)
            if result.code != DONE:
                return Outcome(case, "failed", f"on {what}, exit code {result.code}: {why}")
    return Outcome(case, "passed", "")


def count(outcomes):
    """{group: Counter of kinds}, groups in their usual order."""
    counts = {group: collections.Counter() for group in GROUPS}
    for outcome in outcomes:
        counts[outcome.case.split("/")[0]][outcome.kind] += 1
    return counts


def expected_counts():
    if not os.path.exists(EXPECTED):
        return {}
    with open(EXPECTED, encoding="utf-8") as file:
        rows = (line.split() for line in file if line.strip() and not line.startswith("#"))
        return {group: int(passed) for group, passed in rows}


# What the message of an unsupported case blames.
REASONS = [(r"cannot run: ([\w.]+)", r"\1"), (r"node \S+ \((\w+)\) is not known", r"\1"),
           (r"has elements of (\w+)", r"inputs of \1"), (r"is not a tensor", "inputs that are no tensors"),
           (r"operator set 1 to 25, got (\d+)", r"operator set \1")]


def reasons(outcomes):
    """How many cases are unsupported for which reason: an operator's type, or words."""
    found = collections.Counter()
    for outcome in outcomes:
        matches = (re.search(pattern, outcome.why) and re.search(pattern, outcome.why).expand(reason)
                   for pattern, reason in REASONS)
        found[next(filter(None, matches), outcome.why)] += 1
    return found


def table(outcomes):
    """The counts as Markdown."""
    kinds = ["passed", "failed", "unsupported"]
    rows = ["| group | cases | " + " | ".join(kinds) + " |", "|---|---:|---:|---:|---:|"]
    counts = count(outcomes)
    counts["all"] = sum(counts.values(), collections.Counter())
    for group, of_group in counts.items():
        numbers = [sum(of_group.values()), *(of_group[kind] for kind in kinds)]
        rows.append(f"| {group} | " + " | ".join(map(str, numbers)) + " |")
    return "\n".join(rows)


def write_table(outcomes, path):
    blamed = reasons([outcome for outcome in outcomes if outcome.kind == "unsupported"])
    names = ", ".join(f"{name} ({blamed[name]})" for name in sorted(blamed, key=lambda name: (-blamed[name], name)))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"""# ONNX's backend tests

Every case of ONNX 1.12's backend tests (Debian's `libonnx-testdata`) that comes with its model, on
one device, with its operators alternating over two, and with every operator that can be split cut
over two, three and four, under the tolerances of ONNX's own runner (1e-3 relative plus 1e-7
absolute). A case passes if all its outputs agree in all runs; it is unsupported if `cleave run` says
so (exit code 3); anything else is a failure. This page is written by

```
python3 test/endtoend/onnx_suite.py --table docs/onnx-suite.md
```

{table(outcomes)}

Why cases are unsupported: the first operator that cannot run, or what else the message says, with
the number of cases.

{textwrap.fill(names, 100, break_long_words=False, break_on_hyphens=False)}
""")


def main():
    parser = argparse.ArgumentParser(description="ONNX's backend tests through cleave run")
    parser.add_argument("--all", action="store_true", help="every case in every divided way")
    parser.add_argument("--only", default="*", help="shell pattern of group/name")
    parser.add_argument("--list", action="store_true", help="one line a case")
    parser.add_argument("--table", help="Markdown file to write")
    parser.add_argument("--record", action="store_true", help="write the counts to onnx-suite.expected")
    options = parser.parse_args()
    if not os.path.isdir(DATA):
        skip(f"no folder {DATA}; install libonnx-testdata")
    program()
    cases = sorted(os.path.relpath(os.path.dirname(path), DATA) for group in GROUPS
                   for path in glob.glob(os.path.join(DATA, group, "*", "model.onnx")))
    cases = [case for case in cases if fnmatch.fnmatch(case, options.only)]
    every = options.all or options.table or options.record
    outcomes = parallel(lambda numbered: run_case(numbered[1], runs_of(numbered[0], every)), list(enumerate(cases)))
    for outcome in outcomes:
        if options.list or outcome.kind == "failed":
            print(f"{outcome.kind} {outcome.case}: {outcome.why}")
    counts = count(outcomes)
    print(table(outcomes))
    if options.table:
        write_table(outcomes, options.table)
    if options.record:
        with open(EXPECTED, "w", encoding="utf-8") as file:
            file.write("# Cases of each group that pass, at least (written by onnx_suite.py --record).\n")
            file.writelines(f"{group} {of_group['passed']}\n" for group, of_group in counts.items())
    lost = []
    if options.only == "*":
        lost = [f"{group}: expected at least {least} to pass, got {counts[group]['passed']}"
                for group, least in expected_counts().items() if counts[group]["passed"] < least]
    print("\n".join(lost))
    sys.exit(1 if lost or any(outcome.kind == "failed" for outcome in outcomes) else 0)


if __name__ == "__main__":
    main()
