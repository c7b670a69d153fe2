# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# On the compiler's machine: compiles every case for GPUs into a folder, with the data and the outputs that it must give,
# which the CPU driver computes, or the model's authors have.

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

import cases
import carry
import tensors

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The folder and the repository travel together.
MOST_BYTES = 60 << 20
# Of a parameter that is compared.
MOST_OF_A_PARAMETER = 600 << 10
SAMPLES = 64
STEPS = 8
# Float32 sums in another order: the largest error of outputs in parts of the largest element.
OUTPUT_TOLERANCE = 2e-4
# The most that rounding changes of a number, in parts of it: half of the last of bfloat16's 8 bits; the last of TF32's 11,
# whose rest a GPU may cut off.
UNITS = {"bf16": 2.0**-8, "tf32": 2.0**-10}
# How many times as far from the CPU driver's parameters as its own plain loops come, others may come.
NOISE = 20
# The same in bfloat16, of how far the CPU driver comes from float32 by it: what rounds elsewhere may be as far from
# float32, on the other side. And the part of its change that such a difference of a parameter may be.
NARROW_NOISE = 3
LARGEST_PARTS = {NOISE: 0.05, NARROW_NOISE: 0.5}


class Failed(Exception):
    """What a program answered that could not do its part."""


def say(text):
    print(f"gpu-test: {text}", file=sys.stderr, flush=True)


