# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A plan that several processes serve together (mpirun). `same`: answers are those of single runs, whoever computes them.
# `lost`: processes that are killed, stopped or asked to end while requests come, and devices that fail in them.
# `refused`: what is not to be had, by name, before a port opens.

import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

from cleave_process import Checks, mpirun, mpirun_command, program, signal_rank, skip
from serve_process import INFER, Clients, KnownModel, binary_request, json_request, number, read_outputs, run, served

LARGEST = 8
WAYS = ("pipeline", "data", "tensor")
USAGE = 2


def compile_plan(known, path, way, devices=2):
    run(program(), "compile", known.model, "--machine", f"host:{devices}x1", "--batches", f"1,2,4,{LARGEST}", "--strategy", way,
        "-o", path)
    return path


def served_by(ranks, known, *arguments, fault=""):
    """A server of that many processes, whose environment names the folder of the model."""
    os.environ["CLEAVE_TEST_RUN"] = known.folder
    try:
        return served(*arguments, fault=fault, command=mpirun_command(ranks, program("cleave-run"), "serve"))
    finally:
        del os.environ["CLEAVE_TEST_RUN"]


def seeded():
    seed = int(os.environ.get("CLEAVE_SEED", random.randrange(1 << 32)))
    print(f"seed {seed}")
    return random.Random(seed)


def wait_until(holds, seconds=60):
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit, f"not so within {seconds} s"
        time.sleep(0.01)


def end(server, known, rank=0):
    """Asks a rank to end, as mpirun asks all, which itself gives them a second. The exit code of all."""
    assert signal_rank(known.folder, rank, signal.SIGTERM)
    return server.process.wait(60)


def check_answers(server, known):
    indices = list(range(12)) * 2
    body, headers = binary_request(known.inputs[indices])
    status, answer_headers, answer = server.ask("POST", INFER, body, headers)
    assert status == 200 and known.check(read_outputs(answer_headers, answer)["output"], indices), (status, answer)
    status, answer = server.post(INFER, json_request(known.inputs[:3]))
    assert status == 200, answer


def check_same(folder, known):
    for way, devices, ranks, options in (("pipeline", 2, 2, []), ("data", 2, 2, []), ("tensor", 2, 2, []),
                                         ("data", 4, 3, ["--devices-of-rank", "1,2", "--devices-of-rank", "0",
                                                         "--devices-of-rank", "3"])):
        plan = compile_plan(known, os.path.join(folder, "same.plan"), way, devices)
        server = served_by(ranks, known, "lenet=" + plan, *options)
        clients = Clients(server, known, 8)
        clients.wait(200)
        check_answers(server, known)
        clients.stop()
        assert not clients.refused, clients.refused
        _, placement = server.get("/v2/models/lenet/placement")
        names = [device["name"] for device in placement["instances"][0]["devices"]]
        assert names == [f"cpu{device}" for device in range(devices)], placement
        assert all(device["allocated_bytes"] > 0 for device in placement["instances"][0]["devices"]), placement
        assert end(server, known) == 0, server.error_text()
        assert not server.error_text(), server.error_text()
        server.__exit__()


def check_models(folder, known):
    """Models that come and go while the processes serve others."""
    models, plan = os.path.join(folder, "models"), compile_plan(known, os.path.join(folder, "lenet.plan"), "data")
    for name in ("lenet", "other"):
        os.makedirs(os.path.join(models, name, "1"))
        shutil.copy(plan, os.path.join(models, name, "1", "a.plan"))
        shutil.copy(plan + ".weights", os.path.join(models, name, "1", "lenet.plan.weights"))
    server = served_by(2, known, "--models", models)
    clients = Clients(server, known, 4)
    for action in ("unload", "load", "load"):
        clients.wait(50)
        status, answer = server.post(f"/v2/repository/models/other/{action}", {})
        assert status == 200, answer
    body, headers = binary_request(known.inputs[:1])
    assert server.ask("POST", "/v2/models/other/infer", body, headers)[0] == 200
    # One that the others cannot load, as its file is gone for them: they go on with the rest.
    with open(os.path.join(models, "other", "1", "a.plan"), "wb") as file:
        file.write(b"no plan")
    assert server.post("/v2/repository/models/other/load", {})[0] == 400
    clients.wait(50)
    clients.stop()
    assert not clients.refused, clients.refused
    assert end(server, known) == 0, server.error_text()
    server.__exit__()


