# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `cleave export` says is what the runtime does: for plans by data, tensor, search and placement file, also with
sizes that do not divide, the part of every tensor that each device has by the exported JSON, by PartitionSpec and by
DTensor's placements is the one that print-tiles finds in the plan. The exported files are executed with modules in the
place of jax and torch that record what they are given; the meaning of the specifications is computed here, from their
documentation. What a file calls inexpressible must be so: it is left out, and nothing else is. Plans for training
without a loss have no tiles that the runtime loads: they are held against the definition of what they say, and against
plans of the same splits with a loss."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import types

import numpy as np

BIN = os.environ["CLEAVE_BIN"]


def run(*command):
    done = subprocess.run([os.path.join(BIN, command[0]), *command[1:]], check=True, capture_output=True, text=True)
    return done.stdout, done.stderr


def expect(condition, *message):
    if not condition:
        raise ValueError(" ".join(map(str, message)))


# What a device has of a tensor is the set of its elements' places in row-major order.


def box_elements(sizes, ranges):
    """The elements of a box of a tensor of these sizes."""
    numbers = np.arange(int(np.prod(sizes, dtype=np.int64))).reshape(sizes)
    return frozenset(numbers[tuple(slice(begin, end) for begin, end in ranges)].reshape(-1).tolist())


def tiles_of_plan(plan):
    """{(what, name): {(mesh, device): set of parts}}, as the runtime loads and stores them."""
    tiles = {}
    for line in run("print-tiles", plan)[0].splitlines():
        what, rest = line.split(" ", 1)
        name, end = json.JSONDecoder().raw_decode(rest)
        mesh, mesh_end = json.JSONDecoder().raw_decode(rest[end + 1:])
        device, *dims = rest[end + 1 + mesh_end:].split()
        dims = [tuple(map(int, dim.split(":"))) for dim in dims]
        elements = box_elements([size for size, _, _ in dims], [(at, at + count) for _, at, count in dims])
        tiles.setdefault((what, name), {}).setdefault((mesh, int(device)), set()).add(elements)
    return tiles


# The meaning of the three forms.


def coordinates(shape, members):
    """Each member of a mesh with its coordinates, the last varying fastest."""
    return zip(members, np.ndindex(*shape))


def json_ranges(shape, split, blocks, at, sizes):
    """By docs/formats.md: `at` has the coordinate of each axis, `sizes` how many there are."""
    for size, axes, steps in zip(shape, split, blocks):
        begin, end = 0, size
        for axis, step in zip(axes or [], steps or []):
            expect(0 <= at[axis] < sizes[axis], "coordinate of", axis)
            begin += at[axis] * step
            end = min(end, begin + step)
        yield (begin, max(begin, end))


