#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The peer of tools/gpu-test: the zoo's ResNet-50, GPT and LSTM in PyTorch, inference and training steps, eager and
# through torch.compile, in exact float32, or with --tf32 or --dtype bf16 in what `cleave compile` makes of the same flags:
# products of float32 rounded to TF32; products in bfloat16 with parameters in float32 (autocast). Prints JSON.
#
#   python3 tools/bench/torch_gpu.py resnet50 gpt lstm       # measures all of them
#   python3 tools/bench/torch_gpu.py gpt --serve             # answers "train compiled 20" on standard input by a line
#   python3 tools/bench/torch_gpu.py gpt --dtype bf16
#   python3 tools/bench/torch_gpu.py rates                   # matrix products and copies of this GPU
#   python3 tools/bench/torch_gpu.py convolutions --tf32     # all of a ResNet-50's, by themselves
#   python3 tools/bench/torch_gpu.py gpt --parameters        # how many parameters the model has
#   python3 tools/bench/torch_gpu.py gpt --device cpu --processor --threads 2
#   python3 tools/bench/torch_gpu.py gpt --device cpu --tiny # small sizes, to test this script
#
# Images have the layout, channels first or last, in which a training step takes less; on GPUs the optimizer is one
# kernel where PyTorch has one ("layout", "fused"), and cuDNN's algorithms are measured (torch.backends.cudnn.benchmark).
#
# A time is the median of single steps: "ms" with the data on the GPU, between CUDA events; "ms_with_copies" by the
# clock, from inputs in the host's memory to results there, as a step of a plan is measured.

import argparse
import collections
import inspect
import json
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional

#===-- models -----------------------------------------------------------------------------------------------------===#


class Bottleneck(nn.Module):
    """He et al. 2015, with the stride in the 3x3 convolution, as the zoo's."""

    def __init__(self, inputs, inner, outputs, stride):
        super().__init__()

        def normalized(before, after, kernel, step):
            return nn.Sequential(nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(after))

        self.layers = nn.Sequential(normalized(inputs, inner, 1, 1), nn.ReLU(), normalized(inner, inner, 3, stride),
                                    nn.ReLU(), normalized(inner, outputs, 1, 1))
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else normalized(inputs, outputs, 1, stride)

    def forward(self, x):
        return functional.relu(self.layers(x) + self.shortcut(x))


def resnet50(classes, counts):
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate(counts):
        inner = 64 << stage
        for block in range(blocks):
            layers.append(Bottleneck(channels, inner, 4 * inner, 2 if block == 0 and stage else 1))
            channels = 4 * inner
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def causal_attention(query, key, value):
    """PyTorch's own; before 2.0, which only tests of this script meet, as a formula."""
    if hasattr(functional, "scaled_dot_product_attention"):
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    scores = query @ key.transpose(-1, -2) / query.shape[-1]**0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ value


class GptBlock(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        # One product for queries, keys and values, as implementations for one device have it.
        self.qkv, self.output = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.fc1, self.fc2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, sequence, 3, self.heads, hidden // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        context = causal_attention(query, key, value)
        x = x + self.output(context.transpose(1, 2).reshape(batch, sequence, hidden))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x))))


