#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# The peer of tools/bench/training.py: trains the zoo's LeNet with PyTorch and prints, as JSON, the seconds of the last
# epoch and its mean loss.
#
#   python3 tools/bench/torch_lenet.py IMAGES LABELS [--threads N] [--memory contiguous|channels_last] [--jit]
#       [--microbatches M]

import argparse
import gzip
import json
import os
import time

import numpy
import torch
from torch import nn


def read_idx(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        content = file.read()
    rank = content[3]
    shape = [int.from_bytes(content[4 + 4 * dim:8 + 4 * dim], "big") for dim in range(rank)]
    return numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * rank).reshape(shape)


def lenet():
    model = nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(),
                          nn.AvgPool2d(2), nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.01)
        else:
            nn.init.zeros_(parameter)
    return model


def epoch(model, optimizer, images, labels, batch, microbatches):
    """One pass over the shuffled samples, the last incomplete batch left out; returns the mean loss. The gradients of a
    batch are summed over `microbatches` equal parts of it."""
    order = torch.randperm(len(images))
    measure, total, batches = nn.CrossEntropyLoss(), 0.0, len(images) // batch
    for step in range(batches):
        chosen = order[step * batch:(step + 1) * batch]
        optimizer.zero_grad(set_to_none=True)
        for part in chosen.chunk(microbatches):
            loss = measure(model(images[part]), labels[part]) * (len(part) / batch)
            loss.backward()
            total += loss.item()
        optimizer.step()
    return total / batches


def blas():
    """Which library serves PyTorch's matrix products."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        libraries = {os.path.basename(os.path.realpath(line.split()[-1])) for line in file if ".so" in line}
    return next((name for name in sorted(libraries) if "blas" in name.lower()), "no BLAS")


def main():
    parser = argparse.ArgumentParser(description="trains LeNet with PyTorch")
    parser.add_argument("images")
    parser.add_argument("labels")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory", choices=["contiguous", "channels_last"], default="contiguous")
    parser.add_argument("--jit", action="store_true")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--microbatches", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    memory = torch.channels_last if options.memory == "channels_last" else torch.contiguous_format
    images = torch.from_numpy(read_idx(options.images).astype(numpy.float32) / 255).unsqueeze(1)
    images = images.contiguous(memory_format=memory)
    labels = torch.from_numpy(read_idx(options.labels).astype(numpy.int64))
    model = lenet().to(memory_format=memory)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    step = torch.jit.script(model) if options.jit else model
    for _ in range(options.epochs):
        begin = time.perf_counter()
        loss = epoch(step, optimizer, images, labels, options.batch, options.microbatches)
        seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "loss": loss, "version": torch.__version__, "blas": blas(),
                      "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()
