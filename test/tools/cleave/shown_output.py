# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""README.md and docs/guide.md show what the programs print. Their commands run here in order, in one folder, as on a
machine of two cores; those that take long or need what a reader has are named below. Where the text shows output, it is
compared: "…" stands for anything, spaces and times are not compared, and a file that the text shows by `cat` is
written. Ends with 77 on processors that are not like those of the text, because some of the output depends on them."""

import os
import re
import subprocess
import sys
import tempfile

BIN = os.environ["CLEAVE_BIN"]
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
DOCUMENTS = ["README.md", "docs/guide.md"]

# What is not run, and why: parts of command lines.
NOT_RUN = {
    "gpt3": "minutes",
    "mpirun": "not on every machine",
    "cleave probe": "a minute, and measures this host",
    "nvidia-smi": "a machine with GPUs",
    "cleave serve": "it serves until it is ended; endtoend-serve-* test it",
    "cleave train ": "data of the reader's",
    "book.txt": "data of the reader's",
    "fashion-mnist": "data of the reader's",
    "lstm": "belongs to the book",
    "other.plan": "a plan of the reader's",
    "--stages stages.yaml": "a file of the reader's",
    "vgg16.costs.yaml": "a file of the reader's",
    "--format svg": "needs Graphviz",
}
TIME = r"\d[\d.]* (?:ns|us|ms|s)\b"
RATE = r"\d[\d.]* [kMGTP]?flop/s"


def blocks(text):
    """Fenced blocks without a language that begin with a command: lists of (command, shown lines)."""
    for language, block in re.findall(r"^```(.*)\n((?:.*\n)*?)```$", text, re.M):
        if language or not block.startswith("$ "):
            continue
        commands = []
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append([line[2:], []])
            elif commands[-1][0].endswith("\\"):
                commands[-1][0] = commands[-1][0][:-1] + line.strip()
            else:
                commands[-1][1].append(line)
        yield commands


def pattern(shown):
    """A regular expression for output: a line "…" is any lines, times and rates are any."""
    lines = []
    for line in shown:
        if line.strip() == "…":
            lines.append(r"(?:.*\n)*?")
            continue
        words = [".*?".join("TIME".join(map(re.escape, re.split(f"{TIME}|{RATE}", part))).replace("TIME",
                                                                                                   f"(?:{TIME}|{RATE})")
                            for part in word.split("…")) for word in [" ".join(line.split())]]
        lines.append(words[0].replace(r"\ ", " ") + "\n")
    return "".join(lines)


def matches(shown, printed):
    plain = "".join(" ".join(line.split()) + "\n" for line in printed.splitlines())
    return re.fullmatch(pattern(shown), plain) is not None


def run(command, shown, folder, environment):
    """Runs a command of the text; says what is wrong, or nothing."""
    name = command.split("#")[0].split()
    if name[0] == "cat" and not os.path.exists(os.path.join(folder, name[1])):
        with open(os.path.join(folder, name[1]), "w") as file:
            file.write("\n".join(shown) + "\n")
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        return f"ends with {done.returncode}: {done.stderr}"
    if shown and not matches(shown, done.stdout):
        return "prints otherwise than is shown:\n" + done.stdout
    return None


def check_patterns():
    """What is compared notices what differs."""
    for shown, printed, equal in ((["a  b 1.5 ms"], "a b 99 ms\n", True), (["a b"], "a c\n", False),
                                  (["a", "…"], "a\nb\nc\n", True), (["a"], "a\nb\n", False),
                                  (["a … c"], "a b c\n", True), (["…", "c"], "a\nc\nd\n", False)):
        if matches(shown, printed) != equal:
            raise ValueError(f"{shown} and {printed!r}")


def main():
    check_patterns()
    cores = sorted(os.sched_getaffinity(0))
    with open("/proc/cpuinfo") as file:
        if "avx512f" not in file.read() or len(cores) < 2:
            print("shown_output: expects two cores with AVX-512, for which the text is")
            return 77
    os.sched_setaffinity(0, cores[:2])
    left, failures, count = set(NOT_RUN), [], 0
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "build", "demo")
        os.makedirs(folder)
        os.symlink(os.path.join(ROOT, "examples"), os.path.join(work, "examples"))
        environment = {**os.environ, "PATH": BIN + os.pathsep + os.environ["PATH"], "NO_COLOR": "1", "COLUMNS": "100",
                       "CLEAVE_CACHE": os.path.join(work, "cache")}
        for document in DOCUMENTS:
            with open(os.path.join(ROOT, document), encoding="utf-8") as file:
                text = file.read()
            for command, shown in [pair for block in blocks(text) for pair in block]:
                reasons = {part for part in NOT_RUN if part in command}
                left -= reasons
                if reasons or "…" in command.split("#")[0]:
                    continue
                # The folder of the demonstration is this test's.
                command = re.sub(r"^cd build/demo && PATH=\S+ && ", "", command)
                count += 1
                problem = run(command, shown, folder, environment)
                if problem:
                    failures.append(f"{document}: $ {command}\n{problem}")
    failures += [f"nothing is left out for {part!r} any more" for part in sorted(left)]
    print(f"shown_output: {count} commands")
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    sys.exit(main())
