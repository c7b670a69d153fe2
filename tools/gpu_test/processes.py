# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Programs that are run within limits of time, and never outlive who started them.

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time


class NoTime(Exception):
    """The whole has no time left for a program, which says nothing about the program."""

    def __init__(self, detail="no time left"):
        super().__init__(detail)


# Of a program: a group of processes of its own.
OWN_GROUP = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}


def dies_with_us():
    """Words before a command whose process is to end when the thread that started it does; none where that is unknown."""
    words = ["setpriv", "--pdeathsig", "KILL"]
    if not shutil.which(words[0]) or subprocess.run([*words, "true"], capture_output=True).returncode:
        return []
    return words


def kill_group(process):
    """A process and its children: a compiler that ninja started would go on otherwise."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        pass  # One that hangs inside of the system cannot be waited for.


class Programs:
    """Starts programs until the end of the whole, `seconds` from now, each in a group of its own."""

    def __init__(self, seconds, folder):
        self.end, self.folder = time.monotonic() + seconds, folder
        self.prefix, self.running, self.lock = dies_with_us(), set(), threading.Lock()

    def left(self):
        return self.end - time.monotonic()

    def start(self, words, **how):
        process = subprocess.Popen([*self.prefix, *map(str, words)], cwd=self.folder, **OWN_GROUP, **how)
        with self.lock:
            self.running.add(process)
        return process

    def stop(self, process):
        kill_group(process)
        with self.lock:
            self.running.discard(process)

    def stop_all(self):
        """Also from a signal's handler, which must not wait for a lock."""
        for process in list(self.running):
            kill_group(process)

    def run(self, *words, limit, environment):
        """A program's exit code, none after its limit, and what it printed. Throws NoTime where the end of the whole, not
        the limit, is in its way."""
        allowed = min(limit, self.left())
        if allowed <= 1:
            raise NoTime
        # A file, not a pipe: what was printed is known whoever still holds its other end.
        with tempfile.TemporaryFile() as printed:
            try:
                process = self.start(words, stdout=printed, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                     env=environment)
            except OSError as error:
                return 127, str(error)
            try:
                code = process.wait(timeout=allowed)
            except subprocess.TimeoutExpired:
                code = None
            self.stop(process)
            printed.seek(0)
            output = printed.read().decode(errors="replace")
        if code is None and allowed < limit:
            raise NoTime(f"no time left: cut after {allowed:.0f} s")
        return code, output if code is not None else f"{output}\nno end within {allowed:.0f} s"


def ended(code):
    """How a program ended that printed nothing of it: its signal, or its exit code."""
    if code is not None and code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"exit code {code}"
