# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Requests that a server will not answer are refused by their header: before their body is sent, or while it is, with an
# answer that arrives. Places in the queue count from the header on, and timeouts from the first byte.

import json
import os
import socket
import tempfile
import time

from cleave_process import program
from serve_process import KnownModel, Server, binary_request, json_request, read_outputs, run

INFER = "/v2/models/lenet/infer"
SAMPLE = 28 * 28 * 4


class Client:
    """A connection on which a test decides what is sent when."""

    def __init__(self, server):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def read(self):
        """The next answer: status, headers by lower-case name, and the body."""
        status, headers = int(self.file.readline().split()[1]), {}
        while (line := self.file.readline().strip()):
            name, value = line.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        return status, headers, self.file.read(int(headers.get("content-length", 0)))


def head_of(length, headers=None, target=INFER, version="1.1"):
    lines = [f"POST {target} HTTP/{version}", "Host: x", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def parts_of(array, more=None, **fields):
    """The head and the body of a request by the binary extension; `more`: headers."""
    body, headers = binary_request(array, **fields)
    return head_of(len(body), {**headers, **(more or {})}), body


def large_head(samples, more=None):
    """The head of a request of so many samples, whose JSON has 200 bytes."""
    return head_of(200 + samples * SAMPLE, {"Inference-Header-Content-Length": "200", **(more or {})})


def expect_full(answer, closes):
    status, headers, body = answer
    assert status == 503 and "queue is full" in json.loads(body)["error"], answer
    assert headers["retry-after"] == "1" and (headers.get("connection") == "close") == closes, answer


def check_before_the_body(server):
    """More samples than the queue takes: the answer comes without a byte of the body."""
    with Client(server) as client:
        client.send(large_head(10000))
        expect_full(client.read(), closes=True)
        assert client.file.read() == b""
    # So it does where the header says all there is to say, whatever comes after it.
    for status, target in ((404, "/v2/models/other/infer"), (404, "/other"), (405, "/v2/health/live")):
        with Client(server) as client:
            client.send(head_of(30000000, target=target))
            found, headers, _ = client.read()
            assert found == status and headers["connection"] == "close", found


def check_while_it_is_sent(server):
    """Who sends a large body all the same gets an answer, not a reset."""
    for _ in range(5):
        with Client(server) as client:
            client.send(large_head(10000))
            for _ in range(200 + 10000 * SAMPLE >> 16):
                client.send(bytes(1 << 16))
            expect_full(client.read(), closes=True)


def check_keep_alive(server, known):
    """After a small body that nobody wants the connection goes on, where the next request begins."""
    refused, body = parts_of(known.inputs[:5])
    good = b"".join(parts_of(known.inputs[:1]))
    with Client(server) as client:
        for pieces in ([refused + body, good], [refused + body + good], [refused, body + good],
                       [refused + body[:100], body[100:] + good[:50], good[50:]]):
            for piece in pieces:
                client.send(piece)
                time.sleep(0.02)
            expect_full(client.read(), closes=False)
            status, headers, answer = client.read()
            assert status == 200 and known.check(read_outputs(headers, answer)["output"], [0])
    # Where a body ends that has no length, nobody can know without reading it.
    with Client(server) as client:
        client.send(b"POST /other HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        status, headers, _ = client.read()
        assert status == 404 and headers["connection"] == "close"


def eventually(answer, limit=10):
    """Until `answer()` is true; what a server sees of its connections takes a moment."""
    end = time.monotonic() + limit
    while not answer():
        assert time.monotonic() < end, "expected it to become true"
        time.sleep(0.02)


def check_places(server, known):
    """A request that is being read has its place in the queue, until it comes, or goes, or has not come for a second."""
    one, four = parts_of(known.inputs[:1]), parts_of(known.inputs[:4])

    def is_taken():
        with Client(server) as client:
            client.send(b"".join(one))
            return client.read()[0] == 200

    with Client(server) as slow:
        slow.send(four[0])
        eventually(lambda: not is_taken(), limit=0.8)
        with Client(server) as client:
            client.send(one[0])
            expect_full(client.read(), closes=False)
        slow.send(four[1])
        status, headers, answer = slow.read()
        assert status == 200 and known.check(read_outputs(headers, answer)["output"], range(4))
    assert is_taken()
    for leaves in (True, False):
        slow = Client(server)
        begin = time.monotonic()
        slow.send(four[0])
        eventually(lambda: not is_taken(), limit=0.8)
        if leaves:
            slow.__exit__()
            eventually(is_taken, limit=0.8)
        else:
            eventually(is_taken)
            assert 0.9 < time.monotonic() - begin < 5
            # It may come still, now that there is room.
            slow.send(four[1])
            assert slow.read()[0] == 200
            slow.__exit__()


def check_expect(server, known):
    """'100 Continue' is for bodies that are wanted."""
    head, body = parts_of(known.inputs[2:3], {"Expect": "100-Continue"})
    with Client(server) as client:
        for _ in range(2):
            client.send(head)
            assert client.file.readline() == b"HTTP/1.1 100 Continue\r\n" and client.file.readline() == b"\r\n"
            client.send(body)
            status, headers, answer = client.read()
            assert status == 200 and known.check(read_outputs(headers, answer)["output"], [2])
        # Nobody waits who sends both at once; an older client knows no such answer.
        client.send(head + body)
        assert client.read()[0] == 200
        client.send(head.replace(b"HTTP/1.1", b"HTTP/1.0") + body)
        assert client.read()[0] == 200
    with Client(server) as client:
        client.send(large_head(5, {"Expect": "100-continue"}))
        # Whether the body comes is the client's choice: the next byte might be of it, or of a request.
        expect_full(client.read(), closes=True)
        assert client.file.read() == b""


def check_timeouts(server, known):
    """A timeout counts from a request's first byte, and is known before the body where the header has it."""
    for timeout, pause, split, expected in ((300000, 0.6, 4, 504), (300000, 0.6, 400, 504), (20000000, 0.6, 400, 200)):
        whole = b"".join(parts_of(known.inputs[:1], parameters={"timeout": timeout}))
        with Client(server) as client:
            client.send(whole[:split])
            time.sleep(pause)
            client.send(whole[split:])
            status, _, answer = client.read()
            assert status == expected, (timeout, split, status, answer)
            assert status == 200 or "within its timeout" in json.loads(answer)["error"]
    with Client(server) as client:
        client.send(large_head(2, {"X-Cleave-Timeout": "1"}))
        status, _, answer = client.read()
        assert status == 504 and "within its timeout" in json.loads(answer)["error"], answer
    # The shorter one of header and body counts.
    for header, parameter in (("20000000", 1), ("1", 20000000)):
        status, _, answer = server.ask("POST", INFER, json.dumps(json_request(
            known.inputs[:1], parameters={"timeout": parameter})), {"X-Cleave-Timeout": header})
        assert status == 504, answer
    for text in ("x", "-1", "1.5"):
        status, _, answer = server.ask("POST", INFER, "{}", {"X-Cleave-Timeout": text})
        assert status == 400 and "X-Cleave-Timeout expects a number of microseconds" in json.loads(answer)["error"]


def check_load(server, folder):
    """The load generator says how long it will wait, and sends nothing where that is too long."""
    for flags in ([], ["--expect-continue"]):
        report = os.path.join(folder, "load.json")
        run(program("cleave-run"), "load", f"http://127.0.0.1:{server.port}", "--model", "lenet", "--seconds", "0.5",
            "--clients", "2", "--deadline", "0.001", "--json", report, *flags)
        with open(report, encoding="utf-8") as file:
            result = json.load(file)
        assert result["broken"] == 0 and list(result["statuses"]) == ["504"], result


def main():
    with tempfile.TemporaryDirectory() as folder:
        known, log = KnownModel(folder), os.path.join(folder, "access.log")
        with Server(known.plan, "--queue-limit", "4", "--access-log", log) as server:
            check_before_the_body(server)
            check_while_it_is_sent(server)
            check_keep_alive(server, known)
            check_places(server, known)
            check_expect(server, known)
            check_timeouts(server, known)
            check_load(server, folder)
            metrics = server.ask("GET", "/metrics")[2].decode()
            assert 'nv_inference_request_failure{model="lenet",version="1",reason="REJECTED"} 0' not in metrics
            assert server.stop() == 0, server.error_text()
        with open(log, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        refused = [line for line in lines if line["status"] == 503]
        assert refused and all(line["request_bytes"] == 0 for line in refused)
        # The load's were the last ones, and many.
        assert all(line["status"] == 504 and line["request_bytes"] == 0 for line in lines[-20:-1]), lines[-20:]
        assert any(line["samples"] == 10000 for line in refused)
        # The server's own limit holds for requests that have none or a longer one.
        with Server(known.plan, "--request-timeout", "0.001") as server:
            for headers in ({}, {"X-Cleave-Timeout": "20000000"}):
                with Client(server) as client:
                    client.send(large_head(2, headers))
                    assert client.read()[0] == 504


main()
