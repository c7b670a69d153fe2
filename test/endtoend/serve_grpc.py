# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The Open Inference Protocol, version 2, over gRPC, point by point, by @grpc/grpc-js: health, metadata, inference by raw
# bytes and by elements, errors, deadlines, cancellation, tokens, and the end while calls come. Answers are compared with
# those of single runs.

import base64
import contextlib
import json
import os
import queue
import random
import socket
import subprocess
import tempfile
import threading
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

from cleave_process import REPOSITORY, program, skip
from serve_process import KnownModel, Server, run

NODE = os.path.join(REPOSITORY, "build/node")
PROTO = os.path.join(REPOSITORY, "runtime/serve/grpc/open_inference.proto")
OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND = 0, 1, 3, 4, 5
RESOURCE_EXHAUSTED, UNAVAILABLE, UNAUTHENTICATED = 8, 14, 16


class Client:
    """Calls by grpc_client.mjs; several may be under way. Ends with the block."""

    def __init__(self, server, proto=PROTO, service="inference.GRPCInferenceService", authorities=None):
        self.command = ["node", os.path.join(REPOSITORY, "test/endtoend/grpc_client.mjs"), NODE, proto, service,
                        f"127.0.0.1:{server.grpc_port}", *([authorities] if authorities else [])]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.calls, self.lock, self.count = {}, threading.Lock(), 0
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.reader.join()
        self.process.wait()
        self.process.stdout.close()

    def read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            self.calls.pop(answer["tag"]).put(answer)

    def begin(self, method, request=None, **more):
        """Begins a call; its end comes by the queue."""
        end = queue.Queue()
        with self.lock:
            self.count += 1
            self.calls[self.count] = end
            self.process.stdin.write(json.dumps({"tag": self.count, "method": method, "request": request or {}, **more})
                                     + "\n")
            self.process.stdin.flush()
        return end

    def call(self, method, request=None, **more):
        """The call's code and its response, or what the error says."""
        answer = self.begin(method, request, **more).get(timeout=60)
        return (OK, answer["response"]) if "response" in answer else (answer["code"], answer["details"])


def raw(*arrays):
    return [base64.b64encode(array.tobytes()).decode() for array in arrays]


def infer_request(array, **more):
    return {"model_name": "lenet", "inputs": [{"name": "input", "datatype": "FP32", "shape": list(array.shape)}],
            "raw_input_contents": raw(array), **more}


def elements_request(array):
    return {"model_name": "lenet", "inputs": [{"name": "input", "datatype": "FP32", "shape": list(array.shape),
                                               "contents": {"fp32_contents": array.reshape(-1).tolist()}}]}


def raw_output(response, kind=np.float32, index=0):
    output = response["outputs"][index]
    return np.frombuffer(base64.b64decode(response["raw_output_contents"][index]), kind).reshape(output["shape"])


def check_health(client):
    assert client.call("ServerLive") == (OK, {"live": True})
    assert client.call("ServerReady") == (OK, {"ready": True})
    assert client.call("ModelReady", {"name": "lenet"}) == (OK, {"ready": True})
    assert client.call("ModelReady", {"name": "lenet", "version": "1"}) == (OK, {"ready": True})
    assert client.call("ModelReady", {"name": "x"}) == (NOT_FOUND, 'no model "x" is loaded')


def check_probe(server, folder):
    """What orchestrators probe by."""
    proto = os.path.join(folder, "health.proto")
    with open(proto, "w", encoding="utf-8") as file:
        file.write("""syntax = "proto3"; package grpc.health.v1;
            message HealthCheckRequest { string service = 1; }
            message HealthCheckResponse {
              enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; SERVICE_UNKNOWN = 3; }
              ServingStatus status = 1;
            }
            service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }""")
    with Client(server, proto, "grpc.health.v1.Health") as client:
        assert client.call("Check") == (OK, {"status": "SERVING"})


