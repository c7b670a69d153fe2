# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# A model that runs several times, and devices that are lost while requests come: who is told, what is answered all the
# same, and by which plan the model runs then. CLEAVE_FAULT (runtime/watch/Fault.h) has devices fail.

import os
import re
import shutil
import tempfile

from serve_process import INFER, Clients, KnownModel, binary_request, number, read_outputs, run, served
from cleave_process import program

LARGEST = 8


def check_turns(known):
    """Batches go to both instances, a request's samples among them, and answers are the same."""
    server = served(known.plan, "--instances", "2")
    assert 'model "lenet" is loaded from ' + known.plan + ", 2 times\n" in server.lines, server.lines
    clients = Clients(server, known, 16)
    clients.wait(200)
    clients.stop()
    body, headers = binary_request(known.inputs[list(range(12)) * 5])
    status, answer_headers, answer = server.ask("POST", INFER, body, headers)
    assert status == 200 and known.check(read_outputs(answer_headers, answer)["output"], list(range(12)) * 5)
    assert not clients.refused, clients.refused
    batches = [number(server, "cleave_instance_batches_total", instance=instance) for instance in (0, 1)]
    assert min(batches) >= 1, batches
    assert sum(batches) == number(server, "nv_inference_exec_count")
    assert number(server, "cleave_instance_ready") == 2
    assert server.stop() == 0, server.error_text()
    server.__exit__()


def check_lost(known, instances):
    """What was in work on a lost device gets 503 with its name; nothing else does, however few instances there are. The
    instance comes back on the same devices."""
    server = served(known.plan, "--instances", str(instances), fault="0:call:30:lose")
    clients = Clients(server, known, 16)
    clients.until(lambda: number(server, "cleave_instance_recoveries_total") == 1)
    clients.wait(100)
    clients.stop()
    assert 1 <= len(clients.refused) <= LARGEST, clients.refused
    for status, answer in clients.refused:
        assert status == 503 and 'device \\"' in answer and "this loss was asked for" in answer, (status, answer)
    assert number(server, "cleave_instance_losses_total") == 1
    assert number(server, "cleave_instance_ready") == instances
    seconds = number(server, "cleave_instance_recovery_seconds_total")
    assert 0 < seconds < 30, seconds
    text = server.error_text()
    assert re.search(r'^model "lenet", version 1, has lost an instance: device ".*", call: this loss was asked for', text,
                     re.M), text
    assert re.search(r'^model "lenet", version 1, runs again by .*lenet.plan, \d+ ms after the loss$', text, re.M), text
    assert server.get("/v2/health/ready")[0] == 200
    print(f"{instances} instances: {len(clients.refused)} requests were in work, back after {1e3 * seconds:.0f} ms")
    server.__exit__()


def check_lost_in_vain(known):
    """An instance that is lost as soon as it is back is loaded later, and not for ever: nothing is lost but what was in
    work."""
    server = served(known.plan, fault="0:call:2:lose,0:load input:2:lose")
    clients = Clients(server, known, 4)
    clients.until(lambda: number(server, "cleave_instance_recoveries_total") == 2)
    clients.wait(20)
    clients.stop()
    assert 2 <= len(clients.refused) <= 2 * LARGEST and all(status == 503 for status, _ in clients.refused)
    seconds = number(server, "cleave_instance_recovery_seconds_total")
    assert 1 < seconds < 30, seconds
    assert server.stop() == 0, server.error_text()
    server.__exit__()


