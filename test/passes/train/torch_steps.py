# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# PyTorch's side of the tests of optimizers and batch normalization: reads a list of requests, does the steps of each,
# writes what it got. Ends with 77 where there is no PyTorch.
#
#   torch_steps.py REQUESTS.json ANSWERS.json

import json
import sys
import warnings

try:
    import torch
except ImportError:
    sys.exit(77)

torch.set_num_threads(1)
# SequentialLR itself calls the others in a way that PyTorch warns of.
warnings.simplefilter("ignore")
SCHEDULERS = torch.optim.lr_scheduler


def optimizer(request, parameters):
    """The optimizer of the request's name; options are PyTorch's own keywords."""
    kind, keywords = request["kind"], dict(request["options"], lr=request["rate"])
    kinds = {"sgd": torch.optim.SGD, "momentum": torch.optim.SGD, "nesterov": torch.optim.SGD,
             "rmsprop": torch.optim.RMSprop, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if kind == "nesterov":
        keywords["nesterov"] = True
    return kinds[kind](parameters, **keywords)


def scheduler(request, steps):
    """The scheduler of the request: constant, step:N:gamma or cosine:total:warmup."""
    kind, *numbers = request["schedule"].split(":")
    if kind == "constant":
        return SCHEDULERS.LambdaLR(steps, lambda step: 1.0)
    if kind == "step":
        return SCHEDULERS.StepLR(steps, int(numbers[0]), float(numbers[1]))
    total, warmup = int(numbers[0]), int(numbers[1])
    falling = SCHEDULERS.CosineAnnealingLR(steps, total - warmup)
    if warmup == 0:
        return falling
    rising = SCHEDULERS.LinearLR(steps, start_factor=1 / warmup, total_iters=max(warmup - 1, 1))
    return SCHEDULERS.SequentialLR(steps, [rising, falling], milestones=[warmup])


def take_steps(request):
    """The parameters and the rate of each step."""
    parameters = [torch.nn.Parameter(torch.tensor(values)) for values in request["parameters"]]
    steps = optimizer(request, parameters)
    rates = scheduler(request, steps)
    answer = {"parameters": [], "rates": []}
    for gradients in request["gradients"]:
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = torch.tensor(gradient)
        if "clip" in request:
            torch.nn.utils.clip_grad_norm_(parameters, request["clip"])
        answer["rates"].append(steps.param_groups[0]["lr"])
        steps.step()
        rates.step()
        answer["parameters"].append([parameter.tolist() for parameter in parameters])
    return answer


def normalize(request):
    """Batch normalization of several batches, each in groups of samples; the running statistics follow the groups' mean."""
    running = [torch.tensor(request["mean"]), torch.tensor(request["variance"])]
    answer = {"outputs": [], "means": [], "variances": []}
    for batch in request["batches"]:
        outputs, followed = [], []
        for group in torch.tensor(batch).reshape(request["shape"]).chunk(request["groups"]):
            statistics = [tensor.clone() for tensor in running]
            outputs.append(torch.nn.functional.batch_norm(
                group, *statistics, torch.tensor(request["scale"]), torch.tensor(request["bias"]), training=True,
                momentum=request["momentum"], eps=request["epsilon"]))
            followed.append(statistics)
        running = [torch.stack(statistics).mean(0) for statistics in zip(*followed)]
        answer["outputs"].append(torch.cat(outputs).flatten().tolist())
        answer["means"].append(running[0].tolist())
        answer["variances"].append(running[1].tolist())
    return answer


with open(sys.argv[1], encoding="utf-8") as requests:
    answers = [normalize(request) if "batches" in request else take_steps(request) for request in json.load(requests)]
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump(answers, file)
