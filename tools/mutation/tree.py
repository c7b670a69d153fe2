# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Draws faults and builds one tree that holds them all, each behind its switch.

import dataclasses
import glob
import json
import os
import random
import re
import shutil
import subprocess
import sys

from places import Finder, Place, arguments_of, compile_arguments

# Whose faults are drawn, in equal numbers. A source file belongs to the first that names it.
AREAS = {
    "distribute": ["passes/distribute/*.cpp", "dialects/dist/*.cpp"],
    "schedule": ["passes/schedule/*.cpp"],
    "codegen": ["passes/codegen/**/*.cpp"],
    "train": ["passes/train/*.cpp", "dialects/dfg/Differentiate*.cpp"],
    "planner": ["passes/planner/**/*.cpp"],
    "verifier": ["runtime/Verify*.cpp", "runtime/HappensBefore.cpp", "runtime/BufferUse.cpp", "dialects/plan/*.cpp"],
}
# What asks, and not what is asked: commits that change nothing else go on with the faults that are planted.
TESTS = ("test/", "docs/", "tools/cleave-opt/", "tools/lint/", "tools/mutat")
# Places of one file that are drawn at most, so that no file stands for its area.
MOST_OF_A_FILE = 3


@dataclasses.dataclass
class Fault:
    number: int
    area: str
    place: Place


def draw(root, build, seed, count):
    """`count` faults, as many of each area, kinds in turns."""
    generator = random.Random(seed)
    arguments = compile_arguments(build, root)
    faults = []
    for index, (area, patterns) in enumerate(AREAS.items()):
        share = count * (index + 1) // len(AREAS) - count * index // len(AREAS)
        files = sorted({os.path.relpath(path, root) for pattern in patterns
                        for path in glob.glob(os.path.join(root, pattern), recursive=True)})
        generator.shuffle(files)
        chosen, kinds = [], {}
        for file in files:
            if len(chosen) >= share:
                break
            print(f"mutate: reads {file}", file=sys.stderr, flush=True)
            places = Finder(root, file, arguments_of(file, root, arguments)).find()
            generator.shuffle(places)
            # The rarest kind so far comes first; among equals, the order that was drawn.
            taken = []
            while places and len(taken) < MOST_OF_A_FILE and len(chosen) + len(taken) < share:
                place = min(places, key=lambda p: kinds.get(p.kind, 0))
                places.remove(place)
                if any(place.start < other.end and other.start < place.end for other in taken):
                    continue
                kinds[place.kind] = kinds.get(place.kind, 0) + 1
                taken.append(place)
            chosen += taken
        if len(chosen) < share:
            print(f"mutate: {area} has places for {len(chosen)} of {share} faults", file=sys.stderr)
        faults += [Fault(len(faults) + i, area, place) for i, place in enumerate(chosen)]
    return faults


def commit_of(root):
    """The commit of the sources, short."""
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=root, check=True, capture_output=True,
                          text=True).stdout.strip()


def changed_since(root, commit):
    """Files that git tracks, other than tests, that are not what they were at `commit`."""
    listed = subprocess.run(["git", "diff", "--name-only", "--no-renames", commit], cwd=root, capture_output=True,
                            text=True)
    if listed.returncode != 0:
        return [f"(git knows no commit {commit})"]
    return [name for name in listed.stdout.splitlines() if not name.startswith(TESTS)]


def save(faults, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump([dataclasses.asdict(fault) for fault in faults], file, indent=1)


def load(path):
    with open(path, encoding="utf-8") as file:
        return [Fault(entry["number"], entry["area"], Place(**entry["place"])) for entry in json.load(file)]


def plant(root, source, faults):
    """Copies what git tracks from `root` to `source` and puts the faults into the copy; lines stay what they are."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root,
                            check=True, capture_output=True).stdout.split(b"\0")
    planted = {}
    for fault in faults:
        planted.setdefault(fault.place.file, []).append(fault)
    header = os.path.join(root, "tools/mutation/Fault.h")
    names = set(filter(None, map(os.fsdecode, listed)))
    remove_others(source, names)
    for name in sorted(names):
        original, copy = os.path.join(root, name), os.path.join(source, name)
        if not os.path.isfile(original):
            continue
        with open(original, "rb") as file:
            content = file.read()
        for fault in sorted(planted.get(name, []), key=lambda f: f.place.start, reverse=True):
            place = fault.place
            content = content[:place.start] + place.planted(fault.number).encode() + content[place.end:]
        if name in planted:
            content = f'#include "{header}"\n#line 1 "{name}"\n'.encode() + content
        # What did not change keeps its time, so that a second build is short.
        if os.path.isfile(copy):
            with open(copy, "rb") as file:
                if file.read() == content:
                    continue
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        with open(copy, "wb") as file:
            file.write(content)
        shutil.copymode(original, copy)


def remove_others(source, names):
    """Removes from the copy what the project no longer has: lit and scripts run what lies in a folder."""
    for folder, folders, files in os.walk(source):
        if folder == source:
            folders[:] = [name for name in folders if name != "build"]
        for name in files:
            if os.path.relpath(os.path.join(folder, name), source) not in names:
                os.remove(os.path.join(folder, name))


def build_tree(root, source, build, faults, jobs):
    """Plants and builds; faults that do not compile, of constants that a type needs, are left out. Returns the rest."""
    for _ in range(8):
        plant(root, source, faults)
        if not os.path.exists(os.path.join(build, "build.ninja")):
            os.makedirs(build, exist_ok=True)
            packages = os.path.join(root, "build/node")
            if os.path.isdir(packages) and not os.path.exists(os.path.join(build, "node")):
                os.symlink(packages, os.path.join(build, "node"))
            subprocess.run(["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCLEAVE_TESTS=ON",
                            "-DCLEAVE_UNITY=ON"], check=True, stdout=sys.stderr)
        run = subprocess.run(["ninja", "-C", build, "-k0", f"-j{jobs}"], capture_output=True, text=True)
        if run.returncode == 0:
            return faults
        wrong = {(file, int(line)) for file, line in re.findall(r"^(?:\S*/)?((?:passes|dialects|runtime)/\S+?):(\d+):\d+: "
                                                                r"error:", run.stdout, re.MULTILINE)}
        kept = [fault for fault in faults
                if not any(fault.place.file == file and
                           fault.place.line <= line <= fault.place.line + fault.place.text.count("\n")
                           for file, line in wrong)]
        if len(kept) == len(faults):
            raise SystemExit(f"mutate: the tree does not build:\n{run.stdout[-4000:]}")
        print(f"mutate: {len(faults) - len(kept)} faults do not compile and are left out", file=sys.stderr)
        faults = kept
    raise SystemExit("mutate: the tree does not build after eight rounds")
