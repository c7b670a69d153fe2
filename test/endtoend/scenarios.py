# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What engineers set out to do, each from nothing to an answer, by the commands that they would type. Answers are held
# to PyTorch, to ONNX Runtime or to arithmetic.
#
#   python3 test/endtoend/scenarios.py batch-one|mixed|odd|errors|why|script|resume|rates|vit|llama|kinds|fine-tune|machines

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time

import numpy
import onnx

from cleave_process import INFEASIBLE, REJECTED, REPOSITORY, USAGE, Checks, cleave, program, report, skip
from train_lenet import SEED, generated, random_order, torch_model, train_in_torch

# A machine of one fast device and two slow ones, as in the first mixed clusters.
MIXED = """name: mixed
device_kinds:
  fast: {{ memory: 16 GiB, bandwidth: 900 GB/s, peak: {{ f32: 20 TFLOP/s }}{extra} }}
  slow: {{ memory: 16 GiB, bandwidth: 450 GB/s, peak: {{ f32: 10 TFLOP/s }}{extra} }}
hosts:
  - devices: [ {{ kind: fast }}, {{ kind: slow, count: 2 }} ]
    links: [ {{ between: devices, bandwidth: 25 GB/s, latency: 2 us }} ]
"""


def run(*arguments, timeout=300):
    """A command that must succeed."""
    result = cleave(*arguments, timeout=timeout)
    if result.code != 0:
        report([("cleave " + " ".join(map(str, arguments)), result)], 0)
    return result


def explain(plan):
    return json.loads(run("explain", plan, "--json", "-").output)


