# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The Open Inference Protocol, version 2, over HTTP, point by point: health, metadata, inference, errors, and the binary
# tensor extension; by curl and by a client on http.client. Answers are compared with those of single runs.

import json
import os
import subprocess
import tempfile

import numpy as np

from serve_process import KnownModel, Server, binary_request, json_request, read_outputs

INFER = "/v2/models/lenet/infer"


def check_health(server):
    # "server-live", "server-ready", "model-ready": by status code and by a field.
    assert server.get("/v2/health/live") == (200, {"live": True})
    status, body = server.get("/v2/health/ready")
    assert status == 200 and body["live"] is True and body["ready"] is True
    assert server.get("/v2/models/lenet/ready") == (200, {"name": "lenet", "ready": True})
    assert server.get("/v2/models/lenet/versions/1/ready") == (200, {"name": "lenet", "ready": True})


def check_metadata(server):
    # "server-metadata": name, version, extensions.
    status, body = server.get("/v2")
    assert status == 200 and body["name"] == "cleave" and body["version"]
    assert "binary_tensor_data" in body["extensions"]
    # "model-metadata", with and without a version; -1 is the dimension that varies.
    for path in ("/v2/models/lenet", "/v2/models/lenet/versions/1"):
        status, body = server.get(path)
        assert status == 200
        assert body == {"name": "lenet", "versions": ["1"], "platform": "cleave_plan",
                        "inputs": [{"name": "input", "datatype": "FP32", "shape": [-1, 1, 28, 28]}],
                        "outputs": [{"name": "output", "datatype": "FP32", "shape": [-1, 10]}]}, body


def check_json(server, known):
    # "inference": id comes back, model and version are named, data is row-major.
    for count in (1, 2, 3, 8, 11):
        array = known.inputs[:count]
        status, body = server.post(INFER, json_request(array, id="a\"b", outputs=[{"name": "output"}]))
        assert status == 200, body
        assert body["model_name"] == "lenet" and body["model_version"] == "1" and body["id"] == "a\"b"
        assert [output["name"] for output in body["outputs"]] == ["output"]
        assert body["outputs"][0]["shape"] == [count, 10] and body["outputs"][0]["datatype"] == "FP32"
        assert known.check(np.array(body["outputs"][0]["data"]).reshape(count, 10), range(count))
    # "data" may be nested as the shape is; without "outputs" all come; no id, none comes back.
    nested = {"inputs": [{"name": "input", "shape": [1, 1, 28, 28], "datatype": "FP32",
                          "data": known.inputs[:1].tolist()}]}
    status, body = server.post("/v2/models/lenet/versions/1/infer", nested)
    assert status == 200 and "id" not in body and len(body["outputs"]) == 1
    # Unknown fields and parameters are no errors.
    status, _ = server.post(INFER, json_request(known.inputs[:1], more=1, parameters={"unknown": "x", "priority": 2}))
    assert status == 200


def check_binary(server, known):
    # Outputs by JSON or as bytes, all by one parameter of the request or each by its own.
    array = known.inputs[3:6]
    for more, is_binary in (({}, False), ({"parameters": {"binary_data_output": True}}, True),
                            ({"outputs": [{"name": "output", "parameters": {"binary_data": True}}]}, True),
                            ({"parameters": {"binary_data_output": True},
                              "outputs": [{"name": "output", "parameters": {"binary_data": False}}]}, False)):
        body, headers = binary_request(array, **more)
        status, answer_headers, answer = server.ask("POST", INFER, body, headers)
        assert status == 200, answer
        assert ("inference-header-content-length" in answer_headers) == is_binary
        assert known.check(read_outputs(answer_headers, answer)["output"], range(3, 6))
    # A request without JSON: one sample, and bytes come back.
    status, headers, answer = server.ask("POST", INFER, known.inputs[7].tobytes(),
                                         {"Inference-Header-Content-Length": "0"})
    assert status == 200, answer
    assert known.check(read_outputs(headers, answer)["output"], [7])