def check_metadata(client):
    code, body = client.call("ServerMetadata")
    assert code == OK and body["name"] == "cleave" and body["version"]
    for request in ({"name": "lenet"}, {"name": "lenet", "version": "1"}):
        code, body = client.call("ModelMetadata", request)
        assert code == OK and body["name"] == "lenet" and body["versions"] == ["1"], body
        assert body["platform"] == "cleave_plan"
        assert body["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 1, 28, 28]}]
        assert body["outputs"] == [{"name": "output", "datatype": "FP32", "shape": [-1, 10]}]
    code, text = client.call("ModelMetadata", {"name": "lenet", "version": "2"})
    assert code == NOT_FOUND and text == 'no model "lenet" of version "2" is loaded'


def check_inference(client, known):
    for count in (1, 2, 3, 8, 11):
        array = known.inputs[:count]
        code, body = client.call("ModelInfer", infer_request(array, id="a\"b", outputs=[{"name": "output"}]))
        assert code == OK, body
        assert body["model_name"] == "lenet" and body["model_version"] == "1" and body["id"] == "a\"b"
        assert body["outputs"][0]["name"] == "output" and body["outputs"][0]["datatype"] == "FP32"
        assert body["outputs"][0]["contents"] is None
        assert known.check(raw_output(body), range(count))
    # Elements in, elements out; raw contents are for all or none.
    code, body = client.call("ModelInfer", elements_request(known.inputs[3:5]))
    assert code == OK and body["raw_output_contents"] == [], body
    assert body["outputs"][0]["shape"] == [2, 10]
    assert known.check(np.array(body["outputs"][0]["contents"]["fp32_contents"]).reshape(2, 10), [3, 4])
    # Parameters that mean nothing here are no errors.
    parameters = {"priority": {"uint64_param": 1}, "timeout": {"int64_param": 60000000}, "other": {"string_param": "x"}}
    assert client.call("ModelInfer", infer_request(known.inputs[:1], parameters=parameters))[0] == OK


def check_errors(client, known):
    good = infer_request(known.inputs[:1])
    given, elements = good["inputs"][0], elements_request(known.inputs[:1])["inputs"][0]

    def changed(**fields):
        return {**good, "inputs": [{**given, **fields}]}

    for code, message, request in (
            (NOT_FOUND, 'no model "other" is loaded', {**good, "model_name": "other"}),
            (NOT_FOUND, 'no model "lenet" of version "2"', {**good, "model_version": "2"}),
            (INVALID_ARGUMENT, 'the model expects input "input", which the request lacks', {"model_name": "lenet"}),
            (INVALID_ARGUMENT, 'the model has no input "x"', changed(name="x")),
            (INVALID_ARGUMENT, 'expects "datatype" "FP32", got "FP64"', changed(datatype="FP64")),
            (INVALID_ARGUMENT, "of at least one sample, got [1,1,28,27]", changed(shape=[1, 1, 28, 27])),
            (INVALID_ARGUMENT, "of at least one sample, got [0,1,28,28]", changed(shape=[0, 1, 28, 28])),
            (INVALID_ARGUMENT, "of at least one sample, got [46116860184",
             changed(shape=[1 << 62, 1, 28, 28])),
            (INVALID_ARGUMENT, 'input "input" expects 6272 bytes, got 3136', changed(shape=[2, 1, 28, 28])),
            (INVALID_ARGUMENT, "raw_input_contents expects one for each of the 1 inputs, got 2",
             {**good, "raw_input_contents": good["raw_input_contents"] * 2}),
            (INVALID_ARGUMENT, 'input "input" expects to be given once',
             {**good, "inputs": [given, given], "raw_input_contents": good["raw_input_contents"] * 2}),
            (INVALID_ARGUMENT, "expects no contents beside raw_input_contents", {**good, "inputs": [elements]}),
            (INVALID_ARGUMENT, "expects 784 elements in the field of contents for FP32, got 0",
             {"model_name": "lenet", "inputs": [given]}),
            (INVALID_ARGUMENT, "shared memory is not supported",
             changed(parameters={"shared_memory_region": {"string_param": "x"}})),
            (INVALID_ARGUMENT, 'the model has no output "x"', {**good, "outputs": [{"name": "x"}]}),
            (INVALID_ARGUMENT, 'output "output" expects to be asked for once',
             {**good, "outputs": [{"name": "output"}, {"name": "output"}]}),
            (INVALID_ARGUMENT, '"classification", which is not supported',
             {**good, "outputs": [{"name": "output", "parameters": {"classification": {"int64_param": 3}}}]}),
            (INVALID_ARGUMENT, 'parameter "timeout" expects a whole number',
             {**good, "parameters": {"timeout": {"string_param": "x"}}}),
            (INVALID_ARGUMENT, 'parameter "priority" expects a whole number',
             {**good, "parameters": {"priority": {"int64_param": -1}}})):
        found, text = client.call("ModelInfer", request)
        assert found == code and message in text, (message, found, text)


def check_types(folder):
    """Elements of every type that contents have a field for come back as they went, and the others as bytes."""
    kinds = {"BOOL": (TensorProto.BOOL, np.bool_, "bool_contents", [True, False, True]),
             "INT8": (TensorProto.INT8, np.int8, "int_contents", [-128, 0, 127]),
             "INT16": (TensorProto.INT16, np.int16, "int_contents", [-32768, 1, 32767]),
             "INT32": (TensorProto.INT32, np.int32, "int_contents", [-2147483648, 2, 2147483647]),
             "INT64": (TensorProto.INT64, np.int64, "int64_contents", [-9007199254740991, 3, 9007199254740991]),
             "UINT8": (TensorProto.UINT8, np.uint8, "uint_contents", [0, 4, 255]),
             "FP32": (TensorProto.FLOAT, np.float32, "fp32_contents", [-1.5, 0.1, 3e38]),
             "FP64": (TensorProto.DOUBLE, np.float64, "fp64_contents", [-1.5, 0.1, 1e300])}
    graph = helper.make_graph(
        [helper.make_node("Identity", [name], [name + "_out"], name=name) for name in kinds], "types",
        [helper.make_tensor_value_info(name, kind[0], [3]) for name, kind in kinds.items()],
        [helper.make_tensor_value_info(name + "_out", kind[0], [3]) for name, kind in kinds.items()])
    model, plan = os.path.join(folder, "types.onnx"), os.path.join(folder, "types.plan")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    run(program(), "compile", model, "--machine", "host:1x1", "-o", plan)
    with Server(plan, "--grpc", "0") as server, Client(server) as client:
        inputs = [{"name": name, "datatype": name, "shape": [3], "contents": {kind[2]: kind[3]}}
                  for name, kind in kinds.items()]
        code, body = client.call("ModelInfer", {"model_name": "types", "inputs": inputs})
        assert code == OK, body
        for output, (name, kind) in zip(body["outputs"], kinds.items()):
            assert output["name"] == name + "_out" and output["datatype"] == name and output["shape"] == [3]
            assert np.array_equal(np.array(output["contents"][kind[2]], kind[1]), np.array(kind[3], kind[1])), output
        bare = [{"name": name, "datatype": name, "shape": [3]} for name in kinds]
        code, body = client.call("ModelInfer", {"model_name": "types", "inputs": bare, "raw_input_contents": raw(
            *[np.array(kind[3], kind[1]) for kind in kinds.values()])})
        assert code == OK, body
        for index, kind in enumerate(kinds.values()):
            assert np.array_equal(raw_output(body, kind[1], index), np.array(kind[3], kind[1]))
        inputs[1]["contents"]["int_contents"] = [0, 128, 0]
        code, text = client.call("ModelInfer", {"model_name": "types", "inputs": inputs})
        assert code == INVALID_ARGUMENT and 'input "INT8" expects elements that INT8 has, got 128' in text


def check_halves(folder):
    """What has no field in contents comes raw, both ways."""
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"], name="neg")], "halves",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [2])])
    model, plan = os.path.join(folder, "halves.onnx"), os.path.join(folder, "halves.plan")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    run(program(), "compile", model, "--machine", "host:1x1", "-o", plan)
    given = {"name": "x", "datatype": "FP16", "shape": [2]}
    with Server(plan, "--grpc", "0") as server, Client(server) as client:
        code, body = client.call("ModelInfer", {"model_name": "halves", "inputs": [given],
                                                "raw_input_contents": raw(np.array([1, -2], np.float16))})
        assert code == OK and raw_output(body, np.float16).tolist() == [-1, 2], body
        code, text = client.call("ModelInfer", {"model_name": "halves",
                                                "inputs": [{**given, "contents": {"fp32_contents": [1, 2]}}]})
        assert code == INVALID_ARGUMENT and "as FP16 has no field in contents" in text, text


def check_many(server, known, connections=4, calls=160):
    """Answers are never mixed up, with calls under way together on several connections."""
    choose, begun = random.Random(connections), []
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(server)) for _ in range(connections)]
        for number in range(calls):
            indices = [choose.randrange(len(known.inputs)) for _ in range(choose.choice([1, 1, 1, 2, 5, 9]))]
            request = infer_request(known.inputs[indices], id=str(number))
            begun.append((number, indices, choose.choice(clients).begin("ModelInfer", request)))
        for number, indices, end in begun:
            body = end.get(timeout=60)["response"]
            assert body["id"] == str(number) and known.check(raw_output(body), indices)


