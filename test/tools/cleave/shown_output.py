# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""README.md, docs/guide.md, or the pages given, show commands and what they print. The commands run here as printed, in order and in one
shell, as on a machine of two cores: those of blocks, and those in the text that name a file. A file that the text shows
by `cat` is written. Where the text shows output, it is compared: "…" stands for anything; spaces, times and rates are
not compared. On processors unlike those of the text (AVX-512), numbers may be other numbers, and operators may be
computed by other kernels.

What cannot run here says so itself, in a remark at the end of the command: MARKS. What takes a minute runs with
--long. Two things are otherwise than printed: `cleave serve` takes a free port, and what `cleave probe` measures does
not decide about the plans after it."""

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BIN = os.environ["CLEAVE_BIN"]
ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".."))
DOCUMENTS = [argument for argument in sys.argv[1:] if not argument.startswith("--")] or ["README.md", "docs/guide.md"]
SECONDS = 300  # that a command may take

# Remarks, and whether a command that has one is left out here.
OUTPUT_OF_TEXT = "needs AVX-512"  # this one runs everywhere, but elsewhere prints something else
MARKS = {
    "takes minutes": lambda: True,
    "takes a minute": lambda: "--long" not in sys.argv,
    "needs a GPU": lambda: True,
    "needs several hosts": lambda: True,
    "needs Graphviz": lambda: not shutil.which("dot"),
    OUTPUT_OF_TEXT: lambda: False,
}
# Programs that a reader may lack.
OPTIONAL = ["mpirun", "curl"]

TIME = r"\d[\d.]* (?:ns|us|ms|s)\b"
RATE = r"\d[\d.]* [kMGTP]?flop/s"
NUMBER = r"[-+]?\d[\d.]*(?:e[-+]?\d+)?"
UNIT = r"(?:%|(?:B|[KMGT]iB|[kMGTPE]?flop|ns|us|ms|s)\b)"
QUANTITY = rf"(?:{NUMBER}(?: ?{UNIT})?|-)"


def is_like_text():
    with open("/proc/cpuinfo") as file:
        return "avx512f" in file.read() and len(os.sched_getaffinity(0)) > 1 and "CLEAVE_CPU" not in os.environ


def commands_of(block):
    """The commands of a block, each with the lines that are shown after it."""
    commands = []
    for line in block.splitlines():
        if line.startswith("$ "):
            commands.append([line[2:], []])
        elif commands[-1][0].endswith("\\"):
            commands[-1][0] = commands[-1][0][:-1] + line.strip()
        else:
            commands[-1][1].append(line)
    return commands


def is_whole(command):
    """Whether a command in the text is one to run: it names a file, and nothing in it stands for something else."""
    return re.match(r"(cleave|cleave-run|cleave-opt|mpirun) ", command) and re.search(r"\w\.[a-z]+\b", command) \
        and not re.search(r"…|\b[A-Z]{3,}\b", command)


def read_document(text):
    """All commands of a page in their order, with what is shown after them."""
    for language, block, words in re.findall(r"^```(.*)\n((?:.*\n)*?)```$|`([^`]+)`", text, re.M):
        if words:
            command = " ".join(words.split())
            if is_whole(command):
                yield command, []
        elif re.search(r"^\$ ", block, re.M):
            if language or not block.startswith("$ "):
                raise ValueError(f"a block with commands expects to begin with one and to have no language:\n{block}")
            yield from commands_of(block)


def escape(text, exact):
    """Text as an expression in which times and rates are any and, unless it is exact, so is every number."""
    wild = f"{TIME}|{RATE}" if exact else rf"(?<![^\s(]){QUANTITY}(?![^\s,;:)])"
    parts = re.split(f"({wild})", text)
    for index, part in enumerate(parts):
        if index % 2 == 0:
            parts[index] = re.escape(part).replace(r"\ ", " ")
        elif exact:
            parts[index] = f"(?:{wild})"
        else:
            parts[index] = f"(?:{TIME}|{RATE}|{QUANTITY}{'|equal' if '%' in part else ''})"
    return "".join(parts)


def hide_kernels(shown):
    """Tables without what operators are computed by."""
    column = -1
    for line in shown:
        if "computed by" in line:
            column = line.index("computed by")
        elif not line.strip():
            column = -1
        elif 0 < column < len(line) and line[column - 2:column] == "  ":
            line = line[:column] + re.sub(r"^\S+( \S+)*", "…", line[column:])
        yield line


def pattern(shown, exact=True):
    """A regular expression for output: a line "…" is any lines, elsewhere "…" is any text."""
    lines = []
    for line in shown if exact else hide_kernels(shown):
        if line.strip() == "…":
            lines.append(r"(?:.*\n)*?")
        else:
            lines.append(".*?".join(escape(part, exact) for part in " ".join(line.split()).split("…")) + "\n")
    return "".join(lines)


def matches(shown, printed, exact=True):
    plain = "".join(" ".join(line.split()) + "\n" for line in printed.splitlines())
    return re.fullmatch(pattern(shown, exact), plain) is not None


TABLE = ["  node   computed by   us", "  conv1  convolution  4.5", "  flat   -              -"]
PATTERN_CASES = [
    # shown, printed, whether they are equal where output is compared exactly, and where it is by shape
    (["a  b 1.5 ms"], "a b 99 ms\n", True, True),
    (["a  b 1.5 ms"], "a b 99 KiB\n", False, True),
    (["a b"], "a c\n", False, False),
    (["a", "…"], "a\nb\nc\n", True, True),
    (["a"], "a\nb\n", False, False),
    (["a … c"], "a b c\n", True, True),
    (["…", "c"], "a\nc\nd\n", False, False),
    (["3 of 4, 1.5 MiB"], "3 of 5, 1.5 MiB\n", False, True),
    (["largest error 0"], "largest error 1.43e-06\n", False, True),
    (["largest error 0"], "largest error none\n", False, False),
    (["3 of 4 moved"], "3 of 4\n", False, False),
    (["us 4.5"], "us -\n", False, True),
    (["in fc1 at block0"], "in fc2 at block0\n", False, False),
    (["f32[1,4]: equal"], "f32[1,5]: equal\n", False, False),
    (["cut by 20.0 %"], "cut by 35.5 %\n", False, True),
    (["cut by 20.0 %"], "cut by a lot\n", False, False),
    (["step +20.0 %"], "step -3.5 %\n", False, True),
    (["step +20.0 %"], "step equal\n", False, True),
    (["step 20"], "step equal\n", False, False),
    (["step equal"], "step +20.0 %\n", False, False),
    (TABLE, "node computed by us\nconv1 native convolution 9.5\nflat - -\n", False, True),
    (TABLE, "node computed by us\nconv1 convolution 4.5\n", False, False),
    (TABLE, "node computed by us\nconv2 convolution 4.5\nflat - -\n", False, False),
]


def check_patterns():
    """What is compared notices what differs."""
    for shown, printed, exactly, by_shape in PATTERN_CASES:
        if (matches(shown, printed), matches(shown, printed, exact=False)) != (exactly, by_shape):
            raise ValueError(f"{shown} and {printed!r}")
    for text in ("```sh\n$ cleave zoo\n```\n", "cleave\n```\nbefore\n$ cleave zoo\n```\n"):
        try:
            list(read_document(text))
        except ValueError:
            continue
        raise ValueError(f"expects an error for {text!r}")
    read = list(read_document("`cleave zoo` `cleave run\na.plan` `cleave run MODEL.onnx` `run a.plan`\n```\n$ a \\\n"
                              "  b\nc\n$ d\n```\n```yaml\ne: f\n```\n"))
    if read != [("cleave run a.plan", []), ["a b", ["c"]], ["d", []]]:
        raise ValueError(f"commands: {read}")
    if mark_of("nvidia-smi  # needs a GPU: there") != "needs a GPU" or mark_of("dot  # draws needs") is not None:
        raise ValueError("marks")


def mark_of(command):
    """The remark that says what a command needs, if it has one."""
    remark = re.search(r"# ((?:needs|takes) .*)", command)
    if not remark:
        return None
    known = next((mark for mark in MARKS if re.match(rf"{mark}\b", remark[1])), None)
    if not known:
        raise ValueError(f"a remark that begins with \"needs\" or \"takes\" expects one of {', '.join(MARKS)}; "
                         f"got {remark[0]!r}")
    return known


def why_not(command):
    """Why a command cannot run here, or nothing."""
    mark = mark_of(command)
    if mark and MARKS[mark]():
        return mark
    program = command.split()[0]
    return f"no {program} here" if program in OPTIONAL and not shutil.which(program) else None


class Shell:
    """A bash that keeps its folder, variables and jobs from one command to the next, as a reader's does."""

    def __init__(self, folder, environment, scratch):
        self.files = [os.path.join(scratch, name) for name in ("out", "error")]
        self.codes, self.code = os.pipe()
        self.process = subprocess.Popen(["bash", "--norc", "-o", "pipefail"], cwd=folder, env=environment,
                                        stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=[self.code],
                                        start_new_session=True, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def folder(self):
        return os.readlink(f"/proc/{self.process.pid}/cwd")

    def run(self, command):
        """The exit code, and what was printed to both outputs."""
        out, error = self.files
        self.process.stdin.write(f"{{ {command}\n}} >{out} 2>{error} </dev/null\necho $? >&{self.code}\n")
        self.process.stdin.flush()
        if not select.select([self.codes], [], [], SECONDS)[0]:
            raise TimeoutError(f"{command}: expects to end within {SECONDS} s")
        code = int(os.read(self.codes, 16))
        return code, *self.printed()

    def printed(self):
        return [open(path, encoding="utf-8", errors="replace").read() for path in self.files]


class Reader:
    """Does what the pages say."""

    def __init__(self, shell, work):
        self.shell, self.work = shell, work
        self.like_text = is_like_text()
        self.done = {}
        with socket.socket() as free:
            free.bind(("localhost", 0))
            self.port = str(free.getsockname()[1])

    def adapted(self, command):
        """The two things that are otherwise than printed."""
        if command.startswith("cleave serve "):
            command = re.sub(r"^cleave serve", f"cleave serve --http {self.port}", command)
        if command == "cleave probe":
            command = f"CLEAVE_CACHE={os.path.join(self.work, 'probed')} {command}"
        return command.replace("localhost:8000", f"localhost:{self.port}")

    def is_done(self, command):
        """Whether an earlier page ran this, and nothing has changed a file that it names since."""
        paths = [os.path.join(self.shell.folder(), word) for word in re.split(r"[\s=]+", command)]
        return all(os.stat(path).st_mtime <= self.done[command] for path in paths if os.path.isfile(path))

    def run(self, command, shown):
        """Runs a command of the text; says what is wrong, or nothing."""
        command = re.sub(r"\s+# .*", "", command)
        if command in self.done and command.startswith("cleave ") and not shown and self.is_done(command):
            return None
        name = command.split()
        if name[0] == "cat" and not os.path.exists(os.path.join(self.shell.folder(), name[1])):
            with open(os.path.join(self.shell.folder(), name[1]), "w") as file:
                file.write("\n".join(shown) + "\n")
        code, out, error = self.shell.run(self.adapted(command))
        self.done[command] = time.time()
        if code != 0:
            return f"ends with {code}: {error}"
        shown = [line.replace("127.0.0.1:8000", f"127.0.0.1:{self.port}") for line in shown]
        end = time.monotonic() + (SECONDS if command.endswith("&") else 0)
        while shown and not matches(shown, out, self.like_text):
            if time.monotonic() >= end:
                return f"prints otherwise than is shown:\n{out}{error}"
            time.sleep(0.1)
            out, error = self.shell.printed()
        return None

    def read(self, document):
        """How many commands of a page ran, and what was wrong."""
        count, failures = 0, []
        with open(os.path.join(ROOT, document), encoding="utf-8") as file:
            text = file.read()
        for command, shown in read_document(text):
            reason = why_not(command)
            if reason:
                print(f"   left out  {command} ({reason})")
                continue
            begin, count = time.monotonic(), count + 1
            comparable = self.like_text or mark_of(command) != OUTPUT_OF_TEXT
            problem = self.run(command, shown if comparable else [])
            print(f"{time.monotonic() - begin:9.1f} s {command}", flush=True)
            if problem:
                failures.append(f"{document}: $ {command}\n{problem}")
        return count, failures


def lay_repository(work):
    """A folder like the repository's after a build."""
    os.makedirs(os.path.join(work, "build"))
    os.symlink(BIN, os.path.join(work, "build", "bin"))
    for name in ("LICENSE", "README.md", "docs", "examples", "tools"):
        os.symlink(os.path.join(ROOT, name), os.path.join(work, name))


def main():
    check_patterns()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    with tempfile.TemporaryDirectory() as work:
        lay_repository(work)
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100", "CLEAVE_CACHE": os.path.join(work, "cache"),
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        with Shell(work, environment, work) as shell:
            reader = Reader(shell, work)
            counts, failures = zip(*(reader.read(document) for document in DOCUMENTS))
    print(f"shown_output: {sum(counts)} commands, output compared {'exactly' if reader.like_text else 'by shape'}")
    if any(failures):
        sys.exit("\n".join(failure for of_page in failures for failure in of_page))


if __name__ == "__main__":
    sys.exit(main())