class Gpt(nn.Module):
    """GPT-2 with the head's table tied to the embedding's."""

    def __init__(self, layers, hidden, heads, sequence, vocabulary):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Parameter(torch.zeros(sequence, hidden))
        self.blocks = nn.Sequential(*(GptBlock(hidden, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, tokens):
        return self.norm(self.blocks(self.tokens(tokens) + self.positions)) @ self.tokens.weight.t()


class Lstm(nn.Module):
    """Zaremba, Sutskever, Vinyals 2014, without dropout; cuDNN computes its layers."""

    def __init__(self, layers, hidden, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.lstm = nn.LSTM(hidden, hidden, layers, batch_first=True)
        self.decoder = nn.Linear(hidden, vocabulary)

    def forward(self, tokens):
        return self.decoder(self.lstm(self.embedding(tokens))[0])


#===-- what is measured -------------------------------------------------------------------------------------------===#

# `batch`: the inputs' shape; `values`: below what number the inputs are, 0 for any; `classes`: labels are below it;
# `perStep`: whether each position of the input has a label; `optimizer`: that of tools/gpu_test/cases.py, and what it is
# made with.
Workload = collections.namedtuple("Workload", "make batch values classes perStep optimizer")


def workload(name, size):
    """The sizes of tools/gpu_test/cases.py ("gpu"), such as a processor computes in a second or two ("processor", those
    of tools/bench/training.py), or at once ("tiny")."""
    tiny = size == "tiny"
    if name == "resnet50":
        sizes = (10, (1, 1, 1, 1)) if tiny else (1000, (3, 4, 6, 3))
        batch = {"gpu": 32, "processor": 8, "tiny": 2}[size]
        return Workload(lambda: resnet50(*sizes), (batch, 3, 32, 32) if tiny else (batch, 3, 224, 224), 0,
                        sizes[0], False, (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9}))
    if name == "gpt":
        sizes = {"gpu": (12, 768, 12, 1024, 50257), "processor": (6, 512, 8, 128, 8192), "tiny": (2, 32, 4, 16, 50)}[size]
        return Workload(lambda: Gpt(*sizes), (2 if tiny else 8, sizes[3]), sizes[4], sizes[4], True,
                        (torch.optim.Adam, {"lr": 1e-4}))
    sizes = (2, 16, 50) if tiny else (2, 650, 10000)
    return Workload(lambda: Lstm(*sizes), (2, 7) if tiny else (20, 35), sizes[2], sizes[2], True,
                    (torch.optim.SGD, {"lr": 0.1}))


def one_kernel(optimizer, device):
    """How an optimizer is asked to be one kernel, where this PyTorch has it for the device."""
    return {"fused": True} if device == "cuda" and "fused" in inspect.signature(optimizer).parameters else {}


# Through torch.compile, then also with CUDA's graphs, as it calls "reduce-overhead".
VARIANTS = ("eager", "compiled", "graphs")


class Peer:
    """A model with its data, and steps of it by work ("inference", "train") and variant."""

    def __init__(self, name, device, size, dtype="f32", variants=VARIANTS, layout=None):
        torch.manual_seed(1)
        self.device, self.load, self.narrow = device, workload(name, size), dtype == "bf16"
        self.model = self.load.make()
        for parameter in self.model.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        self.model.to(device)
        self.make_optimizer()
        models = {"eager": self.model}
        if hasattr(torch, "compile"):
            models["compiled"] = torch.compile(self.model)
            models["graphs"] = torch.compile(self.model, mode="reduce-overhead")
        self.models, self.wanted = models, [variant for variant in variants if variant in models]
        shape = self.load.batch
        if self.load.values:
            self.inputs = torch.randint(self.load.values, shape)
        else:
            self.inputs = torch.randn(shape)
        self.labels = torch.randint(self.load.classes, shape if self.load.perStep else shape[:1])
        if device == "cuda":
            self.inputs, self.labels = self.inputs.pin_memory(), self.labels.pin_memory()
        self.about = {"fused": bool(one_kernel(self.load.optimizer[0], device))}
        if len(shape) == 4:
            self.about["layout"] = self.choose_layout(layout)

    def make_optimizer(self):
        kind, settings = self.load.optimizer
        self.optimizer = kind(self.model.parameters(), **settings, **one_kernel(kind, self.device))

    def choose_layout(self, wanted):
        """Lays the model's images and filters as the faster of eager training steps has them, unless one is wanted, and
        names it."""
        layouts = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}
        if wanted:
            self.lay(layouts[wanted])
            return wanted
        taken = {}
        for name, layout in layouts.items():
            self.lay(layout)
            taken[name] = self.measure("train", "eager", 5)["ms"]
        best = min(taken, key=taken.get)
        self.lay(layouts[best])
        return best

    def lay(self, layout):
        self.model.to(memory_format=layout)
        pinned = self.inputs.is_pinned()
        self.inputs = self.inputs.contiguous(memory_format=layout)
        if pinned:
            self.inputs = self.inputs.pin_memory()
        # What an optimizer keeps lies as parameters did; in one kernel it wants both alike.
        self.make_optimizer()

    def variants(self):
        return self.wanted

    def step(self, work, variant, inputs, labels):
        """What a plan's step gives: logits of images; of texts, whose logits nobody wants to copy, the loss; in training
        the loss."""
        model = self.models[variant]
        if variant == "graphs" and hasattr(torch, "compiler"):
            torch.compiler.cudagraph_mark_step_begin()  # Outputs of the step before may be written over.
        arithmetic = torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.narrow)
        if work == "inference":
            with torch.no_grad(), arithmetic:
                logits = model(inputs)
                return self.loss(logits, labels) if self.load.perStep else logits
        self.optimizer.zero_grad(set_to_none=True)
        with arithmetic:
            loss = self.loss(model(inputs), labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @staticmethod
    def loss(logits, labels):
        return functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def measure(self, work, variant, steps, warmup=3):
        self.model.train(work == "train")
        here = [tensor.to(self.device) for tensor in (self.inputs, self.labels)]
        for _ in range(warmup):
            result = self.step(work, variant, *here)
        self.synchronize()
        on_device = [self.time_on_device(work, variant, here) for _ in range(steps)]
        with_copies = []
        for _ in range(steps):
            begin = time.perf_counter()
            moved = [tensor.to(self.device, non_blocking=True) for tensor in (self.inputs, self.labels)]
            result = self.step(work, variant, *moved).to("cpu")
            with_copies.append(1e3 * (time.perf_counter() - begin))
        return {"work": work, "variant": variant, "ms": statistics.median(on_device),
                "ms_with_copies": statistics.median(with_copies), "result": float(result.double().mean()), **self.about}

    def time_on_device(self, work, variant, data):
        if self.device != "cuda":
            begin = time.perf_counter()
            self.step(work, variant, *data)
            return 1e3 * (time.perf_counter() - begin)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.step(work, variant, *data)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)


