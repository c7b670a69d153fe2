# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Random load for some time, over HTTP and gRPC together: requests of all sizes, priorities and deadlines, each of which
# checks that its answer is its own; clients that go away; models that are replaced, unloaded and loaded; malformed and
# hostile requests; slow senders; idle connections; devices that are lost. Every request gets an answer that is right or says why there is none,
# memory stays flat, and the server ends in order.
#
#   serve_random.py SECONDS [CONNECTIONS [SEED]]      CONNECTIONS: that ask nothing

import json
import os
import random
import resource
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time

import numpy as np

from serve_grpc import CANCELLED, DEADLINE_EXCEEDED, NODE, NOT_FOUND, OK, UNAVAILABLE, Client, infer_request, raw_output
from serve_process import KnownModel, Server, binary_request, json_request, read_outputs

MODELS = ["lenet", "other"]
# Each happens once, to whatever instance gets there first (runtime/watch/Fault.h).
LOSSES = ["0:call:10:lose", "0:load input:40:lose", "0:store output:80:lose"]


class Load:
    """What all actors share: until when, what went wrong, and how much has been done."""

    def __init__(self, server, known, models, seconds, seed):
        self.server, self.known, self.models, self.seed = server, known, models, seed
        self.end, self.lock = time.monotonic() + seconds, threading.Lock()
        self.failures, self.counts = [], {}

    def goes_on(self):
        return time.monotonic() < self.end and not self.failures

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def run(self, actors):
        def guarded(index, act):
            try:
                act(self, random.Random(f"{self.seed} {index}"))
            except BaseException as failure:  # pylint: disable=broad-except
                self.failures.append((act.__name__, repr(failure)))

        threads = [threading.Thread(target=guarded, args=pair) for pair in enumerate(actors)]
        for thread in threads:
            thread.start()
        return threads


def indices_of(load, choose):
    return [choose.randrange(len(load.known.inputs)) for _ in range(choose.choice([1, 1, 1, 1, 2, 3, 8, 17]))]


def parameters_of(choose):
    parameters = {}
    if choose.random() < 0.3:
        parameters["priority"] = choose.randrange(3)
    if choose.random() < 0.3:
        parameters["timeout"] = int(10 ** choose.uniform(2, 7))
    return parameters


def ask(load, choose):
    """A client over HTTP."""
    connection, number = load.server.connect(), 0
    while load.goes_on():
        number += 1
        indices, own = indices_of(load, choose), f"{id(connection)}-{number}"
        array, parameters, model = load.known.inputs[indices], parameters_of(choose), choose.choice(MODELS)
        if choose.random() < 0.5:
            body, headers = binary_request(array, id=own, parameters={**parameters, "binary_data_output": True})
        else:
            body, headers = json.dumps(json_request(array, id=own, parameters=parameters)), {}
        status, answer_headers, answer = load.server.ask("POST", f"/v2/models/{model}/infer", body, headers, connection)
        load.count(f"http {status}")
        if status == 200:
            length = int(answer_headers.get("inference-header-content-length", len(answer)))
            assert json.loads(answer[:length])["id"] == own
            assert load.known.check(read_outputs(answer_headers, answer)["output"], indices), "somebody else's answer"
        else:
            # No such model while it is unloaded; the queue is full, or the model about to end; too late.
            assert status in ((404, 503, 504) if model == "other" else (503, 504)), (status, answer)
            assert list(json.loads(answer)) == ["error"]
        if choose.random() < 0.01:
            connection.close()
        elif choose.random() < 0.2:
            time.sleep(choose.expovariate(50))
    connection.close()


def call(load, choose):
    """A client over gRPC, of many calls at a time."""
    with Client(load.server) as client:
        while load.goes_on():
            begun = []
            for number in range(choose.randrange(1, 30)):
                indices, model, more = indices_of(load, choose), choose.choice(MODELS), {}
                if choose.random() < 0.2:
                    more[choose.choice(["deadline", "cancel"])] = int(10 ** choose.uniform(0, 3))
                request = infer_request(load.known.inputs[indices], model_name=model, id=str(number), parameters={
                    name: {"int64_param": value} for name, value in parameters_of(choose).items()})
                begun.append((str(number), indices, model, client.begin("ModelInfer", request, **more)))
            for number, indices, model, end in begun:
                answer = end.get(timeout=60)
                code = answer.get("code", OK)
                load.count(f"grpc {code}")
                if code == OK:
                    assert answer["response"]["id"] == number and answer["response"]["model_name"] == model
                    assert load.known.check(raw_output(answer["response"]), indices), "somebody else's answer"
                else:
                    assert code in (CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE) or (code, model) == (NOT_FOUND, "other"), answer


