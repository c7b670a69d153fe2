#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Predicted operators beside measured ones of several kinds of GPU, calibration of one model's operators by another's, and
# training steps on GH200:
#
#   python3 tools/bench/truth_kinds.py [FOLDER] [--write]
#
# FOLDER (default ../shared/truth/kinds) has ops.csv: seconds of a transformer layer's operators in eager Megatron, by kind,
# precision, model, tensor degree and microbatch; and runs.csv: training steps (Strati et al., Sailor, SOSP 2025, artifact).
# --write puts the tables into docs/truth.md. Which kernels an operator is made of, `kernels_of` says: by reading
# Megatron-LM's layers, not by fitting; what their numbers are, the presets.

import argparse
import collections
import csv
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLEAVE = os.path.join(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")), "cleave")
PAGE = os.path.join(REPOSITORY, "docs", "truth.md")
DEFAULT = os.path.join(REPOSITORY, "..", "shared", "truth", "kinds")
BEGIN, END = "<!-- kinds: begin -->", "<!-- kinds: end -->"

# The preset and its kind of a GPU of the file; whether its products of f32 were rounded to TF32.
GPUS = {"A100-40": ("a100-40g", "a100-40g", True), "GH-96": ("gh200", "gh200", True), "V100-16": ("v100-16g", "v100", False),
        "Titan-RTX": ("titan-rtx", "titan-rtx", False), "RTX-3090": ("rtx-3090", "rtx-3090", True),
        "RTX-2080": ("rtx-2080ti", "rtx-2080ti", False)}
# What runs them: PyTorch, called operator by operator.
EXECUTOR = "{ base: eager, name: eager operators, dispatch: 40 us }"
LEAST_WORK = 10e9
PRODUCTS = ("enc-attention-qkv", "enc-attention-score", "enc-attention-context", "enc-attention-dense", "enc-MLP-GEMM-1",
            "enc-MLP-GEMM-2", "gpt-post-process")
WEIGHTS = ("enc-attention-qkv", "enc-attention-dense", "enc-MLP-GEMM-1", "enc-MLP-GEMM-2")
# Row-parallel products, and what is joined behind them: with a tensor degree their times have an all-reduce.
JOINED = ("enc-attention-dense", "enc-MLP-GEMM-2", "gpt-post-process", "encoder-embedding")


def kernels_of(row):
    """The kernels of an operator as lists (class, sizes): products batch, rows, columns, inner; else bytes."""
    hidden, heads, seq, tp, batch = (int(row[name]) for name in ("hidden", "heads", "seq", "tp", "microbatch"))
    size = 2 if row["precision"] == "fp16" else 4
    units, scores = batch * seq * hidden, batch * (heads // tp) * seq * seq
    tokens, head = batch * seq, hidden // heads
    operator = row["op"]
    if operator == "enc-attention-qkv":  # and query, key and value apart from each other
        return [("product", 1, tokens, 3 * hidden // tp, hidden)] + 3 * [("movement", 2 * size * units // tp)]
    if operator == "enc-attention-score":
        return [("product", batch * heads // tp, seq, seq, head)]
    if operator == "enc-attention-softmax":
        if size == 2:  # one kernel, which reads no more than the causal mask leaves
            return [("reduction", 3 * size * scores // 2)]
        return [("movement", 2 * size * scores), ("elementwise", 2 * size * scores), ("reduction", 2 * size * scores)]
    if operator == "enc-attention-dropout":
        return [("elementwise", (2 * size + 1) * scores)]
    if operator == "enc-attention-context":  # and heads beside each other
        return [("product", batch * heads // tp, seq, head, seq), ("movement", 2 * size * units // tp)]
    if operator == "enc-attention-dense":
        return [("product", 1, tokens, hidden, hidden // tp)]
    if operator == "enc-MLP-GEMM-1":
        return [("product", 1, tokens, 4 * hidden // tp, hidden)]
    if operator == "enc-MLP-GEMM-2":
        return [("product", 1, tokens, hidden, 4 * hidden // tp)]
    if operator == "enc-MLP-gelu":
        return [("elementwise", 2 * size * 4 * units // tp)]
    if operator in ("enc-post-attention-dropout", "enc-post-MLP-dropout"):  # bias, dropout, residual
        return [("elementwise", 2 * size * units), ("elementwise", (2 * size + 1) * units), ("elementwise", 3 * size * units)]
    if operator in ("enc-1st-layernorm", "enc-2nd-layernorm"):
        return [("reduction", 2 * size * units)]
    if operator == "final-layernorm":  # of the transposed tensor
        return [("movement", 2 * size * units), ("reduction", 2 * size * units)]
    if operator == "encoder-embedding":  # words, positions, their sum, its transpose, dropout
        return [("movement", 2 * size * units), ("movement", 2 * size * units), ("elementwise", 3 * size * units),
                ("movement", 2 * size * units), ("elementwise", (2 * size + 1) * units)]
    # The head and the loss: logits, in f32 their largest, differences, exponentials, sums, quotients.
    # What is kept of them says how large the vocabulary was.
    vocabulary = int(float(row["activation_mib"]) * 2**20 / 4 / tokens) // 64 * 64
    logits = tokens * vocabulary
    kernels = [("product", 1, tokens, vocabulary, hidden)]
    if size == 2:
        kernels.append(("elementwise", 6 * logits))
    return kernels + [("reduction", 4 * logits), ("elementwise", 8 * logits), ("elementwise", 8 * logits),
                      ("reduction", 4 * logits), ("elementwise", 8 * logits)]


def text_of(kernels):
    return " + ".join(f"product {'x'.join(map(str, one[1:]))}" if one[0] == "product" else f"{one[0]} {one[1]} B"
                      for one in kernels)


def is_product(row):
    return row["op"] in PRODUCTS


def has_collective(row):
    return row["op"] in JOINED and row["tp"] != "1"


def work_of(kernels):
    return sum(2 * one[1] * one[2] * one[3] * one[4] for one in kernels if one[0] == "product")


def machine_of(gpu, folder):
    preset, _, _ = GPUS[gpu]
    text = subprocess.run([CLEAVE, "probe", "--preset", preset, "-o", "-"], check=True, capture_output=True, text=True).stdout
    path = os.path.join(folder, preset + ".yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text + f"executor: {EXECUTOR}\n")
    return path


def calibrate(gpu, rows, machine, folder, output=None):
    """What `cleave calibrate` says of rows, by the command itself."""
    table, results = os.path.join(folder, "operators.csv"), os.path.join(folder, "operators.json")
    with open(table, "w", encoding="utf-8") as file:
        file.write("operator,kind,dtype,kernels,seconds\n")
        for row in rows:
            dtype = "f16" if row["precision"] == "fp16" else "tf32" if GPUS[gpu][2] else "f32"
            file.write(f"{row['op']},{GPUS[gpu][1]},{dtype},{text_of(kernels_of(row))},{float(row['forward_us']) * 1e-6}\n")
    command = [CLEAVE, "calibrate", "--operators", table, "--machine", machine, "--json", results]
    subprocess.run(command + (["-o", output] if output else []), check=True, stdout=subprocess.DEVNULL)
    with open(results, encoding="utf-8") as file:
        return json.load(file)["operators"]


def compare(rows, folder):
    """Every row that has no collective, with its prediction from the preset and after calibrating on the other models."""
    found = []
    for gpu in GPUS:
        machine = machine_of(gpu, folder)
        mine = [row for row in rows if row["gpu"] == gpu and not has_collective(row)]
        models = sorted({row["model"] for row in mine})
        for model in models:
            tested = [row for row in mine if row["model"] == model]
            learnt = os.path.join(folder, f"{gpu}-{model}.yaml")
            calibrate(gpu, [row for row in mine if row["model"] != model], machine, folder, learnt)
            before = calibrate(gpu, tested, machine, folder)
            after = calibrate(gpu, tested, learnt, folder)
            for row, one, other in zip(tested, before, after):
                found.append({"row": row, "measured": one["measured_seconds"], "preset": one["predicted_seconds"],
                              "calibrated": other["predicted_seconds"]})
    return found


FLOOR = 40e-6


def is_counted(one):
    """Products of some size; other operators that take longer than the host's calls."""
    kernels = kernels_of(one["row"])
    return work_of(kernels) >= LEAST_WORK if is_product(one["row"]) else one["preset"] > 1.3 * FLOOR * len(kernels)


def median_error(group, which):
    errors = [one[which] / one["measured"] - 1 for one in group]
    return statistics.median(map(abs, errors)), statistics.median(errors)


def percent(value, signed=False):
    return f"{100 * value:{'+' if signed else ''}.1f} %"


def cells_of(group, with_bias=True):
    if not group:
        return [""] * (4 if with_bias else 3)
    error, bias = median_error(group, "preset")
    return ([str(len(group)), percent(error)] + ([percent(bias, True)] if with_bias else []) +
            [percent(median_error(group, "calibrated")[0])])


def tables(found):
    summary = ["| GPU | precision | products | preset | bias | calibrated | of weights | preset | calibrated | others | preset "
               "| bias | calibrated |", "|---|---|" + "---:|" * 11]
    for gpu in GPUS:
        for precision in ("fp16", "fp32"):
            mine = [one for one in found if one["row"]["gpu"] == gpu and one["row"]["precision"] == precision and
                    is_counted(one)]
            products = [one for one in mine if is_product(one["row"])]
            summary.append("| " + " | ".join(
                [gpu, precision] + cells_of(products) +
                cells_of([one for one in products if one["row"]["op"] in WEIGHTS], False) +
                cells_of([one for one in mine if not is_product(one["row"])])) + " |")
    groups = collections.defaultdict(list)
    for one in found:
        if is_counted(one):
            groups[(one["row"]["gpu"], one["row"]["precision"], one["row"]["op"])].append(one)
    worst = ["| GPU | precision | operator | rows | preset | bias | calibrated |", "|---|---|---|---:|---:|---:|---:|"]
    for (gpu, precision, operator), group in sorted(groups.items(),
                                                   key=lambda entry: -median_error(entry[1], "preset")[0])[:10]:
        worst.append("| " + " | ".join([gpu, precision, operator] + cells_of(group)) + " |")
    return summary, worst


TEXT = """## Operators of six kinds of GPU

Operators of a transformer layer, called one by one from eager PyTorch (Strati et al., Sailor, SOSP 2025, artifact): what
`cleave calibrate --operators` predicts from a preset, and from a preset calibrated on the operators of the *other* models. By

```
python3 tools/bench/truth_kinds.py ../shared/truth/kinds --write
```

Columns are numbers of operators, median errors, and the median of the signed error. Products have at least 10 Gflop; other
operators take clearly longer than the host's calls (40 us each). Row-parallel products with a tensor degree are left out:
their times have an all-reduce in them. Which kernels an operator has was read in Megatron-LM's layers. Numbers of presets that
were taken from this artifact say so there (A100-40's, Titan RTX's and RTX 2080 Ti's shares of the peak, GH200's f16
elementwise).
"""
AFTER = """
Calibration changes one number for each kind, precision and class of kernels: products, shallow products (attention's
scores), narrow ones, elementwise, reductions. What it leaves is which kernels libraries choose: heads of 64 and of 80
elements, as the two models have, are multiplied by other ones, and GH200's smallest products wait for the host.
The largest groups of error:
"""


SHAPES = {"GPT-Neo-2.7": (2560, 32, 20), "OPT-350": (1024, 24, 16)}
# Between hosts, as the data's README says: a pair of GH200's reaches 22.9 GB/s and four pairs 92.6, Titan RTX to RTX 2080
# 2.86, RTX 3090 to any 0.115.
NETWORK = "{ bandwidth: 2.86 GB/s, latency: 30 us, start: 20 us }"
NETWORKS = {"GH-96": "{ bandwidth: 22.9 GB/s, latency: 5 us, start: 20 us, ports: 4 }"}
FAR, FAR_LINK = "RTX-3090", "{ between: [far, near], bandwidth: 0.115 GB/s, latency: 30 us }"
# What PyTorch's context takes of a GPU since kernels are loaded when they are first called: 0.3 to 0.4 GB (pytorch/pytorch,
# pull request 86509 and issue 109888). GH200's 5 GB, which `eager-split` has, are what that cluster's software takes.
EXECUTORS = {"GH-96": "eager-split"}
MIXED_EXECUTOR = "{ base: eager-split, memory: 0.4 GB }"
MOST_MEASURED = 64 * 2**20  # bytes; activations are no larger


def links_of(path):
    """By kind and number of devices: a link whose all-reduces take what was measured, start + bytes / bandwidth."""
    points = collections.defaultdict(list)
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            size, ranks = int(row["bytes_per_rank_input"]), int(row["ranks"])
            if row["op"] == "all_reduce" and size <= MOST_MEASURED:
                points[(row["gpu"], ranks)].append((2 * (ranks - 1) / ranks * size, float(row["time_ms_median"]) * 1e-3))
    links = {}
    for key, measured in points.items():
        # Least squares of relative errors: seconds = start + bytes * slope.
        n, x, xx, y, xy = (sum(one) for one in zip(*((1 / t**2, m / t**2, m * m / t**2, 1 / t, m / t) for m, t in measured)))
        slope = (n * xy - x * y) / (n * xx - x * x)
        start = max(0.0, (y - slope * x) / n)
        links[key] = f"{{ between: devices, bandwidth: {1e-9 / slope:.4g} GB/s, latency: 0 us, start: {1e6 * start:.1f} us }}"
    return links


def stages_of(row):
    """Of a run: for each stage its layers, the embedding first and the head last, and its tensor groups as (kind, degree)."""
    layers = SHAPES[row["model"]][1]
    parts = re.findall(r"layers (\d+)-(\d+) ([^;]*)", row["tp"])
    if not parts:  # not said: equal parts
        cuts = [round((layers + 2) * stage / int(row["pp"])) for stage in range(int(row["pp"]) + 1)]
        kind = row["gpu_kinds"].split(":")[0]
        return [(first, last - 1, int(row["dp"]) * [(kind, int(row["tp"]))]) for first, last in zip(cuts, cuts[1:])]
    return [(int(first), int(last),
             [(kind, int(degree)) for count, kind, degree in re.findall(r"(\d+)x\[([\w-]+) tp(\d+)\]", groups)
              for _ in range(int(count))]) for first, last, groups in parts]


def write_machine(stages, links, path):
    """A machine with a host for each tensor group, in the order of the stages."""
    hosts = [group for stage in stages for group in stage[2]]
    kinds = list(dict.fromkeys(kind for kind, _ in hosts))
    lines = ["device_kinds:"]
    for kind in kinds:
        text = subprocess.run([CLEAVE, "probe", "--preset", GPUS[kind][0], "-o", "-"], check=True, capture_output=True,
                              text=True).stdout
        lines.append(text[text.index("device_kinds:\n") + len("device_kinds:\n"):text.index("hosts:\n")].rstrip("\n"))
    lines.append("hosts:")
    for kind, degree in hosts:
        lines.append(f"  - devices: [ {{ kind: {GPUS[kind][1]}, count: {degree} }} ]")
        lines.append(f"    links: [ {links[(kind, degree)]} ]")
        if FAR in kinds:
            lines.append(f"    zone: {'far' if kind == FAR else 'near'}")
    lines.append(f"network: {NETWORKS.get(kinds[0], NETWORK)}")
    if FAR in kinds:
        lines.append(f"links: [ {FAR_LINK} ]")
    lines.append(f"executor: {EXECUTORS.get(kinds[0], MIXED_EXECUTOR)}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def write_placement(row, stages, path):
    """The stages of a run, as `--place` reads them."""
    layers = SHAPES[row["model"]][1]
    names = lambda layer: (["embedding/*"] if layer == 0 else ["norm", "head"] if layer == layers + 1 else
                           [f"block{layer - 1}/*"])
    groups, meshes, device = ["groups:"], ["meshes:"], 0
    for index, (first, last, tensor_groups) in enumerate(stages):
        patterns = ", ".join(f'"{name}"' for layer in range(first, last + 1) for name in names(layer))
        groups.append(f"  stage{index}: [{patterns}]")
        degree = tensor_groups[0][1]
        count = degree * len(tensor_groups)
        meshes.append(f"  stage{index}: {{ devices: {device}..{device + count - 1}, "
                      f"degrees: {{ data: {len(tensor_groups)}, model: {degree} }}, recompute: none, zero: 0 }}")
        device += count
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(groups + meshes) + "\n")


def model_of(row, folder):
    hidden, layers, heads = SHAPES[row["model"]]
    model = os.path.join(folder, row["model"] + ".onnx")
    if not os.path.exists(model):
        subprocess.run([CLEAVE, "zoo", "gpt", "--hidden", str(hidden), "--layers", str(layers), "--heads", str(heads),
                        "--sequence", row["seq"], "--vocabulary", row["vocab"], "--batch", "2", "-o", model], check=True,
                       stdout=subprocess.DEVNULL)
    return model


def predict_run(row, links, folder):
    """Seconds and GiB of a run: its stages are stated, so that nothing is left to choose but how operators are cut."""
    machine, placement, report = (os.path.join(folder, name) for name in ("run.yaml", "run.place.yaml", "run.json"))
    stages, batch = stages_of(row), int(row["global_batch"])
    write_machine(stages, links, machine)
    write_placement(row, stages, placement)
    subprocess.run([CLEAVE, "compile", model_of(row, folder), "--machine", machine, "--strategy", "auto", "--place", placement, "--train",
                    "--batch", str(batch), "--microbatches", str(batch // int(row["dp"]) // int(row["microbatch"])),
                    "--schedule", "1f1b", "-o", os.path.join(folder, "run.plan"), "--json", report],
                   check=True, capture_output=True)
    with open(report, encoding="utf-8") as file:
        found = json.load(file)
    return found["predicted_step_seconds"], max(found["predicted_peak_bytes"]) / 2**30


def compare_runs(folder, temporary):
    """Every run whose time was measured, with prediction over measurement."""
    found, links = [], links_of(os.path.join(folder, "collectives.csv"))
    with open(os.path.join(folder, "runs.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["model"] not in SHAPES or row["measured_or_simulated"] != "measured":
                continue
            seconds, memory = predict_run(row, links, temporary)
            peak = float(row["peak_gib"]) if row["peak_gib"] else None
            found.append({"row": row, "seconds": seconds, "time": seconds / float(row["step_s"]), "gib": memory,
                          "memory": memory / peak if peak else None})
    return found


def cluster_of(one):
    """The table's row of a run. Runs of Aceso's runtime keep twice as much as Sailor's, and stand by themselves."""
    if "+" in one["row"]["gpu_kinds"]:
        return "mixed, Sailor"
    return "GH200, Aceso" if "Aceso" in one["row"]["note"] else "GH200, Sailor"


def rank_correlation(group):
    """Kendall's tau of all pairs of one model, cluster size and batch; runs of one plan count once, with their mean."""
    plans = collections.defaultdict(list)
    for one in group:
        row = one["row"]
        size = (row["model"], row["gpus"], row["global_batch"])
        plans[(size, row["dp"], row["tp"], row["microbatch"])].append(one)
    points = [(key[0], statistics.mean(float(one["row"]["step_s"]) for one in runs), runs[0]["seconds"])
              for key, runs in plans.items()]
    signs = [1 if (a[1] - b[1]) * (a[2] - b[2]) > 0 else -1
             for i, a in enumerate(points) for b in points[:i] if a[0] == b[0]]
    return f"{sum(signs) / len(signs):.2f} of {len(signs)}" if signs else ""


def run_table(found):
    lines = ["| cluster, runtime | model | runs | error | bias | after one step | tau, of pairs | memory | bias |",
             "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for cluster in sorted({cluster_of(one) for one in found}):
        group = [one for one in found if cluster_of(one) == cluster]
        models = sorted({one["row"]["model"] for one in group})
        for model in models + (["all"] if len(models) > 1 else []):
            mine = [one for one in group if model in ("all", one["row"]["model"])]
            times = [one["time"] for one in mine]
            pairs = [abs(a / b - 1) for i, a in enumerate(times) for j, b in enumerate(times) if i != j]
            kept = [one["memory"] for one in mine if one["memory"]]
            lines.append("| " + " | ".join([
                cluster, model, str(len(mine)), percent(statistics.median(abs(t - 1) for t in times)),
                percent(statistics.median(times) - 1, True), percent(statistics.median(pairs)) if pairs else "",
                rank_correlation(mine), percent(statistics.median(abs(m - 1) for m in kept)),
                percent(statistics.median(kept) - 1, True)]) + " |")
    return lines


def mixed_table(found):
    lines = ["| run | batch | measured s | predicted s | error | measured GiB | predicted GiB |", "|---|---:|---:|---:|---:|---:|---:|"]
    for one in found:
        row = one["row"]
        if cluster_of(one) != "mixed, Sailor":
            continue
        stages = "; ".join(re.sub(r"^.*?layers ", "", stage) for stage in row["tp"].split("; "))
        lines.append(f"| {stages} | {row['global_batch']} | {float(row['step_s']):.2f} | {one['seconds']:.2f} | "
                     f"{percent(one['time'] - 1, True)} | {float(row['peak_gib']) if row['peak_gib'] else float('nan'):.2f} | "
                     f"{one['gib']:.2f} |".replace("nan", ""))
    return lines


RUNS = """
## Training steps on GH200 and on mixed clusters

Training steps of two models on 4 to 128 GH200 of CSCS Alps, and of one on 8 to 32 Titan RTX, RTX 2080 Ti and RTX 3090 (the same
artifact, runs.csv). Each run's plan is stated in a placement file: the layers of each stage, its devices, data and tensor
degrees, nothing recomputed or sharded; microbatches and schedule are options. Kinds come from the presets. A link inside of a
host is bandwidth and start of its measured all-reduces up to 64 MiB (collectives.csv, by least squares of relative errors);
between hosts it is what was measured there. The executor is `eager-split`, on the mixed clusters with 0.4 GB of memory for
PyTorch's context in the place of GH200's 5 GB for context, libraries and caches. *After one step* is the median over all pairs
of runs of the error that is left in one when another one has given the factor of `cleave calibrate`. *tau* is Kendall's rank
correlation of pairs of plans for one model, number of GPUs and batch. Runs of Aceso's runtime keep twice as much memory as
Sailor's, and stand by themselves; their stages are not given, and have equally many layers here.
"""
MIXED = """
The runs on mixed clusters, layers 0 (the embedding) to 25 (the head):
"""
RUNS_AFTER = """
Nothing is fitted to these runs. Two numbers of the executor come from the artifact's single layers (layers.csv): the host's
time for a forward kernel and the passes over attention's scores; the 0.4 GB are PyTorch's own figure. The host's time and the
0.4 GB were looked for when a first comparison had shown that something was missing.

GH200's steps are too fast by a tenth: single layers of GPT-Neo take 6 to 10 % longer than predicted, of OPT 1 to 4 %, and the
gradients of 16 replicas take 0.10 s, predicted are 0.04 s. The largest error on mixed clusters is that of the run over
0.115 GB/s. There the predicted stages wait for what they send, 0.15 s each way in every microbatch; the measured step is
hardly longer than the all-reduces of its tensor groups by themselves, and why is not known. One more run of the file is not
compared: its seconds are a copy of another's.
"""
CHOICES = """
What the planner chooses for the same clusters, with any degrees, microbatches, recomputation and sharding, beside the
fastest of the plans that were run there, by the same predictions. Search times were measured while other programs ran.
"""


def choose(runs, folder, temporary):
    """For each cluster, model and batch of Sailor's runs: the fastest of their plans, as predicted, and the planner's."""
    links, clusters = links_of(os.path.join(folder, "collectives.csv")), collections.defaultdict(list)
    for one in runs:
        if "Aceso" not in cluster_of(one):
            row = one["row"]
            clusters[("+" not in row["gpu_kinds"], int(row["gpus"]), row["gpu_kinds"], row["model"], row["global_batch"])].append(one)
    chosen = []
    for key, group in sorted(clusters.items()):
        row, machine, report = group[0]["row"], os.path.join(temporary, "run.yaml"), os.path.join(temporary, "run.json")
        write_machine(stages_of(row), links, machine)
        begin = time.monotonic()
        subprocess.run([CLEAVE, "compile", model_of(row, temporary), "--machine", machine, "--train", "--batch", row["global_batch"],
                        "-o", os.path.join(temporary, "run.plan"), "--json", report], check=True, capture_output=True)
        seconds = time.monotonic() - begin
        with open(report, encoding="utf-8") as file:
            chosen.append((row, min(one["seconds"] for one in group), json.load(file), seconds))
    return chosen


def choice_table(chosen):
    lines = ["| cluster | model | batch | fastest measured plan, predicted s | the planner's s | gap | degrees, microbatches | idle | search s |",
             "|---|---|---:|---:|---:|---:|---|---|---:|"]
    for row, fastest, found, seconds in chosen:
        idle = " + ".join(f"{kind['devices'] - kind['busy_devices']} {kind['name']}" for kind in found["kinds"]
                          if kind["busy_devices"] < kind["devices"])
        degrees = " x ".join(f"{name} {ways}" for name, ways in found["degrees"].items())
        lines.append(f"| {row['gpu_kinds'].replace('+', ' + ').replace(':', ' x ')} | {row['model']} | {row['global_batch']} | "
                     f"{fastest:.3f} | {found['predicted_step_seconds']:.3f} | {percent(found['gap'])} | {degrees}, "
                     f"{found['microbatches']} | {idle} | {seconds:.0f} |")
    return lines


def page(found, runs, chosen):
    summary, worst = tables(found)
    return "\n".join([TEXT, *summary, AFTER, *worst, RUNS, *run_table(runs), MIXED, *mixed_table(runs), RUNS_AFTER, CHOICES,
                      *choice_table(chosen), ""])


def write(text):
    """Puts the section between its marks; at the end of the page where there are none."""
    with open(PAGE, encoding="utf-8") as file:
        old = file.read()
    section = f"{BEGIN}\n{text}{END}\n"
    if BEGIN in old:
        old = old[:old.index(BEGIN)] + section + old[old.index(END) + len(END) + 1:]
    else:
        old = old.rstrip("\n") + "\n\n" + section
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(old)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=DEFAULT)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    with open(os.path.join(arguments.folder, "ops.csv"), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with tempfile.TemporaryDirectory() as folder:
        found = compare(rows, folder)
        runs = compare_runs(arguments.folder, folder)
        chosen = choose(runs, arguments.folder, folder)
    text = page(found, runs, chosen)
    if arguments.write:
        write(text)
    print(text)


if __name__ == "__main__":
    main()
