# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Ways to spread a model's operators over devices, written as placement files: the end-to-end tests' stand-ins for what
# people pin by hand.

import random

import onnx


def runtime_nodes(path):
    """The nodes that depend on the model's input, in order: (name, inputs, outputs). What is left computes weights."""
    graph = onnx.load(path, load_external_data=False).graph
    weights = {initializer.name for initializer in graph.initializer}
    live = {value.name for value in graph.input} - weights
    nodes = []
    for node in graph.node:
        if any(name in live for name in node.input):
            live.update(node.output)
            nodes.append((node.name or node.output[0], list(node.input), list(node.output)))
    return nodes


def parts(nodes, devices):
    """The first half (third, ...) on device 0, the next on device 1, and so on."""
    return {name: index * devices // len(nodes) for index, (name, _, _) in enumerate(nodes)}


def scattered(nodes, devices, seed):
    """Every node on any device."""
    generator = random.Random(seed)
    return {name: generator.randrange(devices) for name, _, _ in nodes}


def branches(nodes, devices):
    """Where a value has several readers, each reader begins a branch on the next device; others stay with their
    producer. A join thus reads from several devices."""
    readers = {}
    for name, inputs, _ in nodes:
        for value in dict.fromkeys(inputs):
            readers.setdefault(value, []).append(name)
    device_of_value, place = {}, {}
    for name, inputs, outputs in nodes:
        source = next((value for value in inputs if value in device_of_value), None)
        base = device_of_value.get(source, 0)
        fork = readers[source].index(name) if source and len(readers[source]) > 1 else 0
        place[name] = (base + fork) % devices
        device_of_value.update((value, place[name]) for value in outputs)
    return place


def write(place, path):
    """Writes {node name: device} as a placement file: one group a device, exact names as patterns."""
    devices = sorted(set(place.values()))
    with open(path, "w", encoding="utf-8") as file:
        file.write("groups:\n")
        for device in devices:
            names = ", ".join(f'"{name}"' for name in place if place[name] == device)
            file.write(f"  part{device}: [{names}]\n")
        file.write("devices: {" + ", ".join(f"part{device}: {device}" for device in devices) + "}\n")
