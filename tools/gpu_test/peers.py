# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# PyTorch beside ours: processes that compile their models while other parts run, and then answer questions.

import json
import os
import queue
import subprocess
import sys
import threading

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(REPOSITORY, "tools", "bench", "torch_gpu.py")


class Peer:
    """One model's process. Whatever becomes of it, an answer or an error comes in time."""

    def __init__(self, model, log, flags=()):
        self.model, self.answers, self.ready = model, queue.Queue(), None
        self.log = open(log, "w", encoding="utf-8")
        self.process = subprocess.Popen([sys.executable, "-B", SCRIPT, model, "--serve", *flags], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                self.answers.put(json.loads(line))
            except ValueError:
                self.log.write(line)
        self.answers.put({"error": "PyTorch's process ended"})

    def next(self, seconds):
        try:
            return self.answers.get(timeout=max(0.1, seconds))
        except queue.Empty:
            return {"error": f"no answer of PyTorch within {seconds:.0f} s"}

    def wait_until_ready(self, deadline_left):
        """Whether it has warmed up; what it says meanwhile is only about that."""
        while self.ready is None:
            answer = self.next(deadline_left())
            if answer.get("ready"):
                self.ready = answer
            elif "work" not in answer:
                self.ready = {"error": answer["error"], "variants": []}
        return "error" not in self.ready

    def measure(self, work, variant, steps, seconds):
        try:
            self.process.stdin.write(f"{work} {variant} {steps}\n")
            self.process.stdin.flush()
        except OSError:
            return {"error": "PyTorch's process ended"}
        return self.next(seconds)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def measured_rates(seconds):
    """The GPU's matrix rates and bandwidth as PyTorch reaches them; empty where it cannot say."""
    try:
        done = subprocess.run([sys.executable, "-B", SCRIPT, "rates"], capture_output=True, text=True, timeout=seconds)
        return json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError, OSError):
        return {}
