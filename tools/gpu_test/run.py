# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# On the machine with GPUs: builds the runtime, runs its conformance suite and every prepared plan, measures beside
# PyTorch, and says what it found. Each part has a limit of time; what fails is a row, never the end.

import concurrent.futures
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import carry
import cuda_libraries
import peers
import tensors
from cases import PRECISIONS
from results import FAILED, PASSED, SKIPPED, Results, last
from speed import Speed, work_of

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMITS = {"build": 170, "conformance": 60, "plan": 30, "agreement": 120, "probe": 60, "steps": 80,
          "sanitizer": 90}
# Programs of tests, and which of theirs: conformance of all drivers, and the cuda driver's own.
SUITES = {"cleave-runtime-test": "*onformance*-*cuda_simulated*", "cleave-cuda-test": "-*simulated*"}


class Run:
    def __init__(self, folder, output, options):
        self.folder, self.build, self.options = os.path.abspath(folder), os.path.abspath(options.build), options
        self.begin, self.results = time.monotonic(), Results(output)
        self.environment = {**os.environ, "CLEAVE_ALGORITHM_CACHE": os.path.join(self.build, "algorithms.txt")}
        libraries = cuda_libraries.folders()
        if libraries:
            known = os.environ.get("LD_LIBRARY_PATH")
            self.environment["LD_LIBRARY_PATH"] = ":".join([*([known] if known else []), *libraries])
        self.peers, self.rates = {}, {}

    def limit(self, part):
        """Of a program that is given nobody knows how fast it is."""
        return self.options.seconds if self.options.program else LIMITS[part]

    def left(self):
        return self.options.seconds - (time.monotonic() - self.begin)

    def command(self, *words, limit, cwd=REPOSITORY):
        """Runs a program within a limit and what is left of the whole: its exit code, none after the limit, and output."""
        limit = min(limit, self.left())
        if limit <= 1:
            return None, "no time is left"
        try:
            process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True, errors="replace", stdin=subprocess.DEVNULL, cwd=cwd,
                                       env=self.environment, start_new_session=True)
        except OSError as error:
            return 127, str(error)
        try:
            output = process.communicate(timeout=limit)[0]
            return process.returncode, output
        except subprocess.TimeoutExpired:
            # Its children, too: a compiler that ninja started would go on otherwise.
            os.killpg(process.pid, signal.SIGKILL)
            return None, (process.communicate()[0] or "") + f"\nno end within {limit:.0f} s"

    def log(self, name, text):
        with open(os.path.join(self.results.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    #===-- parts --------------------------------------------------------------------------------------------------===#

    def machine(self):
        code, output = self.command("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader",
                                    limit=20)
        self.results.machine["GPU"] = output.strip().splitlines()[0] if code == 0 and output.strip() else "none"
        code, output = self.command(find_in_toolkit("nvcc") or "nvcc", "--version", limit=20)
        self.results.machine["toolkit"] = output.strip().splitlines()[-1] if code == 0 else "no nvcc"
        code, output = self.command(sys.executable, "-c", "import torch; print(torch.__version__)", limit=60)
        self.results.machine["PyTorch"] = output.strip().splitlines()[-1] if code == 0 else "none"
        return self.results.machine["PyTorch"] != "none"

    def start_peers(self):
        """While the runtime is built: first the rates, alone on the GPU, then all models at once."""
        self.rates = peers.measured_rates(90)
        workloads = [case for case in self.cases if case["purpose"] == "speed"]
        for model, precision in sorted({(case["model"], case["precision"]) for case in workloads}):
            works = {work_of(case) for case in workloads if (case["model"], case["precision"]) == (model, precision)}
            flags = [*PRECISIONS[precision], *(["--only", *works] if len(works) == 1 else [])]
            self.peers[model, precision] = peers.Peer(
                model, os.path.join(self.results.folder, f"torch-{model}-{precision}.log"), flags)

    def build_runtime(self):
        carried, cache = os.path.join(self.folder, "carried"), shutil.which("ccache")
        flags = carry.configuration(carried, self.options.carried_only, ["-fpch-preprocess"] if cache else [])
        if cache:
            self.environment["CCACHE_SLOPPINESS"] = "pch_defines,time_macros,include_file_mtime,include_file_ctime"
            flags.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        # A build on a few cores may take what is left: nothing runs without it.
        limit = max(LIMITS["build"], self.left() - 300)
        code, output = self.command("cmake", "-S", "runtime", "-B", self.build, "-G", "Ninja", "-DCLEAVE_CUDA=ON", *flags,
                                    limit=limit)
        if code == 0:
            jobs = ["-j", self.options.jobs] if self.options.jobs else []
            known = self.command("ninja", "-C", self.build, "-t", "targets", "all", limit=60)[1]
            targets = [name for name in ("cleave-run", *SUITES) if f"\n{name}: phony" in known]
            code, more = self.command("ninja", "-C", self.build, *jobs, *targets, limit=limit)
            output += more
        self.log("build.log", output)
        self.results.add("build", "runtime alone", PASSED if code == 0 else FAILED, "" if code == 0 else last(output))
        return code == 0

    def conformance(self):
        """The suites on each driver. What runs on a simulated CUDA says nothing new where there is a real one."""
        found = False
        for suite in SUITES:
            program = os.path.join(self.build, "bin", suite)
            if os.path.exists(program):
                found = True
                self.run_suite(suite, program)
        if not found:
            self.results.add("conformance", "suites", SKIPPED, "they were not built: no GoogleTest")

    def run_suite(self, suite, program):
        report = os.path.join(self.results.folder, f"{suite}.json")
        code, output = self.command(program, "--gtest_brief=1", f"--gtest_filter={SUITES[suite]}",
                                    f"--gtest_output=json:{report}", limit=LIMITS["conformance"])
        self.log(f"{suite}.log", output)
        if code is None or not os.path.exists(report):
            self.results.add("conformance", suite, FAILED, last(output))
            return
        with open(report, encoding="utf-8") as file:
            for driver, counts in sorted(count_by_driver(json.load(file)).items()):
                failed, skipped, passed = len(counts["failed"]), counts["skipped"], counts["passed"]
                status = FAILED if failed else PASSED if passed else SKIPPED
                detail = f"{passed} passed, {failed} failed, {skipped} skipped"
                self.results.add("conformance", f"{suite}, {driver}", status,
                                 detail + "".join(f"; {name}" for name in counts["failed"][:3]), driver=driver,
                                 passed=passed, failed=failed, skipped=skipped)

    def sanitizer(self):
        program, tool = os.path.join(self.build, "bin", "cleave-runtime-test"), find_in_toolkit("compute-sanitizer")
        if not tool or not os.path.exists(program):
            self.results.add("sanitizer", "conformance", SKIPPED, "no compute-sanitizer" if not tool else "no suite")
            return
        code, output = self.command(tool, "--tool", "memcheck", "--error-exitcode", "9", program, "--gtest_brief=1",
                                    "--gtest_filter=*/cuda", limit=LIMITS["sanitizer"])
        self.log("sanitizer.log", output)
        found = [line for line in output.splitlines() if "ERROR SUMMARY" in line]
        detail = found[-1].strip("= ") if found else last(output)
        self.results.add("sanitizer", "conformance", PASSED if code == 0 and found else FAILED, detail)

    def agreement(self):
        """Outputs, losses and parameters beside the expected ones."""
        until = time.monotonic() + self.limit("agreement")

        def compare(case):
            if time.monotonic() > until or self.left() < 5:
                return SKIPPED, "no time is left for it"
            return (self.compare_training if case["purpose"] == "training" else self.compare_outputs)(case)

        # Several at a time: what a program loads takes longer than what it computes, and nothing is measured here.
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            compared = [case for case in self.cases if case["purpose"] != "speed"]
            for case, (status, detail) in zip(compared, pool.map(compare, compared)):
                self.results.add(case["purpose"], case["name"], status, detail)

    def files(self, flag, bindings):
        return [word for port, name in bindings.items() for word in (flag, f"{port}={os.path.join(self.folder, name)}")]

    def cleave_run(self, *words, limit):
        program = self.options.program or os.path.join(self.build, "bin", "cleave-run")
        return self.command(program, *words, limit=limit)

    def compare_outputs(self, case):
        # The second step and those after it are replayed, so that one step would not be enough.
        code, output = self.cleave_run(os.path.join(self.folder, case["plan"]), "--repeat", 3,
                                       *self.files("--input", case.get("inputs", {})),
                                       *self.files("--expect", case["expects"]), "--rtol", case["rtol"], "--atol",
                                       case["atol"], limit=self.limit("plan"))
        return (PASSED if code == 0 else FAILED), last(output)

    def compare_training(self, case):
        report, export = (os.path.join(self.build, case["name"] + suffix) for suffix in (".json", ".npz"))
        code, output = self.cleave_run("train", os.path.join(self.folder, case["plan"]),
                                       *self.files("--data", case["data"]), "--steps", case["steps"], "--epochs", 100,
                                       "--seed", 1, "--export", export, "--json", report, "--json-steps",
                                       limit=self.limit("plan"))
        if code != 0:
            return FAILED, last(output)
        with open(report, encoding="utf-8") as file:
            losses = [step["loss"] for step in json.load(file)["steps"]]
        wanted = case["losses"]
        expected, found = tensors.read_npz(os.path.join(self.folder, case["parameters"])), tensors.read_npz(export)
        if len(losses) != len(wanted) or set(found) != set(expected):
            return FAILED, f"expected {len(wanted)} losses and {len(expected)} parameters, got {len(losses)} and {len(found)}"
        return compare_steps(losses, wanted, case["loss_tolerance"], found, expected, case["parameter_tolerances"])

    def speed(self):
        Speed(self).measure([case for case in self.cases if case["purpose"] == "speed"])

    def probe(self):
        path = os.path.join(self.results.folder, "machine.yaml")
        code, output = self.cleave_run("--probe-gpu", "-o", path, limit=LIMITS["probe"])
        self.log("probe.log", output)
        self.results.add("probe", "machine file", PASSED if code == 0 else FAILED, "" if code == 0 else last(output))

    def steps(self):
        """What a step of each plan takes, and the memory that it gets, alone on the GPU: for tools/gpu-test predict."""
        until, report = time.monotonic() + LIMITS["steps"], os.path.join(self.build, "steps.json")
        for case in self.cases:
            if time.monotonic() > until:
                self.results.add("steps", case["name"], SKIPPED, "no time is left for it")
                continue
            flags = ["--entry", case["entry"]] if case["entry"] else []
            # The first steps are launched call by call, and wait for algorithms to be chosen: the median leaves them out.
            code, output = self.cleave_run(os.path.join(self.folder, case["plan"]), *flags, "--repeat", 11, "--json",
                                           report, limit=LIMITS["plan"])
            if code != 0:
                self.results.add("steps", case["name"], FAILED, last(output))
                continue
            with open(report, encoding="utf-8") as file:
                found = json.load(file)
            self.results.add("steps", case["name"], PASSED, devices=case["devices"],
                             measured_ms=found["latency_ms"]["median"],
                             allocated_bytes=[device["allocated_bytes"] for device in found["devices"]])

    def run(self):
        with open(os.path.join(self.folder, "cases.json"), encoding="utf-8") as file:
            prepared = json.load(file)
        self.cases = prepared["cases"]
        for failure in prepared["failures"]:
            self.results.add(failure["purpose"], failure["name"], SKIPPED, "not prepared: " + failure["error"])
        if self.options.program:
            carry.unpack_weights(self.folder)
            self.agreement()
            return self.finish()
        unpacking = threading.Thread(target=carry.unpack_weights, args=[self.folder], daemon=True)
        unpacking.start()
        background = threading.Thread(target=self.start_peers, daemon=True)
        if self.machine() and not self.options.no_peers:
            background.start()
        try:
            if self.build_runtime():
                for part in (self.conformance, self.join(unpacking), self.agreement, self.join(background), self.speed,
                             self.probe, self.steps, self.sanitizer):
                    self.attempt(part)
        finally:
            for peer in self.peers.values():
                peer.stop()
        return self.finish()

    def finish(self):
        self.results.machine["seconds"] = f"{time.monotonic() - self.begin:.0f}"
        self.results.save()
        print(self.results.text())
        return 0 if self.results.count(FAILED) == 0 else 1

    def join(self, thread):
        def wait():
            if thread.is_alive():
                thread.join(max(1, min(90, self.left())))
        return wait

    def attempt(self, part):
        """A part that fails in a way that nobody foresaw is a row, too."""
        try:
            part()
        except Exception as error:
            self.results.add(part.__name__, "gpu-test itself", FAILED, f"{type(error).__name__}: {error}")


def compare_steps(losses, wanted, loss_tolerance, found, expected, tolerances):
    """Whether losses and parameters are near enough to the expected ones, and how near."""
    error = max(abs(a - b) / abs(b) if a == a else math.inf for a, b in zip(losses, wanted))
    worst, tensor = max((tensors.difference(found[name], expected[name]) / tolerances[name], name)
                        for name in tolerances)
    fine = error <= loss_tolerance and worst <= 1
    return (PASSED if fine else FAILED), (f"losses to {error:.1e} of {loss_tolerance:.1e}, parameters to {worst:.2f} of "
                                          f"what rounding may change ({tensor})")


def find_in_toolkit(program):
    """CUDA's folder is not always among those where programs are looked for."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")


def count_by_driver(report):
    """Of GoogleTest's JSON, by the driver that a test's parameter names: how many passed and were skipped, and which
    failed."""
    found = {}
    for suite in report.get("testsuites", []):
        for test in suite.get("testsuite", []):
            driver = test["name"].split("/")[1] if "/" in test["name"] else "others"
            counts = found.setdefault(driver, {"passed": 0, "skipped": 0, "failed": []})
            if test.get("failures"):
                counts["failed"].append(f"{suite['name']}.{test['name']}")
            else:
                counts["skipped" if test.get("result") == "SKIPPED" else "passed"] += 1
    return found


def run(options):
    folder = options.folder
    if not os.path.exists(os.path.join(folder, "cases.json")):
        print(f"gpu-test: error: expected a folder that prepare has filled, got {folder}", file=sys.stderr)
        return 2
    return Run(folder, options.output or os.path.join(folder, "results"), options).run()