def spec_ranges(shape, spec, at, sizes):
    """A PartitionSpec: the axes of a dimension, the first one outermost, cut it into equal parts."""
    for size, axes in zip(shape, spec):
        axes = () if axes is None else (axes,) if isinstance(axes, str) else axes
        place, ways = 0, 1
        for axis in axes:
            place, ways = place * sizes[axis] + at[axis], ways * sizes[axis]
        expect(size % ways == 0, "a PartitionSpec expects", ways, "equal parts of", size)
        yield (place * (size // ways), (place + 1) * (size // ways))


def shard_ranges(shape, placements, at, sizes):
    """DTensor: each axis of the mesh in turn cuts what there is with torch.chunk. _StridedShard cuts it into as many
    times more parts as its split_factor says, and gives each device those whose number is its own modulo the ways."""
    kept = [np.arange(size) for size in shape]
    for axis, placement in zip(sizes, placements):
        if placement is None:
            continue
        dim, factor = placement if isinstance(placement, tuple) else (placement, 1)
        ways = sizes[axis]
        # torch.chunk: parts of the size divided by their number, rounded up; the last ones may be smaller or missing.
        chunk = -(-len(kept[dim]) // (ways * factor))
        chunks = [kept[dim][i * chunk:(i + 1) * chunk] for i in range(ways * factor)]
        kept[dim] = np.concatenate(chunks[at[axis]::ways])
    for own in kept:
        expect(len(own) == 0 or own[-1] - own[0] + 1 == len(own), "a device's part is no box")
    return [(int(own[0]), int(own[-1]) + 1) if len(own) else (0, 0) for own in kept]


def parts(mesh, shape, ranges_of, microbatches=1):
    """{device: elements} of a tensor on a mesh (axes, sizes, members)."""
    axes, sizes, members = mesh
    found = {}
    for device, place in coordinates(sizes, members):
        at, ways = dict(zip(axes, place)), dict(zip(axes, sizes))
        whole = [microbatches, shape[0] // microbatches, *shape[1:]] if microbatches > 1 else shape
        ranges = list(ranges_of(whole[1:] if microbatches > 1 else whole, at, ways))
        found[device] = box_elements(whole, ([(0, microbatches)] if microbatches > 1 else []) + ranges)
    return found


def compare(what, name, mesh, found, tiles):
    """A placement gives every device of its mesh one of the parts that it has in the plan."""
    for device, elements in found.items():
        known = tiles[what, name].get((mesh, device), set())
        expect(elements in known, f"{what} {name} on device {device} of mesh {mesh}: {len(elements)} elements from",
               min(elements, default="none"), "are not those of the plan:",
               [(len(part), min(part, default="none")) for part in known])


# The modules that stand for the frameworks.


def jax_modules():
    sharding = types.ModuleType("jax.sharding")

    class Mesh:
        def __init__(self, devices, axes):
            self.devices, self.axis_names = devices, axes

    class NamedSharding:
        def __init__(self, mesh, spec):
            self.mesh, self.spec = mesh, spec

    class PartitionSpec(tuple):
        def __new__(cls, *parts):
            return super().__new__(cls, parts)

    sharding.Mesh, sharding.NamedSharding, sharding.PartitionSpec = Mesh, NamedSharding, PartitionSpec
    jax = types.ModuleType("jax")
    jax.sharding, jax.devices = sharding, lambda: [f"device {i}" for i in range(64)]
    return {"jax": jax, "jax.sharding": sharding}


def torch_modules():
    names = ("torch", "torch.distributed", "torch.distributed.device_mesh", "torch.distributed.tensor",
             "torch.distributed.tensor.placement_types")
    torch, distributed, device_mesh, tensor, placement_types = modules = [types.ModuleType(name) for name in names]

    class DeviceMesh:
        def __init__(self, kind, members, mesh_dim_names):
            self.kind, self.mesh, self.mesh_dim_names = kind, members, mesh_dim_names

    torch.tensor = np.array
    device_mesh.DeviceMesh = DeviceMesh
    device_mesh.init_device_mesh = lambda kind, shape, mesh_dim_names: DeviceMesh(
        kind, np.arange(int(np.prod(shape))).reshape(shape), mesh_dim_names)
    # A placement is the dimension that it cuts, that and a split factor, or nothing.
    tensor.Shard, tensor.Replicate = lambda dim: dim, lambda: None
    placement_types._StridedShard = lambda dim, *, split_factor: (dim, split_factor)
    tensor.distribute_tensor = lambda tensor, mesh, placements: (tensor, mesh, placements)
    return dict(zip(names, modules))


def execute(file, modules):
    """The names that a Python file defines, executed with these modules."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        names = {"__name__": "exported"}
        with open(file) as source:
            exec(compile(source.read(), file, "exec"), names)
        return names
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


# The checks of one plan.


def check_json(plan, tiles):
    """The JSON has every tensor and every part. Returns it by what and name."""
    document = json.loads(run("cleave", "export", plan, "--format", "json")[0])
    meshes = {mesh["name"]: ([axis["name"] for axis in mesh["axes"]], [axis["size"] for axis in mesh["axes"]],
                             mesh["devices"]) for mesh in document["meshes"]}
    tensors = {}
    for what in ("parameter", "input", "output"):
        for tensor in document[what + "s"]:
            tensors[what, tensor["name"]] = tensor
            covered = set()
            for placement in tensor["placements"]:
                expect("split" in placement, what, tensor["name"], "has no split")
                found = parts(meshes[placement["mesh"]], tensor["shape"],
                              lambda shape, at, sizes: json_ranges(shape, placement["split"], placement["blocks"], at,
                                                                   sizes), placement.get("microbatches", 1))
                compare(what, tensor["name"], placement["mesh"], found, tiles)
                covered |= {(placement["mesh"], device, part) for device, part in found.items()}
            missing = {(*place, part) for place, known in tiles[what, tensor["name"]].items() for part in known}
            expect(missing == covered, what, tensor["name"], "lacks parts of the plan")
    expect(set(tensors) == set(tiles), "the JSON lacks", set(tiles) ^ set(tensors))
    return document, tensors


def check_python(plan, framework, tiles, tensors, folder):
    """The file says the plan's parts, or that it cannot. Returns the names that it cannot say."""
    file = os.path.join(folder, "exported.py")
    _, warnings = run("cleave", "export", plan, "--format", framework, "-o", file)
    names = execute(file, jax_modules() if framework == "jax" else torch_modules())
    ranges_of = spec_ranges if framework == "jax" else shard_ranges
    inexpressible = set()
    for what, tables, mesh_of, copies in (
            ("parameter", ("PARAMETERS", "OPTIMIZER"), "MESH_OF", "COPIES"), ("input", ("INPUTS",), "INPUT_MESH_OF",
                                                                              "INPUT_COPIES"),
            ("output", ("OUTPUTS",), "OUTPUT_MESH_OF", None)):
        specs = {name: spec for table in tables for name, spec in names[table].items()}
        wrong = names["NOT_EXPRESSIBLE"][what + "s"]
        for name in [key for kind, key in tensors if kind == what]:
            if tensors[what, name].get("role") == "constant":
                expect(name not in specs and name not in wrong, "a constant of the compiler is no parameter:", name)
                continue
            placed = [(names[mesh_of][name], specs[name])] if name in specs else []
            placed += names[copies].get(name, []) if copies else []
            for mesh, spec in placed:
                shape = tensors[what, name]["shape"]
                expect(framework == "torch" or len(spec) == len(shape), name, "expects an entry a dimension")
                found = parts(names["MESHES"][mesh], shape,
                              lambda shape, at, sizes: ranges_of(shape, spec, at, sizes),
                              names["MICROBATCHED"].get(name, 1) if what == "input" else 1)
                compare(what, name, mesh, found, tiles)
            expect(len(placed) == len(tensors[what, name]["placements"]) or name in wrong, what, name, "is missing")
            if name in wrong:
                expect(json.dumps(name, ensure_ascii=False) in warnings or "more cannot" in warnings, name, "warns not")
                expect(name not in specs or len(placed) < len(tensors[what, name]["placements"]), name, "is sayable")
                inexpressible.add(name)
    return names, inexpressible


def check_jax_functions(names):
    meshes = {name: names["mesh"](name) for name in names["MESHES"]}
    for name, (axes, shape, members) in names["MESHES"].items():
        expect(meshes[name].axis_names == axes and meshes[name].devices.shape == shape, "mesh", name)
        expect([f"device {i}" for i in members] == meshes[name].devices.reshape(-1).tolist(), "devices of", name)
    shardings = names["shardings"](meshes)
    expect(set(shardings) == set(names["PARAMETERS"]) | set(names["OPTIMIZER"]), "shardings of all parameters")
    for name, sharding in shardings.items():
        expect(sharding.mesh is meshes[names["MESH_OF"][name]], "the mesh of", name)
    if len(meshes) == 1:
        expect(set(names["shardings"](names["mesh"]())) == set(shardings), "shardings of the only mesh")
    else:
        expect_error(lambda: names["shardings"](next(iter(meshes.values()))), "dictionary of the meshes")
    expect_error(lambda: names["mesh"](next(iter(meshes)), ["device 0"][:names["DEVICES"] - 1]), "devices, got")


def check_torch_functions(names):
    meshes = {name: names["device_mesh"]("cpu", name) for name in names["MESHES"]}
    for name, spec in {**names["PARAMETERS"], **names["OPTIMIZER"]}.items():
        mesh, whole = meshes[names["MESH_OF"][name]], np.zeros(names["SHAPES"][name])
        expect(names["distribute"](name, whole, mesh) == (whole, mesh, spec), "distribute of", name)
        expect_error(lambda: names["distribute"](name, np.zeros((1, 2, 3)), mesh), "expects shape")
        for other in meshes.values():
            if other is not mesh:
                expect_error(lambda: names["distribute"](name, whole, other), "expects mesh")
    for name in names["NOT_EXPRESSIBLE"]["parameters"]:
        if name not in names["PARAMETERS"] and name not in names["OPTIMIZER"]:
            expect_error(lambda: names["distribute"](name, None, None), "has no placements")


def expect_error(action, text):
    try:
        action()
    except ValueError as error:
        expect(text in str(error), "expected an error that says", text, "got", error)
        return
    raise ValueError("expected an error that says " + text)


def check_stages(names, document):
    """Each operator of the model is in the stage that the JSON says."""
    expected = {op: i for i, stage in enumerate(document["stages"]) for op in stage["operators"]}
    expect(names["STAGES"] == expected, "STAGES")
    expect({op["name"] for op in document["operators"]} == set(expected), "every operator in a stage")
    expect(names["STAGE_MESHES"] == [stage["mesh"] for stage in document["stages"]], "STAGE_MESHES")


def check(plan, folder, jax=(), torch=()):
    """Checks a plan, of which each framework cannot say these tensors, nor the optimizer's state of them."""
    tiles = tiles_of_plan(plan)
    document, tensors = check_json(plan, tiles)
    for framework, texts, check_functions in (("jax", jax, check_jax_functions),
                                              ("torch", torch, check_torch_functions)):
        names, inexpressible = check_python(plan, framework, tiles, tensors, folder)
        expected = {name for _, name in tensors
                    if any(name == wrong or name.startswith(wrong + "/") for wrong in texts)}
        expect(inexpressible == expected, framework, "cannot say", inexpressible, "expected", expected)
        check_functions(names)
        check_stages(names, document)


def exported(plan, framework, folder):
    """The names of a plan's Python file."""
    file = os.path.join(folder, "exported.py")
    run("cleave", "export", plan, "--format", framework, "-o", file)
    return execute(file, jax_modules() if framework == "jax" else torch_modules())


def homes_of(document):
    """{name: (role, {axis: dimension that it cuts}, {device: elements})} of parameters and of the optimizer's state."""
    meshes = {mesh["name"]: ([axis["name"] for axis in mesh["axes"]], [axis["size"] for axis in mesh["axes"]],
                             mesh["devices"]) for mesh in document["meshes"]}
    homes = {}
    for tensor in document["parameters"]:
        if tensor["role"] != "constant" and not tensor["name"].startswith("train/"):
            home = tensor["placements"][0]
            found = parts(meshes[home["mesh"]], tensor["shape"],
                          lambda shape, at, sizes: json_ranges(shape, home["split"], home["blocks"], at, sizes))
            cuts = {axis: dim for dim, axes in enumerate(home["split"]) for axis in axes or []}
            homes[tensor["name"]] = (tensor["role"], cuts, found)
    return homes


def check_same(names, ranges_of, homes):
    """A framework's file says the homes, or that it cannot."""
    specs = {**names["PARAMETERS"], **names["OPTIMIZER"]}
    expect(set(specs) | set(names["NOT_EXPRESSIBLE"]["parameters"]) == set(homes), "the names of parameters")
    for name, spec in specs.items():
        found = parts(names["MESHES"][names["MESH_OF"][name]], names["SHAPES"][name],
                      lambda shape, at, sizes: ranges_of(shape, spec, at, sizes))
        expect(found == homes[name][2], "the parts of", name)


def check_meshes(names):
    """Each stage has devices of its own, as many as its mesh's axes make."""
    used = []
    for mesh in names["STAGE_MESHES"]:
        _, sizes, members = names["MESHES"][mesh]
        expect(len(members) == int(np.prod(sizes)), "devices of mesh", mesh)
        used += members
    expect(len(used) == len(set(used)) and set(used) <= set(range(names["DEVICES"])), "the devices of stages", used)


def check_chain(names, document, homes):
    """The stages of a chain of operators are runs of it; each begins at its split point and has its own parameters."""
    stages = [names["STAGES"][op["name"]] for op in document["operators"]]
    expect(stages == sorted(stages) and set(stages) == set(range(len(names["STAGE_MESHES"]))), "stages", stages)
    begins = {op["name"]: stages[i] for i, op in enumerate(document["operators"]) if i and stages[i] != stages[i - 1]}
    expect(names["SPLIT_POINTS"] == begins, "SPLIT_POINTS", names["SPLIT_POINTS"], "expected", begins)
    expect({point["operator"]: point["stage"] for point in document["split_points"]} == begins, "split_points")
    listed = sorted(name for stage in document["stages"] for name in stage["parameters"])
    expect(listed == sorted(name for name, home in homes.items() if home[0] == "parameter"), "each parameter once")
    expect(listed == sorted(names["PARAMETER_STAGES"]), "PARAMETER_STAGES")
    for name, stage in names["PARAMETER_STAGES"].items():
        expect(names["MESH_OF"][name] == names["STAGE_MESHES"][stage], "the mesh of", name)
        # An operator's parameters are called as it is.
        expect(stage == names["STAGES"][name.rsplit(".", 1)[0]], "the stage of", name)


def check_homes(homes, names, states):
    """Devices hold equal parts that make up each tensor. Without ZeRO state lies as its parameter does; ZeRO cuts the
    state, and from 3 on the parameter, along each axis that leaves the other whole, as all sizes here divide."""
    models = {name for name, home in homes.items() if home[0] == "parameter"}
    expect(set(homes) - models == {name + "/" + state for name in models for state in states}, "the optimizer's state")
    for name, (_, cuts, found) in homes.items():
        axes, sizes, members = names["MESHES"][names["MESH_OF"][name]]
        elements = int(np.prod(names["SHAPES"][name]))
        ways = int(np.prod([size for axis, size in zip(axes, sizes) if axis in cuts]))
        expect(set(found) == set(members), "devices with", name)
        expect({len(part) for part in found.values()} == {elements // ways}, name, "expects equal parts")
        expect(len(frozenset().union(*found.values())) == elements, name, "is not covered")
        owner = name if name in models else name.rsplit("/", 1)[0]
        zero = names["ZERO"][names["PARAMETER_STAGES"][owner]]
        if zero >= (3 if name == owner else 1):
            expect({axis for axis, size in zip(axes, sizes) if size > 1} == set(cuts), name, "under ZeRO", zero, cuts)
        elif name != owner:
            expect(cuts == homes[owner][1], name, "lies as", owner)
        expect(homes[owner][1].items() <= cuts.items(), name, "is cut otherwise than", owner)


def check_decision(compiled, folder, model, *options, zero=0, states=("adam_m", "adam_v")):
    """A plan of a chain for training without a loss: what follows from the definition of what it says; and that one with
    a loss and the same splits keeps the same parts. Returns its homes and its file for torch."""
    planned = compiled(model, *options, "--train")
    trained = compiled(model, *options, "--train", "--loss", "cross-entropy")
    document, steps = (json.loads(run("cleave", "export", plan, "--format", "json")[0]) for plan in (planned, trained))
    expect("inputs" not in document and "outputs" not in document, "a decision has no inputs and outputs")
    homes = homes_of(document)
    expect(homes == homes_of(steps), "the plan with a loss has other parts")
    for key in ("microbatches", "schedule", "degrees", "batch", "hyperparameters"):
        expect(document[key] == steps[key], key, document[key], "with a loss", steps[key])
    names = {framework: exported(planned, framework, folder) for framework in ("jax", "torch")}
    check_jax_functions(names["jax"])
    check_torch_functions(names["torch"])
    check_same(names["jax"], spec_ranges, homes)
    check_same(names["torch"], shard_ranges, homes)
    for each in names.values():
        check_meshes(each)
        check_stages(each, document)
        check_chain(each, document, homes)
        check_homes(homes, each, states)
        expect(not each["NOT_EXPRESSIBLE"]["parameters"], "not sayable:", each["NOT_EXPRESSIBLE"]["parameters"])
        expect(each["ZERO"] == [zero] * len(document["stages"]), "ZERO", each["ZERO"])
        expect(each["RECOMPUTE"] == ["none"] * len(document["stages"]), "RECOMPUTE", each["RECOMPUTE"])
    return homes, names["torch"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        count = iter(range(100))

        def compiled(model, *options):
            plan = at(f"{next(count)}.plan")
            run("cleave", "compile", at(model), *options, "-o", plan)
            return plan

        def placed(model, devices, text, *options):
            with open(at("place.yaml"), "w") as file:
                file.write(text)
            return compiled(model, "--machine", f"host:{devices}x1", "--place", at("place.yaml"), *options)

        run("cleave", "zoo", "gpt", "--layers", "2", "--hidden", "16", "--heads", "4", "--sequence", "8",
            "--vocabulary", "101", "--batch", "4", "-o", at("gpt.onnx"))
        run("cleave", "zoo", "mlp", "--layers", "3", "--batch", "6", "--inputs", "7", "--hidden", "10", "--classes",
            "5", "-o", at("mlp.onnx"))
        train = ("--train", "--loss", "cross-entropy", "--optimizer", "adam")
        # By data, by tensor and both; 101 words are no two equal parts, which a PartitionSpec needs.
        check(compiled("gpt.onnx", "--machine", "host:2x1", "--strategy", "data"), folder)
        both = ("--machine", "host:4x1", "--strategy", "tensor", "--degrees", "data=2,model=2")
        check(compiled("gpt.onnx", *both), folder, jax=["embedding/tokens.weight", "output"])
        # Training, with microbatches and the optimizer's state.
        check(compiled("gpt.onnx", *both, *train, "--microbatches", "2"), folder, jax=["embedding/tokens.weight"])
        # Stages on two meshes, as the planner makes them; and parameters in parts.
        check(compiled("gpt.onnx", "--machine", "host:4x1", "--degrees", "data=2,pipeline=2", *train), folder)
        check(compiled("gpt.onnx", "--machine", "host:4x1", "--degrees", "data=4", "--zero", "3", *train), folder)
        # Operators on single devices.
        check(placed("mlp.onnx", 2, "groups: { a: [fc1, fc3], b: [fc2] }\ndevices: { a: 1, b: 0 }\n"), folder)
        # A mesh that is not all devices, whose order is not theirs; sizes that do not divide: 10 over 4, 5 over 4.
        uneven = "splits: { fc1: { out_channel: x }, fc2: { in_channel: x }, fc3: { out_channel: x } }\n"
        check(placed("mlp.onnx", 6, "groups: { a: ['*'] }\ndevices: { a: [5, 1, 4, 2] }\n" + uneven), folder,
              jax=["fc1.weight", "fc1.bias", "fc2.weight", "fc3.weight", "fc3.bias", "output"])
        # Two axes on one dimension, in the mesh's order and in the other, for which DTensor needs equal parts. In the one,
        # 10 over 2 and 2 is 3, 2, 3, 2, as torch.chunk makes it; 5 over 2 and 2 is 2, 1, 2, 0, where it makes 2, 1, 1, 1.
        mesh = "groups: { a: ['*'] }\nmeshes: { a: { devices: 0..3, axes: { u: 2, v: 2 } } }\n"
        check(placed("mlp.onnx", 4, mesh + "splits: { fc1: { out_channel: [u, v] }, fc2: { in_channel: [u, v] } }\n"),
              folder, jax=["fc1.weight", "fc1.bias", "fc2.weight"])
        check(placed("mlp.onnx", 4, mesh + "splits: { fc1: { out_channel: [v, u] }, fc2: { in_channel: [v, u] } }\n"),
              folder, jax=["fc1.weight", "fc1.bias", "fc2.weight"], torch=["fc1.weight", "fc1.bias", "fc2.weight"])
        run("cleave", "zoo", "mlp", "--layers", "2", "--batch", "4", "--inputs", "8", "--hidden", "16", "--classes",
            "4", "-o", at("even.onnx"))
        check(placed("even.onnx", 4, mesh + "splits: { fc1: { out_channel: [v, u] }, fc2: { in_channel: [v, u] } }\n"),
              folder)
        # Three axes on one dimension, in every order.
        cube = "groups: { a: ['*'] }\nmeshes: { a: { devices: 0..7, axes: { u: 2, v: 2, w: 2 } } }\n"
        for order in itertools.permutations("uvw"):
            axes = ", ".join(order)
            check(placed("even.onnx", 8, f"{cube}splits: {{ fc1: {{ out_channel: [{axes}] }}, "
                                         f"fc2: {{ in_channel: [{axes}] }} }}\n"), folder)
        check(placed("mlp.onnx", 4, mesh + "splits: { fc3: { out_channel: [u, v] } }\n"), folder,
              jax=["fc3.weight", "fc3.bias", "output"], torch=["fc3.weight", "fc3.bias", "output"])

        # Decisions about training: by stages, by ZeRO, and by columns and rows.
        run("cleave", "zoo", "mlp", "--layers", "4", "--batch", "8", "--inputs", "16", "--hidden", "32", "--classes",
            "8", "-o", at("chain.onnx"))
        fixed = ("--machine", "host:4x1", "--recompute", "none", "--microbatches", "1")
        piped = ("--machine", "host:4x1", "--recompute", "none", "--microbatches", "2", "--schedule", "1f1b")
        # Where stages end follows from costs, which a loss changes: it is said.
        with open(at("halves.yaml"), "w") as file:
            file.write("groups: { a: ['fc1*', 'fc2*'], b: ['fc3*', 'fc4*'] }\n"
                       "meshes: { a: { devices: 0..1, axes: { data: 2 } }, b: { devices: 2..3, axes: { data: 2 } } }\n"
                       "splits: { a: { batch: data }, b: { batch: data } }\n")
        check_decision(compiled, folder, "chain.onnx", *piped, "--strategy", "auto", "--place", at("halves.yaml"),
                       "--zero", "0")
        with open(at("layers.yaml"), "w") as file:
            file.write("groups: { a: ['fc1*'], b: ['fc2*'], c: ['fc3*'], d: ['fc4*'] }\n"
                       "devices: { a: 3, b: 1, c: 0, d: 2 }\n")
        _, names = check_decision(compiled, folder, "chain.onnx", *piped, "--strategy", "auto", "--place",
                                  at("layers.yaml"), "--zero", "0", "--optimizer", "momentum", states=("momentum",))
        expect([names["MESHES"][mesh][2] for mesh in names["STAGE_MESHES"]] == [(3,), (1,), (0,), (2,)], "stages")
        expect(names["SPLIT_POINTS"] == {"fc2": 1, "fc3": 2, "fc4": 3}, names["SPLIT_POINTS"])
        expect(names["HYPERPARAMETERS"] == {"learning-rate": 0.001, "momentum": 0.9, "weight-decay": 0},
               "PyTorch's SGD(momentum=0.9)", names["HYPERPARAMETERS"])
        with open(at("columns.yaml"), "w") as file:
            file.write("groups: { all: ['*'] }\nmeshes: { all: { devices: 0..3, axes: { data: 2, model: 2 } } }\n"
                       "splits: { fc1: { batch: data, out_channel: model }, fc2: { batch: data, in_channel: model } }\n")
        for zero in range(4):
            check_decision(compiled, folder, "chain.onnx", *fixed, "--degrees", "data=4", "--zero", str(zero), zero=zero)
            homes, _ = check_decision(compiled, folder, "chain.onnx", *fixed, "--strategy", "auto", "--place",
                                      at("columns.yaml"), "--zero", str(zero), zero=zero)
            expect(homes["fc1.weight"][1]["model"] == 1 and homes["fc1.bias"][1]["model"] == 0, "columns of fc1")
            expect(homes["fc2.weight"][1]["model"] == 0, "rows of fc2")
            expect("model" not in homes["fc2.bias"][1] or zero == 3, "all of fc2's bias")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"export_tiles: {error}: {error.stderr}")
    except ValueError as error:
        sys.exit(f"export_tiles: {error}")