def go_away(load, choose):
    """Asks, and leaves before the answer: in order, or by a reset."""
    while load.goes_on():
        body, headers = binary_request(load.known.inputs[indices_of(load, choose)])
        head = f"POST /v2/models/{choose.choice(MODELS)}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        data = (head + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n").encode() + body
        with socket.create_connection(("127.0.0.1", load.server.port), timeout=60) as client:
            client.sendall(data[:choose.choice([len(data), choose.randrange(len(data))])])
            if choose.random() < 0.5:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            time.sleep(choose.choice([0, 0, 0.002]))
        load.count("gone")


def mutate(choose, body):
    changed = bytearray(body)
    for _ in range(choose.randrange(1, 5)):
        place = choose.randrange(max(1, min(len(changed), 400)))
        kind = choose.randrange(4)
        if kind == 0 and changed:
            changed[place] = choose.randrange(256)
        elif kind == 1:
            del changed[place:place + choose.randrange(1, 60)]
        elif kind == 2:
            changed[place:place] = choose.choice([b"[", b"{", b'"', b"1e999", b"-", b"null", b"\xff", b"[" * 2000, b"\0"])
        else:
            changed[place:place] = bytes(changed[place:place + 30])
    return bytes(changed)


def send_nonsense(load, choose):
    """Bodies, sizes and paths that lie; what is no HTTP."""
    while load.goes_on():
        array = load.known.inputs[:1]
        body, headers = choose.choice([lambda: binary_request(array),
                                       lambda: (json.dumps(json_request(array, id="x")).encode(), {})])()
        body = mutate(choose, body)
        if choose.random() < 0.3:
            headers = {"Inference-Header-Content-Length": choose.choice(["-1", "0", "x", "99999999999999999999", "7"])}
        path = choose.choice(["/v2/models/lenet/infer"] * 4 + ["/v2/models/lenet/versions/1/infer", "/v2/models/%00/infer",
                                                              "/v2/repository/models/%2e%2e/load", "//", "/" + "x" * 3000])
        status, _, answer = load.server.ask("POST", path, body, headers)
        assert status in (200, 400, 404, 405, 503, 504), (status, answer)
        assert status == 200 or list(json.loads(answer)) == ["error"], answer
        with socket.create_connection(("127.0.0.1", choose.choice([load.server.port, load.server.grpc_port])),
                                      timeout=60) as client:
            client.sendall(choose.choice([b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"POST / HTTP/1.1\r\n", b"\x16\x03\x01"])
                           + choose.randbytes(choose.randrange(300)))
        load.count("nonsense")


def send_slowly(load, choose):
    """A few bytes at a time, until the server has had enough."""
    while load.goes_on():
        with socket.create_connection(("127.0.0.1", load.server.port), timeout=60) as client:
            data = b"POST /v2/models/lenet/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n" + b"[" * 5000
            at, begin = 0, time.monotonic()
            try:
                while load.goes_on() and at < len(data):
                    assert time.monotonic() - begin < 60, "a slow sender was never cut off"
                    size = choose.randrange(1, 40)
                    client.sendall(data[at:at + size])
                    at += size
                    time.sleep(choose.uniform(0, 0.2))
            except OSError:
                pass
        load.count("slow")


def change_models(load, choose):
    """Loads, replaces and unloads one model, and replaces the other."""
    while load.goes_on():
        time.sleep(choose.uniform(0.1, 1))
        name, action = choose.choice([("lenet", "load"), ("other", "load"), ("other", "load"), ("other", "unload")])
        # At most eight instances: what they take must not hide what is left behind (check_flat).
        version = os.path.join(load.models, name, "2")
        if action == "load" and choose.random() < 0.5:
            # One version more, or one less.
            if os.path.exists(version):
                shutil.rmtree(version)
            else:
                shutil.copytree(os.path.join(load.models, name, "1"), version)
        status, _, answer = load.server.ask("POST", f"/v2/repository/models/{name}/{action}", "{}")
        assert status == 200 or (status == 400 and action == "unload"), (status, answer)
        load.count(action)