class Preparation:
    """The folder, and where programs and models are."""

    def __init__(self, folder, machine, quick, only):
        self.folder, self.machine, self.quick, self.only = folder, machine, quick, only
        programs = os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin"))
        self.cleave, self.cleave_run = (os.path.join(programs, name) for name in ("cleave", "cleave-run"))
        self.shared = os.path.join(os.environ.get("CLEAVE_SHARED", os.path.join(REPOSITORY, "..", "shared")), "models")
        self.known = {}  # what the CPU driver gave, by what was asked

    def run(self, *command, limit=1800):
        try:
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace",
                                  stdin=subprocess.DEVNULL, timeout=limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"no answer within {limit} s") from None
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise Failed(f"exit code {done.returncode}: " + "; ".join(lines[-3:]))
        return done.stdout

    def path(self, name):
        return os.path.join(self.folder, name)

    def chosen(self):
        """The cases to prepare; those of shared models where these are."""
        for case in cases.all_cases():
            if self.only and not any(text in case.name for text in self.only):
                continue
            if self.quick and not case.quick:
                continue
            if case.model.sizes is None and not os.path.exists(self.model_file(case.model, "")):
                say(f"{case.name}: no model in {self.shared}")
                continue
            yield case

    def model_file(self, model, work):
        if model.sizes is None:
            return os.path.join(self.shared, model.name, "model.onnx")
        path = os.path.join(work, "-".join([model.name, *(f"{key}{value}" for key, value in model.sizes)]) + ".onnx")
        if work and not os.path.exists(path):
            numbers = [f"--{key}={value}" for key, value in model.sizes]
            self.run(self.cleave, "zoo", model.name, *numbers, "-o", path)
        return path

    #===-- one case -----------------------------------------------------------------------------------------------===#

    def prepare(self, case, work):
        """What the folder's list says of a case."""
        model = self.model_file(case.model, work)
        plan, flops = self.compile(case, case.training, work)
        if case.entry == "evaluate":
            # What the plan says of operations is about steps that train.
            flops = self.compile(case, [], work)[1]
        entry = {"name": case.name, "purpose": case.purpose, "plan": os.path.basename(plan), "devices": case.devices,
                 "entry": case.entry, "model": case.model.name, "precision": case.precision, "flops": flops,
                 "predicted_seconds": self.predict(plan, case, work)}
        entry.update(getattr(self, "expect_" + case.purpose)(case, model, work))
        return entry

    def compile(self, case, training, work):
        """The plan of a case, with these flags of training, and its operations. One plan serves all cases that it fits;
        one that no case runs stays in the working folder."""
        key = ("plan", case.model, case.devices, *case.how, *training)
        if key not in self.known:
            report = os.path.join(work, "report.json")
            plan = self.path(f"{case.name}.plan") if training == case.training else os.path.join(work, "other.plan")
            self.run(self.cleave, "compile", self.model_file(case.model, work), "--machine",
                     f"{self.machine}:{case.devices}", *case.how, *training, "-o", plan, "--json", report)
            with open(report, encoding="utf-8") as file:
                self.known[key] = plan, sum(device["flops"] for device in json.load(file)["devices"])
        return self.known[key]

    def predict(self, plan, case, work):
        """Seconds that a step is expected to take; none where the simulator cannot say."""
        report = os.path.join(work, "simulated.json")
        try:
            self.run(self.cleave, "simulate", plan, "--machine", f"{self.machine}:{case.devices}", "--json", report,
                     *(["--entry", case.entry] if case.entry else []))
        except Failed as failure:
            say(f"{case.name}: no prediction: {failure}")
            return None
        with open(report, encoding="utf-8") as file:
            return json.load(file)["predicted_step_seconds"]

    def cpu_plan(self, case, model, work, *how):
        """The same model on one device of this host, whatever the case's devices are."""
        name = "-".join(["cpu", os.path.basename(model), *case.training, *how]).replace("/", "_")
        path = os.path.join(work, name)
        if not os.path.exists(path):
            self.run(self.cleave, "compile", model, "--machine", "host:1", "--strategy", "single", *case.training, *how,
                     "-o", path)
        return path

    #===-- what it must give --------------------------------------------------------------------------------------===#

    def expect_outputs(self, case, model, work):
        """Outputs of one step, on the author's input, or on the numbers with which the runtime fills inputs."""
        if case.model.sizes is None:
            data = os.path.join(os.path.dirname(model), "test_data_set_0")
            return {"inputs": {"@0": self.take(case, data, "input_0.pb")}, "rtol": 1e-3, "atol": 1e-5,
                    "expects": {"@0": self.take(case, data, "output_0.pb")}}
        key = ("outputs", case.model)
        if key not in self.known:
            name = f"{case.name}.expected.npy"
            self.run(self.cleave_run, self.cpu_plan(case, model, work), "--output", f"@0={self.path(name)}")
            self.known[key] = name
        expected = tensors.read_npy(self.path(self.known[key]))
        scale = tensors.largest(expected[0])
        if not 0 < scale < math.inf:
            raise Failed(f"the CPU driver's output is to be compared with, but its largest element is {scale}")
        relative = OUTPUT_TOLERANCE
        if case.precision != "f32":
            relative += self.rounding(case, model, work, expected) / scale
        return {"expects": {"@0": self.known[key]}, "rtol": 0, "atol": relative * scale}

    def rounding(self, case, model, work, expected):
        """How far rounding may lead from `expected`, which is exact: as often as it is rounded in a row, but no more than
        twice what it does on the CPU driver in bfloat16, of which TF32 has a quarter, or than two roundings."""
        narrow = os.path.join(work, "narrow.npy")
        self.run(self.cleave_run, self.cpu_plan(case, model, work, *cases.PRECISIONS["bf16"]), "--output", f"@0={narrow}")
        unit, scale = UNITS[case.precision], tensors.largest(expected[0])
        measured = tensors.difference(tensors.read_npy(narrow), expected) * unit / UNITS["bf16"]
        return min(cases.ROUNDINGS[case.model, case.precision] * unit * scale, max(2 * measured, 2 * unit * scale))

    def take(self, case, folder, name):
        """A file of the model's own data, as the folder's."""
        shutil.copyfile(os.path.join(folder, name), self.path(f"{case.name}.{name}"))
        return f"{case.name}.{name}"

    def expect_training(self, case, model, work):
        """Losses and parameters after some steps, on data that the folder holds, and how far from them is near enough."""
        key = ("training", case.model, case.precision)
        if key not in self.known:
            stem = f"train-{case.model.name}" + ("" if case.precision == "f32" else f"-{case.precision}")
            data, name = self.training_data(case.model, stem), f"{stem}.expected.npz"
            narrow = case.precision != "f32"
            plan = self.cpu_plan(case, model, work, *(cases.PRECISIONS[case.precision] if narrow else []))
            losses = self.train(plan, data, STEPS, self.path(name), work)
            before, other = (os.path.join(work, file) for file in ("before.npz", "other.npz"))
            self.train(plan, data, 1, before, work)
            exact = self.cpu_plan(case, model, work, *([] if narrow else ["--reference"]))
            others, factor = self.train(exact, data, STEPS, other, work), NARROW_NOISE if narrow else NOISE
            noise = max(abs(a - b) / abs(a) for a, b in zip(losses, others))
            tolerances = parameter_tolerances(*map(tensors.read_npz, (before, self.path(name), other)), factor)
            keep_small(self.path(name))
            self.known[key] = {"data": data, "parameters": name, "losses": losses, "steps": STEPS,
                               "loss_tolerance": max(2e-5, factor * noise), "parameter_tolerances": tolerances}
        return self.known[key]

    def train(self, plan, data, steps, export, work):
        """Trains with the CPU driver; the steps' losses."""
        report = os.path.join(work, "training.json")
        files = [word for port, name in data.items() for word in ("--data", f"{port}={self.path(name)}")]
        self.run(self.cleave_run, "train", plan, *files, "--steps", steps, "--epochs", 100, "--seed", 1, "--export",
                 export, "--json", report, "--json-steps")
        with open(report, encoding="utf-8") as file:
            return [step["loss"] for step in json.load(file)["steps"]]

    def training_data(self, model, stem):
        """Files of samples for every input of a step that trains."""
        files = {}
        for index, (port, kind, shape, below) in enumerate(model.inputs):
            files[port] = f"{stem}.{port}.npy"
            tensors.write_random(self.path(files[port]), kind, (SAMPLES, *shape), below, seed=index)
        return files

    def expect_speed(self, case, model, work):
        """Nothing: these sizes take a CPU too long; the others' results say whether kernels are right."""
        return {}


