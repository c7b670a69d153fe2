# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What is run on GPUs: which models, on how many logical devices, divided how, and for what.

import collections

# A model of the zoo with its sizes, or the file of a shared one. `inputs` of those that train: each name, kind, shape
# without the batch, and the bound of whole numbers.
Model = collections.namedtuple("Model", "name sizes inputs", defaults=((),))

# `purpose`: "outputs" (inference must agree with the CPU driver), "training" (so must losses and parameters after some
# steps), or "speed"; `how`: flags of cleave compile; `training`: its flags for a step that trains, or none; `entry` of
# the plan that is measured; `quick`: also in a short preparation; `precision`: a key of PRECISIONS.
Case = collections.namedtuple("Case", "name purpose model devices how training entry quick precision",
                              defaults=(False, "f32"))

# How products are computed, as cleave compile and tools/bench/torch_gpu.py are told.
PRECISIONS = {"f32": [], "tf32": ["--tf32"], "bf16": ["--dtype", "bf16"]}

SHARED = ("bvlc_alexnet", "squeezenet", "inception_v1", "resnet50")


def sizes(**numbers):
    return tuple((name.replace("_", "-"), number) for name, number in numbers.items())


# Whole models of a size whose outputs are a few megabytes, and which a CPU computes in seconds.
OUTPUTS = [
    Model("mlp", sizes(batch=64)),
    Model("lenet", sizes(batch=64)),
    Model("resnet50", sizes(batch=32)),
    Model("lstm", sizes(batch=20, vocabulary=1000)),
    Model("gpt", sizes(batch=2, layers=4, hidden=256, heads=8, sequence=128, vocabulary=1000)),
    Model("bert", sizes(batch=2, layers=4, hidden=256, heads=8, sequence=128, vocabulary=1000)),
    Model("moe", sizes(batch=2, layers=2, hidden=128, heads=4, sequence=64, vocabulary=500, experts=4, top=2)),
    Model("unet", sizes(batch=2, image_size=128, features=32)),
]

# Rows of logits at any two or four bytes, of products large enough for copies (CublasProblem::aligned).
ODD = Model("gpt", sizes(batch=2, layers=1, hidden=256, heads=8, sequence=128, vocabulary=1001))

# Small enough for simulated GPUs in every run of the tests.
SMALL = Model("resnet50", sizes(batch=2, image_size=64))

# Small enough that all parameters can be carried and compared.
LENET = Model("lenet", sizes(batch=16), (("input", "f32", (1, 28, 28), 0), ("labels", "i64", (), 10)))
LSTM = Model("lstm", sizes(batch=8, layers=4, hidden=32, sequence=9, vocabulary=61),
             (("tokens", "i64", (9,), 61), ("labels", "i64", (9,), 61)))
GPT = Model("gpt", sizes(batch=8, layers=4, hidden=48, heads=4, sequence=12, vocabulary=67),
            (("tokens", "i64", (12,), 67), ("labels", "i64", (12,), 67)))

# Sequences so long that attention in bfloat16 is one kernel.
LONG = Model("gpt", sizes(batch=4, layers=2, hidden=64, heads=4, sequence=96, vocabulary=67),
             (("tokens", "i64", (96,), 67), ("labels", "i64", (96,), 67)))

# Convolutions with windows of 1, 3, 5 and 7, poolings whose windows overlap, and the gradients of all. Of its parameters
# those are compared that are small enough to carry.
INCEPTION = Model("inception", sizes(batch=4, image_size=64, classes=10),
                  (("input", "f32", (3, 64, 64), 0), ("labels", "i64", (), 10)))

# Ways to divide a step of training, by name: devices and flags.
WAYS = {
    "one": (1, ["--strategy", "single"]),
    "data": (2, ["--strategy", "data", "--degrees", "data=2"]),
    "tensor": (2, ["--strategy", "tensor", "--degrees", "model=2"]),
    "pipeline": (2, ["--strategy", "pipeline", "--degrees", "pipeline=2", "--microbatches", "4"]),
    "data4": (4, ["--strategy", "data", "--degrees", "data=4"]),
    "mixed4": (4, ["--strategy", "tensor", "--degrees", "data=2,model=2"]),
    "pipeline4": (4, ["--strategy", "pipeline", "--degrees", "pipeline=4", "--microbatches", "4"]),
}
# With these all parameters change by far more than rounding in a few steps. Adam amplifies rounding where gradients
# are small, as the LeNet's and the GPT's are.
TRAININGS = {
    LENET: ["--optimizer", "momentum", "--learning-rate", "0.5"],
    LSTM: ["--optimizer", "adam", "--learning-rate", "0.01"],
    GPT: ["--optimizer", "momentum", "--learning-rate", "0.3"],
    INCEPTION: ["--optimizer", "momentum", "--learning-rate", "0.0003"],
}
# What is not divided in all ways.
WAYS_OF = {INCEPTION: ("one",)}