def round_products(tf32):
    """Whether products of float32 may be rounded to TF32."""
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32


def rates(device, tiny):
    """Operations a second of square matrix products, and bytes read and written a second of a copy: the best of
    several."""
    def best(work, repeats=3 if tiny else 10):
        seconds = []
        for _ in range(repeats):
            begin = time.perf_counter()
            work()
            if device == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
        return min(seconds)

    size, found = 64 if tiny else 8192, {}
    for name, kind in (("f32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16)):
        round_products(name == "tf32")
        a, b = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
        found[name + "_flops_per_second"] = 2 * size**3 / best(lambda a=a, b=b: a @ b)
    source = torch.randn(1 << (16 if tiny else 28), device=device)
    target = torch.empty_like(source)
    found["bytes_per_second"] = 2 * source.numel() * 4 / best(lambda: target.copy_(source))
    return found


#===-- convolutions -----------------------------------------------------------------------------------------------===#


def convolution_counts(tiny):
    """How often ResNet-50 has each convolution: channels before and after, rows before, window, stride."""
    counts = collections.Counter({(3, 64, 224, 7, 2): 1})
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, rows = 64 << stage, (56, 56, 28, 14)[stage]
        for block in range(blocks):
            stride = 2 if block == 0 and stage else 1
            counts[channels, inner, rows, 1, 1] += 1
            counts[inner, inner, rows, 3, stride] += 1
            counts[inner, 4 * inner, rows // stride, 1, 1] += 1
            if block == 0:
                counts[channels, 4 * inner, rows, 1, stride] += 1
            channels, rows = 4 * inner, rows // stride
    return {shape: 1 for shape in list(counts)[:3]} if tiny else counts


def convolutions(device, tiny, batch=32):
    """Milliseconds of all convolutions of a training step of ResNet-50 by themselves: forward, gradients of data (but
    for the images') and of weights, by layout and whether they may differ from run to run."""
    def milliseconds(work):
        if device != "cuda":
            begin = time.perf_counter()
            work()
            return 1e3 * (time.perf_counter() - begin)
        taken = []
        for _ in range(4):  # the first one searches
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(5):
                work()
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end) / 5)
        return min(taken[1:])

    batch, found = 2 if tiny else batch, {}
    for name, layout, deterministic in (("channels first", torch.contiguous_format, False),
                                        ("channels first, deterministic", torch.contiguous_format, True),
                                        ("channels last", torch.channels_last, False)):
        torch.backends.cudnn.deterministic = deterministic
        sums = [0.0, 0.0, 0.0]
        for (before, after, rows, window, stride), count in convolution_counts(tiny).items():
            lay = [stride, stride], [window // 2, window // 2], [1, 1]
            x = torch.randn(batch, before, rows, rows, device=device).contiguous(memory_format=layout)
            w = torch.randn(after, before, window, window, device=device).contiguous(memory_format=layout)
            dy = torch.randn_like(functional.conv2d(x, w, None, *lay)).contiguous(memory_format=layout)
            sums[0] += count * milliseconds(lambda: functional.conv2d(x, w, None, *lay))
            for index, wanted in ((1, [True, False, False]), (2, [False, True, False])):
                if index == 2 or before != 3:
                    sums[index] += count * milliseconds(lambda: torch.ops.aten.convolution_backward(
                        dy, x, w, None, *lay, False, [0, 0], 1, wanted))
        found[name] = [round(value, 3) for value in sums]
    return found


#===-- command line -----------------------------------------------------------------------------------------------===#


def answer(peer, work, variant, steps, **about):
    """A measurement, or what is wrong, as one line of JSON that also says what the question was about."""
    try:
        if work not in ("inference", "train") or variant not in peer.variants():
            raise ValueError(f"expected inference or train, and one of {', '.join(peer.variants())}; "
                             f"got {work} {variant}")
        measured = peer.measure(work, variant, int(steps))
        if peer.device == "cuda":
            torch.cuda.empty_cache()  # Others measure next, and want memory.
        print(json.dumps({**measured, **about}), flush=True)
    except Exception as error:  # Whatever torch.compile and the GPU throw is an answer, not an end.
        said = [type(error).__name__, *str(error).strip().splitlines()[-1:]]
        print(json.dumps({"work": work, "variant": variant, "error": ": ".join(said)[:300], **about}), flush=True)


def serve(peer, works):
    """Warms everything up, what takes longest last, says so, and answers lines until there are no more. A number behind
    the steps comes back with the answer."""
    for variant in peer.variants():
        for work in works:
            answer(peer, work, variant, 1)
    print(json.dumps({"ready": True, "version": torch.__version__, "variants": peer.variants()}), flush=True)
    for line in sys.stdin:
        words = line.split()
        if len(words) in (3, 4) and all(word.isdigit() for word in words[2:]):
            answer(peer, *words[:3], **({"question": int(words[3])} if words[3:] else {}))
        else:
            print(json.dumps({"error": f"expected WORK VARIANT STEPS, got {line.strip()}"}), flush=True)


def main():
    parser = argparse.ArgumentParser(description="measures PyTorch beside Cleave")
    parser.add_argument("models", nargs="+", choices=["resnet50", "gpt", "lstm", "rates", "convolutions"])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_const", dest="size", const="tiny", default="gpu", help="small sizes")
    parser.add_argument("--processor", action="store_const", dest="size", const="processor",
                        help="sizes for a processor")
    parser.add_argument("--threads", type=int, help="of a processor")
    parser.add_argument("--layout", choices=["channels first", "channels last"], help="of images; else the faster one")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--serve", action="store_true", help="one model; answer lines of standard input")
    parser.add_argument("--tf32", action="store_true", help="round products of float32")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="of products")
    parser.add_argument("--only", choices=["inference", "train"], help="one kind of steps")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--parameters", action="store_true", help="count parameters instead")
    options = parser.parse_args()
    if options.parameters:
        print(json.dumps({name: sum(p.numel() for p in workload(name, options.size).make().parameters())
                          for name in options.models}))
        return
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("error: expected a GPU that PyTorch can use, got none; --device cpu --tiny tests this script")
    if options.threads:
        torch.set_num_threads(options.threads)
    round_products(options.tf32)
    torch.backends.cudnn.benchmark = True
    works = [options.only] if options.only else ["inference", "train"]
    if options.serve and len(options.models) != 1:
        sys.exit(f"error: --serve expects one model, got {len(options.models)}")
    for name in options.models:
        if name in ("rates", "convolutions"):
            measure = rates if name == "rates" else convolutions
            print(json.dumps(measure(options.device, options.size == "tiny")), flush=True)
            continue
        peer = Peer(name, options.device, options.size, options.dtype, options.variants, options.layout)
        if options.serve:
            serve(peer, works)
            continue
        for work in works:
            for variant in peer.variants():
                answer(peer, work, variant, options.steps)
        del peer


if __name__ == "__main__":
    main()
