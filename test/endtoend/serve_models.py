# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Models that are loaded, replaced and unloaded while requests come; models that are compiled on the spot; and commands
# that end with one line before the port opens.

import os
import shutil
import socket
import subprocess
import tempfile
import threading

import numpy as np

from cleave_process import program
from serve_process import KnownModel, Server, binary_request, json_request, read_outputs, run

INFER = "/v2/models/lenet/infer"


def check_swaps(folder, known):
    """A model is replaced again and again while clients ask: every request gets its answer."""
    models = os.path.join(folder, "models")
    os.makedirs(os.path.join(models, "lenet", "3"))
    for end in ("", ".weights"):
        shutil.copy(known.plan + end, os.path.join(models, "lenet", "3"))
    with Server("--models", models) as server:
        over, failures, answered = threading.Event(), [], []

        def client(index):
            body, headers = binary_request(known.inputs[[index] * 2])
            connection = server.connect()
            while not over.is_set():
                status, answer_headers, answer = server.ask("POST", INFER, body, headers, connection)
                if status != 200 or not known.check(read_outputs(answer_headers, answer)["output"], [index] * 2):
                    failures.append((status, answer))
                    return
                answered.append(index)

        threads = [threading.Thread(target=client, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        # Version 10 is newer than 3 and 9; versions that are gone go.
        for number, version in enumerate(("9", "10", "3", "10")):
            target = os.path.join(models, "lenet", version)
            if not os.path.exists(target):
                shutil.copytree(os.path.join(models, "lenet", "3"), target)
            before = len(answered)
            assert server.post("/v2/repository/models/lenet/load", {}) == (200, {})
            while len(answered) < before + 5 and not failures:
                over.wait(0.01)
            newest = "9" if number == 0 else "10"
            status, body = server.post(INFER, json_request(known.inputs[:1]))
            assert status == 200 and body["model_version"] == newest, (version, body)
        shutil.rmtree(os.path.join(models, "lenet", "9"))
        assert server.post("/v2/repository/models/lenet/load", {}) == (200, {})
        assert server.get("/v2/models/lenet")[1]["versions"] == ["3", "10"]
        assert server.get("/v2/models/lenet/versions/9/ready")[0] == 404
        # A plan that is none leaves what is there.
        with open(os.path.join(models, "lenet", "3", "lenet.plan"), "wb") as file:
            file.write(b"nothing")
        status, body = server.post("/v2/repository/models/lenet/load", {})
        assert status == 400 and "lenet.plan" in body["error"], body
        over.set()
        for thread in threads:
            thread.join()
        assert not failures, failures[:3]
        status, body = server.post("/v2/repository/index", {})
        assert status == 200 and {entry["version"]: entry["state"] for entry in body} == {"3": "READY", "10": "READY"}
        for path in ("/v2/repository/models/../load", "/v2/repository/models/%2e%2e/load", "/v2/repository/models/x/load"):
            assert server.post(path, {})[0] in (400, 404), path
        assert server.post("/v2/repository/models/lenet/unload", {}) == (200, {})
        assert server.post(INFER, json_request(known.inputs[:1]))[0] == 404
        assert server.post("/v2/repository/models/lenet/unload", {})[0] == 400
        assert server.stop() == 0, server.error_text()


def check_compiled(known):
    """`cleave serve MODEL` compiles first; `cleave serve PLAN` is what cleave-run does."""
    for arguments in ((known.model, "--machine", "host:1x1", "--max-batch", "4"), ("lenet=" + known.plan,)):
        with Server(*arguments, command=[program(), "serve"]) as server:
            status, body = server.post(INFER, json_request(known.inputs[:6]))
            assert status == 200 and known.check(np.array(body["outputs"][0]["data"]).reshape(6, 10), range(6))
            assert server.stop() == 0


def check_unbatched(folder, known):
    """A plan without batches takes whole inputs."""
    plan = os.path.join(folder, "alone.plan")
    run(program(), "compile", known.model, "--machine", "host:1x1", "-o", plan)
    with Server("lenet=" + plan) as server:
        assert server.get("/v2/models/lenet")[1]["inputs"][0]["shape"] == [1, 1, 28, 28]
        status, body = server.post(INFER, json_request(known.inputs[4:5]))
        assert status == 200 and known.check(np.array(body["outputs"][0]["data"]).reshape(1, 10), [4])
        status, body = server.post(INFER, json_request(known.inputs[:2]))
        assert status == 400 and "expects shape [1,1,28,28], got [2,1,28,28]" in body["error"]


def check_refused(folder, known):
    """One line, the right exit code, and no port."""
    training = os.path.join(folder, "training.plan")
    run(program(), "zoo", "lenet", "--batch", "2", "-o", os.path.join(folder, "t.onnx"))
    run(program(), "compile", os.path.join(folder, "t.onnx"), "--machine", "host:1x1", "--train", "--loss",
        "cross-entropy", "-o", training)
    missing, text = os.path.join(folder, "missing.plan"), os.path.join(folder, "text.plan")
    with open(text, "w", encoding="utf-8") as file:
        file.write("x" * 100)
    # Plans of one version that take other inputs: one has batches, and one has not.
    unlike = os.path.join(folder, "unlike")
    os.makedirs(os.path.join(unlike, "lenet", "1"))
    for plan, name in ((known.plan, "1.plan"), (os.path.join(folder, "alone.plan"), "2.plan")):
        shutil.copy(plan, os.path.join(unlike, "lenet", "1", name))
        shutil.copy(plan + ".weights", os.path.join(unlike, "lenet", "1"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for code, message, arguments in (
                (2, "serving expects plans or --models FOLDER, got neither", []),
                (1, "missing.plan", [missing]),
                (4, "text.plan", [text]),
                (2, "serving expects a plan that infers", [training]),
                (2, 'two models are called "lenet"', [known.plan, known.plan]),
                (1, f"cannot listen at 127.0.0.1:{port}: Address already in use", [known.plan, "--http", port]),
                (2, "--http expects a port, :PORT, HOST:PORT or [HOST]:PORT", [known.plan, "--http", "localhost:x"]),
                (2, "the address to listen at expects an IP address", [known.plan, "--http", "nowhere:1"]),
                (1, "--token-file expects a file with a token", [known.plan, "--token-file", missing]),
                (1, "the access log expects a file that can be written", [known.plan, "--access-log", "/nowhere/log"]),
                (1, "--models expects a folder", ["--models", missing]),
                (2, "--max-delay", [known.plan, "--max-delay", "-1"]),
                (2, "--instances", [known.plan, "--instances", "0"]),
                (2, "2.plan: a further plan of a model expects the inputs and outputs of ", ["--models", unlike]),
                (2, "--unknown", [known.plan, "--unknown"])):
            done = subprocess.run([program("cleave-run"), "serve", *arguments], capture_output=True, text=True,
                                  check=False, timeout=120)
            errors = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
            assert done.returncode == code and len(errors) == 1 and message in errors[0], (arguments, done)
            assert "serving at" not in done.stdout


def main():
    with tempfile.TemporaryDirectory() as folder:
        known = KnownModel(folder)
        check_unbatched(folder, known)
        check_refused(folder, known)
        check_compiled(known)
        check_swaps(folder, known)


main()
