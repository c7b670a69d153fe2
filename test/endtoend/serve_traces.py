# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Traces of single requests: what each went through, from its first byte to its answer, and what the devices did for it
# and for nobody else.

import json
import tempfile
import threading

from serve_process import KnownModel, Server, binary_request, read_outputs

INFER = "/v2/models/lenet/infer"


def traced(server, known, indices):
    """The trace of a request: its own events by name, those of each batch, and those of the device."""
    body, headers = binary_request(known.inputs[indices])
    status, answer_headers, answer = server.ask("POST", INFER, body, {**headers, "X-Cleave-Trace": "1"})
    assert status == 200 and known.check(read_outputs(answer_headers, answer)["output"], indices)
    number = answer_headers["x-cleave-trace"]
    status, document = server.get(f"/v2/cleave/traces/{number}")
    assert status == 200, document
    events = document["traceEvents"]
    names = {(event["pid"], event["tid"], event["name"]): event["args"]["name"] for event in events if event["ph"] == "M"}
    process = next(pid for (pid, _, kind), name in names.items() if kind == "process_name" and name == "request")
    complete = [event for event in events if event["ph"] == "X"]
    own = {event["name"]: event for event in complete if event["pid"] == process and event["tid"] == 0}
    batches = {}
    for event in complete:
        if event["pid"] == process and event["tid"] != 0:
            batches.setdefault(event["tid"], {})[event["name"]] = event
    return number, own, list(batches.values()), [event for event in complete if event["pid"] != process]


def within(inner, outer, slack=1):
    """Times are in microseconds."""
    return inner["ts"] >= outer["ts"] - slack and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + slack


def check_request(server, known, indices, names):
    """`names`: by a batch's size, what its instructions belong to; sizes that are new are added."""
    number, own, batches, device = traced(server, known, indices)
    assert {"request", "receive", "header", "queue", "run", "write the answer"} <= set(own), own
    assert own["request"]["args"]["samples"] == len(indices) and own["request"]["ts"] == 0
    assert all(within(event, own["request"]) for name, event in own.items() if name != "request")
    # One after the other, without gaps.
    order = [own[name] for name in ("receive", "queue", "run", "write the answer")]
    for earlier, later in zip(order, order[1:]):
        assert abs(earlier["ts"] + earlier["dur"] - later["ts"]) < 1, (earlier, later)
    assert within(own["header"], own["receive"])
    found = [batch["batch"]["args"] for batch in batches]
    assert sum(args["samples of the request"] for args in found) == len(indices), found
    assert all(args["samples of the request"] == args["samples"] <= args["size"] <= 8 for args in found), found
    for batch in batches:
        assert within(batch["batch"], own["run"])
        assert all(within(batch[part], batch["batch"]) for part in ("gather", "compute", "scatter"))
    # Every instruction belongs to one of the batches, and each batch has as many.
    steps = {}
    for event in device:
        steps.setdefault((event["args"]["entry"], event["args"]["step"]), []).append(event)
    assert len(steps) == len(batches)
    in_order = sorted(steps.values(), key=lambda events: events[0]["ts"])
    for events, batch in zip(in_order, batches):
        assert len(events) > 5 and all(within(event, batch["compute"]) for event in events)
        own_names = sorted(event["name"] for event in events)
        assert names.setdefault(batch["batch"]["args"]["size"], own_names) == own_names
    return number, len(batches)


def check_alone(server, known):
    """Among others' batches a request's trace has its own."""
    done, failures = threading.Event(), []

    def others(index):
        connection = server.connect()
        while not done.is_set():
            body, headers = binary_request(known.inputs[[index]])
            if server.ask("POST", INFER, body, headers, connection)[0] != 200:
                failures.append(index)
        connection.close()

    threads = [threading.Thread(target=others, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        _, own, batches, device = traced(server, known, [5])
        assert len(batches) == 1 and len({event["args"]["step"] for event in device}) == 1
        assert all(within(event, batches[0]["compute"]) for event in device) and len(device) > 5
    done.set()
    for thread in threads:
        thread.join()
    assert not failures


def main():
    with tempfile.TemporaryDirectory() as folder:
        known = KnownModel(folder)
        with Server(known.plan, "--traces", "3") as server:
            names = {}
            first, _ = check_request(server, known, [0], names)
            second, _ = check_request(server, known, [1, 2, 3], names)
            assert check_request(server, known, list(range(11)), names)[1] > 1 and first != second
            assert server.get(f"/v2/cleave/traces/{first}")[0] == 200
            # When the answer was sent is known by the time somebody asks on the same connection.
            connection = server.connect()
            body, headers = binary_request(known.inputs[:1])
            _, answer_headers, _ = server.ask("POST", INFER, body, {**headers, "X-Cleave-Trace": "1"}, connection)
            number = answer_headers["x-cleave-trace"]
            text = server.ask("GET", f"/v2/cleave/traces/{number}", connection=connection)[2].decode()
            assert '"name":"send"' in text, text[:500]
            connection.close()
            # The latest three are kept.
            status, answer = server.get(f"/v2/cleave/traces/{first}")
            assert status == 404 and f'no trace "{first}" is kept, of the latest 3' in answer["error"], answer
            assert server.get(f"/v2/cleave/traces/{second}")[0] == 200
            assert server.get("/v2/cleave/traces/x")[0] == 404
            status, _, answer = server.ask("POST", INFER, body, {**headers, "X-Cleave-Trace": "yes"})
            assert status == 400 and b'X-Cleave-Trace expects 1, got \\"yes\\"' in answer, answer
            check_alone(server, known)
            # A request that got no answer has a trace as well.
            body, headers = binary_request(known.inputs[:1], parameters={"timeout": 1})
            status, answer_headers, _ = server.ask("POST", INFER, body, {**headers, "X-Cleave-Trace": "1"})
            assert status == 504
            assert server.get(f"/v2/cleave/traces/{answer_headers['x-cleave-trace']}")[0] == 200
            assert server.stop() == 0, server.error_text()
        with Server(known.plan) as server:
            body, headers = binary_request(known.inputs[:1])
            status, answer_headers, _ = server.ask("POST", INFER, body, {**headers, "X-Cleave-Trace": "1"})
            assert status == 200 and "x-cleave-trace" not in answer_headers
            assert server.get("/v2/cleave/traces/1")[0] == 404


main()