def check_other_plan(folder, known):
    """A device that does not come back: the next plan that does without it. Without one the model answers 503 with the
    device's name from then on."""
    models = os.path.join(folder, "lost")
    version = os.path.join(models, "lenet", "1")
    os.makedirs(version)
    # Two devices, which receive from each other at every step.
    run(program(), "compile", known.model, "--machine", "host:2x1", "--batches", f"1,{LARGEST}", "--strategy", "pipeline", "-o",
        os.path.join(version, "1-two.plan"))
    for alone in (False, True):
        if not alone:
            for end in ("plan", "weights"):
                shutil.copy(f"{known.folder}/lenet.{end}" if end == "plan" else f"{known.plan}.weights",
                            os.path.join(version, f"2-one.{end}" if end == "plan" else "lenet.plan.weights"))
        else:
            os.remove(os.path.join(version, "2-one.plan"))
        server = served("--models", models, fault="0:receive:30:gone")
        clients = Clients(server, known, 8)
        clients.until(lambda server=server: number(server, "cleave_instance_losses_total") == 1)
        if alone:
            clients.until(lambda server=server: server.error_text().endswith("no plan of it can be loaded\n"))
            clients.stop()
            status, answer = server.post(INFER, {})
            assert status in (400, 503), answer
            body, headers = binary_request(known.inputs[:1])
            status, _, answer = server.ask("POST", INFER, body, headers)
            assert status == 503 and b"this loss was asked for" in answer, answer
            assert server.get("/v2/health/ready")[0] == 400 and number(server, "cleave_instance_ready") == 0
            assert number(server, "cleave_instance_recoveries_total") == 0
            # Who has mended it says so.
            status, answer = server.post("/v2/repository/models/lenet/load", {})
            assert status == 400 and "this loss was asked for" in answer["error"], answer
        else:
            clients.wait(50)
            clients.stop()
            assert 1 <= len(clients.refused) <= 2 * LARGEST, clients.refused
            assert all(status == 503 and 'device \\"' in answer for status, answer in clients.refused), clients.refused
            text = server.error_text()
            assert re.search(r"runs again by .*/2-one.plan, \d+ ms after the loss$", text, re.M), text
            assert number(server, "cleave_instance_recoveries_total") == 1
            assert server.get("/v2/health/ready")[0] == 200
            print(f"another plan: back after {1e3 * number(server, 'cleave_instance_recovery_seconds_total'):.0f} ms")
        server.__exit__()


def check_gpus(folder, known):
    """GPUs, simulated ones: each instance has its own; one that is lost is taken again, and where the two cannot reach each
    other any more, one of them does all."""
    simulated = program("cleave-run-simulated")
    if not os.path.exists(simulated):
        return
    models = os.path.join(folder, "gpus")
    version = os.path.join(models, "lenet", "1")
    os.makedirs(version)
    for name, machine in (("1-two.plan", "cuda:h100:2"), ("2-one.plan", "cuda:h100:1")):
        run(program(), "compile", known.model, "--machine", machine, "--batches", f"1,{LARGEST}", "--strategy", "tensor",
            "-o", os.path.join(version, name))
    os.environ["CLEAVE_SIMULATED_GPUS"] = "4"
    try:
        for plans, instances, fault, left in (
                (["--models", models], 2, "", [["GPU 0", "GPU 1"], ["GPU 2", "GPU 3"]]),
                (["lenet=" + os.path.join(version, "2-one.plan")], 3, "0:call:5:lose", [["GPU 0"], ["GPU 1"], ["GPU 2"]]),
                (["--models", models], 1, "0:all_reduce:5:gone", [["GPU 0"]])):
            server = served(*plans, "--instances", str(instances), fault=fault, command=[simulated, "serve"])
            clients = Clients(server, known, 4)
            expected = 1 if fault else 0
            clients.until(lambda server=server, expected=expected:
                          number(server, "cleave_instance_recoveries_total") == expected)
            clients.wait(20)
            clients.stop()
            assert bool(clients.refused) == bool(fault), clients.refused
            assert all(status == 503 and "this loss was asked for" in answer for status, answer in clients.refused)
            _, placement = server.get("/v2/models/lenet/placement")
            found = [[device["hardware"] for device in instance["devices"]] for instance in placement["instances"]]
            assert found == [[name + " (simulated)" for name in names] for names in left], found
            assert server.stop() == 0, server.error_text()
            server.__exit__()
    finally:
        del os.environ["CLEAVE_SIMULATED_GPUS"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        known = KnownModel(folder)
        check_turns(known)
        for instances in (1, 2):
            check_lost(known, instances)
        check_lost_in_vain(known)
        check_other_plan(folder, known)
        check_gpus(folder, known)


main()