def look(load, choose):
    """Reads what is there to read."""
    while load.goes_on():
        path = choose.choice(["/metrics", "/v2", "/v2/health/live", "/v2/models/lenet", "/v2/models/lenet/config"])
        status, _, answer = load.server.ask("GET", path)
        assert status == 200, (path, status, answer)
        load.count("looks")
        time.sleep(choose.uniform(0, 0.2))


def resident(process):
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def watch(load, idle):
    """Memory by the second; connections that ask nothing are there all the time, and replaced when they are closed."""
    memory, held = [], []
    while load.goes_on():
        held = [client for client in held if client.fileno() >= 0]
        while len(held) < idle and load.goes_on():
            held.append(socket.create_connection(("127.0.0.1", load.server.port), timeout=60))
        memory.append(resident(load.server.process))
        time.sleep(1)
    for client in held:
        client.close()
    return memory


def settle(server):
    """When nobody asks, nothing waits."""
    for _ in range(600):
        lines = [line for line in server.ask("GET", "/metrics")[2].decode().splitlines()
                 if line.startswith("nv_inference_pending_request_count{")]
        if lines and all(line.endswith(" 0") for line in lines):
            return
        time.sleep(0.1)
    raise AssertionError(f"expected nothing to wait when nobody asked, got {lines}")


def check_flat(memory):
    """The most of the last third is hardly more than that of the second: in two minutes, a kilobyte that each inference
    left behind would be 15 to 20 MiB."""
    third = len(memory) // 3
    if third < 10:
        return
    before, after = max(memory[third:2 * third]), max(memory[2 * third:])
    print(f"most memory: {before >> 20}, then {after >> 20} MiB")
    assert after < before + (10 << 20), f"memory grew from {before >> 20} to {after >> 20} MiB"


def main():
    seconds = float(sys.argv[1])
    idle = int(sys.argv[2]) if len(sys.argv) > 2 else 500
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    clients = [ask] * 6 + [go_away, send_nonsense, send_slowly, change_models, look]
    if os.path.exists(os.path.join(NODE, "node_modules/@grpc/grpc-js")):
        clients += [call]
    with tempfile.TemporaryDirectory() as folder:
        known = KnownModel(folder)
        models = os.path.join(folder, "models")
        for name in MODELS:
            target = os.path.join(models, name, "1")
            os.makedirs(target)
            for end in ("", ".weights"):
                shutil.copy(known.plan + end, target)
        os.environ["CLEAVE_FAULT"] = ",".join(LOSSES)
        with Server("--models", models, "--grpc", "0", "--instances", "2", "--header-timeout", "2", "--body-timeout", "2", "--queue-limit", "64",
                    "--max-connections", str(idle + 1000), limit=seconds + 300) as server:
            load = Load(server, known, models, seconds, seed)
            threads = load.run(clients)
            memory = watch(load, idle)
            for thread in threads:
                thread.join()
            assert server.process.poll() is None, (server.process.returncode, server.error_text(), load.failures[:3])
            assert not load.failures, load.failures[:3]
            settle(server)
            check_flat(memory)
            status, body = server.post("/v2/models/lenet/infer", json_request(known.inputs[:3]))
            assert status == 200 and known.check(np.array(body["outputs"][0]["data"]).reshape(3, 10), range(3))
            assert server.stop() == 0, server.error_text()
            lines = server.error_text().splitlines()
            lost = [line for line in lines if "has lost an instance: device " in line]
            assert len(lost) == len(LOSSES) or seconds < 60, lines
            # A model that is replaced before its instance is back does not say that it is.
            assert len(lost) <= len(lines) <= 2 * len(lost), lines
            assert all(line in lost or "runs again by" in line for line in lines), lines
        print(", ".join(f"{what}: {count}" for what, count in sorted(load.counts.items())))


main()