def pending(server):
    text = server.ask("GET", "/metrics")[2].decode()
    return 'nv_inference_pending_request_count{model="lenet",version="1"} 0' not in text


def check_impatient(server, client, known):
    """Calls that are cancelled or past their deadline end, and leave nothing behind."""
    array = known.inputs[[0] * 8]
    code, text = client.call("ModelInfer", infer_request(array, parameters={"timeout": {"int64_param": 1}}))
    assert code == DEADLINE_EXCEEDED and "within its timeout" in text, (code, text)
    ends = [client.begin("ModelInfer", infer_request(array), cancel=number % 3) for number in range(100)]
    ends += [client.begin("ModelInfer", infer_request(array), deadline=1 + number % 5) for number in range(100)]
    found = [end.get(timeout=60).get("code", OK) for end in ends]
    assert set(found) <= {OK, CANCELLED, DEADLINE_EXCEEDED}, found
    assert CANCELLED in found or DEADLINE_EXCEEDED in found
    for _ in range(600):
        if not pending(server):
            break
        time.sleep(0.1)
    else:
        raise AssertionError("expected nothing to wait after its callers had gone")
    check_inference(client, known)


def check_limits(known, folder):
    """A token, a message's size, and a queue's length."""
    token, log = os.path.join(folder, "token"), os.path.join(folder, "access.log")
    with open(token, "w", encoding="utf-8") as file:
        file.write("secret\n")
    with Server(known.plan, "--grpc", "0", "--token-file", token, "--max-body", "100000", "--queue-limit", "4",
                "--access-log", log) as server, Client(server) as client:
        request, bearer = infer_request(known.inputs[:1], id="own"), {"authorization": "Bearer secret"}
        assert client.call("ServerReady") == (OK, {"ready": True})
        for method, message in (("ModelInfer", request), ("ModelMetadata", {"name": "lenet"}), ("ServerMetadata", {}),
                                ("ModelReady", {"name": "lenet"})):
            for metadata in ({}, {"authorization": "Bearer other"}):
                code, text = client.call(method, message, metadata=metadata)
                assert code == UNAUTHENTICATED and "bearer token" in text, (method, code, text)
            assert client.call(method, message, metadata=bearer)[0] == OK
        code, text = client.call("ModelInfer", infer_request(known.inputs[:5]), metadata=bearer)
        assert code == UNAVAILABLE and "queue is full" in text, (code, text)
        code, text = client.call("ModelInfer", infer_request(np.repeat(known.inputs, 4, axis=0)), metadata=bearer)
        assert code == RESOURCE_EXHAUSTED, (code, text)
    with open(log, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    own = [line for line in lines if line.get("id") == "own" and line["status"] == OK]
    assert len(own) == 1 and own[0]["method"] == "gRPC" and own[0]["samples"] == 1, lines
    assert own[0]["target"] == "/inference.GRPCInferenceService/ModelInfer" and own[0]["peer"].startswith("127.0.0.1:")


def check_nonsense(server, client, known):
    """What is no HTTP/2, or half of it, or nothing, hurts nobody."""
    choose, held = random.Random(3), []
    for number in range(100):
        connection = socket.create_connection(("127.0.0.1", server.grpc_port), timeout=60)
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if number % 2 else b""
        connection.sendall(preface + choose.randbytes(choose.randrange(200)))
        held.append(connection)
    check_inference(client, known)
    for connection in held:
        connection.close()
    check_health(client)


def check_silent(known):
    """A client that is gone without a word in the midst of a message is noticed, as it does not answer when it is asked."""
    with Server(known.plan, "--grpc", "0", "--idle-timeout", "1", "--header-timeout", "1") as server:
        with socket.create_connection(("127.0.0.1", server.grpc_port), timeout=60) as connection:
            def frame(kind, flags, stream, payload):
                return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

            def field(name, value):
                return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value

            fields = b"".join(field(name, value) for name, value in (
                (b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"here"), (b"te", b"trailers"),
                (b":path", b"/inference.GRPCInferenceService/ModelInfer"), (b"content-type", b"application/grpc")))
            # Settings, a call's header, and ten bytes of a message of a thousand.
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(4, 1, 0, b"") +
                               frame(1, 4, 1, fields) + frame(0, 0, 1, b"\x00" + (1000).to_bytes(4, "big") + b"x" * 5))
            begin = time.monotonic()
            while connection.recv(4096):
                assert time.monotonic() < begin + 30
            assert time.monotonic() > begin + 1, "expected a while to pass before the client is given up"


