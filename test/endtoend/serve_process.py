# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A server under test, models with known answers, and a client of the protocol that is written here, on http.client.

import atexit
import http.client
import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time

import numpy as np

from cleave_process import program

DATATYPES = {"FP32": np.float32, "INT64": np.int64}
# Of a KnownModel.
INFER = "/v2/models/lenet/infer"


def run(*command):
    """Runs a program to its end; what it wrote, as text. Fails the test where the program does."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class KnownModel:
    """LeNet as a plan for several batches, and what `cleave run` says of single samples."""

    def __init__(self, folder, samples=12, batches="1,2,4,8"):
        self.folder = folder
        self.model = os.path.join(folder, "lenet.onnx")
        self.plan = os.path.join(folder, "lenet.plan")
        run(program(), "zoo", "lenet", "--weights", "-o", self.model)
        run(program(), "compile", self.model, "--machine", "host:1x1", "--batches", batches, "-o", self.plan)
        random = np.random.default_rng(5)
        self.inputs = random.standard_normal((samples, 1, 28, 28)).astype(np.float32)
        self.expected = np.concatenate([self.run_alone(sample) for sample in self.inputs])

    def run_alone(self, sample):
        """One sample through the model by itself."""
        source, target = os.path.join(self.folder, "in.npy"), os.path.join(self.folder, "out.npy")
        np.save(source, sample[np.newaxis])
        run(program(), "run", self.model, "--machine", "host:1x1", "--input", f"@0={source}", "--output", f"@0={target}")
        return np.load(target)

    def check(self, outputs, indices):
        """Whether outputs are those of these samples, in their order."""
        return np.allclose(outputs, self.expected[list(indices)], rtol=1e-4, atol=1e-5)


class Server:
    """`cleave-run serve` or another command that serves, on a free port of this machine; ends with the block."""

    def __init__(self, *arguments, command=None, limit=300):
        self.command = command or [program("cleave-run"), "serve"]
        self.arguments, self.limit = arguments, limit

    def __enter__(self):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*self.command, *self.arguments, "--http", "0"], stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True)
        # A test that hangs ends.
        self.guard = threading.Timer(self.limit, self.process.kill)
        self.guard.daemon = True
        self.guard.start()
        self.lines, self.said, self.grpc_port = [], queue.Queue(), None
        for line in self.process.stdout:
            self.lines.append(line)
            if found := re.match(r"serving gRPC at 127\.0\.0\.1:(\d+)( with TLS)?$", line):
                self.grpc_port = int(found.group(1))
            if found := re.match(r"serving at (https?)://127\.0\.0\.1:(\d+)$", line):
                self.scheme, self.port = found.group(1), int(found.group(2))
                # What nobody reads fills the pipe, and the server waits for ever.
                self.reader = threading.Thread(target=lambda: [self.said.put(line) for line in self.process.stdout])
                self.reader.start()
                return self
        self.process.wait()
        raise AssertionError(f"expected a server, got {self.lines} and {self.error_text()}")

    def __exit__(self, *_):
        self.guard.cancel()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join(60)
        self.process.stdout.close()
        self.errors.close()

    def error_text(self):
        self.errors.seek(0)
        return self.errors.read()

    def stop(self):
        """Asks it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """One exchange: status, headers by lower-case name, and the body's bytes."""
        own = connection or self.connect()
        own.request(method, path, body, headers or {})
        response = own.getresponse()
        answer = response.read()
        if not connection:
            own.close()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, answer

    def get(self, path):
        status, _, body = self.ask("GET", path)
        return status, json.loads(body)

    def post(self, path, document):
        status, _, body = self.ask("POST", path, json.dumps(document))
        return status, json.loads(body)


def json_request(array, name="input", datatype="FP32", **more):
    return {"inputs": [{"name": name, "shape": list(array.shape), "datatype": datatype,
                        "data": array.reshape(-1).tolist()}], **more}


def binary_request(array, name="input", **more):
    """The body and the headers of a request by the binary tensor extension."""
    raw = array.tobytes()
    head = json.dumps({"inputs": [{"name": name, "shape": list(array.shape), "datatype": "FP32",
                                   "parameters": {"binary_data_size": len(raw)}}], **more}).encode()
    return head + raw, {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}


def read_outputs(headers, body):
    """The outputs of an answer by name, whichever way they came."""
    length = int(headers.get("inference-header-content-length", len(body)))
    document, rest, outputs = json.loads(body[:length]), body[length:], {}
    for output in document["outputs"]:
        kind = DATATYPES[output["datatype"]]
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            array = np.array(output["data"], dtype=kind)
        else:
            array, rest = np.frombuffer(rest[:size], dtype=kind), rest[size:]
        outputs[output["name"]] = array.reshape(output["shape"])
    assert not rest, f"expected all bytes to belong to an output, got {len(rest)} more"
    return outputs


def number(server, metric, **labels):
    """The sum of a metric over the lines that have these labels."""
    text = server.ask("GET", "/metrics")[2].decode()
    lines = re.findall(rf"^{metric}(?:{{(.*)}})? (\S+)$", text, re.M)
    assert lines, (metric, text)
    return sum(float(value) for given, value in lines
               if all(f'{name}="{label}"' in given for name, label in labels.items()))


class Clients:
    """Asks from several threads, each for two samples at a time, until it is told to stop; keeps what came back. With
    `until_closed` the server may end meanwhile."""

    def __init__(self, server, known, count, until_closed=False):
        self.server, self.known, self.until_closed = server, known, until_closed
        self.over, self.lock = threading.Event(), threading.Lock()
        self.answered, self.refused, self.wrong = 0, [], []
        self.threads = [threading.Thread(target=self.ask, args=(index,), daemon=True) for index in range(count)]
        for thread in self.threads:
            thread.start()

    def ask(self, index):
        connection = self.server.connect()
        indices = [index % len(self.known.inputs), (index + 1) % len(self.known.inputs)]
        body, headers = binary_request(self.known.inputs[indices])
        while not self.over.is_set():
            try:
                status, answer_headers, answer = self.server.ask("POST", INFER, body, headers, connection)
            except ConnectionError:
                assert self.until_closed
                return
            fits = status == 200 and self.known.check(read_outputs(answer_headers, answer)["output"], indices)
            with self.lock:
                if status == 200:
                    self.answered += 1
                    self.wrong += [] if fits else [answer]
                else:
                    self.refused.append((status, answer.decode()))

    def until(self, holds):
        """Waits while they ask."""
        limit = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < limit and self.server.process.poll() is None, self.server.error_text()
            self.over.wait(0.01)

    def wait(self, answers):
        """Waits for further answers."""
        least = self.answered + answers
        self.until(lambda: self.answered >= least)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        assert not self.wrong, self.wrong[:3]


def served(*arguments, fault="", **more):
    """A server in whose process devices fail; it ends with the test at the latest."""
    os.environ["CLEAVE_FAULT"] = fault
    try:
        server = Server(*arguments, **more).__enter__()
        atexit.register(server.__exit__)
        return server
    finally:
        del os.environ["CLEAVE_FAULT"]
