# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A server among clients of all kinds: many at once, each of which checks that its answer is its own; those that send
# nonsense, or slowly, or nothing, or go away; and its end while they ask.

import http.client
import json
import os
import random
import socket
import tempfile
import threading
import time

from cleave_process import program
from serve_process import KnownModel, Server, binary_request, json_request, read_outputs, run

INFER = "/v2/models/lenet/infer"


def in_threads(count, work):
    """Runs work(0), work(1), ... at the same time; the first exception of one is the test's."""
    failures = []

    def guarded(index):
        try:
            work(index)
        except BaseException as failure:  # pylint: disable=broad-except
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def check_own_answers(server, known, clients=16, requests=40):
    """Batched answers are never mixed up: clients ask about random samples, by bytes and by JSON."""

    def client(index):
        choose = random.Random(index)
        connection = server.connect()
        for number in range(requests):
            indices = [choose.randrange(len(known.inputs)) for _ in range(choose.choice([1, 1, 1, 2, 5, 9]))]
            if choose.random() < 0.5:
                body, headers = binary_request(known.inputs[indices], id=f"{index}-{number}")
            else:
                body, headers = json.dumps(json_request(known.inputs[indices], id=f"{index}-{number}")), {}
            status, answer_headers, answer = server.ask("POST", INFER, body, headers, connection)
            assert status == 200, answer
            assert json.loads(answer)["id"] == f"{index}-{number}"
            assert known.check(read_outputs(answer_headers, answer)["output"], indices)
        connection.close()

    in_threads(clients, client)


def check_fuzzed(server, known, count=400):
    """Whatever a body is changed to, there is an answer, and an error is the protocol's."""
    choose = random.Random(1)
    samples = [(json.dumps(json_request(known.inputs[:1], id="x", parameters={"priority": 1})).encode(), {}),
               binary_request(known.inputs[:1], outputs=[{"name": "output", "parameters": {"binary_data": True}}])]
    connection = server.connect()
    for number in range(count):
        body, headers = samples[number % 2]
        changed = bytearray(body)
        for _ in range(choose.randrange(1, 4)):
            place = choose.randrange(min(len(changed), 300))
            kind = choose.randrange(4)
            if kind == 0:
                changed[place] = choose.randrange(256)
            elif kind == 1:
                del changed[place:place + choose.randrange(1, 40)]
            elif kind == 2:
                changed[place:place] = choose.choice([b"[", b"{", b"\"", b"1e999", b"-", b"null", b"\xff", b"[" * 2000])
            else:
                other = choose.randrange(min(len(changed), 300))
                changed[place:place] = changed[other:other + 20]
        status, answer_headers, answer = server.ask("POST", INFER, bytes(changed), headers, connection)
        assert status in (200, 400), (changed[:300], status, answer)
        if status == 400:
            assert list(json.loads(answer)) == ["error"]
        else:
            read_outputs(answer_headers, answer)
    connection.close()