def check_errors(server, known):
    # Errors are an object with "error", and a status that says whose they are.
    good = json_request(known.inputs[:1])
    given = good["inputs"][0]

    def changed(**fields):
        return {"inputs": [{**given, **fields}]}

    cases = [
        (404, "GET", "/v2/models/other", None, 'no model "other" is loaded'),
        (404, "GET", "/v2/models/lenet/versions/2", None, 'no model "lenet" of version "2" is loaded'),
        (404, "POST", "/v2/models/other/infer", good, "no model"),
        (404, "GET", "/v3", None, "no such path"),
        (404, "GET", "/v2/models/lenet/other", None, "no such path"),
        (405, "GET", INFER, None, "the path expects POST, got GET"),
        (405, "POST", "/v2", good, "the path expects GET, got POST"),
        (400, "POST", INFER, "[1, 2", "a request expects JSON, got"),
        (400, "POST", INFER, "", "a request expects JSON, got"),
        (400, "POST", INFER, [1], "a request expects a JSON object"),
        (400, "POST", INFER, {}, 'a request expects an array "inputs"'),
        (400, "POST", INFER, {"inputs": []}, 'the model expects input "input", which the request lacks'),
        (400, "POST", INFER, {"inputs": [1]}, '"inputs" expects objects with a "name"'),
        (400, "POST", INFER, changed(name="other"), 'the model has no input "other"'),
        (400, "POST", INFER, {"inputs": [given, given]}, 'input "input" expects to be given once'),
        (400, "POST", INFER, changed(datatype="FP64"), 'input "input" expects "datatype" "FP32", got "FP64"'),
        (400, "POST", INFER, changed(shape=[1, 1, 28, 27]),
         'input "input" expects shape [-1,1,28,28] of at least one sample, got [1,1,28,27]'),
        (400, "POST", INFER, changed(shape=[0, 1, 28, 28]), "of at least one sample, got [0,1,28,28]"),
        (400, "POST", INFER, changed(shape=["x"]), 'input "input" expects whole numbers in "shape"'),
        (400, "POST", INFER, changed(shape=[1 << 62, 1, 28, 28]), "of at least one sample"),
        (400, "POST", INFER, changed(shape=[1 << 20, 1, 28, 28]), "got a request of"),
        (400, "POST", INFER, changed(data=[0.5] * 700), 'expects 784 elements in "data", got 700'),
        (400, "POST", INFER, changed(data=[0] * 785), 'expects no more elements in "data" than its shape has'),
        (400, "POST", INFER, changed(data=["x"] * 784), "expects elements of \"data\" that are numbers"),
        (400, "POST", INFER, changed(parameters={"binary_data_size": 3136}),
         'expects either an array "data" or the parameter "binary_data_size"'),
        (400, "POST", INFER, {**good, "outputs": [{"name": "x"}]}, 'the model has no output "x"'),
        (400, "POST", INFER, {**good, "outputs": [{"name": "output", "parameters": {"classification": 3}}]},
         '"classification", which is not supported'),
        (400, "POST", INFER, {**good, "id": 7}, '"id" expects a string'),
        (400, "POST", INFER, {**good, "parameters": {"timeout": "x"}}, 'parameter "timeout" expects a whole number'),
    ]
    for status, method, path, document, message in cases:
        body = document if isinstance(document, str) else None if document is None else json.dumps(document)
        found, headers, answer = server.ask(method, path, body)
        text = json.loads(answer)
        assert found == status and list(text) == ["error"] and message in text["error"], (path, document, found, answer)
        assert headers["content-type"] == "application/json"
        assert (status == 405) == ("allow" in headers)
    # Sizes that lie: more than there is, less, other than the shape's; a header that is no number, or too large.
    body, headers = binary_request(known.inputs[:1])
    for wrong_body, wrong_headers, message in (
            (body[:-1], headers, 'expects at most the 3135 bytes that follow, got 3136'),
            (body + b"x", headers, "expect all 3137 bytes after the JSON, got a sum of 3136"),
            (body.replace(b"3136", b"3132"), headers, 'expects "binary_data_size" 3136, got 3132'),
            (body, {"Inference-Header-Content-Length": "x"}, "Inference-Header-Content-Length expects a number"),
            (body, {"Inference-Header-Content-Length": str(len(body) + 1)}, "Inference-Header-Content-Length expects"),
            (body, {"Inference-Header-Content-Length": "-1"}, "Inference-Header-Content-Length expects"),
            (body[:99], {"Inference-Header-Content-Length": "0"}, "expects 3136 bytes for one sample, got 99")):
        status, _, answer = server.ask("POST", INFER, wrong_body, wrong_headers)
        assert status == 400 and message in json.loads(answer)["error"], answer


def check_curl(server, known, folder):
    # A client that was not written here; its large bodies wait for "100 Continue".
    request, answer = os.path.join(folder, "request"), os.path.join(folder, "answer")
    body, headers = binary_request(np.repeat(known.inputs[2:3], 400, axis=0))
    with open(request, "wb") as file:
        file.write(body)
    flags = [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]
    done = subprocess.run(["curl", "-sS", "-w", "%{http_code}", "-o", answer, *flags, "-H", "Expect: 100-continue",
                           "--data-binary", f"@{request}", f"http://127.0.0.1:{server.port}{INFER}"],
                          capture_output=True, text=True, check=True)
    assert done.stdout == "200", done
    with open(answer, "rb") as file:
        outputs = read_outputs({}, file.read())
    assert known.check(outputs["output"], [2] * 400)


def metrics(server):
    status, headers, body = server.ask("GET", "/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def check_metrics(server, known):
    # Prometheus' text, under Triton's names.
    values = metrics(server)
    label = '{model="lenet",version="1"}'
    assert values["nv_inference_request_success" + label] >= 10
    assert values["nv_inference_count" + label] >= 400
    # Larger batches run where they have been measured to be faster, which on a busy machine takes a few requests.
    body, headers = binary_request(np.repeat(known.inputs[2:3], 400, axis=0))
    for _ in range(20):
        if values["nv_inference_exec_count" + label] < values["nv_inference_count" + label]:
            break
        assert server.ask("POST", INFER, body, headers)[0] == 200
        values = metrics(server)
    assert 0 < values["nv_inference_exec_count" + label] < values["nv_inference_count" + label]
    for name in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        assert f"nv_inference_{name}_duration_us{label}" in values
    assert 'cleave_batch_seconds{model="lenet",version="1",instance="0",samples="8",kind="predicted"}' in values


def main():
    with tempfile.TemporaryDirectory() as folder:
        known = KnownModel(folder)
        log = os.path.join(folder, "access.log")
        with Server(known.plan, "--access-log", log) as server:
            check_health(server)
            check_metadata(server)
            check_json(server, known)
            check_binary(server, known)
            check_errors(server, known)
            check_curl(server, known, folder)
            check_metrics(server, known)
            assert server.stop() == 0, server.error_text()
        with open(log, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        inferred = [line for line in lines if line["target"].endswith("/infer") and line["status"] == 200]
        assert inferred and all(line["samples"] >= 1 and line["ms"] >= line["queue_ms"] >= 0 for line in inferred)


main()
