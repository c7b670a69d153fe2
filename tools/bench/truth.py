#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compares predicted training steps with measured ones and writes docs/truth.md. Every row of a CSV file of measured runs
# (docs/truth.md names its columns) becomes a model of the zoo and a search whose degrees, microbatches, recomputation
# and sharding are fixed to the row's; the published tables of Megatron-LM are built in.
#
#   python3 tools/bench/truth.py [CSV] [--source TEXT] [--limit N] [--jobs N] [--write] [--save FILE] [--ablate]
#
# --source keeps rows whose source contains TEXT, --limit the first N rows of each source. Without a CSV file, and without
# ../shared/truth/throughput.csv, only the built-in tables are compared. --save writes every row's figures as JSON,
# --ablate adds what each part of the model of costs contributes. $CLEAVE_BIN names the programs' folder (build/bin).
# Nothing is fitted to rows: what is assumed about a source that its rows do not say is in SOURCES below.

import argparse
import collections
import concurrent.futures
import csv
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import tempfile
import threading
import zlib

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLEAVE = os.path.join(os.environ.get("CLEAVE_BIN", os.path.join(REPOSITORY, "build", "bin")), "cleave")
PAGE = os.path.join(REPOSITORY, "docs", "truth.md")
DEFAULT = os.path.join(REPOSITORY, "..", "shared", "truth", "throughput.csv")
GIB = 2.0**30

# Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (SC 2021), table 1:
# parameters, hidden, layers, heads, tensor and pipeline degrees, GPUs, batch, TFLOP/s of a GPU. The table says neither
# how large microbatches are nor how many chunks a stage has: the fastest of 1, 2, 4 and 8, and of 1 and 2, are taken.
SC21 = [
    ("1.7B", 2304, 24, 24, 1, 1, 32, 512, 137), ("3.6B", 3072, 30, 32, 2, 1, 64, 512, 138),
    ("7.5B", 4096, 36, 32, 4, 1, 128, 512, 142), ("18.4B", 6144, 40, 48, 8, 1, 256, 1024, 135),
    ("39.1B", 8192, 48, 64, 8, 2, 512, 1536, 138), ("76.1B", 10240, 60, 80, 8, 4, 1024, 1792, 140),
    ("145.6B", 12288, 80, 96, 8, 8, 1536, 2304, 148), ("310.1B", 16384, 96, 128, 8, 16, 1920, 2160, 155),
    ("529.6B", 20480, 105, 128, 8, 35, 2520, 2520, 163), ("1008B", 25600, 128, 160, 8, 64, 3072, 3072, 163),
]
# Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models (MLSys 2023), table 5, full
# recomputation: parameters, hidden, layers, heads, tensor and pipeline degrees, chunks of a stage, microbatch, batch,
# seconds (microbatches and chunks also in calculon-ai/calculon, validation/seqsel/tab5).
MLSYS23 = [
    ("22B", 6144, 48, 64, 8, 1, 1, 4, 4, 1.42), ("175B", 12288, 96, 96, 8, 8, 3, 1, 64, 18.13),
    ("530B", 20480, 105, 128, 8, 35, 3, 1, 280, 49.05), ("1T", 25600, 128, 160, 8, 64, 1, 1, 512, 94.42),
]

# Sizes of models that rows name and do not describe (their makers' model cards): hidden, layers, heads, heads of keys,
# inner units, vocabulary.
LLAMAS = {
    "8b": (4096, 32, 32, 8, 14336, 128256),
    "70b": (8192, 80, 64, 8, 28672, 128256),
    "405b": (16384, 126, 128, 8, 53248, 128256),
}
# The same of mixtures: hidden, layers, heads, heads of keys, units of a head, inner units of an expert, experts, experts
# of a token, vocabulary, whether each head's queries and keys are normalized, the window of every other layer. GPT-OSS
# has biases and a logit of nothing in each softmax, too.
MIXTURES = {
    "qwen3_30b": (2048, 48, 32, 4, 128, 768, 128, 8, 151936, 1, 0),
    "qwen3_235b": (4096, 94, 64, 4, 128, 1536, 128, 8, 151936, 1, 0),
    "gpt oss 120b": (2880, 36, 64, 8, 64, 2880, 128, 4, 201088, 0, 128),
}
# Of the zoo's deepseek: heads, layers without experts, experts, vocabulary. What predicts further tokens in training, a
# 62nd layer with the head once more, is not in it.
LATENT = {"deepseekv3": (128, 3, 256, 129280), "kimi_k2": (64, 1, 384, 163840)}
# What the zoo has no model of.
UNLIKE = {"nemotron": "layers of state spaces"}


def in_8_bits(executor, rounding):
    """The executor with linear layers that multiply in 8 bits, and round what they multiply, of which an element is
    `rounding` bytes read and written: the largest value of a tensor is found first (2) where it has one scale, then it
    is read (2) and written as rows and as columns (1 and 1)."""
    return (f"{executor[:-1].rstrip()}, linear_layers: {{ products: f8, cast: {rounding} B, "
            f"gradient_cast: {rounding} B }} }}")