def talk(server, data, limit=60):
    """Sends bytes and reads until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=limit) as client:
        client.sendall(data)
        received = b""
        while part := client.recv(65536):
            received += part
    return received


def hold_connections(server, count):
    """Connections that the server has taken and keeps: each has answered once. One that is refused is tried again, until
    the server has seen that earlier ones were closed."""
    held = []
    for _ in range(600):
        connection = server.connect()
        try:
            taken = server.ask("GET", "/v2/health/live", connection=connection)[0] == 200
        except ConnectionError:
            taken = False
        if taken:
            held.append(connection)
        else:
            connection.close()
            time.sleep(0.1)
        if len(held) == count:
            return held
    raise AssertionError(f"expected {count} connections to be taken, got {len(held)}")


def check_malformed(server):
    """What is no HTTP, or too much of it, is refused and closed."""
    assert talk(server, b"\x16\x03\x01\x02\x00\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert talk(server, b"GET / HTTP/1.1\r\nX: " + b"x" * 40000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431 ")
    too_large = b"POST " + INFER.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"
    answer = talk(server, too_large)
    assert answer.startswith(b"HTTP/1.1 413 ") and b"Connection: close" in answer and b'{"error": ' in answer
    chunked = b"POST " + INFER.encode() + b" HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
    assert talk(server, chunked).startswith(b"HTTP/1.1 400 ")
    # A path is anything; a name in it may be encoded.
    for path in ("/v2/models/%00", "/v2/models/" + "x" * 9000, "/%", "//", "/v2/models/lenet/versions"):
        status, _, body = server.ask("GET", path)
        assert status == 404 and list(json.loads(body)) == ["error"], path
    assert server.ask("GET", "/v2/models/%6Cenet?query")[0] == 200
    status, headers, body = server.ask("HEAD", "/v2/health/live")
    assert status == 200 and headers["content-length"] == "14" and not body


def check_slow(server, known):
    """Slow senders are cut off (one second for a header, and for a body), and nobody waits for them."""
    slow = []
    for beginning in (b"POST ", b"POST " + INFER.encode() + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nab"):
        for _ in range(20):
            slow.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            slow[-1].sendall(beginning)
    check_own_answers(server, known, clients=4, requests=5)
    for client in slow:
        assert client.recv(100) == b""
        client.close()


def check_idle(server, known, count=1000):
    """Connections that ask nothing cost nobody anything."""
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(count)]
    check_own_answers(server, known, clients=4, requests=5)
    for client in idle:
        client.close()


def check_gone(server, known):
    """Clients that go away before their answers leave nothing behind."""
    body, headers = binary_request(known.inputs[[0] * 8])
    head = f"POST {INFER} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
            client.sendall(head.encode() + body)
    check_own_answers(server, known, clients=2, requests=3)
    label = 'nv_inference_pending_request_count{model="lenet",version="1"} 0'
    for _ in range(600):
        if label in server.ask("GET", "/metrics")[2].decode():
            return
        time.sleep(0.1)
    raise AssertionError("expected nothing to wait after its clients had gone")


def check_deadline(server, known):
    """What cannot be answered in time is not begun."""
    status, body = server.post(INFER, json_request(known.inputs[:8], parameters={"timeout": 1}))
    assert status == 504 and "within its timeout" in body["error"], body


def check_load(server, folder):
    """The load generator counts what the server counts, in a closed loop and in an open one."""
    label = 'nv_inference_request_success{model="lenet",version="1"} '

    def succeeded():
        metrics = server.ask("GET", "/metrics")[2].decode()
        return int(metrics.split(label)[1].split()[0])

    closed, opened = ["--clients", "3"], ["--clients", "20", "--rate", "50", "--deadline", "20000", "--samples", "2"]
    for name, flags in (("cleave", closed), ("cleave-run", [*closed, "--expect-continue"]), ("cleave-run", opened)):
        report, before = os.path.join(folder, "load.json"), succeeded()
        run(program(name), "load", f"http://127.0.0.1:{server.port}", "--model", "lenet", "--seconds", "2",
            "--json", report, *flags)
        with open(report, encoding="utf-8") as file:
            result = json.load(file)
        assert result["broken"] == 0 and set(result["statuses"]) <= {"200"}, result
        assert result["answers"] == succeeded() - before > 0
        latency = result["latency_ms"]
        assert 0 < latency["p50"] <= latency["p99"] <= latency["max"]
    # Of a Poisson process of 50 a second for 2 seconds; six standard deviations.
    assert 40 <= result["answers"] <= 160


def check_drain(server, known):
    """After SIGTERM whoever has asked gets an answer; nobody else gets half of one."""
    answered, asking = [], threading.Semaphore(0)

    def client(index):
        body, headers = binary_request(known.inputs[[index] * 3])
        connection = server.connect()
        while True:
            try:
                status, answer_headers, answer = server.ask("POST", INFER, body, headers, connection)
            except (ConnectionError, http.client.RemoteDisconnected):
                # Nothing of an answer had come: the request was never taken.
                return
            assert status == 200 and known.check(read_outputs(answer_headers, answer)["output"], [index] * 3)
            answered.append(index)
            asking.release()

    def stop(_):
        for _ in range(30):
            asking.acquire()
        assert server.stop() == 0, server.error_text()

    in_threads(7, lambda index: stop(index) if index == 6 else client(index))
    assert len(answered) >= 30


def main():
    with tempfile.TemporaryDirectory() as folder:
        known = KnownModel(folder)
        with Server(known.plan, "--header-timeout", "1", "--body-timeout", "1", "--max-connections", "1200") as server:
            check_own_answers(server, known)
            check_fuzzed(server, known)
            check_malformed(server)
            check_slow(server, known)
            check_idle(server, known)
            check_gone(server, known)
            check_deadline(server, known)
            check_load(server, folder)
            check_drain(server, known)
        token = os.path.join(folder, "token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("secret\n")
        with Server(known.plan, "--token-file", token, "--max-connections", "2", "--queue-limit", "4") as server:
            # On a connection that the server has taken: others might be one too many while earlier ones are counted.
            held = hold_connections(server, 1)
            # Bearers of the token alone, but for health.
            for headers, expected in (({}, 401), ({"Authorization": "Bearer other"}, 401),
                                      ({"Authorization": "Bearer secret"}, 200)):
                assert server.ask("GET", "/v2", headers=headers, connection=held[0])[0] == expected
            # A queue has its limit, and so has the number of connections.
            status, headers, _ = server.ask("POST", INFER, json.dumps(json_request(known.inputs[:5])),
                                            {"Authorization": "Bearer secret"}, held[0])
            assert status == 503 and headers["retry-after"] == "1"
            held += hold_connections(server, 1)
            assert talk(server, b"").startswith(b"HTTP/1.1 503 ")
            for client in held:
                client.close()


main()
