# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The parts of tools/gpu-test that need no GPU and no compiler: tensor files beside NumPy, comparisons, and what becomes
# of programs' reports.
#
#   python3 test/tools/gpu_test/files.py

import contextlib
import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(REPOSITORY, "tools", "gpu_test"))

import agreement  # noqa: E402
import carry  # noqa: E402
import cases  # noqa: E402
import prepare  # noqa: E402
import results  # noqa: E402
import suites  # noqa: E402
import tensors  # noqa: E402

try:
    import numpy
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)


class Tensors(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    # What NumPy writes is read, of every type that plans have as outputs, and in every rank.
    def test_reads_what_numpy_writes(self):
        generator = numpy.random.default_rng(1)
        for kind in ("f4", "f8", "i4", "i8", "u1", "i1", "?"):
            for shape in ((), (5,), (2, 3), (2, 1, 4)):
                wanted = (100 * generator.standard_normal(shape)).astype(kind)
                numpy.save(self.path("a.npy"), wanted)
                elements, found = tensors.read_npy(self.path("a.npy"))
                self.assertEqual(tuple(found), shape)
                self.assertTrue(numpy.array_equal(numpy.array(elements).reshape(shape), wanted), (kind, shape))

    # Exported parameters come as archives.
    def test_reads_archives(self):
        first, second = numpy.arange(6, dtype="f4").reshape(2, 3), numpy.ones(4, "i8")
        numpy.savez(self.path("a.npz"), **{"block0/fc1.weight": first, "b": second})
        found = tensors.read_npz(self.path("a.npz"))
        self.assertEqual(set(found), {"block0/fc1.weight", "b"})
        self.assertEqual(list(found["block0/fc1.weight"][0]), list(range(6)))
        self.assertEqual(found["b"][1], (4,))

    # The data of trainings is read by programs that take NumPy's files: NumPy itself must.
    def test_writes_what_numpy_reads(self):
        tensors.write_random(self.path("x.npy"), "f32", (64, 3, 5), 0, seed=3)
        values = numpy.load(self.path("x.npy"))
        self.assertEqual((values.dtype, values.shape), (numpy.dtype("f4"), (64, 3, 5)))
        # Normal numbers: a mean of 960 of them is 0 to within 5 of its deviations, and their deviation 1.
        self.assertLess(abs(values.mean()), 5 / math.sqrt(values.size))
        self.assertLess(abs(values.std() - 1), 0.15)
        tensors.write_random(self.path("i.npy"), "i64", (64, 9), 7, seed=3)
        labels = numpy.load(self.path("i.npy"))
        self.assertEqual(labels.dtype, numpy.dtype("i8"))
        self.assertEqual(set(labels.flatten()), set(range(7)))

    # A tensor of another type is refused, by name.
    def test_refuses_other_types(self):
        numpy.save(self.path("c.npy"), numpy.zeros(2, "c8"))
        with self.assertRaisesRegex(ValueError, "c.npy expects elements of .*got <c8"):
            tensors.read_npy(self.path("c.npy"))

    # What is no number, or of another shape, never agrees.
    def test_difference(self):
        def of(found, wanted):
            return tensors.difference((found, (len(found),)), (wanted, (len(wanted),)))

        self.assertEqual(of([1.0, -4.0], [1.0, -4.0]), 0)
        self.assertEqual(of([1.5, -2.0], [1.0, -4.0]), 2)
        self.assertEqual(of([math.nan], [1.0]), math.inf)
        self.assertEqual(of([math.inf], [1.0]), math.inf)
        self.assertEqual(of([1.0], [1.0, 2.0]), math.inf)


class Weights(unittest.TestCase):
    # Weights travel compressed, and are there again, byte by byte, where the plan looks for them.
    def test_packed_and_unpacked(self):
        with tempfile.TemporaryDirectory() as folder:
            path, content = os.path.join(folder, "a.plan.weights"), bytes(range(256)) * 5000
            with open(path, "wb") as file:
                file.write(content)
            carry.pack_weights(folder)
            self.assertFalse(os.path.exists(path))
            self.assertLess(os.path.getsize(path + ".xz"), len(content) / 10)
            carry.unpack_weights(folder)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), content)


