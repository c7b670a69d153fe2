# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# On the machine with GPUs: builds the runtime, runs its conformance suite and every prepared plan, measures beside
# PyTorch, and says what it found. Each part has a limit of time; what fails is a row, never the end.

import json
import os
import shutil
import signal
import sys
import threading
import time

import agreement
import building
import carry
import cuda_libraries
import peers
import suites
from agreement import what_failed
from cases import PRECISIONS
from processes import NoTime, Programs
from results import FAILED, PASSED, SKIPPED, Results, last
from speed import OURS, Speed, work_of

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# In this order. Seconds that a part may take, and that what comes before it leaves to it; those of one plan.
PARTS = ("build", "conformance", "agreement", "speed", "probe", "steps", "kernels", "sanitizer")
LIMITS = {"plan": 30, "agreement": 120, "probe": 75, "steps": 80, "kernels": 60, "sanitizer": 90}
LEAST = {"conformance": 40, "agreement": 90, "speed": 130, "probe": 50, "steps": 60, "kernels": 30, "sanitizer": 30}
# How rows are called of what is no part, or not as its part.
ROWS = {"agreement": ("agreement", "outputs", "training")}
ALWAYS = {"machine", "unpacking", "PyTorch"}
# With nothing else on the GPU.
ALONE = ("speed", "probe", "steps", "kernels")

# Asks the system's loader as the runtime does which file it takes.
LOADED = """
import ctypes, os
chosen = os.environ.get("CUDA_PATH")
for folder in [*([chosen + "/lib64/"] if chosen else []), "", "/usr/local/cuda/lib64/"]:
    for name in NAMES:
        try:
            ctypes.CDLL(folder + name)
        except OSError:
            continue
        print(next(line.split()[-1] for line in open("/proc/self/maps") if name.split(".so")[0] + ".so" in line))
        raise SystemExit
print("none")
"""