def check_lost(folder, known, which, ranks=2):
    """What is in work when a process is killed, or stops, gets 503 with its name. The first process then runs all, as far as
    it can."""
    plan = compile_plan(known, os.path.join(folder, "lost.plan"), "data" if ranks > 2 else "pipeline", ranks)
    server = served_by(ranks, known, "lenet=" + plan, "--rank-timeout", "2")
    clients = Clients(server, known, 8)
    clients.wait(100)
    assert signal_rank(known.folder, 1, which)
    clients.until(lambda: number(server, "cleave_instance_recoveries_total") == 1)
    clients.wait(200)
    clients.stop()
    assert len(clients.refused) <= 2 * LARGEST, clients.refused
    text = "rank 1 is lost: signal 9" if which == signal.SIGKILL else "rank 1 has been stopped"
    assert all(status == 503 and text in answer for status, answer in clients.refused), clients.refused
    assert f'model "lenet", version 1, has lost an instance: {text}' in server.error_text(), server.error_text()
    assert re.search(r"runs again by .*lost.plan, \d+ ms after the loss$", server.error_text(), re.M), server.error_text()
    assert server.get("/v2/health/ready")[0] == 200
    for rank in range(1, ranks):
        assert not signal_rank(known.folder, rank, 0), f"rank {rank} is still there"
    check_answers(server, known)
    print(f"{ranks} processes, signal {which}: {len(clients.refused)} requests were in work, back after "
          f"{1e3 * number(server, 'cleave_instance_recovery_seconds_total'):.0f} ms")
    # mpirun says by its code that a process has not ended as MPI wants it.
    end(server, known)
    assert "error" not in server.error_text(), server.error_text()
    server.__exit__()


def check_lost_loading(folder, known, rounds):
    """A process that is killed while another model is loaded by all: the load ends, and the first process goes on alone."""
    models, plan = os.path.join(folder, "loading"), compile_plan(known, os.path.join(folder, "loading.plan"), "pipeline")
    for name in ("lenet", "other"):
        os.makedirs(os.path.join(models, name, "1"))
        shutil.copy(plan, os.path.join(models, name, "1", "a.plan"))
        shutil.copy(plan + ".weights", os.path.join(models, name, "1", "loading.plan.weights"))
    chance = seeded()
    for _ in range(rounds):
        server = served_by(2, known, "--models", models)
        answers = []
        load = threading.Thread(target=lambda server=server, answers=answers: answers.append(
            server.post("/v2/repository/models/other/load", {})))
        load.start()
        time.sleep(chance.uniform(0, 0.03))
        assert signal_rank(known.folder, 1, signal.SIGKILL)
        load.join(60)
        assert answers, "the load has no answer"
        status, answer = answers[0]
        assert status == 200 or "rank 1 is lost: signal 9" in answer["error"], answer
        # Whichever model was loaded before the loss runs again.
        assert server.post("/v2/repository/models/other/load", {})[0] == 200
        for model in ("lenet", "other"):
            wait_until(lambda model=model: server.get(f"/v2/models/{model}/ready")[0] == 200)
        check_answers(server, known)
        end(server, known)
        server.__exit__()


def check_lost_idle(folder, known):
    """A loss is noticed without requests: nobody gets an error."""
    plan = compile_plan(known, os.path.join(folder, "idle.plan"), "data")
    server = served_by(2, known, "lenet=" + plan)
    clients = Clients(server, known, 0)
    assert signal_rank(known.folder, 1, signal.SIGKILL)
    clients.until(lambda: number(server, "cleave_instance_recoveries_total") == 1)
    check_answers(server, known)
    server.__exit__()


def check_other_plans(folder, known):
    """A plan that was made for what is left comes before the one that was not. Where none can be loaded the model answers 503
    with the lost process's name, and the server is not ready."""
    models = os.path.join(folder, "left")
    version = os.path.join(models, "lenet", "1")
    os.makedirs(version)
    compile_plan(known, os.path.join(version, "1-two.plan"), "pipeline")
    compile_plan(known, os.path.join(version, "2-one.plan"), "single", 1)
    for alone in (False, True):
        if alone:
            os.remove(os.path.join(version, "2-one.plan"))
        # Only the second process receives, but when the first one does all.
        server = served_by(2, known, "--models", models, fault="0:receive:0:gone" if alone else "")
        clients = Clients(server, known, 8)
        clients.wait(50)
        assert signal_rank(known.folder, 1, signal.SIGKILL)
        if not alone:
            clients.until(lambda server=server: number(server, "cleave_instance_recoveries_total") == 1)
            clients.wait(50)
            clients.stop()
            assert re.search(r"runs again by .*/2-one.plan, \d+ ms after the loss$", server.error_text(), re.M), \
                server.error_text()
        else:
            clients.until(lambda server=server: server.error_text().endswith("no plan of it can be loaded\n"))
            clients.stop()
            body, headers = binary_request(known.inputs[:1])
            status, _, answer = server.ask("POST", INFER, body, headers)
            assert status == 503 and b"rank 1 is lost: signal 9" in answer, answer
            assert server.get("/v2/health/ready")[0] == 400
        end(server, known)
        server.__exit__()


