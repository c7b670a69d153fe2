# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What tools/gpu-test run does with programs that fail, crash, hang, answer late or want memory that others have: each is
# a row, and what comes after it runs. The programs are fakes of a few lines.
#
#   python3 test/tools/gpu_test/faults.py

import argparse
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "gpu_test"))

import peers  # noqa: E402
import processes  # noqa: E402
import run as gpu_run  # noqa: E402
import suites  # noqa: E402
import tensors  # noqa: E402

# A cleave-run that does what the plan's text says, and keeps with what it was called.
CLEAVE_RUN = r'''
import json, os, sys, time, zipfile
words = sys.argv[1:]
def after(flag):
    return words[words.index(flag) + 1] if flag in words else None
if "--probe-gpu" in words:
    sys.exit(0)
plan = words[1] if words[0] == "train" else words[0]
with open(plan) as file:
    text = file.read().split()
with open(os.path.join(os.path.dirname(plan), "calls"), "a") as file:
    print(json.dumps({"plan": os.path.basename(plan), "cache": os.path.basename(os.environ["CLEAVE_ALGORITHM_CACHE"])}),
          file=file)
def fail(text):
    print("error: " + text)
    sys.exit(1)
if "fails" in text:
    fail("wrong")
if "fails-in-graphs" in text and os.environ.get("CLEAVE_CUDA_GRAPHS") != "0":
    fail("wrong in a graph")
if "crashes" in text:
    os.abort()
if "wants-memory" in text and os.path.exists(os.path.join(os.path.dirname(plan), "busy")):
    fail("GPU 0 expects to hold 5 bytes, got 1 free of 9")
if "hangs" in text:
    time.sleep(60)
if after("--json"):
    with open(after("--json"), "w") as file:
        json.dump({"steps": [{"loss": None}], "latency_ms": {"median": None if "null" in text else 2.0},
                   "devices": [{"allocated_bytes": 8}]}, file)
if after("--export"):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }".ljust(117) + "\n"
    with zipfile.ZipFile(after("--export"), "w") as archive:
        archive.writestr("w.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(4))
print("fine")
'''

# A suite of three tests, of which one ends or spoils its process.
SUITE = r'''
import json, os, re, sys
flags = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
wanted, _, unwanted = flags["gtest_filter"].partition("-")
tests = [f"Drivers/Suite.{name}/cuda" for name in ("First", "Second", "Third")]
exact = [name for name in wanted.split(":") if name in tests]
tests = [name for name in exact or tests if name not in unwanted.split(":")]
spoiled, done = False, []
for name in tests:
    print(f"[ RUN      ] {name}", flush=True)
    if "Second" in name and MODE == "crashes":
        print("cudaErrorIllegalAddress", flush=True)
        os.abort()
    spoiled = spoiled or ("Second" in name and MODE == "spoils")
    print(f"[  {'FAILED  ' if spoiled else '     OK '}] {name} (0 ms)", flush=True)
    done.append({"name": name.split(".")[1], "result": "COMPLETED", **({"failures": [{}]} if spoiled else {})})
with open(flags["gtest_output"].split(":", 1)[1], "w") as file:
    json.dump({"testsuites": [{"name": "Drivers/Suite", "testsuite": done}]}, file)
if spoiled:
    sys.exit(1)
'''

# A PyTorch whose variants are slow to get ready, or to answer.
PEER = r'''
import json, sys, time
model, words = sys.argv[1], sys.argv[2:]
if model == "rates":
    print(json.dumps({"f32_flops_per_second": 1e12}))
    sys.exit(0)
variants = words[words.index("--variants") + 1:] if "--variants" in words else ["eager", "compiled"]
for variant in variants:
    if model == "slow" and variant == "compiled":
        time.sleep(60)
    print(json.dumps({"work": "train", "variant": variant, "ms": 1.0}), flush=True)
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    work, variant, steps, question = line.split()
    if model == "late" and variant == "eager":
        time.sleep(1)
    value = {"eager": 7.0, "compiled": 3.0}[variant]
    print(json.dumps({"work": work, "variant": variant, "ms": value, "ms_with_copies": value, "question": int(question)}),
          flush=True)
'''