def check_drain(server, known):
    """After SIGTERM whoever has asked gets an answer or is told that there is none."""
    with Client(server) as client:
        ends = [client.begin("ModelInfer", infer_request(known.inputs[[index % 12] * 3])) for index in range(400)]
        for index in range(20):
            body = ends[index].get(timeout=60)["response"]
            assert known.check(raw_output(body), [index % 12] * 3)
        assert server.stop() == 0, server.error_text()
        for index, end in enumerate(ends[20:], 20):
            answer = end.get(timeout=60)
            if "response" in answer:
                assert known.check(raw_output(answer["response"]), [index % 12] * 3)
            else:
                assert answer["code"] in (CANCELLED, UNAVAILABLE), answer


def check_refused(known):
    """One line, the right exit code, and no port."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for code, message, address, http in (
                (1, f"cannot listen at 127.0.0.1:{port}: Address already in use; choose another port with --grpc", port,
                 "0"),
                (2, "--grpc expects a port, :PORT, HOST:PORT or [HOST]:PORT", "localhost:x", "0"),
                (2, "the address to listen at expects an IP address", "nowhere:1", "0"),
                (2, "--http and --grpc expect ports of their own, got 127.0.0.1:8000 for both", "8000", "8000")):
            done = subprocess.run([program("cleave-run"), "serve", known.plan, "--http", http, "--grpc", address],
                                  capture_output=True, text=True, check=False, timeout=120)
            errors = done.stderr.splitlines()
            assert done.returncode == code and len(errors) == 1 and message in errors[0], (address, done)
            assert "serving" not in done.stdout


def main():
    if not os.path.exists(os.path.join(NODE, "node_modules/@grpc/grpc-js")):
        skip("no @grpc/grpc-js; run tools/setup --tests")
    if not os.path.exists(os.path.join(os.path.dirname(program()), "cleave-grpc.so")):
        skip("built without gRPC")
    with tempfile.TemporaryDirectory() as folder:
        known = KnownModel(folder)
        check_refused(known)
        check_types(folder)
        check_halves(folder)
        check_limits(known, folder)
        check_silent(known)
        with Server(known.plan, "--grpc", "0") as server:
            with Client(server) as client:
                check_health(client)
                check_metadata(client)
                check_inference(client, known)
                check_errors(client, known)
                check_nonsense(server, client, known)
                check_impatient(server, client, known)
            check_probe(server, folder)
            check_many(server, known)
            check_drain(server, known)


if __name__ == "__main__":
    main()