# Megatron-Core whose tensor groups exchange while they multiply (repository, scripts/performance/configs:
# tp_comm_overlap), and what torchtitan compiles, with FlashAttention-2.
BRIDGE = "{ base: megatron-core, name: megatron-core that overlaps, exchanges: { overlap: true } }"
COMPILED = ("{ base: fsdp, name: fsdp compiled, fusion: chains, dispatch: 0 us, attention: { streamed: true, "
            "skips_masked: true, forward: 0.62, backward: 0.55 }, bytes: { accumulation: 0 B, update: 36 B, loss: 6 B } }")


# What rows of a source do not say: the software that ran them, and the network of the cluster.
SOURCES = {
    "SC'21 table 1": {"short": "SC'21", "executor": "megatron-2021"},
    # Of 2022, when gradients of weights were added up by the product that makes them (repository, release 3.0).
    "MLSys'23 table 5": {"short": "MLSys'23",
                         "executor": "{ base: megatron-2021, name: megatron-2022, bytes: { accumulation: 0 B } }"},
    "ground_truth_multi": {"short": "vTrain, several hosts", "executor": "megatron-2021"},
    "ground_truth_single": {"short": "vTrain, one host", "executor": "eager"},
    "llm-foundry": {"short": "MosaicML", "executor": "fsdp",
                    # Rows of May 2023 (llm-foundry 0.0.4, sweep.sh and its tables of that time: PyTorch 1.13, mixed
                    # precision PURE) reduce in bf16: 2 and 2 to put gradients together, 2 and 2 to divide them; and
                    # their checkpoints compute all of a block again.
                    "precisions": {"bf16": "{ base: fsdp, name: fsdp of PyTorch 1.13, stops_recomputing: false, "
                                           "bytes: { accumulation: 8 B } }"}},
    # Four Omni-Path ports of 100 Gb/s a host of eight GPUs (the chronicle's own description of Jean Zay).
    # CUDA_LAUNCH_BLOCKING=1 (the same): the host's time comes on top.
    "bigscience": {"short": "BLOOM", "executor": "{ base: eager, name: eager that blocks, blocks: true }",
                   "network": (11e9, 4),
                   # "PCI-Express/NUMA was improved today so all TFLOPs have changed for the better (1-5%)" (the same, at
                   # the first rows of this day, which rows' notes begin with): not to be compared with earlier ones.
                   "mended": "02-25"},
    "torchtitan": {"short": "torchtitan", "executor": COMPILED,
                   # One scale for each tensor (torchao, dynamic scaling).
                   "precisions": {"float8": in_8_bits(COMPILED, 6), "float8-tensorwise": in_8_bits(COMPILED, 6)}},
    # With a scale for each 32 elements (MX) nothing is read to find the largest one.
    "Megatron-Bridge": {"short": "Megatron-Bridge", "executor": BRIDGE,
                        "precisions": {"fp8": in_8_bits(BRIDGE, 6), "fp8-cs": in_8_bits(BRIDGE, 6),
                                       "mxfp8": in_8_bits(BRIDGE, 4), "fp8-mx": in_8_bits(BRIDGE, 4)}},
}


# By how much a row's own numbers may differ: parameters, beside half a billion of rounding, by biases and padded
# vocabularies; rates by how operations are counted (bigscience, chronicles: about 3 %).
MOST_DIFFERENCE = 0.003
MOST_RATE_DIFFERENCE = 0.05


class NotBuildable(Exception):
    """Why a row is not compared."""


def settings_of(source):
    for part, settings in SOURCES.items():
        if part in source:
            return settings
    raise NotBuildable("unknown source")


def number(text):
    try:
        return int(float(text))
    except ValueError:
        return None