class Carried(unittest.TestCase):
    # NCCL's header is found by CMake where the system has none, and the system's own is taken where it has one.
    def test_names_nccl(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("nccl/nccl.h", "flatc"):
                os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
                open(os.path.join(folder, name), "w", encoding="utf-8").close()
            flag = f"-DCLEAVE_NCCL_INCLUDE={os.path.join(folder, 'nccl')}"
            self.assertIn(flag, carry.configuration(folder, carried_only=True))
            has = carry.find("nccl.h", carry.CUDA) is not None
            self.assertEqual(flag not in carry.configuration(folder), has)
            # Copies may lose what is executable.
            self.assertTrue(os.access(os.path.join(folder, "flatc"), os.X_OK))

    # Of NCCL's headers none lies where the compiler looks last, and CMake not at all.
    def test_carries_nccl_apart(self):
        if carry.find("nccl.h", carry.CUDA) is None:
            self.skipTest("no NCCL")
        with tempfile.TemporaryDirectory() as folder:
            carry.fill(folder, lambda text: None)
            self.assertTrue(os.path.exists(os.path.join(folder, "nccl", "nccl.h")))
            self.assertFalse(os.path.exists(os.path.join(folder, "cuda", "nccl.h")))

    # What travels with the folder is what git knows or would add.
    def test_counts_the_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(prepare.tree_bytes(folder), 0)
            subprocess.run(["git", "init", "-q", folder], check=True)
            for name, size in (("a", 1000), ("b", 500), (".gitignore", 2)):
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write("b\n"[:size] if name == ".gitignore" else "x" * size)
            self.assertEqual(prepare.tree_bytes(folder), 1002)


class Comparisons(unittest.TestCase):
    AFTER = {"weight": ([1.0, 2.0], (2,)), "bias": ([0.5], (1,)), "key": ([1e-7], (1,))}

    def after(self, **changed):
        return {**self.AFTER, **{name: ([value], (1,)) for name, value in changed.items()}}

    # Twenty times the noise, at least a small part of the change; what rounding decides is left out.
    def test_tolerances(self):
        before = {"weight": ([1.0, 1.0], (2,)), "bias": ([0.0], (1,)), "key": ([0.0], (1,))}
        many = {str(i): ([1.0], (1,)) for i in range(20)}
        started, other = {**before, **{name: ([0.0], (1,)) for name in many}}, self.after(bias=0.5 + 1e-5, key=2e-7)
        found = prepare.parameter_tolerances(started, {**self.AFTER, **many}, {**other, **many})
        self.assertAlmostEqual(found["weight"], 1e-4)
        self.assertAlmostEqual(found["bias"], 2e-4, places=9)
        self.assertNotIn("key", found)
        with self.assertRaisesRegex(prepare.Failed, "3 of 3 hardly change"):
            prepare.parameter_tolerances(self.AFTER, self.AFTER, self.AFTER)

    # In bfloat16 three times, of a difference to float32 that may be a sixth of the change.
    def test_narrow_tolerances(self):
        before, other = {"weight": ([1.0, 1.0], (2,))}, {"weight": ([1.0, 2.1], (2,))}
        found = prepare.parameter_tolerances(before, {"weight": self.AFTER["weight"]}, other, prepare.NARROW_NOISE)
        self.assertAlmostEqual(found["weight"], 0.3)
        other = {"weight": ([1.0, 2.2], (2,))}
        with self.assertRaisesRegex(prepare.Failed, "1 of 1 hardly change"):
            prepare.parameter_tolerances(before, {"weight": self.AFTER["weight"]}, other, prepare.NARROW_NOISE)

    # An error in one element of one parameter, or in one loss, is a failure.
    def test_steps(self):
        tolerances = {"weight": 1e-3, "bias": 1e-3}

        def compare(losses, found):
            return agreement.compare_steps(losses, [2.0, 1.0], 1e-4, found, self.AFTER, tolerances)[0]

        self.assertEqual(compare([2.0, 1.00005], self.after(bias=0.5005, key=7.0)), results.PASSED)
        self.assertEqual(compare([2.0, 1.0], self.after(bias=0.502)), results.FAILED)
        self.assertEqual(compare([2.001, 1.0], self.after()), results.FAILED)
        self.assertEqual(compare([math.nan, 1.0], self.after()), results.FAILED)
        # JSON has no NaN: a program writes null.
        self.assertEqual(compare([None, 1.0], self.after()), results.FAILED)
        self.assertEqual(compare([2.0, 1.0], self.after(bias=math.nan)), results.FAILED)


class Reports(unittest.TestCase):
    # Failures of one driver must not hide behind passes of another, and a suite that was skipped has not passed.
    def test_counts_by_driver(self):
        report = {"testsuites": [{"name": "All/Suite", "testsuite": [
            {"name": "Order/cpu", "result": "COMPLETED"},
            {"name": "Order/cuda", "result": "COMPLETED", "failures": [{"failure": "x"}]},
            {"name": "Waits/cuda", "result": "SKIPPED"}, {"name": "Plain", "result": "COMPLETED"},
            {"name": "Shapes/12", "result": "COMPLETED"}]}]}
        self.assertEqual(suites.count_by_driver(report), {
            "cpu": {"passed": 1, "skipped": 0, "failed": []}, "others": {"passed": 2, "skipped": 0, "failed": []},
            "cuda": {"passed": 0, "skipped": 1, "failed": ["All/Suite.Order/cuda"]}})

    # Results so far are on the disk after every row, and a ratio above 1 says that ours is faster.
    def test_keeps_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = results.Results(folder)
            kept.add("outputs", "mlp", results.PASSED)
            with open(os.path.join(folder, "results.json"), encoding="utf-8") as file:
                self.assertEqual([row["name"] for row in json.load(file)["rows"]], ["mlp"])
            kept.add("speed", "gpt", results.PASSED, ours_ms=10.0, eager={"ms": 24.0, "ms_with_copies": 25.0},
                     graphs={"ms": None, "ms_with_copies": 20.0}, share_of_rate=0.5, rounds=3)
            with open(os.path.join(folder, "results.md"), encoding="utf-8") as file:
                self.assertIn("| gpt | 10.000 | 25.000 | - | 20.000 | - | - | 2.50 | - | 2.00 | 50 % | - | 3 |", file.read())
            self.assertEqual(kept.summary(), "2 passed, 0 failed, 0 skipped")

    # What is printed last is all that some machines give back: failures and the summary are in it, however much passed.
    def test_prints_little(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = results.Results(folder)
            kept.save = lambda: None
            with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
                for i in range(300):
                    kept.add("steps", f"fine{i}", results.PASSED, devices=1, measured_ms=1.0, allocated_bytes=[1])
                    kept.add("outputs", f"long{i}", results.PASSED, "x" * 300)
                kept.add("outputs", "wrong", results.FAILED, "differs")
            text = kept.text()
            self.assertLess(len(text), 12000)
            self.assertIn("outputs: wrong: failed: differs", text)
            self.assertTrue(text.endswith("600 passed, 1 failed, 0 skipped"))
            # Many that fail alike are one line.
            for i in range(100):
                kept.rows.append({"part": "steps", "name": f"bad{i}", "status": results.FAILED, "detail": "no GPU"})
            self.assertIn("bad98, bad99: failed: no GPU", kept.text())
            for i in range(300):
                kept.rows.append({"part": "outputs", "name": f"bad{i}", "status": results.FAILED,
                                  "detail": f"{i}" + "y" * 300})
            self.assertLess(len(kept.text()), 12000)
            self.assertIn("more in results.md", kept.text())

    # A few files, however many programs said something: the logs are one.
    def test_packs(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = results.Results(os.path.join(folder, "out"), os.path.join(folder, "work"))
            for i in range(20):
                kept.log(f"{i}.log", f"said {i}\n" * 200000)
            kept.save()
            kept.pack()
            self.assertEqual(sorted(os.listdir(os.path.join(folder, "out"))), ["logs.tgz", "results.json", "results.md"])
            with tarfile.open(os.path.join(folder, "out", "logs.tgz")) as archive:
                self.assertEqual(len(archive.getnames()), 20)
                self.assertTrue(archive.extractfile("7.log").read().endswith(b"said 7\n"))

    # Of what a program printed its error counts, not what came after it.
    def test_says_errors(self):
        self.assertEqual(results.last("notice: a\nerror: no GPU\nnote: at node \"fc1\"\n"), "error: no GPU")
        self.assertEqual(results.last("one\ntwo\n"), "two")


class Cases(unittest.TestCase):
    # Names are file names, and rows of one table.
    def test_names_differ(self):
        names = [case.name for case in cases.all_cases()]
        self.assertEqual(len(names), len(set(names)))
        self.assertTrue(all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-") for name in names))

    # Everything that is promised for GPUs is there.
    def test_complete(self):
        names = {case.name for case in cases.all_cases()}
        for name in ("shared-resnet50", "mlp", "moe", "unet", "train-lenet-data", "train-lstm-pipeline4",
                     "train-gpt-tensor", "speed-resnet50-train", "speed-gpt-inference", "speed-lstm-train"):
            self.assertIn(name, names)
        self.assertEqual({case.devices for case in cases.all_cases() if case.purpose == "training"}, {1, 2, 4})


if __name__ == "__main__":
    unittest.main()
