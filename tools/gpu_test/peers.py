# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# PyTorch beside ours: processes that compile their models while other parts run, and then answer questions.

import json
import os
import queue
import subprocess
import sys
import threading
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(REPOSITORY, "tools", "bench", "torch_gpu.py")
COMMAND = [sys.executable, "-B", SCRIPT]
# Several models are compiled at once, beside the runtime.
ENVIRONMENT = {"TORCHINDUCTOR_COMPILE_THREADS": "4"}


class Peer:
    """One model's process. Whatever becomes of it, an answer or an error comes in time."""

    def __init__(self, programs, model, log, flags=(), command=None, environment=None):
        self.programs, self.log_path = programs, log
        self.words = [*(command or COMMAND), model, "--serve", *flags]
        self.environment = {**os.environ, **(environment or {}), **ENVIRONMENT}
        self.start()

    def start(self, *more):
        """`warm`: works and variants that have answered."""
        self.answers, self.warm, self.errors, self.ready, self.questions = queue.Queue(), set(), {}, False, 0
        self.log, self.process, started = open(self.log_path, "a", encoding="utf-8"), None, threading.Event()
        # The process ends with the thread that started it, which is the one that reads from it.
        threading.Thread(target=self.read, args=[self.answers, started, more], daemon=True).start()
        started.wait(30)

    def read(self, answers, started, more):
        try:
            self.process = process = self.programs.start(
                ["nice", "-n", "10", *self.words, *more], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self.log, env=self.environment)
        except OSError as error:
            answers.put({"error": str(error)})
            return
        finally:
            started.set()
        with process.stdout:
            for line in process.stdout:
                try:
                    answers.put(json.loads(line))
                except ValueError:
                    print(line, end="", file=sys.stderr)
        answers.put({"error": "PyTorch's process ended"})

    def next(self, until):
        """None where none comes by then."""
        try:
            return self.answers.get(timeout=max(0.1, until - time.monotonic()))
        except queue.Empty:
            return None

    def wait_until_ready(self, until):
        """Whether it has warmed up by then; what it says meanwhile is which steps it can measure."""
        while not self.ready:
            answer = self.next(until) or {"error": "not ready in time"}
            if answer.get("ready"):
                self.ready = True
            elif "work" in answer:
                step = answer["work"], answer["variant"]
                if "ms" in answer:
                    self.warm.add(step)
                else:
                    self.errors[step] = answer.get("error")
            else:
                self.errors[None, "others"] = answer["error"]
                return False
        self.hasten()
        return True

    def begin_again(self):
        """Once more, with nothing but the variants that have answered, where what the others compile would disturb."""
        variants = sorted({variant for _, variant in self.warm})
        errors = self.errors
        self.stop()
        if variants:
            self.start("--variants", *variants)
            self.errors = errors
        return bool(variants)

    def hasten(self):
        """What was compiled at a low priority is measured at ours, as far as the system allows it."""
        try:
            for thread in os.listdir(f"/proc/{self.process.pid}/task"):
                os.setpriority(os.PRIO_PROCESS, int(thread), 0)
        except OSError:
            pass

    def measure(self, work, variant, steps, seconds):
        """The answer to this question: those to earlier ones, which come late, are no answers."""
        self.questions += 1
        until = time.monotonic() + seconds
        try:
            self.process.stdin.write(f"{work} {variant} {steps} {self.questions}\n")
            self.process.stdin.flush()
        except (OSError, ValueError):
            return {"error": "PyTorch's process ended"}
        while True:
            answer = self.next(until)
            if answer is None:
                return {"error": f"no answer of PyTorch within {seconds:.0f} s"}
            if answer.get("question") in (None, self.questions):
                return answer

    def stop(self):
        self.ready = False
        if self.process:
            self.programs.stop(self.process)
            try:
                self.process.stdin.close()
            except OSError:
                pass  # It was asked something that it never read.
        self.log.close()