def check_first_lost(folder, known):
    """Without the process that has the ports all end, with its name."""
    server = served_by(2, known, "lenet=" + compile_plan(known, os.path.join(folder, "first.plan"), "data"))
    assert signal_rank(known.folder, 0, signal.SIGKILL)
    assert server.process.wait(60) != 0
    assert "error: rank 0 is lost: signal 9" in server.error_text(), server.error_text()
    server.__exit__()


def check_device(folder, known):
    """A device that is lost in another process: 503 with its name, and the processes load the plan again together."""
    plan = compile_plan(known, os.path.join(folder, "device.plan"), "pipeline")
    server = served_by(2, known, "lenet=" + plan, fault="1:call:40:lose")
    clients = Clients(server, known, 8)
    clients.until(lambda: number(server, "cleave_instance_recoveries_total") == 1)
    clients.wait(100)
    clients.stop()
    assert 1 <= len(clients.refused) <= 2 * LARGEST, clients.refused
    assert all(status == 503 and 'rank 1: device \\"cpu1\\"' in answer for status, answer in clients.refused), clients.refused
    check_answers(server, known)
    assert signal_rank(known.folder, 1, 0)
    assert end(server, known) == 0, server.error_text()
    server.__exit__()


def check_end(folder, known):
    """What has been asked is answered before all end, whichever process is asked to."""
    plan = compile_plan(known, os.path.join(folder, "end.plan"), "data")
    for rank in (0, 1):
        server = served_by(2, known, "lenet=" + plan)
        connection = server.connect()
        clients = Clients(server, known, 4, until_closed=True)
        clients.wait(50)
        connection.close()
        assert end(server, known, rank) == 0, server.error_text()
        clients.stop()
        assert not clients.refused, clients.refused
        server.__exit__()


def refused(folder, known):
    checks = Checks()
    plan = compile_plan(known, os.path.join(folder, "a.plan"), "data")
    for text, ranks, words in (
            ("the plan's 2 devices expect at most as many processes, got 3", 3, [plan]),
            ("--instances expects one process, got 2", 2, [plan, "--instances", "2"]),
            ("--devices-of-rank expects each device once, got 0 for ranks 0 and 1", 2,
             [plan, "--devices-of-rank", "0", "--devices-of-rank", "0"]),
            ("serving expects plans or --models FOLDER, got neither", 2, []),
            ('--http expects', 2, [plan, "--http", "nowhere:x"]),
            ('cannot open "none.plan"', 2, ["none.plan"])):
        result = mpirun(ranks, "serve", *words, timeout=60)
        checks.add(result.code not in (0, None) and text in result.errors and result.errors.count("error:") == 1 and
                   "serving at" not in result.output, text, result)
    # A model is compiled by one process.
    result = mpirun(2, "serve", known.model, timeout=60)
    checks.add(result.code not in (0, None) and result.errors.count("error:") == 1, "a model", result)
    checks.report()


def main():
    if not shutil.which("mpirun"):
        skip("there is no mpirun")
    with tempfile.TemporaryDirectory() as folder:
        known = KnownModel(folder)
        if sys.argv[1] == "same":
            check_same(folder, known)
            check_models(folder, known)
        elif sys.argv[1] == "lost":
            check_lost(folder, known, signal.SIGKILL)
            check_lost(folder, known, signal.SIGKILL, ranks=3)
            check_lost(folder, known, signal.SIGSTOP)
            check_lost_loading(folder, known, 5)
            check_lost_idle(folder, known)
            check_other_plans(folder, known)
            check_first_lost(folder, known)
            check_device(folder, known)
            check_end(folder, known)
        else:
            refused(folder, known)


main()