class Run:
    def __init__(self, folder, output, options):
        self.folder, self.build, self.options = os.path.abspath(folder), os.path.abspath(options.build), options
        # What stays from run to run, beside what is built.
        self.work = os.path.join(self.build, "gpu-test")
        self.results = Results(os.path.abspath(output), self.work)
        self.programs = Programs(options.seconds, REPOSITORY)
        self.environment = dict(os.environ)
        self.remember_algorithms("measured")
        libraries = cuda_libraries.folders()
        if libraries:
            known = os.environ.get("LD_LIBRARY_PATH")
            self.environment["LD_LIBRARY_PATH"] = ":".join([*([known] if known else []), *libraries])
        self.peers, self.rates, self.peers_began, self.again = {}, {}, time.monotonic(), []
        self.peers_lock, self.peers_wanted = threading.Lock(), True

    def remember_algorithms(self, kind):
        """Which are fastest while others use the GPU says nothing about steps that are measured."""
        self.environment["CLEAVE_ALGORITHM_CACHE"] = os.path.join(self.work, f"algorithms-{kind}.txt")

    def limit(self, part):
        """Of a program that is given nobody knows how fast it is."""
        return self.options.seconds if self.options.program else LIMITS[part]

    def left(self):
        return self.programs.left()

    def reserved(self, part):
        """Seconds that the chosen parts behind this one need at least."""
        chosen = getattr(self.options, "parts", ())
        return sum(LEAST[later] for later in PARTS[PARTS.index(part) + 1:] if later in chosen)

    def command(self, *words, limit, environment=None):
        return self.programs.run(*words, limit=limit, environment={**self.environment, **(environment or {})})

    def program(self):
        return self.options.program or os.path.join(self.build, "bin", "cleave-run")

    def cleave_run(self, *words, limit, environment=None):
        return self.command(self.program(), *words, limit=limit, environment=environment)

    @staticmethod
    def entry(case):
        return ["--entry", case["entry"]] if case["entry"] else []

    #===-- what is there ------------------------------------------------------------------------------------------===#

    def machine(self):
        about = self.results.machine
        about["GPU"] = self.ask("none", "nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader")
        about["driver"] = self.ask("none", "nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        about["clocks of processors, most; of memory"] = self.ask(
            "unknown", "nvidia-smi", "--query-gpu=clocks.sm,clocks.max.sm,clocks.mem", "--format=csv,noheader")
        about["toolkit"] = self.ask("no nvcc", find_in_toolkit("nvcc") or "nvcc", "--version", line=-1)
        for name, files in (("libcudart", ["libcudart.so.13", "libcudart.so.12"]), ("libcublasLt", ["libcublasLt.so.13",
                            "libcublasLt.so.12"]), ("libcudnn", ["libcudnn.so.9"])):
            about[name] = self.ask("none", sys.executable, "-c", f"NAMES = {files}\n{LOADED}", line=-1)
        self.results.save()

    def ask(self, otherwise, *words, line=0):
        code, output = self.command(*words, limit=20)
        return output.strip().splitlines()[line] if code == 0 and output.strip() else otherwise

    def start_peers(self):
        """While the runtime is built: first the rates, alone on the GPU, then all models at once."""
        python = os.environ
        code, output = self.programs.run(sys.executable, "-c", "import torch; print(torch.__version__)", limit=90,
                                         environment=python)
        self.results.machine["PyTorch"] = output.strip().splitlines()[-1] if code == 0 else "none"
        if code != 0:
            return
        code, output = self.programs.run(*peers.COMMAND, "rates", limit=90, environment=python)
        try:
            self.rates = json.loads(output.strip().splitlines()[-1]) if code == 0 else {}
        except (ValueError, IndexError):
            self.rates = {}
        self.results.machine["rates of PyTorch"] = ", ".join(f"{key.split('_')[0]} {1e-12 * value:.1f} T/s"
                                                             for key, value in self.rates.items()) or last(output)
        workloads, self.peers_began = self.of_purpose("speed"), time.monotonic()
        for model, precision in sorted({(case["model"], case["precision"]) for case in workloads}):
            works = {work_of(case) for case in workloads if (case["model"], case["precision"]) == (model, precision)}
            flags = [*PRECISIONS[precision], *(["--only", *works] if len(works) == 1 else [])]
            log = self.results.log_path(f"torch-{model}-{precision}.log")
            with self.peers_lock:
                if not self.peers_wanted:
                    return
                self.peers[model, precision] = peers.Peer(self.programs, model, log, flags)

    def stop_peers(self):
        with self.peers_lock:
            self.peers_wanted = False
            for peer in self.peers.values():
                peer.stop()
            self.peers = {}

    def of_purpose(self, *purposes):
        return [case for case in self.cases if case["purpose"] in purposes]

    #===-- parts --------------------------------------------------------------------------------------------------===#

    def build_runtime(self):
        return building.build_runtime(self, suites.SUITES, lambda: max(60, self.left() - self.reserved("build")))

    def conformance(self):
        suites.conformance(self)

    def sanitizer(self):
        suites.sanitizer(self, find_in_toolkit("compute-sanitizer"), LIMITS["sanitizer"])

    def agreement(self):
        self.again = self.compare(self.of_purpose("outputs", "training"))
        if not self.peers_wanted or "speed" not in getattr(self.options, "parts", ()):
            self.compare_again()

    def compare(self, cases):
        """Adds rows; the cases that found too little memory."""
        self.remember_algorithms("shared")
        limit = self.limit("agreement")
        if not self.options.program:
            limit = max(20, min(limit, self.left() - self.reserved("agreement")))
        lacking = agreement.Agreement(self).compare_all(cases, limit)
        self.remember_algorithms("measured")
        return lacking

    def compare_again(self):
        """What found too little memory, perhaps since PyTorch's processes had theirs."""
        cases, self.again = self.again, []
        if cases:
            self.compare(cases)

    def speed(self):
        workloads, measuring = self.of_purpose("speed"), Speed(self)
        try:
            lacking = measuring.measure(workloads)
        finally:
            self.stop_peers()
        measuring.measure_alone(lacking)
        measuring.diagnose(workloads)
        self.compare_again()

    def probe(self):
        path = os.path.join(self.work, "machine.yaml")
        if os.path.exists(path):
            os.remove(path)
        code, output = self.cleave_run("--probe-gpu", "-o", path, limit=LIMITS["probe"])
        self.results.log("probe.log", output)
        left_out = [line for line in output.splitlines() if "left out" in line]
        self.results.add("probe", "machine file", PASSED if code == 0 and not left_out else FAILED,
                         "; ".join(left_out[:3]) if code == 0 else what_failed(code, output))

    def steps(self):
        """What a step of each plan takes, and the memory that it gets, alone on the GPU: for tools/gpu-test predict.
        What is asked of first comes first: whole models, then others on one device, then those that share it."""
        self.measure_all("steps", self.measure_steps)

    def kernels(self):
        """What each kernel of each plan takes by itself, in one file: what is measured once serves all plans."""
        if os.path.exists(self.results.kernel_times()):
            os.remove(self.results.kernel_times())
        self.measure_all("kernels", self.measure_kernels)

    def measure_all(self, part, measure):
        until = time.monotonic() + self.limit(part)
        for case in sorted(self.cases, key=lambda case: (case["purpose"] != "speed", case["devices"])):
            try:
                if time.monotonic() > until:
                    raise NoTime
                measure(case)
            except NoTime as reason:
                self.results.add(part, case["name"], SKIPPED, str(reason))
            except Exception as error:
                self.results.add(part, case["name"], FAILED, f"gpu-test itself: {type(error).__name__}: {error}")

    def measure_kernels(self, case):
        limit = OURS if case["purpose"] == "speed" else self.limit("plan")
        code, output = self.cleave_run(os.path.join(self.folder, case["plan"]), *self.entry(case), "--kernel-times",
                                       self.results.kernel_times(), limit=limit)
        self.results.add("kernels", case["name"], PASSED if code == 0 else FAILED,
                         "" if code == 0 else what_failed(code, output))

    def measure_steps(self, case):
        report = os.path.join(self.work, "steps.json")
        limit = OURS if case["purpose"] == "speed" else self.limit("plan")
        # The first steps are launched call by call, and wait for algorithms to be chosen: the median leaves them out.
        code, output = self.cleave_run(os.path.join(self.folder, case["plan"]), *self.entry(case), "--repeat", 11, "--json",
                                       report, limit=limit)
        if code != 0:
            self.results.add("steps", case["name"], FAILED, what_failed(code, output))
            return
        with open(report, encoding="utf-8") as file:
            found = json.load(file)
        self.results.add("steps", case["name"], PASSED, devices=case["devices"],
                         measured_ms=float(found["latency_ms"]["median"]),
                         allocated_bytes=[device["allocated_bytes"] for device in found["devices"]])

    #===-- all of it ----------------------------------------------------------------------------------------------===#

    def run(self):
        signal.signal(signal.SIGTERM, self.end_at_once)
        with open(os.path.join(self.folder, "cases.json"), encoding="utf-8") as file:
            prepared = json.load(file)
        self.cases, parts = prepared["cases"], self.options.parts
        if self.options.program:
            parts = ["agreement"]
        elif set(parts) != set(PARTS):
            self.results.restore(ALWAYS | {row for part in parts for row in ROWS.get(part, [part])})
        else:
            self.results.forget()
        for failure in prepared["failures"]:
            self.results.add(failure["purpose"], failure["name"], SKIPPED, "not prepared: " + failure["error"])
        unpacking = self.in_background("unpacking", carry.unpack_weights, self.folder)
        starting = None
        if not self.options.program:
            self.attempt("machine", self.machine)
            if "speed" in parts and not self.options.no_peers:
                starting = self.in_background("PyTorch", self.start_peers)
        try:
            for part in PARTS:
                if part not in parts:
                    continue
                if part == "agreement" or "agreement" not in parts:
                    self.join(unpacking)
                if part == "speed" and starting:
                    self.join(starting)
                if not self.run_part(part):
                    break
        finally:
            self.stop_peers()
        return self.finish()

    def run_part(self, part):
        """Whether the parts behind it make sense."""
        begin = time.monotonic()
        self.remember_algorithms("measured" if part in ALONE else "shared")
        if part != "build" and not os.path.exists(self.program()):
            self.results.add("build", "runtime alone", FAILED, f"no program at {self.program()}; build it first")
            return False
        done = self.attempt(part, self.build_runtime if part == "build" else getattr(self, part))
        self.results.seconds[part] = time.monotonic() - begin
        self.results.save()
        self.results.pack()
        return done is not False

    def in_background(self, name, work, *arguments):
        thread = threading.Thread(target=lambda: self.attempt(name, work, *arguments), daemon=True)
        thread.start()
        return thread

    def join(self, thread):
        limit = self.options.seconds if self.options.program else 90
        thread.join(max(1, min(limit, self.left())))

    def attempt(self, name, part, *arguments):
        """A part that fails in a way that nobody foresaw is a row, too; false then."""
        try:
            return part(*arguments)
        except NoTime as reason:
            self.results.add(name, "all of it", SKIPPED, str(reason))
        except Exception as error:
            self.results.add(name, "gpu-test itself", FAILED, f"{type(error).__name__}: {error}")
        return False if name == "build" else None

    def end_at_once(self, *_):
        """Whoever ends the tool ends what it started. What is known is kept already."""
        self.programs.stop_all()
        os._exit(128 + signal.SIGTERM)

    def finish(self):
        self.results.save()
        self.results.pack()
        print(self.results.text(), flush=True)
        return 0 if self.results.count(FAILED) == 0 else 1


def find_in_toolkit(program):
    """CUDA's folders are not always among those where programs are looked for."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer")


def run(options):
    folder = options.folder
    if not os.path.exists(os.path.join(folder, "cases.json")):
        print(f"gpu-test: error: expected a folder that prepare has filled, got {folder}", file=sys.stderr)
        return 2
    return Run(folder, options.output or os.path.join(folder, "results"), options).run()