def run(*arguments, **more):
    return subprocess.run([CLEAVE, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, **more)


def has_zoo(model):
    if not hasattr(has_zoo, "names"):
        text = run("zoo", "--help").stdout
        has_zoo.names = set(re.findall(r"^  ([a-z0-9-]+): ", text, re.M))
    return model in has_zoo.names


def executors():
    if not hasattr(executors, "known"):
        executors.known = "--executor" in run("compile", "--help").stdout
    return executors.known


def machine_of(gpu):
    """The preset of a row's GPU."""
    name = gpu.lower()
    for part, preset in (("gb300", "gb300"), ("gb200", "gb200"), ("b300", "b300"), ("b200", "b200"), ("h200", "h200"),
                         ("h100", "h100"), ("40gb", "a100-40g"), ("a100", "a100-80g")):
        if part in name:
            return preset
    raise NotBuildable(f"no preset for {gpu}")


def model_of(row):
    """The zoo's model of a row, as a tuple of name and options."""
    name, seq = row["model"].lower(), number(row["seq"])
    for part, reason in UNLIKE.items():
        if part in name:
            raise NotBuildable(reason)
    if mixture := next((part for part in MIXTURES if part in name), None):
        hidden, layers, heads, kv, head, ffn, experts, top, vocabulary, norm, window = MIXTURES[mixture]
        return ("mixtral", ("hidden", hidden), ("layers", layers), ("heads", heads), ("kv-heads", kv),
                ("head-size", head), ("query-norm", norm), ("window", window), ("ffn", ffn), ("experts", experts),
                ("top", top), ("sequence", seq), ("vocabulary", vocabulary))
    if latent := next((part for part in LATENT if part in name), None):
        heads, dense, experts, vocabulary = LATENT[latent]
        return ("deepseek", ("heads", heads), ("dense-layers", dense), ("experts", experts), ("sequence", seq),
                ("vocabulary", vocabulary))
    if "llama" in name:
        size = re.search(r"(\d+)b", name)
        shape = LLAMAS.get(size.group(0) if size else "")
        if not shape or not has_zoo("llama"):
            raise NotBuildable("no such model in the zoo")
        hidden, layers, heads, kv, ffn, vocabulary = shape
        return ("llama", ("hidden", hidden), ("layers", layers), ("heads", heads), ("kv-heads", kv), ("ffn", ffn),
                ("sequence", seq), ("vocabulary", vocabulary))
    hidden, layers, heads = number(row["hidden"]), number(row["layers"]), number(row["heads"])
    if not hidden or not layers or not heads:
        raise NotBuildable("hidden, layers or heads are not said")
    if hidden % heads:
        raise NotBuildable("heads do not divide hidden")
    if "mpt" in name:
        # The rows' numbers of parameters tell biases and learned positions: the zoo's GPT, which has as many.
        return ("gpt", ("hidden", hidden), ("layers", layers), ("heads", heads), ("sequence", seq),
                ("vocabulary", number(row["vocab"]) or 50368))
    shape = ("gpt", ("hidden", hidden), ("layers", layers), ("heads", heads), ("sequence", seq),
             ("vocabulary", number(row["vocab"]) or 51200), ("dropout", 1))
    return shape + (("alibi", 1),) if "bloom" in name else shape


def check_sizes(row):
    """Refuses a row that contradicts itself: its size, or its rate and seconds, are another model's or another cluster's."""
    hidden, layers, batch = number(row["hidden"]), number(row["layers"]), number(row["gbs"])
    size = re.fullmatch(r"([0-9.]+)B", row["params"])
    vocabulary = number(row["vocab"])
    if not hidden or not layers or not size or not vocabulary:
        return
    parameters = 12 * layers * hidden**2 + vocabulary * hidden
    if abs(parameters / 1e9 - float(size.group(1))) > 0.5 + MOST_DIFFERENCE * float(size.group(1)):
        raise NotBuildable("hidden and layers make another number of parameters than is said")
    if row["tflops_per_gpu"] and row["step_s"] and row["recompute"] == "full" and batch:
        seq, rate = number(row["seq"]), float(row["tflops_per_gpu"]) * 1e12
        flops = 96 * batch * seq * layers * hidden**2 * (1 + seq / (6 * hidden) + vocabulary / (16 * layers * hidden))
        if abs(flops / (rate * float(row["step_s"]) * number(row["gpus"])) - 1) > MOST_RATE_DIFFERENCE:
            raise NotBuildable("rate and seconds are of another batch or number of GPUs than is said")


def configuration_of(row):
    """What is predicted for a row: a tuple that equal rows share."""
    settings = settings_of(row["source"])
    precision = row["precision"].lower()
    if "fp4" in precision:
        raise NotBuildable("arithmetic of 4 bits")
    if "8" in precision and precision.split()[0] not in settings.get("precisions", {}):
        raise NotBuildable("arithmetic of 8 bits in software whose rounding is not known")
    if "LoRA" in row["note"]:
        raise NotBuildable("training of adapters alone")
    gpus, batch = number(row["gpus"]), number(row["gbs"])
    tp, pp = number(row["tp"]) or 1, number(row["pp"]) or 1
    cp = number(row["cp"] or "1") or 1
    ep = number(row["ep"]) if row["ep"] not in ("", "n/a") else 1
    model = model_of(row)
    dp = number(row["dp"]) if row["dp"] else (gpus // (tp * pp * cp) if gpus else None)
    mbs = number(row["mbs"])
    # torchtitan's column is a replica's batch, which its pipelines cut into as many microbatches as there are stages
    # (repository, pipeline_parallel_microbatches).
    if mbs and "local batch" in row["note"]:
        batch = batch or mbs * (number(row["dp"]) or 1)
        mbs = max(1, mbs // pp)
    if not gpus or not dp or not mbs:
        raise NotBuildable("degrees or microbatch are not said")
    if not batch:
        batch = mbs * dp
    if tp * pp * dp * cp != gpus:
        raise NotBuildable("degrees do not make the number of GPUs")
    if batch % (mbs * dp):
        raise NotBuildable("microbatches do not divide the batch")
    check_sizes(row)
    microbatches = batch // (mbs * dp)
    sharding = row["sharding"].upper()
    zero = (3 if "FULL" in sharding or "FSDP" in sharding else 2 if "GRAD_OP" in sharding else
            1 if "ZERO-1" in sharding or "megatron-core" in settings["executor"] else 0)
    recompute = row["recompute"] if row["recompute"] in ("none", "full", "selective") else "auto"
    if recompute == "auto":
        recompute = "none"
    vpp = number(row["vpp"]) if row["vpp"] not in ("", "n/a") else 1
    dtype = "f16" if "fp16" in precision and "bf16" not in precision else "bf16"
    # Experts are on devices of their own among those that have samples of their own, and where there are more parts of
    # experts than of samples, among those of a tensor group.
    ep = math.gcd(ep or 1, dp)
    return {"model": model, "machine": machine_of(row["gpu"]), "gpus": gpus, "network": settings.get("network"),
            "executor": settings.get("precisions", {}).get(precision.split()[0], settings["executor"]), "tp": tp,
            "pp": pp, "dp": dp, "cp": cp, "ep": ep, "vpp": vpp or 1, "batch": batch, "microbatches": microbatches,
            "recompute": recompute, "zero": zero, "dtype": dtype}


def measured_of(row):
    if row["step_s"]:
        return float(row["step_s"])
    batch = number(row["gbs"]) or (number(row["mbs"]) or 0) * (number(row["dp"]) or 0)
    if not row["tokens_per_s_per_gpu"] or not batch:
        raise NotBuildable("no measured time")
    return batch * number(row["seq"]) / (float(row["tokens_per_s_per_gpu"]) * number(row["gpus"]))


class Predictor:
    """Runs the planner, each configuration once."""

    def __init__(self, folder, ablation=None):
        self.folder, self.ablation = folder, ablation
        self.presets = {}

    def model(self, shape):
        path = os.path.join(self.folder, "-".join([shape[0], *(str(value) for _, value in shape[1:])]) + ".onnx")
        if not os.path.exists(path):
            flags = [text for name, value in shape[1:] for text in (f"--{name}", value)]
            made = run("zoo", shape[0], *flags, "--batch", 2, "-o", path + f".{threading.get_ident()}")
            if made.returncode:
                raise NotBuildable(made.stderr.strip())
            os.replace(path + f".{threading.get_ident()}", path)
        return path

    def machine(self, preset, gpus, network, executor):
        """The preset with so many GPUs and no limit of memory, and the memory of a device."""
        if preset not in self.presets:
            made = run("probe", "--preset", preset, "-o", "-")
            self.presets[preset] = made.stdout if made.returncode == 0 else None
        text = self.presets[preset]
        if not text:
            raise NotBuildable(f"no preset {preset}")
        unit = {"GiB": GIB, "GB": 1e9, "MiB": 2.0**20}
        size = re.search(r"memory: ([0-9.]+) (\w+)", text)
        limit = float(size.group(1)) * unit[size.group(2)]
        text = re.sub(r"memory: [0-9.]+ \w+", "memory: 100000 GiB", text)
        inside = int(re.search(r"kind: \S+, count: (\d+)", text).group(1))
        here = min(gpus, inside)
        if gpus % here:  # of racks of 72, runs on powers of two take 64
            here = 2 ** int(math.log2(inside))
        if gpus % here:
            raise NotBuildable("GPUs are no whole hosts")
        hosts = gpus // here
        text = re.sub(r"(kind: \S+, count: )\d+", rf"\g<1>{here}", text)
        text = re.sub(r"(?m)^(  - )(?:count: \d+\n    )?devices:", rf"\g<1>count: {hosts}\n    devices:", text)
        if network:
            text = re.sub(r"(?m)^network:.*$",
                          f"network: {{ bandwidth: {network[0] / 1e9} GB/s, latency: 5 us, ports: {network[1]} }}", text)
        if executors():
            text += f"executor: {executor}\n"
        if self.ablation:
            text = self.ablation(text)
        path = os.path.join(self.folder,
                            f"{preset}-{here}x{hosts}-{network[1] if network else 0}-{zlib.crc32(executor.encode())}.yaml")
        with open(path + f".{threading.get_ident()}", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(path + f".{threading.get_ident()}", path)
        return path, limit

    def predict(self, key):
        config = json.loads(key)
        try:
            return self.predict_now(config)
        except NotBuildable as reason:
            return {"why": str(reason)}

    def predict_now(self, config):
        model = self.model([config["model"][0], *map(tuple, config["model"][1:])])
        machine, limit = self.machine(config["machine"], config["gpus"], config["network"],
                                      config["executor"])
        output = tempfile.mktemp(dir=self.folder)
        degrees = f"model={config['tp']},data={config['dp'] // config['ep']},pipeline={config['pp']}"
        if config["cp"] > 1:
            degrees += f",sequence={config['cp']}"
        if config["ep"] > 1:
            degrees += f",expert={config['ep']}"
        command = ["compile", model, "--machine", machine, "--train", "--dtype", config["dtype"], "--batch",
                   config["batch"], "--microbatches", config["microbatches"], "--recompute", config["recompute"],
                   "--zero", config["zero"], "--degrees", degrees, "-o", output, "--json", output + ".json"]
        if "experts" in dict(map(tuple, config["model"][1:])):
            command += ["--expert-capacity", 1]
        interleaves = config["vpp"] > 1 and config["pp"] > 1
        made = run(*command, "--schedule", "interleaved", "--chunks", config["vpp"]) if interleaves else None
        # Where layers do not divide into these chunks, the search has no such plan.
        has_chunks = made is not None and not made.returncode
        if not has_chunks:
            made = run(*command, "--schedule", "1f1b")
        if made.returncode:
            raise NotBuildable(f"no plan: {made.stderr.strip().splitlines()[-1] if made.stderr.strip() else '?'}")
        with open(output + ".json", encoding="utf-8") as file:
            report = json.load(file)
        seconds = report["predicted_step_seconds"]
        if interleaves and not has_chunks:
            seconds = self.interleaved(report, config, output)
        for name in (output, output + ".json", output + ".weights", output + ".yaml"):
            if os.path.exists(name):
                os.remove(name)
        return {"seconds": seconds, "bytes": max(report["predicted_peak_bytes"]), "limit": limit,
                "spent": self.spent(report)}

    def interleaved(self, report, config, output):
        """The step under an interleaved schedule, of the times of stages that the search found for another one."""
        if config["microbatches"] % config["pp"]:
            return report["predicted_step_seconds"]
        lines = ["stages:"]
        # Each further chunk sends as a stage does, and waits for that.
        waits = 0
        if "megatron-core" not in config["executor"]:
            waits = (config["vpp"] - 1) * max(stage.get("send_seconds", 0) for stage in report["stages"])
        for stage in report["stages"]:
            stage["forward_seconds"] += waits
            stage["backward_input_seconds"] += waits
            lines.append(f"  - {{ count: 1, forward: {stage['forward_seconds'] * 1e3:.9f} ms, backward_input: "
                         f"{stage['backward_input_seconds'] * 1e3:.9f} ms, backward_weight: "
                         f"{stage['backward_weight_seconds'] * 1e3:.9f} ms, send: "
                         f"{stage.get('send_seconds', 0) * 1e3:.9f} ms }}")
        with open(output + ".yaml", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        made = run("schedule", "--stages", output + ".yaml", "--schedule", "interleaved", "--chunks", config["vpp"],
                   "--microbatches", config["microbatches"], "-o", os.devnull, "--json", output + ".json")
        if made.returncode:
            raise NotBuildable(made.stderr.strip())
        with open(output + ".json", encoding="utf-8") as file:
            span = json.load(file)
        return span["end_ms"] / 1e3 + max(stage["per_step_seconds"] for stage in report["stages"])

    @staticmethod
    def spent(report):
        """Shares of the fullest stage's time in a step."""
        count = report["microbatches"]
        stage = max(report["stages"], key=lambda stage: stage["forward_seconds"] + stage["backward_input_seconds"])
        compute = stage["forward_seconds"] + stage["backward_input_seconds"] + stage["backward_weight_seconds"]
        number_of = report["stages"].index(stage)
        exchange = sum(op.get("communication_seconds", 0) for op in report["ops"] if op.get("stage") == number_of)
        total = report["searched_step_seconds"]
        return {"microbatches": count * compute / total, "communication of operators": exchange / total,
                "pipeline": max(0.0, 1 - (count * compute + stage["per_step_seconds"]) / total),
                "gradients and optimizer": stage["per_step_seconds"] / total}


def changed_executor(text, key, value):
    """A machine file whose executor has another value of a key."""
    def change(found):
        executor = found.group(1)
        if not executor.startswith("{"):
            executor = f"{{ base: {executor} }}"
        return found.group(0) if f" {key}:" in executor else f"executor: {executor[:-1].rstrip()}, {key}: {value} }}"
    return re.sub(r"(?m)^executor: (.*)$", change, text)


# The part of what the best of all shapes reaches that an H100 sustains, which is taken for Blackwell, too.
BELOW_THE_BEST = 0.946

# What is left out, and how the machine file then looks.
ABLATIONS = {
    "nothing": lambda text: text,
    "tiles and waves": lambda text: re.sub(r"(?m)^( +)- \{ rows: 256, columns: 128 \}$",
                                           r"\1- { rows: 1, columns: 1 }", text),
    "the clock under load": lambda text: re.sub(r"sustained: [0-9.]+", "sustained: 1", text),
    "kernels that wait for memory": lambda text: re.sub(r"(?m)^(    bandwidth: )\S+ \S+$", r"\g<1>1000000 GB/s", text),
    "launches": lambda text: re.sub(r"launch: \S+ us", "launch: 0 us", text),
    "communication inside of hosts": lambda text: re.sub(
        r"between: devices, bandwidth: .*? \}", "between: devices, bandwidth: 1000000 GB/s, latency: 0 us }", text),
    "joining gradients behind the backward pass":
        lambda text: changed_executor(text, "gradients", "{ overlap: true, bucket: 25 MB }"),
    "repeated normalizations": lambda text: changed_executor(text, "sequence_split", "true"),
    "the software's bytes": lambda text: changed_executor(
        text, "bytes", "{ accumulation: 0 B, update: 0 B, loss: 0 B, kept_loss: 0 B }"),
    "fusion": lambda text: changed_executor(text, "fusion", "none"),
    "rates of Blackwell below the best of all shapes": lambda text: re.sub(
        r"sustained: ([0-9.]+)", lambda found: f"sustained: {float(found.group(1)) / BELOW_THE_BEST:.4f}", text)
    if re.search(r"(?m)^  (b200|gb200|b300|gb300):", text) else text,
}


def ablate(rows, arguments):
    """By what is left out and source: median error and bias."""
    found = collections.OrderedDict()
    for name, change in ABLATIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            results = compare(rows, arguments, folder, change)
        found[name] = {source: (made["median"], made["bias"]) if (made := summary(group)) else None
                       for source, group in by_source(results).items()}
    return found


def rows_of(path, arguments):
    rows = []
    columns = ["source", "model", "params", "hidden", "layers", "heads", "seq", "vocab", "gpu", "gpus", "tp", "pp", "vpp",
               "dp", "cp", "ep", "sharding", "mbs", "gbs", "precision", "recompute", "step_s", "tokens_per_s_per_gpu",
               "tflops_per_gpu", "mem_gib", "note"]
    def row(**values):
        return {**dict.fromkeys(columns, ""), **{name: str(value) for name, value in values.items()}}
    for params, hidden, layers, heads, tp, pp, gpus, batch, rate in SC21:
        flops = 96 * batch * 2048 * layers * hidden**2 * (1 + 2048 / (6 * hidden) + 51200 / (16 * layers * hidden))
        for mbs, vpp in itertools.product((1, 2, 4, 8), (1, 2) if pp > 1 and layers % (2 * pp) == 0 else (1,)):
            if batch % (mbs * gpus // tp // pp) == 0:
                rows.append(row(source="SC'21 table 1", model="GPT", params=params, hidden=hidden, layers=layers,
                                heads=heads, seq=2048, gpu="A100-80GB", gpus=gpus, tp=tp, pp=pp, vpp=vpp,
                                dp=gpus // tp // pp, mbs=mbs, gbs=batch, precision="fp16", recompute="full",
                                step_s=flops / (rate * 1e12 * gpus), tflops_per_gpu=rate, note="choice"))
    for params, hidden, layers, heads, tp, pp, vpp, mbs, batch, seconds in MLSYS23:
        rows.append(row(source="MLSys'23 table 5", model="GPT", params=params, hidden=hidden, layers=layers, heads=heads,
                        seq=2048, gpu="A100-80GB", gpus=tp * pp, tp=tp, pp=pp, vpp=vpp, dp=1, mbs=mbs, gbs=batch,
                        precision="fp16", recompute="full", step_s=seconds))
    if path:
        with open(path, encoding="utf-8", newline="") as file:
            rows += list(csv.DictReader(file))
    if arguments.source:
        rows = [one for one in rows if arguments.source in one["source"]]
    if arguments.limit:
        kept, counts = [], collections.Counter()
        for one in rows:
            counts[one["source"]] += 1
            if counts[one["source"]] <= arguments.limit:
                kept.append(one)
        rows = kept
    return rows


def compare(rows, arguments, folder, ablation=None):
    """Every row with its prediction, or with why it has none."""
    predictor = Predictor(folder, ablation)
    results, keys = [], {}
    for row in rows:
        made = {"row": row}
        try:
            made["measured"] = measured_of(row)
            made["key"] = json.dumps(configuration_of(row))
            keys.setdefault(made["key"], None)
        except NotBuildable as reason:
            made["why"] = str(reason)
        results.append(made)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for key, found in zip(keys, pool.map(predictor.predict, keys)):
            keys[key] = found
    for made in results:
        made.update(keys.get(made.get("key")) or {})
    return choose(results)


def choose(results):
    """Of rows that do not say what was chosen: the fastest that fits."""
    groups, kept = {}, []
    for made in results:
        if made["row"]["note"] != "choice":
            kept.append(made)
            continue
        best = groups.get((made["row"]["source"], made["row"]["params"]))
        rank = (made.get("bytes", 0) > made.get("limit", 0), made.get("seconds", math.inf))
        if best is None or rank < best[0]:
            groups[(made["row"]["source"], made["row"]["params"])] = (rank, made)
    return [made for _, made in groups.values()] + kept


def tau(pairs):
    """Kendall's tau-a of pairs of numbers."""
    sign = [((a > c) - (a < c)) * ((b > d) - (b < d)) for (a, b), (c, d) in itertools.combinations(pairs, 2)]
    return sum(sign) / len(sign) if sign else math.nan


def error(made):
    return made["seconds"] / made["measured"] - 1


def quantile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    low = math.floor(at)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (at - low)


def summary(results):
    built = [made for made in results if "seconds" in made]
    if not built:
        return None
    errors = [error(made) for made in built]
    groups = collections.defaultdict(list)
    for made in built:
        row = made["row"]
        groups[(row["source"], row["model"], row["params"], row["hidden"], row["layers"], row["seq"], row["gpus"],
                row["gbs"], row["gpu"])].append((made["seconds"], made["measured"]))
    taus = [tau(group) for group in groups.values() if len(group) >= 5]
    fits = [made["bytes"] <= made["limit"] for made in built]
    return {"rows": len(results), "built": len(built), "median": statistics.median(map(abs, errors)),
            "bias": statistics.median(errors), "low": quantile(errors, .25), "high": quantile(errors, .75),
            "tau": statistics.median(taus) if taus else math.nan, "fits": sum(fits) / len(fits)}


def percent(value, signed=False):
    return "" if math.isnan(value) else f"{100 * value:{'+' if signed else ''}.1f} %"


def by_source(results):
    groups = collections.OrderedDict()
    for made in results:
        source = made["row"]["source"]
        try:
            name = settings_of(source)["short"]
        except NotBuildable:
            name = source
        groups.setdefault(name, []).append(made)
    return groups


def parts_of(name, group):
    """A source's rows, and those from before and since a change of its cluster that its own text tells of."""
    yield name, group
    mended = next((one["mended"] for one in SOURCES.values() if one["short"] == name and "mended" in one), None)
    if mended:
        yield f"{name}, before {mended}", [made for made in group if made["row"]["note"][:5] < mended]
        yield f"{name}, since {mended}", [made for made in group if made["row"]["note"][:5] >= mended]


def summary_table(results):
    lines = ["| source | rows | compared | median error | bias | quartiles | tau in a model size | fit |",
             "|---|---:|---:|---:|---:|---:|---:|---:|"]
    groups = [part for name, group in by_source(results).items() for part in parts_of(name, group)]
    for name, group in [*groups, ("all", results)]:
        found = summary(group)
        if not found:
            lines.append(f"| {name} | {len(group)} | 0 | | | | | |")
            continue
        lines.append(f"| {name} | {found['rows']} | {found['built']} | {percent(found['median'])} | "
                     f"{percent(found['bias'], True)} | {percent(found['low'], True)} .. {percent(found['high'], True)} |"
                     f" {'' if math.isnan(found['tau']) else format(found['tau'], '.2f')} | {percent(found['fits'])} |")
    return lines


def why_table(results):
    counts = collections.Counter()
    for name, group in by_source(results).items():
        for made in group:
            if "seconds" not in made:
                counts[(name, made.get("why", "?"))] += 1
    if not counts:
        return []
    return ["| source | rows | why not |", "|---|---:|---|",
            *(f"| {name} | {count} | {why} |" for (name, why), count in sorted(counts.items()))]


def described(made):
    row = made["row"]
    text = f"{row['model']} {row['params']}".strip() if row["params"] and len(row["params"]) < 8 else row["model"]
    shape = "" if "B" in row["params"] else f" h{row['hidden']} l{row['layers']}" if row["hidden"] else ""
    return (f"{text}{shape} s{row['seq']}, {row['gpus']} {row['gpu']}, tp{row['tp']} pp{row['pp']} mb{row['mbs']} "
            f"batch {row['gbs']}")


def row_table(group):
    lines = ["| run | measured s | predicted s | error | microbatches | of it communication | pipeline | gradients, "
             "optimizer |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for made in group:
        spent = made["spent"]
        lines.append(f"| {described(made)} | {made['measured']:.3f} | {made['seconds']:.3f} | {percent(error(made), True)} |"
                     f" {percent(spent['microbatches'])} | {percent(spent['communication of operators'])} | "
                     f"{percent(spent['pipeline'])} | {percent(spent['gradients and optimizer'])} |")
    return lines


# What is known of sources beside their rows.
NOTES = [
    "BLOOM's rows come from a cluster with four ports of 100 Gb/s a host, from software with",
    "`CUDA_LAUNCH_BLOCKING` set, and with attention of linear biases (`zoo --alibi`). On 25 February its hosts' PCI Express",
    "was mended, which its authors say made steps 1 to 5 % faster; parts are before and since. Rows whose size or rate contradicts their",
    "hidden units, layers, batch and GPUs are not compared. torchtitan's H100s are a variant of 500 W, and its selective",
    "recomputation is not ours. MosaicML's software of 2023 computes two metrics of training on all logits in every",
    "microbatch; which versions ran, its rows do not say. Megatron-Bridge's rows do not say what is computed again: nothing,",
    "as it is predicted; three that do not fit so keep activations in the hosts' memory (`cpu_offloading_num_layers` in its",
    "scripts), of the fourth it is not known. Their linear layers are in 8 bits. The step of 22 B that MLSys'23 measured is a few percent faster",
    "than predicted, and its larger ones are as predicted: why is not known.",
    "",
    "Mixtures of experts (Qwen 3, DeepSeek V3, Kimi K2, GPT-OSS) are predicted with equally many tokens an expert, which these",
    "runs force, in places for them (`--expert-capacity 1`), and with experts on devices that have samples of their own",
    "(`--degrees expert=N`). Nothing was changed for their times. Eight runs of Qwen 3 that did not fit at first, 281 GiB of 268,",
    "led to choices being weighed before the second product, where they are narrower, as Megatron-Core does. Runs of GPT-OSS take",
    "half as long again as predicted, but the one that multiplies and activates in one kernel and launches whole steps at once",
    "(GB300, container 26.06), which takes as long; the zoo's model lacks its biases and its softmax's logit of nothing, and that of",
    "DeepSeek what predicts further tokens. On H100, whose hosts have eight GPUs, exchanges are predicted too slow: the software",
    "sends a token once to a host with several of its experts.",
]


def page(results, ablations, command):
    lines = ["# Truth: predictions beside measured runs", "",
             "Steps of training that others measured on their clusters, and what the planner predicts with the same degrees,",
             "microbatches, recomputation and sharding. Generated by", "", "```", command, "```", "",
             "An error is predicted over measured time, less one: negative is too fast. *Bias* is the median of the signed",
             "errors, *tau* Kendall's rank correlation among the runs of one model on equally many GPUs (median over models of",
             "five runs or more), *fit* the part of the runs, all of which ran, that the planner says fits into the memory.",
             "Constants come from data sheets and from published measurements of single kernels and collectives",
             "(`passes/cost/presets`, `passes/cost/executors`, with sources). Nothing is fitted to these rows, but that the",
             "host's time for a kernel in the executor `eager` was compared with the floor of vTrain's runs on one host, whose",
             "small models therefore do not test it. The rates of products of the presets `a100-40g`, `a100-80g`, `h100` and",
             "`h200` come from other measurements, but were chosen when errors were known. With the rates before them,",
             "MosaicML's median is 8.3 %, SC'21's 6.4, MLSys'23's 4.5 and BLOOM's 17.5. Those of `b200`, `gb200`, `b300` and `gb300`",
             "are as much below the best of all shapes as on H100, which was chosen when errors were known, too: the last row of",
             "the ablation has the best ones.", "",
             *summary_table(results), "", *NOTES, ""]
    small = [made for made in results if "seconds" in made and made["row"]["source"] in ("SC'21 table 1",
                                                                                      "MLSys'23 table 5")]
    if small:
        lines += ["## Megatron-LM's tables", "",
                  "The first table (Narayanan et al., SC 2021) does not say how large microbatches are: the fastest of 1, 2, 4",
                  "and 8 with one or two chunks a stage is compared. The second is Korthikanti et al., MLSys 2023, full",
                  "recomputation. Columns behind the error are shares of the predicted step.", "", *row_table(small), ""]
    why = why_table(results)
    if why:
        lines += ["## What is not compared", "", *why, ""]
    if ablations:
        lines += ["## What each effect contributes", "",
                  "The same runs with one effect left out: median error and bias. Effects are not independent, so that they do not add",
                  "up.", "",
                  "| without | " + " | ".join(next(iter(ablations.values()))) + " |",
                  "|---|" + "---:|" * len(next(iter(ablations.values())))]
        lines += [f"| {name} | " + " | ".join(f"{percent(one[0])}, {percent(one[1], True)}" if one else ""
                                             for one in found.values()) + " |" for name, found in ablations.items()]
        lines.append("")
    lines += ["## Worst rows", ""]
    for name, group in by_source(results).items():
        built = sorted((made for made in group if "seconds" in made), key=lambda made: -abs(error(made)))[:10]
        if len(built) > 4 and built[0]["row"]["source"] not in ("SC'21 table 1",):
            lines += [f"### {name}", "", *row_table(built), ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("csv", nargs="?")
    parser.add_argument("--source", default="")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--save")
    parser.add_argument("--ablate", action="store_true")
    arguments = parser.parse_args()
    path = arguments.csv or (DEFAULT if os.path.exists(DEFAULT) else None)
    rows = rows_of(path, arguments)
    with tempfile.TemporaryDirectory() as folder:
        results = compare(rows, arguments, folder)
    if arguments.save:
        with open(arguments.save, "w", encoding="utf-8") as file:
            json.dump(results, file)
    ablations = {}
    if arguments.ablate:
        parts = ("SC'21", "MLSys'23", "ground_truth_multi", "Megatron-Bridge")
        chosen = [made["row"] for made in results]
        ablations = ablate([row for row in chosen if any(part in row["source"] for part in parts)], arguments)
    command = f"python3 tools/bench/truth.py ../shared/truth/throughput.csv{' --ablate' if ablations else ''} --write"
    text = page(results, ablations, command)
    if arguments.write:
        # The sections of tools/bench/truth_kinds.py stay.
        with open(PAGE, encoding="utf-8") as file:
            others = file.read().partition("<!-- kinds: begin -->")
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write("\n\n".join([text.rstrip("\n"), others[1] + others[2]]) if others[1] else text)
    print("\n".join(summary_table(results)))
    small = [made for made in results if "seconds" in made and "table" in made["row"]["source"]]
    print("\n".join(row_table(small)))
    print("\n".join(why_table(results)))


if __name__ == "__main__":
    main()