def keep_small(path):
    """Leaves the parameters of a file that are small enough to be carried: all of most models."""
    with zipfile.ZipFile(path) as whole:
        members = {info.filename: whole.read(info) for info in whole.infolist() if info.file_size <= MOST_OF_A_PARAMETER}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as kept:
        for name, content in members.items():
            kept.writestr(name, content)


def parameter_tolerances(before, after, other, factor=NOISE):
    """Of each parameter the largest difference that rounding may explain, from how far apart two programmes of the CPU
    driver end, after steps that lead from `before` to `after`. A parameter that rounding decides (keys' biases, which
    attention does not depend on) is left out; an error in a gradient shows in all others, or none of this would prove
    anything."""
    tolerances = {}
    for name, expected in after.items():
        noise, change = tensors.difference(other[name], expected), tensors.difference(before[name], expected)
        tolerance = max(factor * noise, 1e-4 * change, 4e-7 * tensors.largest(expected[0]))
        if tolerance < LARGEST_PARTS[factor] * change:
            tolerances[name] = tolerance
    left_out = sorted(set(after) - set(tolerances))
    if len(left_out) > 0.1 * len(after):
        raise Failed(f"training expects to change parameters by more than rounding does, but {len(left_out)} of "
                     f"{len(after)} hardly change: {', '.join(left_out[:4])}")
    return tolerances


def tree_bytes(repository):
    """Of the files of a checkout, without what git ignores; 0 without git."""
    done = subprocess.run(["git", "-C", repository, "ls-files", "-coz", "--exclude-standard"], capture_output=True)
    paths = [os.path.join(os.fsencode(repository), name) for name in done.stdout.split(b"\0") if name]
    return sum(os.lstat(path).st_size for path in paths if os.path.lexists(path))


def prepare(folder, machine, quick, only):
    """Fills the folder; the exit code."""
    begin = time.monotonic()
    if os.path.exists(folder) and os.listdir(folder) and not os.path.exists(os.path.join(folder, "cases.json")):
        say(f"error: expected an empty folder, or one that prepare has made; got {folder}")
        return 2
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    preparation, prepared, failures = Preparation(folder, machine, quick, only), [], []
    for program in (preparation.cleave, preparation.cleave_run):
        if not os.access(program, os.X_OK):
            say(f"error: expected a program at {program}, found none; build first")
            return 1
    with tempfile.TemporaryDirectory() as work:
        for case in preparation.chosen():
            started = time.monotonic()
            try:
                prepared.append(preparation.prepare(case, work))
            except Failed as failure:
                failures.append({"name": case.name, "purpose": case.purpose, "error": str(failure)})
                say(f"{case.name}: {failure}")
                continue
            say(f"{case.name}: {time.monotonic() - started:.1f} s")
    carry.pack_weights(folder)
    carry.fill(os.path.join(folder, "carried"), say)
    with open(os.path.join(folder, "cases.json"), "w", encoding="utf-8") as file:
        json.dump({"version": 1, "cases": prepared, "failures": failures}, file, indent=1)
    total = sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)
    say(f"{len(prepared)} cases in {folder}, {total / 2**20:.1f} MiB, {time.monotonic() - begin:.0f} s")
    tree = tree_bytes(REPOSITORY)
    if total + tree > MOST_BYTES:
        say(f"error: expected at most {MOST_BYTES >> 20} MiB with {tree / 2**20:.1f} MiB of the repository, got "
            f"{(total + tree) / 2**20:.1f}; prepare fewer cases with --only")
        return 1
    if failures:
        say(f"{len(failures)} cases could not be prepared: {', '.join(case['name'] for case in failures)}")
    return 1 if failures or not prepared else 0
