# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The tests of every change as units: one command each, a suite of GoogleTest being one. A first run without a fault
# says how long each takes and which faults' places it reaches. A unit whose files have changed since is one that has
# not run.

import dataclasses
import functools
import hashlib
import json
import mmap
import os
import signal
import subprocess
import time

MOST_FAULTS = 4096


@dataclasses.dataclass
class Unit:
    name: str
    command: list
    folder: str
    environment: dict
    limit: float


def read_units(build):
    """The fast tier of the build, without what looks at sources."""
    text = subprocess.run(["ctest", "--test-dir", build, "-LE", "long|lint", "--show-only=json-v1"], check=True,
                          capture_output=True, text=True).stdout
    units = {}
    for test in json.loads(text)["tests"]:
        if "command" not in test:
            continue
        properties = {entry["name"]: entry["value"] for entry in test["properties"]}
        name, command = test["name"], list(test["command"])
        filters = [word for word in command if word.startswith("--gtest_filter=")]
        if filters:
            # ctest's name may have a prefix, the filter has none.
            suite = filters[0].split("=", 1)[1].split(".")[0]
            name = f"{os.path.basename(command[0])}:{suite}"
            command = [command[0], f"--gtest_filter={suite}.*", "--gtest_fail_fast", "--gtest_brief=1"]
        elif name.startswith("lit."):
            command[1:1] = ["--max-failures=1"]
        environment = dict(entry.split("=", 1) for entry in properties.get("ENVIRONMENT", []))
        units.setdefault(name, Unit(name, command, properties["WORKING_DIRECTORY"], environment,
                                    float(properties.get("TIMEOUT", 1500))))
    return list(units.values())


@functools.cache
def digest(path):
    """Of a file; of a folder, of the files below it."""
    content = hashlib.sha256()
    if os.path.isdir(path):
        for folder, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                content.update(f"{name} {digest(os.path.join(folder, name))} ".encode())
    elif os.path.isfile(path):
        with open(path, "rb") as file:
            content.update(file.read())
    return content.hexdigest()


def files_of(unit, source, build):
    """What of the unit is test, and not what it tests: GoogleTest's program, the folder of a script or of lit's tests,
    the tool that lit's tests run passes with."""
    for word in unit.command:
        if word.startswith(os.path.join(build, "bin")):
            yield word
        elif word.startswith(build):
            yield source + word[len(build):]
            yield os.path.join(build, "bin/cleave-opt")
        elif word.startswith(source):
            yield os.path.dirname(word) if word.endswith(".py") else word


def version(unit, source, build):
    """Changes with the files of the unit."""
    return hashlib.sha256(" ".join(map(digest, files_of(unit, source, build))).encode()).hexdigest()


# Groups of processes that run, so that none is left when the tool is stopped.
running = set()


def stop():
    for group in list(running):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass


def run(unit, limit, fault=None, reached=None):
    """Runs a unit; returns its exit status (None: past `limit` seconds) and its seconds."""
    environment = {**os.environ, **unit.environment}
    if fault is not None:
        environment["CLEAVE_FAULT"] = str(fault)
    if reached is not None:
        environment["CLEAVE_FAULTS_REACHED"] = reached
    start = time.monotonic()
    process = subprocess.Popen(unit.command, cwd=unit.folder, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    running.add(process.pid)
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        running.discard(process.pid)
    return status, time.monotonic() - start


def measure(unit, folder):
    """Runs a unit without a fault: seconds, whether it passes, the faults that it reaches."""
    path = os.path.join(folder, f"reached-{os.getpid()}-{abs(hash(unit.name))}")
    with open(path, "wb") as file:
        file.truncate(MOST_FAULTS)
    status, seconds = run(unit, unit.limit, reached=path)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        numbers = [index for index in range(MOST_FAULTS) if content[index]]
    os.remove(path)
    return {"status": status, "seconds": seconds, "reached": numbers}
