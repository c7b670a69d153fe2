# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What the table of tools/long_tier.py says of parts that passed, failed, ran in shares and were cut short.
#
#   python3 test/tools/long_tier/table.py

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


class Table(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        for path in ("tools", "build", "docs"):
            os.mkdir(os.path.join(self.root, path))
        shutil.copy(os.path.join(REPOSITORY, "tools/long_tier.py"), os.path.join(self.root, "tools"))
        self.write(".gitignore", "build\n")
        self.say(["true"] * 5)
        self.git("init", "-q")
        self.commit("one")

    def write(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text)

    def say(self, commands):
        """Tests that end as these commands do."""
        self.write("build/CTestTestfile.cmake", "".join(f'add_test(t{i} "{command}")\n' for i, command in enumerate(commands)))

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.root, check=True)

    def commit(self, text):
        self.write("file", text)
        self.git("add", ".")
        self.git("commit", "-q", "-m", text)

    def run_tier(self, *words):
        return subprocess.run([sys.executable, "tools/long_tier.py", *words], cwd=self.root, stderr=subprocess.PIPE, text=True)

    def row(self, part="tests"):
        """The part's result and what it found."""
        self.assertEqual(self.run_tier("--table", "docs/table.md").returncode, 0)
        with open(os.path.join(self.root, "docs/table.md"), encoding="utf-8") as file:
            row = next(line for line in file if line.startswith(f"| {part} |"))
        return tuple(cell.strip() for cell in row.split("|")[3:5])

    def test_whole(self):
        self.assertEqual(self.row(), ("not run", ""))
        self.assertEqual(self.run_tier("tests").returncode, 0)
        self.assertEqual(self.row(), ("passed", "5 tests, 0 failed"))
        self.say(["true"] * 4 + ["false"])
        self.assertEqual(self.run_tier("tests").returncode, 1)
        self.assertEqual(self.row(), ("failed", "5 tests, 1 failed"))

    # A part is passed when all its shares are, each at the same commit.
    def test_shares(self):
        self.assertEqual(self.run_tier("tests", "--share", "1/2").returncode, 0)
        self.assertEqual(self.row(), ("cut short: 1 of 2 shares", "3 tests, 0 failed"))
        self.assertNotIn("passed at this commit", self.run_tier("tests", "--resume").stderr)
        self.assertEqual(self.run_tier("tests", "--share", "2/2").returncode, 0)
        self.assertEqual(self.row(), ("cut short: 1 of 2 shares", "2 tests, 0 failed"))
        self.assertEqual(self.run_tier("tests", "--share", "1/2").returncode, 0)
        self.assertEqual(self.row(), ("passed", "5 tests, 0 failed"))
        self.commit("two")
        self.assertEqual(self.run_tier("tests", "--share", "2/2").returncode, 0)
        self.assertEqual(self.row(), ("cut short: 1 of 2 shares", "2 tests, 0 failed"))

    def test_failed_share(self):
        self.say(["true", "false", "true", "true", "true"])
        self.assertEqual(self.run_tier("tests", "--share", "2/3").returncode, 1)
        self.assertEqual(self.row(), ("failed: 1 of 3 shares", "2 tests, 1 failed"))
        self.assertEqual(self.run_tier("tests", "--share", "1/3").returncode, 0)
        self.assertEqual(self.row(), ("failed: 2 of 3 shares", "4 tests, 1 failed"))

    def test_refuses(self):
        for words in (["tests", "--share", "3/2"], ["tests", "--share", "0/2"], ["tests", "--share", "a"],
                      ["gcc", "--share", "1/2"], ["tests", "--runs", "3"], ["fuzz", "--runs", "0"], ["nothing"]):
            self.assertEqual(self.run_tier(*words).returncode, 2, words)


unittest.main()
