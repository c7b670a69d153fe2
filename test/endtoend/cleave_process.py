# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# How the end-to-end tests start the programs under test: where `cleave` is, what a run answered, how a test says that
# it was skipped.

import collections
import concurrent.futures
import os
import subprocess
import sys
import threading

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Where onnx_in_torch.py is.
sys.path.append(os.path.join(REPOSITORY, "tools", "bench"))

# What ctest reads as "skipped" (SKIP_RETURN_CODE).
SKIPPED = 77

# Exit codes of the command line.
DONE, USAGE, UNSUPPORTED, REJECTED, INFEASIBLE, DIFFERENT = 0, 2, 3, 4, 5, 6

Result = collections.namedtuple("Result", "code output errors")


def skip(reason):
    """Ends the test as skipped, saying why."""
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def program(name="cleave"):
    """The program under test: in $CLEAVE_BIN, which ctest sets, or in build/bin."""
    path = os.path.join(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")), name)
    if not os.access(path, os.X_OK):
        sys.exit(f"expected a program at {path}, found none; build first")
    return path


def shared_models():
    """The folder of the four classic models: $CLEAVE_SHARED/models, or ../shared/models beside the repository."""
    folder = os.path.join(os.environ.get("CLEAVE_SHARED", os.path.join(REPOSITORY, "..", "shared")), "models")
    if not os.path.isdir(folder):
        skip(f"no models in {folder}")
    return folder


class CommandServer:
    """A process that runs commands of `cleave` one after the other; each thread has its own."""

    threads = threading.local()

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @classmethod
    def of_thread(cls):
        """None where it was not built."""
        if not hasattr(cls.threads, "server"):
            path = os.path.join(os.path.dirname(program()), "cleave-command-server")
            cls.threads.server = cls(path) if os.access(path, os.X_OK) else None
        return cls.threads.server

    def run(self, arguments, timeout):
        words = [program(), *map(str, arguments)]
        self.process.stdin.write(f"{timeout} {len(words)}\n".encode() + b"".join(os.fsencode(word) + b"\0" for word in words))
        self.process.stdin.flush()
        code, *sizes = self.process.stdout.readline().split()
        output, errors = (self.process.stdout.read(int(size)).decode(errors="replace") for size in sizes)
        if code == b"late":
            return Result(None, "", f"no answer within {timeout} s: {' '.join(words)}")
        return Result(int(code), output, errors)


def cleave(*arguments, timeout=300, name="cleave", alone=False):
    """Runs `cleave ARGUMENTS`. A signal shows as a negative code, as a crash does; a timeout as None. `alone` is for what
    one process can do for one command only: limit oneDNN to a processor."""
    server = CommandServer.of_thread() if name == "cleave" and not alone else None
    if server:
        return server.run(arguments, timeout)
    try:
        done = subprocess.run([program(name), *arguments], capture_output=True, text=True, errors="replace",
                              timeout=timeout, stdin=subprocess.DEVNULL)
        return Result(done.returncode, done.stdout, done.stderr)
    except subprocess.TimeoutExpired as expired:
        return Result(None, "", f"no answer within {timeout} s: {' '.join(map(str, expired.cmd))}")


def mpirun_command(ranks, *arguments, options=()):
    """The words that run `cleave ARGUMENTS` in that many processes."""
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-q", *options, "-n", str(ranks), *map(str, arguments)]


def signal_rank(mark, rank, which):
    """Sends a signal to the process that works for a rank, not to its guard; whether there is one. The run's processes have
    `mark` in their environment, as CLEAVE_TEST_RUN."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"/proc/{entry}/comm", encoding="utf-8") as file:
                guards = "guard" in file.read()
        except OSError:
            continue
        if f"CLEAVE_TEST_RUN={mark}".encode() in words and f"OMPI_COMM_WORLD_RANK={rank}".encode() in words \
                and not guards:
            os.kill(int(entry), which)
            return True
    return False


def mpirun(ranks, *arguments, name="cleave", options=(), before=(), timeout=300):
    """Runs `cleave ARGUMENTS` in that many processes; `options` are mpirun's, which `before` starts."""
    done = subprocess.run([*before, *mpirun_command(ranks, program(name), *arguments, options=options)],
                          capture_output=True, text=True, errors="replace", timeout=timeout, stdin=subprocess.DEVNULL)
    return Result(done.returncode, done.stdout, done.stderr)


def parallel(function, items):
    """function(item) of all items, as many at once as there are cores, results in the order of the items."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(function, items))


def worst_of(errors):
    """The key of the largest error. One that is no number is larger than all others, and no comparison accepts it."""
    return max(errors, key=lambda key: errors[key] if errors[key] == errors[key] else float("inf"))


def report(failures, passed):
    """Prints the failures, a line each with what the program said, and ends the test."""
    for subject, result in failures:
        print(f"FAILED {subject}: exit code {result.code}\n    " +
              "\n    ".join((result.errors.strip() or result.output.strip()).splitlines()[-6:]))
    print(f"{passed} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


class Checks:
    """Counts what is as it must be, and keeps what is not."""

    def __init__(self):
        self.passed, self.failures = 0, []

    def add(self, fine, text, result):
        """One check; `result` is of the program that it is about."""
        print(("passed " if fine else "FAILED ") + text, flush=True)
        self.passed += bool(fine)
        if not fine:
            self.failures.append((text, result))

    def close(self, subject, found, wanted, tolerance):
        """Numbers, or arrays, that are to be equal to within a tolerance; says only what is not."""
        import numpy  # Scripts that compare no numbers run without it.

        error = float(numpy.max(numpy.abs(numpy.asarray(found) - numpy.asarray(wanted))))
        if error <= tolerance:
            self.passed += 1
        else:
            self.failures.append((f"{subject}: largest error {error:.3g}", cleave("--version")))

    def report(self):
        """Ends the test."""
        report(self.failures, self.passed)