class Faults(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.folder, self.build = os.path.join(self.root, "plans"), os.path.join(self.root, "build")
        self.output, self.bin = os.path.join(self.root, "out"), os.path.join(self.root, "build", "bin")
        os.mkdir(self.folder)
        self.program(self.bin, "cleave-run", CLEAVE_RUN)
        # Rows go to the log of whoever looks for an error.
        quiet = contextlib.redirect_stderr(io.StringIO())
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)

    def program(self, folder, name, text):
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!{sys.executable}\n{textwrap.dedent(text)}")
        os.chmod(path, 0o755)
        return path

    def case(self, name, text, purpose="outputs", **more):
        with open(os.path.join(self.folder, f"{name}.plan"), "w", encoding="utf-8") as file:
            file.write(text)
        return {"name": name, "purpose": purpose, "plan": f"{name}.plan", "devices": 1, "entry": "", "model": name,
                "precision": "f32", "expects": {}, "rtol": 0, "atol": 0, **more}

    def runner(self, cases, seconds=600, **options):
        options = {"build": self.build, "seconds": seconds, "program": None, "carried_only": False, "jobs": None,
                   "no_peers": True, "parts": list(gpu_run.PARTS), **options}
        runner = gpu_run.Run(self.folder, self.output, argparse.Namespace(**options))
        runner.cases = cases
        with open(os.path.join(self.folder, "cases.json"), "w", encoding="utf-8") as file:
            json.dump({"cases": cases, "failures": []}, file)
        return runner

    def children_of(self, program):
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                    if os.fsencode(program) in words[:2]:
                        found.append(int(name))
        return found

    def rows(self, runner):
        return {(row["part"], row["name"]): row for row in runner.results.rows}

    def status(self, runner):
        return {row["name"]: row["status"] for row in runner.results.rows}

    def calls(self):
        with open(os.path.join(self.folder, "calls"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]


class Plans(Faults):
    # A loss that is no number is written as null: that row fails, and those behind it are there.
    def test_loss_is_no_number(self):
        tensors_path = os.path.join(self.folder, "expected.npz")
        subprocess.run([os.path.join(self.bin, "cleave-run"), self.case("x", "")["plan"], "--export", tensors_path],
                       cwd=self.folder, check=True, stdout=subprocess.DEVNULL, env={"CLEAVE_ALGORITHM_CACHE": ""})
        training = self.case("nan", "", "training", data={}, steps=1, losses=[1.0], parameters="expected.npz",
                             loss_tolerance=1, parameter_tolerances={"w": 1})
        runner = self.runner([training, self.case("after", "")])
        runner.agreement()
        self.assertEqual(self.status(runner), {"nan": "failed", "after": "passed"})
        self.assertIn("losses to inf", self.rows(runner)["training", "nan"]["detail"])

    # What nobody foresaw, here a case without its tolerance, is a row that says so.
    def test_unforeseen(self):
        broken = self.case("broken", "")
        del broken["rtol"]
        runner = self.runner([broken, self.case("after", "")])
        runner.agreement()
        self.assertEqual(self.status(runner), {"broken": "failed", "after": "passed"})
        self.assertIn("KeyError", self.rows(runner)["outputs", "broken"]["detail"])

    # A plan that fails runs once more in each of the driver's ways, and its row says what came of it.
    def test_diagnosed(self):
        runner = self.runner([self.case("bad", "fails-in-graphs"), self.case("dead", "crashes")])
        runner.agreement()
        detail = self.rows(runner)["outputs", "bad"]["detail"]
        self.assertIn("with CLEAVE_CUDA_SYNC=1: the same; with", detail)
        self.assertIn("with CLEAVE_CUDA_GRAPHS=0: passed", detail)
        self.assertIn("SIGABRT", self.rows(runner)["outputs", "dead"]["detail"])

    # Without time nothing has failed.
    def test_no_time(self):
        runner = self.runner([self.case("plan", "")], seconds=1)
        runner.agreement()
        runner.steps()
        self.assertEqual([(row["status"], row["detail"]) for row in runner.results.rows], [("skipped", "no time left")] * 2)
        # Nor where the end of the whole cuts a program off.
        runner = self.runner([self.case("slow", "hangs")], seconds=3)
        runner.agreement()
        self.assertIn("no time left: cut after", self.rows(runner)["outputs", "slow"]["detail"])
        self.assertEqual(self.status(runner), {"slow": "skipped"})

    # What found no memory beside PyTorch runs again when PyTorch is gone.
    def test_memory_of_others(self):
        busy = os.path.join(self.folder, "busy")
        open(busy, "w", encoding="utf-8").close()
        runner = self.runner([self.case("big", "wants-memory"), self.case("fast", "wants-memory", "speed")])
        runner.agreement()
        self.assertEqual(self.status(runner), {"big": "failed"})
        runner.stop_peers = lambda: os.remove(busy)
        runner.speed()
        self.assertEqual(self.status(runner), {"big": "passed", "fast": "passed"})
        self.assertEqual(self.rows(runner)["speed", "fast"]["ours_ms"], 2)
        self.assertIn("expects to hold", self.rows(runner)["speed", "fast"]["detail"])

    # Algorithms that were chosen while others used the GPU are not those of what is measured.
    def test_caches_of_algorithms(self):
        runner = self.runner([self.case("checked", ""), self.case("fast", "", "speed")])
        runner.agreement()
        runner.speed()
        caches = {}
        for call in self.calls():
            caches.setdefault(call["plan"], set()).add(call["cache"])
        self.assertEqual({len(names) for names in caches.values()}, {1})
        self.assertNotEqual(caches["checked.plan"], caches["fast.plan"])

    # Whole models first, then others by how many devices share the GPU; a time that is no number is a row.
    def test_steps(self):
        runner = self.runner([self.case("two", "", devices=2), self.case("one", "", "training"),
                              self.case("null", "null"), self.case("fast", "", "speed")])
        runner.steps()
        self.assertEqual([call["plan"] for call in self.calls()], ["fast.plan", "one.plan", "null.plan", "two.plan"])
        self.assertEqual(self.status(runner), {"fast": "passed", "one": "passed", "null": "failed", "two": "passed"})

    # Each row of speed is there before the next one is measured.
    def test_speed_is_kept(self):
        runner = self.runner([self.case("null", "null", "speed"), self.case("fine", "", "speed")])
        with mock.patch.object(gpu_run.Speed, "make_ready", lambda self: None):
            runner.speed()
        self.assertEqual(self.status(runner), {"null": "failed", "fine": "passed"})
        seen = []
        add = runner.results.add
        runner.results.add = lambda part, name, *rest, **numbers: (seen.append(name), add(part, name, *rest, **numbers))
        runner.speed()
        self.assertLess(seen.index("null"), seen.index("fine"))
        self.assertLess(seen.index("fine"), len(seen) - 1 - seen[::-1].index("null"))


class Suites(Faults):
    def counts(self, mode, text=SUITE):
        self.program(self.bin, "cleave-cuda-test", f"MODE = {mode!r}\n{text}")
        runner = self.runner([])
        # What an earlier run has left says nothing.
        with open(os.path.join(runner.work, "cleave-cuda-test.json"), "w", encoding="utf-8") as file:
            json.dump({"testsuites": [{"name": "Old", "testsuite": [{"name": "Old/cuda", "result": "COMPLETED"}]}]}, file)
        suites.conformance(runner)
        return {row["name"]: row for row in runner.results.rows}

    # A test that kills its process is a row, and the others are counted without it.
    def test_crash(self):
        rows = self.counts("crashes")
        killer, rest = rows["cleave-cuda-test, Drivers/Suite.Second/cuda"], rows["cleave-cuda-test, cuda"]
        self.assertEqual((killer["status"], rest["status"]), ("failed", "passed"))
        self.assertIn("SIGABRT: cudaErrorIllegalAddress", killer["detail"])
        self.assertEqual((rest["passed"], rest["failed"]), (2, 0))

    # An error that stays in the process fails all tests behind it: only the first is to blame.
    def test_spoiled(self):
        row = self.counts("spoils")["cleave-cuda-test, cuda"]
        self.assertEqual((row["status"], row["passed"], row["failures"]), ("failed", 2, ["Drivers/Suite.Second/cuda"]))

    # A suite that dies at once, or at its end, has not passed, whatever report lies there; nor has one without tests.
    def test_dies(self):
        for text, said in (("raise SystemExit(1)", "exit code 1"), (SUITE + "\nos.abort()", "SIGABRT"),
                           (SUITE.replace('("First", "Second", "Third")', "()"), "no test ran")):
            (row,) = self.counts("fine", text).values()
            self.assertEqual(row["status"], "failed")
            self.assertIn(said, row["detail"])

    # compute-sanitizer sees the driver's own tests and a plan on two devices, too.
    def test_sanitizer(self):
        self.program(self.bin, "cleave-cuda-test", "")
        tool = self.program(self.root, "sanitizer", "import sys\nprint('==== ERROR SUMMARY: 0 errors', sys.argv[4:])")
        runner = self.runner([self.case("one", ""), self.case("two", "", devices=2)])
        suites.sanitizer(runner, tool, 30)
        self.assertEqual(self.status(runner), {"two, 3 steps": "passed", "cleave-cuda-test": "passed"})
        self.assertIn("--repeat", self.rows(runner)["sanitizer", "two, 3 steps"]["detail"])


class Peers(Faults):
    def peer(self, model):
        programs = processes.Programs(60, self.root)
        found = peers.Peer(programs, model, os.path.join(self.root, "log"),
                           command=[self.program(self.root, "peer", PEER)])
        self.addCleanup(found.stop)
        return found

    # An answer that comes too late is not that to the next question.
    def test_late_answers(self):
        peer = self.peer("late")
        self.assertTrue(peer.wait_until_ready(time.monotonic() + 20))
        self.assertIn("no answer", peer.measure("train", "eager", 5, 0.2)["error"])
        self.assertEqual(peer.measure("train", "compiled", 5, 20)["ms"], 3)
        self.assertEqual(peer.measure("train", "eager", 5, 20)["ms"], 7)

    # What still compiles is stopped, and what has answered is measured.
    def test_not_ready(self):
        peer = self.peer("slow")
        for _ in range(25):
            self.assertFalse(peer.wait_until_ready(time.monotonic() + 1))
            if peer.warm:
                break
        first = peer.process
        self.assertTrue(peer.begin_again())
        self.assertIsNotNone(first.poll())
        self.assertTrue(peer.wait_until_ready(time.monotonic() + 20))
        self.assertEqual(peer.warm, {("train", "eager")})
        self.assertEqual(peer.errors, {(None, "others"): "not ready in time"})
        self.assertEqual(peer.measure("train", "eager", 5, 20)["ms"], 7)


class Programs(Faults):
    # What a program has started ends with it, also when it hangs, and what it printed is kept.
    def test_children(self):
        path = self.program(self.root, "parent", """
            import subprocess, time
            print(subprocess.Popen(["sleep", "100"]).pid, flush=True)
            time.sleep(100)
        """)
        code, output = processes.Programs(60, self.root).run(path, limit=2, environment=dict(os.environ))
        self.assertIsNone(code)
        self.assertIn("no end within 2 s", output)
        self.assert_gone(int(output.split()[0]))

    # Whoever ends the tool, in whatever way, ends its programs.
    def test_ends_with_the_tool(self):
        for ending in (signal.SIGTERM, signal.SIGKILL):
            if ending == signal.SIGKILL and not processes.dies_with_us():
                continue
            runner = self.runner([self.case("plan", "hangs")])
            tool = subprocess.Popen([sys.executable, "-B", os.path.join(REPOSITORY, "tools", "gpu_test"), "run",
                                     self.folder, "--build", self.build, "--parts", "steps", "-o", self.output],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            path = os.path.join(self.folder, "calls")
            for _ in range(200):
                if os.path.exists(path):
                    break
                time.sleep(0.1)
            os.remove(path)
            started = self.children_of(runner.program())
            self.assertTrue(started)
            tool.send_signal(ending)
            tool.wait(10)
            for process in started:
                self.assert_gone(process)

    def assert_gone(self, process):
        # Not at once: the system takes its time.
        for _ in range(50):
            try:
                with open(f"/proc/{process}/stat", encoding="utf-8") as file:
                    if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return
            except OSError:
                return
            time.sleep(0.1)
        self.fail(f"process {process} lives on")


class Parts(Faults):
    # A ninja that makes cleave-run and fails with the suites.
    NINJA = r'''
        import os, sys
        words = sys.argv[1:]
        if "targets" in words:
            print("all: phony\ncleave-run: phony\ncleave-runtime-test: phony")
        elif "cleave-runtime-test" in words:
            print("FAILED: a suite" if words[words.index("-k") + 1] == "0" else "stopped")
            sys.exit(1)
        elif "cleave-run" in words and os.path.exists(os.path.join(words[1], "broken")):
            sys.exit(1)
    '''

    def run_parts(self, cases, *parts, **options):
        tools = os.path.join(self.root, "tools")
        self.program(tools, "ninja", self.NINJA)
        for name in ("cmake", "nvidia-smi", "nvcc"):
            self.program(tools, name, "")
        path = {"PATH": tools + ":" + os.environ["PATH"]}
        with mock.patch.dict(os.environ, path), contextlib.redirect_stdout(io.StringIO()) as printed:
            runner = self.runner(cases, parts=list(parts) or list(gpu_run.PARTS), **options)
            self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
            runner.run()
        return runner, printed.getvalue()

    # Suites that do not compile take nothing else with them.
    def test_suites_do_not_compile(self):
        runner, _ = self.run_parts([self.case("plan", "")], "build", "agreement")
        rows = self.rows(runner)
        self.assertEqual([rows["build", name]["status"] for name in ("runtime alone", "suites")], ["passed", "failed"])
        self.assertIn("FAILED: a suite", rows["build", "suites"]["detail"])
        self.assertEqual(rows["outputs", "plan"]["status"], "passed")

    # Without a cleave-run of this build nothing runs: that of an earlier one would be tested.
    def test_does_not_build(self):
        open(os.path.join(self.build, "broken"), "w", encoding="utf-8").close()
        runner, _ = self.run_parts([self.case("plan", "")], "build", "agreement")
        self.assertEqual(self.rows(runner)["build", "runtime alone"]["status"], "failed")
        self.assertNotIn(("outputs", "plan"), self.rows(runner))

    # PyTorch is measured beside ours, and gone before the GPU has to be ours alone.
    def test_beside_pytorch(self):
        peer = self.program(self.root, "peer", PEER)
        self.program(os.path.join(self.root, "python"), "torch.py", "__version__ = '9.1'")
        alive = []
        with mock.patch.object(peers, "COMMAND", [peer]), \
                mock.patch.dict(os.environ, {"PYTHONPATH": os.path.join(self.root, "python")}), \
                mock.patch.object(gpu_run.Run, "probe", lambda _: alive.append(self.children_of(peer))):
            case = self.case("fine", "", "speed", entry="train", flops=1e9)
            runner, printed = self.run_parts([case], "speed", "probe", no_peers=False, seconds=600)
        row = self.rows(runner)["speed", "fine"]
        self.assertEqual((row["ours_ms"], row["eager"]["ms"], row["compiled"]["ms"], row["rounds"]), (2, 7, 3, 3))
        # 1e9 operations in 2 ms of 1e12 a second.
        self.assertAlmostEqual(row["share_of_rate"], 0.5)
        self.assertEqual(alive, [[]])
        self.assertIn("PyTorch: 9.1", printed)

    # Several runs with one part each give the table of one run with all of them, in a few files.
    def test_parts_add_up(self):
        cases = [self.case("plan", ""), self.case("bad", "fails")]
        self.run_parts(cases, "build", "agreement")
        for name in os.listdir(self.output):
            os.remove(os.path.join(self.output, name))
        runner, printed = self.run_parts([self.case("plan", ""), self.case("bad", "")], "steps")
        self.assertEqual({key: row["status"] for key, row in self.rows(runner).items()}, {
            ("build", "runtime alone, configured"): "passed", ("build", "runtime alone"): "passed",
            ("build", "suites"): "failed", ("outputs", "plan"): "passed", ("outputs", "bad"): "failed",
            ("steps", "plan"): "passed", ("steps", "bad"): "passed"})
        self.assertEqual(sorted(os.listdir(self.output)), ["logs.tgz", "results.json", "results.md"])
        self.assertTrue(printed.strip().endswith("5 passed, 2 failed, 0 skipped"))
        runner, _ = self.run_parts([self.case("plan", ""), self.case("bad", "")], "agreement")
        self.assertEqual(self.rows(runner)["outputs", "bad"]["status"], "passed")
        # A run of all parts starts anew.
        runner, _ = self.run_parts([self.case("plan", "")])
        self.assertNotIn(("outputs", "bad"), self.rows(runner))


if __name__ == "__main__":
    unittest.main()