def write(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


def torch():
    """PyTorch, or the test is skipped."""
    try:
        import torch as module
    except ImportError:
        skip("no PyTorch")
    return module


def runtime_output(model, arrays):
    """The first output that ONNX Runtime computes; the test is skipped where there is none."""
    import peer

    os.makedirs("peer", exist_ok=True)
    peer.run_peer(model, peer.write_inputs(arrays, "peer"), "peer")
    return numpy.load(os.path.join("peer", "0.npy"))


def images_and_labels(count, seed=1):
    images, labels = generated(count, seed)
    numpy.save("x.npy", images)
    numpy.save("l.npy", labels)
    return images, labels


DATA = ["--data", "@0=x.npy", "--data", "labels=l.npy", "--seed", str(SEED)]
LENET = ["--train", "--loss", "cross-entropy", "--optimizer", "sgd", "--learning-rate", "0.2"]


def batch_one(checks):
    """A model exported with one sample, trained in batches of 16; PyTorch does the same."""
    t = torch()
    t.manual_seed(3)
    model = t.nn.Sequential(t.nn.Conv2d(1, 4, 5), t.nn.ReLU(), t.nn.MaxPool2d(4), t.nn.Flatten(), t.nn.Linear(144, 10))
    t.onnx.export(model, t.zeros(1, 1, 28, 28), "net.onnx", input_names=["image"], output_names=["scores"],
                  do_constant_folding=False)
    images, labels = images_and_labels(160)
    run("compile", "net.onnx", "--machine", "host:2x1", "--batch", "16", "--train", "--loss", "cross-entropy",
        "--optimizer", "sgd", "--learning-rate", "0.1", "-o", "net.plan")
    run("train", "net.plan", *DATA, "--json", "r.json", "--json-steps", "--export", "w.npz")
    found = [step["loss"] for step in json.load(open("r.json", encoding="utf-8"))["steps"]]
    optimizer, losses, order = t.optim.SGD(model.parameters(), 0.1), [], random_order(160, SEED, 0)
    for begin in range(0, 160, 16):
        which = order[begin:begin + 16]
        optimizer.zero_grad()
        loss = t.nn.functional.cross_entropy(model(t.tensor(images[which, None] / 255).float()),
                                             t.tensor(labels[which].astype(numpy.int64)))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    checks.add(len(found) == 10, "10 steps of 16 samples", cleave("--version"))
    checks.close("losses", found, losses, 1e-4)
    for name, value in model.state_dict().items():
        checks.close(name, numpy.load("w.npz")[name], value.numpy(), 1e-4)


def mixed(checks):
    """On one fast device and two slow ones the planner is no worse than data parallelism by hand, and its bound holds."""
    write("mixed.yaml", MIXED.format(extra=""))
    run("zoo", "gpt", "--layers", "4", "--hidden", "256", "--heads", "8", "--sequence", "128", "--vocabulary", "1000",
        "--batch", "12", "-o", "g.onnx")
    run("compile", "g.onnx", "--machine", "mixed.yaml", "-o", "auto.plan")
    run("compile", "g.onnx", "--machine", "mixed.yaml", "--strategy", "data", "-o", "data.plan")
    run("compile", "g.onnx", "--machine", "mixed.yaml", "--strategy", "single", "-o", "one.plan")
    answers = {name: explain(name + ".plan") for name in ("auto", "data", "one")}
    steps = {name: answer["predicted_step_seconds"] for name, answer in answers.items()}
    note = cleave("--version")
    for name in ("data", "one"):
        checks.add(steps["auto"] <= 1.02 * steps[name], f"auto {steps['auto']:.3g} s, {name} {steps[name]:.3g} s", note)
    # Work over all devices' peak is what nothing can beat.
    floor = answers["auto"]["model_flops"] / 40e12
    checks.add(floor <= steps["auto"], f"no step is shorter than the work at peak, {floor:.3g} s", note)
    checks.add(answers["auto"]["lower_bound_seconds"] <= 1.0001 * min(steps.values()), "no plan is below the bound", note)


def odd(checks):
    """Heads that 3 and 5 devices do not divide, against ONNX Runtime; 7 devices, proven."""
    for heads, devices, layers in ((8, 3, 1), (12, 5, 1), (28, 7, 1)):
        model = f"h{heads}.onnx"
        run("zoo", "gpt", "--layers", str(layers), "--hidden", str(heads * 4), "--heads", str(heads), "--sequence", "6",
            "--vocabulary", "40", "--batch", "2", "--weights", "-o", model)
        tokens = numpy.random.default_rng(heads).integers(0, 40, (2, 6))
        numpy.save("t.npy", tokens)
        wanted = runtime_output(model, [tokens])
        run("compile", model, "--machine", f"host:{devices}x1", "--strategy", "tensor", "-o", "o.plan")
        run("verify", "o.plan")
        run("run", "o.plan", "--input", "@0=t.npy", "--output", "@0=y.npy")
        checks.close(f"{heads} heads on {devices} devices", numpy.load("y.npy"), wanted, 1e-4)


def errors(checks):
    """A damaged plan is refused and made anew; Ctrl-C in a training costs nothing that was learned."""
    images_and_labels(640)
    run("zoo", "lenet", "--batch", "32", "-o", "lenet.onnx")
    compile_plan = ("compile", "lenet.onnx", "--machine", "host:1x1", *LENET, "-o", "lenet.plan")
    run(*compile_plan)
    plan = open("lenet.plan", "rb").read()
    with open("lenet.plan", "r+b") as file:
        file.seek(len(plan) // 2)
        file.write(b"\xff\x00\xff")
    refused = cleave("train", "lenet.plan", *DATA)
    checks.add(refused.code == REJECTED and "lenet.plan" in refused.errors, "a damaged plan is refused", refused)
    run(*compile_plan)
    checks.add(open("lenet.plan", "rb").read() == plan, "the same model and options make the same plan", refused)
    words = ["train", "lenet.plan", *DATA, "--epochs", "8", "--export"]
    run(*words, "whole.npz")
    kept = [*words, "parts.npz", "--checkpoint", "c", "--resume"]
    process = subprocess.Popen([program(), *kept, "--checkpoint-every", "5"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not (os.path.isdir("c") and any(name.startswith("step-") for name in os.listdir("c"))):
        if process.poll() is not None or time.monotonic() > until:
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=60)
    checks.add(code in (0, 130, -signal.SIGINT), f"Ctrl-C ends training with exit code {code}", refused)
    checks.add(os.path.exists("parts.npz"), "Ctrl-C leaves the parameters so far", refused)
    run(*kept)
    whole, parts = numpy.load("whole.npz"), numpy.load("parts.npz")
    for name in whole.files:
        checks.close(f"after Ctrl-C: {name}", parts[name], whole[name], 0)


def why(checks):
    """Why not tensor parallel? The alternative, its plan, the difference of both, and another machine."""
    run("zoo", "gpt", "--layers", "4", "--hidden", "512", "--heads", "8", "--sequence", "256", "--vocabulary", "1000",
        "--batch", "8", "-o", "g.onnx")
    compile_plan = ("compile", "g.onnx", "--machine", "a100-80g:4", "--train", "--batch", "64", "--dtype", "bf16")
    run(*compile_plan, "-o", "auto.plan")
    run(*compile_plan, "--degrees", "model=4", "-o", "tensor.plan")
    auto, tensor = explain("auto.plan"), explain("tensor.plan")
    note = cleave("--version")
    checks.add(auto["predicted_step_seconds"] <= tensor["predicted_step_seconds"], "the planner's step is no longer", note)
    named = {entry["name"]: entry for entry in auto["alternatives"]}
    checks.add("model 4" in named, f"model 4 was considered, among {', '.join(named)}", note)
    if "step_seconds" in named.get("model 4", {}):
        ratio = named["model 4"]["step_seconds"] / tensor["predicted_step_seconds"]
        checks.add(0.99 <= ratio <= 1.01, f"and its step is that of --degrees model=4, {ratio:.4f} times", note)
    text = run("diff", "auto.plan", "tensor.plan").output
    checks.add("step" in text and "model" in text, "diff shows both", note)
    shown = run("explain", "auto.plan").output
    checks.add("batch 64, optimizer adam" in shown and "dtype bf16" in shown, "what the step was compiled with is shown", note)
    checks.add("…" not in shown and "…" not in run("explain", "auto.plan", "--all").output, "nothing is cut in a pipe", note)
    # Twice forward for the gradients, of 64 samples instead of the model's 8.
    forward = sum(op["flops"] for op in auto["ops"])
    ratio = auto["model_flops"] / forward
    checks.add(0.9 * 24 <= ratio <= 24.001, f"a step's work is {ratio:.2f} times the model's own, at most 24", note)
    # A slower machine does not take less.
    slower = run("simulate", "auto.plan", "--machine", "v100-16g:4", "--json", "-")
    seconds = json.loads(slower.output)["predicted_step_seconds"]
    checks.add(seconds > auto["predicted_step_seconds"], "the same plan takes longer on V100s", slower)
    few = cleave("simulate", "auto.plan", "--machine", "a100-80g:2")
    checks.add(few.code == INFEASIBLE and "4" in few.errors, "half of the devices are too few", few)


def script(checks):
    """A program that uses the command line: versions, JSON by its schema, exit codes."""
    version = run("--version")
    checks.add(version.output.startswith("cleave "), "a version", version)
    nothing = cleave()
    checks.add(nothing.code == USAGE, "nothing to do is a usage error", nothing)
    run("zoo", "mlp", "--layers", "2", "--inputs", "8", "--hidden", "16", "--classes", "4", "--batch", "4", "--weights",
        "-o", "m.onnx")
    run("compile", "m.onnx", "--machine", "host:2x1", "--strategy", "tensor", "-o", "m.plan", "--json", "compile.json")
    answer = explain("m.plan")
    with open(os.path.join(REPOSITORY, "docs", "explain.schema.json"), encoding="utf-8") as file:
        required = json.load(file)["required"]
    checks.add(set(required) <= set(answer), "explain has the keys of its schema", version)
    # 8 x 16 and 16 x 4 multiplications and additions for each of 4 samples, and biases and rectifiers.
    products = 4 * 2 * (8 * 16 + 16 * 4)
    total = sum(device["flops"] for device in answer["devices"])
    checks.add(products <= total <= 1.2 * products, f"{total} operations, {products} of them of products", version)
    exported = json.loads(run("export", "m.plan", "--format", "json").output)
    shapes = {parameter["name"]: parameter["shape"] for parameter in exported["parameters"]}
    weights = {tensor.name: list(tensor.dims) for tensor in onnx.load("m.onnx").graph.initializer}
    checks.add(all(shapes.get(name) == shape for name, shape in weights.items()), "the model's weights by their names",
               version)
    result = json.loads(run("run", "m.plan", "--json", "-").output)
    checks.add(result["outputs"][0]["type"] == "f32[4,4]" and result["latency_ms"]["p99"] > 0, "a run as JSON", version)


def lenet_outputs(weights, images):
    t = torch()
    _, forward = torch_model(weights)
    with t.no_grad():
        return forward(t.tensor(images[:, None].astype(numpy.float32) / 255)).numpy()


def resume(checks):
    """Trained on two devices, then three, then one; exported both ways, and run from the export."""
    images, labels = images_and_labels(200)
    run("zoo", "lenet", "--batch", "20", "-o", "lenet.onnx")
    for name, machine in (("two", "host:2x1"), ("three", "host:3x1"), ("one", "host:1x1")):
        strategy = ["--strategy", "single"] if name == "one" else ["--strategy", "data"]
        run("compile", "lenet.onnx", "--machine", machine, *strategy, *LENET, "-o", name + ".plan")
    run("train", "one.plan", "--epochs", "0", "--export", "first.npz", "--eval", "@0=x.npy", "--eval", "labels=l.npy")
    for name, steps in (("two", "4"), ("three", "7"), ("one", "20")):
        last = run("train", name + ".plan", *DATA, "--epochs", "2", "--steps", steps, "--checkpoint", "c", "--resume",
                   "--export", "w.npz", "--log-every", "2", "--log", "log.csv")
    run("train", "one.plan", *DATA, "--epochs", "2", "--checkpoint", "c", "--resume", "--export", "trained.onnx")
    _, weights, _, _ = train_in_torch(dict(numpy.load("first.npz")), images, labels, (images, labels), 20, 2)
    trained = dict(numpy.load("w.npz"))
    for name, value in weights.items():
        checks.close(name, trained[name], value, 1e-4)
    rows = open("log.csv", encoding="utf-8").read().splitlines()
    checks.add([row.split(",")[0] for row in rows] == ["step"] + [str(step) for step in range(2, 21, 2)],
               "the log has every second step of all three runs", last)
    sample = (images[:20, None] / 255).astype(numpy.float32)
    numpy.save("s.npy", sample)
    wanted = lenet_outputs(weights, images[:20])
    run("compile", "lenet.onnx", "--weights", "w.npz", "--machine", "host:2x1", "--strategy", "tensor", "-o", "w.plan")
    run("verify", "w.plan", "--numeric")
    for words in (["lenet.onnx", "--weights", "w.npz", "--machine", "host:1x1"], ["w.plan"],
                  ["trained.onnx", "--machine", "host:1x1"]):
        run("run", *words, "--input", "@0=s.npy", "--output", "y.npz")
        checks.close("run " + " ".join(words), numpy.load("y.npz")["output"], wanted, 1e-3)
    names = {tensor.name for tensor in onnx.load("trained.onnx").graph.initializer}
    checks.add(set(weights) <= names, "the exported model has the parameters by their names", last)
    checks.close("ONNX Runtime on the exported model", runtime_output("trained.onnx", [sample]), wanted, 1e-3)


def rates(checks):
    """A learning rate and a schedule given to `train` are as those that are compiled, bit by bit; a checkpoint has them,
    and a run that goes on from it may change them."""
    images_and_labels(200)
    run("zoo", "lenet", "--batch", "20", "-o", "lenet.onnx")
    kinds = {"sgd": ["--machine", "host:1x1", "--strategy", "single"],
             "adamw": ["--machine", "host:2x1", "--strategy", "pipeline", "--microbatches", "2"],
             "momentum": ["--machine", "host:2x1", "--strategy", "data", "--zero", "1"]}

    def compiled(file, optimizer, *options):
        run("compile", "lenet.onnx", *kinds[optimizer], "--train", "--loss", "cross-entropy", "--optimizer", optimizer,
            *options, "-o", file)

    def trained(file, *options):
        last = run("train", file, *DATA, "--epochs", "2", "--export", "w.npz", *options)
        return dict(numpy.load("w.npz")), last

    def equal(name, left, right):
        checks.add(left[0].keys() == right[0].keys() and
                   all(numpy.array_equal(left[0][key], right[0][key]) for key in left[0]), name, left[1])

    schedules = {"sgd": "step:3:0.5", "adamw": "cosine:16:4", "momentum": "constant"}
    for optimizer, schedule in schedules.items():
        compiled("asked.plan", optimizer, "--learning-rate", "0.02", "--lr-schedule", schedule)
        compiled("other.plan", optimizer, "--learning-rate", "0.5", "--lr-schedule", "step:1:0.25")
        asked = trained("asked.plan")
        flags = ["--learning-rate", "0.02", "--lr-schedule", schedule]
        equal(f"{optimizer}: given to train", trained("other.plan", *flags), asked)
        kept = ["--checkpoint", optimizer, "--resume"]
        trained("other.plan", *flags, *kept, "--steps", "7")
        equal(f"{optimizer}: going on", trained("other.plan", *kept), asked)
        unlike, last = trained("other.plan")
        checks.add(not all(numpy.array_equal(unlike[key], asked[0][key]) for key in unlike), f"{optimizer}: matters", last)
    log = ["--checkpoint", "changed", "--resume", "--log", "log.csv"]
    trained("asked.plan", *log, "--learning-rate", "0.04", "--lr-schedule", "step:4:0.5", "--steps", "8")
    _, last = trained("asked.plan", *log, "--learning-rate", "0.01", "--steps", "12")
    rows = [row.split(",") for row in open("log.csv", encoding="utf-8").read().splitlines()]
    column = rows[0].index("learning_rate")
    checks.add([float(row[column]) for row in rows[1:]] == [0.04] * 4 + [0.02] * 4 + [0.0025] * 4,
               "the log has the rates: the schedule goes on from the run's first step", last)


def vit(checks):
    """torchvision's vision transformer, exported with one sample, for four."""
    t = torch()
    try:
        from torchvision.models.vision_transformer import VisionTransformer
    except ImportError:
        skip("no torchvision")
    t.manual_seed(5)
    model = VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64,
                              num_classes=10)
    t.nn.init.normal_(model.heads.head.weight, std=0.5)
    model.eval()
    # With gradients on, attention is exported as the operators it consists of.
    t.onnx.export(model, t.randn(1, 3, 32, 32), "vit.onnx", opset_version=17, input_names=["image"],
                  output_names=["scores"])
    images = t.randn(4, 3, 32, 32)
    numpy.save("x.npy", images.numpy())
    with t.no_grad():
        wanted = model(images).numpy()
    run("compile", "vit.onnx", "--batch", "4", "--machine", "host:2x1", "-o", "vit.plan")
    shown = run("run", "vit.plan", "--input", "image=x.npy", "--output", "scores=y.npy")
    checks.close("scores of four images", numpy.load("y.npy"), wanted, 1e-4)
    classes = "largest at " + ", ".join(str(row.argmax()) for row in wanted)
    checks.add(classes in shown.output, f"run shows the classes, {classes}", shown)
    run("verify", "vit.plan", "--numeric")


def llama(checks):
    """A small decoder like Llama, over three devices, by each way of dividing it."""
    run("zoo", "llama", "--layers", "3", "--hidden", "48", "--heads", "6", "--kv-heads", "2", "--ffn", "64", "--sequence",
        "8", "--vocabulary", "50", "--batch", "3", "--weights", "-o", "llama.onnx")
    tokens = numpy.random.default_rng(4).integers(0, 50, (3, 8))
    numpy.save("t.npy", tokens)
    wanted = runtime_output("llama.onnx", [tokens])
    for strategy in ("auto", "pipeline", "tensor", "data"):
        run("compile", "llama.onnx", "--machine", "host:3x1", "--strategy", strategy, "-o", "l.plan")
        run("verify", "l.plan")
        run("run", "l.plan", "--input", "@0=t.npy", "--output", "@0=y.npy")
        checks.close(f"strategy {strategy}", numpy.load("y.npy"), wanted, 1e-4)
        used = {device for op in explain("l.plan")["ops"] for device in op["devices"]}
        checks.add(strategy == "auto" or len(used) == 3, f"strategy {strategy} takes {len(used)} devices",
                   cleave("--version"))


def kinds(checks):
    """A plan for devices of two kinds that run here: right results, and the faster kind has no less to do."""
    write("kinds.yaml", MIXED.format(extra=", driver: cpu"))
    run("zoo", "gpt", "--layers", "2", "--hidden", "32", "--heads", "4", "--sequence", "8", "--vocabulary", "50", "--batch",
        "6", "--weights", "-o", "g.onnx")
    tokens = numpy.random.default_rng(6).integers(0, 50, (6, 8))
    numpy.save("t.npy", tokens)
    wanted = runtime_output("g.onnx", [tokens])
    for strategy in ("auto", "pipeline"):
        run("compile", "g.onnx", "--machine", "kinds.yaml", "--strategy", strategy, "-o", "k.plan")
        run("run", "k.plan", "--input", "@0=t.npy", "--output", "@0=y.npy")
        checks.close(f"strategy {strategy}", numpy.load("y.npy"), wanted, 1e-4)
        work = {device["name"]: device["flops"] for device in explain("k.plan")["devices"]}
        fast = max(flops for name, flops in work.items() if "fast" in name)
        slow = max(flops for name, flops in work.items() if "slow" in name)
        checks.add(fast >= slow, f"strategy {strategy}: {fast} operations on the fast device, {slow} on a slow one",
                   cleave("--version"))


def fine_tune(checks):
    """A classifier goes on from exported weights: compiled with them, or given to train; PyTorch does the same."""
    images, labels = images_and_labels(100, seed=7)
    run("zoo", "lenet", "--batch", "20", "-o", "lenet.onnx")
    rng = numpy.random.default_rng(8)
    run("compile", "lenet.onnx", "--machine", "host:1x1", *LENET, "-o", "plain.plan")
    run("train", "plain.plan", "--epochs", "0", "--export", "first.npz", "--eval", "@0=x.npy", "--eval", "labels=l.npy")
    weights = {name: (value + 0.01 * rng.normal(size=value.shape)).astype(numpy.float32)
               for name, value in numpy.load("first.npz").items()}
    numpy.savez("start.npz", **weights)
    losses, _, _, _ = train_in_torch(weights, images, labels, (images, labels), 20, 1)
    run("compile", "lenet.onnx", "--weights", "start.npz", "--machine", "host:2x1", "--strategy", "data", *LENET, "-o",
        "start.plan")
    for words in (["start.plan"], ["plain.plan", "--weights", "start.npz"]):
        run("train", *words, *DATA, "--json", "r.json", "--json-steps")
        found = [step["loss"] for step in json.load(open("r.json", encoding="utf-8"))["steps"]]
        checks.close("losses of " + " ".join(words), found, losses, 1e-4)
    numpy.savez("wrong.npz", **{**weights, "fc2.weight": weights["fc2.weight"].T})
    for words in (["compile", "lenet.onnx", "--weights", "wrong.npz", "-o", "x.plan"],
                  ["train", "plain.plan", "--weights", "wrong.npz", *DATA]):
        refused = cleave(*words)
        checks.add(refused.code == 1 and "fc2.weight" in refused.errors, f"{words[0]} refuses a weight of another shape",
                   refused)


def machines(checks):
    """Which of two machines is the better for a model: compiled for each, and one plan on both."""
    run("zoo", "gpt", "--layers", "4", "--hidden", "1024", "--heads", "16", "--sequence", "512", "--batch", "8", "-o",
        "g.onnx")
    seconds = {}
    for machine, peak in (("a100-80g:4", 312e12), ("h100:4", 989e12)):
        plan = machine.split(":")[0] + ".plan"
        run("compile", "g.onnx", "--machine", machine, "--train", "--batch", "64", "--dtype", "bf16", "-o", plan)
        answer = explain(plan)
        seconds[machine] = answer["predicted_step_seconds"]
        # 6 operations for each weight and token, and attention on top.
        words = 64 * 512
        least = 6 * words * 4 * 12 * 1024**2
        used = answer["model_flops"] / seconds[machine] / (4 * peak)
        checks.add(answer["model_flops"] >= least, f"{machine}: {answer['model_flops']:.3g} operations, at least {least:.3g}",
                   cleave("--version"))
        checks.add(0.05 < used < 1, f"{machine}: {seconds[machine]:.4g} s, {used:.1%} of peak", cleave("--version"))
    checks.add(seconds["h100:4"] < seconds["a100-80g:4"], "H100s take less", cleave("--version"))
    moved = json.loads(run("simulate", "a100-80g.plan", "--machine", "h100:4", "--json", "-").output)
    ratio = moved["predicted_step_seconds"] / seconds["h100:4"]
    checks.add(0.999 <= ratio and math.isfinite(ratio), f"A100s' plan takes {ratio:.3f} times the step of H100s' own",
               cleave("--version"))


SCENARIOS = {"batch-one": batch_one, "mixed": mixed, "odd": odd, "errors": errors, "why": why, "script": script,
             "resume": resume, "rates": rates, "vit": vit, "llama": llama, "kinds": kinds, "fine-tune": fine_tune, "machines": machines}


def main():
    for name in sys.argv[1:]:
        checks = Checks()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            SCENARIOS[name](checks)
            os.chdir(REPOSITORY)
    checks.report()


if __name__ == "__main__":
    main()