# Inference on several devices.
DIVIDED = [
    (OUTPUTS[4], 2, "tensor", ["--strategy", "tensor", "--degrees", "model=2"]),
    (OUTPUTS[2], 4, "data", ["--strategy", "data", "--degrees", "data=4"]),
    (OUTPUTS[7], 2, "alternate", ["--strategy", "alternate"]),
]

# Outputs in other arithmetic than float32, by model: how many roundings lie one behind the other on the longest way to the
# output. To bfloat16 every operator rounds what it gives: of LeNet's four layers product, bias, rectifier and pooling,
# and image and weight; of the GPT's four layers two normalizations with scale and bias, six products with their biases,
# softmax with its scaling and mask, GELU and two sums; embeddings, position and the last normalization and product
# besides. To TF32 products round both operands.
GPT_LAYER = 2 * 3 + 6 * 3 + 3 + 1 + 2
ROUNDINGS = {
    (OUTPUTS[1], "bf16"): 4 * 6,
    (OUTPUTS[4], "bf16"): 3 + 4 * GPT_LAYER + 5,
    (ODD, "bf16"): 3 + GPT_LAYER + 5,
    (OUTPUTS[1], "tf32"): 2 * 4,
    (OUTPUTS[4], "tf32"): 2 * (4 * 6 + 1),
    (ODD, "tf32"): 2 * (6 + 1),
}

# The sizes of tools/bench/torch_gpu.py; a step of inference of a text gives its loss, not logits of a gigabyte.
SPEED = [
    (Model("resnet50", sizes(batch=32)), ["--optimizer", "momentum", "--learning-rate", "0.01"]),
    (Model("gpt", sizes(batch=8)), ["--optimizer", "adam", "--learning-rate", "0.0001"]),
    (Model("lstm", sizes(batch=20)), ["--optimizer", "sgd", "--learning-rate", "0.1"]),
]
# Steps of training in other arithmetic.
FASTER = [(0, "tf32"), (1, "tf32"), (1, "bf16")]
LOSS = ["--train", "--loss", "cross-entropy"]
SINGLE = ["--strategy", "single"]


def all_cases():
    """Every case, its name once."""
    for name in SHARED:
        yield Case(f"shared-{name}", "outputs", Model(name, None), 1, SINGLE, [], "")
    for model in OUTPUTS:
        yield Case(model.name, "outputs", model, 1, SINGLE, [], "", model.name in ("mlp", "lenet"))
    yield Case("resnet50-small", "outputs", SMALL, 1, SINGLE, [], "")
    for model, precision in ROUNDINGS:
        odd = "-odd" if model == ODD else ""
        yield Case(f"{model.name}{odd}-{precision}", "outputs", model, 1, SINGLE + PRECISIONS[precision], [], "",
                   (model.name, precision) == ("lenet", "bf16"), precision)
    for model, devices, way, how in DIVIDED:
        yield Case(f"{model.name}-{way}{devices}", "outputs", model, devices, how, [], "")
    for model, optimizer in TRAININGS.items():
        for way in WAYS_OF.get(model, WAYS):
            devices, how = WAYS[way]
            quick = (model, way) in ((LENET, "one"), (LENET, "data"))
            yield Case(f"train-{model.name}-{way}", "training", model, devices, how, LOSS + optimizer, "train", quick)
    for way in ("one", "tensor"):
        devices, how = WAYS[way]
        yield Case(f"train-gpt-bf16-{way}", "training", LONG, devices, how + PRECISIONS["bf16"], LOSS + TRAININGS[GPT], "train",
                   way == "one", "bf16")
    for model, optimizer in SPEED:
        images = model.name == "resnet50"
        yield Case(f"speed-{model.name}-inference", "speed", model, 1, SINGLE, [] if images else LOSS + optimizer,
                   "" if images else "evaluate")
        yield Case(f"speed-{model.name}-train", "speed", model, 1, SINGLE, LOSS + optimizer, "train")
    for index, precision in FASTER:
        model, optimizer = SPEED[index]
        yield Case(f"speed-{model.name}-train-{precision}", "speed", model, 1, SINGLE + PRECISIONS[precision],
                   LOSS + optimizer, "train", False, precision)
