# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What a run found: on the terminal, and as a page. Faults that change nothing that anybody could see stand, with the
# reason, in test/faults/equivalent.txt; they count neither as caught nor as missed.

import collections
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EQUIVALENT = "test/faults/equivalent.txt"


def read_equivalent(root):
    """(file, text, wrong) -> reason. Lines: file | what stands there | what the fault makes of it | reason."""
    known = {}
    path = os.path.join(root, EQUIVALENT)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip() or line.startswith("#"):
                    continue
                parts = [part.strip() for part in line.split(" | ")]
                if len(parts) != 4:
                    sys.exit(f"{EQUIVALENT}:{number}: expected four parts between ' | '")
                known[tuple(parts[:3])] = parts[3]
    return known


def one_line(text):
    return " ".join(text.split())


def shown(place):
    """What stands there; of a number, which occurs often, the line, with the number in brackets."""
    if not place.text.isdigit():
        return one_line(place.text)
    with open(os.path.join(ROOT, place.file), "rb") as file:
        content = file.read()
    begin, end = content.rfind(b"\n", 0, place.start) + 1, content.find(b"\n", place.end)
    line = content[begin:place.start] + b"[" + content[place.start:place.end] + b"]" + content[place.end:end]
    return one_line(line.decode("utf-8"))


def key(fault):
    return fault.place.file, shown(fault.place), one_line(fault.place.wrong) or "(dropped)"


def sort_out(faults, content, equivalent):
    caught = [fault for fault in faults if str(fault.number) in content["caught"]]
    rest = [fault for fault in faults if str(fault.number) not in content["caught"]]
    same = [fault for fault in rest if key(fault) in equivalent]
    missed = [fault for fault in rest if key(fault) not in equivalent and str(fault.number) in content["survived"]]
    return caught, same, missed


def describe(fault, content):
    file, text, wrong = key(fault)
    tests = len(content["survived"].get(str(fault.number), []))
    return f"{file}:{fault.place.line}: {fault.place.kind}: `{text}` -> `{wrong}` ({tests} units reach it)"


def show(faults, content, equivalent):
    """Prints what was missed and the sum; returns the share that was caught."""
    caught, same, missed = sort_out(faults, content, equivalent)
    for fault in missed:
        print(f"{fault.number}: {describe(fault, content)}")
    looked = len(caught) + len(missed)
    share = len(caught) / max(1, looked)
    print(f"{len(caught)} of {looked} faults caught ({100 * share:.1f} %), {len(same)} others change nothing, "
          f"{len(faults) - looked - len(same)} not looked at")
    return share


def write(path, root, commit, faults, content, missing):
    equivalent = read_equivalent(root)
    caught, same, missed = sort_out(faults, content, equivalent)
    rows = collections.defaultdict(lambda: [0, 0, 0])
    for column, group in enumerate((caught, missed, same)):
        for fault in group:
            rows[fault.area][column] += 1
            rows[fault.place.kind][column] += 1
    areas = list(dict.fromkeys(fault.area for fault in faults))
    kinds = sorted({fault.place.kind for fault in faults})
    seconds = sorted(entry["seconds"] for entry in content["caught"].values())
    lines = [
        "# Would the tests see a fault?", "",
        "Written by `tools/mutate --write docs/results/faults.md`: faults drawn at random in the sources, one at a",
        "time, each against the tests of every change that reach its place ([testing](../testing.md#planted-faults)).",
        "", f"At {commit}: **{len(caught)} of {len(caught) + len(missed)} caught, "
        f"{100 * len(caught) / max(1, len(caught) + len(missed)):.1f} %**; {len(same)} more change nothing that can be seen",
        f"(test/faults/equivalent.txt says why); {len(faults) - len(caught) - len(missed) - len(same)} were not looked at.",
        "Tests that were written for faults of this draw count, too: a draw with another seed says how many of those are seen",
        "that no test was written for.", "",
    ]
    if missing:
        lines += [f"{len(content['measured'])} units of tests have run, {len(missing)} have not: with them, no fewer are caught.",
                  "What has not run: " + ", ".join(f"`{name}`" for name in sorted(missing)) + ".", ""]
    for title, names in (("sources of", areas), ("kind", kinds)):
        lines += [f"| {title} | caught | missed | changes nothing |", "|---|---|---|---|"]
        lines += [f"| {name} | {rows[name][0]} | {rows[name][1]} | {rows[name][2]} |" for name in names] + [""]
    if seconds:
        lines += [f"The test that sees a fault takes {seconds[len(seconds) // 2]:.1f} s in the median.", ""]
    if missed:
        lines += ["Missed:", ""] + [f"- {describe(fault, content)}" for fault in missed]
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines).rstrip() + "\n")
